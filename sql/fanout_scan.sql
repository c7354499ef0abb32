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
SET shardlet.max_parallel_shards = 1;
BEGIN;
DECLARE c CURSOR FOR SELECT a % 4 AS n, a FROM shardlet.query('m', 'SELECT a FROM t') AS q(a int);
FETCH 3 FROM c;
SAVEPOINT x;
FETCH 4 FROM c;
ROLLBACK TO x;
FETCH 5 FROM c;
COMMIT;
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

-- The user is the one who opened the cursor, whoever fetches.  Only superusers
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

SELECT count(*) FROM shardlet.execute('m', 'DROP TABLE t');
SELECT count(shardlet.drop_map(map)) FROM shardlet.maps;
