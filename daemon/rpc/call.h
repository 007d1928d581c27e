/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* A request while it is processed. The handlers of requests are in the files do_*.c and in metrics.c. */

#include "core/object/id.h"
#include "proto/rdmabroker.pb-c.h"
#include "rpc/convert.h"
#include "rpc/metrics.h"

#define MAX_DEVICES 64 /* devices in a Status; rdmabroker.proto promises this number */
#define MAX_HOLDERS 32 /* holders in a Status; rdmabroker.proto promises this number */
#define MAX_WARNINGS 4 /* warnings in a Status; rdmabroker.proto promises this number */
#define MAX_COMPLAINTS 20
#define MAX_EFFECTS 16
#define MAX_RULES 16 /* rules in a reply: they fit into a packet even with the longest texts */
#define MAX_LISTED 24 /* sessions and ids in a reply */
#define LISTED_SIZE_MAX 2048 /* the longest session or id in a reply, packed */
#define TEXT_MAX 512

struct control;
struct request_progress;

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
	bool again; /* true: the request is repeated, after it ended in -EINPROGRESS */
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

/* do_client.c */
int do_hello(struct call *call);
int do_goodbye(struct call *call);
int do_create_id(struct call *call);
int do_destroy_id(struct call *call);
int do_set_option(struct call *call);
int do_bind_addr(struct call *call);
int do_listen(struct call *call);
int do_resolve_addr(struct call *call);
int do_resolve_route(struct call *call);
int do_connect(struct call *call);
int do_accept(struct call *call);
int do_establish(struct call *call);
int do_reject(struct call *call);
int do_notify(struct call *call);
int do_get_option(struct call *call);
int do_join_multicast(struct call *call);
int do_leave_multicast(struct call *call);
int do_export_id(struct call *call);
int do_import_id(struct call *call);
int do_disconnect(struct call *call);
int do_init_qp_attr(struct call *call);
int do_open_device(struct call *call);
int do_close_device(struct call *call);
int do_list_devices(struct call *call);
int do_lend_device(struct call *call);
/* Creates an id and sets its options. M is the create_id request, or the field FIRST of another request. */
int do_client_create_id(struct call *call, const Rdmabroker__CreateId *m);
/* do_restricted.c */
int do_restrict_session(struct call *call);
int do_publish_socket(struct call *call);
int do_release_session(struct call *call);
int do_adopt_session(struct call *call);
/* do_peers.c */
int do_serve_peers(struct call *call);
int do_answer_peer(struct call *call);
int do_find_peer(struct call *call);
/* do_status.c */
int do_get_status(struct call *call);
/* do_policy.c */
int do_list_rules(struct call *call);
int do_reload(struct call *call);
int do_explain(struct call *call);
/* do_sessions.c */
int do_list(struct call *call);
int do_kick(struct call *call);
int do_drain(struct call *call);
int do_watch(struct call *call);
/* metrics.c */
int do_get_metrics(struct call *call);
