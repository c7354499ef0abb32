-- Which shards are asked: conditions on the key pick them, when the statement runs.
CREATE SCHEMA fdw_prune;
-- This is about the wrapper, so the plans of whole statements are switched off.
SET shardlet.ship = off;
SET shardlet.scatter = off;
SET search_path = fdw_prune;
SELECT shardlet.create_map('fp_hash', shards => '{s1,s2,s3,s4}'),
	shardlet.create_map('fp_range', 'range', '{int}', '{s1,s2,s3}'),
	shardlet.create_map('fp_list', 'list', '{text}', '{s1,s2}'),
	shardlet.create_map('fp_pair', key_types => '{text,int}', shards => '{s1,s2,s3,s4}'),
	shardlet.create_map('fp_spread', 'spread', shards => '{s1,s2}');
SELECT count(shardlet.assign_range('fp_range', s, l, h)) FROM (VALUES ('s1', NULL, 10), ('s2', 10, 20), ('s3', 30, NULL)) v(s, l, h);
SELECT count(shardlet.assign_key('fp_list', s, k)) FROM (VALUES ('s1', 'eu'), ('s2', 'us')) v(s, k);
CREATE TABLE h (k bigint NOT NULL, v text);
INSERT INTO h SELECT i, 'v' || i FROM generate_series(1, 40) i;
CREATE TABLE r (k int NOT NULL, v text);
INSERT INTO r SELECT i, 'v' || i FROM generate_series(1, 40) i WHERE i NOT BETWEEN 20 AND 29;
CREATE TABLE l (k text NOT NULL, v int);
INSERT INTO l VALUES ('eu', 1), ('us', 2);
CREATE TABLE p (a text NOT NULL, b int NOT NULL, v int);
INSERT INTO p SELECT 'a' || i % 3, i, i FROM generate_series(1, 12) i;
CREATE TABLE s (v int);
INSERT INTO s SELECT i FROM generate_series(1, 5) i;
SELECT shardlet.distribute('h', 'fp_hash', 'k'), shardlet.distribute('r', 'fp_range', 'k'), shardlet.distribute('l', 'fp_list', 'k'),
	shardlet.distribute('p', 'fp_pair', 'a, b'), shardlet.distribute('s', 'fp_spread');

-- The line of EXPLAIN that names the shards.
CREATE FUNCTION shards(statement text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || statement LOOP
		IF line ~ 'Shards:' THEN RETURN NEXT trim(line); END IF;
	END LOOP;
END $$;
SELECT shardlet.route('fp_hash', 1) AS one, shardlet.route('fp_hash', 2) AS two, shardlet.route('fp_hash', 8) AS eight;
SELECT * FROM shards('SELECT * FROM h');
SELECT * FROM shards('SELECT * FROM h WHERE k = 1');
SELECT * FROM shards('SELECT * FROM h WHERE 1 = k AND v LIKE ''v%''');
SELECT * FROM shards('SELECT * FROM h WHERE k = 1::smallint');
SELECT * FROM shards('SELECT * FROM h WHERE k IN (1, 2, NULL)');
SELECT * FROM shards('SELECT * FROM h WHERE k = ANY (''{1,8}''::int[])');
SELECT * FROM shards('SELECT * FROM h WHERE k = 1 OR k = 2 AND v = ''x''');
SELECT * FROM shards('SELECT * FROM h WHERE k = 1 OR v = ''x''');
-- From 17 on the planner knows by itself that there are none.
SELECT * FROM shards('SELECT * FROM h WHERE k IS NULL') WHERE shards <> 'Shards: none (0 of 4)';
SELECT * FROM shards('SELECT * FROM h WHERE k = NULL::bigint');
SELECT * FROM shards('SELECT * FROM h WHERE k = 1 AND k IN (2, 8)');
SELECT * FROM shards('SELECT * FROM h WHERE k < 5');
SELECT * FROM shards('SELECT * FROM h WHERE k = 1.0');
SELECT * FROM shards('SELECT * FROM h WHERE NOT k = 1');
SELECT * FROM shards('SELECT * FROM h WHERE k = (SELECT 1)');
SELECT * FROM shards('SELECT * FROM h WHERE k = length(current_user) * 0 + 1');
SELECT * FROM shards('UPDATE h SET v = v WHERE k = 2');
SELECT * FROM shards('DELETE FROM h WHERE k IN (1, 2)');
-- A key of a range map, and ranges; where there is no shardlet, there are no rows.
SELECT * FROM shards('SELECT * FROM r WHERE k = 9');
SELECT * FROM shards('SELECT * FROM r WHERE k = 25');
SELECT * FROM shards('SELECT * FROM r WHERE k < 10');
SELECT * FROM shards('SELECT * FROM r WHERE k <= 10');
SELECT * FROM shards('SELECT * FROM r WHERE k > 19');
SELECT * FROM shards('SELECT * FROM r WHERE k >= 19 AND k < 30');
SELECT * FROM shards('SELECT * FROM r WHERE k BETWEEN 12 AND 14');
SELECT * FROM shards('SELECT * FROM r WHERE 12 > k OR k > 35');
SELECT * FROM shards('SELECT * FROM r WHERE k > 5 AND k < 3');
SELECT * FROM shards('SELECT * FROM r WHERE k = 5000000000');
SELECT * FROM shards('SELECT * FROM r WHERE k < 5000000000');
SELECT * FROM shards('SELECT * FROM r WHERE k > 5000000000');
SELECT count(*), count(*) FILTER (WHERE k < 12) FROM r WHERE k < 5000000000;
SELECT * FROM r WHERE k = 25;
-- Lists, pairs, no key at all.
SELECT * FROM shards('SELECT * FROM l WHERE k = ''eu''');
SELECT * FROM shards('SELECT * FROM l WHERE k IN (''us'', ''nowhere'')');
SELECT * FROM shards('SELECT * FROM l WHERE k = ''nowhere''');
SELECT * FROM shards('SELECT * FROM l WHERE k > ''eu''');
SELECT a, b, shardlet.route('fp_pair', a, b) FROM (VALUES ('a1', 1), ('a2', 2), ('a2', 1), ('a0', 3), ('a1', 4), ('a2', 5), ('a0', 6)) v(a, b);
SELECT * FROM shards('SELECT * FROM p WHERE a = ''a1'' AND b = 1');
SELECT * FROM shards('SELECT * FROM p WHERE b = 1');
SELECT * FROM shards('SELECT * FROM p WHERE (a, b) = (''a1'', 4)');
SELECT * FROM shards('SELECT * FROM p WHERE a = ''a1'' AND b = 1 OR a = ''a1'' AND b = 4');
SELECT * FROM shards('SELECT * FROM p WHERE a IN (''a1'', ''a0'') AND b = 6');
SELECT * FROM shards('SELECT * FROM s WHERE v = 1');
-- Parameters: the shard is found at run time, of a generic plan too.
PREPARE by_key(bigint) AS SELECT v FROM h WHERE k = $1;
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE by_key(1);
EXECUTE by_key(1);
EXECUTE by_key(39);
EXECUTE by_key(NULL);
-- 18 writes numbers of rows with decimals.
CREATE FUNCTION explain_rows(statement text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) ' || statement LOOP
		RETURN NEXT replace(line, '.00 ', ' ');
	END LOOP;
END $$;
SELECT explain_rows('EXECUTE by_key(1)');
RESET plan_cache_mode;
-- Values of another table.
CREATE TABLE wanted (k int);
INSERT INTO wanted VALUES (1), (3), (99);
ANALYZE wanted;
ANALYZE h;
SELECT w.k, h.v FROM wanted w LEFT JOIN h ON h.k = w.k ORDER BY 1;
SELECT k, (SELECT v FROM h WHERE h.k = w.k) FROM wanted w ORDER BY 1;
-- The count of nothing is one row.
SELECT count(*), max(v) FROM h WHERE k = 4000;
SELECT count(*) FROM h WHERE k = NULL;
SELECT count(*) FROM r WHERE k = 25;
SELECT count(*) FROM r WHERE k = 25 HAVING count(*) > 0;
-- A shardlet that is offline cannot be read around; its shard's others can.
SELECT shardlet.alter_shardlet(shardlet, state => 'offline') FROM shardlet.shardlets WHERE map = 'fp_range' AND shard = 's2';
SELECT count(*) FROM r WHERE k < 5;
\set VERBOSITY sqlstate
SELECT count(*) FROM r WHERE k = 12;
SELECT count(*) FROM r;
SELECT shardlet.alter_shardlet(shardlet, state => 'read_only') FROM shardlet.shardlets WHERE map = 'fp_range' AND shard = 's2';
SELECT count(*) FROM r;
UPDATE r SET v = 'x' WHERE k = 12;
UPDATE r SET v = 'x';
INSERT INTO r VALUES (13, 'x');
UPDATE r SET v = 'x' WHERE k = 5;
\set VERBOSITY default
SELECT shardlet.alter_shardlet(shardlet, state => 'online') FROM shardlet.shardlets WHERE map = 'fp_range' AND shard = 's2';
-- An offline shard: an error, or partial results.
SELECT shardlet.alter_shard('s3', state => 'offline');
SELECT count(*) FROM r WHERE k < 12;
SELECT count(*) FROM r;
SET shardlet.partial_results = on;
SELECT count(*) FROM r;
SELECT * FROM shardlet.missing_shards();
SELECT count(*) FROM r WHERE k = 40;
UPDATE r SET v = 'y';
SELECT k FROM r WHERE k > 18 FOR UPDATE;
CREATE TABLE stored AS SELECT * FROM r;
SELECT * INTO stored FROM r;
CREATE MATERIALIZED VIEW stored AS SELECT count(*) FROM r WITH NO DATA;
REFRESH MATERIALIZED VIEW stored;
DROP MATERIALIZED VIEW stored;
RESET shardlet.partial_results;
SELECT shardlet.alter_shard('s3', state => 'online');
SELECT count(*) FROM r;
SET client_min_messages = warning;
DROP TABLE h, r, l, p, s;
DROP SCHEMA fdw_prune CASCADE;
SELECT shardlet.drop_map(map) FROM shardlet.maps WHERE map LIKE 'fp\_%' ORDER BY map;
SELECT count(*) FROM shardlet.execute(NULL, 'DROP SCHEMA IF EXISTS fdw_prune CASCADE');
