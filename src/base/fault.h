/*
 * fault.h
 *		Named crash points, for tests.
 *
 * sl_fault("name") does nothing, and is not even there, unless the library was
 * built with FAULTS=1.  Then the setting shardlet.fault, "name:action,...", says
 * what happens when it is reached: "kill" ends the process as kill -9 does,
 * "stop" ends the postmaster too, "error" throws, "wait=path" goes on when that
 * file exists, after a minute at the latest; it may be relative to the data
 * directory.
 */
#ifndef SL_FAULT_H
#define SL_FAULT_H

#ifdef SL_FAULTS
extern void sl_fault_reached(const char *name);
extern bool sl_fault_is_armed(const char *name);
#define sl_fault(name) sl_fault_reached(name)
#define sl_fault_armed(name) sl_fault_is_armed(name)
#else
#define sl_fault(name) ((void) 0)
#define sl_fault_armed(name) false
#endif

#endif							/* SL_FAULT_H */
