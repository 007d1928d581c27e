/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/ib.h>
#include <infiniband/sa.h>
#include <stdlib.h>
#include <string.h>

#include "core/object/id.h"
#include "core/verbs/own_path.h"
#include "proto/addr.h"
#include "proto/path.h"
#include "proto/pkey.h"

int own_path_keep(struct id *id, const uint8_t *data, size_t len, struct failure *failure)
{
	struct ibv_path_record *path;
	struct fabric_id_info info;
	uint16_t pkey;

	if (len != sizeof(*path))
		return failure_set(failure, STATUS_BAD_REQUEST, "a path has %zu bytes, not %zu",
				   sizeof(*path), len);
	path = malloc(sizeof(*path));
	if (!path)
		return -ENOMEM;
	memcpy(path, data, sizeof(*path));
	/* The request is carried out again, after a wait in which the route can have been replaced. */
	if (id->route.own_path && memcmp(id->route.own_path, path, sizeof(*path)) == 0) {
		free(path);
		return 0;
	}
	pkey = pkey_partition(ntohs(path->pkey));
	if (pkey == 0) {
		failure_set(failure, STATUS_BAD_REQUEST,
			    "set path: the path's P_Key 0x%x is of no partition",
			    ntohs(path->pkey));
		free(path);
		return STATUS_BAD_REQUEST;
	}
	fabric_id_get_info(id->fabric, &info);
	own_path_forget(id);
	id->route.own_path = path;
	id->route.path_pkey = pkey != info.pkey ? pkey : 0;
	return 0;
}

void own_path_forget(struct id *id)
{
	free(id->route.own_path);
	id->route.own_path = NULL;
	id->route.path_is_compared = false;
	id->route.path_pkey = 0;
}

/* The GID of an end is GID or, if that is all zero, what its address says. */
static bool is_end(const union ibv_gid *end, const union ibv_gid *gid,
		   const struct sockaddr_storage *addr)
{
	static const union ibv_gid none;
	union ibv_gid host = *gid;

	if (memcmp(&host, &none, sizeof(none)) == 0)
		addr_host((const struct sockaddr *)addr, host.raw);
	return memcmp(&host, &none, sizeof(none)) != 0 && memcmp(end, &host, sizeof(host)) == 0;
}

static unsigned get_sl(const struct ibv_path_record *path)
{
	return ntohs(path->qosclass_sl) & 0xf;
}

/* A port has 2^LMC LIDs. The subnet manager gives the ports of all hosts the same LMC. */
static bool is_lid(uint16_t lid, uint16_t told, unsigned lmc)
{
	return ntohs(lid) >> lmc == ntohs(told) >> lmc;
}

/* The path of TOLD that has the LIDs of OWN, if possible with OWN's service level; NULL: none. */
static const struct ibv_sa_path_rec *find_told(const struct ibv_path_record *own,
					       const struct ibv_sa_path_rec *told, size_t n,
					       unsigned lmc)
{
	const struct ibv_sa_path_rec *ret = NULL;

	for (size_t i = 0; i < n; i++)
		if (is_lid(own->dlid, told[i].dlid, lmc) && is_lid(own->slid, told[i].slid, lmc) &&
		    (!ret || told[i].sl == get_sl(own)))
			ret = &told[i];
	return ret;
}

int own_path_compare(struct id *id, struct failure *failure)
{
	const struct ibv_path_record *own = id->route.own_path;
	struct ibv_sa_path_rec told[PATHS_MAX];
	size_t n = fabric_id_get_paths(id->fabric, told);
	const struct ibv_sa_path_rec *path;
	struct fabric_id_info info;

	fabric_id_get_info(id->fabric, &info);
	/* The id of an earlier process has no route yet, and whether it will be on InfiniBand is not known: see own_path_check(). */
	if (id->route.path_is_compared || !fabric_info_has_paths(&info))
		return 0;
	if (n == 0 && id->route.plan == ROUTE_UNREQUESTED && id->state == ID_ROUTE_QUERY) {
		id->route.path_waits = true;
		return -EINPROGRESS;
	}
	path = find_told(own, told, n, fabric_id_get_lmc(id->fabric));
	if (!path)
		return failure_set(
			failure, STATUS_BAD_REQUEST,
			n == 0 ?
				"set path: the subnet manager has told no path of id %u, so it is not "
				"known to whom these LIDs belong" :
				"set path: the LIDs are not those of id %u and its peer",
			id->handle);
	id->route.path_is_compared = path->sl == get_sl(own);
	if (id->route.path_is_compared)
		return 0;
	return failure_set(
		failure, STATUS_BAD_REQUEST,
		"set path: the SL is %u, but the subnet manager has told %u for the path of "
		"id %u",
		get_sl(own), path->sl, id->handle);
}

int own_path_check(const struct id *id, struct failure *failure)
{
	const struct ibv_path_record *path = id->route.own_path;
	const struct policy_rule *rule = id->grant.rule;
	struct fabric_id_info info;

	if (!path)
		return 0;
	if (rule && (rule->settings.tos >= 0 || rule->settings.tos_max >= 0))
		return failure_set(
			failure, STATUS_DENIED,
			"set path: %s:%u sets or limits the traffic class, and a path has "
			"one of its own",
			rule->file, rule->line);
	fabric_id_get_info(id->fabric, &info);
	if (fabric_info_has_paths(&info) && !id->route.path_is_compared)
		return failure_set(
			failure, STATUS_BAD_REQUEST,
			"set path: the subnet manager has told no path of id %u before it, so "
			"it is not known to whom its LIDs belong",
			id->handle);
	if (is_end(&path->sgid, &info.gids[0], &info.local) &&
	    is_end(&path->dgid, &info.gids[1], &info.peer))
		return 0;
	return failure_set(failure, STATUS_BAD_REQUEST,
			   "set path: the path does not lead from the GID of id %u to that of its "
			   "peer",
			   id->handle);
}
