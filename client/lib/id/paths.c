/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <string.h>

#include "client/lib/id/paths.h"

static void get_gid(union ibv_gid *ret, const ProtobufCBinaryData *gid)
{
	if (gid->len == sizeof(ret->raw))
		memcpy(ret->raw, gid->data, sizeof(ret->raw));
}

static void get_path(struct ibv_sa_path_rec *ret, const Rdmabroker__Path *path)
{
	*ret = (struct ibv_sa_path_rec){
		.dlid = htons((uint16_t)path->dlid),
		.slid = htons((uint16_t)path->slid),
		.raw_traffic = (int)path->raw_traffic,
		.flow_label = htonl(path->flow_label),
		.hop_limit = (uint8_t)path->hop_limit,
		.traffic_class = (uint8_t)path->traffic_class,
		.reversible = (int)path->reversible,
		.numb_path = (uint8_t)path->numb_path,
		.pkey = htons((uint16_t)path->pkey),
		.sl = (uint8_t)path->sl,
		.mtu_selector = (uint8_t)path->mtu_selector,
		.mtu = (uint8_t)path->mtu,
		.rate_selector = (uint8_t)path->rate_selector,
		.rate = (uint8_t)path->rate,
		.packet_life_time_selector = (uint8_t)path->packet_life_time_selector,
		.packet_life_time = (uint8_t)path->packet_life_time,
		.preference = (uint8_t)path->preference,
	};
	get_gid(&ret->dgid, &path->dgid);
	get_gid(&ret->sgid, &path->sgid);
}

void paths_get(struct paths *ret, Rdmabroker__Path *const *paths, size_t n)
{
	ret->n = n < PATHS_MAX ? n : PATHS_MAX;
	for (size_t i = 0; i < ret->n; i++)
		get_path(&ret->paths[i], paths[i]);
}
