/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/admin.h"
#include "common/reason.h"
#include "exposition.h"
#include "fetch.h"
#include "proto/text.h"

/*
 * The timeout of one request. The metrics of a large policy need several requests, for which the library allows six
 * times this timeout in all.
 */
#define CALL_MS 2000

/* Functions that the thread calls */

static void explain_failure(struct fetch *fetch, int r)
{
	const struct rdmabroker_failure *failure = rdmabroker_last_failure();
	bool is_denied = r == -EACCES || r == -EPERM;

	snprintf(fetch->reason, sizeof(fetch->reason), "%.600s%s%.200s%s%s%s%s",
		 reason_without_call(failure->text), failure->rule ? " (rule " : "",
		 failure->rule ?: "", failure->rule ? ")" : "",
		 is_denied ? "; to allow it, add the rule \"allow observe user " : "",
		 is_denied ? fetch->user : "", is_denied ? "\" to /etc/rdmabroker/policy.d" : "");
}

static int open_session(struct fetch *fetch)
{
	struct rdmabroker_options options = RDMABROKER_OPTIONS_INIT;

	options.socket = fetch->socket;
	options.flags = RDMABROKER_NO_POLL | RDMABROKER_AS_ADMIN;
	options.call_timeout_ms = CALL_MS;
	return rdmabroker_open(&options, &fetch->session);
}

static int get_text(struct fetch *fetch)
{
	int r = fetch->session ? 0 : open_session(fetch);

	if (r == 0)
		r = rdmabroker_get_metrics(fetch->session, &fetch->text);
	if (r < 0) {
		fetch->text = NULL;
		explain_failure(fetch, r);
	} else if (!exposition_is_whole(fetch->text)) {
		r = -EPROTO;
		free(fetch->text);
		fetch->text = NULL;
		text_copy(fetch->reason, sizeof(fetch->reason),
			  "the broker's metrics are incomplete");
	}
	return r;
}

static void ask_broker(struct job *job)
{
	struct fetch *fetch = (struct fetch *)job;
	bool is_old = fetch->session;
	int r;

	fetch->text = NULL;
	do {
		r = get_text(fetch);
		/*
		 * Close the session after a failure. The broker decides only when a session is opened what its user
		 * can do, so the next request needs a new session to profit from a new policy.
		 */
		if (r < 0)
			fetch->session = rdmabroker_close(fetch->session);
		/*
		 * -ECONNRESET in an old session: the broker was restarted, for example. Retry once in a new session.
		 */
	} while (r == -ECONNRESET && is_old && !(is_old = false));
}

/* Functions that the event loop's thread calls */

static void on_done(struct job *job)
{
	struct fetch *fetch = (struct fetch *)job;

	fetch->is_running = false;
	fetch->done(fetch->userdata, fetch->text, fetch->reason);
}

bool fetch_start(struct fetch *fetch)
{
	if (fetch->is_running || work_add(fetch->work, &fetch->job) < 0)
		return false;
	fetch->is_running = true;
	return true;
}

static void find_user(struct fetch *fetch)
{
	const struct passwd *user = getpwuid(geteuid());

	if (user)
		text_copy(fetch->user, sizeof(fetch->user), user->pw_name);
	else
		snprintf(fetch->user, sizeof(fetch->user), "%u", geteuid());
}

int fetch_init(struct fetch *fetch, sd_event *loop, const char *socket,
	       void (*done)(void *userdata, char *text, const char *reason), void *userdata)
{
	fetch->job = (struct job){ .run = ask_broker, .done = on_done };
	fetch->socket = socket;
	fetch->done = done;
	fetch->userdata = userdata;
	find_user(fetch);
	return work_new(&fetch->work, loop, /* n_threads= */ 1);
}

bool fetch_done(struct fetch *fetch)
{
	if (fetch->is_running)
		return false;
	work_free(fetch->work);
	rdmabroker_close(fetch->session);
	return true;
}
