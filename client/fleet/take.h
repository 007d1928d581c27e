/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Takes a version from etcd, verifies it, and stages it: see agent.h for the keys and the directories. */

#include <stdbool.h>

#include "settings.h"
#include "version.h"

enum taken {
	TAKEN,
	TAKE_SOURCE, /* what etcd has is not right */
	TAKE_ETCD, /* etcd has failed */
	TAKE_HOST, /* this host has failed: no space, no descriptors */
};

struct take {
	struct etcd *etcd;
	const struct settings *settings;
	/* Called between two files; a large version takes long. */
	void (*keep_alive)(void *arg);
	bool (*is_ending)(void *arg); /* true: give up */
	void *arg;
	char error[VERSION_REASON_MAX + 128]; /* why the last one was not taken; empty: it was */
};

/* After it, STATE/staged/NAME is complete, and has what the manifest says. */
enum taken take_version(struct take *take, const char *name);
