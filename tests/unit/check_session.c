/* SPDX-License-Identifier: BSD-2-Clause */

/* What the next process learns about the client of a session. */

#include <string.h>

#include "core/object/session.h"
#include "takeover/ledger.h"
#include "tests/unit/unit.h"

static struct ledger_session row;
static struct session session, restored;

static void set_up(void)
{
	row = (struct ledger_session){ 0 };
	session = (struct session){ .number = 1, .row = &row };
	restored = (struct session){ 0 };
}

static void tear_down(void)
{
	workload_done(&session.identity.workload);
	workload_done(&restored.identity.workload);
}

static void set(enum workload_name name, const char *value)
{
	session.identity.workload.names[name] = strdup(value);
}

START_TEST(names_are_restored)
{
	set(WORKLOAD_UNIT, "a.service");
	set(WORKLOAD_CONTAINER, "user-1000/0123");
	set(WORKLOAD_POD, "");
	set(WORKLOAD_CGROUP, "/system.slice/a.service");
	session_save(&session);
	session_load_workload(&restored, &row);
	ck_assert_str_eq(restored.identity.workload.names[WORKLOAD_UNIT], "a.service");
	ck_assert_str_eq(restored.identity.workload.names[WORKLOAD_CONTAINER], "user-1000/0123");
	ck_assert_str_eq(restored.identity.workload.names[WORKLOAD_POD], "");
	/* It was not known, so it is not known after the restart either. */
	ck_assert_ptr_null(restored.identity.workload.names[WORKLOAD_JOB]);
	ck_assert_str_eq(restored.identity.workload.names[WORKLOAD_CGROUP],
			 "/system.slice/a.service");
}
END_TEST

START_TEST(a_name_that_is_too_long_is_not_known)
{
	char path[sizeof(row.cgroup) + 1];

	memset(path, 'x', sizeof(path) - 1);
	path[sizeof(path) - 1] = 0;
	set(WORKLOAD_CGROUP, path);
	session_save(&session);
	session_load_workload(&restored, &row);
	ck_assert_ptr_null(restored.identity.workload.names[WORKLOAD_CGROUP]);
	/* One byte less has space. */
	session.identity.workload.names[WORKLOAD_CGROUP][sizeof(path) - 2] = 0;
	session_save(&session);
	session_load_workload(&restored, &row);
	ck_assert_uint_eq(strlen(restored.identity.workload.names[WORKLOAD_CGROUP]),
			  sizeof(row.cgroup) - 1);
}
END_TEST

/* The ledger of a version that did not know of containers has 0 there. */
START_TEST(an_older_ledger)
{
	row.unit_known = 1;
	strcpy(row.unit, "a.service");
	session_load_workload(&restored, &row);
	ck_assert_str_eq(restored.identity.workload.names[WORKLOAD_UNIT], "a.service");
	for (int i = WORKLOAD_UNIT + 1; i < _WORKLOAD_MAX; i++)
		ck_assert_ptr_null(restored.identity.workload.names[i]);
}
END_TEST

UNIT_MAIN("session", set_up, tear_down, names_are_restored, a_name_that_is_too_long_is_not_known,
	  an_older_ledger)
