/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/unit/journald.h"
#include "tests/unit/unit.h"

static int journal = -1;

bool take_place_of_journald(void)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX,
				   .sun_path = "/run/systemd/journal/socket" };
	struct stat st;
	char stream[64];

	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("tmpfs", "/run", "tmpfs", 0, NULL) < 0) {
		fprintf(stderr, "skipped: cannot have a /run of its own: %s\n", strerror(errno));
		return false;
	}
	ck_assert_int_eq(mkdir("/run/systemd", 0755), 0);
	ck_assert_int_eq(mkdir("/run/systemd/journal", 0755), 0);
	journal = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(bind(journal, (struct sockaddr *)&sun, sizeof(sun)), 0);
	ck_assert_int_eq(fstat(STDERR_FILENO, &st), 0);
	snprintf(stream, sizeof(stream), "%llu:%llu", (unsigned long long)st.st_dev,
		 (unsigned long long)st.st_ino);
	setenv("JOURNAL_STREAM", stream, 1);
	return true;
}

char *next_entry(void)
{
	struct pollfd p = { .fd = journal, .events = POLLIN };
	static char buf[8192];
	ssize_t n;

	if (poll(&p, 1, PATIENCE_MS) == 0)
		return NULL;
	n = recv(journal, buf, sizeof(buf) - 1, 0);
	ck_assert_int_gt(n, 0);
	buf[n] = 0;
	return buf;
}
