-- What is not created, changed or dropped on shards: objects of the shards' own, what cannot be written down, what a user must
-- not do there.  Nothing is half done.
CREATE SCHEMA hostile;
SET search_path = hostile, public;
SELECT shardlet.create_map('hostile', shards => '{s1,s2}');
CREATE VIEW listed AS SELECT kind, object, map, shards FROM shardlet.objects WHERE object ~ '^hostile' ORDER BY kind, object, map;
CREATE FUNCTION there(sql text) RETURNS TABLE (shards text, answer text) LANGUAGE sql AS $$
	SELECT string_agg(q.shardlet_shard, ' ' ORDER BY q.shardlet_shard), q.a
	FROM shardlet.query('hostile', sql, per_shard => true) AS q(a text, shardlet_shard text) GROUP BY q.a ORDER BY 1 $$;
SELECT count(*) FROM shardlet.execute('hostile', 'CREATE SCHEMA hostile');

-- A function and a type that one shard has already, and that differ: refused, and neither shard is changed.
CREATE FUNCTION f(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1';
CREATE FUNCTION g(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1';
CREATE TYPE ty AS ENUM ('a');
SELECT count(*) FROM shardlet.execute('hostile', $$CREATE FUNCTION hostile.f(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT -$1'$$, shards => '{s2}');
SELECT count(*) FROM shardlet.execute('hostile', $$CREATE TYPE hostile.ty AS ENUM ('b')$$, shards => '{s2}');
CREATE TABLE t (k bigint PRIMARY KEY, n int CHECK (f(n) > 0 AND g(n) > 0));
SELECT shardlet.distribute('t', 'hostile', 'k');
SELECT * FROM listed;
SELECT * FROM there($$SELECT string_agg(proname || prosrc, ' ' ORDER BY proname) FROM pg_proc WHERE pronamespace = 'hostile'::regnamespace$$);
ALTER TABLE t DROP CONSTRAINT t_n_check;
SELECT shardlet.distribute('t', 'hostile', 'k');
ALTER TABLE t ADD CHECK (f(n) > 0);
ALTER TABLE t ADD COLUMN x ty;
CREATE INDEX ON t (f(n));
SELECT count(*) FROM pg_constraint WHERE conrelid = 't'::regclass AND contype = 'c';
SELECT * FROM listed;

-- One that is the same stays the shard's: it is replaced as long as it is the same, and not dropped.
SELECT count(*) FROM shardlet.execute('hostile', $$CREATE OR REPLACE FUNCTION hostile.f(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1'$$, shards => '{s2}');
ALTER TABLE t ADD CHECK (f(n) > 0);
SELECT * FROM listed;
CREATE OR REPLACE FUNCTION f(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 + 1';
SELECT * FROM there($$SELECT prosrc FROM pg_proc WHERE proname = 'f' AND pronamespace = 'hostile'::regnamespace$$);
SELECT count(*) FROM shardlet.execute('hostile', $$CREATE OR REPLACE FUNCTION hostile.f(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 7'$$);
-- Changed by hand: s1 has ours, which is put right, and s2 its own, which is not.
CREATE OR REPLACE FUNCTION f(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 + 2';
ALTER FUNCTION f(int) RENAME TO f2;
SELECT * FROM there($$SELECT prosrc FROM pg_proc WHERE proname = 'f' AND pronamespace = 'hostile'::regnamespace$$);
SELECT count(*) FROM shardlet.execute('hostile', $$CREATE OR REPLACE FUNCTION hostile.f(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 + 1'$$, shards => '{s2}');
CREATE OR REPLACE FUNCTION f(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 + 2';
SELECT * FROM there($$SELECT prosrc FROM pg_proc WHERE proname = 'f' AND pronamespace = 'hostile'::regnamespace$$);
DROP FUNCTION f(int) CASCADE;
SELECT * FROM there($$SELECT (SELECT count(*) FROM pg_proc WHERE proname = 'f' AND pronamespace = 'hostile'::regnamespace)
	|| ' ' || (SELECT count(*) FROM pg_constraint WHERE conrelid = 'hostile.t'::regclass AND contype = 'c')$$);

-- What cannot be created.
CREATE COLLATION co (provider = libc, locale = 'C');
CREATE SEQUENCE sq;
CREATE FUNCTION drawn(int) RETURNS bigint LANGUAGE sql BEGIN ATOMIC SELECT nextval('hostile.sq'::regclass) + $1; END;
CREATE FUNCTION plus(int, int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 + $2';
CREATE OPERATOR <+> (leftarg = int, rightarg = int, function = plus);
CREATE TEXT SEARCH CONFIGURATION words (COPY = simple);
CREATE AGGREGATE total(int) (sfunc = plus, stype = int);
ALTER TABLE t ADD COLUMN c text COLLATE co;
ALTER TABLE t ADD CHECK (drawn(n) > 0);
ALTER TABLE t ADD CHECK ((n <+> 1) > 0);
CREATE INDEX ON t USING gin (to_tsvector('hostile.words'::regconfig, 'x' || n));
CREATE POLICY p ON t USING ((SELECT total(x) FROM (VALUES (1)) v(x)) > 0);
CREATE FUNCTION of_row(t) RETURNS bool LANGUAGE sql IMMUTABLE AS 'SELECT true';
ALTER TABLE t ADD CONSTRAINT of_row CHECK (of_row(t));
ALTER TABLE t DROP CONSTRAINT of_row;
DROP FUNCTION of_row(t);
CREATE FUNCTION pg_temp.away(int) RETURNS bool LANGUAGE sql IMMUTABLE AS 'SELECT true';
ALTER TABLE t ADD CHECK (pg_temp.away(n));
CREATE FUNCTION drawing() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.n := nextval('hostile.sq'); RETURN NEW; END $$;
BEGIN;
CREATE TRIGGER drawing BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION drawing();
INSERT INTO t VALUES (1, 1);
ROLLBACK;
-- The HINT is right.
SELECT count(*) FROM shardlet.execute(NULL, 'CREATE SCHEMA hostile', shards => '{s3,s4}');
SELECT count(*) FROM shardlet.execute(NULL, $$CREATE COLLATION hostile.co (provider = libc, locale = 'C')$$);
ALTER TABLE t ADD COLUMN c text COLLATE co;
SELECT kind, object FROM listed;

-- A shard that is offline.
SELECT shardlet.alter_shard('s2', state => 'offline');
CREATE FUNCTION h(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1';
\set VERBOSITY sqlstate
ALTER TABLE t ADD CHECK (h(n) > 0);
SELECT shardlet.alter_shard('s2', state => 'online');
\set VERBOSITY default
ALTER TABLE t ADD CONSTRAINT h CHECK (h(n) > 0);
SELECT shardlet.alter_shard('s2', state => 'offline');
CREATE OR REPLACE FUNCTION h(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 + 1';
SELECT shardlet.alter_shard('s2', state => 'online');
SELECT * FROM there($$SELECT prosrc FROM pg_proc WHERE proname = 'h'$$);

-- Owners and privileges.
CREATE ROLE hostile_user;
GRANT ALL ON SCHEMA hostile TO hostile_user;
ALTER TABLE t OWNER TO hostile_user;
ALTER FUNCTION h(int) OWNER TO hostile_user;
SELECT * FROM there($$SELECT pg_get_userbyid(proowner)::text FROM pg_proc WHERE proname = 'h'$$);
CREATE FUNCTION definer(int) RETURNS bool LANGUAGE plpgsql IMMUTABLE SECURITY DEFINER AS 'BEGIN RETURN current_user = ''hostile_user''; END';
ALTER FUNCTION definer(int) OWNER TO hostile_user;
REVOKE ALL ON FUNCTION definer(int) FROM PUBLIC;
ALTER TABLE t ADD CONSTRAINT definer CHECK (definer(n));
INSERT INTO t (k, n) VALUES (5, 5);
SELECT * FROM there($$SELECT pg_get_userbyid(proowner) || prosecdef || has_function_privilege('public', oid, 'EXECUTE') FROM pg_proc WHERE proname = 'definer'$$);
CREATE ROLE hostile_reader;
GRANT EXECUTE ON FUNCTION definer(int) TO hostile_reader;
SELECT * FROM there($$SELECT has_function_privilege('hostile_reader', oid, 'EXECUTE')::text FROM pg_proc WHERE proname = 'definer'$$);
REVOKE EXECUTE ON FUNCTION definer(int) FROM hostile_reader;
SELECT * FROM there($$SELECT has_function_privilege('hostile_reader', oid, 'EXECUTE')::text FROM pg_proc WHERE proname = 'definer'$$);
ALTER FUNCTION definer(int) OWNER TO hostile_reader;
SELECT * FROM there($$SELECT pg_get_userbyid(proowner)::text FROM pg_proc WHERE proname = 'definer'$$);

-- DROP SCHEMA ... CASCADE leaves the shards alone; what is listed then is put right when it is needed again.
SET client_min_messages = warning;
DROP TABLE t;
DROP SCHEMA hostile CASCADE;
SELECT kind, object, shards FROM shardlet.objects WHERE object ~ '^hostile' ORDER BY 1, 2;
CREATE SCHEMA hostile;
CREATE FUNCTION hostile.h(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 + 99';
CREATE TABLE hostile.t (k bigint PRIMARY KEY, n int CHECK (hostile.h(n) > 0));
SELECT shardlet.distribute('hostile.t', 'hostile', 'k');
SELECT shard, command FROM shardlet.execute('hostile', $$DO 'BEGIN IF hostile.h(1) <> 100 THEN RAISE EXCEPTION ''old body''; END IF; END'$$) ORDER BY 1;
DROP TABLE hostile.t;
DROP FUNCTION hostile.h;
DROP SCHEMA hostile;
SELECT count(*) FROM shardlet.execute(NULL, 'DROP SCHEMA IF EXISTS hostile CASCADE');
DROP ROLE hostile_user, hostile_reader;
SELECT shardlet.drop_map('hostile');
