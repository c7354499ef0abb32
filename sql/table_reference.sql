-- Reference tables: every change reaches every shard, with the statement.
-- "same" tells for each shard whether it has the rows of the router.
CREATE SCHEMA reference;
SET search_path = reference;
SELECT shardlet.create_map('reference_all', 'spread', shards => '{s1,s2,s3,s4}');
CREATE FUNCTION same(tbl text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	here text;
	result text;
BEGIN
	EXECUTE format('SELECT count(*) || md5(coalesce(string_agg(t::text, E''\n'' ORDER BY t::text COLLATE "C"), '''')) FROM reference.%I t', tbl) INTO here;
	SELECT string_agg(CASE WHEN q.there = here THEN 'same' ELSE shardlet_shard || ' differs' END, ' ' ORDER BY shardlet_shard) INTO result
	FROM shardlet.query('reference_all', format('SELECT count(*) || md5(coalesce(string_agg(t::text, E''\n'' ORDER BY t::text COLLATE "C"), '''')) FROM reference.%I t', tbl))
		AS q(there text, shardlet_shard name);
	RETURN result;
END $$;

-- A table of all kinds of columns, with rows, goes to the shards as it is.
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE TYPE pair AS (a int, b text);
CREATE DOMAIN price AS numeric(10, 2) CHECK (VALUE >= 0);
CREATE TABLE "Odd ""Table" (
	dropped_first int,
	"Id" bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	code varchar(10) UNIQUE,
	feeling mood DEFAULT 'ok',
	both_parts pair,
	moods mood[],
	amount price DEFAULT 1,
	"select" jsonb,
	dropped_too text,
	words text[],
	fixed char(5),
	bytes bytea,
	at timestamptz DEFAULT '2024-05-06 07:08:09.123456+02',
	span interval,
	ratio float8,
	twice numeric GENERATED ALWAYS AS (amount * 2) STORED,
	CHECK (ratio IS NULL OR ratio < 1e300)
);
ALTER TABLE "Odd ""Table" DROP COLUMN dropped_first, DROP COLUMN dropped_too;
INSERT INTO "Odd ""Table" (code, feeling, both_parts, moods, amount, "select", words, fixed, bytes, span, ratio) VALUES
	('a', 'sad', (1, 'x "y" \'), '{sad,NULL,happy}', 1.5, '{"a": [null, "\\"]}', '{"", NULL, "NULL", "a,b", "\"{}\\"}', 'ab', '\x00ff5c22', '-1 year 2 days -03:04:05', 0.1),
	('b', NULL, (NULL, NULL), '{}', 0, 'null', NULL, '', '', '1 mon', '-Infinity'), (NULL, DEFAULT, NULL, NULL, DEFAULT, NULL, '{}', NULL, NULL, NULL, -1e-300);
SELECT shardlet.make_reference('"Odd ""Table"');
SELECT same('Odd "Table');
SELECT tgname, tgenabled FROM pg_trigger WHERE tgrelid = '"Odd ""Table"'::regclass AND NOT tgisinternal ORDER BY tgname;

-- Every kind of change.
SET DateStyle = 'SQL, DMY';
SET TimeZone = 'Asia/Kolkata';
SET IntervalStyle = 'sql_standard';
SET extra_float_digits = 0;
SET bytea_output = escape;
INSERT INTO "Odd ""Table" (code, both_parts, moods, "select", words, fixed, bytes, at, span, ratio)
	SELECT code || code, both_parts, moods, "select", words, fixed, bytes, at + '1 day', span, ratio / 3 FROM "Odd ""Table";
SELECT same('Odd "Table');
UPDATE "Odd ""Table" SET words = words || '{more}'::text[], at = at - '7 mons'::interval, span = span * -1.5, ratio = ratio * 7 WHERE "Id" <> 2;
SELECT same('Odd "Table');
UPDATE "Odd ""Table" SET feeling = 'happy', "select" = '{"big": 12345678901234567890}', bytes = '\x5c5c', both_parts.b = E'\t\n' WHERE code = 'a' RETURNING feeling, twice;
SELECT same('Odd "Table');
UPDATE "Odd ""Table" SET amount = amount;
RESET ALL;
SET search_path = reference;
DELETE FROM "Odd ""Table" WHERE "Id" IN (2, 4) RETURNING code;
SELECT same('Odd "Table');
INSERT INTO "Odd ""Table" (code, amount) VALUES ('a', 9), ('new', 10) ON CONFLICT (code) DO UPDATE SET amount = excluded.amount + 1, fixed = 'twice';
SELECT same('Odd "Table');
INSERT INTO "Odd ""Table" (code) VALUES ('a') ON CONFLICT DO NOTHING;
INSERT INTO "Odd ""Table" ("Id", code) OVERRIDING SYSTEM VALUE VALUES (100, 'hundred');
WITH gone AS (DELETE FROM "Odd ""Table" WHERE code = 'new' RETURNING *), added AS (INSERT INTO "Odd ""Table" (code) SELECT 'x' || code FROM gone RETURNING code),
	changed AS (UPDATE "Odd ""Table" SET fixed = 'cte' WHERE code = 'hundred' RETURNING code)
SELECT * FROM added UNION ALL SELECT * FROM changed;
SELECT same('Odd "Table');
MERGE INTO "Odd ""Table" t USING (VALUES ('a', 1), ('hundred', 2), ('merged', 3)) s(code, n) ON t.code = s.code
	WHEN MATCHED AND n = 1 THEN UPDATE SET amount = 99 WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (code, amount) VALUES (s.code, n);
SELECT same('Odd "Table'), count(*) FROM "Odd ""Table";
COPY "Odd ""Table" (code, feeling, words) FROM STDIN;
c1	sad	{x}
c2	\N	{"a b",NULL}
\.
SELECT same('Odd "Table');

-- Many rows are sent by COPY, as text or in binary form; wide ones come out of line.
INSERT INTO "Odd ""Table" (code, moods, both_parts) SELECT 'n' || g, '{ok}', (g, 'g')::pair FROM generate_series(1, 1000) g;
SELECT same('Odd "Table'), count(*) FROM "Odd ""Table";
UPDATE "Odd ""Table" SET amount = amount + 1 WHERE code LIKE 'n%';
DELETE FROM "Odd ""Table" WHERE code LIKE 'n%7';
SELECT same('Odd "Table'), count(*) FROM "Odd ""Table";
CREATE TABLE wide (a int, b int, doc text, PRIMARY KEY (b, a));
SELECT shardlet.make_reference('wide');
INSERT INTO wide SELECT g, g % 7, (SELECT string_agg(md5((g * s)::text), '') FROM generate_series(1, 700) s) FROM generate_series(1, 300) g;
INSERT INTO wide VALUES (0, 0, repeat('x', 1000000));
UPDATE wide SET doc = doc || 'y' WHERE a % 10 = 0;
UPDATE wide SET a = a + 1000 WHERE b = 3;
SELECT same('wide'), count(*), max(length(doc)) FROM wide;

-- Nothing of what is rolled back stays, anywhere.
BEGIN;
INSERT INTO wide VALUES (-1, 0, 'kept');
SAVEPOINT a;
UPDATE wide SET doc = 'lost';
SAVEPOINT b;
TRUNCATE wide;
SELECT same('wide');
ROLLBACK TO b;
DELETE FROM wide WHERE a > 5;
ROLLBACK TO a;
UPDATE wide SET doc = 'kept too' WHERE a = 1;
COMMIT;
SELECT same('wide'), count(*), count(*) FILTER (WHERE doc LIKE 'kept%') AS kept FROM wide;
BEGIN;
DELETE FROM wide;
SELECT same('wide');
ROLLBACK;
SELECT same('wide'), count(*) FROM wide;
DO $$ BEGIN
	UPDATE reference.wide SET doc = NULL;
	INSERT INTO reference.wide VALUES (1, 1, NULL);
EXCEPTION WHEN unique_violation THEN
	UPDATE reference.wide SET doc = 'caught' WHERE a = 2;
END $$;
SELECT same('wide'), count(doc), count(*) FILTER (WHERE doc = 'caught') AS caught FROM wide;
TRUNCATE wide;
SELECT same('wide'), count(*) FROM wide;

-- Views, functions, cursors and prepared statements are no matter.
CREATE VIEW narrow AS SELECT a, b FROM wide WHERE a < 10 WITH CHECK OPTION;
INSERT INTO narrow VALUES (1, 1), (2, 2);
PREPARE change(int) AS UPDATE narrow SET b = b + $1 WHERE a = 1;
EXECUTE change(5);
EXECUTE change(7);
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM wide ORDER BY a FOR UPDATE;
FETCH 1 FROM c;
UPDATE wide SET doc = 'current' WHERE CURRENT OF c;
COMMIT;
SELECT same('wide'), array_agg((a, b, doc)::text ORDER BY a) FROM wide;

-- Statements that change nothing.
BEGIN;
UPDATE wide SET doc = doc;
DELETE FROM wide WHERE false;
INSERT INTO wide SELECT 1, 1 WHERE false;
COMMIT;

-- A shard's copy that was changed is found out when a row is missing there.
SELECT count(*) FROM shardlet.execute('reference_all', 'DELETE FROM reference.wide WHERE a = 1', shards => '{s3}');
\set VERBOSITY terse
UPDATE wide SET doc = 'x';
DELETE FROM wide;
\set VERBOSITY default
SELECT same('wide');

SET client_min_messages = warning;
DROP SCHEMA reference CASCADE;
SELECT count(*) FROM shardlet.execute('reference_all', 'DROP SCHEMA reference CASCADE');
SELECT shardlet.drop_map('reference_all');
