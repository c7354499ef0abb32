-- A token is hash_record_extended(ROW(key), 0), for every type that may be a
-- key, and the expression of token_sql gives the same number on a PostgreSQL
-- that knows nothing of this extension.

CREATE TABLE token_case (type regtype, value text);
INSERT INTO token_case VALUES
	('int2', '-32768'), ('int2', '7'), ('int4', '7'), ('int4', '2147483647'),
	('int8', '7'), ('int8', '-9223372036854775808'),
	('text', ''), ('text', 'Zürich'), ('varchar', 'Zürich'), ('bpchar', 'ab  '),
	('uuid', '0e984725-c51c-4bf4-9960-e1c80e27aba0'),
	('numeric', '1.50'), ('numeric', '-1e100'), ('numeric', 'NaN'),
	('date', '2026-02-28'), ('date', '-infinity'),
	('timestamp', '2026-02-28 12:00:00.123456'), ('timestamptz', '2026-02-28 12:00:00+05:45'),
	('bytea', '\x00ff'), ('bytea', '\x'), ('bool', 't'), ('bool', 'f'),
	('float4', '1.5'), ('float8', '-0'), ('float8', 'NaN'), ('float8', '1e300'),
	('time', '23:59:59'), ('timetz', '23:59:59+02'), ('interval', '1 mon -1 day'),
	('inet', '10.0.0.1/8'), ('macaddr', '08:00:2b:01:02:03'), ('"char"', 'x'), ('name', 'x'),
	('oid', '4294967295'), ('jsonb', '{"a": 1}'), ('int4[]', '{1,2,3}'), ('int4range', '[1,5)'),
	('pg_lsn', '0/16B3748'), ('tid', '(1,2)');

-- What does token() give, what does the record's hash, what does token_sql?
CREATE FUNCTION check_token(type regtype, value text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	direct bigint;
	record bigint;
	expression bigint;
	sql text;
BEGIN
	EXECUTE format('SELECT shardlet.token(%L::%s)', value, type) INTO direct;
	EXECUTE format('SELECT hash_record_extended(ROW(%L::%s), 0)', value, type) INTO record;
	PERFORM shardlet.create_map('token_case', 'hash', ARRAY[type], '{s1}', 1);
	sql := shardlet.token_sql('token_case', 'k');
	PERFORM shardlet.drop_map('token_case');
	EXECUTE format('SELECT %s FROM (SELECT %L::%s AS k) t', sql, value, type) INTO expression;
	RETURN CASE WHEN direct = record AND record = expression THEN 'equal'
		ELSE format('%s %s %s', direct, record, expression) END;
END $$;
SELECT type, value, check_token(type, value) FROM token_case ORDER BY type::text, value;

-- Several columns: all pairs of types.
CREATE FUNCTION check_pair(a token_case, b token_case) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
	good bool;
	sql text;
BEGIN
	PERFORM shardlet.create_map('token_case', 'hash', ARRAY[a.type, b.type], '{s1}', 1);
	sql := shardlet.token_sql('token_case', 'x', 'y');
	PERFORM shardlet.drop_map('token_case');
	EXECUTE format('SELECT shardlet.token(x, y) = hash_record_extended(ROW(x, y), 0)
		AND %s = shardlet.token(x, y) FROM (SELECT %L::%s AS x, %L::%s AS y) t',
		sql, a.value, a.type, b.value, b.type) INTO good;
	RETURN good;
END $$;
SELECT count(*), bool_and(check_pair(a, b)) FROM token_case a, token_case b;
SELECT shardlet.token(1, 'a'::text, DATE '2026-01-01', true) =
	hash_record_extended(ROW(1, 'a'::text, DATE '2026-01-01', true), 0) AS four;

-- Integers of all sizes agree; a literal without a type is text; an array's
-- elements are a key; and values that are equal have equal tokens.
SELECT shardlet.token(42::int2) = shardlet.token(42::int8) AS integers,
	shardlet.token('42') = shardlet.token('42'::text) AS literal,
	shardlet.token(VARIADIC ARRAY[1, 2]) = shardlet.token(1, 2) AS elements,
	shardlet.token(1.50) = shardlet.token(1.5) AS numerics,
	shardlet.token('a '::bpchar) = shardlet.token('a'::bpchar) AS padded,
	shardlet.token(42::int8) = hashint8extended(42, 0) AS one_column;

-- character without a length is not character(1).
SELECT shardlet.create_map('token_case', 'hash', '{bpchar}');
SELECT shardlet.token_sql('token_case', 'c') AS sql \gset
SELECT :'sql' AS sql;
SELECT bool_and(:sql = shardlet.token(c)) AS equal, count(DISTINCT :sql) FROM (VALUES ('abc'::bpchar), ('abd'), ('a')) v(c);
SELECT shardlet.drop_map('token_case');

-- The expression casts a column of another type to the key's.
SELECT shardlet.create_map('token_case', 'hash', '{numeric}');
SELECT shardlet.token_sql('token_case', 'Odd "name"') AS sql \gset
SELECT :'sql' AS sql;
SELECT :sql = shardlet.token(42::numeric) AS same FROM (SELECT 42::int AS "Odd ""name""") t;
SELECT shardlet.drop_map('token_case');

-- A bare PostgreSQL accepts it where only built-in immutable functions may be.
SELECT shardlet.create_map('token_case', 'hash', '{text, date}');
CREATE TABLE token_rows (a text, b date, PRIMARY KEY (a, b));
SELECT format('CREATE PUBLICATION token_rows FOR TABLE token_rows WHERE (%s < 0)',
	shardlet.token_sql('token_case', 'a', 'b')) \gexec
SELECT shardlet.drop_map('token_case');

-- Wrong input.
CREATE TYPE mood AS ENUM ('sad', 'happy');
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE TYPE pair AS (a int, b int);
CREATE COLLATION nondeterministic (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
SELECT shardlet.token('sad'::mood);
SELECT shardlet.token(ARRAY['sad'::mood]);
SELECT shardlet.token(1::positive);
SELECT shardlet.token(ROW(1, 2)::pair);
SELECT shardlet.token('{}'::json);
SELECT shardlet.token('(1,2)'::point);
SELECT shardlet.token('a' COLLATE nondeterministic);
SELECT shardlet.token(NULL::int);
SELECT shardlet.token(1, NULL);
SELECT shardlet.token();
SELECT shardlet.token(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17);
SELECT shardlet.create_map('bad', 'hash', '{mood}');
SELECT shardlet.create_map('bad', 'list', '{positive}');
SELECT shardlet.create_map('bad', 'hash', '{pair}');
SELECT shardlet.create_map('bad', 'hash', '{json}');
SELECT shardlet.create_map('bad', 'hash', '{anyelement}');
SELECT shardlet.create_map('bad', 'range', '{xid}');
SELECT shardlet.create_map('bad', 'hash', '{regclass}');
SELECT shardlet.create_map('bad', 'hash', '{-}');
SELECT shardlet.create_map('bad', 'range', '{jsonb}');
SELECT shardlet.create_map('bad', 'hash', '{nonesuch}');
SELECT shardlet.create_map('bad', 'hash', '{}');
SELECT shardlet.create_map('bad', 'hash', NULL);
SELECT shardlet.create_map('bad', 'hash', '{NULL}');
SELECT shardlet.create_map('good', 'hash', '{int, text}');
SELECT shardlet.token_sql('good', 'a');
SELECT shardlet.token_sql('good', 'a', 'b', 'c');
SELECT shardlet.token_sql('good', 'a', NULL);
SELECT shardlet.token_sql('nonesuch', 'a');
SELECT shardlet.drop_map('good');

DROP PUBLICATION token_rows;
DROP TABLE token_rows, token_case CASCADE;
DROP FUNCTION check_token;
DROP TYPE mood;
DROP DOMAIN positive;
DROP TYPE pair;
DROP COLLATION nondeterministic;
