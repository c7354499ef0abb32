-- What a statement, and a transaction, sees of the shards.
ALTER SEQUENCE shardlet.shardlet_id_seq RESTART;
SELECT shardlet.create_map('m', 'list', '{int}');
SELECT shardlet.assign_key('m', 's' || g, g) FROM generate_series(1, 4) g;
SELECT count(*) FROM shardlet.execute('m', 'CREATE TABLE t (a int PRIMARY KEY)');
CREATE FUNCTION put(k int, a int) RETURNS int LANGUAGE sql
AS $$SELECT * FROM shardlet.query_key('m', 'INSERT INTO t VALUES ($1) RETURNING a', ARRAY[a::text], k) AS q(a int)$$;

-- Several scans in one statement run in one snapshot; one scan needs none.
SELECT q.a FROM shardlet.query_key('m', 'SELECT current_setting(''transaction_isolation'')', NULL, 1) AS q(a text);
SELECT q.a, p.a FROM shardlet.query_key('m', 'SELECT current_setting(''transaction_isolation'')', NULL, 1) AS q(a text),
	shardlet.query_key('m', 'SELECT current_setting(''transaction_read_only'')', NULL, 1) AS p(a text);
SELECT q.a FROM generate_series(1, 2) g,
	LATERAL shardlet.query_key('m', 'SELECT current_setting(''transaction_isolation'') || $1', ARRAY[g::text], 1) AS q(a text);
BEGIN;
SELECT q.a FROM generate_series(1, 2) g,
	LATERAL shardlet.query_key('m', 'SELECT current_setting(''transaction_isolation'') || $1', ARRAY[g::text], 1) AS q(a text);
SELECT put(1, 1);
SELECT q.a FROM shardlet.query_key('m', 'SELECT current_setting(''transaction_isolation'')', NULL, 1) AS q(a text);
COMMIT;

SET default_transaction_isolation = 'repeatable read';
SELECT q.a, p.a FROM shardlet.query_key('m', 'SELECT current_setting(''transaction_isolation'')', NULL, 1) AS q(a text),
	shardlet.query_key('m', 'SELECT current_setting(''transaction_isolation'') || 2', NULL, 1) AS p(a text);
RESET default_transaction_isolation;

-- After own writes too, and without what the statement itself writes.
BEGIN;
SELECT put(1, 21);
SELECT g, q.n, put(1, 30 + g) FROM generate_series(1, 3) g,
	LATERAL shardlet.query_key('m', 'SELECT count(*) FROM t WHERE a > $1', ARRAY[(20 + g * 0)::text], 1) AS q(n bigint);
SELECT q.n, put(1, 40), p.n FROM shardlet.query_key('m', 'SELECT count(*) FROM t WHERE a > 20', NULL, 1) AS q(n bigint),
	shardlet.query_key('m', 'SELECT count(*) FROM t WHERE a > 20 AND true', NULL, 1) AS p(n bigint);
SAVEPOINT a;
SELECT g, q.n, put(1, 50 + g) FROM generate_series(1, 2) g,
	LATERAL shardlet.query_key('m', 'SELECT count(*) FROM t WHERE a > $1', ARRAY[(20 + g * 0)::text], 1) AS q(n bigint);
ROLLBACK TO a;
SELECT g, q.n FROM generate_series(1, 2) g,
	LATERAL shardlet.query_key('m', 'SELECT count(*) FROM t WHERE a > $1', ARRAY[(20 + g * 0)::text], 1) AS q(n bigint);
ROLLBACK;

-- Snapshots of several shards that agree.
SHOW shardlet.consistent_reads;
SELECT * FROM shardlet.query('m', 'SELECT current_setting(''transaction_isolation'') WHERE EXISTS (SELECT FROM t)') AS q(a text);
SELECT * FROM shardlet.query('m', 'SELECT a FROM t ORDER BY a LIMIT 1') AS q(a int);
SELECT * FROM shardlet.query('m', 'SELECT g FROM generate_series(1, 1000000) g') AS q(a int) LIMIT 1;
SELECT * FROM shardlet.query('m', 'SELECT 1 / CASE current_database() WHEN ''contrib_regression_s1'' THEN 0 ELSE 1 END', shards => '{s1,s2}', on_error => 'skip') AS q(a int);
SELECT count(*) FROM shardlet.connections WHERE pid = pg_backend_pid() AND in_transaction;
BEGIN;
SELECT put(1, 2);
SELECT * FROM shardlet.query('m', 'SELECT a FROM t ORDER BY a') AS q(a int);
ROLLBACK;
SELECT * FROM shardlet.query('m', 'SELECT a FROM t ORDER BY a') AS q(a int);
BEGIN;
SELECT put(1, 2);
SELECT put(2, 2);
SELECT * FROM shardlet.query('m', 'SELECT a FROM t ORDER BY a') AS q(a int);
SELECT * FROM shardlet.query('m', 'SELECT g FROM generate_series(1, 1000000) g') AS q(a int) LIMIT 1;
SELECT count(*) FROM shardlet.query('m', 'SELECT a FROM t', shards => '{s1,s2}') AS q(a int), shardlet.query('m', 'SELECT 1', shards => '{s3,s4}') AS p(a int);
SELECT count(*) FROM shardlet.connections WHERE pid = pg_backend_pid() AND in_transaction;
COMMIT;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SAVEPOINT a;
SELECT * FROM shardlet.query('m', 'SELECT a FROM t ORDER BY a') AS q(a int);
ROLLBACK TO a;
SELECT * FROM shardlet.query('m', 'SELECT a FROM t ORDER BY a') AS q(a int);
COMMIT;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT * FROM shardlet.query_key('m', 'SELECT a FROM t ORDER BY a', NULL, 2) AS q(a int);
SELECT count(*) FROM shardlet.connections WHERE pid = pg_backend_pid() AND in_transaction;
\c -
-- A shard that joins later is welcome as long as no commit is in between.
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT shardlet.alter_shard('s4', state => 'offline');
SELECT * FROM shardlet.query('m', 'SELECT a FROM t ORDER BY a', shards => '{s1,s2}') AS q(a int);
SELECT shardlet.alter_shard('s4', state => 'online');
SELECT * FROM shardlet.query('m', 'SELECT a FROM t ORDER BY a', shards => '{s4}') AS q(a int);
ROLLBACK;
-- A function that writes cannot be part of a snapshot; it runs in a transaction.
SELECT count(*) FROM shardlet.execute('m', 'CREATE FUNCTION f(a int) RETURNS int LANGUAGE sql AS ''INSERT INTO t VALUES (a) RETURNING a''');
SELECT * FROM shardlet.query('m', 'SELECT f(10)') AS q(a int);
SELECT * FROM shardlet.query('m', 'SELECT f(11 / CASE current_database() WHEN ''contrib_regression_s4'' THEN 0 ELSE 1 END)') AS q(a int);
SELECT count(*) FROM shardlet.query('m', 'SELECT a FROM t') AS q(a int);

-- A statement that changes rows one by one does not see what it has changed.
CREATE TABLE w (k int, v int, PRIMARY KEY (k, v));
SELECT shardlet.distribute('w', 'm', 'k');
INSERT INTO w SELECT k, v FROM generate_series(1, 4) k, generate_series(1, 5) v;
SET shardlet.ship = off;
SET shardlet.scatter = off;
BEGIN;
DELETE FROM w a WHERE v = (SELECT min(v) FROM w b WHERE b.k = a.k);
SELECT count(*), min(v) FROM w;
ROLLBACK;
BEGIN ISOLATION LEVEL REPEATABLE READ;
DELETE FROM w a WHERE v = (SELECT min(v) FROM w b WHERE b.k = a.k);
SELECT count(*), min(v) FROM w;
UPDATE w a SET v = (SELECT max(v) + 1 FROM w b WHERE b.k = a.k) WHERE v = 2;
SELECT count(*), min(v), max(v) FROM w;
ROLLBACK;
BEGIN ISOLATION LEVEL SERIALIZABLE;
DELETE FROM w a WHERE v = (SELECT min(v) FROM w b WHERE b.k = a.k);
SELECT count(*), min(v) FROM w;
ROLLBACK;
RESET shardlet.ship;
RESET shardlet.scatter;
DROP TABLE w;

SELECT count(*) FROM shardlet.execute('m', 'DROP FUNCTION f');
SELECT count(*) FROM shardlet.execute('m', 'DROP TABLE t');
DROP FUNCTION put;
SELECT shardlet.drop_map('m');
