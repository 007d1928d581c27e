/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/cm/cmscan.h"
#include "proto/addr.h"
#include "proto/cmdump.h"
#include "util/util.h"

struct cmscan {
	struct cmdump_id *found; /* those that have a QP number, sorted by compare() */
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
	scan->found[scan->n] = *id;
	scan->found[scan->n++].kernel = NULL;
	return 0;
}

static int compare_ends(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	const struct sockaddr *x = (const struct sockaddr *)a, *y = (const struct sockaddr *)b;
	uint8_t host_x[ADDR_HOST_LEN], host_y[ADDR_HOST_LEN];
	int r;

	addr_host(x, host_x);
	addr_host(y, host_y);
	r = memcmp(host_x, host_y, sizeof(host_x));
	if (r == 0)
		r = (int)addr_port(x) - (int)addr_port(y);
	return r != 0 ? r : (int)x->sa_family - (int)y->sa_family;
}

static int compare(const void *a, const void *b)
{
	const struct cmdump_id *x = a, *y = b;
	int r = compare_ends(&x->local, &y->local);

	return r != 0 ? r : compare_ends(&x->peer, &y->peer);
}

int cmscan_add(struct cmscan *scan, struct nldev *nl, const struct nldev_device *device)
{
	struct cmdump dump = { .on_id = keep, .userdata = scan };
	_Alignas(struct nlmsghdr) char request[256];
	int r = nldev_dump(nl, cmdump_request(request, device), cmdump_take, &dump);

	if (scan->n > 0)
		qsort(scan->found, scan->n, sizeof(*scan->found), compare);
	return r < 0 ? r : 0;
}

bool cmscan_has(const struct cmscan *scan, enum rdma_port_space ps,
		const struct sockaddr_storage *local, const struct sockaddr_storage *peer)
{
	const struct cmdump_id wanted = { .local = *local, .peer = *peer };
	size_t i = LOWER_BOUND(k, scan->n, compare(&scan->found[k], &wanted) < 0);

	if (local->ss_family == AF_UNSPEC || peer->ss_family == AF_UNSPEC)
		return false;
	for (; i < scan->n && compare(&scan->found[i], &wanted) == 0; i++)
		if (ps == 0 || scan->found[i].ps == ps)
			return true;
	return false;
}
