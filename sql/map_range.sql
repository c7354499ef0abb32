-- A range map: half open, unbounded ends, gaps allowed, overlaps refused.
ALTER SEQUENCE shardlet.shardlet_id_seq RESTART;

SELECT shardlet.create_map('r', 'range');
SELECT shardlet.route('r', 5);
SELECT shardlet.assign_range('r', 's1', 0, 10) IS NOT NULL AS low,
	shardlet.assign_range('r', 's2', 20, 30) IS NOT NULL AS high;
SELECT low, high, shard FROM shardlet.shardlets WHERE map = 'r' ORDER BY low::int;

-- Both ends.
SELECT shardlet.route('r', 0), shardlet.route('r', 9), shardlet.route('r', 20), shardlet.route('r', 29);

-- Each of these overlaps.
\set VERBOSITY sqlstate
SELECT shardlet.assign_range('r', 's3', 5, 15);
SELECT shardlet.assign_range('r', 's3', 5, 7);
SELECT shardlet.assign_range('r', 's3', -5, 5);
SELECT shardlet.assign_range('r', 's3', -5, 15);
SELECT shardlet.assign_range('r', 's3', 15, 25);
SELECT shardlet.assign_range('r', 's3', 0, 10);
SELECT shardlet.assign_range('r', 's3', 9, 10);
SELECT shardlet.assign_range('r', 's3', 29, 40);
SELECT shardlet.assign_range('r', 's3', -9223372036854775808, 9223372036854775807);
SELECT shardlet.assign_range('r', 's3', NULL, NULL);
SELECT shardlet.assign_range('r', 's3', NULL, 1);
SELECT shardlet.assign_range('r', 's3', 29, NULL);
SELECT shardlet.assign_range('r', 's3', 10, 21);
\set VERBOSITY default
-- In the gap, the ranges beside it are named.
SELECT shardlet.route('r', 15);
SELECT shardlet.route('r', -1);
SELECT shardlet.route('r', 30);
SELECT shardlet.assign_range('r', 's3', 10, 20) IS NOT NULL AS fits;
SELECT shardlet.assign_range('r', 's4', 25, 26);
-- Unbounded ends fit beside the others.
SELECT shardlet.assign_range('r', 's4', NULL, 0) IS NOT NULL AS before,
	shardlet.assign_range('r', 's4', 30, NULL) IS NOT NULL AS after;
SELECT shardlet.route('r', -9223372036854775808), shardlet.route('r', 9223372036854775807),
	shardlet.route('r', 10), shardlet.route('r', 19);
SELECT low, high, shard, state, version FROM shardlet.shardlets WHERE map = 'r' ORDER BY low::int NULLS FIRST;

-- The ends of the type.
SELECT shardlet.create_map('ends', 'range', '{int}');
SELECT shardlet.assign_range('ends', 's1', -2147483648, 2147483647) IS NOT NULL AS ok;
SELECT shardlet.assign_range('ends', 's2', 2147483647, NULL) IS NOT NULL AS ok;
SELECT shardlet.assign_range('ends', 's2', NULL, -2147483648) IS NOT NULL AS ok;
SELECT shardlet.route('ends', -2147483648), shardlet.route('ends', 2147483646), shardlet.route('ends', 2147483647);
SELECT shardlet.route('ends', 2147483648);

-- Everything on one shard; and nothing more after that.
SELECT shardlet.create_map('all', 'range', '{text}');
SELECT shardlet.assign_range('all', 's1', NULL, NULL) IS NOT NULL AS ok;
SELECT shardlet.assign_range('all', 's1', 'a', 'b');
SELECT shardlet.route('all', '');

-- Literals of every type, as written; each map is read again after the session
-- has forgotten it, under other output settings.
CREATE TABLE literal (type regtype, low text, middle text, high text);
INSERT INTO literal VALUES
	('int2', '1', '2', '3'), ('int4', '1', '2', '3'), ('int8', '1', '10000000000', '10000000001'),
	('text', 'a', 'm', 'z'), ('varchar', 'a', 'm', 'z'), ('bpchar', 'a', 'm', 'z'),
	('uuid', '00000000-0000-0000-0000-000000000000', '80000000-0000-0000-0000-000000000000', 'ffffffff-ffff-ffff-ffff-ffffffffffff'),
	('numeric', '0.1', '0.15', '0.2'), ('date', '2026-01-01', '2026-01-31', '2026-02-01'),
	('timestamp', '2026-01-01', '2026-01-31 23:59', '2026-02-01'),
	('timestamptz', '2026-01-01 00:00+02', '2026-01-01 00:30+02', '2026-01-01 00:00+01'),
	('bytea', '\x00', '\x7f', '\xff'), ('bool', 'false', 'false', 'true'),
	('float4', '0.1', '0.3', '0.7'), ('float8', '1e-300', '0.1', 'Infinity'), ('interval', '-1 mon', '-1 mon +40 days', '1 year');
SELECT shardlet.create_map(('lit_' || type)::name, 'range', ARRAY[type]) IS NOT NULL FROM literal;
SET datestyle = 'SQL, DMY';
SET timezone = 'Asia/Kathmandu';
SET extra_float_digits = -5;
SET intervalstyle = 'sql_standard';
SELECT format('SELECT shardlet.assign_range(%L, %L, %L, %L) > 0 AS assigned', 'lit_' || type, 's1', low, high) FROM literal \gexec
\c
SELECT map, low, high FROM shardlet.shardlets WHERE map LIKE 'lit%' ORDER BY map;
SELECT format('SELECT %L AS type, shardlet.route(%L, %L), shardlet.route(%L, %L)', type, 'lit_' || type, low, 'lit_' || type, middle) FROM literal \gexec
\set VERBOSITY sqlstate
SELECT format('SELECT shardlet.route(%L, %L) AS %I', 'lit_' || type, high, type) FROM literal \gexec
\set VERBOSITY default
-- Typed values, mixed, and nothing.
SELECT shardlet.create_map('typed', 'range', '{timestamptz}');
SELECT shardlet.assign_range('typed', 's1', '2026-01-01', '2026-02-01') > 0 AS a,
	shardlet.assign_range('typed', 's2', DATE '2026-02-01', TIMESTAMPTZ '2026-03-01') > 0 AS b,
	shardlet.assign_range('typed', 's3', '2026-03-01', NULL) > 0 AS c;
SELECT shardlet.route('typed', DATE '2026-02-03'), shardlet.route('typed', TIMESTAMP '2026-05-05');
SELECT shardlet.create_map('big', 'range');
SELECT shardlet.assign_range('big', 's1', 0, 10000000000) > 0 AS a;

-- Text is ordered by its bytes, the same on every machine.
SELECT shardlet.create_map('words', 'range', '{text}');
SELECT shardlet.assign_range('words', 's1', NULL, 'a') > 0 AS a, shardlet.assign_range('words', 's2', 'a', NULL) > 0 AS b;
SELECT shardlet.route('words', 'Zebra'), shardlet.route('words', 'apple'), shardlet.route('words', 'ä');

-- Without a shard, the least loaded one; a shard outside the map comes in.
SELECT shardlet.create_map('auto', 'range', shards => '{s2, s3}');
SELECT shardlet.assign_range('auto', NULL, g, g + 1) > 0 AS ok FROM generate_series(1, 4) g;
SELECT shard, count(*) FROM shardlet.shardlets WHERE map = 'auto' GROUP BY shard ORDER BY shard;
SELECT shardlet.assign_range('auto', 's1', 10, 11) > 0 AS ok;
SELECT shard FROM shardlet.map_shards WHERE map = 'auto' ORDER BY shard;

-- Wrong input.
SELECT shardlet.assign_range('r', 's1', 50, 50);
SELECT shardlet.assign_range('r', 's1', 51, 50);
SELECT shardlet.assign_range('r', 's1', 'x', 'y');
SELECT shardlet.assign_range('r', 's1', 'x'::text, 'y'::text);
SELECT shardlet.assign_range('r', 's1', 1.5, 2.5);
SELECT shardlet.assign_range('ends', 's1', 0, 3000000000);
SELECT shardlet.assign_range('r', 'nonesuch', 100, 200);
SELECT shardlet.assign_range('nonesuch', 's1', 100, 200);
SELECT shardlet.assign_range(NULL, 's1', 100, 200);
SELECT shardlet.create_map('bad', 'range', '{int, int}');
SELECT shardlet.create_map('bad', 'range', shardlets => 4);
SELECT shardlet.assign_key('r', 's1', 1);

SELECT count(shardlet.drop_map(map)) FROM shardlet.maps;
DROP TABLE literal;
