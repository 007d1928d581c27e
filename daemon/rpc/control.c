/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/object/session.h"
#include "rpc/control.h"
#include "util/diag.h"
#include "util/log.h"

void control_init(struct control *control, uint64_t (*reload)(void *userdata), void *userdata)
{
	*control = (struct control){ .reload = reload, .userdata = userdata };
	list_init(&control->reloading);
}

void control_done(struct control *control)
{
	diag_free(control->reloaded_diag);
	free(control->policy_error);
}

void control_set_policy_error(struct control *control, const char *error)
{
	free(control->policy_error);
	control->policy_error = error ? strdup(error) : NULL;
	if (error && !control->policy_error)
		log_error(
			"Cannot store the policy's error, so status will not show it: out of memory.");
}

const char *control_get_policy_error(const struct control *control)
{
	return control->policy_error ?: "";
}

void control_reloaded(struct control *control, uint64_t ticket, int r, struct diag *diag)
{
	control->reloaded_ticket = ticket;
	control->reloaded_r = r;
	diag_free(control->reloaded_diag);
	control->reloaded_diag = diag;
	/* Sessions that wait for a later reload are resumed too, and begin to wait again. */
	session_resume_all(&control->reloading);
}

int control_reload(struct control *control, struct session *session, uint64_t *ticket, bool again,
		   const struct diag **ret_diag)
{
	if (!again)
		*ticket = control->reload(control->userdata);
	if (control->reloaded_ticket < *ticket) {
		session_wait(session, &control->reloading);
		return -EINPROGRESS;
	}
	*ret_diag = control->reloaded_diag;
	return control->reloaded_r;
}
