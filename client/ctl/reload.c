/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <stdlib.h>

#include "ctl.h"
#include "table.h"

/* The verb reload: the daemon reads its files again, and its errors are printed here. */

static const struct column columns[] = {
	{ NULL, "ok", COLUMN_OF(struct rdmabroker_reload_result, ok) },
	{ NULL, "rules", COLUMN_OF(struct rdmabroker_reload_result, n_rules) },
	{ NULL, "complaints", COLUMN_OF(struct rdmabroker_reload_result, complaints) },
	{ NULL },
};

static void print_text(const struct rdmabroker_reload_result *result)
{
	const char *plural = result->n_rules == 1 ? "" : "s";

	if (result->ok) {
		printf("%u rule%s in force\n", result->n_rules, plural);
		return;
	}
	for (size_t i = 0; i < result->n_complaints; i++)
		fprintf(stderr, "%s\n", result->complaints[i]);
	/* If the policy is empty or none was loaded, the daemon rejects everything. */
	if (result->n_rules == 0) {
		complain("nothing was reloaded; the daemon still rejects everything");
		return;
	}
	complain("nothing was reloaded; the previous %u rule%s stay%s in force", result->n_rules,
		 plural, result->n_rules == 1 ? "s" : "");
}

int verb_reload(struct ctl *ctl)
{
	struct rdmabroker_reload_result *result;
	int r, status = ctl_open_session(ctl, /* as_admin= */ true);

	if (status != 0)
		return status;
	r = rdmabroker_reload(ctl->session, &result);
	if (r < 0)
		return ctl_complain_failure(ctl, r);
	if (ctl->json)
		print_json(columns, result);
	else
		print_text(result);
	status = result->ok ? EXIT_SUCCESS : EXIT_FAILURE;
	rdmabroker_free_reload_result(result);
	return status;
}
