-- Mistakes are told as PostgreSQL tells them.

-- fails 22012
SELECT 1 / (customer_id - 5) FROM customers;
-- fails 22012
SELECT count(*) FROM customers WHERE 1 / (customer_id - 5) >= 0;
-- fails 22012
SELECT sum(1 / (order_id - 3)) FROM orders;
-- fails 22012
SELECT customer_id FROM customers WHERE customer_id = 1 / (SELECT count(*) FROM nothing);
-- fails 22012
SELECT status, sum(total) / sum(order_id - order_id) FROM orders GROUP BY status;
-- fails 22P02
-- sqlstate
SELECT name::int FROM customers;
-- fails 22P02
-- sqlstate
SELECT count(*) FROM customers WHERE region::int = 3;
-- fails 22003
SELECT (customer_id * 100000000)::int FROM customers;
-- fails 22003
SELECT i + i FROM kinds WHERE id = 101;
-- fails 42703
SELECT missing FROM customers;
-- fails 42P01
SELECT * FROM no_such_table;
-- fails 42883
SELECT no_such_function(customer_id) FROM customers;
-- fails 42883
SELECT * FROM customers WHERE name = 5;
-- fails 42804
SELECT * FROM customers WHERE customer_id;
-- fails 42601
SELECT FROM WHERE customers;
-- fails 42702
SELECT customer_id FROM customers, orders;
-- fails 42P10
SELECT DISTINCT name FROM customers ORDER BY customer_id;
-- fails 2201B
SELECT * FROM customers WHERE name ~ '(';
-- fails 22007
SELECT * FROM orders WHERE created > 'not a time';
-- fails 22008
SELECT created + interval '300000 years' FROM orders;
-- fails 23514
SELECT 0::posint FROM customers WHERE customer_id = 1;
-- fails 23514
-- sqlstate
SELECT (customer_id - 5)::int::posint FROM customers;
-- fails 22P02
SELECT * FROM kinds WHERE m = 'angry';
-- fails 2202E
SELECT array_agg(ia ORDER BY id) FROM kinds WHERE ia IS NOT NULL AND id > 100;
-- fails 21000
SELECT * FROM customers WHERE customer_id = (SELECT node FROM tree);
-- fails 0A000
SELECT customer_id FROM customers GROUP BY customer_id FOR UPDATE;
-- fails 42P20
SELECT customer_id FROM orders WHERE row_number() OVER () = 1;
-- fails 0A000
SELECT count(*) OVER (), percentile_cont(0.5) WITHIN GROUP (ORDER BY total) OVER () FROM orders;
-- fails 22003
SELECT percentile_cont(2) WITHIN GROUP (ORDER BY total) FROM orders;
-- fails 22025
SELECT name LIKE 'a' ESCAPE 'xy' FROM customers;
-- fails 2201E
SELECT ln(total - total) FROM orders WHERE total IS NOT NULL;
-- fails 22013
SELECT sum(order_id) OVER (ORDER BY order_id ROWS -1 PRECEDING) FROM orders;

-- transaction
INSERT INTO orders (customer_id, order_id, created) VALUES (1, 50, '2026-01-01');
-- fails 23505
INSERT INTO orders (customer_id, order_id, created) VALUES (1, 50, '2026-01-01');
-- fails 25P02
SELECT 1;

-- transaction
-- fails 23505
INSERT INTO customers (customer_id, name) VALUES (500, 'x'), (5, 'double');

-- transaction
-- fails 23502
INSERT INTO customers (customer_id, name) VALUES (500, NULL);

-- transaction
-- fails 23502
INSERT INTO customers (customer_id) VALUES (500);

-- transaction
-- fails 23514
INSERT INTO orders (customer_id, order_id, created, status) VALUES (5, 500, '2026-01-01', 'odd');

-- transaction
-- fails 23514
UPDATE orders SET total = total - 5000 WHERE customer_id = 17 AND order_id = 1;

-- transaction
-- fails 23514
-- sqlstate
UPDATE orders SET status = 'odd' WHERE created > '2026-06-01';

-- transaction
-- fails 23503
INSERT INTO orders (customer_id, order_id, created) VALUES (70000, 1, '2026-01-01');

-- transaction
-- fails 23503
INSERT INTO items (customer_id, order_id, line, product_id) VALUES (1, 1, 50, 4000);

-- transaction
-- fails 23503
DELETE FROM customers WHERE customer_id = 5;

-- transaction
-- fails 23503
DELETE FROM products WHERE product_id = 5;

-- transaction
-- fails 23505
UPDATE orders SET order_id = 1 WHERE customer_id = 23;

-- transaction
-- fails 22003
UPDATE orders SET total = 99999999999.5 WHERE customer_id = 23;

-- transaction
-- fails 22012
UPDATE orders SET total = 1 / (order_id - 2) WHERE customer_id IN (23, 24);

-- transaction
-- fails 22001
UPDATE kinds SET vc = 'far too long for it' WHERE id = 3;

-- transaction
-- fails 23514
INSERT INTO kinds (id, p) VALUES (500, -1);

-- transaction
-- fails 428C9
INSERT INTO tickets (customer_id, double_weight) VALUES (1, 5);

-- transaction
-- fails 428C9
UPDATE tickets SET double_weight = 5;

-- transaction
-- fails 42703
INSERT INTO customers (customer_id, nome) VALUES (1, 'x');

-- transaction
-- fails 42601
INSERT INTO customers VALUES (1, 'x', 'y', 'z');

-- transaction
-- fails 42804
INSERT INTO customers (customer_id, name) VALUES (true, 'x');

-- transaction
-- fails 23505
INSERT INTO members (customer_id, member_id, email) VALUES (3, 99, 'user2@c3.example');

-- transaction
-- fails 23505
INSERT INTO members (customer_id, member_id, email) VALUES (3, 99, 'USER2@c3.example');

-- transaction
-- fails 23505
UPDATE members SET email = 'user1@c3.example' WHERE customer_id = 3 AND member_id = 2;

-- transaction
-- fails 23505
UPDATE accounts SET acct = 5 WHERE tenant = 'acme' AND acct = 10;

-- transaction
-- fails 23514
-- sqlstate
UPDATE accounts SET balance = balance - 7000;

-- transaction
-- fails 23505
INSERT INTO config VALUES ('a', 'again');

-- transaction
-- fails 23505
INSERT INTO regions VALUES ('south', 1, 'Di');

-- transaction
-- fails 23502
-- sqlstate
UPDATE customers SET name = NULL WHERE region = 'north';

-- transaction
-- fails 23502
-- sqlstate
UPDATE customers SET customer_id = NULL WHERE customer_id = 199;

-- transaction
-- fails 23502
-- sqlstate
INSERT INTO skew (customer_id, n) VALUES (NULL, 1);

-- transaction
-- fails 23502
-- sqlstate
INSERT INTO regional (id, amount) VALUES (1, 1);
