/* SPDX-License-Identifier: BSD-2-Clause */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "newfile.h"
#include "proto/text.h"
#include "sitestate.h"

struct key {
	const char *name;
	size_t offset, size; /* SIZE 0: an int64_t */
};

#define TEXT(member) \
#member, offsetof(struct sitestate, member), sizeof(((struct sitestate *)0)->member)
#define NUMBER(member) #member, offsetof(struct sitestate, member), 0

static const struct key keys[] = {
	{ TEXT(state) },         { TEXT(version) }, { TEXT(sha256) }, { TEXT(wanted) },
	{ TEXT(wanted_sha256) }, { TEXT(code) },    { TEXT(error) },  { NUMBER(since) },
	{ NUMBER(checked) },     { TEXT(host) },
};

#define N_KEYS (sizeof(keys) / sizeof(keys[0]))

static void take_line(struct sitestate *state, const char *line)
{
	size_t n = strcspn(line, " ");

	for (size_t i = 0; i < N_KEYS && line[n]; i++) {
		void *at = (char *)state + keys[i].offset;

		if (strlen(keys[i].name) != n || strncmp(keys[i].name, line, n) != 0)
			continue;
		if (keys[i].size > 0)
			text_copy(at, keys[i].size, line + n + 1);
		else
			*(int64_t *)at = strtoll(line + n + 1, NULL, 10);
	}
}

void sitestate_read(const char *dir, struct sitestate *ret)
{
	char text[NEWFILE_TEXT_MAX], *rest = NULL;

	*ret = (struct sitestate){ 0 };
	newfile_read(dir, SITESTATE_FILE, text);
	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		take_line(ret, line);
}

static void print(const struct sitestate *state, char text[NEWFILE_TEXT_MAX])
{
	size_t len = 0;

	text[0] = 0;
	for (size_t i = 0; i < N_KEYS; i++) {
		const void *at = (const char *)state + keys[i].offset;

		if (keys[i].size == 0)
			len += (size_t)snprintf(text + len, NEWFILE_TEXT_MAX - len,
						"%s %" PRId64 "\n", keys[i].name,
						*(const int64_t *)at);
		else if (*(const char *)at)
			len += (size_t)snprintf(text + len, NEWFILE_TEXT_MAX - len, "%s %s\n",
						keys[i].name, (const char *)at);
	}
}

bool sitestate_is_same(const struct sitestate *a, const struct sitestate *b)
{
	for (size_t i = 0; keys[i].size > 0; i++)
		if (strcmp((const char *)a + keys[i].offset, (const char *)b + keys[i].offset) != 0)
			return false;
	return true;
}

int sitestate_write(const char *dir, const struct sitestate *state)
{
	char text[NEWFILE_TEXT_MAX], old[NEWFILE_TEXT_MAX];

	print(state, text);
	return newfile_read(dir, SITESTATE_FILE, old) && strcmp(text, old) == 0 ?
		       0 :
		       newfile_print(dir, SITESTATE_FILE, "%s", text);
}
