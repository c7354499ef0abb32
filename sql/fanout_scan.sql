-- query() in FROM, as a scan of its own: with functions of the same name, with
-- all that SQL does with rows of a function.
SELECT shardlet.create_map('m', shardlets => 4);
SELECT count(*) FROM shardlet.execute('m', 'CREATE TABLE t (a int, b text)');
SELECT sum(rows) FROM generate_series(1, 4) n, LATERAL shardlet.execute('m',
	$$INSERT INTO t SELECT g, 'row ' || g FROM generate_series($1::int, 20, 4) g$$, ARRAY[n]::text[], ARRAY['s' || n]::name[]);

-- Functions of that name that are not ours.
CREATE FUNCTION shardlet.query(a bigint, b bigint, c bigint, d bigint, e bigint, f bigint) RETURNS SETOF record LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION shardlet.query_key(a bigint) RETURNS SETOF record LANGUAGE sql AS 'SELECT 1';
SELECT * FROM shardlet.query(1, 4711, 2, 3, 4, 5) AS q(a int), shardlet.query_key(1) AS r(a int);
DROP FUNCTION shardlet.query(bigint, bigint, bigint, bigint, bigint, bigint), shardlet.query_key(bigint);
-- One that was altered is left to PostgreSQL.
ALTER FUNCTION shardlet.query(name, text, text[], name[], text, bool) SET timezone = 'Asia/Tokyo';
EXPLAIN (COSTS OFF) SELECT * FROM shardlet.query('m', 'SELECT a FROM t') AS q(a int);
SELECT DISTINCT a FROM shardlet.query('m', $$SELECT current_setting('timezone')$$) AS q(a text);
ALTER FUNCTION shardlet.query(name, text, text[], name[], text, bool) RESET ALL;

SELECT count(*) FROM shardlet.execute('m', 'DROP TABLE t');
SELECT count(shardlet.drop_map(map)) FROM shardlet.maps;
