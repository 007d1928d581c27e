/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* The state of an id as far as the library knows it, and the id's QP. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "client/lib/wire/message.h"
#include "client/rdmabroker.h"
#include "proto/path.h"

struct device;
struct join;

/*
 * The state of the broker's id, as the library infers it from requests and events. With RDMABROKER_FAIL_BY_EVENT a
 * call does not wait for its reply if the stage shows that the call is allowed.
 */
enum id_stage {
	STAGE_UNKNOWN, /* not known, or a state in which every call waits */
	STAGE_NEW, /* new, or bound to an address */
	STAGE_ADDR_RESOLVED,
	STAGE_ROUTE_RESOLVED,
	STAGE_CONNECTING,
	STAGE_RESPONDED, /* the peer has accepted */
	STAGE_REQUEST, /* a connection request */
	STAGE_ACCEPTED,
	STAGE_ESTABLISHED,
};

/* See idstate_option(). It is more than there are, so that new ones have room. */
#define IDSTATE_OPTIONS 12

/*
 * Members with "wire.lock" in their comment are guarded by that lock. The others are written by the thread that calls
 * a function on the id or takes its events.
 */
struct rdmabroker_id {
	struct rdmabroker *session;
	uint32_t handle;
	bool is_new; /* not created in the broker yet: the next request creates it; wire.lock */
	enum id_stage stage; /* wire.lock */
	/*
	 * the broker has resolved the route before the program requested it; resolve_route sends nothing; wire.lock
	 */
	bool routed;
	bool wants_route; /* the program has requested the route, alone or with the address; wire.lock */
	struct paths paths; /* of a route that came with ADDR_RESOLVED; wire.lock */
	enum rdmabroker_port_space ps;
	void *context;
	struct sockaddr_storage local, peer;
	union ibv_gid gids
		[2]; /* of both ends, if they do not follow from the addresses; all zero: not known */
	char device_name[64]; /* empty: not bound to a device */
	struct device *device; /* opened for this id; NULL: not opened */
	bool listening;
	/* connect/connect.c needs the next three members to create the broker's id again. */
	int options[IDSTATE_OPTIONS]; /* -1: not set */
	bool bound; /* the program has called bind_addr, and the call did not fail */
	struct sockaddr_storage src; /* the source address of resolve_addr; ss_family 0: none */

	struct ibv_qp *qp;
	bool own_qp; /* the library has created the QP, and destroys it */
	struct qp_attr in_init; /* attributes of the QP's last move to INIT; mask 0: none */
	struct qp_attr init, rtr, rts; /* attributes for these states; mask 0: not known */
	/* what the peer has requested; 255: it has not, so the device decides */
	uint8_t request_responder_resources, request_initiator_depth;
	struct caps caps;
	struct ibv_ece local_ece, remote_ece; /* vendor_id 0: none */
	LIST_HEAD(, join) joins;

	/* Used by event/ */
	bool disconnected; /* DISCONNECTED was taken, see rdmabroker_disconnect(); wire.lock */
	unsigned n_queued; /* events of this id in session.queue; wire.lock */
	bool held; /* another struct takes its place, so its events are held, see struct queue */
	unsigned n_digesting; /* threads that are applying events to the id; wire.lock */
	unsigned retries; /* enum retry (bits): after these rejects connect retries with this QP */

	/* Used by connect/ */
	struct rdmabroker_event *reject; /* of the last rejected connect_wait; NULL: none */
	struct rdmabroker_event *response; /* of the last connect_wait that succeeded; NULL: none */
	struct rdmabroker_event *request; /* of get_request or import_id; NULL: none */
};

/* The place of RDMABROKER_OPTION_QP_TYPE in options. */
#define IDSTATE_QP_TYPE 5

/* The option whose value is options[I]. */
static inline enum rdmabroker_option idstate_option(int i)
{
	return (enum rdmabroker_option)(i <= RDMABROKER_OPTION_ACK_TIMEOUT ?
						i :
						RDMABROKER_OPTION_MIN_RNR_TIMER + i -
							RDMABROKER_OPTION_ACK_TIMEOUT - 1);
}

enum id_stage idstate_after_event(uint32_t type);
void idstate_set_stage(struct rdmabroker_id *id, enum id_stage stage);
/* Reads FLAG, a member of ID that wire.lock guards. Takes the lock. */
bool idstate_read(struct rdmabroker_id *id, const bool *flag);

static inline bool idstate_is_datagram(const struct rdmabroker_id *id)
{
	return id->ps == RDMABROKER_PS_UDP || id->ps == RDMABROKER_PS_IPOIB ||
	       id->options[IDSTATE_QP_TYPE] == IBV_QPT_UD;
}

/* A struct without a number in the broker. NULL: out of memory. */
struct rdmabroker_id *idstate_new(struct rdmabroker *session, enum rdmabroker_port_space ps);
/*
 * Make the struct of a connection request or an imported id, which has the number HANDLE in the broker. Returns 0,
 * -ENOMEM, or -EPROTO: HANDLE is not valid, or in use. Needs the lock.
 */
int idstate_new_request(struct rdmabroker *session, uint32_t handle, enum rdmabroker_port_space ps,
			struct rdmabroker_id **ret);
void idstate_set_info(struct rdmabroker_id *id, const Rdmabroker__IdInfo *info);
