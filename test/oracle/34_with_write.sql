-- Data-modifying CTEs.

-- transaction
WITH gone AS (DELETE FROM items WHERE customer_id = 9 RETURNING *) SELECT count(*), sum(qty) FROM gone;
WITH gone AS (DELETE FROM items WHERE qty = 5 RETURNING product_id) SELECT product_id, count(*) FROM gone GROUP BY 1 ORDER BY 1;
WITH moved AS (DELETE FROM skew WHERE n = 3 RETURNING *) INSERT INTO nothing SELECT row_number() OVER (ORDER BY customer_id, v) + 100, n, v FROM moved;
-- writes skew
SELECT count(*) FROM nothing;

-- transaction
WITH new AS (INSERT INTO customers VALUES (9001, 'a', 'x'), (9002, 'b', 'y') RETURNING customer_id) SELECT c.customer_id, n.customer_id FROM new n LEFT JOIN customers c USING (customer_id) ORDER BY 2;
WITH up AS (UPDATE orders SET total = 1 WHERE customer_id = 3 RETURNING *) SELECT o.total, up.total FROM up JOIN orders o USING (customer_id, order_id) ORDER BY o.order_id;
WITH a AS (UPDATE customers SET name = 'x' WHERE customer_id < 5 RETURNING customer_id), b AS (UPDATE orders o SET total = 7 FROM a WHERE a.customer_id = o.customer_id RETURNING o.*) SELECT count(*), sum(total) FROM b;
SELECT sum(total) FROM orders WHERE customer_id < 5;
WITH a AS (UPDATE customers SET name = 'y' WHERE customer_id < 3) SELECT count(*) FROM customers WHERE name = 'y';
SELECT count(*) FROM customers WHERE name = 'y';

-- transaction
WITH d AS (DELETE FROM orders WHERE customer_id = 4 RETURNING *) INSERT INTO orders SELECT customer_id, order_id + 100, created, status, total FROM d RETURNING customer_id, order_id;
WITH d AS (DELETE FROM customers WHERE customer_id > 195 RETURNING *), i AS (INSERT INTO customers SELECT customer_id + 1000, name, region FROM d RETURNING *) SELECT * FROM i ORDER BY 1;
WITH ins AS (INSERT INTO notes (customer_id, body) SELECT customer_id, 'gone' FROM customers WHERE customer_id < 4 RETURNING customer_id, body), del AS (DELETE FROM items WHERE customer_id IN (SELECT customer_id FROM ins) RETURNING *) SELECT (SELECT count(*) FROM ins), (SELECT count(*) FROM del);
WITH i AS (INSERT INTO products VALUES (900, 'p', 'c') RETURNING *), j AS (INSERT INTO customers SELECT product_id + 8000, name, category FROM i RETURNING *) SELECT * FROM j;

-- transaction
WITH RECURSIVE sub AS (SELECT node FROM tree WHERE node = 4 UNION ALL SELECT t.node FROM tree t JOIN sub s ON t.parent = s.node) DELETE FROM tree WHERE node IN (SELECT node FROM sub) RETURNING node;
WITH x AS (SELECT customer_id, sum(total) AS s FROM orders GROUP BY customer_id) UPDATE customers c SET name = x.s::text FROM x WHERE x.customer_id = c.customer_id AND x.s > 300;
WITH x AS (SELECT 5 AS k) DELETE FROM orders o USING x WHERE o.customer_id = x.k RETURNING o.order_id;
WITH x AS (SELECT customer_id, order_id FROM orders ORDER BY created, customer_id LIMIT 10) UPDATE orders o SET status = 'void' FROM x WHERE x.customer_id = o.customer_id AND x.order_id = o.order_id RETURNING o.customer_id, o.order_id;
WITH x AS (SELECT customer_id, order_id FROM orders WHERE status = 'new' ORDER BY created, customer_id LIMIT 5 FOR UPDATE) UPDATE orders o SET status = 'paid' FROM x WHERE (x.customer_id, x.order_id) = (o.customer_id, o.order_id) RETURNING o.customer_id, o.order_id;
WITH up AS (UPDATE skew SET customer_id = customer_id + 50 WHERE n = 2 RETURNING customer_id, n) SELECT customer_id, count(*) FROM up GROUP BY 1 ORDER BY 1;

-- transaction
WITH a AS (INSERT INTO nothing VALUES (1, 1, 'a') RETURNING *), b AS (INSERT INTO nothing VALUES (2, 2, 'b') RETURNING *), c AS (INSERT INTO nothing VALUES (3, 3, 'c') RETURNING *) SELECT * FROM a UNION ALL SELECT * FROM b UNION ALL SELECT * FROM c ORDER BY 1;
WITH a AS (DELETE FROM nothing RETURNING *) INSERT INTO notes (customer_id, body) SELECT customer_id, b FROM a RETURNING customer_id, body;
-- writes nothing
SELECT count(*) FROM nothing;
-- with 3 | 4 | 5
WITH a AS (UPDATE customers SET region = 'p' || $1 WHERE customer_id = $1::bigint RETURNING *) SELECT a.customer_id, a.region, count(o.*) FROM a LEFT JOIN orders o USING (customer_id) GROUP BY 1, 2;
