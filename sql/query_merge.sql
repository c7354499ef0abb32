-- ORDER BY is an ordered merge, LIMIT and OFFSET hold over all shards: the
-- result is what one table with all the rows gives.
SELECT shardlet.create_map('m', shardlets => 4);
SELECT count(*) FROM shardlet.execute('m', 'CREATE TABLE t (a int, b text, c date, d float8)');
CREATE TABLE whole (a int, b text, c date, d float8);
INSERT INTO whole SELECT g, CASE WHEN g % 7 > 0 THEN chr(65 + g * 31 % 26) || g % 3 END, DATE '2026-01-01' + g * 17 % 40, NULLIF(g % 11, 0) / 3.0
FROM generate_series(1, 200) g;
SELECT sum(rows) FROM generate_series(1, 4) n, LATERAL shardlet.execute('m',
	$$INSERT INTO t SELECT g, CASE WHEN g % 7 > 0 THEN chr(65 + g * 31 % 26) || g % 3 END, DATE '2026-01-01' + g * 17 % 40, NULLIF(g % 11, 0) / 3.0
	FROM generate_series(1, 200) g WHERE g * g % 4 + g % 3 = $1 - 1$$, ARRAY[n]::text[], ARRAY['s' || n]::name[]);

-- Runs a text on the one table and on the shards, and compares row by row.
CREATE FUNCTION same(sql text, columns text, params text[] DEFAULT NULL) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	whole text[];
	merged text[];
	local text := replace(rtrim(sql, ';'), ' t', ' whole');
BEGIN
	FOR i IN 1 .. coalesce(cardinality(params), 0) LOOP
		local := replace(local, '$' || i, coalesce(quote_literal(params[i]), 'NULL'));
	END LOOP;
	EXECUTE format(E'SELECT array_agg(q::text) FROM (%s\n) q', local) INTO whole;
	EXECUTE format('SELECT array_agg(q::text) FROM (SELECT * FROM shardlet.query(''m'', %L, %L) AS q(%s)) q', sql, params, columns) INTO merged;
	RETURN CASE WHEN whole IS NOT DISTINCT FROM merged THEN 'same, ' || coalesce(cardinality(whole), 0) || ' rows'
		ELSE format('differs: %s <> %s', whole[1:10], merged[1:10]) END;
END $$;

SELECT sql, same(sql, columns) FROM (VALUES
	('SELECT a FROM t ORDER BY a', 'a int'),
	('SELECT a FROM t ORDER BY a DESC', 'a int'),
	('SELECT a, b FROM t ORDER BY b, a', 'a int, b text'),
	('SELECT a, b FROM t ORDER BY b NULLS FIRST, a', 'a int, b text'),
	('SELECT a, b FROM t ORDER BY b DESC, a', 'a int, b text'),
	('SELECT a, b FROM t ORDER BY b DESC NULLS LAST, a DESC', 'a int, b text'),
	('SELECT a, b FROM t ORDER BY 2 DESC, 1', 'a int, b text'),
	('SELECT a, d FROM t ORDER BY d, a', 'a int, d float8'),
	('SELECT a x, b y FROM t ORDER BY y, x', 'a int, b text'),
	('SELECT -a AS a FROM t ORDER BY a', 'a int'),
	('SELECT t.a, t.c FROM t ORDER BY t.c, t.a', 'a int, c date'),
	('SELECT a, lower(b) FROM t ORDER BY lower(b), a', 'a int, b text'),
	-- carried along
	('SELECT b FROM t ORDER BY a', 'b text'),
	('SELECT b FROM t ORDER BY c DESC, a % 10, a', 'b text'),
	('SELECT * FROM t ORDER BY a', 'a int, b text, c date, d float8'),
	('SELECT * FROM t ORDER BY c, abs(100 - a), a', 'a int, b text, c date, d float8'),
	('SELECT t.*, a + 1 AS e FROM t ORDER BY e DESC', 'a int, b text, c date, d float8, e int'),
	('SELECT b FROM t ORDER BY (SELECT a), b COLLATE "C"', 'b text'),
	('SELECT a IS DISTINCT FROM 5 FROM t ORDER BY a', 'x bool'),
	('SELECT CASE WHEN a > 5 THEN b END FROM t ORDER BY CASE WHEN a > 100 THEN 1 ELSE 0 END, a', 'x text'),
	('SELECT substring(b FROM 1 FOR 1), extract(year FROM c) FROM t ORDER BY a', 'x text, y numeric'),
	('SELECT a, b FROM t ORDER BY b COLLATE "C" DESC, a', 'a int, b text'),
	('WITH x AS (SELECT a, b FROM t ORDER BY b LIMIT 1000) SELECT b FROM x ORDER BY a', 'b text'),
	('SELECT a FROM t WHERE a < 10 UNION ALL SELECT a + 1000 FROM t ORDER BY a', 'a int'),
	('SELECT "a" AS "Order by" FROM t ORDER BY "Order by"', 'a int'),
	-- words that look like clauses, comments, parentheses
	('SELECT b AS order FROM t ORDER BY a LIMIT 5', 'b text'),
	('SELECT b AS from, a AS fetch FROM t ORDER BY c, a LIMIT 5', 'b text, a int'),
	('SELECT b AS limit FROM t ORDER BY abs(a - 100), a DESC -- the end', 'b text'),
	('SELECT b /* FROM */ FROM t ORDER BY /* LIMIT */ a % 10 -- first
		, a', 'b text'),
	('SELECT x.desc FROM (SELECT a AS desc, b AS "limit" FROM t) x WHERE x.desc > 5 AND x.limit > ''A'' ORDER BY -x.desc LIMIT 3', 'a int'),
	('SELECT a, COLLATION FOR (b) FROM t ORDER BY c, a LIMIT 3', 'a int, b text'),
	('SELECT a FROM t ORDER BY ARRAY[b, c::text], a', 'a int'),
	('(SELECT a FROM t ORDER BY a LIMIT 3)', 'a int'),
	('((SELECT b FROM t ORDER BY (a % 5), (a) LIMIT 3))', 'b text'),
	-- names that are in a star, or not
	('SELECT x.* FROM t x JOIN t y ON x.a = y.a ORDER BY a LIMIT 4', 'a int, b text, c date, d float8'),
	('SELECT x.* FROM (SELECT a, b FROM t) x, (VALUES (1), (2)) y(e) ORDER BY e DESC, a LIMIT 4', 'a int, b text'),
	('TABLE t ORDER BY a DESC LIMIT 4', 'a int, b text, c date, d float8'),
	-- limits
	('SELECT a FROM t ORDER BY a LIMIT 7', 'a int'),
	('SELECT a FROM t ORDER BY a LIMIT 7 OFFSET 3', 'a int'),
	('SELECT a FROM t ORDER BY a OFFSET 190 LIMIT 100', 'a int'),
	('SELECT a FROM t ORDER BY a OFFSET 195', 'a int'),
	('SELECT a FROM t ORDER BY a LIMIT 0', 'a int'),
	('SELECT a FROM t ORDER BY a LIMIT ALL', 'a int'),
	('SELECT a FROM t ORDER BY a LIMIT NULL OFFSET NULL', 'a int'),
	('SELECT a FROM t ORDER BY a FETCH FIRST 3 ROWS ONLY', 'a int'),
	('SELECT a FROM t ORDER BY a FETCH FIRST ROW ONLY', 'a int'),
	('SELECT a FROM t ORDER BY a OFFSET 2 ROWS FETCH NEXT 3 ROWS ONLY', 'a int'),
	('SELECT b FROM t ORDER BY a DESC LIMIT 5 OFFSET 5;', 'b text'),
	('SELECT b FROM t ORDER BY a LIMIT 5 -- the end', 'b text'),
	('SELECT a FROM t ORDER BY a LIMIT 2.5 OFFSET ''5''', 'a int'),
	('SELECT a FROM t ORDER BY a LIMIT 1e1 OFFSET +3', 'a int'),
	('SELECT a FROM t ORDER BY a LIMIT 3 FOR UPDATE', 'a int')
	) v(sql, columns);
SELECT params, same('SELECT b FROM t WHERE a > $1 ORDER BY a LIMIT $2 OFFSET $3', 'b text', params)
FROM (VALUES ('{10,5,0}'::text[]), ('{10,5,7}'), ('{10,NULL,NULL}'), ('{190,100,5}')) v(params);
-- A parameter that is not only the limit; one that is missing, in a text whose
-- LIMIT becomes a parameter; positions in a text that was changed.
SELECT same('SELECT a FROM t WHERE b LIKE ''%'' || $1 ORDER BY a LIMIT $1::int', 'a int', '{2}');
SELECT * FROM shardlet.query('m', 'SELECT a FROM t WHERE b = ''ü'' OR a > $1 ORDER BY a LIMIT 5') AS q(a int);
SELECT * FROM shardlet.query('m', 'SELECT ''ü'' || b FROM t WHERE ''ü'' = nonesuch ORDER BY a LIMIT 5', shards => '{s1}') AS q(a text);
SELECT * FROM shardlet.query('m', 'SELECT ''ü'' FROM t ORDER BY nonesuch', shards => '{s1}') AS q(a text);
SELECT * FROM shardlet.query('m', 'SELECT ''ü'' FROM t LIMIT 5 FOR UPDATE OF nonesuch', shards => '{s1}') AS q(a text);
SELECT count(*), min(a), max(a) FROM shardlet.query('m', 'VALUES (1), (3), (2) ORDER BY column1 LIMIT 5') AS q(a int);
-- Any rows, but so many of them.
SELECT count(*), count(DISTINCT a) FROM shardlet.query('m', 'SELECT a FROM t LIMIT 13') AS q(a int);
SELECT count(*) FROM shardlet.query('m', 'SELECT a FROM t OFFSET 150') AS q(a int);

-- Fewer shards at a time than there are.
SET shardlet.max_parallel_shards = 1;
SELECT same('SELECT b FROM t ORDER BY a LIMIT 50 OFFSET 3', 'b text'), same('SELECT * FROM t ORDER BY c, a', 'a int, b text, c date, d float8');
SELECT count(*), count(DISTINCT a) FROM shardlet.query('m', 'SELECT a FROM t') AS q(a int);
SET shardlet.max_parallel_shards = 3;
SELECT same('SELECT b FROM t ORDER BY a LIMIT 50 OFFSET 3', 'b text'), same('SELECT * FROM t ORDER BY c, a', 'a int, b text, c date, d float8');
-- Rows that have to wait are kept in files, and those are closed.
SET shardlet.max_parallel_shards = 1;
SET work_mem = '64kB';
SELECT count(*), sum(length(b)) FROM shardlet.query('m', 'SELECT a, repeat(''x'', 1000) FROM t, generate_series(1, 5) ORDER BY a') AS q(a int, b text);
SELECT count(*) FROM (SELECT FROM shardlet.query('m', 'SELECT a, repeat(''x'', 1000) FROM t, generate_series(1, 5) ORDER BY a') AS q(a int, b text) LIMIT 3) r;
RESET work_mem;
RESET shardlet.max_parallel_shards;

-- Not simply parts of the whole: refused, unless there is one result per shard.
CREATE FUNCTION try(sql text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	detail text;
BEGIN
	EXECUTE format('SELECT * FROM shardlet.query(''m'', %L) AS q(a text)', sql);
	RETURN 'not refused';
EXCEPTION WHEN feature_not_supported THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
	RETURN detail;
END $$;
SELECT sql, try(sql) FROM (VALUES
	('SELECT count(*) FROM t'), ('SELECT max(a) + 1 FROM t'), ('SELECT string_agg(b, '','' ORDER BY a) FROM t'),
	('SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY a) FROM t'), ('SELECT sum(a) FILTER (WHERE a > 1) FROM t'),
	('SELECT DISTINCT b FROM t'), ('SELECT DISTINCT ON (b) a FROM t'), ('SELECT a FROM t GROUP BY a'),
	('SELECT 1 FROM t HAVING count(*) > 1'), ('SELECT row_number() OVER (ORDER BY a) FROM t'),
	('SELECT a FROM t UNION SELECT 1'), ('SELECT a FROM t INTERSECT SELECT 1'), ('SELECT a FROM t EXCEPT SELECT 1'),
	('(SELECT a FROM t LIMIT 1) UNION ALL SELECT 1'), ('SELECT a FROM t UNION ALL SELECT 1 LIMIT 3'),
	('SELECT a FROM t ORDER BY count(*) OVER ()'), ('SHOW work_mem'), ('EXPLAIN SELECT 1'),
	('SELECT a FROM t ORDER BY a FETCH FIRST 3 ROWS WITH TIES'), ('SELECT a FROM t ORDER BY a USING <'),
	('SELECT a FROM t LIMIT 1 + 1'), ('SELECT a FROM t LIMIT true'),
	('SELECT (SELECT sum(t.a)) FROM t'), ('SELECT n FROM (SELECT count(*) AS n FROM t) x'),
	('SELECT * FROM (SELECT * FROM (SELECT a FROM t ORDER BY a LIMIT 5) x) y'), ('SELECT (SELECT count(*) FROM t y WHERE y.a = t.a) FROM t'),
	('SELECT n FROM (SELECT count(*) AS n FROM t GROUP BY a) x'),
	('(SELECT b FROM t ORDER BY a) LIMIT 3'), ('TABLE t ORDER BY lower(b)'), ('(SELECT b FROM t ORDER BY a LIMIT 3)')) v(sql);
-- 16 has aggregates that are no function calls.
SELECT sql, CASE WHEN current_setting('server_version_num')::int < 160000 THEN 'An aggregate needs the rows of all shards.' ELSE try(sql) END
FROM (VALUES ('SELECT json_arrayagg(a) FROM t'), ('SELECT 1 || json_objectagg(a : b)::text FROM t')) v(sql);
SELECT * FROM shardlet.query('m', 'SELECT count(*), max(a) FROM t', per_shard => true) AS q(n bigint, m int) ORDER BY n, m;
SELECT * FROM shardlet.query('m', 'SELECT b, count(*) FROM t GROUP BY b ORDER BY 2 DESC, b LIMIT 1') AS q(b text, n bigint, shardlet_shard name) ORDER BY 3;
SELECT count(*) FROM shardlet.query('m', 'SELECT a FROM t ORDER BY a LIMIT 2', per_shard => true) AS q(a int);
SELECT a, shardlet_shard FROM shardlet.query('m', 'SELECT a FROM t ORDER BY a LIMIT 4') AS q(a int, shardlet_shard name);
-- A text of a million queries neither crashes nor takes long here, and
-- PostgreSQL gives up on it.
SET statement_timeout = '30s';
\set VERBOSITY sqlstate
SELECT count(*) FROM shardlet.query('m', repeat('SELECT 1 UNION ALL ', 1000000) || 'SELECT 1', shards => '{s1}') AS q(a int);
SELECT count(*) FROM shardlet.query('m', repeat('SELECT 1 UNION ALL (', 1000) || 'SELECT 1' || repeat(')', 1000), shards => '{s1}') AS q(a int);
\set VERBOSITY default
RESET statement_timeout;
SELECT try(repeat('SELECT 1 UNION ALL ', 20000) || 'SELECT 1 UNION SELECT 1');

-- Negative limits, unknown parameters.
SELECT * FROM shardlet.query('m', 'SELECT a FROM t LIMIT -1') AS q(a int);
SELECT * FROM shardlet.query('m', 'SELECT a FROM t OFFSET $1', '{-1}') AS q(a int);
SELECT * FROM shardlet.query('m', 'SELECT a FROM t LIMIT $1') AS q(a int);
SELECT * FROM shardlet.query('m', 'SELECT a FROM t LIMIT $1', '{x}') AS q(a int);

-- A shard that sorts in another way is found out.
SELECT count(*) FROM shardlet.execute('m', 'CREATE TABLE w (b text COLLATE "C")', shards => '{s1,s2,s3}');
SELECT count(*) FROM shardlet.execute('m', 'CREATE TABLE w (b text COLLATE "de-x-icu")', shards => '{s4}');
SELECT count(*) FROM shardlet.execute('m', $$INSERT INTO w VALUES ('a'), ('B'), ('c'), ('D')$$);
SELECT * FROM shardlet.query('m', 'SELECT b FROM w ORDER BY b') AS q(b text);
SELECT string_agg(b, '') FROM shardlet.query('m', 'SELECT b FROM w ORDER BY b COLLATE "C"') AS q(b text);
-- A column's own collation counts, also where each shard has one row only; not
-- in a text that writes in WITH, which cannot be asked about.
SELECT count(*) FROM shardlet.execute('m', 'CREATE TABLE k (b text COLLATE "C", d text COLLATE "en-x-icu")');
SELECT sum(rows) FROM (VALUES ('s1', 'a'), ('s2', 'B'), ('s3', 'c'), ('s4', 'D')) v(shard, b),
	LATERAL shardlet.execute('m', 'INSERT INTO k VALUES ($1, $1)', ARRAY[b], ARRAY[v.shard]::name[]);
SELECT string_agg(b, '') FROM shardlet.query('m', 'SELECT b FROM k ORDER BY b') AS q(b text);
SELECT string_agg(b, '') FROM shardlet.query('m', 'SELECT b FROM k ORDER BY b LIMIT 1') AS q(b text);
SELECT string_agg(b, '') FROM shardlet.query('m', 'SELECT b FROM k ORDER BY d, b LIMIT $1', '{3}') AS q(b text);
SELECT string_agg(b, '') FROM shardlet.query('m', 'SELECT b FROM k ORDER BY b || $1 DESC, $1::int LIMIT 2 FOR UPDATE', '{3}') AS q(b text);
SELECT string_agg(b, '') FROM shardlet.query('m', 'SELECT b, d FROM k UNION ALL SELECT d, d FROM k WHERE false ORDER BY d') AS q(b text, d text);
BEGIN;
SELECT string_agg(b, '') FROM shardlet.query('m', 'UPDATE k SET b = b RETURNING b') AS q(b text) WHERE b > 'x';
SELECT string_agg(b, '') FROM shardlet.query('m', 'SELECT b FROM k ORDER BY d DESC') AS q(b text);
COMMIT;
SELECT * FROM shardlet.query('m', 'WITH x AS (DELETE FROM k RETURNING b) SELECT b FROM x ORDER BY b') AS q(b text);
SELECT string_agg(b, '') FROM shardlet.query('m', 'WITH x AS (DELETE FROM k RETURNING b) SELECT b FROM x ORDER BY b COLLATE "C"') AS q(b text);
SELECT count(*) FROM shardlet.execute('m', 'CREATE COLLATION own (locale = "C")');
SELECT * FROM shardlet.query('m', 'SELECT b FROM (SELECT b COLLATE own AS b FROM k) x ORDER BY b', shards => '{s1}') AS q(b text);
SELECT count(*) FROM shardlet.execute('m', 'DROP COLLATION own');

SELECT count(*) FROM shardlet.execute('m', 'DROP TABLE t, w, k');
SELECT count(shardlet.drop_map(map)) FROM shardlet.maps;
DROP TABLE whole;
DROP FUNCTION same;
DROP FUNCTION try;
