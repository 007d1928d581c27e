/* SPDX-License-Identifier: BSD-2-Clause */
#include <inttypes.h>
#include <netinet/in.h>
#include <string.h>
#include <time.h>

#include "grow.h"
#include "proto/addr.h"
#include "proto/gids.h"
#include "proto/text.h"
#include "proto/unitname.h"
#include "suggestion.h"

/*
 *   seen ── atom, atom, ...     what was seen of one user in one unit, with one port
 *     ports of alike atoms are joined, then their users
 *   atoms ── a rule each, with a comment that says what it is made of
 *
 * Peers that the daemon has joined to a prefix get a comment, and no rule: the prefix holds others, and whoever has chosen
 * the peers has chosen the prefix.
 */

#define ITEMS_MAX 1024 /* in a list of the rule language */
#define NAMES_MAX 4 /* programs that a comment names */
#define GIDS_MAX 16 /* that are known of a process */
#define LINE_WIDTH 100 /* of a long list */
#define PREFIXES_A_LINE 8 /* of a comment */
#define NAME_SIZE 256
/* The uids that systemd makes for DynamicUser=, for as long as the unit runs. */
#define DYNAMIC_FIRST 61184
#define DYNAMIC_LAST 65519
#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"

const char suggested_outcome[] = "suggested";

/* Those that are suggested, in the order of the rules. Who may observe or administer is not found out by trying. */
static const char *const operations[] = {
	"session", "device", "listen", "connect", "accept", "join"
};
#define N_OPERATIONS (sizeof(operations) / sizeof(operations[0]))
enum { SESSION, DEVICE, LISTEN, CONNECT, ACCEPT, JOIN };

struct range {
	uint16_t from, to;
};

struct prefix {
	uint8_t address[16];
	uint8_t kind; /* 4, 6 or ADDR_KIND_GID */
	uint8_t bits;
};

struct atom {
	unsigned operation;
	const char *unit; /* NULL: any */
	const char *device; /* of the operation device; else NULL */
	uint16_t pkey; /* that was named; 0: none */
	uint32_t *uids;
	struct range *ports;
	struct prefix *peers;
	const char **names;
	size_t n_uids, n_ports, n_peers, n_names;
	uint32_t gids[GIDS_MAX]; /* that all its processes were in */
	size_t n_gids;
	uint64_t count, first_ms,
		last_ms; /* 0: it was suggested earlier, and not requested since */
	const char *group; /* of the users, which stands for them; NULL: none */
	bool is_wide; /* its peers are prefixes, which hold others, too */
	bool is_joined; /* another atom has what it had */
};

struct atoms {
	struct atom *atoms;
	size_t n;
};

/* Lists */

#define ADD(list, n, item) ((list) = grow(list, n, sizeof(*(list))), (list)[(n)++] = (item))

static bool is_same_list(const void *a, size_t n_a, const void *b, size_t n_b, size_t size)
{
	return n_a == n_b && (n_a == 0 || memcmp(a, b, n_a * size) == 0);
}

static int compare_uids(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static int compare_ranges(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	return x->from != y->from ? x->from - y->from : x->to - y->to;
}

/* Those that hold others come first. */
static int compare_prefixes(const void *a, const void *b)
{
	const struct prefix *x = a, *y = b;
	int r = x->kind - y->kind;

	if (r == 0)
		r = memcmp(x->address, y->address, sizeof(x->address));
	return r != 0 ? r : x->bits - y->bits;
}

static bool contains(const struct prefix *outer, const struct prefix *inner)
{
	if (outer->kind != inner->kind || outer->bits > inner->bits)
		return false;
	for (unsigned i = 0; i < outer->bits; i++)
		if ((outer->address[i / 8] ^ inner->address[i / 8]) & (0x80 >> i % 8))
			return false;
	return true;
}

static void sort_uids(struct atom *atom)
{
	size_t n = 0;

	qsort(atom->uids, atom->n_uids, sizeof(*atom->uids), compare_uids);
	for (size_t i = 0; i < atom->n_uids; i++)
		if (n == 0 || atom->uids[n - 1] != atom->uids[i])
			atom->uids[n++] = atom->uids[i];
	atom->n_uids = n;
}

/* Ranges that overlap or follow each other become one. */
static void sort_ports(struct atom *atom)
{
	size_t n = 0;

	if (atom->n_ports == 0)
		return;
	qsort(atom->ports, atom->n_ports, sizeof(*atom->ports), compare_ranges);
	for (size_t i = 1; i < atom->n_ports; i++) {
		if (atom->ports[i].from > atom->ports[n].to + 1)
			atom->ports[++n] = atom->ports[i];
		else if (atom->ports[i].to > atom->ports[n].to)
			atom->ports[n].to = atom->ports[i].to;
	}
	atom->n_ports = n + 1;
}

static void sort_peers(struct atom *atom)
{
	size_t n = 0;

	if (atom->n_peers == 0)
		return;
	qsort(atom->peers, atom->n_peers, sizeof(*atom->peers), compare_prefixes);
	for (size_t i = 0; i < atom->n_peers; i++)
		if (n == 0 || !contains(&atom->peers[n - 1], &atom->peers[i]))
			atom->peers[n++] = atom->peers[i];
	atom->n_peers = n;
}

/* Atoms */

/* NULL: none, or one with another name the next time. */
static const char *lasting_unit_of(const struct rdmabroker_refusal *seen)
{
	return seen->who.unit && unit_comes_back(seen->who.unit) && !seen->who.container ?
		       seen->who.unit :
		       NULL;
}

/* Units of users' sessions say no more than the user. */
static const char *service_of(const struct rdmabroker_refusal *seen)
{
	const char *unit = lasting_unit_of(seen), *end = unit ? strrchr(unit, '.') : NULL;

	return end && strcmp(end, ".service") == 0 && strncmp(unit, "user@", 5) != 0 ? unit : NULL;
}

static bool find_operation(const struct rdmabroker_refusal *seen, unsigned *ret)
{
	for (unsigned i = 0; i < N_OPERATIONS; i++)
		if (strcmp(operations[i], seen->operation) == 0) {
			*ret = i;
			return true;
		}
	return false;
}

/* Files of rules have no control characters, and who reads them has to see what they say. */
static bool is_plain(const char *text)
{
	for (; text && *text; text++)
		if (*text < ' ' || *text > '~')
			return false;
	return true;
}

/* What is not known cannot be asked for: a rule without it would allow everything. */
static bool is_known(const struct rdmabroker_refusal *seen, unsigned operation)
{
	bool has_port = seen->port > 0 || seen->any_port,
	     has_peer = seen->peer.ss_family != AF_UNSPEC;

	if (!is_plain(seen->who.unit) || !is_plain(seen->device))
		return false;
	switch (operation) {
	case DEVICE:
		return seen->device != NULL;
	case LISTEN:
		return has_port;
	case CONNECT:
	case ACCEPT:
		return has_port && has_peer;
	case JOIN:
		return has_peer;
	default:
		return true;
	}
}

static bool is_wanted(const struct rdmabroker_refusal *seen,
		      const struct suggestion_options *options, unsigned *ret_operation)
{
	return (seen->outcome == suggested_outcome || strcmp(seen->outcome, "warned") == 0 ||
		strcmp(seen->outcome, "no-rule") == 0 ||
		(options->rejected && strcmp(seen->outcome, "rejected") == 0)) &&
	       find_operation(seen, ret_operation) && is_known(seen, *ret_operation);
}

/* The length to which a peer is widened. */
static unsigned bits_of(const struct rdmabroker_refusal *seen,
			const struct suggestion_options *options, unsigned operation)
{
	bool is_4 = seen->peer.ss_family == AF_INET;

	/* A group is no host with neighbours, and the first half of a GID is the same for the whole fabric. */
	if (operation == JOIN || (!is_4 && seen->peer.ss_family != AF_INET6))
		return is_4 ? 32 : 128;
	return is_4 ? options->peer_prefix : options->peer_prefix6;
}

static bool has_peer(unsigned operation)
{
	return operation == CONNECT || operation == ACCEPT || operation == JOIN;
}

/* Whether the daemon has joined more peers than the options would. */
static bool is_wide(const struct rdmabroker_refusal *seen, const struct suggestion_options *options,
		    unsigned operation)
{
	return has_peer(operation) && seen->outcome != suggested_outcome &&
	       seen->peer_prefix < bits_of(seen, options, operation);
}

static struct prefix peer_of(const struct rdmabroker_refusal *seen,
			     const struct suggestion_options *options, unsigned operation)
{
	const struct sockaddr_in *in4 = (const struct sockaddr_in *)&seen->peer;
	unsigned bits = bits_of(seen, options, operation);
	struct prefix ret = { .kind = 4 };

	if (seen->peer.ss_family == AF_INET) {
		memcpy(ret.address, &in4->sin_addr, sizeof(in4->sin_addr));
	} else {
		ret.kind = seen->peer.ss_family == AF_INET6 ? 6 : ADDR_KIND_GID;
		addr_host((const struct sockaddr *)&seen->peer, ret.address);
	}
	if (bits > seen->peer_prefix)
		bits = seen->peer_prefix;
	ret.bits = (uint8_t)bits;
	for (unsigned i = bits; i < 8 * sizeof(ret.address); i++)
		ret.address[i / 8] &= (uint8_t) ~(0x80 >> i % 8);
	return ret;
}

static bool has_name(const struct atom *atom, const char *name)
{
	for (size_t i = 0; i < atom->n_names; i++)
		if (strcmp(atom->names[i], name) == 0)
			return true;
	return false;
}

static void count_in(struct atom *atom, uint64_t count, uint64_t first_ms, uint64_t last_ms,
		     const char *name)
{
	atom->count += count;
	if (first_ms > 0 && (atom->first_ms == 0 || first_ms < atom->first_ms))
		atom->first_ms = first_ms;
	if (last_ms > atom->last_ms)
		atom->last_ms = last_ms;
	if (name && atom->n_names < NAMES_MAX && !has_name(atom, name))
		ADD(atom->names, atom->n_names, name);
}

static bool is_same_text(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

static bool is_alike(const struct atom *a, const struct atom *b)
{
	return a->operation == b->operation && a->is_wide == b->is_wide && a->pkey == b->pkey &&
	       is_same_text(a->unit, b->unit) && is_same_text(a->device, b->device);
}

/* The port of a connect is the peer's, so whether the peer's kernel has chosen it shows in its number alone. */
static bool is_chosen(const struct rdmabroker_refusal *seen,
		      const struct suggestion_options *options, unsigned operation)
{
	return seen->any_port || (operation == CONNECT && seen->port >= options->first_port &&
				  seen->port <= options->last_port);
}

static void set_gids(struct atom *atom, const struct rdmabroker_refusal *seen)
{
	while (atom->n_gids < GIDS_MAX && atom->n_gids < seen->who.n_gids) {
		atom->gids[atom->n_gids] = seen->who.gids[atom->n_gids];
		atom->n_gids++;
	}
}

/* What was SEEN, but for the peer, as one more atom, or the one that there is already. */
static struct atom *find_atom(struct atoms *atoms, const struct rdmabroker_refusal *seen,
			      const struct suggestion_options *options, unsigned operation)
{
	bool has_port = operation == LISTEN || operation == CONNECT || operation == ACCEPT;
	bool chosen = is_chosen(seen, options, operation);
	const struct range port = { chosen ? options->first_port : seen->port,
				    chosen ? options->last_port : seen->port };
	struct atom new = {
		.operation = operation,
		.unit = service_of(seen),
		.device = operation == DEVICE ? seen->device : NULL,
		.pkey = seen->pkey,
		.is_wide = is_wide(seen, options, operation),
	};

	for (size_t i = 0; i < atoms->n; i++) {
		struct atom *atom = &atoms->atoms[i];

		if (is_alike(atom, &new) && atom->uids[0] == seen->who.uid &&
		    is_same_list(atom->ports, atom->n_ports, &port, has_port, sizeof(port)))
			return atom;
	}
	ADD(new.uids, new.n_uids, seen->who.uid);
	if (has_port)
		ADD(new.ports, new.n_ports, port);
	set_gids(&new, seen);
	ADD(atoms->atoms, atoms->n, new);
	return &atoms->atoms[atoms->n - 1];
}

static void add_seen(struct atoms *atoms, const struct rdmabroker_refusal *seen,
		     const struct suggestion_options *options, unsigned operation)
{
	struct atom *atom = find_atom(atoms, seen, options, operation);

	/* Of what was suggested earlier, the groups are not known. */
	if (seen->outcome != suggested_outcome)
		atom->n_gids = gids_keep_common(atom->gids, atom->n_gids, seen->who.gids,
						seen->who.n_gids);
	if (has_peer(operation))
		ADD(atom->peers, atom->n_peers, peer_of(seen, options, operation));
	count_in(atom, seen->count, seen->first_ms, seen->last_ms, seen->name);
}

/* Whether only their ports differ; or, BY_USER, only their users. */
static bool can_join(const struct atom *a, const struct atom *b, bool by_user)
{
	return is_alike(a, b) &&
	       is_same_list(a->peers, a->n_peers, b->peers, b->n_peers, sizeof(*a->peers)) &&
	       (by_user ? is_same_list(a->ports, a->n_ports, b->ports, b->n_ports,
				       sizeof(*a->ports)) :
			  is_same_list(a->uids, a->n_uids, b->uids, b->n_uids, sizeof(*a->uids)));
}

static void take_rest(struct atom *to, struct atom *from)
{
	count_in(to, from->count, from->first_ms, from->last_ms, NULL);
	for (size_t i = 0; i < from->n_names; i++)
		count_in(to, 0, to->first_ms, to->last_ms, from->names[i]);
	to->n_gids = gids_keep_common(to->gids, to->n_gids, from->gids, from->n_gids);
	from->is_joined = true;
}

/* Joins atoms that differ in their ports alone, and then those that differ in their users alone. */
static void join_atoms(struct atoms *atoms, bool by_user)
{
	for (size_t i = 0; i < atoms->n; i++) {
		struct atom *to = &atoms->atoms[i];

		for (size_t k = i + 1; k < atoms->n && !to->is_joined; k++) {
			struct atom *from = &atoms->atoms[k];

			if (from->is_joined || !can_join(from, to, by_user))
				continue;
			for (size_t n = 0; !by_user && n < from->n_ports; n++)
				ADD(to->ports, to->n_ports, from->ports[n]);
			for (size_t n = 0; by_user && n < from->n_uids; n++)
				ADD(to->uids, to->n_uids, from->uids[n]);
			take_rest(to, from);
		}
		sort_ports(to);
		sort_uids(to);
	}
}

static void atoms_make(struct atoms *ret, const struct rdmabroker_refusals *seen,
		       const struct suggestion_options *options)
{
	unsigned operation;

	*ret = (struct atoms){ 0 };
	for (size_t i = 0; i < seen->n; i++)
		if (is_wanted(&seen->list[i], options, &operation))
			add_seen(ret, &seen->list[i], options, operation);
	for (size_t i = 0; i < ret->n; i++)
		sort_peers(&ret->atoms[i]);
	join_atoms(ret, /* by_user= */ false);
	join_atoms(ret, /* by_user= */ true);
}

static void atoms_done(struct atoms *atoms)
{
	for (size_t i = 0; i < atoms->n; i++) {
		free(atoms->atoms[i].uids);
		free(atoms->atoms[i].ports);
		free(atoms->atoms[i].peers);
		free(atoms->atoms[i].names);
	}
	free(atoms->atoms);
}

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

	if (name && is_plain(name) && !is_dynamic(uid))
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
		fprintf(file, "allow %s", operations[atom->operation]);
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

	if (!group || !is_plain(group))
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
	const char *unit = lasting_unit_of(one);
	char text[ADDR_HOST_STRLEN];

	fprintf(file, "allow %s uid %" PRIu32, operations[operation], one->who.uid);
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
		if (is_wanted(&seen->list[i], options, &operation) &&
		    !is_wide(&seen->list[i], options, operation))
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
