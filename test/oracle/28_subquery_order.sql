-- The order of a subquery, a CTE or a view: PostgreSQL keeps it, and so do rows of several shards.

-- ordered
SELECT order_id FROM (SELECT order_id, created FROM orders ORDER BY created, customer_id, order_id) s LIMIT 5;
-- ordered
SELECT customer_id FROM (SELECT customer_id FROM orders ORDER BY created DESC, customer_id, order_id) s LIMIT 5 OFFSET 3;
-- ordered
SELECT customer_id, order_id FROM (SELECT customer_id, order_id, total FROM orders ORDER BY total DESC NULLS LAST, customer_id, order_id) s WHERE customer_id > 20 LIMIT 9;
-- ordered
SELECT customer_id + 1 AS n, upper(status) FROM (SELECT customer_id, status FROM orders ORDER BY length(status) DESC, total, customer_id, order_id) s FETCH FIRST 7 ROWS ONLY;
-- ordered
SELECT name FROM (SELECT name FROM customers ORDER BY region NULLS FIRST, name COLLATE "C" DESC) s;
-- ordered
SELECT * FROM latest;
-- ordered
SELECT * FROM latest LIMIT 20;
-- ordered
SELECT status FROM latest WHERE customer_id BETWEEN 10 AND 90 LIMIT 20;
-- ordered
SELECT l FROM latest l LIMIT 4;
-- ordered
SELECT row_to_json(l) FROM latest l OFFSET 1100;
-- ordered
SELECT row_to_json(s) FROM (SELECT customer_id, order_id FROM orders ORDER BY created, customer_id, order_id) s LIMIT 6;
-- ordered
SELECT * FROM latest_lines LIMIT 12;
-- ordered
SELECT * FROM latest_paid LIMIT 6;
-- ordered
SELECT array_agg(order_id) FROM (SELECT order_id FROM orders ORDER BY created, customer_id, order_id) s;
-- ordered
SELECT array_agg(customer_id), count(*) FROM latest;
-- ordered
SELECT string_agg(status, '-') FROM (SELECT status FROM orders WHERE total > 60 ORDER BY total, customer_id, order_id) s;
-- ordered
SELECT json_agg(s), jsonb_agg(s.name), json_object_agg(name, region) FROM (SELECT name, region FROM customers ORDER BY length(name) DESC, name) s;
-- ordered
SELECT array_agg(line), count(*), sum(qty) FROM latest_lines;
-- ordered
SELECT product(total) FROM (SELECT total FROM orders WHERE total < 3 ORDER BY created) s;
-- ordered
SELECT chain(status) FROM (SELECT status FROM orders ORDER BY created DESC, customer_id, order_id) s;
-- ordered
SELECT array_agg(id) FILTER (WHERE n > 2) FROM (SELECT node AS id, length(label) AS n FROM tree ORDER BY parent DESC NULLS FIRST, node DESC) s;
-- ordered
SELECT status, array_agg(customer_id), count(*), chain(order_id::text) FROM (SELECT status, customer_id, order_id FROM orders ORDER BY status, created, customer_id, order_id) s GROUP BY status ORDER BY status;
-- ordered
SELECT customer_id, array_agg(order_id), max(order_id) FROM (SELECT customer_id, order_id FROM orders ORDER BY customer_id, created) s GROUP BY customer_id ORDER BY customer_id;
-- ordered
SELECT status, (array_agg(order_id))[1:3] FROM (SELECT status, order_id FROM orders ORDER BY status, created DESC, customer_id, order_id) s GROUP BY status HAVING (array_agg(order_id))[1] > 1 ORDER BY status;
-- ordered
SELECT DISTINCT ON (status) status, customer_id, order_id FROM (SELECT status, customer_id, order_id FROM orders ORDER BY status, created, customer_id, order_id) s;
-- ordered
SELECT DISTINCT ON (status) status, customer_id FROM (SELECT status, customer_id FROM orders ORDER BY status, created DESC, customer_id, order_id) s ORDER BY status LIMIT 3;
-- ordered
SELECT DISTINCT ON (customer_id) customer_id, order_id FROM (SELECT * FROM orders ORDER BY customer_id, total NULLS FIRST, order_id) s;
-- ordered
SELECT first_value(order_id) OVER (), order_id FROM (SELECT order_id FROM orders ORDER BY created, customer_id, order_id) s;
-- ordered
SELECT row_number() OVER (), customer_id, order_id FROM latest LIMIT 25;
-- ordered
SELECT row_number() OVER (PARTITION BY status), customer_id FROM (SELECT status, customer_id FROM orders ORDER BY status, created, customer_id, order_id) s;
-- ordered
SELECT row_number() OVER (ORDER BY status), customer_id FROM (SELECT status, customer_id FROM orders ORDER BY status, created, customer_id, order_id) s;
-- ordered
SELECT lag(line) OVER (), count(*) OVER (), line, customer_id FROM latest_lines LIMIT 30;
-- ordered
SELECT * FROM (SELECT customer_id, name FROM customers UNION ALL SELECT customer_id, status FROM orders ORDER BY 2 DESC, 1) s LIMIT 30;
-- ordered
SELECT customer_id FROM (SELECT customer_id, region FROM customers UNION SELECT customer_id, status FROM orders ORDER BY 2 NULLS FIRST, 1) s LIMIT 30;
-- ordered
SELECT * FROM (SELECT customer_id FROM customers EXCEPT SELECT customer_id FROM orders WHERE total > 20 ORDER BY 1 DESC) s LIMIT 8 OFFSET 2;
-- ordered
SELECT * FROM ((SELECT customer_id FROM customers WHERE region = 'north' ORDER BY name DESC) UNION ALL (SELECT order_id FROM orders WHERE total > 80 ORDER BY created, customer_id, order_id)) s;
-- ordered
WITH s AS (SELECT customer_id, created FROM orders ORDER BY created, customer_id, order_id) SELECT customer_id FROM s LIMIT 5;
-- ordered
WITH s AS MATERIALIZED (SELECT customer_id FROM orders ORDER BY created, customer_id, order_id) SELECT customer_id FROM s LIMIT 5;
-- ordered
WITH s(c) AS NOT MATERIALIZED (SELECT customer_id FROM orders ORDER BY created DESC, customer_id, order_id) SELECT c FROM s WHERE c < 100;
-- ordered
WITH s AS (SELECT customer_id FROM orders ORDER BY created, customer_id, order_id), r AS (SELECT customer_id % 10 AS c FROM s WHERE customer_id > 4) SELECT c FROM r LIMIT 9;
-- ordered
WITH s AS (SELECT customer_id FROM orders ORDER BY created, customer_id, order_id) SELECT (SELECT customer_id FROM s LIMIT 1), (SELECT customer_id FROM s LIMIT 1 OFFSET 7), (SELECT count(*) FROM s);
-- ordered
WITH s AS (SELECT customer_id FROM orders ORDER BY created, customer_id, order_id) SELECT array_agg(customer_id), (SELECT max(customer_id) FROM s) FROM s;
-- ordered
WITH s AS (SELECT customer_id FROM orders ORDER BY created, customer_id, order_id) SELECT customer_id FROM s UNION ALL SELECT customer_id FROM s;
-- ordered
SELECT ARRAY(SELECT customer_id FROM latest), (SELECT order_id FROM latest LIMIT 1);
-- ordered
SELECT customer_id FROM (SELECT customer_id FROM (SELECT customer_id, total FROM orders ORDER BY created, customer_id, order_id) a WHERE total > 5) b LIMIT 9;
-- ordered
SELECT array_agg(c) FROM (SELECT customer_id % 7 AS c FROM (SELECT customer_id FROM latest) a WHERE customer_id % 7 > 0) b;
-- ordered
SELECT customer_id FROM (SELECT * FROM (SELECT * FROM latest WHERE customer_id > 5) a WHERE customer_id < 99) b LIMIT 9;
-- ordered
SELECT status, n FROM (SELECT status, count(*) AS n FROM orders GROUP BY status ORDER BY sum(total) DESC) s LIMIT 3;
-- ordered
SELECT region FROM (SELECT region FROM customers GROUP BY region ORDER BY count(*) DESC, region DESC) s;
-- ordered
SELECT order_id FROM (SELECT DISTINCT ON (status) status, order_id, created FROM orders ORDER BY status, created, customer_id) s LIMIT 4;
-- ordered
SELECT array_agg(order_id) FROM (SELECT DISTINCT ON (customer_id) order_id FROM orders ORDER BY customer_id, created) s;
-- ordered
SELECT string_agg(region, ',') FROM (SELECT DISTINCT region FROM customers ORDER BY region DESC) s;
-- ordered
SELECT n FROM (SELECT generate_series(1, 3) AS n, customer_id FROM customers ORDER BY customer_id DESC) s LIMIT 8;
-- ordered
SELECT generate_series(1, 3), customer_id FROM (SELECT customer_id FROM customers ORDER BY name) s LIMIT 8;
-- ordered
SELECT customer_id FROM (SELECT customer_id, row_number() OVER (ORDER BY name DESC) AS r FROM customers ORDER BY r) s LIMIT 5;
-- ordered
SELECT customer_id FROM (SELECT customer_id FROM customers ORDER BY row_number() OVER (ORDER BY name DESC)) s LIMIT 5;
-- ordered
SELECT order_id FROM (SELECT status, order_id FROM orders ORDER BY status, created, customer_id, order_id) s ORDER BY status LIMIT 9;
-- ordered
SELECT c.customer_id, l.order_id FROM customers c, LATERAL (SELECT order_id FROM (SELECT * FROM orders o WHERE o.customer_id = c.customer_id ORDER BY created) s LIMIT 1) l ORDER BY 1;
-- ordered
SELECT customer_id, (SELECT array_agg(order_id) FROM (SELECT order_id FROM orders o WHERE o.customer_id = c.customer_id ORDER BY created DESC) s) FROM customers c ORDER BY customer_id;
-- ordered
SELECT customer_id, (SELECT json_agg(s) FROM (SELECT * FROM latest) s WHERE s.customer_id = c.customer_id) FROM customers c WHERE customer_id < 9 ORDER BY customer_id;
-- ordered
SELECT customer_id, ARRAY(SELECT order_id FROM latest l WHERE l.customer_id = c.customer_id) FROM customers c WHERE customer_id < 30 ORDER BY customer_id;
-- ordered
SELECT id FROM (SELECT id FROM events ORDER BY at DESC, id) s LIMIT 5;
-- ordered
SELECT acct FROM (SELECT acct FROM accounts ORDER BY balance DESC, tenant, acct) s LIMIT 6;
-- ordered
SELECT array_agg(s) FROM (SELECT region, id FROM regional ORDER BY amount NULLS FIRST, region DESC, id) s;
-- ordered
SELECT first_order(), all_orders();
-- ordered
-- with 5 | 2 | 9 | 1 | 4 | 3 | 7
SELECT customer_id, order_id FROM (SELECT customer_id, order_id FROM orders WHERE customer_id > $1::int * 10 ORDER BY created, customer_id, order_id) s LIMIT $1;

-- Where nothing depends on it, it is gone.

SELECT count(*), sum(customer_id), min(status) FROM latest;
SELECT count(*) FROM latest WHERE order_id > 3;
SELECT status, count(*) FROM latest GROUP BY status;
SELECT count(*) FROM latest_lines l JOIN customers USING (customer_id);
SELECT max(line) FROM (SELECT line FROM latest_lines) s;
SELECT count(*) FROM (SELECT DISTINCT ON (customer_id) order_id FROM orders ORDER BY customer_id, created) s;
SELECT customer_id FROM customers WHERE customer_id IN (SELECT customer_id FROM orders ORDER BY total);
SELECT customer_id FROM customers WHERE customer_id IN (SELECT customer_id FROM latest LIMIT 9);
SELECT customer_id FROM customers c WHERE EXISTS (SELECT FROM orders o WHERE o.customer_id = c.customer_id AND total > 90 ORDER BY created);
SELECT customer_id FROM orders WHERE total >= ALL (SELECT total FROM orders WHERE total IS NOT NULL ORDER BY created);
WITH s AS (SELECT customer_id, order_id FROM orders ORDER BY created) SELECT count(*) FROM s JOIN s AS r USING (customer_id, order_id);
SELECT customer_id, order_id FROM latest UNION SELECT customer_id, order_id FROM latest_paid;
(SELECT customer_id FROM latest) INTERSECT (SELECT customer_id FROM customers WHERE region = 'north' ORDER BY name);

-- Values that are given out row by row.

-- transaction
INSERT INTO numbered (what) SELECT customer_id FROM (SELECT customer_id FROM orders ORDER BY created, customer_id, order_id) s;
SELECT row_number() OVER (ORDER BY n), what FROM numbered ORDER BY n;

-- transaction
INSERT INTO numbered (what) SELECT customer_id FROM latest LIMIT 10;
SELECT row_number() OVER (ORDER BY n), what FROM numbered ORDER BY n;

-- transaction
INSERT INTO numbered (what) SELECT customer_id FROM orders ORDER BY created, customer_id, order_id;
SELECT row_number() OVER (ORDER BY n), what FROM numbered ORDER BY n;

-- transaction
CREATE TEMP TABLE made AS SELECT * FROM latest;
-- ordered
SELECT * FROM made;

-- transaction
DECLARE c SCROLL CURSOR FOR SELECT * FROM latest;
-- ordered
FETCH 7 FROM c;
-- ordered
FETCH BACKWARD 3 FROM c;
-- ordered
FETCH LAST FROM c;
