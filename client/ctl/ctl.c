/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "output.h"
#include "proto/word.h"

const struct verb *ctl_find_verb(const struct ctl *ctl, const char *name)
{
	struct word_guess guess = { .word = name, .len = strlen(name) };

	for (const struct verb *verb = ctl->verbs; verb->name; verb++) {
		if (strcmp(verb->name, name) == 0)
			return verb;
		word_guess(&guess, verb->name);
	}
	complain_unknown("verb", /* prefix= */ "", &guess, NULL);
	return NULL;
}

int ctl_open_session(const struct ctl *ctl, struct rdmabroker **ret)
{
	const struct rdmabroker_options options = { .size = sizeof(options),
						    .socket = ctl->socket };
	int r;

	r = rdmabroker_open(ret, &options);
	if (r == 0)
		return 0;
	complain("%s", rdmabroker_open_error());
	if (r == -ENOENT || r == -ECONNREFUSED)
		complain(
			"the daemon is not running; start it with \"systemctl start rdmabrokerd\"");
	return EXIT_FAILURE;
}

int ctl_complain_failure(struct rdmabroker *session, int r)
{
	struct rdmabroker_failure failure = { 0 };

	rdmabroker_get_failure(session, &failure);
	complain("%s", failure.text ? failure.text : strerror(-r));
	if (r == -EACCES || r == -EPERM)
		complain("try again as root");
	return EXIT_FAILURE;
}

int ctl_see_help(const struct verb *verb)
{
	complain("see rdmabrokerctl help%s%s", verb ? " " : "", verb ? verb->name : "");
	return EXIT_USAGE;
}
