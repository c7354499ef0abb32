-- Parts of one statement, and functions in its conditions, that write: it is one
-- command, whatever its plan.  The oracle has many more statements.
CREATE SCHEMA ww;
CREATE SCHEMA ww_plain;
SET search_path = ww, public;
SELECT shardlet.create_map('ww');
CREATE TABLE t (id bigint PRIMARY KEY, v int);
CREATE TABLE ww_plain.t (id bigint PRIMARY KEY, v int);
INSERT INTO t SELECT g, g FROM generate_series(1, 8) g;
INSERT INTO ww_plain.t SELECT g, g FROM generate_series(1, 8) g;
SELECT shardlet.distribute('t', 'ww', 'id');
CREATE FUNCTION public.ww_fill() RETURNS int LANGUAGE plpgsql AS 'BEGIN INSERT INTO t VALUES (101, 5), (102, 5), (103, 5), (104, 5); RETURN 5; END';
CREATE FUNCTION public.ww_change() RETURNS int LANGUAGE plpgsql AS 'BEGIN UPDATE t SET v = 0 WHERE v = 5; RETURN 5; END';

-- What the statement does to plain tables and to sharded ones, or its error.
CREATE FUNCTION public.ww_run(path text, statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	PERFORM set_config('search_path', path, true);
	EXECUTE statement;
	EXECUTE 'SELECT string_agg(id || ''='' || v, '' '' ORDER BY id, v) FROM t' INTO result;
	RAISE EXCEPTION USING ERRCODE = 'ZZ000', MESSAGE = result;
EXCEPTION WHEN OTHERS THEN
	RETURN CASE WHEN SQLSTATE = 'ZZ000' THEN SQLERRM ELSE SQLSTATE END;
END $$;
CREATE FUNCTION public.ww(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	road text := public.road(statement);
	path text := current_setting('search_path');
	sharded text := public.ww_run(path, statement);
	plain text := public.ww_run('ww_plain, public', statement);
BEGIN
	PERFORM set_config('search_path', path, true);
	RETURN road || ': ' || CASE WHEN sharded = plain THEN plain ELSE format('DIFFERENT %s instead of %s', sharded, plain) END;
END $$;

SELECT ww($$WITH i AS (INSERT INTO t VALUES (11, 1), (12, 2), (13, 2) RETURNING *) DELETE FROM t WHERE v = (SELECT max(v) FROM i)$$);
SELECT ww($$WITH i AS (INSERT INTO t VALUES (11, 1), (12, 2), (13, 2) RETURNING *) UPDATE t SET v = -1 FROM i WHERE i.v = t.v$$);
SELECT ww($$DELETE FROM t WHERE v = (SELECT ww_fill())$$);
SELECT ww($$DELETE FROM t WHERE id = 5 AND v = (SELECT ww_fill())$$);
SELECT ww($$UPDATE t SET id = id + 20 WHERE v = (SELECT ww_fill())$$);
SELECT ww($$UPDATE t SET v = -1 WHERE v = (SELECT ww_change())$$);
SELECT ww($$DELETE FROM t WHERE id = 5 AND v = (SELECT ww_change())$$);
SELECT ww($$WITH u AS (UPDATE t SET v = 10 RETURNING *) UPDATE t SET v = 5 FROM u WHERE u.id = t.id$$);
SELECT ww($$WITH u AS (UPDATE t SET v = 10 RETURNING *) DELETE FROM t WHERE v < (SELECT count(*) FROM u)$$);
SELECT ww($$WITH d AS (DELETE FROM t WHERE id < 5 RETURNING *) UPDATE t SET v = 9 WHERE v < (SELECT count(*) FROM d) * 2$$);

-- In a savepoint, in REPEATABLE READ, and inside a function with a handler of its own.
BEGIN;
SAVEPOINT a;
WITH u AS (UPDATE t SET v = 10 RETURNING *) UPDATE t SET v = 5 FROM u WHERE u.id = t.id;
ROLLBACK TO a;
WITH i AS (INSERT INTO t VALUES (21, 3), (22, 3) RETURNING *) DELETE FROM t WHERE v = (SELECT max(v) FROM i) RETURNING *;
WITH i AS (INSERT INTO t VALUES (23, 3), (24, 3) RETURNING *) DELETE FROM t WHERE v = (SELECT max(v) FROM i) RETURNING id > 20 AS earlier;
ROLLBACK;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM t;
WITH i AS (INSERT INTO t VALUES (21, 3), (22, 3) RETURNING *) DELETE FROM t WHERE v = (SELECT max(v) FROM i) RETURNING *;
DELETE FROM t WHERE v = (SELECT ww_fill()) RETURNING *;
ROLLBACK;

-- A cursor that was opened before sees none of it, one that was opened after sees all.
BEGIN;
DECLARE before CURSOR FOR SELECT * FROM t ORDER BY id;
WITH i AS (INSERT INTO t VALUES (21, 3), (22, 3) RETURNING *) DELETE FROM t WHERE v = (SELECT max(v) FROM i);
DECLARE after CURSOR FOR SELECT * FROM t ORDER BY id;
FETCH ALL FROM before;
FETCH ALL FROM after;
ROLLBACK;

-- The shard's functions that do it do no harm when other roles call them.
SELECT shardlet_internal.has_changed_row(0, '(0,1)'), shardlet_internal.has_changed_row('pg_class'::regclass, '(4294967294,1)'), shardlet_internal.has_changed_row('pg_class'::regclass, '(0,0)'),
	shardlet_internal.has_changed_row('pg_class_oid_index'::regclass, '(0,1)'), shardlet_internal.has_changed_row('shardlet.tables'::regclass, '(0,1)'), shardlet_internal.has_changed_row(NULL, '(0,1)');
BEGIN;
SELECT ctid AS place FROM ww_plain.t WHERE id = 1 \gset
UPDATE ww_plain.t SET v = 1 WHERE id = 1;
SELECT shardlet_internal.has_changed_row('ww_plain.t'::regclass, :'place');
SELECT shardlet_internal.use_snapshot(-1), shardlet_internal.use_snapshot((-9223372036854775808)::bigint);
INSERT INTO ww_plain.t VALUES (50, 50);
SELECT shardlet_internal.use_snapshot(1);
DELETE FROM ww_plain.t WHERE id = 50 RETURNING *;
DELETE FROM ww_plain.t WHERE id = 50 RETURNING *;
ROLLBACK;

-- A bare shard cannot: refused, unless the parts have nothing to do with each other.
CREATE DATABASE ww_bare;
SELECT current_setting('port') AS port, current_setting('unix_socket_directories') AS host \gset
SET client_min_messages = error;
SELECT shardlet.add_shard('ww_bare', format('host=%s port=%s dbname=ww_bare', :'host', :'port'), install => false);
RESET client_min_messages;
SELECT shardlet.create_map('ww_bare', shards => '{ww_bare}');
CREATE TABLE b (id bigint PRIMARY KEY, v int);
CREATE TABLE c (id bigint PRIMARY KEY, v int);
INSERT INTO b SELECT g, g FROM generate_series(1, 5) g;
INSERT INTO c SELECT * FROM b;
SELECT shardlet.distribute_tables('{b, c}', 'ww_bare', '{id}');
WITH i AS (INSERT INTO b VALUES (11, 3), (12, 3) RETURNING *) DELETE FROM b WHERE v = (SELECT max(v) FROM i);
WITH i AS (INSERT INTO c VALUES (11, 3), (12, 3) RETURNING *) DELETE FROM b WHERE v = (SELECT max(v) FROM i) RETURNING *;
CREATE FUNCTION public.ww_fill_bare() RETURNS int LANGUAGE plpgsql AS 'BEGIN INSERT INTO b VALUES (101, 5), (102, 5); RETURN 5; END';
\set VERBOSITY sqlstate
DELETE FROM b WHERE v = (SELECT ww_fill_bare());
UPDATE b SET v = 0 WHERE v = (SELECT ww_fill_bare());
\set VERBOSITY default
SELECT * FROM b ORDER BY id;
DROP TABLE b, c;
SELECT shardlet.drop_map('ww_bare'), shardlet.drop_shard('ww_bare');
DROP DATABASE ww_bare;

DROP TABLE t;
DROP FUNCTION public.ww_fill, public.ww_change, public.ww_run, public.ww, public.ww_fill_bare;
SET client_min_messages = warning;
DROP SCHEMA ww, ww_plain CASCADE;
SELECT count(*) FROM shardlet.execute(NULL, 'DROP SCHEMA IF EXISTS ww CASCADE');
SELECT shardlet.drop_map('ww');
