/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <sys/acl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fabric/device/nodeacl.h"
#include "util/util.h"

#define EVERYBODY (S_IROTH | S_IWOTH)

static inline void acl_freep(acl_t *acl)
{
	if (*acl)
		acl_free(*acl);
}

/* *RET is NULL if there is no entry for UID. */
static int find_entry(acl_t acl, uid_t uid, acl_entry_t *ret)
{
	acl_entry_t entry;
	int r;

	for (r = acl_get_entry(acl, ACL_FIRST_ENTRY, &entry); r > 0;
	     r = acl_get_entry(acl, ACL_NEXT_ENTRY, &entry)) {
		acl_tag_t tag;
		uid_t *id;
		bool found;

		if (acl_get_tag_type(entry, &tag) < 0)
			return -errno;
		if (tag != ACL_USER)
			continue;
		id = acl_get_qualifier(entry);
		if (!id)
			return -errno;
		found = *id == uid;
		acl_free(id);
		if (found) {
			*ret = entry;
			return 0;
		}
	}
	*ret = NULL;
	return r < 0 ? -errno : 0;
}

static int allow(acl_t *acl, uid_t uid)
{
	acl_permset_t permset;
	acl_entry_t entry;
	int r;

	r = find_entry(*acl, uid, &entry);
	if (r < 0)
		return r;
	if (!entry && (acl_create_entry(acl, &entry) < 0 || acl_set_tag_type(entry, ACL_USER) < 0 ||
		       acl_set_qualifier(entry, &uid) < 0))
		return -errno;
	if (acl_get_permset(entry, &permset) < 0 || acl_clear_perms(permset) < 0 ||
	    acl_add_perm(permset, ACL_READ | ACL_WRITE) < 0)
		return -errno;
	return 0;
}

static int deny(acl_t acl, uid_t uid)
{
	acl_entry_t entry;
	int r = find_entry(acl, uid, &entry);

	if (r < 0 || !entry)
		return r;
	return acl_delete_entry(acl, entry) < 0 ? -errno : 0;
}

static int load(const char *node, acl_t *ret)
{
	*ret = acl_get_file(node, ACL_TYPE_ACCESS);
	if (!*ret)
		return errno == ENOENT ? -ENODEV : -errno;
	return 0;
}

/* NULL: there is none. */
static acl_entry_t first_of(acl_t acl, acl_tag_t wanted)
{
	acl_entry_t entry;
	acl_tag_t tag;

	for (int r = acl_get_entry(acl, ACL_FIRST_ENTRY, &entry); r > 0;
	     r = acl_get_entry(acl, ACL_NEXT_ENTRY, &entry))
		if (acl_get_tag_type(entry, &tag) == 0 && tag == wanted)
			return entry;
	return NULL;
}

static int store(const char *node, acl_t *acl)
{
	acl_entry_t mask = first_of(*acl, ACL_MASK);
	bool extended = first_of(*acl, ACL_USER) || first_of(*acl, ACL_GROUP);
	int r;

	/* Without named entries, delete the mask, because tools would show the node as one with an ACL. */
	if (extended)
		r = acl_calc_mask(acl);
	else
		r = mask ? acl_delete_entry(*acl, mask) : 0;
	if (r < 0 || acl_set_file(node, ACL_TYPE_ACCESS, *acl) < 0)
		return errno == ENOENT ? -ENODEV : -errno;
	return 0;
}

/* Nodes that the admin has opened are root's: everybody has access, and entries are of no use. */
static bool is_open(const char *node)
{
	struct stat st;

	return stat(node, &st) == 0 && (st.st_mode & EVERYBODY) == EVERYBODY;
}

int nodeacl_set(const char *node, uid_t uid, bool granted)
{
	_cleanup_(acl_freep) acl_t acl = NULL;
	int r;

	r = load(node, &acl);
	if (r < 0)
		return r;
	r = granted ? allow(&acl, uid) : deny(acl, uid);
	if (r < 0)
		return r;
	r = store(node, &acl);
	return r == -EPERM && is_open(node) ? 0 : r;
}

int nodeacl_clear(const char *node)
{
	_cleanup_(acl_freep) acl_t acl = NULL;
	acl_entry_t entry;
	struct stat st;
	int r;

	/* If another user owns the node, its entries are not the daemon's. */
	if (stat(node, &st) < 0 || st.st_uid != geteuid())
		return 0;
	r = load(node, &acl);
	if (r < 0 || !first_of(acl, ACL_USER))
		return r;
	while ((entry = first_of(acl, ACL_USER)))
		if (acl_delete_entry(acl, entry) < 0)
			return -errno;
	return store(node, &acl);
}
