/*
 * foreign_key_user.c
 *		Whose connections the queries of foreign keys use.
 *
 * PostgreSQL's triggers of a foreign key query the other table as its owner.  If the
 * transaction has written to shards as another user, over connections of that user's
 * own, the owner's connection does not see what was written, and waits for its locks.
 * So the query uses the connections of the user who has written, if the router's
 * privileges allow that user what the query does.  This gives the owner of the table
 * nothing new: triggers of the table run as the user who writes to it anyway.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/acl.h"

#include "executor/multi_shard.h"
#include "transaction/transaction.h"

/* Returns the only other user who has written to shards, or InvalidOid. */
static Oid
find_writer(Oid user)
{
	Oid			result = InvalidOid;
	dlist_iter	iter;

	dlist_foreach(iter, sl_txn_participants())
	{
		const SlConn *conn = dlist_container(SlConn, txn.node, iter.cur);

		if (conn->txn.write_level == 0 || conn->user == user)
			continue;
		if (OidIsValid(result) && conn->user != result)
			return InvalidOid;
		result = conn->user;
	}
	return result;
}

/* What the query of a foreign key, or its action, does with the table. */
static AclMode
needed_privileges(CmdType command)
{
	return ACL_SELECT | (command == CMD_DELETE ? ACL_DELETE : ACL_UPDATE);
}

static bool
is_allowed(const PlannedStmt *statement, Oid user)
{
	AclMode		needed = needed_privileges(statement->commandType);
	ListCell   *cell;

	foreach(cell, statement->rtable)
	{
		const RangeTblEntry *entry = lfirst_node(RangeTblEntry, cell);

		if (entry->rtekind == RTE_RELATION &&
			pg_class_aclmask(entry->relid, user, needed, ACLMASK_ALL) != needed)
			return false;
	}
	return true;
}

/*
 * Returns the user whose connections a statement uses, which are those of "user"
 * unless it is one of a foreign key.  Only these ignore that the owner's policies are
 * forced.
 */
Oid
sl_foreign_key_user(const EState *estate, Oid user)
{
	Oid			writer;

	if (!InNoForceRLSOperation() || user != GetUserId())
		return user;
	writer = find_writer(user);
	return OidIsValid(writer) && is_allowed(estate->es_plannedstmt, writer) ? writer : user;
}
