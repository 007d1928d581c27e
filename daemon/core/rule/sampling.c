/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>

#include "core/facts/sampler.h"
#include "core/object/notice.h"
#include "core/object/session.h"
#include "core/rule/sampling.h"
#include "proto/nodes.h"

static int list_clients(void *userdata, pid_t **ret)
{
	const struct core *core = userdata;
	pid_t *pids = calloc(core->n_sessions + 1, sizeof(*pids));
	struct list *l;
	int n = 0;

	if (!pids)
		return -ENOMEM;
	list_for_each(l, &core->sessions)
		pids[n++] = session_get_pid(container_of(l, struct session, link));
	*ret = pids;
	return n;
}

static uint64_t now_ms(void)
{
	return notice_time_ns() / 1000000;
}

static void on_seen(void *userdata, const struct seen *seen)
{
	struct core *core = userdata;

	sightings_note(core->sightings, core->keep.ledger, seen, now_ms());
}

static void on_sampled(void *userdata)
{
	struct core *core = userdata;

	sightings_sampled(core->sightings, core->keep.ledger, now_ms());
}

static const struct sampler_ops ops = {
	.list_clients = list_clients,
	.seen = on_seen,
	.sampled = on_sampled,
};

int sampling_init(struct core *core)
{
	int r = sightings_new(&core->sightings);

	return r < 0 ? r : sampler_new(&core->sampler, core->loop, NODES_OPEN_FILE, &ops, core);
}

void sampling_done(struct core *core)
{
	core->sampler = sampler_free(core->sampler);
	core->sightings = sightings_free(core->sightings);
}

void sampling_restore(struct core *core, const struct old_ledger *old)
{
	sightings_restore(core->sightings, core->keep.ledger, old);
}
