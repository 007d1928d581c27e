/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The real rdmabrokerctl, with the real check of rdmabrokerd. The harness's daemon reloads a file of its own, so the
 * tests decide whether a reload succeeds. The check reads the file "local/50.rules" of the harness's directory as this host's.
 */

#include "tests/unit/exporter.h" /* write_text() */
#include "tests/unit/program.h"

extern char site[128], work[128];

#define site(...) ctl("site", "--directory", site, __VA_ARGS__)

/* Writes the file NAME of the version VERSION. Returns the directory of the version. */
const char *version(const char *version, const char *name, const char *text);
void set_up_site(void);
void tear_down_site(void);
/* EXPECTED: what the link names; NULL: there is none. */
void assert_current(const char *expected);
/* Installs the version in DIR at a daemon that does not answer, and is killed when it waits for the reload. */
void kill_in_reload(const char *dir);
