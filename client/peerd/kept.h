/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Connections to other hosts that are kept for some time after an exchange, so that the next one takes one round trip and
 * not two. A connection proves nothing: each message in it is sealed. The other host can close it at any time.
 */

#define KEPT_MS 30000 /* the other host keeps it for longer, see SERVER_KEPT_MS */
#define KEPT_MAX 256 /* beyond that, the one is closed that was not used for the longest time */
/* What the other host does not acknowledge for so long ends the connection: there is time for another one. */
#define KEPT_SILENCE_MS 600

struct exchange_ends;
struct kept_line;
struct transfer;

struct kept {
	struct kept_line *lines; /* the one that was used last comes last */
	unsigned n;
};

/* Takes TRANSFER, between ENDS, with which nothing is going on. */
void kept_put(struct kept *kept, const struct exchange_ends *ends, struct transfer *transfer);
/* NULL: none is kept between ENDS. The caller sets who gets its results. */
struct transfer *kept_take(struct kept *kept, const struct exchange_ends *ends);
/* Closes those between ENDS; NULL: all. */
void kept_close(struct kept *kept, const struct exchange_ends *ends);
