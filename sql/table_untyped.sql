-- Every function of the reference, called as people type it: with untyped literals
-- only.  One that got a second signature would be ambiguous.
CREATE SCHEMA untyped;
SET search_path = untyped;
SET client_min_messages = warning;

-- Shards and maps.
SELECT shardlet.alter_shard('s1', NULL, NULL, '1', 'online', NULL);
SELECT shardlet.create_map('ut_hash', 'hash', '{bigint}', '{s1,s2}', '4', NULL);
SELECT shardlet.create_map('ut_range', 'range', '{date}'), shardlet.create_map('ut_list', 'list', '{text}'), shardlet.create_map('ut_two', 'hash', '{text,bigint}', '{s1,s2}', '2'),
	shardlet.create_map('ut_spread', 'spread', '{bigint}', '{s1,s2}'), shardlet.create_map('ut_via', 'list', '{bigint}', NULL, NULL, '$1 % 4');
SELECT shardlet.alter_map('ut_hash', '{s3}', NULL), shardlet.alter_map('ut_hash', NULL, '{s3}');
SELECT shardlet.assign_range('ut_range', 's1', NULL, '2024-01-01') > 0 AS low, shardlet.assign_range('ut_range', 's2', '2024-01-01', NULL) > 0 AS high;
SELECT shardlet.assign_key('ut_list', 's1', 'a') > 0 AS one, shardlet.assign_keys('ut_list', 's2', ARRAY['b', 'c']) AS many, shardlet.assign_default('ut_list', 's2') > 0 AS others;
SELECT shardlet.assign_key('ut_via', 's1', '1') > 0 AS via;
SELECT shardlet AS id FROM shardlet.shardlets WHERE map = 'ut_range' AND low IS NULL \gset
SELECT shardlet.alter_shardlet(:'id', 'read_only', 'true'), shardlet.alter_shardlet(:'id', 'online', 'false'), shardlet.reassign(:'id', 's2'), shardlet.reassign(:'id', 's1');

-- Routing.
SELECT shardlet.token('a', '1') IS NOT NULL AS token, shardlet.token_sql('ut_two', 'name', 'number');
SELECT shardlet.route('ut_hash', '1') IS NOT NULL AS hash, shardlet.route('ut_range', '2023-05-05'), shardlet.route('ut_list', 'z'), shardlet.route('ut_via', '5'), shardlet.route('ut_two', 'a', '1') IS NOT NULL AS two,
	shardlet.route('ut_spread') IS NOT NULL AS spread;
SELECT shard, state, dbname FROM shardlet.locate('ut_list', 'b');
SELECT position, shard FROM shardlet.route_many('ut_list', ARRAY['a', 'b', 'q']) ORDER BY 1;
SELECT shardlet.map_json('ut_list') ->> 'kind' AS json;

-- Tables.
CREATE TABLE t (id bigint PRIMARY KEY, v text);
CREATE TABLE u (id bigint, n int, PRIMARY KEY (id, n), FOREIGN KEY (id) REFERENCES t);
CREATE TABLE w (id bigint PRIMARY KEY);
CREATE TABLE r (id int PRIMARY KEY);
CREATE TABLE p (id int PRIMARY KEY);
CREATE TABLE s (v text);
SELECT shardlet.distribute('w', 'ut_hash', 'id'), shardlet.distribute('s', 'ut_spread');
SELECT shardlet.undistribute('w');
SELECT shardlet.distribute('w', 'ut_hash', 'id', 'true');
SELECT shardlet.distribute_tables('{t, u}', 'ut_hash', '{id}'), shardlet.make_reference('r'), shardlet.place('p', 's1');
SELECT shardlet.undistribute('u');
SELECT shardlet.distribute_tables('{u}', 'ut_hash', '{id}', 'false');
SELECT shardlet.detach('w');
SELECT shardlet.attach('w', 'ut_hash', 'id', NULL, 'true');
SELECT shardlet.attach('w', 'ut_hash', 'id');
INSERT INTO t SELECT g, 'v' FROM generate_series(1, 20) g;

-- Fan-out.
SELECT * FROM shardlet.query('ut_hash', 'SELECT id FROM untyped.t WHERE id < $1 ORDER BY id', '{3}', '{s1,s2}', 'fail', 'false') AS q(id bigint);
SELECT * FROM shardlet.query_key('ut_hash', 'SELECT v FROM untyped.t WHERE id = $1', '{7}', '7') AS q(v text);
SELECT count(*), sum(rows) FROM shardlet.execute('ut_hash', 'UPDATE untyped.t SET v = $1', '{w}', '{s1,s2}', 'fail', 'true');
SELECT count(*) FROM shardlet.execute(NULL, 'SELECT 1');
SELECT shardlet.missing_shards();

-- Shardlets: split, merge, isolate, move.
SELECT shardlet AS id FROM shardlet.shardlets WHERE map = 'ut_hash' AND shard = 's1' ORDER BY low LIMIT 1 \gset
SELECT min(s) AS a, max(s) AS b FROM shardlet.split_shardlet(:'id') s \gset
SELECT shardlet.merge_shardlets(:'a', :'b') AS id \gset
SELECT shardlet.isolate_key('ut_hash', '5') > 0 AS isolated;
SELECT shardlet AS id FROM shardlet.shardlets WHERE map = 'ut_hash' AND shard = 's1' ORDER BY low LIMIT 1 \gset
CALL shardlet.move_shardlet(:'id', 's2', 'offline', 'true');
SELECT count(*) FROM t;
\set VERBOSITY sqlstate
CALL shardlet.resume_move('0');
CALL shardlet.cancel_move('0');
SELECT shardlet.unassign(:'id');
SELECT shardlet.assert_owner('ut_hash', '1');
\set VERBOSITY default

-- The rest.
SELECT count(*) > 0 AS healthy FROM shardlet.health();
SELECT shardlet.next_id() > 0 AS id;
SELECT shardlet.add_shard('ut_new', NULL, 'north', '1', NULL, 'true');
SELECT shardlet.drop_shard('ut_new', 'false'), shardlet.close_connections('s4');
DROP DATABASE contrib_regression_ut_new;

-- A literal of an array without a type cannot say what the elements are, and that is
-- told before anything runs.
\set VERBOSITY sqlstate
SELECT shardlet.assign_keys('ut_list', 's2', '{b,c}');
SELECT * FROM shardlet.route_many('ut_list', '{a,b}');
\set VERBOSITY default

DROP TABLE t, u, w, r, p, s;
SELECT count(*) FROM shardlet.execute('ut_hash', 'DROP TABLE untyped.w');
SELECT shardlet.drop_map('ut_hash'), shardlet.drop_map('ut_range'), shardlet.drop_map('ut_list'), shardlet.drop_map('ut_two'), shardlet.drop_map('ut_spread'), shardlet.drop_map('ut_via');
DROP SCHEMA untyped CASCADE;
SELECT count(*) FROM shardlet.execute(NULL, 'DROP SCHEMA untyped CASCADE');
