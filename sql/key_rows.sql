-- Everything of one key: counted, exported, deleted, copied from another database.
SET client_min_messages = notice;
CREATE SCHEMA kr;
SET search_path = kr;
SELECT shardlet.create_map('kr', shards => '{s1, s2}', shardlets => 4);
CREATE TABLE customers (id bigint PRIMARY KEY, name text, note text COLLATE "C");
CREATE TABLE orders (
	customer_id bigint REFERENCES customers,
	id bigint GENERATED ALWAYS AS IDENTITY,
	before bigint,
	tags text[],
	tag_count int GENERATED ALWAYS AS (cardinality(tags)) STORED,
	PRIMARY KEY (customer_id, id),
	FOREIGN KEY (customer_id, before) REFERENCES orders);
-- Comes first by name, and last by foreign keys; it is partitioned.
CREATE TABLE a_items (customer_id bigint NOT NULL, order_id bigint, at date, price numeric(8, 2), took interval,
	FOREIGN KEY (customer_id, order_id) REFERENCES orders) PARTITION BY RANGE (at);
CREATE TABLE a_items_1 PARTITION OF a_items FOR VALUES FROM ('2024-01-01') TO ('2025-01-01');
CREATE TABLE "odd Name" ("Key" int NOT NULL, v text);
SELECT shardlet.distribute_tables('{customers, orders, a_items, "\"odd Name\""}', 'kr', '{id, customer_id, customer_id, "\"Key\""}');
INSERT INTO customers SELECT i, CASE WHEN i % 2 = 1 THEN E'a\tb\\\n.' || i END, '\.' FROM generate_series(1, 20) i;
INSERT INTO orders (customer_id, tags) SELECT i % 20 + 1, ARRAY['x', NULL, E'"\\'] FROM generate_series(1, 60) i;
INSERT INTO a_items SELECT customer_id, id, '2024-05-01', 12.5, '1 day 2 hours' FROM orders;
INSERT INTO "odd Name" SELECT i, 'v' FROM generate_series(1, 20) i;
\set SHOW_CONTEXT never

SELECT tbl, rows, bytes > 24 AS bytes FROM shardlet.key_tables('kr', 7);
SELECT sum(rows), sum(bytes) FROM shardlet.key_tables('kr', 7000);
-- A literal without a type, an array, another integer type, a type that cannot be the key's.
SELECT sum(rows) FROM shardlet.key_tables('kr', '7');
SELECT sum(rows) FROM shardlet.key_tables('kr', VARIADIC '{7}'::int[]);
SELECT sum(rows) FROM shardlet.key_tables('kr', 7::smallint);
SELECT sum(rows) FROM shardlet.key_tables('kr', now());
-- The settings of the session change nothing of a script.
SET datestyle = 'German';
SET intervalstyle = 'sql_standard';
SELECT * FROM shardlet.export_key('kr', 7);
RESET datestyle;
RESET intervalstyle;

-- It is restored elsewhere: in a database without shardlet's tables.
CREATE TABLE before AS SELECT * FROM shardlet.key_tables('kr', 7);
SELECT host, port FROM shardlet.shards WHERE shard = 's4' \gset
\o results/key_rows_export.sql
\pset format unaligned
\pset tuples_only
SELECT * FROM shardlet.export_key('kr', 7);
\o
\pset format aligned
\pset tuples_only
\c contrib_regression_s4
CREATE SCHEMA kr;
SET search_path = kr;
CREATE TABLE customers (id bigint PRIMARY KEY, name text, note text COLLATE "C");
CREATE TABLE orders (
	customer_id bigint REFERENCES customers,
	id bigint GENERATED ALWAYS AS IDENTITY,
	before bigint,
	tags text[],
	tag_count int GENERATED ALWAYS AS (cardinality(tags)) STORED,
	PRIMARY KEY (customer_id, id),
	FOREIGN KEY (customer_id, before) REFERENCES orders);
CREATE TABLE a_items (customer_id bigint NOT NULL, order_id bigint, at date, price numeric(8, 2), took interval,
	FOREIGN KEY (customer_id, order_id) REFERENCES orders);
CREATE TABLE "odd Name" ("Key" int NOT NULL, v text);
\i results/key_rows_export.sql
\set ON_ERROR_STOP off
SELECT * FROM customers;
SELECT * FROM orders ORDER BY id;
SELECT * FROM a_items ORDER BY order_id;
SELECT * FROM "odd Name";
-- From now on it is the backup that rows come back from.  Rows refer to later ones.
INSERT INTO kr.customers SELECT i, 'backup' FROM generate_series(8, 9) i;
INSERT INTO kr.orders (customer_id, id, before, tags) OVERRIDING SYSTEM VALUE SELECT 8, i, nullif(i + 1, 2501), '{}' FROM generate_series(2500, 1, -1) i;

\c contrib_regression
SET search_path = kr;
\set SHOW_CONTEXT never
SELECT format('host=%s port=%s dbname=contrib_regression_s4', host, port) AS source FROM shardlet.shards WHERE shard = 's4' \gset
-- Refused while there are rows; deleting is part of the transaction.
CALL shardlet.copy_key('kr', :'source', 8);
BEGIN;
CALL shardlet.delete_key('kr', 8);
SELECT sum(rows) FROM shardlet.key_tables('kr', 8);
ROLLBACK;
SELECT sum(rows) FROM shardlet.key_tables('kr', 8);
BEGIN;
SAVEPOINT a;
CALL shardlet.delete_key('kr', '8');
CALL shardlet.copy_key('kr', :'source', '8');
ROLLBACK TO a;
SELECT tbl, rows FROM shardlet.key_tables('kr', 8);
CALL shardlet.delete_key('kr', 8);
CALL shardlet.copy_key('kr', :'source', 8);
COMMIT;
SELECT tbl, rows FROM shardlet.key_tables('kr', 8);
SELECT * FROM customers WHERE id BETWEEN 7 AND 9 ORDER BY id;
SELECT count(*), sum(id), sum(before) FROM orders WHERE customer_id = 8;
SELECT (SELECT count(*) FROM customers), (SELECT count(*) FROM orders WHERE customer_id <> 8);
-- Again, with other keys untouched.
CALL shardlet.delete_key('kr', 7);
CALL shardlet.copy_key('kr', :'source', 7);
SELECT * FROM (SELECT * FROM before EXCEPT SELECT * FROM shardlet.key_tables('kr', 7)) b;
SELECT name, took, tags FROM customers JOIN orders o ON customer_id = customers.id JOIN a_items a USING (customer_id) WHERE o.id = order_id AND customer_id = 7 ORDER BY o.id LIMIT 1;

-- Nothing is left of a copy that fails at its last table.
\c contrib_regression_s4
ALTER TABLE kr."odd Name" RENAME TO gone;
\c contrib_regression
SET search_path = kr;
\set SHOW_CONTEXT never
SELECT format('host=%s port=%s dbname=contrib_regression_s4', host, port) AS source FROM shardlet.shards WHERE shard = 's4' \gset
SET client_min_messages = warning;
CALL shardlet.delete_key('kr', 8);
\set VERBOSITY sqlstate
CALL shardlet.copy_key('kr', :'source', 8);
\set VERBOSITY default
SELECT sum(rows) FROM shardlet.key_tables('kr', 8);
\c contrib_regression_s4
ALTER TABLE kr.gone RENAME TO "odd Name";
ALTER TABLE kr."odd Name" ADD more int;
\c contrib_regression
SET search_path = kr;
\set SHOW_CONTEXT never
SELECT format('host=%s port=%s dbname=contrib_regression_s4', host, port) AS source FROM shardlet.shards WHERE shard = 's4' \gset
CALL shardlet.copy_key('kr', :'source', 8);
ALTER TABLE "odd Name" ADD more int, ADD other int;
CALL shardlet.copy_key('kr', :'source', 8);
ALTER TABLE "odd Name" DROP other;
CALL shardlet.copy_key('kr', :'source', 8);
-- The count is compared: a trigger of the shard drops a row.
SET client_min_messages = warning;
CALL shardlet.delete_key('kr', 9);
SELECT count(*) FROM shardlet.execute('kr', $$CREATE FUNCTION kr.lose() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'$$);
SELECT count(*) FROM shardlet.execute('kr', 'CREATE TRIGGER lose BEFORE INSERT ON kr.customers FOR EACH ROW WHEN (NEW.id = 9) EXECUTE FUNCTION kr.lose()');
\set VERBOSITY sqlstate
CALL shardlet.copy_key('kr', :'source', 9);
\set VERBOSITY default
SELECT sum(rows) FROM shardlet.key_tables('kr', 9);
RESET client_min_messages;

-- Rows that hang on by a foreign key to such a table are named: of the router, and of a shard alone.
SELECT shardlet.route('kr', 5) AS shard \gset
SET client_min_messages = warning;
CREATE TABLE notes (customer_id bigint REFERENCES customers);
INSERT INTO notes VALUES (4);
SELECT count(*) FROM shardlet.execute(NULL, 'CREATE TABLE kr.own (customer_id bigint CONSTRAINT own_to REFERENCES kr.customers)', shards => ARRAY[:'shard'::name]);
SELECT tbl, rows FROM shardlet.key_tables('kr', 5);
SELECT count(*) FROM shardlet.export_key('kr', 5);
BEGIN;
CALL shardlet.delete_key('kr', 5);
ROLLBACK;
-- One of them keeps the key from being deleted: nothing is.
SELECT count(*) FROM shardlet.execute(NULL, 'INSERT INTO kr.own VALUES (5)', shards => ARRAY[:'shard'::name]);
\set VERBOSITY sqlstate
CALL shardlet.delete_key('kr', 5);
CALL shardlet.delete_key('kr', 4);
\set VERBOSITY default
SELECT count(*) FROM shardlet.execute(NULL, 'DROP TABLE kr.own', shards => ARRAY[:'shard'::name]);
DROP TABLE notes;
SELECT tbl, rows FROM shardlet.key_tables('kr', 5);

-- Keys of two columns; CALL takes them one by one and as an array.
SELECT shardlet.create_map('kr2', key_types => '{int, int}');
CREATE TABLE pairs (a int, b int, v text, PRIMARY KEY (a, b));
SELECT shardlet.distribute('pairs', 'kr2', 'a, b');
INSERT INTO pairs SELECT i, j, 'x' FROM generate_series(1, 3) i, generate_series(1, 3) j;
RESET client_min_messages;
CALL shardlet.delete_key('kr2', 1, 2);
CALL shardlet.delete_key('kr2', VARIADIC ARRAY[2, 2]);
SELECT a, b FROM pairs WHERE a < 3 ORDER BY a, b;
SELECT tbl, rows FROM shardlet.key_tables('kr2', 1, 3);
CALL shardlet.delete_key('kr2', 1);
CALL shardlet.delete_key('kr2', 1, NULL);

-- What cannot be.
CALL shardlet.delete_key('kr', NULL);
CALL shardlet.delete_key('none', 1);
CALL shardlet.delete_key(NULL, 1);
SELECT shardlet.create_map('krs', 'spread');
CALL shardlet.delete_key('krs', 1);
SELECT shardlet.create_map('krl', 'list', '{text}');
SELECT * FROM shardlet.export_key('krl', 'nowhere');
CALL shardlet.copy_key('kr', NULL, 3000);
CALL shardlet.copy_key('kr', 'host', 3000);
\set VERBOSITY sqlstate
CALL shardlet.copy_key('kr', 'host=/nowhere dbname=x', 3000);
BEGIN READ ONLY;
CALL shardlet.delete_key('kr', 3);
ROLLBACK;
SELECT shardlet.alter_shard('s1', state => 'offline'), shardlet.alter_shard('s2', state => 'offline');
SELECT * FROM shardlet.key_tables('kr', 3);
CALL shardlet.delete_key('kr', 3);
SELECT * FROM shardlet.export_key('kr', 3);
CALL shardlet.copy_key('kr', 'host=/nowhere dbname=x', 3000);
SELECT shardlet.alter_shard('s1', state => 'online'), shardlet.alter_shard('s2', state => 'online');
-- Row security hides no row silently, and privileges are those of the tables.
\set VERBOSITY default
SET client_min_messages = warning;
CREATE ROLE regress_kr;
GRANT USAGE ON SCHEMA kr, shardlet TO regress_kr;
SET ROLE regress_kr;
CALL shardlet.delete_key('kr', 3);
RESET ROLE;
GRANT EXECUTE ON PROCEDURE shardlet.delete_key(name, "any"), shardlet.copy_key(name, text, "any") TO regress_kr;
GRANT EXECUTE ON FUNCTION shardlet.key_tables(name, "any") TO regress_kr;
SET ROLE regress_kr;
\set VERBOSITY sqlstate
CALL shardlet.delete_key('kr', 3);
SELECT * FROM shardlet.key_tables('kr', 3);
CALL shardlet.copy_key('kr', 'host=/nowhere dbname=x', 3000);
RESET ROLE;
\set VERBOSITY default
REVOKE EXECUTE ON PROCEDURE shardlet.delete_key(name, "any"), shardlet.copy_key(name, text, "any") FROM regress_kr;
REVOKE EXECUTE ON FUNCTION shardlet.key_tables(name, "any") FROM regress_kr;

DROP SCHEMA kr CASCADE;
SELECT count(*) FROM shardlet.execute(NULL, 'DROP SCHEMA IF EXISTS kr CASCADE');
REVOKE USAGE ON SCHEMA shardlet FROM regress_kr;
DROP ROLE regress_kr;
SELECT shardlet.drop_map(map) FROM shardlet.maps WHERE map LIKE 'kr%';
