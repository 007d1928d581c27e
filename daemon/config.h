/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * rdmabrokerd.conf: the daemon's settings, an INI file (proto/inifile.h). After the file, the .conf files of
 * rdmabrokerd.conf.d are read in lexical order. Later values override earlier ones.
 */

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/un.h>

struct diag;
struct owners;

enum config_device_access {
	/* a client's user gets an entry in the ACL of a device node */
	CONFIG_DEVICE_ACCESS_ACL,
	CONFIG_DEVICE_ACCESS_OPEN, /* all users can open the device nodes */
};

enum config_on_reload {
	CONFIG_ON_RELOAD_KEEP, /* sessions, listeners and connections are kept */
	/* sessions, listeners and connections that are no longer allowed are ended */
	CONFIG_ON_RELOAD_ENFORCE,
};

#define CONFIG_SOCKET_SIZE sizeof(((struct sockaddr_un *)NULL)->sun_path)

struct config {
	char socket_path[CONFIG_SOCKET_SIZE]; /* [Daemon] Socket= */
	char admin_socket_path[CONFIG_SOCKET_SIZE]; /* [Daemon] AdminSocket= */
	/* the socket of the initial instance, see instance.h; empty: this is the initial one */
	char initial_socket[CONFIG_SOCKET_SIZE];
	char policy_dir[PATH_MAX]; /* [Daemon] PolicyDir= */
	char site_policy_dir[PATH_MAX]; /* [Daemon] SitePolicyDir= */
	bool site_admin_rules; /* [Daemon] SiteAdminRules= yes|no */
	/* [Daemon] RestrictedDirectory= : for the sockets of restricted sessions */
	char restricted_dir[CONFIG_SOCKET_SIZE];
	int log_level; /* [Daemon] LogLevel= error|warning|notice|info|debug, as LOG_* of syslog.h */
	enum config_on_reload on_reload; /* [Daemon] OnReload= keep|enforce */

	enum config_device_access device_access; /* [Devices] Access= acl|open */

	char subuid_path[PATH_MAX]; /* [Limits] SubordinateUids= : a path or none (empty) */
	struct owners *owners; /* the ranges in that file; taken by owners_use() */
	unsigned max_sessions; /* [Limits] Sessions= */
	unsigned max_sessions_per_user; /* [Limits] SessionsPerUser= */
	unsigned max_ids_per_session; /* [Limits] IdsPerSession= */
	unsigned max_ids_per_user; /* [Limits] IdsPerUser= */
	unsigned max_listeners_per_user; /* [Limits] ListenersPerUser= */
	/* [Limits] DescriptorsPerUser= : held open by the daemon for the user's clients */
	unsigned max_fds_per_user;
	unsigned max_queued_bytes_per_user; /* [Limits] QueuedBytesPerUser= */
	/* [Limits] QueuedBytesPerSession= : replies, events and notices for a client that does not read */
	unsigned max_queued_bytes;

	unsigned backlog; /* [Defaults] Backlog= : if neither client nor rule sets a backlog */
	/* [Defaults] TOS= 0..255 or none (-1) : if neither client nor rule sets a TOS */
	int tos;
	/* [Defaults] ResolveTimeoutMSec= : upper limit and default of a client's timeout */
	unsigned resolve_timeout_ms;
	unsigned resume_timeout_s;

	/* [Peers] Helper= : the user of rdmabroker-peerd; (uid_t)-1: there is no such user */
	uid_t helper_uid;
};

void config_init(struct config *config);
void config_done(struct config *config);
/*
 * Sets the defaults, then reads the files. A missing PATH.d is no error, and if OPTIONAL neither is a missing PATH. Returns
 * 0 or a negative errno (-EBADMSG: see DIAG). *RET is written only on success.
 */
int config_load(struct config *ret, const char *path, bool optional, struct diag *diag);
/* Reads further files, which override the values in CONFIG. For the result see config_load(). */
int config_load_over(struct config *config, const char *path, bool optional, struct diag *diag);
