-- Shards without the extension: sums, counts and what is made of them are computed there, the rest from rows.
CREATE SCHEMA agg_bare;
SET search_path = agg_bare;
CREATE DATABASE agg_bare_1;
CREATE DATABASE agg_bare_2;
SELECT current_setting('port') AS port, current_setting('unix_socket_directories') AS host \gset
SET client_min_messages = error;
SELECT shardlet.add_shard('b1', format('host=%s port=%s dbname=agg_bare_1', :'host', :'port'), install => false),
	shardlet.add_shard('b2', format('host=%s port=%s dbname=agg_bare_2', :'host', :'port'), install => false);
RESET client_min_messages;
SELECT shardlet.create_map('agg_bare', key_types => '{int}', shards => '{b1,b2}');
CREATE TABLE t (id int PRIMARY KEY, g text, "smallint" smallint, "integer" int, "bigint" bigint, "numeric" numeric, "real" real,
	"double precision" float8, "money" money, "interval" interval, "boolean" bool, "text" text);
INSERT INTO t SELECT i, chr(97 + i % 4), i, i * 7919 % 100003, i * 1000000007::bigint, (i * 1.250 - 300) / (1 + i % 3), i % 64, i % 128 / 8.0, i::money,
	i * interval '1 day 1 minute', i % 2 = 0, 'text ' || i FROM generate_series(1, 300) i;
INSERT INTO t (id, g) SELECT i, CASE WHEN i % 2 = 0 THEN 'nulls' END FROM generate_series(301, 320) i;
INSERT INTO t (id, g, "numeric", "double precision") VALUES (401, 'NaN', 'NaN', 'NaN'), (402, 'inf', 'Infinity', 'Infinity'), (403, 'inf', 1, 1);
CREATE TABLE plain AS TABLE t;
SELECT shardlet.distribute('t', 'agg_bare', 'id');
ANALYZE t;
CREATE FUNCTION rows_of(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line record;
	result text[] := '{}';
BEGIN
	FOR line IN EXECUTE statement LOOP result := result || line::text; END LOOP;
	RETURN (SELECT string_agg(l, E'\n' ORDER BY l) FROM unnest(result) l);
END $$;
-- What the shards are asked for, and whether the result is the same: of all rows, of groups, of none.
CREATE FUNCTION compare(call text) RETURNS TABLE (remote text, is_same bool) LANGUAGE plpgsql AS $$
DECLARE
	line record;
	statement text;
BEGIN
	is_same := true;
	FOREACH statement IN ARRAY ARRAY['SELECT %s FROM TABLE', 'SELECT g, %s FROM TABLE GROUP BY g', 'SELECT %s FROM TABLE WHERE id < 0',
		'SELECT g, %s FROM TABLE WHERE id < 250 GROUP BY g', 'SELECT g FROM TABLE GROUP BY g HAVING %s IS NOT NULL'] LOOP
		statement := format(statement, call);
		is_same := is_same AND rows_of(replace(statement, 'TABLE', 't')) IS NOT DISTINCT FROM rows_of(replace(statement, 'TABLE', 'plain'));
	END LOOP;
	FOR line IN EXECUTE format('EXPLAIN (VERBOSE, COSTS OFF) SELECT %s FROM t', call) LOOP
		IF line."QUERY PLAN" ~ 'Remote' THEN remote := regexp_replace(line."QUERY PLAN", '^ *Remote SQL: *| FROM .*', '', 'g'); END IF;
	END LOOP;
	RETURN NEXT;
END $$;
CREATE TABLE calls (number serial, call text);
INSERT INTO calls (call) SELECT format('%s(%I)', name, type) FROM unnest('{sum,avg}'::text[]) name,
	unnest('{smallint,integer,bigint,numeric,real,double precision,interval}'::text[]) type;
INSERT INTO calls (call) VALUES ('sum("money")'), ('count(*)'), ('count("text")'), ('count(DISTINCT id)'), ('min("text")'), ('max("interval")'),
	('bool_and("boolean")'), ('bit_or("integer")'), ('sum("integer" + "smallint") * 2'), ('avg("numeric" * 2) FILTER (WHERE id < 250)'),
	('variance("numeric")'), ('stddev("integer")'), ('round(corr("double precision", "integer")::numeric, 6)'), ('count(DISTINCT "text")');
SELECT call, c.* FROM calls, compare(call) c ORDER BY number;
-- A shard with the extension beside them changes nothing.
SELECT shardlet.create_map('agg_mixed', key_types => '{int}', shards => '{b1,s1}');
CREATE TABLE mixed AS TABLE plain;
ALTER TABLE mixed ALTER id SET NOT NULL;
DELETE FROM plain WHERE id > 400;
SELECT shardlet.distribute('mixed', 'agg_mixed', 'id');
SELECT sum("numeric") = (SELECT sum("numeric") FROM plain), avg("bigint") = (SELECT avg("bigint") FROM plain) FROM mixed WHERE id < 400;
SET client_min_messages = warning;
DROP TABLE t, mixed;
DROP SCHEMA agg_bare CASCADE;
SELECT shardlet.drop_map('agg_bare'), shardlet.drop_map('agg_mixed');
SELECT shardlet.drop_shard('b1'), shardlet.drop_shard('b2');
SELECT shardlet.close_connections() > 0;
DROP DATABASE agg_bare_1 WITH (FORCE);
DROP DATABASE agg_bare_2 WITH (FORCE);
SELECT count(*) FROM shardlet.execute(NULL, 'DROP SCHEMA IF EXISTS agg_bare CASCADE');
