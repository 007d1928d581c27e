/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "broker.h"
#include "tests/unit/program.h"
#include "util/log.h"

/* MetricsListen=: a whole daemon, over the fake fabric and in a process of its own, and raw HTTP. */

#define MANY_RULES 10000 /* their text is more than socket buffers hold */

static struct {
	char config[96], policy[96], metrics[96], log[96];
	pid_t pid;
	int notify; /* what systemd would listen on */
	char status[512]; /* the last that it was told */
} daemon_;

static struct {
	char text[8 << 20]; /* all that came */
	size_t len;
	unsigned status;
	char *body; /* as it was before it was cut into chunks */
	bool is_whole; /* it ended as HTTP/1.1 wants it to */
} answer;

/* The daemon */

static void write_text(const char *name, const char *text)
{
	FILE *f = fopen(name, "w");

	ck_assert_msg(f, "%s", name);
	fputs(text, f);
	fclose(f);
	ck_assert_int_eq(chmod(name, 0644), 0);
}

static void set_up_daemon(void)
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

static void tear_down_daemon(void)
{
	nftw(harness.dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void configure(const char *listen)
{
	char text[256];

	snprintf(text, sizeof(text), "[Daemon]\nLogLevel=debug\nMetricsListen=%s\n", listen);
	write_text(daemon_.config, text);
}

static void write_many_rules(void)
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

static void start(const char *listen)
{
	const struct broker_options options = { daemon_.config, harness.socket_path,
						daemon_.policy };
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
		_exit(0);
	}
	await_ready();
}

static void reload(void)
{
	kill(daemon_.pid, SIGHUP);
	await_word("RELOADING=1");
	await_ready();
}

static void reload_with(const char *listen)
{
	configure(listen);
	reload();
}

static void stop(void)
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

static void assert_logged(const char *part)
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

static void await_fds(unsigned expected)
{
	for (int i = 0; i < T && count_fds() != expected; i++)
		poll(NULL, 0, 1);
	ck_assert_uint_eq(count_fds(), expected);
}

/* A client of the daemon's proper trade. */
static void assert_serves(void)
{
	struct rdmabroker *session = open_session(0);

	rdmabroker_destroy_id(resolve(session, 1));
	rdmabroker_close(session);
}

/* HTTP */

static socklen_t make_address(struct sockaddr_storage *ret, const char *address)
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

static int dial(const char *address)
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

static int dialled(const char *address)
{
	int fd = dial(address);

	ck_assert_int_ge(fd, 0);
	return fd;
}

/* "127.0.0.1:PORT" where nobody listens; "" where there is no such family. */
static const char *free_address(const char *host)
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

static void send_text(int fd, const char *text)
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

/* All until the end, which comes within MS for each piece. */
static void read_answer(int fd, int ms)
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

static void ask(const char *address, const char *request)
{
	int fd = dialled(address);

	send_text(fd, request);
	read_answer(fd, T);
}

#define GET_1_0 "GET /metrics HTTP/1.0\r\n\r\n"
#define GET_1_1 "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n"

static void assert_metrics(void)
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

static void assert_served_on(const char *address)
{
	ask(address, GET_1_1);
	assert_metrics();
	assert_has(answer.body, "\nrdmabroker_rules ");
}

static void assert_refused_on(const char *address)
{
	ck_assert_int_eq(dial(address), address[0] == '/' ? -ENOENT : -ECONNREFUSED);
}

/* How many descriptors the daemon has when nobody is there, in its own words, which are not of a moment. */
static unsigned idle_fds(void)
{
	const char *line;

	ask(daemon_.metrics, GET_1_1);
	line = strstr(answer.body, "\nrdmabroker_fds ");
	ck_assert_ptr_nonnull(line);
	return (unsigned)atoi(line + 16) - 1;
}

/* Tests */

START_TEST(serves_on_a_path)
{
	struct rdmabroker *session;
	struct stat st;

	start(daemon_.metrics);
	assert_logged("Metrics are served on ");
	ck_assert_int_eq(stat(daemon_.metrics, &st), 0);
	ck_assert_uint_eq(st.st_mode, S_IFSOCK | 0660);
	session = open_session(0);
	rdmabroker_destroy_id(resolve(session, 1));
	ask(daemon_.metrics, GET_1_0);
	assert_metrics();
	assert_has(answer.body, "\nrdmabroker_sessions 1\n");
	assert_has(answer.body, "rdmabroker_phase_seconds_count{phase=\"resolve addr\"} 1\n");
	assert_lacks(answer.text, "chunked");
	ask(daemon_.metrics, GET_1_1);
	assert_metrics();
	assert_has(answer.body, "\nrdmabroker_sessions 1\n");
	assert_has(answer.text, "chunked");
	rdmabroker_close(session);
	stop();
	ck_assert_int_eq(access(daemon_.metrics, F_OK), -1);
}
END_TEST

START_TEST(serves_on_loopback)
{
	static const char *const hosts[] = { "127.0.0.1", "[::1]" };

	for (size_t i = 0; i < 2; i++) {
		const char *address = free_address(hosts[i]);

		if (!*address) {
			printf("no loopback %s on this machine\n", hosts[i]);
			continue;
		}
		start(address);
		assert_served_on(address);
		stop();
		assert_refused_on(address);
		/* With connections of the last time still known to the kernel. */
		start(address);
		assert_served_on(address);
		stop();
	}
}
END_TEST

/* The same as rdmabrokerctl has it, but for what the asking itself changes. */
START_TEST(serves_what_the_program_prints)
{
	char *a, *b, *line, *other;

	start(daemon_.metrics);
	ck_assert_int_eq(ctl("metrics"), 0);
	ask(daemon_.metrics, GET_1_0);
	assert_metrics();
	line = strtok_r(got.out, "\n", &a);
	other = strtok_r(answer.body, "\n", &b);
	for (unsigned n = 0; line || other; n++) {
		ck_assert_msg(line && other, "%s | %s", line ?: "", other ?: "");
		if (strncmp(line, "rdmabroker_sessions ", 20) != 0 &&
		    strncmp(line, "rdmabroker_fds ", 15) != 0 &&
		    strncmp(line, "rdmabroker_rule_objects{", 24) != 0)
			ck_assert_str_eq(line, other);
		line = strtok_r(NULL, "\n", &a);
		other = strtok_r(NULL, "\n", &b);
	}
	stop();
}
END_TEST

START_TEST(many_rules_have_many_pages)
{
	char last[256];

	write_many_rules();
	start(daemon_.metrics);
	snprintf(last, sizeof(last), "rdmabroker_rule_objects{file=\"%s/0.rules\",line=\"%u\"} 0\n",
		 daemon_.policy, MANY_RULES);
	ask(daemon_.metrics, GET_1_1);
	assert_metrics();
	assert_has(answer.body, last);
	ask(daemon_.metrics, GET_1_0);
	assert_metrics();
	assert_has(answer.body, last);
	ck_assert_uint_gt(answer.len, 3 << 20);
	stop();
}
END_TEST

START_TEST(other_requests_are_refused)
{
	static const struct {
		const char *request;
		unsigned status;
		const char *header;
	} cases[] = {
		{ "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 404, "" },
		{ "GET /metrics/ HTTP/1.1\r\nHost: x\r\n\r\n", 404, "" },
		{ "GET /metrics/../metrics HTTP/1.1\r\nHost: x\r\n\r\n", 404, "" },
		{ "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", 404, "" },
		{ "POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", 405,
		  "\r\nAllow: GET, HEAD\r\n" },
		{ "PUT /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999999\r\n\r\n", 405,
		  "\r\nAllow: GET, HEAD\r\n" },
		{ "DELETE /metrics HTTP/1.1\r\nHost: x\r\n\r\n", 405, "\r\nAllow: GET, HEAD\r\n" },
		{ "get /metrics HTTP/1.1\r\nHost: x\r\n\r\n", 405, "\r\nAllow: GET, HEAD\r\n" },
		{ "GET /metrics HTTP/1.1\r\n\r\n", 400, "" },
	};

	start(daemon_.metrics);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		ask(daemon_.metrics, cases[i].request);
		ck_assert_msg(answer.status == cases[i].status, "%s: %s", cases[i].request,
			      answer.text);
		assert_has(answer.text, cases[i].header);
		assert_lacks(answer.body, "rdmabroker_");
	}
	ask(daemon_.metrics, "GET /metrics?name=x HTTP/1.1\r\nHost: x\r\n\r\n");
	assert_metrics();
	ask(daemon_.metrics, "HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
	ck_assert_uint_eq(answer.status, 200);
	assert_has(answer.text, "\r\nContent-Type: application/openmetrics-text");
	ck_assert_str_eq(answer.body, "");
	stop();
}
END_TEST

static void flood(int fd, size_t n)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	char text[4096];

	memset(text, 'a', sizeof(text));
	for (size_t sent = 0; sent < n;) {
		ssize_t k;

		ck_assert_int_eq(poll(&p, 1, T), 1);
		k = send(fd, text, sizeof(text), MSG_NOSIGNAL | MSG_DONTWAIT);
		if (k < 0 && errno != EAGAIN)
			return;
		sent += k > 0 ? (size_t)k : 0;
	}
}

START_TEST(what_is_no_request_ends)
{
	static const char *const begins[] = {
		"",
		"\r\n",
		"GET ",
		"GET /",
		"GET /metrics HTTP/1.1\r\nHost: x\r\nX: ",
		"\x16\x03\x01\x02",
		"POST /metrics HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz",
	};
	enum { N = sizeof(begins) / sizeof(begins[0]) };
	int flooding[N], ended[N];
	unsigned n_fds;

	start(daemon_.metrics);
	n_fds = idle_fds();
	for (size_t i = 0; i < N; i++) {
		flooding[i] = dialled(daemon_.metrics);
		send_text(flooding[i], begins[i]);
		flood(flooding[i], 1 << 20);
		ended[i] = dialled(daemon_.metrics);
		send_text(ended[i], begins[i]);
		shutdown(ended[i], SHUT_WR);
		assert_served_on(daemon_.metrics);
	}
	/* libmicrohttpd does not see every end that comes with the last byte; there is the deadline. */
	for (size_t i = 0; i < N; i++) {
		read_answer(flooding[i], 10000 + T);
		ck_assert_msg(answer.status != 200, "%s", answer.text);
		read_answer(ended[i], 10000 + T);
		ck_assert_msg(answer.status != 200, "%s", answer.text);
	}
	await_fds(n_fds);
	assert_serves();
	stop();
}
END_TEST

static unsigned elapsed_ms(const struct timespec *since)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (unsigned)((now.tv_sec - since->tv_sec) * 1000 +
			  (now.tv_nsec - since->tv_nsec) / 1000000);
}

/* What the daemon has computed so far. */
static unsigned cpu_ms(void)
{
	unsigned long user, system;
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", daemon_.pid);
	f = fopen(path, "r");
	ck_assert_ptr_nonnull(f);
	ck_assert_int_eq(fscanf(f,
				"%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
				&user, &system),
			 2);
	fclose(f);
	return (unsigned)((user + system) * 1000 / (unsigned long)sysconf(_SC_CLK_TCK));
}

/* One says nothing, one a letter now and then, one asks and does not read: nobody waits for them. */
START_TEST(the_slow_have_ten_seconds)
{
	struct pollfd silent = { .events = POLLIN }, slow = { .events = POLLIN };
	struct timespec begin;
	unsigned n_fds, cpu;
	int deaf;

	write_many_rules();
	start(daemon_.metrics);
	n_fds = idle_fds();
	clock_gettime(CLOCK_MONOTONIC, &begin);
	silent.fd = dialled(daemon_.metrics);
	slow.fd = dialled(daemon_.metrics);
	deaf = dialled(daemon_.metrics);
	send_text(silent.fd, "G");
	send_text(slow.fd, "GET /");
	send_text(deaf, GET_1_0);
	await_fds(n_fds + 3);
	assert_serves();
	ask(daemon_.metrics, GET_1_0);
	assert_metrics();
	cpu = cpu_ms();

	while (poll(&slow, 1, 500) == 0) {
		ck_assert_uint_lt(elapsed_ms(&begin), 10000 + T);
		send_text(slow.fd, "a");
	}
	ck_assert_uint_ge(elapsed_ms(&begin), 9000);
	/* Nor does the daemon turn round and round for them. */
	ck_assert_uint_lt(cpu_ms() - cpu, 1000);
	read_answer(slow.fd, T);
	ck_assert_uint_eq(answer.len, 0);
	read_answer(silent.fd, T);
	ck_assert_uint_eq(answer.len, 0);
	await_fds(n_fds);
	/* What lay in the socket's buffer. */
	read_answer(deaf, T);
	ck_assert_uint_eq(answer.status, 200);
	assert_lacks(answer.body, "# EOF");
	stop();
}
END_TEST

START_TEST(there_are_sixteen_at_a_time)
{
	unsigned n_fds;
	int fds[40];

	start(daemon_.metrics);
	n_fds = idle_fds();
	for (size_t i = 0; i < 40; i++)
		fds[i] = dialled(daemon_.metrics);
	await_fds(n_fds + 16);
	send_text(fds[16], GET_1_1);
	for (int i = 0; i < 3; i++)
		assert_serves();
	await_fds(n_fds + 16);
	/* Those who wait get their turns, in their order. */
	close(fds[3]);
	read_answer(fds[16], T);
	assert_metrics();
	for (size_t i = 0; i < 40; i++)
		if (i != 3 && i != 16)
			close(fds[i]);
	await_fds(n_fds);
	assert_served_on(daemon_.metrics);
	/* And an end of the daemon is not held up by those who are there. */
	for (size_t i = 0; i < 40; i++)
		fds[i] = dialled(daemon_.metrics);
	await_fds(n_fds + 16);
	stop();
	for (size_t i = 0; i < 40; i++)
		close(fds[i]);
}
END_TEST

/* It says so, waits a second, and does not turn round and round. */
START_TEST(descriptors_run_out)
{
	struct rlimit old, none;
	int fd;

	start(daemon_.metrics);
	ck_assert_int_eq(prlimit(daemon_.pid, RLIMIT_NOFILE, NULL, &old), 0);
	none = (struct rlimit){ 0, old.rlim_max };
	ck_assert_int_eq(prlimit(daemon_.pid, RLIMIT_NOFILE, &none, NULL), 0);
	fd = dialled(daemon_.metrics);
	send_text(fd, GET_1_1);
	assert_logged("Cannot accept who asks for metrics: Too many open files. Trying again in a "
		      "second.");
	ck_assert_int_eq(prlimit(daemon_.pid, RLIMIT_NOFILE, &old, NULL), 0);
	read_answer(fd, T);
	assert_metrics();
	stop();
}
END_TEST

START_TEST(reload_switches)
{
	char address[64], bad[256];

	start("");
	ck_assert_int_eq(access(daemon_.metrics, F_OK), -1);
	reload_with(daemon_.metrics);
	assert_served_on(daemon_.metrics);
	/* The same again: connections go on. */
	int fd = dialled(daemon_.metrics);
	reload();
	send_text(fd, GET_1_1);
	read_answer(fd, T);
	assert_metrics();

	strcpy(address, free_address("127.0.0.1"));
	reload_with(address);
	assert_refused_on(daemon_.metrics);
	assert_served_on(address);
	assert_lacks(daemon_.status, "metrics");

	/* What cannot be read changes nothing. */
	reload_with("0.0.0.0:9471");
	snprintf(bad, sizeof(bad), "%s:3:15: MetricsListen= takes only addresses of loopback",
		 daemon_.config);
	assert_logged(bad);
	assert_has(daemon_.status, "the last reload was refused: ");
	assert_served_on(address);

	reload_with("");
	assert_refused_on(address);
	assert_serves();
	stop();
}
END_TEST

/* Somebody else has the address. The daemon serves without, and asks again when it is reloaded. */
START_TEST(an_address_in_use)
{
	struct sockaddr_storage addr;
	char address[64];
	socklen_t len;
	int fd;

	strcpy(address, free_address("127.0.0.1"));
	len = make_address(&addr, address);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&addr, len), 0);
	ck_assert_int_eq(listen(fd, 1), 0);

	start(address);
	assert_logged("Metrics are not served, cannot listen on 127.0.0.1:");
	assert_logged("Address already in use. Another program does; once it has ended, reload.");
	assert_has(daemon_.status, "; metrics are not served, see the journal");
	assert_serves();
	reload();
	assert_has(daemon_.status, "; metrics are not served, see the journal");
	close(fd);
	reload();
	assert_lacks(daemon_.status, "metrics");
	assert_served_on(address);
	stop();
}
END_TEST

START_TEST(what_is_at_the_path)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct stat st;
	int fd;

	/* A file is not ours to remove. */
	write_text(daemon_.metrics, "precious\n");
	start(daemon_.metrics);
	assert_logged("Metrics are not served, cannot listen on ");
	assert_logged(": File exists.");
	assert_serves();
	stop();
	ck_assert_int_eq(stat(daemon_.metrics, &st), 0);
	ck_assert_int_eq(st.st_size, 9);
	ck_assert_int_eq(unlink(daemon_.metrics), 0);

	/* A socket where somebody listens: neither. */
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	strcpy(addr.sun_path, daemon_.metrics);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	ck_assert_int_eq(listen(fd, 1), 0);
	start(daemon_.metrics);
	assert_logged(": Address already in use.");
	stop();
	close(dialled(daemon_.metrics));

	/* One that was left behind is replaced. */
	close(fd);
	ck_assert_int_eq(dial(daemon_.metrics), -ECONNREFUSED);
	start(daemon_.metrics);
	assert_served_on(daemon_.metrics);
	stop();

	/* The daemon's own, of all paths. */
	start(harness.socket_path);
	assert_logged("Metrics are not served, cannot listen on ");
	assert_serves();
	stop();
}
END_TEST

/* rdmabrokerd.conf(5) says how others than the daemon's group can be let in. */
START_TEST(a_directory_can_give_the_group)
{
	char dir[96], path[128];
	struct stat st;

	if (geteuid() != 0) {
		printf("not root: no other group to give\n");
		return;
	}
	snprintf(dir, sizeof(dir), "%s/d", harness.dir);
	snprintf(path, sizeof(path), "%s/m.sock", dir);
	ck_assert_int_eq(mkdir(dir, 0750), 0);
	ck_assert_int_eq(chown(dir, 0, 65534), 0);
	ck_assert_int_eq(chmod(dir, 02750), 0);
	start(path);
	assert_served_on(path);
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_uint_eq(st.st_gid, 65534);
	ck_assert_uint_eq(st.st_mode, S_IFSOCK | 0660);
	stop();
}
END_TEST

/* The text of rules that are no more is not made up to its end. */
START_TEST(reload_cuts_a_text_short)
{
	unsigned n_fds;
	char path[128];
	int fd;

	write_many_rules();
	start(daemon_.metrics);
	n_fds = idle_fds();
	fd = dialled(daemon_.metrics);
	send_text(fd, GET_1_1);
	await_fds(n_fds + 1);
	ask(daemon_.metrics, GET_1_1);
	assert_metrics();
	snprintf(path, sizeof(path), "%s/0.rules", daemon_.policy);
	ck_assert_int_eq(unlink(path), 0);
	reload();
	read_answer(fd, T);
	ck_assert_uint_eq(answer.status, 200);
	ck_assert(!answer.is_whole);
	assert_lacks(answer.body, "# EOF");
	assert_served_on(daemon_.metrics);
	assert_has(answer.body, "\nrdmabroker_rules 1\n");
	await_fds(n_fds);
	stop();
}
END_TEST

UNIT_MAIN("http", set_up_daemon, tear_down_daemon, serves_on_a_path, serves_on_loopback,
	  serves_what_the_program_prints, many_rules_have_many_pages, other_requests_are_refused,
	  what_is_no_request_ends, the_slow_have_ten_seconds, there_are_sixteen_at_a_time,
	  descriptors_run_out, reload_switches, an_address_in_use, what_is_at_the_path,
	  a_directory_can_give_the_group, reload_cuts_a_text_short)
