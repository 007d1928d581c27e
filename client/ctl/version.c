/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <stdlib.h>

#include "ctl.h"
#include "table.h"

/* The verb version, of this program. `status` has the daemon's. */

int verb_version(struct ctl *ctl)
{
	static const struct column columns[] = { { NULL, "version", .type = COLUMN_TEXT },
						 { NULL } };
	const char *version = rdmabroker_get_version();

	if (ctl->json)
		print_json(columns, &version);
	else
		printf("rdmabrokerctl %s\n", version);
	return EXIT_SUCCESS;
}
