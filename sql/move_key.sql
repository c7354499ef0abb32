-- One key moves with its rows: out of a token range, a range of keys, the default of a list.
SET client_min_messages = warning;
CREATE SCHEMA mk;
SET search_path = mk;
CREATE FUNCTION rows_on(name, text) RETURNS bigint LANGUAGE sql AS
	'SELECT rows FROM shardlet.execute(NULL, $2, shards => ARRAY[$1])';

SELECT shardlet.create_map('mkh', shards => '{s1}', shardlets => 2);
CREATE TABLE customers (id bigint PRIMARY KEY, name text);
CREATE TABLE orders (customer_id bigint REFERENCES customers, id int, PRIMARY KEY (customer_id, id));
SELECT shardlet.distribute_tables('{customers, orders}', 'mkh', '{id, customer_id}');
INSERT INTO customers SELECT i, 'c' || i FROM generate_series(1, 100) i;
INSERT INTO orders SELECT i % 100 + 1, i FROM generate_series(1, 500) i;
CALL shardlet.move_key('mkh', 's2', 42);
SELECT shardlet.route('mkh', 42), rows_on('s2', 'SELECT FROM mk.customers') AS customers, rows_on('s2', 'SELECT FROM mk.orders') AS orders,
	rows_on('s1', 'SELECT FROM mk.customers WHERE id = 42') AS before;
SELECT count(*), count(*) FILTER (WHERE pinned) AS pinned FROM shardlet.shardlets WHERE map = 'mkh';
SELECT (SELECT count(*) FROM customers), (SELECT count(*) FROM orders), (SELECT count(*) FROM orders WHERE customer_id = 42);
-- It is there: only a notice.  A key that has a shardlet of its own is pinned again.
SELECT shardlet AS own FROM shardlet.locate('mkh', 42) \gset
SELECT shardlet.alter_shardlet(:own, pinned => false);
SET client_min_messages = notice;
\set VERBOSITY terse
CALL shardlet.move_key('mkh', 's2', '42');
\set VERBOSITY default
SET client_min_messages = warning;
SELECT pinned FROM shardlet.shardlets WHERE shardlet = :own;
CALL shardlet.move_key('mkh', 's3', VARIADIC ARRAY[42]);
SELECT shardlet.route('mkh', 42), (SELECT shardlet FROM shardlet.locate('mkh', 42)) = :own AS same;

-- A range is cut at the key and at the next one, whatever the type.
SELECT shardlet.create_map('mkr', 'range', '{text}', shards => '{s1}');
SELECT shardlet.assign_range('mkr', 's1', NULL, 'm') > 0, shardlet.assign_range('mkr', 's1', 'm', NULL) > 0;
CREATE TABLE names (name text PRIMARY KEY);
SELECT shardlet.distribute('names', 'mkr', 'name');
INSERT INTO names VALUES ('a'), ('al'), ('al '), ('al' || chr(1)), ('ala'), ('bo'), ('m'), ('z');
CALL shardlet.move_key('mkr', 's2', 'al');
SELECT name, shardlet.route('mkr', name) FROM names ORDER BY name COLLATE "C";
CALL shardlet.move_key('mkr', 's2', 'm');
SELECT name, shardlet.route('mkr', name) FROM names WHERE name >= 'bo' ORDER BY name COLLATE "C";
CALL shardlet.move_key('mkr', 's1', 'm');
SELECT count(*) FROM shardlet.shardlets WHERE map = 'mkr';
SELECT shardlet.create_map('mki', 'range', '{int}', shards => '{s1}'), shardlet.create_map('mkd', 'range', '{date}', shards => '{s1}'),
	shardlet.create_map('mkt', 'range', '{timestamptz}', shards => '{s1}'), shardlet.create_map('mkn', 'range', '{numeric}', shards => '{s1}'),
	shardlet.create_map('mkb', 'range', '{bytea}', shards => '{s1}'), shardlet.create_map('mk2', 'range', '{smallint}', shards => '{s1}');
SELECT shardlet.assign_range('mki', 's1', NULL, NULL) > 0, shardlet.assign_range('mkd', 's1', NULL, NULL) > 0,
	shardlet.assign_range('mkt', 's1', NULL, NULL) > 0, shardlet.assign_range('mkn', 's1', NULL, NULL) > 0,
	shardlet.assign_range('mkb', 's1', NULL, NULL) > 0, shardlet.assign_range('mk2', 's1', 0, 32767) > 0;
CALL shardlet.move_key('mki', 's2', 2147483647);
CALL shardlet.move_key('mki', 's2', -5);
CALL shardlet.move_key('mkd', 's2', date '2024-02-29');
CALL shardlet.move_key('mkt', 's2', timestamptz '2024-02-29 23:59:59.999999+00');
CALL shardlet.move_key('mkb', 's2', '\xff'::bytea);
CALL shardlet.move_key('mk2', 's2', 0::smallint);
CALL shardlet.move_key('mk2', 's2', 32766::smallint);
SET timezone = 'UTC';
SELECT map, low, high, shard, pinned FROM shardlet.shardlets WHERE map ~ '^mk[idtb2]$' ORDER BY map, low NULLS FIRST;
-- No next value: an infinite one, and types that have none.
CALL shardlet.move_key('mkd', 's2', 'infinity');
CALL shardlet.move_key('mkn', 's2', 1.5);
\set VERBOSITY terse
CALL shardlet.move_key('mk2', 's2', 32767::smallint);
\set VERBOSITY default
SELECT count(*) FROM shardlet.shardlets WHERE map IN ('mkd', 'mkn');

-- A list: a key with an entry, and one that the default has.
SELECT shardlet.create_map('mkl', 'list', '{text, int}', shards => '{s1}');
SELECT shardlet.assign_key('mkl', 's1', 'a', 1) > 0, shardlet.assign_default('mkl', 's1') > 0;
CREATE TABLE listed (a text, b int, PRIMARY KEY (a, b));
SELECT shardlet.distribute('listed', 'mkl', 'a, b');
INSERT INTO listed VALUES ('a', 1), ('a', 2), ('b', 1);
CALL shardlet.move_key('mkl', 's2', 'a', 1);
CALL shardlet.move_key('mkl', 's3', 'b', 1);
SELECT a, b, shardlet.route('mkl', a, b) FROM listed ORDER BY a, b;
SELECT low, shard, pinned, is_default FROM shardlet.shardlets WHERE map = 'mkl' ORDER BY is_default, low;
CALL shardlet.move_key('mkl', 's3', 'b');

-- Several shardlets, in one go.
SELECT shardlet.create_map('mkm', shards => '{s1}', shardlets => 4);
CREATE TABLE many (id int PRIMARY KEY);
SELECT shardlet.distribute('many', 'mkm', 'id');
INSERT INTO many SELECT generate_series(1, 200);
SELECT array_agg(shardlet ORDER BY shardlet) AS ids, min(shardlet) AS one FROM shardlet.shardlets WHERE map = 'mkm' \gset
CALL shardlet.move_shardlet(:one, 's2', 'read_only');
SET client_min_messages = notice;
\set SHOW_CONTEXT never
\set VERBOSITY sqlstate
CALL shardlet.move_shardlets('{}', 's2');
CALL shardlet.move_shardlets(ARRAY[:one], 's2');
CALL shardlet.move_shardlets(ARRAY[:one, :one], 's2');
CALL shardlet.move_shardlets(ARRAY[:one, NULL], 's2');
CALL shardlet.move_shardlets(NULL, 's2');
CALL shardlet.move_shardlets(ARRAY[:one], NULL);
CALL shardlet.move_shardlets(ARRAY[:one], 's2', 'slow');
SET client_min_messages = warning;
-- One that does not exist: none is moved.
\set VERBOSITY sqlstate
CALL shardlet.move_shardlets(:'ids'::bigint[] || 987654321::bigint, 's2');
\set VERBOSITY default
SELECT shard, count(*) FROM shardlet.shardlets WHERE map = 'mkm' GROUP BY 1 ORDER BY 1;
CALL shardlet.move_shardlets(:'ids', 's2', 'read_only');
SELECT shard, count(*) FROM shardlet.shardlets WHERE map = 'mkm' GROUP BY 1 ORDER BY 1;
SELECT count(*), sum(id), rows_on('s1', 'SELECT FROM mk.many') FROM many;
CALL shardlet.move_shardlets(:'ids', 's1');
SELECT count(*), sum(id), rows_on('s2', 'SELECT FROM mk.many') FROM many;

-- What is refused changes nothing of the map.
SELECT count(*) AS before FROM shardlet.shardlets \gset
\set VERBOSITY default
CALL shardlet.move_key('mkh', 'none', 1);
CALL shardlet.move_key('mkh', NULL, 1);
CALL shardlet.move_key('none', 's2', 1);
CALL shardlet.move_key(NULL, 's2', 1);
CALL shardlet.move_key('mkh', 's2', NULL);
CALL shardlet.move_key('mkh', 's2', 1, 2);
CALL shardlet.move_key('mkh', 's2', 'x');
SELECT shardlet.create_map('mks', 'spread'), shardlet.create_map('mkv', 'list', via => '$1 % 3');
SELECT shardlet.assign_keys('mkv', 's1', '{0, 1, 2}'::bigint[]);
CALL shardlet.move_key('mks', 's2', 1);
CALL shardlet.move_key('mkv', 's2', 1);
SELECT shardlet.create_map('mke', 'list', '{text}');
CALL shardlet.move_key('mke', 's2', 'x');
BEGIN;
CALL shardlet.move_key('mkh', 's2', 1);
ROLLBACK;
SELECT shardlet.alter_shard('s2', state => 'read_only');
CALL shardlet.move_key('mkh', 's2', 1);
SELECT shardlet.alter_shard('s2', state => 'online');
\set VERBOSITY sqlstate
-- A precondition of the rows: one is there already.
SELECT rows_on('s2', 'INSERT INTO mk.customers VALUES (1)') IS NULL;
\c contrib_regression_s2
SET session_replication_role = replica;
INSERT INTO mk.customers VALUES (1);
\c contrib_regression
SET client_min_messages = warning;
SET search_path = mk;
CALL shardlet.move_key('mkh', 's2', 1);
SELECT count(*) - :before FROM shardlet.shardlets WHERE map NOT IN ('mks', 'mkv', 'mke');

DROP SCHEMA mk CASCADE;
SELECT count(*) FROM shardlet.execute(NULL, 'DROP SCHEMA IF EXISTS mk CASCADE');
SELECT shardlet.drop_map(map) FROM shardlet.maps WHERE map LIKE 'mk%';
