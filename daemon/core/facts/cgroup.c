/* SPDX-License-Identifier: BSD-2-Clause */
#include <limits.h>
#include <linux/magic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "core/facts/cgroup.h"
#include "util/util.h"

#define DIGITS "0123456789"
#define HEX_DIGITS DIGITS "abcdef"
#define ID_LEN 64 /* hexadecimal digits of the id of a container or of podman's pod */
#define UID_MAX_LEN 36 /* of the uid of a pod of Kubernetes */
#define JOB_MAX_LEN 10
#define NAME_MAX_LEN ID_LEN /* fits into CGROUP_NAME_SIZE behind "user-UID/" */

/* A part of a path between slashes, or a part of that. */
struct part {
	const char *text;
	size_t len;
};

static bool is(struct part part, const char *text)
{
	return part.len == strlen(text) && memcmp(part.text, text, part.len) == 0;
}

static bool begins(struct part part, const char *with)
{
	return part.len >= strlen(with) && memcmp(part.text, with, strlen(with)) == 0;
}

static bool take_begin(struct part *part, const char *begin)
{
	if (!begins(*part, begin))
		return false;
	part->text += strlen(begin);
	part->len -= strlen(begin);
	return true;
}

static bool take_end(struct part *part, const char *end)
{
	size_t len = strlen(end);

	if (part->len < len || memcmp(part->text + part->len - len, end, len) != 0)
		return false;
	part->len -= len;
	return true;
}

static bool consists_of(struct part part, const char *characters)
{
	for (size_t i = 0; i < part.len; i++)
		if (!strchr(characters, part.text[i]))
			return false;
	return part.len > 0;
}

static bool is_id(struct part part)
{
	return part.len == ID_LEN && consists_of(part, HEX_DIGITS);
}

/* Removes all but the last ID_LEN bytes of PART. *RET_BEFORE: what was before them. */
static bool take_id(struct part *part, struct part *ret_before)
{
	size_t before = part->len - ID_LEN;

	if (part->len < ID_LEN)
		return false;
	*ret_before = (struct part){ part->text, before };
	*part = (struct part){ part->text + before, ID_LEN };
	return is_id(*part);
}

/* LXC's containers have names that the admin chooses: "lxc.payload.NAME", or "NAME" in the directory "lxc". */
static bool find_lxc(struct part part, struct part parent, struct part *ret)
{
	*ret = part;
	if (take_begin(ret, "lxc.payload."))
		return ret->len > 0;
	return is(parent, "lxc") && part.len > 0;
}

/*
 * The id of a container: "ID" itself, or behind the name of the runtime, as in "docker-ID.scope", "libpod-payload-ID"
 * or "system.slice:docker:ID".
 */
static bool find_container(struct part part, struct part parent, struct part *ret)
{
	struct part runtime;

	if (find_lxc(part, parent, ret))
		return true;
	take_end(&part, ".scope");
	*ret = part;
	if (!take_id(ret, &runtime))
		return false;
	if (runtime.len == 0)
		return true;
	if (take_end(&runtime, ":"))
		return runtime.len > 0;
	/* conmon is a process of the host that looks after a container. */
	return take_end(&runtime, "-") && runtime.len > 0 && !take_end(&runtime, "conmon");
}

/* The uid of a pod: of "kubepods-burstable-podUID.slice", or of "podUID" in a directory of Kubernetes. */
static bool find_kubernetes_pod(struct part part, struct part parent, struct part *ret)
{
	static const char *const classes[] = { "burstable", "besteffort", "kubepods" };
	bool is_slice = take_end(&part, ".slice"), has_parent = false;
	const char *begin;

	if (is_slice) {
		begin = memmem(part.text, part.len, "kubepods-", strlen("kubepods-"));
		if (!begin || (begin > part.text && begin[-1] != '-'))
			return false;
		part.len -= (size_t)(begin - part.text);
		part.text = begin;
		take_begin(&part, "kubepods-");
		if (!take_begin(&part, "burstable-"))
			take_begin(&part, "besteffort-");
		has_parent = true;
	}
	for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++)
		has_parent = has_parent || is(parent, classes[i]);
	*ret = part;
	return has_parent && take_begin(ret, "pod") && ret->len <= UID_MAX_LEN &&
	       consists_of(*ret, HEX_DIGITS "-_");
}

/* The id of podman's pod: of "machine-libpod_pod_ID.slice". */
static bool find_podman_pod(struct part part, struct part *ret)
{
	struct part before;

	*ret = part;
	return take_end(ret, ".slice") && take_id(ret, &before) &&
	       take_end(&before, "-libpod_pod_");
}

static bool is_of_slurm(struct part part)
{
	return take_end(&part, "slurmstepd.scope") || is(part, "slurm") || begins(part, "slurm_");
}

static bool find_job(struct part part, struct part *ret)
{
	*ret = part;
	return take_begin(ret, "job_") && ret->len <= JOB_MAX_LEN && consists_of(*ret, DIGITS);
}

struct search {
	const char *path;
	cgroup_owner_fn owner;
	void *userdata;
};

/*
 * The first user but root who could create a directory in one of the first LEN bytes of the path. 0: only root could.
 */
static uid_t find_author(const struct search *search, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		uid_t owner;

		if (search->path[i] != '/')
			continue;
		owner = search->owner(search->userdata, search->path, i);
		if (owner != 0)
			return owner;
	}
	return 0;
}

/* Copies NAME, with the user who has chosen it. PART is the part of the path with the name. */
static bool set_name(char ret[CGROUP_NAME_SIZE], const struct search *search, struct part part,
		     struct part name)
{
	uid_t author = find_author(search, (size_t)(part.text - search->path));
	int n = 0;

	if (author == CGROUP_NO_OWNER || name.len > NAME_MAX_LEN)
		return false;
	if (author != 0)
		n = snprintf(ret, CGROUP_NAME_SIZE, "user-%u/", author);
	snprintf(ret + n, CGROUP_NAME_SIZE - (size_t)n, "%.*s", (int)name.len, name.text);
	/* systemd's names of slices have '_' for the '-' of the uid. */
	for (char *c = ret; *c; c++)
		if (*c == '_')
			*c = '-';
	return true;
}

bool cgroup_get_names(struct cgroup_names *ret, const char *path, cgroup_owner_fn owner,
		      void *userdata)
{
	const struct search search = { path, owner, userdata };
	struct part parent = { path, 0 }, name;
	bool in_slurm = false, is_known = true;

	*ret = (struct cgroup_names){ 0 };
	while (*path == '/' && is_known) {
		struct part part = { path + 1, strcspn(path + 1, "/") };

		if (find_container(part, parent, &name))
			return set_name(ret->container, &search, part, name);
		if (!ret->pod[0] &&
		    (find_kubernetes_pod(part, parent, &name) || find_podman_pod(part, &name)))
			is_known = set_name(ret->pod, &search, part, name);
		else if (!ret->job[0] && in_slurm && find_job(part, &name))
			is_known = set_name(ret->job, &search, part, name);
		in_slurm = in_slurm || is_of_slurm(part);
		path = part.text + part.len;
		parent = part;
	}
	return is_known;
}

/* Where systemd's hierarchy is mounted, on a host with the unified hierarchy and on older ones. */
static const char *find_root(void)
{
	static const char *const roots[] = { "/sys/fs/cgroup", "/sys/fs/cgroup/unified",
					     "/sys/fs/cgroup/systemd" };
	struct statfs fs;

	for (size_t i = 0; i < sizeof(roots) / sizeof(roots[0]); i++)
		if (statfs(roots[i], &fs) == 0 &&
		    (fs.f_type == CGROUP2_SUPER_MAGIC || fs.f_type == CGROUP_SUPER_MAGIC))
			return roots[i];
	return NULL;
}

uid_t cgroup_owner(void *userdata, const char *path, size_t len)
{
	const char *root = find_root();
	char directory[PATH_MAX];
	struct stat st;

	if (!root || snprintf(directory, sizeof(directory), "%s%.*s", root, (int)len, path) >=
			     (int)sizeof(directory))
		return CGROUP_NO_OWNER;
	if (stat(directory, &st) < 0 || (st.st_mode & (S_IWGRP | S_IWOTH)))
		return CGROUP_NO_OWNER;
	return st.st_uid;
}
