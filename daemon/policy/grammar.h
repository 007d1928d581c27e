/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Parses sources, one after the other, and adds their rules to a policy. After an error the parser continues
 * with the next line, or within the line if the meaning of the rest is still clear, so that one run shows all
 * errors.
 */

struct parser;
struct source;

/*
 * Returns 0, -ENOMEM, or -EBADMSG if this source or an earlier one has errors. After -EBADMSG further sources can
 * be read, to find more errors.
 */
int grammar_read(struct parser *parser, struct source *source);
