/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <assert.h>
#include <string.h>

#include "proto/path.h"

/*
 * The bits of the PathRecord, see the InfiniBand Architecture Specification, volume 1, 15.2.5.16. A "selector" says how
 * the value beside it is meant, for example "exactly".
 */
#define RAW_TRAFFIC_BIT 0x80000000U
#define SELECTOR_SHIFT 6
#define VALUE_MASK 0x3f
#define NUMB_PATH_MASK 0x7f
#define SL_MASK 0xf
#define FLOW_LABEL_MASK 0xfffffU
#define FLOW_LABEL_SHIFT 8

static_assert(sizeof(struct ibv_path_record) == 64, "a PathRecord has 64 bytes");

static uint8_t pack_selected(uint8_t selector, uint8_t value)
{
	return (uint8_t)(selector << SELECTOR_SHIFT | (value & VALUE_MASK));
}

static void pack(struct ibv_path_record *ret, const struct ibv_sa_path_rec *path)
{
	uint32_t flow_label = ntohl(path->flow_label) & FLOW_LABEL_MASK;

	*ret = (struct ibv_path_record){
		.dgid = path->dgid,
		.sgid = path->sgid,
		.dlid = path->dlid,
		.slid = path->slid,
		.flowlabel_hoplimit = htonl((path->raw_traffic ? RAW_TRAFFIC_BIT : 0) |
					    flow_label << FLOW_LABEL_SHIFT | path->hop_limit),
		.tclass = path->traffic_class,
		.reversible_numpath =
			(uint8_t)((path->reversible ? IBV_PATH_RECORD_REVERSIBLE : 0) |
				  (path->numb_path & NUMB_PATH_MASK)),
		.pkey = path->pkey,
		.qosclass_sl = htons(path->sl & SL_MASK),
		.mtu = pack_selected(path->mtu_selector, path->mtu),
		.rate = pack_selected(path->rate_selector, path->rate),
		.packetlifetime =
			pack_selected(path->packet_life_time_selector, path->packet_life_time),
		.preference = path->preference,
	};
}

static void unpack(struct ibv_sa_path_rec *ret, const struct ibv_path_record *path)
{
	uint32_t flow = ntohl(path->flowlabel_hoplimit);

	*ret = (struct ibv_sa_path_rec){
		.dgid = path->dgid,
		.sgid = path->sgid,
		.dlid = path->dlid,
		.slid = path->slid,
		.raw_traffic = !!(flow & RAW_TRAFFIC_BIT),
		.flow_label = htonl(flow >> FLOW_LABEL_SHIFT & FLOW_LABEL_MASK),
		.hop_limit = (uint8_t)flow,
		.traffic_class = path->tclass,
		.reversible = !!(path->reversible_numpath & IBV_PATH_RECORD_REVERSIBLE),
		.numb_path = path->reversible_numpath & NUMB_PATH_MASK,
		.pkey = path->pkey,
		.sl = ntohs(path->qosclass_sl) & SL_MASK,
		.mtu_selector = path->mtu >> SELECTOR_SHIFT,
		.mtu = path->mtu & VALUE_MASK,
		.rate_selector = path->rate >> SELECTOR_SHIFT,
		.rate = path->rate & VALUE_MASK,
		.packet_life_time_selector = path->packetlifetime >> SELECTOR_SHIFT,
		.packet_life_time = path->packetlifetime & VALUE_MASK,
		.preference = path->preference,
	};
}

size_t paths_pack(uint8_t ret[PATHS_SIZE], const struct ibv_sa_path_rec *paths, size_t n)
{
	struct ibv_path_record record;

	for (size_t i = 0; i < n; i++) {
		pack(&record, &paths[i]);
		memcpy(ret + i * sizeof(record), &record, sizeof(record));
	}
	return n * sizeof(record);
}

void paths_unpack(struct paths *ret, const uint8_t *data, size_t len)
{
	struct ibv_path_record record;

	ret->n = len / sizeof(record);
	if (ret->n > PATHS_MAX)
		ret->n = PATHS_MAX;
	for (size_t i = 0; i < ret->n; i++) {
		memcpy(&record, data + i * sizeof(record), sizeof(record));
		unpack(&ret->paths[i], &record);
	}
}
