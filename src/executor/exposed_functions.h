/*
 * exposed_functions.h
 *		Which functions would run as a superuser if rows are written as one.
 */
#ifndef SL_EXPOSED_FUNCTIONS_H
#define SL_EXPOSED_FUNCTIONS_H

/* The parameter in it that names the router's columns. */
#define SL_EXPOSED_COLUMNS "$2::text[]"

extern const char sl_exposed_sql[];

#endif							/* SL_EXPOSED_FUNCTIONS_H */
