-- Views of maps, shards, tables and shardlets.

CREATE VIEW shardlet.shards AS
SELECT
	s.srvname AS shard,
	coalesce(o.options ->> 'state', 'online') AS state,
	o.options ->> 'region' AS region,
	coalesce((o.options ->> 'weight')::real, 1) AS weight,
	coalesce(o.options ->> 'host', o.options ->> 'hostaddr') AS host,
	o.options ->> 'port' AS port,
	o.options ->> 'dbname' AS dbname,
	o.options ->> 'client_address' AS client_address,
	coalesce((o.options ->> 'bare')::bool, false) AS bare,
	(o.options ->> 'id')::int AS id,
	o.options ->> 'identity' AS identity
FROM pg_catalog.pg_foreign_server s
	JOIN pg_catalog.pg_foreign_data_wrapper w ON w.oid = s.srvfdw
	CROSS JOIN LATERAL (
		SELECT pg_catalog.jsonb_object_agg(t.option_name, t.option_value) AS options
		FROM pg_catalog.pg_options_to_table(s.srvoptions) t) o
WHERE w.fdwname = 'shardlet' AND o.options ? 'id';
COMMENT ON VIEW shardlet.shards IS 'databases that hold the rows';

CREATE VIEW shardlet.maps AS
SELECT map, kind, key_types, version, via
FROM shardlet.catalog_map;
COMMENT ON VIEW shardlet.maps IS 'rules from keys to shardlets';

CREATE VIEW shardlet.map_shards AS
SELECT m.map, s.shard
FROM shardlet.catalog_map_shard ms
	JOIN shardlet.catalog_map m USING (map_id)
	JOIN shardlet.shards s ON s.id = ms.shard_id;
COMMENT ON VIEW shardlet.map_shards IS 'shards that a map uses';

-- A key of several columns is shown as an array.
CREATE VIEW shardlet.shardlets AS
SELECT
	l.shardlet,
	m.map,
	CASE
		WHEN m.kind = 'hash' THEN l.low_token::text
		WHEN pg_catalog.cardinality(l.low) > 1 THEN l.low::text
		ELSE l.low[1]
	END AS low,
	CASE
		WHEN m.kind = 'hash' THEN l.high_token::text
		ELSE l.high[1]
	END AS high,
	s.shard,
	l.state,
	l.version,
	l.pinned,
	l.is_default
FROM shardlet.catalog_shardlet l
	JOIN shardlet.catalog_map m USING (map_id)
	LEFT JOIN shardlet.shards s ON s.id = l.shard_id;
COMMENT ON VIEW shardlet.shardlets IS
	'what is routed and moved; for a hash map low and high are tokens, high is not included and NULL is unbounded';

-- The document that map_json() returns, made from one snapshot.  Addresses are
-- those that applications are told.
CREATE VIEW shardlet.map_documents AS
SELECT
	m.map,
	pg_catalog.jsonb_build_object(
		'map', m.map,
		'version', m.version,
		'kind', m.kind,
		'key_types', pg_catalog.to_jsonb(m.key_types::text[]),
		'via', m.via,
		'shards', coalesce((
			SELECT pg_catalog.jsonb_agg(pg_catalog.jsonb_build_object(
				'shard', s.shard,
				'state', s.state,
				'region', s.region,
				'weight', s.weight,
				'host', a.host,
				'port', a.port,
				'dbname', a.dbname) ORDER BY s.id)
			FROM shardlet.catalog_map_shard ms
				JOIN shardlet.shards s ON s.id = ms.shard_id
				CROSS JOIN LATERAL shardlet.client_address(s.client_address, s.host, s.port, s.dbname) a
			WHERE ms.map_id = m.map_id), '[]'),
		'shardlets', coalesce((
			SELECT pg_catalog.jsonb_agg(pg_catalog.jsonb_build_object(
				'shardlet', l.shardlet,
				'low', CASE WHEN m.kind = 'hash' THEN pg_catalog.to_jsonb(l.low_token::text)
					WHEN m.kind = 'range' THEN pg_catalog.to_jsonb(l.low[1])
					ELSE pg_catalog.to_jsonb(l.low) END,
				'high', CASE WHEN m.kind = 'hash' THEN pg_catalog.to_jsonb(l.high_token::text)
					ELSE pg_catalog.to_jsonb(l.high[1]) END,
				'default', l.is_default,
				'shard', s.shard,
				'state', l.state,
				'version', l.version) ORDER BY l.low_token, l.shardlet)
			FROM shardlet.catalog_shardlet l
				LEFT JOIN shardlet.shards s ON s.id = l.shard_id
			WHERE l.map_id = m.map_id), '[]')) AS document
FROM shardlet.catalog_map m;
COMMENT ON VIEW shardlet.map_documents IS 'maps as JSON, behind map_json()';

-- A reference table is a plain table with triggers that call a function of this extension.
CREATE VIEW shardlet.tables AS
SELECT
	t.relid::regclass AS tbl,
	t.kind,
	t.map,
	t.key,
	t.shard,
	t.attached,
	t.local_unique
FROM (
	SELECT
		f.ftrelid AS relid,
		CASE WHEN o.options ? 'map' THEN 'sharded' ELSE 'placed' END AS kind,
		(o.options ->> 'map')::name AS map,
		o.options ->> 'key' AS key,
		s.shard,
		coalesce((o.options ->> 'attached')::bool, false) AS attached,
		coalesce((o.options ->> 'local_unique')::bool, false) AS local_unique
	FROM pg_catalog.pg_foreign_table f
		JOIN pg_catalog.pg_foreign_server v ON v.oid = f.ftserver AND v.srvname = 'shardlet_tables'
		-- Partitions of a shell table are parts of it.
		JOIN pg_catalog.pg_class c ON c.oid = f.ftrelid AND c.relkind IN ('r', 'p') AND NOT c.relispartition
		CROSS JOIN LATERAL (
			SELECT pg_catalog.jsonb_object_agg(x.option_name, x.option_value) AS options
			FROM pg_catalog.pg_options_to_table(f.ftoptions) x) o
		LEFT JOIN shardlet.shards s ON s.id = (o.options ->> 'shard_id')::int
	WHERE o.options ?| ARRAY['map', 'shard_id']
	UNION ALL
	SELECT DISTINCT g.tgrelid, 'reference', NULL::name, NULL, NULL::name, g.tgnargs > 0, false
	FROM pg_catalog.pg_trigger g
		JOIN pg_catalog.pg_proc p ON p.oid = g.tgfoid AND p.proname = 'reference_change'
		JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace AND n.nspname = 'shardlet'
	WHERE g.tgparentid = 0) t;
COMMENT ON VIEW shardlet.tables IS 'tables that live on shards';

CREATE VIEW shardlet.missed_ddl AS
SELECT s.shard, d.id, d.statement, d.role
FROM shardlet.catalog_missed_ddl d
	LEFT JOIN shardlet.shards s ON s.id = d.shard_id;
COMMENT ON VIEW shardlet.missed_ddl IS 'DDL that offline shards execute before they are online again, in this order of id';

CREATE VIEW shardlet.objects AS
SELECT
	o.object,
	o.kind::text AS kind,
	m.map,
	pg_catalog.array_agg(s.shard ORDER BY s.shard) AS shards
FROM shardlet.catalog_object o
	JOIN shardlet.shards s ON s.id = o.shard_id
	LEFT JOIN shardlet.catalog_map m USING (map_id)
GROUP BY o.object, o.kind, m.map;
COMMENT ON VIEW shardlet.objects IS 'functions, types, schemas and roles that the router has created on shards because tables need them';

GRANT SELECT ON shardlet.tables, shardlet.objects TO PUBLIC;
GRANT SELECT ON shardlet.shards, shardlet.maps, shardlet.map_shards, shardlet.shardlets,
	shardlet.map_documents TO PUBLIC;
GRANT USAGE ON SCHEMA shardlet TO PUBLIC;
