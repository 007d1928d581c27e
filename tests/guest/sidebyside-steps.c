/* SPDX-License-Identifier: BSD-2-Clause */

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/guest/sidebyside.h"

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

/* A table of constants ends with an entry without a name. */
struct constant {
	const char *name;
	int value;
};

static int look_up(const struct constant *constants, const char *name)
{
	for (; constants->name; constants++)
		if (strcmp(constants->name, name) == 0)
			return constants->value;
	/* Any other name is a number, so scripts can use values that do not exist. */
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
	return create_id(step, /* wait= */ false);
}

static int do_create_waiting(const struct step *step, struct text *out)
{
	return create_id(step, /* wait= */ true);
}

/* create-ep ID active|passive PORT-SPACE NODE SERVICE [xrc] */
static int do_create_ep(const struct step *step, struct text *out)
{
	struct slot *slot = new_slot(step->words[1]);
	bool passive = strcmp(step->words[2], "passive") == 0;
	enum ibv_qp_type type;
	char port[8];

	snprintf(port, sizeof(port), "%d", atoi(step->words[5]) + backend->port_offset);
	slot->ps = (enum rdma_port_space)look_up(port_spaces, step->words[3]);
	type = slot->ps == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC;
	if (step->n > 6)
		type = passive ? IBV_QPT_XRC_RECV : IBV_QPT_XRC_SEND;
	return backend->create_ep(slot->side, passive, slot->ps, type, step->words[4], port,
				  &slot->id);
}

static int do_destroy(const struct step *step, struct text *out)
{
	return drop_slot(slot_of(step));
}

/* migrate ID SIDE */
static int do_migrate(const struct step *step, struct text *out)
{
	struct slot *slot = slot_of(step);
	enum side side = side_named(step->words[2]);
	int r = backend->migrate_id(slot->id, side);

	if (r == 0)
		slot->side = side;
	return r;
}

static int do_bind(const struct step *step, struct text *out)
{
	struct sockaddr_storage addr;

	return backend->bind_addr(slot_of(step)->id, parse_addr(step->words[2], &addr));
}

static int do_listen(const struct step *step, struct text *out)
{
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

static int do_keep_port(const struct step *step, struct text *out)
{
	keep_port(backend->get_local_addr(slot_of(step)->id));
	return 0;
}

static int do_route(const struct step *step, struct text *out)
{
	struct route route;
	int r = backend->get_route(slot_of(step), &route);

	if (r == 0)
		add_route(out, &route);
	return r;
}

/* get-request LISTENER ID */
static int do_get_request(const struct step *step, struct text *out)
{
	struct slot *listener = slot_of(step);
	struct slot *slot = new_slot(step->words[2]);

	slot->side = listener->side;
	slot->ps = listener->ps;
	return backend->get_request(listener->id, &slot->id);
}

/* resolve-addr ID DESTINATION [SOURCE] */
static int do_resolve_addr(const struct step *step, struct text *out)
{
	struct sockaddr_storage dst, src;

	return backend->resolve_addr(slot_of(step)->id,
				     step->n > 3 ? parse_addr(step->words[3], &src) : NULL,
				     parse_addr(step->words[2], &dst), RESOLVE_MS);
}

static int do_resolve_route(const struct step *step, struct text *out)
{
	return backend->resolve_route(slot_of(step)->id, RESOLVE_MS);
}

/* path ID [elsewhere]: a path of the program's own, to the id's peer or elsewhere */
static int do_path(const struct step *step, struct text *out)
{
	void *id = slot_of(step)->id;
	struct ibv_path_record path = {
		.flowlabel_hoplimit = htonl(64),
		.reversible_numpath = IBV_PATH_RECORD_REVERSIBLE | 1,
		.pkey = htons(0xffff),
		.mtu = 2 << 6 | IBV_MTU_512,
		.rate = 2 << 6 | IBV_RATE_10_GBPS,
		.packetlifetime = 2 << 6 | 17,
	};

	get_gid(backend->get_local_addr(id), &path.sgid);
	get_gid(backend->get_peer_addr(id), &path.dgid);
	if (step->n > 2)
		path.dgid.raw[15] ^= 1;
	return backend->set_path(id, &path);
}

/*
 * Reads the parameters of a connection from the words after the id: "data=TEXT" or "length=N" (N bytes) of private
 * data. The word "none": returns NULL.
 */
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

	return backend->connect(slot_of(step)->id, parse_param(step, &param));
}

static int do_accept(const struct step *step, struct text *out)
{
	struct rdma_conn_param param;

	return backend->accept(slot_of(step)->id, parse_param(step, &param));
}

static int do_reject(const struct step *step, struct text *out)
{
	struct rdma_conn_param param;

	parse_param(step, &param);
	return backend->reject(slot_of(step)->id, param.private_data, param.private_data_len);
}

static int do_reject_ece(const struct step *step, struct text *out)
{
	struct rdma_conn_param param;

	parse_param(step, &param);
	return backend->reject_ece(slot_of(step)->id, param.private_data, param.private_data_len);
}

static int do_establish(const struct step *step, struct text *out)
{
	return backend->establish(slot_of(step)->id);
}

static int do_disconnect(const struct step *step, struct text *out)
{
	return backend->disconnect(slot_of(step)->id);
}

static int do_notify(const struct step *step, struct text *out)
{
	return backend->notify(slot_of(step)->id,
			       (enum ibv_event_type)look_up(async_events, step->words[2]));
}

/* option ID OPTION VALUE */
static int do_option(const struct step *step, struct text *out)
{
	return backend->set_option(slot_of(step)->id, look_up(options, step->words[2]),
				   atoi(step->words[3]));
}

/* join ID GROUP [send-only]. The context is a string literal, because it must outlive the step. */
static int do_join(const struct step *step, struct text *out)
{
	bool send_only = step->n > 3 && strcmp(step->words[3], "send-only") == 0;
	struct sockaddr_storage addr;

	return backend->join(slot_of(step)->id, parse_addr(step->words[2], &addr),
			     send_only ? RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER :
					 RDMA_MC_JOIN_FLAG_FULLMEMBER,
			     send_only ? "sender" : "member");
}

static int do_leave(const struct step *step, struct text *out)
{
	struct sockaddr_storage addr;

	return backend->leave(slot_of(step)->id, parse_addr(step->words[2], &addr));
}

/* set-ece ID VENDOR OPTIONS */
static int do_set_ece(const struct step *step, struct text *out)
{
	struct ibv_ece ece = {
		.vendor_id = (uint32_t)atoi(step->words[2]),
		.options = (uint32_t)atoi(step->words[3]),
	};

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

/* Before the id has a device, there can be no QP: prints "no device". */
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
	drop_qps(slot_of(step));
	return 0;
}

/* The library does not know this QP. The script moves it by qp-attr. */
static int do_make_qp(const struct step *step, struct text *out)
{
	struct slot *slot = slot_of(step);
	struct ibv_context *verbs = backend->get_verbs(slot->id);
	struct ibv_qp_init_attr attr;

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

/* qp-attr ID STATE: prints the attributes for a move to STATE. Moves a QP that the library does not know. */
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

/*
 * event SIDE [NAME]: waits for the next event, and prints it. NAME: for the id of a connection request ("passive").
 */
static int do_event(const struct step *step, struct text *out)
{
	return await_event(side_named(step->words[1]), step->n > 2 ? step->words[2] : "passive",
			   step->may_time_out ? NONE_MS : DEADLINE_MS, out);
}

/* pending SIDE: waits for an event, and does not take it. */
static int do_pending(const struct step *step, struct text *out)
{
	struct pollfd p = {
		.fd = backend->get_fd(side_named(step->words[1])),
		.events = POLLIN,
	};
	int n = poll(&p, 1, DEADLINE_MS);

	return n < 0 ? -errno : n == 0 ? -ETIMEDOUT : 0;
}

static int do_quiet(const struct step *step, struct text *out)
{
	int64_t deadline = now_ms() + QUIET_MS;
	int r;

	do
		r = await_event(side_named(step->words[1]), "passive", (int)(deadline - now_ms()),
				out);
	while (r == 0 && drop_timewait(out, 0));
	if (r != -ETIMEDOUT)
		return r;
	add(out, "nothing");
	return 0;
}

/* The suite waits for the line that is printed for this step. */
static int do_ready(const struct step *step, struct text *out)
{
	return 0;
}

const struct verb step_verbs[] = {
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
	{ "keep-port", 2, do_keep_port },
	{ "leave", 3, do_leave },
	{ "listen", 2, do_listen },
	{ "make-qp", 2, do_make_qp },
	{ "migrate", 3, do_migrate },
	{ "notify", 3, do_notify },
	{ "option", 4, do_option },
	{ "path", 2, do_path },
	{ "pending", 2, do_pending },
	{ "qp-attr", 3, do_qp_attr },
	{ "qp-state", 2, do_qp_state },
	{ "quiet", 2, do_quiet },
	{ "ready", 1, do_ready },
	{ "reject", 2, do_reject },
	{ "reject-ece", 2, do_reject_ece },
	{ "resolve-addr", 3, do_resolve_addr },
	{ "resolve-route", 2, do_resolve_route },
	{ "route", 2, do_route },
	{ "set-ece", 4, do_set_ece },
	{ NULL, 0, NULL },
};
