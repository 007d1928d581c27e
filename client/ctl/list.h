/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Prints what rdmabroker_get_list() has found in a dry run, for the verb reload. */

struct jsonout;
struct rdmabroker_list;

int list_print_denied(const struct rdmabroker_list *list); /* returns the exit status */
void list_json_denied(const struct rdmabroker_list *list,
		      struct jsonout *json); /* elements of an array */
