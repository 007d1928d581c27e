/* SPDX-License-Identifier: BSD-2-Clause */
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "proto/timer.h"
#include "tests/unit/unit.h"
#include "util/clock.h"
#include "util/hot.h"
#include "util/list.h"

/* The set of hot descriptors, as a guest of the sd-event loop and as its host. */

#define N 100 /* more than are handled in one turn */

static sd_event *loop;
static struct hot *hot;
static sd_event_source *timer, *deferred;
static unsigned n_timer, n_deferred, n_io;

static struct member {
	struct hot_io io;
	int fd;
	unsigned n;
} members[N];

static void (*act)(struct member *member);
static bool go_on;

static bool on_ready(struct hot_io *io, uint32_t events)
{
	struct member *member = container_of(io, struct member, io);

	member->n++;
	if (act)
		act(member);
	return go_on;
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	n_timer++;
	return 0;
}

static int on_deferred(sd_event_source *source, void *userdata)
{
	n_deferred++;
	return 0;
}

static int on_io(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	n_io++;
	return 0;
}

static void set_up(void)
{
	go_on = true;
	ck_assert_int_ge(sd_event_new(&loop), 0);
	hot = hot_ref(loop);
	ck_assert_ptr_nonnull(hot);
	ck_assert_ptr_eq(hot_ref(loop), hot);
	ck_assert_ptr_null(hot_unref(hot));
	ck_assert_int_eq(timer_new(&timer, loop, 1, on_timer, NULL), 0);
	ck_assert_int_ge(sd_event_add_defer(loop, &deferred, on_deferred, NULL), 0);
	ck_assert_int_ge(sd_event_source_set_enabled(deferred, SD_EVENT_OFF), 0);
	for (int i = 0; i < N; i++) {
		members[i].fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		ck_assert_int_eq(hot_add(hot, &members[i].io, members[i].fd, EPOLLIN, on_ready), 0);
	}
}

static void tear_down(void)
{
	for (int i = 0; i < N; i++) {
		hot_remove(&members[i].io);
		hot_remove(&members[i].io);
		close(members[i].fd);
	}
	sd_event_source_disable_unref(timer);
	sd_event_source_disable_unref(deferred);
	ck_assert_ptr_null(hot_unref(hot));
	sd_event_unref(loop);
}

static void make_ready(int i)
{
	ck_assert_int_eq(eventfd_write(members[i].fd, 1), 0);
}

static void clear(struct member *member)
{
	eventfd_t ignored;

	ck_assert_int_eq(eventfd_read(member->fd, &ignored), 0);
}

START_TEST(guest)
{
	unsigned n = 0;

	act = clear;
	for (int i = 0; i < N; i++)
		make_ready(i);
	ck_assert_int_gt(sd_event_run(loop, 0), 0);
	for (int i = 0; i < N; i++)
		n += members[i].n;
	ck_assert_uint_eq(n, HOT_MAX);
	ck_assert_int_gt(sd_event_run(loop, 0), 0);
	ck_assert_int_eq(sd_event_run(loop, 0), 0);
	for (int i = 0; i < N; i++)
		ck_assert_uint_eq(members[i].n, 1);
}
END_TEST

static void be_host(void)
{
	ck_assert_int_eq(hot_be_host(hot), 0);
}

START_TEST(host)
{
	act = clear;
	be_host();
	ck_assert_int_eq(hot_run(hot, 0), 0);
	make_ready(3);
	ck_assert_int_eq(hot_run(hot, -1), 1);
	ck_assert_uint_eq(members[3].n, 1);
	ck_assert_int_eq(hot_run(hot, 0), 0);
}
END_TEST

/* As a wait for "nothing else is ready" does. */
static int on_patient(sd_event_source *source, void *userdata)
{
	n_deferred++;
	if (hot_is_ready(hot))
		ck_assert_int_eq(timer_defer(source), 0);
	return 0;
}

static int on_patient_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	n_timer++;
	if (hot_is_ready(hot))
		ck_assert_int_eq(timer_start(source, 0), 0);
	return 0;
}

/* A source that waits in each turn until the set has nothing ready does not keep the set from its turn. */
START_TEST(source_that_waits_for_the_set)
{
	sd_event_source *patient, *patient_timer;

	act = clear;
	be_host();
	ck_assert_int_ge(sd_event_add_defer(loop, &patient, on_patient, NULL), 0);
	ck_assert_int_eq(timer_new(&patient_timer, loop, 1, on_patient_timer, NULL), 0);
	for (int i = 0; i < N; i++)
		make_ready(i);
	ck_assert_int_eq(timer_defer(patient), 0);
	ck_assert_int_eq(timer_start(patient_timer, 0), 0);
	for (int i = 0; i < 100; i++)
		ck_assert_int_ge(hot_run(hot, 0), 0);
	for (int i = 0; i < N; i++)
		ck_assert_uint_eq(members[i].n, 1);
	ck_assert_uint_gt(n_deferred, 0);
	ck_assert_uint_gt(n_timer, 0);
	ck_assert_int_eq(hot_run(hot, 0), 0);
	sd_event_source_disable_unref(patient);
	sd_event_source_disable_unref(patient_timer);
}
END_TEST

/* Neither the loop nor the set keeps the other one from its turn, though both always have something to do. */
START_TEST(both_are_always_ready)
{
	int fd = eventfd(1, EFD_CLOEXEC);

	be_host();
	for (int i = 0; i < N; i++)
		make_ready(i);
	ck_assert_int_ge(sd_event_add_io(loop, NULL, fd, EPOLLIN, on_io, NULL), 0);
	for (int i = 0; i < 300; i++)
		ck_assert_int_ge(hot_run(hot, -1), 0);
	ck_assert_uint_ge(n_io, 100);
	for (int i = 0; i < N; i++)
		ck_assert_uint_ge(members[i].n, 100);
	close(fd);
}
END_TEST

/* Who has used up his budget keeps others of the set from their turn, and not the loop. */
START_TEST(the_others_wait)
{
	int fd = eventfd(1, EFD_CLOEXEC);

	be_host();
	go_on = false;
	for (int i = 0; i < 10; i++)
		make_ready(i);
	ck_assert_int_ge(sd_event_add_io(loop, NULL, fd, EPOLLIN, on_io, NULL), 0);
	for (int i = 0; i < 20; i++)
		ck_assert_int_ge(hot_run(hot, -1), 0);
	ck_assert_uint_ge(n_io, 10);
	close(fd);
}
END_TEST

static void remove_all(struct member *member)
{
	for (int i = 0; i < N; i++)
		hot_remove(&members[i].io);
}

/* An edge is not told of again. */
START_TEST(an_edge_does_not_wait)
{
	const uint64_t one = 1;

	hot_remove(&members[1].io);
	ck_assert_int_eq(hot_add(hot, &members[1].io, members[1].fd, EPOLLIN | EPOLLET, on_ready),
			 0);
	go_on = false;
	for (unsigned round = 1; round < 3; round++) {
		for (int i = 0; i < 3; i++)
			ck_assert_int_eq(write(members[i].fd, &one, sizeof(one)), sizeof(one));
		ck_assert_int_gt(sd_event_run(loop, 0), 0);
		ck_assert_uint_eq(members[1].n, round);
	}
	ck_assert_uint_le(members[2].n, 1);
}
END_TEST

START_TEST(removed_in_their_turn)
{
	unsigned n = 0;

	be_host();
	act = remove_all;
	for (int i = 0; i < N; i++)
		make_ready(i);
	ck_assert_int_eq(hot_run(hot, -1), 1);
	for (int i = 0; i < N; i++)
		n += members[i].n;
	ck_assert_uint_eq(n, 1);
	ck_assert_int_eq(hot_run(hot, 0), 0);
}
END_TEST

#define LATER_USEC 100000

static void start_timer(struct member *member)
{
	clear(member);
	ck_assert_int_eq(timer_start(timer, LATER_USEC), 0);
}

static void start_at_once(struct member *member)
{
	clear(member);
	ck_assert_int_eq(timer_start(timer, 0), 0);
	ck_assert_int_eq(timer_defer(deferred), 0);
}

/*
 * sd-event does not see the time pass while only the set is ready. A timer counts from its start all the same, and is seen
 * though sd-event was asleep already.
 */
START_TEST(timer_of_a_member)
{
	uint64_t begin;

	be_host();
	act = clear;
	ck_assert_int_eq(hot_run(hot, 3 * LATER_USEC / 1000), 0);
	make_ready(0);
	ck_assert_int_eq(hot_run(hot, -1), 1);
	act = start_timer;
	make_ready(0);
	begin = clock_ns();
	while (n_timer == 0)
		ck_assert_int_ge(hot_run(hot, -1), 0);
	ck_assert_uint_ge(clock_ns() - begin, LATER_USEC * 1000ULL);
	act = start_at_once;
	make_ready(0);
	while (n_timer < 2 || n_deferred < 1)
		ck_assert_int_ge(hot_run(hot, PATIENCE_MS), 1);
}
END_TEST

START_TEST(turns_are_numbered)
{
	uint64_t turn = hot_get_turn(hot);

	be_host();
	act = clear;
	ck_assert(!hot_is_ready(hot));
	make_ready(0);
	ck_assert(hot_is_ready(hot));
	ck_assert_int_eq(hot_run(hot, -1), 1);
	ck_assert_uint_eq(hot_get_turn(hot), turn + 1);
	hot_next_turn(hot);
	ck_assert_uint_eq(hot_get_turn(hot), turn + 2);
}
END_TEST

static unsigned n_later;

static void on_later(struct hot_later *later)
{
	n_later++;
}

START_TEST(what_can_wait_is_done_when_it_is_quiet)
{
	struct hot_later later = { .call = on_later };

	list_init(&later.link);
	hot_later(hot, &later);
	ck_assert_uint_eq(n_later, 1);
	be_host();
	hot_later(hot, &later);
	hot_later(hot, &later);
	ck_assert_uint_eq(n_later, 1);
	ck_assert_int_eq(hot_run(hot, -1), 0);
	ck_assert_uint_eq(n_later, 2);
	hot_later(hot, &later);
	hot_not_later(&later);
	hot_not_later(&later);
	ck_assert_int_eq(hot_run(hot, 0), 0);
	ck_assert_uint_eq(n_later, 2);

	/* It is never quiet. */
	make_ready(0);
	hot_later(hot, &later);
	for (int i = 0; n_later == 2; i++) {
		ck_assert_int_le(i, HOT_LATER_TURNS);
		ck_assert_int_eq(hot_run(hot, -1), 1);
	}
}
END_TEST

static int on_exit_asked(sd_event_source *source, uint64_t usec, void *userdata)
{
	return sd_event_exit(loop, 17);
}

START_TEST(exit_of_the_loop)
{
	sd_event_source *last;
	int code;

	be_host();
	ck_assert_int_eq(timer_new(&last, loop, 1, on_exit_asked, NULL), 0);
	ck_assert_int_eq(timer_start(last, 0), 0);
	while (sd_event_get_state(loop) != SD_EVENT_FINISHED)
		ck_assert_int_ge(hot_run(hot, PATIENCE_MS), 0);
	ck_assert_int_ge(sd_event_get_exit_code(loop, &code), 0);
	ck_assert_int_eq(code, 17);
	sd_event_source_disable_unref(last);
}
END_TEST

UNIT_MAIN("hot", set_up, tear_down, guest, host, source_that_waits_for_the_set,
	  both_are_always_ready, the_others_wait, an_edge_does_not_wait, removed_in_their_turn,
	  timer_of_a_member, turns_are_numbered, what_can_wait_is_done_when_it_is_quiet,
	  exit_of_the_loop)
