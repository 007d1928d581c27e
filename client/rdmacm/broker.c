/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rdmacm.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct rdmabroker *shared; /* the session of process SHARED_PID */
static pid_t shared_pid;
static bool has_answered; /* the broker, once: the program, or a parent of it, may have its ids */

__attribute__((format(printf, 1, 0))) static void say(const char *fmt, va_list ap)
{
	char line[512];

	vsnprintf(line, sizeof(line), fmt, ap);
	/* One call, so that the line stays in one piece. BROKER(), because the caller may hold locks. */
	BROKER(fprintf(stderr, "librdmabroker-rdmacm: %s\n", line));
}

void debug(const char *fmt, ...)
{
	va_list ap;

	if (!secure_getenv("RDMABROKER_DEBUG"))
		return;
	va_start(ap, fmt);
	say(fmt, ap);
	va_end(ap);
}

static void complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Prints only once, so that a program that retries does not fill a log. */
static void complain(const char *fmt, ...)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;
	va_list ap;

	if (secure_getenv("RDMABROKER_QUIET") || atomic_flag_test_and_set(&said))
		return;
	va_start(ap, fmt);
	say(fmt, ap);
	va_end(ap);
}

int result(const char *what, int r)
{
	struct rdmabroker_failure failure = { 0 };

	if (r >= 0)
		return 0;
	rdmabroker_get_failure(NULL, &failure);
	if (failure.error == r)
		debug("%s: %s%s%s%s", what, failure.text, failure.rule ? " (rule " : "",
		      failure.rule ?: "", failure.rule ? ")" : "");
	else
		debug("%s: %s", what, strerror(-r));
	/* For too much private data the kernel returns EINVAL. */
	return fail(r == -E2BIG ? EINVAL : -r);
}

static bool does_not_answer(int r)
{
	return r == -ENOENT || r == -ECONNREFUSED || r == -ETIMEDOUT || r == -ECONNRESET;
}

/* The errno of librdmacm on a host where it does not find rdma_cm, or may not open it. */
static int to_errno(int r)
{
	if (does_not_answer(r))
		return ENODEV;
	switch (-r) {
	case EPERM:
		return EACCES;
	case EPROTO:
		return EPERM;
	case EDQUOT:
		return EMFILE;
	default:
		return -r;
	}
}

static bool look_for_devices(void)
{
	struct ibv_device **list;
	int n = 0;

	list = ibv_get_device_list(&n);
	if (list)
		ibv_free_device_list(list);
	return n > 0;
}

static int open_session(struct rdmabroker **ret)
{
	static atomic_bool has_devices;

	/* Like librdmacm, which fails at its first call if the host has no device. */
	if (!atomic_load(&has_devices) && !look_for_devices())
		return -ENODEV;
	atomic_store(&has_devices, true);
	return BROKER(rdmabroker_open(ret, NULL));
}

static int fail_to_open(int r)
{
	if (r == -ENODEV)
		debug("this host has no RDMA device");
	else if (does_not_answer(r))
		complain("%s; check that rdmabrokerd is running", rdmabroker_open_error());
	else
		complain("the broker refuses this process: %s", rdmabroker_open_error());
	return fail(to_errno(r));
}

int broker_open(struct rdmabroker **ret)
{
	int r = open_session(ret);

	return r < 0 ? fail_to_open(r) : 0;
}

static bool may_go_direct(int r)
{
	const char *fallback = secure_getenv("RDMABROKER_FALLBACK");

	return does_not_answer(r) && fallback && strcmp(fallback, "direct") == 0;
}

static int start(void)
{
	int r;

	/* A session belongs to its process: a child opens its own, and does not close its parent's. */
	if (shared && shared_pid == getpid())
		return 0;
	r = open_session(&shared);
	if (r == 0) {
		shared_pid = getpid();
		has_answered = true;
		return 0;
	}
	/* librdmacm would take the broker's ids for its own. */
	if (!has_answered && may_go_direct(r) && real_get()) {
		debug("%s; using librdmacm itself instead", rdmabroker_open_error());
		atomic_store_explicit(&real_has_all, real_get(), memory_order_release);
		return 0;
	}
	return fail_to_open(r);
}

/*
 * A program that opens a device by libibverbs before it has an id on it may not open the device's node. With
 * RDMABROKER_DEVICES=all it gets the leases at its start. Errors are ignored here: its own calls will fail.
 */
__attribute__((constructor)) static void lend_devices(void)
{
	const char *wanted = secure_getenv("RDMABROKER_DEVICES");

	if (!wanted || strcmp(wanted, "all") != 0 || open_session(&shared) < 0)
		return;
	shared_pid = getpid();
	has_answered = true;
	devices_open_all(shared);
}

int broker_start(void)
{
	int r;

	pthread_mutex_lock(&lock);
	r = atomic_load(&real_has_all) ? 0 : start();
	pthread_mutex_unlock(&lock);
	return r;
}

struct rdmabroker *broker_get_session(const struct rdmabroker *lost)
{
	struct rdmabroker *session = NULL;

	pthread_mutex_lock(&lock);
	/* Do not close LOST: the contexts of its devices are in use. */
	if (lost && shared == lost)
		shared = NULL;
	if (start() == 0)
		session = shared;
	pthread_mutex_unlock(&lock);
	return session;
}
