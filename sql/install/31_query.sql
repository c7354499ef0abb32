-- SQL that runs on several shards, with merged results.  These functions bypass
-- the router's own privileges and row security, so PUBLIC may not execute them.

CREATE FUNCTION shardlet.query(
	map name,
	sql text,
	params text[] DEFAULT NULL,
	shards name[] DEFAULT NULL,
	on_error text DEFAULT 'fail',
	per_shard bool DEFAULT false)
RETURNS SETOF record
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardlet_query';
COMMENT ON FUNCTION shardlet.query(name, text, text[], name[], text, bool)
	IS 'runs a text on the shards of a map and merges the rows';
REVOKE ALL ON FUNCTION shardlet.query(name, text, text[], name[], text, bool) FROM PUBLIC;

CREATE FUNCTION shardlet.query_key(map name, sql text, params text[], VARIADIC key "any")
RETURNS SETOF record
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardlet_query_key';
COMMENT ON FUNCTION shardlet.query_key(name, text, text[], "any")
	IS 'runs a text on the shard that owns a key';
REVOKE ALL ON FUNCTION shardlet.query_key(name, text, text[], "any") FROM PUBLIC;

CREATE FUNCTION shardlet.execute(
	map name,
	sql text,
	params text[] DEFAULT NULL,
	shards name[] DEFAULT NULL,
	on_error text DEFAULT 'fail',
	atomic bool DEFAULT true,
	OUT shard name,
	OUT command text,
	OUT rows bigint,
	OUT error text)
RETURNS SETOF record
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardlet_execute';
COMMENT ON FUNCTION shardlet.execute(name, text, text[], name[], text, bool)
	IS 'runs a command on every shard of a map, or on every shard';
REVOKE ALL ON FUNCTION shardlet.execute(name, text, text[], name[], text, bool) FROM PUBLIC;

CREATE FUNCTION shardlet.missing_shards()
RETURNS SETOF name
LANGUAGE c VOLATILE PARALLEL RESTRICTED
AS 'MODULE_PATHNAME', 'shardlet_missing_shards';
COMMENT ON FUNCTION shardlet.missing_shards()
	IS 'shards that the last statement did without';

CREATE FUNCTION shardlet.connection_list(
	OUT pid int,
	OUT shard name,
	OUT user_name name,
	OUT remote_pid int,
	OUT state text,
	OUT in_transaction bool,
	OUT since timestamptz)
RETURNS SETOF record
LANGUAGE c VOLATILE PARALLEL RESTRICTED
AS 'MODULE_PATHNAME', 'shardlet_connection_list';
COMMENT ON FUNCTION shardlet.connection_list() IS 'connections to shards, of all sessions';

CREATE VIEW shardlet.connections AS
SELECT pid, shard, user_name, remote_pid, state, in_transaction, since
FROM shardlet.connection_list();
COMMENT ON VIEW shardlet.connections IS 'connections to shards, of all sessions';
GRANT SELECT ON shardlet.connections TO PUBLIC;

CREATE FUNCTION shardlet.close_connections(shard name DEFAULT NULL)
RETURNS int
LANGUAGE c VOLATILE PARALLEL RESTRICTED
AS 'MODULE_PATHNAME', 'shardlet_close_connections';
COMMENT ON FUNCTION shardlet.close_connections(name)
	IS 'closes idle connections of this session, to one shard or to all; returns how many';
