/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl/output.h"
#include "fleetctl.h"
#include "proto/clock.h"
#include "proto/text.h"
#include "screen.h"

/* Prints the fleet once, or again and again. */

#define REDRAW_MS 1000 /* between two screens, at least */
#define MEMBERS_MS 10000 /* between two questions to all endpoints */

int64_t screen_sum_refusals(const struct host *host, const char *what)
{
	const json_t *refusals = host_array(host, "refusals");
	int64_t sum = 0;

	for (size_t i = 0; i < json_array_size(refusals); i++)
		sum += host_clamp(json_object_get(json_array_get(refusals, i), what));
	return sum;
}

bool screen_is_full(const struct view *view)
{
	for (size_t i = 0; i < view->n_members; i++)
		if (view->members[i].answers && strstr(view->members[i].is.alarms, "NOSPACE"))
			return true;
	return false;
}

struct host_row host_row(const struct view *view, const struct host *host)
{
	struct judgement judgement = host_judge(&view->fleet, host);
	bool is_silent = judgement.verdict == HOST_AWAY || judgement.verdict == HOST_STALE;
	struct host_row row = {
		.host = host->name,
		.label = judgement.rollout ? judgement.rollout->label : NULL,
		.state = verdict_names[judgement.verdict],
		.version = judgement.in_force,
		.wanted = judgement.rollout && *judgement.rollout->version ?
				  judgement.rollout->version :
				  NULL,
		.why = is_silent && screen_is_full(view) ? "perhaps only because etcd is full" :
							   judgement.why,
		.age_s = judgement.age_s,
		.sessions = host_number(host, "daemon", "sessions"),
		.listeners = host_number(host, "daemon", "listeners"),
		.connections = host_number(host, "daemon", "connections"),
		.rejected = screen_sum_refusals(host, "rejected"),
		.labels = host_labels(host),
		.report = host->state,
	};

	return row;
}

void screen_print_age(const void *at, FILE *file)
{
	int64_t age_s = *(const int64_t *)at;
	char text[AGE_TEXT_MAX] = "";

	if (age_s >= 0)
		age_text(text, (unsigned long)age_s);
	fputs(text, file);
}

void screen_print_time(const void *at, FILE *file)
{
	int64_t since = json_integer_value(*(const json_t *const *)at);
	char text[MODEL_TIME_MAX];

	model_print_time(text, since);
	if (since > 0)
		fputs(text, file);
}

void screen_print_list(const void *at, FILE *file)
{
	const json_t *list = *(const json_t *const *)at;
	const char *comma = "";

	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *text = json_string_value(json_array_get(list, i));

		if (!text)
			continue;
		fprintf(file, "%s%s", comma, text);
		comma = ",";
	}
}

void screen_print_error(const struct view *view, const char *indent, FILE *file)
{
	char text[512];

	if (!*view->error)
		return;
	printable(text, sizeof(text), view->error);
	fprintf(file, "%swhat follows is ", indent);
	screen_print_age(&view->stale_s, file);
	fprintf(file, " old: %s\n", text);
}

void screen_json(const void *at, struct jsonout *json, const char *key)
{
	const json_t *value = *(const json_t *const *)at;

	if (!value) {
		jsonout_null(json, key);
		return;
	}
	jsonout_key(json, key);
	json_dumpf(value, json->file, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_ENCODE_ANY);
}

static void ask_members(struct view *view)
{
	for (size_t i = 0; i < view->n_members; i++) {
		struct member *member = &view->members[i];

		member->answers = etcd_get_member(view->member_client, i, &member->is) == 0;
		if (!member->answers)
			text_copy(member->error, sizeof(member->error),
				  etcd_error(view->member_client));
	}
	view->members_ms = now_ms();
}

static int print_once(const void *arg, FILE *file)
{
	const struct view *view = arg;

	return view->ctl->json ? view->printer->json(view, file) : view->printer->text(view, file);
}

/* Reads everything anew. If that fails, VIEW keeps what it has, and *RET_WATCH is NULL. */
static int read_all(struct view *view, struct etcd_watch **ret_watch)
{
	struct fleet fleet;
	int r;

	*ret_watch = etcd_watch_free(*ret_watch);
	r = fleet_read(&fleet, view->ctl->etcd, view->ctl->settings.prefix);
	if (r == 0)
		r = fleet_watch(&fleet, view->ctl->etcd, ret_watch);
	if (r != 0) {
		fleet_done(&fleet);
		return r;
	}
	fleet_done(&view->fleet);
	view->fleet = fleet;
	return 0;
}

/* Takes what has come. Returns when something has changed, or after REDRAW_MS. False: interrupted. */
static bool take_events(struct view *view, struct etcd_watch **watch, int interrupt)
{
	struct pollfd p = { .fd = interrupt, .events = POLLIN };
	int64_t end = now_ms() + REDRAW_MS, ms;
	struct etcd_event event = {};
	int r = *watch ? 0 : read_all(view, watch);

	while (r == 0 && !p.revents && (ms = end - now_ms()) > 0) {
		r = etcd_watch_next(*watch, (int)ms, &p, 1, &event);
		if (r == ETCD_EVENT) {
			fleet_apply(&view->fleet, &event);
			etcd_event_done(&event);
			r = 0;
		}
	}
	/* Events are lost, or would not be read the next time either. */
	if (r == ETCD_COMPACTED || r == -EMSGSIZE)
		r = read_all(view, watch);
	if (r != 0) {
		text_copy(view->error, sizeof(view->error), etcd_error(view->ctl->etcd));
		/* It is tried again, but not all the time. */
		poll(&p, 1, REDRAW_MS);
	} else if (*watch && etcd_watch_is_connected(*watch)) {
		*view->error = 0;
		view->fresh_ms = now_ms();
	}
	return !p.revents;
}

static int watch_fleet(struct view *view, struct etcd_watch *watch)
{
	int interrupt = fleetctl_open_interrupt(), status = EXIT_SUCCESS;

	if (interrupt < 0)
		return EXIT_FAILURE;
	do {
		view->stale_s = (now_ms() - view->fresh_ms) / 1000;
		if (view->printer->asks_members && now_ms() - view->members_ms >= MEMBERS_MS)
			ask_members(view);
		status = print_on_screen(print_once, view);
	} while (status == EXIT_SUCCESS && take_events(view, &watch, interrupt));
	etcd_watch_free(watch);
	close(interrupt);
	return status;
}

int screen_run(struct fleetctl *ctl, const struct printer *printer, const char *what)
{
	struct view view = {
		.ctl = ctl, .printer = printer, .what = what, .n_members = ctl->settings.n_endpoints
	};
	struct etcd_watch *watch = NULL;
	int status = EXIT_FAILURE;

	if (ctl->watch && (ctl->json || !isatty(STDOUT_FILENO))) {
		complain("--watch needs a terminal, and excludes --json");
		return EXIT_USAGE;
	}
	if (!fleetctl_connect(ctl))
		return EXIT_FAILURE;
	view.manifests = json_object();
	view.has_fleet = read_all(&view, &watch) == 0;
	if (!view.has_fleet)
		text_copy(view.error, sizeof(view.error), etcd_error(ctl->etcd));
	view.fresh_ms = now_ms();
	view.member_client = fleetctl_new_client(ctl, MEMBER_MS);
	if (view.member_client && printer->asks_members)
		ask_members(&view);
	if (view.member_client && !view.has_fleet) {
		/* What each member says is of use just then. */
		if (printer->asks_members)
			print_once(&view, stdout);
		complain("cannot use etcd: %s", view.error);
	} else if (view.member_client && ctl->watch) {
		status = watch_fleet(&view, watch);
		watch = NULL;
	} else if (view.member_client) {
		status = print_once(&view, stdout);
	}
	etcd_watch_free(watch);
	etcd_free(view.member_client);
	fleet_done(&view.fleet);
	json_decref(view.manifests);
	return status;
}
