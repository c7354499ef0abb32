-- verify(): what it finds in definitions, settings and leftovers, and the function itself.

-- What a shard has of these tables, as JSON.  Plain SQL: a shard need not have the extension.
CREATE FUNCTION shardlet_internal.definitions_sql()
RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT $sql$
		SELECT jsonb_agg(jsonb_build_object(
			'tbl', t.name,
			'exists', t.id IS NOT NULL,
			'items', (
				SELECT jsonb_agg(jsonb_build_array(i.kind, i.name, i.definition))
				FROM (
					SELECT 'column' AS kind, a.attname AS name,
						format_type(a.atttypid, a.atttypmod) || CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END ||
							CASE WHEN a.attgenerated <> '' THEN ' GENERATED ' || coalesce((
								SELECT pg_get_expr(d.adbin, d.adrelid)
								FROM pg_attrdef d
								WHERE d.adrelid = a.attrelid AND d.adnum = a.attnum), '') ELSE '' END AS definition
					FROM pg_attribute a
					WHERE a.attrelid = t.id AND a.attnum > 0 AND NOT a.attisdropped
					UNION ALL
					SELECT CASE WHEN x.indisvalid THEN 'index' ELSE 'invalid index' END, c.relname, pg_get_indexdef(c.oid)
					FROM pg_index x
						JOIN pg_class c ON c.oid = x.indexrelid
					WHERE x.indrelid = t.id
						AND NOT EXISTS (SELECT FROM pg_constraint o WHERE o.conindid = x.indexrelid AND o.contype IN ('p', 'u', 'x'))
					UNION ALL
					SELECT CASE WHEN o.contype = 'f' THEN 'foreign key' ELSE 'constraint' END, o.conname, pg_get_constraintdef(o.oid)
					FROM pg_constraint o
					WHERE o.conrelid = t.id AND o.contype IN ('p', 'u', 'x', 'c', 'f') AND o.conparentid = 0
					UNION ALL
					SELECT 'trigger', g.tgname, concat_ws(' ', g.tgenabled, p.proname, encode(g.tgargs, 'escape'))
					FROM pg_trigger g
						JOIN pg_proc p ON p.oid = g.tgfoid
						JOIN pg_namespace n ON n.oid = p.pronamespace AND n.nspname = 'shardlet_internal'
					WHERE g.tgrelid = t.id
					UNION ALL
					SELECT 'unguarded', r.relid::regclass::text, ''
					FROM pg_partition_tree(t.id) r
					WHERE r.level > 0 AND (
						SELECT count(*)
						FROM pg_trigger g
							JOIN pg_proc p ON p.oid = g.tgfoid AND p.proname = 'guard'
							JOIN pg_namespace n ON n.oid = p.pronamespace AND n.nspname = 'shardlet_internal'
						WHERE g.tgrelid = r.relid AND g.tgenabled IN ('O', 'A')) < 2) i)))
		FROM (SELECT n.name, to_regclass(n.name) AS id FROM unnest($1::text[]) n(name)) t$sql$
$$;
COMMENT ON FUNCTION shardlet_internal.definitions_sql() IS 'query for what a shard has of tables';
REVOKE ALL ON FUNCTION shardlet_internal.definitions_sql() FROM PUBLIC;

-- The statement that makes one item on a shard what it is elsewhere.
CREATE FUNCTION shardlet_internal.repair_item(
	tbl text,
	kind text,
	name text,
	expected text,
	actual text)
RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT CASE
		WHEN kind = 'column' AND expected IS NULL THEN format('ALTER TABLE %s DROP COLUMN %I', tbl, name)
		WHEN kind = 'column' AND actual IS NULL AND expected ~ ' GENERATED ' THEN
			format('ALTER TABLE %s ADD COLUMN %I %s GENERATED ALWAYS AS (%s) STORED', tbl, name,
				split_part(expected, ' GENERATED ', 1), split_part(expected, ' GENERATED ', 2))
		WHEN kind = 'column' AND actual IS NULL THEN format('ALTER TABLE %s ADD COLUMN %I %s', tbl, name, expected)
		WHEN kind = 'column' AND (expected ~ ' GENERATED ' OR actual ~ ' GENERATED ') THEN NULL
		WHEN kind = 'column' AND regexp_replace(expected, ' NOT NULL$', '') = regexp_replace(actual, ' NOT NULL$', '') THEN
			format('ALTER TABLE %s ALTER COLUMN %I %s NOT NULL', tbl, name, CASE WHEN expected ~ ' NOT NULL$' THEN 'SET' ELSE 'DROP' END)
		WHEN kind = 'column' THEN format('ALTER TABLE %s ALTER COLUMN %I TYPE %s USING %I::%s, ALTER COLUMN %I %s NOT NULL', tbl, name,
			regexp_replace(expected, ' NOT NULL$', ''), name, regexp_replace(expected, ' NOT NULL$', ''), name,
			CASE WHEN expected ~ ' NOT NULL$' THEN 'SET' ELSE 'DROP' END)
		WHEN kind = 'index' AND expected IS NULL THEN
			format('DROP INDEX %I.%I', (parse_ident(tbl))[1], name)
		WHEN kind = 'index' AND actual IS NULL THEN expected
		WHEN kind = 'index' THEN format('DO %L', format('BEGIN DROP INDEX %I.%I; %s; END', (parse_ident(tbl))[1], name, expected))
		WHEN expected IS NULL THEN format('ALTER TABLE %s DROP CONSTRAINT %I', tbl, name)
		WHEN actual IS NULL THEN format('ALTER TABLE %s ADD CONSTRAINT %I %s', tbl, name, expected)
		ELSE format('ALTER TABLE %s DROP CONSTRAINT %I, ADD CONSTRAINT %I %s', tbl, name, name, expected)
	END
$$;
COMMENT ON FUNCTION shardlet_internal.repair_item(text, text, text, text, text) IS 'command that makes one item of a table as expected';
REVOKE ALL ON FUNCTION shardlet_internal.repair_item(text, text, text, text, text) FROM PUBLIC;

-- Tables on the shards that should have them: what most of these have is right, and the router decides
-- a draw.  "shards" are those that have the table, "bare" those without guards.
CREATE FUNCTION shardlet_internal.verify_definition(
	tbl regclass,
	kind text,
	map name,
	key text,
	attached bool,
	shards name[],
	bare name[],
	OUT severity text,
	OUT object text,
	OUT shard name,
	OUT problem text,
	OUT rows bigint,
	OUT repair text)
RETURNS SETOF record
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	full_name text := shardlet_internal.full_name(tbl);
	definitions text := shardlet_internal.definitions_sql();
	on_router jsonb;
	on_shards jsonb := '{}';
	answer record;
	item record;
	guard text;
	trigger text;
BEGIN
	severity := 'error';
	object := full_name;
	EXECUTE definitions INTO on_router USING ARRAY[full_name];
	FOR answer IN
		SELECT a.shard, a.answer::jsonb -> 0 AS found, a.error
		FROM shardlet_internal.shard_answers(ARRAY[definitions], ARRAY[ARRAY[full_name]::text], shards) a
	LOOP
		shard := answer.shard;
		IF answer.error IS NOT NULL THEN
			problem := 'definition could not be read: ' || answer.error;
			repair := NULL;
			RETURN NEXT;
		ELSIF NOT (answer.found ->> 'exists')::bool THEN
			problem := 'table does not exist';
			repair := CASE kind
				WHEN 'sharded' THEN format('SELECT shardlet.repair_shard(%L, %L)', shard, 'tables')
				WHEN 'reference' THEN format('SELECT shardlet.repair_shard(%L, %L)', shard, 'references') END;
			RETURN NEXT;
		ELSE
			on_shards := on_shards || jsonb_build_object(shard, coalesce(answer.found -> 'items', '[]'));
		END IF;
	END LOOP;
	FOR item IN
		WITH
			place AS (SELECT p.key AS name, p.value AS items FROM jsonb_each(on_shards) p),
			found AS (
				SELECT p.name AS shard, i ->> 0 AS kind, i ->> 1 AS name, i ->> 2 AS definition
				FROM place p
					CROSS JOIN jsonb_array_elements(p.items) i
				WHERE i ->> 0 NOT IN ('trigger', 'invalid index', 'unguarded')),
			router AS (
				SELECT i ->> 0 AS kind, i ->> 1 AS name, i ->> 2 AS definition
				FROM jsonb_array_elements(on_router -> 0 -> 'items') i
				WHERE i ->> 0 IN ('column', 'index', 'constraint')),
			names AS (
				SELECT f.kind, f.name FROM found f
				UNION SELECT r.kind, r.name FROM router r WHERE r.kind = 'column'),
			votes AS (
				SELECT n.kind, n.name, f.definition, count(*) AS votes
				FROM names n
					CROSS JOIN place p
					LEFT JOIN found f ON f.kind = n.kind AND f.name = n.name AND f.shard = p.name
				GROUP BY n.kind, n.name, f.definition),
			expected AS (
				SELECT DISTINCT ON (v.kind, v.name) v.kind, v.name, v.definition
				FROM votes v
					LEFT JOIN router r ON r.kind = v.kind AND r.name = v.name
				ORDER BY v.kind, v.name, v.kind = 'column' AND v.definition IS NOT DISTINCT FROM r.definition DESC, v.votes DESC,
					v.definition IS NOT DISTINCT FROM r.definition DESC, v.definition NULLS LAST)
		SELECT p.name AS shard, e.kind, e.name, CASE WHEN e.kind = 'column' THEN coalesce(r.definition, e.definition) ELSE e.definition END
			AS expected, f.definition AS actual
		FROM expected e
			CROSS JOIN place p
			LEFT JOIN found f ON f.kind = e.kind AND f.name = e.name AND f.shard = p.name
			LEFT JOIN router r ON r.kind = e.kind AND r.name = e.name
		WHERE f.definition IS DISTINCT FROM CASE WHEN e.kind = 'column' THEN coalesce(r.definition, e.definition) ELSE e.definition END
		ORDER BY p.name, e.kind, e.name
	LOOP
		shard := item.shard;
		severity := CASE WHEN item.expected IS NULL OR item.kind = 'index' THEN 'warning' ELSE 'error' END;
		problem := CASE
			WHEN item.actual IS NULL THEN format('%s "%s" is missing: %s', item.kind, item.name, item.expected)
			WHEN item.expected IS NULL THEN format('%s "%s" is on this shard only: %s', item.kind, item.name, item.actual)
			ELSE format('%s "%s" differs: %s, elsewhere %s', item.kind, item.name, item.actual, item.expected) END;
		repair := shardlet_internal.on_shard(shard,
			shardlet_internal.repair_item(full_name, item.kind, item.name, item.expected, item.actual));
		RETURN NEXT;
	END LOOP;
	FOR item IN
		SELECT p.key AS shard, p.value AS items FROM jsonb_each(on_shards) p ORDER BY 1
	LOOP
		shard := item.shard;
		FOR trigger IN SELECT i ->> 1 FROM jsonb_array_elements(item.items) i WHERE i ->> 0 = 'invalid index' LOOP
			severity := 'warning';
			problem := format('index "%s" is invalid', trigger);
			repair := shardlet_internal.on_shard(shard, format('REINDEX INDEX %I.%I', (parse_ident(full_name))[1], trigger));
			RETURN NEXT;
		END LOOP;
		CONTINUE WHEN kind = 'placed' OR item.shard = ANY (bare);
		severity := 'error';
		repair := shardlet_internal.on_shard(shard, CASE kind
			WHEN 'reference' THEN format('SELECT shardlet_internal.guard_copy(%L)', full_name)
			ELSE format('SELECT shardlet_internal.guard_table(%L, %L, %L)', full_name, map, coalesce('{' || key || '}', '{}')) END);
		FOREACH guard IN ARRAY CASE kind WHEN 'reference' THEN ARRAY['!shardlet_guard']
			ELSE ARRAY['!shardlet_guard', '!shardlet_guard_truncate'] END
		LOOP
			trigger := (SELECT i ->> 2 FROM jsonb_array_elements(item.items) i WHERE i ->> 0 = 'trigger' AND i ->> 1 = guard);
			problem := CASE
				WHEN trigger IS NULL THEN format('guard "%s" is missing', guard)
				WHEN trigger !~ '^[OA] ' THEN format('guard "%s" is disabled', guard)
				WHEN kind = 'sharded' AND guard = '!shardlet_guard' AND substr(trigger, 3) <>
					'guard ' || concat(map, '\000', (
						SELECT string_agg((parse_ident(k.name))[1] || '\000', '' ORDER BY k.place)
						FROM regexp_split_to_table(key, '\s*,\s*') WITH ORDINALITY k(name, place)))
					THEN format('guard "%s" is outdated: %s', guard, substr(trigger, 3)) END;
			EXIT WHEN problem IS NOT NULL;
		END LOOP;
		IF problem IS NULL AND kind = 'sharded' THEN
			problem := (SELECT format('guard of partition %s is missing or disabled', string_agg(i ->> 1, ', ' ORDER BY i ->> 1))
				FROM jsonb_array_elements(item.items) i WHERE i ->> 0 = 'unguarded' HAVING count(*) > 0);
		END IF;
		IF problem IS NOT NULL THEN
			RETURN NEXT;
		END IF;
	END LOOP;
END $$;
COMMENT ON FUNCTION shardlet_internal.verify_definition(regclass, text, name, text, bool, name[], name[])
	IS 'tables and guards that differ';
REVOKE ALL ON FUNCTION shardlet_internal.verify_definition(regclass, text, name, text, bool, name[], name[]) FROM PUBLIC;

-- What each shard knows of its maps.
CREATE FUNCTION shardlet_internal.verify_maps(
	map name,
	shards name[],
	OUT severity text,
	OUT object text,
	OUT shard name,
	OUT problem text,
	OUT rows bigint,
	OUT repair text)
RETURNS SETOF record
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	answer record;
	item record;
BEGIN
	severity := 'error';
	FOR answer IN
		SELECT a.shard, a.answer::jsonb AS found, a.error
		FROM shardlet_internal.shard_answers(ARRAY[$sql$
			SELECT jsonb_build_object(
				'maps', (SELECT jsonb_object_agg(m.map, m.version) FROM shardlet.catalog_guard_map m),
				'owned', (SELECT jsonb_agg(jsonb_build_array(o.map, o.shardlet, o.low, o.high, o.state))
					FROM shardlet.owned o WHERE o.owner IS NULL))$sql$], NULL, shards) a
	LOOP
		shard := answer.shard;
		repair := NULL;
		IF answer.error IS NOT NULL THEN
			object := format('shard %I', shard);
			problem := 'maps could not be read: ' || answer.error;
			RETURN NEXT;
			CONTINUE;
		END IF;
		repair := format('SELECT shardlet.repair_shard(%L, %L)', shard, 'maps');
		FOR item IN
			WITH
				on_router AS (
					SELECT l.map, l.shardlet, l.low, l.high, l.state
					FROM shardlet.shardlets l
					WHERE l.shard = answer.shard AND (verify_maps.map IS NULL OR l.map = verify_maps.map)),
				on_shard AS (
					SELECT o ->> 0 AS map, (o ->> 1)::bigint AS shardlet, o ->> 2 AS low, o ->> 3 AS high, o ->> 4 AS state
					FROM jsonb_array_elements(CASE WHEN jsonb_typeof(answer.found -> 'owned') = 'array' THEN answer.found -> 'owned' ELSE '[]' END) o
					WHERE verify_maps.map IS NULL OR o ->> 0 = verify_maps.map)
			SELECT coalesce(r.map, o.map) AS map,
				count(*) FILTER (WHERE o.shardlet IS NULL) AS missing,
				count(*) FILTER (WHERE r.shardlet IS NULL) AS extra,
				count(*) FILTER (WHERE r.shardlet = o.shardlet) AS changed
			FROM on_router r
				FULL JOIN on_shard o ON o.shardlet = r.shardlet AND o.map = r.map
			WHERE r.shardlet IS NULL OR o.shardlet IS NULL OR r.low IS DISTINCT FROM o.low OR r.high IS DISTINCT FROM o.high
				OR (r.state <> o.state AND r.state <> 'moving' AND o.state <> 'moving')
			GROUP BY 1
			ORDER BY 1
		LOOP
			object := format('map %I', item.map);
			problem := format('shard knows another map: of its shardlets %s missing, %s changed, %s that it does not own',
				item.missing, item.changed, item.extra);
			RETURN NEXT;
		END LOOP;
		FOR item IN
			SELECT m.map, v.value::bigint AS version
			FROM jsonb_each_text(CASE WHEN jsonb_typeof(answer.found -> 'maps') = 'object' THEN answer.found -> 'maps' ELSE '{}' END) v
				LEFT JOIN shardlet.maps m ON m.map = v.key
			WHERE v.value::bigint > m.version AND (verify_maps.map IS NULL OR m.map = verify_maps.map)
			ORDER BY 1
		LOOP
			object := format('map %I', item.map);
			problem := format('shard knows version %s, which is newer than the router''s', item.version);
			RETURN NEXT;
		END LOOP;
	END LOOP;
END $$;
COMMENT ON FUNCTION shardlet_internal.verify_maps(name, name[]) IS 'shards that know other maps than the router';
REVOKE ALL ON FUNCTION shardlet_internal.verify_maps(name, name[]) FROM PUBLIC;

-- What moves and transactions have left on shards.
CREATE FUNCTION shardlet_internal.verify_leftovers(
	alive name[],
	OUT severity text,
	OUT object text,
	OUT shard name,
	OUT problem text,
	OUT rows bigint,
	OUT repair text)
RETURNS SETOF record
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN QUERY
	SELECT 'warning', format('%s %I', i ->> 0, i ->> 1), a.shard,
		format('%s of a move that is over', i ->> 0), NULL::bigint,
		shardlet_internal.on_shard(a.shard, CASE i ->> 0
			WHEN 'publication' THEN format('DROP PUBLICATION %I', i ->> 1)
			WHEN 'replication slot' THEN format('SELECT pg_drop_replication_slot(%L)', i ->> 1)
			ELSE format('DO %L', format('BEGIN ALTER SUBSCRIPTION %1$I DISABLE; ALTER SUBSCRIPTION %1$I SET (slot_name = NONE); '
				'DROP SUBSCRIPTION %1$I; END', i ->> 1)) END)
	FROM shardlet_internal.shard_answers(ARRAY[$sql$
			SELECT jsonb_agg(jsonb_build_array(o.kind, o.name))
			FROM (
				SELECT 'publication' AS kind, pubname AS name FROM pg_publication
				UNION ALL SELECT 'replication slot', slot_name FROM pg_replication_slots
					WHERE database = current_database() AND NOT active
				UNION ALL SELECT 'subscription', s.subname FROM pg_subscription s
					JOIN pg_database d ON d.oid = s.subdbid AND d.datname = current_database()) o
			WHERE o.name ~ '^shardlet_[0-9a-f]{8}_[0-9]+_[0-9]+$'$sql$], NULL, alive) a
		CROSS JOIN jsonb_array_elements(a.answer::jsonb) i
	WHERE NOT EXISTS (SELECT FROM shardlet.catalog_move m WHERE m.is_open AND m.name = i ->> 1)
	ORDER BY 3, 2;

	RETURN QUERY
	SELECT CASE WHEN p.state = 'waiting' THEN 'error' ELSE 'warning' END, format('prepared transaction %L', i ->> 0), a.shard,
		format('prepared since %s', i ->> 1) || CASE WHEN p.decision IS NOT NULL THEN format(', decision is %s', p.decision)
			WHEN p.gid IS NULL THEN ' by something else than a router' WHEN p.state = 'foreign' THEN ' by another router' ELSE ', its router does not know it' END, NULL::bigint,
		CASE WHEN p.decision IS NOT NULL THEN 'SELECT shardlet.recover()'
			WHEN p.state IS DISTINCT FROM 'foreign' THEN format('SELECT shardlet.rollback_prepared(%L, %L)', a.shard, i ->> 0) END
	FROM shardlet_internal.shard_answers(ARRAY[$sql$
			SELECT jsonb_agg(jsonb_build_array(p.gid, p.prepared))
			FROM pg_prepared_xacts p
			WHERE p.database = current_database()
				AND (p.gid !~ '^shardlet_' OR p.prepared < clock_timestamp() - interval '5 s')$sql$], NULL, alive) a
		CROSS JOIN jsonb_array_elements(a.answer::jsonb) i
		LEFT JOIN (SELECT l.gid, l.shard, l.state, l.decision FROM shardlet.prepared_list() l) p ON p.gid = i ->> 0 AND p.shard = a.shard
	WHERE p.state IS DISTINCT FROM 'active'
	ORDER BY 3, 2;

	RETURN QUERY
	SELECT 'warning', format('move %s', m.move), m.from_shard,
		format('in phase %s since %s', m.phase, m.changed) || coalesce(': ' || m.last_error, ''), NULL::bigint,
		format('CALL shardlet.resume_move(%s)', m.move)
	FROM shardlet.moves m
	WHERE m.open AND m.changed < clock_timestamp() - CASE WHEN m.last_error IS NOT NULL THEN interval '1 min' ELSE '10 min' END
	ORDER BY m.move;
END $$;
COMMENT ON FUNCTION shardlet_internal.verify_leftovers(name[]) IS 'what moves and transactions have left on shards';
REVOKE ALL ON FUNCTION shardlet_internal.verify_leftovers(name[]) FROM PUBLIC;

-- Settings that hurt.  Those of time zones and text search are compared among the shards: the router's may
-- be those of the session.
CREATE FUNCTION shardlet_internal.settings_sql()
RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT $sql$
		SELECT jsonb_build_object(
			'version', current_setting('server_version_num')::int / 10000,
			'encoding', getdatabaseencoding(),
			'collation', d.datcollate,
			'character type', d.datctype,
			'outdated', d.datcollversion IS DISTINCT FROM pg_database_collation_actual_version(d.oid),
			'max_prepared_transactions', current_setting('max_prepared_transactions')::int,
			'max_connections', current_setting('max_connections')::int,
			'wal_level', current_setting('wal_level'),
			'TimeZone', coalesce((
				SELECT substr(c, 10)
				FROM pg_db_role_setting r, unnest(r.setconfig) c
				WHERE r.setdatabase = d.oid AND r.setrole = 0 AND starts_with(c, 'TimeZone=')),
				(SELECT reset_val FROM pg_settings WHERE name = 'TimeZone')),
			'default_text_search_config', coalesce((
				SELECT substr(c, 28)
				FROM pg_db_role_setting r, unnest(r.setconfig) c
				WHERE r.setdatabase = d.oid AND r.setrole = 0 AND starts_with(c, 'default_text_search_config=')),
				(SELECT reset_val FROM pg_settings WHERE name = 'default_text_search_config')),
			'extension', (SELECT extversion FROM pg_extension WHERE extname = 'shardlet'))
		FROM pg_database d
		WHERE d.datname = current_database()$sql$
$$;
COMMENT ON FUNCTION shardlet_internal.settings_sql() IS 'query for settings of a server';
REVOKE ALL ON FUNCTION shardlet_internal.settings_sql() FROM PUBLIC;

CREATE FUNCTION shardlet_internal.verify_settings(
	answers jsonb,
	bare name[],
	OUT severity text,
	OUT object text,
	OUT shard name,
	OUT problem text,
	OUT rows bigint,
	OUT repair text)
RETURNS SETOF record
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	router jsonb;
BEGIN
	EXECUTE shardlet_internal.settings_sql() INTO router;
	RETURN QUERY
	WITH
		place AS (
			SELECT p.key::name AS shard, p.value AS s, p.key = ANY (bare) AS is_bare FROM jsonb_each(answers) p
			UNION ALL SELECT NULL, router, false),
		usual AS (
			SELECT mode() WITHIN GROUP (ORDER BY p.s ->> 'TimeZone') AS zone,
				mode() WITHIN GROUP (ORDER BY p.s ->> 'default_text_search_config') AS text_search
			FROM place p
			WHERE p.shard IS NOT NULL),
		finding AS (
			SELECT 'error' AS severity, p.shard, 'max_prepared_transactions is 0: transactions over several shards fail' AS problem,
				'ALTER SYSTEM SET max_prepared_transactions = 64' AS command
			FROM place p
			WHERE (p.s ->> 'max_prepared_transactions')::int = 0 AND NOT p.is_bare
			UNION ALL
			SELECT 'warning', p.shard, format('wal_level is %s: shardlets cannot be moved online', p.s ->> 'wal_level'),
				'ALTER SYSTEM SET wal_level = logical'
			FROM place p
			WHERE p.s ->> 'wal_level' <> 'logical' AND p.shard IS NOT NULL
			UNION ALL
			SELECT 'warning', p.shard, format('max_connections is %s, the router''s is %s: each of its sessions may need a connection',
				p.s ->> 'max_connections', router ->> 'max_connections'), format('ALTER SYSTEM SET max_connections = %s', router ->> 'max_connections')
			FROM place p
			WHERE (p.s ->> 'max_connections')::int < (router ->> 'max_connections')::int
			UNION ALL
			SELECT 'warning', p.shard, format('PostgreSQL %s, the router has %s', p.s ->> 'version', router ->> 'version'), NULL
			FROM place p
			WHERE p.s -> 'version' <> router -> 'version'
			UNION ALL
			SELECT CASE k.name WHEN 'encoding' THEN 'error' ELSE 'warning' END, p.shard,
				format('%s is %s, the router''s is %s', k.name, p.s ->> k.name, router ->> k.name), NULL
			FROM place p
				CROSS JOIN unnest(ARRAY['encoding', 'collation', 'character type']) k(name)
			WHERE p.s -> k.name <> router -> k.name
			UNION ALL
			SELECT 'warning', p.shard, 'the collation version has changed: indexes on text may be wrong',
				'DO $do$ BEGIN EXECUTE format(''ALTER DATABASE %I REFRESH COLLATION VERSION'', current_database()); END $do$'
			FROM place p
			WHERE (p.s ->> 'outdated')::bool
			UNION ALL
			SELECT 'error', p.shard, 'the extension shardlet is missing: there are no guards', 'CREATE EXTENSION shardlet'
			FROM place p
			WHERE p.s ->> 'extension' IS NULL AND NOT p.is_bare
			UNION ALL
			SELECT 'warning', p.shard, format('the extension''s version is %s, the router''s is %s', p.s ->> 'extension', router ->> 'extension'),
				format('ALTER EXTENSION shardlet UPDATE TO %L', router ->> 'extension')
			FROM place p
			WHERE p.s ->> 'extension' <> router ->> 'extension'
			UNION ALL
			SELECT 'warning', p.shard, format('%s is %s, elsewhere %s', k.name, p.s ->> k.name, k.usual),
				format('DO %L', format('BEGIN EXECUTE format(''ALTER DATABASE %%I SET %s = %%L'', current_database(), %L); END', k.name, k.usual))
			FROM place p
				CROSS JOIN usual u
				CROSS JOIN LATERAL (VALUES ('TimeZone', u.zone), ('default_text_search_config', u.text_search)) k(name, usual)
			WHERE p.shard IS NOT NULL AND p.s ->> k.name <> k.usual)
	SELECT f.severity, coalesce(format('shard %I', f.shard), 'router'), f.shard, f.problem, NULL::bigint,
		CASE WHEN f.shard IS NULL THEN f.command ELSE shardlet_internal.on_shard(f.shard, f.command, f.command !~ '^ALTER SYSTEM') END
	FROM finding f
	ORDER BY f.shard NULLS FIRST, f.problem;
END $$;
COMMENT ON FUNCTION shardlet_internal.verify_settings(jsonb, name[]) IS 'settings of shards and router that hurt';
REVOKE ALL ON FUNCTION shardlet_internal.verify_settings(jsonb, name[]) FROM PUBLIC;

-- Reads every row whole, by shardlet or shard: what is damaged, or cannot be read, is found.
CREATE FUNCTION shardlet_internal.verify_deep(
	tbl regclass,
	shards name[],
	OUT severity text,
	OUT object text,
	OUT shard name,
	OUT problem text,
	OUT rows bigint,
	OUT repair text)
RETURNS SETOF record
LANGUAGE sql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT 'error', shardlet_internal.full_name(tbl), a.shard, 'rows could not be read: ' || a.error, NULL::bigint, NULL::text
	FROM shardlet_internal.shard_answers(ARRAY[format('SELECT count(*) || ''/'' || coalesce(sum(r.hash::numeric), 0) FROM (%s) r',
		replace(shardlet_internal.row_hashes_sql(tbl), 'FROM ONLY ', 'FROM '))], NULL, shards) a
	WHERE a.error IS NOT NULL
$$;
COMMENT ON FUNCTION shardlet_internal.verify_deep(regclass, name[]) IS 'rows that cannot be read';
REVOKE ALL ON FUNCTION shardlet_internal.verify_deep(regclass, name[]) FROM PUBLIC;

-- All that is looked for in the rows of one table.
CREATE FUNCTION shardlet_internal.verify_rows(
	tbl regclass,
	kind text,
	key text,
	places name[],
	dead name[],
	deep bool,
	OUT severity text,
	OUT object text,
	OUT shard name,
	OUT problem text,
	OUT rows bigint,
	OUT repair text)
RETURNS SETOF record
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF kind = 'sharded' THEN
		RETURN QUERY SELECT * FROM shardlet_internal.verify_owners(tbl, places);
		RETURN QUERY SELECT * FROM shardlet_internal.verify_unique(tbl, key, places);
	ELSIF kind = 'reference' THEN
		RETURN QUERY SELECT * FROM shardlet_internal.verify_reference(tbl, places);
	END IF;
	RETURN QUERY SELECT * FROM shardlet_internal.verify_foreign_keys(tbl, dead);
	IF deep THEN
		RETURN QUERY SELECT * FROM shardlet_internal.verify_deep(tbl, places);
	END IF;
END $$;
COMMENT ON FUNCTION shardlet_internal.verify_rows(regclass, text, text, name[], name[], bool) IS 'what is wrong with the rows of a table';
REVOKE ALL ON FUNCTION shardlet_internal.verify_rows(regclass, text, text, name[], name[], bool) FROM PUBLIC;

-- How many tables a table refers to, one after the other: 0 for one that refers to none.
CREATE FUNCTION shardlet_internal.reference_depth(tbl regclass)
RETURNS int
LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
	WITH RECURSIVE step(id, depth, path) AS (
		SELECT tbl::oid, 0, ARRAY[tbl::oid]
		UNION ALL
		SELECT c.confrelid, s.depth + 1, s.path || c.confrelid
		FROM step s
			JOIN pg_constraint c ON c.conrelid = s.id AND c.contype = 'f' AND c.confrelid <> ALL (s.path))
	SELECT max(depth) FROM step
$$;
COMMENT ON FUNCTION shardlet_internal.reference_depth(regclass) IS 'length of the longest chain of foreign keys from a table';
REVOKE ALL ON FUNCTION shardlet_internal.reference_depth(regclass) FROM PUBLIC;

CREATE FUNCTION shardlet.verify(
	map name DEFAULT NULL,
	tbl regclass DEFAULT NULL,
	deep bool DEFAULT false,
	OUT severity text,
	OUT object text,
	OUT shard name,
	OUT problem text,
	OUT rows bigint,
	OUT repair text)
RETURNS SETOF record
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
DECLARE
	concerned name[];
	alive name[];
	dead name[];
	bare name[];
	guarded name[];
	settings jsonb;
	item record;
	places name[];
BEGIN
	IF map IS NOT NULL THEN
		PERFORM shardlet.map_json(map);
	END IF;
	IF tbl IS NOT NULL AND NOT EXISTS (SELECT FROM shardlet.tables t WHERE t.tbl = verify.tbl) THEN
		RAISE EXCEPTION 'table "%" is not distributed', tbl USING ERRCODE = 'wrong_object_type',
			HINT = 'View shardlet.tables lists distributed tables.';
	END IF;
	IF tbl IS NOT NULL AND map IS NOT NULL
		AND NOT EXISTS (SELECT FROM shardlet.tables t WHERE t.tbl = verify.tbl AND t.map = verify.map) THEN
		RAISE EXCEPTION 'table "%" does not belong to map "%"', tbl, map USING ERRCODE = 'invalid_parameter_value';
	END IF;
	SELECT coalesce(array_agg(s.shard ORDER BY s.shard), '{}'), coalesce(array_agg(s.shard) FILTER (WHERE s.bare), '{}')
	INTO concerned, bare
	FROM shardlet.shards s
	WHERE map IS NULL OR s.shard IN (SELECT m.shard FROM shardlet.map_shards m WHERE m.map = verify.map);
	IF cardinality(concerned) = 0 THEN
		RETURN;
	END IF;

	-- Who is there?
	FOR item IN
		SELECT a.shard, a.error, s.state
		FROM shardlet_internal.shard_answers(ARRAY[shardlet_internal.settings_sql()], NULL, concerned) a
			JOIN shardlet.shards s ON s.shard = a.shard
		WHERE a.error IS NOT NULL OR s.state = 'offline'
		ORDER BY a.shard
	LOOP
		dead := dead || item.shard;
		severity := 'error';
		object := format('shard %I', item.shard);
		shard := item.shard;
		problem := CASE WHEN item.error IS NULL THEN 'shard is offline; it was not checked'
			ELSE format('shard does not answer, and was not checked: %s',
				regexp_replace(item.error, '\s*\n\s*', ' ', 'g')) END;
		repair := CASE WHEN item.error IS NULL THEN format('SELECT shardlet.alter_shard(%L, state => %L)', item.shard, 'online') END;
		RETURN NEXT;
	END LOOP;
	dead := coalesce(dead, '{}');
	alive := ARRAY(SELECT c FROM unnest(concerned) c WHERE c <> ALL (dead));
	IF cardinality(alive) = 0 THEN
		RETURN;
	END IF;
	guarded := ARRAY(SELECT a FROM unnest(alive) a WHERE a <> ALL (bare));
	IF tbl IS NULL THEN
		SELECT jsonb_object_agg(a.shard, a.answer::jsonb) INTO settings
		FROM shardlet_internal.shard_answers(ARRAY[shardlet_internal.settings_sql()], NULL, alive) a
		WHERE a.error IS NULL;
		RETURN QUERY SELECT * FROM shardlet_internal.verify_settings(coalesce(settings, '{}'), bare);
		IF map IS NULL THEN
			RETURN QUERY SELECT * FROM shardlet_internal.verify_leftovers(alive);
		END IF;
		IF cardinality(guarded) > 0 THEN
			RETURN QUERY SELECT * FROM shardlet_internal.verify_maps(map, guarded);
		END IF;
	END IF;

	-- In an order in which repairs work: definitions before rows, tables that others refer to first, and what
	-- needs correct rows, or all tables, last.
	FOR item IN
		SELECT g.stage, t.*
		FROM generate_series(1, 3) g(stage)
			CROSS JOIN (
				SELECT t.tbl, t.kind, t.map, t.key, t.shard, t.attached, shardlet_internal.full_name(t.tbl) AS name,
					t.kind <> 'reference' AS is_later, shardlet_internal.reference_depth(t.tbl) AS depth
				FROM shardlet.tables t
				WHERE (verify.map IS NULL OR t.map = verify.map) AND (verify.tbl IS NULL OR t.tbl = verify.tbl)) t
		ORDER BY g.stage, t.is_later, t.depth, t.name
	LOOP
		places := CASE item.kind
			WHEN 'reference' THEN alive
			WHEN 'placed' THEN ARRAY(SELECT a FROM unnest(alive) a WHERE a = item.shard)
			ELSE ARRAY(SELECT m.shard FROM shardlet.map_shards m WHERE m.map = item.map AND m.shard = ANY (alive) ORDER BY 1) END;
		CONTINUE WHEN cardinality(places) = 0;
		BEGIN
			IF item.stage <> 2 THEN
				RETURN QUERY SELECT d.*
				FROM shardlet_internal.verify_definition(item.tbl, item.kind, item.map, item.key, item.attached, places, bare) d
				WHERE (d.problem = 'table does not exist' OR d.problem ~ '^foreign key ') = (item.stage = 3);
				CONTINUE;
			END IF;

			-- Without shards that have failed, or do not have the table: that was said.
			places := ARRAY(SELECT a.shard
				FROM shardlet_internal.shard_answers(ARRAY['SELECT to_regclass($1)'], ARRAY[item.name]::text[], places) a
				WHERE a.answer IS NOT NULL);
			IF cardinality(places) > 0 THEN
				RETURN QUERY SELECT * FROM shardlet_internal.verify_rows(item.tbl, item.kind, item.key, places, dead, deep);
			END IF;
		EXCEPTION WHEN OTHERS THEN
			severity := 'error';
			object := item.name;
			shard := NULL;
			rows := NULL;
			repair := NULL;
			problem := 'table could not be checked: ' || SQLERRM;
			RETURN NEXT;
		END;
	END LOOP;
END $$;
COMMENT ON FUNCTION shardlet.verify(name, regclass, bool)
	IS 'finds what is wrong over router and shards; each repair runs as it stands';
REVOKE ALL ON FUNCTION shardlet.verify(name, regclass, bool) FROM PUBLIC;
