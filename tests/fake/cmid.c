/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fake/internal.h"

/* The event function of a connection request that has no owner yet. */
void fake_drop_event(void *userdata, struct fabric_event *event)
{
}

struct fabric_id *fake_id_new(struct fabric *fabric, struct owner owner, enum rdma_port_space ps)
{
	struct fabric_id *id = calloc(1, sizeof(*id));

	assert(id);
	id->fabric = fabric;
	id->owner = owner;
	id->on_event = fake_drop_event;
	id->ps = ps;
	id->is_datagram = ps == RDMA_PS_UDP || ps == RDMA_PS_IPOIB;
	for (int i = 0; i < N_OPTIONS; i++)
		id->options[i] = -1;
	list_insert(&fabric->ids, &id->link);
	fabric->n_ids++;
	return id;
}

int fabric_id_new(struct fabric_id **ret, struct fabric *fabric, struct owner owner,
		  enum rdma_port_space ps, fabric_event_fn on_event, void *userdata)
{
	int r = fake_outcome(fabric, FAKE_ID_NEW);

	if (r < 0)
		return r;
	if (list_is_empty(&fabric->devices))
		return -ENODEV;
	fake_open(fabric);
	*ret = fake_id_new(fabric, owner, ps);
	fabric_id_set_owner(*ret, owner, on_event, userdata);
	return 0;
}

static void part(struct fabric_id *id)
{
	struct fabric_id *peer = id->peer;

	if (!peer)
		return;
	id->peer = peer->peer = NULL;
	if (id->connected) {
		fake_post(peer, RDMA_CM_EVENT_DISCONNECTED, 0, NULL, NULL);
		fake_post(id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL, NULL);
	} else {
		fake_post(peer, RDMA_CM_EVENT_REJECTED, 28, NULL, NULL);
	}
	id->connected = peer->connected = false;
}

struct fabric_id *fabric_id_free(struct fabric_id *id)
{
	struct list *l;

	if (!id)
		return NULL;
	part(id);
	list_for_each(l, &id->fabric->pending) {
		struct pending *p = container_of(l, struct pending, link);

		if (p->id == id)
			p->id = NULL;
	}
	list_remove(&id->link);
	id->fabric->n_ids--;
	free(id);
	return NULL;
}

/* The fake fabric notifies the peer at once, so nothing is pending on the id. */
void fabric_id_abandon(struct fabric_id *id)
{
	fabric_id_free(id);
}

void fabric_id_set_owner(struct fabric_id *id, struct owner owner, fabric_event_fn on_event,
			 void *userdata)
{
	id->owner = owner;
	id->on_event = on_event;
	id->userdata = userdata;
}

void fabric_id_get_info(const struct fabric_id *id, struct fabric_id_info *ret)
{
	*ret = id->info;
}

static bool is_any(const struct sockaddr *addr)
{
	return addr->sa_family != AF_INET6 && addr_is_wildcard(addr);
}

/* Whether ADDR of ID covers addresses of both families. */
static bool has_both_families(const struct fabric_id *id, const struct sockaddr *addr)
{
	return addr->sa_family == AF_INET6 && id->options[RDMA_OPTION_ID_AFONLY] <= 0;
}

/* Returns the oldest id that keeps ID from binding to PORT of ADDR; NULL: none. */
static struct fabric_id *find_holder(const struct fabric_id *id, const struct sockaddr *addr,
				     in_port_t port)
{
	struct list *l;

	list_for_each(l, &id->fabric->ids) {
		struct fabric_id *other = container_of(l, struct fabric_id, link);
		const struct sockaddr *local = (struct sockaddr *)&other->info.local;

		if (other != id && !other->is_request && fake_port(&other->info.local) == port &&
		    (local->sa_family == addr->sa_family || has_both_families(id, addr) ||
		     has_both_families(other, local)))
			return other;
	}
	return NULL;
}

/* As the kernel, gives an address of AF_IB its whole service id. PORT: in network order. */
static void set_port(struct fabric_id *id, in_port_t port)
{
	struct sockaddr_ib *ib = (struct sockaddr_ib *)&id->info.local;

	if (ib->sib_family != AF_IB) {
		((struct sockaddr_in *)ib)->sin_port = port; /* at the same offset in IPv6 */
		return;
	}
	ib->sib_sid = htobe64(((uint64_t)id->ps << 16) + ntohs(port));
	ib->sib_sid_mask = UINT64_MAX;
}

int fabric_id_bind(struct fabric_id *id, const struct sockaddr *addr)
{
	struct fabric_device *device = fabric_next_device(id->fabric, NULL);
	struct fabric_id *other;
	in_port_t port = htons(addr_port(addr));
	int r = fake_outcome(id->fabric, FAKE_BIND);

	if (r == 0)
		r = fake_check_ib(addr, /* local= */ true);
	if (r < 0)
		return r;
	other = port ? find_holder(id, addr, port) : NULL;
	if (other && (other->listening || !(other->options[RDMA_OPTION_ID_REUSEADDR] > 0 &&
					    id->options[RDMA_OPTION_ID_REUSEADDR] > 0)))
		return -EADDRINUSE;
	memcpy(&id->info.local, addr, addr_len(addr));
	set_port(id, port ?: htons(++id->fabric->last_port));
	if (!is_any(addr) && device) {
		id->info.device = device->name;
		id->info.port_num = 1;
	}
	fake_learn_gids(id);
	fake_learn_pkey(id);
	return 0;
}

int fabric_id_listen(struct fabric_id *id, int backlog)
{
	int r = fake_outcome(id->fabric, FAKE_LISTEN);

	if (r < 0)
		return r;
	/* Only with REUSEADDR another id can have the port. */
	if (find_holder(id, (const struct sockaddr *)&id->info.local, fake_port(&id->info.local)))
		return -EADDRINUSE;
	id->backlog = backlog;
	id->listening = true;
	return 0;
}

int fabric_id_listen_anew(struct fabric_id *id, int backlog)
{
	return fabric_id_listen(id, backlog);
}

int fabric_id_resolve_addr(struct fabric_id *id, const struct sockaddr *src,
			   const struct sockaddr *dst, int timeout_ms)
{
	struct sockaddr_in own = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(FAKE_IP) };
	struct sockaddr_ib ib;
	int r = fake_outcome(id->fabric, FAKE_RESOLVE_ADDR);

	fake_local_ib(&ib);
	if (r == 0)
		r = fake_check_ib(dst, /* local= */ false);
	if (r == 0 && id->info.local.ss_family == AF_UNSPEC) {
		id->fabric->count[FAKE_BIND]--;
		if (dst->sa_family == AF_IB)
			ib.sib_pkey = ((const struct sockaddr_ib *)dst)->sib_pkey;
		if (!src)
			src = dst->sa_family == AF_IB ? (struct sockaddr *)&ib :
							(struct sockaddr *)&own;
		r = fabric_id_bind(id, src);
	}
	if (r == 0 && id->info.local.ss_family != dst->sa_family && dst->sa_family == AF_IB)
		r = -EINVAL;
	if (r < 0)
		return r;
	memcpy(&id->info.peer, dst, addr_len(dst));
	fake_learn_gids(id);
	if (id->fabric->n_addr_errors > 0) {
		id->fabric->n_addr_errors--;
		fake_post(id, RDMA_CM_EVENT_ADDR_ERROR, id->fabric->addr_error, NULL, NULL);
		return 0;
	}
	fake_post(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL, NULL);
	return 0;
}

int fabric_id_resolve_route(struct fabric_id *id, int timeout_ms)
{
	int r = fake_outcome(id->fabric, FAKE_RESOLVE_ROUTE);

	if (r < 0)
		return r;
	if (id->fabric->n_route_errors > 0) {
		id->fabric->n_route_errors--;
		fake_post(id, RDMA_CM_EVENT_ROUTE_ERROR, -ETIMEDOUT, NULL, NULL);
		return 0;
	}
	id->is_routed = true;
	fake_post(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL, NULL);
	return 0;
}

size_t fabric_id_get_paths(const struct fabric_id *id, struct ibv_sa_path_rec ret[PATHS_MAX])
{
	int tos = id->options[RDMA_OPTION_ID_TOS];

	if (id->fabric->hides_paths)
		return 0;
	if (!id->is_routed && (!id->is_request || id->is_datagram))
		return 0;
	/* As librdmacm, which reads the paths with the event. */
	if (id->is_routed && !id->is_told)
		return 0;
	ret[0] = (struct ibv_sa_path_rec){
		.dlid = htons(0x1001),
		.slid = htons(0x1002),
		.raw_traffic = 1,
		.flow_label = htonl(0x12345),
		.hop_limit = 61,
		.traffic_class = (uint8_t)(tos > 0 ? tos : 0),
		.reversible = 1,
		.numb_path = 1,
		.pkey = htons(0x8001),
		.sl = (uint8_t)(fake_is_infiniband() || tos <= 0 ? 3 : tos >> 4),
		.mtu_selector = 2,
		.mtu = IBV_MTU_1024,
		.rate_selector = 2,
		.rate = IBV_RATE_40_GBPS,
		.packet_life_time_selector = 2,
		.packet_life_time = 15,
		.preference = 7,
	};
	memset(ret[0].dgid.raw, FAKE_DGID, sizeof(ret[0].dgid.raw));
	memset(ret[0].sgid.raw, FAKE_SGID, sizeof(ret[0].sgid.raw));
	if (fake_is_infiniband())
		fake_set_path_gids(id, &ret[0]);
	if (id->has_path)
		ret[0] = id->path;
	/* A request has an alternate path, too. */
	ret[1] = ret[0];
	ret[1].preference = 8;
	return id->is_request ? 2 : 1;
}

int fabric_id_connect(struct fabric_id *id, const struct rdma_conn_param *param)
{
	struct fabric_id *listener, *request;
	int r = fake_outcome(id->fabric, FAKE_CONNECT);

	if (r < 0)
		return r;
	id->qpn = param->qp_num;
	if (id->fabric->n_stale > 0) {
		id->fabric->n_stale--;
		fake_post(id, RDMA_CM_EVENT_REJECTED, 10, NULL, NULL);
		return 0;
	}
	listener = fake_find_port(id->fabric, fake_port(&id->info.peer), true);
	if (!listener) {
		fake_post(id, RDMA_CM_EVENT_REJECTED, 8, NULL, NULL);
		return 0;
	}
	request = fake_id_new(id->fabric, listener->owner, id->ps);
	request->is_request = true;
	request->info.local = id->info.peer;
	request->info.peer = id->info.local;
	request->info.device = id->info.device;
	request->info.port_num = 1;
	fake_learn_gids(request);
	/* What the request's path says, whatever the listener's address is. */
	request->info.pkey = id->has_path ? pkey_partition(ntohs(id->path.pkey)) : id->info.pkey;
	if (request->info.local.ss_family == AF_IB)
		((struct sockaddr_ib *)&request->info.local)->sib_pkey =
			htons(request->info.pkey | PKEY_FULL);
	request->qp_type = id->qp_type; /* the request's message has it */
	request->is_datagram = id->is_datagram;
	request->peer = id;
	id->peer = request;
	fake_post(listener, RDMA_CM_EVENT_CONNECT_REQUEST, 0, request, param);
	container_of(id->fabric->pending.prev, struct pending, link)->event.remote_ece =
		id->local_ece;
	return 0;
}

int fabric_id_accept(struct fabric_id *id, const struct rdma_conn_param *param)
{
	int r = fake_outcome(id->fabric, FAKE_ACCEPT);

	if (r < 0)
		return r;
	if (!id->peer)
		return -EINVAL;
	if (id->is_datagram && id->answered)
		return -EINVAL;
	/* The kernel would reject the request, and would not let the id be destroyed for a minute. */
	assert(!id->answered);
	id->answered = true;
	id->qpn = param->qp_num;
	fake_post(id->peer,
		  id->is_datagram ? RDMA_CM_EVENT_ESTABLISHED : RDMA_CM_EVENT_CONNECT_RESPONSE, 0,
		  NULL, param);
	container_of(id->fabric->pending.prev, struct pending, link)->event.remote_ece =
		id->local_ece;
	return 0;
}

int fabric_id_establish(struct fabric_id *id)
{
	int r = fake_outcome(id->fabric, FAKE_ESTABLISH);

	if (r < 0)
		return r;
	if (!id->peer)
		return -EINVAL;
	id->connected = id->peer->connected = true;
	if (!id->peer->is_notified)
		fake_post(id->peer, RDMA_CM_EVENT_ESTABLISHED, 0, NULL, NULL);
	return 0;
}

int fabric_id_reject(struct fabric_id *id, const void *data, uint8_t len, bool ece)
{
	struct rdma_conn_param param = { .private_data = data, .private_data_len = len };
	int r = fake_outcome(id->fabric, FAKE_REJECT);

	if (r < 0)
		return r;
	if (!id->peer)
		return -EINVAL;
	fake_post(id->peer, RDMA_CM_EVENT_REJECTED,
		  id->fabric->reject_status ?:
			  ece               ? 35 :
					      28,
		  NULL, &param);
	id->peer->peer = NULL;
	id->peer = NULL;
	return 0;
}

bool fabric_id_is_iwarp(const struct fabric_id *id)
{
	return false;
}

int fabric_id_disconnect(struct fabric_id *id)
{
	int r = fake_outcome(id->fabric, FAKE_DISCONNECT);

	if (r == 0)
		part(id);
	return r;
}

int fabric_id_notify(struct fabric_id *id, enum ibv_event_type event)
{
	int r = fake_outcome(id->fabric, FAKE_NOTIFY);

	if (r < 0 || event != IBV_EVENT_COMM_EST || !id->is_inherited)
		return r;
	if (id->connected || id->is_notified)
		return -EISCONN;
	if (!id->peer || !id->answered)
		return -EINVAL;
	id->is_notified = true;
	fake_post(id, RDMA_CM_EVENT_ESTABLISHED, 0, NULL, NULL);
	return 0;
}

int fabric_id_set_local_ece(struct fabric_id *id, const struct ibv_ece *ece)
{
	id->local_ece = *ece;
	return 0;
}

struct fabric_join {
	struct fabric_id *id;
	void *userdata;
};

struct fabric_join *fake_join(struct fabric_id *id, void *userdata)
{
	struct fabric_join *join = calloc(1, sizeof(*join));

	assert(join);
	join->id = id;
	join->userdata = userdata;
	return join;
}

int fabric_join_new(struct fabric_join **ret, struct fabric_id *id, const struct sockaddr *addr,
		    uint32_t join_flags, void *userdata)
{
	struct fabric_join *join;
	int r = fake_outcome(id->fabric, FAKE_JOIN);

	if (r < 0)
		return r;
	join = fake_join(id, userdata);
	fake_post(id, RDMA_CM_EVENT_MULTICAST_JOIN, 0, NULL, NULL);
	container_of(id->fabric->pending.prev, struct pending, link)->event.join = join;
	container_of(id->fabric->pending.prev, struct pending, link)->event.ud.qkey = 0x1234567;
	*ret = join;
	return 0;
}

struct fabric_join *fabric_join_free(struct fabric_join *join)
{
	struct list *l, *n;

	if (!join)
		return NULL;
	list_for_each_safe(l, n, &join->id->fabric->pending) {
		struct pending *p = container_of(l, struct pending, link);

		if (p->event.join == join) {
			list_remove(&p->link);
			free(p);
		}
	}
	free(join);
	return NULL;
}

void *fabric_join_get_userdata(const struct fabric_join *join)
{
	return join->userdata;
}

int fabric_id_set_option(struct fabric_id *id, int option, int value)
{
	int r = fake_outcome(id->fabric, FAKE_SET_OPTION);

	if (r == 0)
		id->options[option] = value;
	return r;
}

int fabric_id_qp_attr(struct fabric_id *id, enum ibv_qp_state state, struct ibv_qp_attr *ret_attr,
		      int *ret_mask)
{
	int r = fake_outcome(id->fabric, FAKE_QP_ATTR);

	if (r < 0)
		return r;
	*ret_attr = (struct ibv_qp_attr){ .qp_state = state };
	*ret_mask = IBV_QP_STATE;
	if (state == IBV_QPS_INIT) {
		ret_attr->port_num = 1;
		*ret_mask |= IBV_QP_PORT | IBV_QP_PKEY_INDEX;
		ret_attr->pkey_index = fake_pkey_index(id);
	}
	if (state == IBV_QPS_RTR) {
		ret_attr->ah_attr.is_global = 1;
		ret_attr->ah_attr.sl = FAKE_SL_OF_PEER;
		memset(ret_attr->ah_attr.grh.dgid.raw, FAKE_DGID, 16);
		*ret_mask |= IBV_QP_AV | IBV_QP_MIN_RNR_TIMER;
	}
	if (state == IBV_QPS_RTR && id->peer && id->peer->qpn) {
		ret_attr->dest_qp_num = id->peer->qpn;
		*ret_mask |= IBV_QP_DEST_QPN;
	}
	return 0;
}
