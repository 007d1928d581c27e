/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

struct jsonout;
struct rdmabroker_list;

/* Prints what rdmabroker_get_list() has found in a dry run, for the verb reload. JSON NULL: as a table. */
void list_print_denied(const struct rdmabroker_list *list, struct jsonout *json);
