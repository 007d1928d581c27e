/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Names in messages of the protocol, in rules and in rdmabrokerctl: of operations, and of the kinds, outcomes and
 * events of notices. Each array ends with NULL. Entry I of event_names is event type I of rdma_cma.h. Entry I of the
 * other arrays has the number I + 1 in rdmabroker-admin.h.
 */

extern const char *const operation_names[];
extern const char *const notice_kind_names[];
extern const char *const outcome_names[];
extern const char *const event_names[];
