/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "fabric/routes.h"
#include "util/log.h"
#include "util/util.h"

/*
 * If memory runs out, uthash does not add the new element. The code that adds it checks for that: hh.tbl is
 * NULL.
 */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

/*
 * The kernel sends a notification whenever a neighbour is used, confirmed or becomes stale. It matters here only if
 * the neighbour gets, changes or loses its link-layer address, so the addresses are remembered.
 */

#define DATAGRAMS_MAX 64 /* at most this many are read in one turn of the loop */
#define LLADDR_MAX 32 /* the kernel's MAX_ADDR_LEN */

/* States in which the kernel uses the neighbour's link-layer address: its NUD_VALID. */
#define STATES_VALID (NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_PROBE | NUD_STALE | NUD_DELAY)

struct neighbour {
	struct neighbour_key {
		uint32_t ifindex;
		uint32_t family;
		uint8_t addr[16];
	} key; /* uthash hashes its bytes: it must not contain padding */
	uint8_t lladdr[LLADDR_MAX];
	size_t lladdr_len;
	UT_hash_handle hh;
};

struct routes {
	void (*changed)(void *userdata);
	void *userdata;
	struct mnl_socket *netlink;
	sd_event_source *io;
	struct neighbour *neighbours; /* the neighbours that have a link-layer address */
	bool lossy; /* notifications were lost, and more may get lost until the socket is empty */
	bool ended;
};

DEFINE_CLEANUP(struct routes *, routes_free)

/* Neighbours */

static void forget(struct routes *routes, struct neighbour *neighbour)
{
	HASH_DEL(routes->neighbours, neighbour);
	free(neighbour);
}

static void forget_all(struct routes *routes)
{
	struct neighbour *neighbour, *next;

	HASH_ITER(hh, routes->neighbours, neighbour, next)
	{
		forget(routes, neighbour);
	}
}

/*
 * Called when the remembered neighbours may be wrong, so that they could hide a change. Forgets them, and returns
 * true, because something may have changed.
 */
static bool lose_track(struct routes *routes)
{
	forget_all(routes);
	return true;
}

static bool remember(struct routes *routes, const struct neighbour *what)
{
	struct neighbour *neighbour;

	if (HASH_COUNT(routes->neighbours) >= ROUTES_NEIGHBOURS_MAX)
		forget_all(routes);
	neighbour = malloc(sizeof(*neighbour));
	if (!neighbour)
		return lose_track(routes);
	*neighbour = *what;
	HASH_ADD(hh, routes->neighbours, key, sizeof(neighbour->key), neighbour);
	if (!neighbour->hh.tbl) {
		free(neighbour);
		return lose_track(routes);
	}
	/* This counts as a change: the neighbour may have had another address before, without a notification. */
	return true;
}

struct attrs {
	const struct nlattr *dst, *lladdr;
};

static int on_attr(const struct nlattr *attr, void *data)
{
	struct attrs *attrs = data;

	switch (mnl_attr_get_type(attr)) {
	case NDA_DST:
		attrs->dst = attr;
		break;
	case NDA_LLADDR:
		attrs->lladdr = attr;
		break;
	}
	return MNL_CB_OK;
}

static bool read_neighbour(const struct nlmsghdr *header, const struct ndmsg *nd,
			   struct neighbour *ret)
{
	size_t len = nd->ndm_family == AF_INET ? 4 : 16;
	struct attrs attrs = { 0 };

	*ret = (struct neighbour){ .key.ifindex = (uint32_t)nd->ndm_ifindex,
				   .key.family = nd->ndm_family };
	/* Do not use mnl_attr_parse(): it would read into the message's padding, which may be missing. */
	mnl_attr_parse_payload(nd + 1, mnl_nlmsg_get_payload_len(header) - sizeof(*nd), on_attr,
			       &attrs);
	if (!attrs.dst || mnl_attr_get_payload_len(attrs.dst) != len)
		return false;
	memcpy(ret->key.addr, mnl_attr_get_payload(attrs.dst), len);
	/* Neighbours on a link without link-layer addresses have no such attribute. */
	if (!attrs.lladdr)
		return true;
	ret->lladdr_len = mnl_attr_get_payload_len(attrs.lladdr);
	if (ret->lladdr_len > sizeof(ret->lladdr))
		return false;
	memcpy(ret->lladdr, mnl_attr_get_payload(attrs.lladdr), ret->lladdr_len);
	return true;
}

static bool take_neighbour(struct routes *routes, const struct nlmsghdr *header)
{
	const struct ndmsg *nd = mnl_nlmsg_get_payload(header);
	struct neighbour told, *known;

	if (mnl_nlmsg_get_payload_len(header) < sizeof(*nd))
		return lose_track(routes);
	/* Ignore a bridge's forwarding entries, which are sent as neighbours too. */
	if (nd->ndm_family != AF_INET && nd->ndm_family != AF_INET6)
		return false;
	if (!read_neighbour(header, nd, &told))
		return lose_track(routes);
	HASH_FIND(hh, routes->neighbours, &told.key, sizeof(told.key), known);
	if (header->nlmsg_type == RTM_DELNEIGH || !(nd->ndm_state & STATES_VALID)) {
		if (known)
			forget(routes, known);
		return known != NULL;
	}
	if (!known)
		return remember(routes, &told);
	if (known->lladdr_len == told.lladdr_len &&
	    memcmp(known->lladdr, told.lladdr, told.lladdr_len) == 0)
		return false;
	memcpy(known->lladdr, told.lladdr, sizeof(known->lladdr));
	known->lladdr_len = told.lladdr_len;
	return true;
}

/* Notices */

static bool take_message(struct routes *routes, const struct nlmsghdr *header)
{
	switch (header->nlmsg_type) {
	case RTM_NEWNEIGH:
	case RTM_DELNEIGH:
		return take_neighbour(routes, header);
	case RTM_GETNEIGH:
		/* The kernel sends this to a user-space resolver, if there is one. It is no change. */
		return false;
	default:
		/*
		 * All other messages of the monitored groups are changes. Types below NLMSG_MIN_TYPE are netlink's
		 * own messages.
		 */
		return header->nlmsg_type >= NLMSG_MIN_TYPE;
	}
}

bool routes_take(struct routes *routes, const void *datagram, size_t len)
{
	const struct nlmsghdr *header = datagram;
	bool changed = false;
	int left = (int)len;

	for (; mnl_nlmsg_ok(header, left); header = mnl_nlmsg_next(header, &left))
		if (take_message(routes, header))
			changed = true;
	/* LEFT may be negative: the padding of the last message may be missing. */
	return left > 0 ? lose_track(routes) : changed;
}

/* Receives one datagram. 1: there may be more; 0: no more for now; -errno: monitoring has failed. */
static int receive(struct routes *routes, bool *changed)
{
	/* Large enough for every notification: the ones about a link do not contain its virtual functions. */
	_Alignas(struct nlmsghdr) char buf[8192];
	struct sockaddr_nl from = { 0 };
	struct iovec iov = { .iov_base = buf, .iov_len = sizeof(buf) };
	struct msghdr msg = {
		.msg_name = &from, .msg_namelen = sizeof(from), .msg_iov = &iov, .msg_iovlen = 1
	};
	ssize_t n = recvmsg(mnl_socket_get_fd(routes->netlink), &msg, MSG_DONTWAIT);

	if (n < 0) {
		switch (errno) {
		case EAGAIN:
			routes->lossy = false;
			return 0;
		case EINTR:
			return 0;
		case ENOBUFS:
			/* The kernel may drop more until the socket is empty, without a further error. */
			routes->lossy = true;
			*changed = lose_track(routes);
			return 1;
		default:
			return -errno;
		}
	}
	/* Ignore a datagram that the kernel did not send. */
	if (from.nl_pid != 0)
		return 1;
	/* A datagram that was truncated to the buffer's size is treated as malformed. */
	if (routes->lossy || routes_take(routes, buf, (size_t)n))
		*changed = true;
	return 1;
}

static int on_notices(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct routes *routes = userdata;
	bool changed = false;
	int r = 1;

	(void)fd;
	(void)revents;
	for (unsigned i = 0; i < DATAGRAMS_MAX && r > 0; i++)
		r = receive(routes, &changed);
	if (r < 0) {
		sd_event_source_set_enabled(source, SD_EVENT_OFF);
		log_error("Cannot watch changes of addresses and routes any more: %s.",
			  strerror(-r));
		routes->ended = true;
		changed = true;
	}
	/* This must be last, because the callback can free ROUTES. */
	if (changed)
		routes->changed(routes->userdata);
	return 0;
}

static int open_netlink(struct routes *routes)
{
	static const int groups[] = {
		RTNLGRP_LINK,
		RTNLGRP_NEIGH,
		RTNLGRP_IPV4_IFADDR,
		RTNLGRP_IPV6_IFADDR,
		RTNLGRP_IPV4_ROUTE,
		RTNLGRP_IPV6_ROUTE,
		RTNLGRP_IPV4_RULE,
		RTNLGRP_IPV6_RULE,
		/*
		 * If net.ipv4.nexthop_compat_mode is 0, a change of a next hop changes routes without a notification
		 * for them.
		 */
		RTNLGRP_NEXTHOP,
	};

	routes->netlink = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (!routes->netlink)
		return -errno;
	if (mnl_socket_bind(routes->netlink, 0, MNL_SOCKET_AUTOPID) < 0)
		return -errno;
	for (size_t i = 0; i < ELEMENTS_OF(groups); i++) {
		int group = groups[i];

		if (mnl_socket_setsockopt(routes->netlink, NETLINK_ADD_MEMBERSHIP, &group,
					  sizeof(group)) < 0)
			return -errno;
	}
	return 0;
}

int routes_new(struct routes **ret, sd_event *loop, void (*changed)(void *userdata), void *userdata)
{
	_cleanup_(routes_freep) struct routes *routes = calloc(1, sizeof(*routes));
	int r;

	if (!routes)
		return -ENOMEM;
	routes->changed = changed;
	routes->userdata = userdata;
	r = open_netlink(routes);
	if (r < 0)
		return r;
	r = sd_event_add_io(loop, &routes->io, mnl_socket_get_fd(routes->netlink), EPOLLIN,
			    on_notices, routes);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(routes);
	return 0;
}

struct routes *routes_free(struct routes *routes)
{
	if (!routes)
		return NULL;
	sd_event_source_disable_unref(routes->io);
	if (routes->netlink)
		mnl_socket_close(routes->netlink);
	forget_all(routes);
	free(routes);
	return NULL;
}

bool routes_can_tell(const struct routes *routes)
{
	return !routes->ended;
}
