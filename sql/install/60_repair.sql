-- What looks after shards: queries of all of them at a time, and repairs.  None is for
-- PUBLIC: they bypass the router's own privileges and row security.

-- One query for all shards, or one for each.  A shard that does not answer has an error.
CREATE FUNCTION shardlet_internal.shard_answers(
	sqls text[],
	params text[] DEFAULT NULL,
	shards name[] DEFAULT NULL,
	OUT shard name,
	OUT answer text,
	OUT error text)
RETURNS SETOF record
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardlet_shard_answers';
COMMENT ON FUNCTION shardlet_internal.shard_answers(text[], text[], name[])
	IS 'the first value of a query on each shard, with an error for one that does not answer';
REVOKE ALL ON FUNCTION shardlet_internal.shard_answers(text[], text[], name[]) FROM PUBLIC;

CREATE FUNCTION shardlet_internal.owned_sql(tbl regclass, shard name)
RETURNS text
LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardlet_owned_sql';
COMMENT ON FUNCTION shardlet_internal.owned_sql(regclass, name)
	IS 'which rows "t" of a sharded table a shard owns, as a condition';
REVOKE ALL ON FUNCTION shardlet_internal.owned_sql(regclass, name) FROM PUBLIC;

CREATE FUNCTION shardlet.repair_shard(shard name, what text DEFAULT 'all')
RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardlet_repair_shard';
COMMENT ON FUNCTION shardlet.repair_shard(name, text)
	IS 'gives a shard the maps, tables and rows of reference tables that it lacks';
REVOKE ALL ON FUNCTION shardlet.repair_shard(name, text) FROM PUBLIC;

CREATE FUNCTION shardlet.rollback_prepared(shard name, gid text)
RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardlet_rollback_prepared';
COMMENT ON FUNCTION shardlet.rollback_prepared(name, text)
	IS 'rolls back a transaction that is prepared on a shard, and that no router will finish';
REVOKE ALL ON FUNCTION shardlet.rollback_prepared(name, text) FROM PUBLIC;

-- A name as every session and server reads it, whatever its search_path.
CREATE FUNCTION shardlet_internal.full_name(tbl regclass)
RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT format('%I.%I', n.nspname, c.relname)
	FROM pg_class c
		JOIN pg_namespace n ON n.oid = c.relnamespace
	WHERE c.oid = tbl
$$;
COMMENT ON FUNCTION shardlet_internal.full_name(regclass) IS 'name of a table with its schema';
REVOKE ALL ON FUNCTION shardlet_internal.full_name(regclass) FROM PUBLIC;

-- Columns of a table, or of its primary key, as a list after a prefix; NULL if there are none.
CREATE FUNCTION shardlet_internal.column_list(tbl regclass, only_key bool, prefix text, with_generated bool DEFAULT true)
RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT string_agg(prefix || quote_ident(a.attname), ', ' ORDER BY a.attnum)
	FROM pg_attribute a
	WHERE a.attrelid = tbl AND a.attnum > 0 AND NOT a.attisdropped
		AND (with_generated OR a.attgenerated = '')
		AND (NOT only_key OR a.attnum IN (
			SELECT unnest(c.conkey) FROM pg_constraint c WHERE c.conrelid = tbl AND c.contype = 'p'))
$$;
COMMENT ON FUNCTION shardlet_internal.column_list(regclass, bool, text, bool)
	IS 'columns of a table, or of its primary key, as a list';
REVOKE ALL ON FUNCTION shardlet_internal.column_list(regclass, bool, text, bool) FROM PUBLIC;

-- Primary keys of rows that the shard has, does not own, and that their owner has, too.
CREATE FUNCTION shardlet_internal.copied_keys(tbl regclass, shard name, alive name[])
RETURNS text[]
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	full_name text := shardlet_internal.full_name(tbl);
	key text := shardlet_internal.column_list(tbl, true, 't.');
	others name[] := array_remove(alive, shard);
	keys text[];
	answer record;
	result text[] := '{}';
BEGIN
	IF key IS NULL OR cardinality(others) = 0 THEN
		RETURN result;
	END IF;
	SELECT a.answer, a.error INTO answer
	FROM shardlet_internal.shard_answers(ARRAY[format('SELECT array_agg(ROW(%s)::text) FROM %s t WHERE (%s) IS NOT TRUE',
		key, full_name, shardlet_internal.owned_sql(tbl, shard))], NULL, ARRAY[shard]) a;
	IF answer.error IS NOT NULL THEN
		RAISE EXCEPTION 'could not read table "%" on shard "%": %', tbl, shard, answer.error;
	END IF;
	keys := coalesce(answer.answer::text[], '{}');
	IF cardinality(keys) = 0 THEN
		RETURN result;
	END IF;
	FOR answer IN
		SELECT a.answer, a.shard, a.error
		FROM shardlet_internal.shard_answers((
			SELECT array_agg(format('SELECT array_agg(ROW(%s)::text) FROM %s t WHERE (%s) AND ROW(%s)::text = ANY (%L)',
				key, full_name, shardlet_internal.owned_sql(tbl, o.shard), key, keys) ORDER BY o.place)
			FROM unnest(others) WITH ORDINALITY o(shard, place)), NULL, others) a
	LOOP
		IF answer.error IS NOT NULL THEN
			RAISE EXCEPTION 'could not read table "%" on shard "%": %', tbl, answer.shard, answer.error;
		END IF;
		result := result || coalesce(answer.answer::text[], '{}');
	END LOOP;
	RETURN result;
END $$;
COMMENT ON FUNCTION shardlet_internal.copied_keys(regclass, name, name[])
	IS 'primary keys of rows that a shard does not own and their owner has';
REVOKE ALL ON FUNCTION shardlet_internal.copied_keys(regclass, name, name[]) FROM PUBLIC;

-- Deletes rows that a shard does not own; no guard, and no other trigger, sees that.
CREATE FUNCTION shardlet_internal.delete_unowned(tbl regclass, shard name, condition text)
RETURNS bigint
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	deleted bigint;
BEGIN
	PERFORM shardlet.execute(NULL, 'SET LOCAL session_replication_role = replica', shards => ARRAY[shard]);
	SELECT e.rows INTO deleted
	FROM shardlet.execute(NULL, format('DELETE FROM %s t WHERE (%s) IS NOT TRUE AND (%s)', shardlet_internal.full_name(tbl),
		shardlet_internal.owned_sql(tbl, shard), condition), shards => ARRAY[shard]) e;
	PERFORM shardlet.execute(NULL, 'SET LOCAL session_replication_role = origin', shards => ARRAY[shard]);
	RETURN deleted;
END $$;
COMMENT ON FUNCTION shardlet_internal.delete_unowned(regclass, name, text)
	IS 'deletes rows that a shard does not own';
REVOKE ALL ON FUNCTION shardlet_internal.delete_unowned(regclass, name, text) FROM PUBLIC;

-- A row is inserted through the router before it is deleted: both in one transaction.
CREATE FUNCTION shardlet.repair_rows(
	tbl regclass,
	shard name,
	action text DEFAULT 'move',
	dry_run bool DEFAULT false,
	OUT done text,
	OUT rows bigint)
RETURNS SETOF record
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	full_name text := shardlet_internal.full_name(tbl);
	key text := shardlet_internal.column_list(tbl, true, 't.');
	owned text;
	alive name[];
	copied text[];
	not_copied text := 'true';
	total bigint;
	moved text[];
BEGIN
	IF action IS NULL OR action NOT IN ('move', 'delete', 'delete_copies') THEN
		RAISE EXCEPTION 'invalid action "%"', action
			USING ERRCODE = 'invalid_parameter_value',
				HINT = 'Valid values are "move", "delete" and "delete_copies".';
	END IF;
	IF full_name IS NULL OR shard IS NULL OR shardlet_internal.owned_sql(tbl, shard) IS NULL THEN
		RAISE EXCEPTION 'table "%" is not sharded', tbl USING ERRCODE = 'wrong_object_type';
	END IF;
	owned := shardlet_internal.owned_sql(tbl, shard);
	alive := ARRAY(SELECT a.shard FROM shardlet_internal.shard_answers('{SELECT 1}') a
		WHERE a.error IS NULL OR a.shard = repair_rows.shard);
	copied := shardlet_internal.copied_keys(tbl, shard, alive);
	SELECT q.n INTO total
	FROM shardlet.query((SELECT t.map FROM shardlet.tables t WHERE t.tbl = repair_rows.tbl),
		format('SELECT count(*) FROM %s t WHERE (%s) IS NOT TRUE', full_name, owned), NULL, ARRAY[shard],
		per_shard => true) AS q(n bigint);
	IF action = 'delete_copies' THEN
		done := CASE WHEN dry_run THEN 'would delete' ELSE 'deleted' END;
		rows := cardinality(copied);
		IF NOT dry_run AND rows > 0 THEN
			rows := shardlet_internal.delete_unowned(tbl, shard, format('ROW(%s)::text = ANY (%L)', key, copied));
		END IF;
		RETURN NEXT;
		RETURN;
	ELSIF action = 'delete' THEN
		done := CASE WHEN dry_run THEN 'would delete' ELSE 'deleted' END;
		rows := total;
		IF NOT dry_run THEN
			rows := shardlet_internal.delete_unowned(tbl, shard, 'true');
		END IF;
		RETURN NEXT;
		RETURN;
	END IF;
	done := CASE WHEN dry_run THEN 'would move' ELSE 'moved' END;
	rows := total - cardinality(copied);
	IF cardinality(copied) > 0 THEN
		not_copied := format('ROW(%s)::text <> ALL (%L)', key, copied);
	END IF;
	IF NOT dry_run AND rows > 0 THEN
		SELECT q.r::text[] INTO moved
		FROM shardlet.query((SELECT t.map FROM shardlet.tables t WHERE t.tbl = repair_rows.tbl),
			format('SELECT array_agg(ROW(%s)::text)::text FROM %s t WHERE (%s) IS NOT TRUE AND (%s)',
				shardlet_internal.column_list(tbl, false, 't.'), full_name, owned, not_copied),
			NULL, ARRAY[shard], per_shard => true) AS q(r text);
		EXECUTE format('INSERT INTO %s (%s) OVERRIDING SYSTEM VALUE SELECT %s FROM unnest($1) r(value), LATERAL (SELECT (r.value::%s).*) t',
			full_name, shardlet_internal.column_list(tbl, false, '', false),
			shardlet_internal.column_list(tbl, false, 't.', false), full_name) USING moved;
		rows := shardlet_internal.delete_unowned(tbl, shard, not_copied);
		IF rows <> cardinality(moved) THEN
			RAISE EXCEPTION 'rows of table "%" on shard "%" have changed', tbl, shard
				USING ERRCODE = 'serialization_failure', HINT = 'Run the statement again.';
		END IF;
	END IF;
	RETURN NEXT;
	IF cardinality(copied) > 0 THEN
		done := 'left';
		rows := cardinality(copied);
		RETURN NEXT;
	END IF;
END $$;
COMMENT ON FUNCTION shardlet.repair_rows(regclass, name, text, bool)
	IS 'moves or deletes rows that are on a shard which does not own them';
REVOKE ALL ON FUNCTION shardlet.repair_rows(regclass, name, text, bool) FROM PUBLIC;
