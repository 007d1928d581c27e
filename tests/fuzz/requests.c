/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/object/id.h"
#include "core/object/token.h"
#include "core/rule/core_life.h"
#include "core/rule/enforce.h"
#include "proto/packet.h"
#include "rpc/control.h"
#include "rpc/server.h"
#include "tests/fake/fake.h"
#include "tests/fuzz/fuzz.h"
#include "tests/hooks/hooks.h"
#include "tests/patience.h"
#include "util/diag.h"

/*
 * Requests of several clients to the whole daemon on the fake fabric. The input is a program: a letter for each step
 * and its arguments, see corpus/requests. In the end everything must be released.
 */

#define CLIENTS 4
#define FDS 4
#define STEPS 512

struct client {
	int sock; /* -1: not connected */
	uint32_t serial;
	bool reads;
};

static struct world {
	sd_event *loop;
	struct core *core;
	struct server *server;
	struct client clients[CLIENTS];
	struct client *client; /* the client that makes the next step */
	int fds[FDS]; /* descriptors of exported ids; -1: none */
	bool enforce, pipelined;
	Rdmabroker__CreateId first; /* sent with the next request; id 0: not sent */
	unsigned policy;
} w;

static const char *const policies[] = {
	"allow any\n",
	"allow session\nallow device\nallow listen port 1-1000 backlog 4 max 2\n"
	"allow connect tos 104 reuseaddr client responder-resources 4 retry-count 3 qp reserved "
	"max-per-user 3\n"
	"allow accept rate 1000/s burst 2 pending 1 initiator-depth 2 log\nallow join max 1\n",
	"reject session\n",
	"allow session\nallow admin\nreject connect peer 10.0.0.0/8 reason \"no\"\nallow any tos 3 "
	"reuseaddr yes ack-timeout 5 qp reserved\n",
	"allow session\nreject accept data \"aa\" reason \"busy with other things\"\n"
	"allow connect peer 10.0.0.0/8 rate-per-peer 5/s\nallow listen\nallow accept\n",
	"nonsense\n",
	"",
};

static int load(unsigned which, struct policy **ret, struct diag *diag)
{
	const char *text = policies[which % (sizeof(policies) / sizeof(policies[0]))];

	return policy_load_text(ret, "t", text, strlen(text), diag);
}

static uint64_t reload(void *userdata, bool dry_run)
{
	static uint64_t ticket;
	struct policy *policy = NULL;
	struct diag *diag = NULL;
	int r;

	r = diag_new(&diag);
	if (r == 0)
		r = load(w.policy, &policy, diag);
	if (dry_run) {
		control_reloaded(server_get_control(w.server), true, ++ticket, r, diag, policy);
	} else {
		if (r == 0)
			r = core_set_policy(w.core, policy);
		if (r == 0 && w.enforce)
			enforce_start(w.core);
		control_reloaded(server_get_control(w.server), false, ++ticket, r, diag, NULL);
	}
	if (policy)
		policy_unref(policy);
	return ticket;
}

static void start(void)
{
	struct policy *policy = NULL;
	struct diag *diag;
	int fds[_DOOR_MAX] = { -1, -1, -1 }, fd;

	w = (struct world){ .client = &w.clients[0] };
	rdmabroker__create_id__init(&w.first);
	for (int i = 0; i < CLIENTS; i++)
		w.clients[i].sock = -1;
	for (int i = 0; i < FDS; i++)
		w.fds[i] = -1;
	must(diag_new(&diag) == 0 && load(0, &policy, diag) == 0);
	diag_free(diag);
	must(sd_event_new(&w.loop) >= 0);
	must(core_new(&w.core, w.loop, FABRIC_ACCESS_ACL, policy) == 0);
	policy_unref(policy);
	w.core->settings = (struct core_settings){
		.max_ids_per_session = 12,
		.backlog = 128,
		.tos = -1,
		.resolve_timeout_ms = 1000,
	};
	w.core->account.limit_per_user[ACCOUNT_SESSIONS] = CLIENTS - 1;
	w.core->account.limit_per_user[ACCOUNT_IDS] = 20;
	w.core->account.limit_per_user[ACCOUNT_LISTENERS] = 3;
	w.core->account.limit_per_user[ACCOUNT_FDS] = 12;
	w.core->account.limit_per_user[ACCOUNT_BYTES] = 40000;
	/* server_add_client() adds the clients: nobody connects to this socket. */
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	must(fd >= 0 && bind(fd, &(struct sockaddr){ .sa_family = AF_UNIX }, 2) == 0);
	must(listen(fd, 1) == 0);
	fds[DOOR_COMMON] = fd;
	must(server_new(&w.server, w.core, fds, "/proc/nonexistent", 32768, reload, NULL) == 0);
}

/* Drops the replies, but keeps up to FDS of their descriptors. */
static void receive(struct client *client)
{
	uint8_t buf[PACKET_MAX];
	int fds[PACKET_MAX_FDS];

	while (client->sock >= 0 && client->reads) {
		size_t n_fds = 0;
		ssize_t n = packet_recv(client->sock, buf, fds, PACKET_MAX_FDS, &n_fds);

		for (size_t i = 0; i < n_fds; i++) {
			int *slot = w.fds;

			while (slot < w.fds + FDS && *slot >= 0)
				slot++;
			if (slot < w.fds + FDS)
				*slot = fds[i];
			else
				close(fds[i]);
		}
		if (n == -EAGAIN)
			return;
		if (n < 0) {
			close(client->sock);
			client->sock = -1;
		} else {
			Rdmabroker__Frame *frame = rdmabroker__frame__unpack(NULL, (size_t)n, buf);

			must(frame && frame->body_case != RDMABROKER__FRAME__BODY_REQUEST);
			rdmabroker__frame__free_unpacked(frame, NULL);
		}
	}
}

static void settle(void)
{
	hooks_run(w.loop);
	for (int i = 0; i < CLIENTS; i++)
		receive(&w.clients[i]);
	hooks_run(w.loop);
}

static void end(void)
{
	hooks_disarm();
	for (int i = 0; i < CLIENTS; i++)
		if (w.clients[i].sock >= 0)
			close(w.clients[i].sock);
	for (int i = 0; i < FDS; i++)
		if (w.fds[i] >= 0)
			close(w.fds[i]);
	hooks_run(w.loop);
	/*
	 * Descriptors sent to a session that has ended stay charged until a timer finds that they were received or
	 * dropped.
	 */
	for (int i = 0; i < 100 * PATIENCE_S && w.core->account.used[ACCOUNT_FDS] > 0; i++)
		sd_event_run(w.loop, 10000);

	must(w.core->n_sessions == 0 && w.core->n_ids == 0 && w.core->n_leases == 0);
	must(w.core->n_listeners == 0 && w.core->n_connections == 0);
	must(!w.core->tokens->by_cookie);
	must(w.core->restrictions.n_used == 0 && w.core->by_number.n_used == 0);
	must(list_is_empty(&w.core->watches));
	must(fake_n_ids(w.core->fabric) == 0);
	for (unsigned i = 0; i < _ACCOUNT_SLOT_MAX; i++)
		must(w.core->account.used[i] == 0);
	for (size_t i = 0; i <= policy_n_rules(w.core->policy); i++) {
		const struct tally *tally =
			admissions_find(w.core->admissions, policy_rule_at(w.core->policy, i));

		must(tally->n_now == 0 && tally->n_pending == 0);
	}
	server_free(w.server);
	core_free(w.core);
	sd_event_unref(w.loop);
}

static void choose_client(struct input *input)
{
	int pair[2];

	w.client = &w.clients[take_digit(input) % CLIENTS];
	if (w.client->sock >= 0)
		return;
	must(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
	*w.client = (struct client){ .sock = pair[0], .reads = true };
	server_add_client(w.server, pair[1], DOOR_ADMIN, NULL, false);
}

/*
 * Takes a handle: 1 to 15 for a letter from a to o (the client's own ids), or that of a connection request for a
 * digit.
 */
static uint32_t take_id(struct input *input)
{
	uint8_t c = take(input) & 31;

	return c < 16 ? c : 0x80000000 + (c & 15);
}

static uint32_t take_port(struct input *input)
{
	static const uint32_t ports[] = { 0, 7471, 7472, 7473, 1, 999, 65535, 65536 };

	return ports[take_digit(input) % 8];
}

static void take_address(struct input *input, Rdmabroker__Address *ret, uint8_t space[16])
{
	static const uint8_t hosts[][4] = { { 0, 0, 0, 0 },    { 10, 9, 0, 1 },  { 10, 9, 0, 2 },
					    { 239, 1, 2, 3 },  { 127, 0, 0, 1 }, { 239, 1, 2, 4 },
					    { 192, 168, 0, 1 } };
	unsigned kind = take_digit(input);

	rdmabroker__address__init(ret);
	memset(space, 0, 16);
	ret->addr.data = space;
	ret->addr.len = kind < 7 ? 4 : kind < 10 ? 16 : kind;
	if (kind < 7)
		memcpy(space, hosts[kind], 4);
	else
		space[15] = (uint8_t)(kind - 7);
	ret->port = take_port(input);
}

static void take_param(struct input *input, Rdmabroker__ConnParam *ret)
{
	const uint8_t *data;

	rdmabroker__conn_param__init(ret);
	ret->qp_num = take_number(input);
	ret->private_data.len = take_bytes(input, 1, 15, &data);
	ret->private_data.data = (uint8_t *)data;
	if (ret->private_data.len == 15)
		ret->responder_resources = ret->initiator_depth = ret->retry_count =
			take_number(input);
}

static void send_bytes(const uint8_t *buf, size_t n, const int *fds, size_t n_fds)
{
	if (w.client->sock >= 0 && n > 0)
		packet_send(w.client->sock, buf, n, fds, n_fds);
}

static void send_request(Rdmabroker__Request *request, const int *fds, size_t n_fds)
{
	Rdmabroker__Frame frame = RDMABROKER__FRAME__INIT;
	uint8_t buf[PACKET_MAX];

	request->serial = ++w.client->serial;
	request->first = w.first.id ? &w.first : NULL;
	request->apart = true; /* it is ignored in most sessions */
	frame.body_case = RDMABROKER__FRAME__BODY_REQUEST;
	frame.request = request;
	if (rdmabroker__frame__get_packed_size(&frame) <= sizeof(buf))
		send_bytes(buf, rdmabroker__frame__pack(&frame, buf), fds, n_fds);
	w.first.id = 0;
}

/* Sends any request of the protocol, valid or not. */
static void send_any(struct input *input)
{
	uint8_t message[2048], buf[PACKET_MAX];
	size_t n = make_message(input, &rdmabroker__request__descriptor, message, sizeof(message));

	buf[0] = 1 << 3 | 2;
	buf[1] = (uint8_t)(n & 127) | 128;
	buf[2] = (uint8_t)(n >> 7);
	memcpy(buf + 3, message, n);
	send_bytes(buf, n + 3, NULL, 0);
}

static void send_raw(struct input *input)
{
	const uint8_t *data;
	size_t n = take_bytes(input, 8, 120, &data);

	send_bytes(data, n, w.fds, w.fds[0] >= 0 && n % 16 == 8);
}

/* The event need not be one that the id can expect. */
static void make_event(struct input *input)
{
	uint32_t handle = take_id(input);
	enum rdma_cm_event_type type = take_digit(input);
	static const int statuses[] = { 0, -ETIMEDOUT, 28, 8, 10, -ENODEV };
	int status = statuses[take_digit(input) % 6];
	struct failure failure;
	struct list *l;
	struct id *id;

	if (type == RDMA_CM_EVENT_CONNECT_REQUEST || type == RDMA_CM_EVENT_MULTICAST_JOIN ||
	    type == RDMA_CM_EVENT_MULTICAST_ERROR)
		return; /* connects and joins cause these events, with data */
	list_for_each(l, &w.core->sessions) {
		struct session *session = container_of(l, struct session, link);

		if (table_find(session, handle, &id, &failure) == 0 && id->fabric)
			fake_send_event_to(w.core->fabric, id->fabric, type, status);
	}
}

static void change_devices(struct input *input)
{
	const char *name = take(input) & 1 ? "fake1" : "fake0";

	if (fabric_find_device(w.core->fabric, name))
		fake_remove_device(w.core->fabric, name);
	else
		fake_add_device(w.core->fabric, name);
}

static void arm(struct input *input)
{
	static const int errors[] = { ENOMEM, EAGAIN, EPIPE, ENOBUFS, ENODEV, EINVAL };
	enum hook_kind kind = take(input) % _HOOK_KIND_MAX;
	unsigned n = take_digit(input) + 1;

	hooks_arm(HOOK_DAEMON, kind, n, errors[take_digit(input) % 6]);
}

#define ASK(FIELD, field, Message, ...)                                  \
	do {                                                             \
		Message m = RDMABROKER__##FIELD##__INIT;                 \
		Rdmabroker__Request request = RDMABROKER__REQUEST__INIT; \
		request.op_case = RDMABROKER__REQUEST__OP_##FIELD;       \
		request.field = &m;                                      \
		__VA_ARGS__;                                             \
		send_request(&request, NULL, 0);                         \
	} while (0)

#define ASK_ID(FIELD, field, Message) ASK(FIELD, field, Message, m.id = take_id(input))

static void import(struct input *input)
{
	Rdmabroker__ImportId m = RDMABROKER__IMPORT_ID__INIT;
	Rdmabroker__Request request = RDMABROKER__REQUEST__INIT;
	int slot = take_digit(input);

	request.op_case = RDMABROKER__REQUEST__OP_IMPORT_ID;
	request.import_id = &m;
	if (slot < FDS && w.fds[slot] >= 0)
		send_request(&request, &w.fds[slot], 1);
	else
		send_request(&request, slot == FDS ? &w.client->sock : NULL, slot == FDS);
}

static void close_fd(struct input *input)
{
	int *fd = &w.fds[take_digit(input) % FDS];

	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void ask_connection(struct input *input, uint8_t step)
{
	Rdmabroker__ConnParam param;
	Rdmabroker__Ece ece = RDMABROKER__ECE__INIT;
	const uint8_t *data;

	ece.vendor_id = 1;
	switch (step) {
	case 'C':
		ASK(CONNECT, connect, Rdmabroker__Connect, m.id = take_id(input);
		    take_param(input, &param); m.param = &param;
		    m.local_ece = param.qp_num & 1 ? &ece : NULL);
		break;
	case 'A':
		ASK(ACCEPT, accept, Rdmabroker__Accept, m.id = take_id(input);
		    take_param(input, &param); m.param = &param;
		    m.local_ece = param.qp_num & 1 ? &ece : NULL);
		break;
	case 'e':
		ASK_ID(ESTABLISH, establish, Rdmabroker__Establish);
		break;
	case 'j':
		ASK(REJECT, reject, Rdmabroker__Reject, m.id = take_id(input);
		    m.private_data.len = take_bytes(input, 10, 150, &data);
		    m.private_data.data = (uint8_t *)data; m.ece = m.private_data.len == 10);
		break;
	case 'x':
		ASK_ID(DISCONNECT, disconnect, Rdmabroker__Disconnect);
		break;
	case 'q':
		ASK(INIT_QP_ATTR, init_qp_attr, Rdmabroker__InitQpAttr, m.id = take_id(input);
		    m.qp_state = take_number(input));
		break;
	case 'n':
		ASK(NOTIFY, notify, Rdmabroker__Notify, m.id = take_id(input);
		    m.event = take_number(input));
		break;
	}
}

static void ask_address(struct input *input, uint8_t step)
{
	Rdmabroker__Address address, src;
	uint8_t space[16], src_space[16];

	switch (step) {
	case 'y':
		ASK(RESOLVE_ADDR, resolve_addr, Rdmabroker__ResolveAddr, m.id = take_id(input);
		    take_address(input, &address, space); m.dst = &address; m.timeout_ms = 1000;
		    m.route = true; m.ahead = take_digit(input) & 1);
		break;
	case 'b':
		ASK(BIND_ADDR, bind_addr, Rdmabroker__BindAddr, m.id = take_id(input);
		    take_address(input, &address, space); m.addr = &address);
		break;
	case 'l':
		ASK(LISTEN, listen, Rdmabroker__Listen, m.id = take_id(input);
		    m.backlog = take_number(input));
		break;
	case 'r':
		ASK(RESOLVE_ADDR, resolve_addr, Rdmabroker__ResolveAddr, m.id = take_id(input);
		    take_address(input, &address, space); m.dst = &address;
		    m.timeout_ms = take_number(input); take_address(input, &src, src_space);
		    m.src = src.addr.len == 15 ? NULL : &src);
		break;
	case 'R':
		ASK(RESOLVE_ROUTE, resolve_route, Rdmabroker__ResolveRoute, m.id = take_id(input);
		    m.timeout_ms = take_number(input));
		break;
	case 'm':
		ASK(JOIN_MULTICAST, join_multicast, Rdmabroker__JoinMulticast,
		    m.id = take_id(input);
		    take_address(input, &address, space); m.addr = &address;
		    m.join_flags = take_number(input));
		break;
	case 'M':
		ASK(LEAVE_MULTICAST, leave_multicast, Rdmabroker__LeaveMulticast,
		    m.id = take_id(input);
		    take_address(input, &address, space); m.addr = &address);
		break;
	}
}

/* The bits of a digit select the parts of the filter. */
static void take_filter(struct input *input, Rdmabroker__Watch *m, Rdmabroker__Address *peer,
			uint8_t space[16])
{
	static const char *const kinds[] = { "decision", "cm", "session", "no" };
	static const char *const operations[] = { "listen", "connect", "accept", "any" };
	static const char *const outcomes[] = { "allowed", "rejected", "busy", "warned", "%n" };
	unsigned parts = take_digit(input);

	if (parts & 1)
		m->kind = (char *)kinds[take_digit(input) & 3];
	if (parts & 2)
		m->operation = (char *)operations[take_digit(input) & 3];
	if (parts & 4)
		m->outcome = (char *)outcomes[take_digit(input) & 3];
	if (!(parts & 8))
		return;
	take_address(input, peer, space);
	m->peer = peer;
	m->port = take_port(input);
	m->session = take_digit(input);
	m->by_uid = m->session & 1;
}

static void ask_other(struct input *input, uint8_t step)
{
	static const uint32_t spaces[] = { RDMA_PS_TCP, RDMA_PS_UDP, RDMA_PS_IB, RDMA_PS_IPOIB, 0 };
	static char *const devices[] = { "", "fake0", "fake1", "no" };
	static char *const restrictions[] = {
		"allow any",
		"allow listen port 7471\nallow accept",
		"allow connect peer 10.9.0.1 device fake0\nallow device",
		"allow observe\nallow admin\nallow join ps udp",
		"reject any reason \"no\"",
		"",
		"allow any user root",
	};
	Rdmabroker__Address peer;
	uint8_t space[16];

	switch (step) {
	case 'H':
		ASK(HELLO, hello, Rdmabroker__Hello, m.version = take_number(input));
		break;
	case 'h':
		ASK(HELLO, hello, Rdmabroker__Hello, m.version = 1;
		    m.replies_to = take_digit(input));
		break;
	case 'J':
		ASK(WAKE, wake, Rdmabroker__Wake, );
		break;
	case 'c':
		ASK(CREATE_ID, create_id, Rdmabroker__CreateId, m.id = take_id(input);
		    m.port_space = spaces[take_digit(input) % 5]);
		break;
	case 'd':
		ASK_ID(DESTROY_ID, destroy_id, Rdmabroker__DestroyId);
		break;
	case 'o':
		ASK(SET_OPTION, set_option, Rdmabroker__SetOption, m.id = take_id(input);
		    m.option = take_number(input); m.value = (int32_t)take_number(input));
		break;
	case 'g':
		ASK(GET_OPTION, get_option, Rdmabroker__GetOption, m.id = take_id(input);
		    m.option = take_number(input));
		break;
	case 'D':
		ASK(OPEN_DEVICE, open_device, Rdmabroker__OpenDevice,
		    m.name = devices[take_digit(input) % 4]);
		break;
	case 'K':
		ASK(CLOSE_DEVICE, close_device, Rdmabroker__CloseDevice,
		    m.name = devices[take_digit(input) % 4]);
		break;
	case 'E':
		ASK_ID(EXPORT_ID, export_id, Rdmabroker__ExportId);
		break;
	case 's':
		ASK(GET_STATUS, get_status, Rdmabroker__GetStatus, );
		break;
	case 'L':
		ASK(LIST_DEVICES, list_devices, Rdmabroker__ListDevices, );
		break;
	case 'G':
		ASK(GET_LIMITS, get_limits, Rdmabroker__GetLimits, );
		break;
	case '$':
		ASK(GET_REFUSALS, get_refusals, Rdmabroker__GetRefusals,
		    m.first = take_number(input));
		break;
	case '%':
		ASK(CLEAR_REFUSALS, clear_refusals, Rdmabroker__ClearRefusals, );
		break;
	case '~':
		ASK(GET_SIGHTINGS, get_sightings, Rdmabroker__GetSightings,
		    m.first = take_number(input));
		break;
	case 'u':
		ASK(LIST_RULES, list_rules, Rdmabroker__ListRules, m.first = take_number(input));
		break;
	case 'W':
		ASK(WATCH, watch, Rdmabroker__Watch, take_filter(input, &m, &peer, space));
		break;
	case 'k':
		ASK(KICK, kick, Rdmabroker__Kick, m.session = take_digit(input);
		    m.id = take_id(input));
		break;
	case 'i':
		ASK(DRAIN, drain, Rdmabroker__Drain, m.cancel = take_digit(input) & 1);
		break;
	case 'S':
		ASK(RESTRICT_SESSION, restrict_session, Rdmabroker__RestrictSession,
		    m.rules = restrictions[take_digit(input) % 7];
		    m.max_ids = take_digit(input));
		break;
	case 'p':
		ASK(PUBLISH_SOCKET, publish_socket, Rdmabroker__PublishSocket, );
		break;
	case 'U':
		ASK(RELEASE_SESSION, release_session, Rdmabroker__ReleaseSession, );
		break;
	case 'B':
		ASK(LEND_DEVICE, lend_device, Rdmabroker__LendDevice,
		    m.name = devices[take_digit(input) % 4];
		    m.uid = take_number(input); m.end = take_digit(input) & 1);
		break;
	case 'P':
		w.policy = take_digit(input);
		w.enforce = w.policy & 8;
		w.policy &= 7;
		if (take_digit(input) & 1)
			ASK(TRY_RELOAD, try_reload, Rdmabroker__TryReload, );
		else
			ASK(RELOAD, reload, Rdmabroker__Reload, );
		break;
	}
}

static void step(struct input *input)
{
	uint8_t c = take(input);

	switch (c) {
	case '@':
		choose_client(input);
		break;
	case 'z':
		if (w.client->sock >= 0)
			close(w.client->sock);
		w.client->sock = -1;
		break;
	case 'Z':
		w.client->reads = !w.client->reads;
		break;
	case '|':
		w.pipelined = !w.pipelined;
		break;
	case 'a':
		send_any(input);
		break;
	case 'w':
		send_raw(input);
		break;
	case 'I':
		import(input);
		break;
	case 'X':
		close_fd(input);
		break;
	case 'v':
		make_event(input);
		break;
	case 'V':
		change_devices(input);
		break;
	case 'T':
		fake_reject_stale(w.core->fabric, take_digit(input) & 3);
		break;
	case 't':
		fake_fail_addresses(w.core->fabric, 1, take(input) & 1 ? -ETIMEDOUT : -ENODEV);
		break;
	case 'Q':
		fake_estrange_qp(w.core->fabric, take_number(input));
		break;
	case 'N':
		fake_hide_qp(w.core->fabric, take_number(input));
		break;
	case 'F':
		arm(input);
		break;
	case 'f':
		w.first.id = take_id(input);
		w.first.port_space = take(input) & 1 ? RDMA_PS_UDP : RDMA_PS_TCP;
		break;
	default:
		ask_connection(input, c);
		ask_address(input, c);
		ask_other(input, c);
	}
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	silence();
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = { data, size };

	hooks_disarm();
	start();
	choose_client(&(struct input){ (const uint8_t *)"0", 1 });
	for (int i = 0; i < STEPS && input.left > 0; i++) {
		step(&input);
		if (!w.pipelined)
			settle();
	}
	settle();
	end();
	return 0;
}
