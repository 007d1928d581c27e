/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/guest/calls.h"

/* Time for a datagram that must not come. */
#define NONE_MS 500

/*
 * Joins the group, and sets RET to its parameters for sending. Checks that a second join fails. Returns false if the
 * kernel cannot join the group.
 */
static bool join(struct link *link, const union address *group, unsigned flags,
		 struct link_dest *ret)
{
	struct rdmabroker *session = rdmabroker_get_session(link->id);
	struct rdmabroker_ud_param ud = RDMABROKER_UD_PARAM_INIT;
	int r;

	r = rdmabroker_join_multicast_wait(link->id, &group->any, flags, DEADLINE_MS, &ud);
	if (r == -EOPNOTSUPP)
		return false;
	must(session, "join_multicast_wait", r);
	must_fail("join twice", rdmabroker_join_multicast(link->id, &group->any, flags, NULL),
		  -EEXIST);
	printf("joined: QP 0x%x, Q_Key 0x%x\n", ud.qp_num, ud.qkey);
	*ret = (struct link_dest){
		.ah = ibv_create_ah(link->pd, &ud.ah_attr),
		.qpn = ud.qp_num,
		.qkey = ud.qkey,
		.attr = ud.ah_attr,
	};
	if (!ret->ah)
		die("no address handle of the group: %s", strerror(errno));
	return true;
}

/*
 * The received header's second half is the sender's IPv4 header. libibverbs cannot derive the sender's address,
 * because a multicast datagram is not sent to an address of this port.
 */
static void answer_sender(struct link *link, const struct ibv_wc *wc, const struct link_dest *dest)
{
	const uint8_t *ipv4 = link->memory->receives[wc->wr_id].grh + 20;
	struct ibv_ah_attr attr = dest->attr;
	union ibv_gid *gid = &attr.grh.dgid;

	memset(gid->raw, 0, 10);
	memset(gid->raw + 10, 0xff, 2);
	memcpy(gid->raw + 12, ipv4 + 12, 4);
	datagram_answer(link, wc, &attr);
}

static void leave(struct link *link, const union address *group)
{
	struct rdmabroker *session = rdmabroker_get_session(link->id);

	must(session, "leave_multicast", rdmabroker_leave_multicast(link->id, &group->any));
	must_fail("leave twice", rdmabroker_leave_multicast(link->id, &group->any), -EADDRNOTAVAIL);
}

static void bind_link(struct link *link, struct rdmabroker *session, const union address *address)
{
	struct rdmabroker_id *id = new_id(session, RDMABROKER_PS_UDP);

	must(session, "bind_addr", rdmabroker_bind_addr(id, &address->any));
	link_init(link, id, LINK_OWN);
	link_make_qp(link, IBV_QPT_UD);
}

/*
 * multicast-receive ADDR GROUP COUNT: answers COUNT datagrams to the group, and leaves the group. No other datagram
 * must arrive after that.
 */
int multicast_receive(char **argv)
{
	union address address = make_address(argv[0], "0"), group = make_address(argv[1], "0");
	struct rdmabroker *session = open_session(0);
	struct link_dest dest;
	struct link link;
	struct ibv_wc wc;

	bind_link(&link, session, &address);
	if (!join(&link, &group, 1, &dest)) {
		printf("the kernel cannot join this group\n");
		return 0;
	}
	step("the group is joined");
	for (int i = 0; i < number(argv[2]); i++) {
		link_await(&link, IBV_WC_RECV, &wc);
		answer_sender(&link, &wc, &dest);
	}
	leave(&link, &group);
	step("the group is left");
	if (link_try(&link, IBV_WC_RECV, NONE_MS, &wc))
		die("a datagram to a group that was left has come");
	ibv_destroy_ah(dest.ah);
	link_done(&link);
	rdmabroker_destroy_id(link.id);
	rdmabroker_close(session);
	return 0;
}

static void post(struct link *link, const struct link_dest *dest, uint64_t round)
{
	struct message *m = &link->memory->send.message;
	struct ibv_wc wc;

	*m = (struct message){ .round = round, .rkey = dest->qkey };
	pattern_fill(m->pattern, round);
	link_post_send(link, dest);
	link_await(link, IBV_WC_SEND, &wc);
}

/*
 * Verifies the answer of ROUND; false: it does not come in time. Skips other datagrams, because a member of the group
 * receives its own datagrams.
 */
static bool take_answer(struct link *link, uint64_t round)
{
	const struct message *m;
	struct ibv_wc wc;

	do {
		if (!link_try(link, IBV_WC_RECV, DEADLINE_MS, &wc))
			return false;
		m = &link->memory->receives[wc.wr_id].message;
		link_post_receive(link, (unsigned)wc.wr_id);
	} while (!m->who);
	if (m->round != round)
		die("round %llu is answered instead of %llu", (unsigned long long)m->round,
		    (unsigned long long)round);
	pattern_check("the answer", m->pattern, ~round);
	return true;
}

/*
 * multicast-send ADDR GROUP COUNT FLAGS: joins GROUP with FLAGS, sends COUNT datagrams, and verifies their answers.
 * After a line from the suite, sends one more.
 */
int multicast_send(char **argv)
{
	union address address = make_address(argv[0], "0"), group = make_address(argv[1], "0");
	struct rdmabroker *session = open_session(0);
	struct link_dest dest;
	struct link link;

	bind_link(&link, session, &address);
	if (!join(&link, &group, (unsigned)number(argv[3]), &dest))
		die("the kernel cannot join this group");
	for (uint64_t i = 1; i <= (uint64_t)number(argv[2]); i++) {
		post(&link, &dest, i);
		if (!take_answer(&link, i))
			die("datagram %llu is not answered", (unsigned long long)i);
	}
	step("all datagrams are answered");
	post(&link, &dest, 0);
	leave(&link, &group);
	ibv_destroy_ah(dest.ah);
	link_done(&link);
	rdmabroker_destroy_id(link.id);
	rdmabroker_close(session);
	return 0;
}

/* multicast-denied ADDR GROUP: policy must reject the join. */
int multicast_denied(char **argv)
{
	union address address = make_address(argv[0], "0"), group = make_address(argv[1], "0");
	struct rdmabroker *session = open_session(0);
	struct rdmabroker_ud_param ud = RDMABROKER_UD_PARAM_INIT;
	struct link link;

	bind_link(&link, session, &address);
	must_fail("join_multicast", rdmabroker_join_multicast(link.id, &group.any, 1, NULL),
		  -EACCES);
	must_fail("join_multicast_wait",
		  rdmabroker_join_multicast_wait(link.id, &group.any, 1, DEADLINE_MS, &ud),
		  -EACCES);
	printf("rule %s\n", rdmabroker_last_failure()->rule ?: "-");
	must_fail("leave", rdmabroker_leave_multicast(link.id, &group.any), -EADDRNOTAVAIL);
	link_done(&link);
	rdmabroker_destroy_id(link.id);
	rdmabroker_close(session);
	return 0;
}
