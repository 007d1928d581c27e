/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <stdlib.h>

#include "ctl.h"
#include "list.h"
#include "table.h"

/* The verb reload: the daemon reads its files again, and its errors are printed here. */

static const char *dry_run;

const struct verb_option reload_options[] = {
	{ "dry-run", NULL, "change nothing; show what the rules would no longer allow",
	  .given = &dry_run },
	{ NULL },
};

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
		printf("%u rule%s %s\n", result->n_rules, plural,
		       result->dry_run ? "would be in force" : "in force");
		return;
	}
	for (size_t i = 0; i < result->n_complaints; i++)
		fprintf(stderr, "%s\n", escaped(result->complaints[i]));
	/* If the policy is empty or none was loaded, the daemon rejects everything. */
	if (result->n_rules == 0)
		complain("nothing was reloaded; the daemon still rejects everything");
	else
		complain("nothing was reloaded; the previous %u rule%s stay%s in force",
			 result->n_rules, plural, result->n_rules == 1 ? "s" : "");
}

/* LIST NULL: it was no dry run, or it has failed. */
static void print_as_json(const struct rdmabroker_reload_result *result,
			  const struct rdmabroker_list *list)
{
	struct jsonout json;

	json_begin(&json);
	json_members(&json, columns, result);
	if (list)
		list_print_denied(list, &json);
	json_end(&json);
}

int verb_reload(struct ctl *ctl)
{
	struct rdmabroker_reload_result *result;
	struct rdmabroker_list *list = NULL;
	int status;

	ctl_open_session(ctl, /* as_admin= */ true);
	ctl_check(ctl, rdmabroker_reload(ctl->session, dry_run, &result));
	if (result->dry_run)
		ctl_check(ctl, rdmabroker_get_list(ctl->session, result->dry_run, &list));
	if (ctl->json)
		print_as_json(result, list);
	else
		print_text(result);
	if (!ctl->json && list)
		list_print_denied(list, NULL);
	status = result->ok ? EXIT_SUCCESS : EXIT_FAILURE;
	rdmabroker_free(list);
	rdmabroker_free(result);
	return status;
}
