/*
 * options.c
 *		Options of servers, user mappings and distributed tables.
 *
 * libpq tells which connection options it has, so they are not listed.  "user" and
 * secrets belong to a user mapping, which only its owner can read; everyone can
 * read the options of a server, so a password among them is refused.
 *
 * No message of this file contains a connection string: one that cannot be parsed
 * may have a password anywhere.
 */
#include "postgres.h"

#include <float.h>
#include <math.h>

#include "access/reloptions.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_foreign_table.h"
#include "catalog/pg_user_mapping.h"
#include "commands/defrem.h"
#include "libpq-fe.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/varlena.h"

#include "base/base.h"
#include "compat.h"

/* Maximum Levenshtein distance for a hint. */
#define MAX_HINT_DISTANCE 4

typedef void (*OptionCheck) (const char *keyword, const char *value);

typedef struct OwnOption
{
	const char *keyword;
	OptionCheck check;
} OwnOption;

pg_noreturn static void refuse_conninfo(char *message);
static void check_id(const char *keyword, const char *value);
static void check_state(const char *keyword, const char *value);
static void check_weight(const char *keyword, const char *value);
static void check_bool(const char *keyword, const char *value);
static void check_address(const char *keyword, const char *value);
static void check_list(const char *keyword, const char *value);

/* Options of a server that are not libpq's. */
static const OwnOption own_options[] = {
	{"id", check_id},
	{"identity", NULL},
	{"state", check_state},
	{"region", NULL},
	{"weight", check_weight},
	{"client_address", check_address},
	{"bare", check_bool},
	{"extensions", check_list},
	{"other_collation", check_bool},
};

/* Options of a row of pg_foreign_table, which a distributed table has. */
static const OwnOption table_options[] = {
	{"map", NULL},
	{"key", NULL},
	{"shard_id", check_id},
	{"attached", check_bool},
	{"local_unique", check_bool},
};

static const char *const mapping_extras[] = {"sslcert", "sslkey"};

/* Options that give access to credentials of the server process. */
static const char *const superuser_options[] = {
	"passfile", "service", "servicefile", "sslcert", "sslkey", "gssdelegation"
};

/*
 * Returns libpq's options.  PQconndefaults() uses malloc, so the list belongs to
 * no memory context.
 */
static const PQconninfoOption *
get_libpq_options(void)
{
	static PQconninfoOption *options = NULL;

	if (options == NULL)
		options = PQconndefaults();
	if (options == NULL)
		ereport(ERROR,
				errcode(ERRCODE_OUT_OF_MEMORY),
				errmsg("out of memory"));
	return options;
}

static const PQconninfoOption *
find_libpq_option(const char *keyword)
{
	for (const PQconninfoOption *option = get_libpq_options(); option->keyword; option++)
	{
		if (strcmp(option->keyword, keyword) == 0)
			return option;
	}
	return NULL;
}

/*
 * Is the keyword a connection option that may be used in a server process?  libpq
 * marks debugging options, and replication, with a D.  OAuth, which libpq has since
 * 18, needs a user at a terminal.
 */
bool
sl_option_is_libpq(const char *keyword)
{
	const PQconninfoOption *option = find_libpq_option(keyword);

	if (option == NULL || strchr(option->dispchar, 'D') != NULL ||
		strncmp(keyword, "oauth_", strlen("oauth_")) == 0)
		return false;
	return libpqsrv_is_valid_proxy_option == NULL ||
		libpqsrv_is_valid_proxy_option(keyword);
}

/* Is it an option that identifies the user, and so one of user mappings? */
bool
sl_option_is_credential(const char *keyword)
{
	const PQconninfoOption *option = find_libpq_option(keyword);

	return option != NULL && (strcmp(keyword, "user") == 0 ||
							  strchr(option->dispchar, '*') != NULL);
}

/* Returns the options of a kind of object that are not libpq's. */
static const OwnOption *
get_own_options(Oid catalog, int *count)
{
	*count = catalog == ForeignServerRelationId ? (int) lengthof(own_options) :
		catalog == ForeignTableRelationId ? (int) lengthof(table_options) : 0;
	return catalog == ForeignServerRelationId ? own_options : table_options;
}

static const OwnOption *
find_own_option(const char *keyword, Oid catalog)
{
	int			count;
	const OwnOption *options = get_own_options(catalog, &count);

	for (int i = 0; i < count; i++)
	{
		if (strcmp(options[i].keyword, keyword) == 0)
			return &options[i];
	}
	return NULL;
}

/* Returns the value of an option, or NULL. */
const char *
sl_option_get(List *options, const char *keyword)
{
	ListCell   *cell;

	foreach(cell, options)
	{
		DefElem    *option = lfirst_node(DefElem, cell);

		if (strcmp(option->defname, keyword) == 0)
			return defGetString(option);
	}
	return NULL;
}

/* Is the option set to true? */
bool
sl_option_is_on(List *options, const char *keyword)
{
	const char *value = sl_option_get(options, keyword);
	bool		result = false;

	return value != NULL && parse_bool(value, &result) && result;
}

/* Returns the base options with the changes applied. */
List *
sl_option_merge(List *base, List *changes)
{
	List	   *result = list_copy(changes);
	ListCell   *cell;

	foreach(cell, base)
	{
		DefElem    *option = lfirst_node(DefElem, cell);

		if (sl_option_get(changes, option->defname) == NULL)
			result = lappend(result, option);
	}
	return result;
}

/*
 * Returns the wanted options in the form of ALTER SERVER, with ADD, SET or DROP.
 * An empty value drops the option.
 */
List *
sl_option_changes(List *current, List *wanted)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, wanted)
	{
		DefElem    *change = copyObject(lfirst_node(DefElem, cell));
		bool		exists = sl_option_get(current, change->defname) != NULL;
		bool		remove = defGetString(change)[0] == '\0';

		if (remove && !exists)
			continue;
		change->defaction = remove ? DEFELEM_DROP : exists ? DEFELEM_SET : DEFELEM_ADD;
		result = lappend(result, change);
	}
	return result;
}

static bool
is_listed(const char *const *list, int count, const char *keyword)
{
	for (int i = 0; i < count; i++)
	{
		if (strcmp(list[i], keyword) == 0)
			return true;
	}
	return false;
}

static bool
is_mapping_option(const char *keyword)
{
	return sl_option_is_libpq(keyword) &&
		(sl_option_is_credential(keyword) ||
		 is_listed(mapping_extras, lengthof(mapping_extras), keyword));
}

static bool
is_server_option(const char *keyword)
{
	return find_own_option(keyword, ForeignServerRelationId) != NULL ||
		(sl_option_is_libpq(keyword) && !sl_option_is_credential(keyword));
}

static bool
is_valid_option(const char *keyword, Oid catalog)
{
	if (catalog == ForeignServerRelationId)
		return is_server_option(keyword);
	if (catalog == UserMappingRelationId)
		return is_mapping_option(keyword);
	return find_own_option(keyword, catalog) != NULL;
}

/* Replaces *best by the candidate if that is more similar to the keyword. */
static void
consider_hint(const char *keyword, const char *candidate, const char **best,
			  int *distance)
{
	int			this_distance;

	this_distance = varstr_levenshtein_less_equal(keyword, strlen(keyword),
												  candidate, strlen(candidate),
												  1, 1, 1, *distance, true);
	if (this_distance < *distance && this_distance <= (int) strlen(keyword) / 2)
	{
		*best = candidate;
		*distance = this_distance;
	}
}

/* Returns the valid option that is most similar to the keyword, or NULL. */
static const char *
find_closest_option(const char *keyword, Oid catalog)
{
	const char *best = NULL;
	int			distance = MAX_HINT_DISTANCE;
	int			own_count;
	const OwnOption *own = get_own_options(catalog, &own_count);

	if (strlen(keyword) >= NAMEDATALEN)
		return NULL;
	for (const PQconninfoOption *option = get_libpq_options(); option->keyword; option++)
	{
		if (is_valid_option(option->keyword, catalog))
			consider_hint(keyword, option->keyword, &best, &distance);
	}
	for (int i = 0; i < own_count; i++)
		consider_hint(keyword, own[i].keyword, &best, &distance);
	return best;
}

static void
refuse_option(const char *keyword, Oid catalog)
{
	const char *closest = find_closest_option(keyword, catalog);

	if (catalog == ForeignServerRelationId && is_mapping_option(keyword))
		ereport(ERROR,
				errcode(ERRCODE_FDW_INVALID_OPTION_NAME),
				errmsg("option \"%s\" does not belong to a server", keyword),
				errdetail("Everyone can read the options of a server."),
				errhint("Put it into a user mapping: CREATE USER MAPPING FOR ... SERVER ... OPTIONS (%s '...').",
						keyword));
	if (catalog == UserMappingRelationId && is_server_option(keyword))
		ereport(ERROR,
				errcode(ERRCODE_FDW_INVALID_OPTION_NAME),
				errmsg("option \"%s\" does not belong to a user mapping", keyword),
				errhint("Put it into the server's options."));
	ereport(ERROR,
			errcode(ERRCODE_FDW_INVALID_OPTION_NAME),
			errmsg("invalid option \"%s\"", keyword),
			closest != NULL ?
			errhint("Perhaps you meant the option \"%s\".", closest) :
			catalog == ForeignServerRelationId || catalog == UserMappingRelationId ||
			catalog == ForeignTableRelationId ? 0 :
			errhint("There are no valid options in this context."));
}

/*
 * Raises an error if only a superuser may set the option: the server process can
 * read more files than the user who creates a server or user mapping.
 */
static void
check_superuser(const char *keyword, Oid catalog)
{
	if (superuser() || !is_listed(superuser_options, lengthof(superuser_options), keyword))
		return;
	ereport(ERROR,
			errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			catalog == UserMappingRelationId ?
			errmsg("only a superuser may set option \"%s\" of a user mapping", keyword) :
			errmsg("only a superuser may set option \"%s\" of a server", keyword),
			errdetail("It makes use of what the server process can read."));
}

/*
 * Checks the options of a server, user mapping or other object of the wrapper.
 * Raises an error at the first one that is invalid.
 */
void
sl_option_validate(List *options, Oid catalog)
{
	ListCell   *cell;

	foreach(cell, options)
	{
		DefElem    *option = lfirst_node(DefElem, cell);
		const OwnOption *own;

		if (!is_valid_option(option->defname, catalog))
			refuse_option(option->defname, catalog);
		check_superuser(option->defname, catalog);
		own = find_own_option(option->defname, catalog);
		if (own != NULL && own->check != NULL && option->defaction != DEFELEM_DROP)
			own->check(option->defname, defGetString(option));
	}
}

static void
refuse_value(const char *keyword, const char *value, const char *hint)
{
	ereport(ERROR,
			errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			errmsg("invalid value for option \"%s\": \"%s\"", keyword, value),
			errhint("%s", hint));
}

static void
check_id(const char *keyword, const char *value)
{
	char	   *end;
	long		id;

	errno = 0;
	id = strtol(value, &end, 10);
	if (errno != 0 || end == value || *end != '\0' || id < 1 || id > PG_INT32_MAX)
		refuse_value(keyword, value, "It is a positive integer, given by add_shard.");
}

static void
check_state(const char *keyword, const char *value)
{
	if (strcmp(value, "online") != 0 && strcmp(value, "read_only") != 0 &&
		strcmp(value, "offline") != 0)
		refuse_value(keyword, value,
					 "Valid values are \"online\", \"read_only\" and \"offline\".");
}

static void
check_weight(const char *keyword, const char *value)
{
	double		weight;

	if (!parse_real(value, &weight, 0, NULL) || !isfinite(weight) || weight < 0 ||
		weight > FLT_MAX)
		refuse_value(keyword, value, "It is a number of at least zero.");
}

static void
check_bool(const char *keyword, const char *value)
{
	bool		result;

	if (!parse_bool(value, &result))
		refuse_value(keyword, value, "It is a Boolean.");
}

static void
check_list(const char *keyword, const char *value)
{
	List	   *names = NIL;

	if (!SplitIdentifierString(pstrdup(value), ',', &names))
		refuse_value(keyword, value, "It is a list of names, separated by commas.");
}

static void
check_address(const char *keyword, const char *value)
{
	char	   *host;
	char	   *port;
	char	   *dbname;

	sl_option_parse_address(value, &host, &port, &dbname);
}

/*
 * If libpq's message is about the name of an option, returns that name.  Only
 * English messages are recognized; otherwise the caller's error is less exact, but
 * still correct.
 */
static char *
get_misspelled_option(const char *message)
{
	static const char prefix[] = "invalid connection option \"";
	const char *start;
	size_t		length;

	if (message == NULL || strncmp(message, prefix, strlen(prefix)) != 0)
		return NULL;
	start = message + strlen(prefix);
	length = strspn(start, "abcdefghijklmnopqrstuvwxyz_");
	return start[length] == '"' ? pnstrdup(start, length) : NULL;
}

static void
refuse_conninfo(char *message)
{
	char	   *option = get_misspelled_option(message);
	const char *closest;

	if (message != NULL)
		PQfreemem(message);
	if (option == NULL)
		ereport(ERROR,
				errcode(ERRCODE_SYNTAX_ERROR),
				errmsg("invalid connection string"),
				errhint("Write it as \"host=... port=... dbname=...\", with quotes around values that have spaces, or as a postgresql:// URI."));
	closest = find_closest_option(option, ForeignServerRelationId);
	ereport(ERROR,
			errcode(ERRCODE_FDW_INVALID_OPTION_NAME),
			errmsg("invalid connection option \"%s\"", option),
			closest ? errhint("Perhaps you meant the option \"%s\".", closest) : 0);
}

/* Parses a connection string into a list of options. */
List *
sl_option_parse_conninfo(const char *conninfo)
{
	char	   *message = NULL;
	PQconninfoOption *parsed = PQconninfoParse(conninfo, &message);
	List	   *result = NIL;
	char	   *debugging = NULL;

	if (parsed == NULL)
		refuse_conninfo(message);

	/* "parsed" leaks only if memory runs out before it is freed. */
	for (PQconninfoOption *option = parsed; option->keyword != NULL; option++)
	{
		if (option->val == NULL || option->val[0] == '\0')
			continue;
		if (!sl_option_is_libpq(option->keyword))
			debugging = pstrdup(option->keyword);
		result = lappend(result,
						 makeDefElem(pstrdup(option->keyword),
									 (Node *) makeString(pstrdup(option->val)),
									 -1));
	}
	PQconninfoFree(parsed);
	if (debugging != NULL)
		refuse_option(debugging, ForeignServerRelationId);
	return result;
}

/* Parses host, host:port or [address]:port. */
static void
parse_host_port(const char *address, char **host, char **port)
{
	const char *end;
	const char *colon;

	if (address[0] == '[' && (end = strchr(address, ']')) != NULL)
	{
		*host = pnstrdup(address + 1, end - address - 1);
		colon = end[1] == ':' ? end + 1 : NULL;
		end++;
	}
	else
	{
		colon = strrchr(address, ':');

		/* Two colons without brackets: an IPv6 address and no port. */
		if (colon != NULL && strchr(address, ':') != colon)
			colon = NULL;
		end = colon != NULL ? colon : address + strlen(address);
		*host = pnstrdup(address, end - address);
	}
	if (colon != NULL)
		*port = pstrdup(colon + 1);
	if (**host == '\0' || (colon == NULL && *end != '\0') ||
		(colon != NULL && (colon[1] == '\0' ||
						   strspn(colon + 1, "0123456789") != strlen(colon + 1))))
		ereport(ERROR,
				errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("invalid value for option \"client_address\""),
				errhint("Write it as \"host\", \"host:port\" or \"host=... port=... dbname=...\"."));
}

/*
 * Parses option client_address.  What it does not contain is set to NULL.
 */
void
sl_option_parse_address(const char *address, char **host, char **port,
						char **dbname)
{
	ListCell   *cell;

	*host = *port = *dbname = NULL;
	if (strchr(address, '=') == NULL && strstr(address, "://") == NULL)
	{
		parse_host_port(address, host, port);
		return;
	}
	foreach(cell, sl_option_parse_conninfo(address))
	{
		DefElem    *option = lfirst_node(DefElem, cell);

		if (strcmp(option->defname, "host") == 0)
			*host = defGetString(option);
		else if (strcmp(option->defname, "port") == 0)
			*port = defGetString(option);
		else if (strcmp(option->defname, "dbname") == 0)
			*dbname = defGetString(option);
		else
			ereport(ERROR,
					errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					errmsg("client address must not have option \"%s\"",
						   option->defname),
					errhint("It may name host, port and dbname."));
	}
}
