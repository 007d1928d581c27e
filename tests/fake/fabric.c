/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fake/fake.h"
#include "util/list.h"
#include "util/util.h"

#define N_OPTIONS 4

struct fabric_device {
	struct list link; /* fabric.devices */
	struct fabric *fabric;
	char *name, *node;
	unsigned n_leases;
	unsigned n_refs; /* leases, and the fabric while it is there */
	bool announced;
};

struct fabric_lease {
	struct fabric_device *device;
};

struct pending {
	struct list link; /* fabric.pending */
	struct fabric_id *id; /* NULL: freed meanwhile */
	struct fabric_event event;
};

struct fabric {
	const struct fabric_ops *ops;
	void *userdata;
	sd_event_source *source;
	struct list devices; /* fabric_device.link */
	struct list ids; /* fabric_id.link */
	struct list pending; /* pending.link */
	unsigned n_ids, n_channels;
	uint32_t stranger;
	unsigned n_stale;
	bool holds_events;
	bool knows_routes, routes_change;
	unsigned n_addr_errors;
	int addr_error;
	uint16_t last_port;
	int fail[_FAKE_CALL_MAX];
	unsigned count[_FAKE_CALL_MAX];
};

struct fabric_channel {
	struct fabric *fabric;
	const struct fabric_channel_ops *ops;
	void *userdata;
};

struct fabric_id {
	struct list link; /* fabric.ids */
	struct fabric *fabric;
	struct fabric_channel *channel;
	void *userdata;
	struct fabric_id_info info;
	struct fabric_id *peer; /* the other end, once there is one */
	bool listening, connected, answered;
	int backlog;
	int options[N_OPTIONS];
	struct ibv_ece local_ece;
	bool is_datagram;
};

static int call(struct fabric *fabric, enum fake_call which)
{
	int r = fabric->fail[which];

	fabric->fail[which] = 0;
	fabric->count[which]++;
	return r;
}

static in_port_t *port_of(struct sockaddr_storage *addr)
{
	return &((struct sockaddr_in *)addr)->sin_port; /* at the same place in IPv6 */
}

/* Events */

static void kick(struct fabric *fabric)
{
	sd_event_source_set_enabled(fabric->source, SD_EVENT_ONESHOT);
}

static void post(struct fabric_id *id, enum rdma_cm_event_type type, int status,
		 struct fabric_id *request, const struct rdma_conn_param *conn)
{
	struct pending *p = calloc(1, sizeof(*p));

	assert(p);
	p->id = id;
	p->event.type = type;
	p->event.status = status;
	p->event.request = request;
	if (conn) {
		p->event.conn = *conn;
		if (conn->private_data_len > 0)
			memcpy(p->event.private_data, conn->private_data, conn->private_data_len);
	}
	list_insert(&id->fabric->pending, &p->link);
	kick(id->fabric);
}

static int on_turn(sd_event_source *source, void *userdata)
{
	struct fabric *fabric = userdata;
	struct list *l;

	(void)source;
	list_for_each(l, &fabric->devices) {
		struct fabric_device *device = container_of(l, struct fabric_device, link);

		if (!device->announced) {
			device->announced = true;
			fabric->ops->device_added(fabric->userdata, device);
		}
	}
	if (fabric->routes_change) {
		fabric->routes_change = false;
		if (fabric->ops->routes_changed)
			fabric->ops->routes_changed(fabric->userdata);
	}
	while (!fabric->holds_events && (l = list_first(&fabric->pending))) {
		struct pending *p = container_of(l, struct pending, link);

		list_remove(&p->link);
		if (p->id) {
			if (p->event.conn.private_data_len > 0)
				p->event.conn.private_data = p->event.private_data;
			else
				p->event.conn.private_data = NULL;
			p->event.id_userdata = p->id->userdata;
			p->id->channel->ops->event(p->id->channel->userdata, &p->event);
		} else if (p->event.request) {
			fabric_id_free(p->event.request);
		}
		free(p);
	}
	return 0;
}

int fabric_new(struct fabric **ret, sd_event *loop, enum fabric_access access,
	       const struct fabric_ops *ops, void *userdata)
{
	struct fabric *fabric = calloc(1, sizeof(*fabric));
	int r;

	(void)access;
	assert(fabric);
	fabric->ops = ops;
	fabric->userdata = userdata;
	fabric->last_port = 40000;
	fabric->knows_routes = true;
	list_init(&fabric->devices);
	list_init(&fabric->ids);
	list_init(&fabric->pending);
	r = sd_event_add_defer(loop, &fabric->source, on_turn, fabric);
	assert(r >= 0);
	fake_add_device(fabric, "fake0");
	*ret = fabric;
	return 0;
}

bool fabric_knows_routes(const struct fabric *fabric)
{
	return fabric->ops->routes_changed && fabric->knows_routes;
}

/* Devices and leases */

static void device_unref(struct fabric_device *device)
{
	if (--device->n_refs > 0)
		return;
	free(device->name);
	free(device->node);
	free(device);
}

void fake_add_device(struct fabric *fabric, const char *name)
{
	struct fabric_device *device = calloc(1, sizeof(*device));

	assert(device);
	device->fabric = fabric;
	device->n_refs = 1;
	device->name = strdup(name);
	assert(device->name && asprintf(&device->node, "/dev/infiniband/%s", name) > 0);
	list_insert(&fabric->devices, &device->link);
	kick(fabric);
}

void fake_remove_device(struct fabric *fabric, const char *name)
{
	struct fabric_device *device = fabric_find_device(fabric, name);
	struct list *l;

	assert(device);
	list_remove(&device->link);
	list_for_each(l, &fabric->ids) {
		struct fabric_id *id = container_of(l, struct fabric_id, link);

		if (id->info.device == device->name) {
			id->info.device = NULL;
			post(id, RDMA_CM_EVENT_DEVICE_REMOVAL, 0, NULL, NULL);
		}
	}
	fabric->ops->device_removed(fabric->userdata, device);
	device_unref(device);
}

struct fabric *fabric_free(struct fabric *fabric)
{
	struct list *l;

	if (!fabric)
		return NULL;
	while ((l = list_first(&fabric->pending))) {
		struct pending *p = container_of(l, struct pending, link);

		list_remove(&p->link);
		fabric_id_free(p->event.request);
		free(p);
	}
	assert(fabric->n_channels == 0 && fabric->n_ids == 0);
	while ((l = list_first(&fabric->devices))) {
		list_remove(l);
		device_unref(container_of(l, struct fabric_device, link));
	}
	sd_event_source_disable_unref(fabric->source);
	free(fabric);
	return NULL;
}

struct fabric_device *fabric_next_device(struct fabric *fabric, struct fabric_device *prev)
{
	struct list *next = prev ? prev->link.next : fabric->devices.next;

	return next == &fabric->devices ? NULL : container_of(next, struct fabric_device, link);
}

struct fabric_device *fabric_find_device(struct fabric *fabric, const char *name)
{
	struct fabric_device *device = NULL;

	while ((device = fabric_next_device(fabric, device)))
		if (strcmp(device->name, name) == 0)
			break;
	return device;
}

const char *fabric_device_name(const struct fabric_device *device)
{
	return device->name;
}

const char *fabric_device_node(const struct fabric_device *device)
{
	return device->node;
}

unsigned fabric_device_n_leases(const struct fabric_device *device)
{
	return device->n_leases;
}

int fabric_lease_new(struct fabric_lease **ret, struct fabric_device *device, uid_t uid)
{
	int r = call(device->fabric, FAKE_LEASE_NEW);

	(void)uid;
	if (r < 0)
		return r;
	*ret = calloc(1, sizeof(**ret));
	assert(*ret);
	(*ret)->device = device;
	device->n_leases++;
	device->n_refs++;
	return 0;
}

struct fabric_lease *fabric_lease_free(struct fabric_lease *lease)
{
	if (!lease)
		return NULL;
	lease->device->n_leases--;
	device_unref(lease->device);
	free(lease);
	return NULL;
}

int fabric_qp_belongs(struct fabric *fabric, const char *device, uint32_t qpn, pid_t pid)
{
	int r = call(fabric, FAKE_QP_BELONGS);

	(void)pid;
	if (r < 0)
		return r;
	if (!fabric_find_device(fabric, device))
		return -ENODEV;
	return qpn != fabric->stranger;
}

/* Channels and ids */

int fabric_channel_new(struct fabric_channel **ret, struct fabric *fabric,
		       const struct fabric_channel_ops *ops, void *userdata)
{
	int r = call(fabric, FAKE_CHANNEL_NEW);

	if (r < 0)
		return r;
	if (list_is_empty(&fabric->devices))
		return -ENODEV;
	*ret = calloc(1, sizeof(**ret));
	assert(*ret);
	**ret = (struct fabric_channel){ .fabric = fabric, .ops = ops, .userdata = userdata };
	fabric->n_channels++;
	return 0;
}

struct fabric_channel *fabric_channel_free(struct fabric_channel *channel)
{
	if (channel)
		channel->fabric->n_channels--;
	free(channel);
	return NULL;
}

int fabric_id_new(struct fabric_id **ret, struct fabric_channel *channel, enum rdma_port_space ps,
		  void *userdata)
{
	struct fabric_id *id;
	int r = call(channel->fabric, FAKE_ID_NEW);

	if (r < 0)
		return r;
	id = calloc(1, sizeof(*id));
	assert(id);
	id->fabric = channel->fabric;
	id->channel = channel;
	id->userdata = userdata;
	id->is_datagram = ps == RDMA_PS_UDP || ps == RDMA_PS_IPOIB;
	for (int i = 0; i < N_OPTIONS; i++)
		id->options[i] = -1;
	list_insert(&id->fabric->ids, &id->link);
	id->fabric->n_ids++;
	*ret = id;
	return 0;
}

static void part(struct fabric_id *id)
{
	struct fabric_id *peer = id->peer;

	if (!peer)
		return;
	id->peer = peer->peer = NULL;
	if (id->connected) {
		post(peer, RDMA_CM_EVENT_DISCONNECTED, 0, NULL, NULL);
		post(id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL, NULL);
	} else {
		post(peer, RDMA_CM_EVENT_REJECTED, 28, NULL, NULL);
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

/* Nothing is lost here. */
void fabric_id_abandon(struct fabric_id *id)
{
	fabric_id_free(id);
}

void fabric_id_set_userdata(struct fabric_id *id, void *userdata)
{
	id->userdata = userdata;
}

void fabric_id_get_info(const struct fabric_id *id, struct fabric_id_info *ret)
{
	*ret = id->info;
}

static struct fabric_id *find_port(struct fabric *fabric, in_port_t port, bool listening)
{
	struct list *l;

	list_for_each(l, &fabric->ids) {
		struct fabric_id *id = container_of(l, struct fabric_id, link);

		if (*port_of(&id->info.local) == port && (!listening || id->listening))
			return id;
	}
	return NULL;
}

static bool is_any(const struct sockaddr *addr)
{
	return addr->sa_family == AF_INET &&
	       ((const struct sockaddr_in *)addr)->sin_addr.s_addr == INADDR_ANY;
}

int fabric_id_bind(struct fabric_id *id, const struct sockaddr *addr)
{
	struct fabric_device *device = fabric_next_device(id->fabric, NULL);
	struct fabric_id *other;
	in_port_t port = ((const struct sockaddr_in *)addr)->sin_port;
	int r = call(id->fabric, FAKE_BIND);

	if (r < 0)
		return r;
	other = port ? find_port(id->fabric, port, false) : NULL;
	if (other && !(other->options[RDMA_OPTION_ID_REUSEADDR] > 0 &&
		       id->options[RDMA_OPTION_ID_REUSEADDR] > 0))
		return -EADDRINUSE;
	memcpy(&id->info.local, addr,
	       addr->sa_family == AF_INET ? sizeof(struct sockaddr_in) :
					    sizeof(struct sockaddr_in6));
	if (port == 0)
		*port_of(&id->info.local) = htons(++id->fabric->last_port);
	if (!is_any(addr) && device) {
		id->info.device = device->name;
		id->info.port_num = 1;
	}
	return 0;
}

int fabric_id_listen(struct fabric_id *id, int backlog)
{
	int r = call(id->fabric, FAKE_LISTEN);

	if (r < 0)
		return r;
	id->backlog = backlog;
	id->listening = true;
	return 0;
}

int fabric_id_resolve_addr(struct fabric_id *id, const struct sockaddr *src,
			   const struct sockaddr *dst, int timeout_ms)
{
	struct sockaddr_in any = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a090001) };
	int r = call(id->fabric, FAKE_RESOLVE_ADDR);

	(void)timeout_ms;
	if (r == 0 && id->info.local.ss_family == AF_UNSPEC) {
		id->fabric->count[FAKE_BIND]--;
		r = fabric_id_bind(id, src ?: (struct sockaddr *)&any);
	}
	if (r < 0)
		return r;
	memcpy(&id->info.peer, dst,
	       dst->sa_family == AF_INET ? sizeof(struct sockaddr_in) :
					   sizeof(struct sockaddr_in6));
	if (id->fabric->n_addr_errors > 0) {
		id->fabric->n_addr_errors--;
		post(id, RDMA_CM_EVENT_ADDR_ERROR, id->fabric->addr_error, NULL, NULL);
		return 0;
	}
	post(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL, NULL);
	return 0;
}

int fabric_id_resolve_route(struct fabric_id *id, int timeout_ms)
{
	int r = call(id->fabric, FAKE_RESOLVE_ROUTE);

	(void)timeout_ms;
	if (r == 0)
		post(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL, NULL);
	return r;
}

int fabric_id_connect(struct fabric_id *id, const struct rdma_conn_param *param)
{
	struct fabric_id *listener, *request;
	int r = call(id->fabric, FAKE_CONNECT);

	if (r < 0)
		return r;
	if (id->fabric->n_stale > 0) {
		id->fabric->n_stale--;
		post(id, RDMA_CM_EVENT_REJECTED, 10, NULL, NULL);
		return 0;
	}
	listener = find_port(id->fabric, *port_of(&id->info.peer), true);
	if (!listener) {
		post(id, RDMA_CM_EVENT_REJECTED, 8, NULL, NULL);
		return 0;
	}
	id->fabric->count[FAKE_ID_NEW]--;
	r = fabric_id_new(&request, listener->channel, id->is_datagram ? RDMA_PS_UDP : RDMA_PS_TCP,
			  NULL);
	assert(r == 0);
	request->info.local = id->info.peer;
	request->info.peer = id->info.local;
	request->info.device = id->info.device;
	request->info.port_num = 1;
	request->peer = id;
	id->peer = request;
	post(listener, RDMA_CM_EVENT_CONNECT_REQUEST, 0, request, param);
	container_of(id->fabric->pending.prev, struct pending, link)->event.remote_ece =
		id->local_ece;
	return 0;
}

int fabric_id_accept(struct fabric_id *id, const struct rdma_conn_param *param)
{
	int r = call(id->fabric, FAKE_ACCEPT);

	if (r < 0)
		return r;
	if (!id->peer)
		return -EINVAL;
	id->answered = true;
	post(id->peer, id->is_datagram ? RDMA_CM_EVENT_ESTABLISHED : RDMA_CM_EVENT_CONNECT_RESPONSE,
	     0, NULL, param);
	container_of(id->fabric->pending.prev, struct pending, link)->event.remote_ece =
		id->local_ece;
	return 0;
}

int fabric_id_establish(struct fabric_id *id)
{
	int r = call(id->fabric, FAKE_ESTABLISH);

	if (r < 0)
		return r;
	if (!id->peer)
		return -EINVAL;
	id->connected = id->peer->connected = true;
	post(id->peer, RDMA_CM_EVENT_ESTABLISHED, 0, NULL, NULL);
	return 0;
}

int fabric_id_reject(struct fabric_id *id, const void *data, uint8_t len, bool ece)
{
	struct rdma_conn_param param = { .private_data = data, .private_data_len = len };
	int r = call(id->fabric, FAKE_REJECT);

	if (r < 0)
		return r;
	if (!id->peer)
		return -EINVAL;
	post(id->peer, RDMA_CM_EVENT_REJECTED, ece ? 35 : 28, NULL, &param);
	id->peer->peer = NULL;
	id->peer = NULL;
	return 0;
}

int fabric_id_disconnect(struct fabric_id *id)
{
	int r = call(id->fabric, FAKE_DISCONNECT);

	if (r == 0)
		part(id);
	return r;
}

int fabric_id_notify(struct fabric_id *id, enum ibv_event_type event)
{
	(void)id;
	(void)event;
	return call(id->fabric, FAKE_NOTIFY);
}

int fabric_id_set_local_ece(struct fabric_id *id, const struct ibv_ece *ece)
{
	id->local_ece = *ece;
	return 0;
}

int fabric_id_migrate(struct fabric_id *id, struct fabric_channel *channel)
{
	int r = call(id->fabric, FAKE_MIGRATE);

	if (r == 0)
		id->channel = channel;
	return r;
}

/* Multicast */

struct fabric_join {
	struct fabric_id *id;
	void *userdata;
};

int fabric_join_new(struct fabric_join **ret, struct fabric_id *id, const struct sockaddr *addr,
		    uint32_t join_flags, void *userdata)
{
	struct fabric_join *join;
	int r = call(id->fabric, FAKE_JOIN);

	(void)addr;
	(void)join_flags;
	if (r < 0)
		return r;
	join = calloc(1, sizeof(*join));
	assert(join);
	join->id = id;
	join->userdata = userdata;
	post(id, RDMA_CM_EVENT_MULTICAST_JOIN, 0, NULL, NULL);
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
	int r = call(id->fabric, FAKE_SET_OPTION);

	if (r == 0)
		id->options[option] = value;
	return r;
}

int fabric_id_qp_attr(struct fabric_id *id, enum ibv_qp_state state, struct ibv_qp_attr *ret_attr,
		      int *ret_mask)
{
	int r = call(id->fabric, FAKE_QP_ATTR);

	if (r < 0)
		return r;
	*ret_attr = (struct ibv_qp_attr){ .qp_state = state };
	*ret_mask = IBV_QP_STATE;
	if (state == IBV_QPS_RTR) {
		ret_attr->ah_attr.is_global = 1;
		memset(ret_attr->ah_attr.grh.dgid.raw, FAKE_DGID, 16);
		*ret_mask |= IBV_QP_AV;
	}
	return 0;
}

/* Scripting */

void fake_fail_next(struct fabric *fabric, enum fake_call which, int r)
{
	fabric->fail[which] = r;
}

unsigned fake_count(const struct fabric *fabric, enum fake_call which)
{
	return fabric->count[which];
}

void fake_fail_addresses(struct fabric *fabric, unsigned n, int status)
{
	fabric->n_addr_errors = n;
	fabric->addr_error = status;
}

void fake_reject_stale(struct fabric *fabric, unsigned n)
{
	fabric->n_stale = n;
}

void fake_estrange_qp(struct fabric *fabric, uint32_t qpn)
{
	fabric->stranger = qpn;
}

void fake_send_event(struct fabric *fabric, uint16_t port, enum rdma_cm_event_type type, int status)
{
	struct fabric_id *id = find_port(fabric, htons(port), false);

	assert(id);
	post(id, type, status, NULL, NULL);
}

void fake_hold_events(struct fabric *fabric, bool hold)
{
	fabric->holds_events = hold;
	kick(fabric);
}

void fake_change_routes(struct fabric *fabric)
{
	fabric->routes_change = true;
	kick(fabric);
}

void fake_set_knows_routes(struct fabric *fabric, bool knows)
{
	fabric->knows_routes = knows;
}

void fake_send_event_to(struct fabric *fabric, struct fabric_id *id, enum rdma_cm_event_type type,
			int status)
{
	assert(id->fabric == fabric);
	post(id, type, status, NULL, NULL);
}

int fake_get_option(struct fabric *fabric, uint16_t port, int option)
{
	struct fabric_id *id = find_port(fabric, htons(port), false);

	return id ? id->options[option] : -1;
}

int fake_get_backlog(struct fabric *fabric, uint16_t port)
{
	struct fabric_id *id = find_port(fabric, htons(port), true);

	return id ? id->backlog : -1;
}

unsigned fake_n_ids(const struct fabric *fabric)
{
	return fabric->n_ids;
}
