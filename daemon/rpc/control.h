/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* What admins control of the daemon: reloading its configuration and policy. */

#include <stdbool.h>
#include <stdint.h>

#include "util/list.h"

struct diag;
struct session;

struct control {
	uint64_t (*reload)(void *userdata); /* see server_ops */
	void *userdata;
	char *policy_error;
	struct list reloading; /* session.waiting: for a reload to be done */
	uint64_t reloaded_ticket; /* of the last reload that is done; 0: none */
	int reloaded_r;
	struct diag *reloaded_diag;
};

void control_init(struct control *control, uint64_t (*reload)(void *userdata), void *userdata);
void control_done(struct control *control);

/* The first error of the last reload, or of the start, as in "file:line:column: text"; NULL: none. Copied. */
void control_set_policy_error(struct control *control, const char *error);
const char *control_get_policy_error(const struct control *control); /* never NULL */

/*
 * All reloads up to TICKET are done. R: 0, or a negative errno; DIAG, which is taken over and may be NULL,
 * has the errors.
 */
void control_reloaded(struct control *control, uint64_t ticket, int r, struct diag *diag);
/*
 * Starts a reload for SESSION's request, unless AGAIN: then it was started before,
 * and *TICKET is as it was left. -EINPROGRESS: it is not
 * done yet, and the request is to be repeated. Otherwise R of control_reloaded(); *RET_DIAG stays the
 * control's, and may be NULL.
 */
int control_reload(struct control *control, struct session *session, uint64_t *ticket, bool again,
		   const struct diag **ret_diag);

uint32_t control_count_fds(void); /* open in this process; 0: not known */
