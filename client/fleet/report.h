/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The state of this host, as JSON for etcd:
 *
 *   host, labels, agent (version)
 *   period       the state is written again after so many seconds at the latest
 *   wanted, staged, in_force   versions of the policy; null: none
 *   error        why the wanted version is not staged; null: it is
 *   install      the last installation: version, installed (boolean), temporary (boolean: it can be right later), text;
 *                null: there was none
 *   converge     state (see converge.h), why (null: nothing has failed), and after a failure: since (seconds since 1970),
 *                attempts, next (seconds since 1970)
 *   hold         by, since, why: an admin of the host holds the version in force; null: nobody does
 *   daemon       answers (boolean); if it does: version, draining, policy_error, rules, sessions, listeners,
 *                connections, handshakes; else error
 *   listeners    user (of /etc/passwd, or null), uid, address, port; the first ones that fit
 *   listeners_left_out
 *   refusals     rule ("file:line", or null for what no rule matches), rejected, busy; those with the largest numbers
 *   refusals_left_out
 *
 * hoststate_put() adds machine (the host name of the machine), instance (a random text of this agent), and twin (the machine
 * of another agent with the same name; null: none is known).
 *
 * report_finish() adds time (seconds since 1970), which alone is no reason to write it anew.
 */

#include <jansson.h>
#include <stdbool.h>

#include "common/sitehold.h"
#include "converge.h"
#include "settings.h"
#include "version.h"

#define REPORT_MAX (64 * 1024) /* bytes of the JSON */

/* The last installation, by root. */
struct report_install {
	char version[SITE_NAME_MAX + 1]; /* empty: there was none */
	bool is_installed; /* false: the version was refused, or it could not be installed */
	bool is_temporary; /* it could not be installed: the same can be right later */
	uint64_t id; /* other results have other ones */
	char text[4096]; /* what was printed, cut */
};

struct report_input {
	const char *host;
	const char (*labels)[SETTINGS_NAME_MAX + 1];
	size_t n_labels;
	unsigned period;
	const char *wanted, *staged, *in_force, *error; /* NULL: none */
	const struct report_install *install;
	const struct converge *converge;
	const struct sitehold *hold; /* NULL: no admin of the host holds the version in force */
};

/* Reads the file PATH that rdmabroker-fleet-install has written. Without a valid one, RET has no version. */
void report_read_install(struct report_install *ret, const char *path);
/* Reads the name of the version in force in the directory SITE, as rdmabrokerctl site has installed it; empty: none. */
void report_read_in_force(char ret[SITE_NAME_MAX + 1], const char *site);

/* A session with the broker, which is opened when it is needed. SOCKET: NULL: the library's default; not copied. */
struct report_broker {
	const char *socket;
	struct rdmabroker *session; /* NULL: none is open */
};

void report_broker_done(struct report_broker *broker);

/*
 * Asks the broker, which can take some seconds if it hangs, and returns the state; NULL: out of memory. REASON: why the
 * broker does not answer; empty: it does.
 */
json_t *report_new(struct report_broker *broker, const struct report_input *input,
		   char reason[1024]);
/*
 * Whether A and B are the same but for numbers, which change all the time: those of the daemon, and how often each rule has
 * refused.
 */
bool report_is_alike(const json_t *a, const json_t *b);
/* Returns the text of REPORT with the time, malloc()ed; NULL: out of memory. */
char *report_finish(json_t *report);
