-- Reference tables: keys that change, foreign keys, triggers, and the order in
-- which all that reaches the shards.
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

-- Keys that are passed on, in an order that works here.
CREATE TABLE t (id int PRIMARY KEY, code text UNIQUE, n int);
INSERT INTO t SELECT g, 'c' || g, g FROM generate_series(1, 6) g;
SELECT shardlet.make_reference('t');
UPDATE t SET id = id - 1;
SELECT same('t'), array_agg(id ORDER BY n) FROM t;
UPDATE t SET id = id + 100, code = code || '!';
SELECT same('t');
UPDATE t SET id = CASE n WHEN 1 THEN 7 ELSE id END, code = CASE n WHEN 1 THEN 'other' WHEN 2 THEN 'c1!' ELSE code END;
SELECT same('t'), array_agg((id, code)::text ORDER BY n) FROM t;
-- What is violated here does not leave the router.
\set VERBOSITY terse
UPDATE t SET id = 7;
INSERT INTO t VALUES (7, 'x', 1);
\set VERBOSITY default
-- A unique index over some rows, or over an expression.
CREATE TABLE odd_unique (id int PRIMARY KEY, code text, active bool);
CREATE UNIQUE INDEX ON odd_unique (lower(code)) WHERE active;
INSERT INTO odd_unique VALUES (1, 'A', true), (2, 'a', false), (3, 'b', true);
SELECT shardlet.make_reference('odd_unique');
UPDATE odd_unique SET active = NOT active WHERE id < 3 AND active;
UPDATE odd_unique SET active = true, code = CASE id WHEN 2 THEN 'C' ELSE code END WHERE id < 3;
SELECT same('odd_unique');
-- With a key that is checked at the end, rows may exchange their keys.
CREATE TABLE late (id int PRIMARY KEY DEFERRABLE, code text UNIQUE DEFERRABLE INITIALLY DEFERRED);
INSERT INTO late VALUES (1, 'a'), (2, 'b'), (3, 'c');
SELECT shardlet.make_reference('late');
UPDATE late SET id = 4 - id, code = CASE code WHEN 'a' THEN 'b' WHEN 'b' THEN 'a' ELSE code END;
SELECT same('late'), array_agg((id, code)::text ORDER BY id) FROM late;
BEGIN;
SET CONSTRAINTS ALL DEFERRED;
UPDATE late SET code = 'b' WHERE id = 1;
UPDATE late SET code = 'c' WHERE id = 3;
COMMIT;
SELECT same('late'), array_agg((id, code)::text ORDER BY id) FROM late;
-- Rows with the same key cannot be distinguished.
BEGIN;
SET CONSTRAINTS ALL DEFERRED;
INSERT INTO late VALUES (1, 'd');
UPDATE late SET id = 9 WHERE code = 'b';
ROLLBACK;

-- Foreign keys act here and there.  The shards do not do it twice, nor in another order.
CREATE TABLE parent (id int PRIMARY KEY, name text);
CREATE TABLE child (parent_id int REFERENCES parent ON DELETE CASCADE ON UPDATE CASCADE, no int, touched int DEFAULT 0, PRIMARY KEY (parent_id, no));
CREATE TABLE grandchild (id int PRIMARY KEY, parent_id int, no int,
	FOREIGN KEY (parent_id, no) REFERENCES child ON DELETE SET NULL ON UPDATE CASCADE);
CREATE TABLE tree (id int PRIMARY KEY, up int REFERENCES tree ON DELETE CASCADE);
-- In any order: the shards get a foreign key when both sides are there.
SELECT shardlet.make_reference('grandchild');
SELECT shardlet.make_reference('parent');
SELECT shardlet.make_reference('child');
SELECT shardlet.make_reference('tree');
SELECT shardlet_shard, tbl, conname FROM shardlet.query('reference_all', $$SELECT conrelid::regclass::text, conname FROM pg_constraint
	WHERE contype = 'f' AND connamespace = 'reference'::regnamespace$$) AS q(tbl text, conname name, shardlet_shard name)
	WHERE shardlet_shard = 's3' ORDER BY tbl;
INSERT INTO parent SELECT g, 'p' || g FROM generate_series(1, 5) g;
INSERT INTO child (parent_id, no) SELECT g, h FROM generate_series(1, 5) g, generate_series(1, 3) h;
INSERT INTO grandchild SELECT row_number() OVER (), parent_id, no FROM child;
INSERT INTO tree VALUES (1, 2), (2, NULL), (3, 1), (4, 3), (5, 2);
UPDATE parent SET id = id + 10 WHERE id IN (1, 2);
SELECT same('parent', 'child', 'grandchild', 'tree');
DELETE FROM parent WHERE id IN (3, 11);
SELECT same('parent', 'child', 'grandchild'), count(*), count(parent_id) FROM grandchild;
DELETE FROM tree WHERE id = 1;
SELECT same('tree'), array_agg(id) FROM tree;
WITH a AS (UPDATE parent SET id = id + 100 WHERE id = 12 RETURNING id), b AS (UPDATE tree SET id = 20 WHERE id = 5)
	DELETE FROM child WHERE parent_id = 4;
SELECT same('parent', 'child', 'grandchild', 'tree');
-- The key of a row that others refer to is updated there, not deleted and inserted.
UPDATE parent SET name = upper(name);
SELECT same('parent', 'child'), count(*) FROM child;

-- Triggers fire on the router only, before and after, and may change these tables again.
CREATE TABLE history (id int GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, what text, parent_id int REFERENCES parent);
SELECT shardlet.make_reference('history');
CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.touched := OLD.touched + 1; RETURN NEW; END $$;
CREATE TRIGGER touch BEFORE UPDATE ON child FOR EACH ROW EXECUTE FUNCTION touch();
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO reference.history (what, parent_id) VALUES (TG_OP || ' ' || NEW.name, NEW.id);
	UPDATE reference.parent SET name = NEW.name || '+' WHERE id = NEW.id AND name NOT LIKE '%+++';
	RETURN NULL;
END $$;
CREATE TRIGGER "A note" AFTER INSERT OR UPDATE OF name ON parent FOR EACH ROW EXECUTE FUNCTION note();
INSERT INTO parent VALUES (30, 'x'), (31, 'y');
SELECT same('parent', 'history'), array_agg(name ORDER BY id) FROM parent WHERE id IN (30, 31);
SELECT what FROM history ORDER BY id;
UPDATE parent SET name = 'z' WHERE id IN (30, 31);
SELECT same('parent', 'history'), count(*) FROM history;
UPDATE parent SET id = id + 1 WHERE id = 112;
SELECT same('parent', 'child', 'grandchild'), max(touched) FROM child;
DROP TRIGGER "A note" ON parent;
DROP TRIGGER touch ON child;

-- Where the session lets no trigger fire and no foreign key act, nothing of that happens on the shards.
SET session_replication_role = replica;
DELETE FROM parent WHERE id = 113;
INSERT INTO child VALUES (999, 1);
RESET session_replication_role;
SELECT same('parent', 'child', 'grandchild'), count(*) FROM child WHERE parent_id IN (113, 999);
SET session_replication_role = replica;
DELETE FROM child WHERE parent_id IN (113, 999);
UPDATE grandchild SET parent_id = NULL;
RESET session_replication_role;
SELECT same('parent', 'child', 'grandchild');

-- Foreign keys that are checked at the end.
CREATE TABLE early (id int PRIMARY KEY);
CREATE TABLE loose (id int PRIMARY KEY, early_id int REFERENCES early DEFERRABLE);
SELECT shardlet.make_reference('early'), shardlet.make_reference('loose');
BEGIN;
SET CONSTRAINTS ALL DEFERRED;
INSERT INTO loose VALUES (1, 1);
INSERT INTO early VALUES (1);
COMMIT;
BEGIN;
SET CONSTRAINTS ALL DEFERRED;
DELETE FROM early;
DELETE FROM loose;
COMMIT;
SELECT same('early', 'loose'), count(*) FROM loose;

-- TRUNCATE takes what belongs together.
\set VERBOSITY terse
TRUNCATE parent;
TRUNCATE parent, child;
\set VERBOSITY default
TRUNCATE grandchild, history, child, parent;
SELECT same('parent', 'child', 'grandchild', 'history'), count(*) FROM parent;
INSERT INTO parent VALUES (1, 'a');
INSERT INTO child VALUES (1, 1);
TRUNCATE parent RESTART IDENTITY CASCADE;
SELECT same('parent', 'child', 'grandchild', 'history'), count(*) FROM child;

-- Tables of the shards refer to it: they refuse, with their own codes, and nothing differs.
INSERT INTO parent VALUES (1, 'a'), (2, 'b');
SELECT count(*) FROM shardlet.execute('reference_all', 'CREATE TABLE reference.sharded (id int, parent_id int CONSTRAINT sharded_parent REFERENCES reference.parent)');
SELECT count(*) FROM shardlet.execute('reference_all', 'INSERT INTO reference.sharded VALUES (1, 1)', shards => '{s2}');
DO $$
DECLARE
	name text;
	tab text;
BEGIN
	DELETE FROM reference.parent WHERE id = 1;
EXCEPTION WHEN foreign_key_violation THEN
	GET STACKED DIAGNOSTICS name = CONSTRAINT_NAME, tab = TABLE_NAME;
	RAISE NOTICE 'constraint % of table %', name, tab;
END $$;
\set VERBOSITY sqlstate
UPDATE parent SET id = 3 WHERE id = 1;
\set VERBOSITY terse
TRUNCATE parent CASCADE;
\set VERBOSITY default
UPDATE parent SET name = 'changed';
DELETE FROM parent WHERE id = 2;
SELECT same('parent'), array_agg((id, name)::text) FROM parent;

SET client_min_messages = warning;
DROP SCHEMA reference CASCADE;
SELECT count(*) FROM shardlet.execute('reference_all', 'DROP SCHEMA reference CASCADE');
SELECT shardlet.drop_map('reference_all');
