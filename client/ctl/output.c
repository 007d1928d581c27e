/* SPDX-License-Identifier: BSD-2-Clause */
#include <pwd.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "output.h"
#include "proto/addr.h"
#include "proto/jsonout.h"
#include "proto/word.h"

void complain(const char *fmt, ...)
{
	va_list ap;

	fputs("rdmabrokerctl: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
}

void complain_unknown(const char *what, const char *prefix, const struct word_guess *guess,
		      const char *const *words)
{
	fprintf(stderr, "rdmabrokerctl: unknown %s \"%s%.*s\"", what, prefix, (int)guess->len,
		guess->word);
	if (guess->best)
		fprintf(stderr, ", did you mean \"%s%s\"?", prefix, guess->best);
	for (size_t i = 0; !guess->best && words && words[i]; i++)
		fprintf(stderr, "%s%s", i == 0 ? ": it must be one of " : ", ", words[i]);
	fputc('\n', stderr);
}

static bool wants_colours(void)
{
	const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");

	return !(no_color && *no_color) && !(term && strcmp(term, "dumb") == 0) &&
	       isatty(STDOUT_FILENO);
}

const char *colour(enum colour colour)
{
	static const char *const codes[] = {
		[COLOUR_NONE] = "\033[0m",
		[COLOUR_RED] = "\033[31m",
		[COLOUR_GREEN] = "\033[32m",
		[COLOUR_YELLOW] = "\033[33m",
	};

	return wants_colours() ? codes[colour] : "";
}

unsigned terminal_width(void)
{
	struct winsize size;

	if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0)
		return 0;
	return size.ws_col;
}

void print_screen(char *text)
{
	struct winsize size = { 0 };
	unsigned n = 0, left = 0;

	ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
	fputs("\033[H\033[2J", stdout);
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		/* The last two lines are for the number of lines that were left out, and for the cursor. */
		if (size.ws_row > 2 && ++n > size.ws_row - 2u)
			left++;
		else
			printf("%.*s\n", size.ws_col > 0 ? size.ws_col : (int)strlen(line), line);
	}
	if (left > 0)
		printf("(and %u more)\n", left);
	fflush(stdout);
}

void age_text(char ret[AGE_TEXT_MAX], unsigned long s)
{
	if (s < 60)
		snprintf(ret, AGE_TEXT_MAX, "%lus", s);
	else if (s < 60 * 60)
		snprintf(ret, AGE_TEXT_MAX, "%lum%02lus", s / 60, s % 60);
	else if (s < 24 * 60 * 60)
		snprintf(ret, AGE_TEXT_MAX, "%luh%02lum", s / 3600, s / 60 % 60);
	else
		snprintf(ret, AGE_TEXT_MAX, "%lud%02luh", s / 86400, s / 3600 % 24);
}

/* Remembers the last name, because successive rows mostly have the same user. */
const char *user_name(uint32_t uid)
{
	static struct {
		bool known;
		uint32_t uid;
		char name[256];
	} last;
	const struct passwd *entry;

	if (!last.known || last.uid != uid) {
		entry = getpwuid(uid);
		snprintf(last.name, sizeof(last.name), "%s", entry ? entry->pw_name : "");
		last.uid = uid;
		last.known = true;
	}
	return last.name[0] ? last.name : NULL;
}

void json_addr(struct jsonout *json, const char *key, const struct sockaddr_storage *addr)
{
	char text[ADDR_STRLEN];

	jsonout_string(json, key,
		       addr->ss_family ? addr_to_string((const struct sockaddr *)addr, text) :
					 NULL);
}

/* Cuts an id of 64 digits, which can have "user-UID/" before it, to its first 12. */
static int length_of(const char *container)
{
	const char *slash = strrchr(container, '/'), *id = slash ? slash + 1 : container;
	size_t len = strlen(id), digits = strspn(id, "0123456789abcdef");

	return (int)(id - container + (ptrdiff_t)(len == 64 && digits == len ? 12 : len));
}

void workload_text(char ret[WORKLOAD_TEXT_MAX], const char *unit, const char *container,
		   const char *pod, const char *job)
{
	if (pod || container)
		snprintf(ret, WORKLOAD_TEXT_MAX, "%s%s%s%s%.*s", pod ? "pod:" : "", pod ?: "",
			 pod && container ? "," : "", container ? "container:" : "",
			 container ? length_of(container) : 0, container ?: "");
	else if (job)
		snprintf(ret, WORKLOAD_TEXT_MAX, "job:%s", job);
	else
		snprintf(ret, WORKLOAD_TEXT_MAX, "%s", unit ?: "-");
}

void peer_text(char ret[PEER_TEXT_MAX], const struct rdmabroker_peer_identity *who, const char *why)
{
	const char *name = who ? user_name(who->uid) : NULL;
	char user[272], workload[WORKLOAD_TEXT_MAX];
	bool has_workload;

	if (!who) {
		snprintf(ret, PEER_TEXT_MAX, "%s%s", why ? "unknown: " : "-", why ?: "");
		return;
	}
	if (name)
		snprintf(user, sizeof(user), "%s", name);
	else
		snprintf(user, sizeof(user), "uid %u", who->uid);
	workload_text(workload, who->unit, who->container, who->pod, who->job);
	has_workload = strcmp(workload, "-") != 0;
	snprintf(ret, PEER_TEXT_MAX, "%s%s%s", user, has_workload ? ", " : "",
		 has_workload ? workload : "");
}

void json_peer(struct jsonout *json, const struct rdmabroker_peer_identity *who, const char *why)
{
	if (who) {
		jsonout_open(json, "peer_identity", '{');
		jsonout_number(json, "uid", who->uid);
		jsonout_string(json, "user", user_name(who->uid));
		jsonout_bool(json, "knows_workload", who->knows_workload);
		jsonout_string(json, "unit", who->unit);
		jsonout_string(json, "container", who->container);
		jsonout_string(json, "pod", who->pod);
		jsonout_string(json, "job", who->job);
		jsonout_string(json, "cgroup", who->cgroup);
		jsonout_close(json, '}');
	} else {
		jsonout_null(json, "peer_identity");
	}
	jsonout_string(json, "peer_unknown", why);
}
