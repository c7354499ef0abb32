/*
 * text_encoding.c
 *		Checks the encoding of text that shards send.
 *
 * client_encoding of connections is the router's database encoding, but a shard,
 * or a proxy, may send any bytes.  PostgreSQL assumes that text inside the server
 * is valid, so it must be verified on input.  An invalid value is an error.  In a
 * message invalid bytes are replaced instead, because an error must be passed on
 * whatever its text is.  Messages are also truncated: a shard must not fill the
 * router's memory and log, and the client, with one of them.
 */
#include "postgres.h"

#include "mb/pg_wchar.h"
#include "utils/memutils.h"

#include "connection/connection.h"

/* Maximum length of a field of an error or a notice, in bytes. */
#define MAX_MESSAGE (64 * 1024)

#define LOW_BITS UINT64CONST(0x0101010101010101)
#define HIGH_BITS UINT64CONST(0x8080808080808080)

/* Number of bytes that are checked at once. */
#define CHUNK ((int) sizeof(uint64))

/*
 * Returns the high bit of each byte that is zero or above 127.  If none is above
 * 127, subtracting one sets the high bit of a zero byte; bytes after that one may
 * be wrong.
 */
static inline uint64
find_odd_bytes(const char *string)
{
	uint64		chunk;

	memcpy(&chunk, string, sizeof(chunk));
	return (chunk | (chunk - LOW_BITS)) & HIGH_BITS;
}

/* Does the text have neither a zero byte nor one above 127? */
static inline bool
is_plain_ascii(const char *string, int length)
{
	uint64		seen = 0;

	if (length >= CHUNK)
	{
		/* The last chunk may overlap the one before. */
		for (int i = 0; i < length - CHUNK; i += CHUNK)
			seen |= find_odd_bytes(string + i);
		return (seen | find_odd_bytes(string + length - CHUNK)) == 0;
	}
	for (int i = 0; i < length; i++)
		seen |= (unsigned char) string[i] | ((uint64) (unsigned char) string[i] - 1);
	return (seen & HIGH_BITS) == 0;
}

/* Is the text valid in the encoding of the router's database? */
bool
sl_encoding_is_valid(const char *string, int length)
{
	return is_plain_ascii(string, length) ||
		pg_verify_mbstr(GetDatabaseEncoding(), string, length, true);
}

/* Replaces invalid bytes. */
static void
replace_invalid(char *string, int length)
{
	int			encoding = GetDatabaseEncoding();

	while (length > 0)
	{
		int			size = IS_HIGHBIT_SET(*string) ?
		pg_encoding_verifymbchar(encoding, string, length) : 1;

		if (size < 1)
		{
			*string = '?';
			size = 1;
		}
		string += size;
		length -= size;
	}
}

/*
 * Copies text of a shard for a message into a memory context, with invalid bytes
 * replaced, and truncated if it is very long.  Does not raise an error; returns
 * NULL if the text is NULL or there is no memory for it.
 */
char *
sl_encoding_copy_message(MemoryContext context, const char *string)
{
	size_t		length;
	char	   *copy;

	if (string == NULL)
		return NULL;
	length = strnlen(string, MAX_MESSAGE + 1);
	if (length > MAX_MESSAGE)
		length = MAX_MESSAGE - strlen(" ...");
	copy = MemoryContextAllocExtended(context, length + sizeof(" ..."), MCXT_ALLOC_NO_OOM);
	if (copy == NULL)
		return NULL;
	memcpy(copy, string, length);
	copy[length] = '\0';

	/* A truncated character is invalid, too. */
	if (!sl_encoding_is_valid(copy, (int) length))
		replace_invalid(copy, (int) length);
	if (string[length] != '\0')
		strcpy(copy + length, " ...");
	return copy;
}

/* Are all values of a result in text form valid? */
bool
sl_encoding_result_is_valid(const PGresult *result)
{
	int			width = PQnfields(result);

	for (int row = 0; row < PQntuples(result); row++)
	{
		for (int i = 0; i < width; i++)
		{
			if (!sl_encoding_is_valid(PQgetvalue(result, row, i), PQgetlength(result, row, i)))
				return false;
		}
	}
	return true;
}
