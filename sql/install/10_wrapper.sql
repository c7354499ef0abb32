-- A schema that somebody else made before could be changed by its owner later.
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

CREATE FUNCTION shardlet.wrapper_validator(options text[], catalog oid)
RETURNS void
LANGUAGE c STRICT
AS 'MODULE_PATHNAME', 'shardlet_wrapper_validator';
COMMENT ON FUNCTION shardlet.wrapper_validator(text[], oid) IS 'checks options of servers and user mappings';

CREATE FOREIGN DATA WRAPPER shardlet
	HANDLER shardlet.wrapper_handler
	VALIDATOR shardlet.wrapper_validator;
