-- A schema that another user created before could be changed by its owner later.
DO $$
BEGIN
	IF (SELECT n.nspowner::pg_catalog.regrole <> current_user::pg_catalog.regrole
		FROM pg_catalog.pg_namespace n WHERE n.nspname = 'shardlet') THEN
		RAISE EXCEPTION 'schema "shardlet" belongs to another user'
			USING ERRCODE = 'duplicate_schema', HINT = 'Drop or rename that schema.';
	END IF;
END $$;

-- The foreign data wrapper: a shard is a SERVER of it.

CREATE FUNCTION shardlet.wrapper_handler()
RETURNS fdw_handler
LANGUAGE c STRICT
AS 'MODULE_PATHNAME', 'shardlet_wrapper_handler';
COMMENT ON FUNCTION shardlet.wrapper_handler() IS 'handler of the foreign data wrapper';
REVOKE ALL ON FUNCTION shardlet.wrapper_handler() FROM PUBLIC;

CREATE FUNCTION shardlet.wrapper_validator(options text[], catalog oid)
RETURNS void
LANGUAGE c STRICT
AS 'MODULE_PATHNAME', 'shardlet_wrapper_validator';
COMMENT ON FUNCTION shardlet.wrapper_validator(text[], oid) IS 'checks options of servers and user mappings';
REVOKE ALL ON FUNCTION shardlet.wrapper_validator(text[], oid) FROM PUBLIC;

CREATE FOREIGN DATA WRAPPER shardlet
	HANDLER shardlet.wrapper_handler
	VALIDATOR shardlet.wrapper_validator;

-- The access method of distributed tables on the router, where these have no rows.

CREATE FUNCTION shardlet.table_access_method_handler(internal)
RETURNS table_am_handler
LANGUAGE c
AS 'MODULE_PATHNAME', 'shardlet_table_access_method_handler';
COMMENT ON FUNCTION shardlet.table_access_method_handler(internal) IS 'handler of the table access method';
REVOKE ALL ON FUNCTION shardlet.table_access_method_handler(internal) FROM PUBLIC;

CREATE ACCESS METHOD shardlet TYPE TABLE HANDLER shardlet.table_access_method_handler;
COMMENT ON ACCESS METHOD shardlet IS 'tables that have their rows on shards; not for CREATE TABLE';
