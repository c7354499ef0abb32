-- What cannot be moved is refused before anything happens.
SET client_min_messages = warning;
CREATE SCHEMA move_refuse;
SET search_path = move_refuse;
SELECT shardlet.create_map('mv', shards => '{s1, s2}', shardlets => 2);
CREATE TABLE t (k bigint PRIMARY KEY, v text);
SELECT shardlet.distribute('t', 'mv', 'k');
INSERT INTO t SELECT i, 'v' || i FROM generate_series(1, 100) i;
SELECT shardlet AS one FROM shardlet.shardlets WHERE map = 'mv' AND shard = 's1' \gset
SELECT shardlet AS two FROM shardlet.shardlets WHERE map = 'mv' AND shard = 's2' \gset

-- Wrong input.
CALL shardlet.move_shardlet(NULL, 's2');
CALL shardlet.move_shardlet(:one, NULL);
CALL shardlet.move_shardlet(:one, 's2', NULL);
CALL shardlet.move_shardlet(:one, 's2', 'quick');
CALL shardlet.move_shardlet(:one, 'nowhere', 'read_only');
CALL shardlet.move_shardlet(0, 's2', 'read_only');
CALL shardlet.resume_move(NULL);
CALL shardlet.resume_move(0);
CALL shardlet.cancel_move(0);
CALL shardlet.drain_shard('nowhere');
CALL shardlet.drain_shard('s1', mode => 'read_only', parallel => 0);
BEGIN;
CALL shardlet.move_shardlet(:one, 's2', 'read_only');
ROLLBACK;
BEGIN READ ONLY;
CALL shardlet.move_shardlet(:one, 's2', 'read_only');
ROLLBACK;

-- The numbers of shardlets are not ours to print.
\set VERBOSITY sqlstate
CALL shardlet.move_shardlet(:one, 's1', 'read_only');
SELECT shardlet.alter_shard('s2', state => 'read_only');
CALL shardlet.move_shardlet(:one, 's2', 'read_only');
CALL shardlet.move_shardlet(:two, 's1', 'read_only');
SELECT shardlet.alter_shard('s2', state => 'offline');
CALL shardlet.move_shardlet(:one, 's2', 'read_only');
SELECT shardlet.alter_shard('s2', state => 'online');
SELECT shardlet.alter_shardlet(:one, state => 'offline');
CALL shardlet.move_shardlet(:one, 's2', 'read_only');
SELECT shardlet.alter_shardlet(:one, state => 'online');

-- The target has such rows already, and their owner is not known.
SELECT k AS key FROM t WHERE shardlet.route('mv', k) = 's1' LIMIT 1 \gset
CREATE FUNCTION plant(text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM shardlet.execute('mv', format('SELECT set_config(%L, %L, true)', 'session_replication_role', 'replica'), shards => '{s2}');
	PERFORM shardlet.execute('mv', $1, shards => '{s2}');
END $$;
SELECT plant('INSERT INTO move_refuse.t VALUES (' || :key || ', NULL)');
CALL shardlet.move_shardlet(:one, 's2', 'read_only');
SELECT plant('DELETE FROM move_refuse.t WHERE k = ' || :key);

-- A column that only the shards have would be lost.
\set VERBOSITY default
SELECT * FROM shardlet.execute('mv', 'ALTER TABLE move_refuse.t ADD COLUMN mine int');
CALL shardlet.move_shardlet(:one, 's2', 'read_only');
SELECT * FROM shardlet.execute('mv', 'ALTER TABLE move_refuse.t DROP COLUMN mine');

-- Online: a key outside of the replica identity would break the application's updates.
\set VERBOSITY terse
CREATE TABLE no_key (k bigint NOT NULL, v int PRIMARY KEY);
ALTER TABLE no_key DROP CONSTRAINT no_key_pkey;
SELECT shardlet.distribute('no_key', 'mv', 'k');
CALL shardlet.move_shardlet(:one, 's2');
DROP TABLE no_key;
CREATE TABLE generated (d jsonb, k bigint GENERATED ALWAYS AS ((d ->> 'k')::bigint) STORED PRIMARY KEY);
SELECT shardlet.distribute('generated', 'mv', 'k');
CALL shardlet.move_shardlet(:one, 's2', 'online');
DROP TABLE generated;
CREATE TABLE generated (k bigint, v int, g int GENERATED ALWAYS AS (v + 1) STORED, PRIMARY KEY (k, g));
SELECT shardlet.distribute('generated', 'mv', 'k');
CALL shardlet.move_shardlet(:one, 's2', 'online');
DROP TABLE generated;
CREATE TABLE whole_rows (k bigint NOT NULL, v json);
ALTER TABLE whole_rows REPLICA IDENTITY FULL;
SELECT shardlet.distribute('whole_rows', 'mv', 'k');
\set VERBOSITY default
CALL shardlet.move_shardlet(:one, 's2');
ALTER TABLE whole_rows ALTER v TYPE text;
SELECT count(*) FROM shardlet.execute('mv', 'ALTER TABLE move_refuse.whole_rows ADD mine int DEFAULT 1', shards => '{s2}');
CALL shardlet.move_shardlet(:one, 's2');
\set VERBOSITY terse
DROP TABLE whole_rows;
-- Changes of partitions are sent as those of the whole table.
CREATE TABLE parts (k bigint NOT NULL, v int) PARTITION BY RANGE (v);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (10);
ALTER TABLE parts_1 REPLICA IDENTITY FULL;
SELECT shardlet.distribute('parts', 'mv', 'k');
\set VERBOSITY default
CALL shardlet.move_shardlet(:one, 's2');
\set VERBOSITY terse
ALTER TABLE parts REPLICA IDENTITY FULL;
CALL shardlet.move_shardlet(:one, 's2');
CALL shardlet.move_shardlet(:one, 's1');
DROP TABLE parts;
\set VERBOSITY sqlstate

-- Spread: only to where there is no slot.
SELECT shardlet.create_map('sp', 'spread', shards => '{s1, s2}');
SELECT shardlet AS lane FROM shardlet.shardlets WHERE map = 'sp' AND shard = 's1' \gset
CALL shardlet.move_shardlet(:lane, 's2', 'read_only');
CALL shardlet.drain_shard('s2', mode => 'read_only');
\set VERBOSITY default

-- Nothing was left by all that.
SELECT count(*) FROM shardlet.moves WHERE open;
SELECT count(*) FROM shardlet.catalog_stray;
SELECT shard, state FROM shardlet.shardlets WHERE map = 'mv' ORDER BY shard;
SELECT count(*) FROM t;

-- Who may not set up maps may not move.
CREATE ROLE move_nobody;
SET ROLE move_nobody;
CALL shardlet.move_shardlet(1, 's2', 'read_only');
CALL shardlet.drain_shard('s1');
CALL shardlet.cancel_move(1);
CALL shardlet.resume_move(1);
SELECT count(*) >= 0 FROM shardlet.moves;
RESET ROLE;
-- What an error says is for the one whose move it is, and for those who watch.
BEGIN;
INSERT INTO shardlet.catalog_move SELECT -1, 0, 0, 0, 0, 'online', 'undo', 'online', current_user::regrole, false, false, 0, 0, 0, 0, 0, 0, 0, 0,
	now(), now(), 'Key (k)=(secret) exists', NULL, 'no name', 1;
SELECT last_error FROM shardlet.moves WHERE move = -1;
SET ROLE move_nobody;
SELECT move, last_error FROM shardlet.moves WHERE move = -1;
RESET ROLE;
GRANT pg_read_all_stats TO move_nobody;
SET ROLE move_nobody;
SELECT last_error FROM shardlet.moves WHERE move = -1;
RESET ROLE;
REVOKE pg_read_all_stats FROM move_nobody;
UPDATE shardlet.catalog_move SET user_id = 'move_nobody'::regrole WHERE move = -1;
SET ROLE move_nobody;
SELECT last_error FROM shardlet.moves WHERE move = -1;
RESET ROLE;
ROLLBACK;
DROP ROLE move_nobody;
DROP TABLE t;
SELECT count(shardlet.drop_map(map)) FROM shardlet.maps;
SELECT count(*) FROM shardlet.execute(NULL, 'DROP SCHEMA IF EXISTS move_refuse CASCADE');
DROP SCHEMA move_refuse CASCADE;
