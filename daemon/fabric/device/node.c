/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fabric/device/device.h"
#include "fabric/internal.h"
#include "proto/nodes.h"
#include "util/log.h"

/*
 * The kernel makes the nodes accessible to everybody, and rdmabroker's udev rule restricts them. The daemon
 * warns if the rule was not applied to a node, by accident or because the admin has opened the nodes.
 */

#define EVERYBODY (S_IROTH | S_IWOTH)

void fabric_check_node(const char *node, enum fabric_access how, bool *told)
{
	const char *name = strrchr(node, '/') ? strrchr(node, '/') + 1 : node;
	struct stat st;

	/* If stat() fails, the node is gone again. */
	if (how == FABRIC_ACCESS_OPEN || stat(node, &st) < 0)
		return;
	if (st.st_uid == geteuid() && !(st.st_mode & EVERYBODY)) {
		*told = false;
		return;
	}
	if (*told)
		return;
	*told = true;
	if (access(NODES_OPEN_FILE, F_OK) == 0) {
		log_warning(
			"%s is open, as %s says: programs can use it without the broker, and no rule "
			"applies to them. \"rdmabrokerctl nodes close\" closes the nodes.",
			node, NODES_OPEN_FILE);
		return;
	}
	log_warning(
		"%s has owner %u and mode %04o, but must have owner %u and no mode bits for others: "
		"%s. Make sure that udev reads 90-rdmabroker.rules and that no later file overrides "
		"it, then run \"udevadm trigger --settle --sysname-match=%s\". A program that has "
		"opened the node keeps it open until the program ends: see rdmabrokerd(8).",
		node, st.st_uid, st.st_mode & 07777, geteuid(),
		st.st_mode & EVERYBODY ? "every user can open it, whatever the policy is" :
					 "its owner can open it and change its mode",
		name);
}
