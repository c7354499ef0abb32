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

-- Rows as values.
SELECT q FROM shardlet.query('m', 'SELECT a, b FROM t ORDER BY a LIMIT 2') AS q(a int, b text);
SELECT row_to_json(q) FROM shardlet.query('m', 'SELECT a, b FROM t ORDER BY a LIMIT 2') AS q(n int, shardlet_shard name, b text) WHERE q IS NOT NULL;
SELECT count(q), max(q::text), count(DISTINCT q) FROM shardlet.query('m', 'SELECT a % 2, NULL FROM t') AS q(a int, b text);
SELECT q, q.a + 1 AS c FROM shardlet.query_key('m', 'SELECT 1', NULL, 1) AS q(a int);
SELECT x, y FROM shardlet.query('m', 'SELECT a FROM t WHERE a < 3') AS x(a int) FULL JOIN shardlet.query('m', 'SELECT a FROM t WHERE a BETWEEN 2 AND 3') AS y(a int) USING (a) ORDER BY a;
SELECT g, (SELECT string_agg(q::text, '' ORDER BY q.a) FROM shardlet.query('m', 'SELECT a FROM t WHERE a < 4') AS q(a int) WHERE q.a <> g) FROM generate_series(1, 3) g;
-- In statements that change a table of the router.
CREATE TABLE local (a int, b text);
INSERT INTO local SELECT g, 'local' FROM generate_series(1, 6) g;
UPDATE local SET b = q.b FROM shardlet.query('m', 'SELECT a, b FROM t') AS q(a int, b text) WHERE q.a = local.a AND local.a < 3;
DELETE FROM local USING shardlet.query('m', 'SELECT a FROM t') AS q(a int) WHERE q.a = local.a AND local.a = 6;
MERGE INTO local USING shardlet.query('m', 'SELECT a, b FROM t WHERE a IN (5, 7)') AS q(a int, b text) ON q.a = local.a
	WHEN MATCHED THEN UPDATE SET b = 'merged ' || q.b WHEN NOT MATCHED THEN INSERT VALUES (q.a, 'new ' || q.b);
SELECT local.a, local.b, q.b FROM local JOIN shardlet.query('m', 'SELECT a, b FROM t') AS q(a int, b text) USING (a) ORDER BY a FOR UPDATE OF local;
DROP TABLE local;

-- The text runs once for the same arguments, however often its rows are read.
SELECT count(*) FROM shardlet.execute('m', 'CREATE TABLE w (a serial)');
SELECT (SELECT count(*) FROM shardlet.query('m', 'INSERT INTO w DEFAULT VALUES RETURNING 1') AS q(a int) WHERE q.a + g > 2) FROM generate_series(1, 3) g;
SELECT (SELECT count(*) FROM shardlet.query('m', 'INSERT INTO w DEFAULT VALUES RETURNING 1') AS q(a int) WHERE g > 2) FROM generate_series(1, 3) g;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_material = off;
SELECT count(*), count(DISTINCT r) FROM generate_series(1, 3) g LEFT JOIN shardlet.query('m', 'SELECT random()') AS q(r float8) ON q.r <> g;
SELECT g, count(*) FROM generate_series(1, 3) g LEFT JOIN shardlet.query('m', 'INSERT INTO w DEFAULT VALUES RETURNING a') AS q(a int) ON q.a <> g + 1000 GROUP BY g ORDER BY g;
SELECT g, count(*) FROM generate_series(1, 3) g, LATERAL (SELECT a FROM generate_series(g, 3) h, shardlet.query('m', 'INSERT INTO w DEFAULT VALUES RETURNING a') AS q(a int)) r GROUP BY g ORDER BY g;
RESET enable_hashjoin;
RESET enable_mergejoin;
RESET enable_material;
SELECT DISTINCT n FROM shardlet.query('m', 'SELECT count(*) FROM w', per_shard => true) AS q(n int);
-- For other arguments it runs again.
SELECT g, array_agg(a ORDER BY a) FROM generate_series(5, 7) g, LATERAL shardlet.query('m', 'SELECT a FROM t WHERE a % 8 = $1', ARRAY[(SELECT g)]::text[]) AS q(a int) GROUP BY g ORDER BY g;
-- Rows that are kept may be many.
SET work_mem = '64kB';
SELECT (SELECT count(b) FROM shardlet.query('m', 'SELECT b, repeat(b, 100) FROM t, generate_series(1, 20)') AS q(a text, b text) WHERE g > 0 AND b > '') FROM generate_series(1, 2) g;
RESET work_mem;

-- A cursor whose rows are first fetched inside a savepoint outlives that, also
-- when not all shards are asked at a time; one that is made inside does not.
BEGIN;
DECLARE c CURSOR FOR SELECT a FROM shardlet.query('m', 'SELECT a FROM t ORDER BY a') AS q(a int);
SAVEPOINT x;
FETCH 2 FROM c;
ROLLBACK TO x;
FETCH 2 FROM c;
SAVEPOINT y;
DECLARE d CURSOR FOR SELECT a FROM shardlet.query('m', 'SELECT a FROM t ORDER BY a') AS q(a int);
RELEASE y;
SAVEPOINT z;
FETCH 2 FROM d;
ROLLBACK TO z;
FETCH 2 FROM d;
DECLARE e CURSOR FOR SELECT a FROM shardlet.query('m', 'SELECT a FROM t ORDER BY a') AS q(a int);
FETCH 2 FROM e;
ROLLBACK TO z;
FETCH 2 FROM e;
ROLLBACK;
SET shardlet.consistent_reads = off;
SET shardlet.max_parallel_shards = 1;
BEGIN;
DECLARE c CURSOR FOR SELECT a % 4 AS n, a FROM shardlet.query('m', 'SELECT a FROM t') AS q(a int);
FETCH 3 FROM c;
SAVEPOINT x;
FETCH 4 FROM c;
ROLLBACK TO x;
FETCH 5 FROM c;
COMMIT;
RESET shardlet.consistent_reads;
RESET shardlet.max_parallel_shards;
DO $$
DECLARE
	c CURSOR FOR SELECT a FROM shardlet.query('m', 'SELECT a FROM t ORDER BY a') AS q(a int);
	n int;
BEGIN
	OPEN c;
	BEGIN
		FETCH c INTO n;
		RAISE NOTICE 'row %', n;
		PERFORM 1 / 0;
	EXCEPTION WHEN division_by_zero THEN
		FETCH c INTO n;
		RAISE NOTICE 'row %', n;
	END;
	FETCH c INTO n;
	RAISE NOTICE 'row %', n;
END $$;

-- The user is the one who opened the cursor, not the one who fetches.  Only superusers
-- have no need of a password here.
CREATE ROLE fanout_bob;
GRANT EXECUTE ON FUNCTION shardlet.query TO fanout_bob;
CREATE FUNCTION fetcher(c refcursor) RETURNS int LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
	n int;
BEGIN
	FETCH c INTO n;
	RETURN n;
END $$;
CREATE FUNCTION opener() RETURNS refcursor LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
	c refcursor := 'c';
BEGIN
	OPEN c FOR SELECT a FROM shardlet.query('m', 'SELECT a FROM t ORDER BY a') AS q(a int);
	RETURN c;
END $$;
SET ROLE fanout_bob;
BEGIN;
DECLARE c CURSOR FOR SELECT a FROM shardlet.query('m', 'SELECT a FROM t ORDER BY a', shards => '{s1}') AS q(a int);
SELECT fetcher('c');
ROLLBACK;
BEGIN;
SELECT opener();
FETCH 2 FROM c;
COMMIT;
RESET ROLE;
DROP FUNCTION fetcher, opener;
DROP OWNED BY fanout_bob;
DROP ROLE fanout_bob;

SELECT count(*) FROM shardlet.execute('m', 'DROP TABLE t, w');
SELECT count(shardlet.drop_map(map)) FROM shardlet.maps;
