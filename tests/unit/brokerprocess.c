/* SPDX-License-Identifier: BSD-2-Clause */
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/brokerprocess.h"
#include "tests/unit/unit.h"

pid_t brokerprocess_pid;
char brokerprocess_printed[4096];
static char dir[] = "/tmp/rdmabroker-process-XXXXXX";
static int notices; /* the daemon's, for systemd */

/* From the path of this program. */
const char *brokerprocess_built(const char *file, char ret[PATH_MAX])
{
	ssize_t n = readlink("/proc/self/exe", ret, PATH_MAX - 1);

	ck_assert_int_gt(n, 0);
	ret[n] = 0;
	for (int i = 0; i < 3; i++)
		*strrchr(ret, '/') = 0;
	strcat(ret, "/");
	return strncat(ret, file, PATH_MAX - strlen(ret) - 1);
}

const char *brokerprocess_path(const char *name, char ret[64])
{
	snprintf(ret, 64, "%s/%s", dir, name);
	return ret;
}

static void write_file(const char *name, const char *text)
{
	char whole[64];
	FILE *f = fopen(brokerprocess_path(name, whole), "w");

	ck_assert(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

void brokerprocess_write_rules(const char *rules)
{
	write_file("policy.d/1.rules", rules);
}

static void run_daemon(void)
{
	char program[PATH_MAX], config[64], listens[64], rules[64], site[64], notify[64];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setenv("NOTIFY_SOCKET", brokerprocess_path("notify", notify), 1);
	brokerprocess_built("tests/fakebroker", program);
	execl(program, program, brokerprocess_path("conf", config),
	      brokerprocess_path("socket", listens), brokerprocess_path("policy.d", rules),
	      brokerprocess_path("site", site), NULL);
	_exit(127);
}

void brokerprocess_start(void)
{
	char text[1024] = "";
	ssize_t n;

	brokerprocess_pid = fork();
	ck_assert_int_ge(brokerprocess_pid, 0);
	if (brokerprocess_pid == 0)
		run_daemon();
	while (!strstr(text, "READY=1")) {
		AWAIT_INPUT(notices, "the daemon to be ready");
		n = recv(notices, text, sizeof(text) - 1, 0);
		ck_assert_int_gt(n, 0);
		text[n] = 0;
	}
}

void brokerprocess_stop(void)
{
	kill(brokerprocess_pid, SIGTERM);
	ck_assert_int_eq(waitpid(brokerprocess_pid, NULL, 0), brokerprocess_pid);
	brokerprocess_pid = 0;
}

void brokerprocess_begin(const char *rules)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	char text[256], name[64];

	umask(022);
	ck_assert_ptr_nonnull(mkdtemp(dir));
	ck_assert_int_eq(mkdir(brokerprocess_path("policy.d", name), 0755), 0);
	brokerprocess_write_rules(rules);
	snprintf(text, sizeof(text), "[Daemon]\nLogLevel=warning\nRestrictedDirectory=%s\n",
		 brokerprocess_path("restricted", name));
	write_file("conf", text);
	setenv("RDMABROKER_SOCKET", brokerprocess_path("socket", name), 1);
	brokerprocess_path("notify", name);
	memcpy(un.sun_path, name, strlen(name));
	notices = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(bind(notices, (struct sockaddr *)&un, sizeof(un)), 0);
	brokerprocess_start();
}

void brokerprocess_end(void)
{
	static const char *const names[] = { "policy.d/1.rules", "policy.d", "conf",
					     "socket",           "notify",   "socket.common",
					     "restricted",       "" };
	char name[64];

	if (brokerprocess_pid > 0)
		brokerprocess_stop();
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		remove(brokerprocess_path(names[i], name));
}

/* A program with sanitizers cannot use RTLD_DEEPBIND, and must preload them before all other libraries. */
bool brokerprocess_is_sanitized(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	fprintf(stderr, "skipped: the program has sanitizers\n");
	return true;
#else
	return false;
#endif
}

int brokerprocess_begin_print(void)
{
	char name[64];
	int old = dup(STDERR_FILENO);
	int fd = open(brokerprocess_path("printed", name), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC,
		      0600);

	unlink(name);
	dup2(fd, STDERR_FILENO);
	close(fd);
	return old;
}

void brokerprocess_end_print(int old)
{
	ssize_t n =
		pread(STDERR_FILENO, brokerprocess_printed, sizeof(brokerprocess_printed) - 1, 0);

	dup2(old, STDERR_FILENO);
	close(old);
	brokerprocess_printed[n > 0 ? n : 0] = 0;
}
