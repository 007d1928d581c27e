/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/object/session.h"
#include "policy/policy.h"
#include "rpc/control.h"
#include "util/diag.h"
#include "util/log.h"

void control_init(struct control *control, uint64_t (*reload)(void *userdata, bool dry_run),
		  void *userdata)
{
	*control = (struct control){ .reload = reload, .userdata = userdata };
	for (int i = 0; i < 2; i++)
		list_init(&control->reloads[i].waiting);
}

void control_done(struct control *control)
{
	for (int i = 0; i < 2; i++)
		diag_free(control->reloads[i].diag);
	policy_unref(control->dry_policy);
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

void control_reloaded(struct control *control, bool dry_run, uint64_t ticket, int r,
		      struct diag *diag, struct policy *policy)
{
	struct control_reloads *reloads = &control->reloads[dry_run];

	policy_unref(control->dry_policy);
	control->dry_policy = dry_run && r == 0 ? policy_ref(policy) : NULL;
	reloads->ticket = ticket;
	reloads->r = r;
	diag_free(reloads->diag);
	reloads->diag = diag;
	/* Sessions that wait for a later one are resumed too, and begin to wait again. */
	session_resume_all(&reloads->waiting);
}

int control_reload(struct control *control, struct session *session, bool dry_run, uint64_t *ticket,
		   bool again, const struct diag **ret_diag)
{
	struct control_reloads *reloads = &control->reloads[dry_run];

	if (!again)
		*ticket = control->reload(control->userdata, dry_run);
	if (reloads->ticket < *ticket) {
		session_wait(session, &reloads->waiting);
		return -EINPROGRESS;
	}
	*ret_diag = reloads->diag;
	return reloads->r;
}

struct policy *control_get_dry_policy(const struct control *control, uint64_t number)
{
	return number == control->reloads[true].ticket ? control->dry_policy : NULL;
}
