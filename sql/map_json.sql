-- A whole map in one document, for applications that route themselves.
ALTER SEQUENCE shardlet.shardlet_id_seq RESTART;
CREATE FUNCTION document(map name) RETURNS text LANGUAGE sql AS $$
	-- Addresses differ from run to run.
	SELECT jsonb_pretty(jsonb_set(shardlet.map_json(map), '{shards}', (
		SELECT jsonb_agg(CASE WHEN s ->> 'shard' = 's4' THEN s ELSE s - '{host,port}'::text[] END)
		FROM jsonb_array_elements(shardlet.map_json(map) -> 'shards') s)))
$$;
SELECT shardlet.create_map('h', 'hash', '{text, int}', '{s2, s4}', 3);
SELECT document('h');
SELECT shardlet.create_map('r', 'range', '{date}', '{s1}');
SELECT shardlet.assign_range('r', 's1', NULL, '2026-01-01') > 0 AS ok;
SELECT document('r');
SELECT shardlet.create_map('l', 'list', '{text, int}', '{s1}');
SELECT shardlet.assign_key('l', 's1', 'a,b', 1) > 0 AS ok, shardlet.assign_default('l', 's1') > 0 AS ok;
SELECT document('l') AS document;
SELECT shardlet.create_map('e', 'list', '{bigint}', '{}', via => '$1 % 8');
SELECT shardlet.map_json('e');
-- A client that follows the document finds what route() finds.
WITH d AS (SELECT s ->> 'shard' AS shard, (s ->> 'low')::bigint AS low, (s ->> 'high')::bigint AS high
	FROM jsonb_array_elements(shardlet.map_json('h') -> 'shardlets') s)
SELECT count(*), bool_and(d.shard = shardlet.route('h', g::text, g))
FROM generate_series(1, 1000) g
	JOIN d ON shardlet.token(g::text, g) >= d.low AND (d.high IS NULL OR shardlet.token(g::text, g) < d.high);
DROP FUNCTION document;
SELECT count(shardlet.drop_map(map)) FROM shardlet.maps;
