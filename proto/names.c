/* SPDX-License-Identifier: BSD-2-Clause */
#include <stddef.h>

#include "proto/names.h"

const char *const operation_names[] = {
	"session", "device", "listen", "connect", "accept", "join", "observe", "admin", NULL,
};

const char *const notice_kind_names[] = { "decision", "cm", "session", "lost", "question", NULL };

const char *const outcome_names[] = { "allowed", "rejected", "busy", "warned", NULL };

const char *const event_names[] = {
	"addr-resolved",
	"addr-error",
	"route-resolved",
	"route-error",
	"connect-request",
	"connect-response",
	"connect-error",
	"unreachable",
	"rejected",
	"established",
	"disconnected",
	"device-removal",
	"multicast-join",
	"multicast-error",
	"addr-change",
	"timewait-exit",
	NULL,
};
