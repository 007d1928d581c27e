/* SPDX-License-Identifier: BSD-2-Clause */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/admin.h"
#include "tests/guest/calls.h"

static const char *fork_status_name(int status)
{
	return status == IBV_FORK_UNNEEDED ? "unneeded: the kernel copies registered memory" :
	       status == IBV_FORK_ENABLED  ? "enabled" :
					     "disabled";
}

/* Exec must leave this program no descriptors other than stdin, stdout and stderr. */
int list_fds(char **argv)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;
	bool leaked = false;

	if (!dir)
		die("no /proc/self/fd: %s", strerror(errno));
	while ((entry = readdir(dir))) {
		char path[300], target[256];
		ssize_t n;

		if (entry->d_name[0] == '.' || number(entry->d_name) == dirfd(dir))
			continue;
		snprintf(path, sizeof(path), "/proc/self/fd/%s", entry->d_name);
		n = readlink(path, target, sizeof(target) - 1);
		target[n > 0 ? n : 0] = 0;
		printf("child: descriptor %s is %s\n", entry->d_name, target);
		leaked |= number(entry->d_name) > STDERR_FILENO;
	}
	closedir(dir);
	if (leaked)
		die("descriptors have leaked into a child");
	return 0;
}

struct family {
	struct rdmabroker *session;
	struct rdmabroker_id *other; /* an id without a connection */
	struct link link;
	union address address;
};

static void refused(const char *what, int r)
{
	const struct rdmabroker_failure *failure;

	if (r != -EPERM)
		die("child: %s: %s instead of EPERM", what, error_name(r));
	failure = rdmabroker_last_failure();
	if (!failure->text || failure->error != -EPERM)
		die("child: %s: there is no error text for EPERM", what);
}

/* Uses the parent's session in the child. Calls that can fail must fail with EPERM. */
static void call_all(struct family *f)
{
	struct rdmabroker_id *id, *connected = f->link.id, *other = f->other;
	struct rdmabroker *s = f->session;
	const struct sockaddr *addr = &f->address.any;
	struct rdmabroker_conn_param param = { .size = sizeof(param),
					       .qp_num = f->link.qp->qp_num };
	struct ibv_qp_init_attr qp = {
		.send_cq = f->link.cq,
		.recv_cq = f->link.cq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT };
	struct rdmabroker_status *status;
	struct rdmabroker_ud_param ud = RDMABROKER_UD_PARAM_INIT;
	struct rdmabroker_event *event;
	struct ibv_context *verbs, **devices;
	struct ibv_pd *pd;
	int fd, value;
	size_t n;

	refused("get_event", rdmabroker_get_event(s, 0, &event));
	refused("create_id", rdmabroker_create_id(s, RDMABROKER_PS_TCP, NULL, &id));
	refused("bind_addr", rdmabroker_bind_addr(other, addr));
	refused("listen", rdmabroker_listen(other, 0));
	refused("set_option", rdmabroker_set_option(other, RDMABROKER_OPTION_TOS, 1));
	refused("get_option", rdmabroker_get_option(other, RDMABROKER_OPTION_TOS, &value));
	refused("resolve_addr", rdmabroker_resolve_addr(other, NULL, addr, 100));
	refused("resolve_addr_wait", rdmabroker_resolve_addr_wait(other, NULL, addr, 100));
	refused("resolve_route", rdmabroker_resolve_route(other, 100));
	refused("resolve_route_wait", rdmabroker_resolve_route_wait(other, 100));
	refused("get_request", rdmabroker_get_request(other, 0, &id));
	refused("reject", rdmabroker_reject(other, NULL, 0));
	refused("join_multicast", rdmabroker_join_multicast(other, addr, 1, NULL));
	refused("join_multicast_wait", rdmabroker_join_multicast_wait(other, addr, 1, 100, &ud));
	refused("leave_multicast", rdmabroker_leave_multicast(other, addr));
	refused("export_id", rdmabroker_export_id(other, &fd));
	refused("import_id", rdmabroker_import_id(s, STDIN_FILENO, &id));
	id = other;
	refused("migrate_id", rdmabroker_migrate_id(id, s));
	refused("get_status", rdmabroker_get_status(s, &status));
	refused("get_devices", rdmabroker_get_devices(s, &devices, &n));
	refused("open_device",
		rdmabroker_open_device(s, rdmabroker_get_device_name(connected), &verbs));
	refused("get_verbs", rdmabroker_get_verbs(connected, &verbs));
	refused("get_pd", rdmabroker_get_pd(connected, &pd));
	refused("connect", rdmabroker_connect(connected, NULL));
	refused("connect_wait", rdmabroker_connect_wait(connected, &param, 100));
	refused("accept", rdmabroker_accept(connected, &param));
	refused("accept_wait", rdmabroker_accept_wait(connected, &param, 100));
	refused("establish", rdmabroker_establish(other));
	refused("notify", rdmabroker_notify(connected, IBV_EVENT_COMM_EST));
	refused("init_qp_attr", rdmabroker_init_qp_attr(connected, &attr, &value));
	refused("create_qp", rdmabroker_create_qp(other, f->link.pd, &qp));
	refused("set_qp", rdmabroker_set_qp(other, f->link.qp));
	refused("disconnect", rdmabroker_disconnect(connected));
	refused("disconnect_wait", rdmabroker_disconnect_wait(connected, 100));
	/* These calls return nothing. The parent verifies that they had no effect. */
	rdmabroker_destroy_qp(connected);
	rdmabroker_close_device(s, f->link.qp->context);
	rdmabroker_destroy_id(other);
	rdmabroker_destroy_id(connected);
	rdmabroker_close(s);
}

static void be_the_child(struct family *f)
{
	unsigned char pages[sizeof(*f->link.memory) / 4096 + 1];

	/*
	 * After ibv_fork_init() the child has no copy of registered memory. If the kernel copies registered memory at
	 * a fork, ibv_fork_init() does nothing.
	 */
	if (mincore(f->link.memory, sizeof(*f->link.memory), pages) == 0) {
		memset(f->link.memory, 0xee, sizeof(*f->link.memory));
		printf("child: its copy of the registered memory is overwritten\n");
	} else {
		printf("child: it has no copy of the registered memory\n");
	}
	call_all(f);
	printf("child: every call was refused\n");
	fflush(stdout);
	execl("/proc/self/exe", "calls", "list-fds", NULL);
	die("exec: %s", strerror(errno));
}

/*
 * forking ADDR PORT HOW: makes rounds before the fork, while the child runs, and after the child has ended. HOW makes
 * the library call ibv_fork_init(): "flag" (RDMABROKER_FORK_SAFE), "env" (a variable that the suite sets), or "none".
 */
int forking(char **argv)
{
	struct family f = { .address = make_address(argv[0], argv[1]) };
	const union address any = make_address("0.0.0.0", "0");
	int status = -1, fork_status;
	uint64_t before;
	pid_t pid;

	f.session = open_session(strcmp(argv[2], "flag") == 0 ? RDMABROKER_FORK_SAFE : 0);
	client_connect(&f.link, f.session, &f.address, LINK_OWN);
	f.other = new_id(f.session, RDMABROKER_PS_TCP);
	fork_status = (int)ibv_is_fork_initialized();
	printf("fork status %d, %s\n", fork_status, fork_status_name(fork_status));
	if (fork_status == IBV_FORK_DISABLED && strcmp(argv[2], "none") != 0)
		die("ibv_fork_init() was not called");
	for (int i = 0; i < 50; i++)
		client_round(&f.link);
	step("ready to fork");

	pid = fork();
	if (pid < 0)
		die("fork: %s", strerror(errno));
	if (pid == 0)
		be_the_child(&f);
	before = f.link.round;
	while (waitpid(pid, &status, WNOHANG) == 0)
		client_round(&f.link);
	if (status != 0)
		die("the child ended with 0x%x", status);
	printf("%llu rounds beside the child\n", (unsigned long long)(f.link.round - before));
	step("the child has ended");

	for (int i = 0; i < 200; i++)
		client_round(&f.link);
	must(f.session, "bind_addr in the parent", rdmabroker_bind_addr(f.other, &any.any));
	rdmabroker_destroy_id(f.other);
	client_disconnect(&f.link);
	rdmabroker_close(f.session);
	printf("%llu rounds verified\n", (unsigned long long)f.link.round);
	return 0;
}

/*
 * fork-too-late ADDR PORT: opens a session with RDMABROKER_FORK_SAFE after the program has registered memory. If the
 * kernel needs ibv_fork_init(), which must precede the first registration, the call must fail with EINVAL.
 */
int fork_too_late(char **argv)
{
	const struct rdmabroker_options o = { .size = sizeof(o), .flags = RDMABROKER_FORK_SAFE };
	union address address = make_address(argv[0], argv[1]);
	struct rdmabroker *session = open_session(0), *second = NULL;
	struct rdmabroker_id *id = new_id(session, RDMABROKER_PS_TCP);
	struct link link;
	int r;

	must(session, "resolve_addr_wait",
	     rdmabroker_resolve_addr_wait(id, NULL, &address.any, DEADLINE_MS));
	link_init(&link, id, LINK_OWN);
	r = rdmabroker_open(&o, &second);
	printf("open after a registration: %s: %s\n", error_name(r),
	       r < 0 ? rdmabroker_last_failure()->text : "-");
	if (ibv_is_fork_initialized() == IBV_FORK_UNNEEDED) {
		printf("fork status %s: ibv_fork_init() has nothing to do and cannot fail\n",
		       fork_status_name(IBV_FORK_UNNEEDED));
		if (r < 0)
			die("open fails all the same");
	} else if (r != -EINVAL || second ||
		   !strstr(rdmabroker_last_failure()->text, "ibv_fork_init")) {
		die("EINVAL, and a word of ibv_fork_init() are expected");
	}
	rdmabroker_close(second);
	link_done(&link);
	rdmabroker_destroy_id(id);
	rdmabroker_close(session);
	return 0;
}
