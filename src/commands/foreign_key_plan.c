/*
 * foreign_key_plan.c
 *		What becomes of foreign keys when tables are distributed.
 *
 * Each foreign key of the tables must be one that shards can check, or the user
 * must have said that it may go.  Where other tables would have to come along, all
 * of them are looked for, over any number of foreign keys: one message names the
 * call that takes them together, or whatever no call could keep.
 *
 * The locks on the tables are the caller's.  A foreign key belongs to both of its
 * tables, so none can come or go meanwhile.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/relation.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/partition.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/relcache.h"

#include "access/foreign_modify.h"
#include "base/base.h"
#include "commands/commands.h"

/* A table that is to be distributed, or would have to be. */
typedef struct Candidate
{
	Oid			relid;
	List	   *key;			/* names of its key columns */
	SlArrival  *arrival;		/* NULL: the user has not named it */
} Candidate;

typedef enum Verdict
{
	VERDICT_KEPT,				/* shards check it */
	VERDICT_MISSING,			/* they would, if the other table came along */
	VERDICT_REFERENCE,			/* if that were a reference table */
	VERDICT_BROKEN				/* they cannot */
} Verdict;

typedef struct Search
{
	const SlTable *sample;		/* kind, map and shard of those given */
	List	   *candidates;
	bool		drops;			/* what cannot be kept goes */
	bool		is_new;			/* those given do not exist without this call */
	List	   *seen;			/* OIDs of foreign keys */
	List	   *references;		/* OIDs of tables that could be reference
								 * tables */
	List	   *missing;		/* foreign keys that need other tables */
	List	   *broken;			/* foreign keys that cannot hold */
} Search;

static char *
qualified_name(Oid relid)
{
	return quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)),
									  get_rel_name(relid));
}

/* A partition goes where its table goes. */
Oid
sl_foreign_key_root(Oid relid)
{
	return get_rel_relispartition(relid) ? llast_oid(get_partition_ancestors(relid)) : relid;
}

static Candidate *
find_candidate(const Search *search, Oid relid)
{
	ListCell   *cell;

	foreach(cell, search->candidates)
	{
		Candidate  *candidate = lfirst(cell);

		if (candidate->relid == relid)
			return candidate;
	}
	return NULL;
}

static void
add_candidate(Search *search, Oid relid, List *key, SlArrival *arrival)
{
	Candidate  *candidate = palloc0(sizeof(Candidate));

	candidate->relid = relid;
	candidate->key = key;
	candidate->arrival = arrival;
	search->candidates = lappend(search->candidates, candidate);
}

/* Judging --------------------------------------------------------------------- */

/* Both tables are, or would be, distributed by this call. */
static Verdict
judge_both(const Search *search, const SlForeignKey *key, const Candidate *from, const Candidate *to)
{
	return search->sample->kind == SL_TABLE_PLACED ||
		sl_foreign_key_follows(key, from->key, to->key) ||
		sl_foreign_key_is_local(key->referenced_columns, search->sample->is_local_unique, to->key) ?
		VERDICT_KEPT : VERDICT_BROKEN;
}

/* The table that it refers to is distributed already. */
static Verdict
judge_referenced(const Search *search, const SlForeignKey *key, const Candidate *from, const SlTable *to)
{
	const SlTable *sample = search->sample;

	if (to->kind == SL_TABLE_REFERENCE)
		return VERDICT_KEPT;
	if (sample->kind != to->kind)
		return VERDICT_BROKEN;
	if (sample->kind == SL_TABLE_PLACED)
		return sample->shard_id == to->shard_id ? VERDICT_KEPT : VERDICT_BROKEN;
	return strcmp(sample->map, to->map) == 0 &&
		(sl_foreign_key_follows(key, from->key, sl_foreign_key_columns_of(to)) ||
		 sl_foreign_key_is_local(key->referenced_columns, to->is_local_unique, sl_foreign_key_columns_of(to))) ?
		VERDICT_KEPT : VERDICT_BROKEN;
}

/* Does the index contain all the columns? */
static bool
index_contains(const Relation index, List *columns)
{
	ListCell   *cell;

	foreach(cell, columns)
	{
		AttrNumber	column = get_attnum(index->rd_index->indrelid, lfirst(cell));
		bool		is_found = false;

		for (int i = 0; i < index->rd_index->indnkeyatts; i++)
			is_found = is_found || index->rd_index->indkey.values[i] == column;
		if (!is_found)
			return false;
	}
	return true;
}

/* Could the table have this key?  All that is unique in it must contain the key. */
static bool
can_have_key(Oid relid, List *columns)
{
	Relation	relation = relation_open(relid, AccessShareLock);
	bool		result = true;
	ListCell   *cell;

	foreach(cell, RelationGetIndexList(relation))
	{
		Relation	index = index_open(lfirst_oid(cell), AccessShareLock);

		result = result && (!index->rd_index->indisunique || index_contains(index, columns));
		index_close(index, NoLock);
	}
	relation_close(relation, NoLock);
	return result;
}

static bool
has_columns(Oid relid, List *columns)
{
	ListCell   *cell;

	foreach(cell, columns)
	{
		if (get_attnum(relid, lfirst(cell)) == InvalidAttrNumber)
			return false;
	}
	return true;
}

/*
 * Returns the key that keeps the rows of the other table together with those of the
 * candidate; NIL if there is none.  With local_unique, what is unique need not contain
 * it, and a foreign key without it holds if both tables have its columns.
 */
static List *
find_common_key(const Search *search, const SlForeignKey *key, const Candidate *candidate, Oid other,
				bool is_referenced)
{
	List	   *columns = sl_foreign_key_follow(key, candidate->key, is_referenced);

	if (!search->sample->is_local_unique)
		return columns != NIL && can_have_key(other, columns) ? columns : NIL;
	return columns != NIL || !has_columns(other, candidate->key) ? columns : candidate->key;
}

/*
 * The other table is on the router only.  By its foreign key it gets a key that
 * keeps the rows together; if there is none it can only be a reference table, and
 * what refers to this one cannot be that.
 */
static Verdict
judge_missing(Search *search, const SlForeignKey *key, const Candidate *candidate, Oid other, bool is_referenced)
{
	List	   *columns = find_common_key(search, key, candidate, other, is_referenced);

	if (columns == NIL && search->sample->kind == SL_TABLE_SHARDED)
	{
		if (!is_referenced)
			return VERDICT_BROKEN;
		search->references = list_append_unique_oid(search->references, other);
		return VERDICT_REFERENCE;
	}
	if (!search->drops && search->sample->kind == SL_TABLE_SHARDED)
		add_candidate(search, other, columns, NULL);
	return VERDICT_MISSING;
}

static Verdict
judge_foreign_key(Search *search, const SlForeignKey *key)
{
	Oid			from = sl_foreign_key_root(key->relid);
	Oid			to = sl_foreign_key_root(key->referenced);
	const Candidate *from_candidate = find_candidate(search, from);
	const Candidate *to_candidate = find_candidate(search, to);

	if (from_candidate != NULL && to_candidate != NULL)
		return judge_both(search, key, from_candidate, to_candidate);
	if (from_candidate != NULL)
	{
		const SlTable *table = sl_table_get(to);

		return table != NULL ? judge_referenced(search, key, from_candidate, table) :
			judge_missing(search, key, from_candidate, to, true);
	}
	if (sl_table_get(from) != NULL)
		return VERDICT_BROKEN;
	return sl_router_key_keep(key->constraint) ? VERDICT_KEPT :
		judge_missing(search, key, to_candidate, from, false);
}

/* Judges all foreign keys, also of tables that turn out to be missing. */
static void
search_keys(Search *search)
{
	for (int i = 0; i < list_length(search->candidates); i++)
	{
		const Candidate *candidate = list_nth(search->candidates, i);
		ListCell   *cell;

		foreach(cell, sl_foreign_key_list(candidate->relid))
		{
			SlForeignKey *key = lfirst(cell);
			Verdict		verdict;

			if (list_member_oid(search->seen, key->constraint))
				continue;
			search->seen = lappend_oid(search->seen, key->constraint);
			verdict = judge_foreign_key(search, key);
			if (verdict == VERDICT_BROKEN)
				search->broken = lappend(search->broken, key);
			else if (verdict != VERDICT_KEPT)
				search->missing = lappend(search->missing, key);
		}
	}
}

/* Refusing -------------------------------------------------------------------- */

static void
add_line(StringInfo lines, const char *line)
{
	appendStringInfo(lines, "%s%s", lines->len > 0 ? "\n" : "", line);
}

/* Can the user have them dropped by the call itself? */
static const char *
drop_hint(const Search *search)
{
	return search->sample->kind == SL_TABLE_PLACED || search->is_new ? "" :
		" To do without: drop_foreign_keys => true.";
}

pg_noreturn static void
refuse_broken(const Search *search)
{
	const SlForeignKey *first = linitial(search->broken);
	StringInfoData details;
	ListCell   *cell;

	initStringInfo(&details);
	foreach(cell, search->broken)
	{
		const SlForeignKey *key = lfirst(cell);

		add_line(&details, psprintf("Table \"%s\", %s: the rows that it connects may be on different shards.",
									get_rel_name(key->relid), key->definition));
	}
	ereport(ERROR,
			errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			errmsg("foreign key \"%s\" of table \"%s\" cannot hold across shards",
				   first->name, get_rel_name(first->relid)),
			errdetail_internal("%s", details.data),
			errhint("Both tables must belong to one map, with the key columns part of the foreign key, or \"%s\" must be a reference table.%s",
					get_rel_name(first->referenced), drop_hint(search)));
}

/* An array as it is written in a statement. */
static char *
array_literal(Datum *elements, int count)
{
	ArrayType  *array = construct_array(elements, count, TEXTOID, -1, false, TYPALIGN_INT);

	return quote_literal_cstr(OidOutputFunctionCall(F_ARRAY_OUT, PointerGetDatum(array)));
}

static char *
join_columns(List *columns)
{
	StringInfoData result;
	ListCell   *cell;

	initStringInfo(&result);
	foreach(cell, columns)
		appendStringInfo(&result, "%s%s", result.len > 0 ? ", " : "", quote_identifier(lfirst(cell)));
	return result.data;
}

/* The call that takes all tables; of a table that is just created, all others. */
static char *
call_for_all(const Search *search)
{
	int			length = list_length(search->candidates);
	int			count = 0;
	Datum	   *tables = palloc(sizeof(Datum) * length);
	Datum	   *keys = palloc(sizeof(Datum) * length);
	const char *local_unique = search->sample->is_local_unique ? ", local_unique => true" : "";

	for (int i = 0; i < length; i++)
	{
		const Candidate *candidate = list_nth(search->candidates, i);

		if (search->is_new && candidate->arrival != NULL)
			continue;
		tables[count] = CStringGetTextDatum(qualified_name(candidate->relid));
		keys[count++] = CStringGetTextDatum(join_columns(candidate->key));
	}
	if (count == 0)
		return "";
	if (count == 1)
		return psprintf("SELECT shardlet.distribute(%s, %s%s%s%s);",
						quote_literal_cstr(TextDatumGetCString(tables[0])),
						quote_literal_cstr(search->sample->map),
						search->sample->key_count > 0 ? ", " : "",
						search->sample->key_count > 0 ?
						quote_literal_cstr(TextDatumGetCString(keys[0])) : "", local_unique);
	return psprintf("SELECT shardlet.distribute_tables(%s, %s, %s%s);", array_literal(tables, count),
					quote_literal_cstr(search->sample->map), array_literal(keys, count), local_unique);
}

/* The statements that would do it. */
static char *
suggest_call(const Search *search)
{
	StringInfoData sql;
	ListCell   *cell;

	initStringInfo(&sql);
	if (search->sample->kind == SL_TABLE_PLACED)
	{
		const SlForeignKey *key = linitial(search->missing);

		appendStringInfo(&sql, "%s; place both tables on one shard; %s;", sl_foreign_key_drop_sql(key),
						 sl_foreign_key_add_sql(key));
		return sql.data;
	}
	foreach(cell, search->references)
		appendStringInfo(&sql, "SELECT shardlet.make_reference(%s); ",
						 quote_literal_cstr(qualified_name(lfirst_oid(cell))));
	appendStringInfoString(&sql, call_for_all(search));
	return sql.data;
}

pg_noreturn static void
refuse_missing(const Search *search)
{
	StringInfoData details;
	ListCell   *cell;

	initStringInfo(&details);
	foreach(cell, search->missing)
	{
		const SlForeignKey *key = lfirst(cell);

		add_line(&details, psprintf("Foreign key \"%s\" of table \"%s\" refers to table \"%s\".",
									key->name, get_rel_name(key->relid),
									get_rel_name(key->referenced)));
	}
	ereport(ERROR,
			errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			errmsg("cannot distribute table \"%s\" without tables that foreign keys connect it with",
				   get_rel_name(search->sample->relid)),
			errdetail_internal("%s", details.data),
			errhint("%s%s", suggest_call(search), drop_hint(search)));
}

/* Dropping -------------------------------------------------------------------- */

/* Drops the constraint of the router. */
void
sl_foreign_key_drop_on_router(const SlForeignKey *key)
{
	ObjectAddress address;

	ObjectAddressSet(address, ConstraintRelationId, key->constraint);
	performDeletion(&address, DROP_RESTRICT, PERFORM_DELETION_INTERNAL);
	CommandCounterIncrement();
}

/* The shards do not get it. */
static void
leave_out(const Search *search, const SlForeignKey *key)
{
	const Candidate *candidate = find_candidate(search, sl_foreign_key_root(key->relid));
	const char *name = candidate != NULL && candidate->relid == key->relid ? key->name :
	psprintf("%s.%s", get_rel_name(key->relid), key->name);
	SlDefinitionItem *item = candidate == NULL ? NULL :
	sl_definition_find(candidate->arrival->definition, "foreign_key", name);

	if (item != NULL)
		item->ddl = NULL;
	sl_foreign_key_warn(key, "No shard could check it.", "Where both tables are together again");
}

/*
 * Before tables go to the shards, and when their definitions were read: refuses
 * foreign keys that cannot be kept, or takes them out.
 */
void
sl_foreign_key_plan(List *arrivals, SlDistributeOptions choices)
{
	bool		drops = choices.drops_foreign_keys;
	Search		search = {.drops = drops,.is_new = choices.is_new};
	ListCell   *cell;

	foreach(cell, arrivals)
	{
		SlArrival  *arrival = lfirst(cell);

		add_candidate(&search, arrival->target->relid, sl_foreign_key_columns_of(arrival->target), arrival);
	}
	search.sample = ((SlArrival *) linitial(arrivals))->target;
	search_keys(&search);
	if (!drops && search.broken != NIL)
		refuse_broken(&search);
	if (!drops && search.missing != NIL)
		refuse_missing(&search);
	foreach(cell, list_concat_copy(search.broken, search.missing))
	{
		leave_out(&search, lfirst(cell));
		sl_foreign_key_drop_on_router(lfirst(cell));
	}
}
