/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <stdlib.h>

#include "ctl.h"
#include "table.h"

/* The verb metrics: the daemon's text, as it is. */

int verb_metrics(struct ctl *ctl)
{
	static const struct column columns[] = { { NULL, "openmetrics", .type = COLUMN_TEXT },
						 { NULL } };
	char *text;

	ctl_open_session(ctl, /* as_admin= */ true);
	ctl_check(ctl, rdmabroker_get_metrics(ctl->session, &text));
	if (ctl->json)
		print_json(columns, &text);
	else
		fputs(text, stdout);
	free(text);
	return EXIT_SUCCESS;
}
