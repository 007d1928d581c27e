/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "causes.h"
#include "common/log.h"
#include "etcd/etcd.h"
#include "hoststate.h"
#include "proto/clock.h"
#include "proto/text.h"
#include "report.h"

struct hoststate {
	struct etcd *etcd;
	const struct settings *settings;
	int64_t lease; /* 0: none */
	int64_t revision; /* of hosts/HOST, as this agent has written it; 0: not known */
	int64_t put_ms; /* when the state was written last */
	json_t *report; /* the one that was written, without its time; NULL: none */
	json_t *known; /* what known/HOST has, without its time; NULL: it has to be read */
	struct causes causes;
	char machine[65], instance[33]; /* of this agent: its machine, and a random text */
	char twin[65]; /* the machine of another agent with the same name; empty: none is known */
	int64_t twin_ms; /* when it was seen last */
};

/* The key of this host below FOLDER. */
static void make_key(const struct hoststate *state, char ret[PATH_MAX], const char *folder)
{
	snprintf(ret, PATH_MAX, "%s%s/%s", state->settings->prefix, folder, state->settings->host);
}

static int get_lease(struct hoststate *state)
{
	int r = state->lease ? etcd_keep_alive(state->etcd, state->lease, NULL) : ETCD_NO_LEASE;

	if (r != ETCD_NO_LEASE)
		return r;
	state->lease = 0;
	state->revision = 0;
	/* Somebody may have removed known/HOST while this host was away. */
	json_decref(state->known);
	state->known = NULL;
	return etcd_grant(state->etcd, state->settings->ttl_sec, &state->lease);
}

/* Who has written the key in the meantime: another agent, or something else. */
static void find_twin(struct hoststate *state, const char *key)
{
	const char *instance, *machine;
	struct etcd_range *range;
	json_error_t error;
	json_t *value;

	if (etcd_range(state->etcd, key, /* is_prefix= */ false, 1, &range) != 0)
		return;
	value = range->n > 0 ?
			json_loadb(range->entries[0].value, range->entries[0].len, 0, &error) :
			NULL;
	etcd_range_free(range);
	instance = json_string_value(json_object_get(value, "instance"));
	machine = json_string_value(json_object_get(value, "machine"));
	/* The answer to its own last writing may have been lost. Agents before this one have neither member. */
	if (json_object_get(value, "agent") &&
	    !(instance && strcmp(instance, state->instance) == 0)) {
		text_copy(state->twin, sizeof(state->twin), machine ?: "?");
		text_make_printable(state->twin, strlen(state->twin));
		state->twin_ms = now_ms();
	}
	json_decref(value);
}

/* For how long a twin that is not seen again is shown: it writes its state at least each ReportSec=. */
static bool has_twin(const struct hoststate *state)
{
	return *state->twin &&
	       now_ms() - state->twin_ms < (int64_t)state->settings->report_sec * 3000 + 60000;
}

static int put_host(struct hoststate *state, const char *text)
{
	char key[PATH_MAX];
	int r = ETCD_CHANGED;

	make_key(state, key, "hosts");
	if (state->revision > 0)
		r = etcd_put_if(state->etcd, key, state->revision, text, strlen(text), state->lease,
				&state->revision);
	if (r == ETCD_CHANGED) {
		if (state->revision > 0)
			find_twin(state, key);
		if (state->revision > 0 && causes_add(&state->causes, 1))
			log_line(
				LOG_WARNING,
				"%s was changed by somebody else: perhaps two hosts have the same Host=.",
				key);
		r = etcd_put(state->etcd, key, text, strlen(text), state->lease, &state->revision);
	}
	if (r != 0)
		state->revision = 0;
	if (r == ETCD_NO_LEASE)
		state->lease = 0;
	return r;
}

static int put_report(struct hoststate *state, json_t *report)
{
	char *text;
	int r = get_lease(state);

	if (r != 0)
		return r;
	json_object_set_new(report, "machine", json_string(state->machine));
	json_object_set_new(report, "instance", json_string(state->instance));
	json_object_set_new(report, "twin",
			    has_twin(state) ? json_string(state->twin) : json_null());
	/* The key went with its lease. */
	if (state->revision > 0 && state->report && report_is_alike(state->report, report) &&
	    now_ms() - state->put_ms < (int64_t)state->settings->report_sec * 1000)
		return 0;
	text = report_finish(report);
	if (!text)
		return -ENOMEM;
	r = put_host(state, text);
	free(text);
	if (r != 0)
		return r;
	state->put_ms = now_ms();
	json_decref(state->report);
	state->report = json_incref(report);
	return 0;
}

/* What known/HOST has; NULL: it is not there, or is not JSON. */
static int read_known(struct hoststate *state, const char *key, json_t **ret)
{
	struct etcd_range *range;
	json_error_t error;
	int r = etcd_range(state->etcd, key, /* is_prefix= */ false, 1, &range);

	if (r != 0)
		return r;
	*ret = range->n > 0 ?
		       json_loadb(range->entries[0].value, range->entries[0].len, 0, &error) :
		       NULL;
	json_object_del(*ret, "time");
	etcd_range_free(range);
	return 0;
}

/* Writes known/HOST, if it has something else. */
static int put_known(struct hoststate *state, const json_t *report)
{
	json_t *known = json_pack("{s:O, s:O}", "labels", json_object_get(report, "labels"),
				  "in_force", json_object_get(report, "in_force"));
	char key[PATH_MAX], *text = NULL;
	int r = known ? 0 : -ENOMEM;

	make_key(state, key, "known");
	if (r == 0 && !state->known)
		r = read_known(state, key, &state->known);
	if (r == 0 && !json_equal(state->known, known)) {
		text = report_finish(known);
		r = text ? etcd_put(state->etcd, key, text, strlen(text), 0, NULL) : -ENOMEM;
	}
	if (r == 0) {
		json_decref(state->known);
		state->known = json_incref(known);
	}
	free(text);
	json_decref(known);
	return r;
}

int hoststate_put(struct hoststate *state, json_t *report)
{
	int r = put_report(state, report);

	/* Without known/HOST the state is right all the same. Perhaps this host may not write it. */
	if (r == 0 && put_known(state, report) != 0 && causes_add(&state->causes, 2))
		log_line(LOG_WARNING, "Cannot write %sknown/%s: %s.", state->settings->prefix,
			 state->settings->host, etcd_error(state->etcd));
	return r;
}

void hoststate_keep(struct hoststate *state)
{
	if (state->lease)
		etcd_keep_alive(state->etcd, state->lease, NULL);
}

void hoststate_end(struct hoststate *state)
{
	if (state->lease)
		etcd_revoke(state->etcd, state->lease);
	state->lease = 0;
}

int hoststate_new(struct hoststate **ret, struct etcd *etcd, const struct settings *settings)
{
	struct hoststate *state = calloc(1, sizeof(*state));
	uint64_t random[2] = { 0 };

	if (!state)
		return -ENOMEM;
	state->etcd = etcd;
	state->settings = settings;
	gethostname(state->machine, sizeof(state->machine) - 1);
	text_make_printable(state->machine, strlen(state->machine));
	if (getrandom(random, sizeof(random), GRND_NONBLOCK) != sizeof(random))
		random[0] = (uint64_t)getpid() << 32 ^ (uint64_t)now_ms();
	snprintf(state->instance, sizeof(state->instance), "%016llx%016llx",
		 (unsigned long long)random[0], (unsigned long long)random[1]);
	*ret = state;
	return 0;
}

struct hoststate *hoststate_free(struct hoststate *state)
{
	if (!state)
		return NULL;
	json_decref(state->report);
	json_decref(state->known);
	free(state);
	return NULL;
}
