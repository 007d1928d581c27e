/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

/* If memory runs out, uthash does not add an element, and sets the element's hh.tbl to NULL. */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "asker.h"
#include "exchange.h"
#include "proto/addr.h"
#include "proto/clock.h"
#include "queue.h"

/* Another host, while something is asked. An address of this host belongs to it. */
struct host {
	struct exchange_ends ends;
	struct queue waiting;
	unsigned n_talks;
	bool is_queued; /* in asker.queued */
	struct host *prev, *next; /* asker.queued */
	UT_hash_handle hh;
};

/* A user who has talks. A talk can have questions for several users; it counts for the user of its first one. */
struct user {
	uid_t uid;
	unsigned n_talks;
	UT_hash_handle hh;
};

/* An exchange of messages with a host that goes on, and the questions in its message. */
struct talk {
	struct asker *asker;
	struct host *host;
	struct user *user;
	struct ask *asks[QUESTIONS_MAX];
	size_t n;
	struct exchange *exchange;
	struct talk *prev, *next; /* asker.talks */
};

struct asker {
	struct exchange_tools tools;
	uint16_t port; /* of the helper on other hosts */
	struct brokerlink *link;
	struct host *hosts; /* a uthash table, by ends */
	struct user *users; /* a uthash table, by uid */
	/* hosts with questions for which no talk could begin: there are too many talks, or their users have too many */
	struct host *queued;
	struct talk *talks;
	unsigned n_talks;
};

/* ---- hosts ---- */

/* Makes RET of FROM, with PORT. An address of IPv4 that is mapped to IPv6 becomes one of IPv4. */
static void set_address(struct sockaddr_storage *ret, const struct sockaddr *from, uint16_t port)
{
	char host[64];

	addr_parse(ret, message_address(from, host), port);
	if (ret->ss_family == AF_INET6)
		((struct sockaddr_in6 *)ret)->sin6_scope_id =
			((const struct sockaddr_in6 *)from)->sin6_scope_id;
}

/* NULL: out of memory. */
static struct host *get_host(struct asker *asker, const struct sockaddr *local,
			     const struct sockaddr *peer)
{
	struct exchange_ends ends;
	struct host *host;

	set_address(&ends.local, local, 0);
	set_address(&ends.peer, peer, asker->port);
	HASH_FIND(hh, asker->hosts, &ends, sizeof(ends), host);
	if (host)
		return host;
	host = calloc(1, sizeof(*host));
	if (!host)
		return NULL;
	host->ends = ends;
	HASH_ADD(hh, asker->hosts, ends, sizeof(ends), host);
	if (host->hh.tbl)
		return host;
	free(host);
	return NULL;
}

/* Frees HOST if there is nothing to ask it any more. */
static void put_host(struct asker *asker, struct host *host)
{
	if (host->waiting.turns || host->n_talks > 0)
		return;
	if (host->is_queued)
		DL_DELETE(asker->queued, host);
	HASH_DEL(asker->hosts, host);
	free(host);
}

/* ---- users ---- */

static struct user *find_user(const struct asker *asker, uid_t uid)
{
	struct user *user;

	HASH_FIND(hh, asker->users, &uid, sizeof(uid), user);
	return user;
}

/* NULL: out of memory. */
static struct user *get_user(struct asker *asker, uid_t uid)
{
	struct user *user = find_user(asker, uid);

	if (user)
		return user;
	user = calloc(1, sizeof(*user));
	if (!user)
		return NULL;
	user->uid = uid;
	HASH_ADD(hh, asker->users, uid, sizeof(user->uid), user);
	if (user->hh.tbl)
		return user;
	free(user);
	return NULL;
}

static void put_user(struct asker *asker, struct user *user)
{
	if (user->n_talks > 0)
		return;
	HASH_DEL(asker->users, user);
	free(user);
}

/* ---- answers for the broker ---- */

/* Frees ASK. WHO NULL: it is not known, because of WHY. */
static void answer(struct asker *asker, struct ask *ask, const struct rdmabroker_who *who,
		   const char *why)
{
	brokerlink_answer(asker->link, ask->number, who, why);
	free(ask);
}

/* Answers the questions that wait for HOST. */
static void answer_waiting(struct asker *asker, struct host *host, const char *why)
{
	struct ask *ask;

	while ((ask = queue_take(&host->waiting)))
		answer(asker, ask, /* who= */ NULL, why);
}

/* Answers the questions that have waited for too long. */
static void answer_late(struct asker *asker, struct host *host)
{
	int64_t now = now_ms();
	struct ask *late;

	while ((late = queue_take_late(&host->waiting, now)))
		answer(asker, late, /* who= */ NULL, "too many peers are being asked already");
}

static void answer_known(struct talk *talk, const struct answers *answers)
{
	char to[64];

	message_address((struct sockaddr *)&talk->host->ends.peer, to);
	for (size_t i = 0; i < talk->n; i++) {
		const struct answer *one = &answers->list[i];
		char why[EXCHANGE_WHY_MAX] = "";

		if (one->unknown)
			snprintf(why, sizeof(why), "%s says: %s", to, one->unknown);
		answer(talk->asker, talk->asks[i], one->unknown ? NULL : &one->who, why);
	}
}

/* The other host does not answer, so those that wait for it are not asked. */
static void answer_unknown(struct talk *talk, const char *why)
{
	for (size_t i = 0; i < talk->n; i++)
		answer(talk->asker, talk->asks[i], /* who= */ NULL, why);
	answer_waiting(talk->asker, talk->host, why);
}

/* ---- talks ---- */

static void on_exchange(void *userdata, const struct answers *answers, const char *why);

/* Its questions were answered. */
static void talk_free(struct talk *talk)
{
	struct asker *asker = talk->asker;

	exchange_free(talk->exchange);
	DL_DELETE(asker->talks, talk);
	asker->n_talks--;
	talk->host->n_talks--;
	talk->user->n_talks--;
	put_user(asker, talk->user);
	free(talk);
}

/* For the questions that wait for HOST, up to QUESTIONS_MAX. NULL: out of memory. */
static struct talk *talk_new(struct asker *asker, struct host *host)
{
	struct ask *first = queue_take(&host->waiting);
	struct user *user = get_user(asker, first->uid);
	struct talk *talk = user ? calloc(1, sizeof(*talk)) : NULL;

	if (!talk) {
		if (user)
			put_user(asker, user);
		answer(asker, first, /* who= */ NULL, "out of memory");
		return NULL;
	}
	talk->asker = asker;
	talk->host = host;
	talk->user = user;
	user->n_talks++;
	host->n_talks++;
	asker->n_talks++;
	DL_APPEND(asker->talks, talk);
	for (struct ask *ask = first; ask; ask = queue_take(&host->waiting)) {
		talk->asks[talk->n++] = ask;
		if (talk->n == QUESTIONS_MAX)
			break;
	}
	return talk;
}

/* The talk lasts until its newest question is due: an old one must not end it for those of other users. */
static int start(struct talk *talk)
{
	struct question questions[QUESTIONS_MAX];
	int64_t until_ms = 0;

	for (size_t i = 0; i < talk->n; i++) {
		questions[i] = talk->asks[i]->question;
		if (talk->asks[i]->until_ms > until_ms)
			until_ms = talk->asks[i]->until_ms;
	}
	return exchange_new(&talk->exchange, &talk->asker->tools, &talk->host->ends, questions,
			    talk->n, until_ms, on_exchange, talk);
}

static bool may_talk(void *userdata, uid_t uid)
{
	const struct user *user = find_user(userdata, uid);

	return !user || user->n_talks < ASKER_EXCHANGES_OF_USER_MAX;
}

/* Whether there can be another talk with HOST. If so, it is for the user whose turn it is. */
static bool has_room(struct asker *asker, struct host *host)
{
	return asker->n_talks < ASKER_EXCHANGES_MAX &&
	       queue_choose(&host->waiting, may_talk, asker);
}

/* Begins talks for the questions that wait for HOST. The caller then calls put_host(). */
static void start_talks(struct asker *asker, struct host *host)
{
	struct talk *talk;

	answer_late(asker, host);
	while (host->waiting.turns && host->n_talks < ASKER_EXCHANGES_OF_HOST_MAX) {
		if (!has_room(asker, host)) {
			if (!host->is_queued)
				DL_APPEND(asker->queued, host);
			host->is_queued = true;
			return;
		}
		talk = talk_new(asker, host);
		if (!talk) {
			answer_waiting(asker, host, "out of memory");
			return;
		}
		if (start(talk) < 0) {
			answer_unknown(talk, "too many peers are being asked already");
			talk_free(talk);
		}
	}
}

static void start_queued(struct asker *asker)
{
	struct host *host, *next;

	DL_FOREACH_SAFE(asker->queued, host, next) {
		if (asker->n_talks >= ASKER_EXCHANGES_MAX)
			break;
		answer_late(asker, host);
		if (host->waiting.turns && !has_room(asker, host))
			continue;
		DL_DELETE(asker->queued, host);
		host->is_queued = false;
		start_talks(asker, host);
		put_host(asker, host);
	}
}

static void on_exchange(void *userdata, const struct answers *answers, const char *why)
{
	struct talk *talk = userdata;
	struct asker *asker = talk->asker;
	struct host *host = talk->host;

	if (answers)
		answer_known(talk, answers);
	else
		answer_unknown(talk, why);
	talk_free(talk);
	start_talks(asker, host);
	put_host(asker, host);
	start_queued(asker);
}

void asker_ask(void *userdata, const struct rdmabroker_notice *notice)
{
	const struct sockaddr *local = (const struct sockaddr *)&notice->local;
	const struct sockaddr *peer = (const struct sockaddr *)&notice->peer;
	struct asker *asker = userdata;
	struct ask *ask = calloc(1, sizeof(*ask));
	struct host *host;

	if (!ask)
		return; /* the broker's deadline ends the wait */
	ask->number = notice->question;
	ask->until_ms = now_ms() + ASKER_MS;
	ask->uid = notice->who.uid;
	ask->question =
		(struct question){ .listens = strcmp(notice->operation ?: "", "connect") == 0,
				   .ps = notice->ps,
				   .port = addr_port(peer),
				   .peer_port = addr_port(local),
				   .qpn = notice->peer_qp_num };
	if (addr_len(local) == 0 || local->sa_family != peer->sa_family) {
		answer(asker, ask, /* who= */ NULL, "the peer has no IP address");
		return;
	}
	host = get_host(asker, local, peer);
	if (!host || queue_add(&host->waiting, ask) < 0)
		answer(asker, ask, /* who= */ NULL, "out of memory");
	else
		start_talks(asker, host);
	if (host)
		put_host(asker, host);
}

int asker_new(struct asker **ret, sd_event *loop, uint16_t port, const struct seal *seal,
	      struct work *work)
{
	struct asker *asker = calloc(1, sizeof(*asker));

	if (!asker)
		return -ENOMEM;
	asker->tools.loop = loop;
	asker->tools.seal = seal;
	asker->tools.work = work;
	asker->port = port;
	*ret = asker;
	return 0;
}

void asker_set_link(struct asker *asker, struct brokerlink *link)
{
	asker->link = link;
}

struct asker *asker_free(struct asker *asker)
{
	struct host *host, *next_host;
	struct talk *talk, *next_talk;

	if (!asker)
		return NULL;
	DL_FOREACH_SAFE(asker->talks, talk, next_talk) {
		for (size_t i = 0; i < talk->n; i++)
			free(talk->asks[i]);
		talk_free(talk);
	}
	HASH_ITER(hh, asker->hosts, host, next_host)
	{
		struct ask *ask;

		while ((ask = queue_take(&host->waiting)))
			free(ask);
		HASH_DEL(asker->hosts, host);
		free(host);
	}
	kept_close(&asker->tools.kept, /* ends= */ NULL);
	free(asker);
	return NULL;
}
