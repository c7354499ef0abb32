-- What a shard knows of its own shardlets, and the guard that uses it.  These
-- tables are filled on shards and empty on a router.  Their columns are known
-- by number in src/shard/ownership_catalog.c.  Rows are written by the
-- functions below only.

-- "version" is that of the last change that concerned the shard, "copy_version"
-- that of the map from which it has learned where all other shardlets are.
-- "hide_key" is known to the router and this table alone: see src/shard/hide_rows.c.
-- "router" is the router that the map belongs to.
CREATE TABLE shardlet.catalog_guard_map (
	map name NOT NULL,
	map_id int NOT NULL,
	kind text NOT NULL,
	key_types regtype[] NOT NULL,
	via text,
	version bigint NOT NULL,
	shard name NOT NULL,
	copy_version bigint NOT NULL,
	hide_key text,
	router text,
	CONSTRAINT catalog_guard_map_pkey PRIMARY KEY (map)
);

-- Bounds as in catalog_shardlet.  With an owner it is a shardlet of another
-- shard: it left, or the default of a list must not take its key, or it is known
-- from a copy of the map, which serves to name the owner and to rebuild a router.
CREATE TABLE shardlet.catalog_guard_shardlet (
	map name NOT NULL,
	shardlet bigint NOT NULL,
	low_token bigint,
	high_token bigint,
	low text[],
	high text[],
	is_default bool NOT NULL,
	state text NOT NULL,
	pinned bool NOT NULL,
	version bigint NOT NULL,
	owner name,
	CONSTRAINT catalog_guard_shardlet_pkey PRIMARY KEY (map, shardlet)
);
CREATE INDEX catalog_guard_shardlet_token ON shardlet.catalog_guard_shardlet (map, low_token);

-- The routers that this database was or is a shard of; one of them owns it.  A router
-- whose epoch is lower than the one here was replaced: src/shard/router_epoch.c, which
-- knows the columns by number.
CREATE TABLE shardlet.catalog_guard_router (
	router_id text NOT NULL,
	name text NOT NULL,
	epoch bigint NOT NULL,
	is_owner bool NOT NULL,
	last_contact timestamptz NOT NULL,
	CONSTRAINT catalog_guard_router_pkey PRIMARY KEY (router_id)
);

SELECT pg_catalog.pg_extension_config_dump('shardlet.catalog_guard_map', '');
SELECT pg_catalog.pg_extension_config_dump('shardlet.catalog_guard_router', '');
SELECT pg_catalog.pg_extension_config_dump('shardlet.catalog_guard_shardlet', '');
GRANT SELECT (map, map_id, kind, key_types, via, version, shard, copy_version, router) ON shardlet.catalog_guard_map TO PUBLIC;

-- Called by the router, on a shard, when it connects.  It must not load the library.
CREATE FUNCTION shardlet_internal.router_state(
	router text,
	OUT epoch bigint,
	OUT owner text,
	OUT maps text)
LANGUAGE sql STABLE STRICT SECURITY DEFINER PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT (SELECT r.epoch FROM shardlet.catalog_guard_router r WHERE r.router_id = router),
		(SELECT r.name FROM shardlet.catalog_guard_router r WHERE r.router_id <> router AND r.is_owner),
		(SELECT pg_catalog.string_agg(m.map_id || ':' || m.version, ',') FROM shardlet.catalog_guard_map m
		WHERE m.router = router_state.router)
$$;
COMMENT ON FUNCTION shardlet_internal.router_state(text)
	IS 'on a shard: whether it belongs to that router, and the versions of its maps';

-- Called by the router, on a shard.
CREATE FUNCTION shardlet_internal.router_check(router text, epoch bigint)
RETURNS void
LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardlet_router_check';
COMMENT ON FUNCTION shardlet_internal.router_check(text, bigint)
	IS 'on a shard: fails unless it belongs to that router, which then cannot be replaced before the transaction ends';

CREATE FUNCTION shardlet.router_claim(router text, name text, epoch bigint, takeover bool)
RETURNS bigint
LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardlet_router_claim';
COMMENT ON FUNCTION shardlet.router_claim(text, text, bigint, bool)
	IS 'on a shard: makes it belong to a router; the router calls it';
REVOKE ALL ON FUNCTION shardlet.router_claim(text, text, bigint, bool) FROM PUBLIC;

-- Called by the router, on a shard.
CREATE FUNCTION shardlet.guard_change(
	map name,
	map_id int,
	kind text,
	key_types oid[],
	via text,
	version bigint,
	shard name,
	mode text,
	wait_ms int,
	gone bigint[],
	shardlets bigint[],
	low_tokens bigint[],
	high_tokens bigint[],
	lows text[],
	highs text[],
	defaults bool[],
	states text[],
	pins bool[],
	versions bigint[],
	owners text[],
	hide_key text DEFAULT NULL,
	router text DEFAULT NULL,
	epoch bigint DEFAULT NULL)
RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardlet_guard_change';
COMMENT ON FUNCTION shardlet.guard_change(name, int, text, oid[], text, bigint, name, text, int,
	bigint[], bigint[], bigint[], bigint[], text[], text[], bool[], text[], bool[], bigint[], text[], text, text, bigint)
	IS 'on a shard: changes what it knows of a map; the router calls it';
REVOKE ALL ON FUNCTION shardlet.guard_change(name, int, text, oid[], text, bigint, name, text, int,
	bigint[], bigint[], bigint[], bigint[], text[], text[], bool[], text[], bool[], bigint[], text[], text, text, bigint)
	FROM PUBLIC;

CREATE FUNCTION shardlet.guard_keep(maps name[], router text, gone int[])
RETURNS void
LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardlet_guard_keep';
COMMENT ON FUNCTION shardlet.guard_keep(name[], text, int[])
	IS 'on a shard: forgets maps of a router that are not among the first, and are among the last; the router calls it';
REVOKE ALL ON FUNCTION shardlet.guard_keep(name[], text, int[]) FROM PUBLIC;

CREATE FUNCTION shardlet.guard_drop(map name, router text DEFAULT NULL)
RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardlet_guard_drop';
COMMENT ON FUNCTION shardlet.guard_drop(name, text)
	IS 'on a shard: forgets a map that belongs to the router; the router calls it';
REVOKE ALL ON FUNCTION shardlet.guard_drop(name, text) FROM PUBLIC;

CREATE FUNCTION shardlet.guard_lock(map name, shardlet bigint, wait_ms int)
RETURNS void
LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardlet_guard_lock';
COMMENT ON FUNCTION shardlet.guard_lock(name, bigint, int)
	IS 'on a shard: keeps writers away from a shardlet until the transaction ends';
REVOKE ALL ON FUNCTION shardlet.guard_lock(name, bigint, int) FROM PUBLIC;

CREATE FUNCTION shardlet_internal.guard_hold(map name, version bigint)
RETURNS void
LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardlet_guard_hold';
COMMENT ON FUNCTION shardlet_internal.guard_hold(name, bigint)
	IS 'on a shard: no key of the map leaves it before the transaction ends; fails if one has, since that version';

-- The first element proves that the router has written the rest.
CREATE FUNCTION shardlet_internal.hide_rows(conditions text[])
RETURNS void
LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardlet_hide_rows';
COMMENT ON FUNCTION shardlet_internal.hide_rows(text[])
	IS 'on a shard: orphaned rows are left out for this user from now on; the router calls it, and proves that it does';

CREATE FUNCTION shardlet.assert_owner(map name, VARIADIC key "any")
RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardlet_assert_owner';
COMMENT ON FUNCTION shardlet.assert_owner(name, "any")
	IS 'on a shard: fails unless it owns the key, which then stays here until the transaction ends';

-- The triggers of tables on shards.
CREATE FUNCTION shardlet_internal.guard()
RETURNS trigger
LANGUAGE c
AS 'MODULE_PATHNAME', 'shardlet_guard';
COMMENT ON FUNCTION shardlet_internal.guard() IS 'on a shard: refuses rows whose key the shard does not own';

CREATE FUNCTION shardlet_internal.guard_reference()
RETURNS trigger
LANGUAGE c
AS 'MODULE_PATHNAME', 'shardlet_guard_reference';
COMMENT ON FUNCTION shardlet_internal.guard_reference()
	IS 'on a shard: refuses changes of a reference table that do not come from a router';

-- They are made by these, which the router calls.  Row triggers of a partitioned
-- table are its partitions' too; those for TRUNCATE are not.
CREATE FUNCTION shardlet_internal.guard_table(tbl regclass, map name, key text[])
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	part regclass;
	arguments text := pg_catalog.concat_ws(', ', pg_catalog.quote_literal(map),
		(SELECT pg_catalog.string_agg(pg_catalog.quote_literal(k.name), ', ' ORDER BY k.place)
		FROM pg_catalog.unnest(key) WITH ORDINALITY k(name, place)));
BEGIN
	PERFORM shardlet_internal.unguard_table(tbl);
	EXECUTE pg_catalog.format('CREATE TRIGGER "!shardlet_guard" AFTER INSERT OR UPDATE OR DELETE ON %s '
		'FOR EACH ROW EXECUTE FUNCTION shardlet_internal.guard(%s)', tbl, arguments);
	FOR part IN SELECT p.relid FROM pg_catalog.pg_partition_tree(tbl) p UNION SELECT tbl LOOP
		EXECUTE pg_catalog.format('CREATE TRIGGER "!shardlet_guard_truncate" BEFORE TRUNCATE ON %s '
			'FOR EACH STATEMENT EXECUTE FUNCTION shardlet_internal.guard(%L)', part, map);
	END LOOP;
END $$;
COMMENT ON FUNCTION shardlet_internal.guard_table(regclass, name, text[])
	IS 'on a shard: guards a table of a map; the router calls it';

CREATE FUNCTION shardlet_internal.guard_copy(tbl regclass)
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM shardlet_internal.unguard_table(tbl);
	EXECUTE pg_catalog.format('CREATE TRIGGER "!shardlet_guard" BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON %s '
		'FOR EACH STATEMENT EXECUTE FUNCTION shardlet_internal.guard_reference()', tbl);
END $$;
COMMENT ON FUNCTION shardlet_internal.guard_copy(regclass)
	IS 'on a shard: guards the copy of a reference table; the router calls it';

CREATE FUNCTION shardlet_internal.unguard_table(tbl regclass)
RETURNS void
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	trigger record;
BEGIN
	FOR trigger IN
		SELECT t.tgrelid::pg_catalog.regclass AS tbl, t.tgname AS name
		FROM pg_catalog.pg_trigger t
		WHERE t.tgparentid = 0
			AND t.tgrelid IN (SELECT p.relid FROM pg_catalog.pg_partition_tree(tbl) p UNION SELECT tbl)
			AND t.tgfoid IN ('shardlet_internal.guard()'::pg_catalog.regprocedure,
				'shardlet_internal.guard_reference()'::pg_catalog.regprocedure)
	LOOP
		EXECUTE pg_catalog.format('DROP TRIGGER %I ON %s', trigger.name, trigger.tbl);
	END LOOP;
END $$;
COMMENT ON FUNCTION shardlet_internal.unguard_table(regclass) IS 'on a shard: takes the guard from a table';

CREATE FUNCTION shardlet.copy_as_owner(is_on bool, is_local bool)
RETURNS void
LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardlet_copy_as_owner';
COMMENT ON FUNCTION shardlet.copy_as_owner(bool, bool)
	IS 'on a shard: COPY FROM of this session or transaction is run as the table''s owner; the router calls it';
REVOKE ALL ON FUNCTION shardlet.copy_as_owner(bool, bool) FROM PUBLIC;

CREATE FUNCTION shardlet.run_as_owner(tbl regclass, command text)
RETURNS bigint
LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardlet_run_as_owner';
COMMENT ON FUNCTION shardlet.run_as_owner(regclass, text)
	IS 'on a shard: runs a command as the table''s owner; the router calls it';
REVOKE ALL ON FUNCTION shardlet.run_as_owner(regclass, text) FROM PUBLIC;

CREATE FUNCTION shardlet.run_as_role(role name, command text)
RETURNS void
LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardlet_run_as_role';
COMMENT ON FUNCTION shardlet.run_as_role(name, text)
	IS 'on a shard: runs DDL that it has missed as the user who gave it; the router calls it';
REVOKE ALL ON FUNCTION shardlet.run_as_role(name, text) FROM PUBLIC;

CREATE VIEW shardlet.owned AS
SELECT
	g.map,
	g.shardlet,
	CASE
		WHEN m.kind = 'hash' THEN g.low_token::text
		WHEN pg_catalog.cardinality(g.low) > 1 THEN g.low::text
		ELSE g.low[1]
	END AS low,
	CASE
		WHEN m.kind = 'hash' THEN g.high_token::text
		WHEN pg_catalog.cardinality(g.high) > 1 THEN g.high::text
		ELSE g.high[1]
	END AS high,
	g.state,
	g.version,
	g.owner
FROM shardlet.catalog_guard_shardlet g
	JOIN shardlet.catalog_guard_map m USING (map);
COMMENT ON VIEW shardlet.owned
	IS 'on a shard: shardlets that it owns, and with an owner those that it knows to be elsewhere';
GRANT SELECT ON shardlet.owned TO PUBLIC;

-- What repair functions of the router read, see src/repair/shard_knowledge.c.
CREATE FUNCTION shardlet.guard_entries(
	OUT map name,
	OUT map_id int,
	OUT kind text,
	OUT key_types text[],
	OUT via text,
	OUT version bigint,
	OUT copy_version bigint,
	OUT shard name,
	OUT router text,
	OUT shardlet bigint,
	OUT low_token bigint,
	OUT high_token bigint,
	OUT low text[],
	OUT high text[],
	OUT is_default bool,
	OUT state text,
	OUT pinned bool,
	OUT shardlet_version bigint,
	OUT owner name)
RETURNS SETOF record
LANGUAGE sql STABLE SECURITY DEFINER PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT m.map, m.map_id, m.kind, ARRAY(SELECT pg_catalog.format_type(k, NULL) FROM pg_catalog.unnest(m.key_types) WITH ORDINALITY u(k, n) ORDER BY n),
		m.via, m.version, m.copy_version, m.shard, m.router, g.shardlet, g.low_token, g.high_token, g.low, g.high, g.is_default,
		g.state, g.pinned, g.version, g.owner
	FROM shardlet.catalog_guard_map m
		LEFT JOIN shardlet.catalog_guard_shardlet g USING (map)
	ORDER BY m.map_id, g.low_token, g.shardlet
$$;
COMMENT ON FUNCTION shardlet.guard_entries() IS 'on a shard: all that it knows of maps; the router calls it';
REVOKE ALL ON FUNCTION shardlet.guard_entries() FROM PUBLIC;

CREATE FUNCTION shardlet.guard_adopt(map name, router text, new_router text)
RETURNS void
LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardlet_guard_adopt';
COMMENT ON FUNCTION shardlet.guard_adopt(name, text, text) IS 'on a shard: a map belongs to another router from now on; the router calls it';
REVOKE ALL ON FUNCTION shardlet.guard_adopt(name, text, text) FROM PUBLIC;
