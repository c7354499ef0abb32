-- Shards of one server that run the same statement do not start workers for each of them.
SET client_min_messages = warning;
CREATE SCHEMA gn;
SET search_path = gn;
SELECT shardlet.create_map('gn', shards => '{s1,s2,s4}', shardlets => 3);
CREATE TABLE t (k bigint NOT NULL, v int);
SELECT shardlet.distribute('t', 'gn', 'k');
INSERT INTO t SELECT g, g % 5 FROM generate_series(1, 100) g;

-- What shards are told: s1 and s2 have one address, s4 says that it has another.
SELECT count(*), sum(v) FROM t;
SELECT v FROM t WHERE k = 7;
UPDATE t SET v = 0 WHERE k = 7;
SELECT shardlet_shard, split_part(statement, ' ', 1), substring(statement FROM '/\*.*') FROM shardlet.query('gn', 'SELECT statement FROM pg_catalog.pg_prepared_statements')
	AS q(statement text, shardlet_shard name) WHERE statement LIKE '%gn.t%' ORDER BY 1, 2, 3;

\c contrib_regression_s1
SET search_path = gn;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 2;
EXPLAIN (COSTS OFF) SELECT count(*) FROM t /* shardlet: shards here: 1 */\g
EXPLAIN (COSTS OFF) SELECT count(*) FROM t /* shardlet: shards here: 100000 */\g
-- Such a plan is run by one process, wherever in it workers would be.
SELECT count(*), sum(k) > 0 FROM t /* shardlet: shards here: 100000 */\g
SELECT count(*) FROM t a JOIN t b USING (k) WHERE a.k > (SELECT min(k) FROM t) /* shardlet: shards here: 100000 */\g
-- Anything else is a comment, and none lets a statement have more than it may.
EXPLAIN (COSTS OFF) SELECT count(*) FROM t /* shardlet: shards here: 0 */\g
EXPLAIN (COSTS OFF) SELECT count(*) FROM t /* shardlet: shards here: -3 */\g
EXPLAIN (COSTS OFF) SELECT count(*) FROM t /* shardlet: shards here: many */\g
EXPLAIN (COSTS OFF) SELECT count(*) FROM t /* shardlet: shards here: 100000 */ WHERE v > 0 \g
SET max_parallel_workers_per_gather = 0;
EXPLAIN (COSTS OFF) SELECT count(*) FROM t /* shardlet: shards here: 1 */\g

\c contrib_regression
SET client_min_messages = warning;
DROP TABLE gn.t;
DROP SCHEMA gn CASCADE;
SELECT shardlet.drop_map('gn');
