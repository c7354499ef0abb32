-- Aggregates that are not PostgreSQL's, of an extension that all shards have: in two steps if they have a combine function.
CREATE SCHEMA agg_own;
SET search_path = agg_own;
SET client_min_messages = warning;
SELECT shardlet.create_map('agg_own', key_types => '{int}', shards => '{s1,s2,s3}');
CREATE TABLE t (id int PRIMARY KEY, g text COLLATE "C", x int, f float8, w text);
INSERT INTO t SELECT i, chr(97 + i % 3), CASE WHEN i % 7 > 0 THEN i * 13 % 101 END, i / 8.0, 'w' || i % 11 FROM generate_series(1, 200) i;
CREATE TABLE plain AS TABLE t;
SELECT shardlet.distribute('t', 'agg_own', 'id');
ANALYZE t;
-- Members of an extension, on the router and on the shards.
CREATE FUNCTION define() RETURNS text LANGUAGE sql AS $f$ SELECT $$
	CREATE EXTENSION IF NOT EXISTS sslinfo;
	CREATE SCHEMA IF NOT EXISTS agg_own;
	-- not strict, with a first state and a final function
	CREATE FUNCTION agg_own.step(state float8[], x float8) RETURNS float8[] LANGUAGE sql IMMUTABLE
		AS 'SELECT ARRAY[state[1] + 1, state[2] + coalesce(x, 1000)]';
	CREATE FUNCTION agg_own.combine(a float8[], b float8[]) RETURNS float8[] LANGUAGE sql IMMUTABLE
		AS 'SELECT ARRAY[a[1] + b[1], a[2] + b[2]]';
	CREATE FUNCTION agg_own.finish(state float8[]) RETURNS text LANGUAGE sql IMMUTABLE
		AS $i$ SELECT state[1]::bigint || ' values, ' || state[2]::numeric $i$;
	CREATE AGGREGATE agg_own.tell(float8) (SFUNC = agg_own.step, STYPE = float8[], INITCOND = '{0,0}', FINALFUNC = agg_own.finish,
		COMBINEFUNC = agg_own.combine);
	-- strict, begins with the first value
	CREATE FUNCTION agg_own.bigger(a int, b int) RETURNS int LANGUAGE sql IMMUTABLE STRICT AS 'SELECT CASE WHEN a > b THEN a ELSE b END';
	CREATE FUNCTION agg_own.minus(a int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT -a';
	CREATE AGGREGATE agg_own.biggest(int) (SFUNC = agg_own.bigger, STYPE = int, FINALFUNC = agg_own.minus, COMBINEFUNC = agg_own.bigger);
	-- two arguments, no final function, and functions of PostgreSQL's
	CREATE FUNCTION agg_own.weigh(state numeric, x int, weight float8) RETURNS numeric LANGUAGE sql IMMUTABLE STRICT
		AS 'SELECT state + x * weight::numeric';
	CREATE AGGREGATE agg_own.weight(int, float8) (SFUNC = agg_own.weigh, STYPE = numeric, INITCOND = '0', COMBINEFUNC = numeric_add);
	-- a state that is internal
	CREATE AGGREGATE agg_own.mean(numeric) (SFUNC = numeric_accum, STYPE = internal, FINALFUNC = numeric_avg,
		COMBINEFUNC = numeric_avg_combine, SERIALFUNC = numeric_avg_serialize, DESERIALFUNC = numeric_avg_deserialize);
	-- the state of sum(numeric), but not what reads it
	CREATE AGGREGATE agg_own.other(numeric) (SFUNC = numeric_avg_accum, STYPE = internal, FINALFUNC = numeric_sum,
		COMBINEFUNC = numeric_avg_combine, SERIALFUNC = numeric_avg_serialize, DESERIALFUNC = numeric_deserialize);
	-- polymorphic
	CREATE FUNCTION agg_own.larger(a anyelement, b anyelement) RETURNS anyelement LANGUAGE sql IMMUTABLE STRICT AS 'SELECT greatest(a, b)';
	CREATE FUNCTION agg_own.twice(a anyelement) RETURNS anyelement LANGUAGE sql IMMUTABLE AS 'SELECT a + a';
	CREATE AGGREGATE agg_own.largest(anyelement) (SFUNC = agg_own.larger, STYPE = anyelement, FINALFUNC = agg_own.twice,
		COMBINEFUNC = agg_own.larger);
	-- no combine function
	CREATE AGGREGATE agg_own.whole(int) (SFUNC = agg_own.bigger, STYPE = int);
	ALTER EXTENSION sslinfo ADD AGGREGATE agg_own.tell(float8);
	ALTER EXTENSION sslinfo ADD AGGREGATE agg_own.biggest(int);
	ALTER EXTENSION sslinfo ADD AGGREGATE agg_own.weight(int, float8);
	ALTER EXTENSION sslinfo ADD AGGREGATE agg_own.mean(numeric);
	ALTER EXTENSION sslinfo ADD AGGREGATE agg_own.other(numeric);
	ALTER EXTENSION sslinfo ADD AGGREGATE agg_own.largest(anyelement);
	ALTER EXTENSION sslinfo ADD AGGREGATE agg_own.whole(int);
$$ $f$;
SELECT define() AS definition \gset
:definition
SELECT shard, error FROM shardlet.execute('agg_own', 'DO ' || quote_literal('BEGIN ' || define() || ' END')) ORDER BY 1;
CREATE TABLE calls (number serial, call text);
INSERT INTO calls (call) VALUES ('tell(f)'), ('tell(x)'), ('biggest(x)'), ('weight(x, f)'), ('mean(x)'), ('other(x)'), ('largest(x)'), ('largest(f)'), ('whole(x)'),
	('tell(f) FILTER (WHERE x < 0)'), ('biggest(x) FILTER (WHERE x IS NULL)'), ('mean(f::numeric) FILTER (WHERE x > 50)');
-- How the router would compute it, and whether it is the same.
CREATE FUNCTION compare(call text) RETURNS TABLE (road text, remote text, is_same bool) LANGUAGE plpgsql AS $$
DECLARE
	line record;
	shards text;
	plain text;
	statement text;
BEGIN
	FOREACH statement IN ARRAY ARRAY['SELECT ' || call || ' FROM %s', 'SELECT g, ' || call || ' FROM %s GROUP BY g ORDER BY g',
		'SELECT ' || call || ' FROM %s WHERE id < 0'] LOOP
		shards := '';
		FOR line IN EXECUTE format(statement, 't') LOOP shards := shards || line::text; END LOOP;
		plain := '';
		FOR line IN EXECUTE format(statement, 'plain') LOOP plain := plain || line::text; END LOOP;
		is_same := coalesce(is_same, true) AND shards = plain;
	END LOOP;
	FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) SELECT ' || call || ' FROM t' LOOP
		IF road IS NULL THEN road := line."QUERY PLAN"; END IF;
		IF line."QUERY PLAN" ~ 'Remote' THEN remote := regexp_replace(line."QUERY PLAN", '^ *Remote SQL: *| FROM .*', '', 'g'); END IF;
	END LOOP;
	RETURN NEXT;
END $$;
-- The shards are not said to have it yet.
SELECT call, c.* FROM calls, compare(call) c ORDER BY number;
ALTER SERVER s1 OPTIONS (ADD extensions 'sslinfo');
ALTER SERVER s2 OPTIONS (ADD extensions 'sslinfo');
ALTER SERVER s3 OPTIONS (ADD extensions 'sslinfo');
SELECT call, c.* FROM calls, compare(call) c ORDER BY number;
-- A helper aggregate of the router's plans shares no state with another aggregate: its transition function is its own.
SELECT a.aggfnoid::regprocedure, a.aggtransfn::regprocedure FROM pg_aggregate a JOIN pg_proc p ON p.oid = a.aggfnoid
WHERE p.pronamespace = 'shardlet_internal'::regnamespace AND p.proname !~ '_state$'
	AND (SELECT pronamespace FROM pg_proc WHERE oid = a.aggtransfn) <> 'shardlet_internal'::regnamespace;
-- The others have the state of an aggregate of PostgreSQL's, with everything that belongs to it.
SELECT a.aggfnoid::regprocedure FROM pg_aggregate a JOIN pg_proc p ON p.oid = a.aggfnoid
WHERE p.pronamespace = 'shardlet_internal'::regnamespace AND p.proname ~ '_state$' AND NOT EXISTS (SELECT FROM pg_aggregate b
	WHERE b.aggfnoid < 16384 AND (b.aggtransfn, b.aggtranstype, b.aggserialfn, b.aggdeserialfn, b.aggcombinefn) = (a.aggtransfn, a.aggtranstype, a.aggserialfn, a.aggdeserialfn, a.aggcombinefn)
	AND b.agginitval IS NOT DISTINCT FROM a.agginitval);
-- What a shard says to a wrong call.
\c contrib_regression_s1
SET search_path = agg_own;
SELECT shardlet_internal.state_of(NULL::float8[], 'agg_own.tell(float8)'::regprocedure, i::float8) FROM generate_series(1, 3) i;
SELECT shardlet_internal.state_of(NULL::float8[], 'agg_own.tell(float8)'::regprocedure, i::float8) FROM generate_series(1, 0) i;
SELECT encode(shardlet_internal.state_of(NULL::bytea, 'avg(bigint)'::regprocedure, i::bigint), 'hex') = encode(shardlet_internal.avg_state(i::bigint), 'hex') FROM generate_series(1, 3) i;
SELECT shardlet_internal.state_of(NULL::text, 'agg_own.tell(float8)'::regprocedure, i::float8) FROM generate_series(1, 3) i;
SELECT shardlet_internal.state_of(NULL::float8[], 'agg_own.tell(float8)'::regprocedure, i) FROM generate_series(1, 3) i;
SELECT shardlet_internal.state_of(NULL::float8[], 'agg_own.tell(float8)'::regprocedure, 1, 2) FROM generate_series(1, 3) i;
SELECT shardlet_internal.state_of(NULL::float8, 'sqrt(float8)'::regprocedure, 1.0::float8) FROM generate_series(1, 3) i;
SELECT shardlet_internal.state_of(NULL::float8, 'percentile_cont(float8, interval)'::regprocedure, 1.0::float8, interval '1 s') FROM generate_series(1, 3) i;
SELECT shardlet_internal.state_of(NULL::bytea, 'json_agg(anyelement)'::regprocedure, i) FROM generate_series(1, 3) i;
SELECT shardlet_internal.state_of(NULL::float8[], NULL, i::float8) FROM generate_series(1, 3) i;
SELECT shardlet_internal.state_of(NULL::bigint, p.oid::regprocedure, 1) FROM pg_proc p WHERE proname = 'count' AND pronargs = 1;
SELECT shardlet_internal.state_step(NULL, NULL::float8[], 'agg_own.tell(float8)'::regprocedure, 1.0::float8);
SELECT shardlet_internal.state_step(NULL::internal, NULL::float8[], 'agg_own.tell(float8)'::regprocedure, 1.0::float8);
SELECT shardlet_internal.state_of(NULL::float8[], 'agg_own.tell(float8)'::regprocedure, i::float8) OVER () FROM generate_series(1, 3) i;
-- A state is of one aggregate, and of one definition of it.
SELECT shardlet_internal.state_of(NULL::bytea, CASE WHEN i = 1 THEN 'sum(bigint)'::regprocedure ELSE 'var_pop(bigint)'::regprocedure END, i) FROM generate_series(1::bigint, 2) i;
SELECT shardlet_internal.state_of(NULL::bytea, 'sum(bigint)'::regprocedure, i) FROM generate_series(1::bigint, 2) i;
SELECT shardlet_internal.state_of(NULL::bytea, 'array_agg(anynonarray)'::regprocedure, i) FROM generate_series(1::bigint, 2) i;
SELECT shardlet_internal.state_of(NULL::bytea, 'string_agg(bytea, bytea)'::regprocedure, ''::bytea, ''::bytea) FROM generate_series(1::bigint, 2) i;
CREATE FUNCTION swap_text(state bytea, x int) RETURNS bytea LANGUAGE plpgsql AS $$
BEGIN
	IF x = 2 THEN
		CREATE OR REPLACE AGGREGATE agg_own.swap(int) (SFUNC = agg_own.swap_int, STYPE = bigint, FINALFUNC = agg_own.swap_end);
	END IF;
	RETURN '\x4142434445464748'::bytea;
END $$;
CREATE FUNCTION swap_int(state bigint, x int) RETURNS bigint LANGUAGE sql IMMUTABLE AS 'SELECT 4702394921427289928';
CREATE FUNCTION swap_end(state bytea) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT NULL::text';
CREATE FUNCTION swap_end(state bigint) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT NULL::text';
CREATE AGGREGATE swap(int) (SFUNC = swap_text, STYPE = bytea, FINALFUNC = swap_end, INITCOND = 'abc');
SELECT g, shardlet_internal.state_of(NULL::bytea, 'agg_own.swap(int)'::regprocedure, g) FROM generate_series(1, 3) g GROUP BY g ORDER BY g;
SELECT shardlet_internal.state_of(NULL::bytea, 'agg_own.swap(int)'::regprocedure, g) FROM generate_series(1, 3) g;
SELECT shardlet_internal.state_of(NULL::bigint, 'agg_own.swap(int)'::regprocedure, g) FROM generate_series(1, 3) g;
SELECT shardlet_internal.state_of(NULL::bigint, 'agg_own.swap(int)'::regprocedure, g) FROM generate_series(1, 0) g;
REVOKE EXECUTE ON FUNCTION agg_own.tell(float8) FROM PUBLIC;
CREATE ROLE agg_nobody;
GRANT USAGE ON SCHEMA agg_own TO agg_nobody;
SET ROLE agg_nobody;
SELECT shardlet_internal.state_of(NULL::float8[], 'agg_own.tell(float8)'::regprocedure, i::float8) FROM generate_series(1, 3) i;
RESET ROLE;
DROP OWNED BY agg_nobody;
DROP ROLE agg_nobody;
\c contrib_regression
SET client_min_messages = warning;
ALTER SERVER s1 OPTIONS (DROP extensions);
ALTER SERVER s2 OPTIONS (DROP extensions);
ALTER SERVER s3 OPTIONS (DROP extensions);
SELECT count(*) FROM shardlet.execute('agg_own', 'DROP EXTENSION sslinfo CASCADE');
DROP EXTENSION sslinfo CASCADE;
DROP TABLE agg_own.t;
DROP SCHEMA agg_own CASCADE;
SELECT shardlet.drop_map('agg_own');
SELECT count(*) FROM shardlet.execute(NULL, 'DROP SCHEMA IF EXISTS agg_own CASCADE');
