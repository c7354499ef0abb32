-- Every built-in type comes back as it is, NULLs included, as binary and as
-- text; user-defined types work though their OIDs differ from shard to shard.
SELECT shardlet.create_map('m', shardlets => 4);
CREATE TABLE sample (type text, value text);
INSERT INTO sample VALUES
	('bool', 't'), ('"char"', 'x'), ('name', 'n'), ('int2', '-32768'), ('int4', '2147483647'), ('int8', '-9223372036854775808'),
	('oid', '4294967295'), ('float4', '-1.17549e-38'), ('float8', '1.7976931348623157e+308'), ('float8', 'NaN'),
	('numeric', '-123456789.000000001'), ('numeric', 'NaN'), ('numeric', 'Infinity'), ('money', '12.34'),
	('text', 'Zürich €'), ('text', ''), ('varchar', 'v'), ('bpchar', 'padded  '), ('bytea', '\x00ff7f'), ('bytea', '\x'),
	('date', '0044-03-15 BC'), ('date', 'infinity'), ('time', '24:00:00'), ('timetz', '12:00:00.123456+05:45'),
	('timestamp', '-infinity'), ('timestamptz', '2026-07-01 12:00:00.000001+02'), ('interval', '-1 year 2 mons -3 days 04:05:06.7'),
	('uuid', '0e984725-c51c-4bf4-9960-e1c80e27aba0'), ('inet', '::1/64'), ('cidr', '10.0.0.0/8'),
	('macaddr', '08:00:2b:01:02:03'), ('macaddr8', '08:00:2b:01:02:03:04:05'), ('bit', '1'), ('varbit', '10101'),
	('point', '(1.5,-2)'), ('line', '{1,2,3}'), ('lseg', '[(0,0),(1,1)]'), ('box', '(1,1),(0,0)'), ('path', '((0,0),(1,1))'),
	('polygon', '((0,0),(1,1),(1,0))'), ('circle', '<(0,0),1>'), ('json', '{"a": [1, null]}'), ('jsonb', '{"a": "ü"}'), ('jsonpath', '$."a"'),
	('tsvector', '''a'':1A ''b'':2'), ('tsquery', '''a'' & ''b'''), ('pg_lsn', '16/B374D848'), ('xid8', '18446744073709551615'),
	('int4[]', '{1,NULL,3}'), ('text[]', '{a,"b,c",NULL,ü}'), ('int4[]', '[2:3]={1,2}'), ('int4[]', '{}'), ('numeric[]', '{{1.5,2},{3,4}}'),
	('int4range', '[1,5)'), ('tstzrange', '["2026-01-01 00:00:00+00",)'), ('int4multirange', '{[1,2),[5,6)}'), ('daterange', 'empty'),
	('tid', '(4,2)'), ('xid', '42'), ('regtype', 'integer'), ('refcursor', 'r');
CREATE FUNCTION round_trip(type text, value text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	good bool;
	result text;
BEGIN
	EXECUTE format('SELECT %L::%s::text', value, type) INTO value;
	EXECUTE format('SELECT bool_and(v::text = %L) AND bool_and(n IS NULL) AND count(*) = 4, min(v::text) FROM shardlet.query(''m'', %L) AS q(v %s, n %s)',
		value, format('SELECT %L::%s, NULL::%s', value, type, type), type, type) INTO good, result;
	RETURN CASE WHEN good THEN 'same' ELSE result END;
END $$;
SELECT type, value, round_trip(type, value) FROM sample ORDER BY type, value;
-- All of them in one row are sent as text, because of regtype; then without it.
-- The client's encoding does not matter.
SELECT count(*) FILTER (WHERE round_trip(type, value) <> 'same') AS bad FROM sample WHERE type <> 'regtype';
SET client_encoding = 'LATIN9';
SELECT count(*) FILTER (WHERE round_trip(type, value) <> 'same') AS bad FROM sample;
RESET client_encoding;
-- Settings that change how values look are the session's, on the shards too.
SET timezone = 'Asia/Kathmandu';
SET datestyle = 'SQL, DMY';
SET intervalstyle = 'iso_8601';
SET extra_float_digits = 0;
SELECT DISTINCT * FROM shardlet.query('m', $$SELECT ('2026-07-01 12:00+02'::timestamptz)::text, (DATE '2026-02-03')::text, (interval '1 day 2 hours')::text, (1.1::float8 * 3)::text, current_setting('client_encoding')$$)
	AS q(a text, b text, c text, d text, e text);
SET timezone = 'UTC';
SELECT DISTINCT * FROM shardlet.query('m', $$SELECT ('2026-07-01 12:00+02'::timestamptz)::text$$) AS q(a text);
RESET ALL;
SELECT DISTINCT * FROM shardlet.query('m', $$SELECT ('2026-07-01 12:00+02'::timestamptz)::text, (DATE '2026-02-03')::text$$) AS q(a text, b text);
SELECT DISTINCT * FROM shardlet.query('m', $$SELECT (0.1::float8 + 0.2)::text$$) AS q(a text);
-- Constants are read again, though the text is the same.
CREATE FUNCTION first_of_month() RETURNS SETOF date LANGUAGE sql AS $$
	SELECT DISTINCT * FROM shardlet.query('m', $d$SELECT DATE '02/01/2026'$d$) AS q(a date) $$;
SET datestyle = 'ISO, MDY';
SELECT first_of_month();
SET datestyle = 'ISO, DMY';
SELECT first_of_month();
DROP FUNCTION first_of_month;
RESET datestyle;
-- So are those that change what a text means.
SET standard_conforming_strings = off;
SET escape_string_warning = off;
SELECT DISTINCT * FROM shardlet.query('m', $$SELECT 'it\'s', 'a\\b' LIMIT 5$$) AS q(a text, b text);
RESET standard_conforming_strings;
SELECT DISTINCT * FROM shardlet.query('m', $$SELECT 'it\'s', 'a\\b' LIMIT 5$$) AS q(a text, b text);
SELECT DISTINCT * FROM shardlet.query('m', $$SELECT 'a\\b' LIMIT 5$$) AS q(a text);
SET transform_null_equals = on;
SET bytea_output = 'escape';
SET array_nulls = off;
SELECT DISTINCT * FROM shardlet.query('m', $$SELECT NULL = NULL, '\x61'::bytea::text, '{null}'::text[]::text$$) AS q(a bool, b text, c text);
RESET ALL;
SELECT DISTINCT * FROM shardlet.query('m', $$SELECT NULL = NULL, '\x61'::bytea::text, '{null}'::text[]::text$$) AS q(a bool, b text, c text);
-- They may change while rows are still to come.
BEGIN;
SET LOCAL datestyle = 'SQL, DMY';
SET LOCAL intervalstyle = 'sql_standard';
DECLARE c CURSOR FOR SELECT a, b, c::text = '(1,x)' AS c FROM shardlet.query('m', $$SELECT DATE '2024-02-01' + g, interval '-1 day -2:00', (1, 'x') FROM generate_series(0, 5) g ORDER BY g$$, shards => '{s1}') AS q(a date, b interval, c text);
FETCH 2 FROM c;
SET LOCAL datestyle = 'ISO, MDY';
SET LOCAL intervalstyle = 'postgres';
FETCH 2 FROM c;
COMMIT;
BEGIN;
SET LOCAL shardlet.max_parallel_shards = 1;
DECLARE c CURSOR FOR SELECT encode(convert_to(a::text, 'UTF8'), 'hex') AS a, b, encode(convert_to(c::text, 'UTF8'), 'hex') AS c FROM shardlet.query('m', $$SELECT U&'\00e4'::name, 42, jsonb '"\u00e4"'$$) AS q(a name, b int, c jsonb);
FETCH 1 FROM c;
SET LOCAL client_encoding = 'LATIN1';
FETCH 2 FROM c;
SET LOCAL client_encoding = 'UTF8';
FETCH 2 FROM c;
COMMIT;
-- And so is the search_path.
SELECT count(*) FROM shardlet.execute('m', 'CREATE SCHEMA other');
SELECT count(*) FROM shardlet.execute('m', 'CREATE TABLE other.hidden (a int)');
SELECT count(*) FROM shardlet.query('m', 'SELECT a FROM hidden', shards => '{s1}') AS q(a int);
SET search_path = other, public;
SELECT count(*) FROM shardlet.query('m', 'SELECT a FROM hidden', shards => '{s1}') AS q(a int);
RESET search_path;
SELECT count(*) FROM shardlet.query('m', 'SELECT a FROM hidden', shards => '{s1}') AS q(a int);

-- User-defined types, whose OIDs differ.
SELECT count(*) FROM shardlet.execute('m', 'CREATE TABLE filler ()', shards => '{s2,s4}');
SELECT count(*) FROM shardlet.execute('m', 'CREATE TYPE other.mood AS ENUM (''sad'', ''ok'', ''happy'')');
SELECT count(*) FROM shardlet.execute('m', 'CREATE TYPE other.pair AS (x int, y other.mood)');
SELECT count(*) FROM shardlet.execute('m', 'CREATE DOMAIN other.small AS int CHECK (VALUE < 10)');
SELECT count(*) FROM shardlet.execute('m', 'CREATE TYPE other.floats AS RANGE (subtype = float8)');
CREATE SCHEMA other;
CREATE TYPE other.mood AS ENUM ('sad', 'ok', 'happy');
CREATE TYPE other.pair AS (x int, y other.mood);
CREATE DOMAIN other.small AS int CHECK (VALUE < 10);
CREATE TYPE other.floats AS RANGE (subtype = float8);
SELECT DISTINCT * FROM shardlet.query('m', $$SELECT 'ok'::other.mood, ROW(1, 'sad')::other.pair, 7::other.small, '[1.5,2)'::other.floats, ARRAY['happy', NULL]::other.mood[], ARRAY[ROW(1, NULL)::other.pair], NULL::other.mood, 1.5::float8$$)
	AS q(a other.mood, b other.pair, c other.small, d other.floats, e other.mood[], f other.pair[], g other.mood, h float8);
SELECT DISTINCT a FROM shardlet.query('m', $$SELECT 'ok'::other.mood$$) AS q(a text);
SELECT a FROM shardlet.query('m', $$SELECT unnest(enum_range(NULL::other.mood)) AS a ORDER BY a DESC LIMIT 5$$) AS q(a other.mood);
SELECT * FROM shardlet.query('m', $$SELECT 'ok'::other.mood$$, shards => '{s1}') AS q(a int);
-- Names of objects that only the shards have.
SELECT DISTINCT * FROM shardlet.query('m', $$SELECT 'other.hidden'::regclass, ARRAY['other.mood'::regtype]$$) AS q(a text, b text);
SELECT * FROM shardlet.query('m', $$SELECT 'other.hidden'::regclass$$, shards => '{s1}') AS q(a regclass);
SELECT * FROM shardlet.query('m', $$SELECT 'other.hidden'::regclass AS a ORDER BY a$$, shards => '{s1}') AS q(a text);
SELECT * FROM shardlet.query('m', $$SELECT 1 ORDER BY 'other.hidden'::regclass$$, shards => '{s1}') AS q(a text);
-- They are merged in their own order only.
SELECT sum(rows) FROM (VALUES ('s1', 'ok'), ('s2', 'sad'), ('s3', 'happy')) v(shard, mood),
	LATERAL shardlet.execute('m', 'CREATE TABLE feeling AS SELECT $1::other.mood AS m', ARRAY[mood], ARRAY[v.shard]::name[]);
SELECT count(*) FROM shardlet.execute('m', 'CREATE TABLE feeling (m other.mood)', shards => '{s4}');
SELECT string_agg(m::text, ' ') FROM shardlet.query('m', 'SELECT m FROM feeling ORDER BY m') AS q(m other.mood);
SELECT m FROM shardlet.query('m', 'SELECT m FROM feeling ORDER BY m LIMIT 1') AS q(m other.mood);
SELECT m FROM shardlet.query('m', 'SELECT m FROM feeling ORDER BY m LIMIT 1') AS q(m text);
SELECT string_agg(m, ' ') FROM shardlet.query('m', 'SELECT m::text FROM feeling ORDER BY m::text') AS q(m text);
SELECT string_agg(m, ' ' ORDER BY m) FROM shardlet.query('m', 'SELECT m FROM feeling') AS q(m text);

-- Columns are compared before anything runs.
SELECT count(*) FROM shardlet.execute('m', 'CREATE TABLE d (a int, b text)', shards => '{s1,s2}');
SELECT count(*) FROM shardlet.execute('m', 'CREATE TABLE d (a int, b text, c int)', shards => '{s3}');
SELECT count(*) FROM shardlet.execute('m', 'CREATE TABLE d (a int, b date)', shards => '{s4}');
SELECT * FROM shardlet.query('m', 'SELECT * FROM d') AS q(a int, b text);
SELECT * FROM shardlet.query('m', 'SELECT * FROM d', shards => '{s3,s1}') AS q(a int, b text);
SELECT * FROM shardlet.query('m', 'SELECT * FROM d', shards => '{s1,s4}') AS q(a int, b text);
SELECT * FROM shardlet.query('m', 'SELECT * FROM d', shards => '{s4,s1}') AS q(a int, b text);
SELECT * FROM shardlet.query('m', 'SELECT * FROM d', shards => '{s1}') AS q(a int);
SELECT * FROM shardlet.query('m', 'SELECT * FROM d', shards => '{s1}') AS q(a int, b text, c int);
SELECT * FROM shardlet.query('m', 'SELECT a, b FROM d', shards => '{s1}') AS q(shardlet_shard name, a int, b uuid);
SELECT count(*) FROM shardlet.query('m', 'SELECT * FROM d', shards => '{s1,s2}') AS q(a int, b text);
-- So are their names: with SELECT * they might be in another order.
SELECT count(*) FROM shardlet.execute('m', 'CREATE TABLE o (a int, b int)', shards => '{s1}');
SELECT count(*) FROM shardlet.execute('m', 'CREATE TABLE o (b int, a int)', shards => '{s2}');
SELECT * FROM shardlet.query('m', 'SELECT * FROM o', shards => '{s1,s2}') AS q(a int, b int);
SELECT count(*) FROM shardlet.query('m', 'SELECT a, b FROM o', shards => '{s1,s2}') AS q(a int, b int);
-- A table that changes under a prepared statement is described again.
SELECT count(*) FROM shardlet.execute('m', 'ALTER TABLE d ADD c int', shards => '{s1,s2}');
SELECT count(*) FROM shardlet.query('m', 'SELECT * FROM d', shards => '{s1,s2}') AS q(a int, b text, c int);

SET client_min_messages = warning;
SELECT count(*) FROM shardlet.execute('m', 'DROP SCHEMA other CASCADE');
SELECT count(*) FROM shardlet.execute('m', 'DROP TABLE IF EXISTS d, o, filler, feeling');
SELECT count(shardlet.drop_map(map)) FROM shardlet.maps;
DROP SCHEMA other CASCADE;
DROP TABLE sample;
DROP FUNCTION round_trip;
