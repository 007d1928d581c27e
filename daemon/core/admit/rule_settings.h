/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* The rule that has decided about an id, and the rule's settings. */

#include <rdma/rdma_cma.h>
#include <stdbool.h>

#include "core/object/options.h"
#include "policy/policy.h"

struct failure;
struct id;
struct qp_attr;
struct session_event;

void rule_settings_use(struct id *id, const struct policy_rule *rule);
/* Returns 0; or STATUS_DENIED: the id is bound with REUSEADDR, which RULE does not allow for OPERATION. */
int rule_settings_check_reuseaddr(const struct id *id, const struct policy_rule *rule,
				  enum policy_operation operation, struct failure *failure);
/*
 * ADDR, a source address that a client has chosen, gets the traffic class that RULE allows. On InfiniBand the kernel takes
 * the class of a path from there if ADDR is of IPv6. RULE: the first that can decide later; NULL: none.
 */
void rule_settings_cap_address(const struct policy_rule *rule, struct sockaddr_storage *addr);
/*
 * VERDICT must allow the id. Sets the id's rule, and applies the settings that can still be changed. Returns 0;
 * STATUS_DENIED: the id is bound with REUSEADDR, or to an address with a traffic class, which the rule does not allow; or
 * STATUS_FABRIC.
 */
int rule_settings_admit(struct id *id, const struct policy_verdict *verdict,
			struct failure *failure);
/* Applies the TOS and the options that the id's rule forces. No effect on a listener, or on an id without a rule. */
int rule_settings_apply(struct id *id, struct failure *failure);
/* True: the id's rule forces OPTION, besides the TOS, so the client's value has no effect. */
bool rule_settings_force(const struct id *id, enum option option);
/* True: the options that RULE forces have the values that are in force. */
bool rule_settings_allow_forced(const struct id *id, const struct policy_rule *rule);
/* The traffic class that RULE gives the id; -1: the kernel's default. */
int rule_settings_choose_tos(const struct id *id, const struct policy_rule *rule);

/* The settings that limit the client's connection parameters; NULL: there is no limit. */
const struct policy_settings *rule_settings_get_caps(const struct id *id);
/* Reduces the values that the client has requested to the limits of rule_settings_get_caps(). */
void rule_settings_cap_param(const struct id *id, struct rdma_conn_param *param);
/*
 * The attributes for a QP that enters STATE, with the rule's settings. Returns 0, a status, or a negative errno;
 * -EINPROGRESS: the session's request will be resumed.
 */
int rule_settings_get_qp_attr(struct id *id, enum ibv_qp_state state, struct qp_attr *ret,
			      struct failure *failure);
/*
 * Adds to EVENT the attributes with which the client's QP becomes ready: for each of its states, but those for RTR only if
 * they are known at once. Returns 0, a status, or a negative errno.
 */
int rule_settings_fill_attrs(struct id *id, struct session_event *event, struct failure *failure);
