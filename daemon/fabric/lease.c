/* SPDX-License-Identifier: BSD-2-Clause */
#include <acl/libacl.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/acl.h>
#include <unistd.h>

#include "fabric/internal.h"
#include "util/util.h"

/*
 * A lease is an ACL entry of its user on the device's node. Leases of one user share the entry: the grant
 * counts them. The node's owner, and root, need no entry.
 */
struct grant {
	struct list link; /* fabric_device.grants */
	uid_t uid;
	unsigned n_leases;
};

struct fabric_lease {
	struct fabric_device *device;
	struct grant *grant;
};

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

static int change(const char *node, uid_t uid, bool granted)
{
	_cleanup_(acl_freep) acl_t acl = acl_get_file(node, ACL_TYPE_ACCESS);
	int r;

	if (!acl)
		return errno == ENOENT ? -ENODEV : -errno;
	r = granted ? allow(&acl, uid) : deny(acl, uid);
	if (r < 0)
		return r;
	if (acl_calc_mask(&acl) < 0 || acl_set_file(node, ACL_TYPE_ACCESS, acl) < 0)
		return errno == ENOENT ? -ENODEV : -errno;
	return 0;
}

static bool needs_entry(const struct fabric_device *device, uid_t uid)
{
	return device->fabric->access == FABRIC_ACCESS_ACL && uid != 0 && uid != geteuid();
}

/* Entries that no lease stands for are dropped as a whole: the base entries are all that stays. */
void fabric_clear_leases(struct fabric_device *device)
{
	_cleanup_(acl_freep) acl_t acl = NULL;
	struct stat st;

	if (stat(device->node, &st) < 0 || st.st_uid != geteuid())
		return;
	if (acl_extended_file(device->node) <= 0)
		return;
	acl = acl_from_mode(st.st_mode);
	if (acl)
		acl_set_file(device->node, ACL_TYPE_ACCESS, acl);
}

static int grant_get(struct fabric_device *device, uid_t uid, struct grant **ret)
{
	struct grant *grant;
	struct list *l;
	int r;

	list_for_each(l, &device->grants) {
		grant = container_of(l, struct grant, link);
		if (grant->uid == uid) {
			grant->n_leases++;
			*ret = grant;
			return 0;
		}
	}
	grant = calloc(1, sizeof(*grant));
	if (!grant)
		return -ENOMEM;
	r = needs_entry(device, uid) ? change(device->node, uid, /* granted= */ true) : 0;
	if (r < 0) {
		free(grant);
		return r;
	}
	grant->uid = uid;
	grant->n_leases = 1;
	list_insert(&device->grants, &grant->link);
	*ret = grant;
	return 0;
}

static void grant_put(struct fabric_device *device, struct grant *grant)
{
	if (--grant->n_leases > 0)
		return;
	/* The node of a device that is gone is gone too, and its name may be another's by now. */
	if (!device->gone && needs_entry(device, grant->uid))
		change(device->node, grant->uid, /* granted= */ false);
	list_remove(&grant->link);
	free(grant);
}

int fabric_lease_new(struct fabric_lease **ret, struct fabric_device *device, uid_t uid)
{
	struct fabric_lease *lease = calloc(1, sizeof(*lease));
	int r;

	if (!lease)
		return -ENOMEM;
	r = grant_get(device, uid, &lease->grant);
	if (r < 0) {
		free(lease);
		return r;
	}
	lease->device = device;
	device->n_leases++;
	device->n_refs++;
	*ret = lease;
	return 0;
}

struct fabric_lease *fabric_lease_free(struct fabric_lease *lease)
{
	if (!lease)
		return NULL;
	grant_put(lease->device, lease->grant);
	lease->device->n_leases--;
	fabric_device_unref(lease->device);
	free(lease);
	return NULL;
}
