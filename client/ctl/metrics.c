/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <stdlib.h>

#include "ctl.h"
#include "proto/jsonout.h"

static void print_json(const char *text)
{
	struct jsonout json = { .file = stdout };

	jsonout_open(&json, NULL, '{');
	jsonout_string(&json, "openmetrics", text);
	jsonout_close(&json, '}');
	putchar('\n');
}

int verb_metrics(const struct ctl *ctl, char **arguments)
{
	struct rdmabroker *session;
	int r, status;
	char *text;

	(void)arguments;
	status = ctl_open_session(ctl, /* as_admin= */ true, &session);
	if (status != 0)
		return status;
	r = rdmabroker_get_metrics(session, &text);
	if (r < 0) {
		status = ctl_complain_failure(ctl, r);
	} else {
		if (ctl->json)
			print_json(text);
		else
			fputs(text, stdout);
		free(text);
	}
	rdmabroker_close(session);
	return status;
}
