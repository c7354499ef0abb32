/*
 * fault.c
 *		What happens at a named crash point; see fault.h.
 */
#include "postgres.h"

#include "base/fault.h"

#ifdef SL_FAULTS

#include <signal.h>
#include <unistd.h>

#include "miscadmin.h"

#include "base/base.h"

#define LONGEST_WAIT_MS 60000
#define STEP_MS 10

/* Returns what to do at this point, or NULL. */
static const char *
action_at(const char *name)
{
	size_t		length = strlen(name);

	if (sl_fault_setting == NULL || strncmp(sl_fault_setting, name, length) != 0 ||
		sl_fault_setting[length] != ':')
		return NULL;
	return sl_fault_setting + length + 1;
}

bool
sl_fault_is_armed(const char *name)
{
	return action_at(name) != NULL;
}

/*
 * Waits in a way that no cancel ends: what happens here is that time passes.
 * The file that the action names ends it when it appears.
 */
static void
wait_for_file(const char *path)
{
	for (int waited = 0; waited < LONGEST_WAIT_MS && access(path, F_OK) != 0; waited += STEP_MS)
		pg_usleep(STEP_MS * 1000L);
}

void
sl_fault_reached(const char *name)
{
	const char *action = action_at(name);

	if (action == NULL)
		return;
	fprintf(stderr, "fault %s: %s\n", name, action);
	if (strcmp(action, "kill") == 0)
		kill(MyProcPid, SIGKILL);
	else if (strcmp(action, "stop") == 0)
	{
		kill(PostmasterPid, SIGKILL);
		kill(MyProcPid, SIGKILL);
	}
	else if (strcmp(action, "error") == 0)
		elog(ERROR, "fault %s", name);
	else if (strncmp(action, "wait=", 5) == 0)
		wait_for_file(action + 5);
}

#else
/* An empty file is not allowed. */
extern int	sl_fault_nothing;
#endif
