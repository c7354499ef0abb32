-- The node that writes rows of sharded tables in the place of ModifyTable, with
-- all that PostgreSQL's own does: RETURNING, WITH, ON CONFLICT, checks of views.
CREATE SCHEMA tm;
SET search_path = tm;
SELECT shardlet.create_map('tm_map');
CREATE TABLE items (
	id bigint,
	n int,
	v int CHECK (v < 1000),
	twice int GENERATED ALWAYS AS (v * 2) STORED,
	note text DEFAULT 'new',
	PRIMARY KEY (id, n));
CREATE TABLE plain (LIKE items INCLUDING ALL);
-- The key is a generated column.
CREATE TABLE buckets (v int, id bigint GENERATED ALWAYS AS (v * 7) STORED PRIMARY KEY, note text);
-- Rows of a table without generated columns can be modified by the shards alone.
CREATE TABLE marks (id bigint PRIMARY KEY, v int);
CREATE TABLE words (id int PRIMARY KEY, word text);
INSERT INTO words SELECT g, 'word ' || g FROM generate_series(1, 20) g;
SELECT shardlet.distribute('items', 'tm_map', 'id');
SELECT shardlet.distribute('buckets', 'tm_map', 'id');
SELECT shardlet.distribute('marks', 'tm_map', 'id');
CREATE FUNCTION differences() RETURNS bigint LANGUAGE sql AS $$
	SELECT (SELECT count(*) FROM (TABLE items EXCEPT ALL TABLE plain) a)
		+ (SELECT count(*) FROM (TABLE plain EXCEPT ALL TABLE items) b) $$;
CREATE FUNCTION misplaced() RETURNS bigint LANGUAGE sql AS $$
	SELECT count(*) FROM shardlet.query('tm_map', 'SELECT id FROM tm.items UNION ALL SELECT id FROM tm.buckets')
		AS (id bigint, shardlet_shard name) WHERE shardlet_shard <> shardlet.route('tm_map', id) $$;
-- Nothing is pushed down as a whole, so that rows are written one by one.
SET shardlet.ship = off;
SET shardlet.scatter = off;

-- EXPLAIN
EXPLAIN (COSTS OFF) INSERT INTO items VALUES (1, 1, 1);
EXPLAIN (VERBOSE, COSTS OFF) INSERT INTO items AS i VALUES (1, 1, 1)
	ON CONFLICT (id, n) DO UPDATE SET v = i.v + excluded.v WHERE i.v > 3 RETURNING id, v + 1 AS more, tableoid::regclass;
EXPLAIN (COSTS OFF) INSERT INTO items VALUES (1, 1, 1) ON CONFLICT DO NOTHING;
EXPLAIN (VERBOSE, COSTS OFF) UPDATE items i SET note = word FROM words w WHERE w.id = i.n RETURNING i.id, w.word;
EXPLAIN (VERBOSE, COSTS OFF) UPDATE items SET note = 'x' WHERE v = 3 RETURNING note, twice;
EXPLAIN (VERBOSE, COSTS OFF) DELETE FROM marks WHERE v = 3 RETURNING id;
EXPLAIN (COSTS OFF) DELETE FROM items WHERE v = 3 AND random() >= 0;
EXPLAIN (COSTS OFF) WITH a AS (INSERT INTO items VALUES (1, 1, 1) RETURNING id) SELECT * FROM a;

-- Rows, their counts and what they return.
INSERT INTO items (id, n, v, note) VALUES (1, 1, 10, 'one'), (2, 1, 20, DEFAULT), (3, 1, 30, NULL), (4, 1, NULL, 'four')
	RETURNING tableoid::regclass, items, twice, note || '!' AS noted, (SELECT word FROM words WHERE words.id = items.id);
INSERT INTO plain (id, n, v, note) VALUES (1, 1, 10, 'one'), (2, 1, 20, DEFAULT), (3, 1, 30, NULL), (4, 1, NULL, 'four');
INSERT INTO items SELECT g, 2, g FROM generate_series(1, 250) g;
\echo :ROW_COUNT
INSERT INTO plain SELECT g, 2, g FROM generate_series(1, 250) g;
WITH u AS (UPDATE items i SET note = word, v = i.v + 1 FROM words w WHERE w.id = i.id AND n = 2 AND w.id < 4
	RETURNING i.tableoid::regclass, i.id, w.word, i.v, twice) SELECT * FROM u ORDER BY id;
UPDATE plain i SET note = word, v = i.v + 1 FROM words w WHERE w.id = i.id AND n = 2 AND w.id < 4;
DELETE FROM items i USING words w WHERE w.id = i.id AND w.id = 20 RETURNING i.tableoid::regclass, i.*, w.*;
DELETE FROM plain WHERE id = 20;
DELETE FROM items WHERE n = 2 AND id > 200 AND random() >= 0;
\echo :ROW_COUNT
DELETE FROM plain WHERE n = 2 AND id > 200;
SELECT differences();

-- The shards modify the rows themselves.
INSERT INTO marks SELECT g, g FROM generate_series(1, 9) g;
UPDATE marks SET v = v + 10 WHERE v > 4;
\echo :ROW_COUNT
UPDATE marks SET v = v + 1 WHERE id = 5 RETURNING id, v, tableoid::regclass, (SELECT word FROM words w WHERE w.id = marks.id);
WITH d AS (DELETE FROM marks WHERE v > 17), u AS (UPDATE marks SET v = 0 WHERE id < 3 RETURNING id, v)
	SELECT * FROM u ORDER BY id;
SELECT * FROM marks ORDER BY id;

-- A key that changes: the row moves to another shard.
WITH u AS (UPDATE items SET id = id + 1000 WHERE n = 1 RETURNING id, n, v, twice, note) SELECT * FROM u ORDER BY id;
UPDATE plain SET id = id + 1000 WHERE n = 1;
UPDATE items SET id = NULL WHERE n = 1;
INSERT INTO items (n, v) SELECT 1, 1 RETURNING id;
INSERT INTO buckets (v, note) SELECT g, 'b' || g FROM generate_series(1, 4) g RETURNING id, v, note;
WITH u AS (UPDATE buckets SET v = v + 10 WHERE note <> 'b4' RETURNING id, v, note) SELECT * FROM u ORDER BY id;
UPDATE buckets SET note = note || note WHERE v = 4 RETURNING *;
SELECT differences(), misplaced();

-- WITH: what is not read runs as well, and only the main part counts.
WITH a AS (INSERT INTO items VALUES (21, 5, 1), (22, 5, 2)), b AS (INSERT INTO buckets (v) VALUES (31), (32) RETURNING id)
	UPDATE items SET note = 'with' WHERE id = 3 AND n = 2;
\echo :ROW_COUNT
INSERT INTO plain VALUES (21, 5, 1), (22, 5, 2);
UPDATE plain SET note = 'with' WHERE id = 3 AND n = 2;
-- The second part does not see the rows of the first; the first is read to its end though not all rows are wanted.
WITH a AS (INSERT INTO items VALUES (23, 5, 3), (24, 5, 4), (25, 5, 5) RETURNING id, tableoid::regclass AS t),
	b AS (UPDATE items SET v = v + 1 WHERE n = 5 RETURNING id)
	SELECT t, (SELECT count(*) FROM b) FROM a LIMIT 1;
INSERT INTO plain VALUES (23, 5, 3), (24, 5, 4), (25, 5, 5);
UPDATE plain SET v = v + 1 WHERE id IN (21, 22) AND n = 5;
WITH moved AS (DELETE FROM items WHERE n = 5 RETURNING id, n, v, note)
	INSERT INTO items (id, n, v, note) SELECT id + 1, n + 1, v, note FROM moved ORDER BY id RETURNING id, n, twice;
WITH moved AS (DELETE FROM plain WHERE n = 5 RETURNING id, n, v, note)
	INSERT INTO plain (id, n, v, note) SELECT id + 1, n + 1, v, note FROM moved;
SELECT differences(), (SELECT count(*) FROM buckets);

-- ON CONFLICT, with values that are computed on the router.
INSERT INTO items AS i VALUES (1, 2, 7), (301, 2, 7) ON CONFLICT (id, n) DO UPDATE SET v = i.v + excluded.v, note = 'again';
\echo :ROW_COUNT
INSERT INTO plain AS i VALUES (1, 2, 7), (301, 2, 7) ON CONFLICT (id, n) DO UPDATE SET v = i.v + excluded.v, note = 'again';
INSERT INTO items AS i SELECT g, 2, 1 FROM generate_series(1, 3) g
	ON CONFLICT (id, n) DO UPDATE SET note = current_setting('search_path') WHERE i.v < (SELECT max(id) FROM words)
	RETURNING id, note, tableoid::regclass;
INSERT INTO plain AS i SELECT g, 2, 1 FROM generate_series(1, 3) g
	ON CONFLICT (id, n) DO UPDATE SET note = current_setting('search_path') WHERE i.v < (SELECT max(id) FROM words);
INSERT INTO items VALUES (1, 2, 9), (302, 2, 9), (2, 2, 9) ON CONFLICT DO NOTHING;
\echo :ROW_COUNT
INSERT INTO plain VALUES (1, 2, 9), (302, 2, 9), (2, 2, 9) ON CONFLICT DO NOTHING;
INSERT INTO items VALUES (1, 2, 9), (303, 2, 9) ON CONFLICT (id, n) DO NOTHING RETURNING id;
INSERT INTO plain VALUES (1, 2, 9), (303, 2, 9) ON CONFLICT (id, n) DO NOTHING;
SELECT differences();

-- Views with a check option; a constraint of the shard is checked first.
CREATE VIEW small AS SELECT id, n, v, note FROM items WHERE v < 100 WITH CHECK OPTION;
CREATE FUNCTION twice_of(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 * 2';
CREATE VIEW tiny AS SELECT * FROM small WHERE id < 500 AND twice_of(v) < 50 WITH LOCAL CHECK OPTION;
INSERT INTO small VALUES (401, 1, 50) RETURNING *;
INSERT INTO small VALUES (402, 1, 150);
INSERT INTO small VALUES (402, 1, 5000);
UPDATE small SET v = v + 60 WHERE id = 401;
UPDATE small SET v = v + 1 WHERE id = 401 RETURNING *;
INSERT INTO tiny VALUES (403, 1, 30);
INSERT INTO tiny VALUES (403, 1, 20), (404, 1, 3) RETURNING *;
UPDATE tiny SET id = id + 100 WHERE id = 403;
WITH w AS (INSERT INTO small VALUES (405, 1, 1) RETURNING id) UPDATE small SET v = 99 FROM w WHERE small.id = 404 RETURNING small.id, v;
DELETE FROM tiny WHERE id = 403 RETURNING *;
SELECT id, v FROM items WHERE id BETWEEN 401 AND 409 ORDER BY 1;
DELETE FROM items WHERE id BETWEEN 401 AND 409;
SELECT differences();

-- Functions, cursors, prepared statements.
CREATE FUNCTION fill(wanted int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	row record;
	result text := '';
	c CURSOR FOR WITH w AS (INSERT INTO items VALUES (71, 7, 1), (72, 7, 2), (73, 7, 3) RETURNING id) SELECT id FROM w;
	dynamic refcursor;
BEGIN
	FOR row IN INSERT INTO items VALUES (74, 7, 4), (75, 7, 5), (76, 7, 6) RETURNING id, twice LOOP
		result := format('%s %s/%s', result, row.id, row.twice);
		EXIT WHEN row.id = wanted;
	END LOOP;
	OPEN c;
	FETCH c INTO row;
	result := format('%s; %s', result, row.id);
	CLOSE c;
	OPEN dynamic FOR EXECUTE 'UPDATE items SET v = v + 1 WHERE n = 7 AND random() >= 0 RETURNING v';
	FETCH dynamic INTO row;
	result := format('%s; %s', result, row.v > 1);
	CLOSE dynamic;
	RETURN result;
END $$;
SELECT fill(74);
SELECT id, v FROM items WHERE n = 7 ORDER BY 1;
DECLARE c CURSOR FOR WITH w AS (DELETE FROM items RETURNING id) SELECT * FROM w;
SET plan_cache_mode = force_generic_plan;
PREPARE add_item(int, int) AS INSERT INTO items SELECT $1 + g, 8, $2 FROM generate_series(1, 2) g RETURNING id, twice;
EXECUTE add_item(80, 1);
EXECUTE add_item(82, 2);
PREPARE change_item(int, int) AS WITH u AS (UPDATE items SET v = v + $2 WHERE n = $1 AND v <> random() RETURNING id, v) SELECT * FROM u ORDER BY id;
EXECUTE change_item(8, 100);
EXECUTE change_item(8, 200);
EXPLAIN (COSTS OFF) EXECUTE change_item(8, 100);
-- A trigger on the router is fired by PostgreSQL's own node.
CREATE FUNCTION negate() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.v := -NEW.v; RETURN NEW; END';
CREATE TRIGGER negate BEFORE UPDATE ON items FOR EACH ROW EXECUTE FUNCTION negate();
EXPLAIN (COSTS OFF) EXECUTE change_item(8, 100);
EXECUTE change_item(8, 1);
DROP TRIGGER negate ON items;
EXECUTE change_item(8, 400);
DEALLOCATE ALL;
RESET plan_cache_mode;
DELETE FROM items WHERE n IN (7, 8);
SELECT differences();

-- EXPLAIN ANALYZE writes, and counts the rows that are returned.
CREATE FUNCTION analyzed(statement text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) ' || statement LOOP
		IF line ~ 'actual' THEN RETURN NEXT regexp_replace(line, '(rows=\d+)\.00', '\1'); END IF;
	END LOOP;
END $$;
SELECT analyzed('INSERT INTO items SELECT g, 9, g FROM generate_series(1, 3) g');
SELECT analyzed('UPDATE items SET v = v + 1 WHERE n = 9 AND random() >= 0 RETURNING id');
SELECT analyzed('WITH d AS (DELETE FROM items WHERE n = 9 AND id < 3 AND random() >= 0 RETURNING id) SELECT count(*) FROM d');
SELECT id, v FROM items WHERE n = 9;
DELETE FROM items WHERE n = 9;

-- Errors, in RETURNING and on the shard; the session goes on.
INSERT INTO items SELECT g, 10, g FROM generate_series(1, 6) g RETURNING 1 / (v - 4);
UPDATE items SET v = v WHERE n = 2 AND random() >= 0 RETURNING 1 / (id - 4);
BEGIN;
INSERT INTO items VALUES (1, 10, 1);
SAVEPOINT s;
DELETE FROM items WHERE n = 2 AND random() >= 0 RETURNING 1 / (id - 4);
ROLLBACK TO s;
WITH w AS (INSERT INTO items VALUES (2, 10, 1), (3, 10, 5000)) SELECT 1;
ROLLBACK TO s;
INSERT INTO items SELECT id, n, v FROM items WHERE n = 10;
ROLLBACK TO s;
SELECT id, n, v FROM items WHERE n = 10;
DELETE FROM items WHERE n = 10;
COMMIT;
SELECT differences(), misplaced();

SET client_min_messages = warning;
DROP VIEW tiny, small;
DROP TABLE items, buckets, marks, plain, words;
SELECT count(*) FROM shardlet.execute('tm_map', 'DROP SCHEMA tm CASCADE');
DROP SCHEMA tm CASCADE;
SELECT shardlet.drop_map('tm_map');
