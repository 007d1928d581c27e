/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * rdma_cma.h is the reference: the same calls have the same results and the same events, in the same
 * order, with librdmacm and with librdmabroker.
 *
 *   sidebyside list|exceptions
 *   sidebyside direct|broker SCRIPT
 *
 * Runs a script of sidebyside-scripts.c, both ends of it in this process, and prints a line for each
 * step: what it is, and what came of it. The lines of both runs are to be the same, so what varies from
 * run to run is not in them: QP numbers are named after the id whose QP it is, chosen ports are "chosen".
 */

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/guest/sidebyside.h"

/* How long nothing must happen for it to be said that nothing happens. */
#define QUIET_MS 400
/* Ports from here on are the kernel's choice. */
#define FIRST_CHOSEN_PORT 32768

#define MAX_ARGS 8
#define MAX_SLOTS 12
#define N_ELEMENTS(a) (sizeof(a) / sizeof((a)[0]))

struct text {
	char buf[1024];
	size_t n;
};

/* An id of a script, by its name there. */
struct slot {
	char name[16];
	enum side side;
	enum rdma_port_space ps;
	void *id; /* NULL: there is none */
	struct ibv_cq *cq; /* of the QP that the library made */
	struct ibv_pd *own_pd;
	struct ibv_cq *own_cq;
	struct ibv_qp *own_qp; /* which the library does not know */
};

struct step {
	char *words[MAX_ARGS]; /* after the last: NULL */
	unsigned n;
};

static const struct backend *backend;
static const struct script *script;
static struct slot slots[MAX_SLOTS];

static const char *const side_names[N_SIDES] = {
	[SIDE_PASSIVE] = "passive",
	[SIDE_ACTIVE] = "active",
	[SIDE_WORKER] = "worker",
};

static int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000LL + ts.tv_nsec / 1000000;
}

static void die(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));

static void die(const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "sidebyside: %s %s: ", backend->name, script->name);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(2);
}

static void add(struct text *text, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void add(struct text *text, const char *fmt, ...)
{
	size_t left = sizeof(text->buf) - text->n;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(text->buf + text->n, left, fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= left)
		die("a line is too long");
	text->n += (size_t)n;
}

static const char *error_name(int r)
{
	static char number[24];
	const char *name = strerrorname_np(-r);

	/* The kernel has some that are not meant to come out. */
	snprintf(number, sizeof(number), "errno %d", -r);
	return name ?: number;
}

/* Ids */

/* Those of the active side are called active, active2, ... */
static enum side side_of(const char *name)
{
	return strncmp(name, "active", strlen("active")) == 0 ? SIDE_ACTIVE : SIDE_PASSIVE;
}

static struct slot *find_slot(const char *name)
{
	for (size_t i = 0; i < MAX_SLOTS; i++)
		if (slots[i].id && strcmp(slots[i].name, name) == 0)
			return &slots[i];
	return NULL;
}

static struct slot *new_slot(const char *name)
{
	if (find_slot(name))
		die("there is an id %s already", name);
	for (size_t i = 0; i < MAX_SLOTS; i++) {
		struct slot *slot = &slots[i];

		if (slot->id)
			continue;
		*slot = (struct slot){ .side = side_of(name) };
		snprintf(slot->name, sizeof(slot->name), "%s", name);
		return slot;
	}
	die("too many ids");
}

static const struct slot *slot_by_id(const void *id)
{
	for (size_t i = 0; i < MAX_SLOTS; i++)
		if (id && slots[i].id == id)
			return &slots[i];
	return NULL;
}

static const char *name_of_id(const void *id)
{
	const struct slot *slot = slot_by_id(id);

	return slot ? slot->name : "unknown";
}

static struct ibv_qp *slot_qp(const struct slot *slot)
{
	return slot->own_qp ? slot->own_qp : backend->get_qp(slot->id);
}

static const char *name_of_qp(uint32_t qp_num)
{
	if (qp_num == 0)
		return "none";
	if (qp_num == 0xffffff)
		return "multicast";
	for (size_t i = 0; i < MAX_SLOTS; i++) {
		struct ibv_qp *qp = slots[i].id ? slot_qp(&slots[i]) : NULL;

		if (qp && qp->qp_num == qp_num)
			return slots[i].name;
	}
	return "unknown";
}

static void drop_qps(struct slot *slot)
{
	if (backend->get_qp(slot->id))
		backend->destroy_qp(slot->id);
	if (slot->cq)
		ibv_destroy_cq(slot->cq);
	if (slot->own_qp)
		ibv_destroy_qp(slot->own_qp);
	if (slot->own_cq)
		ibv_destroy_cq(slot->own_cq);
	if (slot->own_pd)
		ibv_dealloc_pd(slot->own_pd);
	slot->cq = slot->own_cq = NULL;
	slot->own_qp = NULL;
	slot->own_pd = NULL;
}

static int drop_slot(struct slot *slot)
{
	int r;

	drop_qps(slot);
	r = backend->destroy_id(slot->id);
	slot->id = NULL;
	return r;
}

/* Addresses: 10.9.0.1:7471, *:0, [fd09::1]:7471, or a name */

static const struct {
	const char *name, *addr;
} addresses[] = {
	{ "here", "10.9.0.1:7471" },   { "here6", "[fd09::1]:7471" },
	{ "nobody", "10.9.0.1:7499" }, { "nowhere", "192.0.2.1:7471" },
	{ "group", "239.9.0.1:0" },    { "group2", "239.9.0.2:0" },
	{ "group6", "[ff0e::9]:0" },
};

static struct sockaddr *parse_addr(const char *text, struct sockaddr_storage *ret)
{
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ret;
	struct sockaddr_in *in = (struct sockaddr_in *)ret;
	const char *colon;
	char host[64];
	int n, r;

	memset(ret, 0, sizeof(*ret));
	for (size_t i = 0; i < N_ELEMENTS(addresses); i++)
		if (strcmp(addresses[i].name, text) == 0)
			text = addresses[i].addr;
	colon = strrchr(text, ':');
	if (strcmp(text, "unix") == 0) {
		ret->ss_family = AF_UNIX;
		return (struct sockaddr *)ret;
	}
	if (!colon)
		die("no port in %s", text);
	n = (int)(colon - text);
	if (text[0] == '[') {
		snprintf(host, sizeof(host), "%.*s", n - 2, text + 1);
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons((uint16_t)atoi(colon + 1));
		r = inet_pton(AF_INET6, host, &in6->sin6_addr);
	} else {
		snprintf(host, sizeof(host), "%.*s", n, text);
		in->sin_family = AF_INET;
		in->sin_port = htons((uint16_t)atoi(colon + 1));
		r = inet_pton(AF_INET, strcmp(host, "*") == 0 ? "0.0.0.0" : host, &in->sin_addr);
	}
	if (r != 1)
		die("%s is not an address", text);
	return (struct sockaddr *)ret;
}

static void add_port(struct text *out, in_port_t port)
{
	if (ntohs(port) >= FIRST_CHOSEN_PORT)
		add(out, ":chosen");
	else
		add(out, ":%u", ntohs(port));
}

static void add_addr(struct text *out, const struct sockaddr *addr)
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)addr;
	const struct sockaddr_in *in = (const struct sockaddr_in *)addr;
	char text[INET6_ADDRSTRLEN];

	switch (addr->sa_family) {
	case AF_INET:
		add(out, "%s", inet_ntop(AF_INET, &in->sin_addr, text, sizeof(text)));
		add_port(out, in->sin_port);
		break;
	case AF_INET6:
		add(out, "[%s]", inet_ntop(AF_INET6, &in6->sin6_addr, text, sizeof(text)));
		add_port(out, in6->sin6_port);
		break;
	default:
		add(out, "none");
	}
}

/* Events */

/* What the peer sent is followed by zeros, for the transport's messages have one length. */
static void add_data(struct text *out, const struct event *event)
{
	char data[sizeof(event->data) + 1] = "";

	memcpy(data, event->data, event->data_len);
	if (data[0])
		add(out, ", data \"%s\"", data);
}

static void add_ah(struct text *out, const struct ibv_ah_attr *ah)
{
	char dgid[INET6_ADDRSTRLEN];

	add(out, ", sl %u, port %u", ah->sl, ah->port_num);
	if (ah->is_global)
		add(out, ", dgid %s, sgid index %u, hop limit %u, traffic class %u",
		    inet_ntop(AF_INET6, &ah->grh.dgid, dgid, sizeof(dgid)), ah->grh.sgid_index,
		    ah->grh.hop_limit, ah->grh.traffic_class);
}

static void add_conn(struct text *out, const struct rdma_conn_param *conn)
{
	add(out, ", responder resources %u, initiator depth %u, flow control %u, retries %u and %u",
	    conn->responder_resources, conn->initiator_depth, conn->flow_control, conn->retry_count,
	    conn->rnr_retry_count);
	add(out, ", srq %u, qp %s", conn->srq, name_of_qp(conn->qp_num));
}

static void add_event(struct text *out, const struct event *event)
{
	const struct slot *slot = slot_by_id(event->listen_id ?: event->id);
	bool datagram = slot && (slot->ps == RDMA_PS_UDP || slot->ps == RDMA_PS_IPOIB);
	bool is_request = strcmp(event->type, "CONNECT_REQUEST") == 0;

	add(out, "%s %s", event->type, name_of_id(event->id));
	if (event->listen_id)
		add(out, " from %s", name_of_id(event->listen_id));
	if (event->status <= 0)
		add(out, ", status %s", error_name(event->status));
	else
		add(out, ", status %d", event->status);

	if (is_request || strcmp(event->type, "CONNECT_RESPONSE") == 0 ||
	    strcmp(event->type, "ESTABLISHED") == 0) {
		add_data(out, event);
		if (!datagram)
			add_conn(out, &event->conn);
	} else if (strcmp(event->type, "REJECTED") == 0) {
		add_data(out, event);
	}
	if ((datagram && strcmp(event->type, "ESTABLISHED") == 0) ||
	    strcmp(event->type, "MULTICAST_JOIN") == 0) {
		add(out, ", qp %s, qkey %#x", name_of_qp(event->ud.qp_num), event->ud.qkey);
		add_ah(out, &event->ud.ah_attr);
	}
	if (event->join_context)
		add(out, ", context %s", (const char *)event->join_context);
}

/* A request becomes the id of that name. */
static int take_event(enum side side, const char *request_name, struct text *out)
{
	struct event event;
	int r = backend->get_event(side, &event);

	if (r < 0)
		return r;
	if (event.listen_id) {
		const struct slot *listener = slot_by_id(event.listen_id);
		struct slot *slot = new_slot(request_name);

		slot->id = event.id;
		slot->side = side;
		slot->ps = listener ? listener->ps : RDMA_PS_TCP;
	}
	add_event(out, &event);
	return 0;
}

static int await_event(enum side side, const char *request_name, int timeout_ms, struct text *out)
{
	struct pollfd p = { .fd = backend->get_fd(side), .events = POLLIN };
	int64_t deadline = now_ms() + timeout_ms;
	int r;

	while ((r = take_event(side, request_name, out)) == -EAGAIN) {
		int64_t left = deadline - now_ms();

		if (left <= 0)
			return -ETIMEDOUT;
		if (poll(&p, 1, (int)left) < 0)
			return -errno;
	}
	return r;
}

/* Steps */

static struct slot *slot_of(const struct step *step)
{
	struct slot *slot = find_slot(step->words[1]);

	if (!slot)
		die("there is no id %s", step->words[1]);
	return slot;
}

static enum side side_named(const char *name)
{
	for (int side = 0; side < N_SIDES; side++)
		if (strcmp(side_names[side], name) == 0)
			return (enum side)side;
	die("there is no side %s", name);
}

/* A name of a table of { name, value }. */
struct constant {
	const char *name;
	int value;
};

static int look_up(const struct constant *constants, const char *name)
{
	for (; constants->name; constants++)
		if (strcmp(constants->name, name) == 0)
			return constants->value;
	/* No name: to see what is said of a number that does not exist. */
	return atoi(name);
}

static const struct constant port_spaces[] = {
	{ "ipoib", RDMA_PS_IPOIB },
	{ "tcp", RDMA_PS_TCP },
	{ "udp", RDMA_PS_UDP },
	{ "ib", RDMA_PS_IB },
	{ NULL, 0 },
};

static const struct constant options[] = {
	{ "tos", RDMA_OPTION_ID_TOS },
	{ "reuseaddr", RDMA_OPTION_ID_REUSEADDR },
	{ "afonly", RDMA_OPTION_ID_AFONLY },
	{ "ack-timeout", RDMA_OPTION_ID_ACK_TIMEOUT },
	{ NULL, 0 },
};

static const struct constant qp_states[] = {
	{ "reset", IBV_QPS_RESET }, { "init", IBV_QPS_INIT }, { "rtr", IBV_QPS_RTR },
	{ "rts", IBV_QPS_RTS },     { "err", IBV_QPS_ERR },   { NULL, 0 },
};

static const struct constant async_events[] = {
	{ "comm-est", IBV_EVENT_COMM_EST },
	{ "path-mig", IBV_EVENT_PATH_MIG },
	{ "qp-fatal", IBV_EVENT_QP_FATAL },
	{ NULL, 0 },
};

static int create_id(const struct step *step, bool wait)
{
	struct slot *slot = new_slot(step->words[1]);

	slot->ps = (enum rdma_port_space)look_up(port_spaces, step->words[2]);
	return backend->create_id(slot->side, wait, slot->ps, &slot->id);
}

static int do_create(const struct step *step, struct text *out)
{
	(void)out;
	return create_id(step, /* wait= */ false);
}

static int do_create_waiting(const struct step *step, struct text *out)
{
	(void)out;
	return create_id(step, /* wait= */ true);
}

/* create-ep ID active|passive PORT-SPACE NODE SERVICE */
static int do_create_ep(const struct step *step, struct text *out)
{
	struct slot *slot = new_slot(step->words[1]);
	bool passive = strcmp(step->words[2], "passive") == 0;

	(void)out;
	slot->ps = (enum rdma_port_space)look_up(port_spaces, step->words[3]);
	return backend->create_ep(slot->side, passive, slot->ps, step->words[4], step->words[5],
				  &slot->id);
}

static int do_destroy(const struct step *step, struct text *out)
{
	(void)out;
	return drop_slot(slot_of(step));
}

/* migrate ID SIDE */
static int do_migrate(const struct step *step, struct text *out)
{
	struct slot *slot = slot_of(step);
	enum side side = side_named(step->words[2]);
	int r = backend->migrate_id(&slot->id, side);

	(void)out;
	if (r == 0)
		slot->side = side;
	return r;
}

static int do_bind(const struct step *step, struct text *out)
{
	struct sockaddr_storage addr;

	(void)out;
	return backend->bind_addr(slot_of(step)->id, parse_addr(step->words[2], &addr));
}

static int do_listen(const struct step *step, struct text *out)
{
	(void)out;
	return backend->listen(slot_of(step)->id, step->n > 2 ? atoi(step->words[2]) : 4);
}

static int do_addresses(const struct step *step, struct text *out)
{
	void *id = slot_of(step)->id;

	add(out, "local ");
	add_addr(out, backend->get_local_addr(id));
	add(out, ", peer ");
	add_addr(out, backend->get_peer_addr(id));
	return 0;
}

/* get-request LISTENER ID */
static int do_get_request(const struct step *step, struct text *out)
{
	struct slot *listener = slot_of(step);
	struct slot *slot = new_slot(step->words[2]);

	(void)out;
	slot->side = listener->side;
	slot->ps = listener->ps;
	return backend->get_request(listener->id, &slot->id);
}

/* resolve-addr ID DESTINATION [SOURCE] */
static int do_resolve_addr(const struct step *step, struct text *out)
{
	struct sockaddr_storage dst, src;

	(void)out;
	return backend->resolve_addr(slot_of(step)->id,
				     step->n > 3 ? parse_addr(step->words[3], &src) : NULL,
				     parse_addr(step->words[2], &dst), DEADLINE_MS / 5);
}

static int do_resolve_route(const struct step *step, struct text *out)
{
	(void)out;
	return backend->resolve_route(slot_of(step)->id, DEADLINE_MS / 5);
}

/* "none": without parameters. LENGTH=N: that many bytes of private data. */
static struct rdma_conn_param *parse_param(const struct step *step, struct rdma_conn_param *ret)
{
	static char filler[256];
	const struct slot *slot = slot_of(step);

	*ret = (struct rdma_conn_param){
		.responder_resources = 1,
		.initiator_depth = 1,
		.retry_count = 7,
		.rnr_retry_count = 7,
		.qp_num = slot->own_qp ? slot->own_qp->qp_num : 0,
	};
	for (unsigned i = 2; i < step->n; i++) {
		const char *word = step->words[i], *value = strchr(word, '=');
		uint8_t number = value ? (uint8_t)atoi(value + 1) : 0;
		size_t n = value ? (size_t)(value - word) : strlen(word);

		if (strcmp(word, "none") == 0)
			return NULL;
		if (strncmp(word, "data", n) == 0) {
			ret->private_data = value + 1;
			ret->private_data_len = (uint8_t)strlen(value + 1);
		} else if (strncmp(word, "length", n) == 0) {
			memset(filler, 'x', number);
			ret->private_data = filler;
			ret->private_data_len = number;
		} else if (strncmp(word, "resources", n) == 0) {
			ret->responder_resources = number;
		} else if (strncmp(word, "depth", n) == 0) {
			ret->initiator_depth = number;
		} else if (strncmp(word, "flow", n) == 0) {
			ret->flow_control = number;
		} else if (strncmp(word, "retries", n) == 0) {
			ret->retry_count = number;
		} else if (strncmp(word, "rnr-retries", n) == 0) {
			ret->rnr_retry_count = number;
		} else {
			die("there is no parameter %s", word);
		}
	}
	return ret;
}

static int do_connect(const struct step *step, struct text *out)
{
	struct rdma_conn_param param;

	(void)out;
	return backend->connect(slot_of(step)->id, parse_param(step, &param));
}

static int do_accept(const struct step *step, struct text *out)
{
	struct rdma_conn_param param;

	(void)out;
	return backend->accept(slot_of(step)->id, parse_param(step, &param));
}

static int do_reject(const struct step *step, struct text *out)
{
	struct rdma_conn_param param;

	(void)out;
	parse_param(step, &param);
	return backend->reject(slot_of(step)->id, param.private_data, param.private_data_len);
}

static int do_reject_ece(const struct step *step, struct text *out)
{
	struct rdma_conn_param param;

	(void)out;
	parse_param(step, &param);
	return backend->reject_ece(slot_of(step)->id, param.private_data, param.private_data_len);
}

static int do_establish(const struct step *step, struct text *out)
{
	(void)out;
	return backend->establish(slot_of(step)->id);
}

static int do_disconnect(const struct step *step, struct text *out)
{
	(void)out;
	return backend->disconnect(slot_of(step)->id);
}

static int do_notify(const struct step *step, struct text *out)
{
	(void)out;
	return backend->notify(slot_of(step)->id,
			       (enum ibv_event_type)look_up(async_events, step->words[2]));
}

/* option ID OPTION VALUE */
static int do_option(const struct step *step, struct text *out)
{
	(void)out;
	return backend->set_option(slot_of(step)->id, look_up(options, step->words[2]),
				   atoi(step->words[3]));
}

/* join ID GROUP [send-only]. The context is one that outlives the step. */
static int do_join(const struct step *step, struct text *out)
{
	bool send_only = step->n > 3 && strcmp(step->words[3], "send-only") == 0;
	struct sockaddr_storage addr;

	(void)out;
	return backend->join(slot_of(step)->id, parse_addr(step->words[2], &addr),
			     send_only ? RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER :
					 RDMA_MC_JOIN_FLAG_FULLMEMBER,
			     send_only ? "sender" : "member");
}

static int do_leave(const struct step *step, struct text *out)
{
	struct sockaddr_storage addr;

	(void)out;
	return backend->leave(slot_of(step)->id, parse_addr(step->words[2], &addr));
}

/* set-ece ID VENDOR OPTIONS */
static int do_set_ece(const struct step *step, struct text *out)
{
	struct ibv_ece ece = {
		.vendor_id = (uint32_t)atoi(step->words[2]),
		.options = (uint32_t)atoi(step->words[3]),
	};

	(void)out;
	return backend->set_local_ece(slot_of(step)->id, &ece);
}

static int do_get_ece(const struct step *step, struct text *out)
{
	struct ibv_ece ece;
	int r = backend->get_remote_ece(slot_of(step)->id, &ece);

	if (r == 0)
		add(out, "vendor %u, options %u", ece.vendor_id, ece.options);
	return r;
}

static struct ibv_qp_init_attr qp_init_attr(const struct slot *slot, struct ibv_cq *cq)
{
	return (struct ibv_qp_init_attr){
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = slot->ps == RDMA_PS_UDP || slot->ps == RDMA_PS_IPOIB ? IBV_QPT_UD :
										  IBV_QPT_RC,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
	};
}

static struct ibv_cq *make_cq(struct ibv_context *verbs)
{
	struct ibv_cq *cq = ibv_create_cq(verbs, 8, NULL, NULL, 0);

	if (!cq)
		die("no CQ: %s", strerror(errno));
	return cq;
}

/* Without a device a program has nothing that a QP could be made of. */
static int do_create_qp(const struct step *step, struct text *out)
{
	struct slot *slot = slot_of(step);
	struct ibv_context *verbs = backend->get_verbs(slot->id);
	struct ibv_qp_init_attr attr;
	struct ibv_cq *cq;
	int r;

	if (!verbs) {
		add(out, "no device");
		return 0;
	}
	cq = make_cq(verbs);
	attr = qp_init_attr(slot, cq);
	r = backend->create_qp(slot->id, &attr);
	if (r < 0)
		ibv_destroy_cq(cq);
	else
		slot->cq = cq;
	return r;
}

static int do_destroy_qp(const struct step *step, struct text *out)
{
	(void)out;
	drop_qps(slot_of(step));
	return 0;
}

/* A QP that the library does not know: the script moves it by qp-attr. */
static int do_make_qp(const struct step *step, struct text *out)
{
	struct slot *slot = slot_of(step);
	struct ibv_context *verbs = backend->get_verbs(slot->id);
	struct ibv_qp_init_attr attr;

	(void)out;
	if (!verbs)
		die("%s has no device", slot->name);
	slot->own_cq = make_cq(verbs);
	slot->own_pd = ibv_alloc_pd(verbs);
	if (!slot->own_pd)
		return -errno;
	attr = qp_init_attr(slot, slot->own_cq);
	slot->own_qp = ibv_create_qp(slot->own_pd, &attr);
	return slot->own_qp ? 0 : -errno;
}

static void add_qp_attr(struct text *out, const struct ibv_qp_attr *attr, int mask)
{
	const struct {
		int bit;
		const char *name;
		unsigned value;
	} fields[] = {
		{ IBV_QP_STATE, "state", attr->qp_state },
		{ IBV_QP_ACCESS_FLAGS, "access", attr->qp_access_flags },
		{ IBV_QP_PKEY_INDEX, "pkey index", attr->pkey_index },
		{ IBV_QP_PORT, "port", attr->port_num },
		{ IBV_QP_QKEY, "qkey", attr->qkey },
		{ IBV_QP_PATH_MTU, "mtu", attr->path_mtu },
		{ IBV_QP_TIMEOUT, "timeout", attr->timeout },
		{ IBV_QP_RETRY_CNT, "retries", attr->retry_cnt },
		{ IBV_QP_RNR_RETRY, "rnr retries", attr->rnr_retry },
		{ IBV_QP_MIN_RNR_TIMER, "rnr timer", attr->min_rnr_timer },
		{ IBV_QP_MAX_QP_RD_ATOMIC, "initiator depth", attr->max_rd_atomic },
		{ IBV_QP_MAX_DEST_RD_ATOMIC, "responder resources", attr->max_dest_rd_atomic },
		{ IBV_QP_PATH_MIG_STATE, "migration", attr->path_mig_state },
	};

	add(out, "mask %#x", mask);
	for (size_t i = 0; i < N_ELEMENTS(fields); i++)
		if (mask & fields[i].bit)
			add(out, ", %s %u", fields[i].name, fields[i].value);
	if (mask & IBV_QP_DEST_QPN)
		add(out, ", to %s", name_of_qp(attr->dest_qp_num));
	if (mask & IBV_QP_AV)
		add_ah(out, &attr->ah_attr);
}

/* qp-attr ID STATE */
static int do_qp_attr(const struct step *step, struct text *out)
{
	struct slot *slot = slot_of(step);
	struct ibv_qp_attr attr = {
		.qp_state = (enum ibv_qp_state)look_up(qp_states, step->words[2]),
	};
	int mask, r;

	r = backend->init_qp_attr(slot->id, &attr, &mask);
	if (r < 0)
		return r;
	add_qp_attr(out, &attr, mask);
	if (slot->own_qp) {
		r = ibv_modify_qp(slot->own_qp, &attr, mask);
		add(out, ", moved: %s", error_name(-r));
	}
	return 0;
}

/* qp-state ID */
static int do_qp_state(const struct step *step, struct text *out)
{
	static const char *const names[] = { "reset", "init", "rtr", "rts", "sqd", "sqe", "err" };
	struct ibv_qp *qp = slot_qp(slot_of(step));
	struct ibv_qp_init_attr init_attr;
	struct ibv_qp_attr attr;
	int r;

	if (!qp) {
		add(out, "no QP");
		return 0;
	}
	r = ibv_query_qp(qp, &attr, IBV_QP_STATE, &init_attr);
	if (r == 0)
		add(out, "%s", attr.qp_state < N_ELEMENTS(names) ? names[attr.qp_state] : "?");
	return -r;
}

/* event SIDE [NAME]: NAME is what a request is to be called. */
static int do_event(const struct step *step, struct text *out)
{
	return await_event(side_named(step->words[1]), step->n > 2 ? step->words[2] : "passive",
			   DEADLINE_MS, out);
}

/* pending SIDE: until there is an event, which is not taken. */
static int do_pending(const struct step *step, struct text *out)
{
	struct pollfd p = {
		.fd = backend->get_fd(side_named(step->words[1])),
		.events = POLLIN,
	};
	int n = poll(&p, 1, DEADLINE_MS);

	(void)out;
	return n < 0 ? -errno : n == 0 ? -ETIMEDOUT : 0;
}

static int do_quiet(const struct step *step, struct text *out)
{
	int r = await_event(side_named(step->words[1]), "passive", QUIET_MS, out);

	if (r != -ETIMEDOUT)
		return r;
	add(out, "nothing");
	return 0;
}

/* For whoever runs the script: it is ready for what is to be done now. */
static int do_ready(const struct step *step, struct text *out)
{
	(void)step;
	(void)out;
	return 0;
}

static const struct verb {
	const char *name;
	unsigned n_words; /* at least */
	int (*run)(const struct step *step, struct text *out);
} verbs[] = {
	{ "accept", 2, do_accept },
	{ "addresses", 2, do_addresses },
	{ "bind", 3, do_bind },
	{ "connect", 2, do_connect },
	{ "create", 3, do_create },
	{ "create-ep", 6, do_create_ep },
	{ "create-qp", 2, do_create_qp },
	{ "create-waiting", 3, do_create_waiting },
	{ "destroy", 2, do_destroy },
	{ "destroy-qp", 2, do_destroy_qp },
	{ "disconnect", 2, do_disconnect },
	{ "establish", 2, do_establish },
	{ "event", 2, do_event },
	{ "get-ece", 2, do_get_ece },
	{ "get-request", 3, do_get_request },
	{ "join", 3, do_join },
	{ "leave", 3, do_leave },
	{ "listen", 2, do_listen },
	{ "make-qp", 2, do_make_qp },
	{ "migrate", 3, do_migrate },
	{ "notify", 3, do_notify },
	{ "option", 4, do_option },
	{ "pending", 2, do_pending },
	{ "qp-attr", 3, do_qp_attr },
	{ "qp-state", 2, do_qp_state },
	{ "quiet", 2, do_quiet },
	{ "ready", 1, do_ready },
	{ "reject", 2, do_reject },
	{ "reject-ece", 2, do_reject_ece },
	{ "resolve-addr", 3, do_resolve_addr },
	{ "resolve-route", 2, do_resolve_route },
	{ "set-ece", 4, do_set_ece },
};

/* The run */

static const struct exception *find_exception(const char *step, const char *outcome)
{
	const struct exception *e;

	for (e = exceptions; e->script; e++)
		if (strcmp(e->script, script->name) == 0 && strcmp(e->step, step) == 0 &&
		    strcmp(backend == &direct_backend ? e->direct : e->broker, outcome) == 0)
			return e;
	return NULL;
}

static void tell(const char *step, const char *outcome)
{
	const struct exception *e = find_exception(step, outcome);

	if (e)
		printf("%s: # differs by design: directly %s, by the broker %s: %s\n", step,
		       e->direct, e->broker, e->reason);
	else
		printf("%s: %s\n", step, outcome);
}

static void run_step(const char *text)
{
	struct text out = { .n = 0 };
	struct step step = { .n = 0 };
	char copy[256], *word, *rest;
	int r;

	if (text[0] == '!') {
		text++;
		if (backend == &direct_backend) {
			tell(text, "not tried");
			return;
		}
	}
	snprintf(copy, sizeof(copy), "%s", text);
	for (word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
		if (step.n == MAX_ARGS - 1)
			die("too many words: %s", text);
		step.words[step.n++] = word;
	}
	for (size_t i = 0; i < N_ELEMENTS(verbs); i++) {
		if (step.n < verbs[i].n_words || strcmp(verbs[i].name, step.words[0]) != 0)
			continue;
		r = verbs[i].run(&step, &out);
		tell(text, r < 0 || !out.n ? error_name(r) : out.buf);
		return;
	}
	die("not a step: %s", text);
}

/* What no step asked for counts too. */
static void tell_rest(void)
{
	int64_t deadline = now_ms() + QUIET_MS;
	struct text rest[N_SIDES] = { 0 };
	struct pollfd p[N_SIDES];
	int64_t left;

	for (int side = 0; side < N_SIDES; side++)
		p[side] =
			(struct pollfd){ .fd = backend->get_fd((enum side)side), .events = POLLIN };
	while ((left = deadline - now_ms()) > 0 && poll(p, N_SIDES, (int)left) > 0) {
		for (int side = 0; side < N_SIDES; side++) {
			char name[16];

			snprintf(name, sizeof(name), "rest%zu", rest[side].n);
			if (take_event((enum side)side, name, &rest[side]) < 0)
				continue;
			add(&rest[side], "; ");
			deadline = now_ms() + QUIET_MS;
		}
	}
	for (int side = 0; side < N_SIDES; side++)
		if (rest[side].n)
			printf("rest of %s: %s\n", side_names[side], rest[side].buf);
}

static void run_script(void)
{
	char *steps = strdup(script->steps), *text, *rest;

	for (int side = 0; side < N_SIDES; side++) {
		int r = backend->open((enum side)side);

		if (r < 0)
			die("no event channel: %s", error_name(r));
	}
	for (text = strtok_r(steps, ";", &rest); text; text = strtok_r(NULL, ";", &rest)) {
		text += strspn(text, " ");
		if (*text)
			run_step(text);
	}
	tell_rest();
	for (size_t i = 0; i < MAX_SLOTS; i++)
		if (slots[i].id)
			drop_slot(&slots[i]);
	for (int side = 0; side < N_SIDES; side++)
		backend->close((enum side)side);
	free(steps);
}

static int list(void)
{
	for (script = scripts; script->name; script++)
		printf("%s\n", script->name);
	return 0;
}

static int list_exceptions(void)
{
	const struct exception *e;

	for (e = exceptions; e->script; e++)
		printf("# differs by design: %s: %s: directly %s, by the broker %s: %s\n",
		       e->script, e->step, e->direct, e->broker, e->reason);
	printf("# %zu exceptions\n", (size_t)(e - exceptions));
	return 0;
}

static int usage(void)
{
	fprintf(stderr, "sidebyside list|exceptions, or sidebyside direct|broker SCRIPT\n");
	return 2;
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "list") == 0)
		return list();
	if (argc == 2 && strcmp(argv[1], "exceptions") == 0)
		return list_exceptions();
	if (argc != 3)
		return usage();
	if (strcmp(argv[1], direct_backend.name) == 0)
		backend = &direct_backend;
	else if (strcmp(argv[1], broker_backend.name) == 0)
		backend = &broker_backend;
	else
		return usage();
	for (script = scripts; script->name; script++)
		if (strcmp(script->name, argv[2]) == 0)
			break;
	if (!script->name) {
		fprintf(stderr, "sidebyside: there is no script %s\n", argv[2]);
		return 2;
	}

	setvbuf(stdout, NULL, _IOLBF, 0);
	/* librdmacm waits for ever where it waits. */
	alarm(60);
	run_script();
	return 0;
}
