-- What stands on the tables: made on both sides after the rows went to the shards.

CREATE VIEW rich AS SELECT customer_id, order_id, total FROM orders WHERE total > 50;
CREATE VIEW rich_checked AS SELECT customer_id, order_id, created, status, total FROM orders WHERE total > 50 WITH CASCADED CHECK OPTION;
CREATE VIEW barrier WITH (security_barrier) AS SELECT customer_id, name, region FROM customers WHERE region <> 'west';
CREATE VIEW totals AS
	SELECT c.customer_id, c.name, count(o.order_id) AS orders, sum(o.total) AS total
	FROM customers c LEFT JOIN orders o USING (customer_id) GROUP BY c.customer_id, c.name;

CREATE VIEW latest AS SELECT customer_id, order_id, status FROM orders ORDER BY created DESC, customer_id, order_id;
CREATE VIEW latest_lines AS
	SELECT o.customer_id, i.line, i.qty FROM orders o JOIN items i USING (customer_id, order_id) ORDER BY o.created, o.customer_id, o.order_id, i.line DESC;
CREATE VIEW latest_paid AS SELECT customer_id, order_id FROM latest WHERE status = 'paid';

CREATE FUNCTION order_count(bigint) RETURNS bigint LANGUAGE sql STABLE AS 'SELECT count(*) FROM orders WHERE customer_id = $1';
CREATE FUNCTION order_rows(bigint) RETURNS SETOF orders LANGUAGE sql STABLE AS 'SELECT * FROM orders WHERE customer_id = $1';
CREATE FUNCTION label(customers) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT $1.customer_id || ':' || coalesce($1.region, '?') $$;
CREATE FUNCTION twice(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN $1 * 2; END';
CREATE FUNCTION noisy(int) RETURNS int LANGUAGE plpgsql VOLATILE AS 'BEGIN RETURN $1; END';
CREATE FUNCTION fail_on(int, int) RETURNS int LANGUAGE plpgsql STABLE AS $$ BEGIN IF $1 = $2 THEN RAISE EXCEPTION 'met %', $1 USING ERRCODE = 'P0042'; END IF; RETURN $1; END $$;
CREATE FUNCTION walk(low bigint, high bigint) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	c record;
	o record;
	found_orders text := '';
BEGIN
	FOR c IN SELECT * FROM customers WHERE customer_id BETWEEN low AND high ORDER BY customer_id LOOP
		FOR o IN SELECT * FROM orders WHERE customer_id = c.customer_id ORDER BY order_id LOOP
			found_orders := found_orders || c.customer_id || '/' || o.order_id || ' ';
			EXIT WHEN o.order_id = 3;
		END LOOP;
	END LOOP;
	RETURN found_orders;
END
$$;
CREATE FUNCTION product_step(numeric, numeric) RETURNS numeric LANGUAGE sql IMMUTABLE AS 'SELECT round($1 * coalesce($2, 1), 6)';
CREATE AGGREGATE product(numeric) (SFUNC = product_step, STYPE = numeric, INITCOND = '1');
CREATE FUNCTION is_near(int, int) RETURNS bool LANGUAGE sql IMMUTABLE AS 'SELECT abs($1 - $2) <= 1';
CREATE OPERATOR ~~~ (LEFTARG = int, RIGHTARG = int, FUNCTION = is_near);
CREATE TABLE audit (what text, customer_id bigint, old_total numeric, new_total numeric);
CREATE TABLE numbered (n serial, what bigint);
CREATE FUNCTION chain_step(text, text) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT coalesce($1 || '>', '') || $2 $$;
CREATE AGGREGATE chain(text) (SFUNC = chain_step, STYPE = text);
CREATE FUNCTION first_order() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	c bigint;
	o bigint;
BEGIN
	SELECT customer_id, order_id INTO c, o FROM latest;
	RETURN c || '/' || o;
END
$$;
CREATE FUNCTION all_orders() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	r record;
	found_orders text := '';
BEGIN
	FOR r IN SELECT * FROM (SELECT customer_id, order_id FROM orders WHERE total > 50 ORDER BY created, customer_id, order_id) s LOOP
		found_orders := found_orders || r.customer_id || '/' || r.order_id || ' ';
	END LOOP;
	RETURN found_orders;
END
$$;
CREATE FUNCTION total_of(orders) RETURNS numeric LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN $1.total; END';
CREATE FUNCTION key_of(customers) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN $1.customer_id; END';

-- Functions that write, for conditions: rows that the calling statement must not see.
CREATE FUNCTION fill_holes() RETURNS int LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	INSERT INTO holes SELECT g, 2, g, 'filled', true FROM generate_series(1001, 1008) g;
	RETURN 2;
END $$;
CREATE FUNCTION change_holes() RETURNS int LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	UPDATE holes SET b = 99 WHERE a = 2;
	RETURN 2;
END $$;
CREATE FUNCTION change_hole(bigint) RETURNS bool LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	UPDATE holes SET b = b + 100 WHERE id = $1;
	RETURN true;
END $$;
CREATE FUNCTION add_hole(bigint) RETURNS bool LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	INSERT INTO holes VALUES ($1 + 2000, 2, 0, 'added', true);
	RETURN true;
END $$;
