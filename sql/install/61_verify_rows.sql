-- verify(): what it finds in rows.  Each function returns findings as verify() does; "alive" are
-- the shards that have answered.

-- A command on one shard, as a statement for the router.
CREATE FUNCTION shardlet_internal.on_shard(shard name, command text, atomic bool DEFAULT true)
RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT format('SELECT * FROM shardlet.execute(NULL, %L, shards => %L%s)', command, ARRAY[shard],
		CASE WHEN atomic THEN '' ELSE ', atomic => false' END)
$$;
COMMENT ON FUNCTION shardlet_internal.on_shard(name, text, bool) IS 'statement that runs a command on one shard';
REVOKE ALL ON FUNCTION shardlet_internal.on_shard(name, text, bool) FROM PUBLIC;

-- Foreign keys that PostgreSQL cannot declare, because the tables are in different places.
CREATE TABLE shardlet.catalog_declared_reference (
	tbl regclass NOT NULL,
	columns name[] NOT NULL,
	ref_tbl regclass NOT NULL,
	ref_columns name[] NOT NULL,
	CONSTRAINT catalog_declared_reference_pkey PRIMARY KEY (tbl, columns)
);
SELECT pg_catalog.pg_extension_config_dump('shardlet.catalog_declared_reference', '');

CREATE FUNCTION shardlet.declare_reference(
	tbl regclass,
	columns text,
	ref_tbl regclass,
	ref_columns text,
	declared bool DEFAULT true)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	names name[];
	ref_names name[];
	missing name;
BEGIN
	IF tbl IS NULL OR columns IS NULL OR ref_tbl IS NULL OR ref_columns IS NULL OR declared IS NULL THEN
		RAISE EXCEPTION 'arguments of shardlet.declare_reference() must not be NULL'
			USING ERRCODE = 'null_value_not_allowed';
	END IF;
	SELECT array_agg((parse_ident(x.name))[1]::name ORDER BY x.place) INTO names
	FROM regexp_split_to_table(columns, '\s*,\s*') WITH ORDINALITY x(name, place);
	SELECT array_agg((parse_ident(x.name))[1]::name ORDER BY x.place) INTO ref_names
	FROM regexp_split_to_table(ref_columns, '\s*,\s*') WITH ORDINALITY x(name, place);
	IF cardinality(names) <> cardinality(ref_names) THEN
		RAISE EXCEPTION 'number of columns differs: % and %', cardinality(names), cardinality(ref_names)
			USING ERRCODE = 'invalid_foreign_key';
	END IF;
	SELECT n.name INTO missing FROM unnest(names) n(name)
	WHERE NOT EXISTS (SELECT FROM pg_attribute a
		WHERE a.attrelid = tbl AND a.attname = n.name AND a.attnum > 0 AND NOT a.attisdropped);
	IF missing IS NOT NULL THEN
		RAISE EXCEPTION 'column "%" of table "%" does not exist', missing, tbl USING ERRCODE = 'undefined_column';
	END IF;
	SELECT n.name INTO missing FROM unnest(ref_names) n(name)
	WHERE NOT EXISTS (SELECT FROM pg_attribute a
		WHERE a.attrelid = ref_tbl AND a.attname = n.name AND a.attnum > 0 AND NOT a.attisdropped);
	IF missing IS NOT NULL THEN
		RAISE EXCEPTION 'column "%" of table "%" does not exist', missing, ref_tbl USING ERRCODE = 'undefined_column';
	END IF;
	DELETE FROM shardlet.catalog_declared_reference d
	WHERE d.tbl = declare_reference.tbl AND d.columns = names;
	IF declared THEN
		INSERT INTO shardlet.catalog_declared_reference VALUES (tbl, names, ref_tbl, ref_names);
	END IF;
END $$;
COMMENT ON FUNCTION shardlet.declare_reference(regclass, text, regclass, text, bool)
	IS 'tells verify() that columns refer to another table, which PostgreSQL does not enforce';
REVOKE ALL ON FUNCTION shardlet.declare_reference(regclass, text, regclass, text, bool) FROM PUBLIC;

-- Rows of sharded tables that are on a shard which does not own them.
CREATE FUNCTION shardlet_internal.verify_owners(
	tbl regclass,
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
DECLARE
	full_name text := shardlet_internal.full_name(tbl);
	answer record;
	copied bigint;
	misplaced bigint;
BEGIN
	severity := 'error';
	object := full_name;
	FOR answer IN
		SELECT a.shard, a.answer, a.error
		FROM shardlet_internal.shard_answers((
			SELECT array_agg(format('SELECT count(*) FROM %s t WHERE (%s) IS NOT TRUE', full_name,
				shardlet_internal.owned_sql(tbl, s.shard)) ORDER BY s.place)
			FROM unnest(alive) WITH ORDINALITY s(shard, place)), NULL, alive) a
	LOOP
		shard := answer.shard;
		rows := NULL;
		repair := NULL;
		IF answer.error IS NOT NULL THEN
			problem := 'rows could not be read: ' || answer.error;
			RETURN NEXT;
			CONTINUE;
		END IF;
		misplaced := answer.answer::bigint;
		CONTINUE WHEN misplaced = 0;
		copied := cardinality(shardlet_internal.copied_keys(tbl, answer.shard, alive));
		IF copied > 0 THEN
			rows := copied;
			problem := 'rows are on two shards; this one does not own them';
			repair := format('SELECT * FROM shardlet.repair_rows(%L, %L, %L)', full_name, shard, 'delete_copies');
			RETURN NEXT;
		END IF;
		IF misplaced > copied THEN
			rows := misplaced - copied;
			problem := 'rows are on a shard that does not own them';
			repair := format('SELECT * FROM shardlet.repair_rows(%L, %L, %L)', full_name, shard, 'move');
			RETURN NEXT;
		END IF;
	END LOOP;
END $$;
COMMENT ON FUNCTION shardlet_internal.verify_owners(regclass, name[]) IS 'rows on shards that do not own them';
REVOKE ALL ON FUNCTION shardlet_internal.verify_owners(regclass, name[]) FROM PUBLIC;

-- The rows of a reference table by primary key, or as they are, with a hash of each.
CREATE FUNCTION shardlet_internal.row_hashes_sql(tbl regclass)
RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT format('SELECT ROW(%s)::text AS key, hashtextextended(ROW(%s)::text COLLATE "C", 0) AS hash FROM ONLY %s t',
		coalesce(shardlet_internal.column_list(tbl, true, 't.'), shardlet_internal.column_list(tbl, false, 't.', false)),
		shardlet_internal.column_list(tbl, false, 't.', false), shardlet_internal.full_name(tbl))
$$;
COMMENT ON FUNCTION shardlet_internal.row_hashes_sql(regclass) IS 'query for keys and hashes of all rows of a table';
REVOKE ALL ON FUNCTION shardlet_internal.row_hashes_sql(regclass) FROM PUBLIC;

-- Differences between the router's rows of a reference table and a shard's, as "key, hash, hash".
CREATE FUNCTION shardlet_internal.reference_differences(tbl regclass, shard name)
RETURNS SETOF text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	answer record;
BEGIN
	SELECT a.answer, a.error INTO answer
	FROM shardlet_internal.shard_answers(ARRAY[format('SELECT jsonb_agg(jsonb_build_array(r.key, r.hash)) FROM (%s) r',
		shardlet_internal.row_hashes_sql(tbl))], NULL, ARRAY[shard]) a;
	IF answer.error IS NOT NULL THEN
		RAISE EXCEPTION '%', answer.error;
	END IF;
	RETURN QUERY EXECUTE format('SELECT concat_ws('','', coalesce(a.key, b.key), CASE WHEN a.hash IS NULL THEN ''extra'' '
		'WHEN b.hash IS NULL THEN ''missing'' ELSE ''changed'' END, a.hash, b.hash) FROM (%s) a '
		'FULL JOIN (SELECT j ->> 0 AS key, (j ->> 1)::bigint AS hash FROM jsonb_array_elements($1) j) b '
		'ON a.key = b.key WHERE a.hash IS DISTINCT FROM b.hash', shardlet_internal.row_hashes_sql(tbl))
		USING answer.answer::jsonb;
END $$;
COMMENT ON FUNCTION shardlet_internal.reference_differences(regclass, name)
	IS 'rows of a reference table that differ on a shard';
REVOKE ALL ON FUNCTION shardlet_internal.reference_differences(regclass, name) FROM PUBLIC;

-- Copies of reference tables.  Router and shards are read one after the other, and no writer waits
-- for that: a difference counts if it is still the same a little later.
CREATE FUNCTION shardlet_internal.verify_reference(
	tbl regclass,
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
DECLARE
	sum_sql text := format('SELECT count(*) || ''/'' || coalesce(sum(r.hash::numeric), 0) FROM (%s) r',
		shardlet_internal.row_hashes_sql(tbl));
	on_router text;
	answer record;
	differences text[];
BEGIN
	severity := 'error';
	object := shardlet_internal.full_name(tbl);
	EXECUTE sum_sql INTO on_router;
	FOR answer IN SELECT a.shard, a.answer, a.error FROM shardlet_internal.shard_answers(ARRAY[sum_sql], NULL, alive) a LOOP
		CONTINUE WHEN answer.error IS NULL AND answer.answer = on_router;
		shard := answer.shard;
		IF answer.error IS NOT NULL THEN
			problem := 'rows could not be read: ' || answer.error;
			rows := NULL;
			repair := NULL;
			RETURN NEXT;
			CONTINUE;
		END IF;
		differences := ARRAY(SELECT shardlet_internal.reference_differences(tbl, answer.shard));
		PERFORM pg_sleep(0.2);
		differences := ARRAY(SELECT d FROM shardlet_internal.reference_differences(tbl, answer.shard) d
			INTERSECT SELECT unnest(differences));
		CONTINUE WHEN cardinality(differences) = 0;
		rows := cardinality(differences);
		SELECT format('rows differ from the router''s: %s missing, %s changed, %s that the router does not have',
			count(*) FILTER (WHERE d ~ ',missing,-?\d+$'), count(*) FILTER (WHERE d ~ ',changed,-?\d+,-?\d+$'),
			count(*) FILTER (WHERE d ~ ',extra,-?\d+$')) INTO problem
		FROM unnest(differences) d;
		repair := format('SELECT shardlet.repair_shard(%L, %L)', shard, 'references');
		RETURN NEXT;
	END LOOP;
END $$;
COMMENT ON FUNCTION shardlet_internal.verify_reference(regclass, name[]) IS 'copies of a reference table that differ';
REVOKE ALL ON FUNCTION shardlet_internal.verify_reference(regclass, name[]) FROM PUBLIC;

-- Rows without the row that they refer to.  Foreign keys are those of the router and the declared ones.
CREATE FUNCTION shardlet_internal.verify_foreign_keys(
	tbl regclass,
	dead name[],
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
	reference record;
	orphans text;
BEGIN
	object := shardlet_internal.full_name(tbl);
	FOR reference IN
		SELECT format('foreign key "%s"', c.conname) AS name, shardlet_internal.full_name(c.confrelid) AS ref_name,
			(SELECT array_agg(a.attname ORDER BY k.place) FROM unnest(c.conkey) WITH ORDINALITY k(number, place)
				JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = k.number) AS columns,
			(SELECT array_agg(a.attname ORDER BY k.place) FROM unnest(c.confkey) WITH ORDINALITY k(number, place)
				JOIN pg_attribute a ON a.attrelid = c.confrelid AND a.attnum = k.number) AS ref_columns
		FROM pg_constraint c
		WHERE c.contype = 'f' AND c.conrelid = tbl AND c.conparentid = 0
		UNION ALL
		SELECT 'declared reference', shardlet_internal.full_name(d.ref_tbl), d.columns, d.ref_columns
		FROM shardlet.catalog_declared_reference d
			JOIN pg_class c ON c.oid = d.ref_tbl
		WHERE d.tbl = verify_foreign_keys.tbl
		ORDER BY 1, 3
	LOOP
		SELECT format('FROM %s c WHERE %s AND NOT EXISTS (SELECT FROM %s p WHERE %s)', object,
			string_agg(format('c.%I IS NOT NULL', k.name), ' AND ' ORDER BY k.place), reference.ref_name,
			string_agg(format('p.%I = c.%I', k.ref_name, k.name), ' AND ' ORDER BY k.place)) INTO orphans
		FROM unnest(reference.columns, reference.ref_columns) WITH ORDINALITY k(name, ref_name, place);
		rows := NULL;
		repair := NULL;
		BEGIN
			EXECUTE 'SELECT count(*) ' || orphans INTO rows;
			severity := 'error';
			problem := format('rows have no row in %s: %s (%s)', reference.ref_name, reference.name,
				array_to_string(reference.columns, ', '));
			repair := 'DELETE ' || orphans;
		EXCEPTION WHEN OTHERS THEN
			severity := CASE WHEN cardinality(dead) > 0 THEN 'warning' ELSE 'error' END;
			problem := format('%s (%s) could not be checked: %s', reference.name,
				array_to_string(reference.columns, ', '), SQLERRM);
		END;
		IF rows IS NULL OR rows > 0 THEN
			RETURN NEXT;
		END IF;
	END LOOP;
END $$;
COMMENT ON FUNCTION shardlet_internal.verify_foreign_keys(regclass, name[]) IS 'rows without the row that they refer to';
REVOKE ALL ON FUNCTION shardlet_internal.verify_foreign_keys(regclass, name[]) FROM PUBLIC;

-- Unique values that several shards have, where an index has not all columns of the shard key.
CREATE FUNCTION shardlet_internal.verify_unique(
	tbl regclass,
	key text,
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
DECLARE
	full_name text := shardlet_internal.full_name(tbl);
	list text;
	not_null text;
	duplicates text;
BEGIN
	severity := 'error';
	object := full_name;
	FOR list, not_null IN
		SELECT DISTINCT j ->> 'list', j ->> 'not_null'
		FROM shardlet_internal.shard_answers(ARRAY[$sql$
			SELECT jsonb_agg(jsonb_build_object('list', x.list, 'names', x.names, 'not_null', x.not_null))
			FROM pg_index i
				CROSS JOIN LATERAL (
					SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY k.place) AS list, array_agg(a.attname) AS names,
						string_agg(quote_ident(a.attname) || ' IS NOT NULL', ' AND ' ORDER BY k.place) AS not_null
					FROM unnest(i.indkey::int2[]) WITH ORDINALITY k(number, place)
						JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
					WHERE k.place <= i.indnkeyatts) x
			WHERE i.indrelid = to_regclass($1) AND i.indisunique AND i.indpred IS NULL AND i.indexprs IS NULL$sql$],
			ARRAY[full_name], alive) a
			CROSS JOIN jsonb_array_elements(a.answer::jsonb) j
		WHERE a.error IS NULL AND (key IS NULL OR NOT
			ARRAY(SELECT (parse_ident(k))[1] FROM regexp_split_to_table(key, '\s*,\s*') k)
				<@ ARRAY(SELECT jsonb_array_elements_text(j -> 'names')))
	LOOP
		duplicates := format('SELECT %s, count(*) FROM %s WHERE %s GROUP BY %s HAVING count(*) > 1',
			list, full_name, not_null, list);
		BEGIN
			EXECUTE format('SELECT count(*) FROM (%s) d', duplicates) INTO rows;
			problem := format('values of unique columns (%s) are on several shards', list);
			repair := duplicates;
		EXCEPTION WHEN OTHERS THEN
			rows := NULL;
			problem := format('unique columns (%s) could not be checked: %s', list, SQLERRM);
			repair := NULL;
		END;
		IF rows IS NULL OR rows > 0 THEN
			RETURN NEXT;
		END IF;
	END LOOP;
END $$;
COMMENT ON FUNCTION shardlet_internal.verify_unique(regclass, text, name[]) IS 'unique values that several shards have';
REVOKE ALL ON FUNCTION shardlet_internal.verify_unique(regclass, text, name[]) FROM PUBLIC;
