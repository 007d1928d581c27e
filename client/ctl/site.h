/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* What the files of `site` share; see site.c. */

#include <stdbool.h>

#include "ctl.h"
#include "sitestate.h"

#define SITE_VERSIONS "versions"

/* What an action has done, or would do. */
struct site_result {
	const char *version, *previous; /* PREVIOUS: that the daemon had before; NULL: none */
	bool changed, reloaded;
	const char *state, *code, *error; /* as in struct sitestate; NULL: none */
};

struct site {
	struct ctl *ctl;
	const char *dir;
	bool dry_run;
	struct sitestate was; /* before the action */
	char wanted[SITE_NAME_MAX + 1]; /* the version that the action is about; empty: none */
	char digest[SHA256_TEXT]; /* of WANTED; empty: it was not read */
	char host[SHA256_TEXT]; /* see sitecheck_digest_host(); empty: not known */
	bool was_checked; /* rdmabrokerd --check was run, or the daemon has read the version */
	const char *action, *by; /* for the log; BY NULL: the user who runs this program */
	bool keeps_state; /* the action has found out nothing new about what is wanted */
	bool has_drifted; /* the files of WANTED were edited, and are put back */
	const char *code; /* why the action has failed: CODE_*; NULL: it has not */
	char previous[SITE_NAME_MAX + 1]; /* of RESULT */
	struct site_result result;
};

/* The path of a file in the directory of the versions. Good for the next 7 calls. */
__attribute__((format(printf, 2, 3))) const char *site_path(const struct site *site,
							    const char *fmt, ...);
/* The action has failed because of CODE. Returns STATUS. */
int site_fail(struct site *site, const char *code, int status);

/* Why the version that is wanted is not in force. They are in the state, and labels of metrics. */
#define CODE_OK "ok"
#define CODE_CONTENT "content" /* what was given is no version */
#define CODE_NAME "name" /* a version of this name has other contents */
#define CODE_RULES "rules" /* the check of this host has failed: rules or tests */
#define CODE_DAEMON "daemon" /* the daemon has refused it, or does not answer, or does not run */
#define CODE_HOST "host" /* this host cannot do it now: no space, no check, out of descriptors */
#define CODE_HELD "held" /* an admin of this host holds the version in force */
