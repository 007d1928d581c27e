/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <string.h>

#include "ctl/output.h"
#include "names.h"

void names_add(struct names *names, const char *name)
{
	size_t len = strlen(names->text);
	char text[65];

	if (names->n++ >= NAMES_MAX)
		return;
	printable(text, sizeof(text), name);
	snprintf(names->text + len, sizeof(names->text) - len, "%s%s", len > 0 ? ", " : "", text);
}

const char *names_text(struct names *names)
{
	size_t len = strlen(names->text);

	if (names->n > NAMES_MAX)
		snprintf(names->text + len, sizeof(names->text) - len, " and %u more",
			 names->n - NAMES_MAX);
	return names->text;
}
