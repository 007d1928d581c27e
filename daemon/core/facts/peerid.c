/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/facts/peerid.h"

static bool copy(struct policy_peer *to, const struct policy_peer *who)
{
	size_t size = who->n_gids * sizeof(*who->gids);
	gid_t *gids = malloc(size + 1);

	to->gids = gids;
	if (!gids)
		return false;
	if (size > 0)
		memcpy(gids, who->gids, size);
	to->uid = who->uid;
	to->n_gids = who->n_gids;
	for (int i = 0; i < _WORKLOAD_MAX; i++) {
		to->workload[i] = who->workload[i] ? strdup(who->workload[i]) : NULL;
		if (who->workload[i] && !to->workload[i])
			return false;
	}
	return true;
}

struct peerid *peerid_new(const struct policy_peer *who)
{
	struct peerid *peerid = calloc(1, sizeof(*peerid));

	if (peerid && copy(&peerid->who, who))
		return peerid;
	return peerid_free(peerid);
}

struct peerid *peerid_new_unknown(const char *fmt, ...)
{
	struct peerid *peerid = calloc(1, sizeof(*peerid));
	va_list ap;

	if (!peerid)
		return NULL;
	va_start(ap, fmt);
	vsnprintf(peerid->why, sizeof(peerid->why), fmt, ap);
	va_end(ap);
	return peerid;
}

struct peerid *peerid_free(struct peerid *peerid)
{
	if (!peerid)
		return NULL;
	for (int i = 0; i < _WORKLOAD_MAX; i++)
		free((char *)peerid->who.workload[i]);
	free((gid_t *)peerid->who.gids);
	free(peerid);
	return NULL;
}

const struct policy_peer *peerid_who(const struct peerid *peerid)
{
	return peerid && !*peerid->why ? &peerid->who : NULL;
}

const char *peerid_why(const struct peerid *peerid)
{
	if (!peerid)
		return "out of memory";
	return *peerid->why ? peerid->why : NULL;
}
