/*
 * hmac.c
 *		Message authentication codes: HMAC-SHA-256.
 *
 * Keys and codes are hexadecimal strings, so that they can be stored and sent like
 * any other value.
 */
#include "postgres.h"

#include "common/cryptohash.h"
#include "common/hmac.h"
#include "common/sha2.h"
#include "nodes/pg_list.h"
#include "utils/builtins.h"

#include "base/base.h"

#define KEY_BYTES PG_SHA256_DIGEST_LENGTH

static char *
write_hex(const uint8 *bytes, Size count)
{
	char	   *result = palloc(count * 2 + 1);

	(void) hex_encode((const char *) bytes, count, result);
	result[count * 2] = '\0';
	return result;
}

/* Returns a new random key. */
char *
sl_hmac_make_key(void)
{
	uint8		bytes[KEY_BYTES];

	if (!pg_strong_random(bytes, sizeof(bytes)))
		ereport(ERROR,
				errcode(ERRCODE_INTERNAL_ERROR),
				errmsg("could not generate random values"));
	return write_hex(bytes, sizeof(bytes));
}

/* Returns the code of a list of strings, whose boundaries matter. */
char *
sl_hmac_make(const char *key, List *fields)
{
	pg_hmac_ctx *context = pg_hmac_create(PG_SHA256);
	uint8		bytes[PG_SHA256_DIGEST_LENGTH];
	bool		is_done = context != NULL && pg_hmac_init(context, (const uint8 *) key, strlen(key)) >= 0;
	ListCell   *cell;

	foreach(cell, fields)
	{
		const char *field = lfirst(cell);

		is_done = is_done && pg_hmac_update(context, (const uint8 *) field, strlen(field) + 1) >= 0;
	}
	is_done = is_done && pg_hmac_final(context, bytes, sizeof(bytes)) >= 0;
	pg_hmac_free(context);
	if (!is_done)
		ereport(ERROR,
				errcode(ERRCODE_INTERNAL_ERROR),
				errmsg("could not compute a message authentication code"));
	return write_hex(bytes, sizeof(bytes));
}

/* Are two codes the same?  The time does not depend on the first difference. */
bool
sl_hmac_is_equal(const char *a, const char *b)
{
	int			difference = 0;

	if (strlen(a) != strlen(b))
		return false;
	for (; *a != '\0'; a++, b++)
		difference |= *a ^ *b;
	return difference == 0;
}
