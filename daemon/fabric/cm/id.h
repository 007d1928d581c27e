/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Ids of the connection manager, and the functions by which the files of this room call each other. */

#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>

#include "fabric/internal.h"

/* channel.c */
/* Returns 0, also if the channel is open already; or a negative errno. */
int fabric_open_channel(struct fabric *fabric);
void fabric_close_channel(struct fabric *fabric);
/* Starts the opener. Call when devices were added or removed. */
void fabric_look_for_devices(struct fabric *fabric);
/* Starts or stops reading events. Call when a condition in may_read() has changed. */
void fabric_update_io(struct fabric *fabric);

/* What a call of librdmacm has returned: 0 or, from errno, a negative errno. */
static inline int cm_result(int r)
{
	return r < 0 ? -(errno ?: EIO) : 0;
}

#define FABRIC_OPTIONS (RDMA_OPTION_ID_ACK_TIMEOUT + 1)

struct fabric_id {
	struct fabric *fabric;
	/*
	 * While the id is dying, the thread that destroys it uses CM. Meanwhile the loop reads CM only to
	 * take an event that is not acked yet.
	 */
	struct rdma_cm_id *cm; /* NULL: a previous process has made the id */
	struct restored *restored; /* NULL: this process made the id */
	struct owner owner;
	fabric_event_fn on_event; /* NULL: the id's events are dropped */
	void *userdata;
	char device[64]; /* name of its device; "": not bound to one */
	enum fabric_stage stage;
	enum ibv_qp_type qp_type; /* 0: that of the port space */
	int16_t set[FABRIC_OPTIONS]; /* by the option's number: its value, or -1: not set */
	struct list leaving; /* fabric.leaving */
	/* timeout; NULL: the id is not in fabric.leaving */
	sd_event_source *leaving_timer;
	struct charge kept;

	struct offload_job job; /* for fabric.undertaker */
	struct list dying; /* a list of fabric.dying, while the id is being destroyed */
	struct iwarp_call *call; /* a thread connects; NULL: none */
	bool disconnect_is_put_off; /* until ESTABLISHED, see iwarp.h */
	bool disconnects; /* destroy() disconnects the id first */
	bool is_request; /* the id began as a connection request: its port is the listener's */
	bool is_unwanted; /* a leftover connection request that no session has claimed */
	/* PS and PORT are set when the id is freed, PS earlier if a previous process has made the id. */
	enum rdma_port_space ps;
	in_port_t port; /* 0: the id has no port of its own */
	struct charge ending;
};

static inline bool fabric_id_is_dying(const struct fabric_id *id)
{
	return !list_is_empty(&id->dying);
}

/* event.c: fabric.take_event and fabric.on_id_event */
void fabric_take_event(struct fabric *fabric, struct rdma_cm_event *event);
void fabric_id_on_event(struct fabric_id *id, struct fabric_event *event);

/* idlife.c */
void fabric_init_ids(struct fabric *fabric);
/* Makes a fabric_id without an rdma_cm_id. IS_REQUEST: it is a connection request. */
int fabric_id_alloc(struct fabric_id **ret, struct fabric *fabric, struct owner owner,
		    bool is_request);
/* Makes a fabric_id for CM, a connection request. On failure CM stays the caller's. */
int fabric_id_adopt(struct fabric_id **ret, struct fabric *fabric, struct owner owner,
		    struct rdma_cm_id *cm);
/* Copies the name of the id's device. Call wherever librdmacm may have bound the id to a device. */
void fabric_id_note_device(struct fabric_id *id);
/* R: the result of a bind to PORT, or of a listen there. True: an id that is being destroyed has the port. */
bool fabric_id_has_to_wait(const struct fabric_id *id, int r, in_port_t port);

/* cmtakeover.c: fabric.count_restored */
unsigned restored_count(const struct fabric_device *device);

/* join.c */
struct fabric_join {
	struct fabric_id *id;
	struct sockaddr_storage addr;
	void *userdata;
	/* for a restored id: */
	struct list link; /* its list of joins */
	bool is_old; /* a previous process has joined the group, so NUMBER is not known */
	uint32_t number; /* the kernel's number of the join */
};

/* leaving.c: ids whose client is gone. fabric_leaving_on_event() can free the id. */
void fabric_init_leaving(struct fabric *fabric);
void fabric_leaving_on_event(struct fabric_id *id, enum rdma_cm_event_type type);
void fabric_end_leaving(struct fabric *fabric);
