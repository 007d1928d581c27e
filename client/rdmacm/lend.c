/* SPDX-License-Identifier: BSD-2-Clause */
#include <dlfcn.h>
#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rdmacm.h"

/*
 * A user other than root can open a device's node only while the broker lends the device to the user. A process gets this
 * lease with its first id on the device. Programs that first open devices by libibverbs get it in three ways:
 *
 *   - RDMABROKER_DEVICES=all requests leases of all devices that have nodes in the process's /dev at the start, also for
 *     programs that load libibverbs later. A shell that only starts other programs has them, too;
 *   - if ibv_open_device() is refused, the drop-in requests the lease, and tries again. So it works after fork(2), too, and
 *     after the program has closed the library's descriptors;
 *   - if the program's calls of ibv_open_device() do not come here, it requests these leases at the start, too, for no other
 *     place comes before libibverbs looks at the devices. Most of these programs do not use RDMA, such as those that load
 *     libceph. So they must not notice it, nor may the admin: the broker does not note a refusal, there is little time, and
 *     nothing is kept without a lease.
 */

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	__typeof__(ibv_open_device) *real =
		(__typeof__(real))dlvsym(RTLD_NEXT, "ibv_open_device", "IBVERBS_1.1");
	struct ibv_context *context;

	if (!real) {
		errno = ENOSYS;
		return NULL;
	}
	context = real(device);
	if (context || (errno != EACCES && errno != EPERM) || atomic_load(&real_has_all))
		return context;
	if (device_lend(ibv_get_device_name(device)) < 0) {
		errno = EACCES;
		return NULL;
	}
	return real(device);
}

/*
 * Whether the program's calls of ibv_open_device() come here. They do not if libibverbs is found before the drop-in, as by
 * plug-ins that the program loads with dlopen(3).
 */
static bool is_called(void)
{
	return bound_is_own(dlsym(RTLD_DEFAULT, "ibv_open_device"));
}

/* Whether there is a device whose node this process cannot open. */
static bool needs_lease(void)
{
	bool ret = false;
	glob_t nodes;

	if (glob("/dev/infiniband/uverbs*", GLOB_NOSORT, NULL, &nodes) != 0)
		return false;
	for (size_t i = 0; i < nodes.gl_pathc && !ret; i++)
		ret = eaccess(nodes.gl_pathv[i], R_OK | W_OK) < 0 && errno == EACCES;
	globfree(&nodes);
	return ret;
}

/* Errors are ignored, because the program's own calls fail then. */
__attribute__((constructor)) static void lend_at_start(void)
{
	const char *wanted = secure_getenv("RDMABROKER_DEVICES");

	if (wanted && strcmp(wanted, "all") == 0)
		device_lend(NULL);
	else if (!wanted && !is_called() && needs_lease())
		broker_lend_at_start();
}
