/*
 * referencing_rows.c
 *		Protects rows that reference a row which moves to another shard.
 *
 * Such a row is deleted on the old shard.  ON DELETE CASCADE would delete the
 * rows that reference it, SET NULL would detach them, although the user has
 * run an UPDATE.  They cannot move with it either, so the UPDATE is refused as
 * PostgreSQL refuses one without ON UPDATE.  Foreign keys without such an
 * action refuse the DELETE by themselves.
 *
 * Foreign keys are the shard's, and the router does not know them.  So the
 * shard is queried for the query that finds referencing rows, once in a
 * statement, which is then run for each row.  The row is locked at that point,
 * so no transaction can insert a new reference to it.
 */
#include "postgres.h"

#include "utils/builtins.h"
#include "utils/rel.h"

#include "access/foreign_modify.h"

typedef struct Referrers
{
	const SlShard *shard;
	char	   *sql;			/* finds one; NULL: there can be none */
} Referrers;

/*
 * A query that returns a query: the latter finds constraint, table and schema
 * of a row that references the one at $1.  A row may reference itself.
 */
static char *
write_referrer_query(Relation relation)
{
	StringInfoData name;

	initStringInfo(&name);
	sl_write_relation(&name, relation);
	return psprintf("SELECT pg_catalog.string_agg(pg_catalog.format("
					"'SELECT %%L, %%L, %%L FROM %%s p JOIN %%s r ON %%s WHERE p.ctid = $1::pg_catalog.tid AND p.tableoid = $2::pg_catalog.oid"
					" AND (r.ctid <> p.ctid OR r.tableoid <> p.tableoid)', f.conname, c.relname, s.nspname, f.confrelid::pg_catalog.regclass, "
					"f.conrelid::pg_catalog.regclass, (SELECT pg_catalog.string_agg(pg_catalog.format('p.%%I OPERATOR(%%I.%%s) r.%%I', "
					"a.attname, n.nspname, o.oprname, b.attname), ' AND ') FROM unnest(f.confkey, f.conkey, f.conpfeqop) AS k(referred, own, equal) "
					"JOIN pg_catalog.pg_attribute a ON a.attrelid = f.confrelid AND a.attnum = k.referred "
					"JOIN pg_catalog.pg_attribute b ON b.attrelid = f.conrelid AND b.attnum = k.own "
					"JOIN pg_catalog.pg_operator o ON o.oid = k.equal JOIN pg_catalog.pg_namespace n ON n.oid = o.oprnamespace)), "
					"' UNION ALL ') || ' LIMIT 1' "
					"FROM pg_catalog.pg_constraint f JOIN pg_catalog.pg_class c ON c.oid = f.conrelid JOIN pg_catalog.pg_namespace s ON s.oid = c.relnamespace "
					"WHERE f.contype = 'f' AND f.conparentid = 0 AND f.confdeltype NOT IN ('a', 'r') AND f.confrelid = %s::pg_catalog.regclass",
					quote_literal_cstr(name.data));
}

/*
 * Returns the first row of the result, or NULL; in the current memory context.
 */
static PGresult *
run_query(SlModify *modify, SlShard *shard, const char *sql, int count, const char *const *params)
{
	uint64		rows;
	PGresult   *result = sl_statement_pipeline_run(modify->pipe, shard, sql, count, params, false, &rows);

	modify->awaited += rows;
	return result != NULL ? sl_result_own(result) : NULL;
}

static const char *
find_sql(SlModify *modify, SlShard *shard)
{
	Referrers  *referrers;
	PGresult   *result;
	ListCell   *cell;
	MemoryContext old_context;

	foreach(cell, modify->referrers)
	{
		referrers = lfirst(cell);
		if (referrers->shard == shard)
			return referrers->sql;
	}
	result = run_query(modify, shard, write_referrer_query(modify->relation), 0, NULL);
	old_context = MemoryContextSwitchTo(modify->context);
	referrers = palloc0(sizeof(Referrers));
	referrers->shard = shard;
	if (result != NULL && sl_remote_value(result, 0, 0) != NULL)
		referrers->sql = pstrdup(sl_remote_value(result, 0, 0));
	modify->referrers = lappend(modify->referrers, referrers);
	MemoryContextSwitchTo(old_context);
	return referrers->sql;
}

/* The message is PostgreSQL's own. */
static void
refuse_move(const SlModify *modify, const char *constraint, const char *table, const char *schema)
{
	ereport(ERROR,
			errcode(ERRCODE_FOREIGN_KEY_VIOLATION),
			errmsg("update or delete on table \"%s\" violates foreign key constraint \"%s\" on table \"%s\"",
				   RelationGetRelationName(modify->relation), constraint, table),
			errdetail("The row goes to another shard, and rows of table \"%s\" that refer to it cannot follow.", table),
			errhint("Insert the row with its new key, update the rows that refer to it, and delete the old one."),
			err_generic_string(PG_DIAG_SCHEMA_NAME, schema),
			err_generic_string(PG_DIAG_TABLE_NAME, table),
			err_generic_string(PG_DIAG_CONSTRAINT_NAME, constraint));
}

/*
 * Raises an error if the shard's DELETE of the row would change rows that
 * reference it.
 */
void
sl_referrer_check(SlModify *modify, SlShard *shard, int count, const char *const *identity)
{
	MemoryContext old_context = MemoryContextSwitchTo(modify->work);
	const char *sql = find_sql(modify, shard);
	PGresult   *result = sql != NULL ? run_query(modify, shard, sql, count, identity) : NULL;

	if (result != NULL)
	{
		SlConn	   *conn = sl_statement_pipeline_conn(modify->pipe, shard);

		refuse_move(modify, sl_protocol_value(conn, result, 0, 0), sl_protocol_value(conn, result, 0, 1),
					sl_protocol_value(conn, result, 0, 2));
	}
	MemoryContextSwitchTo(old_context);
}
