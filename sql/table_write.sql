-- INSERT, UPDATE, DELETE and TRUNCATE of a sharded table do what they do to a
-- plain one: same rows, same counts, same errors, wherever the rows live.
CREATE SCHEMA tw;
SET search_path = tw;
SELECT shardlet.create_map('tw_map');
CREATE TYPE mood AS ENUM ('calm', 'angry');
CREATE TABLE orders (
	customer_id bigint,
	order_id bigint,
	status text DEFAULT 'new',
	total numeric(12,2) CHECK (total >= 0),
	twice numeric GENERATED ALWAYS AS (total * 2) STORED,
	feeling mood,
	tags text[],
	PRIMARY KEY (customer_id, order_id));
CREATE TABLE plain (LIKE orders INCLUDING ALL);
SELECT shardlet.distribute('orders', 'tw_map', 'customer_id');
-- Both tables must always hold the same.
CREATE FUNCTION differences() RETURNS bigint LANGUAGE sql AS $$
	SELECT (SELECT count(*) FROM (TABLE orders EXCEPT ALL TABLE plain) a)
		+ (SELECT count(*) FROM (TABLE plain EXCEPT ALL TABLE orders) b) $$;

-- Single rows, several, many (which go through COPY), columns in any order.
INSERT INTO orders (customer_id, order_id, total) VALUES (1, 1, 10);
INSERT INTO plain (customer_id, order_id, total) VALUES (1, 1, 10);
INSERT INTO orders (feeling, order_id, customer_id, tags) VALUES ('calm', 1, 2, '{a,"b,c",NULL}'), ('angry', 1, 3, '{}');
INSERT INTO plain (feeling, order_id, customer_id, tags) VALUES ('calm', 1, 2, '{a,"b,c",NULL}'), ('angry', 1, 3, '{}');
INSERT INTO orders (customer_id, order_id, status, total, feeling) SELECT g % 100, g, E'tab\tback\\slash\n', g, 'calm' FROM generate_series(1000, 3000) g;
\echo :ROW_COUNT
INSERT INTO plain (customer_id, order_id, status, total, feeling) SELECT g % 100, g, E'tab\tback\\slash\n', g, 'calm' FROM generate_series(1000, 3000) g;
SELECT differences();
-- The rows are where the map says.
SELECT count(*) FROM shardlet.query('tw_map', 'SELECT customer_id, order_id FROM tw.orders')
	AS (customer_id bigint, order_id bigint, shardlet_shard name)
	WHERE shardlet_shard <> shardlet.route('tw_map', customer_id);

-- RETURNING gives what the shard has stored, in the order of the rows.
INSERT INTO orders (customer_id, order_id, total) VALUES (5, 2, 1.005), (4, 2, 2), (6, 2, 3)
	RETURNING customer_id, total, twice, status, tableoid::regclass;
INSERT INTO plain (customer_id, order_id, total) VALUES (5, 2, 1.005), (4, 2, 2), (6, 2, 3);
WITH new AS (INSERT INTO orders (customer_id, order_id) SELECT g, 3 FROM generate_series(1, 5) g RETURNING *)
	SELECT count(*), sum(customer_id) FROM new;
INSERT INTO plain (customer_id, order_id) SELECT g, 3 FROM generate_series(1, 5) g;
WITH new AS (INSERT INTO orders (customer_id, order_id) SELECT g, 4 FROM generate_series(1, 5) g)
	SELECT 1 AS one;
INSERT INTO plain (customer_id, order_id) SELECT g, 4 FROM generate_series(1, 5) g;
INSERT INTO orders (customer_id, order_id, status, total) SELECT customer_id, order_id + 10000, status, total FROM orders WHERE order_id < 5;
INSERT INTO plain (customer_id, order_id, status, total) SELECT customer_id, order_id + 10000, status, total FROM plain WHERE order_id < 5;
SELECT differences();

-- UPDATE and DELETE with joins; a row that is met twice changes once.
UPDATE orders SET total = total + 1, feeling = 'angry' FROM (VALUES (1), (2), (2), (3)) v(id)
	WHERE customer_id = v.id AND order_id = 1;
\echo :ROW_COUNT
UPDATE plain SET total = total + 1, feeling = 'angry' FROM (VALUES (1), (2), (2), (3)) v(id)
	WHERE customer_id = v.id AND order_id = 1;
WITH changed AS (UPDATE orders SET status = 'seen' FROM (VALUES (1), (2)) v(id)
	WHERE customer_id = v.id AND order_id = 1 RETURNING v.id, status, twice, feeling)
	SELECT * FROM changed ORDER BY id;
UPDATE plain SET status = 'seen' WHERE customer_id IN (1, 2) AND order_id = 1;
DELETE FROM orders USING (VALUES (2500), (2500), (2501)) v(id) WHERE order_id = v.id;
\echo :ROW_COUNT
DELETE FROM plain WHERE order_id IN (2500, 2501);
DELETE FROM orders WHERE order_id = 2502 AND status LIKE 'tab%' RETURNING customer_id, order_id, twice;
DELETE FROM plain WHERE order_id = 2502;
DELETE FROM orders WHERE customer_id = 77 AND random() < -1;
\echo :ROW_COUNT
SELECT differences();

-- UPDATE of the key: the row changes its shard.
WITH moved AS (UPDATE orders SET customer_id = customer_id + 1000 WHERE order_id = 1 RETURNING customer_id, twice)
	SELECT * FROM moved ORDER BY 1;
UPDATE plain SET customer_id = customer_id + 1000 WHERE order_id = 1;
UPDATE orders SET customer_id = customer_id + 1000 WHERE order_id BETWEEN 2000 AND 2100;
\echo :ROW_COUNT
UPDATE plain SET customer_id = customer_id + 1000 WHERE order_id BETWEEN 2000 AND 2100;
SELECT differences();
SELECT count(*) FROM shardlet.query('tw_map', 'SELECT customer_id, order_id FROM tw.orders')
	AS (customer_id bigint, order_id bigint, shardlet_shard name)
	WHERE shardlet_shard <> shardlet.route('tw_map', customer_id);

-- Check options of views hold.
CREATE VIEW cheap AS SELECT * FROM orders WHERE total < 100 WITH CHECK OPTION;
INSERT INTO cheap (customer_id, order_id, total) VALUES (1, 6, 50);
\set VERBOSITY sqlstate
INSERT INTO cheap (customer_id, order_id, total) VALUES (1, 7, 500);
UPDATE cheap SET total = 1000 WHERE order_id = 6;
\set VERBOSITY default
SELECT total FROM orders WHERE order_id IN (6, 7);
DELETE FROM cheap WHERE order_id = 6;

-- Triggers of the foreign table fire, before and after.
CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE NOTICE '% % %: old %, new %', tg_when, tg_op, tg_level, old.total, new.total;
	IF tg_when = 'BEFORE' AND tg_op = 'UPDATE' THEN
		new.status = 'touched';
	END IF;
	RETURN coalesce(new, old);
END $$;
CREATE TRIGGER tell_before BEFORE INSERT OR UPDATE OR DELETE ON orders FOR EACH ROW EXECUTE FUNCTION tell();
CREATE TRIGGER tell_after AFTER INSERT OR UPDATE OR DELETE ON orders FOR EACH ROW EXECUTE FUNCTION tell();
INSERT INTO orders (customer_id, order_id, total) VALUES (1, 8, 8);
UPDATE orders SET total = 9 WHERE order_id = 8 AND customer_id = 1;
UPDATE orders SET customer_id = 1002 WHERE order_id = 8 AND customer_id = 1;
SELECT status, total, twice FROM orders WHERE order_id = 8;
DELETE FROM orders WHERE order_id = 8 AND customer_id = 1002;
DROP TRIGGER tell_before ON orders;
DROP TRIGGER tell_after ON orders;
SELECT differences();

-- A statement inside the statement sees the rows before.
CREATE FUNCTION count_orders(bigint) RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM tw.orders WHERE order_id = $1';
INSERT INTO orders (customer_id, order_id, total) SELECT g, 50000, count_orders(50000) FROM generate_series(1, 150) g;
SELECT min(total), max(total), count(DISTINCT total) FROM orders WHERE order_id = 50000;
DELETE FROM orders WHERE order_id = 50000;

-- Rows that a shard's trigger leaves out do not count.
SELECT count(*) FROM shardlet.execute('tw_map', $$CREATE FUNCTION tw.odd_only() RETURNS trigger LANGUAGE plpgsql AS
	'BEGIN RETURN CASE WHEN new.order_id % 2 = 1 THEN new END; END'$$);
SELECT count(*) FROM shardlet.execute('tw_map',
	'CREATE TRIGGER odd BEFORE INSERT ON tw.orders FOR EACH ROW EXECUTE FUNCTION tw.odd_only()');
INSERT INTO orders (customer_id, order_id) SELECT g, 60000 + g FROM generate_series(1, 10) g;
\echo :ROW_COUNT
INSERT INTO orders (customer_id, order_id) SELECT g, 61000 + g FROM generate_series(1, 500) g;
\echo :ROW_COUNT
INSERT INTO orders (customer_id, order_id) VALUES (1, 62000) RETURNING order_id;
DO $$
DECLARE
	n bigint;
BEGIN
	INSERT INTO tw.orders (customer_id, order_id) SELECT g, 63000 + g FROM generate_series(1, 10) g;
	GET DIAGNOSTICS n = ROW_COUNT;
	RAISE NOTICE '% rows', n;
END $$;
SELECT count(*) FROM shardlet.execute('tw_map', 'DROP TRIGGER odd ON tw.orders');
DELETE FROM orders WHERE order_id >= 60000 AND order_id < 70000;
SELECT differences();

-- Savepoints take rows back; the rest stays.
BEGIN;
INSERT INTO orders (customer_id, order_id) SELECT g, 70000 FROM generate_series(1, 10) g;
SAVEPOINT a;
INSERT INTO orders (customer_id, order_id) SELECT g, 70001 FROM generate_series(1, 300) g;
UPDATE orders SET customer_id = 500 WHERE order_id = 70000 AND customer_id = 1;
ROLLBACK TO a;
SELECT order_id, count(*), min(customer_id) FROM orders WHERE order_id >= 70000 GROUP BY 1;
ROLLBACK;
DO $$
BEGIN
	FOR i IN 1..3 LOOP
		BEGIN
			INSERT INTO tw.orders (customer_id, order_id) VALUES (i, 3);
		EXCEPTION WHEN unique_violation THEN
			RAISE NOTICE 'customer % has order 3', i;
		END;
	END LOOP;
END $$;
SELECT differences();

-- TRUNCATE, of several tables in one statement, or with what depends on them.
CREATE TABLE items (customer_id bigint NOT NULL, order_id bigint, line int);
SELECT shardlet.distribute('items', 'tw_map', 'customer_id');
INSERT INTO items SELECT customer_id, order_id, 1 FROM orders WHERE order_id < 5;
SELECT count(*) FROM shardlet.execute('tw_map', 'ALTER TABLE tw.items ADD FOREIGN KEY (customer_id, order_id) REFERENCES tw.orders');
BEGIN;
TRUNCATE orders, items;
SELECT (SELECT count(*) FROM orders) AS orders, (SELECT count(*) FROM items) AS items;
ROLLBACK;
SELECT (SELECT count(*) FROM items) > 0 AS items, differences();
\set VERBOSITY sqlstate
TRUNCATE orders;
\set VERBOSITY default
SET client_min_messages = warning;
TRUNCATE orders CASCADE;
RESET client_min_messages;
SELECT (SELECT count(*) FROM orders) AS orders, (SELECT count(*) FROM items) AS items;
TRUNCATE plain;

-- EXPLAIN VERBOSE shows what a shard gets.
EXPLAIN (VERBOSE, COSTS OFF) INSERT INTO orders (customer_id, order_id) VALUES (1, 1) RETURNING twice;
EXPLAIN (VERBOSE, COSTS OFF) UPDATE orders SET status = 'x' WHERE customer_id = random()::bigint;
EXPLAIN (VERBOSE, COSTS OFF) DELETE FROM orders WHERE customer_id = random()::bigint;

-- A placed table, a spread one, a key of two columns, one that is generated.
CREATE TABLE settings (name text PRIMARY KEY, value text);
SELECT shardlet.place('settings', 's3');
INSERT INTO settings SELECT 'n' || g, g FROM generate_series(1, 200) g;
UPDATE settings SET value = value || '!' WHERE name = 'n7' RETURNING *;
DELETE FROM settings WHERE length(name) > 2 AND random() >= 0;
SELECT count(*) FROM settings;
SELECT shardlet.create_map('tw_spread', 'spread');
CREATE TABLE log (at int, what text);
SELECT shardlet.distribute('log', 'tw_spread');
INSERT INTO log SELECT g, 'x' FROM generate_series(1, 8) g;
UPDATE log SET what = 'y' WHERE at % 2 = 0 AND random() >= 0;
SELECT what, count(*) FROM log GROUP BY 1 ORDER BY 1;
SELECT count(DISTINCT shardlet_shard) FROM shardlet.query('tw_spread', 'SELECT at FROM tw.log') AS (at int, shardlet_shard name);
SELECT shardlet.create_map('tw_two', key_types => '{text,int}');
CREATE TABLE people (a text, b int, c text, PRIMARY KEY (a, b));
SELECT shardlet.distribute('people', 'tw_two', 'a, b');
INSERT INTO people SELECT 'p' || g, g, 'x' FROM generate_series(1, 120) g;
UPDATE people SET b = b + 1000 WHERE b <= 10;
SELECT count(*), sum(b) FROM people;
CREATE TABLE documents (doc jsonb, id bigint GENERATED ALWAYS AS ((doc->>'id')::bigint) STORED NOT NULL);
SELECT shardlet.distribute('documents', 'tw_map', 'id');
INSERT INTO documents (doc) SELECT jsonb_build_object('id', g) FROM generate_series(1, 120) g;
UPDATE documents SET doc = jsonb_build_object('id', id + 1000) WHERE id <= 5;
SELECT count(*), sum(id) FROM documents;
SELECT count(*) FROM shardlet.query('tw_map', 'SELECT id FROM tw.documents') AS (id bigint, shardlet_shard name)
	WHERE shardlet_shard <> shardlet.route('tw_map', id);

-- Wrong input.  Errors of a shard keep all their fields.
\set VERBOSITY sqlstate
INSERT INTO orders (customer_id, order_id) VALUES (NULL, 1);
INSERT INTO orders (customer_id, order_id) VALUES (1, NULL);
INSERT INTO orders (customer_id, order_id, total) VALUES (1, 1, -1);
INSERT INTO orders (customer_id, order_id, total) SELECT g, 1, 60 - g FROM generate_series(1, 200) g;
INSERT INTO orders (customer_id, order_id, total) SELECT g, 1, 1 / (60 - g) FROM generate_series(1, 61) g;
INSERT INTO orders (customer_id, order_id, total) SELECT g, 1, 1 FROM generate_series(1, 59) g;
INSERT INTO orders (customer_id, order_id, total) SELECT g, 9, 1 / (160 - g) FROM generate_series(1, 200) g;
INSERT INTO orders (customer_id, order_id, twice) VALUES (1, 1, 1);
UPDATE orders SET twice = 1;
SELECT count(*) FROM orders;
INSERT INTO orders (customer_id, order_id) VALUES (1, 1), (2, 1);
UPDATE orders SET customer_id = NULL;
UPDATE orders SET customer_id = 7;
\set VERBOSITY default
DO $$
DECLARE
	s text;
	t text;
	c text;
	m text;
	d text;
BEGIN
	INSERT INTO tw.orders (customer_id, order_id) VALUES (1, 1);
EXCEPTION WHEN unique_violation THEN
	GET STACKED DIAGNOSTICS s = SCHEMA_NAME, t = TABLE_NAME, c = CONSTRAINT_NAME, m = MESSAGE_TEXT,
		d = PG_EXCEPTION_DETAIL;
	RAISE NOTICE '%.%, %: % %', s, t, c, m, d;
END $$;
SELECT shardlet.alter_shard('s1', state => 'read_only'), shardlet.alter_shard('s2', state => 'read_only'),
	shardlet.alter_shard('s3', state => 'offline'), shardlet.alter_shard('s4', state => 'offline');
\set VERBOSITY sqlstate
INSERT INTO orders (customer_id, order_id) SELECT g, 2 FROM generate_series(1, 20) g WHERE shardlet.route('tw_map', g) IN ('s1', 's2') LIMIT 1;
INSERT INTO orders (customer_id, order_id) SELECT g, 2 FROM generate_series(1, 20) g WHERE shardlet.route('tw_map', g) IN ('s3', 's4') LIMIT 1;
TRUNCATE orders;
\set VERBOSITY default
SELECT shardlet.alter_shard('s' || g, state => 'online') FROM generate_series(1, 4) g;
SET shardlet.multi_shard_transactions = off;
\set VERBOSITY sqlstate
INSERT INTO orders (customer_id, order_id) SELECT g, 2 FROM generate_series(1, 20) g;
\set VERBOSITY default
RESET shardlet.multi_shard_transactions;
SELECT shardlet.create_map('tw_range', 'range');
SELECT shardlet.assign_range('tw_range', 's1', 0, 100) > 0 AS assigned;
CREATE TABLE narrow (id bigint PRIMARY KEY);
SELECT shardlet.distribute('narrow', 'tw_range', 'id');
INSERT INTO narrow VALUES (1);
\set VERBOSITY sqlstate
INSERT INTO narrow VALUES (100);
UPDATE narrow SET id = -1;
\set VERBOSITY default
BEGIN TRANSACTION READ ONLY;
\set VERBOSITY sqlstate
INSERT INTO orders (customer_id, order_id) VALUES (1, 5);
\set VERBOSITY default
ROLLBACK;
SELECT count(*) FROM orders;

SET client_min_messages = warning;
DROP VIEW cheap;
DROP TABLE orders, items, settings, log, people, documents, narrow, plain;
SELECT count(*) FROM shardlet.execute('tw_map', 'DROP SCHEMA tw CASCADE');
DROP SCHEMA tw CASCADE;
SELECT shardlet.drop_map(map) FROM unnest('{tw_map,tw_spread,tw_two,tw_range}'::name[]) map;
