/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/* A folder with the files of one daemon, for tests with the hooks and for measurements: its configuration, its policy and its socket. */

struct broker;

/* Make the folder, with the texts of the rules and of the configuration. The library's clients use its socket. */
void place_make(const char *rules, const char *config);
/* Replace the texts. */
void place_write(const char *rules, const char *config);
/* Make a daemon that uses the folder. Its clients' socket is that for administration. */
void place_start(struct broker **ret);
const char *place_path(const char *name, char ret[64]); /* of the file NAME; returns RET */
void place_remove(void);
