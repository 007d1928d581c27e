/* SPDX-License-Identifier: BSD-2-Clause */
#include <unistd.h>

#include "core/object/inquiry.h"
#include "core/verbs/lease.h"
#include "core/verbs/session_life.h"
#include "takeover/ledger.h"
#include "tests/unit/be_user.h"
#include "tests/unit/pair.h"

/* Rights that need no rule are those of the socket to which a client has connected. */

#define ADMINS (SESSION_PERMIT_ADMIN | SESSION_PERMIT_OBSERVE)

/* The permits of a client of DOOR, who is root, the daemon's own user and the helper in one. */
static unsigned permits_by(enum door door)
{
	struct session *session;
	unsigned permits;

	core->inquiries->helper_uid = geteuid();
	ck_assert_int_eq(session_new(&session, core, sockets[0], door, NULL, client.session->ops,
				     &client),
			 0);
	session->identity.proven = true;
	permits = session_greet(session, &why) == 0 ? session->permits : 0;
	session_free(session);
	return permits;
}

START_TEST(the_door_gives_the_rights)
{
	ck_assert_uint_eq(permits_by(DOOR_COMMON), SESSION_PERMIT_CLIENT);
	ck_assert_uint_eq(permits_by(DOOR_ADMIN), SESSION_PERMIT_CLIENT_LATER | ADMINS);
	ck_assert_uint_eq(permits_by(DOOR_HELPER),
			  SESSION_PERMIT_CLIENT_LATER | SESSION_PERMIT_PEERS);
	pair_set_policy("allow observe user 4711\n");
	ck_assert_uint_eq(permits_by(DOOR_COMMON), 0);
	ck_assert_uint_eq(permits_by(DOOR_ADMIN), ADMINS);
	ck_assert_uint_eq(permits_by(DOOR_HELPER), SESSION_PERMIT_PEERS);
}
END_TEST

/* What ROW permits in this process. */
static unsigned permits_after(const struct ledger_session *row)
{
	struct session *session;
	unsigned permits;

	core->inquiries->helper_uid = geteuid();
	ck_assert_int_eq(session_new(&session, core, sockets[0], DOOR_COMMON, NULL,
				     client.session->ops, &client),
			 0);
	session_restore(session, -1, row);
	permits = session->permits;
	session_free(session);
	return permits;
}

/* Earlier daemons gave rights on the common socket, also to root of some containers. They do not survive the upgrade. */
START_TEST(a_restored_session_is_judged_again)
{
	struct ledger_session row = {
		.number = 77,
		.permits = SESSION_PERMIT_CLIENT | ADMINS | SESSION_PERMIT_PEERS,
		.proven = 1,
	};

	ck_assert_uint_eq(permits_after(&row), SESSION_PERMIT_CLIENT);
	row.door = DOOR_ADMIN;
	ck_assert_uint_eq(permits_after(&row), SESSION_PERMIT_CLIENT | ADMINS);
	row.door = DOOR_HELPER;
	ck_assert_uint_eq(permits_after(&row), SESSION_PERMIT_CLIENT | SESSION_PERMIT_PEERS);
	row.door = _DOOR_MAX;
	ck_assert_uint_eq(permits_after(&row), SESSION_PERMIT_CLIENT);
	/* A rule gives what it gave. */
	pair_set_policy("allow session\nallow observe\n");
	row.door = DOOR_COMMON;
	ck_assert_uint_eq(permits_after(&row), SESSION_PERMIT_CLIENT | SESSION_PERMIT_OBSERVE);
}
END_TEST

START_TEST(a_door_is_kept)
{
	struct ledger_session row = { 0 };

	client.session->row = &row;
	session_save(client.session);
	ck_assert_uint_eq(row.door, DOOR_ADMIN);
	client.session->row = NULL;
}
END_TEST

/* An instance borrows devices as the daemon's own user, by the socket that no container is given. */
/* What status tells the admin whose rules ask who peers are, step by step. */
START_TEST(what_the_helper_lacks)
{
	core->inquiries->helper_uid = (uid_t)-1;
	ck_assert_ptr_null(inquiries_find_fault(core));
	pair_set_policy("allow any peer-user 1000\n");
	ck_assert_ptr_nonnull(strstr(inquiries_find_fault(core), "install rdmabroker-peerd"));
	core->inquiries->helper_uid = geteuid();
	ck_assert_ptr_nonnull(strstr(inquiries_find_fault(core), "has no socket to come to"));
	core->inquiries->has_door = true;
	ck_assert_ptr_nonnull(
		strstr(inquiries_find_fault(core), "systemctl start rdmabroker-peerd"));
	ck_assert_int_eq(inquiries_serve(client.session), 0);
	ck_assert_ptr_null(inquiries_find_fault(core));
}
END_TEST

START_TEST(loans_need_the_door)
{
	pair_set_policy("allow any\nallow admin\n");
	client.session->door = DOOR_COMMON;
	ck_assert_int_eq(lease_lend(client.session, "fake0", 4711, &why), STATUS_NOT_PERMITTED);
	client.session->door = DOOR_ADMIN;
	ck_assert_int_eq(lease_lend(client.session, "fake0", 4711, &why), 0);
	be_user(client.session, client.session->identity.uid + 1);
	ck_assert_int_eq(lease_lend(client.session, "fake0", 4711, &why), STATUS_NOT_PERMITTED);
	be_user(client.session, client.session->identity.uid - 1);
}
END_TEST

UNIT_MAIN("door", pair_set_up, pair_tear_down, the_door_gives_the_rights,
	  a_restored_session_is_judged_again, a_door_is_kept, what_the_helper_lacks,
	  loans_need_the_door)
