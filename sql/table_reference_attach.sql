-- Reference tables that the shards have already, and plain tables again.
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

-- The shards have it and the router has not: it is made and filled here.
SELECT count(*) FROM shardlet.execute('reference_all', 'CREATE SCHEMA reference');
SELECT count(*) FROM shardlet.execute('reference_all', $$CREATE TYPE reference.mood AS ENUM ('sad', 'ok')$$);
SELECT count(*) FROM shardlet.execute('reference_all', $$CREATE TABLE reference.country (dropped int, code char(2) PRIMARY KEY, name text NOT NULL UNIQUE CHECK (name <> ''),
	feeling reference.mood DEFAULT 'ok', loud text GENERATED ALWAYS AS (upper(name)) STORED)$$);
SELECT count(*) FROM shardlet.execute('reference_all', 'ALTER TABLE reference.country DROP COLUMN dropped', shards => '{s1,s3}');
SELECT count(*) FROM shardlet.execute('reference_all', 'CREATE TABLE reference.city (id bigserial PRIMARY KEY, country char(2) REFERENCES reference.country ON UPDATE CASCADE, name text)');
SELECT count(*) FROM shardlet.execute('reference_all', $$INSERT INTO reference.country (code, name, feeling) VALUES ('at', 'Austria', 'sad'), ('ch', 'Switzerland', NULL)$$);
SELECT count(*) FROM shardlet.execute('reference_all', $$INSERT INTO reference.city (country, name) VALUES ('at', 'Vienna'), ('ch', 'Bern')$$);
-- All differences are named.
SELECT shardlet.attach('country');
SELECT count(*) FROM shardlet.execute('reference_all', 'ALTER TABLE reference.country DROP COLUMN dropped', shards => '{s2,s4}');
SELECT count(*) FROM shardlet.execute('reference_all', $$UPDATE reference.country SET name = 'Suisse' WHERE code = 'ch'$$, shards => '{s3}');
SELECT shardlet.attach('country');
SELECT to_regclass('country');
SELECT count(*) FROM shardlet.execute('reference_all', $$UPDATE reference.country SET name = 'Switzerland'$$ || $$ WHERE code = 'ch'$$, shards => '{s3}');
SELECT shardlet.attach('country');
SELECT shardlet.attach('city');
\d country
SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'city'::regclass AND contype IN ('p', 'f') ORDER BY 1;
SELECT * FROM country ORDER BY code;
SELECT same('country', 'city');
-- From now on it is one.
UPDATE country SET code = 'xx', feeling = 'ok' WHERE code = 'ch';
INSERT INTO city (id, country, name) VALUES (3, 'xx', 'Basel');
SELECT same('country', 'city'), array_agg(country ORDER BY id) FROM city;
-- Again it is only compared.
SELECT shardlet.attach('country');
SELECT count(*) FROM shardlet.execute('reference_all', $$DELETE FROM reference.city WHERE id = 3$$, shards => '{s4}');
SELECT shardlet.attach('city');

-- The router has it, too.
SELECT count(*) FROM shardlet.execute('reference_all', 'CREATE TABLE reference.unit (id int PRIMARY KEY, name varchar(10))');
SELECT count(*) FROM shardlet.execute('reference_all', $$INSERT INTO reference.unit VALUES (1, 'm'), (2, 's')$$);
CREATE TABLE unit (id int PRIMARY KEY, name varchar(20));
INSERT INTO unit VALUES (1, 'm'), (2, 'kg');
SELECT shardlet.attach('unit');
ALTER TABLE unit ALTER name TYPE varchar(10);
SELECT shardlet.attach('unit');
UPDATE unit SET name = 's' WHERE id = 2;
SELECT shardlet.attach('unit');
DELETE FROM unit WHERE id = 1;
SELECT same('unit');

-- What is attached is left to the shards; what was made is dropped there.
CREATE TABLE made (id int PRIMARY KEY);
INSERT INTO made VALUES (1);
SELECT shardlet.make_reference('made');
SELECT shardlet.undistribute('made');
SELECT shardlet.undistribute('unit');
INSERT INTO made VALUES (2);
INSERT INTO unit VALUES (9, 'x');
SELECT count(*) FROM pg_trigger WHERE tgrelid IN ('made'::regclass, 'unit'::regclass);
SELECT shardlet_shard, made, unit FROM shardlet.query('reference_all', $$SELECT to_regclass('reference.made')::text, (SELECT count(*) FROM reference.unit)$$)
	AS q(made text, unit bigint, shardlet_shard name) ORDER BY 1;
SELECT shardlet.make_reference('made');
SELECT same('made'), count(*) FROM made;
-- Foreign keys of other reference tables stay with the router, and return to the shards.
CREATE TABLE refers (id int PRIMARY KEY REFERENCES made);
INSERT INTO refers VALUES (1);
SELECT shardlet.make_reference('refers');
SELECT shardlet.undistribute('made');
SELECT shardlet_shard, count FROM shardlet.query('reference_all', $$SELECT count(*) FROM pg_constraint WHERE conrelid = 'reference.refers'::regclass AND contype = 'f'$$)
	AS q(count bigint, shardlet_shard name) ORDER BY 1;
INSERT INTO made VALUES (3);
INSERT INTO refers VALUES (3);
SELECT shardlet.make_reference('made');
SELECT shardlet_shard, count FROM shardlet.query('reference_all', $$SELECT count(*) FROM pg_constraint WHERE conrelid = 'reference.refers'::regclass AND contype = 'f'$$)
	AS q(count bigint, shardlet_shard name) ORDER BY 1;
SELECT same('made', 'refers');
-- Not while something there refers to it that the router does not know.
\set VERBOSITY sqlstate
SELECT count(*) FROM shardlet.execute('reference_all', 'CREATE TABLE reference.sharded (id int REFERENCES reference.made)');
SELECT shardlet.undistribute('made');
SELECT shardlet.attach('nothing');
SELECT count(*) FROM shardlet.execute('reference_all', 'CREATE TABLE reference.keyless (id int)');
SELECT shardlet.attach('keyless');
\set VERBOSITY default
SELECT to_regclass('keyless'), same('made');

SET client_min_messages = warning;
DROP SCHEMA reference CASCADE;
SELECT count(*) FROM shardlet.execute('reference_all', 'DROP SCHEMA reference CASCADE');
SELECT shardlet.drop_map('reference_all');
