/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rdmacm.h"

/*
 * A process opens each device once, in the session of broker_get_session(). The ids of all channels share the context
 * and the PD. As in librdmacm, the PD is deallocated with the device's last user. The context stays open until the
 * device is removed, because programs destroy their objects on the device after their ids.
 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, device) devices;
/* This thread opens a device through librdmabroker, so ibv_open_device() is called with the lock held. */
static _Thread_local bool is_opening;

static int new_device(struct rdmabroker *session, struct ibv_context *verbs, struct device **ret)
{
	struct ibv_device_attr attr;
	struct device *device;
	int r;

	*ret = NULL;
	r = ibv_query_device(verbs, &attr);
	if (r != 0)
		return -r;
	device = calloc(1, sizeof(*device));
	if (!device)
		return -ENOMEM;
	device->session = session;
	device->verbs = verbs;
	device->pid = getpid();
	device->max_responder_resources = (uint8_t)attr.max_qp_rd_atom;
	device->max_initiator_depth = (uint8_t)attr.max_qp_init_rd_atom;
	for (size_t i = 0; i < sizeof(struct librdmacm_device) / sizeof(int32_t); i++)
		device->for_librdmacm.max_qp_wr[i] = attr.max_qp_wr;
	LIST_INSERT_HEAD(&devices, device, link);
	*ret = device;
	return 0;
}

/*
 * True: the device was removed, or the program has closed its descriptors, or this is a child that was made without the
 * handlers of fork(3), so that its list still has its parent's devices. A new device can have the same name.
 */
static bool is_gone(const struct device *device)
{
	return BROKER(rdmabroker_check_device(device->session, device->verbs)) < 0;
}

static int open_device(struct rdmabroker *session, const char *name, struct ibv_context **ret)
{
	int r;

	is_opening = true;
	r = BROKER(rdmabroker_open_device(session, name, ret));
	is_opening = false;
	return r;
}

static struct device *find_device(const char *name)
{
	struct device *device;

	LIST_FOREACH(device, &devices, link)
		if (strcmp(ibv_get_device_name(device->verbs->device), name) == 0 &&
		    !is_gone(device))
			return device;
	return NULL;
}

static int find_or_open(const char *name, struct device **ret)
{
	struct rdmabroker *session = NULL;
	struct ibv_context *context;
	int r = -ECONNRESET;

	*ret = find_device(name);
	if (*ret)
		return 0;
	/* If the session's broker is gone, retry once with a new session: the broker may have been restarted. */
	for (int tries = 0; tries < 2 && r == -ECONNRESET; tries++) {
		session = broker_get_session(session);
		if (!session)
			return -errno;
		r = open_device(session, name, &context);
	}
	if (r < 0)
		return r;
	r = new_device(session, context, ret);
	if (r < 0)
		BROKER((rdmabroker_close_device(session, context), 0));
	return r;
}

int device_get(const char *name, struct device **ret)
{
	struct device *device = NULL;
	int r;

	pthread_mutex_lock(&lock);
	r = find_or_open(name, &device);
	if (r == 0 && !device->pd) {
		device->pd = ibv_alloc_pd(device->verbs);
		if (!device->pd)
			r = -errno;
	}
	if (r == 0) {
		device->n_users++;
		*ret = device;
	}
	pthread_mutex_unlock(&lock);
	return r;
}

static void unuse(struct device *device)
{
	if (--device->n_users > 0 || device->pid != getpid())
		return;
	/*
	 * -EBADF: nothing can be done with the device, not even with its PD. If the PD still has memory regions or QPs,
	 * ibv_dealloc_pd() fails, and the PD leaks, as in librdmacm.
	 */
	if (BROKER(rdmabroker_check_device(device->session, device->verbs)) != -EBADF) {
		if (device->xrcd)
			ibv_close_xrcd(device->xrcd);
		if (device->pd)
			ibv_dealloc_pd(device->pd);
	}
	device->pd = NULL;
	device->xrcd = NULL;
}

void device_put(struct device *device)
{
	pthread_mutex_lock(&lock);
	unuse(device);
	pthread_mutex_unlock(&lock);
}

static void close_device(struct device *device)
{
	LIST_REMOVE(device, link);
	BROKER((rdmabroker_close_device(device->session, device->verbs), 0));
	free(device);
}

void devices_sweep(void)
{
	struct device *device, *next;

	pthread_mutex_lock(&lock);
	for (device = LIST_FIRST(&devices); device; device = next) {
		next = LIST_NEXT(device, link);
		if (device->n_users == 0 && is_gone(device))
			close_device(device);
	}
	pthread_mutex_unlock(&lock);
}

void devices_begin_in_child(void)
{
	pthread_mutex_init(&lock, NULL);
	LIST_INIT(&devices);
}

void devices_end(void)
{
	struct device *device, *next;

	for (device = LIST_FIRST(&devices); device; device = next) {
		next = LIST_NEXT(device, link);
		if (device->n_users == 0)
			close_device(device);
	}
}

int device_get_port(struct device *device, uint8_t number, struct port *ret)
{
	struct port *known = NULL;
	struct ibv_port_attr attr = { 0 };
	int r = 0;

	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < PORTS_MAX && !known; i++)
		if (device->ports[i].number == number || device->ports[i].number == 0)
			known = &device->ports[i];
	if (known && known->number) {
		*ret = *known;
	} else {
		r = -ibv_query_port(device->verbs, number, &attr);
		*ret = (struct port){
			.number = number,
			.is_ethernet = attr.link_layer == IBV_LINK_LAYER_ETHERNET,
			.active_mtu = (uint8_t)attr.active_mtu,
		};
		if (r == 0 && known)
			*known = *ret;
	}
	pthread_mutex_unlock(&lock);
	return r;
}

struct ibv_xrcd *device_get_xrcd(struct device *device)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};

	pthread_mutex_lock(&lock);
	if (!device->xrcd)
		device->xrcd = ibv_open_xrcd(device->verbs, &attr);
	pthread_mutex_unlock(&lock);
	return device->xrcd;
}

static int compare_index(const void *a, const void *b)
{
	struct ibv_context *const *p = a, *const *q = b;

	return ibv_get_device_index((*p)->device) - ibv_get_device_index((*q)->device);
}

/* Opens the devices that policy allows, and adds a user to each. Returns their contexts; NULL with errno: failure. */
static struct ibv_context **use_all(struct rdmabroker *session, int *ret_n)
{
	struct ibv_context **list;
	struct device *device;
	size_t n, kept = 0;
	int r;

	is_opening = true;
	r = BROKER(rdmabroker_get_devices(session, &list, &n));
	is_opening = false;
	if (r < 0) {
		report_result("rdma_get_devices", r);
		return NULL;
	}
	for (size_t i = 0; i < n; i++) {
		device = find_device(ibv_get_device_name(list[i]->device));
		r = device ? -EEXIST : new_device(session, list[i], &device);
		if (r < 0)
			BROKER((rdmabroker_close_device(session, list[i]), 0));
		if (!device)
			continue;
		device->n_users++;
		list[kept++] = device->verbs;
	}
	list[kept] = NULL;
	qsort(list, kept, sizeof(*list), compare_index);
	*ret_n = (int)kept;
	return list;
}

struct ibv_context **rdma_get_devices(int *num_devices)
{
	struct ibv_context **list = NULL;
	struct rdmabroker *session;
	int n = 0;

	if (broker_start() == 0) {
		FORWARD(rdma_get_devices, num_devices);
		pthread_mutex_lock(&lock);
		session = broker_get_session(NULL);
		if (session)
			list = use_all(session, &n);
		if (session && !list && errno == ECONNRESET) {
			session = broker_get_session(session);
			if (session)
				list = use_all(session, &n);
		}
		pthread_mutex_unlock(&lock);
	}
	if (num_devices)
		*num_devices = n;
	return list;
}

/* Removes a user from each device of the list. The contexts stay open. */
void rdma_free_devices(struct ibv_context **list)
{
	struct device *device;

	FORWARD(rdma_free_devices, list);
	pthread_mutex_lock(&lock);
	for (struct ibv_context **p = list; *p; p++)
		LIST_FOREACH(device, &devices, link)
			if (device->verbs == *p)
				unuse(device);
	pthread_mutex_unlock(&lock);
	free(list);
}

/* The program's own opens by libibverbs, see lend.c. */

int device_lend(const char *name)
{
	struct rdmabroker *session;

	/* librdmabroker opens the device for device_get(), and its lease is there already. */
	if (is_opening)
		return -EALREADY;
	session = broker_try();
	return session ? BROKER(rdmabroker_lease_devices(session, name)) : -ENODEV;
}
