/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Owners: who has to answer for a uid. A user with a range in /etc/subuid can act as 65,536 other uids, by a user
 * namespace, and would have as many times his quotas. So such a range counts as its owner, if he is an ordinary user.
 * The ranges of root and of system users are those of container managers: they hold many tenants, so each uid is an
 * owner of its own, but the range together cannot hold more than one owner's share of what there is, see
 * util/account.h. Uids of root and of system users are in no range.
 *
 * The ranges in force belong to the process, and are used only by the thread of the loop.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct diag;
struct owners;

/*
 * Reads the file at PATH: "user:first:number" in each line. Users are looked up in PASSWD, which is usually
 * /etc/passwd. A missing file is empty. What is wrong in a line is a warning in DIAG, which can be NULL. Returns 0,
 * -ENOMEM or another errno if a file cannot be read.
 */
int owners_read(struct owners **ret, const char *path, const char *passwd, struct diag *diag);
struct owners *owners_free(struct owners *owners); /* takes NULL; returns NULL */
/*
 * Looks up the users who are not in PASSWD by the name service, which can block; gives up after some seconds. Ranges of
 * users who are not found count as those of system users.
 */
void owners_look_up(struct owners *owners); /* takes NULL */
size_t owners_count_missing(
	const struct owners *owners); /* ranges whose users were not found; takes NULL */

/* True: the file at PATH, usually /etc/nsswitch.conf, names another source of subordinate uids than files. */
bool owners_have_other_source(const char *path);

/* Puts OWNERS, which is taken over, in force; NULL: there are no ranges. */
void owners_use(struct owners *owners);

/* The owner of UID, which is usually UID itself. */
uid_t owner_of(uid_t uid);
/* True: UID is in a range with many owners, and *RET is the first uid of the range. */
bool owner_has_range(uid_t uid, uid_t *ret);
