/*
 * check_table.c
 *		What a table must not be, or have, to be distributed.
 *
 * All reasons are collected, so that the error names every one of them.  Most
 * are a query each, which returns what stands in the way, or nothing.
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/catalog.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "base/base.h"
#include "compat.h"
#include "ddl/definition.h"
#include "deparse/deparse.h"

/* One reason why a table cannot be distributed. */
typedef struct Reason
{
	const char *sql;			/* $1: the table, $2: names of its key
								 * columns, $3: unique keys may lack these */
	const char *detail;			/* what the query returned follows */
	const char *hint;
} Reason;

#define TREE_SQL \
	"WITH RECURSIVE tree(oid) AS (SELECT $1::oid UNION ALL" \
	" SELECT i.inhrelid FROM tree t JOIN pg_inherits i ON i.inhparent = t.oid) "

/* The names of the key columns of an index are $2, and which of these it has. */
#define LACKS_KEY_SQL \
	"(cardinality($2::text[]) = 0 OR NOT $2::text[] <@ ARRAY(SELECT a.attname::text" \
	" FROM unnest(i.indkey::int2[]) WITH ORDINALITY k(attnum, place)" \
	" JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum" \
	" WHERE k.place <= i.indnkeyatts))"

static const Reason reasons[] = {
	{"SELECT string_agg(i.inhparent::regclass::text, ', ') FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid"
		" WHERE i.inhrelid = $1 AND c.relispartition",
		"It is a partition of",
	"Distribute the partitioned table, its partitions go with it."},
	{"SELECT string_agg(i.inhparent::regclass::text, ', ') FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid"
		" WHERE i.inhrelid = $1 AND NOT c.relispartition",
		"It inherits from",
	"ALTER TABLE ... NO INHERIT ends that."},
	{"SELECT string_agg(i.inhrelid::regclass::text, ', ' ORDER BY i.inhrelid) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid"
		" WHERE i.inhparent = $1 AND NOT c.relispartition",
		"Tables inherit from it:",
	"ALTER TABLE ... NO INHERIT ends that; declare partitions instead."},
	{TREE_SQL "SELECT string_agg(c.oid::regclass::text, ', ' ORDER BY c.oid) FROM tree t JOIN pg_class c ON c.oid = t.oid"
		" WHERE c.oid <> $1 AND c.relkind NOT IN ('r', 'p')",
		"Partitions are foreign tables:",
	"Detach these partitions."},
	{TREE_SQL "SELECT string_agg(c.oid::regclass::text, ', ' ORDER BY c.oid) FROM tree t JOIN pg_class c ON c.oid = t.oid"
		" WHERE c.relpersistence = 'u'",
		"It is unlogged:",
	"ALTER TABLE ... SET LOGGED makes it a permanent table."},
	{TREE_SQL "SELECT string_agg(c.oid::regclass::text, ', ' ORDER BY c.oid) FROM tree t JOIN pg_class c ON c.oid = t.oid"
		" WHERE c.relpersistence = 't'",
		"It is temporary:",
	"Create it as a permanent table."},
	{"SELECT reloftype::regtype::text FROM pg_class WHERE oid = $1 AND reloftype <> 0",
		"It is a table of type",
	"ALTER TABLE ... NOT OF ends that."},
	{"SELECT e.extname::text FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid"
		" WHERE d.classid = 'pg_class'::regclass AND d.objid = $1 AND d.deptype = 'e' AND d.refclassid = 'pg_extension'::regclass",
		"It belongs to extension",
	NULL},
	{TREE_SQL "SELECT string_agg(r.rulename, ', ' ORDER BY r.rulename) FROM tree t JOIN pg_rewrite r ON r.ev_class = t.oid",
		"It has rules:",
	"Drop the rules, or make them triggers."},
	{TREE_SQL "SELECT string_agg(g.tgname, ', ' ORDER BY g.tgname) FROM tree t JOIN pg_trigger g ON g.tgrelid = t.oid"
		" WHERE g.tgconstraint <> 0 AND NOT g.tgisinternal AND g.tgparentid = 0",
		"It has constraint triggers:",
	"Make them plain triggers."},
	{TREE_SQL "SELECT string_agg(g.tgname, ', ' ORDER BY g.tgname) FROM tree t JOIN pg_trigger g ON g.tgrelid = t.oid"
		" WHERE (g.tgoldtable IS NOT NULL OR g.tgnewtable IS NOT NULL) AND NOT g.tgisinternal AND g.tgparentid = 0",
		"It has triggers with transition tables:",
	"No shard sees all rows of a statement. Make them triggers for each row."},
	{TREE_SQL "SELECT string_agg(p.pubname, ', ' ORDER BY p.pubname) FROM tree t JOIN pg_publication_rel r ON r.prrelid = t.oid"
		" JOIN pg_publication p ON p.oid = r.prpubid",
		"It is part of publications:",
	"ALTER PUBLICATION ... DROP TABLE; publications are a matter of the shards then."},
	{TREE_SQL "SELECT string_agg(r.srrelid::regclass::text, ', ') FROM tree t JOIN pg_subscription_rel r ON r.srrelid = t.oid",
		"Subscriptions write to it:",
	"ALTER SUBSCRIPTION ... REFRESH PUBLICATION after the table was taken out of the publication."},
	{TREE_SQL "SELECT string_agg(i.indexrelid::regclass::text, ', ' ORDER BY i.indexrelid) FROM tree t JOIN pg_index i ON i.indrelid = t.oid"
		" WHERE i.indisunique AND NOT $3 AND $2 IS NOT NULL AND NOT EXISTS (SELECT FROM pg_inherits h WHERE h.inhrelid = i.indexrelid)"
		" AND " LACKS_KEY_SQL,
		"Unique indexes or constraints do not contain the key:",
		"No shard can tell whether a value is unique over all of them. Add the key columns to these, or drop them."
	" If their values are unique over all shards, as those of identity columns, shardlet.next_id() and uuids are, local_unique => true keeps them."},
	{TREE_SQL "SELECT string_agg(k.conname, ', ' ORDER BY k.conname) FROM tree t JOIN pg_constraint k ON k.conrelid = t.oid AND k.conexclop IS NOT NULL"
		" JOIN pg_index i ON i.indexrelid = k.conindid"
		" WHERE k.conparentid = 0 AND $2 IS NOT NULL AND (" LACKS_KEY_SQL
		" OR EXISTS (SELECT FROM unnest(k.conkey, k.conexclop) c(attnum, operator) JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = c.attnum"
		" JOIN pg_operator o ON o.oid = c.operator WHERE a.attname = ANY ($2) AND NOT o.oprcanmerge AND NOT o.oprcanhash))",
		"Exclusion constraints, or keys without overlaps, do not have the key with an equality operator:",
	"Add the key columns WITH = to these, or drop them."},
};

static void
add_line(StringInfo lines, const char *line)
{
	if (lines->len > 0)
		appendStringInfoChar(lines, '\n');
	appendStringInfoString(lines, line);
}

/* The names of the key columns as text[]; NULL for what is not sharded. */
static Datum
key_names(const SlTable *table)
{
	Datum		names[SL_MAX_KEYS];

	for (int i = 0; i < table->key_count; i++)
		names[i] = CStringGetTextDatum(get_attname(table->relid, table->key[i], false));
	return PointerGetDatum(construct_array(names, table->key_count, TEXTOID, -1, false, TYPALIGN_INT));
}

/* Runs the queries, and writes down what they say. */
static void
find_reasons(const SlTable *target, StringInfo details, StringInfo hints)
{
	Oid			types[] = {OIDOID, TEXTARRAYOID, BOOLOID};
	Datum		params[] = {ObjectIdGetDatum(target->relid), (Datum) 0, BoolGetDatum(target->is_local_unique)};
	char		nulls[] = {' ', target->kind == SL_TABLE_SHARDED ? ' ' : 'n', ' ', '\0'};
	int			level = sl_definition_begin_output();

	if (target->kind == SL_TABLE_SHARDED)
		params[1] = key_names(target);
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "could not connect to SPI");
	for (int i = 0; i < (int) lengthof(reasons); i++)
	{
		char	   *names;

		if (SPI_execute_with_args(reasons[i].sql, lengthof(types), types, params, nulls, false, 0) != SPI_OK_SELECT)
			elog(ERROR, "could not check the table");
		if (SPI_processed == 0)
			continue;
		names = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);
		if (names == NULL)
			continue;
		add_line(details, psprintf("%s %s.", reasons[i].detail, names));
		if (reasons[i].hint != NULL)
			add_line(hints, reasons[i].hint);
	}
	SPI_finish();
	AtEOXact_GUC(true, level);
}

/* Refuses what is no table of the user's at all. */
static void
check_kind(Relation relation)
{
	const char *name = RelationGetRelationName(relation);

	if (sl_table_is_remote(RelationGetRelid(relation), relation->rd_rel->relkind))
		ereport(ERROR,
				errcode(SL_ERR_EXISTS),
				errmsg("table \"%s\" is already distributed", name),
				errhint("shardlet.undistribute() makes it a plain table again."));
	if (relation->rd_rel->relkind != RELKIND_RELATION &&
		relation->rd_rel->relkind != RELKIND_PARTITIONED_TABLE)
		ereport(ERROR,
				errcode(ERRCODE_WRONG_OBJECT_TYPE),
				errmsg("\"%s\" is not a table", name),
				errdetail_relkind_not_supported(relation->rd_rel->relkind));
	if (IsCatalogRelation(relation) || IsToastRelation(relation) ||
		RelationGetRelid(relation) < FirstNormalObjectId)
		ereport(ERROR,
				errcode(ERRCODE_WRONG_OBJECT_TYPE),
				errmsg("\"%s\" is a system table", name));
	if (sl_table_get(RelationGetRelid(relation)) != NULL)
		ereport(ERROR,
				errcode(SL_ERR_EXISTS),
				errmsg("table \"%s\" is a reference table", name),
				errhint("shardlet.undistribute() makes it a plain table again."));
}

/* Locks a table for the rest of the transaction; it must be the user's. */
void
sl_table_check_own(Oid relid)
{
	if (OidIsValid(relid) && get_rel_name(relid) != NULL && !sl_relation_ownercheck(relid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, get_relkind_objtype(get_rel_relkind(relid)),
					   get_rel_name(relid));
	relation_close(relation_open(relid, AccessExclusiveLock), NoLock);
}

/* Refuses a table that cannot be distributed.  The target says what it would become. */
void
sl_table_check_plain(const SlTable *target)
{
	StringInfoData details;
	StringInfoData hints;

	sl_privilege_check_table(target->relid);
	initStringInfo(&details);
	initStringInfo(&hints);
	find_reasons(target, &details, &hints);
	if (details.len > 0)
		ereport(ERROR,
				errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				errmsg("cannot distribute table \"%s\"", get_rel_name(target->relid)),
				errdetail_internal("%s", details.data),
				hints.len > 0 ? errhint("%s", hints.data) : 0);
}

/* Refuses anything but a plain table, before the other checks. */
void
sl_table_check_kind(Oid relid)
{
	Relation	relation = relation_open(relid, NoLock);

	check_kind(relation);
	relation_close(relation, NoLock);
}
