/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>
#include <unistd.h>

#include "ctl.h"
#include "grow.h"
#include "output.h"
#include "sitecheck.h"

/* Only rdmabrokerd has the parser, so run rdmabrokerd --check. A running daemon is not involved. */
int verb_check(struct ctl *ctl)
{
	const char *program = sitecheck_program();
	char **arguments = ctl->arguments, **argv;
	size_t n = 0, k = 0;

	while (arguments[n])
		n++;
	argv = allocated(calloc(n + 5, sizeof(*argv)));
	argv[k++] = strdupa("rdmabrokerd");
	argv[k++] = strdupa("--check");
	if (ctl->json)
		argv[k++] = strdupa("--json");
	argv[k++] = strdupa("--");
	memcpy(argv + k, arguments, n * sizeof(*argv));
	execv(program, argv);
	die(EXIT_FAILURE, "cannot run %s: %m", program);
}
