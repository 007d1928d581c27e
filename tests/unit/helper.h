/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* The test is the helper that says who peers are, in place of rdmabroker-peerd. */

#include "tests/unit/harness.h"

extern uint32_t last_qpn; /* of the last new_param() */
/* Each connection gets its own QP number, because timewait delays the reuse of a QP number. */
const struct rdmabroker_conn_param *new_param(void);

void name_helper(uid_t uid); /* Helper= */
struct rdmabroker *open_helper(void);
struct rdmabroker_notice *expect_question(struct rdmabroker *helper, const char *operation);
/* The user 1234 in the groups 55 and 77, the unit storage-a.service and the job 4711. */
extern const struct rdmabroker_who somebody;
/* Answers the next question; WHO NULL: it is not known. */
void answer_question(struct rdmabroker *helper, const char *operation,
		     const struct rdmabroker_who *who);

struct rdmabroker_id *connect_to(struct rdmabroker *session, uint16_t port);
struct rdmabroker_id *expect_request(struct rdmabroker *session);

/* Rules for the ports from 7471 to 7474, which depend on who the peer is, and for 7479, which does not. */
extern const char peer_rules[];
/* HELPER has no question. Questions that came before arrive before the reply to get_status. */
void expect_no_question(struct rdmabroker *helper);
unsigned count_inquiries(void);
void expect_reject(struct rdmabroker *session, const char *text);
