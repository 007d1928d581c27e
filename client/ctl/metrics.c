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
	int r, status = ctl_open_session(ctl, /* as_admin= */ true);
	char *text;

	if (status != 0)
		return status;
	r = rdmabroker_get_metrics(ctl->session, &text);
	if (r < 0)
		return ctl_complain_failure(ctl, r);
	if (ctl->json)
		print_json(columns, &text);
	else
		fputs(text, stdout);
	free(text);
	return EXIT_SUCCESS;
}
