/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * What this host does about the version that the fleet wants: one place that decides, from what the fleet wants, what the
 * host has, and what has failed last and whether that can pass.
 *
 *                       the fleet wants another version, or somebody asks for a new attempt
 *                                                  |
 *                                                  v
 *   NONE ---- the fleet wants one -----------> WAITING ---- it is in force ------------> IN_FORCE
 *                                               ^    |                                      |
 *                                               |    |<-- another one was put in force -----+
 *                                               |    |
 *        the pause is over, or it was asked for |    +-- it fails, and that can pass ---> TRYING
 *                                               |    |
 *                                               |    +-- the version is wrong ----------> REFUSED
 *                                               |
 *                                               +--- released ----------------------------- HELD
 *
 * HELD follows each of the others when an admin of the host holds a version that is not the fleet's. NONE follows each of
 * them when the fleet wants nothing of this host any more.
 *
 * The pauses of TRYING grow from a second to five minutes, and, if etcd is away, from 0.1 s to 30 s. What is REFUSED is
 * tried again, too, but after an hour: somebody can have corrected the host.
 */

#include <stdbool.h>
#include <stdint.h>

#include "etcd/backoff.h"
#include "version.h"

enum converge_state {
	CONVERGE_NONE, /* the fleet wants no version of this host */
	CONVERGE_WAITING, /* the version is being taken from etcd, or installed */
	CONVERGE_IN_FORCE, /* the version is in force */
	CONVERGE_TRYING, /* an attempt has failed, for a cause that can pass */
	CONVERGE_REFUSED, /* an attempt has failed, and the same again would fail, too */
	CONVERGE_HELD, /* an admin of this host holds another version */
	N_CONVERGE_STATES,
};

/* As they are in the state of the host. */
extern const char *const converge_names[N_CONVERGE_STATES];

/* What is to be done now. */
enum converge_action {
	CONVERGE_REST, /* nothing, until next_ms or until the facts change */
	CONVERGE_TAKE, /* take the version from etcd, and then have it installed */
	CONVERGE_INSTALL, /* have it installed: it is staged, but not in force */
};

enum converge_failure {
	CONVERGE_ETCD, /* etcd is away, or has an error of its own */
	CONVERGE_HOST, /* this host could not do it: a lock, no space, no descriptors, the daemon hangs */
	CONVERGE_SOURCE, /* what etcd has is no valid version */
	CONVERGE_CHECK, /* the version does not pass the check of this host */
};

/* "": none. */
struct converge_facts {
	const char *wanted; /* by the fleet */
	const char *staged; /* whose name root's part has */
	const char *in_force;
	bool is_held;
};

/* All zero, but for converge_init(). */
struct converge {
	enum converge_state state;
	char wanted[SITE_NAME_MAX + 1];
	char why[512]; /* of TRYING and REFUSED, cut; empty: none */
	int64_t since_s; /* when the first of the attempts failed, in seconds since 1970; 0: none has failed */
	unsigned n_failed; /* attempts */
	int64_t next_ms; /* when to decide again, if no fact changes; INT64_MAX: never */
	bool must_take; /* what is staged is not enough: read it again */
	bool is_asked; /* root's part has to answer */
	struct backoff etcd_pause, host_pause;
};

void converge_init(struct converge *converge);
/* Call it when a fact has changed, and at next_ms. */
enum converge_action converge_decide(struct converge *converge, const struct converge_facts *facts,
				     int64_t now_ms);
/* The version has changed in etcd, or somebody asks: an attempt is made now, without a pause. */
void converge_retry(struct converge *converge);
/* etcd answers again, so what has failed because of it is tried now. */
void converge_etcd_is_back(struct converge *converge);
/* What has become of an action. The version is here, and nothing else is to be done. */
void converge_taken(struct converge *converge);
/* Root's part was asked to install the version. */
void converge_asked(struct converge *converge, int64_t now_ms);
/* Root's part says that it has installed the version; converge_decide() looks whether it is in force. */
void converge_installed(struct converge *converge);
void converge_fail(struct converge *converge, enum converge_failure failure, const char *why,
		   int64_t now_ms);
/* Whether the state tells of a failure. */
bool converge_has_failed(const struct converge *converge);
