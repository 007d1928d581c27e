/* SPDX-License-Identifier: BSD-2-Clause */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fabric/no_rdma.h"

struct place {
	const char *root;
	char *text;
	size_t size;
};

/* Always returns true. */
static bool say(const struct place *place, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static bool say(const struct place *place, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(place->text, place->size, fmt, ap);
	va_end(ap);
	return true;
}

static bool exists(const struct place *place, const char *path)
{
	char full[PATH_MAX];

	snprintf(full, sizeof(full), "%s%s", place->root, path);
	return access(full, F_OK) == 0;
}

/*
 * True: the node is missing or cannot be opened, and was explained. NAME: the kernel's name of the device,
 * "rdma_cm" or "uverbs0".
 */
static bool explain_node(const struct place *place, const char *name)
{
	char full[PATH_MAX];
	struct stat st;

	snprintf(full, sizeof(full), "%s/dev/infiniband/%s", place->root, name);
	if (stat(full, &st) < 0)
		return say(place,
			   "the device node /dev/infiniband/%s is missing (%s), although the "
			   "kernel has the device: run \"udevadm trigger --settle "
			   "--sysname-match=%s\", and make sure that udev is running",
			   name, strerror(errno), name);
	if (access(full, R_OK | W_OK) == 0)
		return false;
	return say(
		place,
		"the daemon (uid %u) cannot open /dev/infiniband/%s, which has owner %u and mode "
		"%04o (%s): make sure that udev reads 90-rdmabroker.rules, then run \"udevadm "
		"control --reload && udevadm trigger --settle --sysname-match=%s\"",
		geteuid(), name, st.st_uid, st.st_mode & 07777, strerror(errno), name);
}

/*
 * True: the node of a uverbs device in FOLDER (below /sys) is missing or cannot be opened, and was explained.
 * *RET_HAS_ANY: FOLDER has a uverbs device.
 */
static bool explain_nodes(const struct place *place, const char *folder, bool *ret_has_any)
{
	char full[PATH_MAX];
	struct dirent *entry;
	bool is_bad = false;
	DIR *dir;

	*ret_has_any = false;
	snprintf(full, sizeof(full), "%s%s", place->root, folder);
	dir = opendir(full);
	if (!dir)
		return false;
	while (!is_bad && (entry = readdir(dir))) {
		if (strncmp(entry->d_name, "uverbs", 6) != 0)
			continue;
		*ret_has_any = true;
		is_bad = explain_node(place, entry->d_name);
	}
	closedir(dir);
	return is_bad;
}

static bool has_entries(const struct place *place, const char *folder)
{
	char full[PATH_MAX];
	struct dirent *entry;
	bool has = false;
	DIR *dir;

	snprintf(full, sizeof(full), "%s%s", place->root, folder);
	dir = opendir(full);
	if (!dir)
		return false;
	while (!has && (entry = readdir(dir)))
		has = entry->d_name[0] != '.';
	closedir(dir);
	return has;
}

bool no_rdma_explain(const char *root, char *ret, size_t size)
{
	const struct place place = { .root = root, .text = ret, .size = size };
	bool has_any;

	if (!exists(&place, "/sys/class/misc/rdma_cm"))
		return say(&place,
			   "the kernel module rdma_ucm is not loaded: run \"modprobe rdma_ucm\"; "
			   "if there is no such module, install the package that has all modules "
			   "of the running kernel");
	if (explain_node(&place, "rdma_cm"))
		return true;
	if (!has_entries(&place, "/sys/class/infiniband"))
		return say(&place,
			   "this host has no RDMA device: load the driver of the adapter, or, for "
			   "Soft-RoCE on an Ethernet device, run \"rdma link add rxe0 type rxe "
			   "netdev NAME\"");
	if (explain_nodes(&place, "/sys/class/infiniband_verbs", &has_any))
		return true;
	if (!has_any)
		return say(&place,
			   "the kernel module ib_uverbs is not loaded: run \"modprobe ib_uverbs\"");
	return false;
}

bool no_rdma_lacks_port_mapper(const char *root, const char *device)
{
	const struct place place = { .root = root };
	char driver[PATH_MAX];

	snprintf(driver, sizeof(driver), "/sys/class/infiniband/%s/device/driver", device);
	return exists(&place, driver) &&
	       !exists(&place, "/sys/fs/cgroup/system.slice/iwpmd.service");
}
