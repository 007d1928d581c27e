/* SPDX-License-Identifier: BSD-2-Clause */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "core/admit/likeness.h"
#include "core/admit/refused.h"
#include "proto/text.h"
#include "proto/unitname.h"
#include "util/util.h"

/* A number is one of "*"; below a directory, it is the number alone. */
static void class_of_number(char *ret, size_t size, const char *number)
{
	const char *slash = strrchr(number, '/');

	if (*number)
		snprintf(ret, size, "%.*s*", slash ? (int)(slash + 1 - number) : 0, number);
	else
		*ret = 0;
}

/* The names in a row of which only the class is a difference. */
static const struct {
	size_t offset, size;
	void (*class_of)(char *ret, size_t size, const char *name);
} classed[] = {
#define CLASSED(member, function)                                              \
	{                                                                      \
		offsetof(struct ledger_refused, member),                       \
			sizeof(((struct ledger_refused *)0)->member), function \
	}
	CLASSED(unit, unit_class),
	CLASSED(container, class_of_number),
	CLASSED(pod, class_of_number),
	CLASSED(job, class_of_number),
#undef CLASSED
};
#define NAME_MAX_SIZE 256

void likeness_init(struct likeness *ret)
{
	FILE *file = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");

	if (!file || fscanf(file, "%u %u", &ret->first_port, &ret->last_port) != 2) {
		ret->first_port = 32768;
		ret->last_port = 60999;
	}
	if (file)
		fclose(file);
}

/* Whether what ROW is about has another name the next time, or has the class of these names by now. */
static bool is_passing(const struct ledger_refused *row)
{
	char class[NAME_MAX_SIZE];

	for (size_t i = 0; i < ELEMENTS_OF(classed); i++) {
		classed[i].class_of(class, sizeof(class), (const char *)row + classed[i].offset);
		if (strchr(class, '*'))
			return true;
	}
	return false;
}

bool likeness_has_chosen_port(const struct likeness *likeness, const struct ledger_refused *row)
{
	return row->port_kind == REFUSED_PORT_ANY ||
	       (row->port_kind == REFUSED_PORT_NUMBER && row->port >= likeness->first_port &&
		row->port <= likeness->last_port &&
		(row->operation == POLICY_CONNECT || is_passing(row)));
}

static uint64_t hash(uint64_t seed, const char *text)
{
	for (; *text; text++)
		seed = (seed ^ (uint8_t)*text) * 0x100000001b3;
	return (seed ^ 0xff) * 0x100000001b3;
}

uint64_t likeness_hash(const struct ledger_refused *row)
{
	char class[NAME_MAX_SIZE];
	uint64_t words = 0xcbf29ce484222325;

	for (size_t i = 0; i < ELEMENTS_OF(classed); i++) {
		classed[i].class_of(class, sizeof(class), (const char *)row + classed[i].offset);
		words = hash(words, class);
	}
	return hash(words, row->rule);
}

bool likeness_join(struct ledger_refused *row, const struct ledger_refused *another)
{
	char class[NAME_MAX_SIZE];
	bool changed = false;

	for (size_t i = 0; i < ELEMENTS_OF(classed); i++) {
		char *name = (char *)row + classed[i].offset;

		if (strcmp(name, (const char *)another + classed[i].offset) == 0)
			continue;
		classed[i].class_of(class, sizeof(class), name);
		changed |= strcmp(class, name) != 0;
		text_copy(name, classed[i].size, class);
	}
	if (row->port != another->port && row->port_kind != REFUSED_PORT_ANY) {
		row->port = 0;
		row->port_kind = REFUSED_PORT_ANY;
		changed = true;
	}
	return changed;
}
