/* SPDX-License-Identifier: BSD-2-Clause */
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "core/facts/sighting.h"
#include "core/object/inquiry.h"
#include "core/object/notice.h"
#include "proto/nodes.h"
#include "proto/version.h"
#include "rpc/call.h"
#include "util/metrics.h"
#include "util/util.h"

/*
 * The metrics as OpenMetrics text, one page at a time, because the metrics of all rules of a large policy would take much
 * memory.
 */

#define METRICS_ITEM_MAX 4096 /* at most this is written by one call of a print function */
#define METRICS_PAGE_MAX 15872 /* size of a page: fits into a packet with the rest of the reply */

/* The position at which a page begins; all zero: the first page. */
struct metrics_place {
	size_t section, index;
};

static void print_decisions(const struct core *core, struct metrics_text *text, size_t i)
{
	static const char *const outcomes[_DECISION_MAX] = {
		[DECISION_ALLOWED] = "allowed", [DECISION_REJECTED] = "rejected",
		[DECISION_NO_RULE] = "no-rule", [DECISION_BUSY] = "busy",
		[DECISION_WARNED] = "warned",
	};
	const struct metrics *metrics = &core->metrics;

	metrics_family(text, "rdmabroker_build", "info", NULL, "The version of the daemon.");
	metrics_printf(text, "rdmabroker_build_info{version=\"%s\"} 1\n", RDMABROKER_VERSION);
	metrics_family(text, "rdmabroker_decisions", "counter", NULL,
		       "Policy decisions. Outcome busy: allowed by a rule, but over a limit; "
		       "warned: allowed by a warn rule.");
	for (int op = 0; op < _POLICY_OPERATION_MAX; op++)
		for (int d = 0; d < _DECISION_MAX; d++)
			metrics_printf(
				text,
				"rdmabroker_decisions_total{operation=\"%s\",outcome=\"%s\"} "
				"%" PRIu64 "\n",
				policy_operation_to_string((enum policy_operation)op), outcomes[d],
				metrics->decisions[op][d]);
}

static void print_refusals(const struct core *core, struct metrics_text *text, size_t i)
{
	static const char *const names[] = {
		[STATUS_INTERNAL] = "internal",   [STATUS_BAD_REQUEST] = "bad-request",
		[STATUS_BAD_STATE] = "bad-state", [STATUS_NO_SUCH_ID] = "no-such-id",
		[STATUS_DENIED] = "denied",       [STATUS_NOT_PERMITTED] = "not-permitted",
		[STATUS_NOT_OWNER] = "not-owner", [STATUS_QUOTA] = "quota",
		[STATUS_FABRIC] = "fabric",       [STATUS_NO_DEVICE] = "no-device",
		[STATUS_VERSION] = "version",     [STATUS_UNKNOWN_OPERATION] = "unknown-operation",
		[STATUS_BUSY] = "busy",           [STATUS_DRAINING] = "draining",
	};
	const struct metrics *metrics = &core->metrics;

	_Static_assert(ELEMENTS_OF(names) == _STATUS_MAX, "a new status needs a name here");
	metrics_family(text, "rdmabroker_refusals", "counter", NULL,
		       "Requests of clients that were refused, by the status of the reply.");
	for (int s = STATUS_INTERNAL; s < _STATUS_MAX; s++)
		metrics_printf(text, "rdmabroker_refusals_total{status=\"%s\"} %" PRIu64 "\n",
			       names[s], metrics->refusals[s]);
}

static void print_events(const struct core *core, struct metrics_text *text, size_t i)
{
	const struct metrics *metrics = &core->metrics;

	metrics_family(text, "rdmabroker_events", "counter", NULL, "Events sent to clients.");
	for (int e = 0; e < METRICS_N_EVENTS; e++)
		metrics_printf(text, "rdmabroker_events_total{type=\"%s\"} %" PRIu64 "\n",
			       event_names[e], metrics->events[e]);
}

static void print_gauges(const struct core *core, struct metrics_text *text, size_t i)
{
	bool is_loaded = !policy_is_fallback(core->policy);
	const char *first;
	const struct {
		const char *name, *help;
		uint64_t value;
	} gauges[] = {
		{ "sessions", "Sessions of clients.", core->n_sessions },
		{ "sessions_limit",
		  "Sessions that there can be, see Sessions= in rdmabrokerd.conf(5).",
		  core->account.limit[ACCOUNT_SESSIONS] },
		{ "ids", "Connection manager ids of any state.", core->n_ids },
		{ "listeners", "Ids that listen.", core->n_listeners },
		{ "connections", "Connections that are established.", core->n_connections },
		{ "handshakes", "Connections that are being established.", core->n_handshakes },
		{ "leases", "Devices leased to sessions.", core->n_leases },
		{ "unusable_devices", "Devices that the daemon cannot open.",
		  fabric_count_unusable(core->fabric) },
		{ "fds", "Open file descriptors of the daemon.",
		  core->n_own_fds + core->account.used[ACCOUNT_FDS] },
		{ "policy_loaded", "0 while there is no policy and everything is rejected.",
		  is_loaded },
		{ "rules", "Rules in force.", is_loaded ? policy_n_rules(core->policy) : 0 },
		{ "warn_rules", "Rules in force that only warn.",
		  is_loaded ? policy_n_warn_rules(core->policy) : 0 },
		{ "missing_names", "Users and groups in the rules that cannot be looked up.",
		  policy_n_missing_names(core->policy, &first) },
		{ "draining", "1 while new work is refused.", core->draining },
		{ "peer_helper", "1 while rdmabroker-peerd is connected.",
		  core->inquiries->helper != NULL },
		{ "asked_peers", "Peers that other hosts are being asked about.",
		  core->account.used[ACCOUNT_INQUIRIES] },
	};

	for (size_t k = 0; k < ELEMENTS_OF(gauges); k++) {
		char name[64];

		snprintf(name, sizeof(name), "rdmabroker_%s", gauges[k].name);
		metrics_family(text, name, "gauge", NULL, gauges[k].help);
		metrics_printf(text, "%s %" PRIu64 "\n", name, gauges[k].value);
	}
}

/* Whether programs can do without the broker, and how many users do. */
static void print_nodes(const struct core *core, struct metrics_text *text, size_t i)
{
	const struct ledger_sampling sampling = sightings_get_sampling(core->sightings);
	uint64_t now_ms = notice_time_ns() / 1000000;

	metrics_family(text, "rdmabroker_nodes_open", "gauge", NULL,
		       "1 while the device nodes are open, so that programs can use RDMA without "
		       "the broker.");
	metrics_printf(text, "rdmabroker_nodes_open %d\n", access(NODES_OPEN_FILE, F_OK) == 0);
	metrics_family(text, "rdmabroker_nodes_sampled_seconds", "gauge", "seconds",
		       "How long it was looked without a pause who uses RDMA without the broker, "
		       "as long as the nodes are open.");
	metrics_printf(text, "rdmabroker_nodes_sampled_seconds %" PRIu64 "\n",
		       sampling.last_ms > sampling.since_ms ?
			       (sampling.last_ms - sampling.since_ms) / 1000 :
			       0);
	metrics_family(text, "rdmabroker_users_without_broker", "gauge", NULL,
		       "Users who were seen using RDMA without the broker within the last day.");
	metrics_printf(text, "rdmabroker_users_without_broker %u\n",
		       sightings_count_users(core->sightings, now_ms - SIGHTINGS_DAY_MS));
}

static void print_phase(const struct core *core, struct metrics_text *text, size_t i)
{
	static const char *const names[_PHASE_MAX] = {
		[PHASE_RESOLVE_ADDR] = "resolve addr", [PHASE_RESOLVE_ROUTE] = "resolve route",
		[PHASE_CONNECT] = "connect",           [PHASE_ACCEPT] = "accept",
		[PHASE_ESTABLISH] = "establish",       [PHASE_DISCONNECT] = "disconnect",
	};
	char labels[64];

	if (i == 0)
		metrics_family(text, "rdmabroker_phase_seconds", "histogram", "seconds",
			       "Duration of the phases of connections.");
	snprintf(labels, sizeof(labels), "phase=\"%s\"", names[i]);
	metrics_histogram(text, "rdmabroker_phase_seconds", labels, &core->metrics.phases[i]);
}

/* Writes the labels of rule I: `file="...",line="..."`. For requests that no rule matches, they are "" and 0. */
static void rule_labels(const struct core *core, size_t i, char *ret, size_t size)
{
	const struct policy_rule *rule = policy_rule_at(core->policy, i);
	char file[TEXT_MAX];

	snprintf(ret, size, "file=\"%s\",line=\"%u\"",
		 metrics_escape(file, sizeof(file), rule ? rule->file : ""), rule ? rule->line : 0);
}

static const struct tally *rule_tally(const struct core *core, size_t i)
{
	return admissions_find(core->admissions, policy_rule_at(core->policy, i));
}

static void print_rule_decisions(const struct core *core, struct metrics_text *text, size_t i)
{
	const struct policy_rule *rule = policy_rule_at(core->policy, i);
	const struct tally *tally = rule_tally(core, i);
	size_t n = rule && rule->warns ? 4 : 3; /* many series would be 0 for ever */
	const struct {
		const char *outcome;
		uint64_t n;
	} counts[] = {
		{ "allowed", tally->n_allowed },
		{ "rejected", tally->n_rejected },
		{ "busy", tally->n_busy },
		{ "warned", tally->n_warned },
	};
	char labels[TEXT_MAX + 64];

	if (i == 0)
		metrics_family(text, "rdmabroker_rule_decisions", "counter", NULL,
			       "Decisions of each rule. File empty: no rule matched.");
	rule_labels(core, i, labels, sizeof(labels));
	for (size_t k = 0; k < n; k++)
		metrics_printf(text,
			       "rdmabroker_rule_decisions_total{%s,outcome=\"%s\"} %" PRIu64 "\n",
			       labels, counts[k].outcome, counts[k].n);
}

static void print_rule_objects(const struct core *core, struct metrics_text *text, size_t i)
{
	char labels[TEXT_MAX + 64];

	if (i == 0)
		metrics_family(text, "rdmabroker_rule_objects", "gauge", NULL,
			       "Objects that each rule has admitted and that exist now.");
	rule_labels(core, i, labels, sizeof(labels));
	metrics_printf(text, "rdmabroker_rule_objects{%s} %u\n", labels,
		       rule_tally(core, i)->n_now);
}

static void print_end(const struct core *core, struct metrics_text *text, size_t i)
{
	metrics_printf(text, "# EOF\n");
}

#define ALL_RULES 0 /* one entry for each rule, and one for the requests that no rule matches */

static const struct section {
	void (*print)(const struct core *core, struct metrics_text *text, size_t i);
	size_t n;
} sections[] = {
	{ print_decisions, 1 },
	{ print_refusals, 1 },
	{ print_events, 1 },
	{ print_gauges, 1 },
	{ print_nodes, 1 },
	{ print_phase, _PHASE_MAX },
	{ print_rule_decisions, ALL_RULES },
	{ print_rule_objects, ALL_RULES },
	{ print_end, 1 },
};

/*
 * Fills TEXT, of more than METRICS_ITEM_MAX bytes, with the page that begins at *PLACE, and moves *PLACE to
 * the next page. Returns true if there is a next page. If the policy was replaced between two pages, rules can be
 * missing or appear twice.
 */
static bool fill_page(const struct core *core, struct metrics_text *text,
		      struct metrics_place *place)
{
	text->buf[0] = 0;
	text->len = 0;
	while (place->section < ELEMENTS_OF(sections) &&
	       text->len + METRICS_ITEM_MAX < text->size) {
		const struct section *section = &sections[place->section];
		size_t n = section->n ?: policy_n_rules(core->policy) + 1;

		if (place->index < n)
			section->print(core, text, place->index++);
		if (place->index >= n) {
			place->section++;
			place->index = 0;
		}
	}
	return place->section < ELEMENTS_OF(sections);
}

/* What the reply points to. */
struct space {
	Rdmabroker__GetMetricsResult get_metrics;
	char metrics_text[METRICS_PAGE_MAX];
};

int do_get_metrics(struct call *call)
{
	struct space *space = SPACE(call, struct space);
	Rdmabroker__GetMetricsResult *result = &space->get_metrics;
	struct metrics_text text = { .buf = space->metrics_text,
				     .size = sizeof(space->metrics_text) };
	struct metrics_place place = { .section = call->request->get_metrics->section,
				       .index = call->request->get_metrics->index };

	rdmabroker__get_metrics_result__init(result);
	core_count_fds(call->session->core);
	result->more = fill_page(call->session->core, &text, &place);
	result->text = text.buf;
	result->next_section = (uint32_t)place.section;
	result->next_index = (uint32_t)place.index;
	return REPLY(call, get_metrics, GET_METRICS, result);
}
