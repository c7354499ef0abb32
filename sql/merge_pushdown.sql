-- MERGE into sharded tables that are ordinary tables on the router: one shard executes
-- it, or each shard for its own rows, and the rows are those of MERGE on plain tables.
SET client_min_messages = warning;
CREATE SCHEMA mp_plain;
CREATE SCHEMA mp;
SET search_path = mp;
SELECT shardlet.create_map('mp_map'), shardlet.create_map('mp_other');
CREATE FUNCTION make_tables() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	CREATE TABLE items (k bigint PRIMARY KEY, v text, n int DEFAULT 5, twice int GENERATED ALWAYS AS (n * 2) STORED);
	CREATE TABLE changes (k bigint PRIMARY KEY, v text, n int);
	CREATE TABLE pairs (a bigint, b text, v text, PRIMARY KEY (a, b));
	CREATE TABLE names (k bigint PRIMARY KEY, name text);
	CREATE TABLE other (k bigint PRIMARY KEY, v text);
	CREATE TABLE parts (k bigint, d date, v text, PRIMARY KEY (k, d)) PARTITION BY RANGE (d);
	CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM ('2024-01-01') TO ('2024-02-01');
	CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM ('2024-02-01') TO ('2024-03-01');
	CREATE TABLE placed (k bigint PRIMARY KEY, v text);
	CREATE TABLE local (k bigint PRIMARY KEY, v text);
END $$;
SET search_path = mp_plain;
SELECT mp.make_tables();
SET search_path = mp;
SELECT make_tables();
SELECT shardlet.distribute('items', 'mp_map', 'k'), shardlet.distribute('changes', 'mp_map', 'k'),
	shardlet.distribute('parts', 'mp_map', 'k'), shardlet.distribute('other', 'mp_other', 'k'),
	shardlet.make_reference('names'), shardlet.place('placed', 's2');
SELECT shardlet.create_map('mp_pairs', 'hash', '{bigint, text}');
SELECT shardlet.distribute('pairs', 'mp_pairs', 'a, b');
CREATE FUNCTION fill_tables() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO items SELECT i, 'a' || i, i FROM generate_series(1, 40) i;
	INSERT INTO changes SELECT i, 'c' || i, i FROM generate_series(21, 60) i;
	INSERT INTO names SELECT i, 'name ' || i FROM generate_series(1, 50) i;
	INSERT INTO other SELECT i, 'o' || i FROM generate_series(1, 9) i;
END $$;
SELECT fill_tables();
SET search_path = mp_plain;
SELECT mp.fill_tables();
SET search_path = mp;
CREATE FUNCTION contents(tbl text) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
	result text[];
BEGIN
	EXECUTE format('SELECT array_agg(t ORDER BY t) FROM (SELECT q::text AS t FROM %I q) q', tbl) INTO result;
	RETURN result;
END $$;
-- Executes a statement on both: which plan it takes, how many rows it modified, and whether both are the same.
CREATE FUNCTION both_of(statement text, tbl text DEFAULT 'items') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	road text := public.road(statement);
	sharded bigint;
	plain bigint;
	rows text[];
	is_same bool;
BEGIN
	EXECUTE statement;
	GET DIAGNOSTICS sharded = ROW_COUNT;
	rows := mp.contents(tbl);
	PERFORM set_config('search_path', 'mp_plain', true);
	EXECUTE statement;
	GET DIAGNOSTICS plain = ROW_COUNT;
	is_same := rows IS NOT DISTINCT FROM mp.contents(tbl);
	PERFORM set_config('search_path', 'mp', true);
	RETURN format('%s %s %s', road, CASE WHEN sharded = plain THEN plain::text ELSE format('%s <> %s', sharded, plain) END,
		CASE WHEN is_same THEN 'same' ELSE 'DIFFERENT' END);
END $$;
-- The same for what only newer versions know; older ones answer as expected.
CREATE FUNCTION newer(statement text, expected text, tbl text DEFAULT 'items') RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN CASE WHEN current_setting('server_version_num')::int < 170000 THEN expected ELSE both_of(statement, tbl) END;
END $$;

-- One key, from whatever the source is.
SELECT both_of($$MERGE INTO items t USING (VALUES (1, 'x')) s(k, v) ON t.k = s.k
	WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, s.v)$$);
SELECT both_of($$MERGE INTO items t USING (VALUES (100, 'x')) s(k, v) ON t.k = s.k
	WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, s.v)$$);
SELECT both_of($$MERGE INTO items USING (SELECT 101 AS k, 'y' AS v) s ON s.k = items.k
	WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (v, k, n) VALUES (s.v || '!', s.k, DEFAULT)$$);
SELECT both_of($$MERGE INTO items USING (SELECT 101 AS k, 'y' AS v) s ON s.k = items.k
	WHEN MATCHED AND items.v = 'y!' THEN DELETE WHEN NOT MATCHED THEN INSERT (k) VALUES (s.k)$$);
SELECT both_of($$MERGE INTO items t USING (SELECT * FROM changes WHERE k = 22) s ON t.k = s.k
	WHEN MATCHED THEN UPDATE SET (v, n) = (SELECT c.v || '+', c.n + 1 FROM changes c WHERE c.k = t.k), twice = DEFAULT$$);
SELECT both_of($$MERGE INTO items t USING changes s ON t.k = s.k AND t.k = 23 WHEN MATCHED THEN UPDATE SET v = s.v || t.v$$);
SELECT both_of($$WITH s AS (SELECT 24 AS k UNION ALL SELECT 25) MERGE INTO items t USING (SELECT * FROM s LIMIT 1) s ON t.k = 24
	WHEN MATCHED THEN UPDATE SET n = n + 1$$);
SELECT both_of($$MERGE INTO items t USING (SELECT 1) s ON t.k = 102 WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (k) VALUES (102)$$);
SELECT both_of($$MERGE INTO items t USING (VALUES (26, 1), (26, 2)) s(k, n) ON t.k = s.k AND t.n = s.n WHEN MATCHED THEN DELETE$$);
SELECT both_of($$MERGE INTO items t USING (SELECT 103 AS k WHERE false) s ON t.k = s.k WHEN NOT MATCHED THEN INSERT (k) VALUES (s.k)$$);
SELECT both_of($$MERGE INTO items t USING names s ON t.k = s.k AND s.k = 5 WHEN MATCHED THEN UPDATE SET v = s.name$$);
SELECT both_of($$MERGE INTO items t USING (VALUES (6)) s(k) ON t.k = s.k WHEN MATCHED THEN UPDATE SET twice = DEFAULT$$);
SELECT both_of($$WITH d AS (DELETE FROM changes WHERE k = 59 RETURNING *) MERGE INTO items t USING d ON t.k = d.k
	WHEN NOT MATCHED THEN INSERT (k, v) VALUES (d.k, d.v)$$);
SELECT both_of($$MERGE INTO pairs t USING (VALUES (1, 'x', 'v')) s(a, b, v) ON t.a = s.a AND t.b = s.b
	WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (a, b, v) VALUES (s.a, s.b, s.v)$$, 'pairs');
SELECT both_of($$MERGE INTO placed t USING (VALUES (1, 'x'), (2, 'y')) s(k, v) ON t.k = s.k
	WHEN MATCHED THEN UPDATE SET k = t.k + 10 WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, s.v)$$, 'placed');
SELECT both_of($$MERGE INTO placed t USING placed s ON t.k = s.k WHEN MATCHED THEN UPDATE SET k = t.k + 10$$, 'placed');

-- All shards.
SELECT both_of($$MERGE INTO items t USING changes s ON t.k = s.k WHEN MATCHED AND s.n % 3 = 0 THEN DELETE
	WHEN MATCHED AND s.n % 3 = 1 THEN DO NOTHING WHEN MATCHED THEN UPDATE SET v = s.v, n = DEFAULT
	WHEN NOT MATCHED AND s.n < 55 THEN INSERT (k, v) VALUES (s.k, s.v) WHEN NOT MATCHED THEN INSERT (n, k) VALUES (s.n, s.k)$$);
SELECT both_of($$MERGE INTO items AS a USING changes AS b(x, y, z) ON a.k = b.x AND a.k IN (30, 31) WHEN MATCHED THEN UPDATE SET v = b.y || a.v$$);
SELECT both_of($$MERGE INTO items t USING changes s JOIN names USING (k) ON t.k = s.k
	WHEN MATCHED THEN UPDATE SET v = name WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, name)$$);
SELECT both_of($$MERGE INTO items t USING changes c RIGHT JOIN changes s ON s.k = c.k AND s.n > 40 ON t.k = c.k
	WHEN MATCHED THEN UPDATE SET v = s.v || c.v WHEN NOT MATCHED AND s.k > 200 THEN INSERT (k) VALUES (s.k)$$);
SELECT both_of($$WITH s AS (SELECT k, count(*) AS n, max(v) AS v FROM changes GROUP BY k) MERGE INTO items t USING s ON t.k = s.k
	WHEN MATCHED THEN UPDATE SET n = s.n WHEN NOT MATCHED THEN INSERT (k, v, n) VALUES (s.k, s.v, s.n)$$);
SELECT both_of($$MERGE INTO items t USING names s ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = s.name WHEN NOT MATCHED THEN DO NOTHING$$);
SELECT both_of($$MERGE INTO items t USING (SELECT max(k) AS k FROM names) s ON t.k > s.k WHEN MATCHED THEN DELETE$$);
SELECT both_of($$MERGE INTO items t USING (VALUES (1, 'p'), (2, 'q'), (3, 'r')) s(k, v) ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = s.v$$);
SELECT both_of($$MERGE INTO items t USING (SELECT 1) s ON true WHEN MATCHED THEN UPDATE SET n = 1$$);
SELECT both_of($$MERGE INTO parts t USING (SELECT k, v, date '2024-01-01' + k::int AS d FROM changes) s ON t.k = s.k AND t.d = s.d
	WHEN MATCHED THEN DELETE WHEN NOT MATCHED AND s.k < 50 THEN INSERT VALUES (s.k, s.d, s.v)$$, 'parts');
SELECT both_of($$MERGE INTO parts t USING changes s ON t.k = s.k WHEN MATCHED AND s.k < 25 THEN UPDATE SET d = '2024-02-28'
	WHEN MATCHED AND s.k > 40 THEN DELETE$$, 'parts');
SELECT both_of($$MERGE INTO parts_1 t USING changes s ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = 'one'$$, 'parts');
SELECT both_of($$MERGE INTO ONLY parts t USING changes s ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = 'none'$$, 'parts');
BEGIN;
SELECT newer($$MERGE INTO items t USING changes s ON t.k = s.k WHEN MATCHED THEN UPDATE SET n = 2
	WHEN NOT MATCHED BY SOURCE AND t.k < 10 THEN DELETE WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = 'alone'
	WHEN NOT MATCHED BY TARGET AND s.k < 58 THEN INSERT (k) VALUES (s.k)$$, 'scatter 57 same');
SELECT newer($$MERGE INTO items t USING names s ON t.k = s.k WHEN NOT MATCHED BY SOURCE THEN DELETE$$, 'scatter 7 same');
ROLLBACK;

-- RETURNING, and MERGE in WITH.
CREATE FUNCTION newer_rows(statement text, expected text[]) RETURNS text[] LANGUAGE plpgsql AS $$
BEGIN
	RETURN CASE WHEN current_setting('server_version_num')::int < 170000 THEN expected ELSE public.rows_of('mp', statement) END;
END $$;
BEGIN;
SELECT newer_rows($$MERGE INTO items t USING (VALUES (1, 'x')) s(k, v) ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = s.v
	RETURNING merge_action(), t.k, t.v, s.*$$, '{"(UPDATE,1,x,1,x)"}');
SELECT newer_rows($$MERGE INTO items t USING changes s ON t.k = s.k WHEN MATCHED AND t.k = 31 THEN DELETE WHEN NOT MATCHED AND s.k = 60 THEN INSERT (k) VALUES (s.k)
	RETURNING merge_action(), t.k, s.n$$, '{"(DELETE,31,31)","(INSERT,60,60)"}');
SELECT newer_rows($$WITH m AS (MERGE INTO items t USING (VALUES (2, 'y')) s(k, v) ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = s.v
	RETURNING t.*) SELECT k, v FROM m$$, '{"(2,y)"}');
ROLLBACK;

-- What is sent.
-- Minor versions of PostgreSQL write the alias with AS, or without.
CREATE FUNCTION plan(statement text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) ' || statement LOOP
		RETURN NEXT replace(line, 'items AS t ', 'items t ');
	END LOOP;
END $$;
SELECT plan($$MERGE INTO items t USING (VALUES (1, 'x')) s(k, v) ON t.k = s.k
	WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, s.v)$$);
SELECT plan($$MERGE INTO items t USING changes s ON t.k = s.k
	WHEN MATCHED AND s.n > 30 THEN DELETE WHEN NOT MATCHED THEN INSERT (k) VALUES (s.k)$$);

-- Into a table of the router, and into a reference table.
SELECT both_of($$MERGE INTO local t USING items s ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT VALUES (s.k, s.v)$$, 'local');
SELECT both_of($$MERGE INTO local t USING (SELECT max(k) AS k, count(*) AS n FROM changes) s ON t.k = s.k
	WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (s.k, s.n)$$, 'local');
SELECT both_of($$MERGE INTO names t USING items s ON t.k = s.k AND s.k > 20 WHEN MATCHED THEN UPDATE SET name = s.v
	WHEN NOT MATCHED AND s.k < 5 THEN INSERT VALUES (s.k + 1000, s.v)$$, 'names');
SELECT count(*) FROM items JOIN names USING (k) WHERE v = name;

-- Defaults of sequences are evaluated on the router, for a single row.
CREATE TABLE tickets (k bigint PRIMARY KEY, id serial, no int GENERATED ALWAYS AS IDENTITY, v text);
SELECT shardlet.distribute('tickets', 'mp_map', 'k');
MERGE INTO tickets t USING (VALUES (1, 'x')) s(k, v) ON t.k = s.k WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, s.v);
MERGE INTO tickets t USING (VALUES (2, 'x')) s(k, v) ON t.k = s.k WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, s.v);
MERGE INTO tickets t USING (VALUES (3, 'x')) s(k, v) ON t.k = s.k
	WHEN NOT MATCHED THEN INSERT (k, no, v) OVERRIDING SYSTEM VALUE VALUES (s.k, 100, s.v || (random() < 2)::text);
MERGE INTO tickets t USING changes s ON t.k = s.k AND s.k = 21
	WHEN NOT MATCHED AND s.k = 21 THEN INSERT (k, id, no, v) OVERRIDING SYSTEM VALUE VALUES (s.k, s.n, s.n, s.v);
SELECT * FROM tickets ORDER BY k;

-- Transactions, prepared statements, functions, the number of rows.
BEGIN;
MERGE INTO items t USING changes s ON t.k = s.k WHEN MATCHED THEN DELETE;
SAVEPOINT a;
MERGE INTO items t USING changes s ON t.k = s.k WHEN NOT MATCHED THEN INSERT (k) VALUES (s.k);
SELECT count(*) FROM items JOIN changes USING (k);
ROLLBACK TO a;
SELECT count(*) FROM items JOIN changes USING (k);
ROLLBACK;
PREPARE upsert (bigint, text) AS MERGE INTO items t USING (VALUES ($1, $2)) s(k, v) ON t.k = s.k
	WHEN MATCHED THEN UPDATE SET v = t.v || s.v WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, s.v);
SET plan_cache_mode = force_generic_plan;
EXECUTE upsert(300, 'a');
EXECUTE upsert(300, 'b');
EXECUTE upsert(301, 'c');
\set VERBOSITY terse
EXECUTE upsert(NULL, 'd');
\set VERBOSITY default
RESET plan_cache_mode;
DEALLOCATE upsert;
SELECT * FROM items WHERE k >= 300 ORDER BY k;
DO $$
DECLARE
	total int := 0;
	n int;
BEGIN
	FOR i IN 298 .. 302 LOOP
		MERGE INTO items t USING (SELECT i % 1000 AS k) s ON t.k = s.k WHEN MATCHED THEN DELETE;
		GET DIAGNOSTICS n = ROW_COUNT;
		total := total + n;
	END LOOP;
	RAISE WARNING '% rows', total;
END $$;
BEGIN READ ONLY;
MERGE INTO items t USING changes s ON t.k = s.k WHEN MATCHED THEN DELETE;
ROLLBACK;
-- Errors of the shards.
\set VERBOSITY terse
MERGE INTO items t USING (VALUES (40), (40)) s(k) ON t.k = s.k WHEN MATCHED THEN UPDATE SET n = 0;
MERGE INTO items t USING changes s ON t.k = s.k AND t.n = -1 WHEN NOT MATCHED THEN INSERT (k) VALUES (s.k);
\set VERBOSITY default

-- Refused, before anything happened.
MERGE INTO items t USING (VALUES (1, 'x'), (2, 'y')) s(k, v) ON t.k = s.k WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, s.v);
MERGE INTO items t USING (VALUES (1)) s(k) ON t.k = s.k WHEN NOT MATCHED THEN INSERT (k) VALUES (2);
MERGE INTO items t USING names s ON t.k = s.k WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, s.name);
MERGE INTO items t USING local s ON t.k = s.k WHEN MATCHED THEN DELETE;
MERGE INTO items t USING other s ON t.k = s.k WHEN MATCHED THEN DELETE;
MERGE INTO items t USING changes s ON t.v = s.v WHEN MATCHED THEN DELETE;
MERGE INTO items t USING changes s ON t.k = s.k AND t.k = 1 OR t.v = s.v WHEN MATCHED THEN DELETE;
MERGE INTO items t USING changes s ON t.k = s.k WHEN NOT MATCHED THEN INSERT (k) VALUES (s.n);
MERGE INTO items t USING changes s ON t.k = s.k WHEN NOT MATCHED THEN INSERT (k) VALUES (s.k + 1);
MERGE INTO items t USING (SELECT * FROM changes ORDER BY k LIMIT 3) s ON t.k = s.k WHEN MATCHED THEN DELETE;
MERGE INTO items t USING changes s ON t.k = s.k WHEN MATCHED THEN UPDATE SET k = t.k + 1;
MERGE INTO tickets t USING changes s ON t.k = s.k WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, s.v);
MERGE INTO items t USING changes s ON t.k = s.k WHEN MATCHED THEN UPDATE SET n = random();
MERGE INTO items t USING changes s ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = s::text;
MERGE INTO pairs t USING (VALUES (1, 'x')) s(a, b) ON t.a = s.a WHEN NOT MATCHED THEN INSERT (a, b) VALUES (s.a, s.b);
WITH d AS (DELETE FROM changes RETURNING *) MERGE INTO items t USING d ON t.k = d.k WHEN MATCHED THEN DELETE;
SET shardlet.scatter = off;
MERGE INTO items t USING changes s ON t.k = s.k WHEN MATCHED THEN DELETE;
RESET shardlet.scatter;
EXPLAIN MERGE INTO items t USING changes s ON t.v = s.v WHEN MATCHED THEN DELETE;
SELECT mp.contents('items') = (SELECT array_agg(t ORDER BY t) FROM (SELECT q::text AS t FROM mp_plain.items q) q) AS same;

-- Privileges are checked on the router.  What passes needs a password here.
\set VERBOSITY terse
CREATE ROLE mp_user;
GRANT USAGE ON SCHEMA mp TO mp_user;
GRANT SELECT (k), UPDATE (v) ON items TO mp_user;
GRANT SELECT (k) ON changes TO mp_user;
SET ROLE mp_user;
MERGE INTO items t USING (VALUES (1, 'x')) s(k, v) ON t.k = s.k WHEN MATCHED THEN UPDATE SET n = 1;
MERGE INTO items t USING (VALUES (1, 'x')) s(k, v) ON t.k = s.k WHEN MATCHED THEN DELETE;
MERGE INTO items t USING (VALUES (1, 'x')) s(k, v) ON t.k = s.k WHEN NOT MATCHED THEN INSERT (k) VALUES (s.k);
MERGE INTO items t USING changes s ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = s.v;
MERGE INTO items t USING (VALUES (1, 'x')) s(k, v) ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = s.v;
MERGE INTO items t USING changes s ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = 'x';
RESET ROLE;
\set VERBOSITY default

REVOKE ALL ON items, changes FROM mp_user;
REVOKE ALL (k, v) ON items FROM mp_user;
REVOKE ALL (k) ON changes FROM mp_user;
REVOKE ALL ON SCHEMA mp FROM mp_user;
DROP ROLE mp_user;
DROP SCHEMA mp, mp_plain CASCADE;
SELECT shardlet.drop_map('mp_map'), shardlet.drop_map('mp_other'), shardlet.drop_map('mp_pairs');
SELECT count(*) FROM shardlet.execute(NULL, 'DROP SCHEMA IF EXISTS mp CASCADE');
