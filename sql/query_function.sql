-- One text to all shards of a map; rows stream back and are merged.
SELECT shardlet.create_map('m', shardlets => 4);
SELECT * FROM shardlet.execute('m', 'CREATE TABLE t (a int, b text, c numeric)');
-- Rows 1 to 20, five on each shard: shard n has n, n + 4, ...
SELECT shard, command, rows, error FROM unnest('{s1,s2,s3,s4}'::name[]) WITH ORDINALITY s(name, n),
	LATERAL shardlet.execute('m', 'INSERT INTO t SELECT g, ''row '' || g, g / 4.0 FROM generate_series($1::int, 20, 4) g',
	ARRAY[n]::text[], ARRAY[name]) ORDER BY shard;

SELECT count(*), sum(a), min(b), sum(c) FROM shardlet.query('m', 'SELECT * FROM t') AS q(a int, b text, c numeric);
EXPLAIN (COSTS OFF) SELECT b FROM shardlet.query('m', 'SELECT a, b FROM t') AS q(a int, b text) WHERE a > 10 LIMIT 3;
SELECT a, b FROM shardlet.query('m', 'SELECT a, b FROM t') AS q(a int, b text) WHERE a > 17 ORDER BY a;

-- The shard's name; some shards only; parameters, NULL too.
SELECT shardlet_shard, count(*) FROM shardlet.query('m', 'SELECT a FROM t') AS q(a int, shardlet_shard name) GROUP BY 1 ORDER BY 1;
SELECT shardlet_shard, a FROM shardlet.query('m', 'SELECT a FROM t WHERE a < 5') AS q(shardlet_shard text, a int) ORDER BY a;
SELECT a FROM shardlet.query('m', 'SELECT a FROM t', shards => '{s3,s1}') AS q(a int) ORDER BY a;
SELECT a FROM shardlet.query('m', 'SELECT a FROM t WHERE a BETWEEN $1 AND $2 AND b LIKE $3', ARRAY['5', '8', 'row %']) AS q(a int) ORDER BY a;
SELECT a, b FROM shardlet.query('m', 'SELECT a, $1 FROM t WHERE a = 1', ARRAY[NULL]) AS q(a int, b text);
SELECT a, b FROM shardlet.query('m', 'SELECT a, $1 FROM t WHERE a = 1', ARRAY[$$'; DROP TABLE t; --$$]) AS q(a int, b text);

-- Coerced to the caller's columns.
SELECT * FROM shardlet.query('m', 'SELECT a, a, c, b FROM t WHERE a = 7') AS q(a bigint, b text, c numeric(5,1), d varchar(3));
SELECT * FROM shardlet.query('m', 'SELECT a, a, c, b::varchar(3) FROM t WHERE a = 7') AS q(a bigint, b text, c numeric(5,1), d varchar(3));
-- Two at a time, nested, in a subquery, lateral, and as an ordinary function.
SELECT count(*) FROM shardlet.query('m', 'SELECT a FROM t') AS x(a int) JOIN shardlet.query('m', 'SELECT a FROM t') AS y(a int) USING (a);
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SELECT count(*) FROM shardlet.query('m', 'SELECT a FROM t') AS x(a int) JOIN shardlet.query('m', 'SELECT a FROM t') AS y(a int) ON x.a < y.a;
RESET enable_hashjoin;
RESET enable_mergejoin;
SELECT g, (SELECT sum(a) FROM shardlet.query('m', 'SELECT a FROM t WHERE a <= $1', ARRAY[g]::text[]) AS q(a int)) FROM generate_series(1, 3) g;
SELECT g, a FROM generate_series(1, 3) g, LATERAL shardlet.query('m', 'SELECT a FROM t WHERE a % 7 = $1', ARRAY[g]::text[]) AS q(a int) ORDER BY g, a;
SELECT count(*), max(ordinality) FROM shardlet.query('m', 'SELECT a FROM t') WITH ORDINALITY AS q(a, ordinality);
SELECT count(*), max(ordinality) FROM ROWS FROM (shardlet.query('m', 'SELECT a FROM t') AS (a int)) WITH ORDINALITY AS q(a, ordinality);
PREPARE p(text) AS SELECT count(*) FROM shardlet.query('m', 'SELECT a FROM t WHERE a > $1', ARRAY[$1]) AS q(a int);
EXECUTE p('3');
EXECUTE p('10');
EXECUTE p('3');
EXECUTE p('3');
EXECUTE p('3');
EXECUTE p('3');
EXECUTE p('17');

-- Cursors, partly read; a second statement on the same connections meanwhile;
-- an error inside a loop that goes on.
BEGIN;
DECLARE c CURSOR FOR SELECT a FROM shardlet.query('m', 'SELECT a FROM t ORDER BY a') AS q(a int);
FETCH 3 FROM c;
SELECT count(*) FROM shardlet.query('m', 'SELECT a FROM t') AS q(a int);
FETCH 3 FROM c;
SAVEPOINT s;
SELECT * FROM shardlet.query('m', 'SELECT 1/0', shards => '{s1}') AS q(a int);
ROLLBACK TO s;
FETCH 3 FROM c;
COMMIT;
DO $$
DECLARE
	r record;
	n int := 0;
BEGIN
	FOR r IN SELECT a FROM shardlet.query('m', 'SELECT a FROM t ORDER BY a') AS q(a int) LOOP
		BEGIN
			PERFORM * FROM shardlet.query('m', 'SELECT 1 / (a - 3) FROM t WHERE a = $1', ARRAY[r.a]::text[]) AS q(a int);
			n := n + 1;
		EXCEPTION WHEN division_by_zero THEN
			RAISE NOTICE 'row %', r.a;
		END;
	END LOOP;
	RAISE NOTICE '% good rows', n;
END $$;
SELECT state, in_transaction, count(*) FROM shardlet.connections WHERE pid = pg_backend_pid() GROUP BY 1, 2;

-- query_key: one shard, any text.
SELECT * FROM shardlet.query_key('m', 'SELECT count(*), sum(a) FROM t', NULL, 42) AS q(n bigint, s bigint);
SELECT shardlet_shard = shardlet.route('m', 42) AS owner FROM shardlet.query_key('m', 'SELECT 1', NULL, 42) AS q(one int, shardlet_shard name);
SELECT * FROM shardlet.query_key('m', 'SELECT a FROM t WHERE a > $1 ORDER BY a DESC LIMIT 1', '{3}', VARIADIC ARRAY[42]) AS q(a int);
SELECT * FROM shardlet.query_key('m', 'SELECT 1', NULL, NULL) AS q(a int);
SELECT * FROM shardlet.query_key('m', 'SELECT 1', NULL, 'x') AS q(a int);
SELECT * FROM shardlet.query_key('m', 'SELECT 1', NULL, 1, 2) AS q(a int);

-- Nothing comes back: an empty shard among full ones, none at all, no shardlets.
SELECT * FROM shardlet.execute('m', 'DELETE FROM t WHERE a % 4 = 2');
SELECT count(*) FROM shardlet.query('m', 'SELECT a FROM t ORDER BY a') AS q(a int);
SELECT count(*) FROM shardlet.query('m', 'SELECT a FROM t WHERE false') AS q(a int);
SELECT count(*) FROM shardlet.query('m', 'SELECT a FROM t', shards => '{}') AS q(a int);
SELECT shardlet.create_map('empty', 'list');
SELECT count(*) FROM shardlet.query('empty', 'SELECT a FROM t') AS q(a int);
SELECT * FROM shardlet.query('m', 'DELETE FROM t WHERE a = 1 RETURNING a, b') AS q(a int, b text);
SELECT * FROM shardlet.query('m', 'UPDATE t SET a = a WHERE a = 3', shards => '{s1}') AS q(a int);

-- What writes runs to its end, though the rest of its rows is not fetched; also
-- if that shows only while it runs, and if it may be left out.
SELECT count(*) FROM shardlet.execute('m', 'CREATE TABLE w AS SELECT g AS a, repeat(''x'', 600) AS b, 0 AS n FROM generate_series(1, 5000) g');
SELECT count(*) FROM shardlet.execute('m', 'CREATE FUNCTION touch(i int) RETURNS text LANGUAGE sql AS $f$ UPDATE w SET n = n + 1 WHERE a = i RETURNING b $f$');
SELECT length(b) FROM shardlet.query('m', 'UPDATE w SET n = n + 1 RETURNING b') AS q(b text) LIMIT 1;
SET shardlet.max_parallel_shards = 1;
SELECT length(b) FROM shardlet.query('m', 'UPDATE w SET n = n + 1 RETURNING b') AS q(b text) LIMIT 1;
RESET shardlet.max_parallel_shards;
SELECT length(b) FROM shardlet.query('m', 'UPDATE w SET n = n + 1 RETURNING b', on_error => 'skip') AS q(b text) LIMIT 1;
CREATE TEMP TABLE first AS SELECT b FROM shardlet.query('m', 'SELECT touch(g) FROM generate_series(1, 300) g') AS q(b text) LIMIT 1;
BEGIN;
SELECT length(b) FROM shardlet.query('m', 'UPDATE w SET n = n + 1 RETURNING b') AS q(b text) LIMIT 1;
SELECT length(b) FROM shardlet.query('m', 'SELECT touch(g) FROM generate_series(1, 300) g') AS q(b text) LIMIT 1;
SELECT count(*) FROM (SELECT FROM shardlet.query('m', 'SELECT b FROM w') AS q(b text) LIMIT 1) r;
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT length(b) FROM shardlet.query('m', 'SELECT touch(g) FROM generate_series(1, 300) g') AS q(b text) LIMIT 1;
COMMIT;
SELECT shardlet_shard, n FROM shardlet.query('m', 'SELECT sum(n) FROM w') AS q(n int, shardlet_shard name) ORDER BY 1;
SELECT count(*) FROM shardlet.execute('m', 'DROP FUNCTION touch');
SELECT count(*) FROM shardlet.execute('m', 'DROP TABLE w');

-- A text that writes is refused in a read-only transaction.
SELECT count(*) FROM shardlet.execute('m', 'CREATE SEQUENCE s');
BEGIN READ ONLY;
SELECT * FROM shardlet.query('m', 'DELETE FROM t RETURNING a') AS q(a int);
ROLLBACK;
BEGIN READ ONLY;
SELECT * FROM shardlet.query('m', 'EXPLAIN (ANALYZE, COSTS OFF) DELETE FROM t', per_shard => true) AS q(x text);
ROLLBACK;
BEGIN READ ONLY;
SELECT * FROM shardlet.query('m', 'SELECT nextval(''s'')', shards => '{s1}') AS q(a int);
ROLLBACK;
BEGIN READ ONLY;
SELECT * FROM shardlet.query('m', 'EXPLAIN (COSTS OFF) DELETE FROM t', shards => '{s1}', per_shard => true) AS q(x text);
ROLLBACK;

-- Wrong input.
SELECT * FROM shardlet.query('m', '') AS q(a int);
SELECT * FROM shardlet.query('m', ' ; -- nothing') AS q(a int);
SELECT * FROM shardlet.query('m', NULL) AS q(a int);
SELECT * FROM shardlet.query('m', 'SELECT 1; SELECT 2') AS q(a int);
SELECT * FROM shardlet.query('m', 'SELEC 1') AS q(a int);
SELECT * FROM shardlet.query('m', 'SELECT nonesuch FROM t', shards => '{s1}') AS q(a int);
SELECT * FROM shardlet.query('m', 'SELECT a FROM nonesuch', shards => '{s1}') AS q(a int);
SELECT * FROM shardlet.query('nonesuch', 'SELECT 1') AS q(a int);
SELECT * FROM shardlet.query(NULL, 'SELECT 1') AS q(a int);
SELECT * FROM shardlet.query('m', 'SELECT 1', shards => '{nonesuch}') AS q(a int);
SELECT * FROM shardlet.query('m', 'SELECT 1', shards => '{s1,s1}') AS q(a int);
SELECT * FROM shardlet.query('m', 'SELECT 1', on_error => 'perhaps') AS q(a int);
SELECT * FROM shardlet.query('m', 'SELECT $2::int', '{1}', '{s1}') AS q(a int);
SELECT * FROM shardlet.query('m', 'SELECT 1', array_fill('x'::text, '{70000}')) AS q(a int);
SELECT * FROM shardlet.query('m', 'COPY t TO STDOUT', shards => '{s1}') AS q(a int);
SELECT * FROM shardlet.query('m', 'SELECT a INTO x FROM t') AS q(a int);
SELECT * FROM shardlet.query('m', 'SELECT 1') AS q(a int, shardlet_shard int);
SELECT * FROM shardlet.query('m', 'SELECT 1') AS q(a int, shardlet_shard varchar(1));
SELECT * FROM shardlet.query('m', 'SELECT 1', shards => '{s1}') AS q(a int, shardlet_shard varchar(2));
SELECT shardlet.query('m', 'SELECT 1');
\set VERBOSITY sqlstate
SELECT * FROM shardlet.query('m', 'SELECT $1::int') AS q(a int);
SELECT * FROM shardlet.query('m', 'SELECT $1::int', '{1,2}') AS q(a int);
\set VERBOSITY default
SELECT count(*) FROM shardlet.query('m', 'SELECT a FROM t') AS q(a int);
SELECT shardlet.close_connections('s1'), shardlet.close_connections();
SELECT count(*) FROM shardlet.connections WHERE pid = pg_backend_pid();
SELECT shardlet.close_connections('nonesuch');
SELECT count(*) FROM shardlet.query('m', 'SELECT a FROM t') AS q(a int);

SELECT count(*) FROM shardlet.execute('m', 'DROP SEQUENCE s');
SELECT * FROM shardlet.execute(NULL, 'DROP TABLE t', shards => '{s1,s2,s3,s4}');
SELECT count(shardlet.drop_map(map)) FROM shardlet.maps;
