/* SPDX-License-Identifier: BSD-2-Clause */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fabric/device/device.h"
#include "fabric/internal.h"
#include "tests/unit/unit.h"

/* The warnings about device nodes that others can open. The fabric here is the real one. */

static char path[] = "/tmp/rdmabroker-node-XXXXXX";
static int real_stderr, words;
static bool told;

static void set_up(void)
{
	int fd;

	strcpy(path + strlen(path) - 6, "XXXXXX");
	fd = mkstemp(path);
	ck_assert_int_ge(fd, 0);
	close(fd);
	told = false;
	words = memfd_create("words", MFD_CLOEXEC);
	real_stderr = dup(STDERR_FILENO);
	dup2(words, STDERR_FILENO);
}

static void tear_down(void)
{
	dup2(real_stderr, STDERR_FILENO);
	close(real_stderr);
	close(words);
	unlink(path);
}

/* Returns what was logged since the last call. */
static const char *said(void)
{
	static char text[2048];
	ssize_t n = pread(words, text, sizeof(text) - 1, 0);

	ck_assert_int_ge(n, 0);
	text[n] = '\0';
	ck_assert_int_eq(ftruncate(words, 0), 0);
	ck_assert_int_eq(lseek(words, 0, SEEK_SET), 0);
	return text;
}

static const char *check(mode_t mode, enum fabric_access access)
{
	ck_assert_int_eq(chmod(path, mode), 0);
	fabric_check_node(path, access, &told);
	return said();
}

START_TEST(open_to_others)
{
	char owner[64];
	const char *text;

	snprintf(owner, sizeof(owner), "has owner %u and mode 0666", geteuid());
	text = check(0666, FABRIC_ACCESS_ACL);
	ck_assert_ptr_nonnull(strstr(text, path));
	ck_assert_ptr_nonnull(strstr(text, owner));
	ck_assert_ptr_nonnull(strstr(text, "every user can open it"));
	ck_assert_ptr_nonnull(strstr(text, "90-rdmabroker.rules"));
	ck_assert_ptr_nonnull(strstr(text, "--sysname-match=rdmabroker-node-"));
}
END_TEST

START_TEST(read_and_write_access_count)
{
	static const mode_t modes[] = { 0602, 0604, 0606 };

	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		told = false;
		ck_assert_str_ne(check(modes[i], FABRIC_ACCESS_ACL), "");
	}
}
END_TEST

START_TEST(logged_once_for_each_fault)
{
	ck_assert_str_ne(check(0666, FABRIC_ACCESS_ACL), "");
	ck_assert_str_eq(check(0666, FABRIC_ACCESS_ACL), "");
	/* After the node was corrected, a new fault is logged again. */
	ck_assert_str_eq(check(0660, FABRIC_ACCESS_ACL), "");
	ck_assert_str_ne(check(0666, FABRIC_ACCESS_ACL), "");
}
END_TEST

START_TEST(as_it_should_be)
{
	ck_assert_str_eq(check(0600, FABRIC_ACCESS_ACL), "");
	/* In mode 0660, the group's bits can be the mask of the ACL, so they do not show that the node is open. */
	ck_assert_str_eq(check(0660, FABRIC_ACCESS_ACL), "");
	/* The admin has chosen open access. */
	ck_assert_str_eq(check(0666, FABRIC_ACCESS_OPEN), "");
}
END_TEST

START_TEST(owned_by_another)
{
	/* The node is closed to others, but has the wrong owner. */
	const char *node = geteuid() == 0 ? path : "/etc/shadow";
	const char *text;

	ck_assert_int_eq(chmod(path, 0600), 0);
	if (geteuid() == 0)
		ck_assert_int_eq(chown(path, 1, 1), 0);
	fabric_check_node(node, FABRIC_ACCESS_ACL, &told);
	text = said();
	ck_assert_ptr_nonnull(strstr(text, geteuid() == 0 ? "has owner 1" : "has owner 0"));
	ck_assert_ptr_nonnull(strstr(text, "its owner can open it"));
}
END_TEST

START_TEST(a_node_that_is_gone)
{
	fabric_check_node("/dev/infiniband/no-such-node", FABRIC_ACCESS_ACL, &told);
	ck_assert_str_eq(said(), "");
	ck_assert(!told);
}
END_TEST

UNIT_MAIN("node", set_up, tear_down, open_to_others, read_and_write_access_count,
	  logged_once_for_each_fault, as_it_should_be, owned_by_another, a_node_that_is_gone)
