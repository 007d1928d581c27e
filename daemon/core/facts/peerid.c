/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/facts/peerid.h"

static bool copy(struct peerid *peerid, const struct policy_peer *who)
{
	if (who->n_gids > 0) {
		peerid->gids = calloc(who->n_gids, sizeof(*peerid->gids));
		if (!peerid->gids)
			return false;
		memcpy(peerid->gids, who->gids, who->n_gids * sizeof(*peerid->gids));
	}
	peerid->who.uid = who->uid;
	peerid->who.gids = peerid->gids;
	peerid->who.n_gids = who->n_gids;
	for (int i = 0; i < _WORKLOAD_MAX; i++) {
		if (!who->workload[i])
			continue;
		peerid->names[i] = strdup(who->workload[i]);
		if (!peerid->names[i])
			return false;
		peerid->who.workload[i] = peerid->names[i];
	}
	return true;
}

struct peerid *peerid_new(const struct policy_peer *who)
{
	struct peerid *peerid = calloc(1, sizeof(*peerid));

	if (peerid && copy(peerid, who))
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
		free(peerid->names[i]);
	free(peerid->gids);
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
