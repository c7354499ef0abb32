/*
 * prune_type.c
 *		Which values can be looked up in a map in place of a column's.
 *
 * A comparison may have different types on both sides.  Only where equal values
 * are the same key, whatever the type, does it say something of the shard:
 * integers of all sizes, and types that are the same but for their names.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "nodes/nodeFuncs.h"
#include "parser/parse_coerce.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

#include "deparse/prune.h"

bool
sl_prune_is_integer(Oid type)
{
	return type == INT2OID || type == INT4OID || type == INT8OID;
}

/* Is it the same bits in both types, and compared alike? */
static bool
is_same_bits(Oid from, Oid to)
{
	return from == to || (IsBinaryCoercible(from, to) && IsBinaryCoercible(to, from)) ||
		(from == VARCHAROID && to == TEXTOID);
}

/* The map's type for the key, the column's, and that of the value. */
bool
sl_prune_is_usable(Oid key, Oid column, Oid type)
{
	/* This is asked for every statement. */
	if (sl_prune_is_integer(key) && sl_prune_is_integer(column) && sl_prune_is_integer(type))
		return true;
	column = getBaseType(column);
	type = getBaseType(type);
	if (sl_prune_is_integer(key))
		return sl_prune_is_integer(column) && sl_prune_is_integer(type);
	return is_same_bits(column, key) && is_same_bits(type, key);
}

/*
 * Are values of the one type equal as values of the other only if they are equal
 * anyway?  Those of text are not as bpchar, where blanks at the end do not count.
 */
static bool
keeps_equality(Oid from, Oid to)
{
	TypeCacheEntry *a;
	TypeCacheEntry *b;

	from = getBaseType(from);
	to = getBaseType(to);
	if (from == to)
		return true;
	a = lookup_type_cache(from, TYPECACHE_BTREE_OPFAMILY);
	b = lookup_type_cache(to, TYPECACHE_BTREE_OPFAMILY);

	/* All arrays have one family, whatever is in them. */
	return OidIsValid(a->btree_opf) && a->btree_opf == b->btree_opf &&
		a->typtype == TYPTYPE_BASE && !OidIsValid(get_element_type(from));
}

/* The expression without casts that change neither the value nor what equals it. */
Node *
sl_prune_strip(Node *node)
{
	while (node != NULL && IsA(node, RelabelType) &&
		   keeps_equality(exprType((Node *) ((RelabelType *) node)->arg),
						  ((RelabelType *) node)->resulttype))
		node = (Node *) ((RelabelType *) node)->arg;
	return node;
}
