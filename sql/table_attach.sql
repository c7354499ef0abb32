-- Tables that the shards have already are adopted as they are.
CREATE SCHEMA adopt;
SELECT shardlet.create_map('adopt', shardlets => 8);
SELECT count(*) FROM shardlet.execute('adopt', 'CREATE SCHEMA adopt');
SELECT count(*) FROM shardlet.execute('adopt', $$CREATE TYPE adopt.state AS ENUM ('new', 'done')$$);
SELECT count(*) FROM shardlet.execute('adopt', $$CREATE TABLE adopt.orders (id bigserial PRIMARY KEY, customer_id bigint NOT NULL,
	state adopt.state DEFAULT 'new', amount numeric(8,2) CHECK (amount > 0), double_amount numeric GENERATED ALWAYS AS (amount * 2) STORED)$$);
SELECT count(*) FROM shardlet.execute('adopt', 'CREATE TABLE adopt.lines (customer_id bigint NOT NULL, order_id bigint REFERENCES adopt.orders)');

-- The router gets the foreign table, and what it needs.
SELECT shardlet.attach('adopt.orders', 'adopt', 'customer_id');
SET search_path = adopt;
SELECT shardlet.attach('lines', 'adopt', 'customer_id');
\d orders
SELECT * FROM shardlet.tables WHERE tbl::text IN ('orders', 'lines') ORDER BY tbl::text;
INSERT INTO orders (customer_id, amount) SELECT g, g FROM generate_series(1, 20) g;
SELECT count(*), sum(double_amount), count(DISTINCT id) FROM orders;
SELECT state FROM orders WHERE customer_id = 3;

-- Again: the definition is read again.
SELECT count(*) FROM shardlet.execute('adopt', $$ALTER TABLE adopt.orders ADD note varchar(20) DEFAULT 'x', ALTER amount TYPE numeric(12,2),
	ALTER state SET NOT NULL, ALTER state DROP DEFAULT, DROP COLUMN double_amount, DROP CONSTRAINT orders_amount_check, ADD CONSTRAINT above CHECK (amount > -1)$$);
SELECT shardlet.attach('orders', 'adopt', 'customer_id');
\d orders
SELECT shardlet.attach('orders', shard => 's1');

-- Differences are listed, all of them.
SELECT shardlet.detach('orders');
SELECT count(*) FROM shardlet.execute('adopt', 'ALTER TABLE adopt.orders ADD extra int', shards => '{s1}');
SELECT count(*) FROM shardlet.execute('adopt', 'ALTER TABLE adopt.orders ALTER note TYPE text', shards => '{s2}');
SELECT count(*) FROM shardlet.execute('adopt', 'CREATE INDEX orders_note ON adopt.orders (note)', shards => '{s3}');
SELECT count(*) FROM shardlet.execute('adopt', $$ALTER TYPE adopt.state ADD VALUE 'lost'$$, shards => '{s4}', atomic => false);
SELECT shardlet.attach('orders', 'adopt', 'customer_id');
SELECT shardlet.attach('orders', shard => 's3');
SELECT count(*) FROM orders;
SELECT shardlet.detach('orders');
SELECT shardlet.detach('lines');
SELECT count(*) FROM shardlet.execute('adopt', 'DROP TABLE adopt.lines', shards => '{s2,s4}');
SELECT shardlet.attach('lines', 'adopt', 'customer_id');
SELECT shardlet.attach('nonesuch', 'adopt', 'customer_id');

-- Rows in the wrong place are counted, for every kind of map.
SELECT count(*) FROM shardlet.execute('adopt', 'CREATE TABLE adopt.misplaced (k bigint NOT NULL, t text NOT NULL, d date NOT NULL, n int)');
SELECT count(*) FROM shardlet.execute('adopt', $$INSERT INTO adopt.misplaced SELECT g, chr(96 + g), date '2026-01-01' + g, g FROM generate_series(1, 12) g$$, shards => '{s1,s3}');
SELECT shardlet.attach('misplaced', 'adopt', 'k');
SELECT shardlet.create_map('adopt_two', key_types => '{text, bigint}');
SELECT shardlet.attach('misplaced', 'adopt_two', 't, k');
SELECT shardlet.create_map('adopt_range', 'range', '{date}');
SELECT shardlet.assign_range('adopt_range', 's1', NULL, '2026-01-05') > 0, shardlet.assign_range('adopt_range', 's3', '2026-01-05', '2026-01-12') > 0;
SELECT shardlet.attach('misplaced', 'adopt_range', 'd');
SELECT shardlet.create_map('adopt_text_range', 'range', '{text}');
SELECT shardlet.assign_range('adopt_text_range', 's1', NULL, 'd') > 0, shardlet.assign_range('adopt_text_range', 's3', 'd', NULL) > 0;
SELECT shardlet.attach('misplaced', 'adopt_text_range', 't');
SELECT shardlet.create_map('adopt_list', 'list', '{text}');
SELECT shardlet.assign_keys('adopt_list', 's1', ARRAY['a', 'b', 'c']), shardlet.assign_default('adopt_list', 's3') > 0;
SELECT shardlet.attach('misplaced', 'adopt_list', 't');
SELECT shardlet.create_map('adopt_via', 'list', via => '$1 % 4');
SELECT shardlet.assign_keys('adopt_via', 's1', ARRAY[0, 1]), shardlet.assign_keys('adopt_via', 's3', ARRAY[2]);
SELECT shardlet.attach('misplaced', 'adopt_via', 'k');
SELECT count(*) FROM shardlet.execute('adopt', 'DELETE FROM adopt.misplaced WHERE k % 4 NOT IN (0, 1)', shards => '{s1}');
SELECT count(*) FROM shardlet.execute('adopt', 'DELETE FROM adopt.misplaced WHERE k % 4 <> 2', shards => '{s3}');
SELECT shardlet.attach('misplaced', 'adopt_via', 'k');
SELECT count(*) FROM misplaced;
SELECT shardlet.detach('misplaced');
SELECT shardlet.attach('misplaced', 'adopt', 'k', verify => false);
SELECT shardlet.detach('misplaced');

-- Keys that do not suit, and other mistakes.
SELECT shardlet.attach('misplaced', 'adopt', 'nonesuch');
SELECT shardlet.attach('misplaced', 'adopt');
SELECT shardlet.attach('misplaced', 'adopt', 't');
SELECT shardlet.create_map('adopt_int', key_types => '{int}');
SELECT shardlet.attach('misplaced', 'adopt_int', 'n');
SELECT shardlet.attach('misplaced', 'adopt', 'k', 's1');
SELECT shardlet.attach('misplaced', key => 'k');
SELECT shardlet.attach(NULL, 'adopt', 'k');
SELECT shardlet.attach('a.b.c.d', 'adopt', 'k');
SELECT shardlet.detach('pg_class');
CREATE TABLE misplaced (k bigint);
SELECT shardlet.attach('misplaced', 'adopt', 'k', verify => false);
DROP TABLE misplaced;

-- A schema at a time.
IMPORT FOREIGN SCHEMA adopt FROM SERVER s1 INTO public OPTIONS (map 'adopt', key 'k');
IMPORT FOREIGN SCHEMA adopt FROM SERVER s1 INTO adopt OPTIONS (nonesuch 'x');
IMPORT FOREIGN SCHEMA adopt FROM SERVER s1 INTO adopt OPTIONS (key 'k');
IMPORT FOREIGN SCHEMA adopt LIMIT TO (misplaced) FROM SERVER s1 INTO adopt OPTIONS (map 'adopt', key 'k');
IMPORT FOREIGN SCHEMA adopt LIMIT TO (misplaced) FROM SERVER s1 INTO adopt OPTIONS (map 'adopt_via', key 'k');
IMPORT FOREIGN SCHEMA adopt EXCEPT (misplaced, orders) FROM SERVER s1 INTO adopt;
SELECT tbl, kind, map, key, shard, attached FROM shardlet.tables WHERE tbl::text IN ('orders', 'lines', 'misplaced') ORDER BY tbl::text;

-- Columns may stand in another order on a shard.  USING with names that are not the columns' own must not depend on it.
SELECT count(*) FROM shardlet.execute('adopt', 'CREATE TABLE adopt.pairs (k bigint NOT NULL, a bigint, b bigint)', shards => '{s1,s2}');
SELECT count(*) FROM shardlet.execute('adopt', 'CREATE TABLE adopt.pairs (b bigint, a bigint, k bigint NOT NULL)', shards => '{s3,s4}');
SELECT shardlet.attach('adopt.pairs', 'adopt', 'k');
INSERT INTO pairs SELECT g, g * 10, g * 100 FROM generate_series(1, 20) g;
SELECT sum(key), sum(x.a), sum(y.b) FROM pairs x(key) JOIN pairs y(key) USING (key);
SELECT key, x.a, y.b FROM pairs x(key) JOIN pairs y(key) USING (key) ORDER BY key LIMIT 8;
SELECT x.* FROM pairs x(a, k) JOIN pairs y(a, k) USING (k, a) ORDER BY 1 LIMIT 8;
CREATE VIEW joined AS SELECT k, x.a, y.b FROM pairs x JOIN pairs y USING (k);
SELECT sum(k), sum(a), sum(b) FROM joined;
SELECT sum(k), sum(x.a), sum(y.b) FROM pairs x JOIN pairs y(key) ON y.key = x.k JOIN pairs z USING (k);
ALTER TABLE pairs RENAME k TO key;
SELECT sum(k), sum(a), sum(b) FROM joined;
DROP VIEW joined;
DROP TABLE pairs;

-- Dropping one that was attached leaves the shards alone.
DROP TABLE misplaced;
SELECT shardlet.undistribute('lines');
\d lines
SET client_min_messages = warning;
DROP SCHEMA adopt CASCADE;
SELECT sum(rows) FROM shardlet.query('adopt', 'SELECT count(*) FROM adopt.misplaced', per_shard => true) AS q(rows bigint);
SELECT count(*) FROM shardlet.execute(NULL, 'DROP SCHEMA adopt CASCADE');
SELECT shardlet.drop_map(map) FROM shardlet.maps WHERE map::text LIKE 'adopt%';
