/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <netinet/in.h>
#include <poll.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "broker.h"
#include "tests/unit/http.h"
#include "util/log.h"

struct http_daemon daemon_;
struct answer answer;

/* The daemon */

void write_text(const char *name, const char *text)
{
	FILE *f = fopen(name, "w");

	ck_assert_msg(f, "%s", name);
	fputs(text, f);
	fclose(f);
	ck_assert_int_eq(chmod(name, 0644), 0);
}

void set_up_daemon(void)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	char rules[128];

	harness = (struct harness){ .dir = "/tmp/rdmabroker-check-XXXXXX" };
	ck_assert_ptr_nonnull(mkdtemp(harness.dir));
	ck_assert_int_eq(chmod(harness.dir, 0755), 0);
	snprintf(harness.socket_path, sizeof(harness.socket_path), "%s/socket", harness.dir);
	snprintf(daemon_.config, sizeof(daemon_.config), "%s/conf", harness.dir);
	snprintf(daemon_.policy, sizeof(daemon_.policy), "%s/policy.d", harness.dir);
	snprintf(daemon_.metrics, sizeof(daemon_.metrics), "%s/metrics.sock", harness.dir);
	snprintf(daemon_.log, sizeof(daemon_.log), "%s/log", harness.dir);
	ck_assert_int_eq(mkdir(daemon_.policy, 0755), 0);
	snprintf(rules, sizeof(rules), "%s/1.rules", daemon_.policy);
	write_text(rules, "allow any\n");

	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/notify", harness.dir);
	daemon_.notify = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(bind(daemon_.notify, (struct sockaddr *)&addr, sizeof(addr)), 0);
	setenv("NOTIFY_SOCKET", addr.sun_path, 1);
	snprintf(program, sizeof(program), "%s/rdmabrokerctl", build_dir());
	setenv("LD_LIBRARY_PATH", build_dir(), 1);
}

static int remove_one(const char *name, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(name);
}

void tear_down_daemon(void)
{
	nftw(harness.dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void configure(const char *listen)
{
	char text[256];

	snprintf(text, sizeof(text), "[Daemon]\nLogLevel=debug\nMetricsListen=%s\n", listen);
	write_text(daemon_.config, text);
}

void write_many_rules(void)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/0.rules", daemon_.policy);
	f = fopen(path, "w");
	ck_assert_ptr_nonnull(f);
	for (unsigned i = 0; i < MANY_RULES; i++)
		fprintf(f, "reject listen port %u\n", i % 65535 + 1);
	fclose(f);
	ck_assert_int_eq(chmod(path, 0644), 0);
}

/* Until systemd is told WORD; returns what it is told with it. */
static const char *await_word(const char *word)
{
	struct pollfd p = { .fd = daemon_.notify, .events = POLLIN };
	static char text[1024];
	ssize_t n;

	do {
		ck_assert_int_eq(poll(&p, 1, 2 * T), 1);
		n = recv(daemon_.notify, text, sizeof(text) - 1, 0);
		ck_assert_int_gt(n, 0);
		text[n] = 0;
	} while (!strstr(text, word));
	return text;
}

/* And what it says of itself then. */
static void await_ready(void)
{
	await_word("READY=1");
	snprintf(daemon_.status, sizeof(daemon_.status), "%s", await_word("STATUS="));
}

/* _exit() passes by what looks for leaks. */
static bool leaks(void)
{
#ifdef __SANITIZE_ADDRESS__
	return __lsan_do_recoverable_leak_check();
#else
	return false;
#endif
}

void start(const char *listen)
{
	const struct broker_options options = {
		.config_path = daemon_.config,
		.socket_path = harness.socket_path,
		.policy_dir = daemon_.policy,
	};
	struct broker *broker = NULL;

	configure(listen);
	daemon_.pid = fork();
	ck_assert_int_ge(daemon_.pid, 0);
	if (daemon_.pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close_range(STDERR_FILENO + 1, ~0U, 0);
		dup2(open(daemon_.log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644),
		     STDERR_FILENO);
		log_init();
		if (broker_new(&broker, &options) < 0 || broker_run(broker) < 0)
			_exit(1);
		broker_free(broker);
		_exit(leaks());
	}
	await_ready();
}

void reload(void)
{
	kill(daemon_.pid, SIGHUP);
	await_word("RELOADING=1");
	await_ready();
}

void reload_with(const char *listen)
{
	configure(listen);
	reload();
}

void stop(void)
{
	int status;

	kill(daemon_.pid, SIGTERM);
	ck_assert_int_eq(waitpid(daemon_.pid, &status, 0), daemon_.pid);
	ck_assert_int_eq(status, 0);
}

static const char *read_log(void)
{
	static char text[65536];
	FILE *f = fopen(daemon_.log, "r");
	size_t n;

	ck_assert_ptr_nonnull(f);
	n = fread(text, 1, sizeof(text) - 1, f);
	text[n] = 0;
	fclose(f);
	return text;
}

void assert_logged(const char *part)
{
	for (int i = 0; i < T && !strstr(read_log(), part); i++)
		poll(NULL, 0, 1);
	assert_has(read_log(), part);
}

static unsigned count_fds(void)
{
	char path[64];
	unsigned n = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", daemon_.pid);
	dir = opendir(path);
	ck_assert_ptr_nonnull(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n - 2;
}

void await_fds(unsigned expected)
{
	unsigned n = count_fds();

	for (int i = 0; i < T && n != expected; i++) {
		poll(NULL, 0, 1);
		n = count_fds();
	}
	ck_assert_uint_eq(n, expected);
}

void assert_serves(void)
{
	struct rdmabroker *session = open_session(0);

	rdmabroker_destroy_id(resolve(session, 1));
	rdmabroker_close(session);
}

/* HTTP */

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

/* The chunks of BODY become one text. Whether the last one is there. */
static bool join_chunks(char *body)
{
	char *to = body, *from = body, *end;
	unsigned long n;

	for (;;) {
		n = strtoul(from, &end, 16);
		if (end == from || strncmp(end, "\r\n", 2) != 0)
			break;
		from = end + 2;
		if (n == 0) {
			*to = 0;
			return strcmp(from, "\r\n") == 0;
		}
		if (n + 2 > strlen(from))
			n = strlen(from);
		memmove(to, from, n);
		to += n;
		from += n;
		if (strncmp(from, "\r\n", 2) != 0)
			break;
		from += 2;
	}
	*to = 0;
	return false;
}

void read_answer(int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	ssize_t n;

	memset(&answer, 0, sizeof(answer));
	do {
		ck_assert_int_eq(poll(&p, 1, ms), 1);
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
	answer.is_whole = true;
	if (strcasestr(answer.text, "\r\nTransfer-Encoding: chunked\r\n") && answer.body[0])
		answer.is_whole = join_chunks(answer.body);
}

void ask(const char *address, const char *request)
{
	int fd = dialled(address);

	send_text(fd, request);
	read_answer(fd, T);
}

void assert_metrics(void)
{
	FILE *check;

	ck_assert_uint_eq(answer.status, 200);
	assert_has(answer.text, "\r\nContent-Type: application/openmetrics-text; version=1.0.0; "
				"charset=utf-8\r\n");
	assert_has(answer.text, "\r\nConnection: close\r\n");
	ck_assert(answer.is_whole);
	check = popen("python3 -IS \"${SRCDIR:-.}/tests/openmetrics\"", "w");
	ck_assert_ptr_nonnull(check);
	fputs(answer.body, check);
	ck_assert_msg(pclose(check) == 0, "%s", answer.text);
}

void assert_served_on(const char *address)
{
	ask(address, GET_1_1);
	assert_metrics();
	assert_has(answer.body, "\nrdmabroker_rules ");
}

void assert_refused_on(const char *address)
{
	ck_assert_int_eq(dial(address), address[0] == '/' ? -ENOENT : -ECONNREFUSED);
}

unsigned idle_fds(void)
{
	const char *line;
	unsigned n;

	ask(daemon_.metrics, GET_1_1);
	line = strstr(answer.body, "\nrdmabroker_fds ");
	ck_assert_ptr_nonnull(line);
	n = (unsigned)atoi(line + 16) - 1;
	/* This connection's end is seen here before it is there. */
	await_fds(n);
	return n;
}
