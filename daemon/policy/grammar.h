/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Parses sources, and adds their rules to a policy. Parsing goes on after an error, so that one run shows all errors.
 */

struct parser;
struct source;

/* Returns 0, -ENOMEM, or -EBADMSG if this source or an earlier one has errors. Can be called again after -EBADMSG. */
int grammar_read(struct parser *parser, struct source *source);
