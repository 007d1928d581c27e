/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>

#include "fabric/cmdump.h"
#include "fabric/cmscan.h"
#include "proto/addr.h"
#include "util/util.h"

struct cmscan {
	struct cmdump_id *found; /* those that have a QP number */
	size_t n, n_allocated;
};

int cmscan_new(struct cmscan **ret)
{
	*ret = calloc(1, sizeof(**ret));
	return *ret ? 0 : -ENOMEM;
}

struct cmscan *cmscan_free(struct cmscan *scan)
{
	if (!scan)
		return NULL;
	free(scan->found);
	free(scan);
	return NULL;
}

static int keep(void *userdata, const struct cmdump_id *id)
{
	struct cmscan *scan = userdata;

	if (id->qpn == 0)
		return 0;
	if (scan->n == scan->n_allocated) {
		size_t n = scan->n_allocated ? 2 * scan->n_allocated : 64;
		struct cmdump_id *more = realloc(scan->found, n * sizeof(*more));

		if (!more)
			return -ENOMEM;
		scan->found = more;
		scan->n_allocated = n;
	}
	scan->found[scan->n++] = *id;
	return 0;
}

int cmscan_add(struct cmscan *scan, struct nldev *nl, const struct nldev_device *device)
{
	struct cmdump dump = { .on_id = keep, .userdata = scan };
	_Alignas(struct nlmsghdr) char request[256];
	int r = nldev_dump(nl, cmdump_request(request, device), cmdump_take, &dump);

	return r < 0 ? r : 0;
}

static bool is_same(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	const struct sockaddr *x = (const struct sockaddr *)a, *y = (const struct sockaddr *)b;

	return a->ss_family == b->ss_family && addr_is_same_host(x, y) &&
	       addr_port(x) == addr_port(y);
}

bool cmscan_has(const struct cmscan *scan, enum rdma_port_space ps,
		const struct sockaddr_storage *local, const struct sockaddr_storage *peer)
{
	for (size_t i = 0; i < scan->n; i++) {
		const struct cmdump_id *found = &scan->found[i];

		if ((ps == 0 || found->ps == ps) && is_same(&found->local, local) &&
		    is_same(&found->peer, peer))
			return true;
	}
	return false;
}
