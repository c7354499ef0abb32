-- Cursors.

-- transaction
DECLARE c CURSOR FOR SELECT customer_id, name FROM customers ORDER BY customer_id;
-- ordered
FETCH 3 FROM c;
-- ordered
FETCH NEXT FROM c;
-- ordered
FETCH FORWARD 20 FROM c;
MOVE 50 FROM c;
-- ordered
FETCH c;
-- ordered
FETCH ALL FROM c;
FETCH c;
CLOSE c;

-- transaction
DECLARE c SCROLL CURSOR FOR SELECT customer_id, order_id FROM orders ORDER BY customer_id, order_id;
-- ordered
FETCH LAST FROM c;
-- ordered
FETCH PRIOR FROM c;
-- ordered
FETCH BACKWARD 5 FROM c;
-- ordered
FETCH FIRST FROM c;
-- ordered
FETCH ABSOLUTE 500 FROM c;
-- ordered
FETCH RELATIVE -10 FROM c;
-- ordered
FETCH ABSOLUTE -3 FROM c;
MOVE BACKWARD ALL IN c;
-- ordered
FETCH 2 FROM c;
FETCH RELATIVE 0 FROM c;
CLOSE c;

-- transaction
DECLARE c SCROLL CURSOR FOR SELECT c.customer_id, o.order_id FROM customers c LEFT JOIN orders o USING (customer_id) JOIN regions r USING (region) ORDER BY 1, 2;
-- ordered
FETCH 10 FROM c;
-- ordered
FETCH BACKWARD 4 FROM c;
-- ordered
FETCH 8 FROM c;

-- transaction
DECLARE a CURSOR FOR SELECT customer_id FROM customers ORDER BY customer_id;
DECLARE b CURSOR FOR SELECT customer_id, order_id FROM orders ORDER BY customer_id DESC, order_id;
-- ordered
FETCH 3 FROM a;
-- ordered
FETCH 3 FROM b;
SELECT count(*) FROM orders WHERE customer_id < 50;
-- ordered
FETCH 3 FROM a;
UPDATE customers SET name = 'changed meanwhile' WHERE customer_id BETWEEN 5 AND 10;
-- ordered
FETCH 3 FROM a;
-- ordered
FETCH 3 FROM b;
CLOSE a;
-- ordered
FETCH 100 FROM b;

-- transaction
DECLARE c CURSOR FOR SELECT customer_id, name FROM customers ORDER BY customer_id;
-- ordered
FETCH 2 FROM c;
UPDATE customers SET name = 'later';
DELETE FROM customers WHERE customer_id > 190;
INSERT INTO customers VALUES (0, 'first', NULL), (1000, 'last', NULL);
-- ordered
FETCH ALL FROM c;
SELECT count(*) FROM customers WHERE name = 'later';

-- transaction
INSERT INTO customers VALUES (1000, 'before the cursor', NULL);
DECLARE c CURSOR FOR SELECT customer_id FROM customers WHERE customer_id > 195 ORDER BY 1;
-- ordered
FETCH 2 FROM c;
INSERT INTO customers VALUES (1001, 'after', NULL);
-- ordered
FETCH ALL FROM c;

-- transaction
DECLARE c CURSOR FOR SELECT customer_id FROM customers ORDER BY 1;
FETCH 2 FROM c;
SAVEPOINT s;
FETCH 2 FROM c;
-- fails 22012
SELECT 1 / 0 FROM customers;
ROLLBACK TO s;
FETCH 2 FROM c;
SAVEPOINT t;
-- fails 23505
INSERT INTO customers VALUES (5, 'double', NULL);
ROLLBACK TO t;
-- ordered
FETCH 5 FROM c;

-- transaction
SAVEPOINT s;
DECLARE c CURSOR FOR SELECT customer_id FROM customers ORDER BY 1;
FETCH 2 FROM c;
ROLLBACK TO s;
-- fails 34000
FETCH 2 FROM c;

BEGIN;
DECLARE h SCROLL CURSOR WITH HOLD FOR SELECT customer_id, order_id FROM orders WHERE customer_id < 6 ORDER BY 1, 2;
-- ordered
FETCH 2 FROM h;
COMMIT;
-- ordered
FETCH 3 FROM h;
SELECT count(*) FROM orders;
-- ordered
FETCH ALL FROM h;
-- ordered
FETCH BACKWARD 2 FROM h;
CLOSE h;

DECLARE g SCROLL CURSOR WITH HOLD FOR SELECT status, count(*) FROM orders GROUP BY status ORDER BY status;
-- ordered
FETCH LAST FROM g;
-- ordered
FETCH FIRST FROM g;
CLOSE ALL;

-- transaction
DECLARE c NO SCROLL CURSOR FOR SELECT customer_id FROM customers ORDER BY 1;
-- ordered
FETCH 3 FROM c;
-- fails 55000
FETCH BACKWARD 1 FROM c;

-- transaction
DECLARE c INSENSITIVE CURSOR FOR SELECT * FROM (SELECT customer_id, rank() OVER (ORDER BY customer_id) FROM customers) x ORDER BY 1 LIMIT 7;
-- ordered
FETCH ALL FROM c;
DECLARE d CURSOR FOR SELECT * FROM nothing;
FETCH ALL FROM d;
FETCH d;
DECLARE e CURSOR FOR SELECT customer_id FROM orders WHERE customer_id = 8 ORDER BY order_id FOR UPDATE;
-- ordered
FETCH ALL FROM e;
DECLARE f CURSOR FOR WITH RECURSIVE t AS (SELECT node FROM tree WHERE node = 1 UNION ALL SELECT x.node FROM tree x JOIN t ON x.parent = t.node) SELECT node FROM t ORDER BY node;
-- ordered
FETCH 10 FROM f;
SELECT name, is_holdable, is_binary FROM pg_cursors ORDER BY name;

-- transaction
DECLARE c CURSOR FOR SELECT 1 / (order_id - 4) FROM orders WHERE customer_id = 47 ORDER BY order_id;
-- fails 22012
FETCH ALL FROM c;

-- transaction
DECLARE c CURSOR FOR SELECT customer_id, name FROM customers WHERE customer_id < 9 OR customer_id > 190 ORDER BY customer_id;
DECLARE d CURSOR FOR SELECT name FROM customers WHERE customer_id = 3;
DECLARE e CURSOR FOR SELECT count(*), max(customer_id) FROM customers;
UPDATE customers SET name = 'changed before the first row' WHERE customer_id = 3;
INSERT INTO customers VALUES (0, 'first', NULL), (1000, 'last', NULL);
DECLARE f CURSOR FOR SELECT count(*), max(customer_id) FROM customers;
DELETE FROM customers WHERE customer_id IN (195, 1000);
-- ordered
FETCH ALL FROM c;
FETCH ALL FROM d;
FETCH ALL FROM e;
FETCH ALL FROM f;

-- transaction
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;
DECLARE c CURSOR FOR SELECT customer_id, name FROM customers ORDER BY customer_id;
UPDATE customers SET name = 'later';
-- ordered
FETCH 5 FROM c;

-- transaction
DECLARE c CURSOR FOR SELECT c.customer_id, o.order_id FROM customers c LEFT JOIN orders o USING (customer_id) JOIN regions r USING (region) ORDER BY 1, 2;
DECLARE d CURSOR FOR SELECT customer_id, (SELECT count(*) FROM orders o WHERE o.order_id < c.customer_id) FROM customers c WHERE customer_id < 20 ORDER BY 1;
-- ordered
FETCH 3 FROM d;
SAVEPOINT s;
DELETE FROM orders WHERE customer_id < 20;
ROLLBACK TO s;
DELETE FROM orders WHERE customer_id BETWEEN 5 AND 50;
-- ordered
FETCH ALL FROM d;
-- ordered
FETCH ALL FROM c;
