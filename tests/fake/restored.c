/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/addr.h"
#include "tests/fake/internal.h"

/*
 * Ids that another fake fabric of this process has made. A test lets a daemon "die" by never running its loop again,
 * and passes its file to the next one. The ids keep their peers, and the events that wait for them.
 */

static struct list fabrics;

void fake_enlist(struct fabric *fabric)
{
	if (!fabrics.next)
		list_init(&fabrics);
	list_insert(&fabrics, &fabric->all);
	fabric->file = -1;
}

struct fabric *fake_last(void)
{
	return container_of(fabrics.prev, struct fabric, all);
}

void fake_delist(struct fabric *fabric)
{
	list_remove(&fabric->all);
	if (fabric->file >= 0)
		close(fabric->file);
}

void fake_open(struct fabric *fabric)
{
	if (fabric->file >= 0)
		return;
	fabric->file = memfd_create("fake-cm", MFD_CLOEXEC);
	assert(fabric->file >= 0);
	if (fabric->ops->opened)
		fabric->ops->opened(fabric->userdata, fabric->file);
}

int fabric_get_files(struct fabric *fabric, int *ret_cm, int *ret_restored)
{
	*ret_cm = *ret_restored = -1;
	if (fabric->is_opening)
		return -EINPROGRESS;
	if (list_is_empty(&fabric->devices))
		return -ENODEV;
	fake_open(fabric);
	*ret_cm = fabric->file;
	return 0;
}

static struct fabric *find_fabric(int file)
{
	struct stat a, b;
	struct list *l;

	assert(fstat(file, &a) == 0);
	list_for_each(l, &fabrics) {
		struct fabric *fabric = container_of(l, struct fabric, all);

		if (fabric->file >= 0 && fstat(fabric->file, &b) == 0 && a.st_ino == b.st_ino)
			return fabric;
	}
	return NULL;
}

static void take_events(struct fabric *fabric, struct fabric *from)
{
	struct list *l;

	while ((l = list_first(&from->pending))) {
		struct pending *p = container_of(l, struct pending, link);

		list_remove(l);
		list_insert(&fabric->pending, l);
		if (p->event.join)
			p->id = NULL; /* the join was the dead process's */
	}
}

/* The kernel has an event lost if the daemon died between reading it and writing that down: see fake_die_after_event(). */
void fabric_note_reading(struct fabric *fabric, uint32_t *reading)
{
	fabric->reading = reading;
}

int fabric_takeover(struct fabric *fabric, const int *files, size_t n_files, size_t n_expected)
{
	struct list *l, *n;

	if (n_files > 0)
		fake_open(fabric);
	for (size_t i = 0; i < n_files; i++) {
		struct fabric *from = find_fabric(files[i]);

		if (!from || from == fabric)
			continue;
		list_for_each_safe(l, n, &from->ids) {
			struct fabric_id *id = container_of(l, struct fabric_id, link);

			list_remove(l);
			list_insert(&fabric->ids, l);
			id->fabric = fabric;
			id->is_left = true;
			id->on_event = fake_drop_event;
			from->n_ids--;
			fabric->n_ids++;
		}
		take_events(fabric, from);
	}
	return 0;
}

static bool same(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	return a->ss_family == b->ss_family &&
	       addr_port((const struct sockaddr *)a) == addr_port((const struct sockaddr *)b);
}

static bool is_waiting_request(struct fabric *fabric, const struct fabric_id *id)
{
	struct list *l;

	list_for_each(l, &fabric->pending)
		if (container_of(l, struct pending, link)->event.request == id)
			return true;
	return false;
}

static struct fabric_id *find_left(struct fabric *fabric, const struct fabric_id_info *info)
{
	struct list *l;

	list_for_each(l, &fabric->ids) {
		struct fabric_id *id = container_of(l, struct fabric_id, link);

		if (id->is_left && !is_waiting_request(fabric, id) &&
		    same(&id->info.local, &info->local) && same(&id->info.peer, &info->peer))
			return id;
	}
	return NULL;
}

int fabric_id_restore(struct fabric_id **ret, struct fabric *fabric, struct owner owner,
		      enum rdma_port_space ps, const struct fabric_id_info *info,
		      enum fabric_stage stage, bool passive, fabric_event_fn on_event,
		      void *userdata)
{
	struct fabric_id *id = find_left(fabric, info);

	if (!id) {
		id = fake_id_new(fabric, owner, ps);
		id->is_gone = true;
		id->info = *info;
		id->info.device = NULL;
	}
	id->is_left = false;
	/* Those that are left stay at the front, so that each is found at once if they are claimed in their order. */
	list_remove(&id->link);
	list_insert(&fabric->ids, &id->link);
	id->is_inherited = true;
	fabric_id_set_owner(id, owner, on_event, userdata);
	*ret = id;
	return 0;
}

static bool has_event(struct fabric *fabric, const struct fabric_id *id)
{
	struct list *l;

	list_for_each(l, &fabric->pending)
		if (container_of(l, struct pending, link)->id == id)
			return true;
	return false;
}

bool fabric_takeover_was_accepted(struct fabric *fabric, enum rdma_port_space ps,
				  const struct fabric_id_info *info)
{
	struct fabric_id *id = find_left(fabric, info);

	return id && id->answered && (id->peer || has_event(fabric, id));
}

void fabric_takeover_listener(struct fabric *fabric, enum rdma_port_space ps,
			      const struct sockaddr_storage *local)
{
	const struct fabric_id_info info = { .local = *local };
	struct fabric_id *id = find_left(fabric, &info);

	if (id)
		fabric_id_free(id);
}

void fabric_takeover_requests(struct fabric *fabric, const void *busy, size_t busy_len,
			      fabric_request_fn on_request, void *userdata)
{
	struct list *l, *n;

	list_for_each_safe(l, n, &fabric->pending) {
		struct pending *p = container_of(l, struct pending, link);
		struct fabric_id *request = p->event.request;

		if (!request)
			continue;
		list_remove(&p->link);
		request->is_left = false;
		if (!on_request(userdata, request->is_datagram ? RDMA_PS_UDP : RDMA_PS_TCP,
				&p->event)) {
			fabric_id_reject(request, busy, (uint8_t)busy_len, false);
			fabric_id_free(request);
		}
		free(p);
	}
}

int fabric_takeover_rest(struct fabric *fabric, const void *busy, size_t busy_len)
{
	struct list *l, *n;

	list_for_each_safe(l, n, &fabric->ids) {
		struct fabric_id *id = container_of(l, struct fabric_id, link);

		if (!id->is_left)
			continue;
		if (id->peer && !id->connected && !id->answered)
			fabric_id_reject(id, busy, (uint8_t)busy_len, false);
		fabric_id_free(id);
	}
	fake_deliver(fabric);
	return 0;
}

void fabric_takeover_poll(struct fabric *fabric)
{
	fake_deliver(fabric);
}

void fabric_id_set_request(struct fabric_id *id, const struct fabric_event *event)
{
}

bool fabric_id_exists(const struct fabric_id *id)
{
	return !id->is_gone && (id->peer || id->is_datagram);
}

bool fabric_id_is_connected(const struct fabric_id *id)
{
	return id->connected;
}

bool fabric_id_is_asking(const struct fabric_id *id)
{
	return id->peer && !id->peer->answered;
}

int fabric_join_restore(struct fabric_join **ret, struct fabric_id *id, const struct sockaddr *addr,
			void *userdata)
{
	*ret = fake_join(id, userdata);
	return 0;
}
