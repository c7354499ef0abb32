-- Views and functions over the tables.

SELECT * FROM rich WHERE customer_id = 20 ORDER BY order_id;
SELECT count(*), sum(total) FROM rich;
SELECT r.customer_id, c.name FROM rich r JOIN customers c USING (customer_id) WHERE r.total > 99 ORDER BY 1, r.order_id;
SELECT * FROM barrier WHERE customer_id < 10 ORDER BY 1;
SELECT * FROM barrier WHERE name LIKE '%7' AND customer_id < 40 ORDER BY 1;
SELECT count(*) FROM barrier WHERE twice(customer_id::int) > 100;
SELECT * FROM totals WHERE customer_id = 30;
SELECT * FROM totals WHERE orders = 0 ORDER BY 1;
SELECT * FROM totals ORDER BY total DESC NULLS LAST, customer_id LIMIT 5;
SELECT avg(orders), sum(total) FROM totals;
SELECT t.*, c.region FROM totals t JOIN customers c USING (customer_id) WHERE c.region = 'north' AND t.orders > 10 ORDER BY 1;
SELECT order_count(5), order_count(9999), order_count(NULL);
SELECT customer_id, order_count(customer_id) FROM customers WHERE customer_id < 15 ORDER BY 1;
SELECT customer_id FROM customers WHERE order_count(customer_id) = 12 ORDER BY 1;
SELECT * FROM order_rows(7) ORDER BY order_id;
SELECT c.customer_id, o.order_id, o.total FROM customers c, order_rows(c.customer_id) o WHERE c.customer_id < 5 ORDER BY 1, 2;
SELECT c.customer_id, o.total FROM customers c LEFT JOIN LATERAL order_rows(c.customer_id) o ON o.order_id = 2 WHERE c.customer_id BETWEEN 10 AND 14 ORDER BY 1;
SELECT walk(1, 6);
SELECT walk(180, 190), walk(5, 1);
SELECT note_id, order_count(customer_id) FROM notes WHERE note_id < 8 ORDER BY 1;
SELECT count(*) FROM orders WHERE fail_on(order_id::int, 99) > 0;
-- fails P0042
SELECT count(*) FROM orders WHERE fail_on(order_id::int, 12) > 0;
-- fails P0042
SELECT fail_on(customer_id::int, 150) FROM customers ORDER BY customer_id;

-- transaction
CREATE VIEW pg_temp.over_both AS SELECT c.name, r.chief, o.total FROM customers c JOIN regions r USING (region) JOIN orders o USING (customer_id);
SELECT chief, sum(total) FROM over_both GROUP BY chief ORDER BY 1;
CREATE VIEW pg_temp.over_view AS SELECT * FROM totals WHERE orders > 5;
SELECT count(*) FROM over_view;

-- transaction
CREATE MATERIALIZED VIEW summary AS SELECT customer_id, sum(total) AS total FROM orders GROUP BY customer_id;
SELECT count(*), sum(total) FROM summary;
UPDATE orders SET total = 1 WHERE customer_id = 5;
REFRESH MATERIALIZED VIEW summary;
SELECT * FROM summary WHERE customer_id IN (4, 5) ORDER BY 1;

-- transaction
CREATE FUNCTION pg_temp.add_order(c bigint, t numeric) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	id bigint;
BEGIN
	SELECT coalesce(max(order_id), 0) + 1 INTO id FROM orders WHERE customer_id = c;
	INSERT INTO orders (customer_id, order_id, created, total) VALUES (c, id, '2026-01-01', t);
	UPDATE orders SET status = 'paid' WHERE customer_id = c AND order_id = id;
	RETURN id;
END $$;
-- writes orders
SELECT pg_temp.add_order(190, 5), pg_temp.add_order(190, 6), pg_temp.add_order(3, 7);
-- writes orders
SELECT pg_temp.add_order(customer_id, customer_id) FROM customers WHERE customer_id BETWEEN 178 AND 183 ORDER BY customer_id;

-- transaction
CREATE FUNCTION pg_temp.try(c bigint, o bigint) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	which text;
BEGIN
	INSERT INTO orders (customer_id, order_id, created) VALUES (c, o, '2026-01-01');
	RETURN 'inserted';
EXCEPTION
	WHEN unique_violation THEN
		GET STACKED DIAGNOSTICS which = CONSTRAINT_NAME;
		RETURN 'there already: ' || which;
	WHEN foreign_key_violation THEN
		RETURN 'no such customer';
END $$;
-- writes orders
SELECT pg_temp.try(1, 1), pg_temp.try(1, 77), pg_temp.try(1, 77), pg_temp.try(4000, 1);
-- writes orders
SELECT c, pg_temp.try(c, 2) FROM generate_series(1, 6) c ORDER BY c;

-- transaction
CREATE FUNCTION pg_temp.merge_totals() RETURNS TABLE (status text, n bigint) LANGUAGE sql AS $$
	DELETE FROM orders WHERE total IS NULL;
	UPDATE orders SET status = 'done' WHERE status = 'sent';
	SELECT status, count(*) FROM orders GROUP BY status;
$$;
SELECT * FROM pg_temp.merge_totals() ORDER BY 1;
SELECT count(*) FROM items;

-- transaction
-- writes customers, orders
DO $$
DECLARE
	r record;
BEGIN
	FOR r IN SELECT customer_id, count(*) AS n FROM orders GROUP BY customer_id HAVING count(*) > 11 LOOP
		UPDATE customers SET name = name || ' (' || r.n || ')' WHERE customer_id = r.customer_id;
		IF r.customer_id % 2 = 0 THEN
			DELETE FROM orders WHERE customer_id = r.customer_id AND order_id > 6;
		END IF;
	END LOOP;
END $$;
SELECT name FROM customers WHERE name LIKE '%(%' ORDER BY 1;

-- transaction
CREATE FUNCTION pg_temp.paged(size int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	c CURSOR FOR SELECT customer_id, order_id FROM orders ORDER BY created, customer_id;
	r record;
	n int := 0;
	answer text := '';
BEGIN
	OPEN c;
	LOOP
		FETCH c INTO r;
		EXIT WHEN NOT FOUND OR n >= size;
		n := n + 1;
		answer := answer || r.customer_id || '.' || r.order_id || ' ';
	END LOOP;
	CLOSE c;
	RETURN answer;
END $$;
SELECT pg_temp.paged(20), pg_temp.paged(0);

-- transaction
CREATE FUNCTION pg_temp.sum_of(t text) RETURNS numeric LANGUAGE plpgsql AS $$
DECLARE
	s numeric;
BEGIN
	EXECUTE format('SELECT count(*) FROM %I', t) INTO s;
	RETURN s;
END $$;
SELECT t, pg_temp.sum_of(t) FROM unnest(ARRAY['customers', 'orders', 'nothing', 'products', 'notes', 'events', 'config']) t ORDER BY 1;

-- transaction
CREATE FUNCTION pg_temp.of_row(o orders) RETURNS numeric LANGUAGE plpgsql AS 'BEGIN RETURN o.total * 2; END';
SELECT sum(pg_temp.of_row(o)) FROM orders o WHERE customer_id < 20;
SELECT customer_id, o.of_row FROM (SELECT customer_id, pg_temp.of_row(o) FROM orders o WHERE order_id = 11) o ORDER BY 1;
CREATE FUNCTION pg_temp.first_order(bigint) RETURNS orders LANGUAGE sql STABLE AS 'SELECT * FROM orders WHERE customer_id = $1 ORDER BY order_id LIMIT 1';
SELECT customer_id, (pg_temp.first_order(customer_id)).created FROM customers WHERE customer_id IN (1, 2, 199) ORDER BY 1;
SELECT f.* FROM pg_temp.first_order(8) f;
