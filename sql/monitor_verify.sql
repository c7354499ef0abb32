-- Every fault that verify() finds in one server is planted, found, and healed by its own repair.
CREATE SCHEMA verify;
SET search_path = verify;
SELECT shardlet.create_map('v', shardlets => 8), shardlet.create_map('vl', 'list', '{text}'), shardlet.create_map('vs', 'spread');
SELECT shardlet.assign_keys('vl', 's1', '{a,b}'::text[]), shardlet.assign_key('vl', 's2', 'c') > 0 AS c, shardlet.assign_default('vl', 's3') > 0 AS others;
CREATE TABLE country (code text PRIMARY KEY, name text);
INSERT INTO country VALUES ('de', 'Germany'), ('fr', 'France');
SELECT shardlet.make_reference('country');
CREATE TABLE customer (id bigint PRIMARY KEY, name text NOT NULL, country text REFERENCES country,
	size numeric GENERATED ALWAYS AS (length(name)) STORED);
CREATE TABLE orders (customer_id bigint REFERENCES customer, id bigint, amount numeric DEFAULT 3, PRIMARY KEY (customer_id, id));
CREATE INDEX orders_amount ON orders (amount);
SELECT shardlet.distribute_tables('{customer, orders}', 'v', '{id, customer_id}');
INSERT INTO customer SELECT i, 'n' || i, 'de' FROM generate_series(1, 40) i;
INSERT INTO orders SELECT i, j FROM generate_series(1, 40) i, generate_series(1, 2) j;
CREATE TABLE named (k text PRIMARY KEY, v int);
SELECT shardlet.distribute('named', 'vl', 'k');
INSERT INTO named VALUES ('a', 1), ('c', 2), ('zz', 3);
CREATE TABLE "Part s" ("The k" bigint NOT NULL, d date, j jsonb, i int GENERATED ALWAYS AS IDENTITY, PRIMARY KEY ("The k", d)) PARTITION BY RANGE (d);
CREATE TABLE part_1 PARTITION OF "Part s" FOR VALUES FROM ('2024-01-01') TO ('2025-01-01');
CREATE TABLE part_2 PARTITION OF "Part s" DEFAULT;
SELECT shardlet.distribute('"Part s"', 'v', '"The k"');
INSERT INTO "Part s" SELECT i, '2024-12-01'::date + i, 'null' FROM generate_series(1, 60) i;
CREATE TABLE visit (id bigint, customer_id bigint);
SELECT shardlet.distribute('visit', 'vs');
INSERT INTO visit SELECT i, i FROM generate_series(1, 8) i;
-- What verify() finds for the tables of this test; nothing to begin with.
CREATE VIEW findings AS
SELECT f.severity, f.object, f.shard, f.problem, f.rows, f.repair
FROM (VALUES ('v'::name), ('vl'), ('vs')) m(map)
	CROSS JOIN LATERAL shardlet.verify(m.map) f
UNION ALL
SELECT f.* FROM shardlet.verify(tbl => 'verify.country') f
UNION ALL
SELECT f.severity, f.object, f.shard, regexp_replace(f.problem, 'since \S+', 'since ...'), f.rows, f.repair
FROM shardlet.verify() f
WHERE f.object ~ '^(publication|prepared)';
SELECT * FROM findings;
SELECT * FROM shardlet.verify('v', deep => true);
-- Rows and definitions of shard s1, with everything turned off that would refuse them.
\c contrib_regression_s1
SET search_path = verify;
SET session_replication_role = replica;
INSERT INTO customer SELECT i, 'wrong', 'de' FROM generate_series(101, 110) i;
INSERT INTO customer SELECT i, 'n' || i, 'de' FROM generate_series(1, 40) i ON CONFLICT DO NOTHING;
INSERT INTO named VALUES ('q', 9);
UPDATE country SET name = 'x' WHERE code = 'de';
INSERT INTO country VALUES ('xx', 'y');
DELETE FROM country WHERE code = 'fr';
RESET session_replication_role;
DROP INDEX orders_amount;
ALTER TABLE named ADD extra int;
ALTER TABLE customer ALTER name DROP NOT NULL;
ALTER TABLE orders DISABLE TRIGGER "!shardlet_guard";
DROP TRIGGER "!shardlet_guard_truncate" ON named;
DROP TRIGGER "!shardlet_guard" ON country;
ALTER TABLE part_2 DISABLE TRIGGER "!shardlet_guard_truncate";
SET session_replication_role = replica;
INSERT INTO "Part s" OVERRIDING SYSTEM VALUE SELECT i, '2024-12-15'::date + i, 'null', -i FROM generate_series(101, 130) i;
RESET session_replication_role;
DROP TABLE visit;
DELETE FROM shardlet.catalog_guard_shardlet
WHERE (map, shardlet) = (SELECT map, min(shardlet) FROM shardlet.owned WHERE owner IS NULL AND map = 'v' GROUP BY map);
\c contrib_regression_s2
SET search_path = verify;
ALTER TABLE orders DROP CONSTRAINT orders_customer_id_fkey;
ALTER TABLE named ALTER v TYPE bigint;
CREATE INDEX named_own ON named (v);
SET session_replication_role = replica;
DELETE FROM orders WHERE customer_id = (SELECT min(id) FROM customer) AND id = 1;
DELETE FROM customer WHERE id = (SELECT min(id) FROM customer);
RESET session_replication_role;
BEGIN;
CREATE TABLE verify_prepared ();
PREPARE TRANSACTION 'verify';
CREATE PUBLICATION shardlet_0000abcd_5_7;
\c contrib_regression
SET search_path = verify;
SELECT severity, object, shard, problem, rows FROM findings;
-- What would be done comes first.
SELECT * FROM shardlet.repair_rows('customer', 's1', 'move', true);
SELECT * FROM shardlet.repair_rows('customer', 's1', 'delete', true);
SELECT * FROM shardlet.repair_rows('customer', 's1', 'delete_copies', true);
-- The repairs, as they stand.
\pset tuples_only on
SELECT repair FROM findings WHERE repair IS NOT NULL \gexec
\pset tuples_only off
SELECT * FROM findings;
SELECT count(*), count(DISTINCT id) FROM customer;
SELECT count(*) FROM orders;
TABLE named ORDER BY k;
SELECT count(*), count(*) FILTER (WHERE j = 'null') AS nulls, sum(i) FILTER (WHERE i < 0) AS ids FROM "Part s";
-- A reference that PostgreSQL cannot declare.
INSERT INTO visit VALUES (100, 1000), (101, NULL);
SELECT shardlet.declare_reference('visit', 'customer_id', 'customer', 'id');
SELECT severity, object, shard, problem, rows FROM shardlet.verify(tbl => 'visit');
\pset tuples_only on
SELECT repair FROM shardlet.verify(tbl => 'visit') \gexec
\pset tuples_only off
SELECT * FROM shardlet.verify(tbl => 'visit');
INSERT INTO visit VALUES (100, 1000);
SELECT shardlet.declare_reference('visit', 'customer_id', 'customer', 'id', false);
SELECT * FROM shardlet.verify(tbl => 'visit');
-- An attached table claims a key that no shard can check alone.
SELECT shard, error FROM shardlet.execute('v', 'CREATE TABLE verify.claim (k bigint NOT NULL, email text UNIQUE)');
SELECT shardlet.attach('verify.claim', 'v', 'k');
INSERT INTO claim SELECT i, 'same@example.com' FROM generate_series(1, 40, 13) i WHERE i IN (1, 14);
SELECT shardlet.route('v', 1::bigint) <> shardlet.route('v', 14::bigint) AS two_shards;
SELECT severity, object, shard, problem, rows, repair FROM shardlet.verify('v', 'claim');
-- The transaction goes on, also with writes; ROLLBACK takes a repair back.
BEGIN;
SELECT count(*) FROM shardlet.verify('v');
SELECT * FROM shardlet.execute('v', 'DELETE FROM verify.claim', shards => '{s1}', on_error => 'skip');
INSERT INTO customer SELECT i, 'new', 'fr' FROM generate_series(201, 240) i;
ROLLBACK;
SELECT count(*) FROM customer;
-- Wrong input.
\set VERBOSITY terse
SELECT * FROM shardlet.verify('none');
SELECT * FROM shardlet.verify(tbl => 'pg_class');
SELECT * FROM shardlet.verify('vs', 'customer');
SELECT * FROM shardlet.repair_rows('customer', 's1', 'other');
SELECT * FROM shardlet.repair_rows('country', 's1');
SELECT * FROM shardlet.repair_rows('customer', 'none');
SELECT * FROM shardlet.repair_rows(NULL, 's1');
SELECT shardlet.repair_shard('s1', 'other');
SELECT shardlet.repair_shard(NULL);
SELECT shardlet.rollback_prepared('s1', 'none');
SELECT shardlet.declare_reference('visit', 'none', 'customer', 'id');
SELECT shardlet.declare_reference('visit', 'id, customer_id', 'customer', 'id');
SELECT shardlet.declare_reference('visit', NULL, 'customer', 'id');
-- Not for everyone.
CREATE ROLE verify_user;
SET ROLE verify_user;
SELECT * FROM shardlet.verify();
SELECT * FROM shardlet.repair_rows(NULL, 's1');
SELECT shardlet.repair_shard('s1');
RESET ROLE;
DROP ROLE verify_user;
SET client_min_messages = warning;
DROP TABLE claim, visit, named, "Part s", orders, customer, country CASCADE;
SELECT error FROM shardlet.execute('v', 'DROP SCHEMA verify CASCADE');
DROP SCHEMA verify CASCADE;
SELECT shardlet.drop_map('v'), shardlet.drop_map('vl'), shardlet.drop_map('vs');
