/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fabric/device/device.h"
#include "fabric/internal.h"
#include "fabric/device/nodeacl.h"
#include "util/util.h"

/*
 * A lease gives its user an ACL entry on the device's node. A grant counts the leases of one user, which
 * share the entry.
 *
 *   no entry ── a lease waits ──> the thread allows ── done ──> entry
 *   entry ── no lease is left ──> the thread denies ──> no entry
 *
 * Leases may come and go while the thread runs. When the thread is done, grant_go_on() compares the entry
 * with the leases.
 */
struct grant {
	struct list link; /* fabric_device.grants */
	struct fabric_device *device; /* holds a reference */
	uid_t uid;
	unsigned n_leases;
	struct list waiting; /* fabric_lease.waiting: DONE is still to be called */
	bool has_entry; /* the ACL has, or may have, an entry */
	/* the entry has to be set again: udev may have changed the ACL */
	bool renew;

	struct offload_job job;
	struct fabric_loan loan; /* in place of JOB, if there is a lender */
	bool runs;
	/* True: the thread sets the entry. False: it removes the entry. Not changed while the thread runs. */
	bool allow;
	int r; /* while the thread runs, only the thread uses R */
};

struct fabric_lease {
	struct fabric_device *device; /* holds a reference */
	struct grant *grant; /* NULL: the user needs no entry */
	struct list waiting; /* grant.waiting */
	fabric_answer_fn done;
	void *userdata;
};

static bool needs_entry(const struct fabric_device *device, uid_t uid, enum fabric_access access)
{
	if (access == FABRIC_ACCESS_DEFAULT)
		access = device->fabric->access;
	return access == FABRIC_ACCESS_ACL && uid != 0 && uid != geteuid();
}

static void grant_free(struct grant *grant)
{
	list_remove(&grant->link);
	fabric_device_unref(grant->device);
	free(grant);
}

/* DONE can free its lease. */
static void tell(struct grant *grant, int r)
{
	struct list *l;

	while ((l = list_first(&grant->waiting))) {
		struct fabric_lease *lease = container_of(l, struct fabric_lease, waiting);

		list_remove(l);
		lease->done(lease->userdata, r);
	}
}

static void run(struct offload_job *job)
{
	struct grant *grant = container_of(job, struct grant, job);

	grant->r = nodeacl_set(grant->device->node, grant->uid, grant->allow);
}

/*
 * False: there is no memory, which is only possible in fabric_free(), when keep_entries no longer keeps the
 * lane; or there is no lender any more.
 */
static bool start(struct grant *grant, bool allow)
{
	struct fabric *fabric = grant->device->fabric;
	struct offload *entries = fabric->entries;

	grant->allow = allow;
	grant->renew = false;
	if (fabric->has_lender) {
		if (!fabric->lender)
			return false;
		grant->runs = true;
		grant->loan = (struct fabric_loan){
			.device = grant->device->name,
			.uid = grant->uid,
			.allow = allow,
		};
		list_init(&grant->loan.link);
		fabric->lender->lend(fabric->lender_userdata, &grant->loan);
		return true;
	}
	if (offload_prepare(entries, &grant->job, 0) < 0)
		return false;
	grant->runs = true;
	offload_submit(entries, &grant->job);
	return true;
}

/* Starts the thread if the entry has to be set or removed. Frees GRANT if it is no longer needed. */
static void grant_go_on(struct grant *grant)
{
	bool is_waited_for = !list_is_empty(&grant->waiting);

	if (grant->runs)
		return;
	/* The node of a removed device is gone, or belongs to another device by now. */
	if (grant->device->gone)
		grant->has_entry = false;
	if (grant->n_leases == 0) {
		if (!grant->has_entry || !start(grant, /* allow= */ false))
			grant_free(grant);
	} else if (!grant->device->gone &&
		   ((is_waited_for && !grant->has_entry) ||
		    (grant->renew && (grant->has_entry || grant->device->fabric->has_lender)))) {
		start(grant, /* allow= */ true);
	}
}

/* Logs a failure. The entry stays until the user has had another lease, or the daemon starts again. */
static void complain_of_rest(const struct fabric_device *device, int r, const char *who)
{
	if (r < 0 && r != -ENODEV)
		log_limited(
			&device->fabric->log_limit, LOG_ERR,
			"Cannot revoke access to %s for %s: %s. getfacl(1) shows who has access.",
			device->node, who, strerror(-r));
}

static void on_done(struct offload_job *job)
{
	struct grant *grant = container_of(job, struct grant, job);
	char who[32];

	grant->runs = false;
	if (grant->allow) {
		grant->has_entry = grant->has_entry || grant->r == 0;
		/* One lease more, so that the callbacks do not free GRANT. */
		grant->n_leases++;
		tell(grant, grant->device->gone ? -ENODEV : grant->r);
		grant->n_leases--;
	} else {
		snprintf(who, sizeof(who), "uid %u", grant->uid);
		complain_of_rest(grant->device, grant->r, who);
		grant->has_entry = false;
	}
	grant_go_on(grant);
}

void fabric_lent(struct fabric_loan *loan, int r)
{
	struct grant *grant = container_of(loan, struct grant, loan);

	grant->r = r;
	on_done(&grant->job);
}

void fabric_lend_again(struct fabric *fabric)
{
	struct fabric_device *device = NULL;

	while ((device = fabric_next_device(fabric, device)))
		fabric_renew_entries(device);
}

static void clear(struct offload_job *job)
{
	struct fabric_device *device = container_of(job, struct fabric_device, clearing);

	device->clear_r = nodeacl_clear(device->node);
}

static void on_cleared(struct offload_job *job)
{
	struct fabric_device *device = container_of(job, struct fabric_device, clearing);

	complain_of_rest(device, device->clear_r,
			 "users to whom an earlier run of rdmabrokerd gave access");
	fabric_device_unref(device);
}

void fabric_clear_entries(struct fabric_device *device)
{
	struct offload *entries = device->fabric->entries;

	if (device->fabric->access != FABRIC_ACCESS_ACL || device->fabric->has_lender)
		return;
	device->n_refs++;
	device->clearing.run = clear;
	device->clearing.done = on_cleared;
	offload_prepare(entries, &device->clearing, 0);
	offload_submit(entries, &device->clearing);
}

void fabric_renew_entries(struct fabric_device *device)
{
	struct list *l, *n;

	list_for_each_safe(l, n, &device->grants) {
		struct grant *grant = container_of(l, struct grant, link);

		grant->renew = true;
		grant_go_on(grant);
	}
}

static struct grant *find_grant(struct fabric_device *device, uid_t uid)
{
	struct list *l;

	list_for_each(l, &device->grants)
		if (container_of(l, struct grant, link)->uid == uid)
			return container_of(l, struct grant, link);
	return NULL;
}

static struct grant *grant_new(struct fabric_device *device, uid_t uid)
{
	struct grant *grant = calloc(1, sizeof(*grant));

	if (!grant)
		return NULL;
	device->n_refs++;
	grant->device = device;
	grant->uid = uid;
	grant->job.run = run;
	grant->job.done = on_done;
	list_init(&grant->waiting);
	list_insert(&device->grants, &grant->link);
	return grant;
}

/* Returns as fabric_lease_new(). */
static int join_grant(struct fabric_lease *lease, uid_t uid)
{
	struct grant *grant = find_grant(lease->device, uid) ?: grant_new(lease->device, uid);

	if (!grant)
		return -ENOMEM;
	lease->grant = grant;
	grant->n_leases++;
	/* An entry that the thread is removing does not count. */
	if (grant->has_entry && !(grant->runs && !grant->allow))
		return 0;
	list_insert(&grant->waiting, &lease->waiting);
	grant_go_on(grant);
	return -EINPROGRESS;
}

int fabric_lease_new(struct fabric_lease **ret, struct fabric_device *device, uid_t uid,
		     enum fabric_access access, fabric_answer_fn done, void *userdata)
{
	struct fabric_lease *lease = calloc(1, sizeof(*lease));
	int r = 0;

	if (!lease)
		return -ENOMEM;
	lease->device = device;
	lease->done = done;
	lease->userdata = userdata;
	list_init(&lease->waiting);
	if (needs_entry(device, uid, access))
		r = join_grant(lease, uid);
	if (r < 0 && r != -EINPROGRESS) {
		free(lease);
		return r;
	}
	device->n_refs++;
	device->n_leases++;
	*ret = lease;
	return r;
}

struct fabric_lease *fabric_lease_free(struct fabric_lease *lease)
{
	if (!lease)
		return NULL;
	list_remove(&lease->waiting);
	lease->device->n_leases--;
	if (lease->grant) {
		lease->grant->n_leases--;
		grant_go_on(lease->grant);
	}
	fabric_device_unref(lease->device);
	free(lease);
	return NULL;
}
