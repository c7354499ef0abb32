-- What the shards do, and what the router does; the answer is the same.
CREATE SCHEMA fdw_push;
-- This is about the wrapper, so the plans of whole statements are switched off.
SET shardlet.ship = off;
SET shardlet.scatter = off;
SET search_path = fdw_push;
SELECT shardlet.create_map('fu', shards => '{s1,s2,s3}');
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE TABLE customers (id bigint PRIMARY KEY, name text, region text COLLATE "C", m mood);
CREATE TABLE orders (customer_id bigint, id int, created timestamptz, status varchar(10), total numeric(12,2), PRIMARY KEY (customer_id, id));
INSERT INTO customers SELECT i, 'name ' || i, chr(97 + i % 3), (ARRAY['sad', 'ok', 'happy'])[1 + i % 3]::mood FROM generate_series(1, 30) i;
INSERT INTO orders SELECT 1 + i % 25, i, timestamptz '2026-01-01 00:00+00' + i * interval '7 hours', (ARRAY['new', 'paid', 'void'])[1 + i % 3], i * 1.5 FROM generate_series(1, 100) i;
CREATE TABLE plain_customers AS TABLE customers;
CREATE TABLE plain_orders AS TABLE orders;
CREATE TABLE config (name text PRIMARY KEY, value int);
INSERT INTO config VALUES ('a', 1), ('b', 2);
ANALYZE;
SELECT shardlet.distribute('customers', 'fu', 'id'), shardlet.distribute('orders', 'fu', 'customer_id'), shardlet.place('config', 's2');
CREATE FUNCTION own(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 + 1';
CREATE FUNCTION own_plpgsql(bigint) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN $1 + 1; END';
-- The remote statement, and what is left of the plan.
CREATE FUNCTION plan(statement text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) ' || statement LOOP
		IF line !~ 'Output:|Shards:|Cache Mode' THEN RETURN NEXT line; END IF;
	END LOOP;
END $$;
-- Conditions.
SELECT plan('SELECT name FROM customers WHERE region > ''a'' AND length(name) = 6 AND m = ''ok''');
SELECT plan('SELECT id FROM orders WHERE created > now() - interval ''1 day'' AND total BETWEEN 1 AND 2');
SELECT plan('SELECT id FROM orders WHERE date_trunc(''day'', created) = ''2026-01-03'' AND status LIKE ''n%''');
SELECT plan('SELECT id FROM orders WHERE own_plpgsql(customer_id) = 3 AND id = 1');
SELECT plan('SELECT id FROM orders WHERE customer_id = own_plpgsql(3)');
SELECT plan('SELECT id FROM orders WHERE id = (random() * 5)::int');
SELECT plan('SELECT id FROM orders WHERE created::text LIKE ''2026%''');
SELECT plan('SELECT name FROM customers WHERE name COLLATE "C" > ''name 2'' AND CASE region WHEN ''a'' THEN true ELSE id IN (1, 2) END');
-- A collation that only the router has is not named, of a literal neither.
CREATE COLLATION own (locale = "C");
SELECT plan('SELECT name FROM customers WHERE name > ''name 2'' COLLATE own');
SELECT count(*) FROM customers WHERE name > 'name 2' COLLATE own;
SELECT count(*) FROM customers WHERE id = 3 AND name > 'name 2' COLLATE own;
DROP COLLATION own;
SELECT plan('SELECT 1 FROM customers WHERE tableoid = 1 AND coalesce(nullif(name, ''x''), region) IS NOT NULL');
SELECT count(*) FROM orders WHERE date_trunc('day', created) = '2026-01-03';
SELECT count(*) FROM plain_orders WHERE date_trunc('day', created) = '2026-01-03';
SET timezone = 'America/New_York';
SELECT count(*) FROM orders WHERE date_trunc('day', created) = '2026-01-03';
SELECT count(*) FROM plain_orders WHERE date_trunc('day', created) = '2026-01-03';
RESET timezone;
-- Dates that are written in a form which cannot be read back.
SET datestyle = 'SQL, DMY';
SET timezone = 'Asia/Kolkata';
SELECT c.m, o.created FROM customers c JOIN orders o ON o.customer_id = c.id WHERE o.id = 3;
SELECT c.m, o.created FROM plain_customers c JOIN plain_orders o ON o.customer_id = c.id WHERE o.id = 3;
RESET datestyle;
RESET timezone;
-- Joins on the key.
SELECT plan('SELECT c.name, o.total FROM customers c JOIN orders o ON o.customer_id = c.id WHERE o.total > 100');
SELECT plan('SELECT c.name, o.total FROM customers c LEFT JOIN orders o ON o.customer_id = c.id AND o.status = ''new'' WHERE c.region = ''a''');
SELECT plan('SELECT c.name, o.total FROM customers c FULL JOIN (SELECT * FROM orders WHERE total > 140) o ON o.customer_id = c.id');
SET enable_hashjoin = off;
SELECT plan('SELECT name FROM customers c WHERE EXISTS (SELECT FROM orders o WHERE o.customer_id = c.id AND o.total > 140) AND id IN (1, 2)');
RESET enable_hashjoin;
SELECT plan('SELECT name FROM customers c WHERE NOT EXISTS (SELECT FROM orders o WHERE o.customer_id = c.id)');
SELECT plan('SELECT c.name FROM customers c LEFT JOIN orders o ON o.customer_id = c.id WHERE o.id IS NULL');
SELECT plan('SELECT a.id, b.id FROM orders a JOIN orders b ON a.id = b.id');
SELECT plan('SELECT c.name, o.id, p.id FROM customers c JOIN orders o ON o.customer_id = c.id JOIN orders p ON p.customer_id = o.customer_id AND p.id > o.id WHERE c.id = 7');
SELECT plan('SELECT * FROM config a JOIN config b ON a.value = b.value + 1');
SELECT c.name, o.total FROM customers c FULL JOIN (SELECT * FROM orders WHERE total > 140) o ON o.customer_id = c.id EXCEPT ALL
	SELECT c.name, o.total FROM plain_customers c FULL JOIN (SELECT * FROM plain_orders WHERE total > 140) o ON o.customer_id = c.id;
SELECT name FROM customers c WHERE NOT EXISTS (SELECT FROM orders o WHERE o.customer_id = c.id) ORDER BY id;
SELECT c.name FROM customers c LEFT JOIN orders o ON o.customer_id = c.id WHERE o.id IS NULL ORDER BY c.id;
-- Groups that are whole on a shard, and others.
SELECT plan('SELECT customer_id, count(*), sum(total) FROM orders GROUP BY customer_id HAVING count(*) > 4');
SELECT plan('SELECT status, count(*) FROM orders WHERE customer_id = 3 GROUP BY status');
SELECT plan('SELECT status, count(*) FROM orders GROUP BY status');
SELECT plan('SELECT c.id, string_agg(o.status, '','' ORDER BY o.id) FILTER (WHERE o.id > 3) FROM customers c LEFT JOIN orders o ON o.customer_id = c.id GROUP BY c.id');
SELECT plan('SELECT o.customer_id, count(*) FROM customers c LEFT JOIN orders o ON o.customer_id = c.id GROUP BY o.customer_id');
SELECT plan('SELECT DISTINCT customer_id, status FROM orders');
SELECT plan('SELECT count(*), max(value) FROM config');
SELECT o.customer_id, count(*) FROM customers c LEFT JOIN orders o ON o.customer_id = c.id GROUP BY o.customer_id ORDER BY 1 NULLS FIRST LIMIT 3;
-- Order and limit.
SELECT plan('SELECT name, region FROM customers ORDER BY region DESC, name LIMIT 3 OFFSET 1');
SELECT plan('SELECT m, id FROM customers ORDER BY m, id');
SELECT plan('SELECT upper(name) FROM customers ORDER BY length(name), name LIMIT 2');
SELECT plan('SELECT own(id::int) FROM customers ORDER BY name LIMIT 2');
SELECT plan('SELECT name FROM customers ORDER BY own_plpgsql(id) LIMIT 2');
SELECT plan('SELECT customer_id, sum(total) s FROM orders GROUP BY 1 ORDER BY s DESC, 1 LIMIT 2');
SELECT plan('SELECT id FROM orders ORDER BY id FETCH FIRST 2 ROWS WITH TIES');
SELECT name, region FROM customers ORDER BY region DESC, name LIMIT 3 OFFSET 1;
SELECT name, region FROM plain_customers ORDER BY region DESC, name LIMIT 3 OFFSET 1;
SELECT m, id FROM customers WHERE id < 7 ORDER BY m DESC, id;
SELECT own(id::int), name FROM customers ORDER BY name LIMIT 2;
SELECT name FROM customers ORDER BY own_plpgsql(id) LIMIT 2;
SELECT id FROM orders ORDER BY id LIMIT (SELECT 2) OFFSET 1;
SELECT id FROM orders ORDER BY id LIMIT NULL OFFSET 98;
SELECT id FROM orders ORDER BY id LIMIT 0;
PREPARE page(int, int) AS SELECT id FROM orders ORDER BY id LIMIT $1 OFFSET $2;
EXECUTE page(2, 3);
EXECUTE page(-1, 0);
EXECUTE page(1, -1);
SELECT plan('SELECT c.id, o.total FROM customers c LEFT JOIN orders o ON o.customer_id = c.id ORDER BY o.total, c.id');
-- Conditions on nothing but parameters.
SELECT count(*) FROM orders WHERE customer_id = 3 AND now() < '2000-01-01';
SELECT count(*) FROM orders WHERE customer_id = 3 AND now() > '2000-01-01';
SELECT DISTINCT id FROM customers WHERE now() < '2000-01-01';
SELECT id FROM customers WHERE now() < '2000-01-01' ORDER BY id LIMIT 3;
SELECT c.id, o.id FROM customers c LEFT JOIN (SELECT * FROM orders WHERE now() < '2000-01-01') o ON o.customer_id = c.id WHERE c.id < 3 ORDER BY 1, 2;
-- Locks.
SELECT plan('SELECT id FROM orders WHERE status = ''new'' ORDER BY created LIMIT 1 FOR UPDATE SKIP LOCKED');
SELECT plan('SELECT id FROM orders WHERE customer_id = 3 FOR KEY SHARE NOWAIT');
SELECT id FROM orders WHERE status = 'new' ORDER BY created LIMIT 1 FOR UPDATE SKIP LOCKED;
-- Rows as values, system columns.
SELECT c FROM customers c WHERE id = 4;
SELECT (c).m, row_to_json(c) FROM customers c WHERE id = 4;
SELECT tableoid::regclass, ctid IS NOT NULL AS has_ctid, id FROM customers WHERE id < 3 ORDER BY id;
SELECT count(DISTINCT (tableoid, ctid, id)) FROM customers;
-- Changes that go down as they are, and those that do not.
SELECT plan('UPDATE orders SET total = total + 1, status = upper(status) WHERE created < ''2026-01-02''');
SELECT plan('DELETE FROM orders WHERE customer_id = 3 RETURNING id');
SELECT plan('UPDATE customers SET id = id + 1000 WHERE id = 3');
SELECT plan('UPDATE orders o SET status = c.region FROM customers c WHERE c.id = o.customer_id AND c.id = 3');
SELECT plan('DELETE FROM orders WHERE own_plpgsql(id) = 5');
BEGIN;
UPDATE orders SET total = total + 1, status = upper(status) WHERE customer_id = 3 RETURNING id, status, total, now() = now() AS t;
DELETE FROM orders WHERE own_plpgsql(id) = 5 RETURNING *;
UPDATE customers SET id = id + 1000 WHERE id = 3 RETURNING *;
SELECT id, name FROM customers WHERE id IN (3, 1003);
ROLLBACK;
-- A statement sees what was there before it.
BEGIN;
WITH gone AS (DELETE FROM orders WHERE customer_id = 3 RETURNING id) SELECT (SELECT count(*) FROM gone), (SELECT count(*) FROM orders WHERE customer_id = 3);
INSERT INTO customers SELECT id + 100, name, region, m FROM customers;
SELECT count(*) FROM customers;
UPDATE customers SET id = id + 1000 WHERE id <= 130;
SELECT count(*), min(id), max(id) FROM customers;
UPDATE customers c SET name = (SELECT count(*)::text FROM customers d WHERE d.name = c.name) WHERE c.id < 1003;
SELECT id, name FROM customers WHERE id < 1003 ORDER BY id;
ROLLBACK;
-- Two streams of one shard, and early ends.
SELECT count(*) FROM customers c, LATERAL (SELECT id FROM orders o WHERE o.customer_id = c.id + 1 ORDER BY id LIMIT 1) x;
SELECT count(*) FROM plain_customers c, LATERAL (SELECT id FROM plain_orders o WHERE o.customer_id = c.id + 1 ORDER BY id LIMIT 1) x;
BEGIN;
DECLARE a CURSOR FOR SELECT id FROM orders ORDER BY id;
DECLARE b SCROLL CURSOR WITH HOLD FOR SELECT id FROM customers ORDER BY id;
FETCH 2 FROM a;
FETCH 3 FROM b;
FETCH BACKWARD 1 FROM b;
UPDATE orders SET total = 0 WHERE id = 3;
FETCH 2 FROM a;
SAVEPOINT s;
SELECT count(*) / 0 FROM orders;
ROLLBACK TO s;
FETCH 1 FROM a;
COMMIT;
FETCH 2 FROM b;
CLOSE b;
-- What the router computes for the shards is computed with the session's settings.
SET timezone = 'America/New_York';
SET extra_float_digits = 0;
SELECT count(*) FROM customers WHERE name || current_setting('timezone') = 'name 1America/New_York';
SELECT (SELECT name || v.t::text || v.f::text FROM customers WHERE id = 1 ORDER BY name || v.t::text || v.f::text LIMIT 1)
	FROM (VALUES (timestamptz '2026-01-01 00:00', 0.1::float8 + 0.2::float8)) v(t, f);
BEGIN;
UPDATE customers SET name = current_setting('timezone') WHERE id = 1 RETURNING name;
ROLLBACK;
RESET timezone;
RESET extra_float_digits;
-- A branch that is not taken is not computed.
SELECT plan('SELECT (SELECT count(*) FROM customers WHERE CASE WHEN v.x = 0 THEN true ELSE id = 10 / v.x END) FROM (VALUES (0), (2)) v(x)');
SELECT (SELECT count(*) FROM customers WHERE CASE WHEN v.x = 0 THEN true ELSE id = 10 / v.x END) FROM (VALUES (0), (2)) v(x);
SELECT (SELECT count(*) FROM customers WHERE v.x = 0 OR length(name) = 10 / v.x) FROM (VALUES (0), (1)) v(x);
SELECT (SELECT count(*) FROM customers WHERE coalesce(id, 10 / v.x) > 0) FROM (VALUES (0), (1)) v(x);
SELECT (SELECT count(*) FROM customers WHERE (v.x = 0 AND id = 3) OR (v.x <> 0 AND id = 10 / v.x)) FROM (VALUES (0), (1)) v(x);
SELECT plan('SELECT (SELECT count(*) FROM customers WHERE v.x IS NULL OR id = v.x OR name = v.x::text) FROM (VALUES (0), (1)) v(x)');
-- Rows that change shards are changed once, also if shards take turns.
SET shardlet.max_parallel_shards = 1;
BEGIN;
UPDATE customers SET id = id + 1000;
SELECT count(*), min(id), max(id) FROM customers;
ROLLBACK;
BEGIN;
WITH new AS (INSERT INTO customers SELECT id + 1000, name FROM plain_customers RETURNING id)
	UPDATE customers SET name = name || random()::int FROM new WHERE new.id = customers.id + 1000;
SELECT count(*) FROM customers;
ROLLBACK;
RESET shardlet.max_parallel_shards;
-- A condition that could tell of rows behind a security barrier is not checked before it.
CREATE VIEW barrier WITH (security_barrier) AS SELECT * FROM orders WHERE (customer_id % 2 + customer_id % 2 + customer_id % 2 + customer_id % 2 + customer_id % 2) = 0;
SELECT plan('UPDATE barrier SET total = 1 WHERE customer_id < 9 AND 1 / (customer_id - 3) >= 0');
SELECT plan('DELETE FROM barrier WHERE customer_id < 9');
BEGIN;
UPDATE barrier SET total = 1 WHERE 1 / (customer_id - 3) >= 0;
DELETE FROM barrier WHERE customer_id = 3 AND 1 / (customer_id - 3) = 0;
UPDATE barrier b SET total = 2 FROM plain_customers p WHERE 1 / (b.customer_id - 3 + p.id - p.id) >= 0 AND p.id = b.id AND b.id < 20;
ROLLBACK;
DROP VIEW barrier;
-- A failure among rows that are still to come is told, not what became of the transaction.
UPDATE orders SET total = total FROM plain_customers p WHERE p.id = customer_id AND 1 / (orders.id - 99) < 2 RETURNING orders.id;
-- Statistics.
SELECT count(*) FROM orders WHERE total = 0;
ANALYZE orders;
SELECT reltuples, relpages > 0 AS has_pages FROM pg_class WHERE oid = 'orders'::regclass;
SELECT attname, n_distinct, null_frac FROM pg_stats WHERE schemaname = 'fdw_push' AND tablename = 'orders' AND attname IN ('status', 'id') ORDER BY 1;
SET client_min_messages = warning;
DROP TABLE customers, orders, config;
DROP SCHEMA fdw_push CASCADE;
SELECT shardlet.drop_map('fu');
SELECT count(*) FROM shardlet.execute(NULL, 'DROP SCHEMA IF EXISTS fdw_push CASCADE');
