/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The names in messages of operations of the rule language, and of what notices report. They are also what rules and
 * rdmabrokerctl use. Each array ends with NULL. Entry I of the first three has the number I + 1 in rdmabroker-admin.h;
 * entry I of the last is event type I in rdma_cma.h.
 */

extern const char *const operation_names[];
extern const char *const notice_kind_names[];
extern const char *const outcome_names[];
extern const char *const event_names[];
