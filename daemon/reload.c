/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "instance.h"
#include "reload.h"
#include "util/diag.h"
#include "util/offload.h"
#include "util/owner.h"
#include "util/util.h"

#define PASSWD "/etc/passwd"
#define NSSWITCH "/etc/nsswitch.conf"

struct reloader {
	const struct broker_options *options;
	void (*done)(void *userdata, struct reloaded *reloaded);
	void *userdata;
	struct offload *offload; /* has one thread */
	struct offload_job job;
	/* never submitted: it keeps the lane allocated, so that offload_prepare() cannot fail */
	struct offload_job keep;
	uint64_t last_ticket;
	bool runs;

	struct reloaded reloaded; /* while the thread runs, only the thread uses this */
};

/* Without the ranges, each uid counts as a user. That is told, but is no reason to refuse the configuration. */
static int read_owners(struct config *config, struct diag *diag)
{
	int r;

	if (!*config->subuid_path)
		return 0;
	r = owners_read(&config->owners, config->subuid_path, PASSWD, diag);
	if (r == -ENOMEM)
		return r;
	if (r < 0)
		diag_warn(
			diag, config->subuid_path, 0, 0, NULL, 0,
			"cannot read the ranges of subordinate uids, so each uid counts as a user: %s",
			strerror(-r));
	if (owners_have_other_source(NSSWITCH)) {
		owners_set_incomplete(config->owners);
		diag_warn(diag, NSSWITCH, 0, 0, NULL, 0,
			  "subordinate uids that come from another source than %s are not read",
			  config->subuid_path);
	}
	return 0;
}

int reload_read_config(const struct broker_options *options, struct config *ret, struct diag *diag)
{
	int r = config_load(ret, options->config_path, !options->config_is_named, diag);

	if (r < 0)
		return r;
	if (options->instance)
		r = instance_configure(ret, options->config_path, options->instance, diag);
	if (r == 0)
		r = read_owners(ret, diag);
	if (r < 0)
		config_done(ret);
	return r;
}

int reload_read_policy(const struct broker_options *options, const struct config *config,
		       enum policy_names names, struct policy **ret, struct diag *diag)
{
	const struct policy_site site = {
		.dir = options->site_policy_dir ?: config->site_policy_dir,
		.may_admin = config->site_admin_rules,
	};

	return policy_load_dirs(ret, options->policy_dir ?: config->policy_dir, &site, names, diag);
}

int reload_read(const struct broker_options *options, struct config *ret_config,
		struct policy **ret_policy, struct diag *diag)
{
	struct config config;
	int r;

	config_init(&config);
	r = reload_read_config(options, &config, diag);
	if (r < 0)
		return r;
	r = reload_read_policy(options, &config, POLICY_NAMES_MUST_EXIST, ret_policy, diag);
	if (r < 0) {
		config_done(&config);
		return r;
	}
	*ret_config = config;
	return 0;
}

static void run(struct offload_job *job)
{
	struct reloader *reloader = container_of(job, struct reloader, job);
	struct reloaded *reloaded = &reloader->reloaded;

	reloaded->r = diag_new(&reloaded->diag);
	if (reloaded->r == 0)
		reloaded->r = reload_read(reloader->options, &reloaded->config, &reloaded->policy,
					  reloaded->diag);
	if (reloaded->r == 0)
		owners_look_up(reloaded->config.owners);
}

static void start(struct reloader *reloader)
{
	reloader->runs = true;
	reloader->reloaded = (struct reloaded){ .ticket = reloader->last_ticket };
	/* Cannot fail, see RELOADER->keep. */
	offload_prepare(reloader->offload, &reloader->job, 0);
	offload_submit(reloader->offload, &reloader->job);
}

static void on_done(struct offload_job *job)
{
	struct reloader *reloader = container_of(job, struct reloader, job);
	struct reloaded reloaded = reloader->reloaded;

	reloader->runs = false;
	if (reloader->done)
		reloader->done(reloader->userdata, &reloaded);
	config_done(&reloaded.config);
	policy_unref(reloaded.policy);
	diag_free(reloaded.diag);
	if (reloader->done && reloader->last_ticket > reloaded.ticket)
		start(reloader);
}

DEFINE_CLEANUP(struct reloader *, reloader_free)

int reloader_new(struct reloader **ret, sd_event *loop, const struct broker_options *options,
		 void (*done)(void *userdata, struct reloaded *reloaded), void *userdata)
{
	_cleanup_(reloader_freep) struct reloader *reloader = calloc(1, sizeof(*reloader));
	int r;

	if (!reloader)
		return -ENOMEM;
	reloader->options = options;
	reloader->done = done;
	reloader->userdata = userdata;
	reloader->job.run = run;
	reloader->job.done = on_done;
	r = offload_new(&reloader->offload, loop, 1);
	if (r == 0)
		r = offload_prepare(reloader->offload, &reloader->keep, 0);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(reloader);
	return 0;
}

struct reloader *reloader_free(struct reloader *reloader)
{
	if (!reloader)
		return NULL;
	reloader->done = NULL;
	offload_release(&reloader->keep);
	offload_free(reloader->offload);
	/* A thread that is stuck in a look-up still uses RELOADER. */
	if (!reloader->runs)
		free(reloader);
	return NULL;
}

uint64_t reloader_start(struct reloader *reloader)
{
	uint64_t ticket = ++reloader->last_ticket;

	if (!reloader->runs)
		start(reloader);
	return ticket;
}
