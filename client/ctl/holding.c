/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <systemd/sd-login.h>
#include <time.h>

#include "grow.h"
#include "holding.h"
#include "proto/addr.h"
#include "proto/cmdump.h"
#include "proto/maker.h"
#include "proto/text.h"

#define DAEMON "rdmabrokerd"

/* An id or a QP. */
struct held {
	const char *device;
	pid_t pid;
	bool is_qp;
	struct cmdump_id id;
};

struct device {
	char name[64];
	struct nldev_device nldev;
};

struct reading {
	struct nldev *nl;
	struct holding *out;
	uint16_t first_port, last_port;
	size_t n_devices; /* of OUT */
	const struct device *device; /* that is read */
	bool reads_qps;
	struct held *held;
	size_t n_held;
	uint64_t now_ms;
	uint8_t listens[UINT16_MAX + 1]; /* for each port the port spaces, as bit_of() has them */
};

static int add_device(void *userdata, const char *name, const struct nldev_device *nldev)
{
	struct reading *reading = userdata;
	struct holding *out = reading->out;
	struct device *device;

	out->devices = grow(out->devices, reading->n_devices, sizeof(struct device));
	device = &out->devices[reading->n_devices++];
	text_copy(device->name, sizeof(device->name), name);
	device->nldev = *nldev;
	return 0;
}

/* Names of units are of use only outside of containers, where others can have the same names. */
static char *find_unit(pid_t pid)
{
	struct stat own, other;
	char path[64], *unit;

	snprintf(path, sizeof(path), "/proc/%d/ns/pid", pid);
	if (stat("/proc/self/ns/pid", &own) < 0 || stat(path, &other) < 0 ||
	    own.st_ino != other.st_ino || sd_pid_get_unit(pid, &unit) < 0)
		return NULL;
	return unit;
}

static struct holder *add_holder(struct holding *out, const struct maker *maker)
{
	struct holder *holder;

	out->holders = grow(out->holders, out->n_holders, sizeof(struct holder));
	holder = &out->holders[out->n_holders++];
	*holder = (struct holder){
		.who = { .pid = maker->pid, .uid = maker->uid, .charged_uid = maker->uid },
		.is_daemon = maker->pid > 0 && strcmp(maker->name, DAEMON) == 0,
	};
	text_copy(holder->name, sizeof(holder->name), maker->name);
	if (maker->pid > 0) {
		holder->who.unit = find_unit(maker->pid);
		holder->who.n_gids = maker_read_gids(maker->pid, holder->gids, HOLDER_GIDS);
	}
	return holder;
}

static struct holder *find_holder(const struct holding *holding, pid_t pid, const char *module)
{
	for (size_t i = 0; i < holding->n_holders; i++) {
		struct holder *holder = &holding->holders[i];

		if (holder->who.pid == pid && (pid > 0 || strcmp(holder->name, module) == 0))
			return holder;
	}
	return NULL;
}

/* NULL: the thread has ended. */
static struct holder *holder_of(struct holding *out, const struct cmdump_id *id)
{
	struct maker maker = { .uid = UINT32_MAX };
	struct holder *holder;

	if (id->kernel) {
		text_copy(maker.name, sizeof(maker.name), id->kernel);
		text_make_printable(maker.name, strlen(maker.name));
	} else if (id->tid > 0) {
		maker_read((pid_t)id->tid, &maker);
	}
	if (!id->kernel && maker.uid == UINT32_MAX) {
		out->n_nameless++;
		return NULL;
	}
	holder = find_holder(out, maker.pid, maker.name);
	return holder ?: add_holder(out, &maker);
}

/* The kernel makes QPs of its own for each port of each device. */
static bool is_special(const struct reading *reading, const struct cmdump_id *id)
{
	return reading->reads_qps && id->kernel && strcmp(id->kernel, "ib_core") == 0;
}

static uint16_t port_of(const struct sockaddr_storage *addr)
{
	return addr_port((const struct sockaddr *)addr);
}

static uint8_t bit_of(uint32_t ps)
{
	switch (ps) {
	case RDMABROKER_PS_TCP:
		return 1;
	case RDMABROKER_PS_UDP:
		return 2;
	default:
		return 4;
	}
}

static int take(void *userdata, const struct cmdump_id *id)
{
	struct reading *reading = userdata;
	struct holder *holder;

	if (is_special(reading, id))
		return 0;
	holder = holder_of(reading->out, id);
	if (!holder)
		return 0;
	if (reading->reads_qps)
		holder->n_qps++;
	else
		holder->n_ids++;
	if (!reading->reads_qps && id->state == CMDUMP_LISTEN)
		reading->listens[port_of(&id->local)] |= bit_of(id->ps);
	if (id->kernel)
		return 0;
	reading->held = grow(reading->held, reading->n_held, sizeof(struct held));
	reading->held[reading->n_held++] = (struct held){
		.device = reading->device->name,
		.pid = holder->who.pid,
		.is_qp = reading->reads_qps,
		.id = *id,
	};
	return 0;
}

static int read_device(struct reading *reading, const struct device *device, bool reads_qps)
{
	_Alignas(struct nlmsghdr) char buf[CMDUMP_REQUEST_SIZE];
	struct cmdump dump = { .on_id = take, .userdata = reading };

	reading->device = device;
	reading->reads_qps = reads_qps;
	return nldev_dump(reading->nl,
			  reads_qps ? cmdump_request_qps(buf, &device->nldev) :
				      cmdump_request(buf, &device->nldev),
			  cmdump_take, &dump);
}

/* Rows */

static bool is_chosen(const struct reading *reading, uint16_t port)
{
	return port >= reading->first_port && port <= reading->last_port;
}

/*
 * A connection that a listener has got has the listener's port. If the listener is gone, it is seen by the ports: the
 * kernel has chosen the peer's.
 */
static bool is_accepted(const struct reading *reading, const struct held *held)
{
	uint16_t local = port_of(&held->id.local), peer = port_of(&held->id.peer);

	return (reading->listens[local] & bit_of(held->id.ps)) ||
	       (!is_chosen(reading, local) && is_chosen(reading, peer));
}

static bool has_peer(const struct held *held)
{
	const struct sockaddr *peer = (const struct sockaddr *)&held->id.peer;

	return addr_len(peer) > 0 && !addr_is_wildcard(peer);
}

/* It points into OUT, whose holders and devices are complete. */
static struct rdmabroker_refusal *new_row(struct reading *reading, const struct held *held,
					  const char *operation)
{
	struct rdmabroker_refusals *all = &reading->out->refusals;
	const struct holder *holder = find_holder(reading->out, held->pid, "");

	all->list = grow(all->list, all->n, sizeof(*all->list));
	all->list[all->n] = (struct rdmabroker_refusal){
		.operation = operation,
		.outcome = "no-rule",
		.who = holder->who,
		.name = holder->name,
		.device = held->device,
		.count = 1,
		.first_ms = reading->now_ms,
		.last_ms = reading->now_ms,
	};
	all->list[all->n].who.gids = holder->gids;
	return &all->list[all->n++];
}

static void add_row(struct reading *reading, const struct held *held, const char *operation,
		    uint16_t port)
{
	struct rdmabroker_refusal *row = new_row(reading, held, operation);

	row->ps = held->id.ps;
	row->local = held->id.local;
	row->any_port = strcmp(operation, "connect") != 0 && is_chosen(reading, port);
	row->port = row->any_port ? 0 : port;
	if (has_peer(held) && strcmp(operation, "listen") != 0) {
		row->peer = held->id.peer;
		row->peer_prefix = (uint8_t)addr_bits((const struct sockaddr *)&held->id.peer);
	}
}

static void add_rows(struct reading *reading, const struct held *held)
{
	new_row(reading, held, "session");
	new_row(reading, held, "device");
	if (held->is_qp)
		return;
	if (held->id.state == CMDUMP_LISTEN)
		add_row(reading, held, "listen", port_of(&held->id.local));
	else if (has_peer(held) && is_accepted(reading, held))
		add_row(reading, held, "accept", port_of(&held->id.local));
	else if (has_peer(held))
		add_row(reading, held, "connect", port_of(&held->id.peer));
}

const char *holding_read(struct holding *ret, uint16_t first_port, uint16_t last_port)
{
	struct reading reading = { .out = ret, .first_port = first_port, .last_port = last_port };
	const char *failed = "open a netlink socket for RDMA";
	struct timespec now;
	int r;

	*ret = (struct holding){ .n_holders = 0 };
	clock_gettime(CLOCK_REALTIME, &now);
	reading.now_ms = (uint64_t)now.tv_sec * 1000;
	r = nldev_new(&reading.nl);
	if (r >= 0) {
		failed = "list the RDMA devices";
		r = nldev_list_devices(reading.nl, add_device, &reading);
	}
	for (size_t i = 0; i < 2 * reading.n_devices && r >= 0; i++) {
		failed = i % 2 ? "list the QPs" : "list the connection manager's ids";
		r = read_device(&reading, &ret->devices[i / 2], i % 2 == 1);
	}
	for (size_t i = 0; i < reading.n_held && r >= 0; i++)
		if (!find_holder(ret, reading.held[i].pid, "")->is_daemon)
			add_rows(&reading, &reading.held[i]);
	nldev_free(reading.nl);
	free(reading.held);
	errno = -r;
	return r < 0 ? failed : NULL;
}

void holding_done(struct holding *holding)
{
	free(holding->refusals.list);
	free(holding->devices);
	for (size_t i = 0; i < holding->n_holders; i++)
		free((char *)holding->holders[i].who.unit);
	free(holding->holders);
}
