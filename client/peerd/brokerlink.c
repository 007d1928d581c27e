/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "brokerlink.h"
#include "common/log.h"
#include "common/reason.h"
#include "proto/addr.h"
#include "proto/clock.h"
#include "proto/notifier.h"
#include "proto/text.h"
#include "proto/timer.h"

#define CALL_MS 1000
#define RETRY_MIN_MS 250
#define RETRY_MAX_MS 1000
#define STEADY_MS 10000 /* sessions that last longer are no failure */

struct sessions {
	struct job job; /* a thread opens them */
	struct brokerlink *link;
	bool has_run;
	struct rdmabroker *serving, *finding; /* NULL: it has failed */
	char error[200];
	/* The link, and the threads that use FINDING: the last one closes it. */
	unsigned n_refs;
};

struct brokerlink {
	sd_event *loop;
	struct notifier *notifier;
	struct work *work;
	const char *socket;
	brokerlink_asked *asked;
	void *userdata;
	sd_event_source *serving_io, *finding_io;
	sd_event_source *timer; /* to open the sessions again */
	uint64_t retry_ms; /* doubled with each failure */
	int64_t opened_ms; /* when SESSIONS were opened */
	bool has_complained;
	pthread_mutex_t lock; /* of SESSIONS, and of their references */
	struct sessions *sessions; /* NULL: lost */
};

/* For a thread. NULL: there are none. */
static struct sessions *get_sessions(struct brokerlink *link)
{
	struct sessions *sessions;

	pthread_mutex_lock(&link->lock);
	sessions = link->sessions;
	if (sessions)
		sessions->n_refs++;
	pthread_mutex_unlock(&link->lock);
	return sessions;
}

static void put_sessions(struct sessions *sessions)
{
	bool is_last;

	pthread_mutex_lock(&sessions->link->lock);
	is_last = --sessions->n_refs == 0;
	pthread_mutex_unlock(&sessions->link->lock);
	if (!is_last)
		return;
	rdmabroker_close(sessions->finding);
	free(sessions);
}

static void set_sessions(struct brokerlink *link, struct sessions *sessions)
{
	pthread_mutex_lock(&link->lock);
	link->sessions = sessions;
	pthread_mutex_unlock(&link->lock);
}

static void close_sessions(struct brokerlink *link)
{
	struct sessions *sessions = link->sessions;

	link->serving_io = sd_event_source_disable_unref(link->serving_io);
	link->finding_io = sd_event_source_disable_unref(link->finding_io);
	if (!sessions)
		return;
	set_sessions(link, NULL);
	rdmabroker_close(sessions->serving);
	put_sessions(sessions);
}

/*
 * Two helpers of one broker end each other's sessions. So it is tried again at once only after sessions that have lasted.
 */
static void try_again_later(struct brokerlink *link)
{
	if (link->opened_ms > 0 && now_ms() - link->opened_ms > STEADY_MS)
		link->retry_ms = RETRY_MIN_MS;
	link->opened_ms = 0;
	close_sessions(link);
	timer_start(link->timer, link->retry_ms * 1000);
	if (link->retry_ms < RETRY_MAX_MS)
		link->retry_ms *= 2;
}

static void on_end(struct brokerlink *link, const char *why)
{
	log_line(LOG_WARNING, "The session with rdmabrokerd has ended: %s.", why);
	try_again_later(link);
}

static int on_serving_io(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct brokerlink *link = userdata;
	struct rdmabroker_notice *notice;
	int r = -EAGAIN;

	/* The session also ends when an answer has failed. */
	while (link->sessions &&
	       (r = rdmabroker_get_notice(link->sessions->serving, 0, &notice)) == 0) {
		if (strcmp(notice->kind, "question") == 0)
			link->asked(link->userdata, notice);
		rdmabroker_free(notice);
	}
	if (link->sessions && r != -EAGAIN)
		on_end(link, reason_without_call(rdmabroker_last_failure()->text));
	return 0;
}

/* This session has no ids, so its only event is that it has ended. What else comes is a reply that is too late. */
static int on_finding_io(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct brokerlink *link = userdata;
	struct rdmabroker_event *event = NULL;
	int r;

	r = rdmabroker_get_event(link->sessions->finding, 0, &event);
	if (r == -EAGAIN)
		return 0;
	if (r == 0)
		rdmabroker_free_event(event);
	on_end(link, "the connection to the broker is lost");
	return 0;
}

static struct rdmabroker *open_session(const struct brokerlink *link)
{
	const struct rdmabroker_options options = { .size = sizeof(options),
						    .socket = link->socket,
						    .flags = RDMABROKER_AS_HELPER,
						    .call_timeout_ms = CALL_MS };
	struct rdmabroker *session = NULL;

	return rdmabroker_open(&options, &session) == 0 ? session : NULL;
}

/* In a thread: a broker that hangs lets each call wait. */
static void run_opening(struct job *job)
{
	struct sessions *sessions = (struct sessions *)job;

	sessions->has_run = true;
	sessions->serving = open_session(sessions->link);
	if (sessions->serving && rdmabroker_serve_peers(sessions->serving) == 0)
		sessions->finding = open_session(sessions->link);
	if (!sessions->finding)
		text_copy(sessions->error, sizeof(sessions->error),
			  reason_without_call(rdmabroker_last_failure()->text));
}

/* Returns 0 or a negative errno. */
static int watch(struct brokerlink *link)
{
	int r = sd_event_add_io(link->loop, &link->serving_io,
				rdmabroker_get_fd(link->sessions->serving), EPOLLIN, on_serving_io,
				link);

	if (r >= 0)
		r = sd_event_add_io(link->loop, &link->finding_io,
				    rdmabroker_get_fd(link->sessions->finding), EPOLLIN,
				    on_finding_io, link);
	return r < 0 ? r : 0;
}

static void done_opening(struct job *job)
{
	struct sessions *sessions = (struct sessions *)job;
	struct brokerlink *link = sessions->link;
	int r;

	if (sessions->finding) {
		set_sessions(link, sessions);
		r = watch(link);
		if (r == 0) {
			link->has_complained = false;
			link->opened_ms = now_ms();
			log_line(LOG_INFO, "rdmabrokerd gives its questions to this process.");
			notifier_tell(link->notifier, "STATUS=Connected to rdmabrokerd");
			return;
		}
		text_copy(sessions->error, sizeof(sessions->error), strerror(-r));
	}
	/* Otherwise the program ends. */
	if (sessions->has_run && !link->has_complained) {
		log_line(LOG_WARNING, "Cannot serve rdmabrokerd: %s. It is tried again.",
			 sessions->error);
		notifier_tell(link->notifier, "STATUS=Waiting for rdmabrokerd");
		link->has_complained = true;
	}
	if (!link->sessions) {
		rdmabroker_close(sessions->serving);
		free(sessions);
	}
	try_again_later(link);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct brokerlink *link = userdata;
	struct sessions *sessions = calloc(1, sizeof(*sessions));

	if (sessions)
		*sessions = (struct sessions){ .job = { .run = run_opening, .done = done_opening },
					       .link = link,
					       .n_refs = 1 };
	if (!sessions || work_add(link->work, &sessions->job) < 0) {
		free(sessions);
		try_again_later(link);
	}
	return 0;
}

int brokerlink_new(struct brokerlink **ret, sd_event *loop, struct notifier *notifier,
		   struct work *work, const char *socket, brokerlink_asked *asked, void *userdata)
{
	struct brokerlink *link = calloc(1, sizeof(*link));
	int r;

	if (!link)
		return -ENOMEM;
	link->loop = loop;
	link->notifier = notifier;
	link->work = work;
	link->socket = socket;
	link->retry_ms = RETRY_MIN_MS;
	link->asked = asked;
	link->userdata = userdata;
	pthread_mutex_init(&link->lock, NULL);
	r = timer_new(&link->timer, loop, 1, on_timer, link);
	if (r == 0)
		r = timer_start(link->timer, 0);
	if (r < 0) {
		brokerlink_free(link);
		return r;
	}
	*ret = link;
	return 0;
}

struct brokerlink *brokerlink_free(struct brokerlink *link)
{
	if (!link)
		return NULL;
	close_sessions(link);
	sd_event_source_disable_unref(link->timer);
	pthread_mutex_destroy(&link->lock);
	free(link);
	return NULL;
}

void brokerlink_answer(struct brokerlink *link, uint64_t number, const struct rdmabroker_who *who,
		       const char *why)
{
	int r = link->sessions ? rdmabroker_answer_peer(link->sessions->serving, number, who, why) :
				 0;

	if (r == 0 || r == -EBADF)
		return;
	log_line(LOG_WARNING, "Cannot answer rdmabrokerd: %s.",
		 reason_without_call(rdmabroker_last_failure()->text));
	/* If the broker hangs, each further answer would wait, too. Nobody else is served meanwhile. */
	if (r == -ETIMEDOUT)
		try_again_later(link);
}

json_t *brokerlink_find(struct brokerlink *link, const struct message_head *head,
			const struct question *question, bool *hangs)
{
	struct sockaddr_storage local, peer;
	const struct rdmabroker_peer_address address = {
		.listens = question->listens,
		.ps = (enum rdmabroker_port_space)question->ps,
		.local = (struct sockaddr *)&local,
		.peer = question->listens ? NULL : (struct sockaddr *)&peer,
		.qp_num = question->qpn,
	};
	struct rdmabroker_who *who = NULL;
	struct sessions *sessions;
	json_t *answer;
	int r = -ENOTCONN;

	if (!addr_parse(&local, head->to, question->port) ||
	    !addr_parse(&peer, head->from, question->peer_port))
		return message_new_unknown("the addresses are not valid");
	sessions = *hangs ? NULL : get_sessions(link);
	if (sessions) {
		r = rdmabroker_find_peer(sessions->finding, &address, &who);
		put_sessions(sessions);
	}
	*hangs = *hangs || r == -ETIMEDOUT;
	if (r == -EBADF)
		return message_new_unknown("no program of rdmabrokerd has this address there");
	if (r < 0)
		return message_new_unknown("rdmabrokerd does not answer there");
	answer = message_new_answer(who);
	rdmabroker_free(who);
	return answer;
}
