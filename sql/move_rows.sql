-- A shardlet moves with its rows of all tables of the map: every row is at its
-- new place once, and nowhere else.
SET client_min_messages = warning;
CREATE SCHEMA move_rows;
SET search_path = move_rows;
SELECT shardlet.create_map('mv', shards => '{s1, s2}', shardlets => 4);

-- Foreign keys in a circle and to itself, triggers, generated and identity
-- columns, long values, types that hash differently on each server, no primary key.
CREATE TYPE mood AS ENUM ('glad', 'sad');
CREATE TABLE customers (
	id bigint PRIMARY KEY,
	name text COLLATE "C",
	upper_name text GENERATED ALWAYS AS (upper(name)) STORED,
	first_order bigint,
	friend bigint,
	feels mood,
	picture bytea);
CREATE TABLE orders (
	customer_id bigint,
	id bigint GENERATED ALWAYS AS IDENTITY,
	tags text[],
	extra json,
	"odd Name" numeric DEFAULT 3.50,
	PRIMARY KEY (customer_id, id));
CREATE TABLE events (customer_id bigint NOT NULL, what text, at timestamptz);
SELECT shardlet.distribute('customers', 'mv', 'id'), shardlet.distribute('orders', 'mv', 'customer_id'),
	shardlet.distribute('events', 'mv', 'customer_id');
INSERT INTO customers (id, name, friend, feels, picture)
	SELECT i, 'n' || i, i, CASE WHEN i % 2 = 0 THEN 'glad' ELSE 'sad' END::mood,
		CASE WHEN i % 10 = 0 THEN decode(repeat('00ff7f', 4000), 'hex') END
	FROM generate_series(1, 200) i;
INSERT INTO orders (customer_id, tags, extra)
	SELECT i % 200 + 1, ARRAY['a', NULL, 'b"' || i], '{"a": 1, "a": 2}' FROM generate_series(1, 1000) i;
INSERT INTO events SELECT i % 200 + 1, NULL, '2020-01-01 00:00+00' FROM generate_series(1, 300) i;
INSERT INTO events SELECT i % 200 + 1, NULL, '2020-01-01 00:00+00' FROM generate_series(1, 300) i;
SELECT count(*) FROM shardlet.execute(NULL, 'CREATE SCHEMA IF NOT EXISTS move_rows');
SELECT count(*) FROM shardlet.execute(NULL, $$
	CREATE FUNCTION move_rows.refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE ''a trigger fired''; END'$$);
SELECT count(*) FROM shardlet.execute('mv', $$
	CREATE TRIGGER t AFTER INSERT OR DELETE ON move_rows.customers FOR EACH ROW EXECUTE FUNCTION move_rows.refuse()$$);
SELECT count(*) FROM shardlet.execute('mv', $$
	ALTER TABLE move_rows.customers ADD FOREIGN KEY (friend) REFERENCES move_rows.customers,
		ADD FOREIGN KEY (id, first_order) REFERENCES move_rows.orders DEFERRABLE$$);
SELECT count(*) FROM shardlet.execute('mv', $$
	ALTER TABLE move_rows.orders ADD FOREIGN KEY (customer_id) REFERENCES move_rows.customers$$);

-- What there is, before and after.
CREATE VIEW sums AS
SELECT 'customers' AS tbl, count(*), sum(hashtext(c::text)::bigint) FROM customers c
UNION ALL SELECT 'orders', count(*), sum(hashtext(o::text)::bigint) FROM orders o
UNION ALL SELECT 'events', count(*), sum(hashtext(e::text)::bigint) FROM events e;
CREATE TABLE before AS SELECT * FROM sums;
CREATE FUNCTION owner_of(bigint) RETURNS name LANGUAGE sql AS 'SELECT shard FROM shardlet.shardlets WHERE shardlet = $1';

SELECT min(shardlet) AS one FROM shardlet.shardlets WHERE map = 'mv' AND shard = 's1' \gset
CALL shardlet.move_shardlet(:one, 's2', 'read_only');
SELECT owner_of(:one), state FROM shardlet.shardlets WHERE shardlet = :one;
SELECT * FROM sums EXCEPT SELECT * FROM before;
-- On the shards themselves, each row once.
SELECT sum(n) FROM shardlet.query('mv', 'SELECT count(*) FROM move_rows.customers', per_shard => true) AS (n bigint);
SELECT sum(n) FROM shardlet.query('mv', 'SELECT count(*) FROM move_rows.events', per_shard => true) AS (n bigint);
SELECT mode, phase, open, tables, tables_done, rows_done > 100 AS rows, bytes_done > 10000 AS bytes, last_error
	FROM shardlet.moves WHERE shardlet = :one;
-- There and back, offline; and to a shard that the map did not have.
CALL shardlet.move_shardlet(:one, 's1', 'offline');
SELECT owner_of(:one);
CALL shardlet.move_shardlet(:one, 's4', 'offline');
SELECT owner_of(:one);
SELECT shard FROM shardlet.map_shards WHERE map = 'mv' ORDER BY shard;
SELECT * FROM sums EXCEPT SELECT * FROM before;
SELECT sum(n) FROM shardlet.query('mv', 'SELECT count(*) FROM move_rows.orders', per_shard => true) AS (n bigint);
-- Keyed statements find their rows, and the table on the new shard is whole.
SELECT count(*), count(name), count(upper_name) FROM customers WHERE id IN (1, 2, 3, 4, 5, 6, 7, 8);
UPDATE customers SET name = 'x' WHERE id < 9;
SELECT count(*) FROM customers WHERE upper_name = 'X';
UPDATE customers SET name = 'n' || id WHERE id < 9;
SELECT * FROM sums EXCEPT SELECT * FROM before;

-- A state that it had stays.
SELECT shardlet.alter_shardlet(:one, state => 'read_only');
CALL shardlet.move_shardlet(:one, 's1', 'read_only');
SELECT owner_of(:one), state FROM shardlet.shardlets WHERE shardlet = :one;
SELECT shardlet.alter_shardlet(:one, state => 'online');

-- Online, which a table without a primary key does not allow; with all columns as identity it does.
\set VERBOSITY terse
CALL shardlet.move_shardlet(:one, 's2');
\set VERBOSITY default
SELECT count(*) FROM shardlet.execute('mv', 'ALTER TABLE move_rows.events REPLICA IDENTITY FULL');
CALL shardlet.move_shardlet(:one, 's2');
SELECT owner_of(:one), state FROM shardlet.shardlets WHERE shardlet = :one;
SELECT * FROM sums EXCEPT SELECT * FROM before;
CALL shardlet.move_shardlet(:one, 's1', 'online');
SELECT * FROM sums EXCEPT SELECT * FROM before;
SELECT count(*) FROM pg_replication_slots WHERE slot_name LIKE 'shardlet%';
SELECT sum(n) FROM shardlet.query('mv', 'SELECT (SELECT count(*) FROM pg_publication) + (SELECT count(*) FROM pg_subscription)', per_shard => true) AS (n bigint);

-- Emptying a shard.
CALL shardlet.drain_shard('s2', mode => 'read_only', parallel => 2);
SELECT shard, count(*) FROM shardlet.shardlets WHERE map = 'mv' GROUP BY shard ORDER BY shard;
SELECT * FROM sums EXCEPT SELECT * FROM before;
SELECT count(*) FROM shardlet.catalog_stray;
DROP VIEW sums;
DROP TABLE customers, orders, events;

-- Other kinds: ranges, with a rule of one's own.
SELECT shardlet.create_map('rg', 'range', '{text}', shards => '{s1, s2}');
SELECT shardlet.assign_range('rg', 's1', NULL, 'f') IS NOT NULL AS a, shardlet.assign_range('rg', 's1', 'f', 'q') IS NOT NULL AS b,
	shardlet.assign_range('rg', 's2', 'q', NULL) IS NOT NULL AS c;
CREATE TABLE words (word text PRIMARY KEY, n int);
SELECT shardlet.distribute('words', 'rg', 'word');
INSERT INTO words SELECT chr(97 + i % 26) || i, i FROM generate_series(1, 260) i;
INSERT INTO words VALUES ('', 0), ('f', 0), ('é''"\', 0), ('Z', 0);
SELECT shardlet AS low FROM shardlet.shardlets WHERE map = 'rg' AND low IS NULL \gset
SELECT shardlet AS middle FROM shardlet.shardlets WHERE map = 'rg' AND low = 'f' \gset
CALL shardlet.move_shardlet(:low, 's3', 'read_only');
CALL shardlet.move_shardlet(:middle, 's2', 'offline');
SELECT shard, n FROM shardlet.query('rg', 'SELECT count(*) FROM move_rows.words', per_shard => true) AS (n bigint, shardlet_shard name), LATERAL (SELECT shardlet_shard) s(shard) ORDER BY shard;
SELECT count(*), sum(n) FROM words;
DROP TABLE words;

-- Lists of several columns, and their default.
SELECT shardlet.create_map('ls', 'list', '{text, int}', shards => '{s1, s2}');
SELECT shardlet.assign_key('ls', 's1', 'a', 1) AS key_a \gset
SELECT shardlet.assign_key('ls', 's1', 'b''', 2) IS NOT NULL AS b;
SELECT shardlet.assign_default('ls', 's1') AS rest \gset
CREATE TABLE pairs (a text, b int, n int, PRIMARY KEY (a, b));
SELECT shardlet.distribute('pairs', 'ls', 'a, b');
INSERT INTO pairs VALUES ('a', 1, 1), ('b''', 2, 2), ('c', 3, 3), ('a', 2, 4), ('b', 2, 5);
CALL shardlet.move_shardlet(:key_a, 's2', 'read_only');
CALL shardlet.move_shardlet(:rest, 's3', 'offline');
SELECT shard, rows FROM shardlet.query('ls', 'SELECT array_agg(n ORDER BY n) FROM move_rows.pairs', per_shard => true) AS (rows int[], shardlet_shard name), LATERAL (SELECT shardlet_shard) s(shard) ORDER BY shard;
SELECT n FROM pairs ORDER BY n;
SELECT n FROM pairs WHERE a = 'a' AND b = 2;
DROP TABLE pairs;

-- A list with a rule.
SELECT shardlet.create_map('mod', 'list', '{bigint}', shards => '{s1, s2}', via => '$1 % 4');
SELECT shardlet.assign_key('mod', CASE WHEN i < 2 THEN 's1' ELSE 's2' END::name, i) IS NOT NULL AS ok FROM generate_series(0, 3) i;
CREATE TABLE numbers (k int PRIMARY KEY, v text);
SELECT shardlet.distribute('numbers', 'mod', 'k');
INSERT INTO numbers SELECT i, 'v' || i FROM generate_series(1, 40) i;
SELECT shardlet AS zero FROM shardlet.shardlets WHERE map = 'mod' AND low = '0' \gset
CALL shardlet.move_shardlet(:zero, 's3', 'read_only');
SELECT shard, n FROM shardlet.query('mod', 'SELECT count(*) FROM move_rows.numbers', per_shard => true) AS (n bigint, shardlet_shard name), LATERAL (SELECT shardlet_shard) s(shard) ORDER BY shard;
SELECT count(*) FROM numbers;
DROP TABLE numbers;

-- A map without tables has nothing to copy.
SELECT shardlet.create_map('mt', shards => '{s1, s2}', shardlets => 2);
SELECT min(shardlet) AS bare FROM shardlet.shardlets WHERE map = 'mt' \gset
CALL shardlet.move_shardlet(:bare, 's2', 'read_only');
SELECT owner_of(:bare);

-- A slot of a spread map, to a shard that has none.
SELECT shardlet.create_map('sp', 'spread', shards => '{s1, s2}');
CREATE TABLE log (line int);
SELECT shardlet.distribute('log', 'sp');
INSERT INTO log SELECT generate_series(1, 100);
SELECT shardlet AS lane FROM shardlet.shardlets WHERE map = 'sp' AND shard = 's1' \gset
CALL shardlet.move_shardlet(:lane, 's3', 'read_only');
SELECT count(*), count(DISTINCT line) FROM log;
SELECT shard FROM shardlet.shardlets WHERE map = 'sp' ORDER BY shard;
CALL shardlet.move_shardlet(:bare, 's1', 'read_only');
SELECT n FROM shardlet.query('mt', 'SELECT count(*) FROM move_rows.log', shards => '{s1}', per_shard => true) AS (n bigint);
DROP TABLE log;

SELECT count(shardlet.drop_map(map)) FROM shardlet.maps;
SELECT count(*) FROM shardlet.execute(NULL, 'DROP SCHEMA IF EXISTS move_rows CASCADE');
DROP SCHEMA move_rows CASCADE;
