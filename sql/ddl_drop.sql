-- DROP TABLE drops on the shards what was distributed, and nothing else ever
-- drops a shard's table.
SELECT shardlet.create_map('dd', shards => '{s1,s2,s3}');
CREATE SCHEMA ddl_drop;
SET search_path = ddl_drop;
SELECT count(*) FROM shardlet.execute('dd', 'CREATE SCHEMA ddl_drop');
CREATE FUNCTION there() RETURNS TABLE (tables text, shards bigint) LANGUAGE sql AS $$
	SELECT a, count(*) FROM shardlet.query('dd', 'SELECT coalesce(string_agg(relname, '', '' ORDER BY relname), ''-'') FROM pg_class WHERE relkind IN (''r'', ''v'') AND relnamespace = ''ddl_drop''::regnamespace',
		per_shard => true) AS q(a text) GROUP BY a ORDER BY a $$;
-- Tables of all kinds: sharded a and b, of which b refers to a; attached c; placed p.
CREATE FUNCTION make() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM shardlet.execute('dd', 'CREATE TABLE ddl_drop.c (k bigint NOT NULL)');
	PERFORM shardlet.attach('c', 'dd', 'k');
	CREATE TABLE a (k bigint PRIMARY KEY);
	CREATE TABLE b (k bigint NOT NULL REFERENCES a);
	CREATE TABLE p (k bigint);
	EXECUTE $q$SELECT shardlet.distribute_tables('{a, b}', 'dd', '{k}'), shardlet.place('p', 's2')$q$;
END $$;
CREATE TABLE here (a int);
SELECT make();
SELECT * FROM there();

DROP TABLE a;
SELECT count(*) FROM pg_class WHERE oid = to_regclass('a');
BEGIN; DROP TABLE a CASCADE; SELECT * FROM there(); ROLLBACK;
DROP TABLE c;
DROP TABLE p;
SELECT * FROM there();
DROP TABLE IF EXISTS here, zz, a, b, a;
SELECT * FROM there();
SELECT relname FROM pg_class WHERE relnamespace = 'ddl_drop'::regnamespace;
DROP TABLE a;
SELECT count(*) FROM shardlet.execute('dd', 'DROP TABLE ddl_drop.c');

-- Rolled back, nothing has happened.
SELECT make();
BEGIN; DROP TABLE a, b, c, p; SELECT * FROM there(); ROLLBACK;
SELECT * FROM there();
BEGIN; SAVEPOINT x; DROP TABLE b; ROLLBACK TO x; DROP TABLE p; COMMIT;
SELECT * FROM there();

-- A view on a shard keeps its table, unless CASCADE is said.
SELECT count(*) FROM shardlet.execute('dd', 'CREATE VIEW ddl_drop.v AS SELECT * FROM ddl_drop.b', shards => '{s3}');
DROP TABLE b;
CREATE VIEW v AS SELECT * FROM b;
DROP TABLE b;
DROP TABLE b CASCADE;
SELECT * FROM there();

-- Dropped along with something else: the shards' tables stay.
CREATE SCHEMA ddl_drop_inner;
ALTER TABLE a SET SCHEMA ddl_drop_inner;
SELECT count(*) FROM shardlet.query('dd', 'SELECT 1 FROM ddl_drop_inner.a') AS q(a int);
BEGIN; DROP SCHEMA ddl_drop_inner CASCADE; SELECT count(*) FROM shardlet.query('dd', 'SELECT 1 FROM ddl_drop_inner.a') AS q(a int); ROLLBACK;
CREATE ROLE ddl_drop_user;
ALTER TABLE ddl_drop_inner.a OWNER TO ddl_drop_user;
BEGIN; DROP OWNED BY ddl_drop_user; SELECT count(*) FROM shardlet.query('dd', 'SELECT 1 FROM ddl_drop_inner.a') AS q(a int); ROLLBACK;
\set VERBOSITY terse
BEGIN; DROP SERVER shardlet_tables CASCADE; SELECT count(*) FROM shardlet.query('dd', 'SELECT 1 FROM ddl_drop_inner.a') AS q(a int); ROLLBACK;
SET client_min_messages = warning;
BEGIN; DROP EXTENSION shardlet CASCADE; ROLLBACK;
RESET client_min_messages;
\set VERBOSITY default
SELECT count(*) FROM shardlet.query('dd', 'SELECT 1 FROM ddl_drop_inner.a') AS q(a int);

-- A shard that has lost a table does not keep it from being dropped or forgotten.
CREATE TABLE gone (k bigint PRIMARY KEY);
SELECT shardlet.distribute('gone', 'dd', 'k');
SELECT count(*) FROM shardlet.execute('dd', 'DROP TABLE ddl_drop.gone', shards => '{s2}');
BEGIN; DROP TABLE gone; SELECT * FROM there(); ROLLBACK;
BEGIN; SELECT shardlet.detach('gone'); ROLLBACK;
SELECT count(*) FROM shardlet.execute('dd', 'DROP TABLE ddl_drop.gone', shards => '{s1,s3}');
DROP TABLE gone;

-- Where a table's map or shard is not known, there is no shard to carry anything to.
CREATE TABLE lost (k bigint NOT NULL);
CREATE TABLE lost_place (k bigint);
SELECT shardlet.distribute('lost', 'dd', 'k'), shardlet.place('lost_place', 's2');
SET allow_system_table_mods = on;
UPDATE pg_foreign_table SET ftoptions = '{map=no_such_map,key=k}' WHERE ftrelid = 'lost'::regclass;
UPDATE pg_foreign_table SET ftoptions = '{shard_id=9999}' WHERE ftrelid = 'lost_place'::regclass;
RESET allow_system_table_mods;
COMMENT ON TABLE lost IS 'x';
ALTER TABLE lost OWNER TO ddl_drop_user;
GRANT SELECT ON lost TO PUBLIC;
GRANT SELECT ON ALL TABLES IN SCHEMA ddl_drop TO PUBLIC;
ALTER TABLE lost_place ADD a int;
DROP INDEX no_such_index;
DROP TABLE lost, lost_place;
SET client_min_messages = warning;
SELECT count(*) FROM shardlet.execute('dd', 'DROP TABLE IF EXISTS lost, lost_place');
RESET client_min_messages;

-- A column is not dropped here alone.
CREATE TYPE mood AS ENUM ('sad');
SELECT count(*) FROM shardlet.execute('dd', 'CREATE TYPE ddl_drop.mood AS ENUM (''sad'')');
ALTER TABLE c ADD COLUMN m mood;
DROP TYPE mood;
DROP TYPE mood CASCADE;
\d c

-- Who may not drop it here does not drop it there.
GRANT USAGE ON SCHEMA ddl_drop TO ddl_drop_user;
SET ROLE ddl_drop_user;
\set VERBOSITY sqlstate
DROP TABLE c;
\set VERBOSITY default
RESET ROLE;
-- The router alone.
SET shardlet.carry_ddl = off;
DROP TABLE c;
RESET shardlet.carry_ddl;
SELECT * FROM there();
SET ROLE ddl_drop_user;
SET shardlet.carry_ddl = off;
RESET ROLE;

ALTER TABLE ddl_drop_inner.a OWNER TO CURRENT_USER;
DROP TABLE ddl_drop_inner.a;
DROP OWNED BY ddl_drop_user;
DROP ROLE ddl_drop_user;
DROP SCHEMA ddl_drop_inner;
SET client_min_messages = warning;
DROP SCHEMA ddl_drop CASCADE;
SELECT count(*) FROM shardlet.execute('dd', 'DROP SCHEMA ddl_drop CASCADE');
SELECT count(*) FROM shardlet.execute('dd', 'DROP SCHEMA ddl_drop_inner');
SELECT shardlet.drop_map('dd');
