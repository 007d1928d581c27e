/* SPDX-License-Identifier: BSD-2-Clause */
#include <rdma/rdma_cma.h>

#include "core/object/id_state.h"
#include "core/object/options.h"
#include "fabric/fabric.h"
#include "takeover/ledger.h"

#define ANY (~(IN(ID_MOVED) | IN(ID_REVOKED)))

/* The states are those in which the kernel allows it. */
const struct option_kind option_kinds[_OPTION_MAX] = {
	[OPTION_TOS] = { RDMA_OPTION_ID_TOS, "TOS", 255, ANY, false },
	[OPTION_REUSEADDR] = { RDMA_OPTION_ID_REUSEADDR, "REUSEADDR", 1, ANY & ~IN(ID_LISTENING),
			       true },
	[OPTION_AFONLY] = { RDMA_OPTION_ID_AFONLY, "AFONLY", 1, IN(ID_IDLE) | IN(ID_BOUND), true },
	[OPTION_ACK_TIMEOUT] = { RDMA_OPTION_ID_ACK_TIMEOUT, "ACK_TIMEOUT", 255, ANY, true },
	[OPTION_MIN_RNR_TIMER] = { 64, "MIN_RNR_TIMER", 31, ANY, true },
	[OPTION_QP_TYPE] = { 65, "QP_TYPE", IBV_QPT_XRC_RECV, IN(ID_IDLE), true },
};

void options_init(struct options *options)
{
	for (int i = 0; i < _OPTION_MAX; i++)
		options->asked[i] = options->now[i] = -1;
}

void options_save(const struct options *options, struct ledger_id *row)
{
	row->tos_asked = (int16_t)options->asked[OPTION_TOS];
	row->tos = (int16_t)options->now[OPTION_TOS];
	row->reuseaddr_asked = options_wants_reuseaddr(options);
	row->reuseaddr = options_has_reuseaddr(options);
	row->afonly = (int16_t)options->now[OPTION_AFONLY];
	row->ack_timeout = (int16_t)options->now[OPTION_ACK_TIMEOUT];
	row->min_rnr_timer = (uint8_t)(options->now[OPTION_MIN_RNR_TIMER] + 1);
	row->qp_type = (uint8_t)(options->now[OPTION_QP_TYPE] + 1);
}

void options_load(struct options *options, const struct ledger_id *row)
{
	options->asked[OPTION_TOS] = row->tos_asked;
	options->now[OPTION_TOS] = row->tos;
	options->asked[OPTION_REUSEADDR] = row->reuseaddr_asked ? 1 : -1;
	options->now[OPTION_REUSEADDR] = row->reuseaddr ? 1 : -1;
	options->now[OPTION_AFONLY] = row->afonly;
	options->now[OPTION_ACK_TIMEOUT] = row->ack_timeout;
	options->now[OPTION_MIN_RNR_TIMER] = row->min_rnr_timer - 1;
	options->now[OPTION_QP_TYPE] = row->qp_type - 1;
}

static int set_in_kernel(struct fabric_id *fabric, const struct option_kind *kind, int value)
{
	if (kind == &option_kinds[OPTION_QP_TYPE])
		return fabric_id_set_qp_type(fabric, (enum ibv_qp_type)value);
	return kind->number < 64 ? fabric_id_set_option(fabric, kind->number, value) : 0;
}

int options_put(const struct options *options, struct fabric_id *fabric)
{
	int r = 0;

	for (int i = 0; i < _OPTION_MAX && r == 0; i++)
		if (option_kinds[i].is_kept && options->now[i] >= 0)
			r = set_in_kernel(fabric, &option_kinds[i], options->now[i]);
	return r;
}

int options_set(struct options *options, struct fabric_id *fabric, enum option option, int value)
{
	int r = set_in_kernel(fabric, &option_kinds[option], value);

	if (r == 0)
		options->now[option] = value;
	return r;
}
