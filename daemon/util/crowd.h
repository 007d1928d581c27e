/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Any number of descriptors behind one source of the loop. If each had a source, sd-event would process all sources
 * that are ready in each turn, but dispatch only one of them: when many are ready at once, as when a process with
 * thousands of them ends, everybody would wait. Of a crowd at most MAX are handled in one turn, those first that have
 * been ready longest, and then whatever else is ready.
 */

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#define CROWD_MAX 64

struct crowd {
	int epoll;
	sd_event_source *io;
	unsigned max;
	/* False: the others wait for the next turn. May remove OBJECT from the crowd, and, unless MAX is 1, no other. */
	bool (*on_ready)(void *object, uint32_t events);
};

/* CROWD must be all zero. MAX: at most CROWD_MAX. Returns 0 or a negative errno; call crowd_done() also on failure. */
int crowd_init(struct crowd *crowd, sd_event *loop, unsigned max,
	       bool (*on_ready)(void *object, uint32_t events));
void crowd_done(struct crowd *crowd);

/*
 * Watches FD for the epoll events EVENTS; 0: only for those that epoll always reports, EPOLLHUP and EPOLLERR. FD stays
 * the caller's. Returns 0 or a negative errno.
 */
int crowd_add(struct crowd *crowd, int fd, uint32_t events, void *object);
/* To be called before FD is closed if another process can have a copy of it: closing it would not end the watch. */
void crowd_remove(struct crowd *crowd, int fd);
