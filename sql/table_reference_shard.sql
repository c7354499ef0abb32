-- Reference tables: who may be one, new shards, and shards that were away.
CREATE SCHEMA reference;
SET search_path = reference;
SELECT shardlet.create_map('reference_all', 'spread', shards => '{s1,s2,s3,s4}');
CREATE FUNCTION same(VARIADIC tables text[]) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	sql text;
	here text;
	result text;
BEGIN
	SELECT string_agg(format('(SELECT count(*) || md5(coalesce(string_agg(t::text, E''\n'' ORDER BY t::text COLLATE "C"), '''')) FROM reference.%I t)', name), '||')
		INTO sql FROM unnest(tables) name;
	EXECUTE 'SELECT ' || sql INTO here;
	SELECT string_agg(CASE WHEN q.there = here THEN 'same' ELSE shardlet_shard || ' differs' END, ' ' ORDER BY shardlet_shard) INTO result
	FROM shardlet.query('reference_all', 'SELECT ' || sql) AS q(there text, shardlet_shard name);
	RETURN result;
END $$;

CREATE TABLE country (code char(2) PRIMARY KEY, name text UNIQUE);
CREATE TABLE city (id int PRIMARY KEY, country char(2) REFERENCES country, name text, mayor int REFERENCES city);
INSERT INTO country VALUES ('at', 'Austria'), ('ch', 'Switzerland'), ('de', 'Germany');
INSERT INTO city VALUES (1, 'at', 'Vienna', 2), (2, 'at', 'Graz', NULL), (3, 'ch', 'Bern', 1), (4, 'de', 'Bonn', 4);
SELECT shardlet.make_reference('country'), shardlet.make_reference('city');

-- An offline shard is left out, and gets what it missed before it is online.
SELECT shardlet.alter_shard('s2', state => 'offline');
UPDATE country SET name = 'Helvetia' WHERE code = 'ch';
INSERT INTO country VALUES ('li', 'Switzerland');
INSERT INTO city VALUES (5, 'li', 'Vaduz', 6), (6, 'li', 'Schaan', 5);
UPDATE city SET mayor = 5, country = 'li' WHERE id = 4;
DELETE FROM country WHERE code = 'de';
DELETE FROM city WHERE id = 3;
UPDATE city SET name = NULL, mayor = NULL WHERE id = 1;
-- Nothing else is done without it.
\set VERBOSITY terse
CREATE TABLE another (id int PRIMARY KEY);
SELECT shardlet.make_reference('another');
-- Not behind the back of alter_shard.
ALTER SERVER s2 OPTIONS (SET state 'online');
\set VERBOSITY default
BEGIN;
SELECT shardlet.alter_shard('s2', state => 'online');
SELECT same('country', 'city');
ROLLBACK;
SELECT shardlet.alter_shard('s2', state => 'read_only');
SELECT shardlet_shard, n FROM shardlet.query('reference_all', 'SELECT count(*) FROM reference.city', per_shard => true) AS q(n bigint, shardlet_shard name) ORDER BY 1;
-- A shard that is read_only gets changes: the word is about its keys.
UPDATE city SET name = 'Wien' WHERE id = 1;
SELECT shardlet.alter_shard('s2', state => 'online');
SELECT same('country', 'city');
-- In any isolation level.
SELECT shardlet.alter_shard('s2', state => 'offline');
INSERT INTO country VALUES ('fr', 'France');
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM country;
SELECT shardlet.alter_shard('s2', state => 'online');
COMMIT;
SELECT same('country', 'city');
-- Rows of the shard still refer to one that is gone: it refuses, and stays offline.
SELECT count(*) FROM shardlet.execute('reference_all', 'CREATE TABLE reference.sharded (country char(2) REFERENCES reference.country)');
SELECT count(*) FROM shardlet.execute('reference_all', $$INSERT INTO reference.sharded VALUES ('fr')$$, shards => '{s2}');
SELECT shardlet.alter_shard('s2', state => 'offline');
DELETE FROM country WHERE code = 'fr';
\set VERBOSITY terse
SELECT shardlet.alter_shard('s2', state => 'online');
\set VERBOSITY default
SELECT shard, state FROM shardlet.shards WHERE shard = 's2';
INSERT INTO country VALUES ('fr', 'Frankreich');
SELECT shardlet.alter_shard('s2', state => 'online');
SELECT same('country', 'city');

-- A new shard gets all of them, with their foreign keys.
SELECT shardlet.add_shard('s5');
UPDATE city SET name = upper(name);
SELECT shardlet.alter_map('reference_all', add_shards => '{s5}');
SELECT same('country', 'city');
-- One that was forgotten and comes again is brought up to date.
SELECT shardlet.drop_shard('s5', force => true);
INSERT INTO city VALUES (7, 'fr', 'Lyon', 7);
SELECT dbname, host, port FROM shardlet.shards WHERE shard = 's1' \gset
SELECT shardlet.add_shard('s5', format('host=%s port=%s dbname=%s', :'host', :'port', replace(:'dbname', 's1', 's5')));
SELECT shardlet.alter_map('reference_all', add_shards => '{s5}');
SELECT same('country', 'city');
SELECT shardlet_shard, conname FROM shardlet.query('reference_all', $$SELECT conname FROM pg_constraint WHERE conrelid = 'reference.city'::regclass AND contype IN ('p', 'f')$$)
	AS q(conname name, shardlet_shard name) WHERE shardlet_shard = 's5' ORDER BY 2;
-- With a table of another kind under that name it does not become one.
SELECT shardlet.drop_shard('s5', force => true);
\c contrib_regression_s5
ALTER TABLE reference.city ADD COLUMN more int;
\c contrib_regression
SET search_path = reference;
SELECT shardlet.add_shard('s5', format('host=%s port=%s dbname=%s', :'host', :'port', replace(:'dbname', 's1', 's5')));
SELECT same('country', 'city');

-- Who may be a reference table.
CREATE TABLE no_key (id int UNIQUE);
SELECT shardlet.make_reference('no_key');
CREATE TEMP TABLE temporary (id int PRIMARY KEY);
CREATE UNLOGGED TABLE unlogged (id int PRIMARY KEY);
CREATE TABLE parted (id int PRIMARY KEY) PARTITION BY RANGE (id);
CREATE TABLE part PARTITION OF parted DEFAULT;
CREATE TABLE heir (PRIMARY KEY (id)) INHERITS (no_key);
CREATE TABLE secured (id int PRIMARY KEY);
ALTER TABLE secured ENABLE ROW LEVEL SECURITY;
CREATE VIEW watched AS SELECT 1 AS id;
\set VERBOSITY sqlstate
SELECT shardlet.make_reference('temporary');
SELECT shardlet.make_reference('unlogged');
SELECT shardlet.make_reference('parted');
SELECT shardlet.make_reference('part');
SELECT shardlet.make_reference('heir');
SELECT shardlet.make_reference('secured');
SELECT shardlet.make_reference('watched');
SELECT shardlet.make_reference('pg_class');
SELECT shardlet.make_reference('country');
SELECT shardlet.make_reference(NULL);
SELECT shardlet.make_reference(0);
BEGIN READ ONLY;
SELECT shardlet.make_reference('secured');
ROLLBACK;
-- A table of that name on a shard, or a shard that lacks what the table needs, and nothing is made anywhere.
SELECT count(*) FROM shardlet.execute('reference_all', 'CREATE TABLE reference.another (x int)', shards => '{s4}');
SELECT shardlet.make_reference('another');
SELECT shardlet_shard, tbl FROM shardlet.query('reference_all', $$SELECT to_regclass('reference.another')::text$$) AS q(tbl text, shardlet_shard name) ORDER BY 1;
-- No role puts the trigger on a table, or makes a reference table, without the privilege.
CREATE ROLE reference_user;
GRANT USAGE, CREATE ON SCHEMA reference TO reference_user;
GRANT USAGE ON SCHEMA shardlet TO reference_user;
SET ROLE reference_user;
CREATE TABLE mine (id int PRIMARY KEY);
SELECT shardlet.make_reference('mine');
CREATE TRIGGER t AFTER INSERT ON mine FOR EACH ROW EXECUTE FUNCTION shardlet.reference_change();
RESET ROLE;
GRANT EXECUTE ON FUNCTION shardlet.make_reference(regclass) TO reference_user;
SET ROLE reference_user;
SELECT shardlet.make_reference('secured');
RESET ROLE;
CREATE TRIGGER t AFTER INSERT ON secured FOR EACH ROW EXECUTE FUNCTION shardlet.reference_change();
INSERT INTO secured VALUES (1);
SET shardlet.multi_shard_transactions = off;
UPDATE city SET name = lower(name);
RESET shardlet.multi_shard_transactions;
\set VERBOSITY default

SET client_min_messages = warning;
DROP SCHEMA reference CASCADE;
SELECT count(*) FROM shardlet.execute('reference_all', 'DROP SCHEMA reference CASCADE');
SELECT shardlet.drop_map('reference_all');
REVOKE ALL ON FUNCTION shardlet.make_reference(regclass) FROM reference_user;
REVOKE ALL ON SCHEMA shardlet FROM reference_user;
DROP ROLE reference_user;
DROP DATABASE contrib_regression_s5;
