/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/object/session.h"
#include "proto/addr.h"
#include "tests/unit/helper.h"
#include "util/util.h"

/* Who has this address? What the helper asks for other hosts, and the questions that it gets for them. */

/* The identity of the session that was opened last. */
static struct identity *last_identity(void)
{
	return &container_of(harness.core->sessions.prev, struct session, link)->identity;
}

static void do_set_too_many_groups(void *unused)
{
	last_identity()->too_many_gids = true;
}

/* It is in N groups. */
static void do_set_groups(void *n)
{
	struct identity *identity = last_identity();

	identity->too_many_gids = false;
	identity->n_gids = (size_t)n;
	identity->gids = realloc(identity->gids, identity->n_gids * sizeof(*identity->gids));
	for (size_t i = 1; i < identity->n_gids; i++)
		identity->gids[i] = 100000 + (gid_t)i;
}

START_TEST(a_question_has_what_the_other_host_needs)
{
	struct rdmabroker_peer_address address = { .ps = RDMABROKER_PS_TCP };
	struct rdmabroker_who *found;
	struct rdmabroker_notice *question;
	struct rdmabroker *helper, *s, *c;
	struct rdmabroker_id *id;

	set_policy(peer_rules);
	helper = open_helper();
	s = open_session(0);
	c = open_session(0);
	start_listening(s, 7471);
	id = connect_to(c, 7471);
	question = expect_question(helper, "accept");
	ck_assert_uint_eq(addr_port((struct sockaddr *)&question->local), 7471);
	ck_assert_uint_eq(addr_port((struct sockaddr *)&question->peer),
			  rdmabroker_get_local_port(id));
	ck_assert_int_eq(question->ps, RDMABROKER_PS_TCP);
	ck_assert_uint_eq(question->peer_qp_num, last_qpn);

	/* The peer is on this host, so the question can be answered here. */
	address.local = (struct sockaddr *)&question->peer;
	address.peer = (struct sockaddr *)&question->local;
	address.qp_num = question->peer_qp_num;
	ck_assert_int_eq(rdmabroker_find_peer(helper, &address, &found), 0);
	ck_assert_uint_eq(found->uid, geteuid());
	ck_assert_uint_ge(found->n_gids, 1);
	ck_assert_uint_eq(found->gids[0], getegid());
	for (size_t i = 1; i < found->n_gids; i++)
		ck_assert_uint_ne(found->gids[i], getegid());
	rdmabroker_free(found);
	/* More groups than an answer has room for are told as unknown, because rules can reject a group. */
	in_server(do_set_groups, (void *)1024);
	ck_assert_int_eq(rdmabroker_find_peer(helper, &address, &found), 0);
	ck_assert_uint_eq(found->n_gids, 1024);
	rdmabroker_free(found);
	in_server(do_set_too_many_groups, NULL);
	expect_failure(rdmabroker_find_peer(helper, &address, &found), EBADF,
		       "the program has more than 1024 groups");
	in_server(do_set_groups, (void *)1);
	address.qp_num++;
	ck_assert_int_eq(rdmabroker_find_peer(helper, &address, &found), -EBADF);
	address.qp_num = 0;
	address.ps = RDMABROKER_PS_UDP;
	ck_assert_int_eq(rdmabroker_find_peer(helper, &address, &found), -EBADF);
	address.ps = RDMABROKER_PS_TCP;
	address.local = address.peer;
	ck_assert_int_eq(rdmabroker_find_peer(helper, &address, &found), -EBADF);
	/* Who listens? */
	address.local = (struct sockaddr *)&question->local;
	address.listens = true;
	address.peer = NULL;
	ck_assert_int_eq(rdmabroker_find_peer(helper, &address, &found), 0);
	rdmabroker_free(found);
	address.local = addr(7472);
	ck_assert_int_eq(rdmabroker_find_peer(helper, &address, &found), -EBADF);

	ck_assert_int_eq(rdmabroker_answer_peer(helper, question->question, &somebody, NULL), 0);
	/* Only the first answer counts. */
	ck_assert_int_eq(rdmabroker_answer_peer(helper, question->question, &somebody, NULL),
			 -EBADF);
	ck_assert_int_eq(rdmabroker_answer_peer(helper, question->question + 1, &somebody, NULL),
			 -EBADF);
	rdmabroker_free(question);
	expect_request(s);
	rdmabroker_close(c);
	rdmabroker_close(s);
	/* Ids that are gone are not found. */
	await_counts(1, 0);
	address.local = addr(7471);
	ck_assert_int_eq(rdmabroker_find_peer(helper, &address, &found), -EBADF);
	rdmabroker_close(helper);
}
END_TEST

/* Who sends the look-up of a datagram service is known as long as the kernel sends it, also if it was disconnected. */
START_TEST(a_look_up_that_is_disconnected)
{
	struct rdmabroker_peer_address address = { .ps = RDMABROKER_PS_UDP };
	struct rdmabroker_who *found;
	struct rdmabroker_id *listener, *id;
	struct rdmabroker_notice *question;
	struct rdmabroker *helper, *s, *c;

	set_policy(peer_rules);
	helper = open_helper();
	s = open_session(0);
	c = open_session(0);
	ck_assert_int_eq(rdmabroker_create_id(s, RDMABROKER_PS_UDP, NULL, &listener), 0);
	ck_assert_int_eq(rdmabroker_bind_addr(listener, addr(7471)), 0);
	ck_assert_int_eq(rdmabroker_listen(listener, 0), 0);
	ck_assert_int_eq(rdmabroker_create_id(c, RDMABROKER_PS_UDP, NULL, &id), 0);
	ck_assert_int_eq(rdmabroker_resolve_addr_wait(id, NULL, addr(7471), T), 0);
	ck_assert_int_eq(rdmabroker_resolve_route_wait(id, T), 0);
	ck_assert_int_eq(rdmabroker_connect(id, new_param()), 0);
	question = expect_question(helper, "accept");
	address.local = (struct sockaddr *)&question->peer;
	address.peer = (struct sockaddr *)&question->local;
	ck_assert_int_eq(rdmabroker_disconnect(id), 0);
	ck_assert_int_eq(rdmabroker_find_peer(helper, &address, &found), 0);
	rdmabroker_free(found);
	ck_assert_int_eq(rdmabroker_destroy_id_wait(id, T), 0);
	ck_assert_int_eq(rdmabroker_find_peer(helper, &address, &found), -EBADF);
	rdmabroker_free(question);
	rdmabroker_close(s);
	rdmabroker_close(c);
	rdmabroker_close(helper);
}
END_TEST

static void listen_on_wildcard(struct rdmabroker *session, const struct sockaddr *any, bool afonly)
{
	struct rdmabroker_id *id;

	ck_assert_int_eq(rdmabroker_create_id(session, RDMABROKER_PS_TCP, NULL, &id), 0);
	if (afonly)
		ck_assert_int_eq(rdmabroker_set_option(id, RDMABROKER_OPTION_AFONLY, 1), 0);
	ck_assert_int_eq(rdmabroker_bind_addr(id, any), 0);
	ck_assert_int_eq(rdmabroker_listen(id, 4), 0);
}

/* Returns 0 or the error of a search for the listener on LOCAL. */
static int find_listener(struct rdmabroker *helper, const struct sockaddr *local)
{
	struct rdmabroker_peer_address address = { .ps = RDMABROKER_PS_TCP,
						   .listens = true,
						   .local = local };
	struct rdmabroker_who *found;
	int r = rdmabroker_find_peer(helper, &address, &found);

	if (r == 0)
		rdmabroker_free(found);
	return r;
}

/* A listener on all addresses of IPv6 can have the ones of IPv4, too, or leave them to another session. */
START_TEST(listeners_on_all_addresses)
{
	struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons(7471) };
	struct sockaddr_in6 any6 = { .sin6_family = AF_INET6 }, one6 = any6;
	struct rdmabroker *helper, *ipv4, *ipv6;

	set_policy(peer_rules);
	helper = open_helper();
	ipv4 = open_session(0);
	ipv6 = open_session(0);
	one6.sin6_addr = in6addr_loopback;
	any6.sin6_port = one6.sin6_port = htons(7471);
	listen_on_wildcard(ipv6, (struct sockaddr *)&any6, /* afonly= */ true);
	ck_assert_int_eq(find_listener(helper, addr(7471)), -EBADF);
	ck_assert_int_eq(find_listener(helper, (struct sockaddr *)&one6), 0);
	listen_on_wildcard(ipv4, (struct sockaddr *)&any, /* afonly= */ false);
	ck_assert_int_eq(find_listener(helper, addr(7471)), 0);
	ck_assert_int_eq(find_listener(helper, (struct sockaddr *)&one6), 0);
	rdmabroker_close(ipv6);
	await_counts(2, 1);
	ck_assert_int_eq(find_listener(helper, (struct sockaddr *)&one6), -EBADF);

	ipv6 = open_session(0);
	any6.sin6_port = one6.sin6_port = htons(7472);
	listen_on_wildcard(ipv6, (struct sockaddr *)&any6, /* afonly= */ false);
	ck_assert_int_eq(find_listener(helper, addr(7472)), 0);
	ck_assert_int_eq(find_listener(helper, (struct sockaddr *)&one6), 0);
	rdmabroker_close(ipv6);
	rdmabroker_close(ipv4);
	rdmabroker_close(helper);
}
END_TEST

UNIT_MAIN("whois", set_up, tear_down, a_question_has_what_the_other_host_needs,
	  a_look_up_that_is_disconnected, listeners_on_all_addresses)
