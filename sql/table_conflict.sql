-- INSERT ... ON CONFLICT of a sharded table: decided on the shard that the row
-- belongs to, with the same outcome as on a plain table.
CREATE SCHEMA tc;
SET search_path = tc;
SELECT shardlet.create_map('tc_map');
CREATE TABLE counts (
	customer_id bigint,
	name text,
	n int DEFAULT 1,
	note text,
	at timestamptz DEFAULT now(),
	PRIMARY KEY (customer_id, name));
CREATE UNIQUE INDEX ON counts (customer_id, lower(note)) WHERE n > 50;
CREATE TABLE plain (LIKE counts INCLUDING ALL);
SELECT shardlet.distribute('counts', 'tc_map', 'customer_id');
CREATE FUNCTION differences() RETURNS bigint LANGUAGE sql AS $$
	SELECT (SELECT count(*) FROM (SELECT customer_id, name, n, note FROM counts EXCEPT ALL SELECT customer_id, name, n, note FROM plain) a)
		+ (SELECT count(*) FROM (SELECT customer_id, name, n, note FROM plain EXCEPT ALL SELECT customer_id, name, n, note FROM counts) b) $$;

-- DO NOTHING, with and without a target; the count is exact.
INSERT INTO counts VALUES (1, 'a'), (2, 'a'), (3, 'a') ON CONFLICT DO NOTHING;
\echo :ROW_COUNT
INSERT INTO counts VALUES (1, 'a'), (1, 'b'), (1, 'b'), (4, 'a') ON CONFLICT (customer_id, name) DO NOTHING;
\echo :ROW_COUNT
INSERT INTO counts VALUES (1, 'a'), (5, 'a') ON CONFLICT (name, customer_id) DO NOTHING RETURNING customer_id, name, n;
INSERT INTO counts SELECT g, 'a' FROM generate_series(1, 1000) g ON CONFLICT DO NOTHING;
\echo :ROW_COUNT
INSERT INTO plain SELECT g, 'a' FROM generate_series(1, 1000) g;
INSERT INTO plain VALUES (1, 'b');
SELECT differences();

-- DO UPDATE: EXCLUDED, the row that is there, a condition, parts for the router.
INSERT INTO counts VALUES (1, 'a', 5) ON CONFLICT (customer_id, name) DO UPDATE SET n = counts.n + excluded.n;
INSERT INTO plain VALUES (1, 'a', 5) ON CONFLICT (customer_id, name) DO UPDATE SET n = plain.n + excluded.n;
INSERT INTO counts AS x VALUES (1, 'a', 5, 'Note') ON CONFLICT (customer_id, name)
	DO UPDATE SET n = x.n * 10, note = excluded.note || '!', customer_id = excluded.customer_id WHERE x.n = 6
	RETURNING customer_id, n, note;
INSERT INTO plain AS x VALUES (1, 'a', 5, 'Note') ON CONFLICT (customer_id, name)
	DO UPDATE SET n = x.n * 10, note = excluded.note || '!' WHERE x.n = 6;
INSERT INTO counts AS x VALUES (1, 'a', 5, 'Note') ON CONFLICT (customer_id, name)
	DO UPDATE SET n = 7 WHERE x.n = 6 RETURNING n;
INSERT INTO counts VALUES (2, 'a', 1) ON CONFLICT (customer_id, name)
	DO UPDATE SET at = now() + interval '1 day', n = excluded.n + (SELECT max(n) FROM plain), note = current_schema()
	RETURNING n, note, at > now();
INSERT INTO plain VALUES (2, 'a', 1) ON CONFLICT (customer_id, name)
	DO UPDATE SET n = excluded.n + 60, note = current_schema();
INSERT INTO counts SELECT g, 'a', g FROM generate_series(1, 1500) g ON CONFLICT (customer_id, name)
	DO UPDATE SET n = excluded.n, note = 'n' || counts.n WHERE excluded.n % 2 = 0;
\echo :ROW_COUNT
INSERT INTO plain SELECT g, 'a', g FROM generate_series(1, 1500) g ON CONFLICT (customer_id, name)
	DO UPDATE SET n = excluded.n, note = 'n' || plain.n WHERE excluded.n % 2 = 0;
\echo :ROW_COUNT
SELECT differences();

-- Parameters, of a plan for all values too.
PREPARE add(bigint, text, int) AS INSERT INTO counts VALUES ($1, $2, $3) ON CONFLICT (customer_id, name)
	DO UPDATE SET n = counts.n + $3, note = $2 || excluded.n::text;
SET plan_cache_mode = force_generic_plan;
EXECUTE add(2000, 'p', 1);
EXECUTE add(2000, 'p', 2);
RESET plan_cache_mode;
EXECUTE add(2000, 'p', 3);
SELECT n, note FROM counts WHERE customer_id = 2000;
DEALLOCATE add;

-- Targets that are expressions and have a condition; views; WITH.
INSERT INTO counts VALUES (3000, 'a', 60, 'Note'), (3000, 'b', 60, 'nOTE') ON CONFLICT (customer_id, lower(note)) WHERE n > 50 DO NOTHING;
\echo :ROW_COUNT
CREATE VIEW short AS SELECT name AS who, customer_id AS id, n FROM counts;
INSERT INTO short VALUES ('a', 3000, 1) ON CONFLICT (id, who) DO UPDATE SET n = short.n + excluded.n RETURNING *;
WITH up AS (INSERT INTO counts VALUES (3000, 'a', 2) ON CONFLICT (customer_id, name) DO UPDATE SET n = excluded.n RETURNING n)
	SELECT * FROM up;
EXPLAIN (VERBOSE, COSTS OFF) INSERT INTO counts AS c VALUES (1, 'a') ON CONFLICT (customer_id, name)
	DO UPDATE SET n = c.n + 1, at = now() WHERE c.n < 10;

-- In a trigger-laden table the rows go one by one.
CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE NOTICE 'stored %', new.n;
	RETURN new;
END $$;
CREATE TRIGGER tell AFTER INSERT ON counts FOR EACH ROW EXECUTE FUNCTION tell();
INSERT INTO counts VALUES (3000, 'a', 5), (3001, 'a', 6) ON CONFLICT DO NOTHING;
\echo :ROW_COUNT
DROP TRIGGER tell ON counts;

-- Wrong input, and what cannot be done on a shard.
\set VERBOSITY sqlstate
INSERT INTO counts VALUES (1, 'a'), (1, 'a') ON CONFLICT (customer_id, name) DO UPDATE SET n = 1;
INSERT INTO counts VALUES (1, 'a') ON CONFLICT (note) DO NOTHING;
INSERT INTO counts VALUES (1, 'a') ON CONFLICT (nothing) DO NOTHING;
INSERT INTO counts VALUES (1, 'a') ON CONFLICT ON CONSTRAINT nothing DO NOTHING;
\set VERBOSITY terse
INSERT INTO counts VALUES (1, 'a') ON CONFLICT (customer_id, name) DO UPDATE SET customer_id = 2;
INSERT INTO counts VALUES (1, 'a') ON CONFLICT (customer_id, name) DO UPDATE SET n = random();
INSERT INTO counts VALUES (1, 'a') ON CONFLICT (customer_id, name) DO UPDATE SET n = 1 WHERE counts.n < random();
INSERT INTO counts VALUES (1, 'a') ON CONFLICT (customer_id, name) DO UPDATE SET n = (SELECT max(p.n) FROM plain p WHERE p.customer_id = excluded.customer_id);
INSERT INTO counts VALUES (1, 'a') ON CONFLICT (customer_id, name) DO UPDATE SET (n, note) = (SELECT 1, 'x');
CREATE FUNCTION local(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN $1; END';
INSERT INTO counts VALUES (1, 'a') ON CONFLICT (customer_id, name) DO UPDATE SET n = local(excluded.n);
\set VERBOSITY default
INSERT INTO counts VALUES (1, 'a') ON CONFLICT (customer_id, name) DO UPDATE SET n = local(12) RETURNING n;

-- Shards know which rows are updated, triggers of the router do not.
CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.note := TG_OP; RETURN NEW; END $$;
CREATE TRIGGER touch BEFORE INSERT ON counts FOR EACH ROW EXECUTE FUNCTION touch();
INSERT INTO counts VALUES (1, 'a'), (1, 'new one') ON CONFLICT (customer_id, name) DO UPDATE SET n = 3, note = excluded.note RETURNING name, n, note;
DROP TRIGGER touch ON counts;
CREATE TRIGGER touch BEFORE UPDATE ON counts FOR EACH ROW EXECUTE FUNCTION touch();
INSERT INTO counts VALUES (1, 'a') ON CONFLICT (customer_id, name) DO UPDATE SET n = 3;
INSERT INTO counts VALUES (1, 'a') ON CONFLICT (customer_id, name) DO NOTHING;
DROP TRIGGER touch ON counts;
CREATE TRIGGER touch AFTER UPDATE ON counts FOR EACH ROW EXECUTE FUNCTION touch();
\set VERBOSITY terse
INSERT INTO counts VALUES (1, 'a') ON CONFLICT (customer_id, name) DO UPDATE SET n = 3;
DROP TRIGGER touch ON counts;
CREATE TRIGGER touch AFTER INSERT ON counts FOR EACH ROW EXECUTE FUNCTION touch();
INSERT INTO counts VALUES (1, 'a') ON CONFLICT (customer_id, name) DO UPDATE SET n = 3;
\set VERBOSITY default
DROP TRIGGER touch ON counts;
INSERT INTO counts VALUES (1, 'a') ON CONFLICT (customer_id, name) DO UPDATE SET n = 3 RETURNING n;

SET client_min_messages = warning;
DROP VIEW short;
DROP TABLE counts, plain;
SELECT count(*) FROM shardlet.execute('tc_map', 'DROP SCHEMA tc CASCADE');
DROP SCHEMA tc CASCADE;
SELECT shardlet.drop_map('tc_map');
