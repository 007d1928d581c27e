/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Reads configuration and policy, all or nothing, and reads them again while the daemon serves. The latter is
 * done by a thread, because names of users and groups may be looked up over the network, and files may be
 * there too.
 */

#include <stdint.h>
#include <systemd/sd-event.h>

#include "broker.h"
#include "config.h"
#include "policy/policy.h"

struct diag;
struct reloader;

/* 0, or a negative errno with the errors in DIAG. */
int reload_read(const struct broker_options *options, struct config *ret_config,
		struct policy **ret_policy, struct diag *diag);
/* The same, for each alone. */
int reload_read_config(const struct broker_options *options, struct config *ret, struct diag *diag);
int reload_read_policy(const struct broker_options *options, const struct config *config,
		       enum policy_names names, struct policy **ret, struct diag *diag);

/* The result of one reload, or of several that were requested before it began. */
struct reloaded {
	uint64_t ticket; /* of the last request */
	int r; /* 0, or a negative errno */
	struct config config; /* if R is 0; after taking it over, call config_init() on it */
	struct policy *policy; /* likewise; DONE has to take a reference to keep it */
	struct diag *diag; /* NULL: there was no memory */
};

/* DONE is called from the loop. OPTIONS must stay valid. */
int reloader_new(struct reloader **ret, sd_event *loop, const struct broker_options *options,
		 void (*done)(void *userdata, struct reloaded *reloaded), void *userdata);
struct reloader *reloader_free(struct reloader *reloader);
/* Requests a reload, of the files as they are from now on. Returns a ticket, from 1, higher each time. */
uint64_t reloader_start(struct reloader *reloader);
