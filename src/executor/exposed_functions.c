/*
 * exposed_functions.c
 *		Asks a shard which functions a table would have run as a superuser.
 *
 * Rows that a shard writes for the router run the expressions of the table's indexes,
 * checks, generated columns and domains.  Where that cannot be done as the table's owner,
 * because the shard has no extension, or changes are applied by a subscription of
 * PostgreSQL 15, no function may be among them that has another owner than a
 * superuser, nor one of PostgreSQL's own that does more than compute a value.
 *
 * The query works on every server, with the extension or without.  $1 is the
 * table, $2 the columns that the router knows: of others defaults are computed, too.  It
 * returns the name of a function and of what calls it, or no row.  The connection's
 * search_path must be pg_catalog.
 */
#include "postgres.h"

#include "executor/exposed_functions.h"

const char	sl_exposed_sql[] =
"WITH RECURSIVE rel(oid) AS ("
" SELECT relid::oid FROM pg_partition_tree(to_regclass($1))"
" UNION SELECT to_regclass($1)::oid"
"), typ(oid) AS ("
" SELECT a.atttypid FROM pg_attribute a JOIN rel ON rel.oid = a.attrelid WHERE a.attnum > 0 AND NOT a.attisdropped"
" UNION"
" SELECT x.oid FROM typ JOIN pg_type y ON y.oid = typ.oid CROSS JOIN LATERAL ("
"  SELECT y.typbasetype AS oid UNION ALL SELECT y.typelem"
"  UNION ALL SELECT a.atttypid FROM pg_attribute a WHERE a.attrelid = y.typrelid AND a.attnum > 0 AND NOT a.attisdropped"
"  UNION ALL SELECT r.rngsubtype FROM pg_range r WHERE y.oid IN (r.rngtypid, r.rngmultitypid)) x WHERE x.oid <> 0"
"), tree(what, expression) AS ("
" SELECT format('constraint %I', c.conname), c.conbin::text FROM pg_constraint c"
"  WHERE c.conbin IS NOT NULL AND (c.conrelid IN (SELECT oid FROM rel) OR c.contypid IN (SELECT oid FROM typ))"
" UNION ALL SELECT format('column %I', a.attname), d.adbin::text FROM pg_attrdef d"
"  JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum JOIN rel ON rel.oid = d.adrelid"
"  WHERE a.attgenerated <> '' OR a.attname::text <> ALL (" SL_EXPOSED_COLUMNS ")"
" UNION ALL SELECT format('index %s', i.indexrelid::regclass), concat(i.indexprs::text, i.indpred::text) FROM pg_index i"
"  JOIN rel ON rel.oid = i.indrelid"
" UNION ALL SELECT format('partitioned table %s', p.partrelid::regclass), p.partexprs::text FROM pg_partitioned_table p"
"  JOIN rel ON rel.oid = p.partrelid"
") SELECT f.oid::regprocedure, tree.what FROM tree"
" CROSS JOIN LATERAL regexp_matches(tree.expression, ':(?:funcid|opfuncid) ([0-9]+)', 'g') m"
" JOIN pg_proc f ON f.oid = m[1]::oid JOIN pg_roles o ON o.oid = f.proowner"
" WHERE NOT o.rolsuper OR f.provolatile = 'v' ORDER BY 2, 1 LIMIT 1";
