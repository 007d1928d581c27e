/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * What the rooms of this folder share, the struct behind fabric.h. From the top down: fabric.c, then cm/ (the connection
 * manager) and owner/ (who owns a QP), then device/ (devices and their nodes). A room calls its own files and those
 * below it. Calls upward go through the pointers in struct fabric.
 */

#include <pthread.h>
#include <stdbool.h>
#include <systemd/sd-device.h>

#include "fabric/fabric.h"
#include "util/account.h"
#include "util/hot.h"
#include "util/list.h"
#include "util/log.h"
#include "util/offload.h"

struct cmscan;
struct holderscan;
struct iwarp_call;
struct leftovers;
struct nldev;
struct opener;
struct qpscan;

#define DYING_LISTS 256
#define LOOKUP_THREADS 4
/* Limit of fabric.n_dying_unwanted. At the limit the event channel is not read. */
#define DYING_UNWANTED_MAX 16384

struct fabric {
	sd_event *loop;
	enum fabric_access access;
	const struct fabric_ops *ops;
	void *userdata;

	/* Calls upward, set by fabric_new(). A device has come or gone: */
	void (*devices_changed)(struct fabric *fabric);
	/* The number of restored ids on DEVICE. The kernel reports no process for them. */
	unsigned (*count_restored)(const struct fabric_device *device);
	/* librdmacm has returned EVENT, which is to be acked. */
	void (*take_event)(struct fabric *fabric, struct rdma_cm_event *event);
	/* ID gets EVENT, which needs no ack. */
	void (*on_id_event)(struct fabric_id *id, struct fabric_event *event);

	struct list devices; /* fabric_device.link */
	uint64_t last_device; /* number of the newest device */
	struct list leaving; /* fabric_id.leaving, see cm/leaving.c */
	struct account kept; /* counts the ids in LEAVING, by user */
	struct list dying[DYING_LISTS]; /* fabric_id.dying, by port */
	unsigned n_dying_unwanted; /* ids in DYING with is_unwanted */
	struct account ending; /* counts the ids in DYING, by user */
	struct offload *undertaker; /* threads that destroy the ids in DYING */
	struct offload *callers; /* threads that connect, accept and listen, see cm/iwarp.h */
	struct list listens; /* iwarp_call.link: of ids without a device, one after the other */
	struct iwarp_call *listening; /* the one that a thread carries out; NULL: none */
	sd_event_source *
		next_listen; /* timer that is due at once, while LISTENS has entries and none runs */
	/* changes the ACLs of nodes, with one thread and one lane; see device/nodelease.c */
	struct offload *entries;
	bool has_lender; /* the entries are a lender's, see fabric_set_lender() */
	const struct fabric_lender *lender;
	void *lender_userdata;
	sd_event_source *nodes; /* watches the directory of the nodes, if there is a lender */
	/* never submitted: it keeps the lane allocated, so that offload_prepare() cannot fail */
	struct offload_job keep_entries;
	struct opener *opener;

	struct rdma_event_channel *cm; /* NULL: not open yet, see cm/channel.c */
	uint32_t *reading; /* see fabric_note_reading() */
	uint32_t no_reading; /* READING, if nobody needs it */
	struct leftovers
		*leftovers; /* ids that a previous process has left; NULL: there were none */
	/* Their QP numbers, while they are restored, see cm/cmtakeover.c; NULL: not scanned, or the scan has failed. */
	struct cmscan *scanned;
	bool is_scanned;
	/* fabric_takeover_rest() was not called yet. Until then no ACL entries are cleared and no scans begin. */
	bool takes_over;
	struct hot *hot;
	struct hot_io io; /* reads events from CM's descriptor */
	sd_event_source *io_retry; /* resumes reading after a failure */
	uint64_t turn; /* of HOT, in which events were last read */
	struct ratelimit log_limit;

	sd_device_monitor *monitor;
	struct offload *lookups; /* threads that look up the owners of QPs, see owner/qplookup.c */
	struct nldev *nldev; /* a socket that is kept for what the loop asks; NULL: none */
	/* sockets that are kept for the threads of LOOKUPS */
	struct {
		pthread_mutex_t lock;
		struct nldev *kept[LOOKUP_THREADS];
		unsigned n;
	} sockets;
	struct qpscan *qpscan;
	struct holderscan *holderscan; /* NULL until the first scan */
	bool cm_node_told; /* TOLD of fabric_check_node() for the node of rdma_cm */
};
