/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/internal.h"

static struct rdmabroker_id dying;
struct rdmabroker_id *const DYING = &dying;

static int grow(struct ids *ids, uint32_t min)
{
	uint32_t n = ids->n ? ids->n : 8;
	struct rdmabroker_id **p;

	while (n < min)
		n *= 2;
	if (n == ids->n)
		return 0;
	p = reallocarray(ids->ids, n, sizeof(*p));
	if (!p)
		return -ENOMEM;
	memset(p + ids->n, 0, (n - ids->n) * sizeof(*p));
	ids->ids = p;
	ids->n = n;
	return 0;
}

/* *RET is the number to use, or 0: the lowest free one, which *RET is set to. Numbers are at most MAX. */
int ids_add(struct ids *ids, struct rdmabroker_id *id, uint32_t max, uint32_t *ret)
{
	uint32_t i = *ret ? *ret - 1 : ids->n_full;
	int r;

	while (!*ret && i < ids->n && ids->ids[i])
		i++;
	if (!*ret)
		ids->n_full = i;
	if (i >= max)
		return -EDQUOT;
	r = grow(ids, i + 1);
	if (r < 0)
		return r;
	if (ids->ids[i])
		return -EEXIST;
	ids->ids[i] = id;
	*ret = i + 1;
	return 0;
}

bool ids_have_dying(const struct ids *ids)
{
	for (uint32_t i = 0; i < ids->n; i++)
		if (ids->ids[i] == DYING)
			return true;
	return false;
}

struct rdmabroker_id **session_find_id(struct rdmabroker *session, uint32_t handle)
{
	struct ids *ids = handle >= FIRST_REQUEST ? &session->requests : &session->ids;
	uint32_t i = handle >= FIRST_REQUEST ? handle - FIRST_REQUEST : handle - 1;

	return handle == 0 || i >= ids->n || !ids->ids[i] ? NULL : &ids->ids[i];
}

struct rdmabroker_id *ids_find_living(struct rdmabroker *session, uint32_t handle)
{
	struct rdmabroker_id **slot = session_find_id(session, handle);

	return slot && *slot != DYING ? *slot : NULL;
}

void ids_free(struct rdmabroker *session, uint32_t handle)
{
	*session_find_id(session, handle) = NULL;
	if (handle < FIRST_REQUEST && handle - 1 < session->ids.n_full)
		session->ids.n_full = handle - 1;
}
