/*
 * compat.h
 *		Every difference between PostgreSQL 15, 16, 17 and 18, in one place.
 *
 * The rest of the sources is written for the newest form of an API; what an
 * older server lacks is supplied here.  Code elsewhere never tests
 * PG_VERSION_NUM.
 */
#ifndef SL_COMPAT_H
#define SL_COMPAT_H

#include "catalog/pg_foreign_server.h"
#include "utils/acl.h"

#if PG_VERSION_NUM < 150000
#error "shardlet needs PostgreSQL 15 or later"
#endif

/* 16 replaced the per-catalog privilege checks by one. */
#if PG_VERSION_NUM < 160000
#define sl_server_ownercheck(serverid, roleid) \
	pg_foreign_server_ownercheck(serverid, roleid)
#else
#define sl_server_ownercheck(serverid, roleid) \
	object_ownercheck(ForeignServerRelationId, serverid, roleid)
#endif

/*
 * Minor releases of 2026 export a list of the libpq options that are safe in a
 * server process.  A weak reference finds it where it is there; the name is
 * resolved when the library is loaded, so one build serves every minor.
 */
extern bool libpqsrv_is_valid_proxy_option(const char *keyword) __attribute__((weak));

#endif							/* SL_COMPAT_H */
