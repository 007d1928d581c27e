/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "settings.h"
#include "version.h"

#define SEPARATORS " \t,"
#define HOST_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-+"

static size_t parse_endpoints(const struct inifile_key *key, const char *value, void *field)
{
	struct settings *settings = field;
	char word[INIFILE_WORD_SIZE];
	size_t from, at = 0;

	settings->n_endpoints = 0;
	while ((from = inifile_word(value, SEPARATORS, &at, word)) > 0) {
		if (settings->n_endpoints == ETCD_ENDPOINTS_MAX ||
		    strlen(word) >= SETTINGS_PATH_MAX)
			return from;
		strcpy(settings->endpoints[settings->n_endpoints++], word);
	}
	return 0;
}

static size_t parse_labels(const struct inifile_key *key, const char *value, void *field)
{
	struct settings *settings = field;
	char word[INIFILE_WORD_SIZE];
	size_t from, at = 0;

	settings->n_labels = 0;
	while ((from = inifile_word(value, SEPARATORS, &at, word)) > 0) {
		if (settings->n_labels == SETTINGS_LABELS_MAX || !site_is_name(word))
			return from;
		strcpy(settings->labels[settings->n_labels++], word);
	}
	return 0;
}

static size_t parse_prefix(const struct inifile_key *key, const char *value, void *field)
{
	size_t n = strlen(value);

	for (const char *p = value; *p; p++)
		if (*p <= ' ' || *p > '~')
			return p - value + 1;
	if (n == 0 || value[0] != '/' || n >= key->max)
		return 1;
	sprintf(field, "%s%s", value, value[n - 1] == '/' ? "" : "/");
	return 0;
}

static size_t parse_host(const struct inifile_key *key, const char *value, void *field)
{
	size_t n = strspn(value, HOST_CHARACTERS);

	return value[n] ? n + 1 : inifile_text(key, value, field);
}

/* clang-format off */
#define TEXT(member) INIFILE_TEXT(struct settings, member)
#define FILE_OF(name, member) \
	{ "Fleet", name, inifile_path, TEXT(member), NULL, "an absolute path of at most 255 bytes" }
#define SECONDS(name, member, max, def) \
	{ "Fleet", name, inifile_number, offsetof(struct settings, member), 5, max, def, NULL }

static const struct inifile_key keys[] = {
	{ "Fleet", "Endpoints", parse_endpoints, 0, 0, 0, NULL,
	  "at most 16 endpoints of at most 255 bytes, each http://HOST:PORT or https://HOST:PORT" },
	{ "Fleet", "Prefix", parse_prefix, TEXT(prefix), "/rdmabroker/",
	  "at most 254 characters of ASCII without blanks, the first of which is '/'" },
	{ "Fleet", "Host", parse_host, TEXT(host), NULL,
	  "1 to 255 letters, digits, '.', '_', '-' and '+'" },
	{ "Fleet", "Labels", parse_labels, 0, 0, 0, NULL,
	  "at most 16 labels of at most 64 letters, digits, '.', '_', '-' and '+'" },
	FILE_OF("CA", ca),
	FILE_OF("Certificate", certificate),
	FILE_OF("Key", key),
	{ "Fleet", "User", inifile_text, TEXT(user), NULL, "a name of 1 to 255 bytes" },
	FILE_OF("PasswordFile", password_file),
	/* The broker is asked each third of TTLSec=. */
	SECONDS("TTLSec", ttl_sec, 3600, "30"),
	SECONDS("ReportSec", report_sec, 24 * 3600, "300"),
	{},
};
/* clang-format on */

/* The first line of the file is the password. NULL, or why it cannot be read. */
static const char *read_first_line(const char *path, char *ret, size_t size)
{
	FILE *file = fopen(path, "re");
	const char *why = NULL;

	*ret = 0;
	errno = 0;
	if (!file)
		return "it cannot be opened";
	if (!fgets(ret, (int)size, file) && errno)
		why = strerror(errno);
	fclose(file);
	ret[strcspn(ret, "\n")] = 0;
	return why || *ret ? why : "its first line is empty";
}

static bool read_password(struct settings *settings)
{
	const char *why = read_first_line(settings->password_file, settings->password,
					  sizeof(settings->password));

	if (why)
		log_line(LOG_ERR, "Cannot read a password from %s: %s", settings->password_file,
			 why);
	return !why;
}

/* Somebody has changed the password in etcd, and then in the file. */
static bool read_password_again(const void *arg, char *ret, size_t size)
{
	const struct settings *settings = arg;

	return !read_first_line(settings->password_file, ret, size);
}

int settings_read(struct settings *settings, const char *path)
{
	const char *host = settings->host;
	int r;

	gethostname(settings->host, sizeof(settings->host) - 1);
	r = conffile_read(path, /* must_exist= */ true, keys, settings);
	if (r < 0)
		return r;
	if (settings->n_endpoints == 0)
		log_line(LOG_ERR, "%s: Endpoints= has to be set", path);
	else if (!*settings->certificate != !*settings->key)
		log_line(LOG_ERR, "%s: Certificate= and Key= belong together", path);
	else if (!*settings->user != !*settings->password_file)
		log_line(LOG_ERR, "%s: User= and PasswordFile= belong together", path);
	else if (!*host || host[strspn(host, HOST_CHARACTERS)])
		log_line(LOG_ERR, "%s: etcd cannot have the host name \"%s\": set Host=", path,
			 host);
	else if (!*settings->user || read_password(settings))
		return 0;
	return -EBADMSG;
}

int settings_new_etcd(const struct settings *settings, unsigned call_ms, size_t answer_max,
		      struct etcd **ret)
{
	const char *endpoints[ETCD_ENDPOINTS_MAX];
	const struct etcd_options options = {
		.endpoints = endpoints,
		.n_endpoints = settings->n_endpoints,
		.ca = *settings->ca ? settings->ca : NULL,
		.certificate = *settings->certificate ? settings->certificate : NULL,
		.key = *settings->key ? settings->key : NULL,
		.user = *settings->user ? settings->user : NULL,
		.password = *settings->password ? settings->password : NULL,
		.read_password = *settings->password_file ? read_password_again : NULL,
		.password_arg = settings,
		.call_ms = call_ms,
		.answer_max = answer_max,
	};

	for (size_t i = 0; i < settings->n_endpoints; i++)
		endpoints[i] = settings->endpoints[i];
	return etcd_new(ret, &options);
}
