-- Writes with what PostgreSQL has had since 16, 17 or 18.

-- What a row was before, with all plans.

-- transaction
-- since 18
UPDATE orders SET total = total + 1, status = 'void' WHERE customer_id = 11 RETURNING old.order_id, old.total, new.total, old.status, new.status, status, total;
-- since 18
UPDATE orders SET total = total + 1 WHERE order_id = 2 RETURNING customer_id, old.total, new.total, new.total - old.total, old.status IS DISTINCT FROM new.status;
-- since 18
UPDATE orders SET status = 'sent' WHERE customer_id = 12 AND order_id < 4 RETURNING WITH (OLD AS o, NEW AS n) o.status, n.status, o.order_id;
-- since 18
UPDATE orders SET status = 'done' WHERE customer_id = 12 AND order_id < 4 RETURNING old, new, old.*, new.*;
-- since 18
DELETE FROM items WHERE customer_id = 11 RETURNING old.line, new.line, line, old IS NULL, new IS NULL;
-- since 18
DELETE FROM items WHERE product_id = 7 RETURNING old.customer_id, old.order_id, old.line, new.price;

-- transaction
-- since 18
INSERT INTO customers (customer_id, name) VALUES (1000, 'a') RETURNING old.customer_id, new.customer_id, old IS NULL, name, old, new;
-- since 18
INSERT INTO customers (customer_id, name) VALUES (1001, 'a'), (1002, 'b'), (1003, 'c') RETURNING old.name, new.name, customer_id;
-- since 18
INSERT INTO customers (name, customer_id) SELECT name, customer_id + 2000 FROM customers WHERE customer_id < 5 RETURNING old.name, new.*, old.customer_id;
-- since 18
INSERT INTO customers (customer_id, name) VALUES (1000, 'again') ON CONFLICT DO NOTHING RETURNING old.name, new.name;
-- since 18
INSERT INTO customers (customer_id, name) VALUES (1000, 'again') ON CONFLICT (customer_id) DO UPDATE SET name = excluded.name || customers.name RETURNING new.name, customer_id;

-- A row that goes to another shard.

-- transaction
-- since 18
UPDATE customers SET customer_id = customer_id + 5000 WHERE customer_id BETWEEN 190 AND 195 RETURNING old.customer_id, new.customer_id, old.name = new.name;
-- since 18
UPDATE tree SET node = node + 1000, parent = node WHERE node < 9 RETURNING old.node, new.node, old.parent, new.parent;
-- since 18
UPDATE skew s SET n = c.customer_id FROM customers c WHERE c.customer_id = s.customer_id AND c.customer_id < 4 RETURNING old.n, new.n, c.name, old.v;
-- since 18
WITH changed AS (UPDATE orders SET total = 5 WHERE customer_id = 13 RETURNING old.total AS was, new.total AS is) SELECT count(*), sum(was), sum("is") FROM changed;
-- since 18
WITH gone AS (DELETE FROM skew WHERE n = 4 RETURNING old.customer_id, old.v, new.n) SELECT v, count(*), count(n) FROM gone GROUP BY v ORDER BY v;
-- since 18
UPDATE rich SET total = total + 7 WHERE customer_id = 14 RETURNING old.total, new.total;
-- since 18
UPDATE products SET name = name || '!' WHERE product_id < 4 RETURNING old.name, new.name;
-- since 18
UPDATE config SET value = 'x' WHERE weight IS NULL OR weight > 1 RETURNING old.value, new.value, name;

-- with 5 | 9 | 900
-- since 18
UPDATE orders SET total = coalesce(total, 0) + 1 WHERE customer_id = $1 AND order_id = 1 RETURNING old.total - new.total, order_id;

-- Virtual columns.

-- transaction
-- since 18
ALTER TABLE orders ADD COLUMN twofold numeric GENERATED ALWAYS AS (total * 2) VIRTUAL, ADD COLUMN shout text GENERATED ALWAYS AS (upper(status) || customer_id);
-- since 18
SELECT order_id, total, twofold, shout FROM orders WHERE customer_id = 11 ORDER BY order_id;
-- since 18
SELECT shout, twofold FROM orders WHERE twofold > 198 ORDER BY twofold, shout;
-- since 18
SELECT left(shout, 4) AS s, count(*), sum(twofold), max(twofold) FROM orders GROUP BY s ORDER BY s;
-- since 18
SELECT o FROM orders o WHERE customer_id = 11 ORDER BY order_id;
-- since 18
SELECT o.twofold, i.line FROM orders o JOIN items i USING (customer_id, order_id) WHERE o.shout = 'NEW11' ORDER BY 1, 2;
-- since 18
SELECT c.customer_id, o.twofold, o.shout FROM customers c LEFT JOIN orders o ON o.customer_id = c.customer_id AND o.order_id = 12 WHERE c.customer_id < 30 ORDER BY 1;
-- since 18
SELECT c.region, count(o.shout), sum(o.twofold) FROM customers c LEFT JOIN orders o USING (customer_id) GROUP BY c.region ORDER BY 1;
-- since 18
SELECT twofold, count(*) FROM orders GROUP BY twofold HAVING twofold IS NULL OR count(*) > 2 ORDER BY 1;
-- since 18
SELECT shout, count(*) FROM orders GROUP BY ROLLUP (shout) HAVING shout IS NULL;
-- since 18
UPDATE orders SET total = twofold WHERE twofold < 5 RETURNING customer_id, order_id, old.twofold, new.twofold, twofold, shout;
-- since 18
UPDATE orders SET status = 'void' WHERE customer_id = 12 RETURNING old.shout, new.shout, order_id;
-- since 18
UPDATE orders SET customer_id = 199 WHERE customer_id = 13 AND NOT EXISTS (SELECT FROM items i WHERE i.customer_id = orders.customer_id AND i.order_id = orders.order_id) RETURNING old.shout, new.shout;
-- since 18
INSERT INTO orders (customer_id, order_id, created, total) VALUES (199, 51, '2026-01-01', 5), (198, 51, '2026-01-01', 6) RETURNING twofold, shout;
-- since 18
INSERT INTO orders (customer_id, order_id, created, total) VALUES (199, 51, '2026-01-01', 5) ON CONFLICT (customer_id, order_id) DO UPDATE SET total = orders.twofold + excluded.twofold RETURNING total, twofold;
-- since 18
INSERT INTO orders (customer_id, order_id, created, total) SELECT customer_id, 60 + order_id, created, twofold FROM orders WHERE order_id = 11 RETURNING customer_id, shout, twofold;
-- since 18
DELETE FROM orders WHERE twofold = 12 RETURNING shout, twofold;
-- since 18
COPY orders (customer_id, order_id, created, status, total) FROM STDIN;
198	70	2026-02-02	new	1.5
197	70	2026-02-02	paid	\N
\.
-- since 18
COPY (SELECT customer_id, twofold, shout FROM orders WHERE order_id = 70 ORDER BY 1) TO STDOUT;
-- since 18
SELECT * FROM orders WHERE order_id >= 50 ORDER BY customer_id, order_id;
-- since 18
-- fails 428C9
UPDATE orders SET twofold = 5 WHERE customer_id = 3;

-- JSON_TABLE and others in writes.

-- transaction
-- since 17
INSERT INTO customers (customer_id, name) SELECT id, name FROM JSON_TABLE('[{"id": 3001, "name": "a"}, {"id": 3002, "name": "b"}]'::jsonb, '$[*]' COLUMNS (id bigint, name text)) RETURNING customer_id, name;
-- since 17
UPDATE customers c SET name = t.name FROM JSON_TABLE('[{"id": 5, "name": "a"}, {"id": 6, "name": "b"}]'::jsonb, '$[*]' COLUMNS (id bigint, name text)) t WHERE t.id = c.customer_id RETURNING c.customer_id, c.name;
-- since 17
DELETE FROM skew WHERE customer_id = JSON_VALUE('{"a": 7}', '$.a' RETURNING bigint) AND n = 3 RETURNING v;
-- since 16
UPDATE events SET payload = JSON_OBJECT('n': id RETURNING jsonb) WHERE id < 4 RETURNING id, payload;
