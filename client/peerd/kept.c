/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "exchange.h"
#include "kept.h"
#include "transfer.h"

struct kept_line {
	struct kept *kept;
	struct exchange_ends ends;
	struct transfer *transfer;
	struct kept_line *prev, *next; /* kept.lines */
};

static bool is_between(const struct kept_line *line, const struct exchange_ends *ends)
{
	return memcmp(&line->ends, ends, sizeof(*ends)) == 0;
}

/* Returns the line's transfer. */
static struct transfer *line_free(struct kept_line *line)
{
	struct transfer *transfer = line->transfer;

	DL_DELETE(line->kept->lines, line);
	line->kept->n--;
	free(line);
	return transfer;
}

/* Its time is over, or the other host has closed it. */
static void on_transfer(void *userdata, int r)
{
	transfer_free(line_free(userdata));
}

void kept_put(struct kept *kept, const struct exchange_ends *ends, struct transfer *transfer)
{
	struct kept_line *line = calloc(1, sizeof(*line));

	if (!line) {
		transfer_free(transfer);
		return;
	}
	if (kept->n == KEPT_MAX)
		transfer_free(line_free(kept->lines));
	line->kept = kept;
	line->ends = *ends;
	line->transfer = transfer;
	DL_APPEND(kept->lines, line);
	kept->n++;
	transfer_limit_silence(transfer, KEPT_SILENCE_MS);
	transfer_pass(transfer, KEPT_MS, on_transfer, line);
	transfer_watch(transfer);
}

struct transfer *kept_take(struct kept *kept, const struct exchange_ends *ends)
{
	struct kept_line *line;

	DL_FOREACH(kept->lines, line)
		if (is_between(line, ends))
			return line_free(line);
	return NULL;
}

void kept_close(struct kept *kept, const struct exchange_ends *ends)
{
	struct kept_line *line, *next;

	DL_FOREACH_SAFE(kept->lines, line, next)
		if (!ends || is_between(line, ends))
			transfer_free(line_free(line));
}
