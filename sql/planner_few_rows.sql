-- A few rows come from a shard all at once, more come one by one: without a difference.
SELECT shardlet.create_map('m');
CREATE TABLE t (k bigint, n int, v int, PRIMARY KEY (k, n));
SELECT shardlet.distribute('t', 'm', 'k');
INSERT INTO t SELECT k, n, 10 * n + k FROM generate_series(1, 5) k, generate_series(1, 40) n;
CREATE TABLE plain AS SELECT * FROM t;

-- The same rows, in the same order, as from a plain table?
CREATE FUNCTION is_same(query text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	ours text[] := '{}';
	theirs text[] := '{}';
	one record;
BEGIN
	FOR one IN EXECUTE format(query, 't')
	LOOP
		ours := ours || one::text;
	END LOOP;
	FOR one IN EXECUTE format(query, 'plain')
	LOOP
		theirs := theirs || one::text;
	END LOOP;
	RETURN ours = theirs;
END
$$;
SELECT query, is_same(query) FROM unnest(ARRAY[
	'SELECT n, v FROM %s t WHERE k = 3 ORDER BY n LIMIT 0',
	'SELECT n, v FROM %s t WHERE k = 3 ORDER BY n LIMIT 1',
	'SELECT n, v FROM %s t WHERE k = 3 ORDER BY n LIMIT 32',
	'SELECT n, v FROM %s t WHERE k = 3 ORDER BY n LIMIT 33',
	'SELECT n, v FROM %s t WHERE k = 3 ORDER BY n LIMIT NULL',
	'SELECT n, v FROM %s t WHERE k = 3 ORDER BY n LIMIT 5 OFFSET 38',
	'SELECT count(*), sum(v), max(n) FROM %s t WHERE k = 3',
	'SELECT count(*), generate_series(1, 50) FROM %s t WHERE k = 3',
	'SELECT k, n FROM %s t ORDER BY v, k LIMIT 32',
	'SELECT k, n FROM %s t ORDER BY v, k LIMIT 33',
	'SELECT k, n FROM %s t ORDER BY v, k LIMIT 20 OFFSET 12',
	'SELECT k, n FROM %s t ORDER BY v, k LIMIT 20 OFFSET 13',
	'SELECT k, n FROM %s t ORDER BY v, k LIMIT 20 OFFSET 190',
	'SELECT k, n FROM %s t ORDER BY v, k LIMIT 20 OFFSET 300'
]) query;
SET shardlet.max_parallel_shards = 1;
SELECT is_same('SELECT k, n FROM %s t ORDER BY v, k LIMIT 20 OFFSET 7');
RESET shardlet.max_parallel_shards;
-- Ties go beyond the limit.
SELECT count(*) FROM (SELECT n FROM t WHERE k = 3 ORDER BY n / 40 FETCH FIRST 1 ROW WITH TIES) x;
-- What fails behind some rows fails, and leaves everything usable.
\set VERBOSITY sqlstate
SELECT 1 / (n - 5) FROM t WHERE k = 3 ORDER BY n LIMIT 10;
SELECT k, 1 / (n - 5) FROM t ORDER BY v LIMIT 30;
\set VERBOSITY default
SELECT n FROM t WHERE k = 3 ORDER BY n LIMIT 1;

-- Read in parts, while other statements run and savepoints end.
BEGIN;
DECLARE few CURSOR FOR SELECT n FROM t WHERE k = 3 ORDER BY n LIMIT 3;
DECLARE wide CURSOR FOR SELECT k, n FROM t ORDER BY v, k LIMIT 4;
FETCH few;
FETCH wide;
SAVEPOINT a;
UPDATE t SET v = v + 1 WHERE k = 3 AND n < 3;
FETCH few;
ROLLBACK TO a;
FETCH ALL wide;
FETCH ALL few;
COMMIT;

-- Values: of the client's, of a function's, and computed ones.
PREPARE by_key(bigint, int) AS SELECT n, v FROM t WHERE k = $1 AND n > $2 ORDER BY n LIMIT 2;
SET plan_cache_mode = force_generic_plan;
EXECUTE by_key(1, 7);
EXECUTE by_key(2, 38);
EXECUTE by_key(NULL, 38);
EXECUTE by_key(2, NULL);
RESET plan_cache_mode;
CREATE FUNCTION first_of(key bigint, more int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	result int := 0;
	one record;
BEGIN
	FOR one IN SELECT n FROM t WHERE k = key AND n > more ORDER BY n LIMIT 3
	LOOP
		result := 10 * result + one.n;
	END LOOP;
	UPDATE t SET v = more WHERE k = key AND n = more;
	RETURN result + (SELECT count(*) FROM t WHERE k = key + 1 AND v > more + 10);
END
$$;
SELECT first_of(k, n) FROM (VALUES (1, 1), (2, 2), (3, 3), (4, 4), (4, 5), (4, 6), (4, 7)) x (k, n);
DROP TABLE t, plain;
DROP FUNCTION is_same(text), first_of(bigint, int);
SELECT shardlet.drop_map('m');
