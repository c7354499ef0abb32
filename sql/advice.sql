-- Before anything is sharded: a key, what is in its way, and tables that can be distributed afterwards.
SET client_min_messages = warning;
CREATE SCHEMA adv;
SET search_path = adv;
CREATE TABLE countries (code char(2) PRIMARY KEY, name text);
CREATE TABLE customers (id bigint PRIMARY KEY, country char(2) REFERENCES countries, email text);
CREATE UNIQUE INDEX by_email ON customers (lower(email)) WHERE email <> '';
CREATE TABLE orders (id bigserial PRIMARY KEY, customer_id bigint REFERENCES customers, number int UNIQUE, parent bigint REFERENCES orders ON DELETE SET NULL);
CREATE TABLE "order Items" (id bigserial PRIMARY KEY, order_id bigint REFERENCES orders ON DELETE CASCADE, what text);
CREATE TABLE notes (item_id bigint REFERENCES "order Items", note text);
CREATE UNLOGGED TABLE carts (customer_id int NOT NULL);
CREATE TABLE log (at timestamptz, line text);
INSERT INTO countries VALUES ('de', 'Germany'), ('fr', 'France');
INSERT INTO customers SELECT i, CASE WHEN i % 10 = 0 THEN 'fr' ELSE 'de' END, 'c' || i FROM generate_series(1, 1000) i;
INSERT INTO orders SELECT i, i % 1000 + 1, i, nullif(i % 5000, 0) FROM generate_series(1, 5000) i;
UPDATE orders o SET parent = (SELECT min(id) FROM orders p WHERE p.customer_id = o.customer_id);
INSERT INTO "order Items" SELECT i, i % 5000 + 1, 'x' FROM generate_series(1, 5000) i;
INSERT INTO notes SELECT i, 'n' FROM generate_series(1, 100) i;
SELECT key, score, reason FROM shardlet.advise_key('customers');
ANALYZE countries, customers, orders, "order Items", notes, carts, log;
SELECT tbl, key, score > 0 AS score FROM shardlet.advise_key() WHERE tbl::text ~ '^(adv\.)?(countries|customers|orders)$' AND score > 0 ORDER BY advise_key.score DESC, 1, 2 LIMIT 2;
SELECT key, reason FROM shardlet.advise_key('orders') WHERE key = 'customer_id';
SELECT key, score FROM shardlet.advise_key('customers') WHERE key = 'country';
SELECT key, reason FROM shardlet.advise_key('customers') WHERE key = 'id';

SELECT tbl, problem FROM shardlet.check_schema('adv', 'customer_id');
SELECT ddl FROM shardlet.check_schema('adv', 'customer_id') WHERE ddl IS NOT NULL \gexec
SELECT * FROM shardlet.check_schema('adv', 'customer_id');
SELECT shardlet.create_map('adv');
SELECT shardlet.distribute_tables('{customers, orders, "\"order Items\"", notes, carts}', 'adv', '{id, customer_id, customer_id, customer_id, customer_id}');
\d orders
SELECT count(*), count(parent) FROM orders JOIN "order Items" i USING (customer_id) WHERE i.order_id = orders.id;
SELECT count(*) FROM notes n JOIN "order Items" i ON n.item_id = i.id AND n.customer_id = i.customer_id;
DELETE FROM orders WHERE customer_id = 2 AND id = parent;
SELECT count(*) FROM orders WHERE customer_id = 2 AND parent IS NULL;
-- Nothing is left but what has no key.
SELECT * FROM shardlet.check_schema('adv', 'customer_id');
SELECT * FROM shardlet.check_schema('none', 'x');
SELECT * FROM shardlet.check_schema(NULL, 'x');
DROP SCHEMA adv CASCADE;
SELECT count(*) FROM shardlet.execute(NULL, 'DROP SCHEMA IF EXISTS adv CASCADE');
SELECT shardlet.drop_map('adv');
