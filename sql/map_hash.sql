-- A hash map cuts all tokens evenly, with no gap and no overlap, and the same
-- arguments give the same cut.

SELECT shardlet.create_map('h');
SELECT map, kind, key_types, version, via FROM shardlet.maps WHERE map = 'h';
SELECT shard FROM shardlet.map_shards WHERE map = 'h' ORDER BY shard;
SELECT count(*) FROM shardlet.shardlets WHERE map = 'h';

-- What must hold of every cut.
CREATE VIEW cut AS
SELECT map, count(*) AS shardlets,
	min(low::bigint) = -9223372036854775808 AS from_the_first,
	count(*) FILTER (WHERE high IS NULL) = 1 AS to_the_last,
	bool_and(high IS NOT DISTINCT FROM next) AS no_gap_no_overlap,
	-- 2^64 / n, up or down by one
	max(width) - min(width) <= 1 AS even
FROM (
	SELECT map, low, high, lead(low) OVER (PARTITION BY map ORDER BY low::bigint) AS next,
		coalesce(high::numeric, 9223372036854775808) - low::numeric AS width
	FROM shardlet.shardlets) s
GROUP BY map;
SELECT shardlet.create_map('h' || n, shardlets => n) FROM unnest(ARRAY[1, 2, 3, 7, 10, 1000]) n;
SELECT * FROM cut ORDER BY shardlets;
SELECT shardlet.create_map('h65536', shardlets => 65536);
SELECT * FROM cut WHERE map = 'h65536';
SELECT shardlet.create_map('again', shardlets => 7);
SELECT a.low, a.high, a.shard FROM shardlet.shardlets a WHERE map = 'h7'
EXCEPT
SELECT b.low, b.high, b.shard FROM shardlet.shardlets b WHERE map = 'again';

-- Every key goes to the shardlet whose range has its token, the edges too.
SELECT count(*), bool_and(token >= low::bigint AND (high IS NULL OR token < high::bigint)) AS inside
FROM generate_series(-1000, 1000) g, shardlet.locate('h1000', g) l
	JOIN shardlet.shardlets s USING (shardlet);
SELECT bool_and(shardlet.route('h1', g) = 's1') FROM generate_series(1, 100) g;
SELECT shardlet.route('h', 1), shardlet.route('h', 2), shardlet.route('h', 3), shardlet.route('h', 4),
	shardlet.route('h', 5);

-- Shards get shardlets by their weight, and only those that can take some.
SELECT shardlet.alter_shard('s2', weight => 3), shardlet.alter_shard('s3', weight => 0),
	shardlet.alter_shard('s4', state => 'read_only');
SELECT shardlet.create_map('weighted');
SELECT shard, count(*) FROM shardlet.shardlets WHERE map = 'weighted' GROUP BY shard ORDER BY shard;
SELECT shardlet.create_map('none', shards => '{s3, s4}');
SELECT shardlet.alter_shard('s2', weight => 1), shardlet.alter_shard('s3', weight => 1),
	shardlet.alter_shard('s4', state => 'online');

-- A chosen set of shards; composite keys.
SELECT shardlet.create_map('two', 'hash', '{text, int}', '{s4, s2}', 4);
SELECT shard, count(*) FROM shardlet.shardlets WHERE map = 'two' GROUP BY shard ORDER BY shard;
SELECT shardlet.route('two', 'a', 1) = shardlet.route('two', 'a'::text, 1::bigint) AS same;
SELECT (shardlet.locate('two', 'a', 1)).token = shardlet.token('a'::text, 1) AS same;
SELECT shardlet.alter_map('two', add_shards => '{s1}', drop_shards => NULL);
SELECT shardlet.alter_map('two', drop_shards => '{s2}');
SELECT shardlet.alter_map('two', drop_shards => '{s1}');
SELECT shardlet.alter_map('two', drop_shards => '{s1}');
SELECT shardlet.alter_map('two', add_shards => '{s2}');
SELECT shardlet.alter_map('two');
SELECT shard FROM shardlet.map_shards WHERE map = 'two' ORDER BY shard;

-- A shardlet that was taken out leaves a gap.
SELECT shardlet.create_map('gap', shardlets => 4);
SELECT count(shardlet.unassign(shardlet)) FROM shardlet.shardlets WHERE map = 'gap' AND low IN ('0', '-4611686018427387904');
\set VERBOSITY sqlstate
SELECT shardlet.route('gap', 2);
\set VERBOSITY default
SELECT count(shardlet.unassign(shardlet)) FROM shardlet.shardlets WHERE map = 'gap';
SELECT shardlet.route('gap', 2);

-- Wrong input.
SELECT shardlet.create_map('h');
SELECT shardlet.create_map('bad', shardlets => 0);
SELECT shardlet.create_map('bad', shardlets => 65537);
SELECT shardlet.create_map('bad', 'round');
SELECT shardlet.create_map('bad', shards => '{s1, nonesuch}');
SELECT shardlet.create_map('bad', shards => '{s1, s1}');
SELECT shardlet.create_map('bad', shards => '{s1, NULL}');
SELECT shardlet.create_map('bad', shards => '{}');
SELECT shardlet.create_map('bad', via => '$1 % 4');
SELECT shardlet.create_map('');
SELECT shardlet.create_map(NULL);
SELECT shardlet.create_map('bad', NULL);
SELECT shardlet.alter_map('nonesuch');
SELECT shardlet.alter_map('h', add_shards => '{nonesuch}');
SELECT shardlet.drop_map('nonesuch');
SELECT shardlet.assign_range('h', 's1', 0, 1);
SELECT shardlet.assign_key('h', 's1', 1);
SELECT shardlet.assign_default('h', 's1');
SELECT shardlet.unassign(0);
SELECT shardlet.unassign(NULL);

SELECT count(shardlet.drop_map(map)) FROM shardlet.maps;
SELECT count(*) FROM shardlet.catalog_shardlet;
SELECT count(*) FROM shardlet.catalog_map_shard;
DROP VIEW cut;
