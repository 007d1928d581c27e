/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Who a client or a peer is, as columns that list and events share. Nothing is looked up here but the names of users. */

#include "client/admin.h"
#include "table.h"

/* Columns of ROW, whose member WHO is a struct rdmabroker_who. */
#define WHO_COLUMNS(row, who, text_width, pid_width)                           \
	{ NULL, "uid", COLUMN_OF(row, who.uid) },                              \
		{ "USER",                                                      \
		  "user",                                                      \
		  COLUMN_TEXT,                                                 \
		  offsetof(row, who.uid),                                      \
		  .width = text_width,                                         \
		  .text = who_print_user,                                      \
		  .json = who_json_user },                                     \
		{ "WORKLOAD",          NULL,                                   \
		  COLUMN_TEXT,         offsetof(row, who.uid),                 \
		  .width = text_width, .text = who_print_workload },           \
		{ "PID", "pid", COLUMN_OF(row, who.pid), .width = pid_width }, \
		WORKLOAD_COLUMNS(row, who.)
#define WORKLOAD_COLUMNS(row, in)                                                                 \
	{ NULL, "unit", COLUMN_OF(row, in unit) },                                                \
		{ NULL, "container", COLUMN_OF(row, in container) },                              \
		{ NULL, "pod", COLUMN_OF(row, in pod) }, { NULL, "job", COLUMN_OF(row, in job) }, \
	{                                                                                         \
		NULL, "cgroup", COLUMN_OF(row, in cgroup)                                         \
	}

/* AT points to a uid, which is that of a struct rdmabroker_who, except for who_json_user(). */
void who_print_user(const void *at, FILE *file);
void who_json_user(const void *at, struct jsonout *json, const char *key);
/*
 * The pod and the container, or else the job, or else the unit. Ids of containers are cut to 12 digits, as other programs
 * do. Empty: nothing is known.
 */
void who_print_workload(const void *at, FILE *file);
void who_json_gids(const void *at, struct jsonout *json, const char *key);

/* "alice, storage.service", or "unknown: 10.9.0.9 is silent". AT points to a struct rdmabroker_peer. */
void who_print_peer(const void *at, FILE *file);
/* The members "peer_identity" and "peer_unknown". */
void who_json_peer(const void *at, struct jsonout *json, const char *key);
