-- The shop through PL/Proxy: what the applications call.  A function without SELECT
-- calls the one of the same name on the shard, see proxy_shard.sql.  Functions that
-- RUN ON ALL return one result per shard, and the caller's SQL makes one of them.
CREATE EXTENSION plproxy;
SELECT format('CREATE SERVER shop FOREIGN DATA WRAPPER plproxy OPTIONS (%s)', string_agg(format('p%s %L', p,
	format('host=%s port=%s dbname=peer_%s user=%s', :'host', :'port', p, CURRENT_USER)), ', ' ORDER BY p))
	FROM generate_series(0, 3) p \gexec
CREATE USER MAPPING FOR CURRENT_USER SERVER shop;
CREATE TYPE order_row AS (customer_id bigint, order_id bigint, created timestamptz, status text, total numeric(12,2));
CREATE TYPE revenue_row AS (category text, count bigint, revenue numeric);

CREATE FUNCTION get_order(i_customer bigint, i_order bigint) RETURNS SETOF order_row LANGUAGE plproxy AS $$
	CLUSTER 'shop'; RUN ON hashint8extended(i_customer, 8816678312871386365);
	SELECT customer_id, order_id, created, status, total FROM orders WHERE customer_id = i_customer AND order_id = i_order;
$$;
CREATE FUNCTION get_revenue(i_customer bigint) RETURNS SETOF revenue_row LANGUAGE plproxy AS $$
	CLUSTER 'shop'; RUN ON hashint8extended(i_customer, 8816678312871386365);
	SELECT p.category, count(*) AS count, sum(i.qty * i.price) AS revenue FROM orders o
		JOIN items i ON i.customer_id = o.customer_id AND i.order_id = o.order_id JOIN products p ON p.product_id = i.product_id
		WHERE o.customer_id = i_customer GROUP BY p.category ORDER BY revenue DESC, p.category LIMIT 10;
$$;
CREATE FUNCTION get_order_called(i_customer bigint, i_order bigint) RETURNS SETOF order_row LANGUAGE plproxy AS $$
	CLUSTER 'shop'; RUN ON hashint8extended(i_customer, 8816678312871386365);
$$;
CREATE FUNCTION get_revenue_called(i_customer bigint) RETURNS SETOF revenue_row LANGUAGE plproxy AS $$
	CLUSTER 'shop'; RUN ON hashint8extended(i_customer, 8816678312871386365);
$$;
CREATE FUNCTION add_order(i_customer bigint, i_order bigint, i_status text, i_total numeric) RETURNS int LANGUAGE plproxy AS $$
	CLUSTER 'shop'; RUN ON hashint8extended(i_customer, 8816678312871386365);
$$;
CREATE FUNCTION raise_total(i_customer bigint, i_order bigint, i_by numeric) RETURNS int LANGUAGE plproxy AS $$
	CLUSTER 'shop'; RUN ON hashint8extended(i_customer, 8816678312871386365);
$$;
CREATE FUNCTION place_order(i_customer bigint, i_order bigint, i_product int) RETURNS int LANGUAGE plproxy AS $$
	CLUSTER 'shop'; RUN ON hashint8extended(i_customer, 8816678312871386365);
$$;

CREATE FUNCTION all_status(OUT status text, OUT count bigint, OUT sum numeric) RETURNS SETOF record LANGUAGE plproxy AS $$
	CLUSTER 'shop'; RUN ON ALL;
	SELECT o.status, count(*) AS count, sum(o.total) AS sum FROM orders o GROUP BY o.status;
$$;
CREATE FUNCTION all_best(OUT customer_id bigint, OUT s numeric) RETURNS SETOF record LANGUAGE plproxy AS $$
	CLUSTER 'shop'; RUN ON ALL;
	SELECT o.customer_id, sum(o.total) AS s FROM orders o GROUP BY o.customer_id ORDER BY 2 DESC, 1 LIMIT 10;
$$;
CREATE FUNCTION all_latest(i_limit int) RETURNS SETOF order_row LANGUAGE plproxy AS $$
	CLUSTER 'shop'; RUN ON ALL;
	SELECT customer_id, order_id, created, status, total FROM orders ORDER BY created DESC LIMIT i_limit;
$$;
CREATE FUNCTION all_revenue() RETURNS SETOF revenue_row LANGUAGE plproxy AS $$
	CLUSTER 'shop'; RUN ON ALL;
	SELECT p.category, count(*) AS count, sum(i.qty * i.price) AS revenue FROM orders o
		JOIN items i ON i.customer_id = o.customer_id AND i.order_id = o.order_id JOIN products p ON p.product_id = i.product_id
		GROUP BY p.category;
$$;
CREATE FUNCTION all_orders() RETURNS SETOF order_row LANGUAGE plproxy AS $$
	CLUSTER 'shop'; RUN ON ALL;
	SELECT customer_id, order_id, created, status, total FROM orders;
$$;
CREATE FUNCTION all_customers() RETURNS SETOF bigint LANGUAGE plproxy AS $$
	CLUSTER 'shop'; RUN ON ALL;
	SELECT count(DISTINCT customer_id) FROM orders;
$$;
CREATE FUNCTION all_totals() RETURNS SETOF numeric LANGUAGE plproxy AS $$
	CLUSTER 'shop'; RUN ON ALL;
	SELECT total FROM orders;
$$;
CREATE FUNCTION all_moments(OUT n bigint, OUT s numeric, OUT q numeric) RETURNS SETOF record LANGUAGE plproxy AS $$
	CLUSTER 'shop'; RUN ON ALL;
	SELECT count(o.total) AS n, sum(o.total) AS s, sum(o.total * o.total) AS q FROM orders o;
$$;
