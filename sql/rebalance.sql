-- Rebalancing: the planner with made-up numbers, and maps with rows.
SET client_min_messages = warning;
CREATE SCHEMA rb;
SET search_path = rb;

-- 1,000 shards, 100,000 shardlets, loads by Zipf: no shard has more than 1.05 times its share, or one piece.
CREATE FUNCTION simulate(exponent float8, weights float8[], groups int[], share_of_shard int, OUT moves bigint, OUT enough bool, OUT short bool, OUT quick bool)
LANGUAGE plpgsql AS $$
DECLARE
	n int := cardinality(weights);
	count int := 100 * n;
	began timestamptz := clock_timestamp();
BEGIN
	CREATE TEMP TABLE pieces ON COMMIT DROP AS
		SELECT g AS piece, 1e9 / g ^ exponent AS size, 1 + (hashint4extended(g, 7) & 2147483647)::bigint % (n / share_of_shard) AS shard FROM generate_series(1, count) g;
	CREATE TEMP TABLE plan ON COMMIT DROP AS
		SELECT p.* FROM (SELECT array_agg(size ORDER BY piece) AS sizes, array_agg(shard::int ORDER BY piece) AS shards FROM pieces) i,
			shardlet_internal.balance_numbers(weights, groups, i.sizes, i.shards, array_fill(false, ARRAY[count])) p;
	SELECT max(l.load / weights[l.shard]) <= 1.05 * greatest((SELECT sum(size) FROM pieces) / (SELECT sum(w) FROM unnest(weights) w), (SELECT max(size) FROM pieces))
		INTO enough FROM (SELECT coalesce(to_shard, shard) AS shard, sum(size) AS load FROM pieces LEFT JOIN plan USING (piece) GROUP BY 1) l;
	SELECT count(*), count(*) = count(DISTINCT piece) INTO moves, short FROM plan;
	quick := clock_timestamp() - began < '30 s';
END $$;
SELECT enough, short, quick FROM simulate(0, array_fill(1::float8, ARRAY[1000]), array_fill(0, ARRAY[1000]), 1);
SELECT enough, short, quick FROM simulate(0.3, array_fill(1::float8, ARRAY[1000]), array_fill(0, ARRAY[1000]), 1);
SELECT enough, short, quick FROM simulate(0.6, array_fill(1::float8, ARRAY[1000]), array_fill(0, ARRAY[1000]), 1);
SELECT enough, short, quick FROM simulate(1, array_fill(1::float8, ARRAY[1000]), array_fill(0, ARRAY[1000]), 1);
SELECT enough, short, quick FROM simulate(1.2, array_fill(1::float8, ARRAY[1000]), array_fill(0, ARRAY[1000]), 1);
SELECT enough, short, quick FROM simulate(0.3, (SELECT array_agg(1 + i % 3 ORDER BY i)::float8[] FROM generate_series(1, 1000) i), array_fill(0, ARRAY[1000]), 1);
SELECT enough, short, quick FROM simulate(0.3, array_fill(1::float8, ARRAY[1000]), array_fill(0, ARRAY[1000]), 1000);
-- All that is needed, and no more.
SELECT * FROM shardlet_internal.balance_numbers('{1, 1}', '{0, 0}', '{10, 10, 10, 10}', '{1, 1, 2, 2}', '{f, f, f, f}');
SELECT * FROM shardlet_internal.balance_numbers('{1, 1}', '{0, 0}', '{10, 10, 10, 10}', '{1, 1, 1, 1}', '{f, f, f, f}');
-- The smallest piece that is enough.
SELECT * FROM shardlet_internal.balance_numbers('{1, 1}', '{0, 0}', '{50, 30, 20, 10, 10}', '{1, 1, 1, 1, 2}', '{f, f, f, f, f}');
-- Pinned ones stay; weights; a shard of weight 0 gives everything.
SELECT * FROM shardlet_internal.balance_numbers('{1, 1}', '{0, 0}', '{10, 10, 10, 10}', '{1, 1, 1, 1}', '{t, t, t, f}');
SELECT to_shard, count(*) FROM shardlet_internal.balance_numbers('{1, 3}', '{0, 0}', '{10, 10, 10, 10}', '{1, 1, 1, 1}', '{f, f, f, f}') GROUP BY 1;
SELECT from_shard, to_shard, count(*) FROM shardlet_internal.balance_numbers('{0, 1, 1}', '{0, 0, 0}', '{10, 10, 10, 10}', '{1, 1, 1, 1}', '{f, f, f, f}') GROUP BY 1, 2 ORDER BY 1, 2;
SELECT * FROM shardlet_internal.balance_numbers('{0, 1}', '{0, 0}', '{100, 1}', '{1, 2}', '{f, f}');
-- A piece that is larger than a share has its shard for itself.
SELECT piece, from_shard FROM shardlet_internal.balance_numbers('{1, 1, 1}', '{0, 0, 0}', '{1000, 10, 10, 10, 10}', '{1, 1, 1, 2, 3}', '{f, f, f, f, f}') ORDER BY 1;
-- Groups keep their pieces; a shard that takes no part (weight below 0) keeps its own.
SELECT * FROM shardlet_internal.balance_numbers('{1, 1, 1, 1}', '{0, 0, 1, 1}', '{10, 10, 1, 1, 1, 1}', '{1, 1, 3, 3, 3, 3}', '{f, f, f, f, f, f}');
SELECT * FROM shardlet_internal.balance_numbers('{-1, 1}', '{0, 0}', '{10, 10}', '{1, 1}', '{f, f}');
-- Only the first ones, and nothing where there is nothing.
SELECT count(*) FROM shardlet_internal.balance_numbers('{1, 1}', '{0, 0}', '{10, 10, 10, 10}', '{1, 1, 1, 1}', '{f, f, f, f}', 1);
SELECT count(*) FROM shardlet_internal.balance_numbers('{1, 1}', '{0, 0}', '{0, 0, 0}', '{1, 1, 1}', '{f, f, f}');
SELECT count(*) FROM shardlet_internal.balance_numbers('{}', '{}', '{}', '{}', '{}');

-- All shards are in one region for the rest of this test.
SELECT shard, region FROM shardlet.shards WHERE region IS NOT NULL;
SELECT shardlet.alter_shard('s2', region => '');

-- A shard comes: it gets its part, pinned shardlets stay, all rows are there.
SELECT shardlet.create_map('rb', shards => '{s1, s2}', shardlets => 12);
CREATE TABLE customers (id bigint PRIMARY KEY, name text);
CREATE TABLE orders (customer_id bigint REFERENCES customers, id int, PRIMARY KEY (customer_id, id));
SELECT shardlet.distribute_tables('{customers, orders}', 'rb', '{id, customer_id}');
INSERT INTO customers SELECT i, 'c' FROM generate_series(1, 6000) i;
INSERT INTO orders SELECT i, 1 FROM generate_series(1, 6000) i;
SELECT * FROM shardlet.rebalance_plan('rb');
SET client_min_messages = notice;
CALL shardlet.rebalance('rb');
SET client_min_messages = warning;
SELECT shardlet.alter_map('rb', add_shards => '{s3}');
SELECT shardlet.alter_shardlet(shardlet, pinned => true) FROM shardlet.shardlets WHERE map = 'rb' AND shard = 's1';
SELECT step, action, from_shard, to_shard, bytes BETWEEN 10000 AND 200000 AS bytes, seconds > 0 AS seconds, reason ~ '^shard "s2" has \d+ % of its share, and shard "s3" has \d+ % of its share\.$' AS reason
	FROM shardlet.rebalance_plan('rb', 'rows');
SELECT shardlet.alter_shardlet(shardlet, pinned => false) FROM shardlet.shardlets WHERE map = 'rb' AND shard = 's1';
SELECT from_shard, to_shard, count(*) FROM shardlet.rebalance_plan('rb') GROUP BY 1, 2 ORDER BY 1, 2;
SELECT count(*) FROM shardlet.rebalance_plan('rb', 'size', 1);
CALL shardlet.rebalance('rb', max_moves => 1, mode => 'read_only');
SELECT shard, count(*) FROM shardlet.shardlets WHERE map = 'rb' GROUP BY 1 ORDER BY 1;
CALL shardlet.rebalance('rb', parallel => 2);
SELECT shard, count(*) FROM shardlet.shardlets WHERE map = 'rb' GROUP BY 1 ORDER BY 1;
SELECT (SELECT count(*) FROM customers), (SELECT count(*) FROM orders);
-- A shard goes out of use by its weight.
SELECT shardlet.alter_shard('s3', weight => 0);
CALL shardlet.rebalance('rb');
SELECT shard, count(*) FROM shardlet.shardlets WHERE map = 'rb' GROUP BY 1 ORDER BY 1;
SELECT shardlet.alter_shard('s3', weight => 1);
-- Regions are kept.
SELECT shardlet.alter_shard('s3', region => 'far');
SELECT count(*) FROM shardlet.rebalance_plan('rb');
SELECT shardlet.alter_shard('s3', region => '');
-- Shards that are offline or read-only neither give nor take.
SELECT shardlet.alter_shard('s3', state => 'offline');
SELECT count(*) FROM shardlet.rebalance_plan('rb');
SELECT shardlet.alter_shard('s3', state => 'online');
-- By rows, what is skewed is seen: one tenant has a shardlet of its own.
SELECT shardlet.isolate_key('rb', 1) > 0;
INSERT INTO orders SELECT 1, i FROM generate_series(2, 20000) i;
SELECT count(*) FROM shardlet.rebalance_plan('rb', 'rows') p JOIN shardlet.locate('rb', 1) l USING (shardlet);
SELECT sum(bytes) > 0 AS others FROM shardlet.rebalance_plan('rb', 'rows') WHERE from_shard = shardlet.route('rb', 1);

-- Ranges and lists.
SELECT shardlet.create_map('rbr', 'range', '{int}', shards => '{s1, s2}');
SELECT count(shardlet.assign_range('rbr', 's1', i * 10, i * 10 + 10)) FROM generate_series(0, 3) i;
CREATE TABLE ranges (id int PRIMARY KEY);
SELECT shardlet.distribute('ranges', 'rbr', 'id');
INSERT INTO ranges SELECT generate_series(0, 39);
CALL shardlet.rebalance('rbr', 'rows');
SELECT shard, count(*) FROM shardlet.shardlets WHERE map = 'rbr' GROUP BY 1 ORDER BY 1;
SELECT count(*), sum(id) FROM ranges;
SELECT shardlet.create_map('rbl', 'list', '{text}', shards => '{s1, s2}');
SELECT shardlet.assign_keys('rbl', 's1', '{a, b, c}'::text[]), shardlet.assign_default('rbl', 's1') > 0;
CREATE TABLE lists (id text, n int, PRIMARY KEY (id, n));
SELECT shardlet.distribute('lists', 'rbl', 'id');
INSERT INTO lists SELECT k, i FROM unnest('{a, b, c, d}'::text[]) k, generate_series(1, 100) i;
CALL shardlet.rebalance('rbl');
SELECT shard, count(*) FROM shardlet.shardlets WHERE map = 'rbl' GROUP BY 1 ORDER BY 1;
SELECT count(*), count(DISTINCT id) FROM lists;

-- What cannot be.
SELECT * FROM shardlet.rebalance_plan('none');
SELECT * FROM shardlet.rebalance_plan(NULL);
SELECT * FROM shardlet.rebalance_plan('rb', 'colour');
SELECT * FROM shardlet.rebalance_plan('rb', NULL);
SELECT * FROM shardlet.rebalance_plan('rb', 'size', -1);
SELECT shardlet.create_map('rbs', 'spread');
SELECT * FROM shardlet.rebalance_plan('rbs');
CALL shardlet.rebalance('rb', parallel => 0);
CALL shardlet.rebalance('rb', mode => 'fast');
BEGIN;
CALL shardlet.rebalance('rb');
ROLLBACK;
SELECT * FROM shardlet_internal.balance_numbers('{1}', '{0}', '{1}', '{2}', '{f}');
SELECT * FROM shardlet_internal.balance_numbers('{1}', '{0}', '{1, NULL}', '{1, 1}', '{f, f}');
SELECT * FROM shardlet_internal.balance_numbers('{1}', '{0}', '{1, 2}', '{1}', '{f}');

SELECT shardlet.alter_shard('s2', region => 'north');
DROP SCHEMA rb CASCADE;
SELECT count(*) FROM shardlet.execute(NULL, 'DROP SCHEMA IF EXISTS rb CASCADE');
SELECT shardlet.drop_map(map) FROM shardlet.maps WHERE map LIKE 'rb%';
