-- Definitions that a hostile shard sends: one statement that defines the table, whose
-- expressions compute values, or an error; nothing else is run on the router.
CREATE SCHEMA attach_hostile;
SET search_path = attach_hostile;
SET client_min_messages = warning;
\set VERBOSITY terse
SELECT shardlet.create_map('attach_hostile', key_types => '{int}', shards => '{s1}');
SELECT count(*) FROM shardlet.execute('attach_hostile', 'CREATE SCHEMA attach_hostile');

-- Expressions that do more than compute a value would be run with the rights of the router's users.
CREATE FUNCTION refused(clause text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM shardlet.execute('attach_hostile', 'DROP TABLE IF EXISTS attach_hostile.t');
	PERFORM shardlet.execute('attach_hostile', format('CREATE TABLE attach_hostile.t (id int PRIMARY KEY, n int, v text %s)', clause));
	PERFORM shardlet.attach('attach_hostile.t', 'attach_hostile', 'id');
	PERFORM shardlet.detach('attach_hostile.t');
	RETURN 'attached';
EXCEPTION WHEN OTHERS THEN
	RETURN sqlstate || ': ' || sqlerrm;
END $$;
CREATE FUNCTION writes() RETURNS text LANGUAGE sql VOLATILE AS $$ SELECT 'x' $$;
CREATE FUNCTION reads() RETURNS text LANGUAGE sql STABLE AS $$ SELECT 'x' $$;
CREATE FUNCTION computes(text) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT $1 $$;
CREATE FUNCTION writes_too(text) RETURNS text LANGUAGE sql VOLATILE AS $$ SELECT $1 $$;
CREATE OPERATOR @@@ (FUNCTION = writes_too, RIGHTARG = text);
SELECT count(*) FROM shardlet.execute('attach_hostile', $$CREATE FUNCTION attach_hostile.writes() RETURNS text LANGUAGE sql VOLATILE AS 'SELECT ''x''::text'$$);
SELECT count(*) FROM shardlet.execute('attach_hostile', $$CREATE FUNCTION attach_hostile.reads() RETURNS text LANGUAGE sql STABLE AS 'SELECT ''x''::text'$$);
SELECT count(*) FROM shardlet.execute('attach_hostile', $$CREATE FUNCTION attach_hostile.computes(text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT $1'$$);
SELECT count(*) FROM shardlet.execute('attach_hostile', $$CREATE FUNCTION attach_hostile.writes_too(text) RETURNS text LANGUAGE sql VOLATILE AS 'SELECT $1'$$);
SELECT count(*) FROM shardlet.execute('attach_hostile', 'CREATE OPERATOR attach_hostile.@@@ (FUNCTION = attach_hostile.writes_too, RIGHTARG = text)');
SELECT clause, refused(clause) FROM unnest(ARRAY[
	'DEFAULT now()::text', 'DEFAULT random()::text', 'DEFAULT gen_random_uuid()::text', 'DEFAULT CURRENT_DATE::text', 'DEFAULT CURRENT_USER',
	'DEFAULT lower(''A'' || ''b'')', 'CHECK (v ~ ''^a'' AND length(v) < 9)', 'GENERATED ALWAYS AS (upper(n::text)) STORED',
	'DEFAULT attach_hostile.computes(''x'')', 'DEFAULT to_char(now(), ''YYYY'')', 'DEFAULT (ARRAY[''a'', ''b''])[1]',
	'DEFAULT CASE WHEN now() > ''2020-01-01'' THEN ''x'' ELSE COALESCE(NULL, ''y'') END',
	'DEFAULT query_to_xml(''CREATE ROLE hostile'', true, true, '''')::text', 'DEFAULT table_to_xml(''pg_authid'', true, true, '''')::text',
	'DEFAULT pg_read_file(''PG_VERSION'')', 'DEFAULT current_setting(''data_directory'')', 'DEFAULT set_config(''work_mem'', ''64'', false)',
	'DEFAULT lo_import(''/etc/passwd'')::text', 'DEFAULT attach_hostile.writes()', 'DEFAULT attach_hostile.reads()',
	'DEFAULT OPERATOR(attach_hostile.@@@) ''x''', 'CHECK (v <> attach_hostile.writes())',
	'DEFAULT CASE WHEN true THEN concat(''a'', pg_terminate_backend(1)::text) END']) clause;

-- The same in a domain.
SELECT count(*) FROM shardlet.execute('attach_hostile', 'DROP TABLE IF EXISTS attach_hostile.t');
SELECT count(*) FROM shardlet.execute('attach_hostile', 'CREATE DOMAIN attach_hostile.hostile AS text DEFAULT pg_read_file(''PG_VERSION'')');
SELECT count(*) FROM shardlet.execute('attach_hostile', 'CREATE TABLE attach_hostile.t (id int PRIMARY KEY, v attach_hostile.hostile)');
SELECT shardlet.attach('attach_hostile.t', 'attach_hostile', 'id');
SELECT to_regtype('attach_hostile.hostile');

-- A shard whose catalog functions lie: more statements, other statements, other tables, clauses that end early.
SELECT count(*) FROM shardlet.execute('attach_hostile', 'DROP TABLE attach_hostile.t');
SELECT count(*) FROM shardlet.execute('attach_hostile', 'CREATE TABLE attach_hostile.t (id int PRIMARY KEY, v text CHECK (v <> ''''))');
\c contrib_regression_s1
CREATE TABLE attach_hostile.answer (type text, def text);
INSERT INTO attach_hostile.answer VALUES ('text', 'CHECK (true)');
ALTER FUNCTION pg_catalog.format_type(oid, integer) RENAME TO true_format_type;
CREATE FUNCTION pg_catalog.format_type(oid, integer) RETURNS text LANGUAGE sql STABLE AS
	$$ SELECT CASE WHEN $1 = 'text'::regtype AND current_setting('application_name') LIKE 'shardlet%' THEN (SELECT type FROM attach_hostile.answer) ELSE pg_catalog.true_format_type($1, $2) END $$;
ALTER FUNCTION pg_catalog.pg_get_constraintdef(oid) RENAME TO true_pg_get_constraintdef;
CREATE FUNCTION pg_catalog.pg_get_constraintdef(oid) RETURNS text LANGUAGE sql STABLE AS
	$$ SELECT CASE WHEN pg_catalog.true_pg_get_constraintdef($1) LIKE 'CHECK%' THEN (SELECT def FROM attach_hostile.answer) ELSE pg_catalog.true_pg_get_constraintdef($1) END $$;
\c contrib_regression
SET search_path = attach_hostile;
SET client_min_messages = warning;
CREATE TABLE victim (id int);
CREATE FUNCTION lied(type text, def text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM shardlet.execute('attach_hostile', format('UPDATE attach_hostile.answer SET type = %L, def = %L', type, def));
	PERFORM shardlet.attach('attach_hostile.t', 'attach_hostile', 'id');
	RETURN 'attached: ' || (SELECT string_agg(attname, ', ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'attach_hostile.t'::regclass AND attnum > 0);
EXCEPTION WHEN OTHERS THEN
	RETURN sqlstate;
END $$;
-- Each in a transaction of its own: a shard that breaks the protocol loses its connection.
SELECT format('SELECT lied(%L, %L)', type, def) FROM (VALUES
	('text); DROP TABLE attach_hostile.victim; --', 'CHECK (true)'),
	('text', 'CHECK (true)); DROP TABLE attach_hostile.victim; --'),
	('text) SERVER shardlet_tables; DROP TABLE attach_hostile.victim; --', 'CHECK (true)'),
	('text) SERVER other; --', 'CHECK (true)'),
	('text) SERVER shardlet_tables OPTIONS (map ''attach_hostile'', key ''v'') --', 'CHECK (true)'),
	('text, LIKE attach_hostile.victim', 'CHECK (true)'),
	('text) INHERITS (attach_hostile.victim) SERVER shardlet_tables --', 'CHECK (true)'),
	('text DEFAULT pg_read_file(''PG_VERSION'')', 'CHECK (true)'),
	('text', 'CHECK ((SELECT true))'),
	('text', 'CHECK (true), ADD COLUMN more text DEFAULT pg_read_file(''PG_VERSION'')'),
	(repeat('(', 100), 'CHECK (true)'),
	('', ''),
	(NULL, NULL)) v(type, def)
\gexec
SELECT count(*) FROM victim;
SELECT rolname FROM pg_roles WHERE rolname = 'hostile';
-- IMPORT FOREIGN SCHEMA runs what it gets as well.
SELECT count(*) FROM shardlet.execute('attach_hostile', $$UPDATE attach_hostile.answer SET type = 'text DEFAULT pg_read_file(''PG_VERSION'')', def = 'CHECK (true)'$$);
\set VERBOSITY sqlstate
IMPORT FOREIGN SCHEMA attach_hostile LIMIT TO (t) FROM SERVER s1 INTO attach_hostile;
SELECT count(*) FROM shardlet.execute('attach_hostile', $$UPDATE attach_hostile.answer SET type = 'text); DROP TABLE attach_hostile.victim; --', def = 'CHECK (true)'$$);
IMPORT FOREIGN SCHEMA attach_hostile LIMIT TO (t) FROM SERVER s1 INTO attach_hostile;
SELECT count(*) FROM victim;

\c contrib_regression_s1
DROP FUNCTION pg_catalog.format_type(oid, integer), pg_catalog.pg_get_constraintdef(oid);
ALTER FUNCTION pg_catalog.true_format_type(oid, integer) RENAME TO format_type;
ALTER FUNCTION pg_catalog.true_pg_get_constraintdef(oid) RENAME TO pg_get_constraintdef;
\c contrib_regression
SET client_min_messages = warning;
SELECT count(*) FROM shardlet.execute('attach_hostile', 'DROP SCHEMA attach_hostile CASCADE');
SELECT shardlet.drop_map('attach_hostile');
DROP SCHEMA attach_hostile CASCADE;
