-- A user-defined rule is adopted as it is: the map looks up the value of an
-- expression over the key.
ALTER SEQUENCE shardlet.shardlet_id_seq RESTART;

SELECT shardlet.create_map('mod', 'list', via => '$1 % 4');
SELECT map, kind, via FROM shardlet.maps WHERE map = 'mod';
-- What is assigned are values of the expression.
SELECT shardlet.assign_keys('mod', 's1', ARRAY[0, 1]), shardlet.assign_key('mod', 's2', 2) > 0 AS two;
SELECT k, shardlet.route('mod', k) FROM unnest(ARRAY[0, 1, 2, 4, 5, 6, 4000000002]) k;
SELECT shardlet.route('mod', 7);
SELECT shardlet.assign_default('mod', 's3') > 0 AS rest;
SELECT shardlet.route('mod', 7);
-- The token is the key's, not the value's.
SELECT token = shardlet.token(7::bigint) AS token FROM shardlet.locate('mod', 7);

-- Text keys, several columns, ranges.
SELECT shardlet.create_map('ht', 'list', '{text}', via => 'hashtext($1) & 3');
SELECT shardlet.assign_key('ht', ('s' || g + 1)::name, g) > 0 AS ok FROM generate_series(0, 3) g;
SELECT bool_and(shardlet.route('ht', 'user' || g) = 's' || (hashtext('user' || g) & 3) + 1) FROM generate_series(1, 1000) g;
SELECT shardlet.create_map('two', 'list', '{text, int}', via => $$lower($1) || '/' || ($2 % 2)::text$$);
SELECT shardlet.assign_key('two', 's1', 'a/0') > 0 AS ok, shardlet.assign_key('two', 's2', 'a/1') > 0 AS ok;
SELECT shardlet.route('two', 'A', 2), shardlet.route('two', 'a', 3);
SELECT shardlet.create_map('year', 'range', '{date}', via => 'extract(year from $1)');
SELECT shardlet.assign_range('year', 's1', NULL, 2026) > 0 AS ok, shardlet.assign_range('year', 's2', 2026, NULL) > 0 AS ok;
SELECT shardlet.route('year', '2025-12-31'), shardlet.route('year', '2026-01-01');
SELECT shardlet.create_map('md5', 'list', '{uuid}', via => $$('x' || substr(md5($1::text), 1, 8))::bit(32)::int & 1$$);
SELECT shardlet.assign_keys('md5', 's1', ARRAY[0]), shardlet.assign_keys('md5', 's2', ARRAY[1]);
SELECT shardlet.route('md5', '0e984725-c51c-4bf4-9960-e1c80e27aba0');

-- It means the same whatever the session's search_path has.
CREATE SCHEMA trick;
CREATE FUNCTION trick.lower(text) RETURNS text LANGUAGE sql IMMUTABLE AS $$SELECT 'trick'$$;
SET search_path = trick, pg_catalog;
SELECT shardlet.route('two', 'A', 2);
\c
SET search_path = trick, pg_catalog;
SELECT shardlet.route('two', 'A', 2);
RESET search_path;

-- Whatever it takes backslashes for, too.
SELECT shardlet.create_map('path', 'list', '{text}', via => $$split_part($1, '\', 1)$$);
SELECT shardlet.assign_key('path', 's1', 'a') > 0 AS ok;
SET escape_string_warning = off;
SET standard_conforming_strings = off;
SELECT shardlet.route('path', E'a\\b');
\c
SET standard_conforming_strings = off;
SELECT shardlet.route('path', E'a\\b');
RESET standard_conforming_strings;
SELECT shardlet.drop_map('path');

-- What applications write.
SELECT shardlet.create_map('ways' || row_number() OVER (), 'list', via => v) FROM unnest(ARRAY[
	'coalesce($1, 0) % 4', 'CASE WHEN $1 IN (1, 2, 3) THEN 0 ELSE 1 END', 'greatest($1, 5)', 'nullif($1, 0)',
	'($1 / 1000)::int', 'abs(hashint8($1)) % 16', '$1 >> 4', 'mod($1, 7)', 'width_bucket($1, 0, 1000, 10)']) v;
-- A literal is the same value in every session.
SELECT shardlet.create_map('when', 'list', '{timestamptz}', via => $$$1 >= '2026-01-01'::timestamptz$$);
SELECT via FROM shardlet.maps WHERE map = 'when';
SELECT shardlet.assign_key('when', 's1', false) > 0 AS ok, shardlet.assign_key('when', 's2', true) > 0 AS ok;
SELECT shardlet.route('when', '2026-01-01 03:00+00');
\c
SET timezone = 'America/New_York';
SELECT shardlet.route('when', '2026-01-01 03:00+00');
RESET timezone;
SELECT shardlet.create_map('moment', 'list', '{timestamp}', via => $$$1 < 'now'::timestamp$$);
SELECT via LIKE '%now%' AS floats FROM shardlet.maps WHERE map = 'moment';

-- Wrong input.
SELECT shardlet.create_map('bad', 'list', '{bytea}', via => 'length($1::text)');
SELECT shardlet.create_map('bad', 'list', '{float8}', via => '$1::text');
SELECT shardlet.create_map('bad', 'list', via => $$$1 + 'pg_class'::regclass::int$$);
SELECT shardlet.create_map('bad', 'list', via => '$1 +');
SELECT shardlet.create_map('bad', 'list', via => '$2 % 4');
SELECT shardlet.create_map('bad', 'list', via => 'nonesuch($1)');
SELECT shardlet.create_map('bad', 'list', via => '$1 % 4; DROP TABLE x');
SELECT shardlet.create_map('bad', 'list', via => '$1, $1');
SELECT shardlet.create_map('bad', 'list', via => '$1 AS x');
SELECT shardlet.create_map('bad', 'list', via => '$1 FROM pg_class');
SELECT shardlet.create_map('bad', 'list', via => '$1 WHERE true');
SELECT shardlet.create_map('bad', 'list', via => '$1 UNION SELECT 1');
SELECT shardlet.create_map('bad', 'list', via => '(SELECT $1)');
SELECT shardlet.create_map('bad', 'list', via => 'sum($1)');
SELECT shardlet.create_map('bad', 'list', via => 'row_number() OVER () + $1');
SELECT shardlet.create_map('bad', 'list', via => 'generate_series(1, $1)');
SELECT shardlet.create_map('bad', 'list', via => 'random() * $1');
SELECT shardlet.create_map('bad', 'list', '{timestamptz}', via => '$1::text');
SELECT shardlet.create_map('bad', 'list', '{text}', via => 'trick.lower($1)');
SELECT shardlet.create_map('bad', 'list', '{text}', via => '$1 || current_user');
SELECT shardlet.create_map('bad', 'list', via => '7');
SELECT shardlet.create_map('bad', 'list', via => 'relname');
SELECT shardlet.create_map('bad', 'list', via => '');
SELECT shardlet.create_map('bad', 'range', via => '$1::text::xml');
SELECT shardlet.create_map('bad', 'list', via => '*');
-- NULL for some keys: an error for those.
SELECT shardlet.create_map('some', 'list', via => 'CASE WHEN $1 > 0 THEN 1 END');
SELECT shardlet.assign_key('some', 's1', 1) > 0 AS ok;
SELECT shardlet.route('some', 5);
SELECT shardlet.route('some', -5);
-- An error in the rule is the rule's.
SELECT shardlet.create_map('div', 'list', via => '1 / $1');
SELECT shardlet.assign_default('div', 's1') > 0 AS ok;
SELECT shardlet.route('div', 5);
SELECT shardlet.route('div', 0);
SELECT shardlet.route('div', 5);

SELECT count(shardlet.drop_map(map)) FROM shardlet.maps;
DROP SCHEMA trick CASCADE;
