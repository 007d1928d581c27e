/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The state of this host, as JSON for etcd:
 *
 *   host, labels, agent (version)
 *   period       the state is written again after so many seconds at the latest
 *   wanted, staged, in_force   versions of the policy; null: none
 *   error        why the wanted version is not staged; null: it is
 *   install      the last installation: version, installed (boolean), text; null: there was none
 *   daemon       answers (boolean); if it does: version, draining, policy_error, rules, sessions, listeners,
 *                connections, handshakes; else error
 *   listeners    user (of /etc/passwd, or null), uid, address, port; the first ones that fit
 *   listeners_left_out
 *   refusals     rule ("file:line", or null for what no rule matches), rejected, busy; those with the largest numbers
 *   refusals_left_out
 *
 * report_finish() adds time (seconds since 1970), which alone is no reason to write it anew.
 */

#include <jansson.h>
#include <stdbool.h>

#include "settings.h"
#include "version.h"

#define REPORT_MAX (64 * 1024) /* bytes of the JSON */

/* The last installation, by root. */
struct report_install {
	char version[SITE_NAME_MAX + 1]; /* empty: there was none */
	bool is_installed; /* false: the version was refused */
	char text[4096]; /* what was printed, cut */
};

struct report_input {
	const char *host;
	const char (*labels)[SETTINGS_NAME_MAX + 1];
	size_t n_labels;
	unsigned period;
	const char *wanted, *staged, *error; /* NULL: none */
	const char *site; /* the directory in which versions are installed */
	const struct report_install *install;
};

/* Reads the file PATH that rdmabroker-fleet-install has written. Without a valid one, RET has no version. */
void report_read_install(struct report_install *ret, const char *path);

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
