/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <stdlib.h>

#include "ctl.h"
#include "proto/json.h"

int verb_version(const struct ctl *ctl, char **arguments)
{
	struct json json = { .file = stdout };

	(void)arguments;
	if (ctl->json) {
		json_open(&json, NULL, '{');
		json_string(&json, "version", rdmabroker_get_version());
		json_close(&json, '}');
		putchar('\n');
	} else {
		printf("rdmabrokerctl %s\n", rdmabroker_get_version());
	}
	return EXIT_SUCCESS;
}
