/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* A request while it is processed. The handlers of requests are in the files do_*.c and in metrics.c. */

#include "core/object/id.h"
#include "proto/rdmabroker.pb-c.h"
#include "rpc/convert.h"
#include "rpc/operations.h"
#include "rpc/metrics.h"
#include "rpc/request.h"

#define MAX_DEVICES 64 /* devices in a Status; rdmabroker.proto promises this number */
#define MAX_HOLDERS 32 /* holders in a Status; rdmabroker.proto promises this number */
#define MAX_LIMITS 16 /* limits in a reply; rdmabroker.proto promises this number */
#define MAX_WARNINGS 4 /* warnings in a Status; rdmabroker.proto promises this number */
#define MAX_COMPLAINTS 20
#define MAX_EFFECTS 16
#define MAX_RULES 16 /* rules in a reply: they fit into a packet even with the longest texts */
#define MAX_LISTED 24 /* sessions and ids in a reply */
#define LISTED_SIZE_MAX 2048 /* the longest session or id in a reply, packed */
#define TEXT_MAX 512

struct control;

struct out_rule {
	Rdmabroker__Rule rule;
	char file[TEXT_MAX / 2];
	char text[TEXT_MAX];
};

struct out_listed_session {
	Rdmabroker__ListedSession session;
	struct out_workload workload;
	char unit[TEXT_MAX / 2];
	char rule[TEXT_MAX / 2];
	char restriction[TEXT_MAX / 2];
};

struct out_listed_id {
	Rdmabroker__ListedId id;
	struct out_id_info info;
	struct out_peerid peerid;
	char rule[TEXT_MAX / 2];
};

struct out_holder {
	Rdmabroker__Status__Holder holder;
	Rdmabroker__Address local, peer;
};

struct call {
	struct control *control;
	struct session *session;
	struct request_progress *progress;
	const Rdmabroker__Request *request;
	enum request_attempt attempt;
	int fd; /* descriptor that came with the request; -1: none */
	Rdmabroker__Reply *reply;
	struct failure failure; /* why the request is refused, if its handler returns a status */
	/* descriptor that goes with the reply; -1: none; closed once the reply is sent */
	int reply_fd;
	/* Space for the result that the reply points to. */
	union {
		Rdmabroker__HelloResult hello;
		struct {
			struct out_id_info id_info;
			struct out_qp_attr bound_init;
		};
		struct out_qp_attr qp_attr;
		Rdmabroker__OpenDeviceResult open_device;
		Rdmabroker__GetOptionResult get_option;
		Rdmabroker__PublishSocketResult publish_socket;
		struct {
			Rdmabroker__GetLimitsResult get_limits;
			Rdmabroker__GetLimitsResult__Limit limits[MAX_LIMITS];
			Rdmabroker__GetLimitsResult__Limit *limit_pointers[MAX_LIMITS];
		};
		struct {
			Rdmabroker__PeerIdentity find_peer;
			struct out_workload workload;
			uint32_t gids[MAX_GIDS];
			char unit[TEXT_MAX / 2];
		};
		struct {
			Rdmabroker__ImportIdResult import_id;
			Rdmabroker__ConnParam conn;
			Rdmabroker__Ece ece;
			Rdmabroker__Caps caps;
			struct out_id_info info;
			struct out_qp_attr qp;
			uint8_t paths[PATHS_SIZE];
		};
		struct {
			Rdmabroker__ListDevicesResult list_devices;
			char *names[MAX_DEVICES];
		};
		struct {
			Rdmabroker__Status status;
			Rdmabroker__Status__TakeOver take_over;
			Rdmabroker__Status__Device devices[MAX_DEVICES];
			Rdmabroker__Status__Device *pointers[MAX_DEVICES];
			Rdmabroker__Status__ForeignIds foreign_ids[MAX_DEVICES];
			struct out_holder holders[MAX_HOLDERS];
			Rdmabroker__Status__Holder *holder_pointers[MAX_HOLDERS];
			size_t n_holders;
			char warnings[MAX_WARNINGS][TEXT_MAX];
			char *warning_pointers[MAX_WARNINGS];
		};
		struct {
			Rdmabroker__ExplainResult explain;
			struct out_rule rule, depends;
			char effects[MAX_EFFECTS][64];
			char *effect_pointers[MAX_EFFECTS];
		};
		struct {
			Rdmabroker__ReloadResult reload;
			char complaints[MAX_COMPLAINTS][TEXT_MAX];
			char *complaint_pointers[MAX_COMPLAINTS];
		};
		struct {
			Rdmabroker__ListRulesResult list_rules;
			struct out_rule rules[MAX_RULES];
			Rdmabroker__Rule *rule_pointers[MAX_RULES];
		};
		struct {
			Rdmabroker__ListResult list;
			union {
				struct out_listed_session session;
				struct out_listed_id id;
			} listed[MAX_LISTED];
			Rdmabroker__ListedSession *listed_sessions[MAX_LISTED];
			Rdmabroker__ListedId *listed_ids[MAX_LISTED];
		};
		struct {
			Rdmabroker__GetMetricsResult get_metrics;
			char metrics_text[METRICS_PAGE_MAX];
		};
	} space;
};

#define REPLY(call, name, NAME, message)                                       \
	do {                                                                   \
		(call)->reply->result_case = RDMABROKER__REPLY__RESULT_##NAME; \
		(call)->reply->name = (message);                               \
	} while (0)

static inline int bad_request(struct call *call, const char *what)
{
	return failure_set(&call->failure, STATUS_BAD_REQUEST, "%s", what);
}

/* The handlers, in do_*.c and metrics.c: each checks the fields of its request, and calls a verb. */
#define DECLARE(op, name, permits, work) int do_##name(struct call *call);
OPERATIONS(DECLARE)
#undef DECLARE

/* Creates an id and sets its options. M is the create_id request, or the field FIRST of another request. */
int do_client_create_id(struct call *call, const Rdmabroker__CreateId *m);
