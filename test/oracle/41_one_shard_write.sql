-- Writes whose rows are on one shard.

-- transaction
INSERT INTO customers VALUES (9001, 'new one', 'north');
INSERT INTO customers (region, customer_id, name) VALUES ('south', 9002, 'permuted');
INSERT INTO customers (name, customer_id) VALUES ('no region', 9003) RETURNING *;
INSERT INTO orders (order_id, customer_id, created) VALUES (1, 9001, '2026-01-01 00:00+00') RETURNING status, total, order_id;
INSERT INTO orders (order_id, total, customer_id, created, status) VALUES (2, 1.5, 9001, '2026-01-02 00:00+00', DEFAULT), (3, NULL, 9001, '2026-01-03 00:00+00', 'paid'), (4, 7, 9001, '2026-01-04 00:00+00', 'sent') RETURNING order_id, total, status;
INSERT INTO items SELECT customer_id, order_id, 1, 3, 4, 5 FROM orders WHERE customer_id = 9001;
INSERT INTO items (line, order_id, customer_id, qty) SELECT 2, order_id, customer_id, order_id * 2 FROM orders WHERE customer_id = 9001 AND total IS NOT NULL RETURNING *;
INSERT INTO items (customer_id, order_id, line, product_id) SELECT 9001, 1, 10 + product_id, product_id FROM products WHERE product_id < 4 RETURNING line, qty;
UPDATE orders SET total = coalesce(total, 0) + 1, status = 'done' WHERE customer_id = 9001 AND order_id IN (1, 2) RETURNING order_id, total, status;
UPDATE orders o SET total = s.t FROM (SELECT order_id, sum(qty) AS t FROM items WHERE customer_id = 9001 GROUP BY order_id) s WHERE o.customer_id = 9001 AND s.order_id = o.order_id RETURNING o.order_id, o.total, s.t;
UPDATE items i SET price = p.product_id * 2 FROM products p WHERE p.product_id = i.product_id AND i.customer_id = 9001 RETURNING i.line, i.price, p.name;
UPDATE orders SET (total, status) = (SELECT sum(price), 'void' FROM items WHERE items.customer_id = orders.customer_id AND items.order_id = orders.order_id) WHERE customer_id = 9001;
UPDATE customers SET name = name || '!', region = DEFAULT WHERE customer_id = 9001 RETURNING *;
UPDATE customers SET name = 'nobody' WHERE customer_id = 424242;
UPDATE customers SET name = 'nobody' WHERE customer_id = 9001 AND customer_id = 9002;
DELETE FROM items WHERE customer_id = 9001 AND line > 10 RETURNING line;
DELETE FROM items i USING orders o WHERE o.customer_id = i.customer_id AND o.order_id = i.order_id AND o.customer_id = 9001 AND o.order_id = 3;
DELETE FROM orders WHERE customer_id = 9001 AND NOT EXISTS (SELECT FROM items WHERE items.customer_id = 9001 AND items.order_id = orders.order_id);
DELETE FROM orders WHERE customer_id = 9001;
DELETE FROM customers WHERE customer_id IN (9001) RETURNING name;

-- transaction
INSERT INTO members VALUES (5, 1, 'again@c5.example', 4, true) ON CONFLICT (customer_id, member_id) DO UPDATE SET email = EXCLUDED.email, logins = members.logins + EXCLUDED.logins RETURNING *;
INSERT INTO members AS m (member_id, customer_id, email) VALUES (2, 5, 'x@c5.example'), (77, 5, 'y@c5.example') ON CONFLICT (customer_id, member_id) DO UPDATE SET logins = m.logins + 1 WHERE m.active RETURNING member_id, email, logins;
INSERT INTO members VALUES (5, 3, 'nothing', 1) ON CONFLICT DO NOTHING RETURNING *;
INSERT INTO members VALUES (5, 78, 'user2@c5.example', 1) ON CONFLICT (customer_id, email) DO UPDATE SET active = NOT members.active RETURNING member_id, active;
INSERT INTO members (customer_id, member_id, email) SELECT customer_id, member_id, email || '.new' FROM members WHERE customer_id = 5 ON CONFLICT (customer_id, member_id) DO UPDATE SET email = EXCLUDED.email RETURNING member_id, email;
INSERT INTO members VALUES (5, 1, 'late', 1) ON CONFLICT (customer_id, member_id) DO UPDATE SET logins = (SELECT count(*) FROM products);

-- transaction
WITH gone AS (DELETE FROM items WHERE customer_id = 17 AND order_id = 1 RETURNING *) SELECT count(*), sum(qty) FROM gone;
WITH gone AS (DELETE FROM items WHERE customer_id = 17 AND order_id = 2 RETURNING *) INSERT INTO items SELECT customer_id, order_id, line + 100, product_id, qty, price FROM gone RETURNING *;
WITH up AS (UPDATE orders SET total = 0 WHERE customer_id = 17 AND order_id < 4 RETURNING order_id, total) SELECT o.order_id, o.total, up.total FROM up JOIN orders o USING (order_id) WHERE o.customer_id = 17 ORDER BY 1;
WITH new AS (INSERT INTO orders (customer_id, order_id, created) VALUES (17, 500, '2026-01-01 00:00+00') RETURNING order_id) SELECT (SELECT count(*) FROM orders WHERE customer_id = 17 AND order_id = 500), new.order_id FROM new;
WITH a AS (UPDATE orders SET status = 'paid' WHERE customer_id = 18 RETURNING order_id), b AS (UPDATE items SET qty = 1 WHERE customer_id = 18 RETURNING line) SELECT (SELECT count(*) FROM a), (SELECT count(*) FROM b);
WITH src AS (SELECT order_id FROM orders WHERE customer_id = 18 AND total > 40) UPDATE items SET qty = 2 FROM src WHERE items.customer_id = 18 AND items.order_id = src.order_id RETURNING items.order_id, items.line;

-- Several rows of several keys in one statement.

-- transaction
INSERT INTO customers VALUES (9101, 'a', 'x'), (9102, 'b', 'y'), (9103, 'c', NULL), (9104, 'd', 'z') RETURNING *;
INSERT INTO orders (order_id, created, customer_id, total) VALUES (1, '2026-01-01 00:00+00', 9101, 1), (1, '2026-01-01 00:00+00', 9102, 2), (2, '2026-01-01 00:00+00', 9101, 3), (1, '2026-01-01 00:00+00', 9104, DEFAULT);
INSERT INTO skew (v, customer_id) VALUES ('q', 1), ('r', 2), (NULL, 3), ('t', 3), ('u', 1 + 3), (upper('v'), abs(-5));
INSERT INTO skew (v, customer_id, n) VALUES ('one', (SELECT max(customer_id) FROM customers), 1), ('two', (SELECT min(product_id) FROM products), 2);
INSERT INTO members (customer_id, member_id, email) VALUES (1, 1, 'p'), (2, 1, 'q'), (3, 99, 'r') ON CONFLICT (customer_id, member_id) DO UPDATE SET logins = members.logins + 100 RETURNING customer_id, member_id, email, logins;
INSERT INTO members (customer_id, member_id, email) VALUES (1, 1, 'p'), (2, 1, 'q'), (3, 98, 's') ON CONFLICT DO NOTHING;
INSERT INTO tickets (title, customer_id, number) VALUES ('first', 3, 7001), ('second', 4, 7002), ('third', 3, 7003) RETURNING customer_id, number, title, weight, double_weight, feeling;

-- transaction
INSERT INTO accounts (acct, tenant) VALUES (901, 'acme'), (902, 'zoo'), (903, 'acme') RETURNING *;
UPDATE accounts SET balance = balance + 10 WHERE tenant = 'acme' AND acct = 901 RETURNING balance;
UPDATE accounts SET balance = balance + 10 WHERE tenant = 'acme' RETURNING acct, balance;
DELETE FROM accounts WHERE (tenant, acct) = ('acme', 901) RETURNING *;
INSERT INTO regional VALUES ('east', 900, 1), ('north', 900, 2), ('elsewhere', 900, 3) RETURNING *;
UPDATE regional SET amount = amount + 1 WHERE region = 'east' AND id = 900 RETURNING *;
INSERT INTO config VALUES ('z', 'new', 9) RETURNING *;
UPDATE config SET value = p.name FROM products p WHERE p.product_id = config.weight RETURNING config.name, config.value;
INSERT INTO config (name, weight) SELECT name || name, weight + 1 FROM config ON CONFLICT (name) DO UPDATE SET weight = 0 RETURNING *;
DELETE FROM config WHERE weight > 2 RETURNING name;

-- Moves to another key.

-- transaction
UPDATE skew SET customer_id = 8 WHERE customer_id = 7 AND n = 3 RETURNING *;
UPDATE skew SET customer_id = customer_id WHERE customer_id = 7 AND n = 4;
UPDATE accounts SET acct = acct + 1000 WHERE tenant = 'acme' AND acct = 5 RETURNING tenant, acct;
UPDATE regional SET region = 'east' WHERE region = 'north' AND id < 20 RETURNING region, id;

-- What breaks a constraint.

-- fails 23505
INSERT INTO customers VALUES (17, 'twice', NULL);
-- fails 23502
INSERT INTO customers (customer_id) VALUES (9200);
-- fails 23503
INSERT INTO orders (customer_id, order_id, created) VALUES (9999, 1, now());
-- fails 23514
UPDATE orders SET status = 'wrong' WHERE customer_id = 17;
-- fails 23503
DELETE FROM customers WHERE customer_id = 17;
-- fails 23503
UPDATE items SET product_id = 4711 WHERE customer_id = 17 AND order_id = 1;
-- fails 23505
UPDATE orders SET order_id = 1 WHERE customer_id = 17 AND order_id = 2;
-- fails 22003
UPDATE orders SET total = 1e12 WHERE customer_id = 17;
-- fails 22P02
UPDATE orders SET total = status::numeric WHERE customer_id = 17;
-- fails 21000
UPDATE orders SET total = (SELECT price FROM items WHERE customer_id = 17) WHERE customer_id = 17;

-- transaction
-- with 17, 1 | 17, 2 | 18, 1 | NULL, 1 | 424242, 1
UPDATE orders SET total = total + 1 WHERE customer_id = $1 AND order_id = $2 RETURNING customer_id, order_id, total;
-- with 9301, a | 9302, b | 9303, NULL | 9304, d | 9305, e | 9306, f | 9307, g
INSERT INTO customers (region, customer_id, name) VALUES ($2, $1, concat('prepared ', $1::bigint)) RETURNING *;
-- with 9301 | 9302 | NULL
DELETE FROM customers WHERE customer_id = $1 RETURNING name;
-- with 17, 1, 3 | 18, 1, 4 | 17, 2, 0
INSERT INTO members (customer_id, member_id, email, logins) VALUES ($1, $2, concat('e', $3::int), 1) ON CONFLICT (customer_id, member_id) DO UPDATE SET logins = members.logins + $3 RETURNING customer_id, member_id, logins;
-- with 17, 18 | 19, 19 | 20, 21
INSERT INTO skew (customer_id, v) VALUES ($1, 'left'), ($2, 'right') RETURNING customer_id, v;
-- with 17 | 18
WITH gone AS (DELETE FROM items WHERE customer_id = $1 AND line = 1 RETURNING *) SELECT count(*), sum(qty) FROM gone;

-- transaction
-- What no row needs is not computed.
UPDATE kinds SET p = 0 WHERE id = 424242;
UPDATE kinds SET p = 0 WHERE i = 424242424;
UPDATE kinds SET d = to_date('99/99/2024', 'MM/DD/YYYY') WHERE id = 424242;
UPDATE kinds SET i = CASE WHEN true THEN 5 ELSE i + 1/0 END WHERE id = 3;
DELETE FROM kinds WHERE false AND id = 1/0;
