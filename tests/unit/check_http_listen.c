/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/unit/http.h"

/* MetricsListen=: where it is served, and that a reload changes it. */

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

UNIT_MAIN("http_listen", set_up_daemon, tear_down_daemon, reload_switches, an_address_in_use,
	  what_is_at_the_path, a_directory_can_give_the_group)
