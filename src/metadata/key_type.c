/*
 * key_type.c
 *		Which types may be keys, and their support functions.
 *
 * A token must be computable with built-in immutable functions on a PostgreSQL
 * without the extension: row filters, checks and guards all use it, in
 * databases that do not have the router's types.  So a key type is built in,
 * and not one whose hash depends on OIDs (enum) or that is based on another
 * type (domain).
 */
#include "postgres.h"

#include "access/transam.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

#include "base/base.h"
#include "metadata/key.h"

static void
refuse_type(Oid type, const char *reason)
{
	ereport(ERROR,
			errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			errmsg("type %s cannot be a key", format_type_be(type)),
			errdetail("%s", reason),
			errhint("Use a stored generated column of a built-in type, such as text or bigint, as the key."));
}

/* Values of these types are OIDs, which differ between databases. */
bool
sl_key_names_local_object(Oid type)
{
	Oid			element = get_element_type(type);

	switch (OidIsValid(element) ? element : type)
	{
		case REGCLASSOID:
		case REGPROCOID:
		case REGPROCEDUREOID:
		case REGOPEROID:
		case REGOPERATOROID:
		case REGTYPEOID:
		case REGCONFIGOID:
		case REGDICTIONARYOID:
		case REGROLEOID:
		case REGNAMESPACEOID:
		case REGCOLLATIONOID:
		case ACLITEMOID:
			return true;
		default:
			return false;
	}
}

/* Raises an error unless the type may be a key for this use. */
void
sl_key_check_type(Oid type, SlKeyUse use)
{
	TypeCacheEntry *entry;

	if (!OidIsValid(type))
		ereport(ERROR,
				errcode(ERRCODE_UNDEFINED_OBJECT),
				errmsg("type of a key does not exist"));
	switch (get_typtype(type))
	{
		case TYPTYPE_BASE:
		case TYPTYPE_RANGE:
		case TYPTYPE_MULTIRANGE:
			break;
		case TYPTYPE_ENUM:
			refuse_type(type, "The hash of an enum value is not the same in every database.");
			break;
		case TYPTYPE_DOMAIN:
			refuse_type(type, "It is a domain.");
			break;
		default:
			refuse_type(type, "It is not a base type.");
	}
	if (type >= FirstNormalObjectId)
		refuse_type(type, "It is not built into PostgreSQL.");

	if (sl_key_names_local_object(type))
		refuse_type(type, "Its values name objects of one database.");
	if (use == SL_KEY_ORDERED && type == JSONBOID)
		refuse_type(type, "Its order depends on the locale.");

	entry = lookup_type_cache(type, TYPECACHE_HASH_EXTENDED_PROC |
							  TYPECACHE_EQ_OPR | TYPECACHE_CMP_PROC);
	if (!OidIsValid(entry->hash_extended_proc) || !OidIsValid(entry->eq_opr))
		refuse_type(type, "It has no default hash operator class.");
	if (use == SL_KEY_ORDERED && !OidIsValid(entry->cmp_proc))
		refuse_type(type, "It has no default btree operator class.");
}

static void
copy_function(FmgrInfo *function, Oid oid, MemoryContext context)
{
	function->fn_oid = InvalidOid;
	if (OidIsValid(oid))
		fmgr_info_cxt(oid, function, context);
}

/*
 * Looks up the support functions of a type.  The type was checked when the map
 * was created, or is checked by the caller.
 */
void
sl_key_type_init(SlKeyType *key_type, Oid type, MemoryContext context)
{
	TypeCacheEntry *entry;
	Oid			input;
	Oid			output;
	bool		is_varlena;

	entry = lookup_type_cache(type, TYPECACHE_HASH_EXTENDED_PROC |
							  TYPECACHE_EQ_OPR | TYPECACHE_CMP_PROC);
	key_type->type = type;
	key_type->hash_collation = entry->typcollation;
	key_type->order_collation = OidIsValid(entry->typcollation) ?
		C_COLLATION_OID : InvalidOid;
	key_type->length = entry->typlen;
	key_type->by_value = entry->typbyval;
	getTypeInputInfo(type, &input, &key_type->input_param);
	getTypeOutputInfo(type, &output, &is_varlena);
	copy_function(&key_type->input, input, context);
	copy_function(&key_type->output, output, context);
	copy_function(&key_type->hash, entry->hash_extended_proc, context);
	copy_function(&key_type->equal,
				  OidIsValid(entry->eq_opr) ? get_opcode(entry->eq_opr) : InvalidOid,
				  context);
	copy_function(&key_type->compare, entry->cmp_proc, context);
}

/*
 * Raises an error if values that are equal by the collation may have different
 * bytes.
 */
void
sl_key_check_collation(Oid collation)
{
	if (OidIsValid(collation) && !get_collation_isdeterministic(collation))
		ereport(ERROR,
				errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				errmsg("nondeterministic collations are not supported for keys"),
				errhint("Use a stored generated column with a deterministic collation as the key."));
}

/*
 * Writes a value as text that reads the same in every session.  The caller has
 * fixed the output settings (see map_catalog.c).
 */
char *
sl_key_to_text(SlKeyType *key_type, Datum value)
{
	return OutputFunctionCall(&key_type->output, value);
}

Datum
sl_key_from_text(SlKeyType *key_type, const char *string)
{
	return InputFunctionCall(&key_type->input, unconstify(char *, string),
							 key_type->input_param, -1);
}

int
sl_key_compare(SlKeyType *key_type, Datum a, Datum b)
{
	return DatumGetInt32(FunctionCall2Coll(&key_type->compare,
										   key_type->order_collation, a, b));
}

bool
sl_key_equal(SlKeyType *key_type, Datum a, Datum b)
{
	return DatumGetBool(FunctionCall2Coll(&key_type->equal,
										  key_type->order_collation, a, b));
}
