/* SPDX-License-Identifier: BSD-2-Clause */
#include <inttypes.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "atoms.h"
#include "grow.h"
#include "proto/addr.h"
#include "proto/text.h"
#include "suggestion.h"

/* A rule for each atom, with a comment that says what it is made of. */

#define ITEMS_MAX 1024 /* in a list of the rule language */
#define LINE_WIDTH 100 /* of a long list */
#define PREFIXES_A_LINE 8 /* of a comment */
#define NAME_SIZE 256
/* The uids that systemd makes for DynamicUser=, for as long as the unit runs. */
#define DYNAMIC_FIRST 61184
#define DYNAMIC_LAST 65519
#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"

/* Text */

static void print_day(FILE *file, uint64_t ms)
{
	time_t t = (time_t)(ms / 1000);
	char text[32] = "?";
	struct tm tm;

	if (localtime_r(&t, &tm))
		strftime(text, sizeof(text), "%F", &tm);
	fputs(text, file);
}

/* A name; or a PATTERN, in which special characters stand for themselves. In quotes, where the language needs them. */
static void print_name(FILE *file, const char *text, bool pattern)
{
	if (text[strspn(text, LETTERS "0123456789.-")] == '\0' && strchr(LETTERS, text[0])) {
		fputs(text, file);
		return;
	}
	fputc('"', file);
	for (; *text; text++) {
		if (pattern && strchr("*?[\\", *text))
			fputs("\\\\", file);
		if (strchr("\"\\", *text))
			fputc('\\', file);
		fputc(*text, file);
	}
	fputc('"', file);
}

static bool is_dynamic(uint32_t uid)
{
	return uid >= DYNAMIC_FIRST && uid <= DYNAMIC_LAST;
}

static void print_user(FILE *file, const struct suggestion_options *options, uint32_t uid)
{
	const char *name = options->user_name(uid);

	if (name && atoms_can_have(name) && !is_dynamic(uid))
		print_name(file, name, /* pattern= */ false);
	else
		fprintf(file, "%" PRIu32, uid);
}

static void print_prefix(FILE *file, const struct prefix *prefix)
{
	struct sockaddr_storage addr;
	char text[ADDR_HOST_STRLEN];

	addr_set_host(&addr, prefix->kind, prefix->address);
	fprintf(file, "%s/%u", addr_host_to_string((struct sockaddr *)&addr, text), prefix->bits);
}

/* A list whose lines are filled. */
struct line {
	FILE *file;
	size_t column; /* since the list began */
	size_t n; /* items */
	const char *before; /* each item */
};

static void print_item(struct line *line, const char *item)
{
	size_t width = strlen(line->before) + strlen(item);

	if (line->n++ > 0) {
		fputc(',', line->file);
		line->column++;
	}
	if (line->column > 0 && line->column + width >= LINE_WIDTH) {
		fputs("\\\n    ", line->file);
		line->column = 0;
	}
	fputs(line->before, line->file);
	fputs(item, line->file);
	line->column += width;
}

/* What PRINT prints, which the caller frees. */
#define TEXT_OF(print)                                                 \
	({                                                             \
		char *text_ = NULL;                                    \
		size_t size_;                                          \
		FILE *to_ = allocated(open_memstream(&text_, &size_)); \
		print;                                                 \
		allocated(fclose(to_) == 0 ? text_ : NULL);            \
	})

static void print_comment(FILE *file, const struct atom *atom,
			  const struct suggestion_options *options)
{
	if (atom->count == 0) {
		fputs("\n# Not requested since it was suggested", file);
	} else if (options->is_held) {
		fprintf(file, "\n# %" PRIu64 " held on ", atom->count);
		print_day(file, atom->last_ms);
	} else {
		fprintf(file, "\n# %" PRIu64 " time%s since ", atom->count,
			atom->count == 1 ? "" : "s");
		print_day(file, atom->first_ms);
		fputs(", last on ", file);
		print_day(file, atom->last_ms);
	}
	for (size_t i = 0; i < atom->n_names; i++) {
		char name[NAME_SIZE];

		text_escape(name, sizeof(name), atom->names[i]);
		fprintf(file, "%s%s", i == 0 ? ", by " : ", ", name);
	}
	fputc('\n', file);
}

static void print_set(FILE *file, const struct atom *atom, unsigned number)
{
	struct line line = { .file = file, .before = " " };

	fprintf(file, "set seen-%u = {", number);
	for (size_t i = 0; i < atom->n_peers; i++) {
		char *text = TEXT_OF(print_prefix(to_, &atom->peers[i]));

		print_item(&line, text);
		free(text);
	}
	fprintf(file, " }\n");
}

/* The users from FIRST on, as many as a rule can have. Returns how many. */
static size_t print_users(FILE *file, const struct atom *atom,
			  const struct suggestion_options *options, size_t first)
{
	size_t n = atom->n_uids - first < ITEMS_MAX ? atom->n_uids - first : ITEMS_MAX;
	struct line line = { .file = file, .before = "" };

	fputs(" user ", file);
	for (size_t i = 0; i < n; i++) {
		char *text = TEXT_OF(print_user(to_, options, atom->uids[first + i]));

		print_item(&line, text);
		free(text);
	}
	return n;
}

/* Returns how many users are done. */
static size_t print_who(FILE *file, const struct atom *atom,
			const struct suggestion_options *options, size_t first)
{
	size_t n = atom->n_uids - first;

	if (atom->group) {
		fputs(" group ", file);
		print_name(file, atom->group, /* pattern= */ false);
	} else {
		n = print_users(file, atom, options, first);
	}
	if (atom->unit) {
		fputs(" unit ", file);
		print_name(file, atom->unit, /* pattern= */ true);
	}
	return n;
}

static size_t print_ports(FILE *file, const struct atom *atom, size_t first)
{
	size_t n = atom->n_ports - first < ITEMS_MAX ? atom->n_ports - first : ITEMS_MAX;
	struct line line = { .file = file, .before = "" };

	if (n > 0)
		fputs(" port ", file);
	for (size_t i = 0; i < n; i++) {
		const struct range *range = &atom->ports[first + i];
		char text[16];

		if (range->to > range->from)
			snprintf(text, sizeof(text), "%u-%u", range->from, range->to);
		else
			snprintf(text, sizeof(text), "%u", range->from);
		print_item(&line, text);
	}
	return n;
}

/* Returns how many of the users are done. */
static size_t print_rules_of_users(FILE *file, const struct atom *atom,
				   const struct suggestion_options *options, unsigned set,
				   size_t first)
{
	size_t n_ports = 0, n;

	do {
		fprintf(file, "allow %s", suggested_operations[atom->operation]);
		n = print_who(file, atom, options, first);
		if (atom->device) {
			fprintf(file, " device ");
			print_name(file, atom->device, /* pattern= */ true);
		}
		if (atom->is_wide) {
			fputs(" peer ADDRESS", file);
		} else if (atom->n_peers == 1) {
			fprintf(file, " peer ");
			print_prefix(file, &atom->peers[0]);
		} else if (atom->n_peers > 1) {
			fprintf(file, " peer @seen-%u", set);
		}
		n_ports += print_ports(file, atom, n_ports);
		if (atom->pkey)
			fprintf(file, " pkey 0x%04x", atom->pkey);
		fputc('\n', file);
	} while (n_ports < atom->n_ports);
	return n;
}

static void print_rules(FILE *file, const struct atom *atom,
			const struct suggestion_options *options, unsigned set)
{
	for (size_t done = 0; done < atom->n_uids;)
		done += print_rules_of_users(file, atom, options, set, done);
}

/* The rules without their peers, in a comment. */
static void print_wide(FILE *file, const struct atom *atom,
		       const struct suggestion_options *options)
{
	char *text = NULL, *rest, *line;
	size_t size;
	FILE *rules = allocated(open_memstream(&text, &size));

	print_rules(rules, atom, options, /* set= */ 0);
	allocated(fclose(rules) == 0 ? text : NULL);
	fputs("# No rule allows these: their peers were too many, so the daemon has only prefixes that hold\n"
	      "# them and others, and the peers may have been chosen by somebody else. They were in:\n#  ",
	      file);
	for (size_t i = 0; i < atom->n_peers; i++) {
		fputs(i > 0 && i % PREFIXES_A_LINE == 0 ? "\n#   " : " ", file);
		print_prefix(file, &atom->peers[i]);
	}
	fprintf(file, "\n# Write a rule for the peers that you know among them%s:\n",
		atom->operation == JOIN ? "" : ", or see --peer-prefix");
	for (rest = text; (line = strsep(&rest, "\n")) && *line;)
		fprintf(file, "# %s\n", line);
	free(text);
}

/* The group of the users in place of them, if that is wanted, with whom it adds. */
static void print_group(FILE *file, struct atom *atom, const struct suggestion_options *options)
{
	const char *group = atom->n_uids > 1 ? options->group_name(atom->uids, atom->n_uids,
								   atom->gids, atom->n_gids) :
					       NULL;
	char *others;

	if (!group || !atoms_can_have(group))
		return;
	if (!options->prefer_groups) {
		fputs("# All these users are in a group: with its other members it is \"group ",
		      file);
		print_name(file, group, /* pattern= */ false);
		fputs("\".\n", file);
		return;
	}
	atom->group = group;
	others = TEXT_OF(options->print_others(to_, group, atom->uids, atom->n_uids));
	fprintf(file, "# Seen of %zu users, who are in this group; %s%s.\n", atom->n_uids,
		*others ? "it adds: " : "it has no other members", others);
	free(others);
}

/* What would be simpler, but allows others, too, so it is for the admin to choose. */
static void print_dynamic(FILE *file, const struct atom *atom)
{
	if (atom->unit && is_dynamic(atom->uids[0]))
		fprintf(file,
			"# User %" PRIu32
			" is made by systemd while the unit runs, and can have another number the next\n"
			"# time: if no other user can run programs in the unit, delete the user here.\n",
			atom->uids[0]);
}

void suggestion_print_rules(FILE *file, const struct rdmabroker_refusals *seen,
			    const struct suggestion_options *options)
{
	struct atoms atoms;
	unsigned set = 0;

	atoms_make(&atoms, seen, options);
	for (unsigned operation = 0; operation < N_OPERATIONS; operation++)
		for (size_t i = 0; i < atoms.n; i++) {
			struct atom *atom = &atoms.atoms[i];

			if (atom->operation != operation || atom->is_joined)
				continue;
			print_comment(file, atom, options);
			print_group(file, atom, options);
			print_dynamic(file, atom);
			if (atom->is_wide) {
				print_wide(file, atom, options);
				continue;
			}
			if (atom->n_peers > 1)
				print_set(file, atom, ++set);
			print_rules(file, atom, options, set);
		}
	atoms_done(&atoms);
}

static void print_test(FILE *file, const struct rdmabroker_refusal *one,
		       const struct suggestion_options *options, unsigned operation)
{
	const char *unit = atoms_lasting_unit(one);
	char text[ADDR_HOST_STRLEN];

	fprintf(file, "allow %s uid %" PRIu32, suggested_operations[operation], one->who.uid);
	for (size_t k = 0; k < one->who.n_gids; k++)
		fprintf(file, "%s%" PRIu32, k == 0 ? " gid " : ",", one->who.gids[k]);
	if (unit) {
		fprintf(file, " unit ");
		print_name(file, unit, /* pattern= */ false);
	}
	if (one->peer.ss_family != AF_UNSPEC)
		fprintf(file, " peer %s",
			addr_host_to_string((const struct sockaddr *)&one->peer, text));
	if (one->any_port || one->port > 0)
		fprintf(file, " port %u", one->any_port ? options->first_port : one->port);
	if (one->device) {
		fprintf(file, " device ");
		print_name(file, one->device, /* pattern= */ false);
	}
	/* Like a path, it names the partition whatever the addresses are. */
	if (one->pkey)
		fprintf(file, " path-pkey 0x%04x", one->pkey);
	fputc('\n', file);
}

static int compare_texts(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void suggestion_print_tests(FILE *file, const struct rdmabroker_refusals *seen,
			    const struct suggestion_options *options)
{
	char **lines = NULL;
	size_t n = 0;
	unsigned operation;

	for (size_t i = 0; i < seen->n; i++)
		if (atoms_want(&seen->list[i], options, &operation) &&
		    !atoms_are_wide(&seen->list[i], options, operation))
			ADD(lines, n, TEXT_OF(print_test(to_, &seen->list[i], options, operation)));
	/* What differed in names that do not come back is one test. */
	if (n > 0)
		qsort(lines, n, sizeof(*lines), compare_texts);
	for (size_t i = 0; i < n; i++)
		if (i == 0 || strcmp(lines[i - 1], lines[i]) != 0)
			fputs(lines[i], file);
	for (size_t i = 0; i < n; i++)
		free(lines[i]);
	free(lines);
}
