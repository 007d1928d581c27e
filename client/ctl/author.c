/* SPDX-License-Identifier: BSD-2-Clause */
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "author.h"
#include "proto/text.h"

void author_text(char ret[AUTHOR_MAX])
{
	const char *sudo = geteuid() == 0 ? getenv("SUDO_USER") : NULL;
	const struct passwd *entry = getpwuid(getuid());
	char host[65] = "", uid[32];
	const char *user;

	gethostname(host, sizeof(host) - 1);
	snprintf(uid, sizeof(uid), "%u", getuid());
	user = entry ? entry->pw_name : uid;
	if (sudo && *sudo && strcmp(sudo, user) != 0)
		snprintf(ret, AUTHOR_MAX, "%.128s@%s (as %.128s)", sudo, host, user);
	else
		snprintf(ret, AUTHOR_MAX, "%.128s@%s", user, host);
	text_make_printable(ret, strlen(ret));
}
