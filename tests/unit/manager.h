/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * A service manager in this process, in the place of systemd: the functions by which the daemon speaks to its manager
 * are defined here. It keeps the descriptors that the daemon stores, and passes them to the next process, which is
 * another struct broker.
 */

#include <stdbool.h>

/* Begins to keep descriptors. The listening sockets at these paths are passed too. */
void manager_begin(const char *common, const char *admin, const char *helper);
/* False: the manager does not read what it is told. Default: true. */
void manager_set_reading(bool reads);
/* Drops all descriptors, as systemd does when a service is stopped. */
void manager_drop(void);
unsigned manager_count(const char *kind); /* descriptors named "KIND-N" */
unsigned manager_number(const char *kind); /* N of the newest of them; 0: none */
int manager_get(const char *kind); /* the newest of them; -1: none */
