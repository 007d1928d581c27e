/* SPDX-License-Identifier: BSD-2-Clause */
#include <time.h>

#include "core/object/notice.h"
#include "proto/names.h"

uint64_t notice_time_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

const char *notice_kind_to_string(enum notice_kind kind)
{
	return notice_kind_names[kind];
}

const char *notice_outcome_to_string(enum notice_outcome outcome)
{
	return outcome_names[outcome];
}
