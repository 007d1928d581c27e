/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* Names of systemd's units that are others the next time: no rule can name them. */

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* As systemd names what systemd-run starts: "run-u7.service". */
static inline bool unit_is_transient(const char *unit)
{
	size_t n;

	if (strncmp(unit, "run-", 4) != 0 || !unit[4] || !strchr("upr", unit[4]))
		return false;
	n = strspn(unit + 5, "0123456789abcdefi-");
	return n > 0 && strcmp(unit + 5 + n, ".service") == 0;
}

/* UNIT, or for one that is another the next time what all of them are: "session-*.scope", "run-*.service". */
static inline void unit_class(char *ret, size_t size, const char *unit)
{
	const char *end = strrchr(unit, '.'), *hyphen = strchr(unit, '-');
	bool is_one = hyphen && end > hyphen &&
		      (strcmp(end, ".scope") == 0 || unit_is_transient(unit));

	snprintf(ret, size, "%.*s%s%s", is_one ? (int)(hyphen + 1 - unit) : (int)strlen(unit), unit,
		 is_one ? "*" : "", is_one ? end : "");
}

/* False: UNIT is another the next time, or such a class. */
static inline bool unit_comes_back(const char *unit)
{
	const char *end = strrchr(unit, '.');

	return !(end && strcmp(end, ".scope") == 0 && strchr(unit, '-')) &&
	       !unit_is_transient(unit) && strcmp(unit, "run-*.service") != 0;
}
