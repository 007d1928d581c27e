/* SPDX-License-Identifier: BSD-2-Clause */
#include "causes.h"

int causes_add(struct causes *causes, uint64_t cause)
{
	size_t n = causes->n < CAUSES_MAX ? causes->n : CAUSES_MAX;

	for (size_t i = 0; i < n; i++)
		if (causes->known[i] == cause)
			return 0;
	causes->known[causes->n++ % CAUSES_MAX] = cause;
	return 1;
}

int causes_add_text(struct causes *causes, const char *text)
{
	/* FNV-1a. If two texts have the same value, one of them is not reported. */
	uint64_t hash = 0xcbf29ce484222325;

	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * 0x100000001b3;
	return causes_add(causes, hash);
}

int causes_clear(struct causes *causes)
{
	int had = causes->n > 0;

	causes->n = 0;
	return had;
}
