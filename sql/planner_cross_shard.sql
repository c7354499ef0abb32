-- shardlet.cross_shard finds statements that go to all shards, with every kind of plan.
CREATE SCHEMA plan_cross_shard;
SET search_path = plan_cross_shard;
SELECT shardlet.create_map('cs', shards => '{s1,s2,s3}'), shardlet.create_map('cs_one', shards => '{s1}'),
	shardlet.create_map('cs_spread', 'spread', shards => '{s1,s2}');
CREATE TABLE orders (customer_id bigint, id int, total int, PRIMARY KEY (customer_id, id));
INSERT INTO orders SELECT 1 + i % 25, i, i FROM generate_series(1, 100) i;
CREATE TABLE alone (id int PRIMARY KEY);
INSERT INTO alone VALUES (1), (2);
CREATE TABLE events (at int);
INSERT INTO events SELECT generate_series(1, 10);
SELECT shardlet.distribute('orders', 'cs', 'customer_id'), shardlet.distribute('alone', 'cs_one', 'id'), shardlet.distribute('events', 'cs_spread');
SHOW shardlet.cross_shard;
SELECT count(*) FROM orders;
SET shardlet.cross_shard = warn;
SELECT count(*) FROM orders;
UPDATE orders SET total = total WHERE id = 3;
-- Pruned to some shards, to one, or to none.
SELECT count(*) FROM orders WHERE customer_id IN (1, 2);
SELECT count(*) FROM orders WHERE customer_id = 1;
SELECT count(*) FROM orders WHERE false;
UPDATE orders SET total = total WHERE customer_id = 1;
INSERT INTO orders VALUES (1, 1000, 1);
-- A map that has one shard has no other way.
SELECT count(*) FROM alone;
-- One warning for a statement, however often it asks.
SELECT count(*) FROM orders a, orders b WHERE a.total = b.total;
SET shardlet.cross_shard = forbid;
SELECT count(*) FROM events;
SELECT count(*) FROM orders;
SELECT a.id FROM orders a, orders b WHERE a.total = b.id AND b.customer_id = 1;
DELETE FROM orders;
EXPLAIN (COSTS OFF) SELECT total FROM orders;
SELECT * FROM shardlet.query('cs', 'SELECT 1') AS q(a int);
-- The same without the plans of whole statements.
SET shardlet.ship = off;
SET shardlet.scatter = off;
SELECT count(*) FROM orders;
SELECT count(*) FROM orders WHERE customer_id = 1;
RESET shardlet.ship;
RESET shardlet.scatter;
SET shardlet.cross_shard = sometimes;
RESET shardlet.cross_shard;
SELECT count(*) FROM orders;
SET client_min_messages = warning;
DROP TABLE orders, alone, events;
DROP SCHEMA plan_cross_shard CASCADE;
SELECT shardlet.drop_map('cs'), shardlet.drop_map('cs_one'), shardlet.drop_map('cs_spread');
SELECT count(*) FROM shardlet.execute(NULL, 'DROP SCHEMA IF EXISTS plan_cross_shard CASCADE');
