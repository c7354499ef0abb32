-- Routing, also for applications that connect to shards directly.

CREATE FUNCTION shardlet.token(VARIADIC key "any")
RETURNS bigint
LANGUAGE c IMMUTABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'shardlet_token';
COMMENT ON FUNCTION shardlet.token("any") IS 'token of a key: hash_record_extended(ROW(key), 0)';

CREATE FUNCTION shardlet.token_sql(map name, VARIADIC columns name[])
RETURNS text
LANGUAGE c STABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'shardlet_token_sql';
COMMENT ON FUNCTION shardlet.token_sql(name, name[])
	IS 'token as an SQL expression over columns, for a PostgreSQL without this extension';

CREATE FUNCTION shardlet.route(map name, VARIADIC key "any")
RETURNS name
LANGUAGE c STABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'shardlet_route';
COMMENT ON FUNCTION shardlet.route(name, "any") IS 'shard of a key';

CREATE FUNCTION shardlet.route(map name)
RETURNS name
LANGUAGE c VOLATILE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'shardlet_route_next';
COMMENT ON FUNCTION shardlet.route(name) IS 'next shard of a spread map, round robin';

CREATE FUNCTION shardlet.route_many(
	map name,
	keys anyarray,
	OUT "position" int,
	OUT shard name,
	OUT shardlet bigint)
RETURNS SETOF record
LANGUAGE c STABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'shardlet_route_many';
COMMENT ON FUNCTION shardlet.route_many(name, anyarray) IS 'shards of many keys';

CREATE FUNCTION shardlet.locate(
	map name,
	VARIADIC key "any",
	OUT shardlet bigint,
	OUT shard name,
	OUT token bigint,
	OUT state text,
	OUT version bigint,
	OUT map_version bigint,
	OUT host text,
	OUT port text,
	OUT dbname text)
RETURNS record
LANGUAGE c STABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'shardlet_locate';
COMMENT ON FUNCTION shardlet.locate(name, "any")
	IS 'shardlet and shard of a key, with the address for applications';

CREATE FUNCTION shardlet.map_json(map name)
RETURNS jsonb
LANGUAGE c STABLE PARALLEL RESTRICTED
AS 'MODULE_PATHNAME', 'shardlet_map_json';
COMMENT ON FUNCTION shardlet.map_json(name) IS 'a whole map with its shards, from one snapshot';

CREATE FUNCTION shardlet.client_address(
	client_address text,
	INOUT host text,
	INOUT port text,
	INOUT dbname text)
RETURNS record
LANGUAGE c STABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'shardlet_client_address';
COMMENT ON FUNCTION shardlet.client_address(text, text, text, text)
	IS 'address for applications: what client_address names, and the rest from the router''s view';
