/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/clock.h"
#include "util/diag.h"
#include "util/owner.h"
#include "util/util.h"

#define LOOK_UP_MS 10000 /* for all users together */
#define ORDINARY_MIN 1000 /* lower uids are of the system */
#define NOBODY 65534
#define UNKNOWN ((uid_t)-1)
#define SHIFTED_MIN 65536 /* containers with uids of their own have higher ones than these */
#define ENTRY_MAX 4096 /* bytes of an entry of the user database */

struct range {
	uid_t first, last;
	uid_t owner; /* UNKNOWN: not found */
	char *name; /* of the owner; NULL: the file has his number */
};

struct owners {
	struct range *ranges; /* sorted by FIRST when they are in force */
	size_t n, n_allocated;
	bool incomplete;
};

static struct owners *in_force;

DEFINE_CLEANUP(struct owners *, owners_free)

struct owners *owners_free(struct owners *owners)
{
	if (!owners)
		return NULL;
	for (size_t i = 0; i < owners->n; i++)
		free(owners->ranges[i].name);
	free(owners->ranges);
	free(owners);
	return NULL;
}

static bool is_ordinary(uid_t owner)
{
	return owner >= ORDINARY_MIN && owner != NOBODY && owner != UNKNOWN;
}

/* Decimal digits alone, up to MAX. */
static bool parse_number(const char *text, unsigned long max, uint32_t *ret)
{
	unsigned long n;
	char *end;

	if (text[0] < '0' || text[0] > '9')
		return false;
	errno = 0;
	n = strtoul(text, &end, 10);
	if (errno || *end || n > max)
		return false;
	*ret = (uint32_t)n;
	return true;
}

static int add(struct owners *owners, const struct range *range, const char *name)
{
	struct range *grown, copy = *range;

	if (owners->n == owners->n_allocated) {
		size_t n = owners->n_allocated ? 2 * owners->n_allocated : 64;

		grown = reallocarray(owners->ranges, n, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		owners->ranges = grown;
		owners->n_allocated = n;
	}
	if (name) {
		copy.name = strdup(name);
		if (!copy.name)
			return -ENOMEM;
	}
	owners->ranges[owners->n++] = copy;
	return 0;
}

/* Returns 0, -EBADMSG or -ENOMEM. LINE is changed. */
static int parse_line(struct owners *owners, char *line)
{
	const char *name = strsep(&line, ":"), *first = strsep(&line, ":"), *number = line;
	struct range range = { .owner = UNKNOWN };
	uint32_t n;

	if (!*name || !first || !number || !parse_number(first, UNKNOWN - 1, &range.first) ||
	    !parse_number(number, UNKNOWN - 1, &n) || n > UNKNOWN - range.first)
		return -EBADMSG;
	/* The file's tools make a range of no uids when they take all of them away. */
	if (n == 0)
		return 0;
	range.last = range.first + (n - 1);
	return add(owners, &range, parse_number(name, UNKNOWN - 1, &range.owner) ? NULL : name);
}

static int read_lines(struct owners *owners, FILE *f, const char *path, struct diag *diag)
{
	_cleanup_free_ char *line = NULL;
	unsigned number = 0;
	size_t size = 0;
	ssize_t len;
	int r = 0;

	while (r == 0 && (len = getline(&line, &size, f)) >= 0) {
		number++;
		if (len > 0 && line[len - 1] == '\n')
			line[--len] = 0;
		if (line[strspn(line, " \t")] == 0 || line[0] == '#')
			continue;
		r = parse_line(owners, line);
		if (r != -EBADMSG)
			continue;
		r = 0;
		if (diag)
			diag_warn(diag, path, number, 1, NULL, 0,
				  "this is not \"user:first uid:number of uids\", and is ignored");
	}
	return r < 0 ? r : ferror(f) ? -errno : 0;
}

static int compare_names(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	return strcmp(x->name ?: "", y->name ?: "");
}

/* The ranges are sorted by the names. */
static void set_owner(struct owners *owners, const char *name, uid_t uid)
{
	size_t i = LOWER_BOUND(k, owners->n, strcmp(owners->ranges[k].name ?: "", name) < 0);

	for (; i < owners->n && owners->ranges[i].name && strcmp(owners->ranges[i].name, name) == 0;
	     i++)
		owners->ranges[i].owner = uid;
}

static int find_local(struct owners *owners, const char *passwd)
{
	FILE *f = fopen(passwd, "re");
	struct passwd space, *entry;
	char buf[ENTRY_MAX];

	if (!f)
		return errno == ENOENT ? 0 : -errno;
	while (fgetpwent_r(f, &space, buf, sizeof(buf), &entry) == 0)
		set_owner(owners, entry->pw_name, entry->pw_uid);
	fclose(f);
	return 0;
}

static int compare_firsts(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	return (x->first > y->first) - (x->first < y->first);
}

/* Ranges that overlap become one, which is of their owner, or of nobody if they have several. */
static void sort(struct owners *owners)
{
	size_t n = 0;

	if (owners->n > 0)
		qsort(owners->ranges, owners->n, sizeof(*owners->ranges), compare_firsts);
	for (size_t i = 0; i < owners->n; i++) {
		struct range *range = &owners->ranges[i],
			     *before = n > 0 ? &owners->ranges[n - 1] : NULL;

		if (!before || range->first > before->last) {
			owners->ranges[n++] = *range;
			continue;
		}
		if (range->owner != before->owner)
			before->owner = UNKNOWN;
		if (range->last > before->last)
			before->last = range->last;
		free(range->name);
	}
	owners->n = n;
}

int owners_read(struct owners **ret, const char *path, const char *passwd, struct diag *diag)
{
	_cleanup_(owners_freep) struct owners *owners = calloc(1, sizeof(*owners));
	FILE *f;
	int r;

	if (!owners)
		return -ENOMEM;
	f = fopen(path, "re");
	if (!f && errno != ENOENT)
		return -errno;
	if (f) {
		r = read_lines(owners, f, path, diag);
		fclose(f);
		if (r < 0)
			return r;
	}
	if (owners->n > 0)
		qsort(owners->ranges, owners->n, sizeof(*owners->ranges), compare_names);
	r = find_local(owners, passwd);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(owners);
	return 0;
}

static bool is_missing(const struct range *range)
{
	return range->name && range->owner == UNKNOWN;
}

void owners_look_up(struct owners *owners)
{
	uint64_t until_ms = clock_ms() + LOOK_UP_MS;
	struct passwd space, *entry;
	char buf[ENTRY_MAX];

	for (size_t i = 0; owners && i < owners->n && clock_ms() < until_ms; i++) {
		struct range *range = &owners->ranges[i];

		if (is_missing(range) &&
		    getpwnam_r(range->name, &space, buf, sizeof(buf), &entry) == 0 && entry)
			set_owner(owners, range->name, entry->pw_uid);
	}
}

size_t owners_count_missing(const struct owners *owners)
{
	size_t n = 0;

	for (size_t i = 0; owners && i < owners->n; i++)
		n += is_missing(&owners->ranges[i]);
	return n;
}

bool owners_have_other_source(const char *path)
{
	_cleanup_free_ char *line = NULL;
	FILE *f = fopen(path, "re");
	bool found = false;
	size_t size = 0;

	while (f && getline(&line, &size, f) >= 0) {
		char *save, *word = strtok_r(line, " \t\n", &save);

		if (!word || strcmp(word, "subid:") != 0)
			continue;
		while ((word = strtok_r(NULL, " \t\n", &save)))
			found |= strcmp(word, "files") != 0;
	}
	if (f)
		fclose(f);
	return found;
}

void owners_set_incomplete(struct owners *owners)
{
	if (owners)
		owners->incomplete = true;
}

bool owners_are_incomplete(void)
{
	return in_force && in_force->incomplete;
}

void owners_use(struct owners *owners)
{
	owners_free(in_force);
	in_force = owners;
	if (owners)
		sort(owners);
}

static const struct range *find(uid_t uid)
{
	size_t i;

	/* Root and system users are nobody's, whatever a range says. */
	if (!in_force || in_force->n == 0 || uid < ORDINARY_MIN || uid < in_force->ranges[0].first)
		return NULL;
	i = LOWER_BOUND(k, in_force->n, in_force->ranges[k].first <= uid);
	return in_force->ranges[i - 1].last >= uid ? &in_force->ranges[i - 1] : NULL;
}

struct owner owner_of(uid_t uid)
{
	const struct range *range = find(uid);

	if (!range)
		return (struct owner){ .uid = uid, .range = OWNER_ALONE };
	if (is_ordinary(range->owner))
		return (struct owner){ .uid = range->owner, .range = OWNER_ALONE };
	return (struct owner){ .uid = uid, .range = range->first };
}

bool owner_depends_on_namespace(uid_t uid)
{
	const struct range *range = find(uid);

	return range ? !is_ordinary(range->owner) : uid >= SHIFTED_MIN;
}

struct owner owner_of_stranger(uid_t uid, uid_t first)
{
	struct owner owner = owner_of(uid);

	if (!owner_depends_on_namespace(uid))
		return owner;
	if (first >= SHIFTED_MIN)
		owner.uid = first;
	if (owner.range == OWNER_ALONE)
		owner.range = OWNER_STRANGERS;
	return owner;
}
