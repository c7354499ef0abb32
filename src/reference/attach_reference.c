/*
 * attach_reference.c Makes a table that all shards have a reference table.
 *
 * Its definitions are compared, and its rows: their number, and the sum of the hashes
 * of their texts, which does not depend on their order.  The shards' tables are
 * locked against writers meanwhile, and nothing in them is changed.  If the router
 * has the table it must be the same; if not, it is created and filled from one of the
 * shards.  Triggers of the shards' tables stay there.
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "base/base.h"
#include "reference/reference.h"

/* What the shards have. */
typedef struct Adoption
{
	const char *schema;
	const char *name;
	char	   *table;			/* qualified and quoted */
	SlReply    *replies;
	int			count;
	SlDefinition **definitions;
} Adoption;

/* Definitions ------------------------------------------------------------------- */

static void
read_definitions(Adoption *adoption)
{
	SlShard   **shards = palloc0(sizeof(SlShard *) * adoption->count);
	StringInfoData missing;

	initStringInfo(&missing);
	adoption->definitions = palloc0(sizeof(SlDefinition *) * adoption->count);
	for (int i = 0; i < adoption->count; i++)
	{
		shards[i] = adoption->replies[i].shard;
		adoption->definitions[i] = sl_definition_read_remote(adoption->replies[i].conn,
															 adoption->schema, adoption->name);
		if (adoption->definitions[i] == NULL)
			appendStringInfo(&missing, "%s\"%s\"", missing.len > 0 ? ", " : "",
							 NameStr(shards[i]->name));
	}
	if (missing.len > 0)
		ereport(ERROR,
				errcode(ERRCODE_UNDEFINED_TABLE),
				errmsg("table %s does not exist on all shards", adoption->table),
				errdetail("It is missing on %s.", missing.data),
				errhint("Every shard must have a reference table. To give them one of the router's, use shardlet.make_reference()."));
	sl_definition_compare(adoption->definitions, shards, adoption->count);
}

/* What must be the same here as on the shards. */
static bool
is_compared(const SlDefinitionItem *item)
{
	static const char *const kinds[] = {"column", "primary_key", "unique", "exclusion", "check"};

	for (int i = 0; i < (int) lengthof(kinds); i++)
	{
		if (strcmp(item->kind, kinds[i]) == 0)
			return true;
	}
	return false;
}

/* Adds what the one has, and the other has not in the same form. */
static void
add_differences(StringInfo lines, const SlDefinition *one, const char *one_place,
				const SlDefinition *other, const char *other_place)
{
	ListCell   *cell;

	foreach(cell, one->items)
	{
		const SlDefinitionItem *item = lfirst(cell);
		const SlDefinitionItem *found = sl_definition_find(other, item->kind, item->name);

		if (!is_compared(item) ||
			(found != NULL && item->ddl != NULL && found->ddl != NULL && strcmp(item->ddl, found->ddl) == 0))
			continue;
		appendStringInfo(lines, "%s%s %s: \"%s\" %s, \"%s\" %s", lines->len > 0 ? "\n" : "",
						 strcmp(item->kind, "primary_key") == 0 ? "primary key" : item->kind,
						 item->name, item->ddl, one_place,
						 found != NULL ? found->ddl : "nothing", other_place);
	}
}

static void
compare_on_router(const Adoption *adoption, Oid relid)
{
	SlDefinition *on_router = sl_definition_read_local(relid);
	StringInfoData lines;

	initStringInfo(&lines);
	add_differences(&lines, on_router, "here", adoption->definitions[0], "on the shards");
	if (lines.len == 0)
		add_differences(&lines, adoption->definitions[0], "on the shards", on_router, "here");
	if (lines.len > 0)
		ereport(ERROR,
				errcode(SL_ERR_DIFFERENT),
				errmsg("table %s differs on the shards", adoption->table),
				errdetail_internal("%s", lines.data),
				errhint("Change the tables until they agree; or drop the one here, and it is made as the shards have it."));
}

/* Rows --------------------------------------------------------------------------- */

static char *
rows_sql(const SlRefColumns *columns)
{
	StringInfoData sql;
	const char *separator = "";

	initStringInfo(&sql);
	appendStringInfoString(&sql, "SELECT pg_catalog.count(*) || ' ' || coalesce(pg_catalog.sum(pg_catalog.hashtextextended(ROW(");
	for (int i = 0; i < columns->column_count; i++)
	{
		if (columns->columns[i].is_generated)
			continue;
		appendStringInfo(&sql, "%st.%s", separator, columns->columns[i].name);
		separator = ", ";
	}
	appendStringInfo(&sql, ")::pg_catalog.text, 0)), 0) FROM ONLY %s AS t", columns->name);
	return sql.data;
}

static char *
rows_on_router(const char *sql)
{
	MemoryContext context = CurrentMemoryContext;
	char	   *result;

	if (SPI_connect() != SPI_OK_CONNECT || SPI_execute(sql, false, 1) != SPI_OK_SELECT)
		elog(ERROR, "could not read the reference table");
	result = MemoryContextStrdup(context, SPI_getvalue(SPI_tuptable->vals[0],
													   SPI_tuptable->tupdesc, 1));
	SPI_finish();
	return result;
}

/* The number of rows is the first word. */
static char *
row_count(const char *answer)
{
	return pnstrdup(answer, strcspn(answer, " "));
}

static void
compare_rows(const Adoption *adoption, const SlRefColumns *columns)
{
	char	   *sql = rows_sql(columns);
	int			level = sl_definition_begin_output();
	char	   *on_router = rows_on_router(sql);
	bool		is_same = true;
	StringInfoData lines;

	sl_command_everywhere(adoption->replies, adoption->count, sql, 0, NULL, false);
	AtEOXact_GUC(true, level);
	initStringInfo(&lines);
	appendStringInfo(&lines, "Rows here: %s", row_count(on_router));
	for (int i = 0; i < adoption->count; i++)
	{
		const SlReply *reply = &adoption->replies[i];
		bool		agrees;

		if (reply->value == NULL)
			sl_protocol_refuse_null(reply->conn);
		agrees = strcmp(reply->value, on_router) == 0;
		is_same = is_same && agrees;
		appendStringInfo(&lines, "; on shard \"%s\": %s%s", NameStr(reply->shard->name),
						 row_count(reply->value), agrees ? "" : ", which differ");
	}
	if (!is_same)
		ereport(ERROR,
				errcode(SL_ERR_DIFFERENT),
				errmsg("rows of table %s differ", adoption->table),
				errdetail_internal("%s.", lines.data),
				errhint("Change the rows until they agree. With verify => false the table is attached as it is."));
}

/* Writers wait until the shards' tables are locked. */
static void
lock_copies(const Adoption *adoption)
{
	sl_command_everywhere(adoption->replies, adoption->count,
						  psprintf("LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE", adoption->table),
						  0, NULL, true);
}

/* The router's table -------------------------------------------------------------- */

/* Runs the commands of some phases here; foreign keys are another matter. */
static void
run_phases(const SlDefinition *definition, SlPhase first, SlPhase last)
{
	ListCell   *cell;

	foreach(cell, definition->items)
	{
		const SlDefinitionItem *item = lfirst(cell);

		if (item->phase >= first && item->phase <= last && item->ddl != NULL &&
			strcmp(item->kind, "partition") != 0 && strcmp(item->kind, "owner") != 0)
			sl_received_run(item->ddl, definition->schema, definition->name);
	}
	CommandCounterIncrement();
}

static void
make_foreign_keys(const Adoption *adoption, Oid relid)
{
	ListCell   *cell;

	foreach(cell, sl_foreign_key_list_remote(adoption->replies[0].conn, adoption->schema,
											 adoption->name))
	{
		SlForeignKey *key = lfirst(cell);

		if (key->relid != relid)
			continue;
		if (key->referenced == relid || (OidIsValid(key->referenced) && sl_reference_is(key->referenced)))
			sl_received_run(sl_foreign_key_add_sql(key), adoption->schema, adoption->name);
		else
			ereport(NOTICE,
					errmsg("foreign key \"%s\" of table %s is left to the shards", key->name,
						   adoption->table),
					errdetail("The table that it refers to is no reference table here."));
	}
}

/* Makes the table here, as the shards have it, and fills it from the first one. */
static Oid
make_on_router(const Adoption *adoption)
{
	const SlDefinition *definition = adoption->definitions[0];
	Oid			relid;

	sl_definition_make_types_on_router(definition);
	run_phases(definition, SL_PHASE_TABLE, SL_PHASE_TABLE);
	relid = get_relname_relid(adoption->name, get_namespace_oid(adoption->schema, false));
	LockRelationOid(relid, AccessExclusiveLock);
	sl_table_fetch_rows(relid, list_make1(adoption->replies[0].shard));
	run_phases(definition, SL_PHASE_KEYS, SL_PHASE_STATISTICS);
	make_foreign_keys(adoption, relid);
	return relid;
}

/*
 * Makes a table that all shards have a reference table.  Returns the router's
 * one.  A table that is one already is only compared.
 */
Oid
sl_reference_attach(const char *schema, const char *name, bool verify)
{
	Oid			namespace = get_namespace_oid(schema, true);
	Oid			relid = OidIsValid(namespace) ? get_relname_relid(name, namespace) : InvalidOid;
	bool		is_attached = OidIsValid(relid) && sl_reference_is(relid);
	Adoption	adoption = {.schema = schema,.name = name};
	Relation	relation;

	if (is_attached && !sl_relation_ownercheck(relid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE, name);
	sl_reference_lock_shards();
	adoption.table = quote_qualified_identifier(schema, name);
	adoption.replies = sl_command_begin(sl_shard_all(), false, &adoption.count);
	if (adoption.count == 0)
		ereport(ERROR,
				errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				errmsg("there is no shard yet"),
				errhint("SELECT shardlet.add_shard('s1', ...);"));
	read_definitions(&adoption);
	lock_copies(&adoption);
	if (OidIsValid(relid))
		compare_on_router(&adoption, relid);
	else
		relid = make_on_router(&adoption);
	relation = is_attached ? relation_open(relid, ShareRowExclusiveLock) :
		sl_reference_open_table(relid);
	if (verify)
		compare_rows(&adoption, sl_reference_columns(relation));
	sl_guard_trigger_create_reference(sl_shard_all(), schema, name);
	if (!is_attached)
		sl_reference_add_triggers(relid, true);
	relation_close(relation, NoLock);
	return relid;
}
