-- INSERT in every shape.  Each paragraph is rolled back.

-- transaction
INSERT INTO customers VALUES (1001, 'new', 'north');
INSERT INTO customers VALUES (1002, 'new two', NULL), (1003, 'new three', 'east'), (1004, 'new four', 'west');
SELECT * FROM customers WHERE customer_id > 1000 ORDER BY 1;
SELECT count(*), sum(customer_id) FROM customers;
SELECT c.customer_id, o.order_id FROM customers c LEFT JOIN orders o USING (customer_id) WHERE c.customer_id > 998 ORDER BY 1;

-- transaction
INSERT INTO customers (region, customer_id, name) VALUES ('north', 1001, 'permuted');
INSERT INTO customers (name, region, customer_id) VALUES ('a', 'b', 1002), ('c', 'd', 1003);
INSERT INTO customers (region, name, customer_id) SELECT 'r' || g, 'n' || g, 2000 + g FROM generate_series(1, 5) g;
INSERT INTO customers (name, customer_id) SELECT name, customer_id + 3000 FROM customers WHERE customer_id < 6;

-- transaction
INSERT INTO orders (order_id, created, customer_id) VALUES (101, '2026-02-03 04:05:06+00', 5);
INSERT INTO orders (created, total, order_id, customer_id) VALUES ('2026-02-03', 1.005, 102, 5), ('2026-02-04', 2, 103, 6), ('2026-02-05', NULL, 104, 7);
INSERT INTO orders (customer_id, order_id, created, status, total) VALUES (8, 101, '2026-02-03', DEFAULT, DEFAULT), (9, 101, '2026-02-03', 'void', 1), (10, 101, '2026-02-03', DEFAULT, 3);
INSERT INTO orders (status, customer_id, order_id, created) VALUES (DEFAULT, 11, 101, '2026-02-03'), ('paid', 12, 101, '2026-02-03');
SELECT * FROM orders WHERE order_id > 100 ORDER BY 1, 2;

-- transaction
INSERT INTO tickets (customer_id) VALUES (1) RETURNING customer_id, number, title, weight, double_weight, opened IS NOT NULL, token IS NOT NULL, owner, feeling;
INSERT INTO tickets (customer_id, title) VALUES (1, 'one'), (2, 'two'), (3, 'three'), (4, 'four') RETURNING customer_id, number, title;
INSERT INTO tickets (weight, feeling, customer_id) VALUES (7, 'sad', 5), (DEFAULT, DEFAULT, 6), (NULL, NULL, 7) RETURNING customer_id, number, weight, double_weight, feeling;
INSERT INTO tickets (customer_id, number, title) SELECT g, 5000 + g, DEFAULT_TITLE FROM generate_series(1, 30) g, (SELECT 'made' AS default_title) x;
SELECT count(DISTINCT token) = count(*), count(*) FROM tickets;
SELECT count(DISTINCT number) = count(*) FROM tickets WHERE number >= 1000;
SELECT nextval('tickets_number') > 1000;

-- transaction
INSERT INTO tickets (customer_id, opened) VALUES (1, DEFAULT), (2, now()) RETURNING opened = now();
INSERT INTO tickets (customer_id, opened, token) VALUES (3, 'infinity', NULL) RETURNING customer_id, number, opened, token;
-- fails 23502
-- sqlstate
INSERT INTO tickets DEFAULT VALUES RETURNING customer_id;

-- transaction
INSERT INTO tickets (customer_id, number, double_weight) VALUES (3, 900, DEFAULT) RETURNING double_weight, title;
INSERT INTO tickets (customer_id, number, weight) VALUES (3, 901, 40) RETURNING double_weight, double_weight + 1, title, weight;

-- transaction
INSERT INTO customers VALUES (1001, 'x', 'y') RETURNING *;
INSERT INTO customers VALUES (1002, 'x', 'y'), (1003, 'z', NULL) RETURNING customer_id * 2 AS twice, upper(name), region IS NULL;
INSERT INTO customers VALUES (1004, 'x', 'y') RETURNING (SELECT count(*) FROM products), customers, tableoid::regclass;
INSERT INTO customers AS c VALUES (1005, 'x', 'y') RETURNING c.customer_id, c;
INSERT INTO customers SELECT customer_id + 5000, name, region FROM customers WHERE region = 'east' RETURNING customer_id, name;

-- transaction
INSERT INTO skew (customer_id, n, v) SELECT customer_id + 1, n, v FROM skew;
INSERT INTO skew SELECT * FROM skew WHERE n IS NULL;
SELECT customer_id, count(*) FROM skew GROUP BY 1 ORDER BY 1;

-- transaction
INSERT INTO nothing SELECT customer_id, order_id, status FROM orders WHERE order_id = 3;
SELECT count(*), sum(a), min(b) FROM nothing;
INSERT INTO nothing (customer_id) SELECT product_id + 10000 FROM products;
INSERT INTO nothing (b, customer_id) SELECT body, note_id + 20000 FROM notes WHERE note_id < 10;
INSERT INTO nothing (customer_id, a) SELECT max(customer_id) + 1, count(*) FROM nothing;
INSERT INTO nothing (a, customer_id) SELECT n, 30000 + row_number() OVER (ORDER BY n, v) FROM (SELECT DISTINCT n, v FROM skew WHERE n < 4) x;
INSERT INTO nothing WITH x AS (SELECT customer_id + 40000 AS k FROM customers WHERE region = 'west') SELECT k, 1, 'w' FROM x;
INSERT INTO nothing (customer_id, b) (SELECT 50001, 'a' UNION ALL SELECT 50002, 'b' UNION ALL SELECT customer_id + 50010, name FROM customers WHERE customer_id < 3);
INSERT INTO nothing (customer_id, b) VALUES (60000, (SELECT name FROM customers WHERE customer_id = 3)), (60001, (SELECT string_agg(status, ',' ORDER BY order_id) FROM orders WHERE customer_id = 4));

-- transaction
INSERT INTO notes (customer_id, body) SELECT customer_id, name FROM customers WHERE region = 'south' AND customer_id < 20;
SELECT customer_id, body FROM notes WHERE body LIKE 'customer%' ORDER BY 1;
INSERT INTO products (product_id, name, category) SELECT customer_id + 1000, name, region FROM customers WHERE customer_id < 5;
SELECT p.name, i.line FROM products p LEFT JOIN items i USING (product_id) WHERE p.product_id > 1000 ORDER BY 1;
INSERT INTO items (customer_id, order_id, line, product_id, qty, price) VALUES (1, 1, 90, 1001, 1, 1.5);
SELECT c.name, p.name FROM customers c JOIN items i USING (customer_id) JOIN products p USING (product_id) WHERE i.line = 90;

-- transaction
INSERT INTO lonely VALUES (1500, 'second', timestamp '2026-01-01' + (now() - now())), (2500, 'third', NULL), (-5, 'first', 'infinity') RETURNING *;
SELECT count(*), min(id), max(id) FROM lonely;
INSERT INTO days (day, n, note) VALUES ('2026-01-09', 1000, 'x'), ('2026-01-10', 1000, 'y'), ('2030-01-01', 1000, 'z'), ('-infinity', 1, 'bc');
INSERT INTO regional VALUES ('atlantis', 1, 1), ('east', 1000, NULL), ('north', 1000, 2);
INSERT INTO regional (id, region) SELECT 2000 + g, (ARRAY['north', 'east', 'mu'])[1 + g % 3] FROM generate_series(1, 9) g;

-- transaction
INSERT INTO accounts (acct, tenant) VALUES (1000, 'acme'), (1001, 'neu'), (1002, 'ÄÖ');
INSERT INTO accounts (balance, acct, opened, tenant) VALUES (12.345678, 1000, '2026-02-03'::text::date - 1, 'x') RETURNING *;

-- transaction
INSERT INTO accounts (balance, acct, opened, tenant) VALUES (12.345678, 1000, '2026-02-28', 'x'), (-99.99995, 1001, NULL, '') RETURNING *;
INSERT INTO accounts SELECT tenant || '2', acct, balance, opened FROM accounts WHERE acct < 20;

-- transaction
INSERT INTO codes (code, rank) VALUES ('neu', 1000), ('NEU', 1001), ('ñ', 1002), ('', 1003) ON CONFLICT DO NOTHING;
INSERT INTO codes (rank, sorted, code) SELECT rank + 500, sorted, code || code FROM codes WHERE code <> '' AND length(code) < 10;

-- transaction
INSERT INTO kinds SELECT (k).* FROM (SELECT k FROM kinds k WHERE id = -1) x;
INSERT INTO kinds (id, n, f8, c, ia, ta, jb, by, m, ma, ca, iv, tstz, ir, p) SELECT id + 1000, n, f8, c, ia, ta, jb, by, m, ma, ca, iv, tstz, ir, p FROM kinds;

-- transaction
INSERT INTO kinds (id, m, p, ia[2], ta[1]) VALUES (5000, 'sad', 5, 7, 'x'), (5001, 'ok', 6, NULL, 'y') RETURNING id, m, ia, ta;
INSERT INTO kinds (id, c.x, c.label) VALUES (5002, 7, 'seven') RETURNING id, c;
INSERT INTO kinds (id, n, f8, f4, d, tstz, iv) VALUES (5003, 'NaN', '-Infinity', 1e-45, 'infinity', '2026-10-25 02:30:00+01', '1 mon -1 day +00:00:01'), (5004, 1e100, 5e-324, 3.4028235e38, '0001-01-01 BC', '4714-11-24 00:00:00+00 BC', '-178956970 years');
SELECT id, n, f8, f4, d, tstz, iv FROM kinds WHERE id > 5002 ORDER BY id;

-- transaction
SET LOCAL timezone = 'Asia/Kathmandu';
SET LOCAL datestyle = 'SQL, DMY';
INSERT INTO orders (customer_id, order_id, created) VALUES (3, 300, '05/06/2026 01:30'), (4, 300, '2026-06-05 01:30:00') RETURNING created;
INSERT INTO kinds (id, ts, tstz, d, iv) VALUES (5000, '05/06/2026', '05/06/2026 12:00 UTC', '05/06/2026', '1-2 3 4:05:06') RETURNING ts, tstz, d, iv;

-- transaction
INSERT INTO big SELECT id + 100, title, body || body, doc, blob || blob FROM big;
SELECT id, length(body), md5(body), octet_length(blob), md5(blob) FROM big ORDER BY id;

-- transaction
INSERT INTO wide (c120, c1, customer_id) VALUES (1, 120, 1000), (NULL, 2, 1001);
INSERT INTO wide SELECT customer_id + 500, c1, c2, c3, c4 FROM wide WHERE customer_id < 5;
SELECT customer_id, c1, c4, c5, c120 FROM wide WHERE customer_id > 400 ORDER BY 1;

-- transaction
INSERT INTO events VALUES (1000, 'new', '2026-01-01', '{}'), (1001, NULL, NULL, NULL);
INSERT INTO events (payload, id) SELECT payload, id + 2000 FROM events WHERE kind = 'buy';
INSERT INTO events (id) VALUES (5000) RETURNING *;
SELECT count(*), count(kind) FROM events;

-- transaction
INSERT INTO config VALUES ('e', 'five', 5) RETURNING *;
INSERT INTO config (weight, name) SELECT customer_id, name FROM customers WHERE customer_id < 4;
INSERT INTO config (name) VALUES ('x'), ('y') RETURNING name, value;

-- transaction
INSERT INTO "Odd Schema"."Odd Table" ("select", "Key Col") VALUES (1, 1000), (2, 1001) RETURNING *;
INSERT INTO "Odd Schema"."Odd Table" SELECT "Key Col" + 5000, "select", "ü ""quoted""" || '"', "UPPER" FROM "Odd Schema"."Odd Table";

-- transaction
INSERT INTO rich (customer_id, order_id, total) SELECT 1, 1, 1 WHERE false;
-- fails 23502
INSERT INTO rich (customer_id, order_id, total) VALUES (1, 700, 60);

-- transaction
INSERT INTO rich_checked VALUES (1, 700, '2026-01-01', 'paid', 60) RETURNING *;
-- fails 44000
INSERT INTO rich_checked VALUES (1, 701, '2026-01-01', 'paid', 6);

-- transaction
INSERT INTO barrier VALUES (7000, 'in', 'west'), (7001, 'in', 'east');
SELECT * FROM barrier WHERE customer_id >= 7000;

-- transaction
INSERT INTO members (customer_id, member_id, email) SELECT c, 10, 'x' || c FROM generate_series(1, 300) c;
INSERT INTO members SELECT customer_id, member_id + 100, email || '2', logins, NULL FROM members WHERE member_id = 10 AND customer_id % 2 = 0 RETURNING customer_id;

-- transaction
INSERT INTO orders (customer_id, order_id, created) SELECT c, 1000 + g, '2026-03-01' FROM generate_series(1, 200) c, generate_series(1, 20) g;
SELECT count(*) FROM orders WHERE order_id > 1000;
SELECT customer_id, count(*) FROM orders WHERE customer_id IN (5, 190) GROUP BY 1 ORDER BY 1;
