/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Local addresses. */

#include <rdma/rdma_cma.h>
#include <stdbool.h>

struct failure;
struct id;
struct session;

/*
 * The verbs of ids, here and in the other headers, return 0, a status that FAILURE explains, or a negative errno. Those that bind, listen, resolve an address or offer a QP may return -EINPROGRESS: then the request
 * is to be repeated when session_ops.resume is called.
 */
int bind_addr(struct id *id, const struct sockaddr *addr, struct failure *failure);
int bind_any(struct id *id,
	     struct failure *failure); /* to the IPv4 wildcard address and a free port */
/* Sets REUSEADDR after the id was bound. */
int bind_late_reuseaddr(struct id *id, bool reuseaddr, struct failure *failure);
/* Checks that SESSION may use the port of ADDR, see policy_check_port(). VERB as in "bind". */
int bind_check_port(struct session *session, enum rdma_port_space ps, const struct sockaddr *addr,
		    const char *verb, struct failure *failure);
/* Checks that SESSION may have ID, which is in state BOUND. WHAT as in "take over". */
int bind_decide_over(struct session *session, const struct id *id, const char *what,
		     struct failure *failure);
