-- A point that router and shards can be recovered to together.
CREATE FUNCTION shardlet.restore_point(
	name text,
	OUT shard name,
	OUT lsn pg_lsn)
RETURNS SETOF record
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardlet_restore_point';
COMMENT ON FUNCTION shardlet.restore_point(text)
	IS 'writes a named restore point on the router and all shards, with no transaction over several shards half in it';
REVOKE ALL ON FUNCTION shardlet.restore_point(text) FROM PUBLIC;
