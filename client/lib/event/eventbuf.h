/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* An event as the program gets it, with the structs and buffers that it points to. */

#include "client/rdmabroker.h"
#include "proto/path.h"

struct eventbuf {
	struct rdmabroker_event public;
	struct rdmabroker_conn_param conn;
	struct rdmabroker_ud_param ud;
	/* The rest is set when PUBLIC or CONN points to it. */
	struct paths paths;
	uint8_t private_data[256];
	char text[256];
};

/* A new event of TYPE, with an empty conn and an empty ud, and without text. NULL: out of memory. */
struct eventbuf *eventbuf_new(enum rdmabroker_event_type type);
void eventbuf_set_text(struct eventbuf *event, const char *text);
