/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rpc/peer.h"
#include "tests/unit/unit.h"
#include "tests/unit/wire.h"
#include "util/diag.h"

struct wire wire;

#define OP(NAME) RDMABROKER__REQUEST__OP_##NAME

/* The daemon */

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

static int reload(void *userdata, struct diag *diag)
{
	(void)userdata;
	(void)diag;
	return 0;
}

static const struct server_ops server_ops = { .reload = reload };

void wire_start(const char *rules)
{
	struct policy *policy = load(rules);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	log_set_level(-1);
	ck_assert_int_ge(sd_event_new(&wire.loop), 0);
	ck_assert_int_eq(core_new(&wire.core, wire.loop, FABRIC_ACCESS_ACL, policy), 0);
	policy_unref(policy);
	wire.core->settings = (struct core_settings){
		.max_ids_per_session = 100,
		.backlog = 128,
		.tos = -1,
		.resolve_timeout_ms = 1000,
	};
	/* Clients are given to the daemon one by one; nobody connects here. */
	ck_assert_int_eq(bind(fd, &(struct sockaddr){ .sa_family = AF_UNIX }, 2), 0);
	ck_assert_int_eq(listen(fd, 1), 0);
	ck_assert_int_eq(
		server_new(&wire.server, wire.loop, wire.core, fd, 65536, &server_ops, NULL), 0);
	while (sd_event_run(wire.loop, 0) > 0)
		;
}

void wire_end(void)
{
	fake_hold_events(wire.core->fabric, false);
	while (sd_event_run(wire.loop, 0) > 0)
		;
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

/* Clients */

void wire_connect(struct wire_client *client)
{
	int pair[2];

	ck_assert_int_eq(
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
	*client = (struct wire_client){ .sock = pair[0], .fd = -1 };
	ck_assert_int_eq(peer_new(wire.server, wire.loop, wire.core, pair[1], 65536), 0);
	client->session = container_of(wire.core->sessions.prev, struct session, link);
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
	} else {
		ck_assert_int_eq(frame->body_case, RDMABROKER__FRAME__BODY_REPLY);
		failure = frame->reply->failure;
		client->n_answers += frame->reply->serial == client->serial;
		client->status = failure ? (int)failure->status : 0;
		client->error = failure ? failure->error : 0;
		/* A refusal has an errno and words. */
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
		ssize_t n = packet_recv(client->sock, buf, fds, &n_fds);

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

void wire_run(struct wire_client *const *clients, size_t n)
{
	while (sd_event_run(wire.loop, 0) > 0)
		;
	for (size_t i = 0; i < n; i++)
		receive(clients[i]);
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
	size_t n = wire_make(client, op, id, NULL, 0, buf);

	wire_send(client, buf, n, op == OP(IMPORT_ID) && client->fd >= 0 ? &client->fd : NULL);
	wire_run(&client, 1);
}

/* Requests */

const char *wire_op_name(int op)
{
	const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field(
		&rdmabroker__request__descriptor, (unsigned)op);

	return field->name;
}

struct writer {
	uint8_t *buf;
	size_t n;
};

static void put_varint(struct writer *w, uint64_t value)
{
	for (; value >= 128; value >>= 7)
		w->buf[w->n++] = (uint8_t)value | 128;
	w->buf[w->n++] = (uint8_t)value;
}

static void put_number(struct writer *w, unsigned field, uint64_t value)
{
	put_varint(w, field << 3);
	put_varint(w, value);
}

static void put_bytes(struct writer *w, unsigned field, const void *data, size_t n)
{
	put_varint(w, field << 3 | 2);
	put_varint(w, n);
	memcpy(w->buf + w->n, data, n);
	w->n += n;
}

/* By hand, so that what the generated code would not write can be written as well. */
static void put_address(struct writer *w, unsigned field, const char *host, uint32_t port)
{
	struct writer inner = { (uint8_t[32]){ 0 }, 0 };

	put_bytes(&inner, 1, host, 4);
	put_number(&inner, 2, port);
	put_bytes(w, field, inner.buf, inner.n);
}

#define HOST "\x0a\x09\x00\x01"
#define GROUP "\xef\x01\x02\x03"

static void put_param(struct writer *w, unsigned field)
{
	struct writer inner = { (uint8_t[32]){ 0 }, 0 };

	put_bytes(&inner, 1, "hi", 2);
	put_number(&inner, 8, 17);
	put_bytes(w, field, inner.buf, inner.n);
}

static void put_operation(struct writer *w, int op, uint32_t id)
{
	switch (op) {
	case OP(HELLO):
		put_number(w, 1, 1);
		return;
	case OP(CREATE_ID):
		put_number(w, 1, RDMA_PS_TCP);
		put_number(w, 2, id);
		return;
	case OP(OPEN_DEVICE):
	case OP(CLOSE_DEVICE):
		put_bytes(w, 1, "fake0", 5);
		return;
	case OP(EXPLAIN):
		put_bytes(w, 1, "connect", 7);
		return;
	case OP(GET_STATUS):
	case OP(IMPORT_ID):
	case OP(LIST_DEVICES):
	case OP(RELOAD):
	case OP(LIST_RULES):
		return;
	}
	/* All others are about an id, which is their first field. */
	put_number(w, 1, id);
	switch (op) {
	case OP(SET_OPTION):
		put_number(w, 3, 5);
		break;
	case OP(BIND_ADDR):
		put_address(w, 2, HOST, 0);
		break;
	case OP(RESOLVE_ADDR):
		put_address(w, 3, HOST, 7471);
		put_number(w, 4, 1000);
		break;
	case OP(RESOLVE_ROUTE):
		put_number(w, 2, 1000);
		break;
	case OP(CONNECT):
	case OP(ACCEPT):
		put_param(w, 2);
		break;
	case OP(INIT_QP_ATTR):
		put_number(w, 2, IBV_QPS_INIT);
		break;
	case OP(NOTIFY):
		put_number(w, 2, IBV_EVENT_COMM_EST);
		break;
	case OP(JOIN_MULTICAST):
		put_number(w, 3, 1);
		put_address(w, 2, GROUP, 0);
		break;
	case OP(LEAVE_MULTICAST):
		put_address(w, 2, GROUP, 0);
		break;
	}
}

size_t wire_make(struct wire_client *client, int op, uint32_t id, const uint8_t *extra,
		 size_t extra_len, uint8_t buf[PACKET_MAX])
{
	static uint8_t operation[2 * PACKET_MAX], request[2 * PACKET_MAX], frame[2 * PACKET_MAX];
	struct writer o = { operation, 0 }, r = { request, 0 }, f = { frame, 0 };

	put_operation(&o, op, id);
	if (extra_len > 0)
		memcpy(o.buf + o.n, extra, extra_len);
	o.n += extra_len;
	put_number(&r, 1, ++client->serial);
	put_bytes(&r, (unsigned)op, o.buf, o.n);
	put_bytes(&f, 1, r.buf, r.n);
	ck_assert_uint_le(f.n, PACKET_MAX);
	memcpy(buf, f.buf, f.n);
	return f.n;
}
