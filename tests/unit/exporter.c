/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "broker.h"
#include "tests/unit/exporter.h"
#include "util/log.h"
#include "tests/unit/tree.h"

#define MAX_ARGUMENTS 16

struct service service;
struct answer answer;

enum { BROKER, EXPORTER };
static const char *const notify_names[] = { "notify-broker", "notify-exporter" };

void write_text(const char *name, const char *text)
{
	FILE *f = fopen(name, "w");

	ck_assert_msg(f, "%s", name);
	fputs(text, f);
	fclose(f);
	ck_assert_int_eq(chmod(name, 0644), 0);
}

void write_rules(const char *name, const char *text)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", service.policy, name);
	write_text(path, text);
}

static int open_notify(int which)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/%s", harness.dir, notify_names[which]);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	ck_assert_int_eq(chmod(addr.sun_path, 0666), 0);
	return fd;
}

void set_up_service(void)
{
	harness = (struct harness){ .dir = "/tmp/rdmabroker-check-XXXXXX" };
	service = (struct service){};
	ck_assert_ptr_nonnull(mkdtemp(harness.dir));
	ck_assert_int_eq(chmod(harness.dir, 0755), 0);
	snprintf(harness.socket_path, sizeof(harness.socket_path), "%s/socket", harness.dir);
	snprintf(harness.common_path, sizeof(harness.common_path), "%s/common", harness.dir);
	snprintf(service.config, sizeof(service.config), "%s/conf", harness.dir);
	snprintf(service.policy, sizeof(service.policy), "%s/policy.d", harness.dir);
	snprintf(service.metrics, sizeof(service.metrics), "%s/metrics.sock", harness.dir);
	snprintf(service.settings, sizeof(service.settings), "%s/exporter.conf", harness.dir);
	snprintf(service.log, sizeof(service.log), "%s/log", harness.dir);
	snprintf(service.folder, sizeof(service.folder), "%s", build_dir());
	ck_assert_int_eq(mkdir(service.policy, 0755), 0);
	write_text(service.config, "[Daemon]\nLogLevel=debug\n");
	write_text(service.settings, "");
	write_rules("1.rules", "allow any\nallow observe\n");
	for (int i = 0; i < 2; i++)
		service.notify[i] = open_notify(i);
	snprintf(program, sizeof(program), "%s/rdmabrokerctl", build_dir());
	unsetenv("JOURNAL_STREAM");
	run_as = 0;
}

void tear_down_service(void)
{
	remove_tree(harness.dir);
}

void write_many_rules(const char *name)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", service.policy, name);
	f = fopen(path, "w");
	ck_assert_ptr_nonnull(f);
	for (unsigned i = 0; i < MANY_RULES; i++)
		fprintf(f, "reject listen port %u\n", i % 65535 + 1);
	fclose(f);
	ck_assert_int_eq(chmod(path, 0644), 0);
}

/* Waits until BROKER or EXPORTER has sent systemd a notification that contains WORD. */
static void await_word(int which, const char *word)
{
	char text[1024];
	ssize_t n;

	do {
		AWAIT_INPUT(service.notify[which], "%s of the %s", word,
			    which == BROKER ? "broker" : "exporter");
		n = recv(service.notify[which], text, sizeof(text) - 1, 0);
		ck_assert_int_gt(n, 0);
		text[n] = 0;
	} while (!strstr(text, word));
}

/* _exit() skips the sanitizer's check for leaks, so this function makes it. Returns whether there are leaks. */
static bool leaks(void)
{
#ifdef __SANITIZE_ADDRESS__
	return __lsan_do_recoverable_leak_check();
#else
	return false;
#endif
}

/*
 * Called in a child. Sets the socket for systemd's notifications, and closes all descriptors but the standard three.
 */
static void begin_child(int which)
{
	char path[128];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close_range(STDERR_FILENO + 1, ~0U, 0);
	snprintf(path, sizeof(path), "%s/%s", harness.dir, notify_names[which]);
	setenv("NOTIFY_SOCKET", path, 1);
}

void start_broker(void)
{
	const struct broker_options options = {
		.config_path = service.config,
		.socket_path = harness.common_path,
		.admin_socket_path = harness.socket_path,
		.policy_dir = service.policy,
	};
	struct broker *broker = NULL;
	char path[128];

	snprintf(path, sizeof(path), "%s/broker.log", harness.dir);
	service.broker = fork();
	ck_assert_int_ge(service.broker, 0);
	if (service.broker == 0) {
		begin_child(BROKER);
		dup2(open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644), STDERR_FILENO);
		log_init();
		if (broker_new(&broker, &options) < 0 || broker_run(broker) < 0)
			_exit(1);
		broker_free(broker);
		_exit(leaks());
	}
	await_word(BROKER, "READY=1");
}

void reload_broker(void)
{
	kill(service.broker, SIGHUP);
	await_word(BROKER, "RELOADING=1");
	await_word(BROKER, "READY=1");
}

static void stop_one(pid_t *pid)
{
	int status;

	ck_assert_int_gt(*pid, 0);
	kill(*pid, SIGTERM);
	ck_assert_int_eq(waitpid(*pid, &status, 0), *pid);
	ck_assert_int_eq(status, 0);
	*pid = 0;
}

void stop_broker(void)
{
	stop_one(&service.broker);
}

/* Replaces the process by the exporter. Does not return. */
static void become_exporter(const char *const *arguments)
{
	const char *argv[MAX_ARGUMENTS] = { "rdmabroker-exporter" };
	char path[256];
	size_t n = 1;

	while (*arguments && n < MAX_ARGUMENTS - 1)
		argv[n++] = *arguments++;
	if (run_as > 0 && (setgroups(0, NULL) < 0 || setgid(run_as) < 0 || setuid(run_as) < 0))
		_exit(126);
	snprintf(path, sizeof(path), "%s/rdmabroker-exporter", service.folder);
	execv(path, (char *const *)argv);
	_exit(127);
}

void start_exporter_with(const char *const *arguments)
{
	const char *argv[MAX_ARGUMENTS] = { "--socket", ctl_socket(), "--config",
					    service.settings };
	int out;

	for (size_t n = 4; *arguments; n++) {
		ck_assert_uint_lt(n, MAX_ARGUMENTS - 1);
		argv[n] = *arguments++;
	}
	service.exporter = fork();
	ck_assert_int_ge(service.exporter, 0);
	if (service.exporter == 0) {
		begin_child(EXPORTER);
		out = open(service.log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
		dup2(out, STDERR_FILENO);
		become_exporter(argv);
	}
	await_word(EXPORTER, "READY=1");
}

void start_exporter(const char *listen)
{
	start_exporter_with((const char *const[]){ "--listen", listen, NULL });
}

void stop_exporter(void)
{
	stop_one(&service.exporter);
}

void start(const char *listen)
{
	start_broker();
	start_exporter(listen);
}

void stop(void)
{
	stop_exporter();
	stop_broker();
}

int run_exporter(const char *const *arguments)
{
	const char *argv[MAX_ARGUMENTS];
	char path[256];
	size_t n = 1;

	snprintf(path, sizeof(path), "%s/rdmabroker-exporter", service.folder);
	argv[0] = path;
	while (*arguments && n < MAX_ARGUMENTS - 1)
		argv[n++] = *arguments++;
	ck_assert_ptr_null(*arguments);
	argv[n] = NULL;
	unsetenv("NOTIFY_SOCKET");
	return run(argv);
}

static const char *read_log(void)
{
	static char text[65536];
	FILE *f = fopen(service.log, "r");
	size_t n;

	ck_assert_ptr_nonnull(f);
	n = fread(text, 1, sizeof(text) - 1, f);
	text[n] = 0;
	fclose(f);
	return text;
}

void assert_logged(const char *part)
{
	AWAIT(strstr(read_log(), part), "'%s' in the log: %s", part, read_log());
}

unsigned n_logged(const char *part)
{
	unsigned n = 0;

	for (const char *p = read_log(); (p = strstr(p, part)); p++)
		n++;
	return n;
}

static unsigned count_sockets(void)
{
	char path[64], target[64];
	const struct dirent *entry;
	unsigned n = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", service.exporter);
	dir = opendir(path);
	ck_assert_ptr_nonnull(dir);
	while ((entry = readdir(dir))) {
		ssize_t len = readlinkat(dirfd(dir), entry->d_name, target, sizeof(target));

		n += atoi(entry->d_name) > STDERR_FILENO && len > 7 &&
		     memcmp(target, "socket:", 7) == 0;
	}
	closedir(dir);
	return n;
}

void await_sockets(unsigned expected)
{
	unsigned n;

	AWAIT((n = count_sockets()) == expected, "%u sockets, and not %u", expected, n);
}

unsigned idle_sockets(void)
{
	/*
	 * The request opens the exporter's session. The exporter notices the end of the request's connection a little
	 * later.
	 */
	assert_served_on(service.metrics);
	await_sockets(IDLE_SOCKETS);
	return IDLE_SOCKETS;
}

void assert_serves(void)
{
	struct rdmabroker *session = open_session(0);

	rdmabroker_destroy_id(resolve(session, 1));
	rdmabroker_close(session);
}

unsigned elapsed_ms(const struct timespec *since)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (unsigned)((now.tv_sec - since->tv_sec) * 1000 +
			  (now.tv_nsec - since->tv_nsec) / 1000000);
}

socklen_t make_address(struct sockaddr_storage *ret, const char *address)
{
	struct sockaddr_un *un = (struct sockaddr_un *)ret;
	struct sockaddr_in *in = (struct sockaddr_in *)ret;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ret;
	const in_port_t port =
		htons((in_port_t)atoi(strrchr(address, ':') ? strrchr(address, ':') + 1 : "0"));

	*ret = (struct sockaddr_storage){};
	if (address[0] == '/') {
		un->sun_family = AF_UNIX;
		strcpy(un->sun_path, address);
		return sizeof(*un);
	}
	if (address[0] == '[') {
		in6->sin6_family = AF_INET6;
		in6->sin6_addr = in6addr_loopback;
		in6->sin6_port = port;
		return sizeof(*in6);
	}
	in->sin_family = AF_INET;
	in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	in->sin_port = port;
	return sizeof(*in);
}

int dial(const char *address)
{
	struct sockaddr_storage addr;
	socklen_t len = make_address(&addr, address);
	int fd = socket(addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int r;

	ck_assert_int_ge(fd, 0);
	if (connect(fd, (struct sockaddr *)&addr, len) == 0)
		return fd;
	r = -errno;
	close(fd);
	return r;
}

int dialled(const char *address)
{
	int fd = dial(address);

	ck_assert_int_ge(fd, 0);
	return fd;
}

const char *free_address(const char *host)
{
	static char text[64];
	struct sockaddr_storage addr;
	socklen_t len;
	int fd;

	snprintf(text, sizeof(text), "%s:0", host);
	len = make_address(&addr, text);
	fd = socket(addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	text[0] = 0;
	if (fd >= 0 && bind(fd, (struct sockaddr *)&addr, len) == 0) {
		ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&addr, &len), 0);
		/* The port is at the same place in both families. */
		snprintf(text, sizeof(text), "%s:%u", host,
			 ntohs(((struct sockaddr_in *)&addr)->sin_port));
	}
	close(fd);
	return text;
}

void send_text(int fd, const char *text)
{
	ck_assert_int_eq(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

void read_answer(int fd)
{
	const char *length;
	ssize_t n;

	memset(&answer, 0, sizeof(answer));
	do {
		AWAIT_INPUT(fd, "an answer, of which there are %zu bytes", answer.len);
		ck_assert_uint_lt(answer.len, sizeof(answer.text) - 1);
		n = recv(fd, answer.text + answer.len, sizeof(answer.text) - 1 - answer.len, 0);
		if (n > 0)
			answer.len += (size_t)n;
	} while (n > 0);
	close(fd);
	answer.text[answer.len] = 0;
	sscanf(answer.text, "HTTP/1.%*c %u ", &answer.status);
	answer.body = strstr(answer.text, "\r\n\r\n");
	if (!answer.body) {
		answer.body = answer.text + answer.len;
		return;
	}
	answer.body[2] = 0;
	answer.body += 4;
	length = strcasestr(answer.text, "\r\nContent-Length: ");
	answer.is_whole = length && strtoul(length + 18, NULL, 10) == strlen(answer.body);
}

void ask(const char *address, const char *request)
{
	int fd = dialled(address);

	send_text(fd, request);
	read_answer(fd);
}

static void check_text(const char *option)
{
	char command[256];
	FILE *check;

	snprintf(command, sizeof(command), "python3 -IS \"${SRCDIR:-.}/tests/openmetrics\" %s",
		 option);
	check = popen(command, "w");
	ck_assert_ptr_nonnull(check);
	fputs(answer.body, check);
	ck_assert_msg(pclose(check) == 0, "%s", answer.text);
}

void assert_metrics(void)
{
	ck_assert_uint_eq(answer.status, 200);
	assert_has(answer.text, "\r\nContent-Type: application/openmetrics-text; version=1.0.0; "
				"charset=utf-8\r\n");
	assert_has(answer.text, "\r\nConnection: close\r\n");
	assert_has(answer.text, "\r\nVary: Accept\r\n");
	ck_assert(answer.is_whole);
	check_text("");
}

void assert_prometheus(void)
{
	ck_assert_uint_eq(answer.status, 200);
	assert_has(answer.text, "\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n");
	ck_assert(answer.is_whole);
	check_text("--prometheus");
}

void assert_served_on(const char *address)
{
	ask(address, GET_1_1);
	assert_metrics();
	assert_has(answer.body, "\nrdmabroker_up 1\n");
	assert_has(answer.body, "\nrdmabroker_rules ");
}

void assert_refused_on(const char *address)
{
	ck_assert_int_eq(dial(address), address[0] == '/' ? -ENOENT : -ECONNREFUSED);
}

unsigned long value_of(const char *name)
{
	char line[128];
	const char *found;

	snprintf(line, sizeof(line), "\n%s ", name);
	found = strstr(answer.body, line);
	ck_assert_msg(found, "no %s in %s", name, answer.text);
	return strtoul(found + strlen(line), NULL, 10);
}

/* The exporter shares an answer for one second. No event marks the end of that time. */
void await_stale(void)
{
	poll(NULL, 0, 1100);
}

static unsigned long get_up(void)
{
	ask(service.metrics, GET_1_1);
	assert_metrics();
	return value_of("rdmabroker_up");
}

void await_up(unsigned up)
{
	AWAIT(get_up() == up, "rdmabroker_up %u", up);
}
