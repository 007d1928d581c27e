/* SPDX-License-Identifier: BSD-2-Clause */
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "tests/unit/unit.h"
#include "util/crowd.h"

#define N 100
#define A_TURN 8

static struct crowd crowd;
static sd_event *loop;
static int fds[N];
static unsigned n_calls[N], n_all;

static bool on_ready(void *object, uint32_t events)
{
	ck_assert_uint_eq(events, EPOLLIN);
	n_calls[(int *)object - fds]++;
	n_all++;
	return true;
}

static void set_up(void)
{
	ck_assert_int_ge(sd_event_new(&loop), 0);
	ck_assert_int_eq(crowd_init(&crowd, loop, A_TURN, on_ready), 0);
	for (int i = 0; i < N; i++) {
		fds[i] = eventfd(1, EFD_CLOEXEC);
		ck_assert_int_eq(crowd_add(&crowd, fds[i], EPOLLIN, &fds[i]), 0);
	}
}

static void tear_down(void)
{
	crowd_done(&crowd);
	sd_event_unref(loop);
	for (int i = 0; i < N; i++)
		close(fds[i]);
}

static int on_turn(sd_event_source *source, uint64_t usec, void *userdata)
{
	++*(unsigned *)userdata;
	sd_event_source_set_time_relative(source, 0);
	return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

/* All are ready all the time: a few have their turn, then another source has, and so on until all have had one. */
START_TEST(a_few_in_each_turn)
{
	sd_event_source *other = NULL;
	unsigned n_others = 0;

	ck_assert_int_ge(sd_event_add_time_relative(loop, &other, CLOCK_MONOTONIC, 0, 1, on_turn,
						    &n_others),
			 0);
	while (n_all < 10 * N)
		ck_assert_int_gt(sd_event_run(loop, 0), 0);
	/* A timer that is due at once can still miss a turn. */
	ck_assert_uint_ge(n_others, n_all / A_TURN / 2);
	for (int i = 0; i < N; i++) {
		ck_assert_uint_ge(n_calls[i], 9);
		ck_assert_uint_le(n_calls[i], 11);
	}
	sd_event_source_disable_unref(other);
}
END_TEST

START_TEST(who_is_removed_is_not_ready)
{
	for (int i = 1; i < N; i++)
		crowd_remove(&crowd, fds[i]);
	ck_assert_int_gt(sd_event_run(loop, 0), 0);
	ck_assert_uint_eq(n_all, 1);
	ck_assert_uint_eq(n_calls[0], 1);
}
END_TEST

UNIT_MAIN("crowd", set_up, tear_down, a_few_in_each_turn, who_is_removed_is_not_ready)
