-- The foreign data wrapper: a shard is a SERVER of it.

CREATE FUNCTION shardlet.wrapper_handler()
RETURNS fdw_handler
LANGUAGE c STRICT
AS 'MODULE_PATHNAME', 'shardlet_wrapper_handler';
COMMENT ON FUNCTION shardlet.wrapper_handler() IS 'handler of the foreign data wrapper';

CREATE FUNCTION shardlet.wrapper_validator(options text[], catalog oid)
RETURNS void
LANGUAGE c STRICT
AS 'MODULE_PATHNAME', 'shardlet_wrapper_validator';
COMMENT ON FUNCTION shardlet.wrapper_validator(text[], oid) IS 'checks options of servers and user mappings';

CREATE FOREIGN DATA WRAPPER shardlet
	HANDLER shardlet.wrapper_handler
	VALIDATOR shardlet.wrapper_validator;
