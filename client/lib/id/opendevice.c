/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <glob.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "client/lib/id/idstate.h"
#include "client/lib/id/opendevice.h"
#include "client/lib/wire/calls.h"
#include "client/lib/wire/deadline.h"
#include "client/lib/wire/fail.h"
#include "client/lib/wire/frame.h"
#include "client/lib/wire/sessionparts.h"

/* Guards the devices of all sessions, because migrated ids use the devices of other sessions. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Another thread of the parent can have held it at the fork. The child does not use the parent's devices. */
static void unlock_in_child(void)
{
	pthread_mutex_init(&lock, NULL);
}

__attribute__((constructor)) static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, unlock_in_child);
}

/* The number of the device's link in sysfs, which no other device ever has; 0: not known. NODE: its open node. */
static ino_t sysfs_number(const struct stat *node)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "/sys/dev/char/%u:%u", major(node->st_rdev),
		 minor(node->st_rdev));
	return lstat(path, &st) < 0 ? 0 : st.st_ino;
}

/*
 * When a device is removed, its context stays, but its node in /dev is unlinked. If the device is plugged in again,
 * it is a new device, perhaps with the same name and number. A container's node was made for the container and is not
 * unlinked, but sysfs knows.
 */
static bool is_removed(const struct device *device, const struct stat *node)
{
	return node->st_nlink == 0 || (device->number != 0 && sysfs_number(node) != device->number);
}

enum condition {
	DEVICE_USABLE,
	DEVICE_REMOVED,
	/*
	 * The program has closed a descriptor of the context. Then nothing can be done with the context. It is not even
	 * closed, because libibverbs would close descriptors that can be the program's by now.
	 */
	DEVICE_LOST,
};

static enum condition examine(const struct device *device)
{
	struct stat node;

	if (!ownfd_look(&device->cmd, &node) || !ownfd_is_ours(&device->async))
		return DEVICE_LOST;
	return is_removed(device, &node) ? DEVICE_REMOVED : DEVICE_USABLE;
}

static int check_device(const struct device *device)
{
	switch (examine(device)) {
	case DEVICE_LOST:
		return fail(EBADF, "the program has closed the descriptors of device %s",
			    device->name);
	case DEVICE_REMOVED:
		return fail(ENODEV, "device %s was removed", device->name);
	default:
		return 0;
	}
}

static struct device *find_device(struct rdmabroker *session, const char *name)
{
	struct device *device;

	LIST_FOREACH(device, &session->devices->list, link)
		if (strcmp(device->name, name) == 0 && examine(device) == DEVICE_USABLE)
			return device;
	return NULL;
}

/* The devices that have nodes in this process's /dev/infiniband; those of a host can be more. */
static int list_own(struct ibv_device ***ret)
{
	*ret = ibv_get_device_list(NULL);
	if (*ret)
		return 0;
	return fail(errno == ENOSYS ? ENODEV : errno, "cannot list the RDMA devices: %s",
		    strerror(errno));
}

/* LIST is that of list_own(). */
static int open_context(struct ibv_device **list, const char *name, struct ibv_context **ret)
{
	struct ibv_context *context = NULL;
	int error = ENODEV;

	for (struct ibv_device **p = list; *p; p++)
		if (strcmp(ibv_get_device_name(*p), name) == 0) {
			context = ibv_open_device(*p);
			error = errno ? errno : ENODEV;
			break;
		}
	if (!context)
		return fail(error, "cannot open device %s: %s", name, strerror(error));
	*ret = context;
	return 0;
}

static void release(struct rdmabroker *session, const char *name)
{
	REQUEST(request, m, CloseDevice, CLOSE_DEVICE, close_device);
	struct call like = { .name = "close_device", .answer = ANSWER_DROPPED };

	m.name = (char *)name;
	call_post(&session->wire, &like, &request, session->wire.call_timeout_ms);
}

static int lease(struct rdmabroker *session, const char *name, bool at_start, int timeout_ms)
{
	struct call call = { .name = "open_device",
			     .result = RDMABROKER__REPLY__RESULT_OPEN_DEVICE };
	REQUEST(request, m, OpenDevice, OPEN_DEVICE, open_device);
	Rdmabroker__Frame *frame;
	int r;

	m.name = message_put_text(name);
	m.at_start = at_start;
	r = call_wait_like(&session->wire, &call, &request, timeout_ms, &frame);
	if (r < 0)
		return r;
	pthread_mutex_lock(&lock);
	session->devices->had_any = true;
	pthread_mutex_unlock(&lock);
	frame_free(frame);
	return 0;
}

static void device_free(struct device *device)
{
	if (device)
		free(device->name);
	free(device);
}

/* LIST NULL: that of list_own(), which is not needed if the broker refuses the lease. */
static int lease_and_open(struct rdmabroker *session, struct ibv_device **list, const char *name,
			  struct ibv_context **ret)
{
	struct ibv_device **own = NULL;
	int r = lease(session, name, /* at_start= */ false, session->wire.call_timeout_ms);

	if (r < 0)
		return r;
	if (!list)
		r = list_own(&own);
	if (r == 0)
		r = open_context(list ?: own, name, ret);
	if (own)
		ibv_free_device_list(own);
	if (r < 0)
		release(session, name);
	return r;
}

/* LIST: as for lease_and_open(). */
static int device_new(struct rdmabroker *session, struct ibv_device **list, const char *name,
		      struct device **ret)
{
	struct device *device = calloc(1, sizeof(*device));
	struct stat st;
	int r;

	if (device)
		device->name = strdup(name);
	r = device && device->name ? lease_and_open(session, list, name, &device->context) :
				     fail(ENOMEM, "open_device: out of memory");
	if (r < 0) {
		device_free(device);
		return r;
	}
	device->cmd = ownfd_of(device->context->cmd_fd);
	device->async = ownfd_of(device->context->async_fd);
	device->number = ownfd_look(&device->cmd, &st) ? sysfs_number(&st) : 0;
	device->session = session;
	device->pid = getpid();
	device->n_opens = 1;
	device->max_responder_resources = device->max_initiator_depth = -1;
	pthread_mutex_lock(&lock);
	LIST_INSERT_HEAD(&session->devices->list, device, link);
	pthread_mutex_unlock(&lock);
	*ret = device;
	return 0;
}

/* LIST: as for lease_and_open(). */
static int open_once_more(struct rdmabroker *session, struct ibv_device **list, const char *name,
			  struct device **ret)
{
	struct device *device;
	int r = wire_check_process(&session->wire);

	if (r < 0)
		return r;
	pthread_mutex_lock(&lock);
	device = find_device(session, name);
	if (device)
		device->n_opens++;
	pthread_mutex_unlock(&lock);
	if (device) {
		*ret = device;
		return 0;
	}
	return device_new(session, list, name, ret);
}

/* Called when DEVICE has no users any more. */
static void device_close(struct device *device)
{
	enum condition condition = examine(device);

	if (device->pd && condition != DEVICE_LOST)
		ibv_dealloc_pd(device->pd);
	if (condition != DEVICE_LOST)
		ibv_close_device(device->context);
	/* The lease of a removed device has ended. A release by name could end the lease of a new device. */
	if (condition != DEVICE_REMOVED && device->session)
		release(device->session, device->name);
	device_free(device);
}

void opendevice_put(struct rdmabroker *session, struct device *device)
{
	bool last;

	/* In a child process, closing the device would destroy objects that the parent uses. */
	if (device->pid != getpid())
		return;
	pthread_mutex_lock(&lock);
	if (session == device->session)
		device->n_opens--;
	else
		device->n_guests--;
	last = device->n_opens + device->n_guests == 0;
	if (last && device->session)
		LIST_REMOVE(device, link);
	pthread_mutex_unlock(&lock);
	if (last)
		device_close(device);
}

void opendevice_move(struct device *device, struct rdmabroker *from, struct rdmabroker *to)
{
	pthread_mutex_lock(&lock);
	if (device->session == from) {
		device->n_opens--;
		device->n_guests++;
	} else if (device->session == to) {
		device->n_guests--;
		device->n_opens++;
	}
	pthread_mutex_unlock(&lock);
}

void opendevice_free_all(struct rdmabroker *session)
{
	bool is_child = wire_check_process(&session->wire) < 0, is_used;
	struct device *device;

	while ((device = LIST_FIRST(&session->devices->list))) {
		/* In a child process the context stays open, because the parent uses it. */
		if (is_child) {
			LIST_REMOVE(device, link);
			device_free(device);
			continue;
		}
		pthread_mutex_lock(&lock);
		LIST_REMOVE(device, link);
		device->n_opens = 0;
		is_used = device->n_guests > 0;
		device->session = NULL;
		pthread_mutex_unlock(&lock);
		if (!is_used)
			device_close(device);
	}
}

int rdmabroker_open_device(struct rdmabroker *session, const char *name, struct ibv_context **ret)
{
	struct ibv_device **list = NULL;
	struct device *device;
	int r = name ? 0 : list_own(&list);

	if (r < 0)
		return r;
	if (!name && *list)
		name = ibv_get_device_name(*list);
	r = name ? open_once_more(session, list, name, &device) :
		   fail(ENODEV, "open_device: this process has no RDMA device");
	if (list)
		ibv_free_device_list(list);
	if (r == 0)
		*ret = device->context;
	return r;
}

bool opendevice_had_any(const struct rdmabroker *session)
{
	return session->devices->had_any;
}

static struct device *find_context(struct rdmabroker *session, const struct ibv_context *context)
{
	struct device *device;

	LIST_FOREACH(device, &session->devices->list, link)
		if (device->context == context)
			break;
	return device;
}

int rdmabroker_check_device(struct rdmabroker *session, const struct ibv_context *context)
{
	struct device *device;
	int r = wire_check_process(&session->wire);

	if (r < 0)
		return r;
	pthread_mutex_lock(&lock);
	device = find_context(session, context);
	r = device ? check_device(device) :
		     fail(EINVAL, "check_device: the session has not opened this device");
	pthread_mutex_unlock(&lock);
	return r;
}

static void close_context(struct rdmabroker *session, struct ibv_context *context)
{
	struct device *device;

	if (wire_check_process(&session->wire) < 0)
		return;
	pthread_mutex_lock(&lock);
	device = find_context(session, context);
	pthread_mutex_unlock(&lock);
	if (device)
		opendevice_put(session, device);
}

void rdmabroker_close_device(struct rdmabroker *session, struct ibv_context *context)
{
	struct failure_copy copy;

	fail_save(&copy);
	close_context(session, context);
	fail_restore(&copy);
}

int rdmabroker_get_verbs(struct rdmabroker_id *id, struct ibv_context **ret)
{
	int r = wire_check_process(&id->session->wire);

	if (r < 0)
		return r;
	if (!id->device_name[0])
		return fail(ENODEV, "the id is not bound to a device");
	if (!id->device) {
		r = open_once_more(id->session, /* list= */ NULL, id->device_name, &id->device);
		if (r < 0)
			return r;
	}
	*ret = id->device->context;
	return 0;
}

int rdmabroker_get_pd(struct rdmabroker_id *id, struct ibv_pd **ret)
{
	struct ibv_context *context;
	struct device *device;
	int r = rdmabroker_get_verbs(id, &context);

	if (r < 0)
		return r;
	device = id->device;
	pthread_mutex_lock(&lock);
	if (!device->pd)
		device->pd = ibv_alloc_pd(context);
	pthread_mutex_unlock(&lock);
	if (!device->pd)
		return fail(errno, "get_pd: cannot allocate a protection domain: %s",
			    strerror(errno));
	*ret = device->pd;
	return 0;
}

/* Sets RET to the name of the device that has NODE, a path; "": none has. */
static void name_of_node(const char *node, char *ret, int size)
{
	char path[128];
	FILE *file;

	*ret = 0;
	snprintf(path, sizeof(path), "/sys/class/infiniband_verbs/%s/ibdev",
		 strrchr(node, '/') + 1);
	file = fopen(path, "re");
	if (!file)
		return;
	if (!fgets(ret, size, file))
		*ret = 0;
	ret[strcspn(ret, "\n")] = 0;
	fclose(file);
}

/* True: the failure R does not tell whether other devices can be used. */
static bool is_about_one(int r)
{
	return r == -EACCES || r == -ENODEV;
}

/* Returns the number of leases, or the first failure that is not about one device only. */
static int lease_nodes(struct rdmabroker *session, const glob_t *nodes)
{
	const bool at_start = session->is_starting;
	const int timeout_ms = at_start ? START_MS : session->wire.call_timeout_ms;
	const int64_t deadline = deadline_after((int64_t)ROUNDS_MAX * timeout_ms);
	int r, n = 0;

	session->is_starting = false;
	for (size_t i = 0; i < nodes->gl_pathc; i++) {
		char name[64];

		name_of_node(nodes->gl_pathv[i], name, sizeof(name));
		if (deadline_left(deadline) <= 0)
			r = fail(ETIMEDOUT,
				 "lease_devices: %zu of %zu devices were requested in time", i,
				 nodes->gl_pathc);
		else
			r = *name ? lease(session, name, at_start, timeout_ms) : -ENODEV;
		if (r < 0 && !is_about_one(r))
			return at_start && n > 0 ? n : r;
		n += r == 0;
	}
	return n;
}

/*
 * The devices are those that ibv_get_device_list() lists. It is not called, because it loads all providers, which a
 * program that opens no device does not need.
 */
int rdmabroker_lease_devices(struct rdmabroker *session, const char *name)
{
	glob_t nodes;
	int n;

	if (name)
		return lease(session, name, /* at_start= */ false, session->wire.call_timeout_ms);
	n = glob("/dev/infiniband/uverbs*", GLOB_NOSORT, NULL, &nodes);
	if (n == GLOB_NOSPACE)
		return fail(ENOMEM, "lease_devices: out of memory");
	n = n == 0 ? lease_nodes(session, &nodes) : 0;
	globfree(&nodes);
	if (n < 0)
		return n;
	return n > 0 ? 0 :
		       fail(ENODEV,
			    "lease_devices: this process has no RDMA device that policy allows");
}

/*
 * Skips devices that cannot be opened, for example because policy rejects them. Returns the number of the others; if there
 * are none, a failure.
 */
static int open_all(struct rdmabroker *session, struct ibv_device **list, struct ibv_context **ret)
{
	int64_t deadline = deadline_after((int64_t)ROUNDS_MAX * session->wire.call_timeout_ms);
	int r = -ENODEV, n = 0;
	struct device *device;

	for (struct ibv_device **p = list; *p && deadline_left(deadline) > 0; p++) {
		r = open_once_more(session, list, ibv_get_device_name(*p), &device);
		if (r == 0)
			ret[n++] = device->context;
	}
	return n > 0 ? n :
	       is_about_one(r) ?
		       fail(ENODEV, "get_devices: cannot open any RDMA device that policy allows") :
		       r;
}

int rdmabroker_get_devices(struct rdmabroker *session, struct ibv_context ***ret, size_t *ret_n)
{
	struct ibv_context **devices;
	struct ibv_device **list;
	size_t n = 0;
	int r = list_own(&list);

	if (r < 0)
		return r;
	while (list[n])
		n++;
	devices = calloc(n + 1, sizeof(*devices));
	r = devices ? open_all(session, list, devices) : fail(ENOMEM, "get_devices: out of memory");
	ibv_free_device_list(list);
	if (r < 0) {
		free(devices);
		return r;
	}
	*ret = devices;
	if (ret_n)
		*ret_n = (size_t)r;
	return 0;
}

void rdmabroker_free_devices(struct rdmabroker *session, struct ibv_context **devices)
{
	for (struct ibv_context **p = devices; p && *p; p++)
		rdmabroker_close_device(session, *p);
	free(devices);
}
