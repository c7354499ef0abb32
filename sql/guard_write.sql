-- Who writes to a shard directly can write what the shard owns, and nothing else.
SET client_min_messages = warning;
CREATE SCHEMA gw;
SET search_path = gw;
SELECT shardlet.create_map('gw', shards => '{s1,s2}', shardlets => 4);
CREATE TABLE orders (customer_id bigint, id int, note text, PRIMARY KEY (customer_id, id));
CREATE TABLE events (customer_id int, at date, PRIMARY KEY (customer_id, at)) PARTITION BY RANGE (at);
CREATE TABLE events_1 PARTITION OF events FOR VALUES FROM ('2024-01-01') TO ('2025-01-01');
CREATE TABLE events_2 (at date NOT NULL, customer_id int NOT NULL);
ALTER TABLE events ATTACH PARTITION events_2 FOR VALUES FROM ('2025-01-01') TO ('2026-01-01');
CREATE TABLE docs (doc jsonb, customer_id bigint GENERATED ALWAYS AS ((doc ->> 'customer')::bigint) STORED NOT NULL);
SELECT shardlet.distribute('orders', 'gw', 'customer_id'), shardlet.distribute('events', 'gw', 'customer_id'),
	shardlet.distribute('docs', 'gw', 'customer_id');
-- Two keys of the first shard, in different shardlets, and one of the second.
SELECT min(k) AS mine FROM generate_series(1, 100) k WHERE shardlet.route('gw', k) = 's1' \gset
SELECT min(k) AS other FROM generate_series(1, 100) k WHERE shardlet.route('gw', k) = 's1'
	AND (shardlet.locate('gw', k)).shardlet <> (shardlet.locate('gw', :mine)).shardlet \gset
SELECT min(k) AS foreign FROM generate_series(1, 100) k WHERE shardlet.route('gw', k) = 's2' \gset
INSERT INTO orders SELECT k, 1, 'routed' FROM generate_series(1, 100) k;

\c contrib_regression_s1
SET search_path = gw;
-- Each way to write, with a key of its own and with one of another shard.
INSERT INTO orders VALUES (:mine, 2, 'direct'), (:other, 2, 'direct');
UPDATE orders SET note = 'changed' WHERE customer_id = :mine AND id = 2;
UPDATE orders SET customer_id = :other, id = 3 WHERE customer_id = :mine AND id = 2;
DELETE FROM orders WHERE customer_id = :other AND id > 1;
SELECT count(*), bool_and(note = 'routed') FROM orders;
INSERT INTO orders VALUES (:foreign, 2, 'direct');
INSERT INTO orders VALUES (:mine, 2, 'direct'), (:foreign, 2, 'direct');
\set VERBOSITY sqlstate
UPDATE orders SET customer_id = :foreign WHERE customer_id = :mine;
COPY orders FROM STDIN;
1	9	x
2	9	x
3	9	x
4	9	x
\.
INSERT INTO orders VALUES (:foreign, 2) ON CONFLICT DO NOTHING;
INSERT INTO orders VALUES (NULL, 2);
\set VERBOSITY default
SELECT count(*), bool_and(note = 'routed') FROM orders;
-- A row that is here by accident can neither be changed nor deleted like that.
SET session_replication_role = replica;
INSERT INTO orders VALUES (:foreign, 2, 'astray');
RESET session_replication_role;
\set VERBOSITY sqlstate
UPDATE orders SET note = '' WHERE customer_id = :foreign;
UPDATE orders SET customer_id = :mine WHERE customer_id = :foreign;
DELETE FROM orders WHERE customer_id = :foreign;
\set VERBOSITY default
SET session_replication_role = replica;
DELETE FROM orders WHERE note = 'astray';
RESET session_replication_role;

-- Partitions, whose columns have another order, and generated keys.
INSERT INTO events VALUES (:mine, '2024-05-01'), (:mine, '2025-05-01');
INSERT INTO events_2 VALUES ('2025-05-02', :mine);
UPDATE events SET at = '2025-05-03' WHERE at = '2024-05-01';
INSERT INTO docs VALUES (format('{"customer": %s}', :mine)::jsonb);
\set VERBOSITY sqlstate
INSERT INTO events VALUES (:foreign, '2024-05-01');
INSERT INTO events_2 VALUES ('2025-05-02', :foreign);
INSERT INTO docs VALUES (format('{"customer": %s}', :foreign)::jsonb);
INSERT INTO docs VALUES ('{}');
\set VERBOSITY default
TRUNCATE events_2;
SELECT count(*) FROM events;

-- In a transaction; a savepoint that is rolled back does not give the lock away.
BEGIN;
SAVEPOINT a;
INSERT INTO orders VALUES (:mine, 2);
ROLLBACK TO a;
SELECT mode, objsubid FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid();
SAVEPOINT b;
INSERT INTO orders VALUES (:foreign, 2);
ROLLBACK TO b;
INSERT INTO orders VALUES (:mine, 2);
COMMIT;
DELETE FROM orders WHERE id = 2;
-- The lock survives PREPARE.
BEGIN;
UPDATE orders SET note = note WHERE customer_id = :mine;
PREPARE TRANSACTION 'gw';
SELECT mode, objsubid FROM pg_locks WHERE locktype = 'advisory' AND objsubid > 2 AND pid IS NULL;
COMMIT PREPARED 'gw';

-- What a state allows.
\c contrib_regression
SET search_path = gw;
SELECT (shardlet.locate('gw', :mine)).shardlet AS id \gset
SELECT shardlet.alter_shardlet(:id, state => 'read_only');
\c contrib_regression_s1
SET search_path = gw;
SELECT shardlet.assert_owner('gw', :mine) = :id AS mine;
INSERT INTO orders VALUES (:other, 2);
\set VERBOSITY sqlstate
INSERT INTO orders VALUES (:mine, 2);
TRUNCATE orders;
\c contrib_regression
SELECT shardlet.alter_shardlet(:id, state => 'offline');
\c contrib_regression_s1
SET search_path = gw;
INSERT INTO orders VALUES (:mine, 2);
SELECT shardlet.assert_owner('gw', :mine);
\set VERBOSITY default
\c contrib_regression
SELECT shardlet.alter_shardlet(:id, state => 'online');

-- It leaves for the other shard, and comes back.

SET client_min_messages = error;
SELECT shardlet.reassign(:id, 's2');
RESET client_min_messages;
\c contrib_regression_s1
SET search_path = gw;
INSERT INTO orders VALUES (:mine, 2);
SELECT shardlet.assert_owner('gw', :mine);
\c contrib_regression_s2
SET search_path = gw;
INSERT INTO orders VALUES (:mine, 2);
DELETE FROM orders WHERE customer_id = :mine;
\c contrib_regression
SET client_min_messages = error;
SELECT shardlet.reassign(:id, 's1');
RESET client_min_messages;
\c contrib_regression_s1
SET search_path = gw;
INSERT INTO orders VALUES (:mine, 2);
DELETE FROM orders WHERE id = 2;
\c contrib_regression_s2
SET search_path = gw;
\set VERBOSITY sqlstate
INSERT INTO orders VALUES (:mine, 2);
\set VERBOSITY default

-- A renamed key is guarded as well; a rolled-back change of the map is none.
\c contrib_regression
SET search_path = gw;
ALTER TABLE orders RENAME customer_id TO customer;
ALTER TABLE orders DISABLE TRIGGER ALL;
BEGIN;
SET client_min_messages = error;
SELECT shardlet.reassign(:id, 's2');
RESET client_min_messages;
ROLLBACK;
\c contrib_regression_s1
SET search_path = gw;
INSERT INTO orders VALUES (:mine, 2);
\set VERBOSITY sqlstate
INSERT INTO orders VALUES (:foreign, 2);
\set VERBOSITY default
DELETE FROM orders WHERE id = 2;
-- Triggers of a shard that bring keys of others: no move is to blame, and the next
-- time is no better.
CREATE FUNCTION stray() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.note = 'another key' THEN
		NEW.customer := TG_ARGV[0];
	ELSIF NEW.note = 'another row' THEN
		INSERT INTO gw.events VALUES (TG_ARGV[0]::int, '2024-05-01');
	END IF;
	RETURN NEW;
END $$;
CREATE TRIGGER stray BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION stray(:foreign);
\c contrib_regression
SET search_path = gw;
INSERT INTO orders VALUES (:mine, 3, 'another key');
\set VERBOSITY sqlstate
INSERT INTO orders VALUES (:mine, 3, 'another row');
BEGIN;
INSERT INTO orders VALUES (:mine, 3, 'fine');
INSERT INTO orders VALUES (:mine, 4, 'another row');
ROLLBACK;
INSERT INTO orders SELECT :mine, 10 + g, CASE g WHEN 150 THEN 'another key' ELSE 'fine' END FROM generate_series(1, 200) g;
INSERT INTO orders VALUES (:mine, 3, 'another key'), (:foreign, 3, 'fine') RETURNING id;
\set VERBOSITY default
SELECT count(*) FROM orders WHERE id > 1;
\c contrib_regression_s1
DROP FUNCTION gw.stray CASCADE;
-- Many shardlets in a transaction: one lock on the map.
\c contrib_regression
SET search_path = gw;
SELECT shardlet.create_map('gw_many', shards => '{s1}', shardlets => 64);
CREATE TABLE many (k int NOT NULL);
SELECT shardlet.distribute('many', 'gw_many', 'k');
\c contrib_regression_s1
BEGIN;
INSERT INTO gw.many SELECT generate_series(1, 1000);
SELECT objsubid, mode, count(*) BETWEEN 1 AND 16 AS are_few FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid() GROUP BY 1, 2 ORDER BY 1;
ROLLBACK;

-- Undistributed, detached, attached: guarded while it is on shards.
\c contrib_regression
SET search_path = gw;
SELECT shardlet.detach('many');
\c contrib_regression_s1
SELECT count(*) FROM pg_trigger WHERE tgrelid = 'gw.many'::regclass;
\c contrib_regression
SET search_path = gw;
SELECT shardlet.attach('gw.many', 'gw_many', 'k');
\c contrib_regression_s1
SELECT tgname FROM pg_trigger WHERE tgrelid = 'gw.many'::regclass ORDER BY 1;
\c contrib_regression
SET search_path = gw;
DROP TABLE many;
\c contrib_regression_s1
SELECT count(*) FROM pg_trigger WHERE tgrelid = 'gw.many'::regclass;
DROP TABLE gw.many;
-- Functions that are for routers, triggers on the wrong tables.
\set VERBOSITY terse
CREATE TABLE gw.plain (k text);
CREATE TRIGGER g AFTER INSERT ON gw.plain FOR EACH ROW EXECUTE FUNCTION shardlet_internal.guard('gw', 'nonesuch');
INSERT INTO gw.plain VALUES ('a');
CREATE OR REPLACE TRIGGER g AFTER INSERT ON gw.plain FOR EACH ROW EXECUTE FUNCTION shardlet_internal.guard('gw', 'k');
INSERT INTO gw.plain VALUES ('a');
CREATE OR REPLACE TRIGGER g AFTER INSERT ON gw.plain FOR EACH ROW EXECUTE FUNCTION shardlet_internal.guard();
INSERT INTO gw.plain VALUES ('a');
CREATE OR REPLACE TRIGGER g AFTER INSERT ON gw.plain FOR EACH ROW EXECUTE FUNCTION shardlet_internal.guard('nonesuch', 'k');
INSERT INTO gw.plain VALUES ('a');
CREATE OR REPLACE TRIGGER g BEFORE INSERT ON gw.plain FOR EACH ROW EXECUTE FUNCTION shardlet_internal.guard('gw', 'k');
INSERT INTO gw.plain VALUES ('a');
DROP TABLE gw.plain;
SELECT shardlet.guard_change('gw', 1, 'hash', '{}', NULL, 1, 's1', 'change', 0, '{}', '{1}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}');
SELECT shardlet.guard_change(NULL, 1, 'hash', '{}', NULL, 1, 's1', 'change', 0, '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}');
SELECT shardlet.guard_lock('nonesuch', 1, 0);
SELECT shardlet.assert_owner('nonesuch', 1);
SELECT shardlet.assert_owner('gw', 1, 2);
SELECT shardlet.assert_owner('gw', 'a'::text);
SELECT shardlet.assert_owner('gw', NULL::bigint);
SELECT shardlet.assert_owner(NULL, 1);
SELECT shardlet.assert_owner('gw', :'mine') > 0 AS ok;
\set VERBOSITY default

\c contrib_regression
SET client_min_messages = warning;
DROP TABLE gw.orders, gw.events, gw.docs;
DROP SCHEMA gw CASCADE;
SELECT shardlet.drop_map('gw'), shardlet.drop_map('gw_many');
\c contrib_regression_s1
SELECT count(*) FROM shardlet.owned WHERE map LIKE 'gw%';
DROP SCHEMA gw CASCADE;
\c contrib_regression_s2
DROP SCHEMA gw CASCADE;
