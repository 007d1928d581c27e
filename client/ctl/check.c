/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl.h"
#include "output.h"

#ifndef RDMABROKERD
#define RDMABROKERD "/usr/sbin/rdmabrokerd"
#endif

/* Only rdmabrokerd has the parser, so run rdmabrokerd --check. A running daemon is not involved. */
int verb_check(struct ctl *ctl)
{
	const char *program = path_from("RDMABROKERD", RDMABROKERD);
	char **arguments = ctl->arguments, **argv;
	size_t n = 0, k = 0;

	while (arguments[n])
		n++;
	argv = calloc(n + 5, sizeof(*argv));
	if (!argv) {
		complain("out of memory");
		return EXIT_FAILURE;
	}
	argv[k++] = strdupa("rdmabrokerd");
	argv[k++] = strdupa("--check");
	if (ctl->json)
		argv[k++] = strdupa("--json");
	argv[k++] = strdupa("--");
	memcpy(argv + k, arguments, n * sizeof(*argv));
	execv(program, argv);
	complain("cannot run %s: %m", program);
	free(argv);
	return EXIT_FAILURE;
}
