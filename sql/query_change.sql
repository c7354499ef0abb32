-- Tables that change on the shards under statements that a session has prepared.
-- What execute() changes is no surprise to the session; so a function does it.
SELECT shardlet.create_map('m', shardlets => 4);
SELECT count(*) FROM shardlet.execute('m', 'CREATE TABLE t (a int, b text)');
SELECT count(*) FROM shardlet.execute('m', $$INSERT INTO t VALUES (1, '10'), (2, '9')$$);
SELECT count(*) FROM shardlet.execute('m', 'CREATE FUNCTION run(sql text) RETURNS int LANGUAGE plpgsql AS $f$ BEGIN EXECUTE sql; RETURN 1; END $f$');
CREATE FUNCTION ordered() RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(b, ' ') FROM shardlet.query('m', 'SELECT b FROM t ORDER BY b') AS q(b text) $$;
SELECT ordered();

-- On one shard: the shards differ.  On the others as well: they do not, and
-- rows come in the order of the new type.
SELECT count(*) FROM shardlet.query('m', 'SELECT run($1)', ARRAY['ALTER TABLE t ALTER b TYPE int USING b::int'], shards => '{s1}') AS q(a int);
SELECT * FROM shardlet.query('m', 'SELECT b FROM t ORDER BY b', shards => '{s1,s2}') AS q(b text);
SELECT * FROM shardlet.query('m', 'SELECT b FROM t ORDER BY b', shards => '{s2,s1}') AS q(b text);
SELECT count(*) FROM shardlet.query('m', 'SELECT run($1)', ARRAY['ALTER TABLE t ALTER b TYPE int USING b::int'], shards => '{s2,s3,s4}') AS q(a int);
SELECT ordered();
-- On all of them at a time; with one shard after the other.
SELECT count(*) FROM shardlet.query('m', 'SELECT run($1)', ARRAY['ALTER TABLE t ALTER b TYPE text']) AS q(a int);
SELECT ordered();
SET shardlet.max_parallel_shards = 1;
SELECT count(*) FROM shardlet.query('m', 'SELECT run($1)', ARRAY['ALTER TABLE t ALTER b TYPE int USING b::int']) AS q(a int);
SELECT ordered();
RESET shardlet.max_parallel_shards;
-- In a transaction, after its first statement; and a statement that writes.
SELECT count(*) FROM shardlet.query('m', 'UPDATE t SET b = b RETURNING b') AS q(b text);
SELECT count(*) FROM shardlet.query('m', 'SELECT run($1)', ARRAY['ALTER TABLE t ALTER b TYPE text']) AS q(a int);
BEGIN;
SELECT count(*) FROM shardlet.query('m', 'SELECT 1') AS q(a int);
SELECT ordered();
COMMIT;
SELECT string_agg(b, ' ' ORDER BY b) FROM shardlet.query('m', $$UPDATE t SET b = b RETURNING b$$) AS q(b text);
-- Only the new type fits what is wanted.
SELECT sum(a) FROM shardlet.query('m', 'SELECT a FROM t') AS q(a int);
SELECT count(*) FROM shardlet.query('m', 'SELECT run($1)', ARRAY[$$ALTER TABLE t ALTER a TYPE date USING DATE '2026-01-01' + a$$]) AS q(a int);
SELECT DISTINCT a FROM shardlet.query('m', 'SELECT a FROM t') AS q(a date) ORDER BY a;
-- Parameters get the new type: in what writes at once; in what reads at the
-- first error.
SELECT count(*) FROM shardlet.execute('m', 'CREATE TABLE p (a int, b date)');
SELECT count(*) FROM shardlet.query('m', 'INSERT INTO p VALUES (1, $1) RETURNING b', '{2024-01-01}') AS q(b timestamp);
SELECT count(*) FROM shardlet.query('m', 'SELECT a FROM p WHERE b = $1', '{2024-01-01}') AS q(a int);
SELECT count(*) FROM shardlet.execute('m', 'ALTER TABLE p ALTER b TYPE timestamp');
SELECT DISTINCT b FROM shardlet.query('m', 'INSERT INTO p VALUES (1, $1) RETURNING b', '{2024-01-01 12:34:56}') AS q(b timestamp);
SELECT DISTINCT b FROM shardlet.query('m', 'INSERT INTO p VALUES (1, $1) RETURNING b', '{2024-01-01 12:34:57}') AS q(b timestamp);
SELECT count(*) FROM shardlet.query('m', 'SELECT a FROM p WHERE b = $1', '{2024-01-01}') AS q(a int);
SELECT count(*) FROM shardlet.query('m', 'INSERT INTO p VALUES (1, $1) RETURNING b', '{2024-01-01}') AS q(b timestamp);
SELECT count(*) FROM shardlet.query('m', 'SELECT a FROM p WHERE b = $1', '{2024-01-01}') AS q(a int);
BEGIN;
SELECT count(*) FROM shardlet.query('m', 'SELECT run($1)', ARRAY['ALTER TABLE p ALTER b TYPE text']) AS q(a int);
SELECT count(*) FROM shardlet.query('m', 'SELECT a FROM p WHERE b = $1', '{2024-01-01 12:34:56}') AS q(a int);
SELECT DISTINCT b FROM shardlet.query('m', 'INSERT INTO p VALUES (1, $1) RETURNING b', '{x}', shards => '{s1}') AS q(b text);
ROLLBACK;
BEGIN;
SELECT count(*) FROM shardlet.execute('m', 'ALTER TABLE p ALTER b TYPE text');
SELECT count(*) FROM shardlet.query('m', 'SELECT a FROM p WHERE b = $1', '{x}') AS q(a int);
SELECT DISTINCT b FROM shardlet.query('m', 'INSERT INTO p VALUES (1, $1) RETURNING b', '{x}') AS q(b text);
COMMIT;
SELECT count(*) FROM shardlet.query('m', 'SELECT a FROM p WHERE b = $1', '{x}') AS q(a int);
-- A shard that has forgotten its prepared statements, as when a pooler resets it.
SELECT count(*) FROM shardlet.query('m', 'SELECT a FROM p') AS q(a int);
SELECT count(*) FROM shardlet.query('m', 'SELECT b FROM p') AS q(a text);
SELECT count(*) FROM shardlet.query('m', 'DELETE FROM p WHERE a = 5 RETURNING 1') AS q(a int);
SELECT count(*) FROM shardlet.query('m', 'SELECT run($1)', '{DEALLOCATE ALL}') AS q(a int);
SELECT count(*) FROM shardlet.query('m', 'SELECT a FROM p') AS q(a int);
SELECT count(*) FROM shardlet.query('m', 'SELECT b FROM p') AS q(a text);
SELECT count(*) FROM shardlet.query('m', 'SELECT run($1)', '{DEALLOCATE ALL}') AS q(a int);
SELECT count(*) FROM shardlet.query('m', 'DELETE FROM p WHERE a = 5 RETURNING 1') AS q(a int);
BEGIN;
SELECT count(*) FROM shardlet.query('m', 'SELECT run($1)', '{DEALLOCATE ALL}') AS q(a int);
SELECT count(*) FROM shardlet.query('m', 'SELECT a FROM p') AS q(a int);
SELECT count(*) FROM shardlet.query('m', 'SELECT b FROM p') AS q(a text);
COMMIT;
-- Two statements that are open at a time.
BEGIN;
DECLARE c CURSOR FOR SELECT b FROM shardlet.query('m', 'SELECT b FROM t ORDER BY b') AS q(b text);
FETCH 2 FROM c;
SELECT count(*) FROM shardlet.query('m', 'SELECT run($1)', ARRAY['ALTER TABLE t ALTER b TYPE int USING b::int']) AS q(a int);
SELECT ordered();
FETCH 10 FROM c;
COMMIT;

SELECT count(*) FROM shardlet.execute('m', 'DROP FUNCTION run');
SELECT count(*) FROM shardlet.execute('m', 'DROP TABLE t, p');
SELECT count(shardlet.drop_map(map)) FROM shardlet.maps;
DROP FUNCTION ordered;
