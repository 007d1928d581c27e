/* SPDX-License-Identifier: BSD-2-Clause */

/* The names of containers, pods and jobs in the paths of control groups, and who has chosen them. */

#include <stdio.h>
#include <string.h>

#include "core/facts/cgroup.h"
#include "tests/unit/unit.h"

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define ID2 "f123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define USER "/user.slice/user-1000.slice/user@1000.service"

/* The directory from which on directories belong to a user. NULL: all belong to root. */
static const char *delegated;
static uid_t owner;

static uid_t get_owner(void *userdata, const char *path, size_t len)
{
	return delegated && len >= strlen(delegated) &&
			       strncmp(path, delegated, strlen(delegated)) == 0 ?
		       owner :
		       0;
}

static void check(const char *path, const char *container, const char *pod, const char *job)
{
	struct cgroup_names names;

	ck_assert(cgroup_get_names(&names, path, get_owner, NULL));
	ck_assert_msg(strcmp(names.container, container) == 0, "%s: container %s", path,
		      names.container);
	ck_assert_msg(strcmp(names.pod, pod) == 0, "%s: pod %s", path, names.pod);
	ck_assert_msg(strcmp(names.job, job) == 0, "%s: job %s", path, names.job);
}

static void set_up(void)
{
	delegated = NULL;
	owner = 1000;
}

static void tear_down(void)
{
}

START_TEST(containers_are_found)
{
	check("/machine.slice/libpod-" ID ".scope/container", ID, "", "");
	check("/machine.slice/libpod-" ID ".scope", ID, "", "");
	check("/libpod_parent/libpod-" ID, ID, "", "");
	check("/site.slice/libpod-" ID ".scope/container", ID, "", "");
	check("/system.slice/docker-" ID ".scope", ID, "", "");
	check("/docker/" ID, ID, "", "");
	check("/docker/" ID "/deeper", ID, "", "");
	check("/system.slice/nerdctl-" ID ".scope", ID, "", "");
	check("/system.slice/app.service/libpod-payload-" ID, ID, "", "");
	check("/system.slice/app.service/runtime/libpod-payload-" ID, ID, "", "");
	check("/" ID, ID, "", "");
	check("/site.slice/" ID, ID, "", "");
	check("/dockerx/" ID, ID, "", "");
	check("/site/docker-" ID, ID, "", "");
	check("/system.slice/buildah-" ID ".scope", ID, "", "");
	check("/system.slice/system.slice:docker:" ID, ID, "", "");
	check("/kubepods/burstable/pod0a1b/crio-" ID, ID, "0a1b", "");
	check("/kubepods/pod0a1b/cri-containerd-" ID, ID, "0a1b", "");
	check("/lxc.payload.web/init.scope", "web", "", "");
	check("/lxc/web", "web", "", "");
	check("/lxc/web/docker/" ID, "web", "", "");
}
END_TEST

START_TEST(other_groups_have_no_container)
{
	static const char *const paths[] = {
		"/",
		"",
		"/system.slice/sshd.service",
		"/machine.slice/libpod-conmon-" ID ".scope",
		"/kubepods.slice/crio-conmon-" ID ".scope",
		"/kubepods/burstable/pod/crio-conmon-" ID,
		"/lxc.monitor.web",
		"/lxc.payload.",
		"/lxc",
		"/system.slice/-" ID ".scope",
		"/system.slice/:" ID,
		"/system.slice/docker-" ID ".service",
		"/system.slice/docker-" ID "0.slice",
		"/docker/0123",
		"/system.slice/job_12",
		"/system.slice/pod0a1b",
	};

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		check(paths[i], "", "", "");
}
END_TEST

START_TEST(pods_are_found)
{
	check("/kubepods.slice/kubepods-burstable.slice/"
	      "kubepods-burstable-pod0a1b2c3d_0a1b_4a1b_8a1b_0a1b2c3d4e5f.slice/"
	      "cri-containerd-" ID ".scope",
	      ID, "0a1b2c3d-0a1b-4a1b-8a1b-0a1b2c3d4e5f", "");
	check("/kubepods.slice/kubepods-pod0a1b.slice/crio-" ID ".scope/container", ID, "0a1b", "");
	check("/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/"
	      "kubelet-kubepods-besteffort-pod0a1b.slice/cri-containerd-" ID ".scope",
	      ID, "0a1b", "");
	check("/kubepods/burstable/pod0a1b-2c3d/" ID, ID, "0a1b-2c3d", "");
	check("/kubepods/pod0a1b-2c3d", "", "0a1b-2c3d", "");
	check("/machine.slice/machine-libpod_pod_" ID2 ".slice/libpod-" ID ".scope/container", ID,
	      ID2, "");
	check("/kubepods.slice/kubepods-podx_y.slice", "", "", "");
	check("/kubepods.slice/xkubepods-pod0a1b.slice", "", "", "");
	check("/kubepods/burstable/pod", "", "", "");
}
END_TEST

START_TEST(jobs_are_found)
{
	check("/system.slice/slurmstepd.scope/job_123/step_0/user/task_0", "", "", "123");
	check("/system.slice/node1_slurmstepd.scope/job_4/step_batch", "", "", "4");
	check("/slurm/uid_1000/job_5/step_0", "", "", "5");
	check("/slurm_node1/uid_1000/job_5", "", "", "5");
	check("/system.slice/slurmstepd.scope/job_12/step_0/libpod-" ID ".scope", ID, "", "12");
	check("/system.slice/slurmstepd.scope/job_x", "", "", "");
	check("/system.slice/slurmstepd.scope/job_12345678901", "", "", "");
}
END_TEST

/* The names that a user could choose have his uid. */
START_TEST(names_of_users_are_qualified)
{
	delegated = USER;
	check(USER "/user.slice/libpod-" ID ".scope/container", "user-1000/" ID, "", "");
	check(USER "/user.slice/user-libpod_pod_" ID2 ".slice/libpod-" ID ".scope", "user-1000/" ID,
	      "user-1000/" ID2, "");
	check(USER "/kubepods/pod0a1b/" ID, "user-1000/" ID, "user-1000/0a1b", "");
	check(USER "/slurm/job_7", "", "", "user-1000/7");
	/* The largest uid. */
	owner = 4294967294;
	check(USER "/docker/" ID, "user-4294967294/" ID, "", "");
}
END_TEST

/* The first user who could have chosen counts, also if a directory below belongs to another one, or to root. */
static uid_t get_several_owners(void *userdata, const char *path, size_t len)
{
	return len == strlen("/a")   ? 1000 :
	       len > strlen("/a/b")  ? 0 :
	       len == strlen("/a/b") ? 2000 :
				       0;
}

START_TEST(the_first_owner_counts)
{
	struct cgroup_names names;

	ck_assert(cgroup_get_names(&names, "/a/b/docker/" ID, get_several_owners, NULL));
	ck_assert_str_eq(names.container, "user-1000/" ID);
}
END_TEST

/* A directory that belongs to a user has a name that root has chosen. */
START_TEST(a_delegated_container_is_not_qualified)
{
	delegated = "/machine.slice/libpod-" ID ".scope";
	check("/machine.slice/libpod-" ID ".scope/container", ID, "", "");
}
END_TEST

/* Who is root in a container cannot pretend to be in another container, pod or job. */
START_TEST(names_in_a_container_do_not_count)
{
	check("/system.slice/docker-" ID ".scope/docker/" ID2, ID, "", "");
	check("/system.slice/docker-" ID ".scope/kubepods/pod0a1b/" ID2, ID, "", "");
	check("/system.slice/docker-" ID ".scope/slurmstepd.scope/job_7", ID, "", "");
}
END_TEST

START_TEST(an_unknown_owner)
{
	struct cgroup_names names;

	delegated = "/docker";
	owner = CGROUP_NO_OWNER;
	ck_assert(!cgroup_get_names(&names, "/docker/" ID, get_owner, NULL));
	ck_assert(!cgroup_get_names(&names, "/docker/kubepods/pod0a1b", get_owner, NULL));
	/* A name that is too long is not cut. */
	ck_assert(!cgroup_get_names(&names, "/lxc.payload." ID "0", get_owner, NULL));
	/* Nobody asks who owns a path without names. */
	ck_assert(cgroup_get_names(&names, "/docker/other", get_owner, NULL));
}
END_TEST

/* The kernel's own hierarchy: its root belongs to root. */
START_TEST(the_real_owner)
{
	uid_t real = cgroup_owner(NULL, "", 0);

	ck_assert(real == 0 || real == CGROUP_NO_OWNER || real == 65534);
	ck_assert_uint_eq(cgroup_owner(NULL, "/there/is/none", strlen("/there/is/none")),
			  CGROUP_NO_OWNER);
}
END_TEST

UNIT_MAIN("cgroup", set_up, tear_down, containers_are_found, other_groups_have_no_container,
	  pods_are_found, jobs_are_found, names_of_users_are_qualified, the_first_owner_counts,
	  a_delegated_container_is_not_qualified, names_in_a_container_do_not_count,
	  an_unknown_owner, the_real_owner)
