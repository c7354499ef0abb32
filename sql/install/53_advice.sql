-- Advice before anything is sharded: which key, and what stands in its way.

-- Columns that could be keys, each with the column at the root of its foreign keys: that of the table that all others refer to.
CREATE FUNCTION shardlet.advise_key(
	INOUT tbl regclass DEFAULT NULL,
	OUT key text,
	OUT score real,
	OUT reason text)
RETURNS SETOF record
LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
WITH RECURSIVE tables AS (
	SELECT c.oid, greatest(c.reltuples, 0)::float8 AS rows
	FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
	WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence <> 't' AND n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', 'shardlet', 'shardlet_internal')
		AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')
), columns AS (
	SELECT t.oid, t.rows, a.attnum, a.attname, a.atttypid, s.null_frac, s.correlation, s.most_common_freqs[1]::float8 AS heaviest,
		CASE WHEN s.n_distinct < 0 THEN -s.n_distinct * t.rows ELSE s.n_distinct END AS distinct_values
	FROM tables t JOIN pg_class c USING (oid) JOIN pg_namespace n ON n.oid = c.relnamespace
		JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped
		LEFT JOIN LATERAL (SELECT * FROM pg_stats p WHERE p.schemaname = n.nspname AND p.tablename = c.relname AND p.attname = a.attname
			ORDER BY p.inherited DESC LIMIT 1) s ON true
	WHERE a.atttypid IN ('int2'::regtype, 'int4'::regtype, 'int8'::regtype, 'uuid'::regtype, 'text'::regtype, 'varchar'::regtype, 'bpchar'::regtype, 'date'::regtype)
), links AS (
	SELECT k.conrelid, k.conkey[1] AS attnum, k.confrelid, k.confkey[1] AS refnum
	FROM pg_constraint k WHERE k.contype = 'f' AND k.conparentid = 0 AND cardinality(k.conkey) = 1
), roots AS (
	SELECT c.*, coalesce(l.confrelid, c.oid) AS root, coalesce(l.refnum, c.attnum) AS root_column
	FROM columns c LEFT JOIN LATERAL (SELECT * FROM links l WHERE l.conrelid = c.oid AND l.attnum = c.attnum AND l.confrelid <> c.oid ORDER BY l.confrelid LIMIT 1) l ON true
), reached(root, root_column, oid) AS (
	-- The tables with the column, and those below them by foreign keys, which can get it.
	SELECT r.root, r.root_column, r.oid FROM roots r
	UNION
	SELECT h.root, h.root_column, k.conrelid FROM reached h JOIN pg_constraint k ON k.confrelid = h.oid AND k.contype = 'f' AND k.conparentid = 0
	WHERE EXISTS (SELECT FROM links l WHERE l.confrelid = h.root AND l.refnum = h.root_column)
), together AS (
	SELECT h.root, h.root_column, array_agg(h.oid) AS relids FROM reached h GROUP BY 1, 2
), facts AS (
	SELECT r.*, g.relids,
		ARRAY(SELECT DISTINCT k.confrelid::regclass::text FROM pg_constraint k WHERE k.contype = 'f' AND k.conparentid = 0 AND k.conrelid = ANY (g.relids)
			AND k.confrelid <> ALL (g.relids) ORDER BY 1) AS reference_tables,
		ARRAY(SELECT i.indexrelid::regclass::text FROM pg_index i JOIN roots o ON o.oid = i.indrelid AND o.root = r.root AND o.root_column = r.root_column
			WHERE i.indisunique AND o.attnum <> ALL (i.indkey::int2[]) ORDER BY 1) AS broken
	FROM roots r JOIN together g USING (root, root_column)
), scored AS (
	SELECT f.*, CASE WHEN distinct_values IS NULL OR distinct_values <= 1 THEN 0 ELSE
		least(1, ln(distinct_values) / ln(1000::float8)) * greatest(0, 1 - 5 * coalesce(heaviest, 1 / distinct_values)) * (1 - coalesce(null_frac, 0))
		* (0.1 + 0.9 * cardinality(relids) / greatest((SELECT count(*) FROM tables), 1)) / (1 + 0.02 * cardinality(broken)) END AS score
	FROM facts f
	WHERE advise_key.tbl IS NULL OR f.oid = advise_key.tbl
)
SELECT oid::regclass, attname::text, round(score::numeric, 3)::real,
	CASE WHEN distinct_values IS NULL THEN 'There are no statistics: ANALYZE the table first.' ELSE
		'About ' || round(distinct_values::numeric) || ' values'
		|| coalesce(', the most frequent one in ' || round((heaviest * 100)::numeric, 1) || ' % of the rows', '')
		|| CASE WHEN null_frac > 0 THEN ', NULL in ' || round((null_frac * 100)::numeric, 1) || ' %' ELSE '' END
		|| CASE WHEN correlation > 0.95 AND distinct_values > 100 THEN ', growing at one end: not for a range map' ELSE '' END
		|| '; colocated: ' || (SELECT string_agg(x::regclass::text, ', ' ORDER BY x::regclass::text) FROM unnest(relids) x)
		|| CASE WHEN reference_tables <> '{}' THEN '; reference tables: ' || array_to_string(reference_tables, ', ') ELSE '' END
		|| CASE WHEN broken <> '{}' THEN '; unique without the key: ' || array_to_string(broken, ', ') ELSE '' END || '.' END
FROM scored ORDER BY score DESC, oid::regclass::text, attnum
$$;
COMMENT ON FUNCTION shardlet.advise_key(regclass)
	IS 'columns that could be the key of a map, best first, by statistics and foreign keys';

CREATE FUNCTION shardlet.check_schema(
	schema name,
	key text,
	OUT tbl regclass,
	OUT problem text,
	OUT ddl text)
RETURNS SETOF record
LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
WITH RECURSIVE tables AS (
	SELECT c.oid, c.relpersistence, (SELECT a.attnum FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = key AND a.attnum > 0 AND NOT a.attisdropped) AS attnum
	FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
	WHERE n.nspname = schema AND c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence <> 't'
		AND NOT EXISTS (SELECT FROM shardlet.tables d WHERE d.tbl = c.oid)
		AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')
), links AS (
	SELECT k.oid, k.conname, k.conrelid, k.confrelid, k.conkey, k.confkey, k.confdeltype, pg_get_constraintdef(k.oid) AS definition
	FROM pg_constraint k WHERE k.contype = 'f' AND k.conparentid = 0 AND k.conrelid IN (SELECT oid FROM tables) AND k.confrelid IN (SELECT oid FROM tables)
), with_key AS (
	-- The column itself, or the one of the table that it refers to.
	SELECT t.oid, t.attnum FROM tables t WHERE t.attnum IS NOT NULL
	UNION
	SELECT t.oid, min(l.confkey[1]) FROM tables t JOIN links l ON l.confrelid = t.oid AND cardinality(l.conkey) = 1 JOIN tables f ON f.oid = l.conrelid AND f.attnum = l.conkey[1]
	WHERE t.attnum IS NULL GROUP BY t.oid
), below AS (
	-- Tables without it that refer to one that has it get it.
	SELECT w.oid, 0 AS depth, NULL::oid AS link FROM with_key w
	UNION ALL
	SELECT l.conrelid, b.depth + 1, l.oid FROM below b JOIN links l ON l.confrelid = b.oid
	WHERE b.depth < 20 AND l.conrelid <> l.confrelid AND l.conrelid NOT IN (SELECT oid FROM with_key)
), added AS (
	SELECT DISTINCT ON (b.oid) b.oid, b.depth, b.link FROM below b WHERE b.depth > 0 ORDER BY b.oid, b.depth, b.link
), keys AS (
	SELECT w.oid, a.attname::text AS column_name, a.atttypid, a.atttypmod, a.attnotnull, false AS is_added FROM with_key w JOIN pg_attribute a ON a.attrelid = w.oid AND a.attnum = w.attnum
	UNION ALL
	SELECT d.oid, key, NULL, NULL, true, true FROM added d
), wanted AS (
	SELECT k.atttypid, k.atttypmod FROM keys k WHERE NOT k.is_added GROUP BY 1, 2 ORDER BY count(*) DESC, k.atttypid LIMIT 1
), broken AS (
	-- Foreign keys between two of these tables that do not connect key with key.
	SELECT l.*, c.column_name, r.column_name AS referenced_name
	FROM links l JOIN keys c ON c.oid = l.conrelid JOIN keys r ON r.oid = l.confrelid
	WHERE NOT EXISTS (SELECT FROM unnest(l.conkey, l.confkey) p(own, other) JOIN pg_attribute a ON a.attrelid = l.conrelid AND a.attnum = p.own
		JOIN pg_attribute b ON b.attrelid = l.confrelid AND b.attnum = p.other WHERE a.attname = c.column_name AND b.attname = r.column_name)
), problems(step, depth, tbl, problem, ddl) AS (
	SELECT 1, 0, b.conrelid, format('Foreign key %s does not connect the key columns, so a shard could not check it.', quote_ident(b.conname)),
		format('ALTER TABLE %s DROP CONSTRAINT %I;', b.conrelid::regclass, b.conname)
	FROM broken b
	UNION ALL
	SELECT 2, d.depth, d.oid, format('It has no column %s, but refers to table %s, which has the key.', quote_ident(key), l.confrelid::regclass),
		format('ALTER TABLE %1$s ADD COLUMN %2$I %3$s; UPDATE %1$s c SET %2$I = r.%4$I FROM %5$s r WHERE %6$s; ALTER TABLE %1$s ALTER COLUMN %2$I SET NOT NULL;', d.oid::regclass, key,
			(SELECT format_type(w.atttypid, w.atttypmod) FROM wanted w), r.column_name, l.confrelid::regclass,
			(SELECT string_agg(format('c.%I = r.%I', a.attname, b.attname), ' AND ' ORDER BY p.place) FROM unnest(l.conkey, l.confkey) WITH ORDINALITY p(own, other, place)
				JOIN pg_attribute a ON a.attrelid = l.conrelid AND a.attnum = p.own JOIN pg_attribute b ON b.attrelid = l.confrelid AND b.attnum = p.other))
	FROM added d JOIN links l ON l.oid = d.link JOIN keys r ON r.oid = l.confrelid
	UNION ALL
	SELECT 3, 0, k.oid, format('Column %s may be NULL.', quote_ident(k.column_name)), format('ALTER TABLE %s ALTER COLUMN %I SET NOT NULL;', k.oid::regclass, k.column_name)
	FROM keys k WHERE NOT k.attnotnull
	UNION ALL
	SELECT 3, 0, k.oid, format('Column %s is of type %s, and that of most tables %s.', quote_ident(k.column_name), format_type(k.atttypid, k.atttypmod), format_type(w.atttypid, w.atttypmod)),
		format('ALTER TABLE %1$s ALTER COLUMN %2$I TYPE %3$s USING %2$I::%3$s;', k.oid::regclass, k.column_name, format_type(w.atttypid, w.atttypmod))
	FROM keys k, wanted w WHERE NOT k.is_added AND k.atttypid <> w.atttypid
		AND NOT (k.atttypid IN ('int2'::regtype, 'int4'::regtype, 'int8'::regtype) AND w.atttypid IN ('int2'::regtype, 'int4'::regtype, 'int8'::regtype))
	UNION ALL
	SELECT 4, 0, k.oid, format('%s %s does not contain the key.', CASE c.contype WHEN 'p' THEN 'Primary key' ELSE 'Unique constraint' END, quote_ident(c.conname)),
		format('ALTER TABLE %1$s DROP CONSTRAINT %2$I, ADD CONSTRAINT %2$I %3$s;', k.oid::regclass, c.conname, regexp_replace(pg_get_constraintdef(c.oid), '\(', '(' || quote_ident(k.column_name) || ', '))
	FROM keys k JOIN pg_constraint c ON c.conrelid = k.oid AND c.contype IN ('p', 'u') AND c.conparentid = 0
	WHERE NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = k.oid AND a.attname = k.column_name AND a.attnum = ANY (c.conkey))
	UNION ALL
	SELECT 4, 0, k.oid, format('Unique index %s does not contain the key.', i.indexrelid::regclass),
		format('DROP INDEX %s; %s;', i.indexrelid::regclass, regexp_replace(pg_get_indexdef(i.indexrelid), ' USING (\w+) \(', ' USING \1 (' || quote_ident(k.column_name) || ', '))
	FROM keys k JOIN pg_index i ON i.indrelid = k.oid AND i.indisunique
	WHERE NOT EXISTS (SELECT FROM pg_constraint c WHERE c.conindid = i.indexrelid AND c.contype IN ('p', 'u', 'x'))
		AND NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = k.oid AND a.attname = k.column_name AND a.attnum = ANY (i.indkey::int2[]))
	UNION ALL
	SELECT 5, 0, b.conrelid, format('Foreign key %s comes again, with the key.', quote_ident(b.conname)),
		format('ALTER TABLE %s ADD CONSTRAINT %I %s;', b.conrelid::regclass, b.conname,
			regexp_replace(
				regexp_replace(b.definition, '^FOREIGN KEY \((.*?)\) REFERENCES (.*?)\(', format('FOREIGN KEY (%s, \1) REFERENCES \2(%s, ', quote_ident(b.column_name), quote_ident(b.referenced_name))),
				'ON DELETE SET (NULL|DEFAULT)(?! \()', format('ON DELETE SET \1 (%s)',
					(SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY p.place) FROM unnest(b.conkey) WITH ORDINALITY p(own, place) JOIN pg_attribute a ON a.attrelid = b.conrelid AND a.attnum = p.own))))
	FROM broken b
	WHERE NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = b.conrelid AND a.attname = b.column_name AND a.attnum = ANY (b.conkey))
	UNION ALL
	SELECT 6, 0, t.oid, 'It is unlogged.', format('ALTER TABLE %s SET LOGGED;', t.oid::regclass)
	FROM tables t WHERE t.relpersistence = 'u'
	UNION ALL
	SELECT 7, 0, t.oid, CASE WHEN r.tables IS NULL THEN format('It has no column %s, and no foreign key leads to the key: it stays where it is, or becomes a reference table.', quote_ident(key))
		ELSE format('It has no column %s, and is referred to by %s: a reference table.', quote_ident(key), r.tables) END,
		CASE WHEN r.tables IS NOT NULL THEN format('SELECT shardlet.make_reference(%L);', t.oid::regclass) END
	FROM tables t, LATERAL (SELECT string_agg(DISTINCT l.conrelid::regclass::text, ', ') AS tables FROM links l WHERE l.confrelid = t.oid AND l.conrelid <> t.oid) r
	WHERE t.oid NOT IN (SELECT oid FROM keys)
	UNION ALL
	SELECT 8, 0, t.oid, format('It has %s, which the shards cannot have.', p.what), NULL
	FROM tables t JOIN keys k USING (oid), LATERAL (
		SELECT 'rule ' || quote_ident(r.rulename) AS what FROM pg_rewrite r WHERE r.ev_class = t.oid
		UNION ALL
		SELECT 'constraint trigger ' || quote_ident(g.tgname) FROM pg_trigger g WHERE g.tgrelid = t.oid AND g.tgconstraint <> 0 AND NOT g.tgisinternal
		UNION ALL
		SELECT 'trigger with transition tables ' || quote_ident(g.tgname) FROM pg_trigger g WHERE g.tgrelid = t.oid AND NOT g.tgisinternal AND (g.tgoldtable IS NOT NULL OR g.tgnewtable IS NOT NULL)
		UNION ALL
		SELECT 'parent or child ' || (CASE WHEN h.inhrelid = t.oid THEN h.inhparent ELSE h.inhrelid END)::regclass FROM pg_inherits h JOIN pg_class c ON c.oid = h.inhrelid
			WHERE t.oid IN (h.inhrelid, h.inhparent) AND NOT c.relispartition) p
)
SELECT p.tbl::regclass, p.problem, p.ddl FROM problems p ORDER BY p.step, p.depth, p.tbl::regclass::text, p.problem
$$;
COMMENT ON FUNCTION shardlet.check_schema(name, text)
	IS 'what stands in the way of distributing the tables of a schema by a column, with the DDL that removes it';
