/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/id/idstate.h"
#include "client/lib/id/idtable.h"
#include "client/lib/wire/pending.h"
#include "client/lib/wire/sessionparts.h"
#include "proto/addr.h"
#include "proto/address.h"
#include "proto/text.h"

struct rdmabroker_id *idstate_new(struct rdmabroker *session, enum rdmabroker_port_space ps)
{
	struct rdmabroker_id *id = calloc(1, sizeof(*id));

	if (!id)
		return NULL;
	id->session = session;
	id->ps = ps;
	message_get_caps(&id->caps, NULL);
	id->request_responder_resources = id->request_initiator_depth = 0xff;
	memset(id->options, -1, sizeof(id->options));
	return id;
}

int idstate_new_request(struct rdmabroker *session, uint32_t handle, enum rdmabroker_port_space ps,
			struct rdmabroker_id **ret)
{
	struct rdmabroker_id *id = idstate_new(session, ps);
	int r;

	if (!id)
		return -ENOMEM;
	id->handle = handle;
	pending_settle_handle(&session->wire, handle);
	r = idtable_add_request(session->ids, id, handle);
	if (r < 0) {
		free(id);
		return r == -ENOMEM ? r : -EPROTO;
	}
	*ret = id;
	return 0;
}

enum id_stage idstate_after_event(uint32_t type)
{
	switch (type) {
	case RDMABROKER_EVENT_ADDR_RESOLVED:
		return STAGE_ADDR_RESOLVED;
	case RDMABROKER_EVENT_ROUTE_RESOLVED:
		return STAGE_ROUTE_RESOLVED;
	case RDMABROKER_EVENT_CONNECT_RESPONSE:
		return STAGE_RESPONDED;
	case RDMABROKER_EVENT_ESTABLISHED:
		return STAGE_ESTABLISHED;
	default:
		return STAGE_UNKNOWN;
	}
}

void idstate_set_stage(struct rdmabroker_id *id, enum id_stage stage)
{
	wire_lock(&id->session->wire);
	id->stage = stage;
	wire_unlock(&id->session->wire);
}

bool idstate_read(struct rdmabroker_id *id, const bool *flag)
{
	bool value;

	wire_lock(&id->session->wire);
	value = *flag;
	wire_unlock(&id->session->wire);
	return value;
}

void idstate_set_info(struct rdmabroker_id *id, const Rdmabroker__IdInfo *info)
{
	if (info->local)
		address_unpack(&id->local, info->local);
	if (info->peer)
		address_unpack(&id->peer, info->peer);
	text_copy(id->device_name, sizeof(id->device_name), info->device);
	if (info->gids.len == sizeof(id->gids))
		memcpy(id->gids, info->gids.data, sizeof(id->gids));
}

void *rdmabroker_get_context(const struct rdmabroker_id *id)
{
	return id->context;
}

void rdmabroker_set_context(struct rdmabroker_id *id, void *context)
{
	id->context = context;
}

struct rdmabroker *rdmabroker_get_session(const struct rdmabroker_id *id)
{
	return id->session;
}

const struct sockaddr *rdmabroker_get_local_addr(const struct rdmabroker_id *id)
{
	return (const struct sockaddr *)&id->local;
}

const struct sockaddr *rdmabroker_get_peer_addr(const struct rdmabroker_id *id)
{
	return (const struct sockaddr *)&id->peer;
}

uint16_t rdmabroker_get_local_port(const struct rdmabroker_id *id)
{
	return addr_port((const struct sockaddr *)&id->local);
}

uint16_t rdmabroker_get_peer_port(const struct rdmabroker_id *id)
{
	return addr_port((const struct sockaddr *)&id->peer);
}

static bool has_gid(const struct rdmabroker_id *id, size_t which,
		    const struct sockaddr_storage *addr, union ibv_gid *ret)
{
	static const union ibv_gid none;

	*ret = id->gids[which];
	if (memcmp(ret, &none, sizeof(none)) != 0)
		return true;
	return addr->ss_family == AF_IB && addr_host((const struct sockaddr *)addr, ret->raw) &&
	       !addr_is_wildcard((const struct sockaddr *)addr);
}

int rdmabroker_get_gids(const struct rdmabroker_id *id, union ibv_gid *ret_local,
			union ibv_gid *ret_peer)
{
	bool has_local = has_gid(id, 0, &id->local, ret_local);
	bool has_peer = has_gid(id, 1, &id->peer, ret_peer);

	return has_local || has_peer ? 0 : -ENODATA;
}

const char *rdmabroker_get_device_name(const struct rdmabroker_id *id)
{
	return id->device_name[0] ? id->device_name : NULL;
}
