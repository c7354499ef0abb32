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

-- What a statement writes is not there for its other parts.

-- transaction
WITH i AS (INSERT INTO holes VALUES (501, 1), (502, 2), (503, 2), (504, 2) RETURNING *) DELETE FROM holes WHERE a = (SELECT max(a) FROM i);
WITH i AS (INSERT INTO holes VALUES (511, 1), (512, 4), (513, 4), (514, 4) RETURNING *) UPDATE holes SET b = -1 WHERE a = (SELECT max(a) FROM i) RETURNING *;
WITH i AS (INSERT INTO holes SELECT id + 3000, a, b FROM holes WHERE a = 5 RETURNING *) UPDATE holes h SET c = 'i' FROM i WHERE i.a = h.a;
WITH i AS (INSERT INTO holes SELECT id + 4000, a, b FROM holes WHERE a = 5 RETURNING *) DELETE FROM holes h USING products p, i WHERE p.product_id = h.a AND i.id = h.id + 4000;
WITH i AS (INSERT INTO holes VALUES (521, 6), (522, 6), (523, 6)) DELETE FROM holes WHERE a = 6;
WITH i AS (INSERT INTO holes VALUES (531, 6), (532, 6), (533, 6)) INSERT INTO holes SELECT id + 5000, a FROM holes WHERE a = 6;
WITH i AS (INSERT INTO holes VALUES (541, 6), (542, 6) RETURNING id), u AS (UPDATE holes SET c = 'u' WHERE a = 6 RETURNING id), d AS (DELETE FROM holes WHERE a = 0 RETURNING id) SELECT (SELECT count(*) FROM i), (SELECT count(*) FROM u), (SELECT count(*) FROM d), count(*) FROM holes;
WITH i AS (INSERT INTO holes VALUES (551, 6), (552, 6) RETURNING id) SELECT id FROM holes WHERE a = 6 AND (SELECT count(*) FROM i) = 2 ORDER BY id FOR UPDATE;

-- transaction
-- writes holes
DELETE FROM holes WHERE a = (SELECT fill_holes());

-- transaction
-- writes holes
DELETE FROM holes WHERE id = 9 AND a = (SELECT fill_holes());

-- transaction
-- writes holes
UPDATE holes SET b = -2 WHERE a = (SELECT fill_holes()) RETURNING *;

-- transaction
-- writes holes
UPDATE holes SET b = (SELECT fill_holes()) WHERE a = 2;

-- transaction
-- writes holes
UPDATE holes h SET c = p.name FROM products p WHERE p.product_id = h.id AND h.a = (SELECT fill_holes());

-- transaction
-- writes holes
UPDATE holes SET id = id + 100 WHERE a = (SELECT fill_holes());

-- transaction
-- writes holes
INSERT INTO holes SELECT id + 100, a, b FROM holes WHERE a = (SELECT fill_holes());

-- transaction
-- writes holes
SELECT id, b FROM holes WHERE a = (SELECT fill_holes()) ORDER BY id;

-- transaction
-- writes holes
SELECT id, b FROM holes WHERE a = (SELECT fill_holes()) ORDER BY id FOR UPDATE;

-- transaction
-- writes holes
SELECT id FROM holes WHERE a = (SELECT change_holes()) ORDER BY id FOR UPDATE;

-- transaction
-- writes holes
UPDATE holes SET b = -3 WHERE add_hole(id) AND id < 20;

-- transaction
-- writes holes
WITH w AS (SELECT fill_holes() AS n) DELETE FROM holes USING w WHERE a = w.n;

-- A function that has changed the row itself is an error.

-- transaction
-- fails 27000
UPDATE holes SET b = 1 WHERE a = (SELECT change_holes());

-- transaction
-- fails 27000
DELETE FROM holes WHERE a = (SELECT change_holes());

-- transaction
-- fails 27000
UPDATE holes SET b = 1 WHERE id = 9 AND a = (SELECT change_holes());

-- transaction
-- fails 27000
UPDATE holes h SET c = p.name FROM products p WHERE p.product_id = h.id AND h.a = (SELECT change_holes());

-- transaction
-- fails 27000
UPDATE holes SET c = 'x' WHERE change_hole(id);

-- transaction
-- fails 27000
DELETE FROM holes WHERE change_hole(id);

-- A row that the statement has changed already is left as it is.

-- transaction
WITH u AS (UPDATE holes SET b = 10 RETURNING *) UPDATE holes h SET b = 5 FROM u WHERE u.id = h.id;
WITH u AS (UPDATE holes SET b = 11 RETURNING *) UPDATE holes SET b = 5 WHERE id IN (SELECT id FROM u);
WITH u AS (UPDATE holes SET b = 12 RETURNING *) UPDATE holes SET b = 5 WHERE a < (SELECT count(*) FROM u);
WITH u AS (UPDATE holes SET b = 13 WHERE id < 20) UPDATE holes SET b = 5 WHERE a > 2;
WITH u AS (UPDATE holes h SET c = p.name FROM products p WHERE p.product_id = h.id AND h.id < 20 RETURNING h.*) UPDATE holes SET b = 6 WHERE a < (SELECT count(*) FROM u);
WITH u AS (UPDATE holes h SET c = p.name FROM products p WHERE p.product_id = h.id AND h.id < 20 RETURNING h.*) UPDATE holes h SET b = 6 FROM u WHERE u.id = h.id RETURNING h.*;
WITH u AS (UPDATE holes SET b = 14 WHERE id < 10 RETURNING *) DELETE FROM holes h USING u WHERE u.id = h.id;
WITH u AS (UPDATE holes SET b = 15 WHERE id < 10 RETURNING *) DELETE FROM holes WHERE a < (SELECT count(*) FROM u) AND id < 15;
WITH d AS (DELETE FROM holes WHERE id BETWEEN 20 AND 22 RETURNING *) UPDATE holes h SET b = 7 FROM d WHERE d.id = h.id;
WITH d AS (DELETE FROM holes WHERE id BETWEEN 23 AND 25 RETURNING *) UPDATE holes SET b = 8 WHERE id > 20 AND id < 20 + (SELECT count(*) FROM d) * 5;
WITH d AS (DELETE FROM holes WHERE id BETWEEN 26 AND 28 RETURNING *) DELETE FROM holes WHERE id > 25 AND id < 25 + (SELECT count(*) FROM d) * 3 RETURNING id;
WITH d AS (DELETE FROM holes WHERE id BETWEEN 34 AND 36 RETURNING *) INSERT INTO holes SELECT id + 6000, a, b, c, d FROM d;
WITH u AS (UPDATE holes SET id = id + 7000 WHERE id BETWEEN 37 AND 38 RETURNING *) UPDATE holes SET b = 9 WHERE id > 35 AND (SELECT count(*) FROM u) = 2;
WITH u AS (UPDATE holes SET b = 16 WHERE id BETWEEN 39 AND 40 RETURNING *) UPDATE holes SET id = id + 7000 WHERE id BETWEEN 39 AND 45 AND (SELECT count(*) FROM u) = 2;
WITH a AS (UPDATE holes SET b = 1 WHERE id < 13 RETURNING *), b AS (UPDATE holes SET b = 2 WHERE id < 15 RETURNING *), c AS (DELETE FROM holes WHERE id < 17 RETURNING *) SELECT (SELECT count(*) FROM a), (SELECT count(*) FROM b), (SELECT count(*) FROM c);

-- transaction
-- fails 21000
WITH u AS (UPDATE holes SET b = 3 RETURNING *) INSERT INTO holes (id, a) SELECT id, 2 FROM u ON CONFLICT (id) DO UPDATE SET b = 8;

-- transaction
-- fails 21000
WITH i AS (INSERT INTO holes (id, a) VALUES (601, 1), (602, 1), (603, 1) RETURNING *) INSERT INTO holes (id, a) SELECT id, 2 FROM i ON CONFLICT (id) DO UPDATE SET b = 8;
