-- Tables that change on the shards under statements that a session has prepared.
SELECT shardlet.create_map('m', shardlets => 4);
SELECT count(*) FROM shardlet.execute('m', 'CREATE TABLE t (a int, b text)');
SELECT count(*) FROM shardlet.execute('m', $$INSERT INTO t VALUES (1, '10'), (2, '9')$$);
CREATE FUNCTION ordered() RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(b, ' ') FROM shardlet.query('m', 'SELECT b FROM t ORDER BY b') AS q(b text) $$;
SELECT ordered();

-- On one shard: the shards differ.  On the others as well: they do not, and
-- rows come in the order of the new type.
SELECT count(*) FROM shardlet.execute('m', 'ALTER TABLE t ALTER b TYPE int USING b::int', shards => '{s1}');
SELECT * FROM shardlet.query('m', 'SELECT b FROM t ORDER BY b', shards => '{s1,s2}') AS q(b text);
SELECT * FROM shardlet.query('m', 'SELECT b FROM t ORDER BY b', shards => '{s2,s1}') AS q(b text);
SELECT count(*) FROM shardlet.execute('m', 'ALTER TABLE t ALTER b TYPE int USING b::int', shards => '{s2,s3,s4}');
SELECT ordered();
-- On all of them at a time; with one shard after the other.
SELECT count(*) FROM shardlet.execute('m', 'ALTER TABLE t ALTER b TYPE text');
SELECT ordered();
SET shardlet.max_parallel_shards = 1;
SELECT count(*) FROM shardlet.execute('m', 'ALTER TABLE t ALTER b TYPE int USING b::int');
SELECT ordered();
RESET shardlet.max_parallel_shards;
-- In a transaction, after its first statement; and a statement that writes.
SELECT count(*) FROM shardlet.query('m', 'UPDATE t SET b = b RETURNING b') AS q(b text);
SELECT count(*) FROM shardlet.execute('m', 'ALTER TABLE t ALTER b TYPE text');
BEGIN;
SELECT count(*) FROM shardlet.query('m', 'SELECT 1') AS q(a int);
SELECT ordered();
COMMIT;
SELECT string_agg(b, ' ' ORDER BY b) FROM shardlet.query('m', $$UPDATE t SET b = b RETURNING b$$) AS q(b text);
-- Only the new type fits what is wanted.
SELECT sum(a) FROM shardlet.query('m', 'SELECT a FROM t') AS q(a int);
SELECT count(*) FROM shardlet.execute('m', $$ALTER TABLE t ALTER a TYPE date USING DATE '2026-01-01' + a$$);
SELECT DISTINCT a FROM shardlet.query('m', 'SELECT a FROM t') AS q(a date) ORDER BY a;
-- Two statements that are open at a time.
BEGIN;
DECLARE c CURSOR FOR SELECT b FROM shardlet.query('m', 'SELECT b FROM t ORDER BY b') AS q(b text);
FETCH 2 FROM c;
SELECT count(*) FROM shardlet.execute('m', 'ALTER TABLE t ALTER b TYPE int USING b::int');
SELECT ordered();
FETCH 10 FROM c;
COMMIT;

SELECT count(*) FROM shardlet.execute('m', 'DROP TABLE t');
SELECT count(shardlet.drop_map(map)) FROM shardlet.maps;
DROP FUNCTION ordered;
