-- Maps of router and shards that differ.

CREATE FUNCTION shardlet.map_differences(
	shard name DEFAULT NULL,
	OUT shard name,
	OUT map name,
	OUT low text,
	OUT high text,
	OUT on_router name,
	OUT on_shard name,
	OUT problem text)
RETURNS SETOF record
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardlet_map_differences';
COMMENT ON FUNCTION shardlet.map_differences(name)
	IS 'what the router and the shards know differently of maps: for each range, who owns it according to both';
REVOKE ALL ON FUNCTION shardlet.map_differences(name) FROM PUBLIC;

CREATE FUNCTION shardlet.resolve_map(shard name, keep text DEFAULT 'router', map name DEFAULT NULL)
RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardlet_resolve_map';
COMMENT ON FUNCTION shardlet.resolve_map(name, text, name)
	IS 'ends the differences of one shard: what the router knows, or what the shard knows, is kept; returns how many there were';
REVOKE ALL ON FUNCTION shardlet.resolve_map(name, text, name) FROM PUBLIC;

CREATE FUNCTION shardlet.rebuild_map(
	map name DEFAULT NULL,
	dry_run bool DEFAULT true,
	OUT map name,
	OUT action text,
	OUT shardlet bigint,
	OUT low text,
	OUT high text,
	OUT shard name,
	OUT problem text)
RETURNS SETOF record
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardlet_rebuild_map';
COMMENT ON FUNCTION shardlet.rebuild_map(name, bool)
	IS 'brings maps, shardlets and tables of the router back from what the shards know; by default only says how';
REVOKE ALL ON FUNCTION shardlet.rebuild_map(name, bool) FROM PUBLIC;
