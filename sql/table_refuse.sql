-- What cannot be distributed is refused, with the reason and a way out, and
-- stays as it was.
CREATE SCHEMA refuse;
SET search_path = refuse;
SELECT shardlet.create_map('refuse'), shardlet.create_map('refuse_two', key_types => '{bigint, text}'), shardlet.create_map('refuse_spread', 'spread');
CREATE TABLE t (id bigint PRIMARY KEY, k bigint NOT NULL, n bigint, v text NOT NULL);
INSERT INTO t SELECT g, g, g, g FROM generate_series(1, 10) g;

-- Arguments.
SELECT shardlet.distribute(NULL, 'refuse', 'id');
SELECT shardlet.distribute('t', NULL, 'id');
SELECT shardlet.distribute('t', 'nonesuch', 'id');
SELECT shardlet.distribute('t', 'refuse');
SELECT shardlet.distribute('t', 'refuse', '');
SELECT shardlet.distribute('t', 'refuse', 'id, k');
SELECT shardlet.distribute('t', 'refuse_two', 'id');
SELECT shardlet.distribute('t', 'refuse_two', 'id, id');
SELECT shardlet.distribute('t', 'refuse_spread', 'id');
SELECT shardlet.distribute('t', 'refuse', 'nonesuch');
SELECT shardlet.distribute('t', 'refuse', 'ctid');
SELECT shardlet.distribute('t', 'refuse', 'v');
SELECT shardlet.distribute('t', 'refuse', 'n');
SELECT shardlet.place('t', 'nonesuch');
SELECT shardlet.place('t', NULL);

-- What is no plain table.
CREATE VIEW vw AS SELECT * FROM t;
CREATE SEQUENCE sq;
CREATE TEMPORARY TABLE tmp (k bigint NOT NULL);
CREATE UNLOGGED TABLE unlogged (k bigint NOT NULL);
CREATE TABLE parent (k bigint NOT NULL);
CREATE TABLE child (x int) INHERITS (parent);
CREATE TYPE shape AS (k bigint);
CREATE TABLE typed OF shape (k WITH OPTIONS NOT NULL);
SELECT shardlet.distribute('vw', 'refuse', 'k');
SELECT shardlet.distribute('sq', 'refuse', 'k');
SELECT shardlet.distribute('pg_class', 'refuse', 'oid');
SELECT shardlet.distribute('shardlet.catalog_map', 'refuse_spread');
SELECT shardlet.distribute('tmp', 'refuse', 'k');
SELECT shardlet.distribute('unlogged', 'refuse', 'k');
SELECT shardlet.distribute('parent', 'refuse', 'k');
SELECT shardlet.distribute('child', 'refuse', 'k');
SELECT shardlet.distribute('typed', 'refuse', 'k');

-- Keys that shards cannot check.
SELECT shardlet.distribute('t', 'refuse', 'k');
SELECT shardlet.distribute('t', 'refuse_spread');
CREATE TABLE uniques (k bigint NOT NULL, a int, b int, UNIQUE (a), EXCLUDE (k WITH =, b WITH =), EXCLUDE (a WITH =));
CREATE UNIQUE INDEX partial ON uniques (b) WHERE a > 5;
CREATE UNIQUE INDEX expression ON uniques ((k + 1));
CREATE UNIQUE INDEX fine ON uniques (a, k);
SELECT shardlet.distribute('uniques', 'refuse', 'k');
CREATE COLLATION blind (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
SELECT shardlet.create_map('refuse_text', key_types => '{text}');
CREATE TABLE collated (k text COLLATE blind NOT NULL);
SELECT shardlet.distribute('collated', 'refuse_text', 'k');

-- What foreign tables cannot have; all reasons at once.
CREATE TABLE rich (k bigint NOT NULL, v int);
ALTER TABLE rich ENABLE ROW LEVEL SECURITY;
CREATE POLICY p ON rich USING (true);
CREATE RULE r AS ON DELETE TO rich DO INSTEAD NOTHING;
CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE CONSTRAINT TRIGGER c AFTER INSERT ON rich DEFERRABLE FOR EACH ROW EXECUTE FUNCTION f();
CREATE TRIGGER tt AFTER INSERT ON rich REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION f();
SET client_min_messages = error;
CREATE PUBLICATION refuse_publication FOR TABLE rich;
RESET client_min_messages;
SELECT shardlet.distribute('rich', 'refuse', 'k');
SELECT shardlet.place('rich', 's1');
DROP PUBLICATION refuse_publication;
CREATE VIEW grouped AS SELECT id, v, count(*) FROM t GROUP BY id;
BEGIN;
SELECT shardlet.distribute('t', 'refuse', 'id');
SELECT * FROM grouped ORDER BY id LIMIT 1;
ROLLBACK;
DROP VIEW grouped;

-- In use, or not one's own.
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM t;
FETCH c;
SELECT shardlet.distribute('t', 'refuse', 'id');
ROLLBACK;
CREATE ROLE refuse_user;
GRANT USAGE ON SCHEMA refuse TO refuse_user;
SET ROLE refuse_user;
SELECT shardlet.distribute('t', 'refuse', 'id');
SELECT shardlet.attach('t', 'refuse', 'id');
RESET ROLE;
GRANT EXECUTE ON FUNCTION shardlet.distribute(regclass, name, text, bool, bool) TO refuse_user;
SET ROLE refuse_user;
SELECT shardlet.distribute('t', 'refuse', 'id');
RESET ROLE;
REVOKE EXECUTE ON FUNCTION shardlet.distribute(regclass, name, text, bool, bool) FROM refuse_user;
BEGIN READ ONLY;
SELECT shardlet.distribute('t', 'refuse', 'id');
ROLLBACK;

-- Shards that are not available, or have such a table.
SELECT shardlet.alter_shard('s3', state => 'offline');
SELECT shardlet.distribute('t', 'refuse', 'id');
SELECT shardlet.place('t', 's3');
SELECT shardlet.alter_shard('s3', state => 'read_only');
SELECT shardlet.distribute('t', 'refuse', 'id');
SELECT shardlet.alter_shard('s3', state => 'online');
SELECT count(*) FROM shardlet.execute('refuse', 'CREATE SCHEMA refuse', shards => '{s3}');
SELECT count(*) FROM shardlet.execute('refuse', 'CREATE TABLE refuse.t ()', shards => '{s3}');
SELECT shardlet.distribute('t', 'refuse', 'id');
SELECT count(*) FROM shardlet.execute('refuse', 'DROP TABLE refuse.t', shards => '{s3}');
SET shardlet.multi_shard_transactions = off;
SELECT shardlet.distribute('t', 'refuse', 'id');
RESET shardlet.multi_shard_transactions;

-- A key without a place.
SELECT shardlet.create_map('refuse_range', 'range', '{bigint}');
SELECT shardlet.assign_range('refuse_range', 's1', 0, 5) > 0;
\set VERBOSITY terse
SELECT shardlet.distribute('t', 'refuse_range', 'id');
\set VERBOSITY default

-- A row that a shard does not take: the function is the same there, and depends on the database.
CREATE FUNCTION odd(bigint) RETURNS bool LANGUAGE sql IMMUTABLE AS 'SELECT $1 % 2 = CASE WHEN current_database() ~ ''_s[0-9]$'' THEN 0 ELSE 1 END';
CREATE TABLE odds (k bigint PRIMARY KEY CHECK (odd(k)));
INSERT INTO odds SELECT g FROM generate_series(1, 19, 2) g;
\set VERBOSITY terse
SELECT shardlet.distribute('odds', 'refuse', 'k');
\set VERBOSITY default
SELECT count(*) FROM odds;

-- Nothing has changed, and then it works, once.
SELECT relkind, relhasindex FROM pg_class WHERE oid = 't'::regclass;
SELECT count(*) FROM t;
SELECT shardlet.distribute('t', 'refuse', 'id');
SELECT shardlet.distribute('t', 'refuse', 'id');
SELECT shardlet.place('t', 's1');
CREATE INDEX CONCURRENTLY ON t (v);
ALTER TABLE t ENABLE ROW LEVEL SECURITY;
SELECT count(*) FROM t;

SET client_min_messages = warning;
DROP TABLE t CASCADE;
DROP SCHEMA refuse CASCADE;
SELECT count(*) FROM shardlet.execute(NULL, 'DROP SCHEMA refuse CASCADE');
SELECT shardlet.drop_map(map) FROM shardlet.maps WHERE map::text LIKE 'refuse%';
DROP ROLE refuse_user;
