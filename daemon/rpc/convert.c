/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <string.h>

#include "core/facts/peerid.h"
#include "core/object/notice.h"
#include "proto/address.h"
#include "proto/text.h"
#include "core/admit/refused.h"
#include "rpc/convert.h"
#include "util/owner.h"

const char *in_conn_param(struct rdma_conn_param *ret, const Rdmabroker__ConnParam *param,
			  size_t max_private_data)
{
	if (!param)
		return "the connection parameters are missing";
	if (param->private_data.len > max_private_data)
		return "too much private data";
	if (param->responder_resources > 255 || param->initiator_depth > 255)
		return "responder_resources or initiator_depth is out of range 0..255";
	if (param->retry_count > 7 || param->rnr_retry_count > 7)
		return "retry_count or rnr_retry_count is out of range 0..7";
	if (param->flow_control > 1 || param->srq > 1)
		return "flow_control or srq is neither 0 nor 1";
	if (param->qp_num > 0xffffff)
		return "the QP number has more than 24 bits";
	*ret = (struct rdma_conn_param){
		.private_data = param->private_data.len ? param->private_data.data : NULL,
		.private_data_len = (uint8_t)param->private_data.len,
		.responder_resources = (uint8_t)param->responder_resources,
		.initiator_depth = (uint8_t)param->initiator_depth,
		.flow_control = (uint8_t)param->flow_control,
		.retry_count = (uint8_t)param->retry_count,
		.rnr_retry_count = (uint8_t)param->rnr_retry_count,
		.srq = (uint8_t)param->srq,
		.qp_num = param->qp_num,
	};
	return NULL;
}

const char *in_ece(struct ibv_ece *ret, const Rdmabroker__Ece *ece)
{
	*ret = (struct ibv_ece){ 0 };
	if (!ece)
		return NULL;
	if (ece->vendor_id == 0)
		return "the ECE has no vendor id";
	ret->vendor_id = ece->vendor_id;
	ret->options = ece->options;
	return NULL;
}

void out_id_info(struct out_id_info *space, const struct id *id)
{
	static const union ibv_gid no_gids[2];
	struct fabric_id_info *from = &space->from;

	if (!id_get_info(id, from))
		*from = (struct fabric_id_info){ 0 };
	rdmabroker__id_info__init(&space->info);
	space->info.local = address_pack(&space->local, (struct sockaddr *)&from->local);
	space->info.peer = address_pack(&space->peer, (struct sockaddr *)&from->peer);
	if (from->device)
		space->info.device = (char *)from->device;
	space->info.port_num = from->port_num;
	if (memcmp(from->gids, no_gids, sizeof(no_gids)) != 0) {
		space->info.gids.len = sizeof(from->gids);
		space->info.gids.data = from->gids[0].raw;
	}
}

static Rdmabroker__AhAttr *out_ah_attr(struct out_ah_attr *space, const struct ibv_ah_attr *ah)
{
	Rdmabroker__AhAttr *ret = &space->ah;

	rdmabroker__ah_attr__init(ret);
	if (ah->is_global) {
		space->dgid = ah->grh.dgid;
		ret->dgid.len = sizeof(space->dgid.raw);
		ret->dgid.data = space->dgid.raw;
		ret->flow_label = ah->grh.flow_label;
		ret->sgid_index = ah->grh.sgid_index;
		ret->hop_limit = ah->grh.hop_limit;
		ret->traffic_class = ah->grh.traffic_class;
	}
	ret->dlid = ah->dlid;
	ret->sl = ah->sl;
	ret->src_path_bits = ah->src_path_bits;
	ret->static_rate = ah->static_rate;
	ret->port_num = ah->port_num;
	return ret;
}

Rdmabroker__Ece *out_ece(Rdmabroker__Ece *ret, const struct ibv_ece *ece)
{
	if (ece->vendor_id == 0)
		return NULL;
	rdmabroker__ece__init(ret);
	ret->vendor_id = ece->vendor_id;
	ret->options = ece->options;
	return ret;
}

void out_ud_param(struct out_ud_param *space, const struct rdma_ud_param *ud)
{
	rdmabroker__ud_param__init(&space->param);
	space->param.ah = out_ah_attr(&space->ah, &ud->ah_attr);
	space->param.qp_num = ud->qp_num;
	space->param.qkey = ud->qkey;
}

/* Adds the attributes that QP's mask contains. */
static void add_qp_attr(struct out_qp_attr *space, const struct qp_attr *qp)
{
	const struct ibv_qp_attr *attr = &qp->attr;
	Rdmabroker__QpAttr *ret = &space->attr;

#define ADD(bit, field)                           \
	do {                                      \
		if (qp->mask & (bit))             \
			ret->field = attr->field; \
	} while (0)
	ADD(IBV_QP_PATH_MTU, path_mtu);
	ADD(IBV_QP_QKEY, qkey);
	ADD(IBV_QP_RQ_PSN, rq_psn);
	ADD(IBV_QP_SQ_PSN, sq_psn);
	ADD(IBV_QP_DEST_QPN, dest_qp_num);
	ADD(IBV_QP_ACCESS_FLAGS, qp_access_flags);
	ADD(IBV_QP_PKEY_INDEX, pkey_index);
	ADD(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic);
	ADD(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic);
	ADD(IBV_QP_MIN_RNR_TIMER, min_rnr_timer);
	ADD(IBV_QP_TIMEOUT, timeout);
	ADD(IBV_QP_RETRY_CNT, retry_cnt);
	ADD(IBV_QP_RNR_RETRY, rnr_retry);
	ADD(IBV_QP_PATH_MIG_STATE, path_mig_state);
	ADD(IBV_QP_ALT_PATH, alt_pkey_index);
	ADD(IBV_QP_ALT_PATH, alt_port_num);
	ADD(IBV_QP_ALT_PATH, alt_timeout);
#undef ADD
	/* INIT of iWARP has a port that is not in the mask. */
	if (attr->port_num > 0)
		ret->port_num = attr->port_num;
	if (qp->mask & IBV_QP_AV)
		ret->ah = out_ah_attr(&space->ah, &attr->ah_attr);
	if (qp->mask & IBV_QP_ALT_PATH)
		ret->alt_ah = out_ah_attr(&space->alt_ah, &attr->alt_ah_attr);
}

void out_qp_attr(struct out_qp_attr *space, const struct qp_attr *qp)
{
	rdmabroker__qp_attr__init(&space->attr);
	add_qp_attr(space, qp);
	space->attr.mask = (uint32_t)qp->mask;
	space->attr.qp_state = qp->attr.qp_state;
}

Rdmabroker__QpAttr *out_qp_attrs(struct out_qp_attr *space, const struct session_event *event)
{
	if (!event->init.mask && !event->rtr.mask && !event->rts.mask)
		return NULL;
	rdmabroker__qp_attr__init(&space->attr);
	add_qp_attr(space, &event->init);
	add_qp_attr(space, &event->rtr);
	add_qp_attr(space, &event->rts);
	space->attr.mask = (uint32_t)event->init.mask;
	space->attr.rtr_mask = (uint32_t)event->rtr.mask;
	space->attr.rts_mask = (uint32_t)event->rts.mask;
	return &space->attr;
}

ProtobufCBinaryData out_paths(uint8_t space[PATHS_SIZE], const struct id *id)
{
	struct ibv_sa_path_rec paths[PATHS_MAX];

	return (ProtobufCBinaryData){
		.len = paths_pack(space, paths, id_get_paths(id, paths)),
		.data = space,
	};
}

void out_conn_param(Rdmabroker__ConnParam *ret, const struct rdma_conn_param *param)
{
	rdmabroker__conn_param__init(ret);
	ret->private_data.len = param->private_data_len;
	ret->private_data.data = (uint8_t *)param->private_data;
	ret->responder_resources = param->responder_resources;
	ret->initiator_depth = param->initiator_depth;
	ret->flow_control = param->flow_control;
	ret->retry_count = param->retry_count;
	ret->rnr_retry_count = param->rnr_retry_count;
	ret->srq = param->srq;
	ret->qp_num = param->qp_num;
}

void out_failure(Rdmabroker__Failure *ret, const struct failure *failure)
{
	rdmabroker__failure__init(ret);
	ret->status = failure->status;
	ret->error = failure->error;
	ret->text = (char *)failure->text;
	ret->rule = (char *)failure->rule;
	ret->retry_after_ms = failure->retry_after_ms;
}

char *out_text(char *space, size_t size, const char *text)
{
	text_copy(space, size, text ?: "");
	return space;
}

char *out_rule_name(char *space, size_t size, const struct policy_rule *rule)
{
	space[0] = 0;
	if (rule)
		snprintf(space, size, "%s:%u", rule->file, rule->line);
	return space;
}

static void out_notice_id(Rdmabroker__Notice *ret, const struct notice *notice)
{
	const struct id *about = notice->request ?: notice->id;

	ret->id = id_get_handle(notice->id);
	ret->request_id = notice->request ? id_get_handle(notice->request) : 0;
	ret->qp_num = id_get_qpn(about);
}

static Rdmabroker__IdInfo *out_notice_info(struct out_notice *space, const struct notice *notice)
{
	rdmabroker__id_info__init(&space->info);
	if (notice->local)
		space->info.local = address_pack(&space->local, notice->local);
	if (notice->peer)
		space->info.peer = address_pack(&space->peer, notice->peer);
	if (notice->device)
		space->info.device = (char *)notice->device;
	return &space->info;
}

static Rdmabroker__Workload *out_names(struct out_workload *space,
				       const char *const names[_WORKLOAD_MAX])
{
	Rdmabroker__Workload *ret = &space->workload;

	rdmabroker__workload__init(ret);
#define NAME(name, NAME_) (ret->name = out_text(space->name, sizeof(space->name), names[NAME_]))
	NAME(container, WORKLOAD_CONTAINER);
	NAME(pod, WORKLOAD_POD);
	NAME(job, WORKLOAD_JOB);
	NAME(cgroup, WORKLOAD_CGROUP);
#undef NAME
	return ret;
}

Rdmabroker__Workload *out_workload(struct out_workload *space, const struct session *session)
{
	const char *names[_WORKLOAD_MAX];

	if (!session_get_workload(session, WORKLOAD_CGROUP)[0])
		return NULL;
	for (int i = 0; i < _WORKLOAD_MAX; i++)
		names[i] = session_get_workload(session, (enum workload_name)i);
	return out_names(space, names);
}

uint32_t out_charged(uid_t uid, struct owner owner)
{
	return owner.uid == uid ? 0 : owner.uid;
}

void in_workload(const char *ret[_WORKLOAD_MAX], const char *unit, const Rdmabroker__Workload *m)
{
	ret[WORKLOAD_UNIT] = unit;
	ret[WORKLOAD_CONTAINER] = m ? m->container : "";
	ret[WORKLOAD_POD] = m ? m->pod : "";
	ret[WORKLOAD_JOB] = m ? m->job : "";
	ret[WORKLOAD_CGROUP] = m ? m->cgroup : "";
}

const char *in_peer_identity(struct policy_peer *ret, const Rdmabroker__PeerIdentity *m)
{
	if (m->n_gids > MAX_GIDS)
		return "the peer has more than 1024 groups";
	if (m->uid == (uint32_t)-1)
		return "the peer's uid is not valid";
	policy_sort_gids(m->gids, m->n_gids);
	*ret = (struct policy_peer){ .uid = m->uid, .gids = m->gids, .n_gids = m->n_gids };
	if (m->knows_workload)
		in_workload(ret->workload, m->unit, m->workload);
	return NULL;
}

void out_peerid(struct out_peerid *space, const struct peerid *peerid,
		Rdmabroker__PeerIdentity **ret_who, char **ret_why)
{
	const struct policy_peer *who = peerid_who(peerid);

	if (!who) {
		*ret_why = (char *)peerid_why(peerid);
		return;
	}
	rdmabroker__peer_identity__init(&space->identity);
	space->identity.uid = who->uid;
	space->identity.knows_workload = who->workload[WORKLOAD_UNIT] != NULL;
	space->identity.unit =
		out_text(space->unit, sizeof(space->unit), who->workload[WORKLOAD_UNIT]);
	space->identity.workload = out_names(&space->workload, who->workload);
	*ret_who = &space->identity;
}

void out_notice(struct out_notice *space, const struct notice *notice)
{
	Rdmabroker__Notice *ret = &space->notice;

	rdmabroker__notice__init(ret);
	ret->time_ns = notice->time_ns;
	ret->kind = (char *)notice_kind_names[notice->kind];
	ret->session = session_get_number(notice->session);
	ret->uid = session_get_uid(notice->session);
	ret->pid = (uint32_t)session_get_pid(notice->session);
	ret->unit = out_text(space->unit, sizeof(space->unit),
			     session_get_workload(notice->session, WORKLOAD_UNIT));
	ret->workload = out_workload(&space->workload, notice->session);
	if (notice->kind == NOTICE_QUESTION) {
		ret->operation = (char *)policy_operation_to_string(notice->operation);
		ret->question = notice->question;
		ret->peer_qpn = notice->peer_qpn;
	}
	if (notice->kind == NOTICE_DECISION) {
		ret->operation = (char *)policy_operation_to_string(notice->operation);
		ret->outcome = (char *)outcome_names[notice->outcome];
		ret->retry_after_ms = notice->retry_after_ms;
		if (notice->asked)
			out_peerid(&space->peerid, notice->peerid, &ret->peer_identity,
				   &ret->peer_unknown);
	}
	if (notice->event)
		ret->event = (char *)notice->event;
	ret->status = notice->status;
	if (notice->id)
		out_notice_id(ret, notice);
	ret->info = out_notice_info(space, notice);
	ret->port_space = (uint32_t)notice->port_space;
	if (notice->rule) {
		ret->rule = out_rule_name(space->rule, sizeof(space->rule), notice->rule);
		ret->rule_text =
			out_text(space->rule_text, sizeof(space->rule_text), notice->rule->text);
	}
	ret->reason = out_text(space->reason, sizeof(space->reason), notice->reason);
}

Rdmabroker__Caps *out_caps(Rdmabroker__Caps *ret, const struct policy_settings *caps)
{
	rdmabroker__caps__init(ret);
	ret->responder_resources = caps->responder_resources;
	ret->initiator_depth = caps->initiator_depth;
	ret->retry_count = caps->retry_count;
	ret->rnr_retry_count = caps->rnr_retry_count;
	return ret;
}

void out_learned(Rdmabroker__Learned *ret, const struct core *core)
{
	const struct ledger_learned *learned = core_get_learned(core);

	rdmabroker__learned__init(ret);
	ret->since_ms = learned->since_ms;
	ret->rows = core_count_refused(core);
	ret->left = learned->n_left;
	ret->left_ms = learned->left_ms;
}
