/*
 * enum_names.c
 *		Names of the kinds of maps and of states.
 */
#include "postgres.h"

#include "base/base.h"
#include "base/enum_names.h"

static const char *const kind_names[] = {
	[SL_KIND_HASH] = "hash",
	[SL_KIND_RANGE] = "range",
	[SL_KIND_LIST] = "list",
	[SL_KIND_SPREAD] = "spread",
};

static const char *const state_names[] = {
	[SL_STATE_ONLINE] = "online",
	[SL_STATE_READ_ONLY] = "read_only",
	[SL_STATE_MOVING] = "moving",
	[SL_STATE_OFFLINE] = "offline",
};

const char *
sl_kind_name(SlMapKind kind)
{
	return kind_names[kind];
}

SlMapKind
sl_kind_parse(const char *name)
{
	for (int i = 0; i < (int) lengthof(kind_names); i++)
	{
		if (strcmp(kind_names[i], name) == 0)
			return (SlMapKind) i;
	}
	ereport(ERROR,
			errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			errmsg("invalid kind of map: \"%s\"", name),
			errhint("Valid kinds are \"hash\", \"range\", \"list\" and \"spread\"."));
}

const char *
sl_state_name(SlState state)
{
	return state_names[state];
}

SlState
sl_state_parse(const char *name)
{
	for (int i = 0; i < (int) lengthof(state_names); i++)
	{
		if (strcmp(state_names[i], name) == 0)
			return (SlState) i;
	}
	ereport(ERROR,
			errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			errmsg("invalid state: \"%s\"", name),
			errhint("Valid states are \"online\", \"read_only\" and \"offline\"."));
}
