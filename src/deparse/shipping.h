/*
 * shipping.h
 *		What the files of this folder share that decide what may travel.
 */
#ifndef SL_SHIPPING_H
#define SL_SHIPPING_H

#include "deparse/deparse.h"

/* The protocol counts them in two bytes. */
#define SL_MOST_PARAMS 65535

/* One expression or statement on its way. */
typedef struct SlShipping
{
	SlShip	   *ship;
	bool		has_failed;
	int			branches;		/* that it is in, and that may not be taken */
} SlShipping;

/* shippable.c */
extern Node *sl_shipping_node(Node *node, SlShipping *shipping);
extern Node *sl_shipping_shape(SlShip *ship, Node *node);
extern Node *sl_shipping_fail(SlShipping *shipping, Node *node);
extern bool sl_shipping_knows(const SlShip *ship, Oid object, Oid class);
extern bool sl_shipping_knows_function(const SlShip *ship, Oid function);

/* harmless.c */
extern bool sl_shipping_has_param(Node *node, void *context);
extern bool sl_shipping_calls_others(Node *node, void *context);

/* forms.c */
extern bool sl_form_is_one(Oid type);
extern bool sl_form_is_equal_cast(const CoerceViaIO *cast);
extern bool sl_form_is_equal_call(Oid function, List *args);

/* using.c */
extern bool sl_using_is_plain(const JoinExpr *join, List *rtable);

/* travel.c */
extern Node *sl_travel_query(Query *query, SlShipping *shipping);

#endif							/* SL_SHIPPING_H */
