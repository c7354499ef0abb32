-- INSERTs go to the shards as a whole, and put each value into its column.
CREATE SCHEMA plan_insert;
CREATE SCHEMA plan_insert_plain;
SET search_path = plan_insert, public;
SELECT shardlet.create_map('pi', shards => '{s1,s2,s3}');
SELECT shardlet.create_map('pi2', key_types => '{text,int}', shards => '{s1,s2,s3}');
CREATE DOMAIN positive AS int CHECK (value > 0);
CREATE TABLE events (gone int, k bigint NOT NULL, id int GENERATED ALWAYS AS IDENTITY, a text DEFAULT 'none', gone2 text, b numeric(6,2), c varchar(5), twice int GENERATED ALWAYS AS (id * 2) STORED, p positive, PRIMARY KEY (k, id));
ALTER TABLE events DROP COLUMN gone, DROP COLUMN gone2;
CREATE TABLE source (k bigint, n int, t text, PRIMARY KEY (k, n));
INSERT INTO source SELECT 1 + i % 7, i, 't' || i FROM generate_series(1, 30) i;
CREATE TABLE pairs (v int, a text, b int, PRIMARY KEY (a, b));
CREATE TABLE lists (k bigint PRIMARY KEY, tags text[], d jsonb);
CREATE TABLE logs (at timestamptz DEFAULT clock_timestamp(), k bigint NOT NULL, u uuid DEFAULT gen_random_uuid(), r float8 DEFAULT random());
CREATE TABLE documents (doc jsonb, k bigint GENERATED ALWAYS AS ((doc->>'k')::bigint) STORED NOT NULL);
DO $$
DECLARE
	name text;
BEGIN
	FOREACH name IN ARRAY '{events,source,pairs,lists,logs,documents}'::text[] LOOP
		EXECUTE format('CREATE TABLE plan_insert_plain.%I (LIKE plan_insert.%1$I INCLUDING ALL)', name);
	END LOOP;
END $$;
INSERT INTO plan_insert_plain.source TABLE source;
SELECT shardlet.distribute('events', 'pi', 'k'), shardlet.distribute('source', 'pi', 'k'), shardlet.distribute('lists', 'pi', 'k'), shardlet.distribute('logs', 'pi', 'k');
SELECT shardlet.distribute('documents', 'pi', 'k'), shardlet.distribute('pairs', 'pi2', 'a, b');
-- Runs a statement here and on plain tables, and compares what it returns, in its
-- order, and how many rows it writes.
CREATE FUNCTION returned(path text, statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	row record;
	result text := '';
	n int;
BEGIN
	PERFORM set_config('search_path', path, true);
	IF statement ~ 'RETURNING' THEN
		FOR row IN EXECUTE statement LOOP
			result := result || row::text;
		END LOOP;
	ELSE
		EXECUTE statement;
		GET DIAGNOSTICS n = ROW_COUNT;
		result := n::text;
	END IF;
	RETURN result;
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE;
END $$;
CREATE FUNCTION put(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	road text := public.road(statement);
	here text := plan_insert.returned('plan_insert, public', statement);
	there text := plan_insert.returned('plan_insert_plain', statement);
BEGIN
	PERFORM set_config('search_path', 'plan_insert, public', true);
	RETURN format('%s: %s%s', road, here, ' DIFFERENT ' || CASE WHEN here <> there THEN there END);
END $$;
-- Every order of the columns, in every form.
CREATE FUNCTION orders(columns text[]) RETURNS SETOF text[] LANGUAGE sql AS $$
	SELECT ARRAY[columns[a], columns[b], columns[c], columns[d]] FROM generate_series(1, 4) a, generate_series(1, 4) b, generate_series(1, 4) c, generate_series(1, 4) d
	WHERE a <> b AND a <> c AND a <> d AND b <> c AND b <> d AND c <> d ORDER BY a, b, c, d $$;
CREATE FUNCTION pick(columns text[], one jsonb) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(one->>c, ', ' ORDER BY n) FROM unnest(columns) WITH ORDINALITY u(c, n) $$;
CREATE TABLE forms (name text, sql text, rows jsonb[]);
INSERT INTO forms VALUES
	('one row', 'INSERT INTO events (%s) VALUES (%s)', '{"{\"k\": \"4\", \"a\": \"''x''\", \"b\": \"1.005\", \"p\": \"2\"}"}'),
	('defaults', 'INSERT INTO events (%s) VALUES (%s)', '{"{\"k\": \"4\", \"a\": \"DEFAULT\", \"b\": \"DEFAULT\", \"c\": \"upper(''q'')\"}"}'),
	('one key', 'INSERT INTO events (%s) VALUES (%s), (%s)', '{"{\"k\": \"4\", \"a\": \"''y''\", \"b\": \"2\", \"c\": \"''c''\"}","{\"k\": \"4\", \"a\": \"DEFAULT\", \"b\": \"NULL\", \"c\": \"''d''\"}"}'),
	('many keys', 'INSERT INTO events (%s) VALUES (%s), (%s)', '{"{\"k\": \"5\", \"a\": \"''y''\", \"b\": \"2\", \"c\": \"''c''\"}","{\"k\": \"6\", \"a\": \"DEFAULT\", \"b\": \"NULL\", \"c\": \"''d''\"}"}'),
	('returning', 'INSERT INTO events (%s) VALUES (%s), (%s) RETURNING b, k, c, a, id, twice', '{"{\"k\": \"5\", \"a\": \"''y''\", \"b\": \"2\", \"c\": \"''c''\"}","{\"k\": \"6\", \"a\": \"DEFAULT\", \"b\": \"NULL\", \"c\": \"''d''\"}"}'),
	('select', 'INSERT INTO source (%s) SELECT %s FROM source WHERE k = 3', '{"{\"k\": \"k\", \"n\": \"n + 100\", \"t\": \"t || ''!''\"}"}'),
	('union', 'INSERT INTO source (%s) SELECT %s FROM source WHERE k = 2 UNION SELECT %2$s FROM source WHERE k = 2', '{"{\"k\": \"k\", \"n\": \"n + 100\", \"t\": \"t || ''?''\"}"}'),
	('conflict', 'INSERT INTO source (%s) VALUES (%s), (%s) ON CONFLICT (k, n) DO UPDATE SET t = source.t || excluded.t RETURNING t, n', '{"{\"k\": \"1\", \"n\": \"7\", \"t\": \"''x''\"}","{\"k\": \"2\", \"n\": \"8\", \"t\": \"''y''\"}"}'),
	('with', 'WITH w AS (INSERT INTO source (%s) VALUES (%s), (%s) ON CONFLICT DO NOTHING RETURNING *) SELECT k, t, n FROM w WHERE k = 1 -- RETURNING', '{"{\"k\": \"1\", \"n\": \"700\", \"t\": \"''x''\"}","{\"k\": \"1\", \"n\": \"800\", \"t\": \"''y''\"}"}');
CREATE FUNCTION permute(form text) RETURNS TABLE (roads text, statements bigint, different bigint) LANGUAGE sql AS $$
	WITH done AS MATERIALIZED (
		SELECT put(format(f.sql, array_to_string(o, ', '), pick(o, f.rows[1]), pick(o, coalesce(f.rows[2], f.rows[1])))) AS result
		FROM forms f, LATERAL (SELECT array_agg(key ORDER BY key) AS columns FROM jsonb_object_keys(f.rows[1]) key) k,
			LATERAL (SELECT DISTINCT array_remove(o, NULL) AS o FROM orders(k.columns) o ORDER BY 1) p
		WHERE f.name = form)
	SELECT string_agg(DISTINCT split_part(result, ':', 1), ','), count(*), count(*) FILTER (WHERE result ~ 'DIFFERENT') FROM done $$;
SELECT name, (permute(name)).* FROM forms ORDER BY ctid;
SELECT by_road('TABLE events'), by_road('TABLE source');
-- The texts.
EXPLAIN (VERBOSE, COSTS OFF) INSERT INTO events (b, k) VALUES (1, 2), (3, 2);
EXPLAIN (VERBOSE, COSTS OFF) INSERT INTO events (b, k) VALUES (1, 2), (3, 4) RETURNING id;
EXPLAIN (VERBOSE, COSTS OFF) INSERT INTO source (t, n, k) SELECT t, n, k FROM source WHERE k = 3 ON CONFLICT DO NOTHING;
-- OVERRIDING, DEFAULT VALUES, INSERT ... SELECT.
SELECT put('INSERT INTO events (id, k) OVERRIDING SYSTEM VALUE VALUES (900, 1)');
SELECT put('INSERT INTO events (id, k) OVERRIDING USER VALUE VALUES (901, 1), (902, 2) RETURNING k, id');
SELECT put('INSERT INTO events DEFAULT VALUES');
SELECT put('INSERT INTO events (k, p) VALUES (1, 1), (2, 0)');
SELECT put('INSERT INTO events (k, p) VALUES (1, 5), (2, 1) RETURNING p');
SELECT put('INSERT INTO events (k, a) VALUES (1, ''a''), (NULL, ''x'')');
SELECT put('INSERT INTO lists VALUES (1, ''{a,b}'', ''{"x": 1}''), (2, NULL, NULL), (3, ''{}'', ''[]'') RETURNING *');
SELECT put('INSERT INTO lists (k, tags[2], tags[1]) VALUES (4, ''b'', ''a'')');
SELECT put('INSERT INTO lists (tags[2], tags[1], k) VALUES (''b'', ''a'', 5), (''d'', ''c'', 5 + 0) ON CONFLICT DO NOTHING');
SELECT put('INSERT INTO pairs (b, v, a) VALUES (1, 2, ''x''), (2, 3, ''y''), (3, 4, ''z''), (4, NULL, ''z'') RETURNING v, a, b');
SELECT put('INSERT INTO documents (doc) VALUES (''{"k": 1}''), (''{"k": 2}''), (''{"k": 3}'') RETURNING k');
SELECT put('INSERT INTO documents (doc) VALUES (''{"k": 4}'') RETURNING k');
-- Which numbers a failed statement takes from a sequence does not matter.
SELECT by_road('SELECT k, a, b, c, p FROM events'), by_road('TABLE lists'), by_road('TABLE pairs'), by_road('TABLE documents');
UPDATE documents SET doc = '{"k": 1000}' WHERE k = 1;
SELECT count(*) FROM shardlet.query('pi', 'SELECT k FROM plan_insert.documents') AS (k bigint, shardlet_shard name) WHERE shardlet_shard <> shardlet.route('pi', k);
-- What conflicts twice is an error; what conflicts elsewhere is not.
SELECT put('INSERT INTO source VALUES (1, 7, ''a''), (1, 7, ''b''), (2, 8, ''c'') ON CONFLICT (k, n) DO UPDATE SET t = excluded.t');
SELECT put('INSERT INTO source VALUES (1, 7, ''a''), (1, 7, ''b''), (2, 8, ''c'') ON CONFLICT (k, n) DO UPDATE SET t = excluded.t RETURNING t');
SELECT put('INSERT INTO source VALUES (1, 7, ''a''), (50, 7, ''b''), (2, 8, ''c'') ON CONFLICT DO NOTHING RETURNING k, t');
SELECT put('INSERT INTO source VALUES (1, 7, ''a''), (51, 7, ''b'')');
SELECT put('INSERT INTO source AS s VALUES (1, 7, ''a''), (51, 7, ''b'') ON CONFLICT (k, n) DO UPDATE SET t = excluded.t || s.t, n = s.n + 1000 WHERE s.n = 7');
SELECT by_road('TABLE source');
-- Volatile parts are computed once for each row, here.
CREATE SEQUENCE numbers;
INSERT INTO source VALUES (nextval('numbers'), nextval('numbers') + 5000, 'once') RETURNING k, n;
INSERT INTO source VALUES (nextval('numbers'), nextval('numbers') + 5000, 'once'), (nextval('numbers'), nextval('numbers') + 5000, 'once') RETURNING k, n;
INSERT INTO source VALUES (1, nextval('numbers') + 5000, 'once'), (1, nextval('numbers') + 5000, 'once') RETURNING k, n;
INSERT INTO logs (k) VALUES (1), (1), (2), (3);
SELECT count(*), count(at), count(DISTINCT u), count(DISTINCT r), count(*) FILTER (WHERE at <= clock_timestamp()) FROM logs;
SELECT count(*) FROM shardlet.query('pi', 'SELECT k FROM plan_insert.source') AS (k bigint, shardlet_shard name) WHERE shardlet_shard <> shardlet.route('pi', k);
-- Prepared, with keys that are known when it runs.
PREPARE two(bigint, bigint, text) AS INSERT INTO source (t, n, k) VALUES ($3, 1, $1), ($3 || '2', 2, $2) RETURNING k, n, t;
SET plan_cache_mode = force_generic_plan;
EXECUTE two(101, 102, 'p');
EXECUTE two(103, 103, 'q');
EXECUTE two(101, 104, 'p');
EXECUTE two(104, NULL, 'p');
SELECT k, n, t FROM source WHERE k > 100 ORDER BY k, n;
RESET plan_cache_mode;
-- Errors of single values.
\set VERBOSITY sqlstate
INSERT INTO events (id, k) VALUES (901, 1);
INSERT INTO events (k, c) VALUES (1, 'toolong'), (2, 'x');
INSERT INTO events (k, b) VALUES (1, 1), (2, 100000);
\set VERBOSITY default
-- A row that fails takes all others with it.
BEGIN;
INSERT INTO source VALUES (201, 1, 'a'), (202, 1, 'b'), (203, 1, 'c');
SAVEPOINT s;
INSERT INTO source VALUES (204, 1, 'a'), (205, 1, 'b'), (203, 1, 'c');
ROLLBACK TO s;
INSERT INTO source VALUES (206, 1, 'a'), (207, 1, 'b'), (208, 1, 'c');
COMMIT;
SELECT k FROM source WHERE k > 200 ORDER BY k;
-- A set in VALUES makes several rows, each with defaults of its own.
INSERT INTO logs (k, at) VALUES (77, generate_series(timestamptz '2026-01-01', '2026-01-03', '1 day'));
SELECT count(*), count(DISTINCT u), count(DISTINCT r) FROM logs WHERE k = 77;
INSERT INTO events (k, p) VALUES (77, generate_series(1, 3));
SELECT count(DISTINCT id), sum(p) FROM events WHERE k = 77;
SELECT put('INSERT INTO source VALUES (77, generate_series(1, 3), ''set'')');
-- Very many rows, each with numbers of its own, take no longer than that.
SET statement_timeout = '8s';
DO $$ BEGIN EXECUTE (SELECT 'INSERT INTO logs (k) VALUES ' || string_agg('(78)', ', ') FROM generate_series(1, 6000)); END $$;
RESET statement_timeout;
SELECT count(DISTINCT u) FROM logs WHERE k = 78;
-- Not this way: rows that the router cannot compute, and with the plan switched off.
SELECT put('INSERT INTO source VALUES (1, (SELECT max(n) + 1 FROM source), ''max''), (2, 1, ''other'')');
SET shardlet.ship = off;
SELECT put('INSERT INTO source (t, n, k) VALUES (''a'', 9000, 1), (''b'', 9000, 2) RETURNING t');
RESET shardlet.ship;
SELECT by_road('SELECT * FROM source WHERE n >= 9000');
SET client_min_messages = warning;
DROP TABLE events, source, pairs, lists, logs, documents;
DROP SCHEMA plan_insert, plan_insert_plain CASCADE;
SELECT shardlet.drop_map('pi'), shardlet.drop_map('pi2');
