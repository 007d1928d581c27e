/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

#include "sha256.h"

/*
 * A digest of what of this host decides whether a version is valid here: its configuration and own rules, its local users and
 * groups, and the installed daemon, by the size and the times of their files. Users of a directory service are not in it.
 */
void sitehost_digest(char ret[SHA256_TEXT]);
