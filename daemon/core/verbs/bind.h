/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Binding of ids to local addresses. */

#include <rdma/rdma_cma.h>
#include <stdbool.h>

struct failure;
struct id;
struct session;

/*
 * The verbs of ids return 0, a status that FAILURE explains, or a negative errno. -EINPROGRESS: the client's request
 * waits, and the caller has to repeat it when session_ops.resume is called.
 */
int bind_addr(struct id *id, const struct sockaddr *addr, struct failure *failure);
/* Sets REUSEADDR of a bound id, if policy allows that. REUSEADDR false: returns STATUS_BAD_STATE. */
int bind_late_reuseaddr(struct id *id, bool reuseaddr, struct failure *failure);
/*
 * Checks that SESSION is allowed to use the port of ADDR. A port below 1024 needs a rule that allows listen and names
 * the port. Returns 0 or STATUS_DENIED. VERB is for messages ("bind").
 */
int bind_check_port(struct session *session, enum rdma_port_space ps, const struct sockaddr *addr,
		    const char *verb, struct failure *failure);
/*
 * Checks that ADDR, if it is of AF_IB, names no service but one of ID's port space: rules decide by the port alone.
 * IS_PEER: a connection goes to ADDR. Returns 0 or STATUS_BAD_REQUEST. VERB is for messages.
 */
int bind_check_service(const struct id *id, const struct sockaddr *addr, bool is_peer,
		       const char *verb, struct failure *failure);
/* Checks that SESSION is allowed to import ID, which is BOUND. WHAT is for messages ("take over"). */
int bind_decide_over(struct session *session, const struct id *id, const char *what,
		     struct failure *failure);
