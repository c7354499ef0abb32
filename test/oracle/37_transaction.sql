-- What a transaction has written is there for it, and goes as it should.

-- transaction
INSERT INTO customers VALUES (1000, 'own', 'north');
SELECT * FROM customers WHERE customer_id = 1000;
SELECT count(*) FROM customers;
SELECT c.customer_id, r.chief FROM customers c JOIN regions r USING (region) WHERE c.customer_id > 190 ORDER BY 1;
INSERT INTO orders (customer_id, order_id, created) SELECT 1000, g, '2026-01-01' FROM generate_series(1, 3) g;
SELECT c.name, count(*) FROM customers c JOIN orders o USING (customer_id) WHERE c.customer_id > 178 GROUP BY c.customer_id, c.name ORDER BY c.customer_id;
SELECT (SELECT count(*) FROM orders o WHERE o.customer_id = c.customer_id) FROM customers c WHERE c.customer_id = 1000;
SELECT a.customer_id FROM customers a, customers b WHERE a.customer_id = b.customer_id AND b.name = 'own';
UPDATE orders SET customer_id = 199 WHERE customer_id = 1000 AND order_id = 2;
DELETE FROM orders WHERE customer_id = 1000;
DELETE FROM customers WHERE customer_id = 1000;
SELECT count(*), max(customer_id) FROM orders;

-- transaction
SAVEPOINT a;
UPDATE customers SET name = 'a' WHERE customer_id < 10;
SAVEPOINT b;
UPDATE customers SET name = 'b' WHERE customer_id < 5;
SELECT name, count(*) FROM customers WHERE customer_id < 10 GROUP BY name ORDER BY 1;
ROLLBACK TO b;
SELECT name, count(*) FROM customers WHERE customer_id < 10 GROUP BY name ORDER BY 1;
SAVEPOINT c;
DELETE FROM items WHERE customer_id < 30;
RELEASE c;
SELECT count(*) FROM items;
ROLLBACK TO a;
SELECT count(*) FROM items;
SELECT name FROM customers WHERE customer_id < 3 ORDER BY 1;

-- transaction
SAVEPOINT a;
-- fails 23505
INSERT INTO customers VALUES (700, 'ok', NULL), (5, 'double', NULL);
ROLLBACK TO a;
SELECT count(*) FROM customers WHERE customer_id = 700;
SAVEPOINT b;
-- fails 23514
-- sqlstate
UPDATE orders SET status = 'odd' WHERE order_id = 1;
ROLLBACK TO b;
UPDATE orders SET status = 'void' WHERE order_id = 1;
SAVEPOINT c;
-- fails 42703
SELECT nope FROM orders;
ROLLBACK TO c;
-- fails 3B001
ROLLBACK TO nowhere;

-- transaction
INSERT INTO nothing VALUES (1, 1, 'a');
SAVEPOINT a;
INSERT INTO nothing VALUES (2, 2, 'b');
SAVEPOINT a;
INSERT INTO nothing VALUES (3, 3, 'c');
ROLLBACK TO a;
SELECT * FROM nothing ORDER BY 1;
RELEASE a;
ROLLBACK TO a;
SELECT * FROM nothing ORDER BY 1;

-- Committed, and put back.

INSERT INTO nothing VALUES (1, 10, 'committed'), (2, 20, 'committed'), (3, 30, 'committed'), (4, 40, 'committed');
SELECT * FROM nothing ORDER BY 1;
UPDATE nothing SET a = a + 1 WHERE customer_id = 2;
UPDATE nothing SET a = a + 1;
UPDATE nothing SET customer_id = customer_id + 10 WHERE customer_id > 2 RETURNING *;
DELETE FROM nothing WHERE customer_id = 1 RETURNING *;
INSERT INTO nothing VALUES (2, 0, 'again') ON CONFLICT (customer_id) DO UPDATE SET b = excluded.b || nothing.b RETURNING *;
-- fails 23505
INSERT INTO nothing VALUES (50, 0, 'again'), (2, 0, 'again');
SELECT * FROM nothing ORDER BY 1;
COPY nothing FROM STDIN;
100	1	a
101	2	b
102	3	c
\.
SELECT count(*) FROM nothing;
-- fails 22012
UPDATE nothing SET a = 1 / (a - 2);
TRUNCATE nothing;
SELECT count(*) FROM nothing;

BEGIN;
INSERT INTO nothing SELECT g, g, 'many' FROM generate_series(1, 100) g;
INSERT INTO notes (note_id, customer_id, body) VALUES (9999, 1, 'with the shards');
UPDATE products SET name = 'renamed' WHERE product_id = 1;
COMMIT;
SELECT count(*), (SELECT count(*) FROM notes WHERE note_id = 9999), (SELECT name FROM products WHERE product_id = 1) FROM nothing;
SELECT p.name FROM items i JOIN products p USING (product_id) WHERE p.product_id = 1 AND i.line = 1 LIMIT 1;
BEGIN;
DELETE FROM nothing WHERE customer_id > 50;
UPDATE nothing SET a = 0;
ROLLBACK;
SELECT count(*), sum(a) FROM nothing;
DELETE FROM nothing;
DELETE FROM notes WHERE note_id = 9999;
UPDATE products SET name = 'product 1' WHERE product_id = 1;

BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM customers;
UPDATE customers SET name = 'rr' WHERE customer_id < 20;
SELECT count(*) FROM customers WHERE name = 'rr';
SELECT c.name, o.order_id FROM customers c JOIN orders o USING (customer_id) WHERE c.customer_id = 3 ORDER BY 2;
ROLLBACK;

BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT sum(total) FROM orders;
INSERT INTO customers VALUES (800, 's', NULL);
SELECT count(*) FROM customers;
ROLLBACK;

BEGIN READ ONLY;
SELECT count(*) FROM orders;
-- fails 25006
UPDATE orders SET total = 1 WHERE customer_id = 1;
ROLLBACK;

BEGIN READ ONLY;
-- fails 25006
INSERT INTO customers VALUES (900, 'x', NULL);
ROLLBACK;

BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE;
SELECT count(*), sum(total) FROM orders;
COMMIT;

BEGIN;
-- fails 22012
SELECT 1 / (customer_id - 5) FROM customers;
-- fails 25P02
SELECT count(*) FROM customers;
COMMIT;
SELECT count(*) FROM customers;

BEGIN;
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM nothing;
COMMIT AND CHAIN;
SELECT count(*) FROM customers;
SHOW transaction_isolation;
ROLLBACK;

-- Row locks.

-- transaction
SELECT * FROM orders WHERE customer_id = 9 ORDER BY order_id FOR UPDATE;
SELECT * FROM orders WHERE total > 97 ORDER BY customer_id, order_id FOR UPDATE;
SELECT * FROM orders WHERE total > 97 ORDER BY customer_id, order_id FOR NO KEY UPDATE NOWAIT;
SELECT customer_id FROM customers WHERE customer_id < 5 ORDER BY 1 FOR SHARE;
SELECT customer_id FROM customers WHERE customer_id < 5 ORDER BY 1 FOR KEY SHARE SKIP LOCKED;
SELECT c.customer_id, o.order_id FROM customers c JOIN orders o USING (customer_id) WHERE c.customer_id < 4 ORDER BY 1, 2 FOR UPDATE OF o;
SELECT c.customer_id, o.order_id FROM customers c LEFT JOIN orders o USING (customer_id) WHERE c.customer_id BETWEEN 179 AND 182 ORDER BY 1, 2 FOR UPDATE OF c;
SELECT c.customer_id, n.note_id FROM customers c JOIN notes n USING (customer_id) WHERE c.customer_id < 12 ORDER BY 1, 2 FOR UPDATE;
SELECT c.customer_id, r.tax FROM customers c JOIN regions r USING (region) WHERE c.customer_id < 12 ORDER BY 1 FOR SHARE;
SELECT customer_id, order_id FROM orders ORDER BY created, customer_id LIMIT 5 FOR UPDATE SKIP LOCKED;
SELECT customer_id, order_id FROM orders ORDER BY created, customer_id LIMIT 5 OFFSET 3 FOR UPDATE;
SELECT customer_id, order_id, status FROM orders WHERE status = 'new' ORDER BY customer_id DESC, order_id LIMIT 7 FOR SHARE NOWAIT;
SELECT * FROM customers ORDER BY customer_id LIMIT 3 FOR NO KEY UPDATE;
SELECT count(*) FROM (SELECT customer_id FROM customers LIMIT 3 FOR KEY SHARE SKIP LOCKED) x;
SELECT count(*) FROM (SELECT customer_id FROM customers LIMIT 3 OFFSET 2 FOR UPDATE) x;
SELECT customer_id FROM customers ORDER BY customer_id LIMIT 0 FOR UPDATE SKIP LOCKED;
SELECT customer_id FROM customers WHERE customer_id < 0 ORDER BY customer_id LIMIT 2 FOR UPDATE SKIP LOCKED;
SELECT customer_id FROM customers WHERE customer_id < 4 ORDER BY customer_id LIMIT 20 FOR UPDATE SKIP LOCKED;
SELECT customer_id FROM customers WHERE customer_id < 4 ORDER BY customer_id LIMIT 20 OFFSET 20 FOR UPDATE NOWAIT;
SELECT customer_id FROM customers ORDER BY customer_id LIMIT NULL OFFSET 175 FOR UPDATE;
SELECT customer_id, name || '!' FROM customers ORDER BY name, customer_id LIMIT (SELECT 4) FOR UPDATE;
-- fails 2201W
SELECT customer_id FROM customers ORDER BY customer_id LIMIT -1 FOR UPDATE;

-- transaction
SELECT customer_id FROM customers WHERE customer_id = (SELECT customer_id FROM customers ORDER BY customer_id DESC LIMIT 1 FOR UPDATE SKIP LOCKED);
SELECT customer_id FROM customers WHERE customer_id IN (SELECT customer_id FROM customers ORDER BY customer_id DESC LIMIT 4 FOR UPDATE SKIP LOCKED) ORDER BY 1;
SELECT customer_id FROM customers WHERE customer_id NOT IN (SELECT customer_id FROM customers ORDER BY customer_id DESC LIMIT 170 FOR UPDATE) AND customer_id < 30 ORDER BY 1;
SELECT customer_id, customer_id IN (SELECT customer_id FROM customers ORDER BY customer_id LIMIT 2 FOR UPDATE) FROM customers WHERE customer_id < 5 ORDER BY 1;
SELECT x.customer_id, c.name FROM customers c JOIN (SELECT customer_id FROM orders WHERE status = 'new' ORDER BY customer_id, order_id LIMIT 3 FOR UPDATE SKIP LOCKED) x USING (customer_id) ORDER BY 1, 2;
SELECT c.customer_id, (SELECT o.order_id FROM orders o WHERE o.total > c.customer_id ORDER BY o.total, o.customer_id, o.order_id LIMIT 1 FOR SHARE SKIP LOCKED) FROM customers c WHERE c.customer_id < 5 ORDER BY 1;
SELECT * FROM (SELECT customer_id FROM customers ORDER BY customer_id LIMIT 2 FOR UPDATE) a UNION ALL SELECT * FROM (SELECT customer_id FROM customers ORDER BY customer_id DESC LIMIT 2 FOR UPDATE) b ORDER BY 1;
UPDATE customers SET name = 'taken' WHERE customer_id = (SELECT customer_id FROM customers WHERE name <> 'taken' ORDER BY customer_id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING customer_id;
UPDATE customers SET name = 'taken' WHERE customer_id IN (SELECT customer_id FROM customers WHERE name <> 'taken' ORDER BY customer_id LIMIT 5 FOR UPDATE SKIP LOCKED);
WITH x AS (SELECT customer_id FROM customers WHERE name <> 'taken' ORDER BY customer_id LIMIT 3 FOR UPDATE SKIP LOCKED) UPDATE customers c SET name = 'taken' FROM x WHERE c.customer_id = x.customer_id RETURNING c.customer_id;
DELETE FROM notes WHERE note_id IN (SELECT note_id FROM notes ORDER BY note_id LIMIT 3 FOR UPDATE SKIP LOCKED);
SAVEPOINT a;
UPDATE customers SET name = 'again' WHERE customer_id IN (SELECT customer_id FROM customers WHERE name = 'taken' ORDER BY customer_id DESC LIMIT 2 OFFSET 1 FOR UPDATE);
SELECT customer_id, name FROM customers WHERE name IN ('taken', 'again') ORDER BY 1;
ROLLBACK TO a;
SELECT customer_id, name FROM customers WHERE name IN ('taken', 'again') ORDER BY 1;

-- transaction
-- with 1, 0 | 3, 2 | 0, 5 | NULL, 176
SELECT customer_id FROM customers ORDER BY customer_id LIMIT $1 OFFSET $2 FOR UPDATE SKIP LOCKED;
-- with 2, 0 | 4, 1
SELECT customer_id FROM customers ORDER BY customer_id LIMIT $1 OFFSET $2 FOR UPDATE;

-- transaction
SELECT * FROM (SELECT customer_id FROM customers WHERE customer_id < 5 FOR UPDATE) x ORDER BY 1;
WITH x AS (SELECT customer_id FROM customers WHERE customer_id < 5 FOR UPDATE) SELECT count(*) FROM x;
SELECT customer_id FROM customers WHERE customer_id IN (SELECT customer_id FROM orders WHERE total > 98 FOR UPDATE) ORDER BY 1;
SELECT customer_id FROM rich WHERE customer_id = 20 ORDER BY order_id FOR UPDATE;
SELECT * FROM config ORDER BY name FOR UPDATE;
SELECT id FROM events WHERE id < 5 ORDER BY 1 FOR UPDATE;
SELECT name FROM products WHERE product_id < 3 ORDER BY 1 FOR UPDATE;
UPDATE orders SET total = 1 WHERE customer_id = 9;
SELECT total FROM orders WHERE customer_id = 9 FOR UPDATE;
