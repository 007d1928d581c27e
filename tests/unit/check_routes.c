/* SPDX-License-Identifier: BSD-2-Clause */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <libmnl/libmnl.h>
#include <linux/fib_rules.h>
#include <linux/if.h>
#include <linux/neighbour.h>
#include <linux/nexthop.h>
#include <linux/rtnetlink.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fabric/fabric.h"
#include "fabric/routes.h"
#include "tests/unit/rtnetlink.h"
#include "tests/unit/unit.h"

/*
 * Which changes in the kernel are reported as a change of the host's routes. Each test that changes routes has a
 * network namespace of its own. The kernel sends its notifications before the reply to the request that causes them.
 * To show that one event is not reported, the test then causes another event that is. Single notifications are
 * tested in check_routes_messages.c. The fabric here is the real one.
 */

static sd_event *loop;
static struct mnl_socket *nl; /* the test's own socket */
static unsigned n_told;

/* Replaces libmnl's function, so that the test knows which socket was opened last, and can make the call fail. */
static struct mnl_socket *opened;
static int open_error; /* > 0: the next NETLINK_ROUTE socket fails with it */

struct mnl_socket *mnl_socket_open2(int bus, int flags)
{
	static struct mnl_socket *(*real)(int, int);

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "mnl_socket_open2");
	ck_assert_ptr_nonnull(real);
	if (open_error > 0 && bus == NETLINK_ROUTE) {
		errno = open_error;
		open_error = 0;
		return NULL;
	}
	opened = real(bus, flags);
	return opened;
}

static void on_changed(void *userdata)
{
	ck_assert_ptr_eq(userdata, &n_told);
	n_told++;
}

static unsigned count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	ck_assert_ptr_nonnull(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static void set_up(void)
{
	n_told = 0;
	ck_assert_int_ge(sd_event_new(&loop), 0);
}

static void tear_down(void)
{
	if (nl)
		mnl_socket_close(nl);
	nl = NULL;
	loop = sd_event_unref(loop);
}

/*
 * Enters a new network namespace, and opens NL there. Returns false if that is not possible, so that the test cannot
 * run.
 */
static bool enter_namespace(void)
{
	if (unshare(CLONE_NEWNET) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0) {
		printf("no network namespace to change routes in: %s\n", strerror(errno));
		return false;
	}
	nl = mnl_socket_open(NETLINK_ROUTE);
	ck_assert_ptr_nonnull(nl);
	ck_assert_int_eq(mnl_socket_bind(nl, 0, MNL_SOCKET_AUTOPID), 0);
	return true;
}

static struct routes *start(void)
{
	struct routes *routes;

	ck_assert_int_eq(routes_new(&routes, loop, on_changed, &n_told), 0);
	return routes;
}

/* Processes what the kernel has sent so far, and returns the number of calls of the callback. */
static unsigned told(void)
{
	unsigned before = n_told;
	int r;

	while ((r = sd_event_run(loop, 0)) > 0)
		;
	ck_assert_int_eq(r, 0);
	return n_told - before;
}

/*
 * Waits until the kernel has sent everything about a link or an IPv6 address, which takes a while. The only sign of
 * the end is that no more notifications come.
 */
static void settle(void)
{
	while (sd_event_run(loop, 300 * 1000) > 0)
		;
}

/* Requests to the kernel */

static int send_request(const union message *buf)
{
	_Alignas(struct nlmsghdr) char answer[4096];
	ssize_t n;

	ck_assert_int_ge(mnl_socket_sendto(nl, buf, buf->header.nlmsg_len), 0);
	n = mnl_socket_recvfrom(nl, answer, sizeof(answer));
	ck_assert_int_gt(n, 0);
	return mnl_cb_run(answer, (size_t)n, buf->header.nlmsg_seq, mnl_socket_get_portid(nl), NULL,
			  NULL) < 0 ?
		       -errno :
		       0;
}

static int set_lo(bool up)
{
	union message buf;
	struct ifinfomsg *info = begin(&buf, RTM_NEWLINK, 0, sizeof(*info));

	info->ifi_index = LO;
	info->ifi_change = IFF_UP;
	info->ifi_flags = up ? IFF_UP : 0;
	return send_request(&buf);
}

/*
 * Brings lo up. Called before the test's own start(), so that the late notifications about lo do not reach the test.
 */
static void bring_up_lo(void)
{
	struct routes *routes = start();

	ck_assert_int_eq(set_lo(true), 0);
	settle();
	routes_free(routes);
	n_told = 0;
}

static int change_address(uint16_t type, int family, const char *text)
{
	union message buf;
	struct ifaddrmsg *addr = begin(
		&buf, type, type == RTM_NEWADDR ? NLM_F_CREATE | NLM_F_EXCL : 0, sizeof(*addr));

	addr->ifa_family = (uint8_t)family;
	addr->ifa_prefixlen = family == AF_INET ? 32 : 128;
	addr->ifa_flags = IFA_F_NODAD;
	addr->ifa_index = LO;
	put_addr(&buf, IFA_LOCAL, family, text);
	return send_request(&buf);
}

static int change_route(uint16_t type, int family, const char *text)
{
	union message buf;
	struct rtmsg *route = begin(&buf, type, NLM_F_CREATE, sizeof(*route));

	route->rtm_family = (uint8_t)family;
	route->rtm_dst_len = family == AF_INET ? 32 : 128;
	route->rtm_table = RT_TABLE_MAIN;
	route->rtm_protocol = RTPROT_STATIC;
	route->rtm_scope = RT_SCOPE_LINK;
	route->rtm_type = RTN_UNICAST;
	put_addr(&buf, RTA_DST, family, text);
	mnl_attr_put_u32(&buf.header, RTA_OIF, LO);
	return send_request(&buf);
}

static int change_rule(uint16_t type, int family, const char *text)
{
	union message buf;
	struct fib_rule_hdr *rule = begin(
		&buf, type, type == RTM_NEWRULE ? NLM_F_CREATE | NLM_F_EXCL : 0, sizeof(*rule));

	(void)text;
	rule->family = (uint8_t)family;
	rule->action = FR_ACT_TO_TBL;
	rule->table = 100;
	mnl_attr_put_u32(&buf.header, FRA_PRIORITY, 100);
	return send_request(&buf);
}

static int change_nexthop(uint16_t type, int family, const char *text)
{
	union message buf;
	struct nhmsg *hop = begin(
		&buf, type, type == RTM_NEWNEXTHOP ? NLM_F_CREATE | NLM_F_EXCL : 0, sizeof(*hop));

	(void)text;
	mnl_attr_put_u32(&buf.header, NHA_ID, 1);
	if (type == RTM_NEWNEXTHOP) {
		hop->nh_family = (uint8_t)family;
		mnl_attr_put_u32(&buf.header, NHA_OIF, LO);
	}
	return send_request(&buf);
}

static int set_neighbour(int family, const char *text, uint16_t state, uint8_t lladdr)
{
	union message buf;
	struct ndmsg *nd = begin(&buf, RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE, sizeof(*nd));

	put_neighbour(&buf, nd, family, text, state, lladdr);
	return send_request(&buf);
}

static int delete_neighbour(int family, const char *text)
{
	union message buf;
	struct ndmsg *nd = begin(&buf, RTM_DELNEIGH, 0, sizeof(*nd));

	put_neighbour(&buf, nd, family, text, 0, 0);
	return send_request(&buf);
}

/* On lo the kernel accepts only one IPv4 neighbour, 0.0.0.0. */
static const struct {
	int family;
	const char *addr, *neighbour;
} families[] = { { AF_INET, "192.0.2.1", "0.0.0.0" }, { AF_INET6, "2001:db8::1", "2001:db8::2" } };

#define N_FAMILIES (sizeof(families) / sizeof(families[0]))

/* Returns false for IPv6 if the kernel does not support it, or if it is disabled in this namespace. */
static bool has_family(size_t i)
{
	int fd = families[i].family == AF_INET6 ?
			 open("/proc/sys/net/ipv6/conf/lo/disable_ipv6", O_RDONLY | O_CLOEXEC) :
			 -1;
	char off = '1';

	if (fd >= 0) {
		ck_assert_int_eq(read(fd, &off, 1), 1);
		close(fd);
	}
	if (families[i].family == AF_INET || off == '0')
		return true;
	printf("no IPv6 on this machine\n");
	return false;
}

START_TEST(links_addresses_routes_rules)
{
	static const struct {
		int (*change)(uint16_t type, int family, const char *text);
		uint16_t add, del;
	} kinds[] = {
		{ change_address, RTM_NEWADDR, RTM_DELADDR },
		{ change_route, RTM_NEWROUTE, RTM_DELROUTE },
		{ change_rule, RTM_NEWRULE, RTM_DELRULE },
		{ change_nexthop, RTM_NEWNEXTHOP, RTM_DELNEXTHOP },
	};
	struct routes *routes;

	if (!enter_namespace())
		return;
	routes = start();
	ck_assert_uint_eq(told(), 0);
	ck_assert_int_eq(set_lo(true), 0);
	ck_assert_uint_ge(told(), 1);
	settle();
	for (size_t i = 0; i < N_FAMILIES; i++) {
		if (!has_family(i))
			continue;
		for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
			ck_assert_int_eq(kinds[k].change(kinds[k].add, families[i].family,
							 families[i].addr),
					 0);
			ck_assert_uint_ge(told(), 1);
			settle();
			ck_assert_int_eq(kinds[k].change(kinds[k].del, families[i].family,
							 families[i].addr),
					 0);
			ck_assert_uint_ge(told(), 1);
			settle();
		}
	}
	ck_assert_int_eq(set_lo(false), 0);
	ck_assert_uint_ge(told(), 1);
	routes_free(routes);
}
END_TEST

/*
 * An IPv4 address is also reported in the group of its routes, so a group that was not joined could go unnoticed.
 * Therefore each group is checked by itself.
 */
START_TEST(all_groups_are_received)
{
	static const int groups[] = { RTNLGRP_LINK,        RTNLGRP_NEIGH,      RTNLGRP_IPV4_IFADDR,
				      RTNLGRP_IPV6_IFADDR, RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV6_ROUTE,
				      RTNLGRP_IPV4_RULE,   RTNLGRP_IPV6_RULE,  RTNLGRP_NEXTHOP };
	struct routes *routes = start();
	uint32_t joined[8] = { 0 };
	socklen_t len = sizeof(joined);

	ck_assert_int_eq(mnl_socket_getsockopt(opened, NETLINK_LIST_MEMBERSHIPS, joined, &len), 0);
	for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++)
		ck_assert_uint_ne(joined[(groups[i] - 1) / 32] & 1U << (groups[i] - 1) % 32, 0);
	ck_assert_int_ne(fcntl(mnl_socket_get_fd(opened), F_GETFD) & FD_CLOEXEC, 0);
	ck_assert_int_ne(fcntl(mnl_socket_get_fd(opened), F_GETFL) & O_NONBLOCK, 0);
	routes_free(routes);
}
END_TEST

static void assert_neighbour_told(int family, const char *text)
{
	static const struct {
		uint16_t state;
		uint8_t lladdr;
		unsigned n_told;
	} steps[] = {
		{ NUD_STALE, 1, 1 }, /* new */
		{ NUD_REACHABLE, 1, 0 }, { NUD_STALE, 1, 0 },
		{ NUD_PERMANENT, 1, 0 }, { NUD_STALE, 2, 1 }, /* another link-layer address */
		{ NUD_REACHABLE, 2, 0 }, { NUD_REACHABLE, 1, 1 },
		{ NUD_FAILED, 0, 1 }, /* the neighbour is lost */
		{ NUD_STALE, 1, 1 }, /* found again */
		{ NUD_REACHABLE, 1, 0 },
	};

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		ck_assert_int_eq(set_neighbour(family, text, steps[i].state, steps[i].lladdr), 0);
		ck_assert_msg(told() == steps[i].n_told, "%s: step %zu", text, i);
	}
	ck_assert_int_eq(delete_neighbour(family, text), 0);
	ck_assert_uint_eq(told(), 1);
	/* A neighbour without a link-layer address is added and removed. */
	ck_assert_int_eq(set_neighbour(family, text, NUD_FAILED, 0), 0);
	ck_assert_int_eq(delete_neighbour(family, text), 0);
	ck_assert_uint_eq(told(), 0);
	ck_assert_int_eq(set_neighbour(family, text, NUD_STALE, 1), 0);
	ck_assert_uint_eq(told(), 1);
}

START_TEST(neighbours)
{
	struct routes *routes;

	if (!enter_namespace())
		return;
	bring_up_lo();
	routes = start();
	for (size_t i = 0; i < N_FAMILIES; i++)
		if (has_family(i))
			assert_neighbour_told(families[i].family, families[i].neighbour);
	routes_free(routes);
}
END_TEST

/* Of all changes in one turn of the loop only the first is reported, and many changes need several turns. */
START_TEST(one_report_a_turn)
{
	struct routes *routes;

	if (!enter_namespace())
		return;
	bring_up_lo();
	routes = start();
	for (int i = 0; i < 50; i++) {
		ck_assert_int_eq(change_rule(RTM_NEWRULE, AF_INET, NULL), 0);
		ck_assert_int_eq(change_rule(RTM_DELRULE, AF_INET, NULL), 0);
	}
	ck_assert_int_gt(sd_event_run(loop, 0), 0);
	ck_assert_uint_eq(n_told, 1);
	ck_assert_uint_eq(told(), 1);
	routes_free(routes);
}
END_TEST

/*
 * Changes the state of a neighbour to REACHABLE and back to STALE, N times. If the neighbour is already known, none
 * of these changes is reported.
 */
static void use_neighbour(unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		ck_assert_int_eq(set_neighbour(AF_INET, "0.0.0.0", NUD_REACHABLE, 1), 0);
		ck_assert_int_eq(set_neighbour(AF_INET, "0.0.0.0", NUD_STALE, 1), 0);
	}
}

/* The kernel sends more notifications than the socket can hold, so some are lost. */
START_TEST(lost_notices)
{
	struct routes *routes;
	unsigned n_turns = 0;
	int size = 100000; /* enough for more than two turns */

	if (!enter_namespace())
		return;
	bring_up_lo();
	routes = start();
	ck_assert_int_eq(setsockopt(mnl_socket_get_fd(opened), SOL_SOCKET, SO_RCVBUF, &size,
				    sizeof(size)),
			 0);
	use_neighbour(1);
	ck_assert_uint_eq(told(), 1);
	use_neighbour(10);
	ck_assert_uint_eq(told(), 0);
	use_neighbour(2000);
	/*
	 * As long as notifications can have been lost, those that are read do not show the current state. So every
	 * turn reports a change.
	 */
	while (sd_event_run(loop, 0) > 0)
		n_turns++;
	ck_assert_uint_gt(n_turns, 2);
	ck_assert_uint_eq(n_told, 1 + n_turns);
	/* The neighbours in the notifications that the loop has just read are not remembered. */
	use_neighbour(1);
	ck_assert_uint_eq(told(), 1);
	use_neighbour(10);
	ck_assert_uint_eq(told(), 0);
	ck_assert(routes_can_tell(routes));
	routes_free(routes);
}
END_TEST

/*
 * A process that is allowed to change routes is also allowed to send to the group. Its messages are ignored, because
 * they do not come from the kernel.
 */
START_TEST(other_senders)
{
	struct sockaddr_nl to = { .nl_family = AF_NETLINK, .nl_groups = RTMGRP_IPV4_IFADDR };
	union message buf;
	struct nlmsghdr *header = &buf.header;
	struct routes *routes;

	if (!enter_namespace())
		return;
	bring_up_lo();
	routes = start();
	begin(&buf, RTM_NEWADDR, 0, sizeof(struct ifaddrmsg));
	header->nlmsg_flags = 0;
	ck_assert_int_eq(sendto(mnl_socket_get_fd(nl), &buf, header->nlmsg_len, 0,
				(struct sockaddr *)&to, sizeof(to)),
			 (int)header->nlmsg_len);
	ck_assert_int_gt(sd_event_run(loop, 0), 0);
	ck_assert_uint_eq(n_told, 0);
	ck_assert_int_eq(change_address(RTM_NEWADDR, AF_INET, "192.0.2.1"), 0);
	ck_assert_uint_eq(told(), 1);
	routes_free(routes);
}
END_TEST

/* Another descriptor takes the socket's place while the socket has an unread notification. */
START_TEST(the_socket_fails)
{
	struct routes *routes;
	int fd, socket, other;

	if (!enter_namespace())
		return;
	routes = start();
	ck_assert(routes_can_tell(routes));
	ck_assert_int_eq(set_lo(true), 0);
	fd = mnl_socket_get_fd(opened);
	socket = dup(fd);
	ck_assert_int_ge(socket, 0);
	other = open("/dev/null", O_RDONLY | O_CLOEXEC);
	ck_assert_int_ge(other, 0);
	ck_assert_int_eq(dup2(other, fd), fd);
	ck_assert_int_gt(sd_event_run(loop, 0), 0);
	ck_assert_uint_eq(n_told, 1);
	ck_assert(!routes_can_tell(routes));
	close(socket);
	close(other);
	ck_assert_int_eq(set_lo(false), 0);
	ck_assert_uint_eq(told(), 0);
	routes_free(routes);
}
END_TEST

static struct routes *freed_when_told;

static void free_it(void *userdata)
{
	(void)userdata;
	n_told++;
	freed_when_told = routes_free(freed_when_told);
}

START_TEST(routes_are_freed_at_any_time)
{
	unsigned n_fds;
	struct routes *routes;

	ck_assert_ptr_null(routes_free(NULL));
	if (!enter_namespace())
		return;
	n_fds = count_fds();
	routes = start();
	ck_assert_int_eq(set_lo(true), 0);
	ck_assert_uint_ge(told(), 1);
	settle();
	/* This change is not read before the object is freed. */
	ck_assert_int_eq(change_address(RTM_NEWADDR, AF_INET, "192.0.2.1"), 0);
	ck_assert_ptr_null(routes_free(routes));
	ck_assert_uint_eq(told(), 0);
	ck_assert_uint_eq(count_fds(), n_fds);

	ck_assert_int_eq(routes_new(&freed_when_told, loop, free_it, NULL), 0);
	ck_assert_int_eq(set_lo(false), 0);
	ck_assert_uint_eq(told(), 1);
	ck_assert_ptr_null(freed_when_told);
	ck_assert_uint_eq(count_fds(), n_fds);
}
END_TEST

START_TEST(no_socket)
{
	struct routes *routes = NULL;
	unsigned n_fds = count_fds();

	open_error = EPROTONOSUPPORT;
	ck_assert_int_eq(routes_new(&routes, loop, on_changed, &n_told), -EPROTONOSUPPORT);
	ck_assert_ptr_null(routes);
	ck_assert_uint_eq(count_fds(), n_fds);
}
END_TEST

/* Changes of routes as the fabric reports them */

static void on_device(void *userdata, struct fabric_device *device)
{
	(void)userdata;
	(void)device;
}

static struct fabric *start_fabric(void (*changed)(void *userdata))
{
	static struct fabric_ops ops = { .device_added = on_device, .device_removed = on_device };
	struct fabric *fabric;

	ops.routes_changed = changed;
	ck_assert_int_eq(fabric_new(&fabric, loop, FABRIC_ACCESS_OPEN, &ops, &n_told), 0);
	return fabric;
}

START_TEST(changes_reported_by_the_fabric)
{
	sd_event_source *timer;
	struct fabric *fabric;
	unsigned n_fds;

	if (!enter_namespace())
		return;
	/* The loop keeps the descriptor of its first timer, so a timer is created before descriptors are counted. */
	ck_assert_int_ge(
		sd_event_add_time_relative(loop, &timer, CLOCK_MONOTONIC, 0, 0, NULL, NULL), 0);
	sd_event_source_unref(timer);
	n_fds = count_fds();
	fabric = start_fabric(on_changed);
	ck_assert(fabric_knows_routes(fabric));
	ck_assert_uint_eq(told(), 0);
	ck_assert_int_eq(set_lo(true), 0);
	ck_assert_uint_ge(told(), 1);
	settle();
	fabric_free(fabric);
	ck_assert_int_eq(set_lo(false), 0);
	ck_assert_uint_eq(told(), 0);
	ck_assert_uint_eq(count_fds(), n_fds);
}
END_TEST

START_TEST(a_fabric_without_a_callback)
{
	struct fabric *fabric;

	opened = NULL;
	fabric = start_fabric(NULL);
	ck_assert(!fabric_knows_routes(fabric));
	ck_assert_ptr_null(opened);
	fabric_free(fabric);
}
END_TEST

START_TEST(a_fabric_without_notifications)
{
	struct fabric *fabric;

	open_error = EPROTONOSUPPORT;
	fabric = start_fabric(on_changed);
	ck_assert_int_eq(open_error, 0);
	ck_assert(!fabric_knows_routes(fabric));
	fabric_free(fabric);
}
END_TEST

UNIT_MAIN("routes", set_up, tear_down, links_addresses_routes_rules, all_groups_are_received,
	  neighbours, one_report_a_turn, lost_notices, other_senders, the_socket_fails,
	  routes_are_freed_at_any_time, no_socket, changes_reported_by_the_fabric,
	  a_fabric_without_a_callback, a_fabric_without_notifications)
