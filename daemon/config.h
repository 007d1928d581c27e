/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * rdmabrokerd.conf: the daemon's own settings, an INI file that libinih parses. Each key is a row of a table
 * in config.c. The file is read first, then the .conf files of rdmabrokerd.conf.d in lexical order. Later
 * values override earlier ones.
 */

#include <stdbool.h>
#include <stddef.h>

struct diag;

enum config_device_access {
	/* clients can open a device node as long as the node's ACL has an entry for their user */
	CONFIG_DEVICE_ACCESS_ACL,
	CONFIG_DEVICE_ACCESS_OPEN, /* all users can open the device nodes without that entry */
};

enum config_on_reload {
	CONFIG_ON_RELOAD_KEEP, /* existing sessions, listeners and connections are kept */
	/* sessions, listeners and connections that the new policy does not allow are ended */
	CONFIG_ON_RELOAD_ENFORCE,
};

struct config {
	char *socket_path; /* [Daemon] Socket= */
	char *policy_dir; /* [Daemon] PolicyDir= */
	int log_level; /* [Daemon] LogLevel= error|warning|notice|info|debug, as LOG_* of syslog.h */
	enum config_on_reload on_reload; /* [Daemon] OnReload= keep|enforce */

	enum config_device_access device_access; /* [Devices] Access= acl|open */

	unsigned max_sessions; /* [Limits] Sessions= */
	unsigned max_sessions_per_user; /* [Limits] SessionsPerUser= */
	unsigned max_ids_per_session; /* [Limits] IdsPerSession= */
	unsigned max_ids_per_user; /* [Limits] IdsPerUser= */
	unsigned max_listeners_per_user; /* [Limits] ListenersPerUser= */
	/* [Limits] DescriptorsPerUser= : descriptors that the daemon holds open for the user's clients */
	unsigned max_fds_per_user;
	unsigned max_queued_bytes_per_user; /* [Limits] QueuedBytesPerUser= */
	/* [Limits] QueuedBytesPerSession= : replies, events and notices that wait because the client does not read */
	unsigned max_queued_bytes;

	unsigned backlog; /* [Defaults] Backlog= : used if neither client nor rule sets a backlog */
	/* [Defaults] TOS= 0..255 or none (-1) : used if neither client nor rule sets a TOS */
	int tos;
	/* [Defaults] ResolveTimeoutMSec= : upper limit and default of a client's timeout for each resolution */
	unsigned resolve_timeout_ms;

	/* "file:line:column: ..." of the first key that an earlier version had and that has no effect; NULL: none */
	char *warning;
};

/* Sets CONFIG to zero. From then on config_done() can be called on it. */
void config_init(struct config *config);
void config_done(struct config *config);
/*
 * Sets the defaults, then reads the files. A missing PATH or PATH.d is no error. Returns 0 or a negative
 * errno (-EBADMSG: see DIAG); *ret is written only on success.
 */
int config_load(struct config *ret, const char *path, struct diag *diag);
/*
 * As config_load(), but if PATH is missing, returns -ENOENT and reports that in DIAG, because this file was
 * requested by name.
 */
int config_load_named(struct config *ret, const char *path, struct diag *diag);
