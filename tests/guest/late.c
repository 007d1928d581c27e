/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Preloaded into a client of UCX, before the drop-in: the client closes its endpoint only after its peer has disconnected.
 * When it closes, UCX still sends through its QP, and waits for the acknowledgement. The peer destroys its QP when the
 * disconnect is confirmed. So nobody but the client may confirm it.
 */

#include <dlfcn.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "tests/patience.h"

#define SECONDS PATIENCE_S
#define QUIET_SECONDS 2 /* time for the peer to destroy its QP, if somebody has confirmed */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool disconnected, timewait_is_over;

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	typeof(&rdma_get_cm_event) real = dlsym(RTLD_NEXT, "rdma_get_cm_event");
	int r = real(channel, event);

	if (r != 0)
		return r;
	pthread_mutex_lock(&lock);
	disconnected |= (*event)->event == RDMA_CM_EVENT_DISCONNECTED;
	timewait_is_over |= (*event)->event == RDMA_CM_EVENT_TIMEWAIT_EXIT;
	pthread_cond_signal(&changed);
	pthread_mutex_unlock(&lock);
	return 0;
}

/* False: FLAG was not set within the time. */
static bool wait_for(const bool *flag, int seconds)
{
	struct timespec until;
	int r = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += seconds;
	pthread_mutex_lock(&lock);
	while (!*flag && r == 0)
		r = pthread_cond_timedwait(&changed, &lock, &until);
	pthread_mutex_unlock(&lock);
	return r == 0;
}

void *ucp_ep_close_nbx(void *ep, const void *param);

void *ucp_ep_close_nbx(void *ep, const void *param)
{
	typeof(&ucp_ep_close_nbx) real = dlsym(RTLD_NEXT, "ucp_ep_close_nbx");

	if (!wait_for(&disconnected, SECONDS)) {
		fprintf(stderr, "late: the peer did not disconnect within %d s\n", SECONDS);
		_exit(1);
	}
	wait_for(&timewait_is_over, QUIET_SECONDS);
	fprintf(stderr, "late: closes after the peer\n");
	return real(ep, param);
}
