/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/inifile.h"
#include "common/log.h"
#include "settings.h"
#include "version.h"

#define PREFIX "/rdmabroker/"
#define TTL_SEC 30
#define TTL_MIN 5 /* each third of it, the broker is asked */
#define TTL_MAX 3600
#define REPORT_SEC 300
#define REPORT_MAX_SEC (24 * 3600)

struct reading {
	struct settings *settings;
	const char *path;
	char password_file[SETTINGS_PATH_MAX];
};

/* Each function sets one key, and returns false after reporting an error. */

static bool set_endpoints(struct reading *reading, const char *where, const char *value)
{
	struct settings *settings = reading->settings;
	char text[2048], *rest = text, *word;

	settings->n_endpoints = 0;
	snprintf(text, sizeof(text), "%s", value);
	while ((word = strsep(&rest, " \t,"))) {
		if (!*word)
			continue;
		if (settings->n_endpoints == ETCD_ENDPOINTS_MAX ||
		    strlen(word) >= SETTINGS_PATH_MAX) {
			log_line(LOG_ERR,
				 "%s: at most %d endpoints of at most %d bytes are allowed", where,
				 ETCD_ENDPOINTS_MAX, SETTINGS_PATH_MAX - 1);
			return false;
		}
		strcpy(settings->endpoints[settings->n_endpoints++], word);
	}
	return true;
}

static bool set_prefix(struct reading *reading, const char *where, const char *value)
{
	size_t n = strlen(value);
	bool has_slash = n > 0 && value[n - 1] == '/';

	for (const char *p = value; *p; p++)
		if (*p <= ' ' || *p > '~')
			n = 0;
	if (n == 0 || value[0] != '/' || n + 2 > sizeof(reading->settings->prefix)) {
		log_line(
			LOG_ERR,
			"%s: invalid prefix \"%s\": it must begin with '/', and have ASCII without "
			"blanks",
			where, value);
		return false;
	}
	sprintf(reading->settings->prefix, "%s%s", value, has_slash ? "" : "/");
	return true;
}

static bool is_host(const char *text)
{
	for (const char *p = text; *p; p++)
		if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-+",
			    *p))
			return false;
	return *text && strlen(text) < SETTINGS_PATH_MAX;
}

static bool set_host(struct reading *reading, const char *where, const char *value)
{
	if (!is_host(value)) {
		log_line(LOG_ERR,
			 "%s: invalid name of this host \"%s\": it must have letters, digits, '.', "
			 "'_', '-' and '+'; set another one with Host=",
			 where, value);
		return false;
	}
	strcpy(reading->settings->host, value);
	return true;
}

static bool set_labels(struct reading *reading, const char *where, const char *value)
{
	struct settings *settings = reading->settings;
	char text[2048], *rest = text, *word;

	settings->n_labels = 0;
	snprintf(text, sizeof(text), "%s", value);
	while ((word = strsep(&rest, " \t,"))) {
		if (!*word)
			continue;
		if (settings->n_labels == SETTINGS_LABELS_MAX || !site_is_name(word)) {
			log_line(
				LOG_ERR,
				"%s: invalid label \"%s\": at most %d labels of at most %d letters, "
				"digits, '.', '_', '-' and '+' are allowed",
				where, word, SETTINGS_LABELS_MAX, SETTINGS_NAME_MAX);
			return false;
		}
		strcpy(settings->labels[settings->n_labels++], word);
	}
	return true;
}

static bool set_path(char ret[SETTINGS_PATH_MAX], const char *where, const char *value)
{
	if (value[0] != '/' || strlen(value) >= SETTINGS_PATH_MAX) {
		log_line(LOG_ERR, "%s: it must be an absolute path of at most %d bytes", where,
			 SETTINGS_PATH_MAX - 1);
		return false;
	}
	strcpy(ret, value);
	return true;
}

static bool set_ca(struct reading *reading, const char *where, const char *value)
{
	return set_path(reading->settings->ca, where, value);
}

static bool set_certificate(struct reading *reading, const char *where, const char *value)
{
	return set_path(reading->settings->certificate, where, value);
}

static bool set_key(struct reading *reading, const char *where, const char *value)
{
	return set_path(reading->settings->key, where, value);
}

static bool set_password_file(struct reading *reading, const char *where, const char *value)
{
	return set_path(reading->password_file, where, value);
}

static bool set_user(struct reading *reading, const char *where, const char *value)
{
	if (!*value || strlen(value) >= SETTINGS_PATH_MAX) {
		log_line(LOG_ERR, "%s: the user must have 1 to %d bytes", where,
			 SETTINGS_PATH_MAX - 1);
		return false;
	}
	strcpy(reading->settings->user, value);
	return true;
}

static bool set_seconds(unsigned *ret, const char *where, const char *value, const char *key,
			unsigned min, unsigned max)
{
	unsigned long n = 0;
	char *end = NULL;

	if (*value >= '0' && *value <= '9')
		n = strtoul(value, &end, 10);
	if (!end || *end || n < min || n > max) {
		log_line(LOG_ERR, "%s: %s= must be a number of seconds from %u to %u", where, key,
			 min, max);
		return false;
	}
	*ret = (unsigned)n;
	return true;
}

static bool set_ttl(struct reading *reading, const char *where, const char *value)
{
	return set_seconds(&reading->settings->ttl_sec, where, value, "TTLSec", TTL_MIN, TTL_MAX);
}

static bool set_report(struct reading *reading, const char *where, const char *value)
{
	return set_seconds(&reading->settings->report_sec, where, value, "ReportSec", TTL_MIN,
			   REPORT_MAX_SEC);
}

static const struct {
	const char *name;
	bool (*set)(struct reading *reading, const char *where, const char *value);
} keys[] = {
	{ "Endpoints", set_endpoints },
	{ "Prefix", set_prefix },
	{ "Host", set_host },
	{ "Labels", set_labels },
	{ "CA", set_ca },
	{ "Certificate", set_certificate },
	{ "Key", set_key },
	{ "User", set_user },
	{ "PasswordFile", set_password_file },
	{ "TTLSec", set_ttl },
	{ "ReportSec", set_report },
};

static bool set(void *userdata, const char *where, const char *name, const char *value)
{
	struct reading *reading = userdata;

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (strcmp(name, keys[i].name) == 0)
			return keys[i].set(reading, where, value);
	log_line(LOG_ERR, "%s: unknown key \"%s\"", where, name);
	return false;
}

/* The first line of the file is the password. */
static bool read_password(struct settings *settings, const char *path)
{
	FILE *file = fopen(path, "re");
	bool good;

	errno = 0;
	good = file && fgets(settings->password, sizeof(settings->password), file);
	if (good)
		settings->password[strcspn(settings->password, "\n")] = 0;
	if (!good || !*settings->password) {
		log_line(LOG_ERR, "Cannot read a password from %s: %s", path,
			 !file ? "it cannot be opened" :
			 errno ? strerror(errno) :
				 "its first line is empty");
		good = false;
	}
	if (file)
		fclose(file);
	return good;
}

/* Checks what belongs together, when all keys are read. */
static bool complete(struct reading *reading)
{
	struct settings *settings = reading->settings;
	char name[SETTINGS_PATH_MAX] = "";

	if (settings->n_endpoints == 0) {
		log_line(LOG_ERR, "%s: Endpoints= has to be set", reading->path);
		return false;
	}
	if (!*settings->host) {
		gethostname(name, sizeof(name) - 1);
		if (!set_host(reading, reading->path, name))
			return false;
	}
	if (!*settings->certificate != !*settings->key) {
		log_line(LOG_ERR, "%s: Certificate= and Key= belong together", reading->path);
		return false;
	}
	if (!*settings->user != !*reading->password_file) {
		log_line(LOG_ERR, "%s: User= and PasswordFile= belong together", reading->path);
		return false;
	}
	return !*settings->user || read_password(settings, reading->password_file);
}

int settings_read(struct settings *settings, const char *path)
{
	struct reading reading = { .settings = settings, .path = path };
	int r;

	settings->n_endpoints = settings->n_labels = 0;
	strcpy(settings->prefix, PREFIX);
	settings->ttl_sec = TTL_SEC;
	settings->report_sec = REPORT_SEC;
	r = inifile_read(path, /* must_exist= */ true, "Fleet", set, &reading);
	if (r < 0)
		return r;
	return complete(&reading) ? 0 : -EBADMSG;
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
		.call_ms = call_ms,
		.answer_max = answer_max,
	};

	for (size_t i = 0; i < settings->n_endpoints; i++)
		endpoints[i] = settings->endpoints[i];
	return etcd_new(ret, &options);
}
