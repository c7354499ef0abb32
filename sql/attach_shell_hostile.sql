-- Definitions that a hostile shard sends for a shell table: statements that concern the
-- table and its partitions only, or an error; nothing else is run on the router.
CREATE SCHEMA attach_shell_hostile;
SET search_path = attach_shell_hostile;
SET client_min_messages = warning;
\set VERBOSITY terse
SELECT shardlet.create_map('attach_shell_hostile', key_types => '{int}', shards => '{s1}');
SELECT count(*) FROM shardlet.execute('attach_shell_hostile', 'CREATE SCHEMA attach_shell_hostile');
SELECT count(*) FROM shardlet.execute('attach_shell_hostile', 'CREATE TABLE attach_shell_hostile.t (id int, v text CHECK (v <> ''''), day int, PRIMARY KEY (id, day)) PARTITION BY RANGE (day)');
SELECT count(*) FROM shardlet.execute('attach_shell_hostile', 'CREATE TABLE attach_shell_hostile.t1 PARTITION OF attach_shell_hostile.t FOR VALUES FROM (1) TO (2)');
SELECT count(*) FROM shardlet.execute('attach_shell_hostile', 'CREATE INDEX t_v ON attach_shell_hostile.t (v)');
SELECT count(*) FROM shardlet.execute('attach_shell_hostile', 'CREATE STATISTICS attach_shell_hostile.t_s ON id, v FROM attach_shell_hostile.t');
SELECT count(*) FROM shardlet.execute('attach_shell_hostile', 'ALTER TABLE attach_shell_hostile.t ADD parent int, ADD CONSTRAINT t_parent FOREIGN KEY (id, parent) REFERENCES attach_shell_hostile.t');

-- Functions of the shard's catalogs that lie when the router asks.
\c contrib_regression_s1
CREATE TABLE attach_shell_hostile.lie (what text PRIMARY KEY, answer text);
CREATE FUNCTION attach_shell_hostile.lie(subject text, truth text) RETURNS text LANGUAGE sql STABLE AS
	$$ SELECT coalesce((SELECT l.answer FROM attach_shell_hostile.lie l WHERE l.what = subject AND current_setting('application_name') LIKE 'shardlet%'), truth) $$;
ALTER FUNCTION pg_catalog.format_type(oid, integer) RENAME TO true_format_type;
CREATE FUNCTION pg_catalog.format_type(oid, integer) RETURNS text LANGUAGE sql STABLE AS
	$$ SELECT CASE WHEN $1 = 'text'::regtype THEN attach_shell_hostile.lie('type', pg_catalog.true_format_type($1, $2)) ELSE pg_catalog.true_format_type($1, $2) END $$;
ALTER FUNCTION pg_catalog.pg_get_constraintdef(oid) RENAME TO true_pg_get_constraintdef;
CREATE FUNCTION pg_catalog.pg_get_constraintdef(oid) RETURNS text LANGUAGE sql STABLE AS
	$$ SELECT attach_shell_hostile.lie(left(pg_catalog.true_pg_get_constraintdef($1), 5), pg_catalog.true_pg_get_constraintdef($1)) $$;
ALTER FUNCTION pg_catalog.pg_get_indexdef(oid) RENAME TO true_pg_get_indexdef;
CREATE FUNCTION pg_catalog.pg_get_indexdef(oid) RETURNS text LANGUAGE sql STABLE AS
	$$ SELECT attach_shell_hostile.lie('index', pg_catalog.true_pg_get_indexdef($1)) $$;
ALTER FUNCTION pg_catalog.pg_get_partkeydef(oid) RENAME TO true_pg_get_partkeydef;
CREATE FUNCTION pg_catalog.pg_get_partkeydef(oid) RETURNS text LANGUAGE sql STABLE AS
	$$ SELECT attach_shell_hostile.lie('partkey', pg_catalog.true_pg_get_partkeydef($1)) $$;
ALTER FUNCTION pg_catalog.pg_get_statisticsobjdef(oid) RENAME TO true_pg_get_statisticsobjdef;
CREATE FUNCTION pg_catalog.pg_get_statisticsobjdef(oid) RETURNS text LANGUAGE sql STABLE AS
	$$ SELECT attach_shell_hostile.lie('statistics', pg_catalog.true_pg_get_statisticsobjdef($1)) $$;
ALTER FUNCTION pg_catalog.pg_get_expr(pg_node_tree, oid) RENAME TO true_pg_get_expr;
CREATE FUNCTION pg_catalog.pg_get_expr(pg_node_tree, oid) RETURNS text LANGUAGE sql STABLE AS
	$$ SELECT CASE WHEN pg_catalog.true_pg_get_expr($1, $2) LIKE 'FOR VALUES%' THEN attach_shell_hostile.lie('bound', pg_catalog.true_pg_get_expr($1, $2)) ELSE pg_catalog.true_pg_get_expr($1, $2) END $$;
\c contrib_regression
SET search_path = attach_shell_hostile;
SET client_min_messages = warning;
CREATE TABLE victim (id int PRIMARY KEY, v text);
INSERT INTO victim VALUES (1, 'x');
CREATE TABLE victims (id int) PARTITION BY RANGE (id);
CREATE FUNCTION writes(text) RETURNS text LANGUAGE sql VOLATILE AS $$ SELECT $1 $$;
CREATE FUNCTION lied(what text, answer text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM shardlet.execute('attach_shell_hostile', format('INSERT INTO attach_shell_hostile.lie VALUES (%L, %L)', what, answer));
	PERFORM shardlet.attach('attach_shell_hostile.t', 'attach_shell_hostile', 'id');
	RAISE EXCEPTION 'attached: %', (SELECT string_agg(indexrelid::regclass::text, ', ' ORDER BY indexrelid::regclass::text) FROM pg_index WHERE indrelid = 'attach_shell_hostile.t'::regclass);
EXCEPTION WHEN OTHERS THEN
	RETURN sqlstate || ': ' || sqlerrm;
END $$;
SELECT what, answer, lied(what, answer) FROM (VALUES
	('none', ''),
	('type', 'text); DROP TABLE attach_shell_hostile.victim; --'),
	('type', 'text REFERENCES attach_shell_hostile.victim'),
	('type', 'text, FOREIGN KEY (id) REFERENCES attach_shell_hostile.victim'),
	('type', 'text, LIKE attach_shell_hostile.victim'),
	('type', 'text) INHERITS (attach_shell_hostile.victim) --'),
	('type', 'text DEFAULT pg_read_file(''PG_VERSION'')'),
	('CHECK', 'FOREIGN KEY (id) REFERENCES attach_shell_hostile.victim'),
	('CHECK', 'CHECK (true), ADD FOREIGN KEY (id) REFERENCES attach_shell_hostile.victim'),
	('CHECK', 'CHECK (true), OWNER TO nobody'),
	('CHECK', 'CHECK (true); DROP TABLE attach_shell_hostile.victim'),
	('CHECK', 'CHECK ((SELECT true))'),
	('CHECK', 'CHECK (attach_shell_hostile.writes(v) = '''')'),
	('PRIMA', 'UNIQUE USING INDEX victim_pkey'),
	('PRIMA', 'FOREIGN KEY (id) REFERENCES attach_shell_hostile.victim ON DELETE CASCADE'),
	('FOREI', 'FOREIGN KEY (id) REFERENCES attach_shell_hostile.victim ON DELETE CASCADE'),
	('FOREI', 'FOREIGN KEY (id) REFERENCES victim'),
	('FOREI', 'CHECK (attach_shell_hostile.writes(v) = '''')'),
	('index', 'CREATE INDEX hostile ON attach_shell_hostile.victim (v)'),
	('index', 'DROP TABLE attach_shell_hostile.victim'),
	('index', 'CREATE INDEX hostile ON attach_shell_hostile.t (attach_shell_hostile.writes(v))'),
	('partkey', 'RANGE ((attach_shell_hostile.writes(v)))'),
	('partkey', 'RANGE ((day)); DROP TABLE attach_shell_hostile.victim; --'),
	('statistics', 'CREATE STATISTICS attach_shell_hostile.hostile ON id, v FROM attach_shell_hostile.victim'),
	('bound', 'FOR VALUES FROM (attach_shell_hostile.writes(''1'')::int) TO (2)'),
	('bound', 'FOR VALUES FROM (1) TO (2), ADD FOREIGN KEY (id) REFERENCES attach_shell_hostile.victim'),
	('bound', 'FOR VALUES FROM (1) TO (2); ALTER TABLE attach_shell_hostile.victims ATTACH PARTITION attach_shell_hostile.t1 DEFAULT')) v(what, answer);
\d victim
SELECT count(*) FROM victim;

\c contrib_regression_s1
DROP FUNCTION pg_catalog.format_type(oid, integer), pg_catalog.pg_get_constraintdef(oid), pg_catalog.pg_get_indexdef(oid), pg_catalog.pg_get_partkeydef(oid),
	pg_catalog.pg_get_statisticsobjdef(oid), pg_catalog.pg_get_expr(pg_node_tree, oid);
ALTER FUNCTION pg_catalog.true_format_type(oid, integer) RENAME TO format_type;
ALTER FUNCTION pg_catalog.true_pg_get_constraintdef(oid) RENAME TO pg_get_constraintdef;
ALTER FUNCTION pg_catalog.true_pg_get_indexdef(oid) RENAME TO pg_get_indexdef;
ALTER FUNCTION pg_catalog.true_pg_get_partkeydef(oid) RENAME TO pg_get_partkeydef;
ALTER FUNCTION pg_catalog.true_pg_get_statisticsobjdef(oid) RENAME TO pg_get_statisticsobjdef;
ALTER FUNCTION pg_catalog.true_pg_get_expr(pg_node_tree, oid) RENAME TO pg_get_expr;
\c contrib_regression
SET client_min_messages = warning;
DROP SCHEMA attach_shell_hostile CASCADE;
SELECT count(*) FROM shardlet.execute('attach_shell_hostile', 'DROP SCHEMA attach_shell_hostile CASCADE');
SELECT shardlet.drop_map('attach_shell_hostile');
