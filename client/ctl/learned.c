/* SPDX-License-Identifier: BSD-2-Clause */
#include <inttypes.h>

#include "learned.h"

#define OF(member) COLUMN_OF(struct rdmabroker_learned, member)

const struct column learned_columns[] = {
	{ NULL, "since_ms", OF(since_ms), COLUMN_NO_ZERO },
	{ NULL, "rows", OF(n_rows) },
	{ NULL, "left", OF(n_left) },
	{ NULL, "left_ms", OF(left_ms), COLUMN_NO_ZERO },
	{ NULL },
};

void learned_print(FILE *file, const struct rdmabroker_learned *learned)
{
	char text[TIME_TEXT_MAX];

	if (learned->since_ms == 0) {
		fputs("an older daemon does not say since when was watched", file);
		return;
	}
	fprintf(file, "watched since %s; ",
		time_to_text(text, (int64_t)(learned->since_ms / 1000)));
	if (learned->n_left == 0) {
		fputs("no row has left", file);
		return;
	}
	fprintf(file, "%" PRIu64 " row%s left since %s, because there were too many",
		learned->n_left, learned->n_left == 1 ? " has" : "s have",
		time_to_text(text, (int64_t)(learned->left_ms / 1000)));
}
