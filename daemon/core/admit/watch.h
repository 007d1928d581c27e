/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Sessions of admins and observers can watch policy decisions, the events of ids, and the beginning and end of
 * sessions. Each watch has a filter, and ends with its session at the latest.
 */

#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/admit/intent.h"
#include "core/object/notice.h"
#include "core/object/session.h"
#include "util/list.h"

/* Each event of any client is sent to all sessions that watch it, so other clients pay for them. */
#define WATCHES_OF_USER_MAX 16
#define WATCHES_MAX 64
/* The filter of a watch. A notice passes if all members match. */
struct watch_filter {
	int kind; /* enum notice_kind; -1: any */
	int operation; /* enum policy_operation, which only decisions have; -1: any */
	int outcome; /* enum notice_outcome, which only decisions have; -1: any */
	bool by_uid;
	uid_t uid;
	uint64_t session; /* 0: any */
	struct sockaddr_storage peer; /* the port does not count; AF_UNSPEC: any */
	uint16_t port; /* the local port or the peer's; 0: any */
};

struct watch {
	struct list link; /* core.watches */
	struct session *session;
	struct watch_filter filter;
	struct charge charge;
};

static inline bool core_is_watched(const struct core *core)
{
	return !list_is_empty(&core->watches);
}

/*
 * SESSION gets notices from now on. FILTER replaces the filter of an earlier watch. Returns 0, STATUS_QUOTA or a
 * negative errno: then nothing has changed.
 */
int watch_start(struct session *session, const struct watch_filter *filter,
		struct failure *failure);
struct watch *watch_free(struct watch *watch);

/* These three functions are to be called only if core_is_watched(). OVERFLOW NULL: no limit was reached. */
void watch_decision(const struct session *session, const struct intent *intent,
		    const struct policy_verdict *verdict, const struct overflow *overflow);
void watch_cm(const struct session_event *event);
void watch_session(const struct session *session, const char *event, const char *reason);
