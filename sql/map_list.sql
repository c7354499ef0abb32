-- A list map names its keys one by one; the default takes the others.
ALTER SEQUENCE shardlet.shardlet_id_seq RESTART;

SELECT shardlet.create_map('l', 'list', '{text}');
SELECT shardlet.route('l', 'DE');
SELECT shardlet.assign_key('l', 's1', 'DE') > 0 AS de, shardlet.assign_key('l', 's2', 'FR'::text) > 0 AS fr;
SELECT shardlet.route('l', 'DE'), shardlet.route('l', 'FR');
SELECT shardlet.route('l', 'IT');
SELECT shardlet.assign_default('l', 's4') > 0 AS rest;
SELECT shardlet.route('l', 'IT'), shardlet.route('l', ''), shardlet.route('l', 'DE');
-- A key that had gone to the default gets a place of its own.
SELECT shardlet.assign_key('l', 's3', 'IT') > 0 AS it;
SELECT shardlet.route('l', 'IT');
SELECT low, high, shard, version, is_default FROM shardlet.shardlets WHERE map = 'l' ORDER BY low;
-- And loses it again.
SELECT shardlet.unassign(shardlet) FROM shardlet.shardlets WHERE map = 'l' AND low = 'IT';
SELECT shardlet.route('l', 'IT');

-- Many at once, in one version; without a shard they are spread by load.
SELECT version FROM shardlet.maps WHERE map = 'l' \gset
SELECT shardlet.assign_keys('l', 's2', ARRAY['A', 'B', 'C']);
SELECT version - :version AS steps FROM shardlet.maps WHERE map = 'l';
SELECT shardlet.create_map('spread', 'list', '{int}');
SELECT shardlet.assign_keys('spread', NULL, array_agg(g)) FROM generate_series(1, 40) g;
SELECT shard, count(*) FROM shardlet.shardlets WHERE map = 'spread' GROUP BY shard ORDER BY shard;
SELECT shardlet.assign_key('spread', NULL, g + 100) > 0 AS ok FROM generate_series(1, 3) g;
SELECT shard, count(*) FROM shardlet.shardlets WHERE map = 'spread' GROUP BY shard ORDER BY shard;
SELECT shardlet.assign_keys('spread', 's1', '{}'::int[]);
SELECT version FROM shardlet.maps WHERE map = 'spread';

-- Equal is what the type calls equal.
SELECT shardlet.create_map('n', 'list', '{numeric}');
SELECT shardlet.assign_key('n', 's1', 1.50) > 0 AS ok;
SELECT shardlet.route('n', 1.5), shardlet.route('n', 1.500);
SELECT shardlet.assign_key('n', 's2', 1.5);

-- Several columns; arrays of rows.
SELECT shardlet.create_map('c', 'list', '{text, date}');
SELECT shardlet.assign_key('c', 's1', 'DE', '2026-01-01') > 0 AS ok;
SELECT shardlet.assign_keys('c', 's2', ARRAY[ROW('DE', DATE '2026-02-01'), ROW('a,"b"', DATE '2026-01-01')]);
SELECT shardlet.route('c', 'DE', '2026-01-01'), shardlet.route('c', 'DE', DATE '2026-02-01'), shardlet.route('c', 'a,"b"', '2026-01-01');
SELECT low, shard FROM shardlet.shardlets WHERE map = 'c' ORDER BY low;
SELECT * FROM shardlet.route_many('c', ARRAY[ROW('DE', DATE '2026-02-01'), ROW('DE', DATE '2026-01-01')]);
SELECT shardlet.route('c', 'FR', '2026-01-01');

-- 200,000 keys: found one by one, never loaded as a whole.
SELECT shardlet.create_map('many', 'list', '{text}');
SELECT shardlet.assign_keys('many', NULL, array_agg('key ' || g)) FROM generate_series(1, 200000) g;
\c
SELECT shardlet.route('many', 'key 77777');
SELECT sum(total_bytes) < 1000000 AS small FROM pg_backend_memory_contexts WHERE name LIKE 'shardlet%';
-- More different keys than are kept, then once more, and unknown ones.
SELECT shard, count(*) FROM (SELECT shardlet.route('many', 'key ' || g) AS shard FROM generate_series(1, 20000) g) r
GROUP BY shard ORDER BY shard;
SELECT sum(total_bytes) < 8000000 AS bounded FROM pg_backend_memory_contexts WHERE name LIKE 'shardlet%';
SELECT count(*) FROM shardlet.route_many('many', (SELECT array_agg('key ' || g) FROM generate_series(199000, 200000) g));
SELECT shardlet.route('many', 'key 200001');

-- Long keys, compressed or not, are found again, and once only.
CREATE EXTENSION amcheck;
SELECT shardlet.create_map('long', 'list', '{text}');
CREATE FUNCTION long(n int) RETURNS text LANGUAGE sql AS $$SELECT string_agg(md5(g::text), '') FROM generate_series(1, n) g$$;
SELECT shardlet.assign_key('long', 's1', long(100)) > 0 AS plain, shardlet.assign_key('long', 's2', repeat('x', 20000)) > 0 AS even,
	shardlet.assign_keys('long', 's3', ARRAY[long(1000), long(10)]);
SELECT shardlet.route('long', long(100)), shardlet.route('long', repeat('x', 20000)), shardlet.route('long', long(1000)), shardlet.route('long', long(10));
\set VERBOSITY sqlstate
SELECT shardlet.assign_key('long', 's1', long(100));
SELECT shardlet.route('long', long(101));
\set VERBOSITY default
SELECT bt_index_check(i, true) FROM unnest(ARRAY['shardlet.catalog_shardlet_token', 'shardlet.catalog_shardlet_pkey',
	'shardlet.catalog_shardlet_shard']::regclass[]) i;
-- A key that was read from a table does not hang on the row that it came from.
CREATE TABLE keys (k text);
ALTER TABLE keys ALTER k SET STORAGE EXTERNAL;
SELECT shardlet.assign_default('long', 's4') > 0 AS rest;
INSERT INTO keys VALUES (repeat('y', 5000));
SELECT shardlet.route('long', k) FROM keys;
DELETE FROM keys;
VACUUM keys;
SELECT shardlet.route('long', repeat('y', 5000));
DROP TABLE keys;
DROP FUNCTION long;
DROP EXTENSION amcheck;

-- A table's rows as keys, with a column dropped.
CREATE TABLE pairs (a text, gone int, b date);
ALTER TABLE pairs DROP gone;
INSERT INTO pairs VALUES ('FR', '2026-05-01');
SELECT shardlet.assign_keys('c', 's3', array_agg(p)) FROM pairs p;
SELECT shardlet.route('c', 'FR', '2026-05-01');
DROP TABLE pairs;

-- Wrong input.
SELECT shardlet.assign_key('l', 's1', 'DE');
SELECT shardlet.assign_keys('l', 's1', ARRAY['X', 'Y', 'X']);
SELECT shardlet.assign_keys('l', 's1', ARRAY['X', 'DE']);
SELECT shardlet.assign_keys('l', 's1', ARRAY['X', NULL]);
SELECT shardlet.assign_keys('l', 's1', NULL::text[]);
SELECT shardlet.assign_keys('l', 's1', ARRAY[1, 2]);
SELECT shardlet.assign_keys('c', 's1', ARRAY['a']);
SELECT shardlet.assign_keys('c', 's1', ARRAY[ROW('a', NULL::date)]);
SELECT shardlet.assign_keys('c', 's1', ARRAY[ROW('a', 'b', 'c')]);
SELECT shardlet.assign_key('l', 's1', NULL);
SELECT shardlet.assign_key('l', 's1', 'a', 'b');
SELECT shardlet.assign_key('c', 's1', 'a');
SELECT shardlet.assign_key('l', 'nonesuch', 'a');
SELECT shardlet.assign_default('l', 's1');
SELECT shardlet.assign_default('l', NULL);
SELECT shardlet.assign_range('l', 's1', 'a', 'b');

SELECT count(shardlet.drop_map(map)) FROM shardlet.maps;
