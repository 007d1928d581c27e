/* SPDX-License-Identifier: BSD-2-Clause */

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>

#include "config.h"
#include "policy/source.h"
#include "proto/inifile.h"
#include "util/diag.h"
#include "util/owner.h"

struct file {
	struct source *source;
	struct diag *diag;
};

static size_t parse_optional_path(const struct inifile_key *key, const char *value, void *field)
{
	if (strcmp(value, "none") != 0)
		return inifile_path(key, value, field);
	*(char *)field = 0;
	return 0;
}

static size_t parse_tos(const struct inifile_key *key, const char *value, void *field)
{
	if (strcmp(value, "none") != 0)
		return inifile_number(key, value, field);
	*(int *)field = -1;
	return 0;
}

static size_t parse_yes(const struct inifile_key *key, const char *value, void *field)
{
	int n;
	size_t bad = inifile_name(key, value, &n);

	if (!bad)
		*(bool *)field = n == 0;
	return bad;
}

/* A user that does not exist is no error: the package with the user may be installed later. */
static size_t parse_user(const struct inifile_key *key, const char *value, void *field)
{
	const struct passwd *entry;

	if (!*value)
		return 1;
	entry = getpwnam(value);
	*(uid_t *)field = entry ? entry->pw_uid : (uid_t)-1;
	return 0;
}

/* clang-format off */
#define FIELD(name) offsetof(struct config, name)
#define TEXT(name) INIFILE_TEXT(struct config, name)
#define NUMBER(section, name, member, min, max, def) \
	{ section, name, inifile_number, FIELD(member), min, max, def, NULL }
#define RESTRICTED_DIR_MAX (CONFIG_SOCKET_SIZE - 50) /* a name and a file follow, see rpc/published.h */

static const struct inifile_key keys[] = {
	{ "Daemon", "Socket", inifile_path, TEXT(socket_path),
	  "/run/rdmabroker/rdmabroker.sock", "an absolute path of at most 107 bytes" },
	{ "Daemon", "AdminSocket", inifile_path, TEXT(admin_socket_path),
	  "/run/rdmabroker-admin/rdmabroker.sock", "an absolute path of at most 107 bytes" },
	{ "Daemon", "PolicyDir", inifile_path, TEXT(policy_dir),
	  "/etc/rdmabroker/policy.d", "an absolute path" },
	{ "Daemon", "SitePolicyDir", inifile_path, TEXT(site_policy_dir),
	  "/var/lib/rdmabroker/site/current", "an absolute path" },
	{ "Daemon", "SiteAdminRules", parse_yes, FIELD(site_admin_rules), 0, 0, "no", "yes or no" },
	{ "Daemon", "RestrictedDirectory", inifile_path, FIELD(restricted_dir), 1, RESTRICTED_DIR_MAX,
	  "/run/rdmabroker-restricted", "an absolute path of at most 58 bytes" },
	{ "Daemon", "LogLevel", inifile_name, FIELD(log_level), LOG_ERR, 0,
	  "info", "error, warning, notice, info or debug" },
	{ "Daemon", "OnReload", inifile_name, FIELD(on_reload), 0, 0, "keep", "keep or enforce" },
	{ "Devices", "Access", inifile_name, FIELD(device_access), 0, 0, "acl", "acl or open" },
	{ "Limits", "SubordinateUids", parse_optional_path, TEXT(subuid_path),
	  "/etc/subuid", "an absolute path or none" },
	NUMBER("Limits", "Sessions", max_sessions, 1, 1048576, "4096"),
	NUMBER("Limits", "SessionsPerUser", max_sessions_per_user, 1, 1048576, "1024"),
	NUMBER("Limits", "IdsPerSession", max_ids_per_session, 1, 1048576, "16384"),
	NUMBER("Limits", "IdsPerUser", max_ids_per_user, 1, 16777216, "65536"),
	NUMBER("Limits", "ListenersPerUser", max_listeners_per_user, 1, 1048576, "4096"),
	NUMBER("Limits", "DescriptorsPerUser", max_fds_per_user, 4, 1048576, "8192"),
	NUMBER("Limits", "QueuedBytesPerUser", max_queued_bytes_per_user, 65536, 4294967295, "16777216"),
	NUMBER("Limits", "QueuedBytesPerSession", max_queued_bytes, 65536, 1073741824, "1048576"),
	NUMBER("Limits", "ResumeTimeoutSec", resume_timeout_s, 0, 3600, "30"),
	{ "Peers", "Helper", parse_user, FIELD(helper_uid), 0, 0,
	  "rdmabroker-peerd", "the name of a user" },
	NUMBER("Defaults", "Backlog", backlog, 1, 65535, "1024"),
	{ "Defaults", "TOS", parse_tos, FIELD(tos), 0, 255,
	  "none", "a number from 0 to 255 or none" },
	NUMBER("Defaults", "ResolveTimeoutMSec", resolve_timeout_ms, 1, 600000, "10000"),
	{},
};
/* clang-format on */

static void complain(void *userdata, const struct text_line *line, size_t column,
		     const char *message)
{
	const struct file *file = userdata;

	diag_add(file->diag, source_name(file->source), line->number, column, line->text, line->len,
		 "%s", message);
}

/* -ENOENT: the file is missing. Unless OPTIONAL, DIAG gets a complaint. */
static int load_file(struct config *config, const char *path, bool optional, struct diag *diag)
{
	struct file file = { .diag = diag };
	const struct inifile inifile = {
		.keys = keys, .settings = config, .complain = complain, .userdata = &file
	};
	const char *text;
	size_t size;
	int r;

	r = source_new_file(&file.source, path, optional, diag);
	if (r < 0)
		return r;
	text = source_text(file.source, &size);
	r = inifile_parse(&inifile, text, size);
	source_free(file.source);
	return r;
}

static int load_dropins(struct config *config, const char *path, struct diag *diag)
{
	char dir[PATH_MAX], **files = NULL;
	int r, first_error = 0;

	snprintf(dir, sizeof(dir), "%s.d", path);
	r = source_list_new(&files, dir, ".conf", /* optional= */ true, diag);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	for (size_t i = 0; files[i]; i++) {
		r = load_file(config, files[i], /* optional= */ false, diag);
		if (r < 0 && !first_error)
			first_error = r;
		if (r == -ENOMEM)
			break;
	}
	source_list_free(files);
	return first_error;
}

void config_init(struct config *config)
{
	*config = (struct config){};
}

void config_done(struct config *config)
{
	owners_free(config->owners);
	config_init(config);
}

int config_load_over(struct config *config, const char *path, bool optional, struct diag *diag)
{
	int first_error = load_file(config, path, optional, diag), r;

	if (first_error == -ENOENT && optional)
		first_error = 0;
	if (first_error == -ENOMEM)
		return first_error;
	r = load_dropins(config, path, diag);
	return first_error ?: r;
}

int config_load(struct config *ret, const char *path, bool optional, struct diag *diag)
{
	struct config config;
	int r;

	config_init(&config);
	inifile_set_defaults(keys, &config);
	r = config_load_over(&config, path, optional, diag);
	if (r == 0)
		*ret = config;
	return r;
}
