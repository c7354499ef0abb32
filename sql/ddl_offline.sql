-- DDL while a shard is offline: what cannot depend on its rows goes on, and the shard executes it before it is online again.
SELECT shardlet.create_map('off', shards => '{s1,s2}');
CREATE SCHEMA ddl_offline;
SET search_path = ddl_offline;
SET client_min_messages = warning;
CREATE TABLE kind (id int PRIMARY KEY, name text);
INSERT INTO kind VALUES (1, 'one');
CREATE TABLE orders (customer_id bigint NOT NULL, id bigint NOT NULL, note text, n int, PRIMARY KEY (customer_id, id));
INSERT INTO orders SELECT g, g, 'n' || g, g FROM generate_series(1, 20) g;
CREATE TABLE gone (id bigint PRIMARY KEY, kind int REFERENCES kind);
CREATE INDEX gone_kind ON gone (kind);
CREATE INDEX orders_n ON orders (n);
CREATE TABLE there (id int PRIMARY KEY);
SELECT shardlet.make_reference('kind');
SELECT shardlet.distribute('orders', 'off', 'customer_id'), shardlet.distribute('gone', 'off', 'id'), shardlet.place('there', 's2');
CREATE ROLE ddl_offline_reader;
CREATE FUNCTION pinned() RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT 1';
CREATE DOMAIN whole AS int CHECK (VALUE > 0);
CREATE FUNCTION stamp() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.note := NEW.note || '+'; RETURN NEW; END $$;
-- All that a table is, as both shards say it.
CREATE FUNCTION differences() RETURNS text LANGUAGE sql AS $$
	SELECT coalesce(string_agg(item || ': ' || shards, E'\n' ORDER BY item), 'none') FROM (
		SELECT item, string_agg(shardlet_shard::text, ' ' ORDER BY shardlet_shard) AS shards FROM shardlet.query('off', $q$
			SELECT format('column %s.%s %s %s %s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, pg_get_expr(d.adbin, d.adrelid))
			FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
			WHERE c.relnamespace = 'ddl_offline'::regnamespace AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped AND c.relname <> 'there'
			UNION ALL SELECT 'index ' || indexdef FROM pg_indexes WHERE schemaname = 'ddl_offline' AND tablename <> 'there'
			UNION ALL SELECT format('constraint %s %s %s', conname, convalidated, pg_get_constraintdef(oid)) FROM pg_constraint WHERE connamespace = 'ddl_offline'::regnamespace AND conname !~ 'there'
			UNION ALL SELECT 'trigger ' || pg_get_triggerdef(oid) FROM pg_trigger WHERE tgrelid IN (SELECT oid FROM pg_class WHERE relnamespace = 'ddl_offline'::regnamespace AND relname <> 'there') AND tgname !~ '^RI_'
			UNION ALL SELECT 'function ' || proname || prosrc FROM pg_proc WHERE pronamespace = 'ddl_offline'::regnamespace
			UNION ALL SELECT format('comment %s %s', c.relname, d.description) FROM pg_description d JOIN pg_class c ON c.oid = d.objoid WHERE c.relnamespace = 'ddl_offline'::regnamespace AND c.relname <> 'there'
			UNION ALL SELECT format('acl %s %s %s', c.relname, relacl, c.reloptions) FROM pg_class c WHERE c.relnamespace = 'ddl_offline'::regnamespace AND relname !~ 'there'
			$q$, per_shard => true) AS q(item text, shardlet_shard name)
		GROUP BY item HAVING count(*) <> 2) d $$;
SELECT differences();

SELECT shardlet.alter_shard('s2', state => 'offline');
SET client_min_messages = notice;
ALTER TABLE orders ADD a int DEFAULT 7 NOT NULL, ADD b text;
ALTER TABLE orders ADD c timestamptz DEFAULT now() NOT NULL, DROP COLUMN n, ADD CONSTRAINT positive CHECK (id > 0) NOT VALID;
SET client_min_messages = warning;
CREATE INDEX ON orders (a);
CREATE INDEX CONCURRENTLY orders_b ON orders (b);
ALTER TABLE orders RENAME b TO bb;
ALTER TABLE orders RENAME CONSTRAINT positive TO is_positive;
ALTER TABLE orders ALTER a SET DEFAULT 8, SET (fillfactor = 70);
ALTER INDEX orders_b RENAME TO orders_bb;
COMMENT ON TABLE orders IS 'it''s here';
GRANT SELECT ON orders, kind TO ddl_offline_reader;
CREATE TRIGGER stamp BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION stamp();
CREATE OR REPLACE FUNCTION stamp() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.note := NEW.note || '++'; RETURN NEW; END $$;
ALTER TABLE orders RENAME customer_id TO client;
DROP INDEX CONCURRENTLY gone_kind;
DROP TABLE gone;
-- The second table of that name is not created without the shard.
CREATE TABLE gone (id bigint PRIMARY KEY);
\set VERBOSITY sqlstate
SELECT shardlet.distribute('gone', 'off', 'id');
\set VERBOSITY default
DROP TABLE gone;
-- Reference tables, and a table of the shard alone.
ALTER TABLE kind ADD grade int DEFAULT 1;
CREATE INDEX ON kind (name);
INSERT INTO kind VALUES (2, 'two', 2);
UPDATE kind SET grade = 3 WHERE id = 1;
ALTER TABLE there ADD note text;
COMMENT ON COLUMN there.note IS 'later';
-- Settings of the session give the statements their meaning.
SET datestyle = 'SQL, DMY';
CREATE TABLE unused ();
CREATE SCHEMA ddl_offline_types;
SET search_path = ddl_offline, ddl_offline_types;
ALTER TABLE orders ADD since date DEFAULT '02/01/2020';
SET search_path = ddl_offline;
RESET datestyle;
-- The router's lock is enough.
BEGIN;
LOCK TABLE orders IN ACCESS SHARE MODE;
ROLLBACK;
-- What is rolled back is not missed.
BEGIN;
ALTER TABLE orders ADD z int;
SAVEPOINT s;
ALTER TABLE orders DROP z;
ROLLBACK TO s;
ROLLBACK;
SELECT shard, substr(statement, 1, 90) AS statement FROM shardlet.missed_ddl WHERE statement !~ 'ADD c ' ORDER BY id;

-- What depends on rows, on the shard's objects, or cannot be repeated.
ALTER TABLE orders ADD u int UNIQUE;
\set VERBOSITY terse
ALTER TABLE orders ADD u int NOT NULL;
ALTER TABLE orders ADD u int NOT NULL DEFAULT NULL;
ALTER TABLE orders ADD u int CHECK (u > 0);
ALTER TABLE orders ADD u int REFERENCES kind;
ALTER TABLE orders ADD u float8 DEFAULT random();
ALTER TABLE orders ADD u int DEFAULT pinned();
ALTER TABLE orders ADD u text DEFAULT 5::whole;
ALTER TABLE orders ADD u whole;
CREATE STATISTICS st ON (a + 1) FROM orders;
ALTER TABLE orders ADD u bigserial;
ALTER TABLE orders ADD u int GENERATED ALWAYS AS IDENTITY;
ALTER TABLE orders ADD u int GENERATED ALWAYS AS (id) STORED;
ALTER TABLE orders ADD u no_such_type;
ALTER TABLE orders ADD CHECK (id > 1);
ALTER TABLE orders ADD UNIQUE (client, note);
ALTER TABLE orders ADD FOREIGN KEY (a) REFERENCES kind;
ALTER TABLE orders VALIDATE CONSTRAINT is_positive;
ALTER TABLE orders ALTER note SET NOT NULL;
ALTER TABLE orders ALTER a TYPE bigint;
ALTER TABLE orders ADD fine int, ALTER note SET NOT NULL;
CREATE UNIQUE INDEX ON orders (client, note);
CREATE POLICY p ON orders;
ALTER TABLE orders ENABLE ROW LEVEL SECURITY;
VACUUM orders;
REINDEX TABLE orders;
\set VERBOSITY default
SELECT count(*) FROM shardlet.missed_ddl;
SELECT ok, message FROM shardlet.health() WHERE shard = 's2';

-- A shard that has changed meanwhile stays offline, and says why.
\c contrib_regression_s2
CREATE INDEX orders_bb ON ddl_offline.orders (note);
\c contrib_regression
SET search_path = ddl_offline;
\set VERBOSITY terse
SELECT shardlet.alter_shard('s2', state => 'online');
\set VERBOSITY default
SELECT state FROM shardlet.shards WHERE shard = 's2';
SELECT ok, regexp_replace(message, 'statement \d+', 'statement N') AS message FROM shardlet.health() WHERE shard = 's2';
\c contrib_regression_s2
SELECT count(*) FROM pg_attribute WHERE attrelid = 'ddl_offline.orders'::regclass AND attname = 'bb';
DROP INDEX ddl_offline.orders_bb;
\c contrib_regression
SET search_path = ddl_offline;
BEGIN;
SELECT shardlet.alter_shard('s2', state => 'online');
SELECT count(*) FROM shardlet.missed_ddl;
SELECT differences();
ROLLBACK;
SELECT count(*) > 0 FROM shardlet.missed_ddl;
SELECT shardlet.alter_shard('s2', state => 'read_only');
SELECT shardlet.alter_shard('s2', state => 'online');
SELECT count(*) FROM shardlet.missed_ddl;
SELECT differences();
SELECT ok, message FROM shardlet.health() WHERE shard = 's2';
SELECT count(*), count(DISTINCT c), min(a), max(a), min(since), max(since) FROM orders;
SELECT * FROM shardlet.query('off', $$SELECT * FROM ddl_offline.kind ORDER BY id$$, per_shard => true) AS q(id int, name text, grade int, shardlet_shard name) ORDER BY shardlet_shard, id;
INSERT INTO orders (client, id, note) SELECT g, g, 'x' FROM generate_series(101, 110) g;
SELECT count(*) FROM orders WHERE note = 'x++';
-- The guard knows the key's new name.
\c contrib_regression_s2
\set VERBOSITY sqlstate
INSERT INTO ddl_offline.orders (client, id) SELECT g, g FROM generate_series(201, 240) g;
SELECT col_description('ddl_offline.there'::regclass, 2);
\set VERBOSITY default
\c contrib_regression
SET search_path = ddl_offline;

-- What the shard lacks when it returns is left out: roles.
SELECT shardlet.alter_shard('s2', state => 'offline');
SET client_min_messages = warning;
CREATE ROLE ddl_offline_short;
GRANT SELECT ON there TO ddl_offline_short;
ALTER TABLE there OWNER TO ddl_offline_short;
REVOKE ALL ON there FROM ddl_offline_short;
DROP TABLE there;
DROP ROLE ddl_offline_short;
RESET client_min_messages;
SELECT shardlet.alter_shard('s2', state => 'online');

-- A function that the shard has of its own is not replaced.
CREATE FUNCTION mine() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
SELECT shardlet.alter_shard('s2', state => 'offline');
SET client_min_messages = warning;
CREATE TRIGGER mine BEFORE UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION mine();
RESET client_min_messages;
\c contrib_regression_s2
CREATE FUNCTION ddl_offline.mine() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
\c contrib_regression
SET search_path = ddl_offline;
\set VERBOSITY sqlstate
SELECT shardlet.alter_shard('s2', state => 'online');
\set VERBOSITY default
\c contrib_regression_s2
DROP FUNCTION ddl_offline.mine();
\c contrib_regression
SET search_path = ddl_offline;
SELECT shardlet.alter_shard('s2', state => 'online');
SELECT differences();

-- Functions: replaced, changed, renamed, moved, given away, granted and dropped.
CREATE SCHEMA ddl_offline_fns;
CREATE FUNCTION f1(int) RETURNS bool LANGUAGE sql IMMUTABLE AS 'SELECT true';
CREATE FUNCTION f2(int) RETURNS bool LANGUAGE sql IMMUTABLE AS 'SELECT true';
CREATE FUNCTION f3(int) RETURNS bool LANGUAGE sql IMMUTABLE AS 'SELECT true';
CREATE FUNCTION f4(int) RETURNS bool LANGUAGE sql IMMUTABLE AS 'SELECT true';
CREATE FUNCTION f5() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
CREATE TYPE mood AS ENUM ('a');
ALTER TABLE orders ADD CONSTRAINT uses CHECK (f1(1) AND f2(1) AND f3(1) AND f4(1));
ALTER TABLE orders ADD mood mood;
CREATE TRIGGER f5 BEFORE UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION f5();
SELECT shardlet.alter_shard('s2', state => 'offline');
SET client_min_messages = warning;
CREATE OR REPLACE FUNCTION f1(int) RETURNS bool LANGUAGE sql IMMUTABLE AS 'SELECT 1 = 1';
ALTER FUNCTION f1(int) COST 7;
ALTER FUNCTION f2(int) RENAME TO f2b;
ALTER FUNCTION f3(int) SET SCHEMA ddl_offline_fns;
ALTER FUNCTION f4(int) OWNER TO ddl_offline_reader;
REVOKE ALL ON FUNCTION f4(int) FROM PUBLIC;
CREATE ROLE ddl_offline_new;
GRANT EXECUTE ON FUNCTION f4(int) TO ddl_offline_new;
DROP FUNCTION f5() CASCADE;
-- One that the shard lacks can be replaced, and whatever else needs to know whose it will be cannot be done.
CREATE FUNCTION ddl_offline_fns.fresh() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.note := 'old \ ''body'; RETURN NEW; END $$;
REVOKE ALL ON FUNCTION ddl_offline_fns.fresh() FROM PUBLIC;
CREATE FUNCTION same() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
CREATE TRIGGER fresh BEFORE INSERT ON orders FOR EACH ROW WHEN (NEW.id > 1000) EXECUTE FUNCTION ddl_offline_fns.fresh();
CREATE TRIGGER same BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION same();
CREATE OR REPLACE FUNCTION ddl_offline_fns.fresh() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.note := 'new \ ''body'; RETURN NEW; END $$;
SELECT count(*) FROM shardlet.missed_ddl;
ALTER FUNCTION ddl_offline_fns.fresh() RENAME TO other;
\set VERBOSITY sqlstate
ALTER FUNCTION ddl_offline_fns.fresh() SET SCHEMA ddl_offline;
ALTER FUNCTION ddl_offline_fns.fresh() OWNER TO ddl_offline_reader;
GRANT EXECUTE ON FUNCTION ddl_offline_fns.fresh() TO ddl_offline_new;
DROP FUNCTION ddl_offline_fns.fresh() CASCADE;
ALTER SCHEMA ddl_offline_fns RENAME TO ddl_offline_other;
\set VERBOSITY default
-- Needs that are no functions, and functions that may be impossible there.
CREATE TYPE unseen AS ENUM ('a');
CREATE FUNCTION of_unseen(unseen) RETURNS bool LANGUAGE sql IMMUTABLE AS 'SELECT true';
CREATE FUNCTION definer() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN RETURN NEW; END $$;
ALTER TABLE orders ADD CONSTRAINT unseen CHECK (of_unseen('a')) NOT VALID;
CREATE TRIGGER definer BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION definer();
ALTER TYPE mood RENAME TO humour;
\set VERBOSITY sqlstate
ALTER TYPE mood SET SCHEMA ddl_offline_fns;
ALTER TYPE mood ADD VALUE 'b';
DROP TYPE mood CASCADE;
ALTER FUNCTION f1(int) SECURITY DEFINER;
CREATE OR REPLACE FUNCTION f1(int) RETURNS bool LANGUAGE sql IMMUTABLE BEGIN ATOMIC SELECT 'a'::unseen = 'a'::unseen; END;
\set VERBOSITY default
SELECT count(*) FROM shardlet.missed_ddl;
-- Another function on the shard keeps it offline, the same one stays the shard's.
\c contrib_regression_s2
CREATE FUNCTION ddl_offline.same() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
\c contrib_regression
SET search_path = ddl_offline;
\set VERBOSITY sqlstate
SELECT shardlet.alter_shard('s2', state => 'online');
\set VERBOSITY default
SELECT ok, substr(regexp_replace(message, 'statement \d+', 'statement N'), 1, 130) AS message FROM shardlet.health() WHERE shard = 's2';
\c contrib_regression_s2
CREATE OR REPLACE FUNCTION ddl_offline.same() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
\c contrib_regression
SET search_path = ddl_offline;
SELECT shardlet.alter_shard('s2', state => 'online');
SELECT differences();
SELECT string_agg(shardlet_shard::text, ' ' ORDER BY shardlet_shard) AS shards, q.f, q.src FROM shardlet.query('off', $q$
	SELECT format('%s cost %s owner %s %s', p.oid::regprocedure, procost, pg_get_userbyid(proowner) = 'ddl_offline_reader', array_to_string(ARRAY(SELECT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE pg_get_userbyid(a.grantee) END FROM aclexplode(proacl) a WHERE a.grantee <> proowner ORDER BY 1), ' ')), prosrc
	FROM pg_proc p WHERE proname ~ '^(f\d.?|fresh|same)$' AND pronamespace IN (SELECT oid FROM pg_namespace WHERE nspname ~ '^ddl_offline')$q$, per_shard => true) AS q(f text, src text, shardlet_shard name) GROUP BY q.f, q.src ORDER BY q.f;
SELECT object, shards FROM shardlet.objects WHERE object ~ '^ddl_offline.*(f\d.?|fresh|same)\(' ORDER BY 1;
INSERT INTO orders (client, id) SELECT g, 2000 + g FROM generate_series(301, 310) g;
SELECT DISTINCT note FROM orders WHERE id > 2000;
-- Dropped: only where it is the router's.
DROP FUNCTION same() CASCADE;
DROP FUNCTION ddl_offline_fns.fresh() CASCADE;
SELECT string_agg(shardlet_shard::text, ' ' ORDER BY shardlet_shard) AS shards, q.f FROM shardlet.query('off', $$SELECT proname::text FROM pg_proc WHERE proname IN ('same', 'fresh')$$, per_shard => true) AS q(f text, shardlet_shard name) GROUP BY q.f ORDER BY q.f;
\c contrib_regression_s2
DROP FUNCTION ddl_offline.same();
\c contrib_regression
SET search_path = ddl_offline;

-- A statement of another user runs as that user on the shard.
CREATE ROLE ddl_offline_owner LOGIN SUPERUSER;
SELECT shardlet.alter_shard('s2', state => 'offline');
SET ROLE ddl_offline_owner;
CREATE FUNCTION by_owner() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN OLD; END $$;
SET client_min_messages = warning;
DROP TRIGGER mine ON orders;
CREATE TRIGGER mine BEFORE DELETE ON orders FOR EACH ROW EXECUTE FUNCTION by_owner();
ALTER TABLE orders ADD by_owner int;
RESET client_min_messages;
RESET ROLE;
SELECT role, substr(statement, 1, 90) AS statement FROM shardlet.missed_ddl ORDER BY id;
SELECT shardlet.alter_shard('s2', state => 'online');
SELECT differences();
SELECT * FROM shardlet.query('off', $$SELECT proname, proowner::regrole::text FROM pg_proc WHERE proname = 'by_owner'$$, shards => '{s2}') AS q(f name, owner text);
-- Nor does it get the rights of the router's user.
\c contrib_regression_s2
\set VERBOSITY sqlstate
SELECT shardlet.run_as_role('ddl_offline_reader', 'SET ROLE ddl_offline_owner');
SELECT shardlet.run_as_role('ddl_offline_reader', 'DROP TABLE ddl_offline.orders');
\set VERBOSITY default
\c contrib_regression
SET search_path = ddl_offline;

-- A shard that is dropped has missed nothing.
SELECT shardlet.add_shard('off_drop');
SELECT shardlet.alter_shard('off_drop', state => 'offline');
SET client_min_messages = warning;
ALTER TABLE kind ADD dropped int;
SELECT shard, statement FROM shardlet.missed_ddl ORDER BY id;
SELECT shardlet.drop_shard('off_drop');
SELECT count(*) FROM shardlet.missed_ddl;
DROP DATABASE contrib_regression_off_drop;

-- A shard that never was online gets reference tables as they are.
SELECT shardlet.add_shard('off_new');
SELECT shardlet.drop_shard('off_new');
CREATE SERVER off_new FOREIGN DATA WRAPPER shardlet OPTIONS (dbname 'contrib_regression_off_new2', state 'offline');
CREATE DATABASE contrib_regression_off_new2;
SELECT option_value AS port FROM pg_foreign_server, pg_options_to_table(srvoptions) WHERE srvname = 's1' AND option_name = 'port' \gset
SELECT option_value AS host FROM pg_foreign_server, pg_options_to_table(srvoptions) WHERE srvname = 's1' AND option_name = 'host' \gset
ALTER SERVER off_new OPTIONS (ADD port :'port', ADD host :'host');
SELECT shardlet.add_shard('off_new');
ALTER TABLE kind RENAME name TO label;
COMMENT ON TABLE kind IS 'kinds';
GRANT SELECT ON kind, orders TO PUBLIC;
CREATE INDEX kind_label ON kind (label);
DROP INDEX kind_label;
SET client_min_messages = error;
SELECT shardlet.alter_shard('off_new', state => 'online');
\c contrib_regression_off_new2
SELECT * FROM ddl_offline.kind ORDER BY id;
\c contrib_regression
SET client_min_messages = error;
SELECT shardlet.drop_shard('off_new');
DROP DATABASE contrib_regression_off_new;
DROP DATABASE contrib_regression_off_new2;

SET search_path = ddl_offline;
DROP TABLE orders, kind;
SELECT count(*) FROM shardlet.execute(NULL, 'DROP SCHEMA IF EXISTS ddl_offline CASCADE');
DROP SCHEMA ddl_offline CASCADE;
DROP SCHEMA ddl_offline_types;
DROP SCHEMA ddl_offline_fns CASCADE;
SELECT count(*) FROM shardlet.execute(NULL, 'DROP SCHEMA IF EXISTS ddl_offline_fns CASCADE');
SELECT shardlet.drop_map('off');
DROP ROLE ddl_offline_reader, ddl_offline_owner, ddl_offline_new;
