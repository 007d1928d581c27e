/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>

#include "client/internal.h"

/*
 * The kernel's id is spent once its connect request was rejected. To try again there has to be another
 * one, with the same options and addresses; the program's id, and its QP, stay.
 */

static int64_t left(int64_t deadline)
{
	int64_t ms = deadline - now_ms();

	return ms > 0 ? ms : 1;
}

static int set_options(struct rdmabroker_id *id)
{
	int r = 0;

	for (int i = 0; i < 4 && r == 0; i++)
		if (id->options[i] >= 0)
			r = rdmabroker_set_option(id, (enum rdmabroker_option)i, id->options[i]);
	return r;
}

int id_renew(struct rdmabroker_id *id, int64_t deadline)
{
	struct sockaddr_storage local = id->local, peer = id->peer, src = id->src;
	int r;

	id_give_up(id);
	r = id_create(id);
	if (r == 0)
		r = set_options(id);
	if (r == 0 && id->bound)
		r = rdmabroker_bind_addr(id, (struct sockaddr *)&local);
	if (r == 0)
		r = rdmabroker_resolve_addr_wait(
			id, src.ss_family && !id->bound ? (struct sockaddr *)&src : NULL,
			(struct sockaddr *)&peer, (int)left(deadline));
	if (r == 0)
		r = rdmabroker_resolve_route_wait(id, (int)left(deadline));
	return r;
}
