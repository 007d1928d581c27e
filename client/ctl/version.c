/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <stdlib.h>

#include "ctl.h"
#include "proto/jsonout.h"

int verb_version(const struct ctl *ctl, char **arguments)
{
	struct jsonout json = { .file = stdout };

	(void)arguments;
	if (ctl->json) {
		jsonout_open(&json, NULL, '{');
		jsonout_string(&json, "version", rdmabroker_get_version());
		jsonout_close(&json, '}');
		putchar('\n');
	} else {
		printf("rdmabrokerctl %s\n", rdmabroker_get_version());
	}
	return EXIT_SUCCESS;
}
