-- Every built-in aggregate that PostgreSQL can compute in parts gives the same over shards as over a plain table: of many rows,
-- of NULLs, of none, for groups, with FILTER.
CREATE SCHEMA agg_builtin;
SET search_path = agg_builtin;
SELECT shardlet.create_map('agg_builtin', key_types => '{int}', shards => '{s1,s2,s3}');
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE TABLE t (
	id int PRIMARY KEY,
	g text,
	"smallint" smallint, "integer" integer, "bigint" bigint, "numeric" numeric, "real" real,
	"double precision" double precision, "money" money, "boolean" boolean, "bit" bit(5), "character" character(5), "text" text,
	"date" date, "time without time zone" time, "time with time zone" timetz, "timestamp without time zone" timestamp,
	"timestamp with time zone" timestamptz, "interval" interval, "inet" inet, "oid" oid, "pg_lsn" pg_lsn, "tid" tid,
	"xid8" xid8, "anyarray" int[], "anyenum" mood, "anyrange" int4range, "anymultirange" int4multirange, "bytea" bytea);
INSERT INTO t
SELECT i, chr(97 + i % 4), i * 7 % 1000, i * 7919 % 100003, i * 1000000007::bigint, i * 1.25 - 300, i % 64, i % 128 / 8.0,
	i::money, i % 2 = 0, (i % 32)::bit(5), chr(65 + i % 26), 'text ' || i % 77, date '2026-01-01' + i, time '00:00' + i * interval '1 minute',
	timetz '00:00+01' + i * interval '1 minute', timestamp '2026-01-01' + i * interval '1 hour',
	timestamptz '2026-01-01 00:00+00' + i * interval '1 hour', i * interval '1 day 1 minute', '10.0.0.0'::inet + i, i,
	'0/0'::pg_lsn + i, ('(' || i || ',1)')::tid, i::text::xid8, ARRAY[i, i % 3], (ARRAY['sad', 'ok', 'happy'])[1 + i % 3]::mood,
	int4range(i % 10, 1000 + i), int4multirange(int4range(0, 1000 - i % 10)), i::text::bytea
FROM generate_series(1, 500) i;
-- A group that is NULL, one whose values are, and special numbers.
INSERT INTO t (id, g) SELECT i, NULL FROM generate_series(501, 520) i;
INSERT INTO t (id, g) SELECT i, 'nulls' FROM generate_series(521, 540) i;
INSERT INTO t (id, g, "numeric", "real", "double precision")
SELECT 600 + n, v, v::numeric, v::real, v::double precision FROM unnest(ARRAY['NaN', 'Infinity', '-Infinity']) WITH ORDINALITY a(v, n);
CREATE TABLE plain AS TABLE t;
SELECT shardlet.distribute('t', 'agg_builtin', 'id');
ANALYZE t;
-- The rows of a statement, in one order.
CREATE FUNCTION rows_of(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line record;
	result text[] := '{}';
BEGIN
	FOR line IN EXECUTE statement LOOP
		result := result || line::text;
	END LOOP;
	RETURN (SELECT string_agg(l, E'\n' ORDER BY l) FROM unnest(result) l);
END $$;
-- The rest of the plan is PostgreSQL's if the shards do the first half.
CREATE FUNCTION is_split(statement text) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) ' || statement LOOP
		IF line ~ 'Finalize' THEN RETURN true; END IF;
	END LOOP;
	RETURN false;
END $$;
CREATE TABLE calls AS
SELECT a.aggfnoid::regprocedure AS aggregate, a.aggfnoid::regproc || '(' || CASE p.pronargs
		WHEN 0 THEN '*' WHEN 2 THEN '"double precision", "smallint"'
		ELSE quote_ident(CASE p.proargtypes[0]::regtype::text WHEN '"any"' THEN 'inet' WHEN 'anyelement' THEN 'boolean'
			ELSE p.proargtypes[0]::regtype::text END) END || ')' AS call,
	p.prorettype = 'double precision'::regtype AND p.proname !~ '^(min|max)$' AS is_float
FROM pg_aggregate a JOIN pg_proc p ON p.oid = a.aggfnoid
WHERE a.aggfnoid < 16384 AND a.aggcombinefn <> 0 AND p.proname NOT IN ('string_agg', 'array_agg', 'any_value')
	AND NOT p.proargtypes[0] = ANY ('{record,bytea}'::regtype[]);
SELECT count(*) > 120 FROM calls;
-- The last digits of a float depend on the order in which numbers are added.
CREATE FUNCTION compare(shape text) RETURNS TABLE (aggregate regprocedure, statement text, shards text, plain text) LANGUAGE plpgsql AS $$
DECLARE
	value text;
BEGIN
	FOR aggregate, value IN SELECT c.aggregate, CASE WHEN is_float THEN
			format('(%s)::real', replace(shape, 'AGG', c.call))
			ELSE replace(shape, 'AGG', c.call) END FROM calls c ORDER BY 1 LOOP
		FOREACH statement IN ARRAY ARRAY[
			format('SELECT %s FROM %%s', value),
			format('SELECT g, %s FROM %%s GROUP BY g', value),
			format('SELECT %s FROM %%s WHERE id < 0', value),
			format('SELECT g, %s FROM %%s WHERE g IS NULL OR g IN (''nulls'', ''NaN'', ''Infinity'', ''-Infinity'') GROUP BY g', value)] LOOP
			shards := rows_of(format(statement, 't'));
			plain := rows_of(format(statement, 'plain'));
			IF shards IS DISTINCT FROM plain THEN RETURN NEXT; END IF;
			IF statement !~ 'WHERE id|WHERE g' AND NOT is_split(format(statement, 't')) THEN
				shards := 'not split';
				plain := NULL;
				RETURN NEXT;
			END IF;
		END LOOP;
	END LOOP;
END $$;
SELECT * FROM compare('AGG');
SELECT * FROM compare('AGG FILTER (WHERE mod(id, 3) = 0)');
SET client_min_messages = warning;
DROP TABLE t;
DROP SCHEMA agg_builtin CASCADE;
SELECT shardlet.drop_map('agg_builtin');
SELECT count(*) FROM shardlet.execute(NULL, 'DROP SCHEMA IF EXISTS agg_builtin CASCADE');
