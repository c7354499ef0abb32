-- A placed table goes to another shard, with all that belongs to it.
SET client_min_messages = warning;
CREATE SCHEMA mt;
SET search_path = mt;
CREATE FUNCTION exists_on(name) RETURNS bigint LANGUAGE sql AS
	$$SELECT rows FROM shardlet.execute(NULL, $q$SELECT FROM pg_class WHERE relname IN ('placed', 'placed_v_idx') AND relnamespace::regnamespace::text = 'mt'$q$, shards => ARRAY[$1])$$;
CREATE TABLE placed (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v int CHECK (v > 0), self bigint REFERENCES placed, double int GENERATED ALWAYS AS (v * 2) STORED);
CREATE INDEX ON placed (v);
COMMENT ON TABLE placed IS 'a comment';
INSERT INTO placed (v) SELECT i FROM generate_series(1, 1000) i;
SELECT shardlet.place('placed', 's1');
SELECT count(*) FROM shardlet.execute(NULL, 'CREATE SCHEMA IF NOT EXISTS mt');
SELECT exists_on('s1'), exists_on('s2');
CALL shardlet.move_table('placed', 's2');
SELECT exists_on('s1'), exists_on('s2');
SELECT tbl, kind, shard FROM shardlet.tables WHERE tbl = 'placed'::regclass;
SELECT count(*), sum(v), sum(double), max(id) FROM placed;
INSERT INTO placed (v, self) VALUES (7, 5) RETURNING id, double;
INSERT INTO placed (v) VALUES (0);
INSERT INTO placed (v, self) VALUES (1, 99999);
\d placed
-- It is part of the transaction.
BEGIN;
CALL shardlet.move_table('placed', 's3');
SELECT count(*) FROM placed;
ROLLBACK;
SELECT shard, exists_on('s3') FROM shardlet.tables WHERE tbl = 'placed'::regclass;
SELECT count(*) FROM placed;
-- There already; not placed; attached; unknown; a shard that is away.
SET client_min_messages = notice;
CALL shardlet.move_table('placed', 's2');
SET client_min_messages = warning;
CREATE TABLE plain (i int);
CALL shardlet.move_table('plain', 's2');
CALL shardlet.move_table('placed', 'none');
CALL shardlet.move_table('placed', NULL);
CALL shardlet.move_table(NULL, 's2');
SELECT shardlet.create_map('mt');
CREATE TABLE sharded (id bigint PRIMARY KEY);
SELECT shardlet.distribute('sharded', 'mt', 'id');
CALL shardlet.move_table('sharded', 's2');
SELECT count(*) FROM shardlet.execute(NULL, 'CREATE TABLE mt.own (i int)', shards => '{s1}');
SELECT shardlet.attach('mt.own', shard => 's1');
CALL shardlet.move_table('own', 's2');
SELECT shardlet.alter_shard('s3', state => 'offline');
\set VERBOSITY sqlstate
CALL shardlet.move_table('placed', 's3');
\set VERBOSITY default
SELECT shardlet.alter_shard('s3', state => 'online');
SELECT count(*), max(shard) FROM placed, shardlet.tables WHERE tbl = 'placed'::regclass;
-- drain_shard takes it along; an attached one stays, with a warning.
SELECT shardlet.undistribute('sharded');
CALL shardlet.drain_shard('s2');
SELECT count(*), max(shard) <> 's2' AS elsewhere, exists_on('s2') FROM placed, shardlet.tables WHERE tbl = 'placed'::regclass;
CALL shardlet.drain_shard('s1');
SELECT shard FROM shardlet.tables WHERE tbl = 'own'::regclass;
DROP SCHEMA mt CASCADE;
SELECT count(*) FROM shardlet.execute(NULL, 'DROP SCHEMA IF EXISTS mt CASCADE');
SELECT shardlet.drop_map('mt');
