/*
 * router_instance.c
 *		The router instance: a number in the name of every transaction that
 *		is prepared on a shard.
 *
 * Recovery decides prepared transactions by this server's own commit log.  A
 * copy of the server, or one restored from a backup, has the same name and
 * another log: it must not decide what the original prepared.  So the number
 * is stored in a file of the data directory, together with properties that
 * differ for a copy (inode and birth time of its PG_VERSION); if these do not
 * match, the server takes a new number.  Snapshots of a whole machine have the
 * same properties: there an administrator removes the file before the copy
 * starts.
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "access/xlog.h"
#include "miscadmin.h"
#include "storage/fd.h"

#include "base/base.h"
#include "metadata/shared_memory.h"

#define ROUTER_INSTANCE_FILE "shardlet_incarnation"
#define LINE_SIZE 200

/* 0: there is none, and nothing can be prepared. */
static uint64 router_instance;

/* What distinguishes this data directory from a copy of it. */
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
	int			file = OpenTransientFile(ROUTER_INSTANCE_FILE, O_RDONLY | PG_BINARY);
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
	int			file = OpenTransientFile(ROUTER_INSTANCE_FILE ".tmp",
										 O_CREAT | O_TRUNC | O_WRONLY | PG_BINARY);
	ssize_t		length = (ssize_t) strlen(line);
	bool		written;

	if (file < 0)
		return false;
	written = write(file, line, length) == length && pg_fsync(file) == 0;
	CloseTransientFile(file);
	return written &&
		durable_rename(ROUTER_INSTANCE_FILE ".tmp", ROUTER_INSTANCE_FILE, LOG) == 0;
}

/*
 * Reads the file; if it is missing, or a copy, makes a new one if requested.
 */
void
sl_router_instance_load(bool create)
{
	char		directory[LINE_SIZE];
	char		line[LINE_SIZE * 2];
	char		found[LINE_SIZE];
	char	   *rest;

	describe_directory(directory, sizeof(directory));
	if (read_line(found))
	{
		router_instance = strtoull(found, &rest, 16);
		if (rest[0] == ' ' && strcmp(rest + 1, directory) == 0)
			return;
	}
	router_instance = 0;
	if (!create)
		return;
	if (!pg_strong_random(&router_instance, sizeof(router_instance)))
		router_instance = 0;
	snprintf(line, sizeof(line), "%016llx %s", (unsigned long long) router_instance, directory);
	if (!write_line(line))
	{
		router_instance = 0;
		ereport(LOG,
				errcode_for_file_access(),
				errmsg("could not write file \"%s\": %m", ROUTER_INSTANCE_FILE),
				errdetail("Transactions over several shards will be refused."));
	}
}

/* Returns the number, or 0 if there is none. */
uint64
sl_router_instance(void)
{
	if (router_instance == 0 && !sl_shmem_is_shared())
		sl_router_instance_load(false);
	return router_instance;
}
