/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>

#include "core/object/id.h"
#include "core/object/table.h"
#include "core/verbs/conn.h"
#include "core/verbs/id_life.h"
#include "proto/address.h"
#include "proto/arena.h"
#include "proto/codec.h"
#include "proto/rdmabroker.pb-c.h"
#include "rpc/peer.h"
#include "rpc/repeat.h"
#include "rpc/request.h"
#include "takeover/ledger.h"

#define OP(NAME) RDMABROKER__REQUEST__OP_##NAME

enum verdict {
	AGAIN, /* it was not carried out, or carrying it out twice does no harm */
	DONE, /* it was carried out */
	UNKNOWN,
};

static const Rdmabroker__Request *decode(const struct repeat *repeat, struct arena *arena,
					 union request_memory *memory)
{
	const Rdmabroker__Frame *frame;

	if (repeat->len == 0)
		return NULL;
	arena_init(arena, &memory->block, REQUEST_SPACE, /* more_max= */ 0);
	frame = codec_unpack(arena, repeat->packet, repeat->len);
	return frame && frame->body_case == RDMABROKER__FRAME__BODY_REQUEST ? frame->request : NULL;
}

static struct ledger_id *find_row(const struct repeat *repeat, uint32_t handle)
{
	for (size_t i = 0; i < repeat->n_ids; i++)
		if (repeat->ids[i].handle == handle)
			return &repeat->ids[i];
	return NULL;
}

/* The states in which the operation can begin. In any other state it was carried out. 0: the state does not tell. */
static unsigned states_before(Rdmabroker__Request__OpCase op)
{
	switch (op) {
	case OP(BIND_ADDR):
		return IN(ID_IDLE);
	case OP(LISTEN):
	case OP(RESOLVE_ADDR):
		return IN(ID_IDLE) | IN(ID_BOUND);
	case OP(RESOLVE_ROUTE):
		return IN(ID_ADDR_RESOLVED);
	case OP(CONNECT):
		return IN(ID_ADDR_RESOLVED) | IN(ID_ROUTE_RESOLVED);
	case OP(ACCEPT):
		return IN(ID_REQUEST);
	case OP(ESTABLISH):
		return IN(ID_RESPONDED);
	case OP(REJECT):
		return IN(ID_REQUEST) | IN(ID_RESPONDED);
	case OP(DISCONNECT):
		return ~(IN(ID_DISCONNECTING) | IN(ID_DISCONNECTED));
	default:
		return 0;
	}
}

static bool is_joined(const struct repeat *repeat, uint32_t handle, const Rdmabroker__Address *addr)
{
	struct sockaddr_storage wanted;

	if (address_unpack(&wanted, addr))
		return false;
	for (size_t i = 0; i < repeat->n_groups; i++)
		if (repeat->groups[i].id == handle &&
		    addr_is_same_host((const struct sockaddr *)&repeat->groups[i].addr,
				      (const struct sockaddr *)&wanted))
			return true;
	return false;
}

static enum verdict judge(const struct repeat *repeat, const Rdmabroker__Request *request)
{
	uint32_t handle = request_get_handle(request);
	const struct ledger_id *row = handle ? find_row(repeat, handle) : NULL;
	unsigned before = states_before(request->op_case);
	enum verdict again = repeat->tried || repeat->repeated ? UNKNOWN : AGAIN;

	switch (request->op_case) {
	case OP(DESTROY_ID):
		return row ? again : DONE;
	case OP(JOIN_MULTICAST):
		return is_joined(repeat, handle, request->join_multicast->addr) ? DONE : again;
	case OP(LEAVE_MULTICAST):
		return is_joined(repeat, handle, request->leave_multicast->addr) ? again : DONE;
	case OP(DISCONNECT):
		/* It may have to reply to the peer's disconnect, and to reply twice does no harm. */
		if (again == UNKNOWN)
			return DONE;
		return row && row->state == ID_DISCONNECTED && repeat->row->confirms ? again :
		       !row || IN(row->state) & before                               ? again :
										       DONE;
	case OP(HELLO):
		/* Only sessions whose Hello has succeeded are restored, so it is only answered. */
		return AGAIN;
	case OP(CLOSE_DEVICE):
		/* A lease that is given back too late does no harm. */
		return DONE;
	case OP(RELEASE_SESSION):
		return repeat->row->released ? DONE : again;
	case OP(EXPORT_ID):
	case OP(IMPORT_ID):
	case OP(ADOPT_SESSION): /* its descriptor is lost */
	case OP(KICK):
		return UNKNOWN;
	default:
		return before == 0 || !row || IN(row->state) & before ? again : DONE;
	}
}

static bool was_accepted(struct fabric *fabric, const struct ledger_id *row)
{
	const struct fabric_id_info info = { .local = row->local, .peer = row->peer };

	/* Of a datagram id, the second answer only fails. */
	return row->ps != RDMA_PS_UDP && row->ps != RDMA_PS_IPOIB &&
	       fabric_takeover_was_accepted(fabric, (enum rdma_port_space)row->ps, &info);
}

void repeat_prepare(const struct repeat *repeat, struct fabric *fabric)
{
	union request_memory memory;
	struct arena arena;
	const Rdmabroker__Request *request = decode(repeat, &arena, &memory);
	struct ledger_id *row = request ? find_row(repeat, request_get_handle(request)) : NULL;

	if (!row)
		return;
	if (request->op_case == OP(BIND_ADDR) && row->state == ID_BOUND) {
		row->state = ID_IDLE;
		row->local.ss_family = AF_UNSPEC;
	} else if (request->op_case == OP(LISTEN) && row->state == ID_LISTENING) {
		row->state = ID_BOUND;
	} else if (request->op_case == OP(ACCEPT) && row->state == ID_REQUEST &&
		   was_accepted(fabric, row)) {
		row->state = ID_ACCEPTED;
		row->qpn = request->accept->param ? request->accept->param->qp_num : 0;
	}
}

/* Frees the id that REQUEST creates, so that it can be created again. */
static void undo_creation(struct session *session, const Rdmabroker__Request *request)
{
	uint32_t handle = request->first                    ? request->first->id :
			  request->op_case == OP(CREATE_ID) ? request->create_id->id :
							      0;
	struct failure ignored;
	struct id *id;

	if (handle && table_find(session, handle, &id, &ignored) == 0)
		id_free(id);
}

void repeat_go_on(const struct repeat *repeat, struct peer *peer)
{
	union request_memory memory;
	struct arena arena;
	const Rdmabroker__Request *request = decode(repeat, &arena, &memory);

	if (!request)
		return;
	switch (judge(repeat, request)) {
	case AGAIN:
		undo_creation(peer->session, request);
		peer_repeat_request(peer, repeat->packet, repeat->len);
		break;
	case DONE:
		if (!request->quiet)
			peer_answer_request(peer, request, 0);
		break;
	case UNKNOWN:
		peer_answer_request(peer, request, -EAGAIN);
		break;
	}
}

void repeat_go_on_aside(const struct repeat *repeat, uint32_t handle, struct peer *peer)
{
	union request_memory memory;
	struct arena arena;
	const Rdmabroker__Request *request = decode(repeat, &arena, &memory);
	enum verdict verdict = request ? judge(repeat, request) : UNKNOWN;
	struct failure ignored;
	struct id *id;
	int r = -EAGAIN;

	if (verdict == AGAIN)
		r = peer_restore_aside(peer, repeat->packet, repeat->len, handle);
	if (verdict == DONE || r == 0)
		return;
	if (table_find(peer->session, handle, &id, &ignored) == 0)
		conn_refuse(id, r, NULL);
}
