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
