-- A list map via a remainder gets more shardlets, and every key stays where it is.
SET client_min_messages = warning;
CREATE SCHEMA mr;
SET search_path = mr;
SELECT shardlet.create_map('mr', 'list', via => '$1 % 3', shards => '{s1, s2, s3}');
SELECT shardlet.assign_key('mr', 's1', 0) > 0, shardlet.assign_key('mr', 's2', 1) > 0, shardlet.assign_key('mr', 's3', 2) > 0, shardlet.assign_key('mr', 's3', -1) > 0,
	shardlet.assign_default('mr', 's2') > 0;
CREATE TABLE t (id bigint PRIMARY KEY, v text);
SELECT shardlet.distribute('t', 'mr', 'id');
INSERT INTO t SELECT i, 'v' || i FROM generate_series(-50, 200) i;
CREATE TABLE before AS SELECT id, shardlet.route('mr', id) AS shard FROM generate_series(-1000, 1000) id;
SELECT shardlet.refine_map('mr', 4);
SELECT via, version > 1 AS version FROM shardlet.maps WHERE map = 'mr';
SELECT shard, string_agg(low, ' ' ORDER BY low::int) FROM shardlet.shardlets WHERE map = 'mr' GROUP BY 1 ORDER BY 1;
SELECT count(*), count(*) FILTER (WHERE shard <> shardlet.route('mr', id)) AS differ FROM before;
SELECT count(*), sum(id) FROM t;
SELECT count(*) FROM generate_series(-50, 200) i, LATERAL (SELECT v FROM t WHERE id = i) r WHERE v = 'v' || i;
-- Rows can be written by the new rule, here and on the shards, and the pieces move.
INSERT INTO t SELECT i, 'v' || i FROM generate_series(201, 300) i;
UPDATE t SET v = v || 'x' WHERE id BETWEEN 200 AND 210;
DELETE FROM t WHERE id = -50;
SELECT shardlet AS one FROM shardlet.locate('mr', 10) \gset
CALL shardlet.move_shardlet(:one, 's1');
SELECT shardlet.route('mr', 10), shardlet.route('mr', 22), shardlet.route('mr', 7);
SELECT count(*), sum(id), count(DISTINCT id) FROM t;
SELECT v FROM t WHERE id IN (10, 22, 7, 205) ORDER BY id;
SELECT shardlet.route('mr', 4) AS shard, dbname FROM shardlet.shards WHERE shard = shardlet.route('mr', 4) \gset
\c :dbname
\set VERBOSITY sqlstate
INSERT INTO mr.t VALUES (3004, 'here');
INSERT INTO mr.t VALUES (3010, 'not here any more');
\c contrib_regression
SET client_min_messages = warning;
SET search_path = mr;
-- Again, and back by ROLLBACK.
BEGIN;
SELECT shardlet.refine_map('mr', 2);
SELECT via FROM shardlet.maps WHERE map = 'mr';
SELECT count(*) FROM t WHERE id = 3004;
INSERT INTO t VALUES (4000, 'x');
ROLLBACK;
SELECT via FROM shardlet.maps WHERE map = 'mr';
SELECT count(*), count(*) FILTER (WHERE v = 'x') FROM t;

-- The rule without negative values, other expressions, names and spaces.
CREATE FUNCTION placement(map name) RETURNS text LANGUAGE sql AS
	$$SELECT string_agg(shardlet.route(map, id::int), ' ' ORDER BY id) FROM generate_series(-20, 20) id$$;
SELECT shardlet.create_map('mr2', 'list', '{int}', via => '(($1 % 3) +3)%3'), shardlet.create_map('mr3', 'list', '{int}', via => 'abs(hashint4($1) /* 3 % */) % 03');
SELECT shardlet.assign_key(m, 's' || k + 1, k) > 0 FROM unnest('{mr2, mr3}'::name[]) m, generate_series(0, 2) k;
CREATE TABLE places AS SELECT m, placement(m) AS placement FROM unnest('{mr2, mr3}'::name[]) m;
SELECT shardlet.refine_map('mr2', 5), shardlet.refine_map('mr3', 2);
SELECT map, via FROM shardlet.maps WHERE map IN ('mr2', 'mr3') ORDER BY 1;
SELECT m, placement = placement(m) AS same FROM places ORDER BY 1;

-- What cannot be.
SELECT shardlet.refine_map('none', 2);
SELECT shardlet.refine_map(NULL, 2);
SELECT shardlet.refine_map('mr', NULL);
SELECT shardlet.refine_map('mr', 1);
SELECT shardlet.refine_map('mr', 1000000);
SELECT shardlet.create_map('mr4'), shardlet.create_map('mr5', 'list'), shardlet.create_map('mr6', 'list', via => '$1 & 3'),
	shardlet.create_map('mr7', 'list', via => '($1 % 6) % 3'), shardlet.create_map('mr8', 'range', via => '$1 % 3'), shardlet.create_map('mr9', 'list', '{numeric}', via => '$1 % 3');
SELECT shardlet.refine_map('mr4', 2);
SELECT shardlet.refine_map('mr5', 2);
SELECT shardlet.refine_map('mr6', 2);
SELECT shardlet.refine_map('mr7', 2);
SELECT shardlet.refine_map('mr8', 2);
SELECT shardlet.refine_map('mr9', 2);
\set VERBOSITY terse
BEGIN;
SELECT shardlet.create_map('mrx', 'list', via => '$1 % 3');
SELECT shardlet.assign_key('mrx', 's1', 77) > 0;
\set VERBOSITY sqlstate
SELECT shardlet.refine_map('mrx', 2);
ROLLBACK;

DROP SCHEMA mr CASCADE;
SELECT count(*) FROM shardlet.execute(NULL, 'DROP SCHEMA IF EXISTS mr CASCADE');
SELECT shardlet.drop_map(map) FROM shardlet.maps WHERE map ~ '^mr\d?$';
