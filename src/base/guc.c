/*
 * guc.c
 *		The settings (GUCs).
 *
 * shardlet.identity, shardlet.made_for and shardlet.shard_id are not for sessions:
 * add_shard sets them with ALTER DATABASE ... SET in the database that becomes a
 * shard, because that works without this extension, and they are read with
 * current_setting().  They are defined only so that a server that has loaded this
 * library accepts them.
 */
#include "postgres.h"

#include <limits.h>

#include "miscadmin.h"
#include "utils/guc.h"

#include "base/base.h"

int			sl_connect_timeout;
int			sl_shard_timeout;
int			sl_silence_timeout;
int			sl_max_parallel_shards;
int			sl_recovery_interval;
int			sl_analyze_interval;
int			sl_deadlock_timeout;
int			sl_move_rate;
int			sl_move_wait_timeout;
bool		sl_carry_ddl;
bool		sl_consistent_reads;
bool		sl_partial_results;
int			sl_cross_shard;
bool		sl_ship_statements;
bool		sl_scatter_statements;
bool		sl_multi_shard_transactions;
bool		sl_router;
char	   *sl_fault_setting;

static char *shard_identity;
static char *shard_made_for;
static char *shard_number;
static bool preloaded;

static const struct config_enum_entry cross_shard_values[] = {
	{"allow", SL_CROSS_SHARD_ALLOW, false},
	{"warn", SL_CROSS_SHARD_WARN, false},
	{"forbid", SL_CROSS_SHARD_FORBID, false},
	{NULL, 0, false}
};

typedef struct IntSetting
{
	const char *name;
	const char *description;
	int		   *variable;
	int			default_value;
	int			min;
	int			max;
	GucContext	context;
	int			flags;
} IntSetting;

typedef struct BoolSetting
{
	const char *name;
	const char *description;
	bool	   *variable;
	bool		default_value;
	GucContext	context;
} BoolSetting;

typedef struct StringSetting
{
	const char *name;
	const char *description;
	char	  **variable;
	int			flags;
} StringSetting;

static const IntSetting int_settings[] = {
	{
		"shardlet.analyze_interval",
		"Time between looks at which distributed tables need ANALYZE; 0 is never.",
		&sl_analyze_interval, 60 * 1000, 0, INT_MAX, PGC_SIGHUP, GUC_UNIT_MS
	},
	{
		"shardlet.connect_timeout",
		"Longest time to wait for a connection to a shard.",
		&sl_connect_timeout, 5000, 10, 3600 * 1000, PGC_USERSET, GUC_UNIT_MS
	},
	{
		"shardlet.deadlock_timeout",
		"Time to wait on a shard before looking for a deadlock over several shards.",
		&sl_deadlock_timeout, 1000, 10, INT_MAX, PGC_SUSET, GUC_UNIT_MS
	},
	{
		"shardlet.max_parallel_shards",
		"Largest number of shards that one statement works on at a time.",
		&sl_max_parallel_shards, 64, 1, 65536, PGC_USERSET, 0
	},
	{
		"shardlet.move_rate",
		"Largest number of bytes that one move copies in a second; 0 is no limit.",
		&sl_move_rate, 0, 0, INT_MAX, PGC_SIGHUP, GUC_UNIT_KB
	},
	{
		"shardlet.move_wait_timeout",
		"Longest time that a move waits for transactions that are older than one of its steps; 0 is no limit.",
		&sl_move_wait_timeout, 600 * 1000, 0, INT_MAX, PGC_SIGHUP, GUC_UNIT_MS
	},
	{
		"shardlet.recovery_interval",
		"Time between attempts to finish transactions that were left prepared on shards.",
		&sl_recovery_interval, 5000, 100, 3600 * 1000, PGC_SIGHUP, GUC_UNIT_MS
	},
	{
		"shardlet.shard_timeout",
		"Longest time to wait for one shard's part of a statement; 0 is no limit.",
		&sl_shard_timeout, 0, 0, INT_MAX, PGC_USERSET, GUC_UNIT_MS
	},
	{
		"shardlet.silence_timeout",
		"Time without data from a shard after which it is checked whether it is alive; 0 is never.",
		&sl_silence_timeout, 10 * 1000, 0, INT_MAX, PGC_USERSET, GUC_UNIT_MS
	},
};

static const BoolSetting bool_settings[] = {
	{
		"shardlet.carry_ddl",
		"Carries DDL on tables whose rows are on shards to the shards.",
		&sl_carry_ddl, true, PGC_SUSET
	},
	{
		"shardlet.consistent_reads",
		"Reads of several shards see each transaction on all of them or on none.",
		&sl_consistent_reads, true, PGC_USERSET
	},
	{
		"shardlet.partial_results",
		"Lets SELECT on sharded tables go on without shards that fail.",
		&sl_partial_results, false, PGC_USERSET
	},
	{
		"shardlet.multi_shard_transactions",
		"Allows a transaction to write to several shards.",
		&sl_multi_shard_transactions, true, PGC_USERSET
	},
	{
		"shardlet.ship",
		"Sends a statement that one shard can answer there as a whole.",
		&sl_ship_statements, true, PGC_USERSET
	},
	{
		"shardlet.scatter",
		"Sends a statement that each shard can answer for its own rows to all of them.",
		&sl_scatter_statements, true, PGC_USERSET
	},
	{
		"shardlet.router",
		"On a shard: this session is a router's.",
		&sl_router, false, PGC_USERSET
	},
};

static const StringSetting string_settings[] = {
#ifdef SL_FAULTS
	{
		"shardlet.fault",
		"Named crash point and what happens there, for tests.",
		&sl_fault_setting, GUC_NO_SHOW_ALL | GUC_NOT_IN_SAMPLE
	},
#endif
	{
		"shardlet.identity",
		"Identity of this database as a shard, set by add_shard.",
		&shard_identity, GUC_NO_SHOW_ALL | GUC_NOT_IN_SAMPLE
	},
	{
		"shardlet.made_for",
		"Router and shard that this database was created for, set by add_shard.",
		&shard_made_for, GUC_NO_SHOW_ALL | GUC_NOT_IN_SAMPLE
	},
	{
		"shardlet.shard_id",
		"Number of this database as a shard, set by add_shard.",
		&shard_number, GUC_NO_SHOW_ALL | GUC_NOT_IN_SAMPLE
	},
};

void
sl_guc_init(void)
{
	for (int i = 0; i < (int) lengthof(int_settings); i++)
	{
		const IntSetting *setting = &int_settings[i];

		DefineCustomIntVariable(setting->name, setting->description, NULL,
								setting->variable, setting->default_value,
								setting->min, setting->max, setting->context,
								setting->flags, NULL, NULL, NULL);
	}
	for (int i = 0; i < (int) lengthof(bool_settings); i++)
	{
		const BoolSetting *setting = &bool_settings[i];

		DefineCustomBoolVariable(setting->name, setting->description, NULL,
								 setting->variable, setting->default_value,
								 setting->context, 0, NULL, NULL, NULL);
	}
	DefineCustomEnumVariable("shardlet.cross_shard",
							 "Warns of statements that go to all shards, or forbids them.", NULL,
							 &sl_cross_shard, SL_CROSS_SHARD_ALLOW, cross_shard_values,
							 PGC_USERSET, 0, NULL, NULL, NULL);
	for (int i = 0; i < (int) lengthof(string_settings); i++)
	{
		const StringSetting *setting = &string_settings[i];

		DefineCustomStringVariable(setting->name, setting->description, NULL,
								   setting->variable, "", PGC_USERSET,
								   setting->flags, NULL, NULL, NULL);
	}
	sl_forward_init();
	sl_new_table_setting_init();
	MarkGUCPrefixReserved("shardlet");
	preloaded = process_shared_preload_libraries_in_progress;
}

/*
 * Was the library preloaded (shared_preload_libraries)?  A router needs that:
 * otherwise no hook sees the first statement of a session.
 */
bool
sl_preloaded(void)
{
	return preloaded;
}

/*
 * Sets fixed input and output formats.  The caller has begun a GUC nest level,
 * whose end restores the settings.
 */
void
sl_guc_set_plain(void)
{
	static const char *const settings[][2] = {
		{"datestyle", "ISO, YMD"},
		{"intervalstyle", "postgres"},
		{"timezone", "UTC"},
		{"extra_float_digits", "3"},
		{"bytea_output", "hex"},
	};

	for (int i = 0; i < (int) lengthof(settings); i++)
		(void) set_config_option(settings[i][0], settings[i][1], PGC_USERSET,
								 PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
}
