/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/harness.h"

/* Sessions in children of the process that opened them. The library calls madvise() and getpid() of this program. */

/* How the simulated kernel treats madvise(). */
static enum {
	KNOWS_ALL,
	REFUSES_WIPEONFORK, /* as Linux before 4.14 */
	IGNORES_ALL, /* does nothing and succeeds, as with some emulators */
	_KERNEL_MAX,
} kernel;

static _Thread_local unsigned
	n_getpid; /* for each thread, so that calls by the server are not counted */

int madvise(void *addr, size_t len, int advice)
{
	if (kernel == IGNORES_ALL)
		return 0;
	if (kernel == REFUSES_WIPEONFORK && advice == MADV_WIPEONFORK) {
		errno = EINVAL;
		return -1;
	}
	return (int)syscall(SYS_madvise, addr, len, advice);
}

pid_t getpid(void)
{
	n_getpid++;
	return (pid_t)syscall(SYS_getpid);
}

/* Makes a child without the C library's fork(), which calls the functions of pthread_atfork(3). */
static pid_t plain_clone(void)
{
	return (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
}

/* Runs BODY(ARG) in a child. Returns the result, 0 to 126; 127: there is none. */
static int in_child(pid_t (*make_child)(void), int (*body)(void *arg), void *arg)
{
	pid_t pid = make_child();
	int status;

	if (pid == 0)
		_exit(body(arg));
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return 127;
	return WEXITSTATUS(status);
}

static int use_id(void *id)
{
	return -rdmabroker_bind_addr(id, addr(7471));
}

static int use_id_in_child(void *id)
{
	return in_child(fork, use_id, id);
}

START_TEST(a_child_cannot_use_the_session)
{
	struct rdmabroker *s;
	struct rdmabroker_id *id;

	kernel = (typeof(kernel))_i;
	s = open_session(0);
	ck_assert_int_eq(rdmabroker_create_id(s, RDMABROKER_PS_TCP, NULL, &id), 0);
	ck_assert_int_eq(in_child(fork, use_id, id), EPERM);
	ck_assert_int_eq(in_child(plain_clone, use_id, id), EPERM);
	ck_assert_int_eq(in_child(fork, use_id_in_child, id), EPERM);
	ck_assert_int_eq(use_id(id), 0);
	rdmabroker_close(s);
}
END_TEST

static int use_own_session(void *id)
{
	struct rdmabroker_options options = {
		.size = sizeof(options),
		.socket = harness.socket_path,
	};
	struct rdmabroker_id *own;
	struct rdmabroker *s;
	int r;

	if (rdmabroker_open(&options, &s) < 0)
		return 126;
	r = rdmabroker_create_id(s, RDMABROKER_PS_TCP, NULL, &own) < 0 ? 125 : use_id(own);
	if (r == 0 && (use_id(id) != EPERM || use_id_in_child(own) != EPERM))
		r = 124;
	rdmabroker_close(s);
	return r;
}

START_TEST(a_child_opens_a_session)
{
	struct rdmabroker *s;
	struct rdmabroker_id *id;

	kernel = (typeof(kernel))_i;
	s = open_session(0);
	ck_assert_int_eq(rdmabroker_create_id(s, RDMABROKER_PS_TCP, NULL, &id), 0);
	ck_assert_int_eq(in_child(fork, use_own_session, id), 0);
	rdmabroker_close(s);
}
END_TEST

/* Returns how often a few calls of the library call getpid(). */
static unsigned count_getpid(void)
{
	struct rdmabroker *s = open_session(0);
	struct rdmabroker_id *id;
	unsigned n;

	n_getpid = 0;
	ck_assert_int_eq(rdmabroker_create_id(s, RDMABROKER_PS_TCP, NULL, &id), 0);
	ck_assert_int_eq(use_id(id), 0);
	ck_assert_int_eq(rdmabroker_listen(id, 1), 0);
	rdmabroker_destroy_id(id);
	n = n_getpid;
	rdmabroker_close(s);
	return n;
}

START_TEST(calls_do_not_ask_for_the_pid)
{
	ck_assert_uint_eq(count_getpid(), 0);
	kernel = REFUSES_WIPEONFORK;
	ck_assert_uint_gt(count_getpid(), 0);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("library_fork");
	Suite *suite = suite_create("library_fork");
	SRunner *runner;
	int failed;

	tcase_set_timeout(tcase, UNIT_TIMEOUT);
	tcase_add_checked_fixture(tcase, set_up, tear_down);
	tcase_add_loop_test(tcase, a_child_cannot_use_the_session, 0, _KERNEL_MAX);
	tcase_add_loop_test(tcase, a_child_opens_a_session, 0, _KERNEL_MAX);
	tcase_add_test(tcase, calls_do_not_ask_for_the_pid);
	suite_add_tcase(suite, tcase);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
