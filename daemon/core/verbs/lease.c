/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/admit/decide.h"
#include "core/object/quota.h"
#include "core/object/session.h"
#include "core/verbs/lease.h"
#include "proto/text.h"
#include "takeover/ledger.h"
#include "util/util.h"

/*
 * The request that creates a lease can have to wait until a thread has given the user access. N_OPENS is 0 meanwhile,
 * and the request is repeated afterwards.
 */
struct lease {
	struct list link; /* session.leases */
	struct admitted admitted;
	struct charge charge; /* not of loans: the instance charges its users */
	struct session *session;
	struct ledger_lease *row; /* in the ledger; NULL: the lease is not kept */
	struct fabric_lease *fabric;
	char *device;
	/*
	 * An instance of the daemon has requested access for UID, about which its own policy has decided. Else UID is
	 * the session's user.
	 */
	bool is_loan;
	uid_t uid;
	enum policy_access access;
	unsigned n_opens;
	bool waits;
	int r; /* the wait's result: 0 or a negative errno */
};

/* A lease that no request has got yet is not kept. */
static void save(struct lease *lease)
{
	struct ledger_lease *row = lease->row;

	if (!row || lease->n_opens == 0)
		return;
	row->n_opens = lease->n_opens;
	row->access = lease->access;
	text_copy(row->device, sizeof(row->device), lease->device);
	__atomic_store_n(&row->session, lease->session->number, __ATOMIC_RELEASE);
}

/* Puts LEASE into the list of SESSION. */
static void enlist(struct lease *lease, struct session *session)
{
	lease->session = session;
	list_insert(&session->leases, &lease->link);
	session->n_leases++;
}

static void delist(struct lease *lease)
{
	list_remove(&lease->link);
	lease->session->n_leases--;
}

static struct lease *lease_free(struct lease *lease)
{
	struct session *session;

	if (!lease)
		return NULL;
	session = lease->session;
	if (lease->fabric) {
		fabric_lease_free(lease->fabric);
		delist(lease);
		session->core->n_leases--;
	}
	ledger_remove_lease(session->core->keep.ledger, lease->row);
	if (session->opening == lease) {
		session->opening = NULL;
		if (!session->ending)
			session->ops->resume(session->userdata, /* handle= */ 0);
	}
	admitted_done(&lease->admitted);
	charge_done(&lease->charge);
	free(lease->device);
	free(lease);
	return NULL;
}

DEFINE_CLEANUP(struct lease *, lease_free)

static struct lease *find(struct session *session, const char *name, bool is_loan, uid_t uid)
{
	struct list *l;

	list_for_each(l, &session->leases) {
		struct lease *lease = container_of(l, struct lease, link);

		if (lease->is_loan == is_loan && lease->uid == uid &&
		    strcmp(lease->device, name) == 0)
			return lease;
	}
	return NULL;
}

static struct lease *find_lease(struct session *session, const char *name)
{
	return find(session, name, /* is_loan= */ false, session->identity.uid);
}

static int refuse(struct session *session, const struct fabric_device *device, uid_t uid, int r,
		  struct failure *failure)
{
	log_limited(session_log_limit(session), LOG_ERR, "Cannot give uid %u access to %s: %s.",
		    uid, fabric_device_node(device), strerror(-r));
	return failure_set_fabric(failure, r, "give access to %s", fabric_device_node(device));
}

static void on_access(void *userdata, int answer)
{
	struct lease *lease = userdata;

	lease->waits = false;
	lease->r = answer;
	lease->session->ops->resume(lease->session->userdata, /* handle= */ 0);
}

static enum fabric_access fabric_access(enum policy_access access)
{
	switch (access) {
	case POLICY_ACCESS_ACL:
		return FABRIC_ACCESS_ACL;
	case POLICY_ACCESS_OPEN:
		return FABRIC_ACCESS_OPEN;
	default:
		return FABRIC_ACCESS_DEFAULT;
	}
}

static int make(struct lease **ret, struct session *session, struct fabric_device *device,
		bool is_loan, uid_t uid, enum policy_access access, struct admitted *admitted,
		struct failure *failure)
{
	_cleanup_(lease_freep) struct lease *lease = calloc(1, sizeof(*lease));
	int r;

	if (!lease)
		return failure_errno(failure, -ENOMEM);
	lease->session = session;
	lease->device = strdup(fabric_device_name(device));
	if (!lease->device)
		return failure_errno(failure, -ENOMEM);
	lease->access = access;
	lease->is_loan = is_loan;
	lease->uid = uid;
	if (session->row && !is_loan) {
		lease->row = ledger_add_lease(session->core->keep.ledger);
		if (!lease->row)
			return failure_set_not_kept(failure, "leases");
	}
	r = fabric_lease_new(&lease->fabric, device, uid, fabric_access(access), on_access, lease);
	if (r < 0 && r != -EINPROGRESS)
		return refuse(session, device, uid, r, failure);
	lease->waits = r == -EINPROGRESS;
	lease->admitted = *admitted;
	*admitted = (struct admitted){ 0 };
	enlist(lease, session);
	session->core->n_leases++;
	*ret = TAKE_PTR(lease);
	return 0;
}

static int lease_new(struct lease **ret, struct session *session, struct fabric_device *device,
		     enum policy_access access, struct admitted *admitted, struct failure *failure)
{
	return make(ret, session, device, /* is_loan= */ false, session->identity.uid, access,
		    admitted, failure);
}

void lease_intent(struct intent *ret, const char *name)
{
	*ret = (struct intent){
		.question = { .operation = POLICY_DEVICE, .device = name, .port = -1 },
		.what = "device",
		.object = name,
	};
}

/* AGAIN: the request is repeated, so a decision that allows is neither counted nor reported. */
static int decide_device(struct session *session, const char *name, bool again,
			 struct intent *intent, struct policy_verdict *ret, struct failure *failure)
{
	lease_intent(intent, name);
	if (again)
		decide_ask(session, intent, ret);
	if (!again || ret->answer != POLICY_ALLOW)
		decide(session, intent, ret);
	if (ret->answer != POLICY_ALLOW)
		return failure_set_denied(failure, ret, "uid %u may not use device %s",
					  session->identity.uid, name);
	return 0;
}

static int open_new(struct session *session, struct fabric_device *device, struct failure *failure)
{
	struct admitted admitted = { 0 };
	struct policy_verdict verdict;
	struct charge charge = { 0 };
	struct lease *lease = NULL;
	struct intent intent;
	int r;

	r = quota_charge(session, &charge, ACCOUNT_LEASES, 1, failure);
	if (r == 0)
		r = decide_device(session, fabric_device_name(device), /* again= */ false, &intent,
				  &verdict, failure);
	if (r == 0)
		r = decide_admit(session, &intent, verdict.rule, /* pending= */ false, &admitted,
				 failure);
	if (r == 0)
		r = lease_new(&lease, session, device, verdict.rule->settings.access, &admitted,
			      failure);
	admitted_done(&admitted);
	if (r != 0) {
		charge_done(&charge);
		return r;
	}
	lease->charge = charge;
	if (lease->waits) {
		session->opening = lease;
		return -EINPROGRESS;
	}
	lease->n_opens = 1;
	save(lease);
	return 0;
}

/* Repeats the request that created LEASE, or was made while a restored LEASE had, or has, no access. */
static int open_again(struct session *session, struct fabric_device *device, struct lease *lease,
		      struct failure *failure)
{
	struct policy_verdict verdict;
	struct intent intent;
	int r;

	if (lease->waits) {
		session->opening = lease;
		return -EINPROGRESS;
	}
	r = lease->r < 0 ? refuse(session, device, lease->uid, lease->r, failure) :
			   decide_device(session, lease->device, /* again= */ true, &intent,
					 &verdict, failure);
	if (r != 0) {
		lease_free(lease);
		return r;
	}
	lease->n_opens++;
	save(lease);
	return 0;
}

static int find_device(struct session *session, const char *name, struct fabric_device **ret,
		       struct failure *failure)
{
	struct fabric *fabric = session->core->fabric;

	*ret = *name ? fabric_find_device(fabric, name) : fabric_next_device(fabric, NULL);
	if (*ret)
		return 0;
	return *name ? failure_set(failure, STATUS_NO_DEVICE, "there is no RDMA device %s", name) :
		       failure_set(failure, STATUS_NO_DEVICE, "this host has no RDMA device now");
}

int lease_open(struct session *session, const char *name, struct fabric_device **ret,
	       struct failure *failure)
{
	struct lease *waited = TAKE_PTR(session->opening), *lease = NULL;
	int r;

	r = find_device(session, name, ret, failure);
	if (r == 0)
		lease = find_lease(session, fabric_device_name(*ret));
	/* If another device is the first one now, the lease that the request waited for is not needed. */
	if (waited && waited != lease)
		lease_free(waited);
	if (r != 0)
		return r;
	if (!lease)
		return open_new(session, *ret, failure);
	if (lease == waited || lease->waits || lease->r < 0)
		return open_again(session, *ret, lease, failure);
	lease->n_opens++;
	save(lease);
	return 0;
}

int lease_lend(struct session *session, const char *name, uid_t uid, struct failure *failure)
{
	struct lease *waited = TAKE_PTR(session->opening), *lease;
	struct admitted none = { 0 };
	struct fabric_device *device;
	int r;

	if (session->door != DOOR_ADMIN || session->identity.uid != geteuid())
		return failure_set(failure, STATUS_NOT_PERMITTED,
				   "lend_device: only the daemon's own user may do this, on the "
				   "socket for administration");
	/* Not kept over a restart, see LendDevice: so the session is not restored. */
	session->lends = true;
	session_save(session);
	r = find_device(session, name, &device, failure);
	if (r != 0)
		return r;
	lease = find(session, name, /* is_loan= */ true, uid);
	if (!lease)
		r = make(&lease, session, device, /* is_loan= */ true, uid, POLICY_ACCESS_DEFAULT,
			 &none, failure);
	if (r != 0)
		return r;
	if (lease->waits) {
		session->opening = lease;
		return -EINPROGRESS;
	}
	if (waited == lease && lease->r < 0) {
		r = refuse(session, device, uid, lease->r, failure);
		lease_free(lease);
		return r;
	}
	lease->n_opens = 1;
	return 0;
}

int lease_end_loan(struct session *session, const char *name, uid_t uid)
{
	/* It is no error if there is no lease, because a lease ends when its device is removed. */
	lease_free(find(session, name, /* is_loan= */ true, uid));
	return 0;
}

const char *lease_next_device(const struct session *session, const struct list **at)
{
	const struct list *l = *at ?: &session->leases;

	while ((l = l->next) != &session->leases) {
		const struct lease *lease = container_of(l, struct lease, link);

		*at = l;
		if (!lease->is_loan)
			return lease->device;
	}
	return NULL;
}

void lease_enforce(struct session *session)
{
	struct policy_verdict verdict;
	struct list *l, *n;

	list_for_each_safe(l, n, &session->leases) {
		struct lease *lease = container_of(l, struct lease, link);
		struct intent intent;

		if (lease->is_loan)
			continue;
		lease_intent(&intent, lease->device);
		decide_ask(session, &intent, &verdict);
		if (verdict.answer == POLICY_ALLOW)
			continue;
		decide_audit(session, &intent, &verdict, NULL);
		lease_free(lease);
	}
}

int lease_close(struct session *session, const char *name)
{
	struct lease *lease = find_lease(session, name);

	/* It is no error if there is no lease, because a lease ends when its device is removed. */
	if (lease && --lease->n_opens == 0)
		lease_free(lease);
	else if (lease)
		save(lease);
	return 0;
}

void lease_drop_unopened(struct session *session)
{
	struct list *l, *n;

	list_for_each_safe(l, n, &session->leases) {
		struct lease *lease = container_of(l, struct lease, link);

		if (lease->n_opens == 0)
			lease_free(lease);
	}
}

void lease_take_over(struct session *to, struct session *from)
{
	bool has_any = !list_is_empty(&to->leases);
	struct list *l, *n;

	list_for_each_safe(l, n, &from->leases) {
		struct lease *lease = container_of(l, struct lease, link);

		if (has_any && find_lease(to, lease->device))
			continue;
		delist(lease);
		enlist(lease, to);
		lease->n_opens = 1;
		save(lease);
	}
	lease_enforce(to);
}

void lease_forget_device(struct session *session, const char *name)
{
	struct list *l, *n;

	list_for_each_safe(l, n, &session->leases) {
		struct lease *lease = container_of(l, struct lease, link);

		if (strcmp(lease->device, name) == 0)
			lease_free(lease);
	}
}

static void restore(struct session *session, const char *name, enum policy_access access,
		    uint32_t n_opens)
{
	struct fabric_device *device = fabric_find_device(session->core->fabric, name);
	struct admitted none = { 0 };
	struct failure ignored;
	struct lease *lease;

	if (!device || n_opens == 0 ||
	    lease_new(&lease, session, device, access, &none, &ignored) != 0)
		return;
	/* If memory runs out, the lease goes on without a charge. */
	account_add(&session->core->account, &lease->charge, ACCOUNT_LEASES, 1,
		    session->identity.owner);
	lease->n_opens = n_opens;
	save(lease);
}

static void restore_old(struct session *session, const struct ledger_old_lease *rows, size_t n)
{
	for (size_t i = 0; i < n; i++)
		restore(session, rows[i].device, (enum policy_access)rows[i].access,
			rows[i].n_opens);
}

void lease_restore(struct session *session, const struct ledger_session *row,
		   const struct ledger_lease *leases, size_t n, const struct ledger_old_leases *old)
{
	for (size_t i = 0; i < n; i++)
		restore(session, leases[i].device, (enum policy_access)leases[i].access,
			leases[i].n_opens);
	restore_old(session, row->old_leases, LEDGER_OLD_LEASES);
	if (old)
		restore_old(session, old->leases, LEDGER_MORE_OLD_LEASES);
}

unsigned lease_count(const struct session *session)
{
	return session->n_leases;
}

void lease_free_all(struct session *session)
{
	struct list *l, *n;

	list_for_each_safe(l, n, &session->leases)
		lease_free(container_of(l, struct lease, link));
}
