-- System columns: what a shard knows of a row comes with whole statements only.
CREATE SCHEMA plan_system;
SET search_path = plan_system, public;
SELECT shardlet.create_map('py', shards => '{s1,s2}');
CREATE TABLE t (k bigint PRIMARY KEY, v text);
CREATE TABLE o (k bigint, n int, PRIMARY KEY (k, n));
SELECT shardlet.distribute('t', 'py', 'k'), shardlet.distribute('o', 'py', 'k');
INSERT INTO t SELECT i, 'v' || i FROM generate_series(1, 20) i;
INSERT INTO o SELECT i, i FROM generate_series(1, 20) i;
-- A row's version, as applications compare it.
SELECT xmin AS version FROM t WHERE k = 1 \gset
UPDATE t SET v = 'first' WHERE k = 1 AND xmin = :'version' RETURNING xmin::text <> :'version' AS is_new;
UPDATE t SET v = 'second' WHERE k = 1 AND xmin = :'version' RETURNING v;
PREPARE change(bigint, xid) AS UPDATE t SET v = 'prepared' WHERE k = $1 AND xmin = $2 RETURNING v;
EXECUTE change(1, :'version');
SELECT xmin AS version FROM t WHERE k = 1 \gset
EXECUTE change(1, :'version');
EXECUTE change(1, :'version');
INSERT INTO t VALUES (100, 'x') RETURNING xmin IS NOT NULL AS has_version, xmax;
INSERT INTO t VALUES (101, 'x'), (102, 'y'), (103, 'z') RETURNING k, xmin IS NOT NULL AS has_version;
-- Of many rows.
CREATE TEMP TABLE known AS SELECT k, xmin AS x FROM t;
SELECT count(*), bool_and(known.x = s.x) FROM known JOIN (SELECT * FROM shardlet.query('py', 'SELECT k, xmin FROM plan_system.t') AS q(k bigint, x xid)) s USING (k);
SELECT k, xmax, ctid IS NOT NULL AS is_somewhere FROM t WHERE k < 4 ORDER BY k;
-- Duplicates of a key are on one shard.
DELETE FROM o a USING o b WHERE a.k = b.k AND a.ctid < b.ctid;
-- Rows of several shards can have the same ctid: it identifies rows only beside the key.
DELETE FROM t WHERE (k, ctid) IN (SELECT k, ctid FROM t WHERE k > 100 ORDER BY k LIMIT 2) RETURNING k;
SELECT count(*) FROM t a WHERE EXISTS (SELECT FROM t b WHERE b.k = a.k AND b.ctid = a.ctid);
SELECT count(*) FROM t WHERE ctid >= '(0,0)' AND ctid < '(1000,0)';
SELECT count(*) FROM (SELECT ctid, k FROM t GROUP BY ctid, k) g;
SELECT ctid AS place FROM t WHERE k = 5 \gset
UPDATE t SET v = 'by place' WHERE k = 5 AND ctid = :'place' RETURNING v;
\set VERBOSITY terse
DELETE FROM t WHERE ctid IN (SELECT ctid FROM t ORDER BY k LIMIT 3);
DELETE FROM t WHERE ctid = ANY (ARRAY(SELECT ctid FROM t ORDER BY k LIMIT 3));
DELETE FROM t WHERE (tableoid, ctid) IN (SELECT tableoid, ctid FROM t ORDER BY k LIMIT 3);
DELETE FROM t a USING t b WHERE a.v = b.v AND a.ctid < b.ctid;
UPDATE t SET v = 'x' WHERE ctid = '(0,1)';
PREPARE by_place(tid) AS DELETE FROM t WHERE ctid = $1;
EXECUTE by_place('(0,1)');
DEALLOCATE by_place;
WITH batch AS (SELECT ctid FROM t FOR UPDATE SKIP LOCKED) DELETE FROM t USING batch WHERE t.ctid = batch.ctid;
SELECT count(*) FROM t WHERE ctid <> '(0,1)';
SELECT count(*) FROM t WHERE ctid IN ('(0,1)', '(0,2)');
SELECT count(*) FROM t WHERE ctid IS DISTINCT FROM '(0,1)';
SELECT count(*) FROM t a WHERE EXISTS (SELECT FROM t b WHERE b.ctid = a.ctid);
SELECT count(DISTINCT ctid) FROM t;
SELECT DISTINCT ctid FROM t;
SELECT ctid FROM t GROUP BY ctid;
SELECT k, row_number() OVER (PARTITION BY ctid) FROM t;
\set VERBOSITY default
DELETE FROM t WHERE ctid = '(0,1)';
SELECT count(*) FROM t;
-- What the router finishes has no answer.
SELECT t.k, t.xmin FROM t JOIN o ON o.n = t.k + 1 ORDER BY 1 LIMIT 1;
\set VERBOSITY terse
SELECT xmax FROM t WHERE v = (SELECT max(v) FROM t);
SELECT 1 FROM o WHERE EXISTS (SELECT FROM t WHERE t.k = o.n + 1 AND t.cmin = '0');
UPDATE t SET v = v WHERE xmin = '3' AND k IN (SELECT n + 1 FROM o);
-- Behind a subquery that has fewer tables.
SELECT (SELECT count(*) FROM o), b.xmin FROM o a JOIN o c ON c.n = a.n + 1 JOIN t b ON b.k = c.n + 1;
INSERT INTO t SELECT k + 200, v FROM t RETURNING (SELECT count(*) FROM o WHERE o.k = t.k), xmax = 0;
CREATE FUNCTION pass() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TRIGGER pass BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION pass();
UPDATE t SET v = v WHERE k = 1 AND xmin = '3';
\set VERBOSITY default
DROP TRIGGER pass ON t;
SELECT count(*), count(DISTINCT tableoid::regclass) FROM t;
-- Shards follow lock_timeout.
SET lock_timeout = '12s';
SELECT DISTINCT a FROM shardlet.query('py', 'SHOW lock_timeout') AS q(a text, shardlet_shard name);
RESET lock_timeout;
SELECT DISTINCT a FROM shardlet.query('py', 'SHOW lock_timeout') AS q(a text, shardlet_shard name);

SET client_min_messages = warning;
DROP TABLE t, o;
SELECT count(*) FROM shardlet.execute('py', 'DROP SCHEMA plan_system CASCADE');
DROP SCHEMA plan_system CASCADE;
SELECT shardlet.drop_map('py');
