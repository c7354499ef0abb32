-- ORDER BY or DISTINCT ON a column whose name an output column has that is something else:
-- each shard has to take the table's.
SELECT shardlet.create_map('m');
CREATE TABLE t (k bigint, n int, v int, PRIMARY KEY (k, n));
CREATE TABLE plain (LIKE t);
SELECT shardlet.distribute('t', 'm', 'k');
INSERT INTO t SELECT k, n, 10 * n + k FROM generate_series(1, 5) k, generate_series(1, 4) n;
INSERT INTO plain SELECT * FROM t;
-- One shard.
SELECT -n AS n, v FROM t WHERE k = 3 ORDER BY t.n LIMIT 2;
SELECT -n AS n, v FROM plain t WHERE k = 3 ORDER BY t.n LIMIT 2;
SELECT n AS v, v AS n FROM t WHERE k = 3 ORDER BY t.n DESC LIMIT 2;
SELECT n AS v, v AS n FROM plain t WHERE k = 3 ORDER BY t.n DESC LIMIT 2;
SELECT DISTINCT ON (t.n) k AS n FROM t WHERE k = 3;
SELECT DISTINCT ON (t.n) k AS n FROM plain t WHERE k = 3;
-- All of them.
SELECT k AS n, n AS k FROM t ORDER BY 1 DESC, 2 LIMIT 3;
SELECT k AS n, n AS k FROM plain t ORDER BY 1 DESC, 2 LIMIT 3;
SELECT CASE WHEN k > 2 THEN v ELSE v END, n, v FROM t ORDER BY 3 LIMIT 3;
SELECT CASE WHEN k > 2 THEN v ELSE v END, n, v FROM plain t ORDER BY 3 LIMIT 3;
SELECT -v AS v FROM t ORDER BY t.v LIMIT 3;
SELECT -v AS v FROM plain t ORDER BY t.v LIMIT 3;
SELECT DISTINCT ON (t.k) 'x' AS k FROM t;
SELECT DISTINCT ON (t.k) 'x' AS k FROM plain t;
SELECT DISTINCT ON (t.n, t.k) 'x' AS n, 0 AS k FROM t WHERE k = 3;
SELECT DISTINCT ON (t.n, t.k) 'x' AS n, 0 AS k FROM plain t WHERE k = 3;
-- The same column twice is no such case.
SELECT v, v FROM t ORDER BY v LIMIT 2;
EXPLAIN (VERBOSE, COSTS OFF) SELECT -n AS n, v FROM t WHERE k = 3 ORDER BY t.n LIMIT 2;
DROP TABLE t, plain;
SELECT shardlet.drop_map('m');
