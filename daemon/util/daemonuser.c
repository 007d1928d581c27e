/* SPDX-License-Identifier: BSD-2-Clause */
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "util/daemonuser.h"
#include "util/util.h"

#define GROUPS_MAX 65536 /* NGROUPS_MAX of Linux */

bool daemonuser_find(uid_t *ret_uid, gid_t *ret_gid)
{
	struct passwd entry, *found = NULL;
	char buffer[16384];

	if (getpwnam_r(DAEMON_USER, &entry, buffer, sizeof(buffer), &found) != 0 || !found)
		return false;
	*ret_uid = entry.pw_uid;
	*ret_gid = entry.pw_gid;
	return true;
}

static bool keep_groups(struct daemonuser *user)
{
	int n = getgroups(0, NULL);

	if (n < 0)
		return false;
	user->gid = getegid();
	user->groups = calloc((size_t)n + 1, sizeof(*user->groups));
	if (!user->groups)
		return false;
	n = getgroups(n, user->groups);
	user->n_groups = n < 0 ? 0 : (size_t)n;
	return n >= 0;
}

/* As systemd does: the groups are those of the user database. */
static bool take_groups(gid_t gid)
{
	_cleanup_free_ gid_t *groups = calloc(GROUPS_MAX, sizeof(*groups));
	int n = GROUPS_MAX;

	return groups && getgrouplist(DAEMON_USER, gid, groups, &n) >= 0 &&
	       setgroups((size_t)n, groups) == 0 && setegid(gid) == 0;
}

void daemonuser_take(struct daemonuser *ret)
{
	uid_t uid;
	gid_t gid;

	*ret = (struct daemonuser){};
	if (geteuid() != 0 || !daemonuser_find(&uid, &gid) || uid == 0 || !keep_groups(ret))
		return;
	/* In a sandbox, root may not be able to change its user. */
	ret->is_taken = take_groups(gid) && seteuid(uid) == 0;
	if (!ret->is_taken)
		daemonuser_give_back(ret);
}

void daemonuser_give_back(struct daemonuser *user)
{
	/* Root can go back, because its real user is still root. What could not be changed need not be restored. */
	if (user->groups && seteuid(0) == 0 && setegid(user->gid) == 0 &&
	    setgroups(user->n_groups, user->groups) == 0)
		/* The kernel has cleared this. Debuggers and sanitizers need it. */
		prctl(PR_SET_DUMPABLE, 1);
	free(user->groups);
	*user = (struct daemonuser){};
}
