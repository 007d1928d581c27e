/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/sockets.h"
#include "tests/unit/exporter.h"

/* The options and the configuration of rdmabroker-exporter, and the addresses on which it listens. */

/* Runs the exporter with TEXT as its exporter.conf, which is invalid, and checks that the error contains WORDS. */
static void refused(const char *text, const char *words)
{
	write_text(service.settings, text);
	ck_assert_int_eq(exporter("--config", service.settings), 78);
	assert_has(got.err, words);
	assert_has(got.err, "rdmabroker-exporter: ");
}

static void refused_address(const char *address)
{
	char text[512];

	snprintf(text, sizeof(text), "[Exporter]\nListen=%s\n", address);
	refused(text, "exporter.conf:2:8: Listen= takes at most 8 addresses, each HOST:PORT, "
		      "[HOST]:PORT, :PORT (every address of this host) or an absolute path");
	ck_assert_int_eq(exporter("--config", "/dev/null", "--listen", address), 2);
	snprintf(text, sizeof(text), "--listen takes " SOCKETS_ANY ", not \"%s\"", address);
	assert_has(got.err, text);
	assert_has(got.err, "see rdmabroker-exporter --help");
}

START_TEST(options)
{
	ck_assert_int_eq(exporter("--help"), 0);
	assert_has(got.out, "rdmabroker-exporter [OPTION ...]\n");
	assert_has(got.out, "default 127.0.0.1:9471");
	ck_assert_str_eq(got.err, "");
	ck_assert_int_eq(exporter("--version"), 0);
	assert_has(got.out, "rdmabroker-exporter 0.");
	ck_assert_int_eq(exporter("--no-such"), 2);
	assert_has(got.err, "see rdmabroker-exporter --help");
	ck_assert_int_eq(exporter("extra"), 2);
	assert_has(got.err, "unexpected argument 'extra'");
	ck_assert_int_eq(exporter("--listen=:1", "--listen=:2", "--listen=:3", "--listen=:4",
				  "--listen=:5", "--listen=:6", "--listen=:7", "--listen=:8",
				  "--listen=:9"),
			 2);
	assert_has(got.err, "--listen can be given at most 8 times");
	ck_assert_int_eq(exporter("--config", "/dev/null", "--socket", "relative"), 2);
	assert_has(got.err, "--socket takes an absolute path of at most 107 bytes");
	ck_assert_int_eq(exporter("--config", "/no/such/file"), 78);
	assert_has(got.err, "Cannot read /no/such/file: No such file or directory");
	ck_assert_int_eq(exporter("--config", "/"), 78);
	assert_has(got.err, "Cannot read /: Is a directory");
}
END_TEST

START_TEST(the_configuration)
{
	char text[512], address[64];

	strcpy(address, free_address("127.0.0.1"));
	snprintf(text, sizeof(text),
		 "# words\n\n [Exporter] \n Listen = %s  %s\nSocket=%s\n; more words\n", address,
		 service.metrics, harness.socket_path);
	write_text(service.settings, text);
	start_broker();
	start_exporter_with((const char *const[]){ NULL });
	assert_served_on(address);
	assert_served_on(service.metrics);
	stop_exporter();
	/* The option --listen overrides Listen=. */
	start_exporter(service.metrics);
	assert_refused_on(address);
	assert_served_on(service.metrics);
	stop();
}
END_TEST

START_TEST(errors_in_the_configuration)
{
	static const char *const bad[] = {
		"9471",
		"*:9471",
		"localhost:9471",
		"127.0.0.1",
		"127.0.0.1:",
		"127.0.0.1:0",
		"127.0.0.1:65536",
		"127.0.0.1:-1",
		"127.0.0.1:http",
		"127.1:9471",
		"::1:9471",
		"[::1]",
		"[::1]9471",
		"[::1:9471",
		"::1]:9471",
		"[]:9471",
		"[:9471",
		"[127.0.0.1]:9471",
		"[::1%lo]:9471",
		"run/m.sock",
		"@abstract",
		"/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
		"aaaaaaaaaaaaaaaaaaaaaaaaaaa",
	};
	char text[8192];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		refused_address(bad[i]);
	refused("[Exporter]\nListen=\n", "exporter.conf:2:8: Listen= takes at most 8 addresses");
	refused("[Exporter]\nListen=/1 /2 /3 /4 /5 /6 /7 /8 /9\n",
		"exporter.conf:2:32: Listen= takes at most 8 addresses");
	refused("[Exporter]\nListening=/x\n",
		"exporter.conf:2:1: unknown key 'Listening' in section [Exporter]");
	refused("[Exporter]\n listen=/x\n",
		"exporter.conf:2:2: unknown key 'listen' in section [Exporter], did you mean 'Listen'?");
	refused("Listen=/x\n", "exporter.conf:1:1: a [Section] must come before the first key");
	/* The section that is meant is told, and the keys below a wrong one are no errors of their own. */
	refused("[Daemon]\nNonsense=/x\n",
		"exporter.conf:1:2: unknown section [Daemon], did you mean 'Exporter'?");
	ck_assert_ptr_null(strstr(got.err, "Nonsense"));
	refused("[Exporter]\nSocket=relative\n",
		"exporter.conf:2:8: Socket= takes an absolute path of at most 107 bytes");
	refused("[Exporter]\n\nListen\n", "exporter.conf:3:1: expected Key=Value");
	/* An indented line is not the continuation of a value. */
	refused("[Exporter]\nListen=/x\n  /y\n", "exporter.conf:3:3: expected Key=Value");
	snprintf(text, sizeof(text), "[Exporter]\nListen=%04090d\n", 0);
	refused(text, "exporter.conf:2:4097: the line is longer than 4096 bytes");
	/* What the journal could not show is not repeated there. */
	refused("[Exporter]\nListen=\x1b[31m\n", "exporter.conf:2:8: control character");
	refused("[Exporter]\r\n", "exporter.conf:1:11: carriage return");
	/* All errors of a file are told. */
	refused("[Exporter]\nListen=/x y\nSocket=z\n", "exporter.conf:2:11: Listen= takes");
	assert_has(got.err, "exporter.conf:3:8: Socket= takes");
}
END_TEST

/* The installed exporter.conf names each key with its default. */
START_TEST(the_installed_configuration)
{
	const char *top = getenv("SRCDIR");
	char command[256];

	snprintf(command, sizeof(command), "sed 's/^#\\([A-Z]\\)/\\1/' %s/conf/exporter.conf >%s",
		 top ? top : ".", service.settings);
	ck_assert_int_eq(system(command), 0);
	start_exporter(service.metrics);
	stop_exporter();
	snprintf(command, sizeof(command), "grep -qx Listen=127.0.0.1:9471 %s", service.settings);
	ck_assert_int_eq(system(command), 0);
}
END_TEST

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

	/* If one address fails, the exporter removes the socket that it has created for another. */
	ck_assert_int_eq(exporter("--config", "/dev/null", "--listen", service.metrics, "--listen",
				  address),
			 1);
	assert_has(got.err, "Cannot listen on 127.0.0.1:");
	assert_has(got.err, ": Address already in use. Another program listens there.");
	assert_refused_on(service.metrics);
	close(fd);
	start(address);
	assert_served_on(address);
	stop();
	ck_assert_int_eq(exporter("--config", "/dev/null", "--listen", "192.0.2.1:9471"), 1);
	assert_has(got.err, "This host does not have the address.");
}
END_TEST

START_TEST(what_is_at_the_path)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct stat st;
	int fd;

	/* The exporter does not remove a regular file. */
	write_text(service.metrics, "precious\n");
	ck_assert_int_eq(exporter("--config", "/dev/null", "--listen", service.metrics), 1);
	assert_has(got.err, "Cannot listen on ");
	assert_has(got.err, ": File exists.");
	ck_assert_int_eq(stat(service.metrics, &st), 0);
	ck_assert_int_eq(st.st_size, 9);
	ck_assert_int_eq(unlink(service.metrics), 0);

	/* The exporter does not remove a socket on which another process listens. */
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	strcpy(addr.sun_path, service.metrics);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	ck_assert_int_eq(listen(fd, 1), 0);
	ck_assert_int_eq(exporter("--config", "/dev/null", "--listen", service.metrics), 1);
	assert_has(got.err, ": Address already in use.");
	close(dialled(service.metrics));

	/* A socket on which nobody listens any more is replaced. */
	close(fd);
	ck_assert_int_eq(dial(service.metrics), -ECONNREFUSED);
	start(service.metrics);
	assert_served_on(service.metrics);

	/* The exporter does not replace the daemon's own socket. */
	ck_assert_int_eq(exporter("--config", "/dev/null", "--listen", harness.socket_path), 1);
	assert_serves();
	stop();
}
END_TEST

/* In a set-group-ID directory, the exporter's socket gets the group of the directory. */
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

/*
 * systemd-socket-activate creates the socket, and passes it to the exporter when a client connects. The exporter does
 * not remove this socket.
 */
START_TEST(a_socket_from_systemd)
{
	char command[1024];
	int fd;

	if (system("command -v systemd-socket-activate >/dev/null") != 0) {
		fprintf(stderr, "skipped: there is no systemd-socket-activate\n");
		return;
	}
	start_broker();
	snprintf(command, sizeof(command),
		 "exec systemd-socket-activate -l %s "
		 "%s/rdmabroker-exporter --config /dev/null --socket %s 2>%s & echo $! >%s/pid",
		 service.metrics, service.folder, harness.socket_path, service.log, harness.dir);
	ck_assert_int_eq(system(command), 0);
	AWAIT((fd = dial(service.metrics)) != -ENOENT && fd != -ECONNREFUSED,
	      "a socket of systemd-socket-activate");
	ck_assert_int_ge(fd, 0);
	send_text(fd, GET_1_1);
	read_answer(fd);
	assert_metrics();
	ck_assert_uint_eq(value_of("rdmabroker_up"), 1);
	snprintf(command, sizeof(command),
		 "p=$(cat %s/pid); kill $p; while kill -0 $p 2>/dev/null; do :; done", harness.dir);
	ck_assert_int_eq(system(command), 0);
	ck_assert_int_eq(access(service.metrics, F_OK), 0);
	assert_logged("Serving metrics on ");
	stop_broker();
}
END_TEST

UNIT_MAIN("exporter_start", set_up_service, tear_down_service, options, the_configuration,
	  errors_in_the_configuration, the_installed_configuration, an_address_in_use,
	  what_is_at_the_path, a_directory_can_give_the_group, a_socket_from_systemd)
