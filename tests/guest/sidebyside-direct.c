/* SPDX-License-Identifier: BSD-2-Clause */

/* The backend "direct": librdmacm, or the drop-in in its place. */

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "tests/guest/sidebyside.h"

static struct rdma_event_channel *channels[N_SIDES];

static int direct_open(enum side side)
{
	int flags;

	channels[side] = rdma_create_event_channel();
	if (!channels[side])
		return -errno;
	flags = fcntl(channels[side]->fd, F_GETFL);
	return fcntl(channels[side]->fd, F_SETFL, flags | O_NONBLOCK) < 0 ? -errno : 0;
}

static void direct_close(enum side side)
{
	rdma_destroy_event_channel(channels[side]);
}

static int direct_get_fd(enum side side)
{
	return channels[side]->fd;
}

static int result(int r)
{
	return r < 0 ? -errno : 0;
}

static void copy_data(struct event *ret, const void *data, uint8_t len)
{
	if (data && len > 0)
		memcpy(ret->data, data, len);
	ret->data_len = len;
}

static int direct_get_event(enum side side, struct event *ret)
{
	struct rdma_cm_event *event;

	if (rdma_get_cm_event(channels[side], &event) < 0)
		return -errno;
	/* For failures of its own, librdmacm sets status -1 and errno. */
	if (event->status == -1)
		event->status = -errno;
	*ret = (struct event){
		.type = rdma_event_str(event->event) + strlen("RDMA_CM_EVENT_"),
		.status = event->status,
		.id = event->id,
		.listen_id = event->listen_id,
	};
	switch (event->event) {
	case RDMA_CM_EVENT_MULTICAST_JOIN:
	case RDMA_CM_EVENT_MULTICAST_ERROR:
		ret->ud = event->param.ud;
		ret->join_context = event->param.ud.private_data;
		break;
	case RDMA_CM_EVENT_ADDR_RESOLVED:
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
	case RDMA_CM_EVENT_ROUTE_ERROR:
		break;
	default:
		if (event->id->qp_type == IBV_QPT_UD) {
			ret->ud = event->param.ud;
			copy_data(ret, event->param.ud.private_data,
				  event->param.ud.private_data_len);
		} else {
			ret->conn = event->param.conn;
			copy_data(ret, event->param.conn.private_data,
				  event->param.conn.private_data_len);
		}
	}
	return result(rdma_ack_cm_event(event));
}

static int direct_create_id(enum side side, bool wait, enum rdma_port_space ps, void **ret)
{
	struct rdma_cm_id *id;

	if (rdma_create_id(wait ? NULL : channels[side], &id, NULL, ps) < 0)
		return -errno;
	*ret = id;
	return 0;
}

static int direct_create_ep(enum side side, bool passive, enum rdma_port_space ps,
			    enum ibv_qp_type type, const char *node, const char *service,
			    void **ret)
{
	struct rdma_addrinfo hints = {
		.ai_flags = passive ? RAI_PASSIVE : 0,
		.ai_port_space = ps,
		.ai_qp_type = type,
	};
	struct rdma_addrinfo *info;
	struct rdma_cm_id *id;
	int r;

	if (rdma_getaddrinfo(node, service, &hints, &info) != 0)
		return -ENOENT;
	r = result(rdma_create_ep(&id, info, NULL, NULL));
	rdma_freeaddrinfo(info);
	if (r < 0)
		return r;
	/* The id's events must come on the script's channel. */
	r = result(rdma_migrate_id(id, channels[side]));
	if (r < 0)
		rdma_destroy_ep(id);
	else
		*ret = id;
	return r;
}

static int direct_destroy_id(void *id)
{
	return result(rdma_destroy_id(id));
}

static int direct_migrate_id(void *id, enum side side)
{
	return result(rdma_migrate_id(id, channels[side]));
}

static int direct_bind_addr(void *id, struct sockaddr *addr)
{
	return result(rdma_bind_addr(id, addr));
}

static int direct_listen(void *id, int backlog)
{
	return result(rdma_listen(id, backlog));
}

static int direct_get_request(void *id, void **ret)
{
	struct rdma_cm_id *request;

	if (rdma_get_request(id, &request) < 0)
		return -errno;
	*ret = request;
	return 0;
}

static int direct_resolve_addr(void *id, struct sockaddr *src, struct sockaddr *dst, int timeout_ms)
{
	return result(rdma_resolve_addr(id, src, dst, timeout_ms));
}

static int direct_resolve_route(void *id, int timeout_ms)
{
	return result(rdma_resolve_route(id, timeout_ms));
}

static int direct_set_path(void *id, const struct ibv_path_record *path)
{
	struct ibv_path_data data = {
		.flags = IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY | IBV_PATH_FLAG_BIDIRECTIONAL,
		.path = *path,
	};

	return result(
		rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &data, sizeof(data)));
}

static int direct_connect(void *id, struct rdma_conn_param *param)
{
	return result(rdma_connect(id, param));
}

static int direct_establish(void *id)
{
	return result(rdma_establish(id));
}

static int direct_accept(void *id, struct rdma_conn_param *param)
{
	return result(rdma_accept(id, param));
}

static int direct_reject(void *id, const void *data, uint8_t len)
{
	return result(rdma_reject(id, data, len));
}

static int direct_reject_ece(void *id, const void *data, uint8_t len)
{
	return result(rdma_reject_ece(id, data, len));
}

static int direct_disconnect(void *id)
{
	return result(rdma_disconnect(id));
}

static int direct_notify(void *id, enum ibv_event_type event)
{
	return result(rdma_notify(id, event));
}

/* A value that fits is passed as a byte to an option of one byte, otherwise as an int. */
static int direct_set_option(void *id, int option, int value)
{
	bool is_byte = option == RDMA_OPTION_ID_TOS || option == RDMA_OPTION_ID_ACK_TIMEOUT;
	uint8_t byte = (uint8_t)value;

	if (is_byte && value == byte)
		return result(rdma_set_option(id, RDMA_OPTION_ID, option, &byte, sizeof(byte)));
	return result(rdma_set_option(id, RDMA_OPTION_ID, option, &value, sizeof(value)));
}

static int direct_join(void *id, struct sockaddr *addr, enum rdma_cm_mc_join_flags flag,
		       const void *context)
{
	struct rdma_cm_join_mc_attr_ex attr = {
		.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
		.join_flags = flag,
		.addr = addr,
	};

	return result(rdma_join_multicast_ex(id, &attr, (void *)(uintptr_t)context));
}

static int direct_leave(void *id, struct sockaddr *addr)
{
	return result(rdma_leave_multicast(id, addr));
}

static int direct_set_local_ece(void *id, struct ibv_ece *ece)
{
	return result(rdma_set_local_ece(id, ece));
}

static int direct_get_remote_ece(void *id, struct ibv_ece *ret)
{
	return result(rdma_get_remote_ece(id, ret));
}

static int direct_create_qp(void *id, struct ibv_qp_init_attr *attr)
{
	return result(rdma_create_qp(id, NULL, attr));
}

static void direct_destroy_qp(void *id)
{
	rdma_destroy_qp(id);
}

static int direct_init_qp_attr(void *id, struct ibv_qp_attr *attr, int *mask)
{
	return result(rdma_init_qp_attr(id, attr, mask));
}

static struct ibv_qp *direct_get_qp(void *id)
{
	return ((struct rdma_cm_id *)id)->qp;
}

static struct ibv_context *direct_get_verbs(void *id)
{
	return ((struct rdma_cm_id *)id)->verbs;
}

static const struct sockaddr *direct_get_local_addr(void *id)
{
	return rdma_get_local_addr(id);
}

static const struct sockaddr *direct_get_peer_addr(void *id)
{
	return rdma_get_peer_addr(id);
}

static int direct_get_route(const struct slot *slot, struct route *ret)
{
	const struct rdma_cm_id *id = slot->id;
	const struct rdma_ib_addr *addr = &id->route.addr.addr.ibaddr;

	*ret = (struct route){
		.sgid = addr->sgid,
		.dgid = addr->dgid,
		.pkey = ntohs(addr->pkey),
		.port_num = id->port_num,
		.paths = id->route.path_rec,
		.n_paths = (unsigned)id->route.num_paths,
	};
	return 0;
}

const struct backend direct_backend = {
	.name = "direct",
	.open = direct_open,
	.close = direct_close,
	.get_fd = direct_get_fd,
	.get_event = direct_get_event,
	.create_id = direct_create_id,
	.create_ep = direct_create_ep,
	.destroy_id = direct_destroy_id,
	.migrate_id = direct_migrate_id,
	.bind_addr = direct_bind_addr,
	.listen = direct_listen,
	.get_request = direct_get_request,
	.resolve_addr = direct_resolve_addr,
	.resolve_route = direct_resolve_route,
	.set_path = direct_set_path,
	.connect = direct_connect,
	.establish = direct_establish,
	.accept = direct_accept,
	.reject = direct_reject,
	.reject_ece = direct_reject_ece,
	.disconnect = direct_disconnect,
	.notify = direct_notify,
	.set_option = direct_set_option,
	.join = direct_join,
	.leave = direct_leave,
	.set_local_ece = direct_set_local_ece,
	.get_remote_ece = direct_get_remote_ece,
	.create_qp = direct_create_qp,
	.destroy_qp = direct_destroy_qp,
	.init_qp_attr = direct_init_qp_attr,
	.get_qp = direct_get_qp,
	.get_verbs = direct_get_verbs,
	.get_local_addr = direct_get_local_addr,
	.get_peer_addr = direct_get_peer_addr,
	.get_route = direct_get_route,
};
