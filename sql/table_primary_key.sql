-- The router knows the primary key of a sharded or placed table: GROUP BY it is
-- enough.  The shards check it.
CREATE SCHEMA pk;
SET search_path = pk;
SELECT shardlet.create_map('pk');
CREATE TABLE o (id int, k int NOT NULL, v text, w int, gone int, PRIMARY KEY (k, id));
ALTER TABLE o DROP COLUMN gone;
INSERT INTO o SELECT g, g % 5, 'v' || g, g FROM generate_series(1, 20) g;
CREATE TABLE whole (id int PRIMARY KEY, v text);
SELECT shardlet.distribute('o', 'pk', 'k'), shardlet.place('whole', 's1');
\d o
SELECT conrelid::regclass, conname, contype, conkey, conindid <> 0 AS has_index FROM pg_constraint WHERE connamespace = 'pk'::regnamespace AND contype = 'p' ORDER BY conname;
SELECT k, id, v, count(*) FROM o GROUP BY k, id ORDER BY k, id LIMIT 2;
SELECT o.*, count(x.id) FROM o LEFT JOIN o x ON x.k = o.k AND x.id < o.id GROUP BY o.k, o.id HAVING count(x.id) = 3 ORDER BY o.k;
SELECT v, count(*) FROM o GROUP BY k;
SELECT w.*, count(*) FROM whole w GROUP BY id;
INSERT INTO o VALUES (6, 1, 'x') ON CONFLICT ON CONSTRAINT o_pkey DO NOTHING;
INSERT INTO o VALUES (6, 1, 'x') ON CONFLICT ON CONSTRAINT o_pkey DO UPDATE SET v = 'y' RETURNING v;

-- DDL on it, and on its columns.
ALTER TABLE o ALTER id TYPE bigint, ADD COLUMN x int;
ALTER TABLE o RENAME CONSTRAINT o_pkey TO o_key;
ALTER TABLE o RENAME COLUMN id TO number;
SELECT k, number, v FROM o GROUP BY k, number ORDER BY 1, 2 LIMIT 1;
SELECT * FROM shardlet.query('pk', $$SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'o_key'$$, shards => '{s1}') AS q(definition text);
COMMENT ON CONSTRAINT o_key ON o IS 'a key';
ALTER TABLE o DROP CONSTRAINT o_key;
SELECT k, number, v FROM o GROUP BY k, number;
ALTER TABLE o ADD PRIMARY KEY (number, k);
SELECT conname, conkey FROM pg_constraint WHERE conrelid = 'o'::regclass AND contype = 'p';
ALTER TABLE o DROP CONSTRAINT o_pkey, ALTER number TYPE int, ADD CONSTRAINT again PRIMARY KEY (k, number);
SELECT conname, conkey FROM pg_constraint WHERE conrelid = 'o'::regclass AND contype = 'p';
CREATE TABLE alike (LIKE o INCLUDING ALL);
CREATE VIEW grouped AS SELECT k, number, v FROM o GROUP BY k, number;
ALTER TABLE o ALTER number TYPE numeric;
DROP VIEW grouped;
BEGIN;
SELECT shardlet.undistribute('o');
SELECT conname, conkey, conindid <> 0 AS has_index FROM pg_constraint WHERE conrelid = 'o'::regclass AND contype = 'p';
ROLLBACK;
SELECT conname, conkey, conindid <> 0 AS has_index FROM pg_constraint WHERE conrelid = 'o'::regclass AND contype = 'p';
ALTER TABLE o DROP COLUMN number;
SELECT count(*) FROM pg_constraint WHERE conrelid = 'o'::regclass AND contype = 'p';

-- Only one that holds over all shards; attaching again declares it again.
SELECT count(*) FROM shardlet.execute('pk', 'CREATE TABLE pk.mine (id int PRIMARY KEY, k bigint NOT NULL, v text)');
SELECT count(*) FROM shardlet.execute('pk', 'CREATE TABLE pk.ours (id int, k bigint, v text, PRIMARY KEY (id, k))');
SELECT shardlet.attach('mine', 'pk', 'k'), shardlet.attach('ours', 'pk', 'k');
SELECT conrelid::regclass, conname, conkey FROM pg_constraint WHERE conrelid IN ('mine'::regclass, 'ours'::regclass) AND contype = 'p';
SELECT count(*) FROM shardlet.execute('pk', 'ALTER TABLE pk.ours ALTER id TYPE bigint, DROP CONSTRAINT ours_pkey, ADD CONSTRAINT ours_key PRIMARY KEY (k, id)');
SELECT shardlet.attach('ours', 'pk', 'k');
SELECT conrelid::regclass, conname, conkey FROM pg_constraint WHERE conrelid = 'ours'::regclass AND contype = 'p';
SELECT ours.* FROM ours GROUP BY k, id;
DROP TABLE o, whole;
SELECT count(*) FROM pg_constraint WHERE connamespace = 'pk'::regnamespace AND conindid = 0 AND contype = 'p';

SET client_min_messages = warning;
DROP SCHEMA pk CASCADE;
SELECT count(*) FROM shardlet.execute(NULL, 'DROP SCHEMA pk CASCADE');
SELECT shardlet.drop_map('pk');
