/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Contains errors that sanitizers must report. */

static void *volatile kept;

int main(int argc, char **argv)
{
	const char *what = argc == 2 ? argv[1] : "";
	volatile int big = 1 << 30;

	kept = malloc((size_t)argc * 8);
	if (strcmp(what, "leak") == 0) {
		kept = NULL;
	} else if (strcmp(what, "overflow") == 0) {
		((volatile char *)kept)[argc * 8] = 1;
	} else if (strcmp(what, "undefined") == 0) {
		big *= argc * 2;
	} else {
		fprintf(stderr, "usage: sanitizer-probe leak | overflow | undefined\n");
		return 2;
	}
	return 0;
}
