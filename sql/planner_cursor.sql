-- Cursors see what was there when they were opened, whenever the first row is fetched; functions that are not
-- volatile see what was there when the statement began that calls them.
CREATE SCHEMA plan_cursor;
SET search_path = plan_cursor, public;
SELECT shardlet.create_map('pc', shards => '{s1,s2,s3}');
CREATE TABLE t (k bigint PRIMARY KEY, x int, s text);
CREATE TABLE o (k bigint NOT NULL, n int NOT NULL, note text, PRIMARY KEY (k, n));
SELECT shardlet.distribute('t', 'pc', 'k'), shardlet.distribute('o', 'pc', 'k');
INSERT INTO t SELECT i, i % 7, 's' || i FROM generate_series(1, 20) i;
INSERT INTO o SELECT i, j, 'note' FROM generate_series(1, 20) i, generate_series(1, 3) j;

BEGIN;
DECLARE c CURSOR FOR SELECT k, x FROM t WHERE k IN (3, 4) ORDER BY k;
DECLARE d CURSOR FOR SELECT k, x FROM t WHERE k = 3;
UPDATE t SET x = 555 WHERE k = 3;
DELETE FROM t WHERE k = 4;
FETCH ALL FROM c;
FETCH ALL FROM d;
SELECT k, x FROM t WHERE k IN (3, 4);
ROLLBACK;

-- Opens a cursor, writes, and compares what it returns with what there was before.  With several writes the cursor
-- is read from after each.
CREATE FUNCTION differs(query text, VARIADIC writes text[]) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	before text[];
	after text[];
	one text;
	r record;
	c refcursor;
BEGIN
	FOR r IN EXECUTE query LOOP
		before := before || r::text;
	END LOOP;
	OPEN c FOR EXECUTE query;
	FOREACH one IN ARRAY writes LOOP
		EXECUTE one;
		FETCH c INTO r;
		after := after || r::text;
	END LOOP;
	LOOP
		FETCH c INTO r;
		EXIT WHEN NOT FOUND;
		after := after || r::text;
	END LOOP;
	CLOSE c;
	RAISE EXCEPTION USING ERRCODE = 'SLXXX', MESSAGE = CASE WHEN before IS DISTINCT FROM after
		THEN format('%s, was %s', after, before) ELSE format('%s rows', cardinality(before)) END;
EXCEPTION WHEN SQLSTATE 'SLXXX' THEN
	RETURN SQLERRM;
END $$;
CREATE VIEW results AS
	SELECT differs('SELECT k, x FROM t WHERE k = 3', 'UPDATE t SET x = 555 WHERE k = 3') AS one_shard,
		differs('SELECT k, x FROM t ORDER BY k', 'UPDATE t SET x = 555', 'DELETE FROM t', 'INSERT INTO t VALUES (0)') AS all_shards,
		differs('SELECT sum(x), count(*) FROM t', 'INSERT INTO t SELECT -g, g FROM generate_series(1, 9) g') AS aggregate,
		differs('SELECT t.k, o.k FROM t JOIN o ON t.k = o.n ORDER BY 1, 2', 'DELETE FROM o', 'DELETE FROM t') AS scans,
		differs('SELECT k, (SELECT count(*) FROM o WHERE n <= t.k) FROM t ORDER BY k', 'DELETE FROM o WHERE k < 9', 'DELETE FROM o') AS scans_again,
		differs('SELECT * FROM shardlet.query(''pc'', ''SELECT k, x FROM plan_cursor.t ORDER BY k'') AS q(k bigint, x int)', 'DELETE FROM t') AS text,
		differs('SELECT k, x FROM t ORDER BY k', $$SELECT count(*) FROM shardlet.query_key('pc', 'DELETE FROM plan_cursor.t RETURNING k', NULL, 1) AS q(k bigint)$$) AS by_text;
\x on
SELECT * FROM results;
SET shardlet.ship = off;
SELECT * FROM results;
SET shardlet.scatter = off;
SELECT * FROM results;
RESET shardlet.ship;
RESET shardlet.scatter;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT * FROM results;
UPDATE t SET x = x + 1;
SELECT * FROM results;
ROLLBACK;
SET shardlet.consistent_reads = on;
SELECT * FROM results;
RESET shardlet.consistent_reads;
\x off

-- Each cursor sees what was there when it was opened, whatever comes between.
BEGIN;
DECLARE a CURSOR FOR SELECT count(*) FROM t;
DELETE FROM t WHERE k = 1;
DECLARE b CURSOR FOR SELECT count(*) FROM t;
DELETE FROM t WHERE k = 2;
DECLARE c CURSOR FOR SELECT min(k) FROM t;
DECLARE never CURSOR FOR SELECT k FROM t;
INSERT INTO t VALUES (0);
DO $$
BEGIN
	FOR i IN 1..40 LOOP
		PERFORM count(*) FROM t JOIN o ON t.k = o.n;
	END LOOP;
END $$;
FETCH ALL FROM a;
FETCH ALL FROM b;
FETCH ALL FROM c;
SELECT count(*), min(k) FROM t;
ROLLBACK;

-- Savepoints that end, and others.
BEGIN;
DECLARE c CURSOR FOR SELECT k, x FROM t ORDER BY k LIMIT 3;
SAVEPOINT a;
UPDATE t SET x = 100;
ROLLBACK TO a;
UPDATE t SET x = 200 WHERE k < 3;
DECLARE d CURSOR FOR SELECT k, x FROM t ORDER BY k LIMIT 3;
SAVEPOINT b;
UPDATE t SET x = 300;
RELEASE b;
SAVEPOINT b;
UPDATE t SET x = 400;
ROLLBACK TO b;
FETCH ALL FROM c;
FETCH ALL FROM d;
ROLLBACK;
BEGIN;
SAVEPOINT a;
DECLARE c CURSOR FOR SELECT k, x FROM t ORDER BY k LIMIT 1;
UPDATE t SET x = 100;
ROLLBACK TO a;
FETCH ALL FROM c;
ROLLBACK;

-- It outlives the transaction.
BEGIN;
DECLARE c SCROLL CURSOR WITH HOLD FOR SELECT k, x FROM t ORDER BY k;
UPDATE t SET x = 100 WHERE k = 2;
COMMIT;
FETCH 2 FROM c;
FETCH LAST FROM c;
CLOSE c;
SELECT x FROM t WHERE k = 2;

-- Rows come by COPY.
BEGIN;
DECLARE c CURSOR FOR SELECT min(k), max(k) FROM t;
COPY t FROM stdin;
-1	1	a
1000	1	a
\.
FETCH ALL FROM c;
SELECT min(k), max(k) FROM t;
ROLLBACK;

-- A function writes while a statement that asks several times runs.
CREATE FUNCTION remove(row_key bigint) RETURNS bigint LANGUAGE sql AS 'DELETE FROM o WHERE n = row_key RETURNING n::bigint';
BEGIN;
SELECT k, remove(k), (SELECT count(*) FROM o WHERE n <= t.k) FROM t WHERE k < 5 ORDER BY k;
SELECT count(*) FROM o;
ROLLBACK;

-- Functions that are not volatile, in statements that write.
CREATE FUNCTION count_t() RETURNS bigint LANGUAGE plpgsql STABLE AS 'BEGIN RETURN (SELECT count(*) FROM t); END';
CREATE FUNCTION count_o() RETURNS bigint LANGUAGE sql STABLE AS 'SELECT count(*) FROM o WHERE k = 3';
CREATE FUNCTION count_now() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT count(*) FROM t); END';
CREATE FUNCTION count_often() RETURNS bigint LANGUAGE plpgsql STABLE AS $$
DECLARE
	result bigint := 0;
	r record;
BEGIN
	FOR r IN SELECT (SELECT count(*) FROM o WHERE n <= t.k) AS n FROM t LOOP
		result := result + r.n;
	END LOOP;
	RETURN result;
END $$;
BEGIN;
WITH d AS (DELETE FROM t WHERE k < 4 RETURNING k, count_t() AS a, (SELECT count(*) FROM t) AS b) SELECT * FROM d ORDER BY k;
SELECT count_t();
INSERT INTO t (k) VALUES (70), (71) RETURNING k, count_t();
INSERT INTO t (k) VALUES (72) RETURNING k, count_t(), count_now();
WITH u AS (UPDATE t SET x = count_t() WHERE k > 69 RETURNING k, x, count_t() AS n) SELECT * FROM u ORDER BY k;
WITH u AS (UPDATE t SET x = 1 WHERE k = 70 RETURNING k), i AS (INSERT INTO t (k) VALUES (73)) SELECT count_t() FROM u;
INSERT INTO o (k, n) SELECT 3, 100 + g * 10 + count_o() FROM generate_series(1, 3) g RETURNING n;
INSERT INTO o (k, n) SELECT g, 0 FROM generate_series(1, 3) g RETURNING k, count_often();
SELECT count_t(), count_o(), count_often();
ROLLBACK;
INSERT INTO o (k, n) SELECT 3, 100 + g * 10 + count_o() FROM generate_series(1, 3) g;
SELECT n FROM o WHERE k = 3 ORDER BY n;
BEGIN ISOLATION LEVEL REPEATABLE READ;
INSERT INTO t (k) VALUES (70), (71) RETURNING k, count_t();
DELETE FROM t WHERE k = 70 RETURNING k, count_t();
SELECT count_t();
ROLLBACK;

-- What the router tells the shards.
BEGIN;
SELECT shardlet_internal.keep_snapshots('{1,NULL,0,2}'), shardlet_internal.keep_snapshots('{}'), shardlet_internal.use_snapshot(2);
COMMIT;
SET client_min_messages = warning;
DROP VIEW results;
DROP TABLE t, o;
DROP SCHEMA plan_cursor CASCADE;
SELECT shardlet.drop_map('pc');
