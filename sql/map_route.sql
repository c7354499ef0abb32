-- From key to shard: what routing accepts, and what it says to the rest.
ALTER SEQUENCE shardlet.shardlet_id_seq RESTART;

SELECT shardlet.create_map('b', shardlets => 4);
SELECT shardlet.create_map('i', 'hash', '{int}', shardlets => 4);
SELECT shardlet.create_map('t', 'hash', '{text}', shardlets => 4);
SELECT shardlet.create_map('v', 'hash', '{varchar}', shardlets => 4);
SELECT shardlet.create_map('n', 'hash', '{numeric}', shardlets => 4);
SELECT shardlet.create_map('u', 'hash', '{uuid}', shardlets => 4);
SELECT shardlet.create_map('z', 'hash', '{timestamptz}', shardlets => 4);

-- Coerced as PostgreSQL does by itself; integers of all sizes are one.
SELECT shardlet.route('b', 7::int2) = shardlet.route('b', 7::int8) AS int2,
	shardlet.route('b', 7) = shardlet.route('b', '7') AS literal,
	shardlet.route('i', 7::int8) = shardlet.route('b', 7) AS int8,
	shardlet.route('t', 'x'::varchar) = shardlet.route('t', 'x') AS varchar,
	shardlet.route('v', 'x'::text) = shardlet.route('t', 'x') AS text,
	shardlet.route('t', 'x'::name) = shardlet.route('t', 'x') AS name,
	shardlet.route('t', 'x  '::char(5)) = shardlet.route('t', 'x') AS char,
	shardlet.route('n', 7) = shardlet.route('n', 7.000) AS numeric,
	shardlet.route('z', DATE '2026-01-01') = shardlet.route('z', '2026-01-01') AS date;
-- Elements of an array are a key as well; the map's name may differ by row.
SELECT shardlet.route('b', VARIADIC ARRAY[7]) = shardlet.route('b', 7) AS variadic;
SELECT m, shardlet.route(m, 7) FROM unnest('{b,i,b,i}'::name[]) m;
-- A prepared statement knows the type of its parameter when it is told.
PREPARE r AS SELECT shardlet.route('b', $1::bigint);
EXECUTE r(7);
PREPARE untyped AS SELECT shardlet.route('b', $1);

-- Not coerced: what a comparison would not do, or would lose something.
SELECT shardlet.route('b', '7'::text);
SELECT shardlet.route('u', '0e984725-c51c-4bf4-9960-e1c80e27aba0'::text);
SELECT shardlet.route('b', 7.5);
SELECT shardlet.route('t', 7);
SELECT shardlet.route('b', DATE '2026-01-01');
SELECT shardlet.route('b', 'seven');
SELECT shardlet.route('u', 'x');
SELECT shardlet.route('i', 3000000000);
SELECT shardlet.route('b', '99999999999999999999');

-- NULL, too few, too many, no owner.
\set VERBOSITY sqlstate
SELECT shardlet.route('b', NULL);
SELECT shardlet.route('b', NULL::bigint);
SELECT shardlet.locate('b', NULL);
SELECT shardlet.route_many('b', ARRAY[1, NULL]);
SELECT shardlet.route_many('b', NULL::bigint[]);
SELECT shardlet.route(NULL, 1);
SELECT shardlet.route('nonesuch', 1);
SELECT shardlet.locate('nonesuch', 1);
SELECT shardlet.map_json('nonesuch');
SELECT shardlet.map_json(NULL);
SELECT shardlet.route('b', 1, 2);
\set VERBOSITY default

-- locate
SELECT shardlet, shard, token = hashint8extended(7, 0) AS token, state, version, map_version, dbname
FROM shardlet.locate('b', 7);
SELECT pg_typeof(shardlet) || ', ' || pg_typeof(shard) || ', ' || pg_typeof(token) || ', ' || pg_typeof(version)
	AS types FROM shardlet.locate('b', 7);
-- s4 has an address of its own for applications.
SELECT DISTINCT shard, host, port, dbname FROM generate_series(1, 20) g, shardlet.locate('b', g) WHERE shard = 's4';
SELECT bool_and((shardlet.locate('b', g)).shard = shardlet.route('b', g)) FROM generate_series(1, 1000) g;

-- route_many
SELECT * FROM shardlet.route_many('b', ARRAY[7, 8, 7]::bigint[]);
SELECT * FROM shardlet.route_many('b', ARRAY[7, 8]::int2[]);
SELECT count(*) FROM shardlet.route_many('b', '{}'::bigint[]);
SELECT count(*), bool_and(shard = shardlet.route('b', "position"))
FROM shardlet.route_many('b', (SELECT array_agg(g) FROM generate_series(1, 5000) g));
SELECT * FROM shardlet.route_many('b', ARRAY['x']);

-- An offline shard, or shardlet, stops its own keys and no others.
SELECT shardlet.alter_shard('s1', state => 'offline');
SELECT shard, count(shardlet.route('b', g)) > 0 AS goes_on
FROM (SELECT g, (shardlet.locate('b', g)).shard FROM generate_series(1, 20) g OFFSET 0) l
WHERE shard <> 's1' GROUP BY shard ORDER BY shard;
SELECT g AS stopped FROM generate_series(1, 20) g WHERE (shardlet.locate('b', g)).shard = 's1' LIMIT 1 \gset
SELECT shardlet.route('b', :stopped);
SELECT shard, state FROM shardlet.locate('b', :stopped);
SELECT shardlet.route_many('b', ARRAY[:stopped]);
SELECT shardlet.alter_shard('s1', state => 'read_only');
SELECT shardlet.route('b', :stopped), (shardlet.locate('b', :stopped)).state;
SELECT shardlet.alter_shard('s1', state => 'online');
SELECT shardlet.route('b', :stopped), (shardlet.locate('b', :stopped)).state;
SELECT shardlet.alter_shardlet((shardlet.locate('b', :stopped)).shardlet, state => 'offline');
SELECT shardlet.route('b', :stopped);
SELECT shardlet.alter_shardlet((shardlet.locate('b', :stopped)).shardlet, state => 'read_only', pinned => true);
SELECT shardlet.route('b', :stopped), (shardlet.locate('b', :stopped)).state;
SELECT state, pinned FROM shardlet.shardlets WHERE shardlet = (shardlet.locate('b', :stopped)).shardlet;
SELECT shardlet.alter_shardlet((shardlet.locate('b', :stopped)).shardlet, state => 'moving');
SELECT shardlet.alter_shardlet((shardlet.locate('b', :stopped)).shardlet, state => 'asleep');
SELECT shardlet.alter_shardlet(0, state => 'online');
-- Elsewhere, by hand.
SELECT shardlet.reassign((shardlet.locate('b', :stopped)).shardlet, 's4');
SELECT shardlet.route('b', :stopped);
SELECT shardlet.reassign(0, 's4');
SELECT shardlet.reassign(1, 'nonesuch');
SELECT shardlet.reassign(1, NULL);

-- Names that are no maps leave nothing behind in the session.
DO $$
BEGIN
	FOR i IN 1 .. 2000 LOOP
		BEGIN
			PERFORM shardlet.route(('none' || i)::name, 1);
		EXCEPTION WHEN undefined_object THEN NULL;
		END;
	END LOOP;
END $$;
SELECT sum(total_bytes) < 300000 AS small FROM pg_backend_memory_contexts WHERE name LIKE 'shardlet%';

-- Parallel workers can route, and so can a read-only transaction.
CREATE TABLE numbers AS SELECT g FROM generate_series(1, 10000) g;
ANALYZE numbers;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 2;
EXPLAIN (COSTS OFF) SELECT count(shardlet.route('t', g::text)) FROM numbers;
SELECT count(shardlet.route('t', g::text)) FROM numbers;
RESET ALL;
BEGIN READ ONLY;
SELECT shardlet.route('b', 8), (shardlet.locate('b', 8)).shard, shardlet.map_json('b') ->> 'kind' AS kind;
COMMIT;
DROP TABLE numbers;
SELECT count(shardlet.drop_map(map)) FROM shardlet.maps;
