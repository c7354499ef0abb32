/*
 * fdw_explain.c
 *		What EXPLAIN tells of tables on shards.
 */
#include "postgres.h"

#include "fdw/fdw.h"
#include "fdw/fdw_scan.h"

void
sl_fdw_explain_scan(ForeignScanState *node, ExplainState *es)
{
	SlScan	   *scan = node->fdw_state;

	if (((ForeignScan *) node->ss.ps.plan)->scan.scanrelid == 0)
		ExplainPropertyText("Relations", scan->ask.relations, es);
	sl_ask_explain(&scan->ask, es);
}
