/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/owner.h"

/* The ranges of TEXT, which is as /etc/subuid. */
static inline struct owners *read_ranges(const char *text)
{
	char path[] = "/tmp/check_ranges.XXXXXX";
	struct owners *owners;
	int fd = mkstemp(path);

	ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
	ck_assert_int_eq(owners_read(&owners, path, "/etc/passwd", /* diag= */ NULL), 0);
	unlink(path);
	return owners;
}
