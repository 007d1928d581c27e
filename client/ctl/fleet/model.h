/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* The fleet, as etcd has it: its hosts with their states, the roll-out, and the versions. */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "etcd/etcd.h"
#include "fleet/version.h"

struct host {
	char *name;
	json_t *state; /* an object, see fleet/report.h; NULL: none */
	json_t *known; /* "labels" and "in_force", without a lease; NULL: none */
	bool is_invalid; /* the state is there, but is no JSON object */
	char *note; /* what the agent says about its attempts, or who holds the version; NULL: nothing */
};

struct rollout {
	char *label;
	char version[SITE_NAME_MAX + 1]; /* empty: the key has no name of a version */
	char value[SITE_NAME_MAX + 1]; /* of the key, cut, and as it can be printed */
	int64_t revision; /* mod_revision of the key; 0: there is no key */
	json_t *history; /* an array of {"version", "time", "by"}, the newest last; NULL: none */
	int64_t history_revision; /* of its key; 0: there is none */
	json_t *log; /* see history.h; NULL: none */
	int64_t log_revision; /* of its key; 0: there is none */
};

struct fleet {
	char *prefix;
	struct host *hosts; /* sorted by name */
	size_t n_hosts;
	struct rollout *rollouts; /* sorted by label; those without a key, too */
	size_t n_rollouts;
	char **versions; /* those that have a manifest, sorted by name */
	size_t n_versions;
	int64_t revision; /* of etcd */
};

/* Reads the whole fleet at one revision. As the calls of etcd; call fleet_done() in any case. */
int fleet_read(struct fleet *ret, struct etcd *etcd, const char *prefix);
void fleet_done(struct fleet *fleet);
/* Watches what fleet_read() has read, but not the versions. */
int fleet_watch(const struct fleet *fleet, struct etcd *etcd, struct etcd_watch **ret);
void fleet_apply(struct fleet *fleet, const struct etcd_event *event);

/* NULL: there is none. */
const struct rollout *fleet_find_rollout(const struct fleet *fleet, const char *label);
const struct host *fleet_find_host(const struct fleet *fleet, const char *name);
bool fleet_has_version(const struct fleet *fleet, const char *name);

/* What there is to say about a host. The first that applies counts. */
enum verdict {
	HOST_AWAY, /* its agent does not keep its state, or cannot reach etcd */
	HOST_INVALID, /* its state is not what an agent writes */
	HOST_STALE, /* its state is too old */
	HOST_TWICE, /* two machines have this name */
	HOST_REFUSED, /* the version was refused on the host */
	HOST_FAILED, /* the agent cannot take the version */
	HOST_HELD, /* an admin of the host holds another version */
	HOST_TRYING, /* the version could not be taken or installed, and the agent tries again */
	HOST_BROKER, /* the broker does not answer the agent */
	HOST_POLICY, /* the broker's last reload has failed */
	HOST_WAITING, /* the version is not in force yet */
	HOST_OK,
	N_VERDICTS,
};

extern const char *const verdict_names[N_VERDICTS];

struct judgement {
	enum verdict verdict;
	const struct rollout *rollout; /* the one that the host follows; NULL: none */
	const char *in_force; /* the version; NULL: none, or not known */
	const char *why; /* a text of the host's, perhaps of several lines; NULL: none */
	int64_t age_s; /* of the state; -1: not known */
};

#define MODEL_TIME_MAX 32
/* The time of SECONDS since 1970, as "2026-11-27 18:00"; "?": not known. */
void model_print_time(char ret[MODEL_TIME_MAX], int64_t seconds);
/* False: the host was forgotten while the fleet is watched. */
bool host_exists(const struct host *host);
struct judgement host_judge(const struct fleet *fleet, const struct host *host);
/* The number, which a host has written, between 0 and 2^40; 0: it is none. */
int64_t host_clamp(const json_t *number);
/* The string OBJECT.NAME; NULL: there is none. Belongs to OBJECT. */
const char *model_text(const json_t *object, const char *name);
/* A number in the host's state; 0: it is not there. NAME: "MEMBER" or "OBJECT.MEMBER". */
int64_t host_number(const struct host *host, const char *object, const char *member);
/* The host's own labels, the most important one first; NULL: not known. */
const json_t *host_labels(const struct host *host);
/* The array NAME of the host's state; NULL: it is not there. */
const json_t *host_array(const struct host *host, const char *name);
