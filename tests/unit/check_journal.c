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

#include "tests/unit/unit.h"
#include "util/log.h"

/* The log while journald does not read. A socket of this test takes the place of journald's, in a private /run. */

#define LINES 20000 /* more than the socket and the queue hold */
#define LINE_LEN 200

static int journal = -1;

/* Returns false, and prints the reason, if this machine does not allow a private /run. */
static bool take_place_of_journald(void)
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

/* Returns the MESSAGE of the next entry; NULL: no entry came within the timeout. */
static const char *next_message(void)
{
	struct pollfd p = { .fd = journal, .events = POLLIN };
	static char buf[4096];
	ssize_t n;
	char *text;

	if (poll(&p, 1, 2000) == 0)
		return NULL;
	n = recv(journal, buf, sizeof(buf) - 1, 0);
	ck_assert_int_gt(n, 0);
	buf[n] = 0;
	text = strstr(buf, "MESSAGE=");
	ck_assert_ptr_nonnull(text);
	text[strcspn(text, "\n")] = 0;
	return text + strlen("MESSAGE=");
}

START_TEST(a_journal_that_does_not_read)
{
	unsigned n_read = 0, n_dropped = 0;
	const char *text;

	if (!take_place_of_journald())
		return;
	log_init();
	for (unsigned i = 0; i < LINES; i++)
		log_info("line %u %*s", i, LINE_LEN, "");
	/* At this point all lines are logged, and none has been read. */
	while (n_read + n_dropped < LINES && (text = next_message())) {
		if (sscanf(text, "(%u lines before the next one were dropped", &n_dropped) == 1)
			continue;
		/* The lines come in order, and each gap is reported. */
		ck_assert_uint_eq((unsigned)atoi(text + strlen("line ")), n_read);
		n_read++;
	}
	ck_assert_uint_gt(n_read, 0);
	ck_assert_uint_gt(n_dropped, 0);
	ck_assert_uint_eq(n_read + n_dropped, LINES);
	/* Later lines arrive as before. */
	log_info("the next one");
	ck_assert_str_eq(next_message(), "the next one");
	log_end();
}
END_TEST

START_TEST(the_last_line_arrives)
{
	if (!take_place_of_journald())
		return;
	log_init();
	log_info("one");
	log_info("two");
	log_end();
	ck_assert_str_eq(next_message(), "one");
	ck_assert_str_eq(next_message(), "two");
}
END_TEST

UNIT_MAIN("journal", NULL, NULL, a_journal_that_does_not_read, the_last_line_arrives)
