/* SPDX-License-Identifier: BSD-2-Clause */
#include <dirent.h>

#include "core/object/core.h"
#include "takeover/ledger.h"

#define FDS_WALKED 512 /* up to so many of clients, all are counted one by one */

int core_set_policy(struct core *core, struct policy *policy)
{
	struct admissions *admissions;
	int r = admissions_new(&admissions, policy, core->admissions);

	if (r < 0)
		return r;
	admissions_free(core->admissions);
	core->admissions = admissions;
	policy_ref(policy);
	policy_unref(core->policy);
	core->policy = policy;
	return 0;
}

/* 0: not known. */
static uint64_t walk_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	uint64_t n = 0;

	if (!dir)
		return 0;
	while (readdir(dir))
		n++;
	closedir(dir);
	return n > 3 ? n - 3 : 0; /* without ".", ".." and the descriptor of the directory */
}

uint64_t core_count_fds(struct core *core)
{
	uint64_t charged = core->account.used[ACCOUNT_FDS], n = 0;

	if (charged <= FDS_WALKED || core->n_own_fds == 0)
		n = walk_fds();
	if (n > charged)
		core->n_own_fds = n - charged;
	return core->n_own_fds + charged;
}

uint64_t core_next_number(struct core *core)
{
	core_set_last_session(core, core->last_session + 1);
	return core->last_session;
}

void core_set_last_session(struct core *core, uint64_t last)
{
	if (last > core->last_session)
		core->last_session = last;
	ledger_set_last_session(core->keep.ledger, core->last_session);
}
