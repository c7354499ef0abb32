-- TABLESAMPLE of sharded tables that are ordinary tables on the router: each shard samples
-- its own rows.  A sample of 100 % is the whole table, in whatever plan.
SET client_min_messages = warning;
CREATE SCHEMA ts_plain;
CREATE SCHEMA ts;
SET search_path = ts, public;
SELECT shardlet.create_map('ts_map');
CREATE TABLE items (gone int, k bigint PRIMARY KEY, v text, n int);
ALTER TABLE items DROP COLUMN gone;
CREATE TABLE marks (k bigint NOT NULL, m int);
CREATE TABLE parts (k bigint, d int, PRIMARY KEY (k, d)) PARTITION BY LIST (d);
CREATE TABLE parts_0 PARTITION OF parts FOR VALUES IN (0);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES IN (1);
CREATE TABLE names (k bigint PRIMARY KEY, name text);
CREATE TABLE local (k bigint PRIMARY KEY, x int);
INSERT INTO items SELECT i, 'v' || i % 10, i FROM generate_series(1, 400) i;
INSERT INTO marks SELECT i % 100 + 1, i FROM generate_series(1, 300) i;
INSERT INTO parts SELECT i, i % 2 FROM generate_series(1, 100) i;
INSERT INTO names SELECT i, 'name ' || i FROM generate_series(1, 50) i;
INSERT INTO local SELECT i, i % 7 FROM generate_series(1, 50) i;
CREATE TABLE ts_plain.items AS TABLE items;
CREATE TABLE ts_plain.marks AS TABLE marks;
CREATE TABLE ts_plain.parts AS TABLE parts;
CREATE TABLE ts_plain.parts_1 AS TABLE parts_1;
CREATE TABLE ts_plain.names AS TABLE names;
CREATE TABLE ts_plain.local AS TABLE local;
SELECT shardlet.distribute('items', 'ts_map', 'k'), shardlet.distribute('marks', 'ts_map', 'k'),
	shardlet.distribute('parts', 'ts_map', 'k'), shardlet.make_reference('names');

-- One shard, and all shards.
SELECT by_road('SELECT * FROM items TABLESAMPLE BERNOULLI (100) WHERE k = 7');
SELECT by_road('SELECT * FROM items TABLESAMPLE SYSTEM (100) REPEATABLE (3) WHERE k = 7');
SELECT by_road('SELECT * FROM items TABLESAMPLE BERNOULLI (100)');
SELECT by_road('SELECT v, k FROM items TABLESAMPLE SYSTEM (100) REPEATABLE (1) ORDER BY n LIMIT 7');
SELECT by_road('SELECT * FROM items TABLESAMPLE SYSTEM (0)');
SELECT by_road('SELECT i.k, m FROM items i TABLESAMPLE BERNOULLI (100) JOIN marks TABLESAMPLE SYSTEM (100) USING (k)');
SELECT by_road('SELECT k, count(*) FROM marks TABLESAMPLE BERNOULLI (50 + 50) GROUP BY k');
SELECT by_road('SELECT k, xmin IS NULL FROM items TABLESAMPLE BERNOULLI (100) WHERE k < 5');
SELECT by_road('SELECT * FROM parts TABLESAMPLE BERNOULLI (100)');
SELECT by_road('SELECT * FROM parts_1 TABLESAMPLE BERNOULLI (100)');
SELECT count(*) FROM ONLY parts TABLESAMPLE BERNOULLI (100);
SELECT by_road('SELECT i.k, name FROM items i TABLESAMPLE BERNOULLI (100) JOIN names USING (k)');
-- A part of the statement is for shards.
SELECT by_road('SELECT count(*), sum(n) FROM items TABLESAMPLE BERNOULLI (100)');
SELECT by_road('SELECT v, count(*), min(n) FROM items TABLESAMPLE SYSTEM (100) GROUP BY v HAVING count(*) > 1');
SELECT by_road('SELECT DISTINCT v FROM items TABLESAMPLE SYSTEM (100)');
SELECT by_road('SELECT i.k, x FROM items i TABLESAMPLE BERNOULLI (100) JOIN local USING (k) WHERE n > 3');
SELECT by_road('SELECT i.n, l.x FROM local l LEFT JOIN items i TABLESAMPLE BERNOULLI (100) ON i.k = l.x');
SELECT by_road('SELECT i.v, m.m FROM items i TABLESAMPLE BERNOULLI (100) JOIN marks m TABLESAMPLE SYSTEM (100) ON i.n = m.m WHERE i.n < 20');
SELECT by_road('SELECT x FROM local WHERE k IN (SELECT n FROM items TABLESAMPLE BERNOULLI (100))');
SELECT by_road('SELECT x FROM local l WHERE EXISTS (SELECT FROM items TABLESAMPLE SYSTEM (100) WHERE n = l.k AND n > 10)');
SELECT by_road('SELECT x, (SELECT max(n) FROM items TABLESAMPLE SYSTEM (100) WHERE v = ''v'' || l.x) FROM local l');
SELECT by_road('WITH s AS (SELECT * FROM items TABLESAMPLE SYSTEM (100)) SELECT s.k, x FROM s JOIN local USING (k)');
SELECT by_road('SELECT k FROM items TABLESAMPLE SYSTEM (100) WHERE n < 9 UNION SELECT k FROM local');
-- Each shard would take another sample of a reference table: the router takes it.
SELECT by_road('SELECT k, name FROM items JOIN names TABLESAMPLE BERNOULLI (100) USING (k)');
SELECT by_road('SELECT name FROM items JOIN names TABLESAMPLE BERNOULLI (100) USING (k) WHERE k = 5');
-- What is sent.
EXPLAIN (VERBOSE, COSTS OFF) SELECT k FROM items TABLESAMPLE BERNOULLI (50) REPEATABLE (3) WHERE k = 7;
EXPLAIN (VERBOSE, COSTS OFF) SELECT v FROM items TABLESAMPLE SYSTEM (50) ORDER BY v LIMIT 3;
SET enable_mergejoin = off;
EXPLAIN (VERBOSE, COSTS OFF) SELECT v, x FROM items TABLESAMPLE BERNOULLI (50) REPEATABLE (7) JOIN local USING (k);
RESET enable_mergejoin;

-- It is a sample, the same one if REPEATABLE says so.
SELECT count(*) BETWEEN 100 AND 300 AS ok FROM items TABLESAMPLE BERNOULLI (50);
SELECT array_agg(k ORDER BY k) = (SELECT array_agg(k ORDER BY k) FROM items TABLESAMPLE BERNOULLI (50) REPEATABLE (9)) AS same,
	count(*) BETWEEN 100 AND 300 AS ok FROM items TABLESAMPLE BERNOULLI (50) REPEATABLE (9);
SELECT array_agg(k ORDER BY k) = (SELECT array_agg(k ORDER BY k) FROM items TABLESAMPLE BERNOULLI (50) REPEATABLE (8)) AS same
	FROM items TABLESAMPLE BERNOULLI (50) REPEATABLE (9);
-- Arguments, in prepared statements too.
PREPARE sample (real, float8) AS SELECT count(*) FROM items TABLESAMPLE BERNOULLI ($1) REPEATABLE ($2);
SET plan_cache_mode = force_generic_plan;
EXECUTE sample(100, 1);
EXECUTE sample(0, 1);
\set VERBOSITY terse
EXECUTE sample(101, 1);
EXECUTE sample(NULL, 1);
EXECUTE sample(100, NULL);
\set VERBOSITY default
RESET plan_cache_mode;
DEALLOCATE sample;
SELECT count(*) FROM items TABLESAMPLE BERNOULLI (extract(epoch FROM now() - now()) + 100);

-- Writes.
BEGIN;
UPDATE items SET v = 'x' FROM marks TABLESAMPLE SYSTEM (100) WHERE marks.k = items.k;
SELECT count(*) FROM items WHERE v = 'x';
UPDATE items SET v = 'y' FROM marks TABLESAMPLE SYSTEM (100) WHERE m = n AND items.k < 10;
SELECT count(*) FROM items WHERE v = 'y';
INSERT INTO local SELECT k, n FROM items TABLESAMPLE SYSTEM (100) WHERE k > 50;
SELECT count(*) FROM local;
SELECT v FROM items TABLESAMPLE SYSTEM (100) WHERE k = 4 FOR UPDATE;
ROLLBACK;

-- Not pushed down: foreign scans do not sample.
SELECT items FROM items TABLESAMPLE BERNOULLI (100) WHERE k < 3;
SELECT k FROM items TABLESAMPLE BERNOULLI (100) WHERE k < 3 FOR UPDATE;
SELECT k FROM items TABLESAMPLE BERNOULLI (100 * random());
SELECT * FROM (VALUES (0), (100)) p(p), LATERAL (SELECT count(*) FROM items TABLESAMPLE BERNOULLI (p)) q;
SET shardlet.scatter = off;
SELECT count(*) FROM items TABLESAMPLE BERNOULLI (100);
RESET shardlet.scatter;

-- Privileges: only columns that the statement refers to are read.
\set VERBOSITY terse
CREATE ROLE ts_user;
GRANT USAGE ON SCHEMA ts TO ts_user;
GRANT SELECT (k) ON items TO ts_user;
GRANT SELECT ON local TO ts_user;
SET ROLE ts_user;
SELECT count(v) FROM items TABLESAMPLE BERNOULLI (100);
SELECT max(v) FROM items TABLESAMPLE BERNOULLI (100) JOIN local USING (k);
SELECT count(k) FROM items TABLESAMPLE BERNOULLI (100) JOIN local USING (k);
RESET ROLE;
\set VERBOSITY default
REVOKE ALL (k) ON items FROM ts_user;
REVOKE ALL ON local FROM ts_user;
REVOKE ALL ON SCHEMA ts FROM ts_user;
DROP ROLE ts_user;
DROP SCHEMA ts, ts_plain CASCADE;
SELECT shardlet.drop_map('ts_map');
SELECT count(*) FROM shardlet.execute(NULL, 'DROP SCHEMA IF EXISTS ts CASCADE');
