/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Owners: who has to answer for what a process does. Whatever has to be fair asks for the owner, and not for the uid.
 *
 * A user with a range in /etc/subuid can act as 65,536 other uids, by a user namespace, and would have as many times his
 * quotas. So such a range counts as its user, if he is an ordinary one.
 *
 * The ranges of root, of system users and of users who are not found are those of container managers: they hold many
 * tenants, so they have many owners. An owner is a line of a process's uid_map, which is a container, or a single uid if
 * that is not known. Root of a container can make such lines, within his own: all owners of a range together have no more
 * than one owner's share. Ranges of user namespaces that the file does not name, for example those that systemd-nspawn
 * picks, count as one range, of strangers: how many there are is only known to who has made them.
 *
 * Uids of root and of system users are in no range.
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
/* Some users have ranges that are not in OWNERS. */
void owners_set_incomplete(struct owners *owners); /* takes NULL */

/* Puts OWNERS, which is taken over, in force; NULL: there are no ranges. */
void owners_use(struct owners *owners);

#define OWNER_ALONE ((uid_t)-1)
#define OWNER_STRANGERS ((uid_t)-2)

struct owner {
	uid_t uid; /* an ordinary user, or the first uid of a line, or a single uid */
	uid_t range; /* the first uid of the range that has more owners; or one of the above */
};

/* The owner of a process with UID in the daemon's user namespace. His uid is usually UID itself. */
struct owner owner_of(uid_t uid);
/*
 * The owner of a process with UID in another user namespace. FIRST is the first uid of the line of its uid_map that has
 * UID, or UID if the line is not known.
 */
struct owner owner_of_stranger(uid_t uid, uid_t first);
/* True: each uid can be one of a user's range that is not known, see owners_set_incomplete(). */
bool owners_are_incomplete(void);
/* False: the owner of UID does not depend on the user namespace. */
bool owner_depends_on_namespace(uid_t uid);

/* A number for all who count as one owner for others: the range, or the owner if he is alone. */
static inline uint64_t owner_group(struct owner owner)
{
	return owner.range == OWNER_ALONE ? owner.uid : UINT64_C(1) << 32 | owner.range;
}

/* A number for OWNER and nobody else. */
static inline uint64_t owner_key(struct owner owner)
{
	return (uint64_t)owner.uid << 32 | owner.range;
}

static inline bool owner_is(struct owner a, struct owner b)
{
	return a.uid == b.uid && a.range == b.range;
}
