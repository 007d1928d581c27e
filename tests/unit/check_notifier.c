/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/notifier.h"
#include "proto/sdnotify.h"
#include "tests/unit/unit.h"

/* What a service tells its manager. The manager is the socket of this process, which reads or does not. */

#define T PATIENCE_MS /* a timeout that never ends if all is well */

static char dir[] = "/tmp/check_notifier.XXXXXX";
static char path[64];
static int manager;
static sd_event *loop;
static struct notifier *notifier;
static unsigned n_changes;
static bool is_stuck;

static void listen_at(const char *name)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name));

	strcpy(addr.sun_path, name);
	if (*name == '@')
		addr.sun_path[0] = 0;
	manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	ck_assert_int_eq(bind(manager, (struct sockaddr *)&addr, len), 0);
	setenv("NOTIFY_SOCKET", name, 1);
}

static void on_change(void *userdata, bool new_stuck)
{
	is_stuck = new_stuck;
	n_changes++;
}

static void set_up(void)
{
	strcpy(dir, "/tmp/check_notifier.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/notify", dir);
	listen_at(path);
	ck_assert_int_eq(sd_event_new(&loop), 0);
	ck_assert_int_eq(notifier_new(&notifier, loop), 0);
	notifier_watch(notifier, on_change, NULL);
}

static void tear_down(void)
{
	notifier_free(notifier);
	sd_event_unref(loop);
	close(manager);
	unlink(path);
	rmdir(dir);
}

/* Reads a message, and its descriptor into *RET_FD (-1: none). False: there is none. */
static bool take(char text[256], int *ret_fd)
{
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = { .iov_base = text, .iov_len = 255 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control.buf,
			      .msg_controllen = sizeof(control.buf) };
	ssize_t n = recvmsg(manager, &msg, MSG_CMSG_CLOEXEC);
	struct cmsghdr *cmsg;

	if (n < 0)
		return false;
	text[n] = 0;
	*ret_fd = -1;
	cmsg = CMSG_FIRSTHDR(&msg);
	if (cmsg)
		memcpy(ret_fd, CMSG_DATA(cmsg), sizeof(int));
	return true;
}

static void expect(const char *text)
{
	char got[256];
	int fd;

	ck_assert_msg(take(got, &fd), "not told: %s", text);
	ck_assert_str_eq(got, text);
	ck_assert_int_eq(fd, -1);
}

static void expect_nothing(void)
{
	char got[256];
	int fd;

	ck_assert_msg(!take(got, &fd), "told: %s", got);
}

/* Runs the loop until nothing is left to do. */
static void run(void)
{
	int r;

	while ((r = sd_event_run(loop, 0)) > 0)
		;
	ck_assert_int_eq(r, 0);
}

/* Fills the manager's queue. Returns the number of messages. */
static unsigned fill(void)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	ssize_t r;

	strcpy(addr.sun_path, path);
	for (unsigned n = 0;; n++) {
		/* One socket may not have as many messages in the queue. */
		int sock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

		r = sendto(sock, "X=1", 3, 0, (struct sockaddr *)&addr, sizeof(addr));
		ck_assert(r == 3 || errno == EAGAIN);
		close(sock);
		if (r < 0)
			return n;
	}
}

static void drain(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		expect("X=1");
}

START_TEST(tells_at_once)
{
	notifier_tell(notifier, "READY=1\nSTATUS=%d rules", 7);
	expect("READY=1\nSTATUS=7 rules");
	notifier_remove(notifier, "vault-1");
	expect("FDSTOREREMOVE=1\nFDNAME=vault-1");
	expect_nothing();
	run();
	ck_assert_uint_eq(n_changes, 0);
}
END_TEST

/* Each variable is told once, with its last value, in the order of the last ones. */
START_TEST(a_manager_that_does_not_read)
{
	unsigned n = fill();

	for (int i = 0; i < 100; i++) {
		notifier_tell(notifier, "RELOADING=1\nMONOTONIC_USEC=%d", i);
		notifier_tell(notifier, "WATCHDOG=1");
		notifier_tell(notifier, "READY=1");
		notifier_tell(notifier, "STATUS=%d", i);
	}
	run();
	drain(n);
	expect_nothing();
	run();
	expect("RELOADING=1\nMONOTONIC_USEC=99");
	expect("WATCHDOG=1");
	expect("READY=1");
	expect("STATUS=99");
	expect_nothing();
	run();
	/* From now on at once. */
	notifier_tell(notifier, "STATUS=100");
	expect("STATUS=100");
}
END_TEST

/* One place becomes free at a time: what is told meanwhile does not overtake. */
START_TEST(a_manager_that_reads_slowly)
{
	unsigned n = fill();

	notifier_tell(notifier, "READY=1");
	notifier_tell(notifier, "STATUS=a");
	drain(1);
	notifier_tell(notifier, "WATCHDOG=1");
	run();
	drain(n - 1);
	expect("READY=1");
	expect_nothing();
	run();
	expect("STATUS=a");
	expect("WATCHDOG=1");
	expect_nothing();
}
END_TEST

static bool is_same_file(int a, int b)
{
	struct stat x, y;

	ck_assert_int_eq(fstat(a, &x), 0);
	ck_assert_int_eq(fstat(b, &y), 0);
	return x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static void expect_stored(const char *name, int file)
{
	char got[256], text[256];
	int fd;

	snprintf(text, sizeof(text), "FDSTORE=1\nFDPOLL=0\nFDNAME=%s", name);
	ck_assert(take(got, &fd));
	ck_assert_str_eq(got, text);
	ck_assert_int_ge(fd, 0);
	ck_assert(is_same_file(fd, file));
	close(fd);
}

static unsigned n_open(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* The queue keeps its own copy of a descriptor. What is removed before it was stored is not told. */
START_TEST(descriptors_to_be_stored)
{
	int a = open(dir, O_RDONLY | O_CLOEXEC), b = open("/", O_RDONLY | O_CLOEXEC);
	int c = fcntl(b, F_DUPFD_CLOEXEC, 0);
	unsigned n, open_before;

	ck_assert_int_eq(notifier_store(notifier, "vault-1", a), 0);
	expect_stored("vault-1", a);
	n = fill();
	open_before = n_open();
	for (int i = 2; i < 1000; i++) {
		char name[32];

		snprintf(name, sizeof(name), "vault-%d", i);
		ck_assert_int_eq(notifier_store(notifier, name, i == 999 ? c : a), 0);
		ck_assert(notifier_is_behind(notifier));
		if (i < 999)
			notifier_remove(notifier, name);
	}
	notifier_remove(notifier, "vault-1");
	close(c);
	/* The one copy in the place of C, and the loop's timer. */
	ck_assert_uint_le(n_open(), open_before + 1);
	drain(n);
	run();
	expect_stored("vault-999", b);
	expect("FDSTOREREMOVE=1\nFDNAME=vault-1");
	expect_nothing();
	ck_assert(!notifier_is_behind(notifier));
	close(a);
	close(b);
}
END_TEST

START_TEST(what_is_queued_at_the_end)
{
	unsigned n = fill();
	pid_t reader;

	notifier_tell(notifier, "STOPPING=1");
	/* Nobody reads. */
	ck_assert(!notifier_flush(notifier, 1));
	reader = fork();
	ck_assert_int_ge(reader, 0);
	if (reader == 0) {
		drain(n);
		_exit(0);
	}
	ck_assert(notifier_flush(notifier, T));
	ck_assert_int_eq(waitpid(reader, NULL, 0), reader);
	expect("STOPPING=1");
}
END_TEST

START_TEST(tells_that_nobody_reads)
{
	unsigned n = fill();

	notifier_tell(notifier, "STATUS=a");
	while (n_changes == 0)
		ck_assert_int_ge(sd_event_run(loop, UINT64_MAX), 0);
	ck_assert(is_stuck);
	notifier_tell(notifier, "STATUS=b");
	run();
	ck_assert_uint_eq(n_changes, 1);
	drain(n);
	run();
	expect("STATUS=b");
	ck_assert_uint_eq(n_changes, 2);
	ck_assert(!is_stuck);
}
END_TEST

START_TEST(watchdog)
{
	struct pollfd p = { .fd = manager, .events = POLLIN };

	ck_assert_int_eq(notifier_add_watchdog(notifier), 0);
	run();
	expect_nothing();
	setenv("WATCHDOG_USEC", "2000", 1);
	ck_assert_int_eq(notifier_add_watchdog(notifier), 0);
	for (int i = 0; i < 3; i++) {
		while (poll(&p, 1, 0) == 0)
			ck_assert_int_ge(sd_event_run(loop, UINT64_MAX), 0);
		expect("WATCHDOG=1");
	}
}
END_TEST

START_TEST(addresses)
{
	char name[64], too_long[256];

	notifier = notifier_free(notifier);
	unsetenv("NOTIFY_SOCKET");
	ck_assert_int_eq(sdnotify_open(), -ENXIO);
	ck_assert_int_eq(notifier_new(&notifier, loop), 0);
	notifier_tell(notifier, "READY=1");
	ck_assert_int_eq(notifier_store(notifier, "a-1", 0), 0);
	notifier_remove(notifier, "a-1");
	expect_nothing();
	setenv("NOTIFY_SOCKET", "vsock:2:1234", 1);
	ck_assert_int_eq(sdnotify_open(), -EAFNOSUPPORT);
	setenv("NOTIFY_SOCKET", "/nowhere", 1);
	ck_assert_int_eq(sdnotify_open(), -ENOENT);
	notifier = notifier_free(notifier);
	ck_assert_int_eq(notifier_new(&notifier, loop), 0);
	notifier_tell(notifier, "READY=1");
	ck_assert_int_eq(notifier_store(notifier, "a-1", 0), -ENOENT);
	memset(too_long, '/', sizeof(too_long) - 1);
	too_long[sizeof(too_long) - 1] = 0;
	setenv("NOTIFY_SOCKET", too_long, 1);
	ck_assert_int_eq(sdnotify_open(), -ENAMETOOLONG);

	/* The manager is another one now, at the same path. */
	setenv("NOTIFY_SOCKET", path, 1);
	notifier = notifier_free(notifier);
	ck_assert_int_eq(notifier_new(&notifier, loop), 0);
	close(manager);
	unlink(path);
	listen_at(path);
	notifier_tell(notifier, "STATUS=b");
	expect("STATUS=b");

	notifier = notifier_free(notifier);
	close(manager);
	snprintf(name, sizeof(name), "@check_notifier.%d", getpid());
	listen_at(name);
	ck_assert_int_eq(notifier_new(&notifier, loop), 0);
	notifier_tell(notifier, "READY=1");
	expect("READY=1");
}
END_TEST

UNIT_MAIN("notifier", set_up, tear_down, tells_at_once, a_manager_that_does_not_read,
	  a_manager_that_reads_slowly, descriptors_to_be_stored, what_is_queued_at_the_end,
	  tells_that_nobody_reads, watchdog, addresses)
