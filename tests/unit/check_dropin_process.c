/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/brokerprocess.h"
#include "tests/unit/fds.h"
#include "tests/unit/loopverbs.h"
#include "tests/unit/unit.h"

/*
 * What belongs to a program that uses the drop-in: its standard descriptors, its threads' stacks, its children, its memory after
 * dlclose(3). The drop-in as programs load it, and a daemon that is a process of its own.
 */

#define PORT 7471

#define CALLS                          \
	X(rdma_create_event_channel);  \
	X(rdma_destroy_event_channel); \
	X(rdma_create_id);             \
	X(rdma_destroy_id);            \
	X(rdma_bind_addr);             \
	X(rdma_listen);                \
	X(rdma_resolve_addr);          \
	X(rdma_resolve_route);         \
	X(rdma_create_qp);             \
	X(rdma_destroy_qp);            \
	X(rdma_connect);               \
	X(rdma_accept);                \
	X(rdma_disconnect);            \
	X(rdma_get_devices);           \
	X(rdma_free_devices);          \
	X(rdma_get_cm_event);          \
	X(rdma_ack_cm_event);

static struct {
#define X(name) __typeof__(name) *name
	CALLS
#undef X
} r;

static void *load(void)
{
	char file[PATH_MAX];
	void *lib =
		dlopen(brokerprocess_built("librdmabroker-rdmacm.so", file), RTLD_NOW | RTLD_LOCAL);

	ck_assert_msg(lib != NULL, "%s", dlerror());
#define X(name)                                         \
	r.name = (__typeof__(r.name))dlsym(lib, #name); \
	ck_assert_ptr_nonnull(r.name)
	CALLS
#undef X
	return lib;
}

static void set_up(void)
{
	brokerprocess_begin("allow any\n");
}

#define OK(call) ck_assert_msg((call) == 0, "%s: %s", #call, strerror(errno))

static struct sockaddr *addr(uint16_t port)
{
	static _Thread_local struct sockaddr_in in;

	in = (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(0x0a090001),
	};
	return (struct sockaddr *)&in;
}

static struct rdma_event_channel *new_channel(void)
{
	struct rdma_event_channel *channel = r.rdma_create_event_channel();

	ck_assert_msg(channel != NULL, "create_event_channel: %s", strerror(errno));
	return channel;
}

static struct rdma_cm_id *new_id(struct rdma_event_channel *channel)
{
	struct rdma_cm_id *id;

	OK(r.rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	return id;
}

static struct rdma_cm_id *take(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	OK(r.rdma_get_cm_event(channel, &event));
	ck_assert_int_eq(event->event, type);
	id = event->id;
	r.rdma_ack_cm_event(event);
	return id;
}

static void make_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = { .cap = { 4, 4, 1, 1, 0 }, .qp_type = IBV_QPT_RC };

	OK(r.rdma_create_qp(id, NULL, &attr));
}

/* All of a connection's life. */
static void connect_once(uint16_t port)
{
	struct rdma_event_channel *passive = new_channel(), *active = new_channel();
	struct rdma_cm_id *listener = new_id(passive), *id = new_id(active), *child;
	struct rdma_conn_param p = { .retry_count = 7 };
	struct ibv_context **devices = r.rdma_get_devices(NULL);

	ck_assert_ptr_nonnull(devices);
	r.rdma_free_devices(devices);
	OK(r.rdma_bind_addr(listener, addr(port)));
	OK(r.rdma_listen(listener, 4));
	OK(r.rdma_resolve_addr(id, NULL, addr(port), PATIENCE_MS));
	take(active, RDMA_CM_EVENT_ADDR_RESOLVED);
	OK(r.rdma_resolve_route(id, PATIENCE_MS));
	take(active, RDMA_CM_EVENT_ROUTE_RESOLVED);
	make_qp(id);
	OK(r.rdma_connect(id, &p));
	child = take(passive, RDMA_CM_EVENT_CONNECT_REQUEST);
	make_qp(child);
	OK(r.rdma_accept(child, &p));
	take(active, RDMA_CM_EVENT_ESTABLISHED);
	take(passive, RDMA_CM_EVENT_ESTABLISHED);
	OK(r.rdma_disconnect(id));
	take(passive, RDMA_CM_EVENT_DISCONNECTED);
	r.rdma_destroy_qp(id);
	r.rdma_destroy_qp(child);
	OK(r.rdma_destroy_id(id));
	OK(r.rdma_destroy_id(child));
	OK(r.rdma_destroy_id(listener));
	r.rdma_destroy_event_channel(active);
	r.rdma_destroy_event_channel(passive);
}

/* ---- descriptors ---- */

/* Daemons are started without standard descriptors, and print nevertheless. */
START_TEST(standard_descriptors)
{
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id, *sync;
	int kept[3], low = 0;

	load();
	for (int i = 0; i < 3; i++) {
		kept[i] = fcntl(i, F_DUPFD_CLOEXEC, 10);
		close(i);
	}
	channel = r.rdma_create_event_channel();
	for (int i = 0; i < 3; i++) {
		low += fcntl(i, F_GETFD) >= 0;
		if (write(i, "text", 4) >= 0)
			low++;
	}
	id = channel && r.rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0 ? id : NULL;
	sync = r.rdma_create_id(NULL, &sync, NULL, RDMA_PS_TCP) == 0 ? sync : NULL;
	for (int i = 0; i < 3; i++)
		low += fcntl(i, F_GETFD) >= 0;
	for (int i = 0; i < 3; i++)
		dup2(kept[i], i);
	ck_assert_int_eq(low, 0);
	ck_assert(channel && id && sync);
	OK(r.rdma_bind_addr(id, addr(0)));
	OK(r.rdma_destroy_id(sync));
	OK(r.rdma_destroy_id(id));
	r.rdma_destroy_event_channel(channel);
}
END_TEST

static short poll_now(const struct rdma_event_channel *channel)
{
	struct pollfd p = { channel->fd, POLLIN | POLLOUT | POLLPRI | POLLWRNORM, 0 };

	poll(&p, 1, 0);
	return p.revents;
}

/* Event loops watch a descriptor for more than reading. */
START_TEST(a_channel_is_never_writable)
{
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;

	load();
	channel = new_channel();
	ck_assert_int_eq(poll_now(channel), 0);
	ck_assert_int_eq(fcntl(channel->fd, F_GETFD), FD_CLOEXEC);
	ck_assert_int_eq(fcntl(channel->fd, F_GETFL) & O_ACCMODE, O_RDWR);
	ck_assert_int_lt(write(channel->fd, "text", 4), 0);
	id = new_id(channel);
	OK(r.rdma_resolve_addr(id, NULL, addr(PORT), PATIENCE_MS));
	AWAIT_INPUT(channel->fd, "an event");
	ck_assert_int_eq(poll_now(channel), POLLIN);
	take(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	ck_assert_int_eq(poll_now(channel), 0);
	OK(r.rdma_resolve_route(id, PATIENCE_MS));
	ck_assert_int_eq(poll_now(channel), POLLIN);
	take(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	ck_assert_int_eq(poll_now(channel), 0);
	OK(r.rdma_destroy_id(id));
	id = new_id(NULL);
	ck_assert_int_eq(poll_now(id->channel), 0);
	OK(r.rdma_destroy_id(id));
	r.rdma_destroy_event_channel(channel);
}
END_TEST

/* Calls can receive events, which the program has not taken. */
START_TEST(readable_stays_readable)
{
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id, *other;

	load();
	channel = new_channel();
	for (int i = 0; i < 200; i++) {
		id = new_id(channel);
		OK(r.rdma_resolve_addr(id, NULL, addr(PORT), PATIENCE_MS));
		AWAIT_INPUT(channel->fd, "an event");
		other = new_id(channel);
		ck_assert_int_eq(poll_now(channel), POLLIN);
		OK(r.rdma_bind_addr(other, addr(0)));
		ck_assert_int_eq(poll_now(channel), POLLIN);
		OK(r.rdma_listen(other, 4));
		ck_assert_int_eq(poll_now(channel), POLLIN);
		OK(r.rdma_destroy_id(other));
		ck_assert_int_eq(poll_now(channel), POLLIN);
		take(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
		ck_assert_int_eq(poll_now(channel), 0);
		OK(r.rdma_destroy_id(id));
	}
	r.rdma_destroy_event_channel(channel);
}
END_TEST

/* ---- threads and children ---- */

static void *connect_in_thread(void *arg)
{
	connect_once(PORT);
	return arg;
}

/* brpc's threads have 32 KiB, those of embedded programs the least that is possible. */
START_TEST(small_stacks)
{
	pthread_attr_t attr;
	pthread_t thread;
	void *result;

	if (brokerprocess_is_sanitized())
		return;
	load();
	pthread_attr_init(&attr);
	ck_assert_int_eq(pthread_attr_setstacksize(&attr, PTHREAD_STACK_MIN), 0);
	ck_assert_int_eq(pthread_create(&thread, &attr, connect_in_thread, &r), 0);
	pthread_join(thread, &result);
	ck_assert_ptr_eq(result, &r);
}
END_TEST

static atomic_bool ends;

static void *call_all_the_time(void *arg)
{
	while (!atomic_load(&ends)) {
		struct rdma_event_channel *channel = new_channel();
		struct ibv_context **devices = r.rdma_get_devices(NULL);

		r.rdma_free_devices(devices);
		r.rdma_destroy_event_channel(channel);
	}
	return arg;
}

#define N_CHILDREN 100

static void be_child(void)
{
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;

	alarm(30);
	channel = r.rdma_create_event_channel();
	if (!channel || r.rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) != 0 ||
	    r.rdma_bind_addr(id, addr(0)) != 0)
		_exit(1);
	r.rdma_destroy_id(id);
	r.rdma_destroy_event_channel(channel);
	_exit(0);
}

/* The locks that the other thread holds at the fork are nobody's in the child. */
START_TEST(children_beside_a_thread)
{
	pthread_t thread;
	int status;

	/* Their allocator has such locks, which stay held. */
	if (brokerprocess_is_sanitized())
		return;
	load();
	ck_assert_int_eq(pthread_create(&thread, NULL, call_all_the_time, NULL), 0);
	for (int i = 0; i < N_CHILDREN; i++) {
		pid_t pid = fork();

		/* Check has a lock, too. */
		if (pid == 0)
			be_child();
		ck_assert_int_eq(waitpid(pid, &status, 0), pid);
		ck_assert_msg(status == 0, "child %d: status 0x%x", i, status);
	}
	atomic_store(&ends, true);
	pthread_join(thread, NULL);
}
END_TEST

/* ---- without a broker ---- */

static mode_t node_mode; /* of rdma_cm; 0: as it is on this host */
static const char *property; /* what udev says of it */

/* The drop-in finds these in place of libc's. */
int stat(const char *path, struct stat *ret)
{
	if (node_mode == 0 || strcmp(path, "/dev/infiniband/rdma_cm") != 0)
		return fstatat(AT_FDCWD, path, ret, 0);
	*ret = (struct stat){ .st_mode = node_mode, .st_rdev = makedev(10, 122) };
	return 0;
}

FILE *fopen(const char *path, const char *mode)
{
	__typeof__(fopen) *real = (__typeof__(real))dlsym(RTLD_NEXT, "fopen");

	if (property && strcmp(path, "/run/udev/data/c10:122") == 0)
		return fmemopen((void *)property, strlen(property), "r");
	if (strcmp(path, "/sys/class/infiniband_verbs/uverbs0/ibdev") == 0)
		return fmemopen((void *)"fake0\n", 6, "r");
	return real(path, mode);
}

/* Whether librdmacm itself has got the call. It finds no device of the kernel, or, as this user, one. */
static bool goes_direct(const char *fallback, mode_t mode, const char *says)
{
	void *lib;

	node_mode = mode;
	property = says;
	if (fallback)
		setenv("RDMABROKER_FALLBACK", fallback, 1);
	else
		unsetenv("RDMABROKER_FALLBACK");
	lib = load();
	PRINTS(r.rdma_create_event_channel());
	dlclose(lib);
	node_mode = 0;
	property = NULL;
	return strstr(brokerprocess_printed, "using librdmacm itself instead");
}

static const char opened[] = "I:1\nE:RDMABROKER_NODES=open\nG:systemd\n";

/* Open nodes are known by their mode, or by udev, and not by what this user, who can be root, may open. */
START_TEST(a_host_without_a_broker)
{
	if (brokerprocess_is_sanitized())
		return;
	setenv("RDMABROKER_DEBUG", "1", 1);
	brokerprocess_stop();
	for (int i = 0; i < 2; i++) {
		ck_assert(goes_direct(NULL, S_IFCHR | 0666, NULL));
		ck_assert(!goes_direct(NULL, S_IFCHR | 0600, NULL));
		ck_assert(!goes_direct(NULL, S_IFCHR | 0664, NULL));
		ck_assert(goes_direct(NULL, S_IFCHR | 0660, opened));
		ck_assert(!goes_direct(NULL, S_IFCHR | 0660, "E:RDMABROKER_NODES=closed\n"));
		ck_assert(goes_direct("direct", S_IFCHR | 0600, NULL));
		ck_assert(!goes_direct("none", S_IFCHR | 0666, NULL));
		/* Then there is no socket. */
		unlink(getenv("RDMABROKER_SOCKET"));
	}
}
END_TEST

/* Not after a refusal, and not if it had a session before. */
START_TEST(a_broker_that_has_answered)
{
	struct rdma_event_channel *channel;
	char name[64];

	if (brokerprocess_is_sanitized())
		return;
	setenv("RDMABROKER_DEBUG", "1", 1);
	brokerprocess_stop();
	brokerprocess_write_rules("reject session\nallow any\n");
	brokerprocess_start();
	/* By the other socket, root needs no rule. */
	setenv("RDMABROKER_SOCKET", brokerprocess_path("socket.common", name), 1);
	ck_assert(!goes_direct(NULL, S_IFCHR | 0666, NULL));
	ck_assert_ptr_nonnull(strstr(brokerprocess_printed, "refuses"));
	brokerprocess_stop();
	brokerprocess_write_rules("allow any\n");
	brokerprocess_start();
	load();
	channel = new_channel();
	brokerprocess_stop();
	node_mode = S_IFCHR | 0666;
	ck_assert_ptr_null(r.rdma_create_event_channel());
	ck_assert_int_eq(errno, ENODEV);
	r.rdma_destroy_event_channel(channel);
}
END_TEST

/* ---- programs that do not use RDMA ---- */

/* This host has a device, whose node is the broker's, or open. */
static bool is_closed;

int glob(const char *pattern, int flags, int (*on_error)(const char *path, int error), glob_t *ret)
{
	static char *node = (char *)"/dev/infiniband/uverbs0";

	*ret = (glob_t){ .gl_pathc = 1, .gl_pathv = &node };
	return 0;
}

void globfree(glob_t *paths)
{
}

int eaccess(const char *path, int mode)
{
	errno = EACCES;
	return is_closed ? -1 : 0;
}

/* The library is loaded after libibverbs, whose place this program has: ibv_open_device() does not come to the drop-in. */
static void *load_closed(void)
{
	void *lib;

	is_closed = true;
	PRINTS(lib = load());
	ck_assert_str_eq(brokerprocess_printed, "");
	return lib;
}

/* What rdmabrokerctl prints. */
static void ask(const char *arguments, char *ret, size_t size)
{
	char program[PATH_MAX], socket[64], command[2 * PATH_MAX];
	FILE *f;
	size_t n;

	snprintf(command, sizeof(command), "RDMABROKER_SOCKET=%s %s %s 2>&1",
		 brokerprocess_path("socket", socket),
		 brokerprocess_built("rdmabrokerctl", program), arguments);
	f = popen(command, "r");
	n = fread(ret, 1, size - 1, f);
	ret[n] = 0;
	ck_assert_int_eq(pclose(f), 0);
}

static unsigned count_refusals(void)
{
	char text[4096];
	unsigned n = 0;

	ask("--json refusals", text, sizeof(text));
	for (const char *at = text; (at = strstr(at, "\"operation\"")); at++)
		n++;
	return n;
}

static void refuse(const char *rules)
{
	char name[64];

	brokerprocess_stop();
	brokerprocess_write_rules(rules);
	brokerprocess_start();
	setenv("RDMABROKER_SOCKET", brokerprocess_path("socket.common", name), 1);
}

START_TEST(a_start_that_is_refused)
{
	static const char *const rules[] = { "reject session\nallow any\n",
					     "reject device\nallow any\n", "" };
	unsigned before = count_fds();

	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		void *lib;

		refuse(rules[i]);
		lib = load_closed();
		ck_assert_uint_eq(count_fds(), before);
		ck_assert_uint_eq(count_refusals(), 0);
		if (i != 1) {
			/* The program's own call is noted. */
			ck_assert_ptr_null(r.rdma_create_event_channel());
			ck_assert_int_eq(errno, EACCES);
			ck_assert_uint_eq(count_refusals(), 1);
		}
		dlclose(lib);
	}
}
END_TEST

static unsigned elapsed_ms(const struct timespec *begin)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (unsigned)((now.tv_sec - begin->tv_sec) * 1000 +
			  (now.tv_nsec - begin->tv_nsec) / 1000000);
}

/* 100 ms, and not the 10 s of a call. */
START_TEST(a_start_while_the_broker_is_stopped)
{
	unsigned before = count_fds();
	struct timespec begin;

	kill(brokerprocess_pid, SIGSTOP);
	clock_gettime(CLOCK_MONOTONIC, &begin);
	load_closed();
	/* A call waits for 10 s. Only a machine that stands still for most of that time takes the one for the other. */
	ck_assert_uint_lt(elapsed_ms(&begin), 9500);
	ck_assert_uint_eq(count_fds(), before);
	kill(brokerprocess_pid, SIGCONT);
	/* The program's own call waits. */
	r.rdma_destroy_event_channel(new_channel());
}
END_TEST

START_TEST(a_start_with_leases)
{
	unsigned before = count_fds();
	char text[4096];
	void *lib = load_closed();

	ck_assert_uint_eq(count_fds(), before + 1);
	ask("status", text, sizeof(text));
	ck_assert_msg(strstr(text, "leases: 1\n"), "%s", text);
	/* The same session, and no other one, is for the program's calls. */
	r.rdma_free_devices(r.rdma_get_devices(NULL));
	dlclose(lib);
	ck_assert_uint_eq(count_fds(), before);
}
END_TEST

/* Where the nodes are open, nobody is asked. */
START_TEST(a_start_with_open_nodes)
{
	unsigned before = count_fds();

	brokerprocess_stop();
	PRINTS(load());
	ck_assert_str_eq(brokerprocess_printed, "");
	ck_assert_uint_eq(count_fds(), before);
}
END_TEST

/* ---- plug-ins ---- */

static unsigned count_daemons_fds(void)
{
	char name[64];
	unsigned n = 0;
	DIR *dir;

	snprintf(name, sizeof(name), "/proc/%d/fd", brokerprocess_pid);
	dir = opendir(name);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static bool is_loaded(void)
{
	char file[PATH_MAX];
	void *lib = dlopen(brokerprocess_built("librdmabroker-rdmacm.so", file),
			   RTLD_NOW | RTLD_NOLOAD);

	if (lib)
		dlclose(lib);
	return lib != NULL;
}

START_TEST(plugins_leave_nothing)
{
	unsigned before = count_fds(), daemons = 0;
	struct rdma_cm_id *id;

	for (int i = 0; i < 100; i++) {
		void *lib = load();

		if (i % 3 == 0)
			connect_once(PORT);
		if (i % 2 == 0) {
			id = new_id(NULL);
			OK(r.rdma_destroy_id(id));
		}
		r.rdma_destroy_event_channel(new_channel());
		ck_assert_int_eq(dlclose(lib), 0);
		ck_assert(!is_loaded());
		ck_assert_uint_eq(count_fds(), before);
		/* The daemon keeps what the first connection has opened. */
		if (i == 0)
			daemons = count_daemons_fds();
	}
	AWAIT(count_daemons_fds() <= daemons, "the daemon to close its sockets");
}
END_TEST

/* At exit(3) other threads can be in calls. */
START_TEST(exit_beside_a_thread)
{
	pthread_t thread;
	int status;

	for (int i = 0; i < 20; i++) {
		pid_t pid = fork();

		ck_assert_int_ge(pid, 0);
		if (pid == 0) {
			alarm(30);
			load();
			r.rdma_destroy_event_channel(new_channel());
			pthread_create(&thread, NULL, call_all_the_time, NULL);
			usleep((useconds_t)i * 100);
			exit(0);
		}
		ck_assert_int_eq(waitpid(pid, &status, 0), pid);
		ck_assert_int_eq(status, 0);
	}
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		standard_descriptors,
		a_channel_is_never_writable,
		readable_stays_readable,
		small_stacks,
		children_beside_a_thread,
		plugins_leave_nothing,
		exit_beside_a_thread,
		a_host_without_a_broker,
		a_broker_that_has_answered,
		a_start_that_is_refused,
		a_start_while_the_broker_is_stopped,
		a_start_with_leases,
		a_start_with_open_nodes,
	};

	return unit_run("dropin_process", set_up, brokerprocess_end, tests,
			sizeof(tests) / sizeof(tests[0]));
}
