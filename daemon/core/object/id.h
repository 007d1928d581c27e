/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * An id is the broker's counterpart of an rdma_cm_id. The client refers to it by its handle, a number that is unique
 * within the session. It consists of parts, each of which has the functions that begin, move, save and load it; this
 * file puts them together. What changes an id, and ends it, is in verbs/: id_life.h, option.h, bind.h, listen.h,
 * resolve_addr.h, resolve_route.h, conn.h, group.h and handover.h.
 */

#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/object/grant.h"
#include "core/object/handshake.h"
#include "core/object/id_state.h"
#include "core/object/options.h"
#include "core/object/route.h"
#include "core/object/session.h"
#include "core/object/who.h"
#include "proto/addr.h"
#include "util/account.h"

/*
 * The charge for an id covers up to this many queued events of the id; further ones are charged as queued bytes.
 * While the client does nothing, an id that has joined no multicast group does not exceed this number.
 */
#define ID_EVENTS_MAX 8

struct ledger_id;
struct listener;
struct peerid;
struct restriction;
struct token;
struct whois_entry;

struct id {
	struct session *session;
	uint32_t handle;
	struct ledger_id *row; /* in the ledger; NULL: the id is not kept */
	struct fabric_id *fabric;
	enum rdma_port_space ps;
	bool any_port; /* the kernel has chosen its port */
	enum id_state state; /* see id_life.h */
	uint64_t since_ms; /* CLOCK_MONOTONIC: when the id was created, or imported */
	uint64_t state_since_ns; /* CLOCK_MONOTONIC: when the id entered its state */
	struct charge charge;
	struct restriction *restricted; /* counts the id; NULL: none does */

	struct grant grant;
	struct options options;
	struct route route;
	struct handshake handshake;
	struct who who;
	struct listener *listener; /* NULL: the id does not listen */
	struct list groups; /* group.link, the group that was joined last comes last */
	void *groups_by_addr; /* a tree of the same groups, see tsearch(3) */
	uint32_t last_group; /* number of the group that was joined last */
	struct token *token; /* NULL: not exported */
	struct whois_entry *whois; /* NULL: the id is not in the index */
	/* kept by rpc/: the queued events that the id's charge covers */
	struct list events;
};

/* True: only the handle is left, because another session has imported the id, or it was revoked. */
static inline bool id_is_empty(const struct id *id)
{
	return id->state == ID_MOVED || id->state == ID_REVOKED;
}

static inline bool id_is_datagram(const struct id *id)
{
	return id->ps == RDMA_PS_UDP || id->ps == RDMA_PS_IPOIB ||
	       id->options.now[OPTION_QP_TYPE] == IBV_QPT_UD;
}

void id_own_fabric(struct id *id, struct fabric_id *fabric); /* the id takes over FABRIC */
/* Sets an option in the kernel. Returns 0 or a negative errno: then nothing has changed. */
int id_set_option(struct id *id, enum option option, int value);
/* It was asked who the peer is. Takes PEERID. */
void id_set_peerid(struct id *id, struct peerid *peerid);
void id_forget_peerid(struct id *id); /* the peer will be another one */
/* Refuses VERB ("listen") because the state does not allow it. Returns STATUS_BAD_STATE. */
int id_refuse_state(struct id *id, const char *verb, struct failure *failure);

/*
 * The next process of the daemon takes the id over from its row in the ledger. To be called after each change; each
 * call writes all that can have changed.
 */
void id_save(struct id *id);
/* The state, the route and the handshake, with which the addresses can have changed. */
void id_save_state(struct id *id);
/* The contents of the connection request. False: there is no room for it. */
bool id_save_request(struct id *id);
/*
 * The kernel has given an event of TYPE. To be called before the state changes; id_save_told() when the client was
 * told.
 */
void id_save_untold(struct id *id, enum rdma_cm_event_type type);
void id_save_told(struct id *id);
/* What a new id has from ROW, whatever its state is. */
void id_load(struct id *id, const struct ledger_id *row);

/* Getters for rpc/, which does not access the members: */

static inline uint32_t id_get_handle(const struct id *id)
{
	return id->handle;
}

static inline struct session *id_get_session(const struct id *id)
{
	return id->session;
}

static inline enum rdma_port_space id_get_port_space(const struct id *id)
{
	return id->ps;
}

static inline enum id_state id_get_state(const struct id *id)
{
	return id->state;
}

/* CLOCK_MONOTONIC: when the id was created, or imported. */
static inline uint64_t id_get_since_ms(const struct id *id)
{
	return id->since_ms;
}

static inline const struct policy_rule *id_get_rule(const struct id *id)
{
	return id->grant.rule;
}

/* False: it was not asked who the peer is. *RET can be NULL, see peerid_why(). */
static inline bool id_get_peerid(const struct id *id, const struct peerid **ret)
{
	*ret = id->who.peerid;
	return id->who.state == WHO_ANSWERED;
}

static inline uint32_t id_get_qpn(const struct id *id)
{
	return id->handshake.qpn;
}

/* -1: the kernel's default. */
static inline int id_get_tos(const struct id *id)
{
	return id->options.now[OPTION_TOS];
}

/* NULL: the id is no connection request, or was answered. */
static inline const struct fabric_event *id_get_request(const struct id *id)
{
	return id->handshake.request;
}

/* False: the id has no fabric id, and RET is not set. */
static inline bool id_get_info(const struct id *id, struct fabric_id_info *ret)
{
	if (!id->fabric)
		return false;
	fabric_id_get_info(id->fabric, ret);
	return true;
}

/* The partition of the path that the client has set, or that of the id; 0: not known yet. */
static inline uint16_t id_get_partition(const struct id *id)
{
	struct fabric_id_info info;

	if (id->route.path_pkey || !id_get_info(id, &info))
		return id->route.path_pkey;
	return info.pkey;
}

/* Returns the number of paths, see fabric_id_get_paths(). */
static inline size_t id_get_paths(const struct id *id, struct ibv_sa_path_rec ret[PATHS_MAX])
{
	return id->fabric ? fabric_id_get_paths(id->fabric, ret) : 0;
}

static inline struct list *id_get_events(struct id *id)
{
	return &id->events;
}
