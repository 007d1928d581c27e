/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <infiniband/verbs.h>
#include <protobuf-c/protobuf-c.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "tests/fake/fake.h"
#include "tests/hooks/inside.h"

/* These replace the functions that the library and the drop-in call, see client.symbols. */

HOOK_ALLOCATION(client, HOOK_CLIENT)

static void *allocate(void *userdata, size_t size)
{
	return client_malloc(size);
}

static void give_back(void *userdata, void *pointer)
{
	client_free(pointer);
}

static ProtobufCAllocator allocator = { .alloc = allocate, .free = give_back };

ProtobufCMessage *client_protobuf_c_message_unpack(const ProtobufCMessageDescriptor *descriptor,
						   ProtobufCAllocator *from, size_t len,
						   const uint8_t *data);

ProtobufCMessage *client_protobuf_c_message_unpack(const ProtobufCMessageDescriptor *descriptor,
						   ProtobufCAllocator *from, size_t len,
						   const uint8_t *data)
{
	return protobuf_c_message_unpack(descriptor, from ?: &allocator, len, data);
}

void client_protobuf_c_message_free_unpacked(ProtobufCMessage *message, ProtobufCAllocator *from);

void client_protobuf_c_message_free_unpacked(ProtobufCMessage *message, ProtobufCAllocator *from)
{
	protobuf_c_message_free_unpacked(message, from ?: &allocator);
}

#define SYSTEM(kind, type, name, params, args)                                \
	type client_##name params;                                            \
                                                                              \
	type client_##name params                                             \
	{                                                                     \
		return hook_fails(HOOK_CLIENT, HOOK_##kind) ? -1 : name args; \
	}

SYSTEM(DESCRIPTOR, int, socket, (int domain, int type, int protocol), (domain, type, protocol))
SYSTEM(DESCRIPTOR, int, socketpair, (int domain, int type, int protocol, int pair[2]),
       (domain, type, protocol, pair))

long client_syscall(long number, ...);
ssize_t client_sendmsg(int fd, const struct msghdr *msg, int flags);
ssize_t client_recvmsg(int fd, struct msghdr *msg, int flags);
int client_recvmmsg(int fd, struct mmsghdr *msgs, unsigned n, int flags, struct timespec *timeout);
int client_connect(int fd, const struct sockaddr *addr, socklen_t len);
int client_poll(struct pollfd *fds, nfds_t n, int timeout);
int client_clock_gettime(clockid_t clock, struct timespec *ret);

/* The calls of proto/kernelepoll.h, with at most four arguments. */
long client_syscall(long number, ...)
{
	long args[4];
	va_list ap;

	va_start(ap, number);
	for (size_t i = 0; i < sizeof(args) / sizeof(args[0]); i++)
		args[i] = va_arg(ap, long);
	va_end(ap);
	/* A look at a descriptor, see ownfd.c, is no call that fails. */
	if (number == SYS_fstat)
		hook_looked();
	else if (hook_fails(HOOK_CLIENT, HOOK_LOOP))
		return -1;
	return syscall(number, args[0], args[1], args[2], args[3]);
}

ssize_t client_sendmsg(int fd, const struct msghdr *msg, int flags)
{
	ssize_t n = hook_fails(HOOK_CLIENT, HOOK_SEND) ? -1 : sendmsg(fd, msg, flags);

	if (n > 0)
		hook_sent();
	return n;
}

/* The daemon runs while the client blocks. False: the socket's timeout is over. */
static bool wait_for(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct timeval timeout = { 0 };
	socklen_t len = sizeof(timeout);
	int ms = -1;

	if (fcntl(fd, F_GETFL) & O_NONBLOCK)
		return true;
	getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, &len);
	if (timeout.tv_sec > 0 || timeout.tv_usec > 0)
		ms = (int)(timeout.tv_sec * 1000 + timeout.tv_usec / 1000);
	return hook_poll(&p, 1, ms) != 0 || ms < 0;
}

ssize_t client_recvmsg(int fd, struct msghdr *msg, int flags)
{
	ssize_t n = hook_fails(HOOK_CLIENT, HOOK_RECEIVE) ? -1 : recvmsg(fd, msg, flags);

	if (n > 0)
		hook_received();
	return n;
}

int client_recvmmsg(int fd, struct mmsghdr *msgs, unsigned n, int flags, struct timespec *timeout)
{
	bool fails = hook_fails(HOOK_CLIENT, HOOK_RECEIVE);
	int received;

	if (!fails && !(flags & MSG_DONTWAIT) && !wait_for(fd)) {
		errno = EAGAIN;
		return -1;
	}
	received = fails ? -1 : recvmmsg(fd, msgs, n, flags, timeout);
	if (received > 0 && msgs[0].msg_len > 0)
		hook_received();
	return received;
}

int client_connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	return hook_fails(HOOK_CLIENT, HOOK_DESCRIPTOR) ? -1 : hook_connect(fd, addr, len);
}

int client_poll(struct pollfd *fds, nfds_t n, int timeout)
{
	bool fails = hook_fails(HOOK_CLIENT, HOOK_LOOP);
	int error = errno;
	/* The daemon runs even if this call fails. */
	int ready = hook_poll(fds, n, fails ? 0 : timeout);

	if (!fails)
		return ready;
	errno = error;
	return -1;
}

int client_clock_gettime(clockid_t clock, struct timespec *ret)
{
	return hook_clock_gettime(clock, ret);
}

/* The nodes of devices, and their names in /sys. */

#define DEVICES_MAX 1024

static struct ibv_device devices[DEVICES_MAX];
static unsigned first_device, n_devices = 1;

void hooks_set_devices(unsigned first, unsigned n)
{
	first_device = first;
	n_devices = n < DEVICES_MAX ? n : DEVICES_MAX;
}

static struct ibv_device *get_device(unsigned i)
{
	snprintf(devices[i].name, sizeof(devices[i].name), "fake%u", first_device + i);
	return &devices[i];
}

int client_glob(const char *pattern, int flags, int (*on_error)(const char *, int), glob_t *ret);
void client_globfree(glob_t *found);
FILE *client_fopen(const char *path, const char *mode);

int client_glob(const char *pattern, int flags, int (*on_error)(const char *, int), glob_t *ret)
{
	if (hook_fails(HOOK_CLIENT, HOOK_MEMORY))
		return GLOB_NOSPACE;
	*ret = (glob_t){ .gl_pathv = calloc(n_devices + 1, sizeof(char *)) };
	if (n_devices == 0)
		return GLOB_NOMATCH;
	for (; ret->gl_pathc < n_devices; ret->gl_pathc++)
		if (asprintf(&ret->gl_pathv[ret->gl_pathc], "/dev/infiniband/uverbs%u",
			     (unsigned)ret->gl_pathc) < 0)
			abort();
	return 0;
}

void client_globfree(glob_t *found)
{
	for (size_t i = 0; i < found->gl_pathc; i++)
		free(found->gl_pathv[i]);
	free(found->gl_pathv);
}

FILE *client_fopen(const char *path, const char *mode)
{
	struct ibv_device *device;
	unsigned i;

	if (hook_fails(HOOK_CLIENT, HOOK_DESCRIPTOR))
		return NULL;
	if (sscanf(path, "/sys/class/infiniband_verbs/uverbs%u/ibdev", &i) != 1)
		return fopen(path, mode);
	device = get_device(i);
	return fmemopen(device->name, strlen(device->name), "r");
}

/* Verbs: devices whose QPs are structs with a number and a state. */

struct context {
	struct ibv_context context;
	unsigned n_pds, n_qps;
};

static bool fails(void)
{
	return hook_fails(HOOK_CLIENT, HOOK_VERBS);
}

struct ibv_device **client_ibv_get_device_list(int *ret_n);
void client_ibv_free_device_list(struct ibv_device **list);
const char *client_ibv_get_device_name(struct ibv_device *of);
struct ibv_context *client_ibv_open_device(struct ibv_device *of);
int client_ibv_close_device(struct ibv_context *context);
int client_ibv_query_device(struct ibv_context *context, struct ibv_device_attr *ret);
int client_ibv_query_port(struct ibv_context *context, uint8_t port,
			  struct _compat_ibv_port_attr *ret);
int client_ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *ret);
struct ibv_pd *client_ibv_alloc_pd(struct ibv_context *context);
int client_ibv_dealloc_pd(struct ibv_pd *pd);
struct ibv_qp *client_ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
int client_ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
int client_ibv_destroy_qp(struct ibv_qp *qp);
int client_ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece);
int client_ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ret);
int client_ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);
int client_ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);

struct ibv_device **client_ibv_get_device_list(int *ret_n)
{
	struct ibv_device **list = fails() ? NULL : calloc(n_devices + 1, sizeof(*list));

	if (!list)
		return NULL;
	for (unsigned i = 0; i < n_devices; i++)
		list[i] = get_device(i);
	if (ret_n)
		*ret_n = (int)n_devices;
	return list;
}

void client_ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

const char *client_ibv_get_device_name(struct ibv_device *of)
{
	return of->name;
}

struct ibv_context *client_ibv_open_device(struct ibv_device *of)
{
	struct context *context = fails() ? NULL : calloc(1, sizeof(*context));

	if (!context)
		return NULL;
	context->context.device = of;
	/*
	 * If an open device's node has no name any more, the library regards the device as removed. /dev/null has a
	 * name.
	 */
	context->context.cmd_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	return &context->context;
}

int client_ibv_close_device(struct ibv_context *context)
{
	struct context *whole = (struct context *)context;

	if (whole->n_pds > 0 || whole->n_qps > 0)
		abort();
	close(context->cmd_fd);
	free(whole);
	return 0;
}

int client_ibv_query_device(struct ibv_context *context, struct ibv_device_attr *ret)
{
	if (fails())
		return errno;
	*ret = (struct ibv_device_attr){ .max_qp_rd_atom = 16, .max_qp_init_rd_atom = 16 };
	return 0;
}

/* RET is a struct ibv_port_attr, which the caller, an inline function of verbs.h, has cleared. */
int client_ibv_query_port(struct ibv_context *context, uint8_t port,
			  struct _compat_ibv_port_attr *ret)
{
	struct ibv_port_attr *attr = (struct ibv_port_attr *)(void *)ret;

	if (fails())
		return errno;
	attr->link_layer = fake_is_infiniband() ? IBV_LINK_LAYER_INFINIBAND :
						  IBV_LINK_LAYER_ETHERNET;
	attr->active_mtu = IBV_MTU_1024;
	return 0;
}

int client_ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *ret)
{
	if (fails())
		return -1;
	*ret = htons(fake_get_pkey((unsigned)index));
	return *ret ? 0 : -1;
}

struct ibv_pd *client_ibv_alloc_pd(struct ibv_context *context)
{
	struct ibv_pd *pd = fails() ? NULL : calloc(1, sizeof(*pd));

	if (!pd)
		return NULL;
	pd->context = context;
	((struct context *)context)->n_pds++;
	return pd;
}

int client_ibv_dealloc_pd(struct ibv_pd *pd)
{
	((struct context *)pd->context)->n_pds--;
	free(pd);
	return 0;
}

struct ibv_qp *client_ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	static uint32_t last_qpn = 100;
	struct ibv_qp *qp = fails() ? NULL : calloc(1, sizeof(*qp));

	if (!qp)
		return NULL;
	qp->context = pd->context;
	qp->pd = pd;
	qp->qp_type = attr->qp_type;
	qp->qp_num = ++last_qpn & 0xffffff;
	((struct context *)pd->context)->n_qps++;
	return qp;
}

#define ECE_VENDOR 0x15b3

static struct hooks_qp last_qp;

struct hooks_qp hooks_get_last_qp(void)
{
	return last_qp;
}

int client_ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	if (fails())
		return errno;
	if (mask & IBV_QP_STATE)
		qp->state = attr->qp_state;
	if (attr->qp_state == IBV_QPS_RTR)
		last_qp.responder_resources = attr->max_dest_rd_atomic;
	if (attr->qp_state == IBV_QPS_RTS)
		last_qp.initiator_depth = attr->max_rd_atomic;
	return 0;
}

int client_ibv_destroy_qp(struct ibv_qp *qp)
{
	/* The handle counts the QP's multicast groups. */
	if (qp->handle > 0)
		return EBUSY;
	((struct context *)qp->context)->n_qps--;
	free(qp);
	return 0;
}

int client_ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	if (fails())
		return errno;
	last_qp.ece_options = ece->options;
	return ece->vendor_id == ECE_VENDOR ? 0 : EINVAL;
}

int client_ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ret)
{
	if (fails())
		return errno;
	*ret = (struct ibv_ece){ .vendor_id = ECE_VENDOR, .options = 1 };
	return 0;
}

int client_ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	if (fails())
		return errno;
	qp->handle++;
	return 0;
}

int client_ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	qp->handle--;
	return 0;
}
