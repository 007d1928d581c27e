/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * What a client belongs to, over a real socket. libsystemd's functions are replaced, so that the test decides where its
 * own process is.
 */

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <systemd/sd-login.h>
#include <unistd.h>

#include "tests/unit/harness.h"
#include "tests/unit/helper.h"

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define ID2 "f123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define CONTAINER "/machine.slice/libpod-" ID ".scope/container"

#define SESSIONS 60

static struct {
	const char *cgroup; /* NULL: there is no hierarchy */
	const char *machine; /* NULL: none */
	bool moves; /* the process is in another control group each time */
	unsigned n_calls;
} place;

int sd_pid_get_cgroup(pid_t pid, char **ret)
{
	if (!place.cgroup)
		return -ENOMEDIUM;
	if (asprintf(ret, "%s%s", place.cgroup, place.moves && place.n_calls++ % 2 ? "/x" : "") < 0)
		return -ENOMEM;
	return 0;
}

int sd_pid_get_unit(pid_t pid, char **ret)
{
	*ret = strdup("client.service");
	return *ret ? 0 : -ENOMEM;
}

int sd_pid_get_machine_name(pid_t pid, char **ret)
{
	if (!place.machine)
		return -ENOENT;
	*ret = strdup(place.machine);
	return *ret ? 0 : -ENOMEM;
}

#define ROOT "/sys/fs/cgroup"

int statfs(const char *path, struct statfs *ret)
{
	if (strcmp(path, ROOT) != 0)
		return (int)syscall(SYS_statfs, path, ret);
	*ret = (struct statfs){ .f_type = CGROUP2_SUPER_MAGIC };
	return 0;
}

/* The hierarchy belongs to root, except below /user. */
int stat(const char *path, struct stat *ret)
{
	if (strncmp(path, ROOT, strlen(ROOT)) != 0)
		return fstatat(AT_FDCWD, path, ret, 0);
	*ret = (struct stat){ .st_mode = S_IFDIR | 0755 };
	if (strncmp(path + strlen(ROOT), "/user", strlen("/user")) == 0)
		ret->st_uid = 1000;
	return 0;
}

static void set_up_place(void)
{
	place.cgroup = "/system.slice/client.service";
	place.machine = NULL;
	place.moves = false;
	place.n_calls = 0;
	set_up();
	harness.core->account.limit_per_user[ACCOUNT_SESSIONS] = SESSIONS + 1;
}

/* Opens a session of a client in PATH. NULL: it is refused. */
static struct rdmabroker *open_in(const char *path)
{
	const struct rdmabroker_options options = {
		.size = sizeof(options),
		.socket = harness.common_path,
	};
	struct rdmabroker *session;

	place.cgroup = path;
	return rdmabroker_open(&options, &session) == 0 ? session : NULL;
}

/* True if a client in PATH may use RDMA. The test's user can be root, so that every session is opened. */
static bool is_admitted(const char *path)
{
	struct rdmabroker *session = open_in(path);
	struct rdmabroker_id *id;
	bool is;

	if (!session)
		return false;
	is = rdmabroker_create_id(session, RDMABROKER_PS_TCP, NULL, &id) == 0 &&
	     rdmabroker_bind_addr(id, addr(0)) == 0;
	rdmabroker_close(session);
	return is;
}

START_TEST(rules_match_where_a_client_is)
{
	set_policy("allow any container 0123*\nallow any job 7\nallow any pod 0a1b\n"
		   "allow any cgroup /system.slice/a.service\nallow observe\n");
	ck_assert(is_admitted(CONTAINER));
	ck_assert(is_admitted("/system.slice/slurmstepd.scope/job_7/step_0"));
	ck_assert(is_admitted("/kubepods/pod0a1b"));
	ck_assert(is_admitted("/system.slice/a.service/b"));
	ck_assert(!is_admitted("/system.slice/slurmstepd.scope/job_8/step_0"));
	ck_assert(!is_admitted("/system.slice/client.service"));
	/* The user has chosen this name. */
	ck_assert(!is_admitted("/user/libpod-" ID ".scope"));
	place.machine = "0123";
	ck_assert(is_admitted("/machine.slice/machine-0123.scope"));
	/* Root of a machine cannot pretend to be a job. */
	place.machine = "other";
	ck_assert(!is_admitted("/machine.slice/machine-x.scope/slurmstepd.scope/job_7"));
}
END_TEST

START_TEST(the_list_shows_where_clients_are)
{
	struct rdmabroker *observer, *client;
	struct rdmabroker_list *list;
	const struct rdmabroker_listed_session *session;

	set_policy("allow any\nallow observe\n");
	observer = open_session(0);
	client = open_in("/user/kubepods/pod0a1b/" ID);
	ck_assert_int_eq(rdmabroker_get_list(observer, 0, &list), 0);
	ck_assert_uint_eq(list->n_sessions, 2);
	session = &list->sessions[0];
	ck_assert_ptr_null(session->who.container);
	ck_assert_ptr_null(session->who.pod);
	ck_assert_ptr_null(session->who.job);
	ck_assert_str_eq(session->who.cgroup, "/system.slice/client.service");
	session = &list->sessions[1];
	ck_assert_str_eq(session->who.container, "user-1000/" ID);
	ck_assert_str_eq(session->who.pod, "user-1000/0a1b");
	ck_assert_ptr_null(session->who.job);
	rdmabroker_free(list);
	rdmabroker_close(client);
	rdmabroker_close(observer);
}
END_TEST

/* A page of the list has space for fewer sessions if their names are long. */
START_TEST(long_names_are_listed)
{
	struct rdmabroker *observer, *clients[SESSIONS];
	struct rdmabroker_list *list;
	char path[400] = "/system.slice/slurmstepd.scope/job_1234567890/";

	set_policy("allow any\nallow observe\n");
	memset(path + strlen(path), 'x', sizeof(path) - strlen(path) - 1);
	for (unsigned i = 0; i < SESSIONS; i++)
		ck_assert_ptr_nonnull(clients[i] = open_in(path));
	observer = open_session(0);
	ck_assert_int_eq(rdmabroker_get_list(observer, 0, &list), 0);
	ck_assert_uint_eq(list->n_sessions, SESSIONS + 1);
	for (unsigned i = 0; i < SESSIONS; i++) {
		ck_assert_uint_eq(strlen(list->sessions[i].who.cgroup), 255);
		ck_assert_str_eq(list->sessions[i].who.job, "1234567890");
		rdmabroker_close(clients[i]);
	}
	rdmabroker_free(list);
	rdmabroker_close(observer);
}
END_TEST

START_TEST(notices_tell_where_clients_are)
{
	struct rdmabroker_filter filter = { NULL };
	struct rdmabroker *observer, *client;
	struct rdmabroker_notice *notice;

	set_policy("allow any\nallow observe\n");
	observer = open_session(0);
	filter.kind = "session";
	ck_assert_int_eq(rdmabroker_watch(observer, &filter), 0);
	client = open_in(CONTAINER);
	ck_assert_int_eq(rdmabroker_get_notice(observer, T, &notice), 0);
	ck_assert_str_eq(notice->who.container, ID);
	ck_assert_str_eq(notice->who.cgroup, CONTAINER);
	ck_assert_ptr_null(notice->who.pod);
	rdmabroker_free(notice);
	rdmabroker_close(client);
	rdmabroker_close(observer);
}
END_TEST

static bool is_admin(struct rdmabroker *session)
{
	struct rdmabroker_reload_result *result;
	int r;

	ck_assert_ptr_nonnull(session);
	r = rdmabroker_reload(session, false, &result);
	if (r == 0)
		rdmabroker_free(result);
	else
		ck_assert_int_eq(r, -EACCES);
	rdmabroker_close(session);
	return r == 0;
}

/* On the common socket, where the client is does not make anybody an admin, also if no container can be told. */
START_TEST(rights_without_a_rule_are_of_the_door)
{
	set_policy("allow any\n");
	ck_assert(!is_admin(open_in("/system.slice/client.service")));
	ck_assert(!is_admin(open_in("/")));
	ck_assert(!is_admin(open_in(NULL)));
	ck_assert(!is_admin(open_in(CONTAINER)));
	ck_assert(!is_admin(open_session_at(harness.helper_path, 0)));
	ck_assert(is_admin(open_session(0)));
	set_policy("allow any\nallow admin container 0123*\n");
	ck_assert(is_admin(open_in(CONTAINER)));
	ck_assert(!is_admin(open_in("/system.slice/client.service")));
}
END_TEST

/* A client that is in no job is in the same one as nobody, so nobody is asked. */
START_TEST(peers_of_the_same_job)
{
	struct rdmabroker *helper, *in_no_job, *in_a_job, *c;
	struct rdmabroker_notice *notice;

	set_policy("allow session\nallow listen\nallow connect\nallow accept peer-same job\n");
	helper = open_helper();
	in_no_job = open_in("/system.slice/client.service");
	in_a_job = open_in("/system.slice/slurmstepd.scope/job_4711/step_0");
	c = open_session(0);
	start_listening(in_no_job, 7471);
	start_listening(in_a_job, 7472);
	connect_to(c, 7471);
	rdmabroker_free_event(expect(c, RDMABROKER_EVENT_REJECTED));
	/* A question that came before would arrive before this reply. */
	ck_assert_int_eq(rdmabroker_serve_peers(helper), 0);
	ck_assert_int_eq(rdmabroker_get_notice(helper, 0, &notice), -EAGAIN);
	connect_to(c, 7472);
	answer_question(helper, "accept", &somebody);
	expect_request(in_a_job);
	rdmabroker_close(c);
	rdmabroker_close(in_a_job);
	rdmabroker_close(in_no_job);
	rdmabroker_close(helper);
}
END_TEST

static void *open_as_nobody(void *arg)
{
	/* The raw system call affects only this thread. */
	ck_assert_int_eq(syscall(SYS_setresuid, -1, 65534, -1), 0);
	*(bool *)arg = is_admitted("/system.slice/client.service");
	return NULL;
}

/*
 * The process has another user than the one who has connected, as after the exec of a set-user-ID program. This can have
 * moved it to another control group.
 */
START_TEST(a_process_of_another_user)
{
	bool is = true;
	pthread_t thread;

	if (geteuid() != 0) {
		fprintf(stderr, "Not run: only root can connect as another user.\n");
		return;
	}
	set_policy("allow any unit client.service\n");
	ck_assert_int_eq(chmod(harness.dir, 0755), 0);
	ck_assert_int_eq(chmod(harness.doors_dir, 0755), 0);
	ck_assert_int_eq(chmod(harness.common_path, 0666), 0);
	ck_assert(is_admitted("/system.slice/client.service"));
	ck_assert_int_eq(pthread_create(&thread, NULL, open_as_nobody, &is), 0);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert(!is);
	/* It is nothing but the names that is missing. */
	set_policy("allow any\n");
	ck_assert_int_eq(pthread_create(&thread, NULL, open_as_nobody, &is), 0);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert(is);
}
END_TEST

START_TEST(a_process_that_moves)
{
	set_policy("allow any unit client.service\n");
	ck_assert(is_admitted("/system.slice/client.service"));
	place.moves = true;
	ck_assert(!is_admitted("/system.slice/client.service"));
}
END_TEST

/* What is not known about a program is told to other hosts as not known, and not as none. */
START_TEST(other_hosts_are_told_what_is_not_known)
{
	const struct rdmabroker_peer_address address = { .listens = true,
							 .ps = RDMABROKER_PS_TCP,
							 .local = addr(7471) };
	struct rdmabroker_who *found;
	struct rdmabroker *helper, *s;

	set_policy("allow any\n");
	helper = open_helper();
	for (int moves = 0; moves < 2; moves++) {
		place.moves = moves;
		s = open_in("/system.slice/client.service");
		start_listening(s, 7471);
		ck_assert_int_eq(rdmabroker_find_peer(helper, &address, &found), 0);
		ck_assert_int_eq(found->knows_workload, !moves);
		rdmabroker_free(found);
		rdmabroker_close(s);
		await_counts(1, 0);
	}
	rdmabroker_close(helper);
}
END_TEST

/* Whether there are control groups is a fact about the host, not about a client whose control group is not found. */
START_TEST(a_client_without_a_control_group)
{
	set_policy("reject any container *\nallow any\n");
	ck_assert(is_admitted("/system.slice/client.service"));
	ck_assert(!is_admitted(NULL));
	tear_down();
	place.cgroup = NULL;
	set_up();
	set_policy("reject any container *\nallow any\n");
	ck_assert(is_admitted(NULL));
}
END_TEST

/* Whether a client in a pid namespace of its own is admitted; its control group names no container. -1: cannot be made. */
static int is_admitted_enclosed(void)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		if (unshare(CLONE_NEWPID | (geteuid() == 0 ? 0 : CLONE_NEWUSER)) < 0)
			_exit(2);
		child = fork();
		if (child == 0)
			_exit(is_admitted("/system.slice/client.service"));
		_exit(waitpid(child, &status, 0) == child && WIFEXITED(status) ?
			      WEXITSTATUS(status) :
			      3);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) != 3);
	return WEXITSTATUS(status) == 2 ? -1 : WEXITSTATUS(status);
}

/* It can be a container of --cgroups=disabled, which is in the control group of its caller. */
START_TEST(a_client_that_can_be_in_a_container)
{
	static const char *const rules[] = {
		"allow any unit client.service\n",
		"allow any cgroup /system.slice/client.service\n",
		"reject any container *\nallow any\n",
	};

	set_policy("allow any\n");
	if (is_admitted_enclosed() < 0) {
		fprintf(stderr, "skipped: the kernel lets this user make no namespaces\n");
		return;
	}
	ck_assert_int_eq(is_admitted_enclosed(), 1);
	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		set_policy(rules[i]);
		ck_assert(is_admitted("/system.slice/client.service"));
		ck_assert_int_eq(is_admitted_enclosed(), 0);
	}
}
END_TEST

UNIT_MAIN("workload", set_up_place, tear_down, rules_match_where_a_client_is,
	  the_list_shows_where_clients_are, long_names_are_listed, notices_tell_where_clients_are,
	  rights_without_a_rule_are_of_the_door, peers_of_the_same_job, a_process_of_another_user,
	  a_process_that_moves, a_client_without_a_control_group,
	  a_client_that_can_be_in_a_container, other_hosts_are_told_what_is_not_known)
