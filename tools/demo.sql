-- Four shards: databases of their own, here on one server.  Later each of them
-- can be on a machine of its own.
CREATE EXTENSION shardlet;
SELECT shardlet.add_shard('s1'), shardlet.add_shard('s2'), shardlet.add_shard('s3'), shardlet.add_shard('s4');
SELECT shard, state, dbname FROM shardlet.shards ORDER BY shard;
SELECT shard, ok, version FROM shardlet.health() ORDER BY shard;

-- A map from customers to shards: all hash values, cut into 32 shardlets.
SELECT shardlet.create_map('customers', shards => '{s1, s2, s3, s4}');
SELECT shard, count(*) AS shardlets FROM shardlet.shardlets WHERE map = 'customers' GROUP BY shard ORDER BY shard;

-- Where does customer 42 live?  And where do 100,000 customers?
SELECT shardlet.route('customers', 42);
SELECT shardlet, shard, state, version, dbname FROM shardlet.locate('customers', 42);
SELECT shardlet.route('customers', c) AS shard, count(*) FROM generate_series(1, 100000) c GROUP BY 1 ORDER BY 1;

-- By range, say of time: half open, and gaps are allowed.
SELECT shardlet.create_map('months', 'range', '{date}');
SELECT shardlet.assign_range('months', 's1', '2026-01-01', '2026-02-01') AS january,
	shardlet.assign_range('months', 's2', '2026-02-01', '2026-03-01') AS february;
SELECT shardlet.route('months', '2026-02-14');

-- By name, with a default for everyone else.
SELECT shardlet.create_map('by_country', 'list', '{text}');
SELECT shardlet.assign_keys('by_country', 's1', ARRAY['DE', 'AT', 'CH']), shardlet.assign_default('by_country', 's4') AS others;
SELECT c AS country, shardlet.route('by_country', c) AS shard FROM unnest(ARRAY['CH', 'FR']) c;

-- By a rule that your application has today: adopt it, move no row.
SELECT shardlet.create_map('legacy', 'list', via => '$1 % 4');
SELECT shardlet.assign_key('legacy', ('s' || r + 1)::name, r) AS shardlet, r AS remainder FROM generate_series(0, 3) r;
SELECT shardlet.route('legacy', 1001);

-- A table as it is, with rows: spread by customer, and plain SQL goes on.
CREATE TABLE orders (customer_id bigint, order_id int, total numeric, created date, PRIMARY KEY (customer_id, order_id));
INSERT INTO orders SELECT c, o, c * 2.5 + o, DATE '2026-01-01' + c FROM generate_series(1, 40) c, generate_series(1, 3) o;
CREATE VIEW big_orders AS SELECT * FROM orders WHERE total > 90;
SELECT shardlet.distribute('orders', 'customers', 'customer_id');
SELECT tbl, kind, map, key FROM shardlet.tables;
INSERT INTO orders VALUES (41, 1, 99, '2026-03-01') RETURNING *;
SELECT customer_id, sum(total) FROM orders GROUP BY customer_id ORDER BY 2 DESC LIMIT 3;
SELECT count(*) FROM big_orders;
EXPLAIN (VERBOSE, COSTS OFF) SELECT * FROM orders WHERE customer_id = 42;
EXPLAIN (VERBOSE, COSTS OFF) UPDATE orders SET total = 0 WHERE created < '2026-01-10';
ALTER TABLE orders ADD COLUMN note text;

-- A small table that every shard needs.
CREATE TABLE countries (code text PRIMARY KEY, name text);
SELECT shardlet.make_reference('countries');
INSERT INTO countries VALUES ('DE', 'Germany'), ('FR', 'France');
SELECT * FROM shardlet.query('customers', 'SELECT count(*) FROM countries') AS c(countries bigint, shardlet_shard name) ORDER BY 2;

-- One text on all shards: ordered, limited, streamed.
SELECT * FROM shardlet.query('customers', 'SELECT customer_id, total FROM orders ORDER BY created DESC LIMIT 5')
	AS o(customer_id bigint, total numeric);
SELECT * FROM shardlet.query('customers', 'SELECT count(*), sum(total) FROM orders')
	AS o(orders bigint, total numeric, shardlet_shard name) ORDER BY shardlet_shard;

-- A transaction over several shards: all of it, or nothing.
BEGIN;
UPDATE orders SET total = total - 10 WHERE customer_id = 7 AND order_id = 1 RETURNING total;
UPDATE orders SET total = total + 10 WHERE customer_id = 8 AND order_id = 1 RETURNING total;
SELECT shard, state, in_transaction FROM shardlet.connections WHERE pid = pg_backend_pid() ORDER BY shard;
ROLLBACK;
SELECT customer_id, total FROM orders WHERE customer_id IN (7, 8) AND order_id = 1 ORDER BY 1;

-- A shard that is down stops its own keys only, and says so.
SELECT shardlet.alter_shard('s2', state => 'offline');
SELECT shard, state, count(*) FROM generate_series(1, 1000) c, shardlet.locate('customers', c) GROUP BY 1, 2 ORDER BY 1;
SELECT count(*) FROM orders WHERE customer_id = 7;
SET shardlet.partial_results = on;
SELECT count(*) FROM orders;
RESET shardlet.partial_results;
SELECT shardlet.alter_shard('s2', state => 'online');

-- Applications that route themselves keep a copy of the map, and LISTEN.
SELECT jsonb_pretty(shardlet.map_json('months'));
