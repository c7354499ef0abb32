-- Shards follow the session's savepoints.
ALTER SEQUENCE shardlet.shardlet_id_seq RESTART;
SELECT shardlet.create_map('m', 'list', '{int}');
SELECT shardlet.assign_key('m', 's' || g, g) FROM generate_series(1, 4) g;
SELECT count(*) FROM shardlet.execute('m', 'CREATE TABLE t (a int PRIMARY KEY)');
CREATE FUNCTION put(k int, a int) RETURNS int LANGUAGE sql
AS $$SELECT * FROM shardlet.query_key('m', 'INSERT INTO t VALUES ($1) RETURNING a', ARRAY[a::text], k) AS q(a int)$$;
CREATE VIEW rows AS
SELECT array_agg(a ORDER BY a) FROM shardlet.query('m', 'SELECT a FROM t') AS q(a int);

-- Back and forth, at several depths, with shards that join on the way.
BEGIN;
SELECT put(1, 1);
SAVEPOINT a;
SELECT put(1, 2), put(2, 3);
SAVEPOINT b;
SELECT put(2, 4), put(3, 5);
SAVEPOINT c;
SELECT put(4, 6);
TABLE rows;
ROLLBACK TO c;
TABLE rows;
SELECT put(4, 7);
ROLLBACK TO b;
TABLE rows;
SELECT put(3, 8);
RELEASE b;
SELECT put(3, 9);
TABLE rows;
ROLLBACK TO a;
TABLE rows;
SELECT put(2, 10);
COMMIT;
TABLE rows;

-- A savepoint that no shard has met leaves alone what one before it did.
BEGIN;
SELECT put(1, 11);
SAVEPOINT a;
SELECT put(1, 12);
RELEASE a;
SAVEPOINT a;
SELECT 1;
ROLLBACK TO a;
SELECT put(1, 13);
RELEASE a;
SAVEPOINT a;
SELECT 1 / 0;
ROLLBACK TO a;
COMMIT;
TABLE rows;

-- A failure on a shard is undone on it, and on the others.
BEGIN;
SELECT put(1, 21);
SAVEPOINT a;
SELECT put(2, 22);
SELECT put(1, 1);
ROLLBACK TO a;
SELECT put(2, 23);
SAVEPOINT b;
SELECT * FROM shardlet.query('m', 'SELECT nonesuch FROM t', shards => '{s1}') AS q(a int);
ROLLBACK TO b;
SELECT put(1, 24);
COMMIT;
TABLE rows;

-- Blocks with an exception, in a loop, and nested.
DO $$
BEGIN
	FOR i IN 30..35 LOOP
		BEGIN
			PERFORM put(1 + i % 4, i);
			BEGIN
				PERFORM put(1 + (i + 1) % 4, 100 + i);
				IF i % 2 = 0 THEN
					RAISE EXCEPTION 'inner';
				END IF;
			EXCEPTION WHEN raise_exception THEN
				PERFORM put(1 + i % 4, 200 + i);
			END;
			IF i % 3 = 0 THEN
				RAISE EXCEPTION 'outer';
			END IF;
		EXCEPTION WHEN raise_exception THEN NULL;
		END;
	END LOOP;
END $$;
TABLE rows;

-- Streams that are open when a savepoint comes.
BEGIN;
SELECT put(1, 41);
DECLARE c CURSOR FOR SELECT * FROM shardlet.query('m', 'SELECT g FROM generate_series(1, 3) g ORDER BY g') AS q(a int);
FETCH 2 FROM c;
SAVEPOINT a;
FETCH 2 FROM c;
SELECT put(1, 42);
SELECT put(1, 42);
ROLLBACK TO a;
FETCH 3 FROM c;
SELECT put(1, 43);
COMMIT;
TABLE rows;
DO $$
DECLARE
	r record;
BEGIN
	FOR r IN SELECT * FROM shardlet.query('m', 'SELECT g FROM generate_series(1, 3) g ORDER BY g', shards => '{s1}') AS q(a int) LOOP
		BEGIN
			PERFORM put(1, 50 + r.a);
			PERFORM put(1, 50 + r.a) WHERE r.a = 2;
		EXCEPTION WHEN unique_violation THEN
			RAISE NOTICE '% was there', r.a;
		END;
	END LOOP;
END $$;
TABLE rows;

-- Settings that were sent inside what is rolled back.
SET timezone = 'UTC';
BEGIN;
SELECT put(1, 61);
SAVEPOINT a;
SET LOCAL timezone = 'Asia/Tokyo';
SELECT * FROM shardlet.query_key('m', 'SELECT timestamptz ''2024-01-01 00:00Z''::text', NULL, 1) AS q(a text);
ROLLBACK TO a;
SELECT * FROM shardlet.query_key('m', 'SELECT timestamptz ''2024-01-01 00:00Z''::text', NULL, 1) AS q(a text);
SET LOCAL timezone = 'Asia/Tokyo';
SELECT * FROM shardlet.query_key('m', 'SELECT timestamptz ''2024-01-01 00:00Z''::text', NULL, 1) AS q(a text);
ROLLBACK;
SELECT * FROM shardlet.query_key('m', 'SELECT timestamptz ''2024-01-01 00:00Z''::text', NULL, 1) AS q(a text);
RESET timezone;

-- What was made read-only inside a savepoint is so until its end.
BEGIN;
SELECT put(1, 71);
SAVEPOINT a;
SET TRANSACTION READ ONLY;
SELECT * FROM shardlet.query_key('m', 'SELECT current_setting(''transaction_read_only'')', NULL, 1) AS q(a text);
SELECT * FROM shardlet.query_key('m', 'SELECT current_setting(''transaction_read_only'')', NULL, 2) AS q(a text);
RELEASE a;
SELECT put(1, 72), put(2, 72);
COMMIT;
TABLE rows;
-- A failure in rows that were not fetched is not raised.  From 17 on rows come 64 at a time, and those before it are lost.
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM shardlet.query_key('m', 'SELECT g + 0 / (100 - g) FROM generate_series(1, 150) g', NULL, 1) AS q(a int);
FETCH 1 FROM c;
SELECT put(1, 73);
FETCH 1 FROM c;
FETCH ALL FROM c;
ROLLBACK;
TABLE rows;

-- Deep nesting.
DO $$
BEGIN
	EXECUTE 'CREATE FUNCTION dive(n int) RETURNS int LANGUAGE plpgsql AS $f$
	BEGIN
		IF n > 0 THEN
			PERFORM put(1 + n % 4, 1000 + n);
			PERFORM dive(n - 1);
			IF n = 20 THEN
				RAISE EXCEPTION ''up'';
			END IF;
		END IF;
		RETURN n;
	EXCEPTION WHEN raise_exception THEN
		RETURN -1;
	END $f$';
END $$;
SELECT dive(40);
SELECT count(*), min(a), max(a) FROM shardlet.query('m', 'SELECT a FROM t WHERE a >= 1000') AS q(a int);

SELECT count(*) FROM shardlet.connections WHERE pid = pg_backend_pid() AND in_transaction;
SELECT * FROM shardlet.prepared_transactions;
SELECT count(*) FROM shardlet.execute('m', 'DROP TABLE t');
DROP VIEW rows;
DROP FUNCTION put, dive;
SELECT shardlet.drop_map('m');
