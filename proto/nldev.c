/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <rdma/rdma_netlink.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "proto/nldev.h"

struct nldev {
	struct mnl_socket *socket;
	uint32_t serial; /* of the last request */
	bool unread; /* the socket can have datagrams of an exchange that has not come to its end */
};

int nldev_new(struct nldev **ret)
{
	struct nldev *nl = calloc(1, sizeof(*nl));
	int r;

	if (!nl)
		return -ENOMEM;
	nl->socket = mnl_socket_open2(NETLINK_RDMA, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (!nl->socket || mnl_socket_bind(nl->socket, 0, MNL_SOCKET_AUTOPID) < 0) {
		r = -errno;
		nldev_free(nl);
		return r;
	}
	*ret = nl;
	return 0;
}

struct nldev *nldev_free(struct nldev *nl)
{
	if (!nl)
		return NULL;
	if (nl->socket)
		mnl_socket_close(nl->socket);
	free(nl);
	return NULL;
}

struct nlmsghdr *nldev_request(void *buf, int command, uint16_t flags)
{
	struct nlmsghdr *header = mnl_nlmsg_put_header(buf);

	header->nlmsg_type = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command);
	header->nlmsg_flags = NLM_F_REQUEST | flags;
	return header;
}

int nldev_get_fd(const struct nldev *nl)
{
	return mnl_socket_get_fd(nl->socket);
}

int nldev_send(struct nldev *nl, struct nlmsghdr *header)
{
	header->nlmsg_seq = ++nl->serial;
	nl->unread = true;
	return mnl_socket_sendto(nl->socket, header, header->nlmsg_len) < 0 ? -errno : 0;
}

static int fail_with(int error)
{
	errno = error < 0 ? -error : EBADMSG;
	return MNL_CB_ERROR;
}

static int on_error(const struct nlmsghdr *header, void *data)
{
	const struct nlmsgerr *error = mnl_nlmsg_get_payload(header);

	if (mnl_nlmsg_get_payload_len(header) < sizeof(*error))
		return fail_with(0);
	return error->error == 0 ? MNL_CB_STOP : fail_with(error->error);
}

/* libmnl's own callback ignores the error that ended a dump. */
static int on_done(const struct nlmsghdr *header, void *data)
{
	const int32_t *error = mnl_nlmsg_get_payload(header);

	if (mnl_nlmsg_get_payload_len(header) < sizeof(*error) || *error >= 0)
		return MNL_CB_STOP;
	return fail_with(*error);
}

/*
 * Handles one datagram. Returns 1: the dump goes on; 0: this was the last message; -ESRCH: the datagram is
 * not for this socket; another negative errno: the exchange has failed (-EPROTO: a datagram of an earlier
 * exchange).
 */
static int take(struct nldev *nl, const void *datagram, size_t len, mnl_cb_t on_answer, void *data)
{
	/* mnl_cb_run2() does not take a const array. */
	mnl_cb_t on_control[] = {
		[NLMSG_ERROR] = on_error,
		[NLMSG_DONE] = on_done,
	};
	int r = mnl_cb_run2(datagram, len, nl->serial, mnl_socket_get_portid(nl->socket), on_answer,
			    data, on_control, sizeof(on_control) / sizeof(on_control[0]));

	return r < 0 ? -errno : r > MNL_CB_STOP;
}

int nldev_receive(struct nldev *nl, void *buf, size_t size, mnl_cb_t on_answer, void *data)
{
	ssize_t n = mnl_socket_recvfrom(nl->socket, buf, size);
	int r;

	if (n < 0)
		return -errno;
	r = take(nl, buf, (size_t)n, on_answer, data);
	if (r == -ESRCH)
		return 1;
	/* EAGAIN came from the kernel, but would mean to the caller that the socket is empty. */
	return r == -EAGAIN ? -EIO : r;
}

int nldev_dump(struct nldev *nl, struct nlmsghdr *header, mnl_cb_t on_answer, void *data)
{
	char *buf = malloc(NLDEV_DATAGRAM_MAX);
	int n = 0, r;

	if (!buf)
		return -ENOMEM;
	r = nldev_send(nl, header);
	if (r == 0)
		do {
			r = nldev_receive(nl, buf, NLDEV_DATAGRAM_MAX, on_answer, data);
			if (r > 0 && ++n == NLDEV_DATAGRAMS_MAX)
				r = -EOVERFLOW;
		} while (r > 0 || r == -EINTR);
	free(buf);
	/* An empty socket (EAGAIN) is a failure: the kernel makes the next datagram while one is received. */
	return r == -EAGAIN ? -EIO : r < 0 ? r : n;
}

/*
 * Discards the datagrams of an earlier exchange that failed. Until a dump was read to its end, the kernel
 * refuses another dump with EBUSY. ENOSPC (a datagram larger than BUF) and ENOBUFS (the kernel could not add
 * one) do not end the dump.
 */
static void discard_rest(struct nldev *nl, void *buf, size_t size)
{
	ssize_t n;

	do {
		n = mnl_socket_recvfrom(nl->socket, buf, size);
	} while (n > 0 || (n < 0 && (errno == ENOSPC || errno == ENOBUFS)));
}

int nldev_exchange(struct nldev *nl, struct nlmsghdr *header, mnl_cb_t on_answer, void *data)
{
	_Alignas(struct nlmsghdr) char buf[8192];
	int r;

	if (nl->unread)
		discard_rest(nl, buf, sizeof(buf));
	r = nldev_send(nl, header);
	if (r < 0)
		return r;
	do {
		ssize_t n = mnl_socket_recvfrom(nl->socket, buf, sizeof(buf));

		if (n < 0)
			return errno == EAGAIN ? -EIO : -errno;
		r = take(nl, buf, (size_t)n, on_answer, data);
		if (r < 0 && r != -ESRCH)
			return r;
	} while (r < 0 || (r > 0 && (header->nlmsg_flags & NLM_F_DUMP)));
	nl->unread = false;
	return 0;
}

struct listing {
	int (*on_device)(void *userdata, const char *name, const struct nldev_device *device);
	void *userdata;
};

static int on_device_attr(const struct nlattr *attr, void *data)
{
	const struct nlattr **attrs = data;

	switch (mnl_attr_get_type(attr)) {
	case RDMA_NLDEV_ATTR_DEV_NAME:
		if (mnl_attr_validate(attr, MNL_TYPE_NUL_STRING) >= 0)
			attrs[RDMA_NLDEV_ATTR_DEV_NAME] = attr;
		break;
	case RDMA_NLDEV_ATTR_DEV_INDEX:
	case RDMA_NLDEV_ATTR_PORT_INDEX:
		if (mnl_attr_validate(attr, MNL_TYPE_U32) >= 0)
			attrs[mnl_attr_get_type(attr)] = attr;
		break;
	}
	return MNL_CB_OK;
}

static int on_device(const struct nlmsghdr *header, void *data)
{
	const struct nlattr *attrs[RDMA_NLDEV_ATTR_PORT_INDEX + 1] = { 0 };
	const struct nlattr *name, *index, *ports;
	const struct listing *listing = data;
	int r = 0;

	if (mnl_attr_parse(header, 0, on_device_attr, attrs) < 0)
		return MNL_CB_ERROR;
	name = attrs[RDMA_NLDEV_ATTR_DEV_NAME];
	index = attrs[RDMA_NLDEV_ATTR_DEV_INDEX];
	ports = attrs[RDMA_NLDEV_ATTR_PORT_INDEX];
	if (name && index && ports)
		r = listing->on_device(listing->userdata, mnl_attr_get_str(name),
				       &(struct nldev_device){ mnl_attr_get_u32(index),
							       mnl_attr_get_u32(ports) });
	errno = -r;
	return r < 0 ? MNL_CB_ERROR : MNL_CB_OK;
}

int nldev_list_devices(struct nldev *nl,
		       int (*on_found)(void *userdata, const char *name,
				       const struct nldev_device *device),
		       void *userdata)
{
	struct listing listing = { .on_device = on_found, .userdata = userdata };
	_Alignas(struct nlmsghdr) char buf[256];

	return nldev_exchange(nl, nldev_request(buf, RDMA_NLDEV_CMD_GET, NLM_F_DUMP), on_device,
			      &listing);
}

struct lookup {
	const char *name;
	struct nldev_device *device;
	bool found;
};

static int compare_name(void *userdata, const char *name, const struct nldev_device *device)
{
	struct lookup *lookup = userdata;

	if (strcmp(name, lookup->name) == 0) {
		*lookup->device = *device;
		lookup->found = true;
	}
	return 0;
}

int nldev_find_device(struct nldev *nl, const char *name, struct nldev_device *ret)
{
	struct lookup lookup = { .name = name, .device = ret };
	int r = nldev_list_devices(nl, compare_name, &lookup);

	if (r < 0)
		return r;
	return lookup.found ? 0 : -ENODEV;
}
