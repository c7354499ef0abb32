/*
 * fault_points.h
 *		Named fault points, for tests.
 *
 * sl_fault("name") is not compiled unless the library is built with FAULTS=1.
 * Then the setting shardlet.fault, "name:action,...", has the action for the point:
 * "kill" ends the process with SIGKILL, "stop" the postmaster as well, "error"
 * raises an error, "wait=path" waits until that file exists, but not longer than a
 * minute; the path may be relative to the data directory.
 */
#ifndef SL_FAULT_POINTS_H
#define SL_FAULT_POINTS_H

#ifdef SL_FAULTS
extern void sl_fault_reached(const char *name);
extern bool sl_fault_is_armed(const char *name);
#define sl_fault(name) sl_fault_reached(name)
#define sl_fault_armed(name) sl_fault_is_armed(name)
#else
#define sl_fault(name) ((void) 0)
#define sl_fault_armed(name) false
#endif

#endif							/* SL_FAULT_POINTS_H */
