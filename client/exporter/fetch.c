/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <pthread.h>
#include <pwd.h>
#include <rdmabroker-admin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/reason.h"
#include "exposition.h"
#include "fetch.h"

/*
 * The timeout of one request. The metrics of a large policy need several requests, for which the library allows six
 * times this timeout in all.
 */
#define CALL_MS 2000

struct fetch {
	const char *socket;
	void (*done)(void *userdata, struct fetched *fetched);
	void *userdata;
	int notice; /* an eventfd, readable when the thread has a result */
	sd_event_source *source;
	char user
		[64]; /* name or uid of the exporter's user, for the rule that an error message suggests */

	struct rdmabroker *session; /* used only by the thread; NULL: none is open */

	pthread_t thread;
	pthread_mutex_t lock; /* guards the members below */
	pthread_cond_t cond;
	bool is_wanted; /* a fetch was begun, and its result was not taken yet */
	bool is_running; /* the thread is fetching, or has to begin a fetch */
	bool is_ending;
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
		snprintf(fetched->reason, sizeof(fetched->reason), "%s", text);
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

static void ask_broker(struct fetch *fetch, struct fetched *ret)
{
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

static void *run(void *userdata)
{
	struct fetch *fetch = userdata;
	struct fetched fetched;

	pthread_mutex_lock(&fetch->lock);
	for (;;) {
		while (!fetch->is_ending && !fetch->is_running)
			pthread_cond_wait(&fetch->cond, &fetch->lock);
		if (fetch->is_ending)
			break;
		pthread_mutex_unlock(&fetch->lock);
		ask_broker(fetch, &fetched);
		pthread_mutex_lock(&fetch->lock);
		fetch->fetched = fetched;
		fetch->is_running = false;
		eventfd_write(fetch->notice, 1);
	}
	pthread_mutex_unlock(&fetch->lock);
	rdmabroker_close(fetch->session);
	return NULL;
}

/* Functions that the event loop's thread calls */

static int on_notice(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct fetch *fetch = userdata;
	struct fetched fetched;
	eventfd_t n;

	(void)source;
	(void)events;
	eventfd_read(fd, &n);
	pthread_mutex_lock(&fetch->lock);
	fetched = fetch->fetched;
	fetch->is_wanted = false;
	pthread_mutex_unlock(&fetch->lock);
	fetch->done(fetch->userdata, &fetched);
	return 0;
}

bool fetch_start(struct fetch *fetch)
{
	bool begins;

	pthread_mutex_lock(&fetch->lock);
	begins = !fetch->is_wanted;
	if (begins) {
		fetch->is_wanted = fetch->is_running = true;
		pthread_cond_signal(&fetch->cond);
	}
	pthread_mutex_unlock(&fetch->lock);
	return begins;
}

static void find_user(struct fetch *fetch)
{
	const struct passwd *user = getpwuid(geteuid());

	if (user)
		snprintf(fetch->user, sizeof(fetch->user), "%s", user->pw_name);
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
	fetch->socket = socket;
	fetch->done = done;
	fetch->userdata = userdata;
	find_user(fetch);
	pthread_mutex_init(&fetch->lock, NULL);
	pthread_cond_init(&fetch->cond, NULL);
	fetch->notice = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = fetch->notice < 0 ? -errno : 0;
	if (r == 0)
		r = sd_event_add_io(loop, &fetch->source, fetch->notice, EPOLLIN, on_notice, fetch);
	if (r >= 0)
		r = -pthread_create(&fetch->thread, NULL, run, fetch);
	if (r < 0) {
		sd_event_source_disable_unref(fetch->source);
		if (fetch->notice >= 0)
			close(fetch->notice);
		free(fetch);
		return r;
	}
	*ret = fetch;
	return 0;
}

bool fetch_free(struct fetch *fetch)
{
	bool is_running;

	if (!fetch)
		return true;
	sd_event_source_disable_unref(fetch->source);
	pthread_mutex_lock(&fetch->lock);
	is_running = fetch->is_running;
	fetch->is_ending = true;
	pthread_cond_signal(&fetch->cond);
	pthread_mutex_unlock(&fetch->lock);
	if (is_running)
		return false;
	pthread_join(fetch->thread, NULL);
	if (fetch->is_wanted)
		free(fetch->fetched.text);
	close(fetch->notice);
	pthread_cond_destroy(&fetch->cond);
	pthread_mutex_destroy(&fetch->lock);
	free(fetch);
	return true;
}
