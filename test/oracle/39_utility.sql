-- Temporary tables, CREATE TABLE AS, triggers, EXPLAIN.

-- transaction
CREATE TEMP TABLE picked AS SELECT customer_id, name FROM customers WHERE region = 'north';
SELECT count(*) FROM picked;
SELECT p.customer_id, o.order_id FROM picked p JOIN orders o USING (customer_id) WHERE o.total > 90 ORDER BY 1, 2;
SELECT count(*) FROM orders WHERE customer_id IN (SELECT customer_id FROM picked);
UPDATE orders o SET total = 0 FROM picked p WHERE p.customer_id = o.customer_id AND o.order_id = 1;
DELETE FROM items i USING picked p WHERE p.customer_id = i.customer_id AND i.line = 3;
INSERT INTO picked SELECT customer_id, status FROM orders WHERE customer_id = 3;
INSERT INTO customers SELECT customer_id + 7000, name, 'temp' FROM picked WHERE name LIKE 'customer%';
ANALYZE picked;
SELECT c.customer_id FROM customers c LEFT JOIN picked p ON p.customer_id = c.customer_id WHERE p.customer_id IS NULL AND c.customer_id < 10 ORDER BY 1;
DROP TABLE picked;

-- transaction
CREATE TABLE copied AS SELECT * FROM orders;
SELECT count(*), sum(total) FROM copied;
CREATE TABLE empty_copy AS SELECT * FROM kinds WITH NO DATA;
SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'empty_copy'::regclass AND attnum > 0 ORDER BY attnum;
SELECT customer_id, count(*) AS n INTO summary_table FROM orders GROUP BY customer_id;
SELECT max(n), min(n) FROM summary_table;
CREATE TEMP TABLE of_row AS SELECT c FROM customers c WHERE customer_id < 3;
SELECT (c).name FROM of_row ORDER BY 1;
SELECT o.* FROM copied o EXCEPT SELECT * FROM orders;

-- transaction
CREATE TEMP TABLE k (customer_id bigint) ON COMMIT DROP;
INSERT INTO k SELECT g FROM generate_series(1, 300, 7) g;
SELECT k.customer_id, c.name FROM k LEFT JOIN customers c USING (customer_id) ORDER BY 1;
SELECT count(*) FROM customers c WHERE NOT EXISTS (SELECT FROM k WHERE k.customer_id = c.customer_id);
SELECT k.customer_id, x.n FROM k CROSS JOIN LATERAL (SELECT count(*) AS n FROM orders o WHERE o.customer_id = k.customer_id) x WHERE k.customer_id < 60 ORDER BY 1;

-- transaction
-- runs
EXPLAIN SELECT * FROM orders WHERE customer_id = 5;
-- runs
EXPLAIN (COSTS off, VERBOSE) SELECT c.name, count(*) FROM customers c JOIN orders o USING (customer_id) GROUP BY c.name;
-- runs
EXPLAIN (ANALYZE) SELECT c.name, count(*) FROM customers c JOIN orders o USING (customer_id) GROUP BY c.name;
-- runs
EXPLAIN (ANALYZE, VERBOSE, BUFFERS, FORMAT json) SELECT * FROM customers c LEFT JOIN notes n USING (customer_id) ORDER BY c.name LIMIT 5;
-- runs
EXPLAIN (ANALYZE, TIMING off, SUMMARY off) UPDATE orders SET total = 0 WHERE customer_id < 20;
SELECT count(*) FROM orders WHERE total = 0;
-- runs
EXPLAIN (ANALYZE, VERBOSE) INSERT INTO customers SELECT g, 'x', NULL FROM generate_series(3000, 3010) g;
-- runs
EXPLAIN (ANALYZE, VERBOSE) DELETE FROM items i USING products p WHERE p.product_id = i.product_id AND p.category = 'category 1';
-- runs
EXPLAIN (VERBOSE) INSERT INTO customers VALUES (1, 'x', 'y') ON CONFLICT (customer_id) DO UPDATE SET name = excluded.name;
-- runs
EXPLAIN (ANALYZE, FORMAT yaml) SELECT DISTINCT ON (status) * FROM orders ORDER BY status, created;
-- runs
EXPLAIN (ANALYZE, FORMAT xml) WITH RECURSIVE d AS (SELECT node FROM tree WHERE node = 1 UNION ALL SELECT t.node FROM tree t JOIN d ON t.parent = d.node) SELECT count(*) FROM d;
-- runs
EXPLAIN (ANALYZE, VERBOSE) SELECT * FROM orders o WHERE EXISTS (SELECT FROM items i WHERE i.customer_id = o.customer_id AND i.qty = 9) FOR UPDATE;
SELECT count(*) FROM customers WHERE customer_id >= 3000;

-- transaction
CREATE FUNCTION change_it() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF TG_OP = 'DELETE' THEN
		RETURN CASE WHEN old.customer_id % 2 = 0 THEN old END;
	END IF;
	IF new.name = 'skip' THEN
		RETURN NULL;
	END IF;
	new.name := upper(new.name) || TG_OP;
	RETURN new;
END $$;
CREATE TRIGGER change_it BEFORE INSERT OR UPDATE OR DELETE ON customers FOR EACH ROW EXECUTE FUNCTION change_it();
INSERT INTO customers VALUES (900, 'low', 'r'), (901, 'skip', 'r'), (902, 'b', 'r') RETURNING *;
INSERT INTO customers SELECT customer_id + 2000, name, region FROM customers WHERE customer_id < 5;
UPDATE customers SET region = 'u' WHERE customer_id IN (900, 902, 5) RETURNING *;
UPDATE customers SET name = 'skip' WHERE customer_id = 6 RETURNING *;
DELETE FROM customers WHERE customer_id > 189 RETURNING customer_id;
COPY customers FROM STDIN;
5000	from copy	r
5001	skip	r
\.
SELECT * FROM customers WHERE customer_id > 185 ORDER BY 1;

-- transaction
ANALYZE orders;
ANALYZE customers (region), items;
SELECT count(*) FROM orders;
LOCK TABLE orders IN SHARE MODE;
LOCK TABLE customers, items IN ACCESS EXCLUSIVE MODE;
SELECT count(*) FROM customers;
COMMENT ON TABLE orders IS 'what was ordered';
SELECT obj_description('orders'::regclass);

ANALYZE;

VACUUM orders;

VACUUM (ANALYZE) customers, products;
