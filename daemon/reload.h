/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * What an admin wrote, read as a whole or not at all; and read again while the daemon serves. That is done by a
 * thread: the names of users and groups may be looked up over the network, and files may lie there.
 */

#include <stdint.h>
#include <systemd/sd-event.h>

#include "broker.h"
#include "config.h"
#include "policy/policy.h"

struct diag;
struct reloader;

/* 0, or a negative errno and what is wrong in DIAG. */
int reload_read(const struct broker_options *options, struct config *ret_config,
		struct policy **ret_policy, struct diag *diag);
/* The same, one by one. */
int reload_read_config(const struct broker_options *options, struct config *ret, struct diag *diag);
int reload_read_policy(const struct broker_options *options, const struct config *config,
		       enum policy_names names, struct policy **ret, struct diag *diag);

/* Of one reading, or of several that were asked for before it began. */
struct reloaded {
	uint64_t ticket; /* of the last of these */
	int r; /* 0, or a negative errno */
	struct config config; /* where R is 0: to be taken over, and all zero then */
	struct policy *policy; /* likewise, and NULL then */
	struct diag *diag; /* NULL: there was no memory */
};

/* DONE is called from the loop. OPTIONS have to stay. */
int reloader_new(struct reloader **ret, sd_event *loop, const struct broker_options *options,
		 void (*done)(void *userdata, struct reloaded *reloaded), void *userdata);
struct reloader *reloader_free(struct reloader *reloader);
/* Read everything as it is from now on. Returns a ticket, from 1, higher each time. */
uint64_t reloader_start(struct reloader *reloader);
