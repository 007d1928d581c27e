/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Reads the configuration and the policy. A reload reads them in a thread, because files and user names can
 * be on the network. A reload takes over both or neither.
 */

#include <stdint.h>
#include <systemd/sd-event.h>

#include "broker.h"
#include "config.h"
#include "policy/policy.h"

struct diag;
struct reloader;

/* Returns 0, or a negative errno: then DIAG has the errors, and neither result is written. */
int reload_read(const struct broker_options *options, struct config *ret_config,
		struct policy **ret_policy, struct diag *diag);
/* As reload_read(), for the configuration or the policy alone. */
int reload_read_config(const struct broker_options *options, struct config *ret, struct diag *diag);
int reload_read_policy(const struct broker_options *options, const struct config *config,
		       enum policy_names names, struct policy **ret, struct diag *diag);

/* The result of a reload, for all tickets up to TICKET that no earlier reload has served. */
struct reloaded {
	uint64_t ticket; /* of the last reloader_start() before the reload began */
	int r;
	/* valid if R is 0; after taking CONFIG over, call config_init() on it */
	struct config config;
	struct policy *policy; /* valid if R is 0; DONE must take a reference to keep it */
	struct diag *diag; /* NULL: there was no memory */
};

/* DONE is called from the loop after each reload. OPTIONS must stay valid. */
int reloader_new(struct reloader **ret, sd_event *loop, const struct broker_options *options,
		 void (*done)(void *userdata, struct reloaded *reloaded), void *userdata);
struct reloader *reloader_free(struct reloader *reloader);
/*
 * Requests a reload. If a reload is running, another one follows it. Returns a ticket: 1 at the first call,
 * one more at each further call.
 */
uint64_t reloader_start(struct reloader *reloader);
