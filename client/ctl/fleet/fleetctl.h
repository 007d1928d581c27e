/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * rdmabroker-fleetctl does what `rdmabrokerctl fleet` says. It is a program of its own, in the package of the agent,
 * because of libcurl and jansson. rdmabrokerctl reads the command line, and gives it on; nobody else runs it.
 */

#include <stdbool.h>

#include "etcd/etcd.h"
#include "fleet/settings.h"
#include "model.h"

/* Exit statuses, besides 0 and EXIT_FAILURE, after which nothing was written. */
enum {
	EXIT_USAGE = 2,
	/* The roll-out was written, but: */
	EXIT_HOST_REFUSES = 4, /* a host does not put the version in force by itself */
	EXIT_TIMED_OUT, /* after the time of --wait, hosts do not have it yet */
	EXIT_HOSTS_AWAY, /* no host has it; or, with --strict, hosts are away */
	EXIT_UNKNOWN, /* etcd has failed, so it is not known whether it was written, or what has become of it */
	EXIT_OVERTAKEN, /* somebody else has rolled out another one meanwhile */
};

struct fleetctl {
	struct settings settings;
	struct etcd *etcd; /* NULL: not used yet, see fleetctl_connect() */
	unsigned given; /* bits of the options, see main.c */
	bool json, watch, strict, only_syntax;
	const char *policy_dir; /* NULL: not given */
	const char *label; /* NULL: not given */
	const char *name; /* NULL: not given */
	unsigned wait_s; /* 0: not given */
};

/* The actions, with their arguments, which end with NULL. They return an exit status. */
int action_status(struct fleetctl *ctl, char **arguments);
int action_list(struct fleetctl *ctl, char **arguments);
int action_push(struct fleetctl *ctl, char **arguments);
int action_check(struct fleetctl *ctl, char **arguments);
int action_diff(struct fleetctl *ctl, char **arguments);
int action_remove(struct fleetctl *ctl, char **arguments);
int action_use(struct fleetctl *ctl, char **arguments);
int action_rollback(struct fleetctl *ctl, char **arguments);
int action_clear(struct fleetctl *ctl, char **arguments);
int action_forget(struct fleetctl *ctl, char **arguments);
int action_retry(struct fleetctl *ctl, char **arguments);
int action_history(struct fleetctl *ctl, char **arguments);

/* Reads the configuration, and makes ETCD, unless that was done. False: an error was printed. */
bool fleetctl_connect(struct fleetctl *ctl);
/* The same, and reads the fleet. Call fleet_done() after success. False: an error was printed. */
bool fleetctl_read_fleet(struct fleetctl *ctl, struct fleet *ret);
/* A client of the same etcd, with another deadline. NULL: an error was printed. */
struct etcd *fleetctl_new_client(const struct fleetctl *ctl, unsigned call_ms);
/* What helps if etcd is full. */
#define FLEETCTL_CURE                                                                                 \
	"Compact and defragment etcd, or start it with a larger --quota-backend-bytes, and then run " \
	"\"etcdctl alarm disarm\"."
/* Prints the text of etcd's last failure, and what helps against it. Returns the exit status. */
int fleetctl_complain(const struct fleetctl *ctl);
/* Key PREFIX FOLDER/NAME. */
#define FLEETCTL_KEY_MAX 1024
void fleetctl_key(const struct fleetctl *ctl, char ret[FLEETCTL_KEY_MAX], const char *folder,
		  const char *name);

/*
 * etcd_change(), which is sent again if it is not known whether it was carried out. ETCD_CHANGED: a key is not as
 * expected, and does not have the value that CHANGES would write either. Prints no error.
 */
int fleetctl_change(struct fleetctl *ctl, const struct etcd_change *changes, size_t n);
/* Reads one key. 1: it is there; 0: it is not; negative: an error was printed. Free *RET with etcd_range_free(). */
int fleetctl_get(struct fleetctl *ctl, const char *key, struct etcd_range **ret);

/* Points the label at VERSION, and waits if that is requested. */
int rollout_use(struct fleetctl *ctl, const char *version);

/* A descriptor that is readable after SIGINT or SIGTERM. -1: an error was printed. */
int fleetctl_open_interrupt(void);
