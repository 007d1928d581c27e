/* SPDX-License-Identifier: BSD-2-Clause */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl/output.h"
#include "fleetctl.h"
#include "proto/clock.h"
#include "screen.h"

/* Prints the fleet once, or again and again. */

#define REDRAW_MS 1000 /* between two screens, at least */
#define MEMBERS_MS 10000 /* between two questions to all endpoints */

const char *host_age(const struct judgement *judgement, char ret[AGE_TEXT_MAX])
{
	*ret = 0;
	if (judgement->age_s >= 0)
		age_text(ret, (unsigned long)judgement->age_s);
	return ret;
}

static void ask_members(struct view *view)
{
	for (size_t i = 0; i < view->n_members; i++) {
		struct member *member = &view->members[i];

		member->answers = etcd_get_member(view->member_client, i, &member->is) == 0;
		if (!member->answers)
			snprintf(member->error, sizeof(member->error), "%s",
				 etcd_error(view->member_client));
	}
	view->members_ms = now_ms();
}

static int print_once(const struct view *view, const struct printer *printer, FILE *file)
{
	return view->ctl->json ? printer->json(view, file) : printer->text(view, file);
}

static int print_on_screen(const struct view *view, const struct printer *printer)
{
	char *text = NULL;
	size_t len;
	FILE *file = open_memstream(&text, &len);
	int status = file ? print_once(view, printer, file) : EXIT_FAILURE;

	if (!file || fclose(file) != 0) {
		complain("out of memory");
		return EXIT_FAILURE;
	}
	print_screen(text);
	free(text);
	return status;
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
		snprintf(view->error, sizeof(view->error), "%s", etcd_error(view->ctl->etcd));
		/* It is tried again, but not all the time. */
		poll(&p, 1, REDRAW_MS);
	} else if (*watch && etcd_watch_is_connected(*watch)) {
		*view->error = 0;
		view->fresh_ms = now_ms();
	}
	return !p.revents;
}

static int watch_fleet(struct view *view, const struct printer *printer, struct etcd_watch *watch)
{
	int interrupt = fleetctl_open_interrupt(), status = EXIT_SUCCESS;

	if (interrupt < 0)
		return EXIT_FAILURE;
	do {
		view->stale_s = (now_ms() - view->fresh_ms) / 1000;
		if (printer->asks_members && now_ms() - view->members_ms >= MEMBERS_MS)
			ask_members(view);
		status = print_on_screen(view, printer);
	} while (status == EXIT_SUCCESS && take_events(view, &watch, interrupt));
	etcd_watch_free(watch);
	close(interrupt);
	return status;
}

int screen_run(struct fleetctl *ctl, const struct printer *printer, const char *what)
{
	struct view view = { .ctl = ctl, .what = what, .n_members = ctl->settings.n_endpoints };
	struct etcd_watch *watch = NULL;
	int status = EXIT_FAILURE;

	if (ctl->watch && (ctl->json || !isatty(STDOUT_FILENO))) {
		complain("--watch needs a terminal, and excludes --json");
		return EXIT_USAGE;
	}
	if (!fleetctl_connect(ctl))
		return EXIT_FAILURE;
	if (read_all(&view, &watch) != 0) {
		fleetctl_complain(ctl);
	} else {
		view.fresh_ms = now_ms();
		view.member_client = fleetctl_new_client(ctl, MEMBER_MS);
		if (view.member_client && printer->asks_members)
			ask_members(&view);
		if (!view.member_client)
			status = EXIT_FAILURE;
		else if (ctl->watch)
			status = watch_fleet(&view, printer, watch);
		else
			status = print_once(&view, printer, stdout);
		if (ctl->watch)
			watch = NULL;
	}
	etcd_watch_free(watch);
	etcd_free(view.member_client);
	fleet_done(&view.fleet);
	return status;
}
