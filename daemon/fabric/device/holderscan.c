/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <rdma/rdma_netlink.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/device/holders.h"
#include "fabric/device/device.h"
#include "fabric/internal.h"
#include "proto/addr.h"
#include "proto/cmdump.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/util.h"

/*
 * A program that opened rdma_cm while everybody could open it, and the kernel's own modules, make connections that no
 * rule decides. The
 * kernel reports which processes hold ids on a device, in one netlink dump for each device. A device can have
 * some 100,000 ids, so a dump is read one datagram (some 90 ids) at a time:
 *
 *   idle ── a device is to be scanned ──> reading ── end, or failure ──> the next device, or idle
 *                                           |   ^
 *                                           └───┘ a datagram, in a turn of the loop
 *
 * For each datagram the kernel counts all earlier ids, which takes 1 ms at the 25,000th id.
 */

#define READ_AT_ONCE \
	32 /* most datagrams that fabric_scan_holders() reads before it returns; later turns read the rest */
#define REST_MS 1000 /* shortest pause between two scans by fabric_scan_holders() */
#define REST_FACTOR 9 /* or this many times the duration of the scan, if that is longer */

struct holderscan {
	struct fabric *fabric;
	struct nldev *nldev; /* NULL: none yet, or closed in the middle of a dump */
	sd_event_source *io;
	struct fabric_device *device; /* being scanned, with a reference; NULL: idle */
	struct holders *found;
	unsigned n_datagrams; /* read of this dump so far */
	/* REST_UNTIL_MS: until then fabric_scan_holders() begins no scan */
	uint64_t begun_ms, rest_until_ms;
	struct ratelimit failures;
	_Alignas(struct nlmsghdr) char buf[NLDEV_DATAGRAM_MAX];
};

static bool read_one(struct holderscan *holderscan);

static int on_io(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	read_one(userdata);
	return 0;
}

static void drop_netlink(struct holderscan *holderscan)
{
	holderscan->io = sd_event_source_disable_unref(holderscan->io);
	holderscan->nldev = nldev_free(holderscan->nldev);
}

static int open_netlink(struct holderscan *holderscan)
{
	int r;

	if (holderscan->nldev)
		return 0;
	r = nldev_new(&holderscan->nldev);
	if (r < 0)
		return r;
	r = sd_event_add_io(holderscan->fabric->loop, &holderscan->io,
			    nldev_get_fd(holderscan->nldev), EPOLLIN, on_io, holderscan);
	/* Clients are more urgent. */
	if (r >= 0)
		r = sd_event_source_set_priority(holderscan->io, SD_EVENT_PRIORITY_IDLE);
	if (r < 0)
		drop_netlink(holderscan);
	return r < 0 ? r : 0;
}

static struct holderscan *get_holderscan(struct fabric *fabric)
{
	if (!fabric->holderscan) {
		fabric->holderscan = calloc(1, sizeof(*fabric->holderscan));
		if (fabric->holderscan)
			fabric->holderscan->fabric = fabric;
	}
	return fabric->holderscan;
}

struct holderscan *holderscan_free(struct holderscan *holderscan)
{
	if (!holderscan)
		return NULL;
	drop_netlink(holderscan);
	holders_free(holderscan->found);
	fabric_device_unref(holderscan->device);
	free(holderscan);
	return NULL;
}

static void tell_holder(const struct fabric_device *device, const struct fabric_holder *holder)
{
	const char *name = holder->name[0] ? holder->name : "?";
	bool has_peer = holder->peer.ss_family != AF_UNSPEC;
	char uid[16], who[128], local[ADDR_STRLEN], peer[ADDR_STRLEN];

	snprintf(uid, sizeof(uid), "%u", holder->uid);
	if (holder->pid == 0)
		snprintf(who, sizeof(who), "The kernel's module %s", name);
	else
		snprintf(who, sizeof(who), "Process %d (%s, uid %s)", holder->pid, name,
			 holder->uid == (uid_t)-1 ? "?" : uid);
	addr_to_string((const struct sockaddr *)&holder->local, local);
	addr_to_string((const struct sockaddr *)&holder->peer, peer);
	log_warning("%s holds connection manager ids on %s that the broker did not create, so no "
		    "rule applies to them: %u in all, one of them %s %s%s%s.",
		    who, device->name, holder->n_ids, holder->state, local, has_peer ? " to " : "",
		    has_peer ? peer : "");
}

static void tell(const struct fabric_device *device)
{
	const struct fabric_holders *holders = device->holders;

	for (size_t i = 0; i < holders->n_holders; i++)
		tell_holder(device, &holders->holders[i]);
	if (holders->n_more_ids > 0)
		log_warning(
			"Further processes, not listed, hold %u connection manager ids on %s that "
			"the broker did not create.",
			holders->n_more_ids, device->name);
	/* A daemon that was killed leaves such ids. */
	if (holders->n_nameless_ids > 0)
		log_info(
			"%u connection manager ids on %s were created by threads that have ended. The "
			"kernel does not report the processes of such ids.",
			holders->n_nameless_ids, device->name);
}

static int ask(struct holderscan *holderscan, struct fabric_device *device)
{
	struct nldev_device *known = &device->nldev;
	_Alignas(struct nlmsghdr) char buf[256];
	int r;

	r = open_netlink(holderscan);
	if (r < 0)
		return r;
	if (known->n_ports == 0)
		r = nldev_find_device(holderscan->nldev, device->name, known);
	if (r < 0)
		return r;
	r = nldev_send(holderscan->nldev, cmdump_request(buf, known));
	if (r < 0)
		return r;
	r = sd_event_source_set_enabled(holderscan->io, SD_EVENT_ON);
	return r < 0 ? r : 0;
}

static int begin(struct holderscan *holderscan, struct fabric_device *device)
{
	int r;

	r = holders_new(&holderscan->found);
	if (r < 0)
		return r;
	holderscan->n_datagrams = 0;
	holderscan->device = device;
	device->n_refs++;
	return ask(holderscan, device);
}

/* Ends the scan of a device. R: 0, or a negative errno; then the previous result is kept. */
static void end(struct holderscan *holderscan, int r)
{
	struct fabric_device *device = TAKE_PTR(holderscan->device);
	struct fabric_holders *holders = NULL;

	if (r == 0) {
		unsigned n_own = device->fabric->count_restored(device);

		holders = holders_finish(holderscan->found);
		r = holders ? 0 : -ENOMEM;
		if (holders)
			holders->n_nameless_ids -=
				n_own < holders->n_nameless_ids ? n_own : holders->n_nameless_ids;
	}
	holderscan->found = holders_free(holderscan->found);
	if (r < 0)
		drop_netlink(holderscan);
	if (r == 0) {
		free(device->holders);
		device->holders = holders;
		if (device->look_untold && !device->gone)
			tell(device);
		device->look_untold = false;
	} else if (!device->gone) {
		/* The device is gone or was replaced, and udev has not reported that yet. */
		bool stale = r == -EINVAL || r == -ENODEV;

		device->nldev.n_ports = 0;
		log_limited(&holderscan->failures, stale ? LOG_DEBUG : LOG_WARNING,
			    "Cannot find the other holders of connection manager ids on %s: %s.",
			    device->name, strerror(-r));
	}
	fabric_device_unref(device);
}

static struct fabric_device *next_wanted(struct fabric *fabric)
{
	struct fabric_device *device = NULL;

	while ((device = fabric_next_device(fabric, device)))
		if (device->look_wanted)
			break;
	return device;
}

/* Begins the scan of the next device. If there is none, a pause begins. */
static void go_on(struct holderscan *holderscan)
{
	struct fabric_device *device;
	uint64_t now, took;

	while (!holderscan->device && (device = next_wanted(holderscan->fabric))) {
		int r;

		device->look_wanted = false;
		r = begin(holderscan, device);
		if (r < 0 && holderscan->device)
			end(holderscan, r);
	}
	if (holderscan->device)
		return;
	if (holderscan->io)
		sd_event_source_set_enabled(holderscan->io, SD_EVENT_OFF);
	now = clock_ms();
	took = now - holderscan->begun_ms;
	holderscan->rest_until_ms =
		now + (took * REST_FACTOR > REST_MS ? took * REST_FACTOR : REST_MS);
}

/* False: no datagram was read. */
static bool read_one(struct holderscan *holderscan)
{
	int r;

	r = nldev_receive(holderscan->nldev, holderscan->buf, sizeof(holderscan->buf), holders_take,
			  holderscan->found);
	if (r == -EAGAIN || r == -EINTR)
		return false;
	if (r > 0 && ++holderscan->n_datagrams < NLDEV_DATAGRAMS_MAX)
		return true;
	if (r > 0) {
		log_limited(&holderscan->failures, LOG_WARNING,
			    "Cannot find the owners of all connection manager ids on %s: too many.",
			    holderscan->device->name);
		drop_netlink(holderscan);
		r = 0;
	}
	end(holderscan, r);
	go_on(holderscan);
	return true;
}

static void start(struct holderscan *holderscan)
{
	if (holderscan->device)
		return;
	holderscan->begun_ms = clock_ms();
	go_on(holderscan);
}

void fabric_scan_holders_of(struct fabric_device *device)
{
	struct holderscan *holderscan = get_holderscan(device->fabric);

	device->look_wanted = device->look_untold = true;
	if (holderscan)
		start(holderscan);
}

void fabric_scan_holders(struct fabric *fabric)
{
	struct holderscan *holderscan = get_holderscan(fabric);
	struct fabric_device *device = NULL;

	if (!holderscan)
		return;
	if (!holderscan->device && clock_ms() >= holderscan->rest_until_ms) {
		while ((device = fabric_next_device(fabric, device)))
			device->look_wanted = true;
		start(holderscan);
	}
	/* If the result is small, the caller gets it fresh. */
	for (unsigned i = 0; i < READ_AT_ONCE && holderscan->device; i++)
		if (!read_one(holderscan))
			break;
}

const struct fabric_holders *fabric_device_holders(const struct fabric_device *device)
{
	return device->holders;
}
