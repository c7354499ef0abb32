-- A shard sends bytes that are no state of an aggregate: an error that names it, whatever they are.
CREATE SCHEMA agg_hostile;
SET search_path = agg_hostile;
SET client_min_messages = warning;
SELECT shardlet.create_map('agg_hostile', key_types => '{int}', shards => '{s1,s2}');
CREATE TABLE t (id int PRIMARY KEY, g int, s smallint, i int, b bigint, n numeric);
SELECT shardlet.distribute('t', 'agg_hostile', 'id');
INSERT INTO t SELECT i, i % 3, i, i, i, i / 7.0 FROM generate_series(1, 100) i;
ANALYZE t;
SELECT sum(b), round(avg(n), 4), round(var_pop(s), 4), round(stddev(i), 4), round(variance(n), 4), round(stddev_samp(b), 4) FROM t;

-- The shard's aggregates return what is in a table.
\c contrib_regression_s1
SET search_path = agg_hostile;
CREATE TABLE answer (bytes bytea);
INSERT INTO answer VALUES ('');
CREATE FUNCTION step(state bigint, x bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS 'SELECT 1::bigint';
CREATE FUNCTION step(state bigint, x numeric) RETURNS bigint LANGUAGE sql IMMUTABLE AS 'SELECT 1::bigint';
CREATE FUNCTION step(state bigint, x int) RETURNS bigint LANGUAGE sql IMMUTABLE AS 'SELECT 1::bigint';
CREATE FUNCTION finish(state bigint) RETURNS bytea LANGUAGE sql STABLE AS 'SELECT bytes FROM agg_hostile.answer';
CREATE OR REPLACE AGGREGATE shardlet_internal.avg_state(bigint) (SFUNC = step, STYPE = bigint, FINALFUNC = finish);
CREATE OR REPLACE AGGREGATE shardlet_internal.avg_state(numeric) (SFUNC = step, STYPE = bigint, FINALFUNC = finish);
CREATE OR REPLACE AGGREGATE shardlet_internal.var_state(integer) (SFUNC = step, STYPE = bigint, FINALFUNC = finish);
CREATE OR REPLACE AGGREGATE shardlet_internal.var_state(numeric) (SFUNC = step, STYPE = bigint, FINALFUNC = finish);
\c contrib_regression
SET search_path = agg_hostile;
SET client_min_messages = warning;
-- Parts of a state: numbers in network byte order.
CREATE FUNCTION i8(x bigint) RETURNS bytea LANGUAGE sql AS 'SELECT int8send(x)';
CREATE FUNCTION num(digits int, weight int, sign int, scale int, VARIADIC d int[] DEFAULT '{}') RETURNS bytea LANGUAGE sql
	AS $$ SELECT int4send(digits) || int4send(weight) || int4send(sign) || int4send(scale) || coalesce((SELECT string_agg(int2send(x::int2), '' ORDER BY o) FROM unnest(d) WITH ORDINALITY u(x, o)), '') $$;
CREATE FUNCTION tail(scale int DEFAULT 0, a bigint DEFAULT 1, nan bigint DEFAULT 0, p bigint DEFAULT 0, n bigint DEFAULT 0) RETURNS bytea LANGUAGE sql
	AS 'SELECT int4send(scale) || int8send(a) || int8send(nan) || int8send(p) || int8send(n)';
-- What a statement says to an answer of the shard.
CREATE FUNCTION ask(statement text, bytes bytea) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
	detail text;
BEGIN
	PERFORM * FROM shardlet.execute(NULL, 'UPDATE agg_hostile.answer SET bytes = ' || quote_literal(bytes::text), shards => '{s1}');
	EXECUTE statement INTO result;
	RETURN 'ok ' || left(result, 40);
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
	RETURN SQLSTATE || ' ' || SQLERRM || '. ' || detail;
END $$;
SELECT what, ask('SELECT sum(b) > 0 FROM t', bytes) FROM (VALUES
	(1, 'right', i8(1) || num(1, 0, 0, 0, 7)),
	(2, 'empty', ''::bytea),
	(3, 'no count', int4send(1)),
	(4, 'negative count', i8(-1) || num(1, 0, 0, 0, 7)),
	(5, 'cut', i8(1) || num(2, 0, 0, 0, 7)),
	(6, 'more than there is', i8(1) || num(1, 0, 0, 0, 7, 8)),
	(7, 'digits below zero', i8(1) || num(-1, 0, 0, 0)),
	(8, 'lots of digits', i8(1) || num(2147483647, 0, 0, 0, 7)),
	(9, 'weight', i8(1) || num(1, 2147483647, 0, 0, 7)),
	(10, 'negative weight', i8(1) || num(1, -2147483648, 0, 0, 7)),
	(11, 'sign', i8(1) || num(1, 0, 1, 0, 7)),
	(12, 'NaN', i8(1) || num(1, 0, 49152, 0, 7)),
	(13, 'scale', i8(1) || num(1, 0, 0, -1, 7)),
	(14, 'big scale', i8(1) || num(1, 0, 0, 2147483647, 7)),
	(15, 'digit', i8(1) || num(1, 0, 0, 0, 10000)),
	(16, 'negative digit', i8(1) || num(1, 0, 0, 0, -1)),
	(17, 'none', i8(1) || num(0, 0, 0, 0))) v(number, what, bytes) ORDER BY number;
SELECT what, ask(statement, bytes) FROM (VALUES
	(1, 'SELECT sum(n) > 0 FROM t', 'right', i8(1) || num(1, 0, 0, 0, 7) || tail()),
	(2, 'SELECT sum(n) > 0 FROM t', 'of integers', i8(1) || num(1, 0, 0, 0, 7)),
	(3, 'SELECT sum(n) > 0 FROM t', 'scale', i8(1) || num(1, 0, 0, 0, 7) || tail(-1)),
	(4, 'SELECT sum(n) > 0 FROM t', 'counts', i8(1) || num(1, 0, 0, 0, 7) || tail(nan => -1)),
	(5, 'SELECT avg(n) FROM t', 'not a number', i8(1) || num(1, 0, 0, 0, 7) || tail(nan => 1)),
	(6, 'SELECT sum(n) > 0 FROM t', 'too long', i8(1) || num(1, 0, 0, 0, 7) || tail() || '\x00'::bytea),
	(7, 'SELECT variance(n) > 0 FROM t', 'right', i8(1) || num(1, 0, 0, 0, 7) || num(1, 0, 0, 0, 49) || tail()),
	(8, 'SELECT variance(n) > 0 FROM t', 'one sum', i8(1) || num(1, 0, 0, 0, 7) || tail()),
	(9, 'SELECT variance(n) > 0 FROM t', 'second sum', i8(1) || num(1, 0, 0, 0, 7) || num(1, 100000000, 0, 0, 49) || tail()),
	(10, 'SELECT stddev(i) > 0 FROM t', 'right', i8(1) || num(1, 0, 0, 0, 7) || num(1, 0, 0, 0, 49)),
	(11, 'SELECT stddev(i) > 0 FROM t', 'second sum', i8(1) || num(1, 0, 0, 0, 7) || num(-2147483648, 0, 0, 0)),
	(12, 'SELECT g, stddev(i) > 0 FROM t GROUP BY g HAVING sum(b) > 0', 'having', i8(1) || num(1, 0, 0, 0, 7) || num(-2, 0, 0, 0)))
	v(number, statement, what, bytes) ORDER BY number;
-- A state in which any byte differs: there is an answer or an error, and the server is there.
CREATE FUNCTION disturb(bytes bytea, number int) RETURNS bytea LANGUAGE sql AS $$
	SELECT CASE number % 5
		WHEN 0 THEN substr(bytes, 1, number * 7 % length(bytes))
		WHEN 1 THEN bytes || substr(bytes, 1, number * 3 % length(bytes))
		WHEN 2 THEN set_byte(set_byte(bytes, number * 11 % length(bytes), number * 37 % 256), number * 5 % length(bytes), 255)
		ELSE set_byte(bytes, number * 13 % length(bytes), (ARRAY[0, 1, 39, 127, 128, 255])[1 + number % 6]) END $$;
SELECT count(*) > 100 AS answers, array_agg(DISTINCT left(answer, 5) ORDER BY left(answer, 5)) FILTER (WHERE answer !~ '^ok') AS codes
FROM generate_series(1, 240) number,
	LATERAL (SELECT (ARRAY['SELECT sum(b) FROM t', 'SELECT avg(n) FROM t', 'SELECT stddev(i) FROM t', 'SELECT variance(n) FROM t'])[1 + number % 4] AS statement,
		(ARRAY[i8(3) || num(3, 1, 0, 4, 1, 2, 3), i8(3) || num(3, 1, 0, 4, 1, 2, 3) || tail(4), i8(3) || num(1, 0, 16384, 0, 7) || num(1, 0, 0, 0, 49),
			i8(3) || num(2, 0, 0, 4, 7, 8) || num(3, 0, 0, 8, 49, 1, 2) || tail(8)])[1 + number % 4] AS bytes) s,
	LATERAL ask(s.statement, disturb(s.bytes, number)) answer;
-- The shard is itself again.
\c contrib_regression_s1
CREATE OR REPLACE AGGREGATE shardlet_internal.avg_state(bigint) (SFUNC = int8_avg_accum, STYPE = internal, FINALFUNC = int8_avg_serialize,
	COMBINEFUNC = int8_avg_combine, SERIALFUNC = int8_avg_serialize, DESERIALFUNC = int8_avg_deserialize, PARALLEL = SAFE);
CREATE OR REPLACE AGGREGATE shardlet_internal.avg_state(numeric) (SFUNC = numeric_avg_accum, STYPE = internal, FINALFUNC = numeric_avg_serialize,
	COMBINEFUNC = numeric_avg_combine, SERIALFUNC = numeric_avg_serialize, DESERIALFUNC = numeric_avg_deserialize, PARALLEL = SAFE);
CREATE OR REPLACE AGGREGATE shardlet_internal.var_state(integer) (SFUNC = int4_accum, STYPE = internal, FINALFUNC = numeric_poly_serialize,
	COMBINEFUNC = numeric_poly_combine, SERIALFUNC = numeric_poly_serialize, DESERIALFUNC = numeric_poly_deserialize, PARALLEL = SAFE);
CREATE OR REPLACE AGGREGATE shardlet_internal.var_state(numeric) (SFUNC = numeric_accum, STYPE = internal, FINALFUNC = numeric_serialize,
	COMBINEFUNC = numeric_combine, SERIALFUNC = numeric_serialize, DESERIALFUNC = numeric_deserialize, PARALLEL = SAFE);
\c contrib_regression
SET client_min_messages = warning;
SELECT sum(b), round(avg(n), 4), round(var_pop(s), 4), round(stddev(i), 4), round(variance(n), 4), round(stddev_samp(b), 4) FROM agg_hostile.t;
DROP TABLE agg_hostile.t;
DROP SCHEMA agg_hostile CASCADE;
SELECT shardlet.drop_map('agg_hostile');
SELECT count(*) FROM shardlet.execute(NULL, 'DROP SCHEMA IF EXISTS agg_hostile CASCADE');
