/*
 * table_definition_sql.c
 *		The queries that write down how a table or a type was made.
 *
 * They read PostgreSQL's catalogs and nothing else, so that any server from 15 on can
 * run them, with the extension or without.  With search_path set to pg_catalog every
 * name in the answer is qualified, and the answer is the same text wherever the
 * definition is the same.
 *
 * Rows are (phase, kind, name, ddl, level), in the order in which the commands have
 * to run; the phases are in definition.h.  A partitioned table comes with its
 * partitions: each is made like a table of its own and then attached, which keeps
 * their own defaults and the order of their columns.  What a partition has because
 * its parent has it is left out.
 *
 * A column whose values come from a sequence or from next_id() has no default
 * here: see table_definition.c.
 *
 * NOT NULL has a name from 18 on.  It is given to the table where it is not the
 * usual one, and does not count when tables are compared.
 */
#include "postgres.h"

#include "ddl/definition.h"

/* One row for each type in "y", a pg_type with a column "depth". */
#define TYPE_SQL \
"SELECT y.oid, y.depth, y.typnamespace, pg_catalog.format_type(y.oid, NULL) AS name,\n" \
" CASE y.typtype\n" \
" WHEN 'e' THEN (\n" \
"  SELECT pg_catalog.format('CREATE TYPE %s AS ENUM (%s)', pg_catalog.format_type(y.oid, NULL),\n" \
"   pg_catalog.string_agg(pg_catalog.quote_literal(e.enumlabel), ', ' ORDER BY e.enumsortorder))\n" \
"  FROM pg_catalog.pg_enum e WHERE e.enumtypid = y.oid)\n" \
" WHEN 'd' THEN\n" \
"  pg_catalog.format('CREATE DOMAIN %s AS %s', pg_catalog.format_type(y.oid, NULL), pg_catalog.format_type(y.typbasetype, y.typtypmod))\n" \
"  || COALESCE((SELECT ' COLLATE ' || y.typcollation::pg_catalog.regcollation::text FROM pg_catalog.pg_type b\n" \
"   WHERE b.oid = y.typbasetype AND b.typcollation <> y.typcollation), '')\n" \
"  || COALESCE(' DEFAULT ' || pg_catalog.pg_get_expr(y.typdefaultbin, 0), '')\n" \
"  || CASE WHEN y.typnotnull THEN ' NOT NULL' ELSE '' END\n" \
"  || COALESCE((SELECT pg_catalog.string_agg(pg_catalog.format(' CONSTRAINT %I %s', k.conname, pg_catalog.pg_get_constraintdef(k.oid)), '' ORDER BY k.conname)\n" \
"   FROM pg_catalog.pg_constraint k WHERE k.contypid = y.oid AND k.contype = 'c'), '')\n" \
" WHEN 'c' THEN (\n" \
"  SELECT pg_catalog.format('CREATE TYPE %s AS (%s)', pg_catalog.format_type(y.oid, NULL),\n" \
"   pg_catalog.string_agg(pg_catalog.format('%I %s%s', a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod),\n" \
"    CASE WHEN a.attcollation <> b.typcollation THEN ' COLLATE ' || a.attcollation::pg_catalog.regcollation::text ELSE '' END), ', ' ORDER BY a.attnum))\n" \
"  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid\n" \
"   JOIN pg_catalog.pg_type b ON b.oid = a.atttypid\n" \
"  WHERE c.oid = y.typrelid AND c.relkind = 'c' AND a.attnum > 0 AND NOT a.attisdropped)\n" \
" WHEN 'r' THEN (\n" \
"  SELECT pg_catalog.format('CREATE TYPE %s AS RANGE (SUBTYPE = %s, SUBTYPE_OPCLASS = %I.%I%s%s, MULTIRANGE_TYPE_NAME = %s)',\n" \
"   pg_catalog.format_type(y.oid, NULL), pg_catalog.format_type(g.rngsubtype, NULL), n.nspname, o.opcname,\n" \
"   CASE WHEN g.rngcollation <> 0 AND g.rngcollation <> (SELECT b.typcollation FROM pg_catalog.pg_type b WHERE b.oid = g.rngsubtype)\n" \
"    THEN ', COLLATION = ' || g.rngcollation::pg_catalog.regcollation::text ELSE '' END,\n" \
"   CASE WHEN g.rngsubdiff::pg_catalog.oid <> 0 THEN ', SUBTYPE_DIFF = ' || g.rngsubdiff::text ELSE '' END,\n" \
"   pg_catalog.format_type(g.rngmultitypid, NULL))\n" \
"  FROM pg_catalog.pg_range g JOIN pg_catalog.pg_opclass o ON o.oid = g.rngsubopc\n" \
"   JOIN pg_catalog.pg_namespace n ON n.oid = o.opcnamespace\n" \
"  WHERE g.rngtypid = y.oid AND g.rngcanonical::pg_catalog.oid = 0)\n" \
" END AS ddl\n"

/* Defaults that are the router's: see table_definition.c. */
#define MAKES_IDS_PATTERN "'(\"?nextval\"?[(]|^\"?shardlet\"?[.]\"?next_id\"?[(])'"

/* The policy "p", of table "q"; PUBLIC is a role without name in "roles". */
#define POLICY_SQL(q) \
"pg_catalog.format('CREATE POLICY %I ON %s AS %s FOR %s TO %s', p.polname, " q ",\n" \
" CASE WHEN p.polpermissive THEN 'PERMISSIVE' ELSE 'RESTRICTIVE' END,\n" \
" CASE p.polcmd WHEN 'r' THEN 'SELECT' WHEN 'a' THEN 'INSERT' WHEN 'w' THEN 'UPDATE' WHEN 'd' THEN 'DELETE' ELSE 'ALL' END,\n" \
" (SELECT pg_catalog.string_agg(CASE o.role WHEN 0 THEN 'PUBLIC' ELSE pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(o.role)) END, ', ' ORDER BY o.place)\n" \
"  FROM pg_catalog.unnest(p.polroles) WITH ORDINALITY o(role, place)))\n" \
" || COALESCE(' USING (' || pg_catalog.pg_get_expr(p.polqual, p.polrelid) || ')', '')\n" \
" || COALESCE(' WITH CHECK (' || pg_catalog.pg_get_expr(p.polwithcheck, p.polrelid) || ')', '')\n"

/*
 * The objects that those in "root" depend on, of all levels, but for what PostgreSQL
 * brings along and what is below a member of an extension.  "depth" is the longest way
 * to an object: what is deeper has to be created first.  What tables need is not followed.
 */
#define NODE_EDGES_SQL \
"  SELECT d.refclassid, d.refobjid FROM pg_catalog.pg_depend d\n" \
"  WHERE d.classid = n.classid AND d.objid = n.objid AND d.deptype IN ('n', 'i')\n" \
"  UNION SELECT d.refclassid, d.refobjid FROM pg_catalog.pg_type y JOIN pg_catalog.pg_class c ON c.oid = y.typrelid AND c.relkind = 'c'\n" \
"   JOIN pg_catalog.pg_depend d ON d.classid = 'pg_class'::pg_catalog.regclass AND d.objid = c.oid AND d.deptype = 'n'\n" \
"  WHERE n.classid = 'pg_type'::pg_catalog.regclass AND y.oid = n.objid\n" \
"  UNION SELECT d.refclassid, d.refobjid FROM pg_catalog.pg_constraint k\n" \
"   JOIN pg_catalog.pg_depend d ON d.classid = 'pg_constraint'::pg_catalog.regclass AND d.objid = k.oid AND d.deptype = 'n'\n" \
"  WHERE n.classid = 'pg_type'::pg_catalog.regclass AND k.contypid = n.objid\n"

/* What is looked at of the objects that "e" refers to. */
#define NEEDED_SQL(e) \
e ".refobjid >= 16384 AND " e ".refclassid = ANY (ARRAY['pg_proc', 'pg_type', 'pg_collation', 'pg_operator', 'pg_opclass', 'pg_ts_config', 'pg_ts_dict'," \
" 'pg_language', 'pg_am', 'pg_class']::pg_catalog.regclass[])\n" \
"  AND (" e ".refclassid <> 'pg_class'::pg_catalog.regclass OR EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid = " e ".refobjid AND c.relkind = 'S'))"

#define NOT_MEMBER_SQL(classid, objid) \
"NOT EXISTS (SELECT FROM pg_catalog.pg_depend m WHERE m.classid = " classid " AND m.objid = " objid " AND m.deptype = 'e')"

/* CTEs "node", "type", "func", "other"; they need "root". */
#define NEEDS_SQL \
"node(classid, objid, depth, path) AS (\n" \
" SELECT DISTINCT root.classid::pg_catalog.oid, root.objid, 0, ARRAY[root.classid::pg_catalog.oid || ' ' || root.objid] FROM root\n" \
" UNION ALL\n" \
" SELECT e.refclassid, e.refobjid, n.depth + 1, n.path || (e.refclassid || ' ' || e.refobjid)\n" \
" FROM node n CROSS JOIN LATERAL (\n" \
NODE_EDGES_SQL \
"  ) e\n" \
" WHERE (n.depth = 0 OR n.classid = ANY (ARRAY['pg_proc', 'pg_type']::pg_catalog.regclass[]))\n" \
"  AND " NEEDED_SQL("e") "\n" \
"  AND e.refclassid || ' ' || e.refobjid <> ALL (n.path)\n" \
"  AND " NOT_MEMBER_SQL("n.classid", "n.objid") "\n" \
"), object AS MATERIALIZED (\n" \
" SELECT node.classid, node.objid, pg_catalog.max(node.depth) AS depth FROM node\n" \
" WHERE node.depth > 0 OR node.classid <> ALL (ARRAY['pg_class', 'pg_attrdef', 'pg_constraint', 'pg_trigger', 'pg_statistic_ext', 'pg_policy']::pg_catalog.regclass[])\n" \
"  OR EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid = node.objid AND c.relkind = 'S' AND node.classid = 'pg_class'::pg_catalog.regclass)\n" \
" GROUP BY node.classid, node.objid\n" \
"), own AS MATERIALIZED (\n" \
" SELECT object.* FROM object WHERE " NOT_MEMBER_SQL("object.classid", "object.objid") "\n" \
"), wanted AS MATERIALIZED (\n" \
" SELECT y.*, own.depth FROM own JOIN pg_catalog.pg_type y ON y.oid = own.objid\n" \
" WHERE own.classid = 'pg_type'::pg_catalog.regclass AND y.typtype <> 'm'\n" \
"  AND NOT EXISTS (SELECT FROM pg_catalog.pg_type e WHERE e.typarray = y.oid)\n" \
"  AND NOT EXISTS (SELECT FROM root WHERE root.objid = y.typrelid AND root.classid = 'pg_class'::pg_catalog.regclass)\n" \
"), type AS MATERIALIZED (\n" \
TYPE_SQL \
" FROM wanted y\n" \
"), func AS MATERIALIZED (\n" \
" SELECT p.*, own.depth, p.oid::pg_catalog.regprocedure::text AS name\n" \
" FROM own JOIN pg_catalog.pg_proc p ON p.oid = own.objid WHERE own.classid = 'pg_proc'::pg_catalog.regclass\n" \
")\n"

/*
 * Items of the phases 1 and 2.  Besides the objects: who owns a function, whether it runs as its
 * owner, and who may execute it, where that is not everyone.
 */
#define NEEDS_ITEMS_SQL \
" SELECT DISTINCT 1, 1, 0, 'schema', n.nspname, pg_catalog.format('CREATE SCHEMA IF NOT EXISTS %I', n.nspname)\n" \
" FROM (SELECT type.typnamespace AS oid FROM type WHERE type.ddl IS NOT NULL UNION SELECT func.pronamespace FROM func) s\n" \
"  JOIN pg_catalog.pg_namespace n ON n.oid = s.oid\n" \
" UNION ALL\n" \
" SELECT DISTINCT 1, 2, 0, 'extension', x.extname, pg_catalog.format('CREATE EXTENSION IF NOT EXISTS %I', x.extname)\n" \
" FROM object JOIN pg_catalog.pg_depend e ON e.classid = object.classid AND e.objid = object.objid AND e.deptype = 'e'\n" \
"  AND e.refclassid = 'pg_extension'::pg_catalog.regclass\n" \
"  JOIN pg_catalog.pg_extension x ON x.oid = e.refobjid WHERE x.extname NOT IN ('shardlet', 'plpgsql')\n" \
" UNION ALL\n" \
" SELECT 1, 3, 0, 'required', i.identity, i.type\n" \
" FROM own CROSS JOIN LATERAL pg_catalog.pg_identify_object(own.classid, own.objid, 0) i\n" \
" WHERE own.classid <> ALL (ARRAY['pg_proc', 'pg_type']::pg_catalog.regclass[])\n" \
" UNION ALL\n" \
" SELECT 2, - type.depth, 0, 'type', type.name, type.ddl FROM type\n" \
" UNION ALL\n" \
" SELECT 2, - func.depth, 0, 'function', func.name, CASE WHEN func.prokind <> 'a' THEN pg_catalog.pg_get_functiondef(func.oid) END FROM func\n" \
" UNION ALL\n" \
" SELECT 2, - func.depth, 0, CASE WHEN func.prosecdef THEN 'function_definer' ELSE 'function_owner' END, func.name,\n" \
"  pg_catalog.pg_get_userbyid(func.proowner) FROM func\n" \
" UNION ALL\n" \
" SELECT 2, - func.depth, 0, 'function_grant', func.name, CASE x.grantee WHEN 0 THEN '' ELSE pg_catalog.pg_get_userbyid(x.grantee) END\n" \
" FROM func CROSS JOIN LATERAL pg_catalog.aclexplode(func.proacl) x WHERE x.privilege_type = 'EXECUTE' AND x.grantee <> func.proowner\n" \
" UNION ALL\n" \
" SELECT 2, - func.depth, 0, 'function_private', func.name, 'REVOKE ALL' FROM func\n" \
" WHERE func.proacl IS NOT NULL AND NOT EXISTS (SELECT FROM pg_catalog.aclexplode(func.proacl) x WHERE x.grantee = 0)\n"

/* Parameters: schema, name. */
const char	sl_definition_sql[] =
"WITH RECURSIVE tree(oid, parent, level) AS (\n"
" SELECT c.oid, 0::pg_catalog.oid, 0\n"
" FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace\n"
" WHERE n.nspname = $1::text AND c.relname = $2::text AND c.relkind IN ('r', 'p', 'f')\n"
" UNION ALL\n"
" SELECT i.inhrelid, i.inhparent, t.level + 1\n"
" FROM tree t JOIN pg_catalog.pg_inherits i ON i.inhparent = t.oid\n"
"  JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid\n"
" WHERE c.relispartition\n"
"), rel AS MATERIALIZED (\n"
" SELECT c.*, t.parent, t.level, n.nspname, pg_catalog.format('%I.%I', n.nspname, c.relname) AS qualified,\n"
"  CASE WHEN t.level = 0 THEN '' ELSE c.relname || '.' END AS prefix,\n"
"  (SELECT pg_catalog.string_agg(o.option, ', ' ORDER BY o.option) FROM (\n"
"    SELECT pg_catalog.format('%I = %L', x.option_name, x.option_value) FROM pg_catalog.pg_options_to_table(c.reloptions) x WHERE c.relkind <> 'f'\n"
"    UNION ALL SELECT pg_catalog.format('toast.%I = %L', x.option_name, x.option_value)\n"
"    FROM pg_catalog.pg_class toast CROSS JOIN LATERAL pg_catalog.pg_options_to_table(toast.reloptions) x\n"
"    WHERE toast.oid = c.reltoastrelid) o(option)) AS options\n"
" FROM tree t JOIN pg_catalog.pg_class c ON c.oid = t.oid\n"
"  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace\n"
"), given AS MATERIALIZED (\n"
" SELECT a.*, d.oid AS default_oid, pg_catalog.pg_get_expr(d.adbin, d.adrelid) AS default_text\n"
" FROM rel JOIN pg_catalog.pg_attribute a ON a.attrelid = rel.oid\n"
"  LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum\n"
" WHERE a.attnum > 0 AND NOT a.attisdropped\n"
"), col AS MATERIALIZED (\n"
" SELECT g.*, rel.level, rel.prefix, rel.qualified, y.typstorage, y.typcollation, i.makes_ids,\n"
"  pg_catalog.format('%I %s', g.attname, pg_catalog.format_type(g.atttypid, g.atttypmod))\n"
"  || CASE WHEN g.attcollation <> y.typcollation THEN ' COLLATE ' || g.attcollation::pg_catalog.regcollation::text ELSE '' END\n"
"  || CASE WHEN g.attgenerated = 's' THEN pg_catalog.format(' GENERATED ALWAYS AS (%s) STORED', g.default_text)\n"
"   WHEN g.attgenerated = 'v' THEN pg_catalog.format(' GENERATED ALWAYS AS (%s) VIRTUAL', g.default_text)\n"
"   WHEN g.default_text IS NOT NULL AND NOT i.makes_ids THEN ' DEFAULT ' || g.default_text ELSE '' END AS form,\n"
"  CASE WHEN g.attnotnull THEN ' NOT NULL' ELSE '' END AS not_null,\n"
"  (SELECT pg_catalog.format(' CONSTRAINT %I', k.conname) FROM pg_catalog.pg_constraint k\n"
"   WHERE k.conrelid = g.attrelid AND k.contype = 'n' AND k.conkey = ARRAY[g.attnum] AND rel.level = 0\n"
"    AND k.conname <> rel.relname || '_' || g.attname || '_not_null') AS not_null_name\n"
" FROM given g JOIN rel ON rel.oid = g.attrelid\n"
"  JOIN pg_catalog.pg_type y ON y.oid = g.atttypid\n"
"  CROSS JOIN LATERAL (SELECT g.attidentity <> '' OR (g.attgenerated = ''\n"
"   AND COALESCE(g.default_text ~ " MAKES_IDS_PATTERN ", false)) AS makes_ids) i\n"
"), ind AS MATERIALIZED (\n"
" SELECT i.*, c.relname, c.reloptions, rel.level, rel.prefix, rel.qualified, n.nspname, k.oid AS constraint_oid\n"
" FROM rel JOIN pg_catalog.pg_index i ON i.indrelid = rel.oid\n"
"  JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid\n"
"  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace\n"
"  LEFT JOIN pg_catalog.pg_constraint k ON k.conindid = i.indexrelid AND k.contype IN ('p', 'u', 'x')\n"
" WHERE i.indisvalid AND NOT EXISTS (SELECT FROM pg_catalog.pg_inherits h WHERE h.inhrelid = i.indexrelid)\n"
"), con AS MATERIALIZED (\n"
" SELECT k.*, rel.level, rel.prefix, rel.qualified\n"
" FROM rel JOIN pg_catalog.pg_constraint k ON k.conrelid = rel.oid\n"
" WHERE k.contype IN ('p', 'u', 'x', 'c', 'f') AND k.conparentid = 0 AND (rel.relkind <> 'f' OR k.contype = 'c')\n"
"  AND (k.contype <> 'c' OR CASE WHEN rel.level = 0 THEN k.conislocal ELSE k.coninhcount = 0 END)\n"
"), trg AS MATERIALIZED (\n"
" SELECT t.*, rel.level, rel.prefix, rel.qualified\n"
" FROM rel JOIN pg_catalog.pg_trigger t ON t.tgrelid = rel.oid\n"
"  JOIN pg_catalog.pg_proc p ON p.oid = t.tgfoid\n"
"  JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace\n"
" WHERE NOT t.tgisinternal AND t.tgparentid = 0 AND n.nspname NOT IN ('shardlet', 'shardlet_internal')\n"
"), stat AS MATERIALIZED (\n"
" SELECT s.*, rel.level, rel.prefix, n.nspname\n"
" FROM rel JOIN pg_catalog.pg_statistic_ext s ON s.stxrelid = rel.oid\n"
"  JOIN pg_catalog.pg_namespace n ON n.oid = s.stxnamespace\n"
"), part(classid, objid) AS MATERIALIZED (\n"
" SELECT 'pg_class'::pg_catalog.regclass, rel.oid FROM rel\n"
" UNION ALL SELECT 'pg_class'::pg_catalog.regclass, ind.indexrelid FROM ind\n"
" UNION ALL SELECT 'pg_attrdef'::pg_catalog.regclass, col.default_oid FROM col WHERE NOT col.makes_ids AND col.default_oid IS NOT NULL\n"
" UNION ALL SELECT 'pg_constraint'::pg_catalog.regclass, con.oid FROM con\n"
" UNION ALL SELECT 'pg_trigger'::pg_catalog.regclass, trg.oid FROM trg\n"
" UNION ALL SELECT 'pg_statistic_ext'::pg_catalog.regclass, stat.oid FROM stat\n"
" UNION ALL SELECT 'pg_policy'::pg_catalog.regclass, p.oid FROM rel JOIN pg_catalog.pg_policy p ON p.polrelid = rel.oid\n"
"), root(classid, objid) AS (SELECT part.classid, part.objid FROM part), "
NEEDS_SQL
", granted AS MATERIALIZED (\n"
" SELECT rel.oid AS relid, NULL::name AS attname, x.* FROM rel CROSS JOIN LATERAL pg_catalog.aclexplode(rel.relacl) x\n"
" WHERE x.grantee <> rel.relowner\n"
" UNION ALL\n"
" SELECT rel.oid, col.attname, x.* FROM rel JOIN col ON col.attrelid = rel.oid\n"
"  CROSS JOIN LATERAL pg_catalog.aclexplode(col.attacl) x\n"
" WHERE x.grantee <> rel.relowner\n"
"), item(phase, place, level, kind, name, ddl) AS (\n"
" SELECT 0, col.attnum::int, col.level, 'column', col.prefix || col.attname, col.form || col.not_null FROM col\n"
" UNION ALL\n"
" SELECT 0, col.attnum::int, col.level, 'column_type', col.prefix || col.attname, pg_catalog.format_type(col.atttypid, col.atttypmod)\n"
"  || CASE WHEN col.attcollation <> col.typcollation THEN ' COLLATE ' || col.attcollation::pg_catalog.regcollation::text ELSE '' END\n"
" FROM col\n"
" UNION ALL\n"
" SELECT 0, col.attnum::int, col.level, 'column_default', col.prefix || col.attname, col.default_text\n"
" FROM col WHERE col.default_text IS NOT NULL AND col.attgenerated = '' AND NOT col.makes_ids\n"
" UNION ALL\n"
" SELECT 0, col.attnum::int, col.level, 'column_not_null', col.prefix || col.attname, 'NOT NULL' FROM col WHERE col.attnotnull\n"
" UNION ALL\n"
" SELECT 0, col.attnum::int, col.level, 'not_null_name', col.prefix || col.attname, col.not_null_name FROM col WHERE col.not_null_name IS NOT NULL\n"
" UNION ALL\n"
" SELECT 0, 0, con.level, 'primary_key_columns', con.prefix || con.conname,\n"
"  (SELECT pg_catalog.string_agg(pg_catalog.quote_ident(a.attname), ', ' ORDER BY x.place) FROM pg_catalog.unnest(con.conkey) WITH ORDINALITY x(attnum, place)\n"
"   JOIN pg_catalog.pg_attribute a ON a.attrelid = con.conrelid AND a.attnum = x.attnum)\n"
" FROM con WHERE con.contype = 'p' AND NOT con.condeferrable\n"
" UNION ALL\n"
" SELECT 0, 0, rel.level, 'options', rel.relname, pg_catalog.format('ALTER TABLE %s SET (%s)', rel.qualified, rel.options)\n"
" FROM rel WHERE rel.options IS NOT NULL\n"
" UNION ALL\n"
" SELECT DISTINCT 1, 1, 0, 'schema', n.nspname, pg_catalog.format('CREATE SCHEMA IF NOT EXISTS %I', n.nspname)\n"
" FROM (SELECT rel.relnamespace AS oid FROM rel UNION SELECT stat.stxnamespace FROM stat) s\n"
"  JOIN pg_catalog.pg_namespace n ON n.oid = s.oid\n"
" UNION\n"
NEEDS_ITEMS_SQL
" UNION ALL\n"
" SELECT 3, 1, rel.level, CASE rel.level WHEN 0 THEN 'table' ELSE 'partition' END, rel.relname,\n"
"  pg_catalog.format('CREATE %sTABLE %s (%s)', CASE rel.relpersistence WHEN 'u' THEN 'UNLOGGED ' ELSE '' END, rel.qualified,\n"
"   (SELECT pg_catalog.string_agg(col.form || COALESCE(col.not_null_name, '') || col.not_null, ', ' ORDER BY col.attnum) FROM col WHERE col.attrelid = rel.oid))\n"
"  || CASE rel.relkind WHEN 'p' THEN ' PARTITION BY ' || pg_catalog.pg_get_partkeydef(rel.oid) ELSE '' END\n"
"  || COALESCE((SELECT pg_catalog.format(' USING %I', m.amname) FROM pg_catalog.pg_am m\n"
"   WHERE m.oid = rel.relam AND rel.relkind = 'r' AND m.amname <> 'heap'), '')\n"
"  || COALESCE(' WITH (' || rel.options || ')', '')\n"
" FROM rel\n"
" UNION ALL\n"
" SELECT 3, 2, rel.level, 'partition_bound', rel.relname, pg_catalog.format('ALTER TABLE %s ATTACH PARTITION %s %s', above.qualified,\n"
"  rel.qualified, pg_catalog.pg_get_expr(rel.relpartbound, rel.oid))\n"
" FROM rel JOIN rel above ON above.oid = rel.parent\n"
" UNION ALL\n"
" SELECT 3, 2, rel.level, 'owner', owner.rolname, pg_catalog.format('ALTER TABLE %s OWNER TO %I', rel.qualified, owner.rolname)\n"
" FROM rel JOIN pg_catalog.pg_class c ON c.oid = rel.oid JOIN pg_catalog.pg_roles owner ON owner.oid = c.relowner\n"
" UNION ALL\n"
" SELECT 3, 3, col.level, 'storage', col.prefix || col.attname, pg_catalog.format('ALTER TABLE ONLY %s ALTER COLUMN %I SET STORAGE %s', col.qualified,\n"
"  col.attname, CASE col.attstorage WHEN 'p' THEN 'PLAIN' WHEN 'e' THEN 'EXTERNAL' WHEN 'm' THEN 'MAIN' ELSE 'EXTENDED' END)\n"
" FROM col WHERE col.attstorage <> col.typstorage\n"
" UNION ALL\n"
" SELECT 3, 3, col.level, 'compression', col.prefix || col.attname, pg_catalog.format('ALTER TABLE ONLY %s ALTER COLUMN %I SET COMPRESSION %s', col.qualified,\n"
"  col.attname, CASE col.attcompression WHEN 'p' THEN 'pglz' ELSE 'lz4' END)\n"
" FROM col WHERE col.attcompression IN ('p', 'l')\n"
" UNION ALL\n"
" SELECT 3, 4, col.level, 'statistics_target', col.prefix || col.attname, pg_catalog.format('ALTER TABLE ONLY %s ALTER COLUMN %I SET STATISTICS %s', col.qualified,\n"
"  col.attname, col.attstattarget)\n"
" FROM col WHERE COALESCE(col.attstattarget, -1) >= 0\n"
" UNION ALL\n"
" SELECT 3, 5, col.level, 'id_default', col.prefix || col.attname, pg_catalog.format('ALTER TABLE ONLY %s ALTER COLUMN %I SET DEFAULT shardlet.next_id()', col.qualified,\n"
"  col.attname)\n"
" FROM col WHERE col.makes_ids AND col.atttypid = 'bigint'::pg_catalog.regtype\n"
" UNION ALL\n"
" SELECT 4, CASE con.contype WHEN 'p' THEN 1 WHEN 'u' THEN 2 ELSE 3 END, con.level,\n"
"  CASE con.contype WHEN 'p' THEN 'primary_key' WHEN 'u' THEN 'unique' ELSE 'exclusion' END, con.prefix || con.conname,\n"
"  pg_catalog.format('ALTER TABLE %s ADD CONSTRAINT %I %s', con.qualified, con.conname, pg_catalog.pg_get_constraintdef(con.oid))\n"
" FROM con WHERE con.contype IN ('p', 'u', 'x')\n"
" UNION ALL\n"
" SELECT 5, 1, ind.level, 'index', ind.prefix || ind.relname, pg_catalog.replace(pg_catalog.pg_get_indexdef(ind.indexrelid),\n"
"  pg_catalog.format(' ON ONLY %s USING ', ind.qualified), pg_catalog.format(' ON %s USING ', ind.qualified))\n"
" FROM ind WHERE ind.constraint_oid IS NULL\n"
" UNION ALL\n"
" SELECT 5, 2, ind.level, 'index_options', ind.prefix || ind.relname, pg_catalog.format('ALTER INDEX %I.%I SET (%s)', ind.nspname, ind.relname,\n"
"  (SELECT pg_catalog.string_agg(pg_catalog.format('%I = %L', x.option_name, x.option_value), ', ') FROM pg_catalog.pg_options_to_table(ind.reloptions) x))\n"
" FROM ind WHERE ind.constraint_oid IS NOT NULL AND ind.reloptions IS NOT NULL\n"
" UNION ALL\n"
" SELECT 5, 3, ind.level, 'cluster', ind.prefix || ind.relname, pg_catalog.format('ALTER TABLE %s CLUSTER ON %I', ind.qualified, ind.relname)\n"
" FROM ind WHERE ind.indisclustered\n"
" UNION ALL\n"
" SELECT 6, 1, con.level, 'check', con.prefix || con.conname, pg_catalog.format('ALTER TABLE %s ADD CONSTRAINT %I %s', con.qualified, con.conname,\n"
"  pg_catalog.pg_get_constraintdef(con.oid))\n"
" FROM con WHERE con.contype = 'c'\n"
" UNION ALL\n"
" SELECT 7, 1, stat.level, 'statistics', stat.prefix || stat.stxname, pg_catalog.pg_get_statisticsobjdef(stat.oid) FROM stat\n"
" UNION ALL\n"
" SELECT 8, 1, con.level, 'foreign_key', con.prefix || con.conname, pg_catalog.format('ALTER TABLE %s ADD CONSTRAINT %I %s', con.qualified, con.conname,\n"
"  pg_catalog.pg_get_constraintdef(con.oid))\n"
" FROM con WHERE con.contype = 'f'\n"
" UNION ALL\n"
" SELECT 9, 1, trg.level, 'trigger', trg.prefix || trg.tgname, pg_catalog.pg_get_triggerdef(trg.oid) FROM trg\n"
" UNION ALL\n"
" SELECT 9, 2, trg.level, 'trigger_state', trg.prefix || trg.tgname, pg_catalog.format('ALTER TABLE %s %s TRIGGER %I', trg.qualified,\n"
"  CASE trg.tgenabled WHEN 'D' THEN 'DISABLE' WHEN 'R' THEN 'ENABLE REPLICA' ELSE 'ENABLE ALWAYS' END, trg.tgname)\n"
" FROM trg WHERE trg.tgenabled <> 'O'\n"
" UNION ALL\n"
" SELECT 10, 1, c.level, 'comment', c.name, pg_catalog.format('COMMENT ON %s IS %L', c.target, c.description)\n"
" FROM (\n"
"  SELECT rel.level, rel.relname AS name, pg_catalog.format('TABLE %s', rel.qualified) AS target, d.description\n"
"  FROM rel JOIN pg_catalog.pg_description d ON d.classoid = 'pg_class'::pg_catalog.regclass AND d.objoid = rel.oid AND d.objsubid = 0\n"
"  UNION ALL SELECT col.level, col.prefix || col.attname, pg_catalog.format('COLUMN %s.%I', col.qualified, col.attname), d.description\n"
"  FROM col JOIN pg_catalog.pg_description d ON d.classoid = 'pg_class'::pg_catalog.regclass AND d.objoid = col.attrelid AND d.objsubid = col.attnum\n"
"  UNION ALL SELECT con.level, con.prefix || con.conname, pg_catalog.format('CONSTRAINT %I ON %s', con.conname, con.qualified), d.description\n"
"  FROM con JOIN pg_catalog.pg_description d ON d.classoid = 'pg_constraint'::pg_catalog.regclass AND d.objoid = con.oid\n"
"  UNION ALL SELECT ind.level, ind.prefix || ind.relname, pg_catalog.format('INDEX %I.%I', ind.nspname, ind.relname), d.description\n"
"  FROM ind JOIN pg_catalog.pg_description d ON d.classoid = 'pg_class'::pg_catalog.regclass AND d.objoid = ind.indexrelid AND d.objsubid = 0\n"
"  UNION ALL SELECT trg.level, trg.prefix || trg.tgname, pg_catalog.format('TRIGGER %I ON %s', trg.tgname, trg.qualified), d.description\n"
"  FROM trg JOIN pg_catalog.pg_description d ON d.classoid = 'pg_trigger'::pg_catalog.regclass AND d.objoid = trg.oid\n"
"  UNION ALL SELECT stat.level, stat.prefix || stat.stxname, pg_catalog.format('STATISTICS %I.%I', stat.nspname, stat.stxname), d.description\n"
"  FROM stat JOIN pg_catalog.pg_description d ON d.classoid = 'pg_statistic_ext'::pg_catalog.regclass AND d.objoid = stat.oid) c\n"
" UNION ALL\n"
" SELECT 11, 1, rel.level, 'grant_owner', pg_catalog.pg_get_userbyid(rel.relowner), pg_catalog.format('GRANT ALL PRIVILEGES ON TABLE %s TO %I', rel.qualified,\n"
"  pg_catalog.pg_get_userbyid(rel.relowner))\n"
" FROM rel\n"
" UNION ALL\n"
" SELECT 11, 2, rel.level, CASE WHEN g.privilege_type = 'MAINTAIN' THEN 'grant_maintain' ELSE 'grant' END, CASE g.grantee WHEN 0 THEN '' ELSE pg_catalog.pg_get_userbyid(g.grantee) END,\n"
"  pg_catalog.format('GRANT %s ON TABLE %s TO %s%s',\n"
"   pg_catalog.string_agg(g.privilege_type || COALESCE(' (' || pg_catalog.quote_ident(g.attname) || ')', ''), ', ' ORDER BY g.privilege_type, g.attname),\n"
"   rel.qualified, CASE g.grantee WHEN 0 THEN 'PUBLIC' ELSE pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(g.grantee)) END,\n"
"   CASE WHEN g.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)\n"
" FROM granted g JOIN rel ON rel.oid = g.relid\n"
" GROUP BY rel.level, rel.qualified, g.grantee, g.is_grantable, g.privilege_type = 'MAINTAIN'\n"
" UNION ALL\n"
" SELECT 12, 1, rel.level, 'replica_identity', rel.relname, pg_catalog.format('ALTER TABLE ONLY %s REPLICA IDENTITY %s', rel.qualified,\n"
"  CASE rel.relreplident WHEN 'f' THEN 'FULL' WHEN 'n' THEN 'NOTHING'\n"
"   ELSE (SELECT pg_catalog.format('USING INDEX %I', ind.relname) FROM ind WHERE ind.indrelid = rel.oid AND ind.indisreplident) END)\n"
" FROM rel WHERE rel.relkind IN ('r', 'p') AND (rel.relreplident IN ('f', 'n')\n"
"  OR EXISTS (SELECT FROM ind WHERE ind.indrelid = rel.oid AND ind.indisreplident))\n"
" UNION ALL\n"
" SELECT 13, 1, rel.level, 'row_security', rel.relname, pg_catalog.format('ALTER TABLE ONLY %s %s ROW LEVEL SECURITY', rel.qualified, f.action)\n"
" FROM rel CROSS JOIN LATERAL (SELECT 'ENABLE' WHERE rel.relrowsecurity UNION ALL SELECT 'FORCE' WHERE rel.relforcerowsecurity) f(action)\n"
" UNION ALL\n"
" SELECT 13, 2, rel.level, 'policy', rel.prefix || p.polname, " POLICY_SQL("rel.qualified")
" FROM rel JOIN pg_catalog.pg_policy p ON p.polrelid = rel.oid\n"
" UNION ALL\n"
" SELECT 13, 3, rel.level, 'policy_role', rel.prefix || p.polname, r.rolname\n"
" FROM rel JOIN pg_catalog.pg_policy p ON p.polrelid = rel.oid JOIN pg_catalog.pg_roles r ON r.oid = ANY (p.polroles)\n"
")\n"
"SELECT item.phase, item.kind::text, item.name::text, item.ddl::text, item.level FROM item\n"
"ORDER BY item.phase, item.place, item.level, item.kind::text COLLATE \"C\", item.name::text COLLATE \"C\", item.ddl COLLATE \"C\"\n";

/* How a policy was made.  Parameters: table, name. */
const char	sl_definition_policy_sql[] =
"SELECT " POLICY_SQL("p.polrelid::pg_catalog.regclass::text")
" FROM pg_catalog.pg_policy p WHERE p.polrelid = $1 AND p.polname = $2";

/*
 * How a type was made, if there is one of that name; empty for one that cannot
 * be written down.  Parameter: name.
 */
const char	sl_definition_type_sql[] =
"SELECT COALESCE(t.ddl, '') FROM (\n"
TYPE_SQL
" FROM (SELECT p.*, 0 AS depth FROM pg_catalog.pg_type p WHERE p.oid = pg_catalog.to_regtype($1::text)) y) t";

/*
 * The objects that a table, its partitions and their parts refer to, the first level of
 * what they need.  Parameter: OID.
 */
const char	sl_definition_referenced_sql[] =
"WITH RECURSIVE tree(oid) AS (\n"
" SELECT $1::pg_catalog.oid\n"
" UNION ALL\n"
" SELECT i.inhrelid FROM tree t JOIN pg_catalog.pg_inherits i ON i.inhparent = t.oid\n"
"  JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid WHERE c.relispartition\n"
"), part(classid, objid) AS (\n"
" SELECT 'pg_class'::pg_catalog.regclass, tree.oid FROM tree\n"
" UNION ALL SELECT 'pg_class'::pg_catalog.regclass, i.indexrelid FROM tree JOIN pg_catalog.pg_index i ON i.indrelid = tree.oid\n"
" UNION ALL SELECT 'pg_attrdef'::pg_catalog.regclass, d.oid FROM tree JOIN pg_catalog.pg_attrdef d ON d.adrelid = tree.oid\n"
"  JOIN pg_catalog.pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum\n"
"  WHERE a.attgenerated <> '' OR pg_catalog.pg_get_expr(d.adbin, d.adrelid) !~ " MAKES_IDS_PATTERN "\n"
" UNION ALL SELECT 'pg_constraint'::pg_catalog.regclass, k.oid FROM tree JOIN pg_catalog.pg_constraint k ON k.conrelid = tree.oid\n"
" UNION ALL SELECT 'pg_trigger'::pg_catalog.regclass, t.oid FROM tree JOIN pg_catalog.pg_trigger t ON t.tgrelid = tree.oid WHERE NOT t.tgisinternal\n"
" UNION ALL SELECT 'pg_statistic_ext'::pg_catalog.regclass, s.oid FROM tree JOIN pg_catalog.pg_statistic_ext s ON s.stxrelid = tree.oid\n"
" UNION ALL SELECT 'pg_policy'::pg_catalog.regclass, p.oid FROM tree JOIN pg_catalog.pg_policy p ON p.polrelid = tree.oid)\n"
"SELECT DISTINCT e.refclassid, e.refobjid\n"
"FROM part JOIN pg_catalog.pg_depend e ON e.classid = part.classid AND e.objid = part.objid AND e.deptype IN ('n', 'i')\n"
"WHERE " NEEDED_SQL("e") "\n"
"ORDER BY 1, 2";

/*
 * The items of an object and of what it needs.
 * Parameters: catalog, OID.
 */
const char	sl_definition_needs_sql[] =
"WITH RECURSIVE root(classid, objid) AS (SELECT $1::pg_catalog.oid, $2::pg_catalog.oid), "
NEEDS_SQL
", item(phase, place, level, kind, name, ddl) AS (\n"
NEEDS_ITEMS_SQL
")\n"
"SELECT item.phase, item.kind::text, item.name::text, item.ddl::text, item.level FROM item\n"
"ORDER BY item.phase, item.place, item.level, item.kind::text COLLATE \"C\", item.name::text COLLATE \"C\", item.ddl COLLATE \"C\"\n";

/*
 * The parts of tables that need a function or type, on whatever way: the table, whether
 * the part is a trigger, and the command that drops the part, if there is one.
 * Parameters: catalog, OID.
 */
const char	sl_definition_dependent_sql[] =
"WITH RECURSIVE node(classid, objid) AS (\n"
" SELECT $1::pg_catalog.oid, $2::pg_catalog.oid\n"
" UNION\n"
" SELECT e.classid, e.objid FROM node n CROSS JOIN LATERAL (\n"
"  SELECT d.classid, d.objid FROM pg_catalog.pg_depend d\n"
"  WHERE d.refclassid = n.classid AND d.refobjid = n.objid AND d.deptype IN ('n', 'i')\n"
"   AND n.classid = ANY (ARRAY['pg_proc', 'pg_type']::pg_catalog.regclass[])\n"
"  UNION ALL SELECT 'pg_type'::pg_catalog.regclass, c.reltype FROM pg_catalog.pg_class c\n"
"  WHERE n.classid = 'pg_class'::pg_catalog.regclass AND c.oid = n.objid AND c.relkind = 'c'\n"
"  UNION ALL SELECT 'pg_type'::pg_catalog.regclass, k.contypid FROM pg_catalog.pg_constraint k\n"
"  WHERE n.classid = 'pg_constraint'::pg_catalog.regclass AND k.oid = n.objid AND k.contypid <> 0) e\n"
"), part(relid, is_trigger, ddl) AS (\n"
" SELECT c.oid, false, NULL FROM node n JOIN pg_catalog.pg_class c ON c.oid = n.objid\n"
" WHERE n.classid = 'pg_class'::pg_catalog.regclass AND c.relkind IN ('r', 'p', 'f')\n"
" UNION ALL\n"
" SELECT i.indrelid, false, CASE WHEN NOT c.relispartition THEN pg_catalog.format('DROP INDEX IF EXISTS %s', c.oid::pg_catalog.regclass) END\n"
" FROM node n JOIN pg_catalog.pg_index i ON i.indexrelid = n.objid JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid\n"
" WHERE n.classid = 'pg_class'::pg_catalog.regclass\n"
" UNION ALL\n"
" SELECT d.adrelid, false, CASE WHEN a.attgenerated = '' THEN pg_catalog.format('ALTER TABLE %s ALTER COLUMN %I DROP DEFAULT', d.adrelid::pg_catalog.regclass, a.attname) END\n"
" FROM node n JOIN pg_catalog.pg_attrdef d ON d.oid = n.objid JOIN pg_catalog.pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum\n"
" WHERE n.classid = 'pg_attrdef'::pg_catalog.regclass\n"
" UNION ALL\n"
" SELECT k.conrelid, false, CASE WHEN k.coninhcount = 0 THEN pg_catalog.format('ALTER TABLE %s DROP CONSTRAINT IF EXISTS %I', k.conrelid::pg_catalog.regclass, k.conname) END\n"
" FROM node n JOIN pg_catalog.pg_constraint k ON k.oid = n.objid WHERE n.classid = 'pg_constraint'::pg_catalog.regclass AND k.conrelid <> 0\n"
" UNION ALL\n"
" SELECT t.tgrelid, true, CASE WHEN t.tgparentid = 0 THEN pg_catalog.format('DROP TRIGGER IF EXISTS %I ON %s', t.tgname, t.tgrelid::pg_catalog.regclass) END\n"
" FROM node n JOIN pg_catalog.pg_trigger t ON t.oid = n.objid WHERE n.classid = 'pg_trigger'::pg_catalog.regclass\n"
" UNION ALL\n"
" SELECT p.polrelid, false, pg_catalog.format('DROP POLICY IF EXISTS %I ON %s', p.polname, p.polrelid::pg_catalog.regclass)\n"
" FROM node n JOIN pg_catalog.pg_policy p ON p.oid = n.objid WHERE n.classid = 'pg_policy'::pg_catalog.regclass\n"
" UNION ALL\n"
" SELECT s.stxrelid, false, pg_catalog.format('DROP STATISTICS IF EXISTS %s', i.identity)\n"
" FROM node n JOIN pg_catalog.pg_statistic_ext s ON s.oid = n.objid CROSS JOIN LATERAL pg_catalog.pg_identify_object(n.classid, n.objid, 0) i\n"
" WHERE n.classid = 'pg_statistic_ext'::pg_catalog.regclass\n"
")\n"
"SELECT part.relid, part.is_trigger, part.ddl FROM part";

/*
 * Does the database have an object that cannot be created here?  Parameters: identity,
 * type, both as pg_identify_object() has them.
 */
const char	sl_definition_required_sql[] =
"SELECT EXISTS (SELECT FROM (\n"
" SELECT 'pg_collation'::pg_catalog.regclass AS classid, oid FROM pg_catalog.pg_collation WHERE $2::text = 'collation'\n"
" UNION ALL SELECT 'pg_operator'::pg_catalog.regclass, oid FROM pg_catalog.pg_operator WHERE $2::text = 'operator'\n"
" UNION ALL SELECT 'pg_opclass'::pg_catalog.regclass, oid FROM pg_catalog.pg_opclass WHERE $2::text = 'operator class'\n"
" UNION ALL SELECT 'pg_ts_config'::pg_catalog.regclass, oid FROM pg_catalog.pg_ts_config WHERE $2::text = 'text search configuration'\n"
" UNION ALL SELECT 'pg_ts_dict'::pg_catalog.regclass, oid FROM pg_catalog.pg_ts_dict WHERE $2::text = 'text search dictionary'\n"
" UNION ALL SELECT 'pg_language'::pg_catalog.regclass, oid FROM pg_catalog.pg_language WHERE $2::text = 'language'\n"
" UNION ALL SELECT 'pg_am'::pg_catalog.regclass, oid FROM pg_catalog.pg_am WHERE $2::text = 'access method') o\n"
" CROSS JOIN LATERAL pg_catalog.pg_identify_object(o.classid, o.oid, 0) i WHERE i.identity = $1::text AND i.type = $2::text)";
