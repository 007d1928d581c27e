/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Timers of the loop, by CLOCK_MONOTONIC. A timer is off until it is started, and again once it has fired. A timer with 0
 * fires in the next turn, after what is ready already.
 */

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
