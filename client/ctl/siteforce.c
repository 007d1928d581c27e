/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "newfile.h"
#include "output.h"
#include "siteforce.h"
#include "sitelog.h"

#define UNCONFIRMED ".unconfirmed"

/* The version that the link names. False: none. */
static bool get_current(const struct site *site, char ret[SITE_NAME_MAX + 1])
{
	char target[PATH_MAX];
	const char *name;
	ssize_t n = readlink(site_path(site, "current"), target, sizeof(target) - 1);

	if (n < 0)
		return false;
	target[n] = 0;
	name = strncmp(target, SITE_VERSIONS "/", 9) == 0 ? target + 9 : "";
	if (!site_is_name(name))
		return false;
	strcpy(ret, name);
	return true;
}

/* NAME NULL: no version. The link is replaced as a whole, so that there is no moment without one. */
static bool set_current(const struct site *site, const char *name)
{
	const char *path = site_path(site, "current"), *new = site_path(site, ".current.new");
	char target[SITE_NAME_MAX + 16];
	bool good;

	unlink(new);
	if (name) {
		snprintf(target, sizeof(target), SITE_VERSIONS "/%s", name);
		good = symlink(target, new) == 0 && rename(new, path) == 0;
	} else {
		good = unlink(path) == 0 || errno == ENOENT;
	}
	if (!good)
		complain("cannot replace %s: %m", path);
	return good;
}

bool siteforce_is_unconfirmed(const struct site *site)
{
	return access(site_path(site, UNCONFIRMED), F_OK) == 0;
}

bool siteforce_get(const struct site *site, char ret[SITE_NAME_MAX + 1])
{
	char text[NEWFILE_TEXT_MAX];

	if (!newfile_read(site->dir, UNCONFIRMED, text))
		return get_current(site, ret);
	if (!site_is_name(text) || access(site_path(site, SITE_VERSIONS "/%s", text), F_OK) < 0)
		return false;
	strcpy(ret, text);
	return true;
}

bool siteforce_mark_unconfirmed(const struct site *site)
{
	struct sitestate state = site->was;
	int r;

	if (siteforce_is_unconfirmed(site))
		return true;
	if (!siteforce_get(site, state.version))
		state.version[0] = 0;
	strcpy(state.wanted, site->wanted);
	strcpy(state.wanted_sha256, site->digest);
	strcpy(state.state, SITE_UNCONFIRMED);
	strcpy(state.code, CODE_DAEMON);
	strcpy(state.error, "the installation has not ended");
	state.since = time(NULL);
	r = sitestate_write(site->dir, &state);
	if (r == 0)
		r = newfile_print(site->dir, UNCONFIRMED, "%s", state.version);
	if (r < 0)
		complain("cannot write %s/" UNCONFIRMED ": %s", site->dir, strerror(-r));
	return r == 0;
}

static bool is_away(int r)
{
	return r == -ENOENT || r == -ECONNREFUSED;
}

enum answer {
	ANSWER_TAKEN,
	ANSWER_REFUSED,
	ANSWER_NONE, /* the daemon hangs, so it has not refused the version either */
	ANSWER_LATER, /* the daemon does not run, and reads the version at its start */
};

/* Lets the daemon read the version that is current now. An error was printed if it does not take it. */
static enum answer reload(const struct site *site)
{
	struct rdmabroker_reload_result *result;
	struct ctl *ctl = site->ctl;
	int r = ctl_connect(ctl, /* as_admin= */ true);
	enum answer answer = ANSWER_NONE;

	if (is_away(r))
		return ANSWER_LATER;
	if (r == 0)
		r = rdmabroker_reload(ctl->session, /* dry_run= */ false, &result);
	if (r < 0) {
		ctl_complain_failure(ctl, r);
	} else {
		answer = result->ok ? ANSWER_TAKEN : ANSWER_REFUSED;
		for (size_t i = 0; i < result->n_complaints; i++) {
			fprintf(stderr, "%s\n", escaped(result->complaints[i]));
			remember_error(result->complaints[i]);
		}
		rdmabroker_free(result);
	}
	ctl->session = rdmabroker_close(ctl->session);
	return answer;
}

/* Whether the daemon has what the link names, as far as can be told. One that does not run reads it at its start. */
static bool is_confirmed(const struct site *site)
{
	struct rdmabroker_status *status;
	struct ctl *ctl = site->ctl;
	bool good = false;
	int r = ctl_connect(ctl, /* as_admin= */ true);

	if (r < 0)
		return is_away(r);
	if (!siteforce_is_unconfirmed(site)) {
		r = rdmabroker_get_status(ctl->session, &status);
		good = r == 0 && !status->policy_error;
		if (r == 0)
			rdmabroker_free(status);
	}
	ctl->session = rdmabroker_close(ctl->session);
	return good;
}

/* The daemon did not take WANTED, which is current now. HANGS: it has not refused it either. Returns the exit status. */
static int go_back(struct site *site, bool hangs)
{
	const char *name = site->wanted, *was = site->result.previous;
	int status = site_fail(site, CODE_DAEMON, hangs ? EXIT_LATER : EXIT_FAILURE);

	site->result.changed = false;
	if (was && strcmp(was, name) == 0) {
		complain("the daemon cannot reload version %s", name);
		return status;
	}
	if (set_current(site, was) && reload(site) == ANSWER_TAKEN)
		unlink(site_path(site, UNCONFIRMED));
	complain("version %s is %s; %s%s", name, hangs ? "not in force" : "refused",
		 was ? "in force is still version " : "no version is in force", was ?: "");
	return status;
}

int siteforce_put(struct site *site, bool is_new)
{
	struct site_result *result = &site->result;
	char current[SITE_NAME_MAX + 1];
	enum answer answer;
	int r;

	if (siteforce_get(site, site->previous))
		result->previous = site->previous;
	result->changed = is_new || !get_current(site, current) ||
			  strcmp(current, site->wanted) != 0 || !is_confirmed(site);
	if (!result->changed || site->dry_run)
		return EXIT_SUCCESS;
	site->was_checked = true;
	if (!siteforce_mark_unconfirmed(site) || !set_current(site, site->wanted))
		return site_fail(site, CODE_HOST, EXIT_LATER);
	answer = reload(site);
	if (answer == ANSWER_REFUSED || answer == ANSWER_NONE)
		return go_back(site, /* hangs= */ answer == ANSWER_NONE);
	result->reloaded = answer == ANSWER_TAKEN;
	/* It is logged twice, rather than never, if this process is killed now. */
	r = sitelog_add(site->dir, site->has_drifted ? "put back" : site->action, result->version,
			result->previous, site->by);
	if (r < 0) {
		complain("cannot write %s/" SITELOG_FILE ": %s", site->dir, strerror(-r));
		return site_fail(site, CODE_HOST, EXIT_LATER);
	}
	if (result->reloaded)
		unlink(site_path(site, UNCONFIRMED));
	return EXIT_SUCCESS;
}
