-- INSERT ... ON CONFLICT.

-- transaction
INSERT INTO customers VALUES (5, 'again', 'x'), (1005, 'new', 'x') ON CONFLICT DO NOTHING;
INSERT INTO customers VALUES (5, 'again', 'x'), (6, 'again', 'x') ON CONFLICT (customer_id) DO NOTHING RETURNING *;
INSERT INTO customers VALUES (5, 'again', 'x'), (2006, 'new', 'x') ON CONFLICT (customer_id) DO NOTHING RETURNING customer_id;

-- transaction
INSERT INTO customers VALUES (5, 'again', 'x') ON CONFLICT (customer_id) DO UPDATE SET name = excluded.name, region = customers.region || '!' RETURNING *;
INSERT INTO customers AS c (region, customer_id, name) VALUES ('r', 6, 'n'), ('r2', 3006, 'n2'), ('r3', 7, 'n3') ON CONFLICT (customer_id) DO UPDATE SET name = c.name || '+' || excluded.name RETURNING c.customer_id, c.name;
INSERT INTO customers VALUES (8, 'x', 'y'), (9, 'x', 'y') ON CONFLICT (customer_id) DO UPDATE SET name = excluded.name WHERE customers.region IS NOT NULL AND excluded.region = 'y' RETURNING customer_id;
INSERT INTO customers VALUES (10, 'x', 'y') ON CONFLICT (customer_id) DO UPDATE SET name = (SELECT 'a') || customers.name, region = (SELECT name FROM products WHERE product_id = 3);
INSERT INTO customers VALUES (12, 'x', 'y'), (13, 'x', 'y') ON CONFLICT (customer_id) DO UPDATE SET name = (SELECT c.name FROM customers c WHERE c.customer_id = 1) || (SELECT count(*) FROM orders) || excluded.name RETURNING *;
INSERT INTO customers VALUES (11, 'x', 'y') ON CONFLICT (customer_id) DO UPDATE SET region = DEFAULT RETURNING *;

-- transaction
INSERT INTO members (customer_id, member_id, email) VALUES (3, 1, 'user1@c3.example'), (3, 50, 'fresh') ON CONFLICT (customer_id, member_id) DO UPDATE SET logins = members.logins + 1 RETURNING *;
INSERT INTO members (email, member_id, customer_id) VALUES ('user2@c3.example', 60, 3) ON CONFLICT (customer_id, email) DO UPDATE SET logins = members.logins + 10, active = excluded.active RETURNING member_id, logins, active;
INSERT INTO members (customer_id, member_id, email, active) VALUES (3, 61, 'USER2@c3.example', true) ON CONFLICT (customer_id, lower(email)) WHERE active DO UPDATE SET logins = 77 RETURNING member_id, logins;
INSERT INTO members (customer_id, member_id, email) VALUES (3, 62, 'user2@c3.example') ON CONFLICT DO NOTHING;

-- transaction
INSERT INTO members (customer_id, member_id, email) VALUES (4, 1, 'other'), (5, 1, 'other'), (6, 9, 'other') ON CONFLICT (customer_id, member_id) DO UPDATE SET email = excluded.email || members.customer_id;
INSERT INTO members (customer_id, member_id, email, logins) SELECT c, m, 'e' || m, 5 FROM generate_series(38, 44) c, generate_series(2, 4) m ON CONFLICT (customer_id, member_id) DO UPDATE SET logins = members.logins + excluded.logins WHERE members.logins < 8;

-- transaction
-- fails 23505
INSERT INTO members (customer_id, member_id, email) VALUES (3, 62, 'user2@c3.example') ON CONFLICT (customer_id, member_id) DO NOTHING;

-- transaction
-- fails 21000
INSERT INTO customers VALUES (5, 'a', 'x'), (5, 'b', 'x') ON CONFLICT (customer_id) DO UPDATE SET name = excluded.name;

-- transaction
INSERT INTO customers VALUES (7005, 'a', 'x'), (7005, 'b', 'x') ON CONFLICT DO NOTHING;

-- transaction
INSERT INTO tickets (customer_id, number, title) VALUES (1, 1, 'up'), (1, 5001, 'new') ON CONFLICT (customer_id, number) DO UPDATE SET title = excluded.title, weight = tickets.weight + 1 RETURNING customer_id, number, title, weight, double_weight;
INSERT INTO tickets (customer_id, number) VALUES (1, 1) ON CONFLICT (customer_id, number) DO UPDATE SET title = DEFAULT, feeling = 'happy', opened = now() RETURNING title, feeling, opened = now();

-- transaction
INSERT INTO accounts (tenant, acct, balance) VALUES ('acme', 5, 1), ('acme', 5000, 2) ON CONFLICT (tenant, acct) DO UPDATE SET balance = accounts.balance + excluded.balance RETURNING *;
INSERT INTO accounts (acct, tenant) VALUES (5, 'acme') ON CONFLICT DO NOTHING RETURNING *;

-- transaction
INSERT INTO codes (code, rank) VALUES ('a', 0), ('aa', 0), ('ß', 0), ('''', 0) ON CONFLICT (code) DO UPDATE SET rank = -codes.rank RETURNING code, rank;

-- transaction
INSERT INTO regions VALUES ('north', 1, 'Al'), ('new', 2, 'Xi') ON CONFLICT (region) DO UPDATE SET tax = excluded.tax RETURNING *;
SELECT c.customer_id, r.tax FROM customers c JOIN regions r USING (region) WHERE c.customer_id IN (5, 10) ORDER BY 1;
INSERT INTO regions VALUES ('more', 1, 'Ada') ON CONFLICT (chief) DO NOTHING;
INSERT INTO config VALUES ('a', 'uno', 1), ('z', 'nueve', 9) ON CONFLICT (name) DO UPDATE SET value = config.value || excluded.value RETURNING *;

-- transaction
INSERT INTO lonely VALUES (5, 'five', NULL), (1005, 'thousand', NULL), (2005, 'two', NULL) ON CONFLICT (id) DO UPDATE SET val = lonely.val || excluded.val;
INSERT INTO lonely SELECT id + 900, val, at FROM lonely WHERE id < 101 ON CONFLICT (id) DO NOTHING;
INSERT INTO lonely SELECT id, 'again', at FROM lonely ON CONFLICT (id) DO UPDATE SET val = excluded.val WHERE lonely.id % 10 = 0;

-- transaction
INSERT INTO holes SELECT id, 1, 1, 'x', true FROM holes ON CONFLICT (id) DO UPDATE SET a = holes.a + excluded.a, c = coalesce(holes.c, 'none');
WITH up AS (INSERT INTO holes (id, a) SELECT g, g FROM generate_series(35, 45) g ON CONFLICT (id) DO UPDATE SET a = excluded.a * 100 RETURNING id, a) SELECT count(*), sum(a) FROM up;
SELECT id, a FROM holes WHERE id > 30 ORDER BY id;

-- transaction
-- fails 42P10
INSERT INTO customers VALUES (5, 'again', 'x') ON CONFLICT (name) DO NOTHING;

-- transaction
-- fails 23514
INSERT INTO orders (customer_id, order_id, created) VALUES (5, 1, '2026-01-01') ON CONFLICT (customer_id, order_id) DO UPDATE SET status = 'odd';

-- transaction
-- with 5, first | 9001, second | 9002, third | 5, fourth
INSERT INTO customers (customer_id, name) VALUES ($1, $2) ON CONFLICT (customer_id) DO UPDATE SET name = excluded.name || '/' || customers.name RETURNING *;
