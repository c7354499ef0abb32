/*
 * incarnation.c
 *		Which router is this?  A number in the name of every transaction that is
 *		prepared on a shard.
 *
 * Recovery decides prepared transactions by this server's own log of commits.
 * A copy of the server, or one restored from a backup, has the same name and
 * another log: it must not decide what the original prepared.  So the number is
 * kept in a file of the data directory, together with what tells this data
 * directory from a copy of it (inode and time of birth of its PG_VERSION); where
 * that differs, the server takes a new number.  Snapshots of a whole machine
 * look alike: there an administrator removes the file before the copy starts.
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "access/xlog.h"
#include "miscadmin.h"
#include "storage/fd.h"

#include "base/base.h"
#include "stat/stat.h"

#define INCARNATION_FILE "shardlet_incarnation"
#define LINE_SIZE 200

/* 0: there is none, and nothing can be prepared. */
static uint64 incarnation;

/* What tells this data directory from a copy of it. */
static void
describe_directory(char *buffer, size_t size)
{
	uint64		system = GetSystemIdentifier();
	struct stat status;
	long long	born = 0;

	if (stat("PG_VERSION", &status) != 0)
		status.st_ino = 0;
#ifdef STATX_BTIME
	{
		struct statx more;

		if (statx(AT_FDCWD, "PG_VERSION", 0, STATX_BTIME, &more) == 0 &&
			(more.stx_mask & STATX_BTIME) != 0)
			born = (long long) more.stx_btime.tv_sec * 1000000000 + more.stx_btime.tv_nsec;
	}
#endif
	snprintf(buffer, size, "%llu %llu %lld", (unsigned long long) system,
			 (unsigned long long) status.st_ino, born);
}

static bool
read_line(char *line)
{
	int			file = OpenTransientFile(INCARNATION_FILE, O_RDONLY | PG_BINARY);
	int			length;

	if (file < 0)
		return false;
	length = (int) read(file, line, LINE_SIZE - 1);
	CloseTransientFile(file);
	line[Max(length, 0)] = '\0';
	return length > 0;
}

static bool
write_line(const char *line)
{
	int			file = OpenTransientFile(INCARNATION_FILE ".tmp",
										 O_CREAT | O_TRUNC | O_WRONLY | PG_BINARY);
	ssize_t		length = (ssize_t) strlen(line);
	bool		written;

	if (file < 0)
		return false;
	written = write(file, line, length) == length && pg_fsync(file) == 0;
	CloseTransientFile(file);
	return written &&
		durable_rename(INCARNATION_FILE ".tmp", INCARNATION_FILE, LOG) == 0;
}

/* Reads the file; if it is missing, or a copy, makes a new one if asked to. */
void
sl_incarnation_load(bool create)
{
	char		directory[LINE_SIZE];
	char		line[LINE_SIZE * 2];
	char		found[LINE_SIZE];
	char	   *rest;

	describe_directory(directory, sizeof(directory));
	if (read_line(found))
	{
		incarnation = strtoull(found, &rest, 16);
		if (rest[0] == ' ' && strcmp(rest + 1, directory) == 0)
			return;
	}
	incarnation = 0;
	if (!create)
		return;
	if (!pg_strong_random(&incarnation, sizeof(incarnation)))
		incarnation = 0;
	snprintf(line, sizeof(line), "%016llx %s", (unsigned long long) incarnation, directory);
	if (!write_line(line))
	{
		incarnation = 0;
		ereport(LOG,
				errcode_for_file_access(),
				errmsg("could not write file \"%s\": %m", INCARNATION_FILE),
				errdetail("Transactions over several shards will be refused."));
	}
}

/* Returns the number, or 0 if there is none. */
uint64
sl_incarnation(void)
{
	if (incarnation == 0 && !sl_stat_is_shared())
		sl_incarnation_load(false);
	return incarnation;
}
