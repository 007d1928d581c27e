/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "rdmacm.h"

/*
 * The sessions behind the drop-in's channels: when one is opened, when it is kept for the next channel, and when the
 * program goes to the kernel without the broker, which is only where the admin allows it.
 */

#define CM_NODE "/dev/infiniband/rdma_cm"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/*
 * The process's own sessions, one for each user and group that it has been. The newest is first. A session whose broker is
 * gone stays: the contexts of its devices can be in use.
 */
struct shared {
	LIST_ENTRY(shared) link;
	struct session session;
};
static LIST_HEAD(, shared) all_shared;
#define KEPT_MAX 4
static struct session kept[KEPT_MAX]; /* for sync ids */
static unsigned n_kept;
static bool has_answered; /* then this process or a parent can have ids of the broker */

static bool does_not_answer(int r)
{
	return r == -ENOENT || r == -ECONNREFUSED || r == -ETIMEDOUT || r == -ECONNRESET;
}

/*
 * The errno that librdmacm sets in a similar case: ENODEV without /dev/infiniband/rdma_cm, EACCES without permission,
 * EPERM with another ABI version, EMFILE with too many open files.
 */
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

/* FLAGS: more flags of rdmabroker_open(). REPLIES: see struct rdmabroker_options. */
static int open_session(struct session *ret, unsigned flags, struct rdmabroker *replies)
{
	struct rdmabroker_options options = RDMABROKER_OPTIONS_INIT;
	static atomic_bool has_devices;

	/* Fail without a device, as librdmacm does at its first call. At the start its caller has looked. */
	if (!(flags & RDMABROKER_AT_START)) {
		if (!atomic_load(&has_devices) && !look_for_devices())
			return -ENODEV;
		atomic_store(&has_devices, true);
	}
	options.flags = RDMABROKER_FAIL_BY_EVENT | RDMABROKER_CONFIRM_DISCONNECT | flags;
	options.replies = replies;
	*ret = (struct session){ .pid = getpid(), .uid = geteuid(), .gid = getegid() };
	return BROKER(rdmabroker_open(&options, &ret->broker));
}

bool broker_can_be_bypassed(void)
{
	return eaccess(CM_NODE, R_OK | W_OK) == 0;
}

/* Something that this process has too little of. */
static bool is_shortage(int r)
{
	return r == -EMFILE || r == -ENFILE || r == -ENOBUFS || r == -ENOMEM;
}

static int fail_to_open(int r)
{
	if (r == -ENODEV)
		report_debug("this host has no RDMA device");
	else if (does_not_answer(r))
		report_once(
			"%s; check that rdmabrokerd is running%s", report_failure(),
			broker_can_be_bypassed() ?
				". RDMABROKER_FALLBACK=direct lets this program use RDMA without it" :
				"");
	else if (is_shortage(r))
		report_once("cannot open a session with the broker: %s", report_failure());
	else
		report_once("the broker refuses this process: %s", report_failure());
	return fail(to_errno(r));
}

int broker_open(struct session *ret)
{
	struct rdmabroker *replies;
	int r = -ECONNRESET;

	/* A broker that is gone is noticed by the first one who uses the process's own session. */
	for (unsigned i = 0; r == -ECONNRESET && i < 2; i++) {
		replies = broker_get_session(NULL);
		if (!replies)
			return -1;
		r = open_session(ret, /* flags= */ 0, replies);
	}
	return r < 0 ? fail_to_open(r) : 0;
}

static bool is_ours(const struct session *session)
{
	return session->uid == geteuid() && session->gid == getegid();
}

/* False: the broker is gone, or an event has come for which nobody waits. */
static bool is_idle(const struct session *session)
{
	struct rdmabroker_event *event;
	int r = BROKER(rdmabroker_get_event(session->broker, /* timeout_ms= */ 0, &event));

	if (r == 0)
		rdmabroker_free_event(event);
	return r == -EAGAIN;
}

/* A child does not use its parent's sessions, and does not close them. */
static void forget_parents(void)
{
	if (n_kept > 0 && kept[0].pid != getpid())
		n_kept = 0;
}

static bool take_kept(struct session *ret)
{
	bool found = false;

	pthread_mutex_lock(&lock);
	forget_parents();
	if (n_kept > 0) {
		*ret = kept[--n_kept];
		found = true;
	}
	pthread_mutex_unlock(&lock);
	return found;
}

int broker_reuse(struct session *ret)
{
	while (take_kept(ret)) {
		if (is_ours(ret) && BROKER(rdmabroker_check(ret->broker)) == 0 && is_idle(ret))
			return 0;
		BROKER(rdmabroker_close(ret->broker));
	}
	return broker_open(ret);
}

void broker_keep(const struct session *session)
{
	bool is_kept = false;

	pthread_mutex_lock(&lock);
	forget_parents();
	if (session->pid == getpid() && n_kept < KEPT_MAX) {
		kept[n_kept++] = *session;
		is_kept = true;
	}
	pthread_mutex_unlock(&lock);
	if (!is_kept)
		BROKER(rdmabroker_close(session->broker));
}

/* udev keeps the properties that its rules have set, see proto/nodes.h. */
static bool udev_has_opened(dev_t node)
{
	char path[64], line[256];
	bool ret = false;
	FILE *file;

	snprintf(path, sizeof(path), "/run/udev/data/c%u:%u", major(node), minor(node));
	file = fopen(path, "re");
	if (!file)
		return false;
	while (!ret && fgets(line, sizeof(line), file))
		ret = strcmp(line, "E:RDMABROKER_NODES=open\n") == 0;
	fclose(file);
	return ret;
}

/*
 * Whether the admin lets everybody use RDMA without the broker. What this process may open does not tell: root's services
 * can open nodes that are the broker's, and must not pass it by.
 */
static bool nodes_are_open(void)
{
	const mode_t everybody = S_IROTH | S_IWOTH;
	struct stat st;

	return stat(CM_NODE, &st) == 0 &&
	       ((st.st_mode & everybody) == everybody || udev_has_opened(st.st_rdev));
}

static bool may_go_direct(int r)
{
	const char *fallback = secure_getenv("RDMABROKER_FALLBACK");

	if (fallback)
		return strcmp(fallback, "direct") == 0 && does_not_answer(r);
	/* -ECONNRESET: there is a broker, which does not want this client now. */
	return does_not_answer(r) && r != -ECONNRESET && nodes_are_open();
}

/* The newest session of this process, or of its present user, too; NULL: there is none. */
static struct shared *find_shared(bool of_user)
{
	struct shared *shared;

	LIST_FOREACH(shared, &all_shared, link)
		if (shared->session.pid == getpid() && (!of_user || is_ours(&shared->session)))
			break;
	return shared;
}

/*
 * A session belongs to its process: a child opens its own, and does not close its parent's. A program that closes all
 * descriptors at its start has closed that of its session, too.
 */
static int open_shared(bool of_user, struct rdmabroker **ret)
{
	struct shared *shared = find_shared(of_user);
	int r;

	if (shared && BROKER(rdmabroker_check(shared->session.broker)) == 0) {
		*ret = shared->session.broker;
		return 0;
	}
	shared = calloc(1, sizeof(*shared));
	if (!shared)
		return -ENOMEM;
	r = open_session(&shared->session, RDMABROKER_NO_POLL, /* replies= */ NULL);
	if (r < 0) {
		free(shared);
		return r;
	}
	has_answered = true;
	LIST_INSERT_HEAD(&all_shared, shared, link);
	*ret = shared->session.broker;
	return 0;
}

void broker_lend_at_start(void)
{
	struct shared *shared = calloc(1, sizeof(*shared));
	int r;

	if (!shared)
		return;
	pthread_mutex_lock(&lock);
	r = open_session(&shared->session, RDMABROKER_NO_POLL | RDMABROKER_AT_START,
			 /* replies= */ NULL);
	if (r == 0) {
		r = BROKER(rdmabroker_lease_devices(shared->session.broker, /* name= */ NULL));
		if (r < 0)
			BROKER(rdmabroker_close(shared->session.broker));
	}
	if (r == 0) {
		has_answered = true;
		LIST_INSERT_HEAD(&all_shared, shared, link);
	} else {
		free(shared);
	}
	pthread_mutex_unlock(&lock);
}

/* *RET: the session; NULL after 0: librdmacm handles all calls. */
static int start(bool of_user, struct rdmabroker **ret)
{
	int r = open_shared(of_user, ret);

	if (r == 0)
		return 0;
	/* If the program has ids of the broker, librdmacm must not get them: it would treat them as its own. */
	if (!has_answered && may_go_direct(r) && real_get()) {
		report_debug("%s; using librdmacm itself instead", report_failure());
		atomic_store_explicit(&real_has_all, real_get(), memory_order_release);
		*ret = NULL;
		return 0;
	}
	return fail_to_open(r);
}

struct rdmabroker *broker_try(void)
{
	struct rdmabroker *session = NULL;

	pthread_mutex_lock(&lock);
	if (open_shared(/* of_user= */ true, &session) < 0)
		session = NULL;
	pthread_mutex_unlock(&lock);
	return session;
}

bool broker_has_rsockets(void)
{
	const char *wanted = secure_getenv("RDMABROKER_RSOCKETS");
	struct rdmabroker *session;
	int r;

	if (real_handling_all() || (wanted && strcmp(wanted, "direct") == 0))
		return false;
	pthread_mutex_lock(&lock);
	r = open_shared(/* of_user= */ false, &session);
	pthread_mutex_unlock(&lock);
	return !may_go_direct(r);
}

void broker_begin_in_child(void)
{
	pthread_mutex_init(&lock, NULL);
	LIST_INIT(&all_shared);
	n_kept = 0;
}

void broker_end(void)
{
	struct shared *shared;

	while (n_kept > 0)
		BROKER(rdmabroker_close(kept[--n_kept].broker));
	while ((shared = LIST_FIRST(&all_shared))) {
		LIST_REMOVE(shared, link);
		BROKER(rdmabroker_close(shared->session.broker));
		free(shared);
	}
}

int broker_start(void)
{
	struct rdmabroker *session;
	int r;

	pthread_mutex_lock(&lock);
	r = atomic_load(&real_has_all) ? 0 : start(/* of_user= */ false, &session);
	pthread_mutex_unlock(&lock);
	return r;
}

struct rdmabroker *broker_get_session(const struct rdmabroker *lost)
{
	struct rdmabroker *session = NULL;
	struct shared *shared;

	pthread_mutex_lock(&lock);
	shared = find_shared(/* of_user= */ true);
	if (lost && shared && shared->session.broker == lost) {
		LIST_REMOVE(shared, link);
		free(shared);
	}
	if (start(/* of_user= */ true, &session) < 0)
		session = NULL;
	pthread_mutex_unlock(&lock);
	return session;
}
