/*
 * referrer.c
 *		Keeps rows that refer to one which goes to another shard.
 *
 * Such a row is deleted where it was.  For a foreign key that is the end of it,
 * and ON DELETE CASCADE would take the rows along that refer to it, SET NULL
 * would cut them off; the user has asked for an UPDATE.  They cannot follow either,
 * so that is refused as PostgreSQL refuses it without ON UPDATE.  Foreign keys
 * without such an action refuse the DELETE by themselves.
 *
 * Foreign keys are the shard's, and the router does not know them.  So the shard
 * is asked for the question, once in a statement, and then for each row.  The row
 * is locked by now, and nobody can begin to refer to it.
 */
#include "postgres.h"

#include "utils/builtins.h"
#include "utils/rel.h"

#include "fdw/modify.h"

typedef struct Referrers
{
	const SlShard *shard;
	char	   *sql;			/* finds one; NULL: there can be none */
} Referrers;

/*
 * The statement that writes a statement: constraint, table and schema of a row that
 * refers to the one at $1.  A row may refer to itself.
 */
static char *
write_question(Relation relation)
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

/* Returns the first row of the answer, or NULL; it ends with the current context. */
static PGresult *
ask(SlModify *modify, SlShard *shard, const char *sql, int count, const char *const *params)
{
	uint64		rows;
	PGresult   *result = sl_pipe_ask(modify->pipe, shard, sql, count, params, false, &rows);

	modify->asked += rows;
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
	result = ask(modify, shard, write_question(modify->relation), 0, NULL);
	old_context = MemoryContextSwitchTo(modify->context);
	referrers = palloc0(sizeof(Referrers));
	referrers->shard = shard;
	if (result != NULL && !PQgetisnull(result, 0, 0))
		referrers->sql = pstrdup(PQgetvalue(result, 0, 0));
	modify->referrers = lappend(modify->referrers, referrers);
	MemoryContextSwitchTo(old_context);
	return referrers->sql;
}

/* As PostgreSQL says it of what it refuses. */
static void
fail(const SlModify *modify, const char *constraint, const char *table, const char *schema)
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

/* Fails if the shard's DELETE of the row would change rows that refer to it. */
void
sl_referrer_check(SlModify *modify, SlShard *shard, int count, const char *const *identity)
{
	MemoryContext old_context = MemoryContextSwitchTo(modify->work);
	const char *sql = find_sql(modify, shard);
	PGresult   *result = sql != NULL ? ask(modify, shard, sql, count, identity) : NULL;

	if (result != NULL)
		fail(modify, PQgetvalue(result, 0, 0), PQgetvalue(result, 0, 1), PQgetvalue(result, 0, 2));
	MemoryContextSwitchTo(old_context);
}
