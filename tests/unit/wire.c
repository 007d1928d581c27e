/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/facts/workload.h"
#include "core/object/inquiry.h"
#include "core/rule/core_life.h"
#include "tests/unit/unit.h"
#include "tests/unit/wire.h"
#include "util/closer.h"
#include "util/diag.h"

struct wire wire;

#define OP(NAME) RDMABROKER__REQUEST__OP_##NAME

static struct policy *load(const char *rules)
{
	struct policy *policy = NULL;
	struct diag *diag;

	ck_assert_int_eq(diag_new(&diag), 0);
	ck_assert_int_eq(policy_load_text(&policy, "test.rules", rules, strlen(rules), diag), 0);
	diag_free(diag);
	return policy;
}

void wire_set_policy(const char *rules)
{
	struct policy *policy = load(rules);

	ck_assert_int_eq(core_set_policy(wire.core, policy), 0);
	policy_unref(policy);
}

static uint64_t reload(void *userdata, bool dry_run)
{
	wire.n_reloads++;
	if (!wire.holds_reloads)
		control_reloaded(server_get_control(wire.server), dry_run, wire.n_reloads, 0, NULL,
				 core_get_policy(wire.core));
	return wire.n_reloads;
}

void wire_start(const char *rules)
{
	struct policy *policy = load(rules);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int fds[_DOOR_MAX] = { -1, -1, -1 };

	wire = (struct wire){ 0 };
	log_set_level(-1);
	ck_assert_int_ge(sd_event_new(&wire.loop), 0);
	ck_assert_int_eq(core_new(&wire.core, wire.loop, FABRIC_ACCESS_ACL, policy), 0);
	policy_unref(policy);
	/* All requests are tried, so every client may be the helper. */
	wire.core->inquiries->helper_uid = geteuid();
	wire.core->settings = (struct core_settings){
		.max_ids_per_session = 100,
		.backlog = 128,
		.tos = -1,
		.resolve_timeout_ms = 1000,
	};
	/* wire_connect() passes each client's socket to the daemon, so nobody connects to this socket. */
	ck_assert_int_eq(bind(fd, &(struct sockaddr){ .sa_family = AF_UNIX }, 2), 0);
	ck_assert_int_eq(listen(fd, 1), 0);
	fds[DOOR_COMMON] = fd;
	wire.door = DOOR_ADMIN;
	ck_assert_int_eq(server_new(&wire.server, wire.core, fds, "/proc/nonexistent", 65536,
				    reload, NULL),
			 0);
	while (sd_event_run(wire.loop, 0) > 0)
		;
}

/* Runs the loop until it and the threads are idle. Blocked jobs do not count: see wire.n_stuck and wire.n_asking. */
static void run_all(void)
{
	for (;;) {
		while (sd_event_run(wire.loop, 0) > 0)
			;
		if (closer_n_waiting(wire.core->closer) <= wire.n_stuck &&
		    workloads_n_waiting(wire.core->workloads) <= wire.n_asking)
			return;
		sd_event_run(wire.loop, UINT64_MAX);
	}
}

void wire_end(void)
{
	fake_hold_events(wire.core->fabric, false);
	run_all();
	ck_assert_uint_eq(wire.core->n_sessions, 0);
	ck_assert_uint_eq(wire.core->n_ids, 0);
	ck_assert_uint_eq(wire.core->n_listeners, 0);
	ck_assert_uint_eq(wire.core->n_connections, 0);
	ck_assert_uint_eq(wire.core->n_leases, 0);
	ck_assert_uint_eq(fake_n_ids(wire.core->fabric), 0);
	for (unsigned i = 0; i < _ACCOUNT_SLOT_MAX; i++)
		ck_assert_uint_eq(wire.core->account.used[i], 0);
	server_free(wire.server);
	core_free(wire.core);
	sd_event_unref(wire.loop);
}

void wire_connect(struct wire_client *client)
{
	int pair[2];

	ck_assert_int_eq(
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
	*client = (struct wire_client){ .sock = pair[0], .fd = -1 };
	ck_assert_int_eq(server_add_client(wire.server, pair[1], wire.door, NULL, false), 0);
	client->session = container_of(wire.core->sessions.prev, struct session, link);
	/* Without SO_PEERPIDFD the client would have to prove its identity. check_identity tests that. */
	client->session->identity.proven = true;
}

void wire_hello(struct wire_client *client, uint64_t replies_to)
{
	Rdmabroker__Frame frame = RDMABROKER__FRAME__INIT;
	Rdmabroker__Request request = RDMABROKER__REQUEST__INIT;
	Rdmabroker__Hello hello = RDMABROKER__HELLO__INIT;
	uint8_t buf[PACKET_MAX];

	hello.version = 1;
	hello.replies_to = replies_to;
	request.serial = ++client->serial;
	request.op_case = OP(HELLO);
	request.hello = &hello;
	frame.body_case = RDMABROKER__FRAME__BODY_REQUEST;
	frame.request = &request;
	wire_send(client, buf, rdmabroker__frame__pack(&frame, buf), NULL);
}

void wire_greet(struct wire_client *client, uint64_t replies_to)
{
	wire_connect(client);
	wire_hello(client, replies_to);
	wire_run(&client, 1);
	ck_assert_int_eq(client->status, 0);
	ck_assert_int_eq(session_is_apart(client->session), replies_to != 0);
}

void wire_close(struct wire_client *client)
{
	if (client->fd >= 0)
		close(client->fd);
	close(client->sock);
	client->fd = client->sock = -1;
}

static void read_frame(struct wire_client *client, const uint8_t *buf, size_t n)
{
	Rdmabroker__Frame *frame = rdmabroker__frame__unpack(NULL, n, buf);
	const Rdmabroker__Failure *failure;

	ck_assert_ptr_nonnull(frame);
	if (frame->body_case == RDMABROKER__FRAME__BODY_EVENT) {
		if (frame->event->request_id)
			client->request = frame->event->request_id;
		if (frame->event->type == RDMA_CM_EVENT_CONNECT_ERROR) {
			client->n_errors++;
			client->event_status = frame->event->status;
		}
	} else if (frame->body_case != RDMABROKER__FRAME__BODY_NOTICE) {
		ck_assert_int_eq(frame->body_case, RDMABROKER__FRAME__BODY_REPLY);
		failure = frame->reply->failure;
		client->n_answers += frame->reply->serial == client->serial;
		client->status = failure ? (int)failure->status : 0;
		client->error = failure ? failure->error : 0;
		snprintf(client->text, sizeof(client->text), "%s", failure ? failure->text : "");
		ck_assert(!failure || (failure->status > 0 && failure->error > 0));
		ck_assert(!failure || strlen(failure->text) > 0);
	}
	rdmabroker__frame__free_unpacked(frame, NULL);
}

static void receive(struct wire_client *client)
{
	uint8_t buf[PACKET_MAX];
	int fds[PACKET_MAX_FDS];

	while (client->sock >= 0 && !client->dropped) {
		size_t n_fds = 0;
		ssize_t n = packet_recv(client->sock, buf, fds, PACKET_MAX_FDS, &n_fds);

		if (n == -EAGAIN)
			return;
		if (n < 0) {
			client->dropped = true;
			return;
		}
		for (size_t i = 0; i < n_fds; i++) {
			if (client->fd >= 0)
				close(client->fd);
			client->fd = fds[i];
		}
		read_frame(client, buf, (size_t)n);
	}
}

void wire_receive(struct wire_client *const *clients, size_t n)
{
	for (size_t i = 0; i < n; i++)
		receive(clients[i]);
}

void wire_run(struct wire_client *const *clients, size_t n)
{
	run_all();
	wire_receive(clients, n);
}

void wire_send(struct wire_client *client, const uint8_t *buf, size_t len, const int *fd)
{
	client->n_answers = 0;
	client->status = -1;
	ck_assert_int_eq(packet_send(client->sock, buf, len, fd, fd != NULL), 0);
}

void wire_ask(struct wire_client *client, int op, uint32_t id)
{
	uint8_t buf[PACKET_MAX];
	size_t n = wire_make(client, op, id, buf);

	wire_send(client, buf, n, op == OP(IMPORT_ID) && client->fd >= 0 ? &client->fd : NULL);
	wire_run(&client, 1);
}

size_t wire_make(struct wire_client *client, int op, uint32_t id, uint8_t buf[PACKET_MAX])
{
	return request_make(++client->serial, op, id, NULL, 0, buf);
}
