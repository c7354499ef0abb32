-- Everything that talks to shards works under settings that change how texts are read
-- and values are written, on the router and on the shards, by any role.
CREATE SCHEMA hostile;
-- An operator and functions that take the place of PostgreSQL's, if names are not qualified.
CREATE FUNCTION hostile.no_equal(text, text) RETURNS bool LANGUAGE sql IMMUTABLE AS 'SELECT false';
CREATE OPERATOR hostile.= (LEFTARG = text, RIGHTARG = text, FUNCTION = hostile.no_equal);
CREATE FUNCTION hostile.count(int) RETURNS bigint LANGUAGE sql AS 'SELECT -1::bigint';
CREATE FUNCTION hostile.set_router(names text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('standard_conforming_strings', 'off', false), set_config('backslash_quote', 'off', false),
		set_config('escape_string_warning', 'off', false), set_config('quote_all_identifiers', 'on', false),
		set_config('datestyle', 'German, DMY', false), set_config('intervalstyle', 'iso_8601', false),
		set_config('bytea_output', 'escape', false), set_config('extra_float_digits', '-15', false),
		set_config('timezone', 'Asia/Kathmandu', false), set_config('transform_null_equals', 'on', false),
		set_config('array_nulls', 'off', false), set_config('xmlbinary', 'hex', false), set_config('xmloption', 'document', false),
		set_config('lock_timeout', '50s', false), set_config('default_transaction_deferrable', 'on', false), set_config('check_function_bodies', 'off', false),
		set_config('search_path', names, false);
END $$;
-- The shards have others, for every connection.
DO $$
DECLARE
	shard text;
	setting text;
BEGIN
	FOREACH shard IN ARRAY '{contrib_regression_s1, contrib_regression_s2}'::text[] LOOP
		FOREACH setting IN ARRAY ARRAY['standard_conforming_strings = off', 'backslash_quote = off', 'quote_all_identifiers = on', 'datestyle = ''SQL, DMY''',
			'intervalstyle = sql_standard', 'bytea_output = escape', 'extra_float_digits = -10', 'timezone = ''America/New_York''', 'array_nulls = off',
			'default_transaction_read_only = on', 'default_transaction_isolation = serializable', 'lock_timeout = ''30s''', 'search_path = nowhere',
			'client_encoding = latin1', 'xmlbinary = hex', 'transform_null_equals = on', 'row_security = off', 'statement_timeout = ''50s'''] LOOP
			EXECUTE format('ALTER DATABASE %I SET %s', shard, setting);
		END LOOP;
	END LOOP;
END $$;
SELECT shardlet.close_connections() >= 0;
SELECT hostile.set_router('public');
-- Maps of all kinds, with keys that need quotes.
SELECT shardlet.create_map('ho_hash', 'hash', '{text}', shards => '{s1, s2}', shardlets => 4);
SELECT shardlet.create_map('ho_list', 'list', '{text}', shards => '{s1, s2}');
SELECT shardlet.assign_key('ho_list', 's1', E'a\\b') > 0, shardlet.assign_key('ho_list', 's2', 'it''s') > 0,
	shardlet.assign_keys('ho_list', 's1', ARRAY[E'\\', E'\\\\''', 'NULL', '']) > 0, shardlet.assign_default('ho_list', 's2') > 0;
SELECT shardlet.create_map('ho_range', 'range', '{timestamptz}', shards => '{s1, s2}');
SELECT shardlet.assign_range('ho_range', 's1', NULL, '02.01.2024 03:04:05.678901'::timestamptz) > 0,
	shardlet.assign_range('ho_range', 's2', '02.01.2024 03:04:05.678901'::timestamptz, NULL) > 0;
SELECT shardlet.create_map('ho_via', 'list', '{bigint}', via => '$1 % 2', shards => '{s1, s2}');
SELECT shardlet.assign_key('ho_via', 's1', 0) > 0, shardlet.assign_key('ho_via', 's2', 1) > 0;
SELECT shardlet.create_map('ho_float', 'range', '{float8}', shards => '{s1, s2}');
SELECT shardlet.assign_range('ho_float', 's1', NULL, 0.1::float8 + 0.2::float8) > 0, shardlet.assign_range('ho_float', 's2', 0.1::float8 + 0.2::float8, NULL) > 0;
SELECT shardlet.route('ho_float', 0.3::float8), shardlet.route('ho_float', 0.1::float8 + 0.2::float8);
SELECT shardlet.route('ho_list', E'a\\b'), shardlet.route('ho_list', E'\\\\'''), shardlet.route('ho_list', 'else');
SELECT count(*) FROM shardlet.route_many('ho_list', ARRAY[E'a\\b', 'it''s']);
-- Tables with everything that is written as text.
CREATE TYPE ho_mood AS ENUM ('it''s', E'back\\slash');
CREATE TABLE ho_t (k text, id int GENERATED ALWAYS AS IDENTITY, n serial, m ho_mood DEFAULT E'back\\slash', at timestamptz DEFAULT '31.12.2023 23:59:59.5',
	i interval DEFAULT 'P1DT2H', b bytea DEFAULT E'\\\\x005c27', f float8 DEFAULT 0.1::float8 + 0.2::float8, a text[] DEFAULT ARRAY[E'\\', NULL, ''''],
	g text GENERATED ALWAYS AS (k || E'\\') STORED, CONSTRAINT "odd ""\ one" CHECK (k <> E'\\\\no'), PRIMARY KEY (k, id));
COMMENT ON TABLE ho_t IS E'a \\ and a ''';
COMMENT ON COLUMN ho_t.k IS E'\\''';
CREATE INDEX "ho \ index" ON ho_t ((k || E'\\'), at) WHERE k <> E'\\''' AND at > '01.02.2020';
CREATE TABLE ho_plain (LIKE ho_t INCLUDING ALL);
INSERT INTO ho_t (k) SELECT E'k\\' || i FROM generate_series(1, 40) i;
INSERT INTO ho_plain (k) SELECT E'k\\' || i FROM generate_series(1, 40) i;
SELECT shardlet.distribute('ho_t', 'ho_hash', 'k');
SELECT count(*) AS missing FROM (SELECT k, m, at, i, b, f, a, g FROM ho_plain EXCEPT ALL SELECT k, m, at, i, b, f, a, g FROM ho_t) x;
INSERT INTO ho_t (k) VALUES (E'\\'), (''''), (E'\\''');
UPDATE ho_t SET a = a || k, at = at + i WHERE k = E'\\''';
SELECT k, m, at, i, b, f, a, g FROM ho_t WHERE k IN (E'\\', '''', E'\\''') ORDER BY k;
ALTER TABLE ho_t ADD COLUMN later text DEFAULT E'it''s\\', ADD CHECK (later <> E'\\\\');
SELECT DISTINCT later FROM ho_t;
SELECT * FROM shardlet.query('ho_hash', E'SELECT k FROM ho_t WHERE k = E''\\\\'' AND k <> ''it''''s''') AS (k text);
SELECT shard, command, rows, error FROM shardlet.execute('ho_hash', E'UPDATE ho_t SET later = ''x\\\\'' WHERE k = E''\\\\''', atomic => true) ORDER BY shard;
SELECT later FROM ho_t WHERE k = E'\\';
CREATE TABLE ho_l (k text PRIMARY KEY, v text);
SELECT shardlet.distribute('ho_l', 'ho_list', 'k');
INSERT INTO ho_l VALUES (E'a\\b', '1'), ('it''s', '2'), (E'\\', '3'), (E'\\\\''', '4'), ('NULL', '5'), ('', '6'), ('else', '7');
CREATE TABLE ho_r (at timestamptz, v text, PRIMARY KEY (at));
SELECT shardlet.distribute('ho_r', 'ho_range', 'at');
INSERT INTO ho_r SELECT '02.01.2024 03:04:05.678901'::timestamptz + i * interval 'PT0.000001S', i FROM generate_series(-2, 2) i;
CREATE TABLE ho_v (k bigint PRIMARY KEY, v text);
SELECT shardlet.distribute('ho_v', 'ho_via', 'k');
INSERT INTO ho_v SELECT i, E'\\' || i FROM generate_series(1, 10) i;
-- A reference table, and one in one place.
CREATE TABLE ho_ref (k text PRIMARY KEY, at timestamptz, b bytea, f float8);
INSERT INTO ho_ref VALUES (E'\\', '13.12.2023 01:02:03', E'\\\\x5c', 0.1::float8 + 0.2::float8), ('it''s', NULL, NULL, 1e-300);
SELECT shardlet.make_reference('ho_ref');
UPDATE ho_ref SET k = k || E'\\', f = f * 3 WHERE k = E'\\';
SELECT count(*) FROM ho_t t JOIN ho_ref r ON r.k <> t.k;
SELECT shard, command, rows, error FROM shardlet.execute('ho_hash', 'SELECT FROM ho_ref WHERE f = 0.9::float8 OR f = 0.90000000000000013') ORDER BY shard;
CREATE TABLE ho_one (k text DEFAULT E'\\''');
INSERT INTO ho_one DEFAULT VALUES;
SELECT shardlet.place('ho_one', 's1');
TABLE ho_one;
-- Changes of maps, and moves.
SELECT shardlet.split_shardlet((SELECT min(shardlet) FROM shardlet.shardlets WHERE map = 'ho_hash')) IS NOT NULL;
SELECT shardlet.isolate_key('ho_hash', E'k\\1') IS NOT NULL;
SELECT count(*), count(DISTINCT k) FROM ho_t;
SELECT string_agg(format('CALL shardlet.move_shardlet(%s, %L, %L)', shardlet, CASE shard WHEN 's1' THEN 's2' ELSE 's1' END, mode), '; ') AS moves
FROM (SELECT DISTINCT ON (map) * FROM shardlet.shardlets WHERE map LIKE 'ho%' ORDER BY map, shardlet) s JOIN (VALUES ('ho_hash', 'online'), ('ho_list', 'online'), ('ho_range', 'read_only')) v (map, mode) USING (map) \gset
SET client_min_messages = warning;
\set ECHO none
SELECT unnest(string_to_array(:'moves', '; ')) \gexec
\set ECHO all
RESET client_min_messages;
SELECT DISTINCT phase, last_error FROM shardlet.moves JOIN shardlet.shardlets s USING (shardlet) WHERE s.map LIKE 'ho%';
SELECT count(*), count(DISTINCT k) FROM ho_t;
SELECT k, v FROM ho_l ORDER BY v;
SELECT count(*), sum(v::int) FROM ho_r;
SELECT count(*) FROM shardlet.health() WHERE NOT ok AND shard IN ('s1', 's2');
SELECT count(*) > 0 FROM shardlet.map_json('ho_list');
-- With other names in the way of PostgreSQL's.
SELECT hostile.set_router('hostile, pg_catalog, public');
CREATE TABLE public.ho_s (k text PRIMARY KEY, v int);
INSERT INTO public.ho_s SELECT E's\\' || i, i FROM generate_series(1, 10) i;
SELECT shardlet.distribute('public.ho_s', 'ho_hash', 'k');
SELECT pg_catalog.count(*), pg_catalog.sum(v) FROM public.ho_s;
SELECT shardlet.undistribute('public.ho_s');
SELECT pg_catalog.count(*), pg_catalog.sum(v) FROM public.ho_s;
SELECT hostile.set_router('public');
-- And back.
SELECT shardlet.detach('ho_v');
SELECT shardlet.attach('ho_v', 'ho_via', 'k');
SELECT count(*) FROM ho_v;
SELECT shardlet.undistribute('ho_t'), shardlet.undistribute('ho_l'), shardlet.undistribute('ho_r'), shardlet.undistribute('ho_v'), shardlet.undistribute('ho_one'), shardlet.undistribute('ho_ref');
SELECT count(*) AS missing FROM (SELECT k, m, at, i, b, f, a, g FROM ho_plain EXCEPT ALL SELECT k, m, at, i, b, f, a, g FROM ho_t) x;
SELECT k, later FROM ho_t WHERE later <> E'it''s\\';
SELECT obj_description('ho_t'::regclass), col_description('ho_t'::regclass, 1);
SELECT conname FROM pg_constraint WHERE conrelid = 'ho_t'::regclass AND contype = 'c' ORDER BY conname;
SELECT k, at, b, f = 0.1::float8 * 3 * 3 AS f FROM ho_ref ORDER BY k;
TABLE ho_one;
SELECT shardlet.drop_map(m) FROM unnest('{ho_hash, ho_list, ho_range, ho_via, ho_float}'::name[]) m;
RESET ALL;
DROP TABLE ho_plain;
DROP TABLE ho_t, ho_l, ho_r, ho_v, ho_ref, ho_one, ho_s;
DROP TYPE ho_mood;
DO $$
DECLARE
	shard text;
BEGIN
	FOREACH shard IN ARRAY '{contrib_regression_s1, contrib_regression_s2}'::text[] LOOP
		PERFORM shardlet.close_connections();
		EXECUTE (SELECT string_agg(format('ALTER DATABASE %I RESET %s', shard, split_part(c, '=', 1)), '; ') FROM pg_db_role_setting s, unnest(setconfig) c
			WHERE s.setdatabase = (SELECT oid FROM pg_database WHERE datname = shard) AND c NOT LIKE 'shardlet.%');
	END LOOP;
END $$;
SELECT shard, command, error FROM shardlet.execute(NULL, 'DROP TABLE public.ho_v', shards => '{s1, s2}', on_error => 'skip', atomic => false) ORDER BY 1;
DROP SCHEMA hostile CASCADE;
