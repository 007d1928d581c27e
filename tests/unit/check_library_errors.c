/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/packet.h"
#include "proto/rdmabroker.pb-c.h"
#include "proto/status.h"
#include "tests/unit/harness.h"

/*
 * Each row of ERRORS in librdmabroker(3) has a function here, which causes the error. The last test compares the rows
 * of the page with those here.
 */

#define STRANGER 4711

static struct rdmabroker_id *new_id(struct rdmabroker *session)
{
	struct rdmabroker_id *id;

	ck_assert_int_eq(rdmabroker_create_id(session, RDMABROKER_PS_TCP, NULL, &id), 0);
	return id;
}

static int open_at(const char *path, unsigned flags)
{
	struct rdmabroker_options options = {
		.size = sizeof(options), .socket = path, .flags = flags, .call_timeout_ms = T
	};
	struct rdmabroker *session;
	int r = rdmabroker_open(&options, &session);

	if (r == 0)
		rdmabroker_close(session);
	return r;
}

/*
 * A daemon of another version, which replies to hello with VERSION. If READS, it refuses all later requests as
 * unknown.
 */
static struct {
	pthread_t thread;
	int listener, client;
	uint32_t version;
	bool reads; /* it reads requests after hello */
} other;

static void answer(const Rdmabroker__Request *request)
{
	Rdmabroker__Frame frame = RDMABROKER__FRAME__INIT;
	Rdmabroker__Reply reply = RDMABROKER__REPLY__INIT;
	Rdmabroker__HelloResult hello = RDMABROKER__HELLO_RESULT__INIT;
	Rdmabroker__Failure failure = RDMABROKER__FAILURE__INIT;
	uint8_t buf[PACKET_MAX];

	reply.serial = request->serial;
	if (request->op_case == RDMABROKER__REQUEST__OP_HELLO) {
		hello.version = other.version;
		hello.max_ids = 8;
		reply.result_case = RDMABROKER__REPLY__RESULT_HELLO;
		reply.hello = &hello;
	} else {
		failure.error = status_to_errno(STATUS_UNKNOWN_OPERATION);
		failure.text = (char *)"the operation is not known";
		reply.failure = &failure;
	}
	frame.body_case = RDMABROKER__FRAME__BODY_REPLY;
	frame.reply = &reply;
	packet_send(other.client, buf, rdmabroker__frame__pack(&frame, buf), NULL, 0);
}

static void *serve_other(void *arg)
{
	struct pollfd p = { .events = POLLIN };
	uint8_t buf[PACKET_MAX];
	int fds[PACKET_MAX_FDS];
	size_t n_fds;

	other.client = accept(other.listener, NULL, NULL);
	p.fd = other.client;
	do {
		Rdmabroker__Frame *frame;
		ssize_t n;

		poll(&p, 1, -1);
		n = packet_recv(other.client, buf, fds, PACKET_MAX_FDS, &n_fds);
		if (n < 0)
			break;
		frame = rdmabroker__frame__unpack(NULL, (size_t)n, buf);
		answer(frame->request);
		rdmabroker__frame__free_unpacked(frame, NULL);
	} while (other.reads);
	return NULL;
}

/* Makes the other daemon listen on the socket of the harness's server. */
static void start_other(uint32_t version, bool reads)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };

	unlink(harness.socket_path);
	strcpy(addr.sun_path, harness.socket_path);
	other.listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(bind(other.listener, (struct sockaddr *)&addr, sizeof(addr)), 0);
	ck_assert_int_eq(listen(other.listener, 1), 0);
	other.version = version;
	other.reads = reads;
	ck_assert_int_eq(pthread_create(&other.thread, NULL, serve_other, NULL), 0);
}

static void end_other(void)
{
	pthread_join(other.thread, NULL);
	close(other.client);
	close(other.listener);
}

/* The event that ends a connect_wait whose connection request has reached the listener. */
static struct {
	struct rdmabroker_id *listener;
	uint16_t port; /* local port of the connecting id */
	enum rdma_cm_event_type type;
} outcome;

static void do_send_event(void *arg)
{
	fake_send_event(harness.core->fabric, outcome.port, outcome.type, 0);
}

static void *send_outcome(void *arg)
{
	struct rdmabroker_id *request;

	ck_assert_int_eq(rdmabroker_get_request(outcome.listener, T, &request), 0);
	in_server(do_send_event, NULL);
	return NULL;
}

static void expect_outcome(enum rdma_cm_event_type type, int error, const char *part)
{
	struct rdmabroker *s = open_session(0), *c = open_session(0);
	struct rdmabroker_conn_param param = { .size = sizeof(param), .qp_num = 17 };
	struct rdmabroker_id *active;
	pthread_t thread;
	int r;

	outcome.listener = start_listening(s, 7471);
	active = new_id(c);
	ck_assert_int_eq(rdmabroker_bind_addr(active, addr(5000)), 0);
	ck_assert_int_eq(rdmabroker_resolve_wait(active, NULL, addr(7471), T), 0);
	outcome.port = 5000;
	outcome.type = type;
	ck_assert_int_eq(pthread_create(&thread, NULL, send_outcome, NULL), 0);
	r = rdmabroker_connect_wait(active, &param, T);
	expect_failure(r, error, part);
	pthread_join(thread, NULL);
	rdmabroker_close(c);
	rdmabroker_close(s);
}

static void e2big(void)
{
	static const char data[RDMABROKER_CONNECT_DATA_MAX + 1];
	struct rdmabroker_conn_param param = { .size = sizeof(param),
					       .qp_num = 17,
					       .private_data = data,
					       .private_data_len = sizeof(data) };
	struct rdmabroker *s = open_session(0);

	expect_failure(rdmabroker_connect(resolve(s, 7471), &param), E2BIG, "private data");
	rdmabroker_close(s);
}

/* When an admin ends a listener, the event is that of a removed device, although no device was removed. */
static void eacces_by_an_admin(void)
{
	struct rdmabroker *s = open_session(0), *admin = open_session(0);
	struct rdmabroker_id *listener, *request;

	listener = start_listening(s, 7471);
	ck_assert_int_eq(rdmabroker_kick(admin, number_of(admin, 0), 1), 0);
	expect_failure(rdmabroker_get_request(listener, T, &request), EACCES,
		       "get_request: the broker has ended the id: ended by an admin");
	rdmabroker_close(admin);
	rdmabroker_close(s);
}

static void eacces(void)
{
	struct rdmabroker *s = open_session(0);
	const struct rdmabroker_failure *failure;

	set_policy("allow session\nreject connect reason \"not today\"");
	expect_failure(rdmabroker_resolve(new_id(s), NULL, addr(7471), T), EACCES, "not today");
	failure = rdmabroker_last_failure();
	ck_assert_str_eq(failure->rule, "test.rules:2");
	expect_failure(rdmabroker_join_multicast(new_id(s), addr(1), 1, NULL), EINVAL, "bound");
	set_policy("allow session");
	expect_failure(rdmabroker_resolve(new_id(s), NULL, addr(7471), T), EACCES, "no-rule");
	rdmabroker_close(s);
	set_policy("allow any");
	eacces_by_an_admin();
}

static void eaddrinuse(void)
{
	struct rdmabroker *s = open_session(0);

	start_listening(s, 7471);
	expect_failure(rdmabroker_bind_addr(new_id(s), addr(7471)), EADDRINUSE, "in use");
	rdmabroker_close(s);
}

/*
 * The kernel also returns EADDRNOTAVAIL if the port is in use and either id has a wildcard address. The broker
 * repeats such a bind once, so two binds fail here.
 */
static void eaddrnotavail(void)
{
	struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons(7471) };
	struct rdmabroker *s = open_session(0);
	struct rdmabroker_id *id = new_id(s);

	fake_fail_times(harness.core->fabric, FAKE_BIND, 2, -EADDRNOTAVAIL);
	expect_failure(rdmabroker_bind_addr(id, (struct sockaddr *)&any), EADDRNOTAVAIL,
		       "bind 0.0.0.0:7471: the port is in use");
	fake_fail_times(harness.core->fabric, FAKE_BIND, 2, -EADDRNOTAVAIL);
	expect_failure(rdmabroker_bind_addr(id, addr(7471)), EADDRNOTAVAIL,
		       "bind 10.9.0.1:7471: this host does not have the address, or the port is in "
		       "use on a wildcard address");
	fake_fail_next(harness.core->fabric, FAKE_BIND, -EADDRNOTAVAIL);
	expect_failure(rdmabroker_bind_addr(id, addr(0)), EADDRNOTAVAIL,
		       "bind 10.9.0.1:0: this host does not have the address");
	ck_assert_int_eq(rdmabroker_bind_addr(id, addr(7471)), 0);
	fake_fail_next(harness.core->fabric, FAKE_LISTEN, -EADDRNOTAVAIL);
	expect_failure(rdmabroker_listen(id, 0), EADDRNOTAVAIL, "listen: the port is in use");
	expect_failure(rdmabroker_leave_multicast(id, addr(1)), EADDRNOTAVAIL, "not joined");
	rdmabroker_close(s);
}

static void eagain(void)
{
	struct rdmabroker_options options = { .size = sizeof(options),
					      .socket = harness.socket_path,
					      .flags = RDMABROKER_NONBLOCK };
	struct rdmabroker *s = open_session(0);
	struct rdmabroker_event *event;
	struct rdmabroker_id *id;
	int r;

	expect_failure(rdmabroker_get_event(s, 0, &event), EAGAIN, "no event");
	rdmabroker_close(s);

	start_other(/* version= */ 1, /* reads= */ false);
	ck_assert_int_eq(rdmabroker_open(&options, &s), 0);
	ck_assert_int_eq(rdmabroker_create_id(s, RDMABROKER_PS_TCP, NULL, &id), 0);
	do
		r = rdmabroker_bind_addr(id, addr(7471));
	while (r == 0);
	expect_failure(r, EAGAIN, "the socket is full");
	end_other();
	rdmabroker_close(s);
}

static void ebadf(void)
{
	struct rdmabroker *s = open_session(0);
	struct rdmabroker_id *id;
	int pair[2];

	/*
	 * On Linux 6.16 and later, a client cannot send descriptors before Hello has succeeded. start_listening()
	 * waits for Hello.
	 */
	start_listening(s, 7471);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	expect_failure(rdmabroker_import_id(s, pair[0], &id), EBADF,
		       "does not belong to an exported id");
	expect_failure(rdmabroker_import_id(s, -1, &id), EBADF, "fd is negative");
	close(pair[0]);
	close(pair[1]);
	rdmabroker_close(s);
}

static void ebusy(void)
{
	struct rdmabroker *s = open_session(0);
	const struct rdmabroker_failure *failure;
	struct rdmabroker_ud_param ud = RDMABROKER_UD_PARAM_INIT;
	struct rdmabroker_id *id;
	int fd;

	set_policy("allow session\nallow listen max 1\nallow join");
	start_listening(s, 7471);
	id = new_id(s);
	ck_assert_int_eq(rdmabroker_bind_addr(id, addr(7472)), 0);
	expect_failure(rdmabroker_listen(id, 0), EBUSY, "max 1");
	failure = rdmabroker_last_failure();
	ck_assert_str_eq(failure->rule, "test.rules:2");
	ck_assert_uint_gt(failure->retry_after_ms, 0);

	ck_assert_int_eq(rdmabroker_create_id(s, RDMABROKER_PS_UDP, NULL, &id), 0);
	ck_assert_int_eq(rdmabroker_bind_addr(id, addr(0)), 0);
	ck_assert_int_eq(rdmabroker_join_multicast_wait(id, addr(1), 1, T, &ud), 0);
	expect_failure(rdmabroker_export_id(id, &fd), EBUSY, "group");
	rdmabroker_close(s);
}

static void econnaborted(void)
{
	expect_outcome(RDMA_CM_EVENT_CONNECT_ERROR, ECONNABORTED, "connect");
}

static void econnrefused(void)
{
	struct rdmabroker_conn_param param = { .size = sizeof(param), .qp_num = 17 };
	struct rdmabroker *s = open_session(0);
	struct rdmabroker_id *id = resolve(s, 7471);

	expect_failure(rdmabroker_connect_wait(id, &param, T), ECONNREFUSED, "no listener");
	ck_assert_ptr_nonnull(rdmabroker_get_reject_event(id));
	rdmabroker_close(s);
	stop_server();
	ck_assert_int_eq(open_at(harness.socket_path, 0), -ECONNREFUSED);
}

static void econnreset(void)
{
	struct rdmabroker *s = open_session(0);
	struct rdmabroker_id *id = new_id(s);

	stop_server();
	expect_failure(rdmabroker_bind_addr(id, addr(7471)), ECONNRESET, "lost");
	rdmabroker_close(s);
}

static void edquot(void)
{
	struct rdmabroker *s = open_session(0);
	struct rdmabroker_id *id;

	for (int i = 0; i < 8; i++)
		new_id(s);
	expect_failure(rdmabroker_create_id(s, RDMABROKER_PS_TCP, NULL, &id), EDQUOT, "limit");
	rdmabroker_close(s);
}

static void eexist(void)
{
	struct rdmabroker *s = open_session(0);
	struct rdmabroker_ud_param ud = RDMABROKER_UD_PARAM_INIT;
	struct rdmabroker_id *id;

	ck_assert_int_eq(rdmabroker_create_id(s, RDMABROKER_PS_UDP, NULL, &id), 0);
	ck_assert_int_eq(rdmabroker_bind_addr(id, addr(0)), 0);
	ck_assert_int_eq(rdmabroker_join_multicast_wait(id, addr(1), 1, T, &ud), 0);
	expect_failure(rdmabroker_join_multicast(id, addr(1), 1, NULL), EEXIST, "joined");
	rdmabroker_close(s);
}

static void ehostunreach(void)
{
	expect_outcome(RDMA_CM_EVENT_UNREACHABLE, EHOSTUNREACH, "does not answer");
}

static void einval(void)
{
	struct rdmabroker *s = open_session(0);
	struct rdmabroker_id *id = new_id(s);

	expect_failure(rdmabroker_set_option(id, RDMABROKER_OPTION_TOS, 256), EINVAL, "0..255");
	expect_failure(rdmabroker_resolve_route(id, T), EINVAL, "idle");
	rdmabroker_close(s);
}

static void eio(void)
{
	struct rdmabroker *s = open_session(0);
	struct rdmabroker_id *id = new_id(s);

	fake_fail_next(harness.core->fabric, FAKE_BIND, -EIO);
	expect_failure(rdmabroker_bind_addr(id, addr(7471)), EIO, "bind");
	rdmabroker_close(s);
}

static void do_remove_device(void *arg)
{
	fake_remove_device(harness.core->fabric, arg);
}

static void enodev(void)
{
	struct rdmabroker *s = open_session(0);
	struct rdmabroker_id *id = start_listening(s, 7471), *request;
	struct ibv_context *verbs;

	expect_failure(rdmabroker_get_verbs(new_id(s), &verbs), ENODEV, "not bound");
	expect_failure(rdmabroker_open_device(s, "nosuch0", &verbs), ENODEV, "nosuch0");
	in_server(do_remove_device, (void *)"fake0");
	expect_failure(rdmabroker_get_request(id, T, &request), ENODEV, "removed");
	/* The broker creates an id with the first request about it, so bind_addr fails. */
	id = new_id(s);
	expect_failure(rdmabroker_bind_addr(id, addr(7471)), ENODEV, "device");
	rdmabroker_close(s);
}

static void enoent(void)
{
	unlink(harness.socket_path);
	ck_assert_int_eq(open_at(harness.socket_path, 0), -ENOENT);
}

static void enomem(void)
{
	struct rdmabroker *s = open_session(0);
	struct rdmabroker_id *id = new_id(s);

	fake_fail_next(harness.core->fabric, FAKE_BIND, -ENOMEM);
	expect_failure(rdmabroker_bind_addr(id, addr(7471)), ENOMEM, "memory");
	rdmabroker_close(s);
}

static void enametoolong(void)
{
	char path[200];

	memset(path, 'x', sizeof(path) - 1);
	path[sizeof(path) - 1] = 0;
	ck_assert_int_eq(open_at(path, 0), -ENAMETOOLONG);
}

static void emsgsize(void)
{
	struct rdmabroker_question question = { .operation = "listen" };
	struct rdmabroker_explanation *explanation;
	struct rdmabroker *s = open_session(0);
	static char unit[PACKET_MAX + 1];

	memset(unit, 'x', sizeof(unit) - 1);
	question.who.unit = unit;
	expect_failure(rdmabroker_explain(s, &question, &explanation), EMSGSIZE, "too long");
	rdmabroker_close(s);
}

static void enosys(void)
{
	struct rdmabroker *s = open_session(0);
	struct rdmabroker_id *id = new_id(s);
	int value;

	expect_failure(rdmabroker_set_option(id, (enum rdmabroker_option)77, 1), ENOSYS, "77");
	expect_failure(rdmabroker_get_option(id, (enum rdmabroker_option)77, &value), ENOSYS, "77");
	rdmabroker_close(s);
}

static void eopnotsupp(void)
{
	struct rdmabroker_options options = { .size = sizeof(options),
					      .socket = harness.socket_path };
	struct rdmabroker *s;
	struct rdmabroker_id *id;

	/* An unknown flag must be refused, because the program can depend on its effect. */
	ck_assert_int_eq(open_at(harness.socket_path, RDMABROKER_NONBLOCK | 1u << 30), -EOPNOTSUPP);
	ck_assert_ptr_nonnull(strstr(rdmabroker_last_failure()->text, "0x40000000"));
	start_other(/* version= */ 1, /* reads= */ true);
	ck_assert_int_eq(rdmabroker_open(&options, &s), 0);
	id = new_id(s);
	expect_failure(rdmabroker_bind_addr(id, addr(7471)), EOPNOTSUPP, "not known");
	rdmabroker_close(s);
	end_other();
}

static void eperm(void)
{
	struct rdmabroker_conn_param param = { .size = sizeof(param), .qp_num = STRANGER };
	struct rdmabroker *s = open_session(0);
	struct rdmabroker_id *id = resolve(s, 7471);
	int status;
	pid_t pid;

	fake_estrange_qp(harness.core->fabric, STRANGER);
	expect_failure(rdmabroker_connect(id, &param), EPERM, "QP");
	pid = fork();
	if (pid == 0)
		_exit(rdmabroker_listen(id, 0) == -EPERM ? 0 : 1);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	rdmabroker_close(s);
}

static void eproto(void)
{
	start_other(/* version= */ 2, /* reads= */ false);
	ck_assert_int_eq(open_at(harness.socket_path, 0), -EPROTO);
	end_other();
}

static void eshutdown(void)
{
	struct rdmabroker *s = open_session(0);

	ck_assert_int_eq(rdmabroker_drain(s, false), 0);
	expect_failure(rdmabroker_bind_addr(new_id(s), addr(7471)), ESHUTDOWN, "drain");
	rdmabroker_close(s);
}

static void estale(void)
{
	struct rdmabroker_conn_param param = { .size = sizeof(param), .qp_num = 17 };
	struct rdmabroker *s = open_session(0);
	struct rdmabroker_id *id = resolve(s, 7471);

	set_policy("allow session\nallow connect tos 32");
	expect_failure(rdmabroker_connect(id, &param), ESTALE, "");
	rdmabroker_close(s);
}

static void etimedout(void)
{
	struct rdmabroker *s = open_session(0);
	struct rdmabroker_id *request;

	expect_failure(rdmabroker_get_request(start_listening(s, 7471), 1, &request), ETIMEDOUT,
		       "before the timeout");
	rdmabroker_close(s);
}

static void erange(void)
{
	struct rdmabroker *s = open_session(0);
	char path[8];

	ck_assert_int_eq(rdmabroker_restrict(s, "allow any", 0), 0);
	expect_failure(rdmabroker_publish(s, path, sizeof(path)), ERANGE, "needs");
	rdmabroker_close(s);
}

static const struct row {
	const char *name;
	void (*run)(void);
} rows[] = {
	{ "E2BIG", e2big },
	{ "EACCES", eacces },
	{ "EADDRINUSE", eaddrinuse },
	{ "EADDRNOTAVAIL", eaddrnotavail },
	{ "EAGAIN", eagain },
	{ "EBADF", ebadf },
	{ "EBUSY", ebusy },
	{ "ECONNABORTED", econnaborted },
	{ "ECONNREFUSED", econnrefused },
	{ "ECONNRESET", econnreset },
	{ "EDQUOT", edquot },
	{ "EEXIST", eexist },
	{ "EHOSTUNREACH", ehostunreach },
	{ "EINVAL", einval },
	{ "EIO", eio },
	{ "EMSGSIZE", emsgsize },
	{ "ENAMETOOLONG", enametoolong },
	{ "ENODEV", enodev },
	{ "ENOENT", enoent },
	{ "ENOMEM", enomem },
	{ "ENOSYS", enosys },
	{ "EOPNOTSUPP", eopnotsupp },
	{ "EPERM", eperm },
	{ "EPROTO", eproto },
	{ "ERANGE", erange },
	{ "ESHUTDOWN", eshutdown },
	{ "ESTALE", estale },
	{ "ETIMEDOUT", etimedout },
};

#define N_ROWS (sizeof(rows) / sizeof(rows[0]))

START_TEST(each_row_of_the_page)
{
	rows[_i].run();
}
END_TEST

START_TEST(the_page_has_the_same_rows)
{
	const char *dir = getenv("SRCDIR");
	char path[4096], line[512], name[64];
	bool in_errors = false;
	size_t n = 0;
	FILE *page;

	snprintf(path, sizeof(path), "%s/client/librdmabroker.3", dir ? dir : ".");
	page = fopen(path, "re");
	ck_assert_msg(page != NULL, "%s: %s", path, strerror(errno));
	while (fgets(line, sizeof(line), page)) {
		if (strncmp(line, ".Sh ", 4) == 0)
			in_errors = strcmp(line, ".Sh ERRORS\n") == 0;
		if (!in_errors || sscanf(line, ".It Bq Er %63s", name) != 1)
			continue;
		ck_assert_msg(n < N_ROWS, "%s has no test", name);
		ck_assert_str_eq(name, rows[n++].name);
	}
	fclose(page);
	ck_assert_uint_eq(n, N_ROWS);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("library errors");
	TCase *tcase = tcase_create("library errors");
	SRunner *runner;
	int failed;

	tcase_set_timeout(tcase, UNIT_TIMEOUT);
	tcase_add_checked_fixture(tcase, set_up, tear_down);
	tcase_add_loop_test(tcase, each_row_of_the_page, 0, N_ROWS);
	tcase_add_test(tcase, the_page_has_the_same_rows);
	suite_add_tcase(suite, tcase);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
