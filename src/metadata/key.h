/*
 * key.h
 *		Key types, coercion of key values, tokens.
 */
#ifndef SL_KEY_H
#define SL_KEY_H

#include "fmgr.h"
#include "nodes/execnodes.h"
#include "nodes/params.h"

/* The maximum number of key columns, small enough for the stack. */
#define SL_MAX_KEYS 16

/*
 * A type that keys may have, with its support functions.
 *
 * Values are hashed with the type's own collation, which does not matter as a
 * nondeterministic one is refused, and ordered with collation C: the order
 * must be the same on the router and on every shard, whatever the locales and
 * library versions of those machines are.
 */
typedef struct SlKeyType
{
	Oid			type;
	Oid			hash_collation;
	Oid			order_collation;
	int16		length;
	bool		by_value;
	Oid			input_param;
	FmgrInfo	input;
	FmgrInfo	output;
	FmgrInfo	hash;			/* extended hash; fn_oid is invalid if none */
	FmgrInfo	equal;			/* fn_oid is invalid if none */
	FmgrInfo	compare;		/* btree comparison; fn_oid is invalid if none */
} SlKeyType;

/* One end of a key range. */
typedef struct SlBound
{
	bool		unbounded;
	Datum		value;
} SlBound;

/* key_type.c */
typedef enum SlKeyUse
{
	SL_KEY_HASHED,				/* needs hash and equality */
	SL_KEY_ORDERED				/* needs order */
} SlKeyUse;

extern bool sl_key_names_local_object(Oid type);
extern void sl_key_check_type(Oid type, SlKeyUse use);
extern void sl_key_type_init(SlKeyType *key_type, Oid type, MemoryContext context);
extern void sl_key_check_collation(Oid collation);
extern char *sl_key_to_text(SlKeyType *key_type, Datum value);
extern Datum sl_key_from_text(SlKeyType *key_type, const char *string);
extern int	sl_key_compare(SlKeyType *key_type, Datum a, Datum b);
extern bool sl_key_equal(SlKeyType *key_type, Datum a, Datum b);

/* token.c */
extern int64 sl_key_token(SlKeyType *key_types, int count, const Datum *values);
extern const char *sl_key_hash_function(Oid type);
extern char *sl_key_token_sql(const Oid *types, int count, char **expressions);

/* key_coerce.c: coercion of one value to a key type */
typedef enum SlCoercionMethod
{
	SL_COERCE_NONE,				/* binary-compatible */
	SL_COERCE_CAST,				/* a cast function */
	SL_COERCE_INPUT				/* an untyped literal */
} SlCoercionMethod;

typedef struct SlCoercion
{
	SlCoercionMethod method;
	Oid			input_param;
	FmgrInfo	function;
} SlCoercion;

extern void sl_coercion_init(SlCoercion *coercion, Oid from, const SlKeyType *to,
							 const char *what, MemoryContext context);
extern Datum sl_coercion_apply(SlCoercion *coercion, Datum value);

/* function_args.c: the arguments of a function that takes VARIADIC key "any" */
typedef struct SlKeyArgs
{
	int			count;
	Oid			types[SL_MAX_KEYS];
	Datum		values[SL_MAX_KEYS];
	bool		nulls[SL_MAX_KEYS];
} SlKeyArgs;

extern void sl_key_args_get(FunctionCallInfo fcinfo, int first, SlKeyArgs *args);
extern void sl_key_args_split(const Datum *values, const bool *nulls, const Oid *types,
							  int count, bool is_variadic, SlKeyArgs *args);
extern void sl_key_refuse_null(void);

/*
 * via_expression.c: a user-defined rule from key to the value that is looked
 * up
 */
typedef struct SlVia
{
	Oid			type;			/* of the value */
	ParamListInfo params;
	ExprContext *context;
	ExprState  *state;
} SlVia;

extern Node *sl_expression_parse(const char *source, const char **reason);
extern char *sl_via_check(const char *source, const Oid *types, int count,
						  Oid *value_type);
extern SlVia *sl_via_init(const char *source, const Oid *types, int count,
						  MemoryContext context);
extern Datum sl_via_apply(SlVia *via, int count, const Datum *values);

#endif							/* SL_KEY_H */
