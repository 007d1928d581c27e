/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <stdlib.h>

#include "ctl.h"
#include "output.h"
#include "proto/jsonout.h"

static void print_json(const struct rdmabroker_reload_result *result)
{
	struct jsonout json = { .file = stdout };

	jsonout_open(&json, NULL, '{');
	jsonout_bool(&json, "ok", result->ok);
	jsonout_number(&json, "rules", result->n_rules);
	jsonout_open(&json, "complaints", '[');
	for (size_t i = 0; i < result->n_complaints; i++)
		jsonout_string(&json, NULL, result->complaints[i]);
	jsonout_close(&json, ']');
	jsonout_close(&json, '}');
	putchar('\n');
}

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

int verb_reload(const struct ctl *ctl, char **arguments)
{
	struct rdmabroker_reload_result *result;
	struct rdmabroker *session;
	int r, status;

	(void)arguments;
	status = ctl_open_session(ctl, /* as_admin= */ true, &session);
	if (status != 0)
		return status;
	r = rdmabroker_reload(session, &result);
	if (r < 0) {
		status = ctl_complain_failure(ctl, r);
	} else {
		(ctl->json ? print_json : print_text)(result);
		status = result->ok ? EXIT_SUCCESS : EXIT_FAILURE;
		rdmabroker_free_reload_result(result);
	}
	rdmabroker_close(session);
	return status;
}
