/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Reads the configuration and the policy, at the start, for --check and at reloads. A reload reads them in a
 * thread, because reading can block the loop: names of users and groups may be looked up over the network, and
 * the files may be on a network file system. A reload takes over both or neither.
 */

#include <stdint.h>
#include <systemd/sd-event.h>

#include "broker.h"
#include "config.h"
#include "policy/policy.h"

struct diag;
struct reloader;

/*
 * Reads configuration and policy. Returns 0, or a negative errno: then DIAG has the errors, and neither result is
 * written.
 */
int reload_read(const struct broker_options *options, struct config *ret_config,
		struct policy **ret_policy, struct diag *diag);
/* As reload_read(), for the configuration or the policy alone. */
int reload_read_config(const struct broker_options *options, struct config *ret, struct diag *diag);
int reload_read_policy(const struct broker_options *options, const struct config *config,
		       enum policy_names names, struct policy **ret, struct diag *diag);

/*
 * The result of a reload. It is the result for all calls of reloader_start() that were made before the reload began
 * and that no earlier reload has served.
 */
struct reloaded {
	uint64_t ticket; /* ticket of the last call before the reload began */
	int r; /* 0, or a negative errno */
	struct config config; /* valid if R is 0; after taking it over, call config_init() on it */
	struct policy *policy; /* valid if R is 0; DONE has to take a reference to keep it */
	struct diag *diag; /* NULL: there was no memory */
};

/* DONE is called from the loop after each reload. OPTIONS must stay valid. */
int reloader_new(struct reloader **ret, sd_event *loop, const struct broker_options *options,
		 void (*done)(void *userdata, struct reloaded *reloaded), void *userdata);
struct reloader *reloader_free(struct reloader *reloader);
/*
 * Requests a reload. If a reload is running, another one follows it, so that the files are read after this
 * call. Returns a ticket: 1 at the first call, one more at each further call.
 */
uint64_t reloader_start(struct reloader *reloader);
