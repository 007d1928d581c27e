/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "converge.h"
#include "proto/text.h"

#define PAUSE_FIRST_MS 1000
#define PAUSE_MAX_MS (5 * 60 * 1000)
#define REFUSED_MS (60 * 60 * 1000) /* then the host may have been corrected */
#define SOURCE_MS (5 * 60 * 1000) /* the agent watches the manifest, but not the files */
#define ANSWER_MS (90 * 1000) /* root's part answers within this time: a check takes up to 60 s */

const char *const converge_names[] = {
	[CONVERGE_NONE] = "none",         [CONVERGE_WAITING] = "waiting",
	[CONVERGE_IN_FORCE] = "in-force", [CONVERGE_TRYING] = "trying",
	[CONVERGE_REFUSED] = "refused",   [CONVERGE_HELD] = "held",
};

void converge_init(struct converge *converge)
{
	*converge = (struct converge){
		.next_ms = INT64_MAX,
		.host_pause = { .first_ms = PAUSE_FIRST_MS, .max_ms = PAUSE_MAX_MS },
	};
}

/* Nothing has failed yet. */
static void forget_failures(struct converge *converge)
{
	*converge->why = 0;
	converge->since_s = 0;
	converge->n_failed = 0;
	converge->is_asked = false;
	backoff_reset(&converge->etcd_pause);
	backoff_reset(&converge->host_pause);
}

static void rest(struct converge *converge, enum converge_state state)
{
	converge->state = state;
	converge->next_ms = INT64_MAX;
	forget_failures(converge);
}

bool converge_has_failed(const struct converge *converge)
{
	return converge->state == CONVERGE_TRYING || converge->state == CONVERGE_REFUSED;
}

/* The wanted version is not in force, and nobody holds another one. */
static enum converge_action proceed(struct converge *converge, const struct converge_facts *facts,
				    int64_t now_ms)
{
	/* The failure is shown until the next attempt has ended. */
	if (!converge_has_failed(converge))
		converge->state = CONVERGE_WAITING;
	if (now_ms < converge->next_ms && (converge->is_asked || converge_has_failed(converge)))
		return CONVERGE_REST;
	if (converge->is_asked) {
		converge_fail(converge, CONVERGE_HOST,
			      "root's part gives no result; see \"systemctl status "
			      "rdmabroker-fleet-install.path rdmabroker-fleet-install.service\"",
			      now_ms);
		/* Perhaps systemd has missed the change of the file. */
		return CONVERGE_INSTALL;
	}
	if (converge->must_take || converge_has_failed(converge) ||
	    strcmp(facts->staged, facts->wanted) != 0)
		return CONVERGE_TAKE;
	return CONVERGE_INSTALL;
}

enum converge_action converge_decide(struct converge *converge, const struct converge_facts *facts,
				     int64_t now_ms)
{
	bool is_in_force = *facts->wanted && strcmp(facts->in_force, facts->wanted) == 0;

	if (strcmp(converge->wanted, facts->wanted) != 0) {
		strcpy(converge->wanted, facts->wanted);
		rest(converge, CONVERGE_NONE);
		converge->must_take = true;
	}
	if (!*facts->wanted || facts->is_held) {
		rest(converge, !*facts->wanted ? CONVERGE_NONE :
			       is_in_force     ? CONVERGE_IN_FORCE :
						 CONVERGE_HELD);
		return CONVERGE_REST;
	}
	/*
	 * While root's part works, the version can be in force for a moment, and then the daemon refuses it. It counts when
	 * root's part has answered.
	 */
	if (is_in_force && !converge->must_take && strcmp(facts->staged, facts->wanted) == 0 &&
	    (!converge->is_asked || now_ms >= converge->next_ms)) {
		rest(converge, CONVERGE_IN_FORCE);
		return CONVERGE_REST;
	}
	return proceed(converge, facts, now_ms);
}

void converge_retry(struct converge *converge)
{
	forget_failures(converge);
	if (converge_has_failed(converge))
		converge->state = CONVERGE_WAITING;
	converge->must_take = true;
	converge->next_ms = 0;
}

void converge_etcd_is_back(struct converge *converge)
{
	if (converge->state == CONVERGE_TRYING && converge->etcd_pause.ms > 0)
		converge->next_ms = 0;
}

void converge_taken(struct converge *converge)
{
	converge->must_take = false;
	backoff_reset(&converge->etcd_pause);
}

void converge_asked(struct converge *converge, int64_t now_ms)
{
	int64_t answer_ms = now_ms + ANSWER_MS;

	converge_taken(converge);
	/* After many attempts the pause is the longer one. */
	if (converge->next_ms < answer_ms || converge->next_ms == INT64_MAX)
		converge->next_ms = answer_ms;
	converge->is_asked = true;
}

void converge_installed(struct converge *converge)
{
	converge->is_asked = false;
	converge->next_ms = 0;
}

void converge_fail(struct converge *converge, enum converge_failure failure, const char *why,
		   int64_t now_ms)
{
	bool is_permanent = failure == CONVERGE_SOURCE || failure == CONVERGE_CHECK;

	converge->state = is_permanent ? CONVERGE_REFUSED : CONVERGE_TRYING;
	text_copy(converge->why, sizeof(converge->why), why);
	converge->is_asked = false;
	if (converge->n_failed++ == 0)
		converge->since_s = (int64_t)time(NULL);
	if (failure != CONVERGE_ETCD)
		backoff_reset(&converge->etcd_pause);
	if (failure == CONVERGE_ETCD)
		now_ms += backoff_fail(&converge->etcd_pause);
	else if (failure == CONVERGE_HOST)
		now_ms += backoff_fail(&converge->host_pause);
	else
		now_ms += failure == CONVERGE_SOURCE ? SOURCE_MS : REFUSED_MS;
	converge->next_ms = now_ms;
}
