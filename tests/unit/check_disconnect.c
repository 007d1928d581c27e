/* SPDX-License-Identifier: BSD-2-Clause */
#include <unistd.h>

#include "core/object/timewait.h"
#include "core/verbs/conn.h"
#include "core/verbs/handover.h"
#include "core/verbs/id_life.h"
#include "tests/unit/pair.h"

/* Who replies to a peer's disconnect: the broker, or the client, if it has announced that it does. */

static struct id *active, *passive;

static unsigned count_calls(void)
{
	return fake_count(core->fabric, FAKE_DISCONNECT);
}

/* The client disconnects, and both ends know. CONFIRMS: the server replies itself. */
static void disconnect(bool confirms)
{
	session_set_confirms(server.session, confirms);
	establish(&active, &passive);
	/* Their time waits do not end meanwhile. */
	active->handshake.qp_timeout = passive->handshake.qp_timeout = 31;
	ck_assert_int_eq(conn_disconnect(active, &why), 0);
	pair_expect(&server, 2, RDMA_CM_EVENT_DISCONNECTED, 0);
	ck_assert_int_eq(active->state, ID_DISCONNECTED);
	ck_assert_int_eq(passive->state, ID_DISCONNECTED);
}

START_TEST(the_broker_replies)
{
	disconnect(false);
	/* The client's request, and a reply for each end. */
	ck_assert_uint_eq(count_calls(), 3);
	ck_assert_int_eq(conn_disconnect(passive, &why), 0);
	ck_assert_uint_eq(count_calls(), 3);
}
END_TEST

START_TEST(the_client_replies)
{
	disconnect(true);
	ck_assert_uint_eq(count_calls(), 2);
	ck_assert_int_eq(conn_disconnect(passive, &why), 0);
	ck_assert_uint_eq(count_calls(), 3);
	/* It replies once, and the end that asked has nothing to reply to. */
	ck_assert_int_eq(conn_disconnect(passive, &why), 0);
	ck_assert_int_eq(conn_disconnect(active, &why), 0);
	ck_assert_uint_eq(count_calls(), 3);
}
END_TEST

START_TEST(a_reply_that_fails_is_reported)
{
	disconnect(true);
	fake_fail_next(core->fabric, FAKE_DISCONNECT, -EINVAL);
	ck_assert_int_eq(conn_disconnect(passive, &why), STATUS_FABRIC);
	ck_assert_int_eq(passive->state, ID_DISCONNECTED);
}
END_TEST

/* Both disconnect at the same time. */
START_TEST(no_reply_is_owed_for_the_clients_own_disconnect)
{
	session_set_confirms(server.session, true);
	session_set_confirms(client.session, true);
	establish(&active, &passive);
	ck_assert_int_eq(conn_disconnect(active, &why), 0);
	ck_assert_int_eq(conn_disconnect(passive, &why), 0);
	run_loop();
	ck_assert_int_eq(active->state, ID_DISCONNECTED);
	ck_assert_int_eq(passive->state, ID_DISCONNECTED);
	ck_assert(!active->handshake.unconfirmed);
	ck_assert(!passive->handshake.unconfirmed);
}
END_TEST

/* The kernel's time wait begins with the reply. */
START_TEST(the_time_wait_begins_with_the_reply)
{
	session_set_confirms(server.session, true);
	establish(&active, &passive);
	ck_assert_int_eq(conn_disconnect(active, &why), 0);
	pair_expect(&server, 2, RDMA_CM_EVENT_DISCONNECTED, 0);
	ck_assert_ptr_null(passive->handshake.timewait);
	ck_assert_int_eq(conn_disconnect(passive, &why), 0);
	ck_assert_ptr_nonnull(passive->handshake.timewait);
}
END_TEST

/* The reply does not wait for the thread that destroys the id. */
START_TEST(an_id_that_is_destroyed_replies)
{
	unsigned n;

	disconnect(true);
	passive->handshake.qpn++;
	n = core->timewaits->n;
	id_free(passive);
	ck_assert_uint_eq(count_calls(), 3);
	ck_assert_uint_eq(core->timewaits->n, n + 1);
}
END_TEST

/* The session that takes the id over does not know that a reply is owed. */
START_TEST(the_broker_replies_for_a_session_that_does_not)
{
	struct id *moved;
	int fd;

	disconnect(true);
	session_set_confirms(client.session, false);
	ck_assert_int_eq(handover_export(passive, &fd, &why), 0);
	ck_assert_int_eq(handover_import(client.session, fd, &moved, &why), 0);
	close(fd);
	ck_assert_int_eq(moved->state, ID_DISCONNECTED);
	ck_assert_uint_eq(count_calls(), 3);
	ck_assert_ptr_nonnull(moved->handshake.timewait);
}
END_TEST

START_TEST(another_session_can_reply)
{
	struct id *moved;
	int fd;

	disconnect(true);
	session_set_confirms(client.session, true);
	ck_assert_int_eq(handover_export(passive, &fd, &why), 0);
	ck_assert_int_eq(handover_import(client.session, fd, &moved, &why), 0);
	close(fd);
	ck_assert_uint_eq(count_calls(), 2);
	ck_assert_int_eq(conn_disconnect(moved, &why), 0);
	ck_assert_uint_eq(count_calls(), 3);
}
END_TEST

UNIT_MAIN("disconnect", pair_set_up, pair_tear_down, the_broker_replies, the_client_replies,
	  a_reply_that_fails_is_reported, no_reply_is_owed_for_the_clients_own_disconnect,
	  the_time_wait_begins_with_the_reply, an_id_that_is_destroyed_replies,
	  the_broker_replies_for_a_session_that_does_not, another_session_can_reply)
