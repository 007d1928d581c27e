/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "config.h"
#include "core/object/session.h"
#include "instance.h"
#include "rpc/upstream.h"
#include "tests/unit/be_user.h"
#include "tests/unit/harness.h"
#include "util/diag.h"
#include "util/util.h"

#define UID 1234

/* The harness is the initial instance. The instance that connects to it is here, with a fabric of its own. */
static sd_event *loop;
static struct fabric *fabric;
static struct upstream *upstream;
static int answer;

static void on_device(void *userdata, struct fabric_device *device)
{
}

static void on_go_on(void *userdata, in_port_t port)
{
}

static const struct fabric_ops ops = {
	.device_added = on_device,
	.device_removed = on_device,
	.can_go_on = on_go_on,
};

static void set_up_instance(void)
{
	set_up();
	ck_assert_int_ge(sd_event_new(&loop), 0);
	ck_assert_int_eq(fabric_new(&fabric, loop, FABRIC_ACCESS_ACL, &ops, NULL), 0);
	ck_assert_int_eq(upstream_new(&upstream, loop, harness.socket_path, fabric), 0);
}

static void tear_down_instance(void)
{
	upstream = upstream_free(upstream);
	fabric_free(fabric);
	sd_event_unref(loop);
	tear_down();
}

static void run_until(bool (*done)(void))
{
	while (!done())
		ck_assert_int_gt(sd_event_run(loop, T * 1000ULL), 0);
}

static bool is_answered(void)
{
	return answer != 1;
}

static void on_answer(void *userdata, int r)
{
	answer = r;
}

static int lend(struct fabric_lease **ret)
{
	struct fabric_device *device = fabric_next_device(fabric, NULL);

	answer = 1;
	ck_assert_ptr_nonnull(device);
	ck_assert_int_eq(fabric_lease_new(ret, device, UID, FABRIC_ACCESS_DEFAULT, on_answer, NULL),
			 -EINPROGRESS);
	run_until(is_answered);
	return answer;
}

static unsigned n_leases;

static void count(void *arg)
{
	n_leases = fabric_device_n_leases(fabric_next_device(harness.core->fabric, NULL));
}

static bool is_given_back(void)
{
	in_server(count, NULL);
	return n_leases == 0;
}

START_TEST(access_is_the_initial_instances)
{
	struct fabric_lease *lease;

	ck_assert_int_eq(lend(&lease), 0);
	in_server(count, NULL);
	ck_assert_uint_eq(n_leases, 1);
	/* The loan is the session's, which is not kept over a restart. */
	fabric_lease_free(lease);
	run_until(is_given_back);
}
END_TEST

static void forbid(void *arg)
{
	fake_fail_next(harness.core->fabric, FAKE_LEASE_NEW, -EPERM);
}

START_TEST(access_that_is_refused)
{
	struct fabric_lease *lease;

	in_server(forbid, NULL);
	ck_assert_int_eq(lend(&lease), -EPERM);
	fabric_lease_free(lease);
	run_until(is_given_back);
}
END_TEST

static bool is_lent_again(void)
{
	return fake_n_lent_again(fabric) == 1;
}

/* The initial instance is gone: what was lent ends with it, and a new request is refused after some seconds. */
START_TEST(initial_instance_is_gone)
{
	struct fabric_lease *lease, *second;

	ck_assert_int_eq(lend(&lease), 0);
	run_until(is_lent_again);
	stop_server();
	ck_assert_int_eq(lend(&second), -ETIMEDOUT);
	/* The ends of loans need nobody. */
	fabric_lease_free(second);
	fabric_lease_free(lease);
}
END_TEST

/* All loans are answered when the instance ends. */
START_TEST(instance_ends_meanwhile)
{
	struct fabric_device *device = fabric_next_device(fabric, NULL);
	struct fabric_lease *lease;

	answer = 1;
	ck_assert_int_eq(fabric_lease_new(&lease, device, UID, FABRIC_ACCESS_DEFAULT, on_answer,
					  NULL),
			 -EINPROGRESS);
	upstream = upstream_free(upstream);
	ck_assert_int_eq(answer, -ESHUTDOWN);
	fabric_lease_free(lease);
}
END_TEST

/* Other clients cannot lend, not even root, unless the daemon runs as root. */
static void be_another(void *arg)
{
	struct list *l = list_first(&harness.core->sessions);

	be_user(container_of(l, struct session, link), 4242);
}

START_TEST(only_the_daemons_own_user)
{
	struct fabric_lease *lease, *second;

	ck_assert_int_eq(lend(&lease), 0);
	in_server(be_another, NULL);
	ck_assert_int_eq(lend(&second), -EACCES);
	fabric_lease_free(second);
	fabric_lease_free(lease);
}
END_TEST

START_TEST(names)
{
	static const char *const good[] = { "blue", "a-b_c.d", "0",
					    "12345678901234567890123456789" };
	static const char *const bad[] = { "",    ".",   ".x",  "..",
					   "a/b", "a b", "a@b", "123456789012345678901234567890",
					   "a\n" };

	for (size_t i = 0; i < ELEMENTS_OF(good); i++)
		ck_assert_msg(instance_is_name(good[i]), "%s", good[i]);
	for (size_t i = 0; i < ELEMENTS_OF(bad); i++)
		ck_assert_msg(!instance_is_name(bad[i]), "%s", bad[i]);
}
END_TEST

static void write_config(const char *path, const char *text)
{
	FILE *file = fopen(path, "we");

	ck_assert_ptr_nonnull(file);
	fputs(text, file);
	fclose(file);
}

/* The files of an instance are read after those of the initial one. */
START_TEST(configuration)
{
	char path[128], own[128], directory[160];
	struct config config;
	struct diag *diag;

	snprintf(path, sizeof(path), "%s/d.conf", harness.dir);
	snprintf(own, sizeof(own), "%s/d@blue.conf", harness.dir);
	write_config(path, "[Daemon]\nAdminSocket=/s\nPolicyDir=/p\n[Limits]\nSessions=7\n");
	ck_assert_int_eq(diag_new(&diag), 0);
	ck_assert_int_eq(config_load(&config, path, true, diag), 0);
	ck_assert_int_eq(instance_configure(&config, path, "blue", diag), 0);
	ck_assert_str_eq(config.initial_socket, "/s");
	ck_assert_str_eq(config.socket_path, "/run/rdmabroker@blue/rdmabroker.sock");
	ck_assert_str_eq(config.admin_socket_path, "/run/rdmabroker-admin@blue/rdmabroker.sock");
	ck_assert_str_eq(config.policy_dir, "/p");
	ck_assert_str_eq(config.restricted_dir, "/run/rdmabroker-restricted/@blue");
	config_done(&config);

	snprintf(directory, sizeof(directory), "[Daemon]\nPolicyDir=%s\nSocket=/own\n",
		 harness.dir);
	write_config(own, directory);
	ck_assert_int_eq(config_load(&config, path, true, diag), 0);
	ck_assert_int_eq(instance_configure(&config, path, "blue", diag), 0);
	ck_assert_str_eq(config.initial_socket, "/s");
	ck_assert_str_eq(config.socket_path, "/own");
	ck_assert_str_eq(config.policy_dir, harness.dir);
	ck_assert_uint_eq(config.max_sessions, 7);
	config_done(&config);

	write_config(own, "[Daemon]\nPolicyDirs=/x\n");
	ck_assert_int_eq(config_load(&config, path, true, diag), 0);
	ck_assert_int_eq(instance_configure(&config, path, "blue", diag), -EBADMSG);
	ck_assert_ptr_nonnull(strstr(complaints_at(&diag->errors, 0), "d@blue.conf:2:1: "));
	config_done(&config);
	diag_free(diag);
	unlink(own);
	unlink(path);
}
END_TEST

UNIT_MAIN("upstream", set_up_instance, tear_down_instance, access_is_the_initial_instances,
	  access_that_is_refused, initial_instance_is_gone, instance_ends_meanwhile,
	  only_the_daemons_own_user, names, configuration)
