/* SPDX-License-Identifier: BSD-2-Clause */
#include <time.h>

#include "proto/timer.h"

static bool exact, started;

int timer_new(sd_event_source **ret, sd_event *loop, uint64_t late_usec,
	      sd_event_time_handler_t on_time, void *userdata)
{
	int r = sd_event_add_time_relative(loop, ret, CLOCK_MONOTONIC, 0, late_usec, on_time,
					   userdata);

	if (r >= 0)
		r = sd_event_source_set_enabled(*ret, SD_EVENT_OFF);
	return r < 0 ? r : 0;
}

static int enable(sd_event_source *timer, int r)
{
	started = true;
	if (r >= 0)
		r = sd_event_source_set_enabled(timer, SD_EVENT_ONESHOT);
	return r < 0 ? r : 0;
}

int timer_start(sd_event_source *timer, uint64_t usec)
{
	struct timespec now;

	if (!exact)
		return enable(timer, sd_event_source_set_time_relative(timer, usec));
	clock_gettime(CLOCK_MONOTONIC, &now);
	return timer_start_at(timer,
			      (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000 + usec);
}

int timer_start_at(sd_event_source *timer, uint64_t usec)
{
	return enable(timer, sd_event_source_set_time(timer, usec));
}

int timer_defer(sd_event_source *source)
{
	return enable(source, 0);
}

void timer_stop(sd_event_source *timer)
{
	sd_event_source_set_enabled(timer, SD_EVENT_OFF);
}

void timer_be_exact(void)
{
	exact = true;
}

void timer_look_again(void)
{
	started = true;
}

bool timer_was_started(void)
{
	bool ret = started;

	started = false;
	return ret;
}
