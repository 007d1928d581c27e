/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "core/object/inquiry.h"
#include "tests/unit/peerd.h"
#include "tests/unit/program.h"

#define TEXT_MAX (1 << 20)
#define ARGUMENTS_MAX 16

struct peerd_test peerd_test;

static char sockets[2][128]; /* of munged */

/* Without Check, because it is also used before a test begins. */
static bool write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return done;
}

/* A user who is not root gets a user namespace, too, in which he is. Returns 0 or a negative errno. */
static int enter_namespaces(void)
{
	bool is_root = geteuid() == 0;
	char uid_map[64], gid_map[64];
	uid_t uid = geteuid();
	gid_t gid = getegid();

	if (unshare(CLONE_NEWNET | (is_root ? 0 : CLONE_NEWUSER)) < 0)
		return -errno;
	if (is_root)
		return 0;
	snprintf(uid_map, sizeof(uid_map), "0 %u 1", uid);
	snprintf(gid_map, sizeof(gid_map), "0 %u 1", gid);
	return write_file("/proc/self/setgroups", "deny") &&
			       write_file("/proc/self/uid_map", uid_map) &&
			       write_file("/proc/self/gid_map", gid_map) ?
		       0 :
		       -EPERM;
}

/* On the loopback device, all addresses of a prefix are this host's. */
static void set_up_loopback(void)
{
	struct ifreq ifr = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	struct sockaddr_in *addr = (struct sockaddr_in *)&ifr.ifr_addr;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	ck_assert_int_eq(ioctl(fd, SIOCSIFFLAGS, &ifr), 0);
	strcpy(ifr.ifr_name, "lo:1");
	*addr = (struct sockaddr_in){ .sin_family = AF_INET };
	addr->sin_addr.s_addr = inet_addr(HOST);
	ck_assert_int_eq(ioctl(fd, SIOCSIFADDR, &ifr), 0);
	addr->sin_addr.s_addr = inet_addr("255.0.0.0");
	ck_assert_int_eq(ioctl(fd, SIOCSIFNETMASK, &ifr), 0);
	close(fd);
}

static pid_t start_program(const char *log, const char *const *argv)
{
	pid_t pid = fork();
	int fd;

	ck_assert_int_ge(pid, 0);
	if (pid > 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0644);
	dup2(fd, STDOUT_FILENO);
	dup2(fd, STDERR_FILENO);
	unsetenv("JOURNAL_STREAM");
	execvp(argv[0], (char *const *)argv);
	_exit(127);
}

static const char *in_dir(char ret[128], const char *prefix, const char *name, int which)
{
	snprintf(ret, 128, "%s%s/%s-%d", prefix, harness.dir, name, which);
	return ret;
}

static const struct seal *seal_of(int which)
{
	return which == 0 ? &peerd_test.seal : &peerd_test.stranger;
}

/* Waits until SEAL works. */
static void await_munged(const struct seal *seal)
{
	char error[SEAL_ERROR_MAX], *sealed = NULL;

	AWAIT((sealed = seal_close(seal, "text", error)), "munged: %s", error);
	free(sealed);
}

void start_munged(int which)
{
	char key[128], socket[160], pid[128], log[128], seed[128], err[128];

	snprintf(socket, sizeof(socket), "--socket=%s", sockets[which]);
	peerd_test.munged[which] = start_program(
		in_dir(err, "", "munged-err", which),
		(const char *const[]){ "munged", "--foreground", "--force", socket,
				       in_dir(key, "--key-file=", "key", which),
				       in_dir(pid, "--pid-file=", "munged-pid", which),
				       in_dir(log, "--log-file=", "munged-log", which),
				       in_dir(seed, "--seed-file=", "munged-seed", which), NULL });
	await_munged(seal_of(which));
}

void stop_munged(int which)
{
	kill(peerd_test.munged[which], SIGTERM);
	ck_assert_int_eq(waitpid(peerd_test.munged[which], NULL, 0), peerd_test.munged[which]);
	peerd_test.munged[which] = 0;
}

static void make_key(int which)
{
	char path[128], key[64];
	int fd = open(in_dir(path, "", "key", which), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	for (size_t i = 0; i < sizeof(key); i++)
		key[i] = (char)(i * 7 + (size_t)which);
	ck_assert_int_eq(write(fd, key, sizeof(key)), sizeof(key));
	close(fd);
}

static void do_name_helper(void *arg)
{
	harness.core->inquiries->helper_uid = geteuid();
	harness.core->settings.max_ids_per_session = 4096;
	harness.core->settings.backlog = 4096;
	harness.core->account.limit_per_user[ACCOUNT_SESSIONS] = 64;
}

void set_up_peerd(void)
{
	char path[8192];

	peerd_test = (struct peerd_test){};
	peerd_test.is_root = geteuid() == 0;
	ck_assert_int_eq(enter_namespaces(), 0);
	set_up_loopback();
	set_up();
	in_server(do_name_helper, NULL);
	ck_assert_int_eq(chmod(harness.dir, 0755), 0);
	snprintf(path, sizeof(path), "%s:/usr/sbin:/sbin", getenv("PATH") ?: "/usr/bin:/bin");
	setenv("PATH", path, /* overwrite= */ 1);
	snprintf(peerd_test.folder, sizeof(peerd_test.folder), "%s", build_dir());
	in_dir(peerd_test.log, "", "peerd-log", 0);
	for (int which = 0; which < 2; which++) {
		in_dir(sockets[which], "", "munged-socket", which);
		make_key(which);
	}
	peerd_test.seal.socket = sockets[0];
	peerd_test.stranger.socket = sockets[1];
	start_munged(0);
}

static int remove_one(const char *name, const struct stat *st, int flag, struct FTW *ftw)
{
	return ftw->level == 0 ? 0 : remove(name);
}

void tear_down_peerd(void)
{
	if (peerd_test.peerd)
		stop_peerd();
	for (int which = 0; which < 2; which++)
		if (peerd_test.munged[which])
			stop_munged(which);
	nftw(harness.dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	tear_down();
}

unsigned n_logged(const char *part)
{
	static char text[TEXT_MAX];
	FILE *f = fopen(peerd_test.log, "re");
	unsigned n = 0;
	size_t len = f ? fread(text, 1, sizeof(text) - 1, f) : 0;

	text[len] = 0;
	if (f)
		fclose(f);
	for (const char *at = text; (at = strstr(at, part)); at += strlen(part))
		n++;
	return n;
}

void assert_logged(const char *part)
{
	AWAIT(n_logged(part) > 0, "'%s' in the log", part);
}

/* LISTENING: passed as systemd does; -1: none. */
static pid_t spawn_peerd(const char *const *arguments, int listening)
{
	const char *argv[ARGUMENTS_MAX] = {};
	char path[256], pid[16];
	size_t n = 0;
	pid_t child;

	snprintf(path, sizeof(path), "%s/rdmabroker-peerd", peerd_test.folder);
	argv[n++] = path;
	while (*arguments && n + 1 < ARGUMENTS_MAX)
		argv[n++] = *arguments++;
	if (listening < 0)
		return start_program(peerd_test.log, argv);
	child = fork();
	ck_assert_int_ge(child, 0);
	if (child > 0)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(open(peerd_test.log, O_WRONLY | O_CREAT | O_APPEND, 0644), STDERR_FILENO);
	dup2(listening, SD_LISTEN_FDS_START);
	snprintf(pid, sizeof(pid), "%d", getpid());
	setenv("LISTEN_PID", pid, 1);
	setenv("LISTEN_FDS", "1", 1);
	unsetenv("JOURNAL_STREAM");
	execvp(argv[0], (char *const *)argv);
	_exit(127);
}

void start_peerd_with_socket(int listening)
{
	unsigned before = n_logged("gives its questions");

	peerd_test.peerd =
		spawn_peerd((const char *const[]){ "--config", "/dev/null", "--socket",
						   harness.helper_path, "--munge-socket",
						   sockets[0], "--listen", HOST ":9472", NULL },
			    listening);
	AWAIT(n_logged("gives its questions") != before, "rdmabroker-peerd to start");
}

void start_peerd(void)
{
	start_peerd_with_socket(-1);
}

static int wait_for(pid_t pid)
{
	int status;

	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_msg(WIFEXITED(status), "signal %d", WTERMSIG(status));
	return WEXITSTATUS(status);
}

void stop_peerd(void)
{
	kill(peerd_test.peerd, SIGTERM);
	ck_assert_int_eq(wait_for(peerd_test.peerd), 0);
	peerd_test.peerd = 0;
}

int run_peerd(const char *const *arguments)
{
	unlink(peerd_test.log);
	return wait_for(spawn_peerd(arguments, -1));
}

struct sockaddr_storage address_of(const char *host, uint16_t port)
{
	struct sockaddr_storage storage = {};
	struct sockaddr_in *in = (struct sockaddr_in *)&storage;

	in->sin_family = AF_INET;
	in->sin_port = htons(port);
	ck_assert_int_eq(inet_pton(AF_INET, host, &in->sin_addr), 1);
	return storage;
}

int dial_peerd(const char *from)
{
	struct sockaddr_storage local = address_of(from, 0), peer = address_of(HOST, PEERD_PORT);
	const struct timeval limit = { .tv_sec = PATIENCE_S };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const int on = 1;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&local, sizeof(struct sockaddr_in)), 0);
	ck_assert_int_eq(connect(fd, (struct sockaddr *)&peer, sizeof(struct sockaddr_in)), 0);
	return fd;
}

/* The other end may have closed the connection, which receive_text() reports. */
void send_all(int fd, const void *data, size_t len)
{
	const char *at = data;

	while (len > 0) {
		ssize_t n = send(fd, at, len, MSG_NOSIGNAL);

		if (n <= 0)
			return;
		at += n;
		len -= (size_t)n;
	}
}

void send_text(int fd, const char *text)
{
	uint32_t len = htonl((uint32_t)strlen(text));

	send_all(fd, &len, sizeof(len));
	send_all(fd, text, strlen(text));
}

/* False: the connection was closed before. */
static bool receive_all(int fd, void *data, size_t len)
{
	char *at = data;

	while (len > 0) {
		ssize_t n = recv(fd, at, len, 0);

		ck_assert_msg(n >= 0 || errno == ECONNRESET, "%s", strerror(errno));
		if (n <= 0)
			return false;
		at += n;
		len -= (size_t)n;
	}
	return true;
}

char *receive_text(int fd)
{
	uint32_t len;
	char *text;

	if (!receive_all(fd, &len, sizeof(len)))
		return NULL;
	len = ntohl(len);
	ck_assert_uint_le(len, TEXT_MAX);
	text = calloc(1, len + 1);
	ck_assert(receive_all(fd, text, len));
	return text;
}

int listen_as(const char *host)
{
	struct sockaddr_storage local = address_of(host, PEERD_PORT);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	ck_assert_int_eq(bind(fd, (struct sockaddr *)&local, sizeof(struct sockaddr_in)), 0);
	ck_assert_int_eq(listen(fd, 1024), 0);
	return fd;
}

int accept_questions(int listening, char **ret)
{
	char error[SEAL_ERROR_MAX], *sealed;
	int fd;

	AWAIT_INPUT(listening, "questions");
	fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	sealed = receive_text(fd);
	ck_assert_ptr_nonnull(sealed);
	*ret = seal_open(&peerd_test.seal, sealed, error);
	ck_assert_msg(*ret != NULL, "%s", error);
	free(sealed);
	return fd;
}

struct message_head make_head(const char *from, const char *to)
{
	struct message_head head;

	ck_assert(message_set_nonce(&head));
	snprintf(head.from, sizeof(head.from), "%s", from);
	snprintf(head.to, sizeof(head.to), "%s", to);
	return head;
}

char *seal_text(const char *text)
{
	char error[SEAL_ERROR_MAX], *sealed = seal_close(&peerd_test.seal, text, error);

	ck_assert_msg(sealed != NULL, "%s", error);
	return sealed;
}

/* ---- without munged ---- */

static const char *why_skipped;

START_TEST(skipped)
{
	fprintf(stderr, "skipped: %s\n", why_skipped);
}
END_TEST

/* In a child, which ends then. */
static bool has_namespaces(void)
{
	pid_t pid = fork();
	int status;

	if (pid == 0)
		_exit(enter_namespaces() == 0 ? 0 : 1);
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

int peerd_run(const char *name, SFun begin, SFun end, const TTest *const *tests, size_t n)
{
	const TTest **none;
	int status;

	if (access("/usr/sbin/munged", X_OK) != 0)
		why_skipped = "no munged here, which is in Debian's munge";
	else if (!has_namespaces())
		why_skipped = "no network namespace can be made here";
	if (!why_skipped)
		return unit_run(name, begin, end, tests, n);
	none = calloc(n, sizeof(*none));
	for (size_t i = 0; i < n; i++)
		none[i] = skipped;
	status = unit_run(name, NULL, NULL, none, n);
	free(none);
	return status;
}
