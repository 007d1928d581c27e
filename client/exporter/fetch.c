/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/admin.h"
#include "common/reason.h"
#include "common/work.h"
#include "exposition.h"
#include "fetch.h"
#include "proto/text.h"

/*
 * The timeout of one request. The metrics of a large policy need several requests, for which the library allows six
 * times this timeout in all.
 */
#define CALL_MS 2000

struct fetch {
	struct job job;
	struct work *work;
	const char *socket;
	void (*done)(void *userdata, struct fetched *fetched);
	void *userdata;
	char user
		[64]; /* name or uid of the exporter's user, for the rule that an error message suggests */
	bool is_running; /* a fetch was begun, and DONE was not called yet */

	/* While it runs, these are the thread's: */
	struct rdmabroker *session; /* NULL: none is open */
	struct fetched fetched;
};

/* Functions that the thread calls */

static void explain(const struct fetch *fetch, struct fetched *fetched, int r, const char *text)
{
	if (r == -EACCES || r == -EPERM)
		snprintf(
			fetched->reason, sizeof(fetched->reason),
			"%s; to allow it, add the rule \"allow observe user %s\" to /etc/rdmabroker/policy.d",
			text, fetch->user);
	else
		text_copy(fetched->reason, sizeof(fetched->reason), text);
}

static void explain_failure(const struct fetch *fetch, struct fetched *fetched, int r)
{
	const struct rdmabroker_failure *failure = rdmabroker_last_failure();
	char text[800];

	snprintf(text, sizeof(text), "%s%s%s%s", reason_without_call(failure->text),
		 failure->rule ? " (rule " : "", failure->rule ?: "", failure->rule ? ")" : "");
	explain(fetch, fetched, r, text);
}

static int open_session(struct fetch *fetch, struct fetched *ret)
{
	struct rdmabroker_options options = RDMABROKER_OPTIONS_INIT;
	int r;

	options.socket = fetch->socket;
	options.flags = RDMABROKER_NO_POLL | RDMABROKER_AS_ADMIN;
	options.call_timeout_ms = CALL_MS;
	r = rdmabroker_open(&options, &fetch->session);
	if (r < 0)
		explain_failure(fetch, ret, r);
	return r;
}

static int get_text(struct fetch *fetch, struct fetched *ret)
{
	int r = rdmabroker_get_metrics(fetch->session, &ret->text);

	if (r < 0) {
		ret->text = NULL;
		explain_failure(fetch, ret, r);
	} else if (!exposition_is_whole(ret->text)) {
		r = -EPROTO;
		free(ret->text);
		ret->text = NULL;
		explain(fetch, ret, r, "the broker's metrics are incomplete");
	}
	return r;
}

static void ask_broker(struct job *job)
{
	struct fetch *fetch = (struct fetch *)job;
	struct fetched *ret = &fetch->fetched;
	bool is_old = fetch->session;
	int r;

	*ret = (struct fetched){};
	do {
		if (!fetch->session && open_session(fetch, ret) < 0)
			return;
		r = get_text(fetch, ret);
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
	fetch->done(fetch->userdata, &fetch->fetched);
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

int fetch_new(struct fetch **ret, sd_event *loop, const char *socket,
	      void (*done)(void *userdata, struct fetched *fetched), void *userdata)
{
	struct fetch *fetch = calloc(1, sizeof(*fetch));
	int r;

	if (!fetch)
		return -ENOMEM;
	fetch->job = (struct job){ .run = ask_broker, .done = on_done };
	fetch->socket = socket;
	fetch->done = done;
	fetch->userdata = userdata;
	find_user(fetch);
	r = work_new(&fetch->work, loop, /* n_threads= */ 1);
	if (r < 0) {
		free(fetch);
		return r;
	}
	*ret = fetch;
	return 0;
}

bool fetch_free(struct fetch *fetch)
{
	if (!fetch)
		return true;
	if (fetch->is_running)
		return false;
	work_free(fetch->work);
	rdmabroker_close(fetch->session);
	free(fetch);
	return true;
}
