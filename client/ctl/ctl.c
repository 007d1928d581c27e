/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"

const struct verb verbs[] = {
	{ "help", "Print this", verb_help },
	{ "status", "Print what the daemon is doing: policy, devices, counts", verb_status },
	{ "version", "Print the version of rdmabrokerctl", verb_version },
};
const size_t n_verbs = sizeof(verbs) / sizeof(verbs[0]);

void complain(const char *fmt, ...)
{
	va_list ap;

	fputs("rdmabrokerctl: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
}

int expect_no_arguments(int argc, char **argv)
{
	if (argc == 1)
		return 0;
	complain("%s takes no arguments, what is \"%s\"?", argv[0], argv[1]);
	return EXIT_USAGE;
}

int open_session(const struct ctl *ctl, struct rdmabroker **ret)
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

static int flush_output(void)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return EXIT_SUCCESS;
	complain("cannot write: %m");
	return EXIT_FAILURE;
}

int main(int argc, char **argv)
{
	static const struct option long_options[] = {
		{ "help", no_argument, NULL, 'h' },
		{ "json", no_argument, NULL, 'j' },
		{ "socket", required_argument, NULL, 's' },
		{ "version", no_argument, NULL, 'V' },
		{ 0 },
	};
	char help[] = "help", version[] = "version";
	char *only_verb[] = { NULL, NULL };
	struct ctl ctl = { 0 };
	int c, r;

	/* Options may stand before and after the verb: none of the verbs has its own. */
	while ((c = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
		switch (c) {
		case 'h':
			only_verb[0] = help;
			break;
		case 'j':
			ctl.json = true;
			break;
		case 's':
			ctl.socket = optarg;
			break;
		case 'V':
			only_verb[0] = version;
			break;
		default:
			complain("see rdmabrokerctl help");
			return EXIT_USAGE;
		}
	}
	if (only_verb[0]) {
		argc = 1;
		argv = only_verb;
	} else {
		argc -= optind;
		argv += optind;
	}
	if (argc < 1) {
		complain("what is to be done? See rdmabrokerctl help");
		return EXIT_USAGE;
	}

	for (size_t i = 0; i < n_verbs; i++) {
		if (strcmp(verbs[i].name, argv[0]) != 0)
			continue;
		r = verbs[i].run(&ctl, argc, argv);
		return r == EXIT_SUCCESS ? flush_output() : r;
	}
	complain("unknown verb \"%s\", see rdmabrokerctl help", argv[0]);
	return EXIT_USAGE;
}
