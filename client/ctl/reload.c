/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <stdlib.h>

#include "ctl.h"
#include "list.h"
#include "table.h"

/* The verb reload: the daemon reads its files again, and its errors are printed here. */

enum {
	OPTION_DRY_RUN,
};

const struct verb_option reload_options[] = {
	[OPTION_DRY_RUN] = { "dry-run", NULL,
			     "change nothing; show what the rules would no longer allow" },
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
	if (result->n_rules == 0) {
		complain("nothing was reloaded; the daemon still rejects everything");
		return;
	}
	complain("nothing was reloaded; the previous %u rule%s stay%s in force", result->n_rules,
		 plural, result->n_rules == 1 ? "s" : "");
}

/* LIST NULL: it was no dry run, or it has failed. */
static int print(const struct ctl *ctl, const struct rdmabroker_reload_result *result,
		 const struct rdmabroker_list *list)
{
	struct jsonout json = { .file = stdout };

	if (!ctl->json) {
		print_text(result);
		return list ? list_print_denied(list) : EXIT_SUCCESS;
	}
	jsonout_open(&json, NULL, '{');
	json_members(&json, columns, result);
	if (list) {
		jsonout_open(&json, "denied", '[');
		list_json_denied(list, &json);
		jsonout_close(&json, ']');
	}
	jsonout_close(&json, '}');
	putchar('\n');
	return EXIT_SUCCESS;
}

int verb_reload(struct ctl *ctl)
{
	struct rdmabroker_reload_result *result;
	struct rdmabroker_list *list = NULL;
	int r, status = ctl_open_session(ctl, /* as_admin= */ true);

	if (status != 0)
		return status;
	r = rdmabroker_reload(ctl->session, ctl->given[OPTION_DRY_RUN], &result);
	if (r < 0)
		return ctl_complain_failure(ctl, r);
	if (result->dry_run)
		r = rdmabroker_get_list(ctl->session, result->dry_run, &list);
	if (r < 0)
		status = ctl_complain_failure(ctl, r);
	else
		status = print(ctl, result, list);
	if (!result->ok)
		status = EXIT_FAILURE;
	rdmabroker_free(list);
	rdmabroker_free(result);
	return status;
}
