/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "proto/timer.h"
#include "tests/fake/internal.h"
#include "util/clock.h"
#include "util/util.h"

int fake_outcome(struct fabric *fabric, enum fake_call which)
{
	int r = 0;

	if (fabric->n_fail[which] > 0) {
		fabric->n_fail[which]--;
		r = fabric->fail[which];
	}
	fabric->count[which]++;
	return r;
}

static void answer_lookups(struct fabric *fabric);

void fake_kick(struct fabric *fabric)
{
	if (!fabric->hot) {
		timer_defer(fabric->source);
	} else if (!fabric->awake) {
		fabric->awake = true;
		eventfd_write(fabric->wake, 1);
	}
}

void fake_post(struct fabric_id *id, enum rdma_cm_event_type type, int status,
	       struct fabric_id *request, const struct rdma_conn_param *conn)
{
	struct pending *p = calloc(1, sizeof(*p));

	assert(p);
	p->id = id;
	p->event.type = type;
	p->event.status = status;
	p->event.request = request;
	if (conn) {
		p->event.conn = *conn;
		if (conn->private_data_len > 0)
			memcpy(p->event.private_data, conn->private_data, conn->private_data_len);
	}
	list_insert(&id->fabric->pending, &p->link);
	fake_kick(id->fabric);
}

static void tell_leases(struct fabric *fabric)
{
	struct list *l;

	while (!fabric->holds_leases && (l = list_first(&fabric->leases))) {
		struct fabric_lease *lease = container_of(l, struct fabric_lease, link);

		list_remove(l);
		lease->done(lease->userdata, lease->answer);
	}
}

static void (*event_read)(void);

void fake_set_event_read(void (*function)(void))
{
	event_read = function;
}

/* The kernel has given the event, and has it no longer. */
static void deliver(struct fabric *fabric, struct pending *p)
{
	if (fabric->reading)
		*fabric->reading = 1;
	if (event_read)
		event_read();
	p->event.conn.private_data = p->event.conn.private_data_len > 0 ? p->event.private_data :
									  NULL;
	if (p->id && p->event.type == RDMA_CM_EVENT_ROUTE_RESOLVED)
		p->id->is_told = true;
	if (p->id)
		p->id->on_event(p->id->userdata, &p->event);
	else
		fabric_id_free(p->event.request);
	if (fabric->reading)
		*fabric->reading = 0;
}

void fake_deliver(struct fabric *fabric)
{
	struct list *l;

	while (!fabric->is_opening && (!fabric->holds_events || fabric->n_released > 0) &&
	       (l = list_first(&fabric->pending))) {
		struct pending *p = container_of(l, struct pending, link);

		list_remove(&p->link);
		fabric->n_released -= fabric->n_released > 0;
		deliver(fabric, p);
		free(p);
	}
}

static int on_turn(sd_event_source *source, void *userdata)
{
	struct fabric *fabric = userdata;
	struct list *l;

	list_for_each(l, &fabric->devices) {
		struct fabric_device *device = container_of(l, struct fabric_device, link);

		if (!device->announced) {
			device->announced = true;
			fabric->ops->device_added(fabric->userdata, device);
		}
	}
	answer_lookups(fabric);
	tell_leases(fabric);
	if (fabric->freed_port > 0) {
		in_port_t port = fabric->freed_port;

		fabric->freed_port = 0;
		fabric->ops->can_go_on(fabric->userdata, port);
	}
	if (fabric->is_open) {
		fabric->is_open = false;
		fabric->ops->can_go_on(fabric->userdata, 0);
	}
	fake_deliver(fabric);
	return 0;
}

static bool on_wake(struct hot_io *io, uint32_t events)
{
	struct fabric *fabric = container_of(io, struct fabric, io);
	eventfd_t ignored;

	fabric->awake = false;
	eventfd_read(fabric->wake, &ignored);
	on_turn(NULL, fabric);
	return true;
}

static bool by_descriptor;

void fake_come_by_descriptor(void)
{
	by_descriptor = true;
}

static void watch_wake(struct fabric *fabric, sd_event *loop)
{
	int r;

	fabric->hot = hot_ref(loop);
	fabric->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	assert(fabric->hot && fabric->wake >= 0);
	r = hot_add(fabric->hot, &fabric->io, fabric->wake, EPOLLIN, on_wake);
	assert(r == 0);
}

static unsigned n_first_devices = 1;

void fake_start_with_devices(unsigned n)
{
	n_first_devices = n;
}

int fabric_new(struct fabric **ret, sd_event *loop, enum fabric_access access,
	       const struct fabric_ops *ops, void *userdata)
{
	struct fabric *fabric = calloc(1, sizeof(*fabric));
	int r;

	assert(fabric);
	fabric->ops = ops;
	fabric->userdata = userdata;
	fabric->last_port = 40000;
	list_init(&fabric->devices);
	list_init(&fabric->ids);
	list_init(&fabric->pending);
	list_init(&fabric->lookups);
	list_init(&fabric->leases);
	fake_enlist(fabric);
	r = sd_event_add_defer(loop, &fabric->source, on_turn, fabric);
	assert(r >= 0);
	if (by_descriptor)
		watch_wake(fabric, loop);
	for (unsigned i = 0; i < n_first_devices; i++) {
		char name[16];

		snprintf(name, sizeof(name), "fake%u", i);
		fake_add_device(fabric, name);
	}
	*ret = fabric;
	return 0;
}

bool fabric_is_opening(const struct fabric *fabric)
{
	return fabric->is_opening;
}

bool fabric_has_unopened(const struct fabric *fabric)
{
	return fabric->is_opening;
}

static void device_unref(struct fabric_device *device)
{
	if (--device->n_refs > 0)
		return;
	free(device->name);
	free(device->node);
	free(device->holders);
	free(device);
}

void fake_add_device(struct fabric *fabric, const char *name)
{
	struct fabric_device *device = calloc(1, sizeof(*device));

	assert(device);
	device->fabric = fabric;
	device->number = ++fabric->last_device;
	device->n_refs = 1;
	device->name = strdup(name);
	assert(device->name && asprintf(&device->node, "/dev/infiniband/%s", name) > 0);
	list_insert(&fabric->devices, &device->link);
	fake_kick(fabric);
}

void fake_remove_device(struct fabric *fabric, const char *name)
{
	struct fabric_device *device = fabric_find_device(fabric, name);
	struct list *l;

	assert(device);
	list_remove(&device->link);
	list_for_each(l, &fabric->ids) {
		struct fabric_id *id = container_of(l, struct fabric_id, link);

		if (id->info.device == device->name) {
			id->info.device = NULL;
			fake_post(id, RDMA_CM_EVENT_DEVICE_REMOVAL, 0, NULL, NULL);
		}
	}
	fabric->ops->device_removed(fabric->userdata, device);
	device_unref(device);
}

struct fabric *fabric_free(struct fabric *fabric)
{
	struct list *l;

	if (!fabric)
		return NULL;
	fabric->holds_lookups = false;
	answer_lookups(fabric);
	while ((l = list_first(&fabric->pending))) {
		struct pending *p = container_of(l, struct pending, link);

		list_remove(&p->link);
		fabric_id_free(p->event.request);
		free(p);
	}
	assert(fabric->n_ids == 0);
	while ((l = list_first(&fabric->devices))) {
		list_remove(l);
		device_unref(container_of(l, struct fabric_device, link));
	}
	sd_event_source_disable_unref(fabric->source);
	if (fabric->hot) {
		hot_remove(&fabric->io);
		close(fabric->wake);
		hot_unref(fabric->hot);
	}
	fake_delist(fabric);
	free(fabric);
	return NULL;
}

struct fabric_device *fabric_next_device(struct fabric *fabric, struct fabric_device *prev)
{
	struct list *next = prev ? prev->link.next : fabric->devices.next;

	return next == &fabric->devices ? NULL : container_of(next, struct fabric_device, link);
}

struct fabric_device *fabric_find_device(struct fabric *fabric, const char *name)
{
	struct fabric_device *device = NULL;

	while ((device = fabric_next_device(fabric, device)))
		if (strcmp(device->name, name) == 0)
			break;
	return device;
}

uint64_t fabric_device_number(const struct fabric_device *device)
{
	return device->number;
}

const char *fabric_device_name(const struct fabric_device *device)
{
	return device->name;
}

const char *fabric_device_node(const struct fabric_device *device)
{
	return device->node;
}

void fake_break_device(struct fabric *fabric, const char *name, int error)
{
	struct fabric_device *device = fabric_find_device(fabric, name);

	assert(device);
	device->error = error;
	device->since_ms = clock_ms();
}

int fabric_device_error(const struct fabric_device *device, uint64_t *ret_since_ms)
{
	*ret_since_ms = device->since_ms;
	return device->error;
}

unsigned fabric_count_unusable(struct fabric *fabric)
{
	struct fabric_device *device = NULL;
	unsigned n = 0;

	while ((device = fabric_next_device(fabric, device)))
		n += device->error != 0;
	return n;
}

unsigned fabric_device_n_leases(const struct fabric_device *device)
{
	return device->n_leases;
}

void fabric_scan_holders(struct fabric *fabric)
{
	fake_outcome(fabric, FAKE_LOOK);
}

const struct fabric_holders *fabric_device_holders(const struct fabric_device *device)
{
	return device->holders;
}

/* The fake does not free a lease whose loan is not answered. */
static void lend(struct fabric_lease *lease, uid_t uid, bool allow)
{
	struct fabric *fabric = lease->device->fabric;

	lease->loan = (struct fabric_loan){
		.device = lease->device->name,
		.uid = uid,
		.allow = allow,
	};
	list_init(&lease->loan.link);
	fabric->lender->lend(fabric->lender_userdata, &lease->loan);
}

void fabric_lent(struct fabric_loan *loan, int r)
{
	struct fabric_lease *lease = container_of(loan, struct fabric_lease, loan);

	if (loan->allow) {
		lease->done(lease->userdata, r);
		return;
	}
	device_unref(lease->device);
	free(lease);
}

void fabric_set_lender(struct fabric *fabric, const struct fabric_lender *lender, void *userdata)
{
	fabric->lender = lender;
	fabric->lender_userdata = userdata;
}

void fabric_lend_again(struct fabric *fabric)
{
	fabric->n_lent_again++;
}

int fabric_lease_new(struct fabric_lease **ret, struct fabric_device *device, uid_t uid,
		     enum fabric_access access, fabric_answer_fn done, void *userdata)
{
	struct fabric *fabric = device->fabric;
	int r = fake_outcome(fabric, FAKE_LEASE_NEW);

	if (r < 0 && !fabric->holds_leases)
		return r;
	*ret = calloc(1, sizeof(**ret));
	assert(*ret);
	(*ret)->device = device;
	(*ret)->done = done;
	(*ret)->userdata = userdata;
	(*ret)->answer = r;
	fabric->last_access = access;
	list_init(&(*ret)->link);
	device->n_leases++;
	device->n_refs++;
	if (fabric->lender) {
		lend(*ret, uid, /* allow= */ true);
		return -EINPROGRESS;
	}
	if (!fabric->holds_leases)
		return 0;
	list_insert(&fabric->leases, &(*ret)->link);
	return -EINPROGRESS;
}

struct fabric_lease *fabric_lease_free(struct fabric_lease *lease)
{
	if (!lease)
		return NULL;
	list_remove(&lease->link);
	lease->device->n_leases--;
	if (lease->device->fabric->lender) {
		lend(lease, lease->loan.uid, /* allow= */ false);
		return NULL;
	}
	device_unref(lease->device);
	free(lease);
	return NULL;
}

struct fabric_lookup {
	struct list link; /* fabric.lookups */
	fabric_answer_fn done; /* NULL: cancelled */
	void *userdata;
	int answer;
};

static void answer_lookups(struct fabric *fabric)
{
	struct list *l;

	while (!fabric->holds_lookups && (l = list_first(&fabric->lookups))) {
		struct fabric_lookup *lookup = container_of(l, struct fabric_lookup, link);

		list_remove(l);
		if (lookup->done)
			lookup->done(lookup->userdata, lookup->answer);
		free(lookup);
	}
}

static enum fabric_qp find_owner(const struct fabric *fabric, uint32_t qpn, pid_t pid)
{
	bool is_own = fabric->owner > 0 && qpn == fabric->given_qpn ? pid == fabric->owner :
								      qpn != fabric->stranger;

	if (fabric->xrc_target > 0 && qpn == fabric->xrc_target)
		return FABRIC_QP_XRC_TARGET;
	if (fabric->hidden > 0 && qpn == fabric->hidden)
		return FABRIC_QP_UNKNOWN;
	return is_own ? FABRIC_QP_OWN : FABRIC_QP_FOREIGN;
}

int fabric_qp_belongs(struct fabric_lookup **ret, struct fabric *fabric, const char *device,
		      uint32_t qpn, pid_t pid, struct owner owner, fabric_answer_fn done,
		      void *userdata)
{
	struct fabric_lookup *lookup;
	int r = fake_outcome(fabric, FAKE_QP_BELONGS);

	*ret = NULL;
	if (r == 0)
		r = fabric_find_device(fabric, device) ? (int)find_owner(fabric, qpn, pid) :
							 -ENODEV;
	if (!fabric->holds_lookups)
		return r;
	lookup = calloc(1, sizeof(*lookup));
	assert(lookup);
	lookup->done = done;
	lookup->userdata = userdata;
	lookup->answer = r;
	list_insert(&fabric->lookups, &lookup->link);
	*ret = lookup;
	return -EINPROGRESS;
}

struct fabric_lookup *fabric_lookup_cancel(struct fabric_lookup *lookup)
{
	if (lookup)
		lookup->done = NULL;
	return NULL;
}

struct fabric_id *fake_find_port(struct fabric *fabric, in_port_t port, bool listening)
{
	struct list *l;

	list_for_each(l, &fabric->ids) {
		struct fabric_id *id = container_of(l, struct fabric_id, link);

		if (fake_port(&id->info.local) == port && (!listening || id->listening))
			return id;
	}
	return NULL;
}

void fake_fail_times(struct fabric *fabric, enum fake_call which, unsigned n, int r)
{
	fabric->fail[which] = r;
	fabric->n_fail[which] = n;
}

void fake_fail_next(struct fabric *fabric, enum fake_call which, int r)
{
	fake_fail_times(fabric, which, 1, r);
}

unsigned fake_count(const struct fabric *fabric, enum fake_call which)
{
	return fabric->count[which];
}

void fake_fail_addresses(struct fabric *fabric, unsigned n, int status)
{
	fabric->n_addr_errors = n;
	fabric->addr_error = status;
}

void fake_reject_as(struct fabric *fabric, int status)
{
	fabric->reject_status = status;
}

void fake_reject_stale(struct fabric *fabric, unsigned n)
{
	fabric->n_stale = n;
}

void fake_set_holders(struct fabric *fabric, const char *name, const struct fabric_holders *holders)
{
	struct fabric_device *device = fabric_find_device(fabric, name);
	size_t size =
		holders ? sizeof(*holders) + holders->n_holders * sizeof(holders->holders[0]) : 0;

	assert(device);
	free(device->holders);
	device->holders = holders ? malloc(size) : NULL;
	if (holders)
		memcpy(device->holders, holders, size);
}

void fake_hide_paths(struct fabric *fabric, bool hide)
{
	fabric->hides_paths = hide;
}

void fake_estrange_qp(struct fabric *fabric, uint32_t qpn)
{
	fabric->stranger = qpn;
}

void fake_hide_qp(struct fabric *fabric, uint32_t qpn)
{
	fabric->hidden = qpn;
}

void fake_make_xrc_target(struct fabric *fabric, uint32_t qpn)
{
	fabric->xrc_target = qpn;
}

void fake_give_qp(struct fabric *fabric, uint32_t qpn, pid_t pid)
{
	fabric->given_qpn = qpn;
	fabric->owner = pid;
}

void fake_send_event(struct fabric *fabric, uint16_t port, enum rdma_cm_event_type type, int status)
{
	struct fabric_id *id = fake_find_port(fabric, htons(port), false);

	assert(id);
	fake_post(id, type, status, NULL, NULL);
}

void fake_hold_events(struct fabric *fabric, bool hold)
{
	fabric->holds_events = hold;
	fake_kick(fabric);
}

void fake_forget_events(struct fabric *fabric)
{
	struct list *l;

	while ((l = list_first(&fabric->pending))) {
		struct pending *p = container_of(l, struct pending, link);

		list_remove(l);
		if (p->event.request)
			fabric_id_free(p->event.request);
		free(p);
	}
}

void fake_release_events(struct fabric *fabric, unsigned n)
{
	fabric->n_released = n;
	fake_kick(fabric);
}

void fake_hold_lookups(struct fabric *fabric, bool hold)
{
	fabric->holds_lookups = hold;
	fake_kick(fabric);
}

unsigned fake_n_lent_again(const struct fabric *fabric)
{
	return fabric->n_lent_again;
}

enum fabric_access fake_last_access(const struct fabric *fabric)
{
	return fabric->last_access;
}

void fake_hold_leases(struct fabric *fabric, bool hold)
{
	fabric->holds_leases = hold;
	fake_kick(fabric);
}

void fake_hold_devices(struct fabric *fabric, bool hold)
{
	fabric->is_open = fabric->is_opening && !hold;
	fabric->is_opening = hold;
	fake_kick(fabric);
}

void fake_destroy_id(struct fabric *fabric, uint16_t port)
{
	fabric->freed_port = htons(port);
	fake_kick(fabric);
}

void fake_send_event_to(struct fabric *fabric, struct fabric_id *id, enum rdma_cm_event_type type,
			int status)
{
	assert(id->fabric == fabric);
	fake_post(id, type, status, NULL, NULL);
}

int fake_get_option(struct fabric *fabric, uint16_t port, int option)
{
	struct fabric_id *id = fake_find_port(fabric, htons(port), false);

	return id ? id->options[option] : -1;
}

int fake_get_backlog(struct fabric *fabric, uint16_t port)
{
	struct fabric_id *id = fake_find_port(fabric, htons(port), true);

	return id ? id->backlog : -1;
}

unsigned fake_n_ids(const struct fabric *fabric)
{
	return fabric->n_ids;
}
