/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "core/object/inquiry.h"
#include "core/object/quota.h"
#include "fabric/no_rdma.h"
#include "proto/address.h"
#include "proto/nodes.h"
#include "proto/packet.h"
#include "proto/version.h"
#include "rpc/call.h"
#include "rpc/control.h"
#include "util/clock.h"

/* The status of the broker, for admins and observers, and each client's own limits. */

#define MAX_DEVICES_SIZE \
	(PACKET_MAX / 3) /* a page ends after the device that has reached it, packed */
#define MAX_HOLDERS 32 /* holders in a Status; rdmabroker.proto promises this number */
#define MAX_LIMITS 16 /* limits in a reply; rdmabroker.proto promises this number */
#define MAX_WARNINGS 5 /* warnings in a Status; rdmabroker.proto promises this number */

struct out_holder {
	Rdmabroker__Status__Holder holder;
	Rdmabroker__Address local, peer;
};

/* What the replies of this file point to. */
union space {
	struct {
		Rdmabroker__Status status;
		Rdmabroker__Status__TakeOver take_over;
		Rdmabroker__Learned learned;
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
		Rdmabroker__GetLimitsResult get_limits;
		Rdmabroker__GetLimitsResult__Limit limits[MAX_LIMITS];
		Rdmabroker__GetLimitsResult__Limit *limit_pointers[MAX_LIMITS];
	};
};

static Rdmabroker__Status__Holder *out_holder(struct out_holder *space,
					      const struct fabric_holder *holder)
{
	Rdmabroker__Status__Holder *out = &space->holder;

	rdmabroker__status__holder__init(out);
	out->pid = (uint32_t)holder->pid;
	out->uid = holder->uid;
	out->name = (char *)holder->name;
	out->ids = holder->n_ids;
	out->state = (char *)holder->state;
	out->local = address_pack(&space->local, (const struct sockaddr *)&holder->local);
	out->peer = address_pack(&space->peer, (const struct sockaddr *)&holder->peer);
	return out;
}

/*
 * Fills in OUT from FOUND, the holders that the last complete scan found. Returns OUT, or NULL if FOUND is NULL: no
 * scan is complete yet. Holders that do not fit into the reply are left out, but their ids are counted in more_ids.
 */
static Rdmabroker__Status__ForeignIds *out_foreign_ids(union space *space,
						       Rdmabroker__Status__ForeignIds *out,
						       const struct fabric_holders *found)
{
	if (!found)
		return NULL;
	rdmabroker__status__foreign_ids__init(out);
	out->age_ms = clock_ms() - found->seen_ms;
	out->more_ids = found->n_more_ids;
	out->nameless_ids = found->n_nameless_ids;
	out->holders = space->holder_pointers + space->n_holders;
	for (size_t i = 0; i < found->n_holders; i++) {
		size_t n = space->n_holders;

		if (n == MAX_HOLDERS) {
			out->more_ids += found->holders[i].n_ids;
			continue;
		}
		out->holders[out->n_holders++] = out_holder(&space->holders[n], &found->holders[i]);
		space->n_holders++;
	}
	return out;
}

static void add_warning(union space *space, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static void add_warning(union space *space, const char *fmt, ...)
{
	Rdmabroker__Status *status = &space->status;
	char *text = space->warnings[status->n_warnings];
	va_list ap;

	if (status->n_warnings == MAX_WARNINGS)
		return;
	va_start(ap, fmt);
	vsnprintf(text, TEXT_MAX, fmt, ap);
	va_end(ap);
	space->warning_pointers[status->n_warnings++] = text;
}

static void out_policy(struct call *call, union space *space)
{
	const struct core *core = session_get_core(call->session);
	const struct policy *policy = core_get_policy(core);
	Rdmabroker__Status *status = &space->status;
	const char *first;

	status->policy_error = (char *)control_get_policy_error(call->control);
	status->no_policy = policy_is_fallback(policy);
	status->rules = status->no_policy ? 0 : (uint32_t)policy_n_rules(policy);
	status->missing_names = (uint32_t)policy_n_missing_names(policy, &first);
	status->warn_rules = (uint32_t)policy_n_warn_rules(policy);
	status->warned = core_count_warned(core);
	if (status->warn_rules > 0)
		add_warning(space,
			    "%u of the rules only warn%s; they have admitted %" PRIu64
			    " requests that the other rules would refuse (rdmabrokerctl rules)",
			    status->warn_rules, status->warn_rules == 1 ? "s" : "", status->warned);
	if (first)
		add_warning(
			space,
			"cannot look up %u user or group name%s: an allow rule with such a name "
			"matches nobody, a reject rule matches everybody. The first error: %s",
			status->missing_names, status->missing_names == 1 ? "" : "s", first);
}

static void out_take_over(union space *space, const struct core_take_over *in)
{
	Rdmabroker__Status__TakeOver *out = &space->take_over;

	if (in->generation == 0)
		return;
	rdmabroker__status__take_over__init(out);
	out->generation = in->generation;
	out->sessions = in->n_sessions;
	out->ended_sessions = in->n_ended;
	out->took_ms = in->took_ms;
	out->age_ms = clock_ms() - in->at_ms;
	space->status.take_over = out;
}

static void out_warnings(union space *space, const struct core *core)
{
	const char *fault = inquiries_find_fault(core);
	struct fabric_device *device = NULL;
	const char *unmapped = NULL;
	char text[TEXT_MAX - 64];
	uint64_t since_ms;
	int error;

	if (no_rdma_explain("", text, sizeof(text)))
		add_warning(space, "cannot use RDMA or some of its devices: %s", text);
	while ((device = fabric_next_device(core_get_fabric(core), device))) {
		if (!unmapped && fabric_device_is_iwarp(device) &&
		    no_rdma_lacks_port_mapper("", fabric_device_name(device)))
			unmapped = fabric_device_name(device);
		if ((error = fabric_device_error(device, &since_ms)) != 0)
			add_warning(space,
				    "the device %s cannot be used since %" PRIu64
				    " s, because it cannot be opened: %s; it is tried again",
				    fabric_device_name(device), (clock_ms() - since_ms) / 1000,
				    strerror(error));
	}
	if (unmapped)
		add_warning(
			space,
			"iwpmd.service does not run, but %s is a device of iWARP: a program that "
			"listens for RDMA takes its port away from the host's TCP (systemctl "
			"enable --now iwpmd)",
			unmapped);
	if (access(NODES_OPEN_FILE, F_OK) == 0)
		add_warning(
			space,
			"the device nodes are open, so programs can use RDMA without the broker "
			"(rdmabrokerctl nodes status)");
	if (fault)
		add_warning(space, "%s", fault);
}

static void out_devices(union space *space, const struct call *call)
{
	struct fabric *fabric = core_get_fabric(session_get_core(call->session));
	Rdmabroker__Status *status = &space->status;
	struct fabric_device *device = NULL;
	uint64_t last = call->request->get_status->after_device;
	size_t n = 0, size = 0;

	space->n_holders = 0;
	while ((device = fabric_next_device(fabric, device))) {
		Rdmabroker__Status__Device *d;

		if (fabric_device_number(device) <= last)
			continue;
		if (n == MAX_DEVICES || size >= MAX_DEVICES_SIZE) {
			status->last_device = last;
			break;
		}
		d = &space->devices[n];
		rdmabroker__status__device__init(d);
		d->name = (char *)fabric_device_name(device);
		d->node = (char *)fabric_device_node(device);
		d->leases = fabric_device_n_leases(device);
		d->foreign_ids = out_foreign_ids(space, &space->foreign_ids[n],
						 fabric_device_holders(device));
		size += protobuf_c_message_get_packed_size(&d->base);
		space->pointers[n++] = d;
		last = fabric_device_number(device);
	}
	status->devices = space->pointers;
	status->n_devices = n;
}

int do_get_status(struct call *call)
{
	struct core *core = session_get_core(call->session);
	const struct core_counts counts = core_get_counts(core);
	union space *space = SPACE(call, union space);
	Rdmabroker__Status *status = &space->status;

	rdmabroker__status__init(status);
	status->version = (char *)RDMABROKER_VERSION;
	status->warnings = space->warning_pointers;
	out_policy(call, space);
	status->sessions = counts.n_sessions;
	status->listeners = counts.n_listeners;
	status->connections = counts.n_connections;
	status->handshakes = counts.n_handshakes;
	status->draining = core_is_draining(core);
	status->ids = counts.n_ids;
	status->leases = counts.n_leases;
	status->fds = (uint32_t)core_count_fds(core);
	out_take_over(space, core_get_take_over(core));
	out_learned(&space->learned, core);
	status->learned = &space->learned;
	out_warnings(space, core);
	fabric_scan_holders(core_get_fabric(core));
	out_devices(space, call);
	return REPLY(call, status, STATUS, status);
}

int do_get_limits(struct call *call)
{
	union space *space = SPACE(call, union space);
	Rdmabroker__GetLimitsResult *result = &space->get_limits;
	struct quota quota;

	rdmabroker__get_limits_result__init(result);
	result->limits = space->limit_pointers;
	while (result->n_limits < MAX_LIMITS &&
	       quota_get(call->session, result->n_limits, &quota)) {
		Rdmabroker__GetLimitsResult__Limit *out = &space->limits[result->n_limits];

		rdmabroker__get_limits_result__limit__init(out);
		out->what = (char *)quota.what;
		out->key = (char *)quota.key;
		out->used = quota.used;
		out->limit = quota.limit;
		result->limits[result->n_limits++] = out;
	}
	return REPLY(call, get_limits, GET_LIMITS, result);
}
