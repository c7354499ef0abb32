-- INSERT ... VALUES of rows that belong to several shards.  Each paragraph is
-- rolled back.

-- transaction
-- ordered
INSERT INTO customers (region, customer_id, name) VALUES ('r1', 7001, 'n1'), ('r2', 7002, 'n2'), (NULL, 7003, 'n3'), ('r4', 7004, 'n4'), ('r5', 7005, 'n5') RETURNING name, customer_id, region;
-- ordered
INSERT INTO customers (name, customer_id) VALUES ('a', 7012), ('b', 7011), ('c', 7013) RETURNING *;
-- ordered
INSERT INTO customers VALUES (7021, 'a', 'x'), (7020, 'b', 'y') RETURNING customer_id + 1, upper(name), region || '!', now() IS NOT NULL;
SELECT * FROM customers WHERE customer_id > 7000 ORDER BY 1;

-- transaction
INSERT INTO customers (customer_id, name) VALUES (7001, 'a'), (7002, 'b'), (7003, 'c');
-- ordered
INSERT INTO orders (total, status, order_id, created, customer_id) VALUES (1.005, DEFAULT, 1, '2026-02-03', 7001), (NULL, 'paid', 1, '2026-02-04', 7002), (DEFAULT, 'void', 2, '2026-02-05', 7003), (3, DEFAULT, 3, '2026-02-06', 7001) RETURNING total, status, order_id, customer_id;
-- ordered
INSERT INTO orders AS o (customer_id, order_id, created, total) VALUES (7001, 1, '2027-01-01', 7), (7004 - 2, 1, '2027-01-02', 8), (7003, 9, '2027-01-03', 9) ON CONFLICT (customer_id, order_id) DO UPDATE SET total = coalesce(o.total, 0) + excluded.total, status = 'done' RETURNING customer_id, order_id, total, status;
INSERT INTO orders AS o (customer_id, order_id, created, total) VALUES (7001, 1, '2027-01-01', 7), (7002, 1, '2027-01-02', 8), (7003, 10, '2027-01-03', 9) ON CONFLICT (customer_id, order_id) DO UPDATE SET total = excluded.total WHERE o.customer_id = 7001 RETURNING customer_id, order_id, total;
INSERT INTO orders (customer_id, order_id, created) VALUES (7001, 1, '2027-01-01'), (7002, 77, '2027-01-02'), (7003, 10, '2027-01-03') ON CONFLICT DO NOTHING RETURNING customer_id, order_id;
-- fails 21000
INSERT INTO orders AS o (customer_id, order_id, created) VALUES (7001, 1, '2027-01-01'), (7002, 1, '2027-01-02'), (7001, 1, '2027-01-03') ON CONFLICT (customer_id, order_id) DO UPDATE SET total = 5;

-- transaction
-- fails 23505
INSERT INTO customers VALUES (7001, 'a'), (5, 'again'), (7002, 'b') RETURNING name;

-- transaction
-- fails 23514
INSERT INTO orders (customer_id, order_id, created, status) VALUES (1, 500, '2026-01-01', 'new'), (2, 500, '2026-01-01', 'wrong'), (3, 500, '2026-01-01', 'new');

-- transaction
-- fails 23502
-- sqlstate
INSERT INTO customers VALUES (7001, 'a'), (NULL, 'b');

-- transaction
INSERT INTO tickets (title, customer_id) VALUES ('a', 1), (DEFAULT, 2), ('c', 3), ('d', 4) RETURNING customer_id, title, weight, double_weight, token IS NOT NULL;
INSERT INTO tickets (feeling, weight, customer_id) VALUES ('sad', 1, 11), (DEFAULT, 2, 12), ('happy', NULL, 13) RETURNING customer_id, feeling, weight, double_weight;
SELECT count(*), count(DISTINCT number), count(DISTINCT token), count(title), sum(weight) FROM tickets WHERE customer_id < 20;

-- transaction
-- with 7101, 7102, a | 7103, 7104, b | 7106, 7105, NULL
INSERT INTO customers (name, region, customer_id) VALUES (coalesce($3::text, 'none'), $3, $1::bigint), (coalesce($3, 'none') || '2', upper($3), $2::bigint) ON CONFLICT (customer_id) DO UPDATE SET name = customers.name || excluded.name RETURNING customer_id, name, region;
SELECT * FROM customers WHERE customer_id > 7100 ORDER BY 1;
