/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The options of an id: what the client has requested, and what is in force. A new option is a number here, a row and
 * its values in the ledger in options.c, and a case in verbs/option.c if policy decides about it.
 */

#include <stdbool.h>

struct fabric_id;
struct ledger_id;

enum option {
	OPTION_TOS,
	OPTION_REUSEADDR,
	OPTION_AFONLY,
	OPTION_ACK_TIMEOUT,
	OPTION_MIN_RNR_TIMER,
	OPTION_QP_TYPE,
	_OPTION_MAX,
};

struct options {
	int asked
		[_OPTION_MAX]; /* requested by the client, for options that policy decides about; -1: not requested */
	int now[_OPTION_MAX]; /* in force; -1: not set, so as in the kernel */
};

struct option_kind {
	int number; /* RDMA_OPTION_ID_*; from 64 up, which the kernel does not know: RDMABROKER_OPTION_* */
	const char *name;
	int max; /* 1: a boolean, every number but 0 is true */
	unsigned states; /* bit i: it can be set in enum id_state i */
	/* set again in a fabric id that replaces the id's old one; the TOS is set when the address is resolved */
	bool is_kept;
};

extern const struct option_kind option_kinds[_OPTION_MAX];

void options_init(struct options *options);
void options_save(const struct options *options, struct ledger_id *row);
void options_load(struct options *options, const struct ledger_id *row);
/* Sets the options in FABRIC that are in force. Returns 0 or a negative errno. */
int options_put(const struct options *options, struct fabric_id *fabric);
/* Sets an option, and in FABRIC if the kernel knows it. Returns 0 or a negative errno: then nothing has changed. */
int options_set(struct options *options, struct fabric_id *fabric, enum option option, int value);

static inline bool options_has_reuseaddr(const struct options *options)
{
	return options->now[OPTION_REUSEADDR] > 0;
}

static inline bool options_wants_reuseaddr(const struct options *options)
{
	return options->asked[OPTION_REUSEADDR] > 0;
}
