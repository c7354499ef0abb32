-- Groups that do not contain the key: shards compute states, the router the results.  Where a state cannot be had, they send
-- each combination of values once, or the rows.
CREATE SCHEMA agg_split;
SET search_path = agg_split;
SELECT shardlet.create_map('agg_split', shards => '{s1,s2,s3}');
CREATE TABLE customers (customer_id bigint PRIMARY KEY, name text, region text);
CREATE TABLE orders (customer_id bigint, order_id bigint, created timestamptz, status text, total numeric(12,2), note text,
	PRIMARY KEY (customer_id, order_id));
CREATE TABLE items (customer_id bigint, order_id bigint, line int, product_id int, qty int, price numeric,
	PRIMARY KEY (customer_id, order_id, line));
CREATE TABLE products (product_id int PRIMARY KEY, name text, category text);
CREATE TABLE here (status text, x int);
INSERT INTO customers SELECT c, 'name ' || c, chr(97 + c % 3) FROM generate_series(1, 60) c;
INSERT INTO orders SELECT c, o, timestamptz '2026-01-01 00:00+00' + (c * 7 + o * 5) * interval '3 hours',
	(ARRAY['new', 'paid', 'sent', 'void'])[1 + (c + o) % 4], (c * 31 + o * 17) % 1000 / 4.0, CASE WHEN o = 3 THEN NULL ELSE 'n' || c % 5 END
FROM generate_series(1, 60) c, generate_series(1, 5) o;
INSERT INTO items SELECT c, o, l, 1 + (c * 3 + o * 5 + l * 7) % 20, 1 + (c + o + l) % 5, (c * 13 + o * 7 + l) % 100 / 4.0
FROM generate_series(1, 60) c, generate_series(1, 5) o, generate_series(1, 2) l;
INSERT INTO products SELECT p, 'product ' || p, 'category ' || p % 4 FROM generate_series(1, 20) p;
INSERT INTO here VALUES ('new', 1), ('paid', 2), ('none', 3), (NULL, 4);
CREATE SCHEMA agg_plain;
CREATE TABLE agg_plain.customers AS TABLE customers;
CREATE TABLE agg_plain.orders AS TABLE orders;
CREATE TABLE agg_plain.items AS TABLE items;
CREATE TABLE agg_plain.products AS TABLE products;
CREATE TABLE agg_plain.here AS TABLE here;
ANALYZE;
SELECT shardlet.distribute('customers', 'agg_split', 'customer_id'), shardlet.distribute('orders', 'agg_split', 'customer_id'),
	shardlet.distribute('items', 'agg_split', 'customer_id'), shardlet.make_reference('products');
ANALYZE customers;
ANALYZE orders;
ANALYZE items;
CREATE VIEW by_status AS SELECT status, count(*) AS n, avg(total) AS average FROM orders GROUP BY status;
CREATE VIEW agg_plain.by_status AS SELECT status, count(*) AS n, avg(total) AS average FROM agg_plain.orders GROUP BY status;
-- A plan, with the remote statement in one line.
CREATE FUNCTION plan(statement text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	line text;
	remote text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) ' || statement LOOP
		IF line ~ 'Remote SQL:' THEN
			remote := line;
		ELSIF remote IS NOT NULL AND line !~ '->|^ *(Output|Filter|Group Key|Sort Key|Shards|Relations):' THEN
			remote := remote || ' ' || line;
		ELSE
			IF remote IS NOT NULL THEN RETURN NEXT regexp_replace(remote, '(\S)\s+', '\1 ', 'g'); remote := NULL; END IF;
			IF line !~ 'Output:|Shards:|Cache Mode|Sort Key:|Window:' THEN RETURN NEXT line; END IF;
		END IF;
	END LOOP;
	IF remote IS NOT NULL THEN RETURN NEXT regexp_replace(remote, '(\S)\s+', '\1 ', 'g'); END IF;
END $$;
SELECT plan('SELECT status, count(*), sum(total), avg(total) FROM orders GROUP BY status ORDER BY status');
SELECT plan('SELECT avg(qty), stddev(price), count(*) FILTER (WHERE line = 2) FROM items');
SELECT plan('SELECT category, sum(qty * price) AS revenue FROM orders JOIN items USING (customer_id, order_id)
	JOIN products USING (product_id) WHERE status <> ''void'' GROUP BY category HAVING count(*) > 10 ORDER BY revenue DESC LIMIT 2');
SELECT plan('SELECT date_trunc(''month'', created), max(total) - min(total) FROM orders GROUP BY 1');
SELECT plan('SELECT status, count(DISTINCT customer_id), sum(total) FROM orders GROUP BY status');
SELECT plan('SELECT status, count(DISTINCT note), max(note) FROM orders GROUP BY status');
SELECT plan('SELECT DISTINCT status, note IS NULL FROM orders');
SELECT plan('SELECT status, string_agg(note, '','' ORDER BY note) FROM orders GROUP BY status');
SELECT plan('SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY total) FROM orders');
SELECT plan('SELECT category, status, count(*) FROM orders JOIN items USING (customer_id, order_id) JOIN products USING (product_id)
	GROUP BY ROLLUP (category, status)');
SELECT plan('SELECT rank() OVER (PARTITION BY category ORDER BY price) FROM items JOIN products USING (product_id)');
SELECT plan('SELECT x, n FROM here LEFT JOIN by_status USING (status)');
SELECT plan('SELECT x, s FROM here, (SELECT customer_id, sum(total) AS s FROM orders GROUP BY customer_id) o WHERE s < x');
-- The same rows as plain tables.
CREATE FUNCTION rows_of(path text, statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line record;
	result text[] := '{}';
BEGIN
	PERFORM set_config('search_path', path, true);
	FOR line IN EXECUTE statement LOOP
		result := result || line::text;
	END LOOP;
	PERFORM set_config('search_path', 'agg_split', true);
	RETURN (SELECT count(*) || ': ' || string_agg(l, E'\n' ORDER BY l) FROM unnest(result) l);
END $$;
CREATE FUNCTION differs(statement text) RETURNS TABLE (shards text, plain text) LANGUAGE plpgsql AS $$
BEGIN
	shards := rows_of('agg_split', statement);
	plain := rows_of('agg_plain', statement);
	IF shards IS DISTINCT FROM plain THEN RETURN NEXT; END IF;
END $$;
CREATE TABLE statements (number serial, statement text);
INSERT INTO statements (statement) VALUES
	('SELECT count(*) FROM orders'),
	('SELECT count(*), sum(total), max(note) FROM orders WHERE false'),
	('SELECT status, count(*) FROM orders WHERE false GROUP BY status'),
	('SELECT count(*) FROM orders WHERE customer_id = 1 AND customer_id = 2'),
	('SELECT count(*) FROM orders HAVING count(*) < 3'),
	('SELECT 1 FROM orders HAVING count(*) > 3'),
	('SELECT status FROM orders GROUP BY status'),
	('SELECT status FROM orders GROUP BY status HAVING status > ''o'' AND sum(total) > 10'),
	('SELECT status, note, count(*), count(note) FROM orders GROUP BY status, note'),
	('SELECT status || note, upper(status), count(*) FROM orders GROUP BY 1, 2'),
	('SELECT upper(status || note), count(*) FROM orders GROUP BY status || note'),
	('SELECT extract(month FROM created), count(*) FROM orders GROUP BY 1'),
	('SELECT sum(total) / count(*), sum(total + 1) - sum(total) FROM orders'),
	('SELECT status, sum(total) FROM orders GROUP BY status ORDER BY sum(total) DESC, status LIMIT 2'),
	('SELECT status, sum(total) FROM orders GROUP BY status ORDER BY count(*), status OFFSET 1'),
	('SELECT count(*) FILTER (WHERE note = ''n1''), sum(total) FILTER (WHERE note IS NULL) FROM orders'),
	('SELECT count(DISTINCT customer_id), count(DISTINCT note), count(DISTINCT total) FROM orders'),
	('SELECT count(DISTINCT customer_id), count(*) FROM orders WHERE total > 100'),
	('SELECT status, count(DISTINCT customer_id) FILTER (WHERE total > 100) FROM orders GROUP BY status'),
	('SELECT count(DISTINCT i.customer_id) FROM orders o JOIN items i USING (customer_id, order_id)'),
	('SELECT count(DISTINCT o.customer_id), count(DISTINCT c.customer_id) FROM customers c LEFT JOIN orders o ON o.customer_id = c.customer_id AND o.total > 240'),
	('SELECT status, count(DISTINCT customer_id), count(*) FROM orders GROUP BY ROLLUP (status)'),
	('SELECT status, count(DISTINCT note), min(total), bool_or(note IS NULL) FROM orders GROUP BY status'),
	('SELECT count(DISTINCT note) FILTER (WHERE status = ''new''), sum(DISTINCT total) FROM orders'),
	('SELECT count(DISTINCT note), sum(total) FROM orders'),
	('SELECT count(DISTINCT (status, note)) FROM orders'),
	('SELECT array_agg(DISTINCT status ORDER BY status DESC) FROM orders'),
	('SELECT string_agg(status, '','' ORDER BY customer_id, order_id) FROM orders WHERE total > 200'),
	('SELECT status, json_agg(total ORDER BY customer_id, order_id) FROM orders GROUP BY status'),
	('SELECT mode() WITHIN GROUP (ORDER BY status), percentile_disc(0.25) WITHIN GROUP (ORDER BY total) FROM orders'),
	('SELECT status, length(string_agg(note, '','')), array_length(array_agg(total), 1) FROM orders GROUP BY status'),
	('SELECT status, (SELECT sum(x) FROM unnest(array_agg(total)) x), (SELECT sum(x) FROM unnest(array_agg(ARRAY[order_id, customer_id])) x) FROM orders GROUP BY status'),
	('SELECT string_agg(note, ''''), array_agg(note) FROM orders WHERE false'),
	('SELECT status, x, n FROM here LEFT JOIN (SELECT status, count(*) AS n FROM orders JOIN items USING (customer_id, order_id) GROUP BY status) s USING (status) FOR UPDATE OF here'),
	('SELECT status, coalesce(status), count(*), count(DISTINCT customer_id) FROM orders GROUP BY 1, 2'),
	('SELECT status, coalesce(status), count(DISTINCT note) FROM orders GROUP BY 1, 2'),
	('SELECT DISTINCT status, coalesce(status) FROM orders'),
	('SELECT status = ''new'', NOT (status <> ''new''), count(*) FROM orders WHERE status = ''new'' GROUP BY 1, 2'),
	('SELECT DISTINCT status FROM orders'),
	('SELECT DISTINCT status, total > 100 FROM orders ORDER BY 1, 2 LIMIT 3'),
	('SELECT DISTINCT ON (status) status, total FROM orders ORDER BY status, total, note'),
	('SELECT DISTINCT p.category, o.status FROM orders o JOIN items USING (customer_id, order_id) JOIN products p USING (product_id)'),
	('SELECT DISTINCT count(*) FROM orders GROUP BY status'),
	('SELECT status, note, count(*), grouping(status, note) FROM orders GROUP BY CUBE (status, note)'),
	('SELECT category, avg(price), var_pop(qty), corr(qty, line) IS NULL FROM items JOIN products USING (product_id) GROUP BY category'),
	('SELECT p.name, count(i.line) FROM products p LEFT JOIN items i ON i.product_id = p.product_id AND i.qty > 4 GROUP BY p.name'),
	('SELECT region, count(o.total), sum(o.total) FROM customers c LEFT JOIN orders o ON o.customer_id = c.customer_id AND o.total > 200 GROUP BY region'),
	('SELECT region, count(*) FROM customers c WHERE EXISTS (SELECT FROM orders o WHERE o.customer_id = c.customer_id AND o.total > 200) GROUP BY region'),
	('SELECT region, (SELECT count(*) FROM here), count(*) FROM customers GROUP BY region'),
	('SELECT region, count(*), (SELECT max(x) FROM here WHERE x < count(customers.name)) FROM customers GROUP BY region'),
	('SELECT c, count(*) FROM (SELECT customer_id, count(*) AS c FROM items WHERE qty > 3 GROUP BY customer_id) s GROUP BY c'),
	('SELECT status, sum(total) OVER (PARTITION BY status ORDER BY customer_id, order_id) FROM orders'),
	('SELECT status, sum(sum(total)) OVER (ORDER BY status) FROM orders GROUP BY status'),
	('SELECT * FROM by_status'),
	('SELECT max(n) FROM by_status'),
	('SELECT here.*, n, average FROM here LEFT JOIN by_status USING (status)'),
	('SELECT x, (SELECT count(*) FROM orders), (SELECT count(*) FROM orders o WHERE o.status = here.status) FROM here'),
	('WITH w AS (SELECT status, count(*) AS n FROM orders GROUP BY status) SELECT a.n + b.n FROM w a JOIN w b USING (status)'),
	('WITH w AS (SELECT customer_id FROM orders WHERE total > 200) SELECT count(*), count(DISTINCT customer_id) FROM w'),
	('SELECT status, count(*) FROM orders GROUP BY status UNION ALL SELECT category, count(*) FROM products GROUP BY category'),
	('SELECT status FROM orders GROUP BY status EXCEPT SELECT status FROM here'),
	('SELECT generate_series(1, 2), count(*) FROM orders'),
	('SELECT status, count(*) FROM orders GROUP BY status, random() < 2'),
	('SELECT ''x'' AS one, count(*) FROM orders GROUP BY one'),
	('SELECT count(o), max(o.*::text) IS NULL FROM orders o'),
	('SELECT count(*), count(ctid) FROM orders WHERE tableoid = ''orders''::regclass'),
	('SELECT coalesce(a.customer_id, b.customer_id) % 7, count(*) FROM orders a FULL JOIN items b USING (customer_id, order_id) GROUP BY 1'),
	('SELECT customer_id % 7, count(*) FROM orders a FULL JOIN items b USING (customer_id, order_id) GROUP BY customer_id % 7'),
	('SELECT status COLLATE "C", max(note COLLATE "C") FROM orders GROUP BY 1'),
	('SELECT count(*) FROM orders, LATERAL (SELECT 1 FROM items i WHERE i.customer_id = orders.customer_id AND i.order_id = orders.order_id LIMIT 1) l');
SELECT number, statement, d.* FROM statements, differs(statement) d ORDER BY number;
SET shardlet.scatter = off;
SELECT number, statement, d.* FROM statements, differs(statement) d ORDER BY number;
SET shardlet.scatter = on;
SET enable_hashagg = off;
SELECT number, statement, d.* FROM statements, differs(statement) d ORDER BY number;
RESET enable_hashagg;
-- Parameters, in plans for one value and for all.
PREPARE q(numeric, int, text) AS SELECT status || $3 AS s, count(*) FILTER (WHERE order_id > $2), sum(total + $1) FROM orders
	WHERE total > $1 GROUP BY s HAVING count(*) > $2 ORDER BY s;
EXECUTE q(100, 2, 'x');
SET plan_cache_mode = force_generic_plan;
EXECUTE q(100, 2, 'x');
EXECUTE q(100, 25, 'y');
RESET plan_cache_mode;
PREPARE k(bigint[]) AS SELECT status, count(*), count(DISTINCT customer_id) FROM orders WHERE customer_id = ANY ($1) GROUP BY status ORDER BY 1;
EXECUTE k('{1,2,3}');
EXECUTE k('{}');
-- The result in other statements.
INSERT INTO here SELECT status, count(*) FROM orders GROUP BY status;
UPDATE here SET x = x + n FROM by_status b WHERE b.status = here.status;
SELECT * FROM here ORDER BY 1, 2;
CREATE TABLE made AS SELECT category, count(*) FROM items JOIN products USING (product_id) GROUP BY category;
SELECT * FROM made ORDER BY 1;
-- Who may not read a table gets no count of it; who may read a view, needs no more.
CREATE ROLE agg_reader;
GRANT USAGE ON SCHEMA agg_split TO agg_reader;
GRANT SELECT ON by_status TO agg_reader;
SET ROLE agg_reader;
SELECT status, count(*) FROM orders GROUP BY status;
SELECT * FROM by_status ORDER BY 1;
SELECT count(*) FROM by_status, items;
RESET ROLE;
-- A plan does not outlive what it was made for.
PREPARE p AS SELECT status, max(note) FROM orders GROUP BY status ORDER BY 1 LIMIT 1;
EXECUTE p;
ALTER TABLE orders ALTER note TYPE varchar(10);
EXECUTE p;
ALTER TABLE orders DROP note;
EXECUTE p;
SELECT shardlet.scatter_subquery(1);
SELECT * FROM shardlet.scatter_subquery(1) AS l (a int);
SET client_min_messages = warning;
DROP OWNED BY agg_reader;
DROP ROLE agg_reader;
DROP TABLE customers, orders, items, products CASCADE;
DROP SCHEMA agg_split, agg_plain CASCADE;
SELECT shardlet.drop_map('agg_split');
SELECT count(*) FROM shardlet.execute(NULL, 'DROP SCHEMA IF EXISTS agg_split CASCADE');
