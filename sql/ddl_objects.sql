-- Functions, types and schemas follow the tables that need them: created on the shards when they are needed, changed and
-- dropped there with the router's, listed in shardlet.objects.
CREATE SCHEMA ddl_objects;
CREATE SCHEMA "Lib";
SET search_path = ddl_objects, "Lib", public;
SELECT shardlet.create_map('ddl_objects', shards => '{s1,s2}');
CREATE VIEW listed AS SELECT kind, object, map, shards FROM shardlet.objects
	WHERE object ~* '^(ddl_objects|"?lib|extra)' ORDER BY kind, object, map NULLS FIRST;
-- One line for all shards that give the same answer.
CREATE FUNCTION there(sql text, map text DEFAULT 'ddl_objects') RETURNS TABLE (shards text, answer text) LANGUAGE sql AS $$
	SELECT string_agg(q.shardlet_shard, ' ' ORDER BY q.shardlet_shard), q.a
	FROM shardlet.query(map, sql, per_shard => true) AS q(a text, shardlet_shard text) GROUP BY q.a ORDER BY 1 $$;

-- A domain over an enum whose check calls a function, which takes a composite type; a function whose body is not a string;
-- functions of a check, a default, an index, a generated column and statistics.
CREATE TYPE "Lib"."Mood" AS ENUM ('sad', 'happy');
CREATE TYPE "Lib".pair AS (a int, m "Lib"."Mood"[]);
CREATE FUNCTION "Lib".inner_check(int) RETURNS bool LANGUAGE sql IMMUTABLE BEGIN ATOMIC SELECT $1 < 1000; END;
CREATE FUNCTION "Lib".is_small(p "Lib".pair) RETURNS bool LANGUAGE sql IMMUTABLE BEGIN ATOMIC SELECT coalesce("Lib".inner_check((p).a), true); END;
CREATE DOMAIN "Lib".small AS "Lib".pair CHECK ("Lib".is_small(VALUE));
CREATE FUNCTION "Lib"."Twice"(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN i * 2; END $$;
CREATE FUNCTION next_word() RETURNS text LANGUAGE plpgsql STABLE AS $$ BEGIN RETURN 'word'; END $$;
CREATE FUNCTION stamp() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.w := 'by ' || TG_NAME; RETURN NEW; END $$;
CREATE FUNCTION unused() RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE TABLE t (k bigint PRIMARY KEY, p "Lib".small, n int CHECK ("Lib"."Twice"(n) >= 0), d text DEFAULT next_word(),
	g int GENERATED ALWAYS AS ("Lib"."Twice"(n)) STORED, w text);
CREATE INDEX ON t (k, "Lib"."Twice"(n));
CREATE TRIGGER stamped BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION stamp();
INSERT INTO t (k, n, p) SELECT i, i, ROW(i, '{sad}')::"Lib".pair FROM generate_series(1, 20) i;
SELECT shardlet.distribute('t', 'ddl_objects', 'k');
SELECT * FROM listed;
INSERT INTO t (k, n, p) VALUES (100, 5, (7, '{happy}'));
SELECT k, p, n, d, g, w FROM t WHERE k = 100;
INSERT INTO t (k, n, p) VALUES (101, 5, (2000, NULL));
-- What needs nothing new creates nothing; the same function for another map is listed for both.
SELECT shardlet.create_map('ddl_objects_2', shards => '{s2,s3}');
CREATE TABLE t2 (k bigint PRIMARY KEY, n int CHECK ("Lib"."Twice"(n) > 0));
SELECT shardlet.distribute('t2', 'ddl_objects_2', 'k');
SELECT * FROM listed WHERE object ~ 'Twice' OR kind = 'schema';

-- Statements that give a table new needs.
CREATE TYPE state AS ENUM ('open');
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE FUNCTION added() RETURNS int LANGUAGE plpgsql STABLE AS 'BEGIN RETURN 42; END';
CREATE FUNCTION checked(int) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN $1 < 50; END';
CREATE FUNCTION indexed(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN -$1; END';
CREATE FUNCTION counted(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN $1 % 3; END';
CREATE FUNCTION seen(bigint) RETURNS bool LANGUAGE plpgsql STABLE AS 'BEGIN RETURN $1 > 0; END';
ALTER TABLE t ADD COLUMN s state DEFAULT 'open', ADD COLUMN x positive DEFAULT 3;
ALTER TABLE t ALTER COLUMN x SET DEFAULT added();
ALTER TABLE t ADD CHECK (checked(x));
CREATE INDEX ON t (indexed(n));
CREATE STATISTICS t_counted ON counted(n), k FROM t;
CREATE POLICY seen ON t USING (seen(k));
SELECT object, kind FROM listed WHERE object ~ 'state|positive|added|checked|indexed|counted|seen';
BEGIN;
CREATE FUNCTION rolled_back(int) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN true; END';
ALTER TABLE t ADD CONSTRAINT rolled_back CHECK (rolled_back(n));
SELECT object FROM listed WHERE object ~ 'rolled';
ROLLBACK;
SELECT object FROM listed WHERE object ~ 'rolled';
SELECT * FROM there($$SELECT count(*)::text FROM pg_proc WHERE proname = 'rolled_back'$$);

-- Changed everywhere, at once or not at all.
CREATE OR REPLACE FUNCTION stamp() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.w := 'again'; RETURN NEW; END $$;
CREATE OR REPLACE FUNCTION added() RETURNS int LANGUAGE plpgsql STABLE AS 'BEGIN RETURN 43; END';
INSERT INTO t (k, n) VALUES (200, 5);
SELECT w, x FROM t WHERE k = 200;
BEGIN;
CREATE OR REPLACE FUNCTION stamp() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.w := 'never'; RETURN NEW; END $$;
ROLLBACK;
ALTER FUNCTION stamp() SET search_path = pg_catalog;
ALTER FUNCTION "Lib"."Twice"(int) COST 7;
CREATE FUNCTION "Lib".deep(int) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN $1 < 900; END';
CREATE OR REPLACE FUNCTION "Lib".inner_check(int) RETURNS bool LANGUAGE sql IMMUTABLE BEGIN ATOMIC SELECT "Lib".deep($1); END;
SELECT * FROM listed WHERE object ~ 'deep';
SELECT * FROM there('SELECT "Lib".is_small(ROW(950, NULL)) || '' '' || "Lib".is_small(ROW(850, NULL))');
SELECT * FROM there($$SELECT array_to_string(proconfig, ',') || ' ' || (SELECT procost FROM pg_proc WHERE proname = 'Twice') || ' ' || prosrc FROM pg_proc WHERE proname = 'stamp' AND pronamespace = 'ddl_objects'::regnamespace$$);
ALTER TYPE "Lib"."Mood" ADD VALUE 'so so';
ALTER TYPE "Lib".pair ADD ATTRIBUTE z text;
SELECT * FROM there($$SELECT enum_range(NULL::"Lib"."Mood")::text$$);

-- New names, also of schemas and types in signatures.
ALTER FUNCTION stamp() RENAME TO "Stamp";
ALTER FUNCTION "Stamp"() SET SCHEMA "Lib";
ALTER TYPE "Lib".pair RENAME TO two;
ALTER SCHEMA "Lib" RENAME TO lib;
SET search_path = ddl_objects, lib, public;
SELECT * FROM listed WHERE object ~ 'lib';
SELECT * FROM there($$SELECT string_agg(oid::regprocedure::text, ' ' ORDER BY proname) FROM pg_proc WHERE pronamespace = 'lib'::regnamespace$$);
CREATE OR REPLACE FUNCTION lib."Stamp"() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.w := 'renamed'; RETURN NEW; END $$;
INSERT INTO t (k, n) VALUES (202, 5);
SELECT w FROM t WHERE k = 202;

-- A shard that joins gets them.
SELECT shardlet.alter_map('ddl_objects', add_shards => '{s4}');
SELECT * FROM there($$SELECT count(*)::text FROM pg_proc WHERE pronamespace IN ('lib'::regnamespace, 'ddl_objects'::regnamespace)$$);
SELECT kind, shards, count(*) FROM listed WHERE map = 'ddl_objects' GROUP BY 1, 2 ORDER BY 1, 2;

-- Dropped; what is needed there stays, and the statement fails.
DROP FUNCTION "Stamp"();
SELECT count(*) FROM shardlet.execute('ddl_objects', 'CREATE VIEW ddl_objects.own AS SELECT ddl_objects.counted(1)', shards => '{s2}');
DROP STATISTICS t_counted;
DROP FUNCTION counted(int);
SELECT count(*) FROM shardlet.execute('ddl_objects', 'DROP VIEW ddl_objects.own', shards => '{s2}');
DROP FUNCTION counted(int), unused();
SELECT object FROM listed WHERE object ~ 'counted';
SELECT * FROM there($$SELECT count(*)::text FROM pg_proc WHERE proname = 'counted'$$);
DROP FUNCTION "Stamp"() CASCADE;
DROP FUNCTION seen(bigint), indexed(int), checked(int), added() CASCADE;
SELECT * FROM there($$SELECT (SELECT count(*) FROM pg_trigger WHERE tgname = 'stamped') || ' ' || (SELECT count(*) FROM pg_policy)
	|| ' ' || (SELECT count(*) FROM pg_proc WHERE proname IN ('Stamp', 'seen', 'indexed', 'checked', 'added'))$$);
\d t
DROP TYPE state CASCADE;
ALTER TABLE t DROP COLUMN s, DROP COLUMN x;
DROP TYPE state;
DROP DOMAIN positive;
SELECT object FROM listed WHERE object ~ 'state|positive';
SELECT * FROM there($$SELECT count(*)::text FROM pg_type WHERE typname IN ('state', 'positive')$$);
CREATE SCHEMA extra;
CREATE FUNCTION extra.f(int) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN true; END';
ALTER TABLE t ADD CONSTRAINT extra CHECK (extra.f(n));
DROP SCHEMA extra;
ALTER TABLE t DROP CONSTRAINT extra;
DROP FUNCTION extra.f;
SELECT object FROM listed WHERE object ~ 'extra';
DROP SCHEMA extra;
SELECT object FROM listed WHERE object ~ 'extra';
SELECT * FROM there($$SELECT count(*)::text FROM pg_namespace WHERE nspname = 'extra'$$);

-- Placed and reference tables; triggers of a reference table are the router's.
CREATE FUNCTION for_all(int) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN true; END';
CREATE FUNCTION for_one(int) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN true; END';
CREATE FUNCTION of_router() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TABLE r (k int PRIMARY KEY CHECK (for_all(k)));
CREATE TRIGGER of_router BEFORE INSERT ON r FOR EACH ROW EXECUTE FUNCTION of_router();
SELECT shardlet.make_reference('r');
CREATE TABLE o (k int CHECK (for_one(k)));
SELECT shardlet.place('o', 's3');
SELECT * FROM listed WHERE object ~ 'for_|of_router';
CREATE OR REPLACE FUNCTION for_all(int) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN $1 > 0; END';
INSERT INTO r VALUES (-1);
CREATE OR REPLACE FUNCTION of_router() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.k := NEW.k + 1; RETURN NEW; END';
INSERT INTO r VALUES (1) RETURNING k;
SELECT * FROM listed WHERE object ~ 'of_router';

SET client_min_messages = warning;
DROP TABLE t, t2, o;
DROP TABLE r;
DROP VIEW listed;
DROP FUNCTION for_all, for_one, next_word;
DROP SCHEMA ddl_objects, lib CASCADE;
SELECT count(*) FROM shardlet.execute(NULL, 'DROP SCHEMA IF EXISTS ddl_objects, lib CASCADE');
SELECT shardlet.drop_map('ddl_objects'), shardlet.drop_map('ddl_objects_2');
