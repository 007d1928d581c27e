/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Prints addresses, events and attributes without the values that vary from run to run: a QP number becomes the name
 * of its id, and a port that the kernel chose becomes "chosen".
 */

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <infiniband/ib.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/guest/sidebyside.h"

/* The kernel chooses ports from this one up. */
#define FIRST_CHOSEN_PORT 32768

/* 10.9.0.1:7471, 10.9.0.1:kept, *:0, [fd09::1]:7471, gid=10.9.0.1:7471 (AF_IB), gid=*:7471, or a name */

/* On RoCE. A wildcard has the GID 0. */
void get_gid(const struct sockaddr *addr, union ibv_gid *ret)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)addr;

	memset(ret, 0, sizeof(*ret));
	if (addr->sa_family == AF_INET6)
		memcpy(ret, &((const struct sockaddr_in6 *)addr)->sin6_addr, sizeof(*ret));
	if (addr->sa_family != AF_INET || in->sin_addr.s_addr == INADDR_ANY)
		return;
	ret->raw[10] = ret->raw[11] = 0xff;
	memcpy(&ret->raw[12], &in->sin_addr, 4);
}

/* Makes RET, an IPv4 address, one of AF_IB in the port space TCP. */
static void to_ib(struct sockaddr_storage *ret)
{
	const struct sockaddr_in in = *(const struct sockaddr_in *)ret;
	struct sockaddr_ib ib = { .sib_family = AF_IB, .sib_pkey = htons(0xffff) };

	get_gid((const struct sockaddr *)&in, (union ibv_gid *)&ib.sib_addr);
	ib.sib_sid = htobe64((uint64_t)RDMA_PS_TCP << 16 | ntohs(in.sin_port));
	ib.sib_sid_mask = in.sin_port ? UINT64_MAX : htobe64(UINT64_MAX << 16);
	memset(ret, 0, sizeof(*ret));
	memcpy(ret, &ib, sizeof(ib));
}

static const struct {
	const char *name, *addr;
} addresses[] = {
	{ "here", "10.9.0.1:7471" },   { "here6", "[fd09::1]:7471" },
	{ "nobody", "10.9.0.1:7499" }, { "nowhere", "192.0.2.1:7471" },
	{ "group", "239.9.0.1:0" },    { "group2", "239.9.0.2:0" },
	{ "group6", "[ff0e::9]:0" },
};

static in_port_t kept_port;

void keep_port(const struct sockaddr *addr)
{
	kept_port = ((const struct sockaddr_in *)addr)->sin_port; /* in IPv6 at the same offset */
}

static in_port_t parse_port(const char *text)
{
	int port = atoi(text);

	if (strcmp(text, "kept") == 0)
		return kept_port;
	return htons((uint16_t)(port > 0 ? port + backend->port_offset : 0));
}

struct sockaddr *parse_addr(const char *text, struct sockaddr_storage *ret)
{
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ret;
	struct sockaddr_in *in = (struct sockaddr_in *)ret;
	const char *colon;
	char host[64];
	bool is_ib;
	int n, r;

	memset(ret, 0, sizeof(*ret));
	for (size_t i = 0; i < N_ELEMENTS(addresses); i++)
		if (strcmp(addresses[i].name, text) == 0)
			text = addresses[i].addr;
	colon = strrchr(text, ':');
	is_ib = strncmp(text, "gid=", 4) == 0;
	text += is_ib ? 4 : 0;
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
		in6->sin6_port = parse_port(colon + 1);
		r = inet_pton(AF_INET6, host, &in6->sin6_addr);
	} else {
		snprintf(host, sizeof(host), "%.*s", n, text);
		in->sin_family = AF_INET;
		in->sin_port = parse_port(colon + 1);
		r = inet_pton(AF_INET, strcmp(host, "*") == 0 ? "0.0.0.0" : host, &in->sin_addr);
	}
	if (r != 1)
		die("%s is not an address", text);
	if (is_ib)
		to_ib(ret);
	return (struct sockaddr *)ret;
}

static void add_port(struct text *out, in_port_t port)
{
	if (ntohs(port) >= FIRST_CHOSEN_PORT)
		add(out, ":chosen");
	else
		add(out, ":%u", port ? ntohs(port) - backend->port_offset : 0);
}

void add_addr(struct text *out, const struct sockaddr *addr)
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)addr;
	const struct sockaddr_in *in = (const struct sockaddr_in *)addr;
	const struct sockaddr_ib *ib = (const struct sockaddr_ib *)addr;
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
	case AF_IB:
		add(out, "[gid %s]", inet_ntop(AF_INET6, &ib->sib_addr, text, sizeof(text)));
		add_port(out, htons((uint16_t)be64toh(ib->sib_sid & ib->sib_sid_mask)));
		add(out, ", pkey %#x, service 0x%llx", ntohs(ib->sib_pkey),
		    (unsigned long long)be64toh(ib->sib_sid) >> 16);
		break;
	default:
		add(out, "none");
	}
}

/* Adds the private data without the zeros at its end, to which the transport pads messages. */
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

static void note_paths(const struct event *event)
{
	struct slot *slot = event->n_paths > 0 ? find_slot(name_of_id(event->id)) : NULL;

	if (!slot)
		return;
	memcpy(slot->paths, event->paths, sizeof(slot->paths));
	slot->n_paths = event->n_paths;
}

int take_event(enum side side, const char *request_name, struct text *out)
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
	note_paths(&event);
	add_event(out, &event);
	return 0;
}

int await_event(enum side side, const char *request_name, int timeout_ms, struct text *out)
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

bool drop_timewait(struct text *out, size_t n)
{
	static const char type[] = "TIMEWAIT_EXIT ";

	if (strncmp(out->buf + n, type, strlen(type)) != 0)
		return false;
	out->n = n;
	out->buf[n] = 0;
	return true;
}

static void add_gid(struct text *out, const char *name, const union ibv_gid *gid)
{
	char text[INET6_ADDRSTRLEN];

	add(out, ", %s %s", name, inet_ntop(AF_INET6, gid, text, sizeof(text)));
}

/*
 * Of RoCE, the kernel gives a bit of the peer's MAC address as raw traffic, because both have one place in its record, and
 * librdmacm takes that bit into the flow label, which has 20 bits.
 */
static bool has_flow_label(const struct ibv_sa_path_rec *path)
{
	return ntohl(path->flow_label) & 0xfffff;
}

void add_route(struct text *out, const struct route *route)
{
	add(out, "port %u, pkey %#x", route->port_num, route->pkey);
	add_gid(out, "from", &route->sgid);
	add_gid(out, "to", &route->dgid);
	add(out, ", paths %u", route->n_paths);
	for (unsigned i = 0; i < route->n_paths; i++) {
		const struct ibv_sa_path_rec *path = &route->paths[i];

		add(out, "; path");
		add_gid(out, "from", &path->sgid);
		add_gid(out, "to", &path->dgid);
		add(out, ", lids %u and %u, raw %d, flow label %s, hop limit %u, traffic class %u",
		    ntohs(path->slid), ntohs(path->dlid), path->raw_traffic,
		    has_flow_label(path) ? "chosen" : "none", path->hop_limit, path->traffic_class);
		add(out, ", reversible %d, number %u, pkey %#x, sl %u", path->reversible,
		    path->numb_path, ntohs(path->pkey), path->sl);
		add(out, ", mtu %u %u, rate %u %u, life time %u %u, preference %u",
		    path->mtu_selector, path->mtu, path->rate_selector, path->rate,
		    path->packet_life_time_selector, path->packet_life_time, path->preference);
	}
}

void add_qp_attr(struct text *out, const struct ibv_qp_attr *attr, int mask)
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
