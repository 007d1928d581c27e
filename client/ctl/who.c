/* SPDX-License-Identifier: BSD-2-Clause */
#include <pwd.h>
#include <string.h>

#include "proto/text.h"
#include "who.h"

/* NULL: UID has no entry. Remembers the last name, because successive rows mostly have the same user. */
static const char *user_name(uint32_t uid)
{
	static struct {
		bool known;
		uint32_t uid;
		char name[256];
	} last;
	const struct passwd *entry;

	if (!last.known || last.uid != uid) {
		entry = getpwuid(uid);
		text_copy(last.name, sizeof(last.name), entry ? entry->pw_name : "");
		last.uid = uid;
		last.known = true;
	}
	return last.name[0] ? last.name : NULL;
}

static void print_name(uint32_t uid, const char *prefix, FILE *file)
{
	const char *name = user_name(uid);

	if (name)
		fputs(name, file);
	else
		fprintf(file, "%s%u", prefix, uid);
}

void who_print_user(const void *at, FILE *file)
{
	const struct rdmabroker_who *who = at;

	if (who->charged_uid != who->uid)
		fprintf(file, "%u of ", who->uid);
	print_name(who->charged_uid, "", file);
}

void who_json_user(const void *at, struct jsonout *json, const char *key)
{
	jsonout_string(json, key, user_name(*(const uint32_t *)at));
}

/* Cuts an id of 64 digits, which can have "user-UID/" before it, to its first 12. */
static int length_of(const char *container)
{
	const char *slash = strrchr(container, '/'), *id = slash ? slash + 1 : container;
	size_t len = strlen(id), digits = strspn(id, "0123456789abcdef");

	return (int)(id - container + (ptrdiff_t)(len == 64 && digits == len ? 12 : len));
}

void who_print_workload(const void *at, FILE *file)
{
	const struct rdmabroker_who *who = at;
	const char *pod = who->pod, *container = who->container;

	if (pod || container)
		fprintf(file, "%s%s%s%s%.*s", pod ? "pod:" : "", pod ?: "",
			pod && container ? "," : "", container ? "container:" : "",
			container ? length_of(container) : 0, container ?: "");
	else if (who->job)
		fprintf(file, "job:%s", who->job);
	else
		fprintf(file, "%s", who->unit ?: "");
}

void who_json_gids(const void *at, struct jsonout *json, const char *key)
{
	const struct rdmabroker_who *who = at;

	jsonout_open(json, key, '[');
	for (size_t i = 0; i < who->n_gids; i++)
		jsonout_number(json, NULL, who->gids[i]);
	jsonout_close(json, ']');
}

void who_print_peer(const void *at, FILE *file)
{
	const struct rdmabroker_peer *peer = at;
	const struct rdmabroker_who *who = &peer->who;

	if (!peer->is_known) {
		fprintf(file, "%s%s", peer->why ? "unknown: " : "", peer->why ?: "");
		return;
	}
	print_name(who->uid, "uid ", file);
	if (who->pod || who->container || who->job || who->unit)
		fputs(", ", file);
	who_print_workload(who, file);
}

void who_json_peer(const void *at, struct jsonout *json, const char *key)
{
	static const struct column columns[] = {
		{ NULL, "uid", COLUMN_OF(struct rdmabroker_who, uid) },
		{ NULL, "user", COLUMN_OF(struct rdmabroker_who, uid), .json = who_json_user },
		{ NULL, "knows_workload", COLUMN_OF(struct rdmabroker_who, knows_workload) },
		WORKLOAD_COLUMNS(struct rdmabroker_who, ),
		{ NULL },
	};
	const struct rdmabroker_peer *peer = at;

	json_row(json, key, columns, peer->is_known ? &peer->who : NULL);
	jsonout_string(json, "peer_unknown", peer->why);
}
