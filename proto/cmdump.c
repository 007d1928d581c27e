/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <rdma/rdma_netlink.h>
#include <string.h>

#include "proto/cmdump.h"

static void read_number(const struct nlattr *attr, uint32_t *ret)
{
	if (mnl_attr_get_payload_len(attr) == sizeof(*ret))
		*ret = mnl_attr_get_u32(attr);
}

static void read_address(const struct nlattr *attr, struct sockaddr_storage *ret)
{
	size_t len = mnl_attr_get_payload_len(attr);

	memcpy(ret, mnl_attr_get_payload(attr), len < sizeof(*ret) ? len : sizeof(*ret));
}

static int on_id_attr(const struct nlattr *attr, void *data)
{
	struct cmdump_id *id = data;

	switch (mnl_attr_get_type(attr)) {
	case RDMA_NLDEV_ATTR_RES_PID:
		read_number(attr, &id->tid);
		break;
	case RDMA_NLDEV_ATTR_RES_KERN_NAME:
		id->kernel = mnl_attr_validate(attr, MNL_TYPE_NUL_STRING) < 0 ?
				     "?" :
				     mnl_attr_get_str(attr);
		break;
	case RDMA_NLDEV_ATTR_RES_STATE:
		if (mnl_attr_get_payload_len(attr) == sizeof(uint8_t))
			id->state = mnl_attr_get_u8(attr);
		break;
	case RDMA_NLDEV_ATTR_RES_PS:
		read_number(attr, &id->ps);
		break;
	case RDMA_NLDEV_ATTR_RES_LQPN:
		read_number(attr, &id->qpn);
		break;
	case RDMA_NLDEV_ATTR_RES_SRC_ADDR:
		read_address(attr, &id->local);
		break;
	case RDMA_NLDEV_ATTR_RES_DST_ADDR:
		read_address(attr, &id->peer);
		break;
	}
	return MNL_CB_OK;
}

static int on_entry(const struct nlattr *attr, void *data)
{
	struct cmdump_id id = { .state = CMDUMP_NO_STATE };
	const struct cmdump *dump = data;
	int r;

	if (mnl_attr_get_type(attr) != RDMA_NLDEV_ATTR_RES_CM_ID_ENTRY &&
	    mnl_attr_get_type(attr) != RDMA_NLDEV_ATTR_RES_QP_ENTRY &&
	    mnl_attr_get_type(attr) != RDMA_NLDEV_ATTR_RES_CTX_ENTRY)
		return MNL_CB_OK;
	mnl_attr_parse_nested(attr, on_id_attr, &id);
	r = dump->on_id(dump->userdata, &id);
	errno = -r;
	return r < 0 ? MNL_CB_ERROR : MNL_CB_OK;
}

static int on_table(const struct nlattr *attr, void *data)
{
	if (mnl_attr_get_type(attr) != RDMA_NLDEV_ATTR_RES_CM_ID &&
	    mnl_attr_get_type(attr) != RDMA_NLDEV_ATTR_RES_QP &&
	    mnl_attr_get_type(attr) != RDMA_NLDEV_ATTR_RES_CTX)
		return MNL_CB_OK;
	return mnl_attr_parse_nested(attr, on_entry, data);
}

int cmdump_take(const struct nlmsghdr *header, void *data)
{
	return mnl_attr_parse(header, 0, on_table, data);
}

static struct nlmsghdr *request(void *buf, int command, const struct nldev_device *device)
{
	struct nlmsghdr *ret = nldev_request(buf, command, NLM_F_DUMP);

	mnl_attr_put_u32(ret, RDMA_NLDEV_ATTR_DEV_INDEX, device->index);
	return ret;
}

struct nlmsghdr *cmdump_request(void *buf, const struct nldev_device *device)
{
	return request(buf, RDMA_NLDEV_CMD_RES_CM_ID_GET, device);
}

struct nlmsghdr *cmdump_request_qps(void *buf, const struct nldev_device *device)
{
	return request(buf, RDMA_NLDEV_CMD_RES_QP_GET, device);
}

struct nlmsghdr *cmdump_request_contexts(void *buf, const struct nldev_device *device)
{
	return request(buf, RDMA_NLDEV_CMD_RES_CTX_GET, device);
}
