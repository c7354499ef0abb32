-- hide_rows() takes the router's word alone, and does nothing but leave rows out for the user who
-- calls it: of columns that the user may read, or of the key.
SET client_min_messages = warning;
CREATE SCHEMA gh;
SELECT shardlet.create_map('gh', 'range', '{bigint}', shards => '{s1}');
SELECT shardlet.assign_range('gh', 's1', NULL, NULL) > 0 AS ok;
SET search_path = gh;
CREATE TABLE emp (id bigint PRIMARY KEY, name text, salary int);
SELECT shardlet.distribute('emp', 'gh', 'id');
INSERT INTO emp SELECT i, 'n' || i, i * 100 FROM generate_series(1, 10) i;

\c contrib_regression_s1
SET search_path = gh;
-- The router's proof, for the conditions below.
CREATE FUNCTION signed(fields text[]) RETURNS text[] LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $f$
DECLARE
	key bytea := convert_to((SELECT hide_key FROM shardlet.catalog_guard_map WHERE map = 'gh'), 'UTF8');
	inner_key bytea := key;
	outer_key bytea := key;
	message bytea := '';
	field text;
BEGIN
	FOR i IN 0 .. 63 LOOP
		inner_key := set_byte(inner_key, i, get_byte(key, i) # 54);
		outer_key := set_byte(outer_key, i, get_byte(key, i) # 92);
	END LOOP;
	FOREACH field IN ARRAY fields LOOP
		message := message || convert_to(field, 'UTF8') || '\x00'::bytea;
	END LOOP;
	RETURN encode(sha256(outer_key || sha256(inner_key || message)), 'hex') || fields;
END $f$;
CREATE ROLE gh_joe;
GRANT ALL ON SCHEMA gh TO gh_joe;
CREATE DOMAIN number AS int;
CREATE TABLE parts (a text, b number, c timestamp, d date, x int) PARTITION BY LIST (b);
CREATE TABLE part1 (x int, d date, c timestamp, b number, a text);
ALTER TABLE parts ATTACH PARTITION part1 FOR VALUES IN (1);
CREATE TABLE part2 PARTITION OF parts FOR VALUES IN (2);
INSERT INTO parts SELECT 'a' || i, i % 2 + 1, '2024-01-01', date '2024-01-01' + i, i FROM generate_series(1, 10) i;
GRANT SELECT ON parts TO gh_joe;
CREATE FUNCTION count_emp() RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER AS 'BEGIN RETURN (SELECT count(*) FROM gh.emp); END';
CREATE VIEW names WITH (security_barrier) AS SELECT name FROM emp;
GRANT SELECT ON names TO gh_joe;
GRANT SELECT (name) ON emp TO gh_joe;
-- A view that hides rows, and functions that tell of them by their errors.
CREATE VIEW few WITH (security_barrier) AS SELECT name FROM emp WHERE salary < 300;
GRANT SELECT ON few TO gh_joe;
SET ROLE gh_joe;

-- Only the router says what is hidden: no key of a row can be found out, of one that a view hides or of one that it shows.
\set VERBOSITY terse
SELECT shardlet_internal.hide_rows('{gh, emp, "1 / (id - 7) IS NOT NULL"}');
SELECT shardlet_internal.hide_rows('{"", gh, emp, "1 / (id - 7) IS NOT NULL"}');
SELECT shardlet_internal.hide_rows(array_prepend(encode(sha256(''), 'hex'), '{gh, emp, id > 1}'));
SELECT shardlet_internal.hide_rows((gh.signed('{gh, emp, id > 1}'))[1] || '{gh, emp, id > 2}'::text[]);
SELECT shardlet_internal.hide_rows((gh.signed('{gh, emp, id > 1}'))[1] || '{gh, emp, id > 1, gh, emp, id > 2}'::text[]);
SELECT shardlet_internal.hide_rows((gh.signed('{g, hemp, id > 1}'))[1] || '{gh, emp, id > 1}'::text[]);
SELECT shardlet_internal.hide_rows(ARRAY[NULL, 'gh', 'emp', 'true']);
SELECT shardlet_internal.hide_rows('{x}');
SELECT shardlet_internal.hide_rows(NULL);
SELECT hide_key FROM shardlet.catalog_guard_map;
SELECT count(*) FROM few;
\set VERBOSITY default

-- All that conditions of the router are made of.
SELECT shardlet_internal.hide_rows(gh.signed(ARRAY['gh', 'parts', $$(pg_catalog.hash_record_extended(ROW(a::pg_catalog.text, b::pg_catalog.int8), 0)
	OPERATOR(pg_catalog.>=) '-4611686018427387904'::pg_catalog.int8) IS NOT TRUE$$]));
SELECT count(*) = count(*) FILTER (WHERE hash_record_extended(ROW(a, b::int8), 0) < -4611686018427387904)
	AND count(*) > 0 AS ok FROM parts;
SELECT shardlet_internal.hide_rows(gh.signed(ARRAY['gh', 'parts', $$((d)::pg_catalog.date OPERATOR(pg_catalog.>=) '2024-01-03'::pg_catalog.date
	AND (d)::pg_catalog.date OPERATOR(pg_catalog.<) '2024-01-05'::pg_catalog.date) IS NOT TRUE$$]));
SELECT count(*) FROM parts;
SELECT shardlet_internal.hide_rows(gh.signed(ARRAY['gh', 'parts', $$((a)::pg_catalog.text COLLATE pg_catalog."C" OPERATOR(pg_catalog.=) 'a1'::pg_catalog.text
	AND (b)::pg_catalog.int8 OPERATOR(pg_catalog.=) '2'::pg_catalog.int8) IS NOT TRUE$$]));
SELECT count(*) FROM parts;
SELECT count(*) FROM (SELECT x FROM parts UNION ALL SELECT x FROM parts WHERE x > 9) u;
SELECT shardlet_internal.hide_rows(gh.signed(ARRAY['gh', 'parts', $$((x::pg_catalog.int8) % 4 = 1 OR CASE WHEN coalesce(upper(a), '') = ANY ('{A2,A4}') THEN true ELSE
	extract(year FROM c) IS NULL OR (ARRAY[x::text])[1] = '6' END) IS NOT TRUE$$]));
SELECT array_agg(x ORDER BY x) FROM parts;
-- Nothing is left.
SELECT shardlet_internal.hide_rows(gh.signed('{gh, parts, false}'));
SELECT count(*) FROM parts;
SELECT count(*) FROM (SELECT x FROM parts UNION ALL SELECT 1) u;
SELECT count(*) FROM parts a LEFT JOIN parts b USING (x);
SELECT shardlet_internal.hide_rows(gh.signed('{gh, parts, "NULL"}'));
SELECT count(*) FROM parts;
SELECT shardlet_internal.hide_rows(gh.signed('{gh, parts, true}'));
SELECT count(*) FROM parts;
-- Names of tables that are not here.
SELECT shardlet_internal.hide_rows(gh.signed('{gh, none, false, none, parts, false}'));
SELECT count(*) FROM parts;

-- One expression.
\set VERBOSITY terse
SELECT shardlet_internal.hide_rows(gh.signed('{gh, parts, ""}'));
SELECT shardlet_internal.hide_rows(gh.signed('{gh, parts, "  -- "}'));
SELECT shardlet_internal.hide_rows(gh.signed('{gh, parts, *}'));
SELECT shardlet_internal.hide_rows(gh.signed('{gh, parts, parts.*}'));
SELECT shardlet_internal.hide_rows(gh.signed('{gh, parts, "true, true"}'));
SELECT shardlet_internal.hide_rows(gh.signed('{gh, parts, true AS x}'));
SELECT shardlet_internal.hide_rows(gh.signed('{gh, parts, DISTINCT true}'));
SELECT shardlet_internal.hide_rows(gh.signed('{gh, parts, true FROM gh.parts}'));
SELECT shardlet_internal.hide_rows(gh.signed('{gh, parts, true WHERE true}'));
SELECT shardlet_internal.hide_rows(gh.signed('{gh, parts, true LIMIT 1}'));
SELECT shardlet_internal.hide_rows(gh.signed('{gh, parts, true; DROP TABLE parts}'));
SELECT shardlet_internal.hide_rows(gh.signed('{gh, parts, true, gh}'));
-- What was hidden before stays hidden, or not.
SELECT count(*) FROM parts;

-- Nothing of a user's, no queries, nothing that depends on anything else.
CREATE FUNCTION yes(anyelement) RETURNS bool IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
	RAISE WARNING 'yes() runs as %', current_user;
	RETURN true;
END $$;
CREATE DOMAIN d AS int CHECK (gh.yes(value));
CREATE TYPE c AS (i d);
CREATE OPERATOR === (LEFTARG = int, RIGHTARG = int, FUNCTION = int4eq);
CREATE FUNCTION refused(condition text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM shardlet_internal.hide_rows(gh.signed(ARRAY['gh', 'parts', condition]));
	PERFORM count(*) FROM gh.parts;
	RETURN NULL;
EXCEPTION WHEN OTHERS THEN
	PERFORM shardlet_internal.hide_rows('{}');
	RETURN SQLSTATE || ' ' || SQLERRM;
END $$;
SELECT condition, refused(condition) FROM unnest(ARRAY[
	'gh.yes(x)', 'x::gh.d IS NOT NULL', '5::gh.d IS NOT NULL', 'ARRAY[x]::gh.d[] IS NOT NULL', 'ROW(x)::gh.c IS NOT NULL',
	'jsonb_populate_record(NULL::gh.c, ''{"i": 1}'') IS NOT NULL',
	'x OPERATOR(gh.===) 1', 'x OPERATOR(gh.===) ANY (''{1}'')', 'NOT (x OPERATOR(gh.===) 1)', 'x IN (SELECT 1)', 'now() > d', 'd::text > ''''', 'current_user = ''x''', 'pg_sleep(0) IS NULL',
	'ctid IS NOT NULL', 'tableoid > 0', 'parts IS NOT NULL', 'parts.* IS NOT NULL', 'count(*) > 0', 'row_number() OVER () > 0', 'generate_series(1, x) > 0', '$1', 'x',
	'none > 0']) condition;
-- Conditions run as the one who calls, if at all.
SELECT shardlet_internal.hide_rows(gh.signed('{gh, emp, "(id::gh.d) IS NOT NULL"}'));
SELECT count_emp();
SELECT shardlet_internal.hide_rows(gh.signed('{gh, emp, gh.yes(id)}'));
SELECT count_emp();
SELECT shardlet_internal.hide_rows(gh.signed('{gh, emp, id > 5}'));
SELECT count_emp(), count(*) FROM names;

-- Columns that the user may not read, but for the key.
SELECT shardlet_internal.hide_rows(gh.signed('{gh, emp, salary > 500}'));
SELECT count(*) FROM names;
SELECT count(name) FROM emp;
SELECT shardlet_internal.hide_rows(gh.signed('{gh, emp, "name < ''n3'' AND id > 1"}'));
SELECT count(*) FROM names;
SELECT shardlet_internal.hide_rows(gh.signed('{pg_catalog, pg_authid, rolpassword IS NULL}'));
SELECT count(*) > 0 FROM pg_roles;
SELECT shardlet_internal.hide_rows('{}');
SELECT count(*) FROM names;
RESET ROLE;
-- Nor rows of columns that the user may.
GRANT SELECT ON emp TO gh_joe;
SET ROLE gh_joe;
SELECT shardlet_internal.hide_rows(gh.signed('{gh, emp, salary > 500}'));
SELECT count(*) FROM names;
RESET ROLE;
CREATE POLICY p ON emp USING (salary < 200);
ALTER TABLE emp ENABLE ROW LEVEL SECURITY;
SET ROLE gh_joe;
SELECT count(*) FROM names;
SELECT shardlet_internal.hide_rows(gh.signed('{gh, emp, id > 3}'));
SELECT count(*) FROM names;
RESET ROLE;
\set VERBOSITY default
ALTER TABLE emp DISABLE ROW LEVEL SECURITY;

-- A plan that is kept is for one user.
SET plan_cache_mode = force_generic_plan;
PREPARE kept AS SELECT count(*) FROM emp;
EXECUTE kept;
SET ROLE gh_joe;
EXECUTE kept;
RESET ROLE;
EXECUTE kept;
SET ROLE gh_joe;
EXECUTE kept;
SELECT shardlet_internal.hide_rows('{}');
EXECUTE kept;
RESET ROLE;
EXECUTE kept;
-- The table changes.
SELECT shardlet_internal.hide_rows(gh.signed('{gh, parts, x > 3}'));
SELECT count(*) FROM parts;
ALTER TABLE parts ALTER x TYPE text;
\set VERBOSITY sqlstate
SELECT count(*) FROM parts;
ALTER TABLE parts ALTER x TYPE numeric USING x::numeric;
\set VERBOSITY default
ANALYZE parts;
SELECT count(*) FROM parts;
SELECT shardlet_internal.hide_rows('{}');
DROP VIEW names, few;
DROP TABLE parts;
DROP OWNED BY gh_joe;
DROP ROLE gh_joe;

\c contrib_regression
SET client_min_messages = warning;
DROP TABLE gh.emp;
SELECT shardlet.drop_map('gh');
DROP SCHEMA gh CASCADE;
SELECT count(*) FROM shardlet.execute(NULL, 'DROP SCHEMA IF EXISTS gh CASCADE');
