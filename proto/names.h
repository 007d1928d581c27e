/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Names that the protocol's messages, rules and rdmabrokerctl have in common: those of the rule language's
 * operations, and those of the kinds, outcomes and events that notices report. Each array ends with NULL. Entry I of
 * the first three arrays has the number I + 1 in rdmabroker-admin.h; entry I of the last one is event type I in
 * rdma_cma.h.
 */

extern const char *const operation_names[];
extern const char *const notice_kind_names[];
extern const char *const outcome_names[];
extern const char *const event_names[];
