-- Other borders between shardlets: no row moves, every key is where it was.
SET client_min_messages = warning;
CREATE SCHEMA ms;
SET search_path = ms;
SELECT shardlet.create_map('ms', shards => '{s1,s2}', shardlets => 2);
SELECT shardlet.create_map('ms_range', 'range', '{timestamptz}', shards => '{s1,s2}'),
	shardlet.create_map('ms_list', 'list', shards => '{s1}'), shardlet.create_map('ms_spread', 'spread', shards => '{s1,s2}');
CREATE TABLE t (k int PRIMARY KEY, n int);
INSERT INTO t SELECT k, k FROM generate_series(1, 1000) k;
SELECT shardlet.distribute('t', 'ms', 'k');
-- Every token is in one shardlet, and the pieces follow each other.
CREATE VIEW pieces AS
SELECT row_number() OVER (ORDER BY low::numeric) AS piece, low, high, shard, state, pinned, version,
	low IS NOT DISTINCT FROM lag(high, 1, '-9223372036854775808') OVER (ORDER BY low::numeric) AS follows, shardlet
FROM shardlet.shardlets WHERE map = 'ms';
CREATE TABLE before AS SELECT k, shardlet.route('ms', k) AS shard FROM generate_series(1, 1000) k;
CREATE VIEW moved AS SELECT count(*) FROM before WHERE shard <> shardlet.route('ms', k);
SELECT shardlet AS a FROM pieces WHERE piece = 1 \gset
SELECT shardlet AS z FROM pieces WHERE piece = 2 \gset

-- In the middle, and at a token.
SELECT count(*), bool_or(id = :a) AS keeps_id FROM shardlet.split_shardlet(:a) id;
SELECT piece, low, high, shard, version, follows FROM pieces;
SELECT max(id) AS b FROM shardlet.split_shardlet(:z, '9223372036854775807') id \gset
SELECT piece, low, high, shard, version, follows FROM pieces;
SELECT * FROM moved;
-- The last token is a shardlet of its own now, and cannot be split.
\set VERBOSITY sqlstate
SELECT * FROM shardlet.split_shardlet(:b);
SELECT * FROM shardlet.split_shardlet(:z, '0');
SELECT * FROM shardlet.split_shardlet(:z, '-1');
SELECT * FROM shardlet.split_shardlet(:z, '9223372036854775807');
SELECT * FROM shardlet.split_shardlet(:z, '9223372036854775808');
SELECT * FROM shardlet.split_shardlet(:z, 'x');
SELECT * FROM shardlet.split_shardlet(NULL);
SELECT * FROM shardlet.split_shardlet(0);
\set VERBOSITY default
SELECT shardlet.split_shardlet(:z, '9223372036854775806') IS NOT NULL AS ok;
SELECT version FROM shardlet.maps WHERE map = 'ms';

-- Adjacent shardlets on one shard in one state become one again, in either order.
SELECT shardlet AS y FROM pieces WHERE low = '9223372036854775806' \gset
SELECT shardlet.merge_shardlets(:b, :y) = :y AS low_one_stays;
SELECT shardlet.merge_shardlets(:z, :y) = :z AS low_one_stays;
SELECT piece, low, high, shard, follows FROM pieces;
SELECT shardlet AS b FROM pieces WHERE piece = 2 \gset
\set VERBOSITY sqlstate
SELECT shardlet.merge_shardlets(:a, :z);
SELECT shardlet.merge_shardlets(:a, :a);
SELECT shardlet.merge_shardlets(:b, :z);
SELECT shardlet.merge_shardlets(:a, NULL);
SELECT shardlet.merge_shardlets(:a, 0);
SELECT shardlet.merge_shardlets(:a, (SELECT min(shardlet) FROM shardlet.shardlets WHERE map = 'ms_spread'));
SELECT shardlet.alter_shardlet(:b, state => 'read_only');
SELECT shardlet.merge_shardlets(:a, :b);
SELECT shardlet.alter_shardlet(:b, state => 'online');
\set VERBOSITY default

-- One key alone, and pinned.  Again is the same.
SELECT shardlet.isolate_key('ms', 7) AS own \gset
SELECT count(*), count(*) FILTER (WHERE pinned) AS pinned, bool_and(follows) AS follow FROM pieces;
SELECT low = shardlet.token(7::bigint)::text AS low, high = (shardlet.token(7::bigint) + 1)::text AS high FROM pieces WHERE pinned;
SELECT (shardlet.locate('ms', 7)).shardlet = :own AS own, shardlet.isolate_key('ms', 7) = :own AS same;
SELECT * FROM moved;
SELECT count(*), sum(n) FROM t;
SELECT n FROM t WHERE k = 7;
-- The guard has followed all of it, and takes rows as before.
UPDATE t SET n = n + 1;
SELECT count(*) FROM shardlet.query('ms', 'SELECT shardlet FROM shardlet.owned WHERE map = ''ms'' AND owner IS NULL') AS (id bigint);
-- Its neighbours take it back; a shardlet is pinned if both parts were.
SELECT shardlet AS low FROM pieces WHERE high = shardlet.token(7::bigint)::text \gset
SELECT shardlet AS high FROM pieces WHERE low = (shardlet.token(7::bigint) + 1)::text \gset
SELECT shardlet.merge_shardlets(:own, :low) = :low AS ok, shardlet.merge_shardlets(:low, :high) = :low AS ok2;
SELECT piece, low, high, shard, pinned, follows FROM pieces;
-- At the edges of a shardlet.
SELECT shardlet.split_shardlet((shardlet.locate('ms', 8)).shardlet, shardlet.token(8::bigint)::text) IS NOT NULL AS ok;
SELECT shardlet.isolate_key('ms', 8) > 0 AS ok;
SELECT shardlet.split_shardlet((shardlet.locate('ms', 9)).shardlet, (shardlet.token(9::bigint) + 1)::text) IS NOT NULL AS ok;
SELECT shardlet.isolate_key('ms', 9) > 0 AS ok;
SELECT count(*), count(*) FILTER (WHERE pinned) AS pinned, bool_and(follows) AS follow, count(DISTINCT shardlet) AS ids FROM pieces;
SELECT * FROM moved;
\set VERBOSITY sqlstate
SELECT shardlet.isolate_key('ms', NULL::int);
SELECT shardlet.isolate_key('ms', 1, 2);
SELECT shardlet.isolate_key('nonesuch', 1);
SELECT shardlet.isolate_key(NULL, 1);
\set VERBOSITY default

-- Ranges, at a key.
SELECT shardlet.assign_range('ms_range', 's1', '2024-01-01 00:00+00', '2025-01-01 00:00+00') AS id \gset
SELECT shardlet.split_shardlet(:id, '2024-07-01 02:00+02') IS NOT NULL AS ok;
SELECT low, high FROM shardlet.shardlets WHERE map = 'ms_range' ORDER BY low;
SELECT max(shardlet) AS high FROM shardlet.shardlets WHERE map = 'ms_range' \gset
SELECT shardlet.merge_shardlets(:high, :id) = :id AS ok;
SELECT shardlet.assign_range('ms_range', 's1', '2025-01-01 00:00+00', NULL) AS last \gset
SELECT shardlet.split_shardlet(:last, '2100-01-01') IS NOT NULL AS ok;
\set VERBOSITY sqlstate
SELECT shardlet.split_shardlet(:id, '2024-01-01 00:00+00');
SELECT shardlet.split_shardlet(:id, '2025-01-01 00:00+00');
SELECT shardlet.split_shardlet(:id, '2023-01-01');
SELECT shardlet.split_shardlet(:id, 'x');
SELECT shardlet.split_shardlet(:id);
SELECT shardlet.isolate_key('ms_range', now());
-- Lists and spread maps have no borders.
SELECT shardlet.assign_keys('ms_list', 's1', '{1,2}'::bigint[]);
SELECT shardlet.split_shardlet(min(shardlet)) FROM shardlet.shardlets WHERE map = 'ms_list';
SELECT shardlet.merge_shardlets(min(shardlet), max(shardlet)) FROM shardlet.shardlets WHERE map = 'ms_list';
SELECT shardlet.isolate_key('ms_list', 1);
SELECT shardlet.split_shardlet(min(shardlet)) FROM shardlet.shardlets WHERE map = 'ms_spread';
SELECT shardlet.isolate_key('ms_spread');
BEGIN READ ONLY;
SELECT shardlet.split_shardlet(:id, '2024-07-01');
ROLLBACK;
\set VERBOSITY default
-- A rollback takes everything back, on the shards too.
BEGIN;
SELECT shardlet.split_shardlet(:id, '2024-07-01') IS NOT NULL AS ok;
ROLLBACK;
SELECT count(*) FROM shardlet.shardlets WHERE map = 'ms_range';
\c contrib_regression_s1
SELECT count(*) FROM shardlet.owned WHERE map = 'ms_range';

\c contrib_regression
SET client_min_messages = warning;
DROP TABLE ms.t;
DROP SCHEMA ms CASCADE;
SELECT shardlet.drop_map(map) FROM shardlet.maps WHERE map LIKE 'ms%' ORDER BY map;
SELECT count(*) FROM shardlet.execute(NULL, 'DROP SCHEMA IF EXISTS ms CASCADE');
