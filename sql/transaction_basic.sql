-- What runs on shards is part of the session's transaction.
ALTER SEQUENCE shardlet.shardlet_id_seq RESTART;
SELECT shardlet.create_map('m', 'list', '{int}');
SELECT shardlet.assign_key('m', 's' || g, g) FROM generate_series(1, 4) g;
SELECT count(*) FROM shardlet.execute('m', 'CREATE TABLE t (a int PRIMARY KEY, b text, UNIQUE (b) DEFERRABLE INITIALLY DEFERRED)');
-- put(k, a, b) writes to the shard of key k.
CREATE FUNCTION put(k int, a int, b text) RETURNS int LANGUAGE sql
AS $$SELECT * FROM shardlet.query_key('m', 'INSERT INTO t VALUES ($1, $2) RETURNING a', ARRAY[a::text, b], k) AS q(a int)$$;
CREATE VIEW rows AS
SELECT * FROM shardlet.query('m', 'SELECT a, b FROM t ORDER BY a, b') AS q(a int, b text);

-- Commit and rollback, on one shard and on several.
BEGIN;
SELECT put(1, 1, 'one'), put(2, 2, 'two'), put(3, 3, 'three');
SELECT shard, in_transaction FROM shardlet.connections WHERE pid = pg_backend_pid() AND in_transaction ORDER BY shard;
SELECT * FROM rows;
ROLLBACK;
SELECT * FROM rows;
BEGIN;
SELECT put(1, 1, 'one'), put(2, 2, 'two'), put(3, 3, 'three');
COMMIT;
SELECT * FROM rows;
SELECT count(*) FROM shardlet.connections WHERE pid = pg_backend_pid() AND in_transaction;
SELECT * FROM shardlet.prepared_transactions;

-- An error anywhere undoes everything.
BEGIN;
SELECT put(1, 11, 'x');
SELECT put(2, 2, 'again');
SELECT 1;
COMMIT;
SELECT put(1, 12, 'x'), put(2, 12, 'y'), 1 / 0;
SELECT 1 / (q.a - q.a) FROM shardlet.query_key('m', 'INSERT INTO t VALUES (13) RETURNING a', NULL, 1) AS q(a int);
SELECT * FROM shardlet.query_key('m', 'INSERT INTO t VALUES (14) RETURNING a', NULL, 1) AS q(a int) \; SELECT 1 / 0;
DO $$
BEGIN
	PERFORM put(3, 15, 'x'), put(4, 15, 'x');
	RAISE EXCEPTION 'no';
END $$;
SELECT * FROM rows;
-- Several statements in one text are one transaction.
SELECT put(1, 16, 'x') \; SELECT put(2, 16, 'x');
SELECT * FROM rows WHERE a > 3;

-- Constraints that are checked at the end.
BEGIN;
SELECT put(1, 21, 'one');
COMMIT;
BEGIN;
SELECT put(1, 21, 'one'), put(2, 21, 'ok');
COMMIT;
SELECT put(1, 21, 'one');
SELECT * FROM rows WHERE a > 20;
SELECT * FROM shardlet.prepared_transactions;

-- The router's own changes belong to it.
CREATE TABLE local (a int PRIMARY KEY);
CREATE SEQUENCE seq;
BEGIN;
INSERT INTO local VALUES (1);
SELECT put(1, 31, 'l');
COMMIT;
BEGIN;
INSERT INTO local VALUES (2);
SELECT put(1, 32, 'l2');
ROLLBACK;
SELECT put(2, nextval('seq')::int + 40, 'seq');
BEGIN;
NOTIFY somebody;
SELECT put(1, 33, 'n');
COMMIT;
SELECT * FROM local;
SELECT * FROM rows WHERE a > 30;

-- Isolation and access mode are the session's.
CREATE FUNCTION modes() RETURNS text LANGUAGE sql
AS $$SELECT * FROM shardlet.query_key('m', 'SELECT concat_ws('', '', current_setting(''transaction_isolation''), current_setting(''transaction_read_only''), current_setting(''transaction_deferrable''))', NULL, 1) AS q(a text)$$;
BEGIN;
SELECT modes();
SET TRANSACTION READ ONLY;
SELECT modes();
COMMIT;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT modes();
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE;
SELECT modes();
COMMIT;
BEGIN READ ONLY;
SELECT put(1, 51, 'x');
ROLLBACK;

-- A function behind a SELECT may write: by itself, in a transaction, and not at
-- all in one that only reads.
SELECT count(*) FROM shardlet.execute('m', 'CREATE FUNCTION f(a int) RETURNS int LANGUAGE sql AS ''INSERT INTO t VALUES (a) RETURNING a''');
SELECT * FROM shardlet.query_key('m', 'SELECT f(61)', NULL, 1) AS q(a int);
SELECT * FROM shardlet.query('m', 'SELECT f(62)') AS q(a int);
BEGIN;
SELECT * FROM shardlet.query('m', 'SELECT f(63)') AS q(a int);
ROLLBACK;
SELECT * FROM shardlet.query('m', 'SELECT f(64 / CASE current_database() WHEN ''contrib_regression_s4'' THEN 0 ELSE 1 END)') AS q(a int);
BEGIN READ ONLY;
SELECT * FROM shardlet.query_key('m', 'SELECT f(65)', NULL, 1) AS q(a int);
ROLLBACK;
SELECT a, count(*) FROM rows WHERE a > 60 GROUP BY a ORDER BY a;

-- The transaction goes on after a reader that stopped early, and after a shard
-- that was left out.
BEGIN;
SELECT put(1, 71, 'e');
SELECT * FROM shardlet.query('m', 'SELECT g FROM generate_series(1, 1000000) g') AS q(a int) LIMIT 1;
SELECT * FROM shardlet.query_key('m', 'SELECT g FROM generate_series(1, 100000) g', NULL, 1) AS q(a int) LIMIT 1;
SELECT count(*) FROM shardlet.query('m', 'SELECT 1 / CASE current_database() WHEN ''contrib_regression_s1'' THEN 0 ELSE 1 END', on_error => 'skip') AS q(a int);
SELECT shard, command, rows, error FROM shardlet.execute('m', 'UPDATE t SET b = 1 / CASE current_database() WHEN ''contrib_regression_s1'' THEN 0 ELSE 1 END WHERE a = 62', on_error => 'skip');
SELECT put(1, 72, 'e2');
COMMIT;
SELECT * FROM rows WHERE a IN (62, 71, 72);

-- A table changes under a statement that commits with itself.
SELECT count(*) FROM shardlet.execute('m', 'CREATE TABLE u (a int, b int)');
SELECT * FROM shardlet.query_key('m', 'INSERT INTO u VALUES (1, 2) RETURNING *', NULL, 1) AS q(a int, b bigint);
SELECT count(*) FROM shardlet.execute('m', 'ALTER TABLE u ALTER b TYPE bigint');
SELECT * FROM shardlet.query_key('m', 'INSERT INTO u VALUES (1, 2) RETURNING *', NULL, 1) AS q(a int, b bigint);
SELECT * FROM shardlet.query_key('m', 'SELECT count(*) FROM u', NULL, 1) AS q(a bigint);
-- An argument that writes makes two shards of one.
SELECT * FROM shardlet.query_key('m', 'INSERT INTO u VALUES (5, 5) RETURNING a / 0', NULL, put(2, 91, 'arg') - 90) AS q(a int);
SELECT * FROM rows WHERE a = 91;
-- A command that reads may write too.
SELECT count(*) FROM shardlet.execute('m', 'CREATE SEQUENCE sq');
SELECT shard, command, rows FROM shardlet.execute('m', 'SELECT nextval(''sq'')');
SELECT count(*) FROM shardlet.execute('m', 'DROP SEQUENCE sq');
SELECT count(*) FROM shardlet.execute('m', 'DROP TABLE u');

-- What is refused.
SELECT * FROM shardlet.execute('m', 'COMMIT');
SELECT * FROM shardlet.execute('m', 'PREPARE TRANSACTION ''x''');
BEGIN;
SELECT put(1, 81, 'x');
SELECT * FROM shardlet.execute('m', 'VACUUM t', atomic => false);
ROLLBACK;
BEGIN;
SELECT put(1, 81, 'x');
PREPARE TRANSACTION 'mine';
SELECT * FROM rows WHERE a > 80;
SET shardlet.multi_shard_transactions = off;
BEGIN;
SELECT put(1, 82, 'x');
SELECT put(1, 83, 'y');
SELECT put(2, 82, 'x');
ROLLBACK;
SELECT * FROM shardlet.execute('m', 'DELETE FROM t');
SELECT count(*) FROM shardlet.query('m', 'DELETE FROM t RETURNING a') AS q(a int);
SELECT put(1, 84, 'z');
BEGIN;
SELECT * FROM shardlet.query_key('m', 'SELECT f(85)', NULL, 1) AS q(a int);
SELECT * FROM shardlet.query_key('m', 'SELECT f(85)', NULL, 2) AS q(a int);
COMMIT;
SELECT * FROM rows WHERE a > 80;
RESET shardlet.multi_shard_transactions;

SELECT count(*) FROM shardlet.connections WHERE pid = pg_backend_pid() AND (in_transaction OR state <> 'idle');
SELECT count(*) FROM shardlet.execute('m', 'DROP FUNCTION f; ');
SELECT count(*) FROM shardlet.execute('m', 'DROP TABLE t');
DROP VIEW rows;
DROP FUNCTION put, modes;
DROP TABLE local;
DROP SEQUENCE seq;
SELECT shardlet.drop_map('m');
