/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Timers of the loop, by CLOCK_MONOTONIC. A timer is off until it is started, and again once it has fired. A timer with 0
 * fires in the next turn, after what is ready already.
 */

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

/*
 * LATE_USEC: how much later than asked it may fire, so that several fire together; 0: 250 ms; 1: not at all. The caller
 * ends it with sd_event_source_disable_unref(). Returns 0 or a negative errno.
 */
int timer_new(sd_event_source **ret, sd_event *loop, uint64_t late_usec,
	      sd_event_time_handler_t on_time, void *userdata);
/* Starts it anew if it runs. Returns 0 or a negative errno. */
int timer_start(sd_event_source *timer, uint64_t usec);
int timer_start_at(sd_event_source *timer, uint64_t usec); /* the time of the clock */
void timer_stop(sd_event_source *timer);
/* Lets a source that is no timer, and has no descriptor, be dispatched once. */
int timer_defer(sd_event_source *source);

/* For hot.c. From now on timers count from the time of their start, and not of the last turn of sd-event. */
void timer_be_exact(void);
/* Whether a timer or such a source was started since the last call, so that sd-event has to look at them. */
bool timer_was_started(void);
void timer_look_again(void); /* it has to, as if one was started: for tests, whose clock can jump */
