/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Reads configuration and policy, all or nothing: at the start and, while the daemon serves, again. A thread
 * reads them again, because names of users and groups may be looked up over the network, and the files may be
 * on a network file system too.
 */

#include <stdint.h>
#include <systemd/sd-event.h>

#include "broker.h"
#include "config.h"
#include "policy/policy.h"

struct diag;
struct reloader;

/* Reads both. Returns 0, or a negative errno with the errors in DIAG. */
int reload_read(const struct broker_options *options, struct config *ret_config,
		struct policy **ret_policy, struct diag *diag);
/* As reload_read(), for the configuration or the policy alone. */
int reload_read_config(const struct broker_options *options, struct config *ret, struct diag *diag);
int reload_read_policy(const struct broker_options *options, const struct config *config,
		       enum policy_names names, struct policy **ret, struct diag *diag);

/* The result of a reload. It answers all requests that came before the reload began. */
struct reloaded {
	uint64_t ticket; /* ticket of the last of these requests */
	int r; /* 0, or a negative errno */
	struct config config; /* valid if R is 0; after taking it over, call config_init() on it */
	struct policy *policy; /* valid if R is 0; DONE has to take a reference to keep it */
	struct diag *diag; /* NULL: there was no memory */
};

/* DONE is called from the loop after each reload. OPTIONS must stay valid. */
int reloader_new(struct reloader **ret, sd_event *loop, const struct broker_options *options,
		 void (*done)(void *userdata, struct reloaded *reloaded), void *userdata);
struct reloader *reloader_free(struct reloader *reloader);
/* Requests a reload. It reads the files after this call. Returns a ticket, from 1, higher each time. */
uint64_t reloader_start(struct reloader *reloader);
