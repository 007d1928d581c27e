/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* An event as the program gets it, with room for what it points to. */

#include "client/rdmabroker.h"

struct eventbuf {
	struct rdmabroker_event public;
	uint8_t private_data[256];
	char text[256];
};

void eventbuf_set_text(struct eventbuf *event, const char *text);
