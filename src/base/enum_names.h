/*
 * enum_names.h
 *		Kinds of maps and states, which router and shards exchange by name.
 */
#ifndef SL_ENUM_NAMES_H
#define SL_ENUM_NAMES_H

typedef enum SlMapKind
{
	SL_KIND_HASH,
	SL_KIND_RANGE,
	SL_KIND_LIST,
	SL_KIND_SPREAD
} SlMapKind;

typedef enum SlState
{
	SL_STATE_ONLINE,
	SL_STATE_READ_ONLY,
	SL_STATE_MOVING,
	SL_STATE_OFFLINE
} SlState;

/* enum_names.c */
extern const char *sl_kind_name(SlMapKind kind);
extern SlMapKind sl_kind_parse(const char *name);
extern const char *sl_state_name(SlState state);
extern SlState sl_state_parse(const char *name);

#endif							/* SL_ENUM_NAMES_H */
