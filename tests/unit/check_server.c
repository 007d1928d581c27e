/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/rdmabroker.h"
#include "core/core.h"
#include "proto/packet.h"
#include "proto/rdmabroker.pb-c.h"
#include "proto/status.h"
#include "rpc/server.h"
#include "tests/fake/fake.h"
#include "tests/unit/unit.h"
#include "util/diag.h"

/*
 * The library against the server over a real socket; below it the fake fabric. The server runs in a
 * thread of its own; what a test wants to know or change of it is asked by a function that its loop runs.
 */

#define T 5000 /* ms: long enough for a machine that is busy, never waited for when all is well */

static char path[] = "/tmp/rdmabroker-check-XXXXXX";
static char socket_path[64];
static pthread_t thread;
static sd_event *loop;
static struct core *core;
static struct server *server;

static struct {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	void (*run)(void *arg);
	void *arg;
	int wake[2];
} errand = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL, NULL, { -1, -1 } };

static int on_errand(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	char c;

	(void)source;
	(void)events;
	(void)userdata;
	ck_assert_int_eq(read(fd, &c, 1), 1);
	pthread_mutex_lock(&errand.lock);
	errand.run(errand.arg);
	errand.run = NULL;
	pthread_cond_signal(&errand.cond);
	pthread_mutex_unlock(&errand.lock);
	return 0;
}

static void in_server(void (*run)(void *arg), void *arg)
{
	pthread_mutex_lock(&errand.lock);
	errand.run = run;
	errand.arg = arg;
	ck_assert_int_eq(write(errand.wake[1], "x", 1), 1);
	while (errand.run)
		pthread_cond_wait(&errand.cond, &errand.lock);
	pthread_mutex_unlock(&errand.lock);
}

static void do_exit(void *arg)
{
	(void)arg;
	sd_event_exit(loop, 0);
}

static void do_stop(void *arg)
{
	(void)arg;
	server = server_free(server);
}

static void do_set_policy(void *arg)
{
	struct policy *policy = NULL;
	struct diag *diag = NULL;

	ck_assert_int_eq(diag_new(&diag), 0);
	ck_assert_int_eq(policy_load_text(&policy, "test.rules", arg, strlen(arg), diag), 0);
	core_set_policy(core, policy);
	policy_unref(policy);
	diag_free(diag);
}

static void set_policy(const char *rules)
{
	in_server(do_set_policy, (void *)rules);
}

struct counts {
	unsigned sessions, ids, fabric_ids, fds;
};

static void do_count(void *arg)
{
	*(struct counts *)arg = (struct counts){
		.sessions = core->n_sessions,
		.ids = core->n_ids,
		.fabric_ids = fake_n_ids(core->fabric),
	};
}

/* A client's end is seen by the server a little later: it has to come, within T. */
static void await_counts(unsigned sessions, unsigned ids)
{
	struct counts counts;

	for (int i = 0; i < T; i++) {
		in_server(do_count, &counts);
		if (counts.sessions == sessions && counts.ids == ids)
			return;
		poll(NULL, 0, 1);
	}
	ck_abort_msg("%u sessions and %u ids instead of %u and %u", counts.sessions, counts.ids,
		     sessions, ids);
}

static int listening_socket(void)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	strcpy(addr.sun_path, socket_path);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	ck_assert_int_eq(listen(fd, 64), 0);
	return fd;
}

static void *serve(void *arg)
{
	(void)arg;
	sd_event_loop(loop);
	server = server_free(server);
	core = core_free(core);
	sd_event_unref(loop);
	return NULL;
}

static void set_up(void)
{
	struct policy *policy = NULL;
	struct diag *diag = NULL;

	strcpy(path + strlen(path) - 6, "XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(path));
	snprintf(socket_path, sizeof(socket_path), "%s/socket", path);
	ck_assert_int_eq(diag_new(&diag), 0);
	ck_assert_int_eq(policy_load_text(&policy, "test.rules", "allow any\n", 10, diag), 0);
	diag_free(diag);

	ck_assert_int_ge(sd_event_new(&loop), 0);
	ck_assert_int_eq(core_new(&core, loop, FABRIC_ACCESS_ACL, policy), 0);
	policy_unref(policy);
	core->settings = (struct core_settings){
		.max_ids_per_session = 8,
		.backlog = 128,
		.tos = -1,
		.resolve_timeout_ms = 1000,
	};
	core->account.limit_per_user[ACCOUNT_SESSIONS] = 4;
	ck_assert_int_eq(server_new(&server, loop, core, listening_socket(), 65536), 0);
	ck_assert_int_eq(pipe(errand.wake), 0);
	ck_assert_int_ge(sd_event_add_io(loop, NULL, errand.wake[0], POLLIN, on_errand, NULL), 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, serve, NULL), 0);
}

static void tear_down(void)
{
	if (core)
		in_server(do_exit, NULL);
	pthread_join(thread, NULL);
	close(errand.wake[0]);
	close(errand.wake[1]);
	unlink(socket_path);
	rmdir(path);
}

static struct rdmabroker *open_session(unsigned flags)
{
	struct rdmabroker_options options = {
		.size = sizeof(options),
		.socket = socket_path,
		.flags = flags,
		.call_timeout_ms = T,
	};
	struct rdmabroker *session;

	ck_assert_msg(rdmabroker_open(&session, &options) == 0, "%s", rdmabroker_open_error());
	return session;
}

static const struct sockaddr *addr(uint16_t port)
{
	static struct sockaddr_in in[4];
	static unsigned n;
	struct sockaddr_in *a = &in[n++ % 4];

	*a = (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(0x0a090001),
	};
	return (struct sockaddr *)a;
}

static struct rdmabroker_event *expect(struct rdmabroker *session, enum rdmabroker_event_type type)
{
	struct pollfd p = { .fd = rdmabroker_get_fd(session), .events = POLLIN };
	struct rdmabroker_event *event;

	ck_assert_int_eq(poll(&p, 1, T), 1);
	ck_assert_int_eq(rdmabroker_get_event(session, &event, T), 0);
	ck_assert_str_eq(rdmabroker_event_str(event->type), rdmabroker_event_str(type));
	return event;
}

static void expect_done(struct rdmabroker *session, const char *call, int status)
{
	struct rdmabroker_event *event = expect(session, RDMABROKER_EVENT_DONE);

	ck_assert_str_eq(event->call, call);
	ck_assert_int_eq(event->status, status);
	rdmabroker_free_event(event);
}

static void expect_failure(struct rdmabroker *session, int r, int error, const char *part)
{
	struct rdmabroker_failure failure;

	ck_assert_int_eq(r, -error);
	rdmabroker_get_failure(session, &failure);
	ck_assert_int_eq(failure.error, -error);
	ck_assert_msg(strstr(failure.text, part) != NULL, "no '%s' in '%s'", part, failure.text);
}

static struct rdmabroker_id *start_listening(struct rdmabroker *session, uint16_t port)
{
	struct rdmabroker_id *id;

	ck_assert_int_eq(rdmabroker_create_id(session, &id, session, RDMABROKER_PS_TCP), 0);
	ck_assert_int_eq(rdmabroker_bind_addr(id, addr(port)), 0);
	ck_assert_int_eq(rdmabroker_listen(id, 0), 0);
	return id;
}

static struct rdmabroker_id *resolve(struct rdmabroker *session, uint16_t port)
{
	struct rdmabroker_id *id;

	ck_assert_int_eq(rdmabroker_create_id(session, &id, NULL, RDMABROKER_PS_TCP), 0);
	ck_assert_int_eq(rdmabroker_resolve_addr_wait(id, NULL, addr(port), T), 0);
	ck_assert_int_eq(rdmabroker_resolve_route_wait(id, T), 0);
	ck_assert_str_eq(rdmabroker_id_get_device(id), "fake0");
	ck_assert_uint_eq(rdmabroker_id_get_peer_port(id), port);
	return id;
}

START_TEST(a_connection)
{
	struct rdmabroker *s = open_session(0), *c = open_session(0);
	struct rdmabroker_conn_param param = { .qp_num = 17,
					       .private_data = "hello",
					       .private_data_len = 5 };
	struct rdmabroker_id *listener = start_listening(s, 7471), *active = resolve(c, 7471);
	struct rdmabroker_id *passive;
	struct rdmabroker_event *event;

	ck_assert_int_eq(rdmabroker_connect(active, &param), 0);
	event = expect(s, RDMABROKER_EVENT_CONNECT_REQUEST);
	ck_assert_ptr_eq(event->listen_id, listener);
	ck_assert_ptr_eq(rdmabroker_id_get_context(event->id), s);
	ck_assert_uint_ge(event->conn.private_data_len, 5);
	ck_assert_mem_eq(event->conn.private_data, "hello", 5);
	passive = event->id;
	rdmabroker_free_event(event);
	ck_assert_int_eq(rdmabroker_accept(passive, &param), 0);
	event = expect(c, RDMABROKER_EVENT_CONNECT_RESPONSE);
	rdmabroker_free_event(event);
	ck_assert_int_eq(rdmabroker_establish(active), 0);
	rdmabroker_free_event(expect(s, RDMABROKER_EVENT_ESTABLISHED));
	ck_assert_int_eq(rdmabroker_disconnect_wait(passive, T), 0);
	rdmabroker_free_event(expect(c, RDMABROKER_EVENT_DISCONNECTED));
	rdmabroker_destroy_id(passive);
	rdmabroker_destroy_id(active);
	await_counts(2, 1);
	rdmabroker_close(c);
	rdmabroker_close(s);
	await_counts(0, 0);
}
END_TEST

START_TEST(rejects_tell_who_and_why)
{
	struct rdmabroker *s = open_session(0), *c = open_session(0);
	struct rdmabroker_conn_param param = { .qp_num = 17 };
	const struct rdmabroker_event *reject;
	struct rdmabroker_event *event;
	struct rdmabroker_id *active;

	active = resolve(c, 7471);
	expect_failure(c, rdmabroker_connect_wait(active, &param, T), ECONNREFUSED,
		       "nobody listens");
	ck_assert_int_eq(rdmabroker_get_reject(active)->rejected_by,
			 RDMABROKER_REJECTED_NO_LISTENER);
	rdmabroker_destroy_id(active);

	start_listening(s, 7471);
	set_policy("allow session\nallow connect\nreject accept reason \"in repair\"");
	active = resolve(c, 7471);
	expect_failure(c, rdmabroker_connect_wait(active, &param, T), ECONNREFUSED, "in repair");
	reject = rdmabroker_get_reject(active);
	ck_assert_int_eq(reject->rejected_by, RDMABROKER_REJECTED_BY_POLICY);
	ck_assert_int_eq(reject->reject_code, RDMABROKER_REJECT_DENIED);
	ck_assert_str_eq(reject->text, "in repair");

	set_policy("allow any");
	active = resolve(c, 7471);
	ck_assert_int_eq(rdmabroker_connect(active, &param), 0);
	event = expect(s, RDMABROKER_EVENT_CONNECT_REQUEST);
	ck_assert_int_eq(rdmabroker_reject(event->id, "not today", 9), 0);
	rdmabroker_destroy_id(event->id);
	rdmabroker_free_event(event);
	event = expect(c, RDMABROKER_EVENT_REJECTED);
	ck_assert_int_eq(event->rejected_by, RDMABROKER_REJECTED_BY_PEER);
	ck_assert_mem_eq(event->conn.private_data, "not today", 9);
	rdmabroker_free_event(event);
	rdmabroker_close(c);
	rdmabroker_close(s);
}
END_TEST

START_TEST(a_session_that_does_not_block)
{
	struct rdmabroker *s = open_session(RDMABROKER_NONBLOCK);
	struct rdmabroker_event *event;
	struct rdmabroker_id *id;

	/* All at once, without an answer to any: */
	ck_assert_int_eq(rdmabroker_create_id(s, &id, NULL, RDMABROKER_PS_TCP), 0);
	ck_assert_int_eq(rdmabroker_bind_addr(id, addr(0)), 0);
	ck_assert_int_eq(rdmabroker_listen(id, 1), 0);
	ck_assert_int_eq(rdmabroker_bind_addr(id, addr(0)), 0);
	expect_done(s, "create_id", 0);
	expect_done(s, "bind_addr", 0);
	ck_assert_uint_ne(rdmabroker_id_get_local_port(id), 0);
	expect_done(s, "listen", 0);
	expect_done(s, "bind_addr", -EINVAL);
	rdmabroker_destroy_id(id);

	ck_assert_int_eq(rdmabroker_create_id(s, &id, NULL, RDMABROKER_PS_TCP), 0);
	ck_assert_int_eq(rdmabroker_resolve_addr(id, NULL, addr(1), T), 0);
	expect_done(s, "create_id", 0);
	event = expect(s, RDMABROKER_EVENT_ADDR_RESOLVED);
	rdmabroker_free_event(event);
	ck_assert_int_eq(rdmabroker_get_event(s, &event, 0), -EAGAIN);
	ck_assert_int_eq(rdmabroker_resolve_route_wait(id, T), 0);
	rdmabroker_close(s);
}
END_TEST

START_TEST(events_of_a_destroyed_id_are_dropped)
{
	struct rdmabroker *s = open_session(0);
	struct rdmabroker_conn_param param = { .qp_num = 17 };
	struct rdmabroker_id *listener = start_listening(s, 7471), *active = resolve(s, 7471);
	struct rdmabroker_event *event;

	ck_assert_int_eq(rdmabroker_connect(active, &param), 0);
	/* The request comes to a listener that is gone here, but not there yet: it is to be refused. */
	await_counts(1, 3);
	rdmabroker_destroy_id(listener);
	event = expect(s, RDMABROKER_EVENT_REJECTED);
	rdmabroker_free_event(event);
	rdmabroker_destroy_id(active);
	await_counts(1, 0);
	/* The numbers are free again: */
	for (int i = 0; i < 100; i++)
		rdmabroker_destroy_id(resolve(s, 7471));
	rdmabroker_close(s);
}
END_TEST

START_TEST(refusals_have_words)
{
	struct rdmabroker *s = open_session(0);
	struct rdmabroker_id *ids[9], *id = NULL;
	struct rdmabroker_options options = { .size = sizeof(options), .socket = socket_path };
	struct rdmabroker *more[4], *extra;

	for (int i = 0; i < 8; i++)
		ck_assert_int_eq(rdmabroker_create_id(s, &ids[i], NULL, RDMABROKER_PS_TCP), 0);
	expect_failure(s, rdmabroker_create_id(s, &ids[8], NULL, RDMABROKER_PS_TCP), EDQUOT,
		       "limit");
	rdmabroker_destroy_id(ids[0]);
	expect_failure(s, rdmabroker_create_id(s, &id, NULL, (enum rdmabroker_port_space)0x999),
		       EINVAL, "port space");
	expect_failure(s, rdmabroker_resolve_route(ids[1], T), EINVAL, "idle");
	expect_failure(s, rdmabroker_resolve_addr(ids[1], NULL, NULL, T), EINVAL, "IPv4");
	expect_failure(s, rdmabroker_connect(ids[1], NULL), EINVAL, "QP");
	expect_failure(s, rdmabroker_establish(ids[1]), EINVAL, "establish");
	set_policy("allow session\nreject listen reason \"no servers\"\nallow connect");
	ck_assert_int_eq(rdmabroker_bind_addr(ids[1], addr(9000)), 0);
	expect_failure(s, rdmabroker_listen(ids[1], 1), EACCES, "no servers");

	for (int i = 0; i < 3; i++)
		more[i] = open_session(0);
	ck_assert_int_eq(rdmabroker_open(&extra, &options), -EDQUOT);
	ck_assert_ptr_nonnull(strstr(rdmabroker_open_error(), "SessionsPerUser="));
	for (int i = 0; i < 3; i++)
		rdmabroker_close(more[i]);
	rdmabroker_close(s);
	await_counts(0, 0);
	if (geteuid() != 0) {
		set_policy("reject session reason \"go away\"");
		ck_assert_int_eq(rdmabroker_open(&extra, &options), -EACCES);
		ck_assert_ptr_nonnull(strstr(rdmabroker_open_error(), "go away"));
	}
	unlink(socket_path);
	ck_assert_int_eq(rdmabroker_open(&extra, &options), -ENOENT);
}
END_TEST

START_TEST(the_server_dies)
{
	struct rdmabroker *s = open_session(0);
	struct rdmabroker_id *id = start_listening(s, 7471);
	struct rdmabroker_event *event;

	in_server(do_stop, NULL);
	event = expect(s, RDMABROKER_EVENT_LOST);
	ck_assert_ptr_null(event->id);
	rdmabroker_free_event(event);
	ck_assert_int_eq(rdmabroker_get_event(s, &event, T), -ECONNRESET);
	expect_failure(s, rdmabroker_bind_addr(id, addr(1)), ECONNRESET, "lost");
	rdmabroker_destroy_id(id);
	rdmabroker_close(s);
}
END_TEST

START_TEST(a_child_stays_out)
{
	struct rdmabroker *s = open_session(0);
	struct rdmabroker_id *id = start_listening(s, 7471);
	struct rdmabroker_event *event;
	int status;
	pid_t pid;

	pid = fork();
	if (pid == 0) {
		int ok = rdmabroker_listen(id, 1) == -EPERM &&
			 rdmabroker_get_event(s, &event, T) == -EPERM;

		rdmabroker_destroy_id(id);
		rdmabroker_close(s);
		_exit(ok ? 0 : 1);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	rdmabroker_destroy_id(resolve(s, 7471));
	await_counts(1, 1);
	rdmabroker_close(s);
}
END_TEST

START_TEST(status_counts)
{
	struct rdmabroker *s = open_session(0);
	struct rdmabroker_status *status;

	start_listening(s, 7471);
	ck_assert_int_eq(rdmabroker_get_status(s, &status), 0);
	ck_assert_str_eq(status->version, rdmabroker_version());
	ck_assert_uint_eq(status->n_sessions, 1);
	ck_assert_uint_eq(status->n_listeners, 1);
	ck_assert_uint_eq(status->n_ids, 1);
	ck_assert_uint_eq(status->n_rules, 1);
	ck_assert_uint_gt(status->n_fds, 3);
	ck_assert_uint_eq(status->n_devices, 1);
	ck_assert_str_eq(status->devices[0].name, "fake0");
	ck_assert_ptr_null(status->policy_error);
	rdmabroker_free_status(status);
	rdmabroker_close(s);
}
END_TEST

START_TEST(a_look_up)
{
	struct rdmabroker *s = open_session(0), *c = open_session(0);
	struct rdmabroker_conn_param param = { .qp_num = 17,
					       .private_data = "hello",
					       .private_data_len = 5 };
	struct rdmabroker_id *listener, *active, *request;
	static const char too_long[181];

	ck_assert_int_eq(rdmabroker_create_id(s, &listener, NULL, RDMABROKER_PS_UDP), 0);
	ck_assert_int_eq(rdmabroker_bind_addr(listener, addr(7471)), 0);
	ck_assert_int_eq(rdmabroker_listen(listener, 0), 0);
	ck_assert_int_eq(rdmabroker_create_id(c, &active, NULL, RDMABROKER_PS_UDP), 0);
	ck_assert_int_eq(rdmabroker_resolve_addr_wait(active, NULL, addr(7471), T), 0);
	ck_assert_int_eq(rdmabroker_resolve_route_wait(active, T), 0);
	param.private_data = too_long;
	param.private_data_len = sizeof(too_long);
	expect_failure(c, rdmabroker_connect(active, &param), E2BIG, "private data");
	param.private_data = "hello";
	param.private_data_len = 5;
	ck_assert_int_eq(rdmabroker_connect(active, &param), 0);
	ck_assert_int_eq(rdmabroker_get_request(listener, &request, T), 0);
	ck_assert_mem_eq(rdmabroker_get_request_event(request)->conn.private_data, "hello", 5);
	ck_assert_int_eq(rdmabroker_accept_wait(request, &param, T), 0);
	rdmabroker_free_event(expect(c, RDMABROKER_EVENT_ESTABLISHED));
	rdmabroker_close(c);
	rdmabroker_close(s);
}
END_TEST

START_TEST(ece_travels_both_ways)
{
	struct rdmabroker *s = open_session(0), *c = open_session(0);
	struct rdmabroker_conn_param param = { .qp_num = 17 };
	struct ibv_ece ece = { .vendor_id = 0x15b3, .options = 0x10000001 }, got;
	struct rdmabroker_id *listener = start_listening(s, 7471), *active = resolve(c, 7471);
	struct rdmabroker_id *request;
	struct rdmabroker_event *event;

	ck_assert_int_eq(rdmabroker_set_local_ece(active, &(struct ibv_ece){ 0 }), -EINVAL);
	ck_assert_int_eq(rdmabroker_set_local_ece(active, &ece), 0);
	ck_assert_int_eq(rdmabroker_connect(active, &param), 0);
	ck_assert_int_eq(rdmabroker_get_request(listener, &request, T), 0);
	ck_assert_int_eq(rdmabroker_get_remote_ece(request, &got), 0);
	ck_assert_uint_eq(got.vendor_id, 0x15b3);
	ck_assert_uint_eq(got.options, 0x10000001);
	ece.options = 3;
	ck_assert_int_eq(rdmabroker_set_local_ece(request, &ece), 0);
	ck_assert_int_eq(rdmabroker_accept(request, &param), 0);
	event = expect(c, RDMABROKER_EVENT_CONNECT_RESPONSE);
	ck_assert_uint_eq(event->remote_ece.options, 3);
	rdmabroker_free_event(event);
	rdmabroker_destroy_id(active);

	active = resolve(c, 7471);
	ck_assert_int_eq(rdmabroker_connect(active, &param), 0);
	ck_assert_int_eq(rdmabroker_get_request(listener, &request, T), 0);
	ck_assert_int_eq(rdmabroker_get_remote_ece(request, &got), 0);
	ck_assert_uint_eq(got.vendor_id, 0);
	ck_assert_int_eq(rdmabroker_reject_ece(request, "no", 2), 0);
	event = expect(c, RDMABROKER_EVENT_REJECTED);
	ck_assert_int_eq(event->rejected_by, RDMABROKER_REJECTED_ECE);
	rdmabroker_free_event(event);
	rdmabroker_close(c);
	rdmabroker_close(s);
}
END_TEST

START_TEST(groups)
{
	struct rdmabroker *s = open_session(0);
	struct rdmabroker_ud_param ud;
	struct rdmabroker_event *event;
	struct rdmabroker_id *id;
	int tag;

	ck_assert_int_eq(rdmabroker_create_id(s, &id, NULL, RDMABROKER_PS_UDP), 0);
	expect_failure(s, rdmabroker_join_multicast(id, addr(0), 1, NULL), EINVAL, "not bound");
	ck_assert_int_eq(rdmabroker_bind_addr(id, addr(0)), 0);
	ck_assert_int_eq(rdmabroker_join_multicast(id, addr(1), 1, &tag), 0);
	event = expect(s, RDMABROKER_EVENT_MULTICAST_JOIN);
	ck_assert_ptr_eq(event->join_context, &tag);
	ck_assert_uint_eq(event->ud.qkey, 0x1234567);
	rdmabroker_free_event(event);
	expect_failure(s, rdmabroker_join_multicast(id, addr(1), 1, NULL), EEXIST, "joined");
	ck_assert_int_eq(rdmabroker_leave_multicast(id, addr(1)), 0);
	expect_failure(s, rdmabroker_leave_multicast(id, addr(1)), EADDRNOTAVAIL, "not joined");
	ck_assert_int_eq(rdmabroker_join_multicast_wait(id, addr(1), 1, &ud, T), 0);
	set_policy("allow session\nreject join reason \"no groups\"");
	ck_assert_int_eq(rdmabroker_leave_multicast(id, addr(1)), 0);
	expect_failure(s, rdmabroker_join_multicast(id, addr(1), 1, NULL), EACCES, "no groups");
	rdmabroker_close(s);
	await_counts(0, 0);
}
END_TEST

START_TEST(options_are_read_back)
{
	struct rdmabroker *s = open_session(0);
	struct rdmabroker_id *id;
	int value;

	ck_assert_int_eq(rdmabroker_create_id(s, &id, NULL, RDMABROKER_PS_TCP), 0);
	ck_assert_int_eq(rdmabroker_get_option(id, RDMABROKER_OPTION_TOS, &value), 0);
	ck_assert_int_eq(value, -1);
	ck_assert_int_eq(rdmabroker_set_option(id, RDMABROKER_OPTION_ACK_TIMEOUT, 14), 0);
	ck_assert_int_eq(rdmabroker_get_option(id, RDMABROKER_OPTION_ACK_TIMEOUT, &value), 0);
	ck_assert_int_eq(value, 14);
	expect_failure(s, rdmabroker_set_option(id, RDMABROKER_OPTION_ACK_TIMEOUT, 256), EINVAL,
		       "0..255");
	expect_failure(s, rdmabroker_set_option(id, (enum rdmabroker_option)77, 1), ENOSYS, "77");
	ck_assert_int_eq(rdmabroker_set_option(id, RDMABROKER_OPTION_AFONLY, 1), 0);
	ck_assert_int_eq(rdmabroker_get_option(id, RDMABROKER_OPTION_AFONLY, &value), 0);
	ck_assert_int_eq(value, 1);
	set_policy("allow session\nallow connect tos-max 8");
	ck_assert_int_eq(rdmabroker_set_option(id, RDMABROKER_OPTION_TOS, 32), 0);
	ck_assert_int_eq(rdmabroker_resolve_addr_wait(id, NULL, addr(1), T), 0);
	ck_assert_int_eq(rdmabroker_get_option(id, RDMABROKER_OPTION_TOS, &value), 0);
	ck_assert_int_eq(value, 8);
	rdmabroker_close(s);
}
END_TEST

/* A request is handed over, and accepted by who took it; nobody can take it twice. */
START_TEST(an_id_changes_hands)
{
	struct rdmabroker *s = open_session(0), *c = open_session(0), *worker = open_session(0);
	struct rdmabroker_conn_param param = { .qp_num = 17,
					       .private_data = "hello",
					       .private_data_len = 5 };
	struct rdmabroker_id *listener = start_listening(s, 7471), *active = resolve(c, 7471);
	struct rdmabroker_id *request, *moved, *again;
	int fd, pair[2];

	ck_assert_int_eq(rdmabroker_connect(active, &param), 0);
	ck_assert_int_eq(rdmabroker_get_request(listener, &request, T), 0);
	ck_assert_int_eq(rdmabroker_export_id(request, &fd), 0);
	expect_failure(s, rdmabroker_export_id(request, &pair[0]), EINVAL, "exported");
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	expect_failure(worker, rdmabroker_import_id(worker, pair[0], &moved), EBADF, "stand for");
	ck_assert_int_eq(rdmabroker_import_id(worker, fd, &moved), 0);
	expect_failure(worker, rdmabroker_import_id(worker, fd, &again), EBADF, "stand for");
	ck_assert_mem_eq(rdmabroker_get_request_event(moved)->conn.private_data, "hello", 5);
	ck_assert_str_eq(rdmabroker_id_get_device(moved), "fake0");
	expect_failure(s, rdmabroker_accept(request, &param), EINVAL, "another session's");
	rdmabroker_destroy_id(request);
	ck_assert_int_eq(rdmabroker_accept(moved, &param), 0);
	rdmabroker_free_event(expect(c, RDMABROKER_EVENT_CONNECT_RESPONSE));
	ck_assert_int_eq(rdmabroker_establish(active), 0);
	rdmabroker_free_event(expect(worker, RDMABROKER_EVENT_ESTABLISHED));
	close(fd);

	/* Who exports and goes takes the id along; who closes the descriptor leaves it. */
	rdmabroker_destroy_id(moved);
	ck_assert_int_eq(rdmabroker_export_id(listener, &fd), 0);
	close(fd);
	await_counts(3, 2);
	while (rdmabroker_export_id(listener, &fd) == -EINVAL)
		poll(NULL, 0, 1);
	rdmabroker_close(s);
	await_counts(2, 1);
	expect_failure(worker, rdmabroker_import_id(worker, fd, &moved), EBADF, "stand for");
	close(fd);

	/* A listener goes on elsewhere. */
	s = open_session(0);
	listener = start_listening(s, 7471);
	ck_assert_int_eq(rdmabroker_migrate_id(listener, worker), 0);
	rdmabroker_close(s);
	rdmabroker_destroy_id(active);
	active = resolve(c, 7471);
	ck_assert_int_eq(rdmabroker_connect(active, &param), 0);
	ck_assert_int_eq(rdmabroker_get_request(listener, &request, T), 0);
	close(pair[0]);
	close(pair[1]);
	rdmabroker_close(c);
	rdmabroker_close(worker);
	await_counts(0, 0);
}
END_TEST

static void do_reject_stale(void *arg)
{
	fake_reject_stale(core->fabric, *(unsigned *)arg);
}

/* The kernel's id is spent with each reject; the program's goes on, with what it had set. */
START_TEST(stale_rejects_are_tried_again)
{
	struct rdmabroker *s = open_session(0), *c = open_session(0);
	struct rdmabroker_conn_param param = { .qp_num = 17 };
	struct rdmabroker_id *active, *request;
	unsigned n = 5;
	int tos;

	start_listening(s, 7471);
	ck_assert_int_eq(rdmabroker_create_id(c, &active, s, RDMABROKER_PS_TCP), 0);
	ck_assert_int_eq(rdmabroker_set_option(active, RDMABROKER_OPTION_TOS, 32), 0);
	ck_assert_int_eq(rdmabroker_bind_addr(active, addr(5000)), 0);
	ck_assert_int_eq(rdmabroker_resolve_addr_wait(active, NULL, addr(7471), T), 0);
	ck_assert_int_eq(rdmabroker_resolve_route_wait(active, T), 0);
	in_server(do_reject_stale, &n);
	/* The sixth gets through, to a listener that rejects it in its own way. */
	set_policy("allow session\nallow connect\nreject accept reason \"fresh\"");
	expect_failure(c, rdmabroker_connect_wait(active, &param, T), ECONNREFUSED, "fresh");
	ck_assert_int_eq(rdmabroker_get_option(active, RDMABROKER_OPTION_TOS, &tos), 0);
	ck_assert_int_eq(tos, 32);
	ck_assert_uint_eq(rdmabroker_id_get_local_port(active), 5000);
	ck_assert_ptr_eq(rdmabroker_id_get_context(active), s);
	await_counts(2, 2);

	n = 6;
	in_server(do_reject_stale, &n);
	request = resolve(c, 7471);
	expect_failure(c, rdmabroker_connect_wait(request, &param, T), ECONNREFUSED, "remembers");
	rdmabroker_destroy_id(request);
	/* No time for more: */
	n = 2;
	in_server(do_reject_stale, &n);
	request = resolve(c, 7471);
	expect_failure(c, rdmabroker_connect_wait(request, &param, 9), ECONNREFUSED, "remembers");
	rdmabroker_close(c);
	rdmabroker_close(s);
	await_counts(0, 0);
}
END_TEST

/* What no library sends */

static int raw_connect(void)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	strcpy(sun.sun_path, socket_path);
	ck_assert_int_eq(connect(fd, (struct sockaddr *)&sun, sizeof(sun)), 0);
	return fd;
}

static size_t pack(Rdmabroker__Request *request, uint8_t *buf)
{
	Rdmabroker__Frame frame = RDMABROKER__FRAME__INIT;

	frame.body_case = RDMABROKER__FRAME__BODY_REQUEST;
	frame.request = request;
	return rdmabroker__frame__pack(&frame, buf);
}

static size_t pack_hello(uint8_t *buf, uint32_t version)
{
	Rdmabroker__Request request = RDMABROKER__REQUEST__INIT;
	Rdmabroker__Hello hello = RDMABROKER__HELLO__INIT;

	hello.version = version;
	request.serial = 1;
	request.op_case = RDMABROKER__REQUEST__OP_HELLO;
	request.hello = &hello;
	return pack(&request, buf);
}

static void expect_end(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char buf[PACKET_MAX];

	do {
		ck_assert_int_eq(poll(&p, 1, T), 1);
	} while (recv(fd, buf, sizeof(buf), 0) > 0);
	close(fd);
}

static enum status get_failure(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	uint8_t buf[PACKET_MAX];
	Rdmabroker__Frame *frame;
	enum status status;
	ssize_t n;

	ck_assert_int_eq(poll(&p, 1, T), 1);
	n = recv(fd, buf, sizeof(buf), 0);
	ck_assert_int_gt(n, 0);
	frame = rdmabroker__frame__unpack(NULL, (size_t)n, buf);
	ck_assert_ptr_nonnull(frame);
	status = frame->reply->failure ? frame->reply->failure->status : STATUS_OK;
	rdmabroker__frame__free_unpacked(frame, NULL);
	return status;
}

START_TEST(hello_comes_first)
{
	Rdmabroker__Request request = RDMABROKER__REQUEST__INIT;
	Rdmabroker__GetStatus get_status = RDMABROKER__GET_STATUS__INIT;
	uint8_t buf[PACKET_MAX];
	int fd = raw_connect();

	request.serial = 1;
	request.op_case = RDMABROKER__REQUEST__OP_GET_STATUS;
	request.get_status = &get_status;
	ck_assert_int_eq(packet_send(fd, buf, pack(&request, buf), NULL, 0), 0);
	ck_assert_int_eq(get_failure(fd), STATUS_BAD_STATE);
	expect_end(fd);

	fd = raw_connect();
	ck_assert_int_eq(packet_send(fd, buf, pack_hello(buf, 0), NULL, 0), 0);
	ck_assert_int_eq(get_failure(fd), STATUS_VERSION);
	expect_end(fd);

	fd = raw_connect();
	ck_assert_int_eq(packet_send(fd, buf, pack_hello(buf, 7), NULL, 0), 0);
	ck_assert_int_eq(get_failure(fd), STATUS_OK);
	ck_assert_int_eq(packet_send(fd, buf, pack_hello(buf, 1), NULL, 0), 0);
	ck_assert_int_eq(get_failure(fd), STATUS_BAD_STATE);
	close(fd);
}
END_TEST

START_TEST(a_request_that_is_not_in_the_table)
{
	Rdmabroker__Request request = RDMABROKER__REQUEST__INIT;
	uint8_t buf[PACKET_MAX];
	int fd = raw_connect();

	ck_assert_int_eq(packet_send(fd, buf, pack_hello(buf, 1), NULL, 0), 0);
	ck_assert_int_eq(get_failure(fd), STATUS_OK);
	request.serial = 2;
	ck_assert_int_eq(packet_send(fd, buf, pack(&request, buf), NULL, 0), 0);
	ck_assert_int_eq(get_failure(fd), STATUS_UNKNOWN_OPERATION);
	ck_assert_int_eq(packet_send(fd, buf, pack_hello(buf, 1), NULL, 0), 0);
	ck_assert_int_eq(get_failure(fd), STATUS_BAD_STATE);
	close(fd);
}
END_TEST

/* Cut at every length, and every byte turned: an answer or the end, and others do not notice. */
START_TEST(mutilated_packets)
{
	struct rdmabroker *s = open_session(0);
	uint8_t good[PACKET_MAX], buf[PACKET_MAX];
	size_t len = pack_hello(good, 1);
	unsigned n = 0;

	for (size_t i = 1; i < len; i++, n++) {
		int fd = raw_connect();

		ck_assert_int_eq(packet_send(fd, good, i, NULL, 0), 0);
		shutdown(fd, SHUT_WR);
		expect_end(fd);
	}
	for (size_t i = 0; i < len; i++)
		for (int bit = 0; bit < 8; bit++, n++) {
			int fd = raw_connect();

			memcpy(buf, good, len);
			buf[i] ^= (uint8_t)(1 << bit);
			ck_assert_int_eq(packet_send(fd, buf, len, NULL, 0), 0);
			shutdown(fd, SHUT_WR);
			expect_end(fd);
		}
	ck_assert_uint_gt(n, 50);
	rdmabroker_destroy_id(resolve(s, 1));
	rdmabroker_close(s);
	await_counts(0, 0);
}
END_TEST

START_TEST(garbage_and_descriptors)
{
	static uint8_t big[65536];
	uint8_t buf[PACKET_MAX];
	int fd, fds[2] = { 0, 1 };

	fd = raw_connect();
	ck_assert_int_eq(send(fd, big, sizeof(big), 0), sizeof(big));
	expect_end(fd);
	fd = raw_connect();
	ck_assert_int_eq(send(fd, big, 0, 0), 0);
	expect_end(fd);
	fd = raw_connect();
	memset(big, 0xff, sizeof(big));
	ck_assert_int_eq(send(fd, big, PACKET_MAX, 0), PACKET_MAX);
	expect_end(fd);
	fd = raw_connect();
	ck_assert_int_eq(packet_send(fd, buf, pack_hello(buf, 1), fds, 2), 0);
	expect_end(fd);
	await_counts(0, 0);
}
END_TEST

/* It asks and asks, and takes no answer: it is dropped, with a bounded queue. */
START_TEST(a_client_that_does_not_read)
{
	struct rdmabroker *s = open_session(0);
	Rdmabroker__Request request = RDMABROKER__REQUEST__INIT;
	Rdmabroker__CreateId create = RDMABROKER__CREATE_ID__INIT;
	uint8_t buf[PACKET_MAX];
	size_t len;
	int fd = raw_connect(), r = 0;

	ck_assert_int_eq(packet_send(fd, buf, pack_hello(buf, 1), NULL, 0), 0);
	request.serial = 2;
	request.op_case = RDMABROKER__REQUEST__OP_CREATE_ID;
	request.create_id = &create;
	len = pack(&request, buf);
	/* The server stops reading what it cannot answer, so that the sender feels it. */
	for (int i = 0; i < 1000000 && r == 0; i++) {
		struct pollfd p = { .fd = fd, .events = POLLOUT };

		r = packet_send(fd, buf, len, NULL, 0);
		if (r == -EAGAIN && poll(&p, 1, 200) == 1)
			r = 0;
	}
	ck_assert_int_eq(r, -EAGAIN);
	rdmabroker_destroy_id(resolve(s, 1));
	await_counts(2, 0);
	close(fd);
	await_counts(1, 0);
	rdmabroker_close(s);
}
END_TEST

UNIT_MAIN("server", set_up, tear_down, a_connection, rejects_tell_who_and_why,
	  a_session_that_does_not_block, events_of_a_destroyed_id_are_dropped, refusals_have_words,
	  the_server_dies, a_child_stays_out, status_counts, a_look_up, ece_travels_both_ways,
	  groups, options_are_read_back, an_id_changes_hands, stale_rejects_are_tried_again,
	  hello_comes_first, a_request_that_is_not_in_the_table, mutilated_packets,
	  garbage_and_descriptors, a_client_that_does_not_read)
