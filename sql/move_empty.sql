-- A shard that owns nothing more of a map gets its tables emptied at once, where that
-- makes no other difference than rows that are deleted.
SET client_min_messages = warning;
CREATE SCHEMA me;
SET search_path = me;
SELECT shardlet.create_map('me', shards => '{s1}', shardlets => 2);
CREATE TABLE customers (id bigint PRIMARY KEY, name text);
CREATE TABLE orders (customer_id bigint REFERENCES customers, id int, PRIMARY KEY (customer_id, id));
CREATE TABLE events (id bigint, at date, PRIMARY KEY (id, at)) PARTITION BY RANGE (at);
CREATE TABLE events_1 PARTITION OF events FOR VALUES FROM ('2024-01-01') TO ('2025-01-01');
SELECT shardlet.distribute_tables('{customers, orders, events}', 'me', '{id, customer_id, id}');
INSERT INTO customers SELECT g, 'c' || g FROM generate_series(1, 100) g;
INSERT INTO orders SELECT g, 1 FROM generate_series(1, 100) g;
INSERT INTO events SELECT g, '2024-05-01' FROM generate_series(1, 100) g;

-- Rows are gone either way, and the files of emptied tables with them.
CREATE FUNCTION left_on(shard name, OUT rows bigint, OUT blocks boolean) LANGUAGE sql AS $$
	SELECT r.rows, b.rows > 0 FROM shardlet.execute(NULL, 'SELECT FROM me.customers UNION ALL SELECT FROM me.orders UNION ALL SELECT FROM me.events', shards => ARRAY[shard]) r,
		shardlet.execute(NULL, 'SELECT FROM generate_series(1, (pg_relation_size(''me.customers'') + pg_relation_size(''me.orders'') + pg_relation_size(''me.events_1'')) / 8192)',
			shards => ARRAY[shard]) b $$;
CREATE FUNCTION seen(OUT customers bigint, OUT orders bigint, OUT events bigint) LANGUAGE sql AS
	'SELECT (SELECT count(*) FROM me.customers), (SELECT count(*) FROM me.orders), (SELECT count(*) FROM me.events)';
SELECT min(shardlet) AS one, max(shardlet) AS two FROM shardlet.shardlets WHERE map = 'me' \gset

-- The other shardlet is still there: deleted.
CALL shardlet.move_shardlet(:one, 's2', 'read_only');
SELECT rows > 100 AND rows < 200 AS others, blocks FROM left_on('s1');
-- Nothing else is there: emptied.
CALL shardlet.move_shardlet(:two, 's2', 'read_only');
SELECT * FROM left_on('s1');
SELECT * FROM seen();
-- It can come back, online too.
CALL shardlet.move_shardlet(:one, 's1', 'online');
CALL shardlet.move_shardlet(:two, 's1', 'online');
SELECT * FROM left_on('s2');
SELECT * FROM seen();
SELECT shardlet.merge_shardlets(:one, :two) AS one \gset

-- A row that was put there past the guard stays.
SELECT count(*) FROM shardlet.split_shardlet(:one);
SELECT min(shardlet) AS one, max(shardlet) AS two FROM shardlet.shardlets WHERE map = 'me' \gset
CALL shardlet.move_shardlet(:two, 's3', 'offline');
SELECT min(k) AS foreign FROM generate_series(101, 200) k WHERE (shardlet.locate('me', k)).shardlet = :two \gset
\c contrib_regression_s1
SET session_replication_role = replica;
INSERT INTO me.customers VALUES (:foreign, 'past the guard');
\c contrib_regression
SET client_min_messages = warning;
SET search_path = me;
CALL shardlet.move_shardlet(:one, 's2', 'read_only');
SELECT * FROM left_on('s1');
\c contrib_regression_s1
SET session_replication_role = replica;
DELETE FROM me.customers;
\c contrib_regression
SET client_min_messages = warning;
SET search_path = me;
SELECT * FROM seen();

-- A subscriber reads the changes of the shard: they are deletions.
\c contrib_regression_s2
SELECT slot_name FROM pg_create_logical_replication_slot('me_reader', 'pgoutput');
\c contrib_regression
SET client_min_messages = warning;
SET search_path = me;
CALL shardlet.move_shardlet(:one, 's1', 'read_only');
SELECT * FROM left_on('s2');
\c contrib_regression_s2
SELECT pg_drop_replication_slot('me_reader');
\c contrib_regression
SET client_min_messages = warning;
SET search_path = me;

-- A table of the shard's own refers to one of them: PostgreSQL refuses TRUNCATE.
\c contrib_regression_s1
CREATE TABLE public.me_notes (id bigint REFERENCES me.customers);
\c contrib_regression
SET client_min_messages = warning;
SET search_path = me;
CALL shardlet.move_shardlet(:one, 's2', 'read_only');
SELECT * FROM left_on('s1');
SELECT * FROM seen();
\c contrib_regression_s1
DROP TABLE public.me_notes;
\c contrib_regression
SET client_min_messages = warning;

-- The last one.
SET search_path = me;
CALL shardlet.move_shardlet(:two, 's2', 'read_only');
SELECT * FROM left_on('s3');
SELECT phase, bool_and(last_error IS NULL) FROM shardlet.moves WHERE map = 'me' GROUP BY phase;
SELECT * FROM seen();
DROP TABLE me.events, me.orders, me.customers;
SELECT shardlet.drop_map('me');
DROP SCHEMA me CASCADE;
