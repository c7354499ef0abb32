-- Statements that each shard can answer for its own rows go to all as a whole.
CREATE SCHEMA plan_scatter;
CREATE SCHEMA plan_scatter_plain;
SET search_path = plan_scatter, public;
SELECT shardlet.create_map('pc', shards => '{s1,s2,s3}'), shardlet.create_map('pc2', key_types => '{text,int}', shards => '{s1,s2,s3}'), shardlet.create_map('pc3', 'spread');
CREATE TABLE customers (customer_id bigint PRIMARY KEY, name text, region text);
CREATE TABLE orders (customer_id bigint, order_id int, created timestamptz, status text, total numeric(12,2), PRIMARY KEY (customer_id, order_id));
CREATE TABLE items (customer_id bigint, order_id int, line int, product_id int, qty int, PRIMARY KEY (customer_id, order_id, line));
CREATE TABLE products (product_id int PRIMARY KEY, category text);
CREATE TABLE pairs (a text, b int, v int, PRIMARY KEY (a, b));
CREATE TABLE config (name text PRIMARY KEY, value int);
CREATE TABLE notes (name text, note text);
CREATE TABLE here (customer_id bigint);
INSERT INTO customers SELECT i, 'name ' || i, chr(97 + i % 3) FROM generate_series(1, 30) i;
INSERT INTO orders SELECT 1 + i % 25, i, timestamptz '2026-01-01 00:00+00' + i * interval '7 hours', (ARRAY['new', 'paid', 'void'])[1 + i % 3], i * 1.5 FROM generate_series(1, 100) i;
INSERT INTO items SELECT 1 + i % 25, i, l, 1 + (i + l) % 7, l FROM generate_series(1, 100) i, generate_series(1, 3) l;
INSERT INTO products SELECT i, 'category ' || i % 3 FROM generate_series(1, 9) i;
INSERT INTO pairs SELECT chr(97 + i % 5), i % 7, i FROM generate_series(1, 35) i;
INSERT INTO config VALUES ('a', 1), ('b', 2);
INSERT INTO notes VALUES ('a', 'first'), ('a', 'second');
INSERT INTO here VALUES (7);
DO $$
DECLARE
	name text;
BEGIN
	FOREACH name IN ARRAY '{customers,orders,items,products,pairs,config,notes,here}'::text[] LOOP
		EXECUTE format('CREATE TABLE plan_scatter_plain.%I (LIKE plan_scatter.%1$I INCLUDING ALL)', name);
		EXECUTE format('INSERT INTO plan_scatter_plain.%I TABLE plan_scatter.%1$I', name);
	END LOOP;
END $$;
SELECT shardlet.distribute('customers', 'pc', 'customer_id'), shardlet.distribute('orders', 'pc', 'customer_id'), shardlet.distribute('items', 'pc', 'customer_id');
SELECT shardlet.make_reference('products'), shardlet.distribute('pairs', 'pc2', 'a, b');
CREATE TABLE spread (id int, v int);
INSERT INTO spread SELECT i, i % 4 FROM generate_series(1, 20) i;
CREATE TABLE plan_scatter_plain.spread AS TABLE spread;
SELECT shardlet.distribute('spread', 'pc3');
SELECT shardlet.place('config', 's2'), shardlet.place('notes', 's2');
-- Rows, order, limit.
SELECT by_road('SELECT * FROM orders');
SELECT by_road('SELECT order_id, total FROM orders WHERE status <> ''void'' ORDER BY total DESC NULLS LAST, order_id LIMIT 7 OFFSET 3');
SELECT by_road('SELECT order_id FROM orders ORDER BY created DESC, status LIMIT 5');
SELECT order_id FROM orders ORDER BY created DESC LIMIT 5;
SELECT upper(status) AS s FROM orders ORDER BY total + order_id LIMIT 3;
SELECT by_road('SELECT order_id FROM orders WHERE customer_id IN (3, 4, 5)');
SELECT by_road('SELECT order_id FROM orders WHERE customer_id BETWEEN 3 AND 5 OR customer_id = 9');
SELECT by_road('SELECT * FROM spread WHERE v > 1 ORDER BY id');
SELECT by_road('SELECT customer_id, generate_series(1, 2) FROM customers');
SELECT by_road('SELECT * FROM orders ORDER BY order_id LIMIT 0');
SELECT by_road('SELECT order_id FROM orders ORDER BY order_id FETCH FIRST 3 ROWS WITH TIES');
-- Joins on the key, and with a reference table on the side that keeps rows once.
SELECT by_road('SELECT o.order_id, i.line, c.name FROM orders o JOIN items i USING (customer_id, order_id) JOIN customers c USING (customer_id)');
SELECT by_road('SELECT o.order_id, i.line FROM orders o, items i WHERE o.customer_id = i.customer_id AND o.order_id = i.order_id');
SELECT by_road('SELECT o.order_id, i.line FROM orders o JOIN items i USING (order_id)');
SELECT by_road('SELECT c.name, o.order_id FROM customers c LEFT JOIN orders o USING (customer_id)');
SELECT by_road('SELECT c.name, o.order_id FROM customers c LEFT JOIN orders o ON o.customer_id = c.customer_id WHERE o.customer_id IS NULL');
SELECT by_road('SELECT c.name, o.order_id FROM customers c FULL JOIN (SELECT * FROM orders WHERE total > 100) o ON o.customer_id = c.customer_id');
SELECT by_road('SELECT c.name, o.order_id FROM customers c LEFT JOIN orders o ON o.order_id = c.customer_id');
SELECT by_road('SELECT i.line, p.category FROM items i JOIN products p USING (product_id)');
SELECT by_road('SELECT i.line, p.category FROM items i LEFT JOIN products p ON p.product_id = i.product_id AND p.category = ''category 1''');
SELECT by_road('SELECT i.line, p.category FROM products p LEFT JOIN items i ON p.product_id = i.product_id');
SELECT by_road('SELECT i.line, p.category FROM items i RIGHT JOIN products p ON p.product_id = i.product_id');
SELECT by_road('SELECT i.line, p.category FROM items i FULL JOIN products p ON p.product_id = i.product_id');
SELECT by_road('SELECT i.line, p.category FROM items i CROSS JOIN products p');
SELECT by_road('SELECT count(*) FROM products');
SELECT by_road('SELECT p.product_id, c.name FROM (products p JOIN items i USING (product_id)) LEFT JOIN customers c ON c.customer_id = i.customer_id');
SELECT by_road('SELECT a.v, b.v FROM pairs a JOIN pairs b ON a.a = b.a AND a.b = b.b');
SELECT by_road('SELECT a.v, b.v FROM pairs a JOIN pairs b ON a.a = b.a');
SELECT by_road('SELECT s.v, p.category FROM spread s JOIN products p ON p.product_id = s.id');
SELECT by_road('SELECT s.v, t.v FROM spread s JOIN spread t ON s.id = t.id');
-- Groups, windows, distinct rows that contain the key.
SELECT by_road('SELECT customer_id, sum(total) AS s FROM orders GROUP BY customer_id ORDER BY s DESC, customer_id LIMIT 10');
SELECT by_road('SELECT customer_id, status, count(*), string_agg(order_id::text, '','' ORDER BY order_id) FROM orders GROUP BY customer_id, status HAVING count(*) > 1');
SELECT by_road('SELECT a, b, count(*) FROM pairs GROUP BY a, b');
SELECT by_road('SELECT o.customer_id, count(*) FROM customers c LEFT JOIN orders o ON o.customer_id = c.customer_id GROUP BY o.customer_id');
SELECT by_road('SELECT c.customer_id, count(o.order_id) FROM customers c LEFT JOIN orders o ON o.customer_id = c.customer_id GROUP BY c.customer_id');
SELECT by_road('SELECT order_id, rank() OVER (PARTITION BY customer_id ORDER BY total DESC) FROM orders');
SELECT by_road('SELECT order_id, rank() OVER (PARTITION BY status ORDER BY total DESC) FROM orders');
SELECT by_road('SELECT DISTINCT customer_id, status FROM orders');
SELECT by_road('SELECT DISTINCT ON (customer_id) customer_id, order_id FROM orders ORDER BY customer_id, total DESC');
-- Subqueries and WITH that each shard can answer.
SELECT by_road('SELECT s.customer_id, s.n, c.name FROM (SELECT customer_id, count(*) AS n FROM orders GROUP BY customer_id) s JOIN customers c USING (customer_id) WHERE s.n > 3');
SELECT by_road('SELECT * FROM (SELECT customer_id, order_id FROM orders ORDER BY order_id LIMIT 5) s JOIN customers c USING (customer_id)');
SELECT by_road('SELECT name, (SELECT sum(total) FROM orders o WHERE o.customer_id = c.customer_id) FROM customers c');
SELECT by_road('SELECT name, (SELECT sum(total) FROM orders o WHERE o.order_id = c.customer_id) FROM customers c');
SELECT by_road('SELECT name FROM customers c WHERE EXISTS (SELECT FROM orders o WHERE o.customer_id = c.customer_id AND o.total > (SELECT avg(p.product_id) * 20 FROM products p))');
SELECT by_road('SELECT name FROM customers WHERE customer_id IN (SELECT customer_id FROM orders WHERE total > 100)');
SELECT by_road('SELECT name FROM customers WHERE customer_id NOT IN (SELECT customer_id FROM orders WHERE total > 100)');
SELECT by_road('SELECT c.name, l.order_id FROM customers c CROSS JOIN LATERAL (SELECT order_id FROM orders o WHERE o.customer_id = c.customer_id ORDER BY total DESC LIMIT 2) l');
SELECT by_road('SELECT c.name, l.order_id FROM customers c LEFT JOIN LATERAL (SELECT order_id FROM orders o WHERE o.customer_id = c.customer_id AND total > 100 LIMIT 1) l ON true');
SELECT by_road('WITH big AS (SELECT customer_id, sum(total) AS t FROM orders GROUP BY 1) SELECT a.customer_id, b.t FROM big a JOIN big b USING (customer_id) WHERE a.t > 100');
SELECT by_road('WITH big AS MATERIALIZED (SELECT * FROM orders WHERE total > 100) SELECT c.name FROM customers c WHERE EXISTS (SELECT FROM big b WHERE b.customer_id = c.customer_id)');
SELECT by_road('WITH p AS (SELECT category, min(product_id) AS m FROM products GROUP BY 1) SELECT i.line, p.m FROM items i JOIN p ON p.m = i.product_id');
-- Set operations.
SELECT by_road('SELECT order_id FROM orders UNION ALL SELECT line FROM items');
SELECT by_road('SELECT customer_id, order_id FROM orders UNION SELECT customer_id, order_id FROM items ORDER BY 2, 1 LIMIT 9');
SELECT by_road('SELECT customer_id FROM customers EXCEPT SELECT customer_id FROM orders');
SELECT by_road('SELECT order_id FROM orders INTERSECT SELECT line FROM items');
SELECT by_road('SELECT product_id FROM items UNION ALL SELECT product_id FROM products');
-- Parameters, and LIMIT as one.
PREPARE latest(numeric, int) AS SELECT order_id FROM orders WHERE total > $1 ORDER BY total DESC LIMIT $2 OFFSET 1;
SET plan_cache_mode = force_generic_plan;
EXPLAIN (VERBOSE, COSTS OFF) EXECUTE latest(100, 2);
EXECUTE latest(100, 2);
EXECUTE latest(0, 1);
EXECUTE latest(0, -1);
RESET plan_cache_mode;
-- Changes of many shards.
UPDATE orders SET status = 'old' WHERE created < '2026-01-05';
UPDATE plan_scatter_plain.orders SET status = 'old' WHERE created < '2026-01-05';
EXPLAIN (COSTS OFF) UPDATE orders o SET total = total + p.n FROM (SELECT customer_id, count(*) AS n FROM items GROUP BY 1) p WHERE p.customer_id = o.customer_id;
UPDATE orders o SET total = total + p.n FROM (SELECT customer_id, count(*) AS n FROM items GROUP BY 1) p WHERE p.customer_id = o.customer_id;
UPDATE plan_scatter_plain.orders o SET total = total + p.n FROM (SELECT customer_id, count(*) AS n FROM plan_scatter_plain.items GROUP BY 1) p WHERE p.customer_id = o.customer_id;
EXPLAIN (COSTS OFF) DELETE FROM items i USING products p WHERE p.product_id = i.product_id AND p.category = 'category 2' RETURNING i.line;
WITH gone AS (DELETE FROM plan_scatter_plain.items i USING plan_scatter_plain.products p WHERE p.product_id = i.product_id AND p.category = 'category 2' RETURNING i.*) SELECT count(*) FROM gone;
DELETE FROM items i USING products p WHERE p.product_id = i.product_id AND p.category = 'category 2';
DELETE FROM customers c WHERE NOT EXISTS (SELECT FROM orders o WHERE o.customer_id = c.customer_id) RETURNING length(name);
DELETE FROM plan_scatter_plain.customers c WHERE NOT EXISTS (SELECT FROM plan_scatter_plain.orders o WHERE o.customer_id = c.customer_id);
SELECT by_road('TABLE orders'), by_road('TABLE items'), by_road('TABLE customers');
CREATE TABLE archive (total numeric, order_id int, customer_id bigint, note text DEFAULT 'kept', PRIMARY KEY (customer_id, order_id));
CREATE TABLE plan_scatter_plain.archive (LIKE archive INCLUDING ALL);
SELECT shardlet.distribute('archive', 'pc', 'customer_id');
EXPLAIN (VERBOSE, COSTS OFF) INSERT INTO archive (order_id, total, customer_id) SELECT order_id, total, customer_id FROM orders WHERE total > 50;
INSERT INTO archive (order_id, total, customer_id) SELECT order_id, total, customer_id FROM orders WHERE total > 50;
INSERT INTO plan_scatter_plain.archive (order_id, total, customer_id) SELECT order_id, total, customer_id FROM plan_scatter_plain.orders WHERE total > 50;
INSERT INTO archive (customer_id, order_id) SELECT o.customer_id, i.order_id FROM orders o JOIN items i USING (customer_id, order_id) GROUP BY 1, 2 ON CONFLICT (customer_id, order_id) DO UPDATE SET note = archive.note || '!';
INSERT INTO plan_scatter_plain.archive (customer_id, order_id) SELECT o.customer_id, i.order_id FROM plan_scatter_plain.orders o JOIN plan_scatter_plain.items i USING (customer_id, order_id) GROUP BY 1, 2 ON CONFLICT (customer_id, order_id) DO UPDATE SET note = archive.note || '!';
SELECT road('INSERT INTO archive (customer_id, order_id) SELECT customer_id + 1, order_id + 1000 FROM orders');
INSERT INTO archive (customer_id, order_id) SELECT customer_id + 1, order_id + 1000 FROM orders;
INSERT INTO plan_scatter_plain.archive (customer_id, order_id) SELECT customer_id + 1, order_id + 1000 FROM plan_scatter_plain.orders;
SELECT by_road('TABLE archive');
SELECT count(*) FROM archive a WHERE NOT EXISTS (SELECT FROM archive b WHERE b.customer_id = a.customer_id AND b.order_id = a.order_id);
-- However the session quotes names.
SET quote_all_identifiers = on;
SELECT by_road('SELECT count(*) FROM orders');
SELECT by_road('SELECT max(quote_ident(status)), max(format(''%I'', status)) FROM orders');
SELECT by_road('SELECT quote_ident(status) FROM orders WHERE total > 10');
RESET quote_all_identifiers;
-- Relations of an arm of UNION are not those of the statement.
SELECT by_road('SELECT o.order_id FROM customers c JOIN orders o USING (customer_id) JOIN items i USING (customer_id, order_id) UNION ALL SELECT customer_id FROM customers');
-- However deep.
SELECT by_road(format('SELECT max(order_id%s) FROM orders', repeat(' + 1', 1200)));
-- Blanks at the end do not count in bpchar, so equal values may be on several shards.
INSERT INTO pairs VALUES ('a ', 1, 1), ('a  ', 1, 2), ('a   ', 1, 3);
INSERT INTO plan_scatter_plain.pairs VALUES ('a ', 1, 1), ('a  ', 1, 2), ('a   ', 1, 3);
SELECT by_road('SELECT count(*) FROM pairs x JOIN pairs y ON x.a::bpchar = y.a::bpchar AND x.b = y.b');
SELECT by_road('SELECT count(*) FROM pairs GROUP BY a::bpchar, b');
-- A row on one shard that cannot be changed leaves all as they are.
UPDATE orders SET total = total / (order_id - 50);
SELECT by_road('TABLE orders');
SET client_min_messages = warning;
DROP TABLE customers, orders, items, products, pairs, config, notes, spread, archive;
DROP SCHEMA plan_scatter, plan_scatter_plain CASCADE;
SELECT shardlet.drop_map('pc'), shardlet.drop_map('pc2'), shardlet.drop_map('pc3');
