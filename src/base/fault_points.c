/*
 * fault_points.c
 *		Fault injection for tests; see fault_points.h.
 */
#include "postgres.h"

#include "base/fault_points.h"

#ifdef SL_FAULTS

#include <signal.h>
#include <unistd.h>

#include "miscadmin.h"

#include "base/base.h"

#define MAX_WAIT_MS 60000
#define STEP_MS 10

/*
 * Looks up the action of this point in the setting.  Returns false if there is
 * none.
 */
static bool
find_action(const char *name, char *action, size_t size)
{
	size_t		length = strlen(name);

	for (const char *part = sl_fault_setting; part != NULL && *part != '\0';)
	{
		const char *end = part + strcspn(part, ",");

		if (strncmp(part, name, length) == 0 && part[length] == ':')
		{
			part += length + 1;
			strlcpy(action, part, Min(size, (size_t) (end - part) + 1));
			return true;
		}
		part = *end == ',' ? end + 1 : end;
	}
	return false;
}

bool
sl_fault_is_armed(const char *name)
{
	char		action[MAXPGPATH];

	return find_action(name, action, sizeof(action));
}

/*
 * Waits until the file exists.  Interrupts are not checked: a cancel must not end
 * this.
 */
static void
wait_for_file(const char *path)
{
	for (int waited = 0; waited < MAX_WAIT_MS && access(path, F_OK) != 0; waited += STEP_MS)
		pg_usleep(STEP_MS * 1000L);
}

void
sl_fault_reached(const char *name)
{
	char		action[MAXPGPATH];

	if (!find_action(name, action, sizeof(action)))
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
/* ISO C does not allow an empty file. */
extern int	sl_fault_nothing;
#endif
