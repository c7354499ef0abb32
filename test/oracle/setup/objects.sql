-- What stands on the tables: made on both sides after the rows went to the shards.

CREATE VIEW rich AS SELECT customer_id, order_id, total FROM orders WHERE total > 50;
CREATE VIEW rich_checked AS SELECT customer_id, order_id, created, status, total FROM orders WHERE total > 50 WITH CASCADED CHECK OPTION;
CREATE VIEW barrier WITH (security_barrier) AS SELECT customer_id, name, region FROM customers WHERE region <> 'west';
CREATE VIEW totals AS
	SELECT c.customer_id, c.name, count(o.order_id) AS orders, sum(o.total) AS total
	FROM customers c LEFT JOIN orders o USING (customer_id) GROUP BY c.customer_id, c.name;

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
