/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>

#include "ctl.h"
#include "grow.h"
#include "output.h"
#include "proto/addr.h"
#include "read.h"
#include "suggested.h"

#define ROWS_MAX (1u << 20)
#define ADD(list, n, item) ((list) = grow(list, n, sizeof(*(list))), (list)[(n)++] = (item))

struct peer {
	struct sockaddr_storage addr;
	unsigned bits;
};

struct peer_set {
	char *name;
	struct peer *peers;
	size_t n;
};

struct reading {
	struct suggested *to;
	const struct suggestion_options *options;
	const char *path;
	unsigned line; /* the first one of the rule */
	char *at; /* what of the rule is not read yet */
	char *word; /* the last one */
	bool is_quoted;
	const char *names; /* of the programs, as the comment before the rule has it; NULL: none */
	struct peer_set *sets;
	size_t n_sets;
};

/* What a rule says. */
struct said {
	const char *operation, *unit, *device;
	uint32_t *uids;
	struct peer *peers;
	uint16_t pkey; /* 0: none */
	uint16_t *ports; /* 0: any that the kernel chooses */
	size_t n_uids, n_peers, n_ports;
};

__attribute__((noreturn)) static void refuse(const struct reading *reading)
{
	die(EXIT_FAILURE,
	    "%s:%u: cannot read \"%s\": --also reads what \"suggest\" has printed, without "
	    "--prefer-groups",
	    reading->path, reading->line, reading->word);
}

/* Texts live as long as the rows. */
static char *keep(struct reading *reading, const char *text)
{
	char *copy = allocated(strdup(text));

	ADD(reading->to->texts, reading->to->n_texts, copy);
	return copy;
}

/* Words */

static void read_quoted(struct reading *reading)
{
	char *to = reading->word = ++reading->at;

	for (; *reading->at && *reading->at != '"'; reading->at++) {
		if (*reading->at == '\\' && reading->at[1])
			reading->at++;
		*to++ = *reading->at;
	}
	if (*reading->at)
		reading->at++;
	*to = 0;
	reading->is_quoted = true;
}

/* False: the rule has ended. A word of punctuation is one character. */
static bool next_word(struct reading *reading)
{
	static char punctuation[2];
	size_t n;

	reading->at += strspn(reading->at, " \t");
	reading->is_quoted = false;
	if (!*reading->at) {
		reading->word = reading->at;
		return false;
	}
	if (*reading->at == '"') {
		read_quoted(reading);
		return true;
	}
	n = strcspn(reading->at, " \t,={}");
	if (n == 0) {
		punctuation[0] = *reading->at++;
		reading->word = punctuation;
		return true;
	}
	reading->word = keep(reading, reading->at);
	reading->word[n] = 0;
	reading->at += n;
	return true;
}

static bool is_word(const struct reading *reading, const char *word)
{
	return !reading->is_quoted && strcmp(reading->word, word) == 0;
}

static void need_word(struct reading *reading)
{
	if (!next_word(reading))
		refuse(reading);
}

/* True: another item of a list follows. */
static bool goes_on(struct reading *reading)
{
	reading->at += strspn(reading->at, " \t");
	if (*reading->at != ',')
		return false;
	reading->at++;
	return true;
}

/* A pattern without wildcards, in which a backslash precedes what is none. */
static const char *read_pattern(struct reading *reading)
{
	char *text, *to;

	need_word(reading);
	text = to = keep(reading, reading->word);
	for (const char *from = text; *from; from++) {
		if (strchr("*?[", *from))
			refuse(reading);
		if (*from == '\\' && from[1])
			from++;
		*to++ = *from;
	}
	*to = 0;
	return text;
}

static uint32_t read_uid(struct reading *reading)
{
	const struct passwd *entry;
	unsigned long uid;

	need_word(reading);
	if (!reading->is_quoted && read_number(reading->word, UINT32_MAX - 1, &uid))
		return (uint32_t)uid;
	entry = getpwnam(reading->word);
	if (!entry)
		die(EXIT_FAILURE, "%s:%u: there is no user \"%s\"", reading->path, reading->line,
		    reading->word);
	return entry->pw_uid;
}

static struct peer read_peer(struct reading *reading)
{
	char *slash = strrchr(reading->word, '/');
	struct peer peer;
	unsigned long bits;

	if (!slash)
		refuse(reading);
	*slash = 0;
	if (!addr_parse(&peer.addr, reading->word, 0) ||
	    !read_number(slash + 1, addr_bits((const struct sockaddr *)&peer.addr), &bits)) {
		*slash = '/';
		refuse(reading);
	}
	peer.bits = (unsigned)bits;
	return peer;
}

static void read_peers(struct reading *reading, struct said *ret)
{
	need_word(reading);
	if (*reading->word != '@') {
		ADD(ret->peers, ret->n_peers, read_peer(reading));
		return;
	}
	for (size_t i = 0; i < reading->n_sets; i++) {
		const struct peer_set *set = &reading->sets[i];

		if (strcmp(set->name, reading->word + 1) != 0)
			continue;
		for (size_t k = 0; k < set->n; k++)
			ADD(ret->peers, ret->n_peers, set->peers[k]);
		return;
	}
	refuse(reading);
}

static void read_ports(struct reading *reading, struct said *ret)
{
	do {
		unsigned long from, to;
		char *hyphen;

		need_word(reading);
		hyphen = strchr(reading->word, '-');
		if (hyphen)
			*hyphen = 0;
		if (!read_number(reading->word, UINT16_MAX, &from) || from == 0 ||
		    !read_number(hyphen ? hyphen + 1 : reading->word, UINT16_MAX, &to) || to < from)
			refuse(reading);
		if (from == reading->options->first_port && to == reading->options->last_port)
			from = to = 0;
		for (; from <= to; from++)
			ADD(ret->ports, ret->n_ports, (uint16_t)from);
	} while (goes_on(reading));
}

/* Rows */

static void add_row(struct reading *reading, const struct said *said, uint32_t uid,
		    const struct peer *peer, const uint16_t *port)
{
	struct rdmabroker_refusal row = {
		.operation = said->operation,
		.outcome = suggested_outcome,
		.who = { .uid = uid, .unit = said->unit },
		.device = said->device,
		.name = reading->names,
		.any_port = port && *port == 0,
		.port = port ? *port : 0,
		.pkey = said->pkey,
	};

	if (peer) {
		row.peer = peer->addr;
		row.peer_prefix = peer->bits;
	}
	ADD(reading->to->rows, reading->to->n, row);
}

/* A rule allows each of its users each of its peers and ports. */
static void add_rows(struct reading *reading, const struct said *said)
{
	size_t n_peers = said->n_peers ?: 1, n_ports = said->n_ports ?: 1;

	if (said->n_uids > (ROWS_MAX - reading->to->n) / n_peers / n_ports)
		die(EXIT_FAILURE, "%s:%u: the rules are too many", reading->path, reading->line);
	for (size_t u = 0; u < said->n_uids; u++)
		for (size_t i = 0; i < n_peers; i++)
			for (size_t k = 0; k < n_ports; k++)
				add_row(reading, said, said->uids[u],
					said->n_peers ? &said->peers[i] : NULL,
					said->n_ports ? &said->ports[k] : NULL);
}

static void read_allow(struct reading *reading)
{
	struct said said = { NULL };

	need_word(reading);
	said.operation = reading->word;
	while (next_word(reading)) {
		if (is_word(reading, "user")) {
			do
				ADD(said.uids, said.n_uids, read_uid(reading));
			while (goes_on(reading));
		} else if (is_word(reading, "unit")) {
			said.unit = read_pattern(reading);
		} else if (is_word(reading, "device")) {
			said.device = read_pattern(reading);
		} else if (is_word(reading, "peer")) {
			read_peers(reading, &said);
		} else if (is_word(reading, "pkey")) {
			need_word(reading);
			read_pkey(reading->word, &said.pkey);
		} else if (is_word(reading, "port")) {
			read_ports(reading, &said);
		} else {
			refuse(reading);
		}
	}
	if (said.n_uids == 0)
		refuse(reading);
	add_rows(reading, &said);
	free(said.uids);
	free(said.peers);
	free(said.ports);
}

/* "set NAME = { PREFIX, PREFIX }" */
static void read_set(struct reading *reading)
{
	struct peer_set set = { NULL };

	need_word(reading);
	set.name = reading->word;
	need_word(reading);
	if (!is_word(reading, "="))
		refuse(reading);
	need_word(reading);
	if (!is_word(reading, "{"))
		refuse(reading);
	do {
		need_word(reading);
		ADD(set.peers, set.n, read_peer(reading));
	} while (goes_on(reading));
	need_word(reading);
	if (!is_word(reading, "}"))
		refuse(reading);
	ADD(reading->sets, reading->n_sets, set);
}

static void read_rule(struct reading *reading, char *text)
{
	const char *names = strstr(text, ", by ");

	reading->at = text;
	reading->at += strspn(reading->at, " \t");
	if (*reading->at == '#') {
		if (names)
			reading->names = keep(reading, names + strlen(", by "));
		return;
	}
	if (!next_word(reading)) {
		reading->names = NULL;
		return;
	}
	if (is_word(reading, "set"))
		read_set(reading);
	else if (is_word(reading, "allow"))
		read_allow(reading);
	else
		refuse(reading);
}

/* Joins lines that a backslash continues, as the daemon does. */
static void read_lines(struct reading *reading, FILE *file)
{
	char *line = NULL, *text = NULL;
	size_t size, n = 0, n_text = 0;
	ssize_t len;

	for (unsigned number = 1; (len = getline(&line, &size, file)) >= 0; number++) {
		bool is_continued;

		if (len > 0 && line[len - 1] == '\n')
			line[--len] = 0;
		is_continued = len > 0 && line[len - 1] == '\\' && line[0] != '#';
		if (is_continued)
			line[--len] = 0;
		if (n == 0)
			reading->line = number;
		text = allocated(realloc(text, n_text + (size_t)len + 1));
		memcpy(text + n_text, line, (size_t)len + 1);
		n_text += (size_t)len;
		n++;
		if (is_continued)
			continue;
		read_rule(reading, text);
		n = n_text = 0;
	}
	if (n > 0)
		read_rule(reading, text);
	free(line);
	free(text);
}

void suggested_read(struct suggested *ret, const char *path,
		    const struct suggestion_options *options)
{
	struct reading reading = { .to = ret, .options = options, .path = path };
	FILE *file = fopen(path, "re");

	*ret = (struct suggested){ NULL };
	if (!file)
		die(EXIT_FAILURE, "cannot open %s: %s", path, strerror(errno));
	read_lines(&reading, file);
	if (ferror(file))
		die(EXIT_FAILURE, "cannot read %s: %s", path, strerror(errno));
	fclose(file);
	for (size_t i = 0; i < reading.n_sets; i++)
		free(reading.sets[i].peers);
	free(reading.sets);
}

void suggested_done(struct suggested *suggested)
{
	for (size_t i = 0; i < suggested->n_texts; i++)
		free(suggested->texts[i]);
	free(suggested->texts);
	free(suggested->rows);
}
