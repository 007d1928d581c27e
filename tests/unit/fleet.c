/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/fleet.h"
#include "tests/unit/tree.h"
#include "tests/unit/unit.h"

struct etcd_service etcd_service;

/* The kernel gives ports of its range, from 32768 on, to connections, also between the choice of a port and its use. */
#define PORT_MIN 12000
#define PORT_MAX 31999

unsigned free_port(void)
{
	for (;;) {
		struct sockaddr_in addr = { .sin_family = AF_INET,
					    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), r;
		uint32_t random;

		ck_assert_int_eq(getrandom(&random, sizeof(random), 0), sizeof(random));
		random = PORT_MIN + random % (PORT_MAX - PORT_MIN + 1);
		addr.sin_port = htons((uint16_t)random);
		r = bind(fd, (struct sockaddr *)&addr, sizeof(addr));
		ck_assert(r == 0 || errno == EADDRINUSE);
		close(fd);
		if (r == 0)
			return random;
	}
}

bool set_up_etcd(void)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct etcd_service *s = &etcd_service;

	if (access("/usr/bin/etcd", X_OK) != 0) {
		fprintf(stderr, "skipped: no etcd here, which is in Debian's etcd-server\n");
		return false;
	}
	*s = (struct etcd_service){ .dir = "/tmp/rdmabroker-etcd-XXXXXX" };
	ck_assert_ptr_nonnull(mkdtemp(s->dir));
	ck_assert_int_eq(chmod(s->dir, 0755), 0);
	s->port = free_port();
	s->peer_port = free_port();
	s->notify = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%.64s/notify", s->dir);
	ck_assert_int_eq(bind(s->notify, (struct sockaddr *)&addr, sizeof(addr)), 0);
	return true;
}

static void run_etcd(void)
{
	struct etcd_service *s = &etcd_service;
	char data[256], log[256], peer[64], notify[256], ca[256], certificate[256], key[256];
	const char *argv[32] = { "etcd",
				 "--data-dir",
				 data,
				 "--listen-client-urls",
				 s->endpoint,
				 "--advertise-client-urls",
				 s->endpoint,
				 "--listen-peer-urls",
				 peer,
				 "--initial-advertise-peer-urls",
				 peer,
				 "--initial-cluster",
				 notify,
				 "--heartbeat-interval=20",
				 "--election-timeout=200",
				 "--logger=zap" };
	size_t n = 16;
	int out;

	snprintf(data, sizeof(data), "%s/data", s->dir);
	snprintf(log, sizeof(log), "%s/etcd.log", s->dir);
	snprintf(peer, sizeof(peer), "http://127.0.0.1:%u", s->peer_port);
	snprintf(ca, sizeof(ca), "--trusted-ca-file=%s/ca.pem", s->dir);
	snprintf(certificate, sizeof(certificate), "--cert-file=%s/server.pem", s->dir);
	snprintf(key, sizeof(key), "--key-file=%s/server.key", s->dir);
	if (s->has_tls) {
		argv[n++] = "--client-cert-auth";
		argv[n++] = ca;
		argv[n++] = certificate;
		argv[n++] = key;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close_range(STDERR_FILENO + 1, ~0U, 0);
	snprintf(notify, sizeof(notify), "%s/notify", s->dir);
	setenv("NOTIFY_SOCKET", notify, 1);
	snprintf(notify, sizeof(notify), "default=%s", peer);
	out = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	dup2(out, STDOUT_FILENO);
	dup2(out, STDERR_FILENO);
	execv("/usr/bin/etcd", (char *const *)argv);
	_exit(127);
}

void start_etcd(void)
{
	struct etcd_service *s = &etcd_service;
	char text[256];
	ssize_t n;

	snprintf(s->endpoint, sizeof(s->endpoint), "%s://127.0.0.1:%u",
		 s->has_tls ? "https" : "http", s->port);
	s->pid = fork();
	ck_assert_int_ge(s->pid, 0);
	if (s->pid == 0)
		run_etcd();
	do {
		AWAIT_INPUT(s->notify, "etcd to be ready, see %s/etcd.log", s->dir);
		n = recv(s->notify, text, sizeof(text) - 1, 0);
		ck_assert_int_gt(n, 0);
		text[n] = 0;
	} while (!strstr(text, "READY=1"));
}

void kill_etcd(void)
{
	if (etcd_service.pid <= 0)
		return;
	kill(etcd_service.pid, SIGKILL);
	ck_assert_int_eq(waitpid(etcd_service.pid, NULL, 0), etcd_service.pid);
	etcd_service.pid = 0;
}

void tear_down_etcd(void)
{
	if (!*etcd_service.dir)
		return;
	kill_etcd();
	close(etcd_service.notify);
	remove_tree(etcd_service.dir);
	etcd_service = (struct etcd_service){};
}

bool make_certificates(void)
{
	char command[2048];

	if (access("/usr/bin/openssl", X_OK) != 0) {
		fprintf(stderr, "skipped: no openssl here\n");
		return false;
	}
	/* No CN: with authentication by password, etcd 3.4 refuses certificates with one. */
	snprintf(
		command, sizeof(command),
		"cd %s && exec >openssl.log 2>&1 || exit 1\n"
		"key='-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes'\n"
		"openssl req -x509 $key -keyout ca.key -out ca.pem -subj /CN=ca -days 2 || exit 1\n"
		"for name in server client; do\n"
		"openssl req -new $key -keyout $name.key -out $name.csr -subj /O=$name || exit 1\n"
		"printf 'subjectAltName=IP:127.0.0.1\\nextendedKeyUsage=serverAuth,clientAuth\\n' >ext\n"
		"openssl x509 -req -in $name.csr -CA ca.pem -CAkey ca.key -CAcreateserial"
		" -out $name.pem -days 2 -extfile ext || exit 1\n"
		"done\n",
		etcd_service.dir);
	ck_assert_int_eq(system(command), 0);
	return true;
}

struct etcd *new_client(const char *endpoint)
{
	const char *endpoints[] = { endpoint ?: etcd_service.endpoint };
	const struct etcd_options options = { .endpoints = endpoints,
					      .n_endpoints = 1,
					      .call_ms = PATIENCE_MS,
					      .answer_max = 1 << 20 };
	struct etcd *etcd = NULL;

	ck_assert_int_eq(etcd_new(&etcd, &options), 0);
	return etcd;
}

void must(struct etcd *etcd, int r)
{
	ck_assert_msg(r == 0, "%d: %s", r, etcd_error(etcd));
}

int64_t put_text(struct etcd *etcd, const char *key, const char *text)
{
	int64_t revision = 0;

	must(etcd, etcd_put(etcd, key, text, strlen(text), 0, &revision));
	return revision;
}
