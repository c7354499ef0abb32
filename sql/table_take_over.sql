-- The list of shell tables that is dumped, and take_over(), which connects restored tables to their shards.
-- test/t/105_metadata_shell_dump.pl has real dumps.
CREATE SCHEMA take_over;
CREATE SCHEMA take_over_2;
SET search_path = take_over;
SELECT shardlet.create_map('take_over', shardlets => 4);
CREATE TABLE t (k bigint PRIMARY KEY, v int);
CREATE TABLE p (k bigint, d int, v int, PRIMARY KEY (k, d)) PARTITION BY RANGE (d);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10);
CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10) TO (20) PARTITION BY RANGE (k);
CREATE TABLE p2_default PARTITION OF p2 DEFAULT;
CREATE TABLE "One Shard" (id int PRIMARY KEY);
INSERT INTO t SELECT g, g FROM generate_series(1, 20) g;
INSERT INTO p SELECT g, g % 20, g FROM generate_series(1, 40) g;
INSERT INTO "One Shard" VALUES (1), (2);
CREATE VIEW listed AS SELECT schema_name, table_name, options[1] AS option, options[2] AS other FROM shardlet.catalog_table
	WHERE schema_name LIKE 'take_over%' ORDER BY 1, 2;

-- Each table is listed, and each partition.
TABLE listed;
BEGIN;
SELECT shardlet.distribute('t', 'take_over', 'k');
TABLE listed;
ROLLBACK;
TABLE listed;
SELECT shardlet.distribute('t', 'take_over', 'k'), shardlet.distribute('p', 'take_over', 'k');
SELECT shardlet.place('"One Shard"', 's1');
SELECT schema_name, table_name, option LIKE 'shard_id=%' AS is_placed, other FROM listed;
SELECT tbl, kind, key FROM shardlet.tables WHERE tbl::text !~ '\.' ORDER BY tbl::text COLLATE "C";

-- Names follow.  The shards have nothing to do with it.
SET shardlet.carry_ddl = off;
BEGIN;
ALTER TABLE t RENAME TO tmp;
ALTER TABLE p RENAME TO t;
ALTER TABLE tmp RENAME TO p;
SAVEPOINT before;
ALTER TABLE p1 SET SCHEMA take_over_2;
ALTER SCHEMA take_over RENAME TO take_over_3;
SELECT schema_name, table_name FROM take_over_3.listed;
ROLLBACK TO before;
ALTER INDEX p2 RENAME TO p3;
ALTER TABLE p3 OWNER TO CURRENT_USER;
SELECT schema_name, table_name FROM listed;
ROLLBACK;
-- An entry that was left of another table is replaced.
BEGIN;
INSERT INTO shardlet.catalog_table VALUES ('take_over', 'u', '{map=other}');
ALTER TABLE t RENAME TO u;
TABLE listed LIMIT 6;
ROLLBACK;
RESET shardlet.carry_ddl;

-- As after a restore without rows: connected to nothing.
CREATE FUNCTION disconnect_tables() RETURNS void LANGUAGE plpgsql SET allow_system_table_mods = on AS $$
DECLARE
	tables oid[] := ARRAY(SELECT c.oid FROM pg_class c JOIN shardlet.catalog_table ON relname = table_name AND relnamespace = schema_name::regnamespace
		WHERE schema_name = 'take_over');
BEGIN
	DELETE FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = ANY (tables) AND refclassid = 'pg_foreign_server'::regclass;
	DELETE FROM pg_foreign_table WHERE ftrelid = ANY (tables);
END $$;
CREATE FUNCTION tries(statement text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE statement;
	RETURN 'works';
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE || ' ' || SQLERRM;
END $$;
SELECT disconnect_tables();
\c
SET search_path = take_over;
SELECT s, tries(s) FROM unnest(ARRAY[
	'TABLE t', 'TABLE p', 'SELECT * FROM p WHERE d = 1000', 'TABLE p1', 'TABLE p2', 'TABLE "One Shard"', 'SELECT * FROM t JOIN p USING (k)',
	'INSERT INTO t VALUES (100)', 'INSERT INTO p VALUES (100, 1)', 'UPDATE p SET v = 0', 'DELETE FROM p', 'DELETE FROM t', 'TRUNCATE p', 'SELECT * FROM p FOR UPDATE',
	'INSERT INTO t SELECT k FROM p', 'CREATE TABLE copied AS SELECT * FROM p']) s;
TABLE p;
-- DDL stays on the router.  The names follow still.
ALTER TABLE t RENAME TO u;
CREATE INDEX t_v ON u (v);
SELECT schema_name, table_name FROM listed;
ALTER TABLE u RENAME TO t;
DROP INDEX t_v;

-- All or nothing, and only for those who may.
CREATE ROLE take_over_user;
GRANT USAGE ON SCHEMA take_over TO take_over_user;
SET ROLE take_over_user;
SELECT shardlet.take_over();
RESET ROLE;
BEGIN READ ONLY;
SELECT shardlet.take_over();
ROLLBACK;
BEGIN;
SELECT shardlet.take_over();
SELECT count(*), sum(v) FROM t;
ROLLBACK;
SELECT tries('TABLE t');
SELECT shardlet.take_over();
SELECT shardlet.take_over();
SELECT count(*), sum(v) FROM t;
SELECT count(*), sum(v) FROM p;
SELECT count(*), sum(v) FROM p2;
SELECT count(*) FROM "One Shard";
INSERT INTO p VALUES (1000, 5, 0) RETURNING *;
SELECT tbl, kind, key FROM shardlet.tables WHERE tbl::text !~ '\.' ORDER BY tbl::text COLLATE "C";
SELECT count(*) FROM pg_depend WHERE objid = 't'::regclass AND refclassid = 'pg_foreign_server'::regclass;

-- A listed table that does not exist, a map that does not, and a table that is not listed.
BEGIN;
INSERT INTO shardlet.catalog_table VALUES ('take_over', 'gone', '{map=take_over,key=k}'), ('no_schema', 'gone', '{map=take_over,key=k}');
SELECT shardlet.take_over();
SELECT schema_name, table_name FROM shardlet.catalog_table WHERE table_name = 'gone';
ROLLBACK;
SELECT disconnect_tables();
\c
SET search_path = take_over;
BEGIN;
UPDATE shardlet.catalog_table SET options = '{map=no_such_map,key=k}' WHERE schema_name = 'take_over' AND table_name = 't';
SELECT shardlet.take_over();
ROLLBACK;
BEGIN;
UPDATE shardlet.catalog_table SET options = '{map=take_over,key=no_such_column}' WHERE schema_name = 'take_over' AND table_name = 't';
SELECT shardlet.take_over();
ROLLBACK;
BEGIN;
DELETE FROM shardlet.catalog_table WHERE schema_name = 'take_over' AND table_name = 't';
SELECT shardlet.take_over();
ROLLBACK;

-- What is dropped, or undistributed, is not listed.
BEGIN;
DROP TABLE t, p;
SELECT table_name FROM listed;
ROLLBACK;
SELECT shardlet.take_over();
SET shardlet.carry_ddl = off;
BEGIN;
DROP TABLE p2, "One Shard";
SELECT table_name FROM listed;
ROLLBACK;
BEGIN;
SET LOCAL client_min_messages = warning;
DROP EXTENSION shardlet CASCADE;
SELECT relname FROM pg_class WHERE relnamespace = 'take_over'::regnamespace AND relkind IN ('r', 'p') ORDER BY relname;
SELECT count(*) FROM pg_foreign_table WHERE ftrelid NOT IN (SELECT oid FROM pg_class);
ROLLBACK;
RESET shardlet.carry_ddl;
-- A table with rows on the router is refused, and the whole call.  As a plain table it does not count.
SELECT disconnect_tables();
\c
SET search_path = take_over;
SET check_function_bodies = off;
SELECT set_config('search_path', '', false);
INSERT INTO take_over.p1 VALUES (1, 1, 1);
SET search_path = take_over;
RESET check_function_bodies;
TABLE p1;
SELECT tries('TABLE p'), tries('TABLE p2'), tries('TABLE t');
SELECT shardlet.take_over();
SELECT tries('TABLE t');
ALTER TABLE p1 SET ACCESS METHOD heap;
SELECT shardlet.take_over();
ALTER TABLE p DETACH PARTITION p1;
SELECT shardlet.take_over();
SELECT count(*) FROM t;
TABLE p1;
SELECT count(*) FROM p2;

-- A partition that is not on the router any more stays on the shards.
SET client_min_messages = warning;
SET shardlet.carry_ddl = off;
DROP TABLE p;
RESET shardlet.carry_ddl;
SELECT count(*) FROM shardlet.execute('take_over', 'DROP TABLE take_over.p');
SELECT shardlet.undistribute('t'), shardlet.undistribute('"One Shard"');
SELECT table_name FROM listed;
SELECT count(*), sum(v) FROM t;
SELECT * FROM "One Shard" ORDER BY id;
DROP SCHEMA take_over, take_over_2 CASCADE;
SELECT shardlet.drop_map('take_over');
DROP ROLE take_over_user;
SELECT count(*) FROM shardlet.catalog_table;
