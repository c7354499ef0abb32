-- The guard of every kind of map; reference tables; what a shard that was offline has missed.
SET client_min_messages = warning;
CREATE SCHEMA gk;
SET search_path = gk;
SELECT shardlet.create_map('gk_range', 'range', '{date}', shards => '{s1,s2}'),
	shardlet.create_map('gk_list', 'list', '{text,int}', shards => '{s1,s2}'),
	shardlet.create_map('gk_via', 'list', '{bigint}', shards => '{s1,s2}', via => '$1 % 4'),
	shardlet.create_map('gk_spread', 'spread', shards => '{s1}');
SELECT shardlet.assign_range('gk_range', 's1', NULL, '2024-01-01') > 0 AS a,
	shardlet.assign_range('gk_range', 's2', '2024-01-01', '2025-01-01') > 0 AS b,
	shardlet.assign_key('gk_list', 's1', 'a', 1) > 0 AS c, shardlet.assign_key('gk_list', 's2', 'a', 2) > 0 AS d,
	shardlet.assign_keys('gk_via', 's1', '{0,1}'::bigint[]) AS e, shardlet.assign_keys('gk_via', 's2', '{2,3}'::bigint[]) AS f;
CREATE TABLE days (day date NOT NULL, n int);
CREATE TABLE tenants (name text NOT NULL, part smallint NOT NULL, n int);
CREATE TABLE rest (id int NOT NULL, n int);
CREATE TABLE logs (line text);
SELECT shardlet.distribute('days', 'gk_range', 'day'), shardlet.distribute('tenants', 'gk_list', 'name, part'),
	shardlet.distribute('rest', 'gk_via', 'id'), shardlet.distribute('logs', 'gk_spread');
CREATE TABLE rates (code text PRIMARY KEY, rate numeric);
INSERT INTO rates VALUES ('EUR', 1);
SELECT shardlet.make_reference('rates');

\c contrib_regression_s1
SET search_path = gk;
INSERT INTO days VALUES ('2023-12-31', 1), ('-infinity', 1);
INSERT INTO tenants VALUES ('a', 1, 1);
INSERT INTO rest VALUES (4, 1), (5, 1);
INSERT INTO logs VALUES ('line');
\set VERBOSITY sqlstate
INSERT INTO days VALUES ('2024-01-01', 1);
INSERT INTO days VALUES ('2025-01-01', 1);
INSERT INTO tenants VALUES ('a', 2, 1);
INSERT INTO tenants VALUES ('b', 1, 1);
UPDATE tenants SET part = 2;
INSERT INTO rest VALUES (6, 1);
SELECT shardlet.assert_owner('gk_spread');
\set VERBOSITY default
SELECT shardlet.assert_owner('gk_list', 'a', 1) > 0 AS list, shardlet.assert_owner('gk_range', '2000-01-01') > 0 AS range,
	shardlet.assert_owner('gk_via', 8) > 0 AS via;
-- Copies of reference tables change with the router's table.
INSERT INTO rates VALUES ('USD', 1.1);
\set VERBOSITY sqlstate
UPDATE rates SET rate = 2;
DELETE FROM rates;
TRUNCATE rates;
\set VERBOSITY default
\c contrib_regression
SET search_path = gk;
INSERT INTO rates VALUES ('USD', 1.1);
UPDATE rates SET rate = 1.2 WHERE code = 'USD';
SELECT * FROM shardlet.query('gk_range', 'SELECT * FROM gk.rates', per_shard => true) AS (code text, rate numeric) ORDER BY 1, 2;
SELECT shardlet.detach('rates');
\c contrib_regression_s1
DELETE FROM gk.rates WHERE code = 'USD';
SELECT count(*) FROM pg_trigger WHERE tgrelid = 'gk.rates'::regclass;
\c contrib_regression
SET search_path = gk;
SELECT shardlet.attach('gk.rates', verify => false);
\c contrib_regression_s1
\set VERBOSITY sqlstate
DELETE FROM gk.rates;
\set VERBOSITY default

-- A default owns what no entry names, wherever the entries are.
\c contrib_regression
SET search_path = gk;
SELECT shardlet.assign_default('gk_list', 's1') > 0 AS ok;
\c contrib_regression_s1
SET search_path = gk;
INSERT INTO tenants VALUES ('b', 1, 1);
\set VERBOSITY terse
INSERT INTO tenants VALUES ('a', 2, 1);
\set VERBOSITY default
\c contrib_regression
SELECT shardlet.assign_key('gk_list', 's1', 'c', 1) AS id \gset
-- Rows of such a key can only be where the default is.
\set VERBOSITY sqlstate
SELECT shardlet.assign_key('gk_list', 's2', 'd', 1);
\set VERBOSITY default
SELECT shardlet.route('gk_list', 'e', 1) FROM (SELECT shardlet.assign_key('gk_list', NULL, 'e', 1)) k;
\c contrib_regression_s1
SET search_path = gk;
INSERT INTO tenants VALUES ('c', 1, 1);
DELETE FROM tenants WHERE name = 'c';
\c contrib_regression
SET client_min_messages = error;
SELECT shardlet.reassign(:id, 's2');
RESET client_min_messages;
\c contrib_regression_s1
SET search_path = gk;
INSERT INTO tenants VALUES ('c', 1, 1);
\c contrib_regression
SELECT shardlet.unassign(:id);
\c contrib_regression_s1
SET search_path = gk;
INSERT INTO tenants VALUES ('c', 1, 1);
\c contrib_regression_s2
SET search_path = gk;
INSERT INTO tenants VALUES ('a', 2, 1);
\set VERBOSITY sqlstate
INSERT INTO tenants VALUES ('c', 1, 1);
\set VERBOSITY default
-- The default itself goes to the other shard, which has to know all keys then.
\c contrib_regression
SELECT shardlet AS id FROM shardlet.shardlets WHERE map = 'gk_list' AND is_default \gset
SET client_min_messages = error;
SELECT shardlet.reassign(:id, 's2');
RESET client_min_messages;
\c contrib_regression_s2
SET search_path = gk;
INSERT INTO tenants VALUES ('z', 1, 1);
\set VERBOSITY terse
INSERT INTO tenants VALUES ('a', 1, 1);
\set VERBOSITY default
DELETE FROM tenants WHERE name = 'z';
\c contrib_regression_s1
SET search_path = gk;
INSERT INTO tenants VALUES ('z', 1, 1);
DELETE FROM tenants;

-- Two slots of a spread map; one leaves.
\c contrib_regression
SET search_path = gk;
SELECT shardlet.alter_map('gk_spread', add_shards => '{s2}');
\c contrib_regression_s2
INSERT INTO gk.logs VALUES ('line');
\c contrib_regression
SELECT shardlet AS id FROM shardlet.shardlets WHERE map = 'gk_spread' AND shard = 's2' \gset
SET client_min_messages = error;
SELECT shardlet.reassign(:id, 's3');
RESET client_min_messages;
\c contrib_regression_s2
\set VERBOSITY sqlstate
INSERT INTO gk.logs VALUES ('line');
DELETE FROM gk.logs;
\set VERBOSITY default
\c contrib_regression_s3
INSERT INTO gk.logs VALUES ('line');

-- Changes while a shard is offline reach it when it returns.
\c contrib_regression
SELECT shardlet AS id FROM shardlet.shardlets WHERE map = 'gk_range' AND shard = 's2' \gset
SELECT shardlet.alter_shard('s2', state => 'offline');
SET client_min_messages = error;
SELECT shardlet.reassign(:id, 's1');
RESET client_min_messages;
SELECT shardlet.create_map('gk_new', shards => '{s1,s2}', shardlets => 2);
ALTER SERVER s2 OPTIONS (SET state 'online');
\c contrib_regression_s2
INSERT INTO gk.days VALUES ('2024-05-05', 1);
DELETE FROM gk.days;
SELECT count(*) FROM shardlet.catalog_guard_map WHERE map = 'gk_new';
\c contrib_regression
SELECT shardlet.alter_shard('s2', state => 'online');
\c contrib_regression_s2
\set VERBOSITY sqlstate
INSERT INTO gk.days VALUES ('2024-05-05', 1);
\set VERBOSITY default
SELECT count(*) FROM shardlet.catalog_guard_map WHERE map = 'gk_new';
-- Such rows can be seen, and locking reads through the router keep the map.
\c contrib_regression
SET search_path = gk;
BEGIN;
SELECT * FROM days ORDER BY day FOR UPDATE;
SELECT count(*) > 0 AS held FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 21325 AND mode = 'ShareLock';
ROLLBACK;
BEGIN;
SELECT n FROM days WHERE day = '2023-12-31' FOR UPDATE;
SELECT count(*) > 0 AS held FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 21325 AND mode = 'ShareLock';
ROLLBACK;
\c contrib_regression_s1
SELECT shardlet_internal.guard_hold('gk_range', version) FROM shardlet.catalog_guard_map WHERE map = 'gk_range';
\set VERBOSITY sqlstate
SELECT shardlet_internal.guard_hold('gk_range', version - 1) FROM shardlet.catalog_guard_map WHERE map = 'gk_range';
\set VERBOSITY default
-- Names of maps that are not there take no memory.
DO $$
BEGIN
	FOR i IN 1 .. 100 LOOP
		PERFORM shardlet_internal.guard_hold('gk_none' || i, 0);
		BEGIN
			PERFORM shardlet.assert_owner('gk_none' || i, i);
		EXCEPTION WHEN undefined_object THEN
			NULL;
		END;
	END LOOP;
END $$;
SELECT count(*) FROM pg_backend_memory_contexts WHERE name = 'shardlet guard map';

\c contrib_regression
SET client_min_messages = warning;
-- A shardlet that has rows is not taken out of its map.
\set VERBOSITY sqlstate
SELECT shardlet.unassign(shardlet) FROM shardlet.shardlets WHERE map = 'gk_range' AND low IS NULL;
SELECT shardlet.unassign(shardlet) FROM shardlet.shardlets WHERE map = 'gk_via' AND low = '0';
SELECT shardlet.unassign(shardlet) FROM shardlet.shardlets WHERE map = 'gk_spread' AND shard = 's1';
\set VERBOSITY default
DELETE FROM gk.days;
DELETE FROM gk.logs;
SELECT shardlet.unassign(shardlet) FROM shardlet.shardlets WHERE map = 'gk_range' AND low IS NULL;
SELECT shardlet.unassign(shardlet) FROM shardlet.shardlets WHERE map = 'gk_spread' AND shard = 's1';
SELECT shardlet.undistribute('gk.rates');
DROP TABLE gk.days, gk.tenants, gk.rest, gk.logs;
DROP SCHEMA gk CASCADE;
SELECT shardlet.drop_map(map) FROM shardlet.maps WHERE map LIKE 'gk%' ORDER BY map;
SELECT count(*) FROM shardlet.execute(NULL, 'DROP SCHEMA IF EXISTS gk CASCADE');

-- A shard that is bare no more, or has the extension again, learns its maps when it returns.
CREATE DATABASE gk_bare;
SELECT current_setting('port') AS port, current_setting('unix_socket_directories') AS host \gset
SELECT shardlet.add_shard('gk_bare', format('host=%s port=%s dbname=gk_bare', :'host', :'port'), install => false);
SELECT shardlet.create_map('gk_bare', shards => '{gk_bare}', shardlets => 2);
CREATE TABLE gk_bare (id bigint PRIMARY KEY);
SELECT shardlet.distribute('gk_bare', 'gk_bare', 'id');
\c gk_bare
CREATE EXTENSION shardlet;
\c contrib_regression
ALTER SERVER gk_bare OPTIONS (DROP bare);
SELECT shardlet.alter_shard('gk_bare', state => 'offline');
ALTER SERVER gk_bare OPTIONS (DROP bare);
ALTER SERVER gk_bare OPTIONS (SET state 'online');
SELECT shardlet.alter_shard('gk_bare', state => 'online');
SELECT shardlet.attach('gk_bare', 'gk_bare', 'id');
INSERT INTO gk_bare VALUES (1), (2), (3);
\c gk_bare
SET client_min_messages = warning;
DROP EXTENSION shardlet CASCADE;
CREATE EXTENSION shardlet;
\c contrib_regression
SELECT shardlet.alter_shard('gk_bare', state => 'offline');
SELECT shardlet.alter_shard('gk_bare', state => 'online');
SELECT shardlet.attach('gk_bare', 'gk_bare', 'id');
INSERT INTO gk_bare VALUES (4), (5), (6);
SELECT count(*) FROM gk_bare;
SET client_min_messages = warning;
DROP TABLE gk_bare;
SELECT shardlet.drop_map('gk_bare'), shardlet.drop_shard('gk_bare');
SELECT shardlet.close_connections() > 0;
DROP DATABASE gk_bare WITH (FORCE);
