/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "broker.h"
#include "client/admin.h"
#include "tests/unit/tree.h"
#include "tests/unit/unit.h"

/*
 * The whole daemon on the fake fabric, as a process that starts with the files in DIR. The tests wait for its reports
 * to systemd.
 */

#define T PATIENCE_MS /* a timeout that never ends if all is well */

static char dir[] = "/tmp/check_start.XXXXXX";
static char policy_dir[64], config_path[64], socket_path[64], common_path[64], log_path[64];
static int notify = -1;
static pid_t daemon_pid;

/* If there is a FIFO DIR/hang, blocks until its writer closes it. */
static void hang(void)
{
	char path[64], byte;
	int fd;

	snprintf(path, sizeof(path), "%s/hang", dir);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	ck_assert_int_eq(read(fd, &byte, 1), 0);
	close(fd);
}

/* Replaces libc's function. The users are the files in DIR/users, all with the uid of nobody. */
int getpwnam_r(const char *name, struct passwd *entry, char *buffer, size_t size,
	       struct passwd **ret)
{
	hang();
	snprintf(buffer, size, "%s/users/%s", dir, name);
	*ret = NULL;
	if (access(buffer, F_OK) == 0) {
		entry->pw_uid = 65534;
		*ret = entry;
	}
	return 0;
}

static void in_dir(char *ret, const char *name)
{
	snprintf(ret, 64, "%s/%s", dir, name);
}

static void write_to(const char *name, const char *text)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "w");
	ck_assert_ptr_nonnull(f);
	fputs(text, f);
	fclose(f);
	ck_assert_int_eq(chmod(path, 0644), 0);
}

static void set_up(void)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	char users[64];

	strcpy(dir, "/tmp/check_start.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	in_dir(policy_dir, "policy.d");
	in_dir(config_path, "rdmabrokerd.conf");
	in_dir(socket_path, "socket");
	in_dir(common_path, "common");
	in_dir(log_path, "log");
	in_dir(users, "users");
	ck_assert_int_eq(mkdir(policy_dir, 0755), 0);
	ck_assert_int_eq(mkdir(users, 0755), 0);
	write_to("rdmabrokerd.conf", "");

	in_dir(addr.sun_path, "notify");
	notify = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(bind(notify, (struct sockaddr *)&addr, sizeof(addr)), 0);
	setenv("NOTIFY_SOCKET", addr.sun_path, 1);
	daemon_pid = 0;
}

/* Waits for the daemon's end and returns its exit status. */
static int end(void)
{
	int status;

	ck_assert_int_eq(waitpid(daemon_pid, &status, 0), daemon_pid);
	ck_assert(WIFEXITED(status));
	daemon_pid = 0;
	return WEXITSTATUS(status);
}

static void tear_down(void)
{
	if (daemon_pid > 0) {
		kill(daemon_pid, SIGTERM);
		ck_assert_int_eq(end(), 0);
	}
	close(notify);
	remove_tree(dir);
}

static void await_match(const char *part, bool at_end)
{
	char text[4096], *found;
	ssize_t n;

	do {
		AWAIT_INPUT(notify, "the message %s", part);
		n = recv(notify, text, sizeof(text) - 1, 0);
		ck_assert_int_ge(n, 0);
		text[n] = '\0';
		found = strstr(text, part);
	} while (!found || (at_end && strcmp(found, part) != 0));
}

/* Waits until one of the reports to systemd contains PART. */
static void await(const char *part)
{
	await_match(part, /* at_end= */ false);
}

/* Waits until one of the reports to systemd ends in END_OF_STATUS. */
static void await_end(const char *end_of_status)
{
	await_match(end_of_status, /* at_end= */ true);
}

static void start(void)
{
	daemon_pid = fork();
	ck_assert_int_ge(daemon_pid, 0);
	if (daemon_pid == 0) {
		struct broker_options options = {
			.config_path = config_path,
			.policy_dir = policy_dir,
			.socket_path = common_path,
			.admin_socket_path = socket_path,
		};
		int log = open(log_path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
		struct broker *broker = NULL;
		int r;

		dup2(log, STDERR_FILENO);
		r = broker_new(&broker, &options);
		if (r == 0)
			r = broker_run(broker);
		broker_free(broker);
		_exit(r < 0 ? -r : r);
	}
}

static struct rdmabroker *open_session(void)
{
	struct rdmabroker_options options = {
		.size = sizeof(options),
		.socket = socket_path,
		.call_timeout_ms = T,
	};
	struct rdmabroker *session;

	ck_assert_msg(rdmabroker_open(&options, &session) == 0, "%s",
		      rdmabroker_last_failure()->text);
	return session;
}

static void assert_logged(const char *part)
{
	char text[16384];
	FILE *f = fopen(log_path, "r");
	size_t n;

	ck_assert_ptr_nonnull(f);
	n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = '\0';
	ck_assert_msg(strstr(text, part), "no '%s' in '%s'", part, text);
}

static bool is_fallback(struct rdmabroker *session)
{
	struct rdmabroker_status *status;
	bool is;

	ck_assert_int_eq(rdmabroker_get_status(session, &status), 0);
	is = status->no_policy;
	if (is)
		ck_assert_ptr_nonnull(strstr(status->policy_error, "policy.d"));
	else
		ck_assert_ptr_null(status->policy_error);
	rdmabroker_free(status);
	return is;
}

static bool reload(struct rdmabroker *session)
{
	struct rdmabroker_reload_result *result;
	bool ok;

	ck_assert_int_eq(rdmabroker_reload(session, false, &result), 0);
	ok = result->ok;
	rdmabroker_free(result);
	return ok;
}

static void assert_rejects(struct rdmabroker *session)
{
	struct rdmabroker_question question = { .operation = "session", .who = { .uid = 65534 } };
	struct rdmabroker_explanation *answer;

	ck_assert_int_eq(rdmabroker_explain(session, &question, &answer), 0);
	ck_assert(!answer->allow);
	ck_assert_ptr_nonnull(strstr(answer->reason, "could not be loaded"));
	rdmabroker_free(answer);
}

/* The user who runs the test is an admin, and is therefore let in without a policy. */
START_TEST(a_policy_with_an_error)
{
	struct rdmabroker *session;

	write_to("policy.d/1.rules", "allow session\nalow any\n");
	start();
	await("READY=1");
	await("STATUS=NO POLICY, everything is rejected until a reload succeeds: ");
	assert_logged("policy.d/1.rules:2:1: unknown action 'alow'");
	assert_logged("EVERYTHING IS REJECTED");
	session = open_session();
	ck_assert(is_fallback(session));
	assert_rejects(session);
	/* The policy still has an error, but another one. */
	write_to("policy.d/1.rules", "allow session user ghost\n");
	ck_assert(!reload(session));
	ck_assert(is_fallback(session));
	assert_rejects(session);
	assert_logged("there is still no policy");
	write_to("policy.d/1.rules", "allow session\n");
	ck_assert(reload(session));
	ck_assert(!is_fallback(session));
	await("1 rules");
	rdmabroker_close(session);
}
END_TEST

START_TEST(without_a_directory_of_rules)
{
	struct rdmabroker *session;

	ck_assert_int_eq(rmdir(policy_dir), 0);
	start();
	await("STATUS=NO POLICY");
	session = open_session();
	ck_assert(is_fallback(session));
	/* SIGHUP reloads as a request does. */
	ck_assert_int_eq(mkdir(policy_dir, 0755), 0);
	kill(daemon_pid, SIGHUP);
	await("STATUS=1 sessions, 0 listeners, 0 connections; 0 rules");
	ck_assert(!is_fallback(session));
	rdmabroker_close(session);
}
END_TEST

static unsigned n_missing(struct rdmabroker *session)
{
	struct rdmabroker_status *status;
	unsigned n;

	ck_assert_int_eq(rdmabroker_get_status(session, &status), 0);
	n = status->n_missing_names;
	rdmabroker_free(status);
	return n;
}

static bool is_allowed(struct rdmabroker *session)
{
	struct rdmabroker_question question = { .operation = "session", .who = { .uid = 65534 } };
	struct rdmabroker_explanation *answer;
	bool allow;

	ck_assert_int_eq(rdmabroker_explain(session, &question, &answer), 0);
	allow = answer->allow;
	rdmabroker_free(answer);
	return allow;
}

/*
 * A user in a rule can become known later, for example by a directory service. From then on the rule applies, without
 * a reload.
 */
START_TEST(a_user_that_appears)
{
	struct rdmabroker *session;

	write_to("policy.d/1.rules", "allow session user ghost\nallow admin user ghost2\n");
	start();
	await("READY=1");
	await("; 2 rules; names that cannot be looked up: 2");
	assert_logged("policy.d/1.rules:1:20: unknown user 'ghost'");
	assert_logged("Cannot look up 2 user or group names: ");
	session = open_session();
	ck_assert_uint_eq(n_missing(session), 2);
	ck_assert(!is_allowed(session));
	/* Names are looked up again for the rules in force. The new 1.rules has no effect until a reload. */
	write_to("policy.d/1.rules", "reject any\n");
	write_to("users/ghost", "");
	await("; 2 rules; names that cannot be looked up: 1");
	ck_assert_uint_eq(n_missing(session), 1);
	ck_assert(is_allowed(session));
	write_to("users/ghost2", "");
	await_end("; 2 rules");
	ck_assert_uint_eq(n_missing(session), 0);
	assert_logged("All user and group names of the policy have been looked up: 2 rules.");
	rdmabroker_close(session);
}
END_TEST

/* Neither clients nor a reload wait for the look-up. */
START_TEST(a_look_up_that_hangs)
{
	struct rdmabroker *session;
	char path[64];
	int fd;

	write_to("policy.d/1.rules", "allow session user ghost\n");
	start();
	await("READY=1");
	in_dir(path, "hang");
	ck_assert_int_eq(mkfifo(path, 0600), 0);
	/* open() returns when the daemon opens the FIFO to look up names again. */
	fd = open(path, O_WRONLY | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	session = open_session();
	ck_assert_uint_eq(n_missing(session), 1);
	write_to("policy.d/1.rules", "allow session user 65534\n");
	ck_assert(reload(session));
	ck_assert_uint_eq(n_missing(session), 0);
	ck_assert(is_allowed(session));
	/* The result of the look-up is for a policy that is not in force any more. */
	write_to("users/ghost", "");
	ck_assert_int_eq(unlink(path), 0);
	close(fd);
	ck_assert(reload(session));
	ck_assert(is_allowed(session));
	rdmabroker_close(session);
}
END_TEST

/* Runs the real program. The unit depends on its exit status. */
static void run_daemon(const char *option, const char *value)
{
	char program[4096];

	snprintf(program, sizeof(program), "%s/rdmabrokerd", getenv("O") ?: "build");
	daemon_pid = fork();
	ck_assert_int_ge(daemon_pid, 0);
	if (daemon_pid == 0) {
		int log = open(log_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

		dup2(log, STDERR_FILENO);
		execl(program, program, "--config", config_path, "--policy-dir", policy_dir, option,
		      value, NULL);
		_exit(127);
	}
}

START_TEST(a_daemon_that_cannot_be_started)
{
	char line[256];
	FILE *unit;

	write_to("rdmabrokerd.conf", "[Daemon]\nLogLevl=info\n");
	run_daemon("--socket", socket_path);
	ck_assert_int_eq(end(), 78);
	assert_logged("rdmabrokerd.conf:2:1: unknown key 'LogLevl'");
	assert_logged("Cannot start rdmabrokerd: its configuration has an error.");

	/* If a configuration file is named, it must exist. */
	ck_assert_int_eq(unlink(config_path), 0);
	run_daemon("--socket", socket_path);
	ck_assert_int_eq(end(), 78);
	assert_logged("rdmabrokerd.conf: cannot open: No such file or directory");
	run_daemon("--check", NULL);
	ck_assert_int_eq(end(), 1);
	assert_logged("rdmabrokerd.conf: cannot open: No such file or directory");

	snprintf(line, sizeof(line), "%s/systemd/rdmabrokerd.service.in", getenv("SRCDIR") ?: ".");
	unit = fopen(line, "r");
	ck_assert_ptr_nonnull(unit);
	do
		ck_assert_ptr_nonnull(fgets(line, sizeof(line), unit));
	while (strcmp(line, "RestartPreventExitStatus=78\n") != 0);
	fclose(unit);
}
END_TEST

/* The journal has them at the start and at each reload. They hinder neither. */
START_TEST(warnings_about_the_rules)
{
	static const char ignored[] =
		"policy.d/70-bob.rule: this file is not read, because its name "
		"does not end in '.rules'; did you mean '70-bob.rules'?";
	static const char shadowed[] = "policy.d/1.rules:2:1: this rule never decides, because "
				       "\"allow any\" in ";

	write_to("policy.d/1.rules", "allow any\nreject accept port 4420\n");
	write_to("policy.d/70-bob.rule", "reject any user 7\n");
	start();
	await("READY=1");
	assert_logged(ignored);
	assert_logged(shadowed);
	ck_assert_int_eq(truncate(log_path, 0), 0);
	kill(daemon_pid, SIGHUP);
	await("RELOADING=1");
	await("READY=1");
	assert_logged(ignored);
	assert_logged(shadowed);
	assert_logged("Configuration and policy reloaded: 2 rules.");
}
END_TEST

static bool is_unread(void)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), r;

	in_dir(addr.sun_path, "notify");
	r = (int)sendto(fd, "X=1", 3, MSG_DONTWAIT, (struct sockaddr *)&addr, sizeof(addr));
	ck_assert(r == 3 || errno == EAGAIN);
	close(fd);
	return r < 0;
}

/*
 * systemd stops reading, as it does when it freezes after a crash of its own. The kernel keeps some messages for it,
 * and then a message can only be sent when it reads again.
 */
START_TEST(a_manager_that_does_not_read)
{
	char text[4096] = "", last[sizeof(text)] = "";
	struct rdmabroker *session;

	setenv("WATCHDOG_USEC", "200000", 1);
	start();
	await("READY=1");
	await("WATCHDOG=1");
	session = open_session();
	AWAIT(is_unread(), "a message that is not read");
	for (int i = 0; i < 8; i++)
		ck_assert(reload(session));
	write_to("policy.d/1.rules", "allow session\nallow listen\n");
	ck_assert(reload(session));
	ck_assert(is_unread());
	/* What it could not be told comes when it reads again. */
	do {
		ssize_t n;

		if (strcmp(text, "WATCHDOG=1") != 0)
			strcpy(last, text);
		AWAIT_INPUT(notify, "the number of rules");
		n = recv(notify, text, sizeof(text) - 1, 0);
		ck_assert_int_gt(n, 0);
		text[n] = 0;
	} while (!strstr(text, "; 2 rules"));
	ck_assert_str_eq(last, "READY=1");
	await("WATCHDOG=1");
	rdmabroker_close(session);
}
END_TEST

UNIT_MAIN("start", set_up, tear_down, a_policy_with_an_error, without_a_directory_of_rules,
	  a_user_that_appears, a_look_up_that_hangs, a_daemon_that_cannot_be_started,
	  warnings_about_the_rules, a_manager_that_does_not_read)
