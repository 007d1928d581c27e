/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Converts between protobuf messages and the types of the layers below rpc/. The in_ functions check lengths
 * and ranges, so that no value is cut off when it is converted to a narrower type. They return NULL, or a
 * text that describes the error.
 */

#include <rdma/rdma_cma.h>

#include "core/object/id.h"
#include "proto/rdmabroker.pb-c.h"

#define MAX_GIDS 1024 /* of a client or a peer; rdmabroker.proto promises this number */

const char *in_ece(struct ibv_ece *ret, const Rdmabroker__Ece *ece); /* ECE NULL: none */
/* ret->private_data points into PARAM, or is NULL. */
const char *in_conn_param(struct rdma_conn_param *ret, const Rdmabroker__ConnParam *param,
			  size_t max_private_data);

/*
 * Each of these structs has space for a message, its submessages, and texts that have to be composed. Absent parts
 * stay NULL. Other texts, such as names of devices, are not copied, so they must stay valid until the message is
 * packed.
 */
struct out_id_info {
	Rdmabroker__IdInfo info;
	Rdmabroker__Address local, peer;
	struct fabric_id_info from; /* a copy of the addresses that the messages point to */
};

void out_learned(Rdmabroker__Learned *ret, const struct core *core);

struct out_ah_attr {
	Rdmabroker__AhAttr ah;
	/* a copy that the message points to, because the attributes can be gone when the message is packed */
	union ibv_gid dgid;
};

struct out_qp_attr {
	Rdmabroker__QpAttr attr;
	struct out_ah_attr ah, alt_ah;
};

struct out_ud_param {
	Rdmabroker__UdParam param;
	struct out_ah_attr ah;
};

struct out_workload {
	Rdmabroker__Workload workload;
	char container[128], pod[128], job[128], cgroup[256];
};

struct out_peerid {
	Rdmabroker__PeerIdentity identity;
	struct out_workload workload;
	char unit[256];
};

struct out_notice {
	Rdmabroker__Notice notice;
	struct out_peerid peerid;
	struct out_workload workload;
	Rdmabroker__IdInfo info;
	Rdmabroker__Address local, peer;
	char unit[256], rule[256], rule_text[512], reason[256];
};

/* Copies TEXT (NULL: an empty one), or as much of it as SPACE has room for. Returns SPACE. */
char *out_text(char *space, size_t size, const char *text);
/* The same for "file:line" of RULE; NULL: none. */
char *out_rule_name(char *space, size_t size, const struct policy_rule *rule);
/* Who is charged for UID; 0: UID itself. */
uint32_t out_charged(uid_t uid, struct owner owner);
/* What the client of SESSION belongs to, besides its unit. NULL: nothing is known. */
Rdmabroker__Workload *out_workload(struct out_workload *space, const struct session *session);
/* RET points into M; NULL: it belongs to nothing but UNIT. */
void in_workload(const char *ret[_WORKLOAD_MAX], const char *unit, const Rdmabroker__Workload *m);
/* RET points into M. */
const char *in_peer_identity(struct policy_peer *ret, const Rdmabroker__PeerIdentity *m);
/*
 * Who the peer of a connection is, without its groups, because a packet can have no room for them. PEERID NULL: out of
 * memory. Sets *RET_WHO or, if it is not known who the peer is, *RET_WHY.
 */
void out_peerid(struct out_peerid *space, const struct peerid *peerid,
		Rdmabroker__PeerIdentity **ret_who, char **ret_why);
/* Returns NULL if there is no ECE. */
Rdmabroker__Ece *out_ece(Rdmabroker__Ece *ret, const struct ibv_ece *ece);
void out_ud_param(struct out_ud_param *space, const struct rdma_ud_param *ud);
void out_id_info(struct out_id_info *space, const struct id *id);
void out_qp_attr(struct out_qp_attr *space, const struct qp_attr *qp);
/* The attributes of EVENT for all states, in one message. NULL: EVENT has none. */
Rdmabroker__QpAttr *out_qp_attrs(struct out_qp_attr *space, const struct session_event *event);
ProtobufCBinaryData out_paths(uint8_t space[PATHS_SIZE], const struct id *id);
void out_conn_param(Rdmabroker__ConnParam *ret, const struct rdma_conn_param *param);
Rdmabroker__Caps *out_caps(Rdmabroker__Caps *ret, const struct policy_settings *caps);
void out_notice(struct out_notice *space, const struct notice *notice);
void out_failure(Rdmabroker__Failure *ret, const struct failure *failure);
