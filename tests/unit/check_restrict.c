/* SPDX-License-Identifier: BSD-2-Clause */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/object/restriction.h"
#include "core/object/session.h"
#include "proto/packet.h"
#include "proto/proof.h"
#include "proto/rdmabroker.pb-c.h"
#include "tests/unit/harness.h"
#include "util/util.h"

static struct rdmabroker *restricted(const char *rules, unsigned ids)
{
	struct rdmabroker *session = open_session(0);

	ck_assert_msg(rdmabroker_restrict(session, rules, ids) == 0, "%s",
		      rdmabroker_last_failure()->text);
	return session;
}

static struct rdmabroker *open_at(const char *path)
{
	struct rdmabroker_options options = RDMABROKER_OPTIONS_INIT;
	struct rdmabroker *session;

	options.socket = path;
	options.call_timeout_ms = T;
	ck_assert_msg(rdmabroker_open(&options, &session) == 0, "%s",
		      rdmabroker_last_failure()->text);
	return session;
}

static struct rdmabroker_id *new_id(struct rdmabroker *session)
{
	struct rdmabroker_id *id;

	ck_assert_msg(rdmabroker_create_id(session, RDMABROKER_PS_TCP, NULL, &id) == 0, "%s",
		      rdmabroker_last_failure()->text);
	return id;
}

static int try_listen(struct rdmabroker *session, uint16_t port)
{
	struct rdmabroker_id *id = new_id(session);
	int r = rdmabroker_bind_addr(id, addr(port));

	if (r == 0)
		r = rdmabroker_listen(id, 0);
	rdmabroker_destroy_id(id);
	return r;
}

static int try_resolve(struct rdmabroker *session, uint16_t port)
{
	struct rdmabroker_id *id = new_id(session);
	int r = rdmabroker_resolve_addr_wait(id, NULL, addr(port), T);

	rdmabroker_destroy_id(id);
	return r;
}

#define REASON "no rule of its restriction allows this"

START_TEST(only_what_its_rules_allow)
{
	struct rdmabroker *session =
		restricted("allow listen port 7471\nreject listen reason \"only 7471\"", 0);

	ck_assert_int_eq(try_listen(session, 7471), 0);
	expect_failure(try_listen(session, 7472), EACCES, "only 7471");
	expect_failure(try_resolve(session, 7471), EACCES, REASON);
	expect_failure(rdmabroker_open_device(session, "fake0", NULL), EACCES, REASON);
	rdmabroker_close(session);
}
END_TEST

/* The connection request of a peer is rejected, and the peer is told that it was denied. */
START_TEST(requests_of_peers_are_narrowed_too)
{
	struct rdmabroker *session = restricted("allow listen\nallow accept peer 10.8.0.0/16", 0);
	struct rdmabroker *peer = open_session(0);
	struct rdmabroker_id *listener = start_listening(session, 7471), *id = resolve(peer, 7471);
	struct rdmabroker_conn_param param = RDMABROKER_CONN_PARAM_INIT;
	struct rdmabroker_event *event;

	param.qp_num = 17;
	ck_assert_int_eq(rdmabroker_connect(id, &param), 0);
	event = expect(peer, RDMABROKER_EVENT_REJECTED);
	ck_assert_int_eq(event->rejected_by, RDMABROKER_REJECTED_BY_POLICY);
	ck_assert_int_eq(event->reject_code, RDMABROKER_REJECT_DENIED);
	rdmabroker_free_event(event);
	rdmabroker_destroy_id(listener);
	rdmabroker_close(peer);
	rdmabroker_close(session);
}
END_TEST

START_TEST(policy_decides_as_well)
{
	struct rdmabroker *session;

	set_policy("allow session\nallow listen port 7471\n");
	session = restricted("allow any", 0);
	ck_assert_int_eq(try_listen(session, 7471), 0);
	expect_failure(try_listen(session, 7472), EACCES, "no-rule");
	rdmabroker_close(session);
}
END_TEST

START_TEST(narrowed_again_is_never_wider)
{
	struct rdmabroker *session = restricted("allow listen port 7471-7480", 0);

	ck_assert_int_eq(rdmabroker_restrict(session, "allow any", 0), 0);
	expect_failure(try_listen(session, 7481), EACCES, REASON);
	ck_assert_int_eq(rdmabroker_restrict(session, "allow listen port 7480-7490", 0), 0);
	ck_assert_int_eq(try_listen(session, 7480), 0);
	expect_failure(try_listen(session, 7471), EACCES, REASON);
	expect_failure(try_listen(session, 7485), EACCES, REASON);
	rdmabroker_close(session);
}
END_TEST

START_TEST(restrictions_of_a_session_are_limited)
{
	struct rdmabroker *session = open_session(0);
	char rules[64];

	for (int i = 0; i < RESTRICTION_DEPTH_MAX; i++) {
		snprintf(rules, sizeof(rules), "allow listen port %d", 7471 + i);
		ck_assert_int_eq(rdmabroker_restrict(session, rules, 0), 0);
		/* Twice the same is once. */
		ck_assert_int_eq(rdmabroker_restrict(session, rules, 0), 0);
	}
	expect_failure(rdmabroker_restrict(session, "allow any", 0), EDQUOT,
		       "restrictions already");
	rdmabroker_close(session);
}
END_TEST

START_TEST(rules_with_errors)
{
	static const struct {
		const char *rules, *part;
	} wrong[] = {
		{ "allow listen\nallow connect user root",
		  "restriction:2:15: 'user' cannot be used" },
		{ "allow any group 0", "'group' cannot be used in a restriction" },
		{ "allow any unit x", "'unit' cannot be used in a restriction" },
		{ "allow any container x", "'container' cannot be used in a restriction" },
		{ "allow any pod x", "'pod' cannot be used in a restriction" },
		{ "allow any job 1", "'job' cannot be used in a restriction" },
		{ "allow any cgroup /x", "'cgroup' cannot be used in a restriction" },
		{ "allow connect tos 3", "'tos' cannot be used in a restriction" },
		{ "allow connect max 3", "'max' cannot be used in a restriction" },
		{ "allow device access open", "'access' cannot be used in a restriction" },
		{ "allow connect qp reserved", "'qp' cannot be used in a restriction" },
		{ "allow any log", "'log' cannot be used in a restriction" },
		{ "set a = { 10.0.0.0/8 }", "restriction:1:1: 'set' cannot be used" },
		{ "allow connect peer @a", "no set of this name" },
		{ "alow any", "did you mean 'allow'" },
	};
	struct rdmabroker *session = open_session(0);
	char longest[RESTRICTION_TEXT_MAX + 1] = "allow any # ", many[RESTRICTION_TEXT_MAX];

	for (size_t i = 0; i < ELEMENTS_OF(wrong); i++)
		expect_failure(rdmabroker_restrict(session, wrong[i].rules, 0), EINVAL,
			       wrong[i].part);
	memset(longest + strlen(longest), 'x', RESTRICTION_TEXT_MAX - strlen(longest));
	expect_failure(rdmabroker_restrict(session, longest, 0), EINVAL, "longer than 1023 bytes");
	longest[RESTRICTION_TEXT_MAX - 1] = 0;
	/* The session is not restricted by any of these, so it can still do everything. */
	ck_assert_int_eq(try_listen(session, 7471), 0);
	ck_assert_int_eq(rdmabroker_restrict(session, longest, 0), 0);
	*many = 0;
	for (int i = 0; i <= RESTRICTION_RULES_MAX; i++)
		strcat(many, "allow any\n");
	expect_failure(rdmabroker_restrict(session, many, 0), EINVAL, "more than 32 rules");
	/* No rule: nothing is allowed. */
	ck_assert_int_eq(rdmabroker_restrict(session, "", 0), 0);
	expect_failure(try_listen(session, 7471), EACCES, REASON);
	rdmabroker_close(session);
}
END_TEST

START_TEST(session_that_has_something)
{
	struct rdmabroker *session = open_session(0);
	struct rdmabroker_id *id = start_listening(session, 7471);

	expect_failure(rdmabroker_restrict(session, "allow any", 0), EINVAL, "has ids");
	rdmabroker_destroy_id(id);
	ck_assert_int_eq(rdmabroker_restrict(session, "allow any", 0), 0);
	id = start_listening(session, 7471);
	expect_failure(rdmabroker_release(session), EINVAL, "has ids");
	rdmabroker_destroy_id(id);
	rdmabroker_close(session);
	session = open_session(0);
	expect_failure(rdmabroker_release(session), EINVAL, "no restriction");
	expect_failure(rdmabroker_publish(session, (char[108]){ 0 }, 108), EINVAL,
		       "no restriction");
	rdmabroker_close(session);
}
END_TEST

/* Tests run as the daemon's own user, who is an admin without any rule. */
START_TEST(admin_is_none_in_a_restricted_session)
{
	struct rdmabroker *session = restricted("allow any", 0), *admin = open_session(0);
	struct rdmabroker_status *status;

	expect_failure(rdmabroker_get_status(session, &status), EACCES, "observe");
	expect_failure(rdmabroker_drain(session, false), EACCES, "admin");
	expect_failure(rdmabroker_kick(session, number_of(admin, 0), 0), EACCES, "admin");
	rdmabroker_close(session);

	session = restricted("allow observe", 0);
	ck_assert_int_eq(rdmabroker_get_status(session, &status), 0);
	rdmabroker_free(status);
	expect_failure(rdmabroker_drain(session, false), EACCES, "admin");
	rdmabroker_close(session);
	session = restricted("allow admin", 0);
	ck_assert_int_eq(rdmabroker_drain(session, false), 0);
	ck_assert_int_eq(rdmabroker_drain(session, true), 0);
	rdmabroker_close(session);
	rdmabroker_close(admin);
}
END_TEST

static void enforce(void *arg)
{
	FILE *file = fopen(harness.rules_path, "we");

	ck_assert_ptr_nonnull(file);
	fputs("allow any\nallow observe\n", file);
	fclose(file);
	harness.enforce = true;
}

/* OnReload=enforce computes the permits of all sessions again. */
START_TEST(reload_does_not_widen)
{
	struct rdmabroker *session = restricted("allow listen port 7471", 0);
	struct rdmabroker *admin = open_session(0);
	struct rdmabroker_reload_result *result;
	struct rdmabroker_status *status;

	in_server(enforce, NULL);
	ck_assert_int_eq(rdmabroker_reload(admin, false, &result), 0);
	rdmabroker_free(result);
	expect_failure(rdmabroker_get_status(session, &status), EACCES, "observe");
	expect_failure(try_listen(session, 7472), EACCES, REASON);
	ck_assert_int_eq(try_listen(session, 7471), 0);
	rdmabroker_close(session);
	rdmabroker_close(admin);
	unlink(harness.rules_path);
}
END_TEST

/* Without a restriction, a process can import its own ids without a decision. */
START_TEST(import_is_narrowed_too)
{
	struct rdmabroker *session = restricted("allow connect", 0), *other = open_session(0);
	struct rdmabroker_id *id = start_listening(other, 7471), *imported;
	int fd;

	ck_assert_int_eq(rdmabroker_export_id(id, &fd), 0);
	expect_failure(rdmabroker_import_id(session, fd, &imported), EACCES, REASON);
	close(fd);
	rdmabroker_destroy_id(id);
	rdmabroker_close(other);
	rdmabroker_close(session);
}
END_TEST

static unsigned count_entries(const char *path)
{
	DIR *dir = opendir(path);
	unsigned n = 0;

	if (!dir)
		return 0;
	while (readdir(dir))
		n++;
	closedir(dir);
	return n - 2; /* without "." and ".." */
}

static mode_t mode_of(const char *path)
{
	struct stat st;

	ck_assert_int_eq(stat(path, &st), 0);
	return st.st_mode & 07777;
}

START_TEST(socket_of_a_restricted_session)
{
	struct rdmabroker *session = restricted("allow listen port 7471", 0), *one, *two;
	struct rdmabroker_options options = RDMABROKER_OPTIONS_INIT;
	struct rdmabroker_id *listener;
	char path[108], again[108], dir[108];

	expect_failure(rdmabroker_publish(session, path, 10), ERANGE, "needs");
	ck_assert_int_eq(rdmabroker_publish(session, path, sizeof(path)), 0);
	ck_assert_int_eq(rdmabroker_publish(session, again, sizeof(again)), 0);
	ck_assert_str_eq(path, again);
	ck_assert_uint_eq(count_entries(harness.restricted_dir), 1);
	strcpy(dir, path);
	*strrchr(dir, '/') = 0;
	ck_assert_uint_eq(count_entries(dir), 1);
	/* Nobody but the daemon can list the directory of all of them. */
	ck_assert_uint_eq(mode_of(harness.restricted_dir), 0711);
	ck_assert_uint_eq(mode_of(dir), 0755);
	ck_assert_uint_eq(mode_of(path), 0666);

	one = open_at(path);
	listener = start_listening(one, 7471);
	expect_failure(try_listen(one, 7472), EACCES, REASON);
	two = open_at(path);
	expect_failure(try_listen(two, 7472), EACCES, REASON);
	/* Restricted further, it is still no wider, and the others stay as they are. */
	ck_assert_int_eq(rdmabroker_restrict(two, "allow any", 0), 0);
	expect_failure(try_listen(two, 7472), EACCES, REASON);
	await_counts(3, 1);

	rdmabroker_close(session);
	await_counts(2, 1);
	ck_assert_uint_eq(count_entries(harness.restricted_dir), 0);
	options.socket = path;
	ck_assert_int_eq(rdmabroker_open(&options, &session), -ENOENT);
	/* Sessions that were opened by it go on, and stay restricted. */
	expect_failure(try_listen(one, 7472), EACCES, REASON);
	rdmabroker_destroy_id(listener);
	ck_assert_int_eq(try_listen(one, 7471), 0);
	rdmabroker_close(one);
	rdmabroker_close(two);
}
END_TEST

START_TEST(ids_are_limited_for_all_sessions_together)
{
	struct rdmabroker *session = restricted("allow any", 3), *one, *two;
	struct rdmabroker_id *ids[3], *id;
	char path[108];

	ck_assert_int_eq(rdmabroker_publish(session, path, sizeof(path)), 0);
	one = open_at(path);
	two = open_at(path);
	ids[0] = start_listening(one, 7471);
	ids[1] = start_listening(two, 7472);
	ids[2] = start_listening(two, 7473);
	ck_assert_int_eq(rdmabroker_create_id(one, RDMABROKER_PS_TCP, NULL, &id), 0);
	expect_failure(rdmabroker_bind_addr(id, addr(7474)), EDQUOT, "restricted to 3 ids");
	rdmabroker_destroy_id(id);
	rdmabroker_destroy_id(ids[0]);
	ids[0] = start_listening(two, 7471);
	for (size_t i = 0; i < 3; i++)
		rdmabroker_destroy_id(ids[i]);
	rdmabroker_close(session);
	rdmabroker_close(one);
	rdmabroker_close(two);
}
END_TEST

START_TEST(directory_that_cannot_be_made)
{
	struct rdmabroker *session = restricted("allow any", 0);
	FILE *file = fopen(harness.restricted_dir, "we");
	char path[108];

	ck_assert_ptr_nonnull(file);
	fclose(file);
	expect_failure(rdmabroker_publish(session, path, sizeof(path)), ENOTDIR,
		       harness.restricted_dir);
	unlink(harness.restricted_dir);
	ck_assert_int_eq(rdmabroker_publish(session, path, sizeof(path)), 0);
	rdmabroker_close(session);
	await_counts(0, 0);
}
END_TEST

/* What the test learns of the process that adopts a session. */
struct report {
	int r;
	char text[256];
};

/* Runs in a child, which reports to FD. */
static void adopt_and_report(int fd, int report_fd)
{
	struct rdmabroker_options options = RDMABROKER_OPTIONS_INIT;
	struct rdmabroker *session;
	struct report report = { 0 };
	char c;

	options.call_timeout_ms = T;
	report.r = rdmabroker_adopt(fd, &options, &session);
	if (report.r == 0 && try_listen(session, 7471) != 0)
		report.r = 1;
	if (report.r == 0 && try_listen(session, 7472) != -EACCES)
		report.r = 2;
	if (report.r != 0)
		snprintf(report.text, sizeof(report.text), "%s", rdmabroker_last_failure()->text);
	(void)!write(report_fd, &report, sizeof(report));
	/* Until the test has looked. */
	(void)!read(report_fd, &c, 1);
	_exit(0);
}

static pid_t start_adopter(int fd, int *ret_pipe)
{
	int pair[2];
	pid_t pid;

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	pid = fork();
	if (pid == 0) {
		close(pair[0]);
		adopt_and_report(fd, pair[1]);
	}
	close(pair[1]);
	*ret_pipe = pair[0];
	return pid;
}

static void end_adopter(pid_t pid, int report)
{
	close(report);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

START_TEST(released_session_belongs_to_who_adopts_it)
{
	struct rdmabroker *session = restricted("allow listen port 7471", 0);
	struct rdmabroker *admin = open_session(0);
	struct rdmabroker_list *list;
	struct report report;
	int fd = rdmabroker_release(session), report_fd;
	pid_t pid;

	ck_assert_msg(fd >= 0, "%s", rdmabroker_last_failure()->text);
	ck_assert_int_eq(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	pid = start_adopter(fd, &report_fd);
	close(fd);
	ck_assert_int_eq(read(report_fd, &report, sizeof(report)), sizeof(report));
	ck_assert_msg(report.r == 0, "%d: %s", report.r, report.text);
	/* The released session has ended. */
	await_counts(2, 0);
	ck_assert_int_eq(rdmabroker_get_list(admin, 0, &list), 0);
	ck_assert_uint_eq(list->n_sessions, 2);
	ck_assert_int_eq(list->sessions[1].who.pid, pid);
	ck_assert_str_eq(list->sessions[1].restriction, "allow listen port 7471");
	ck_assert_int_eq(list->sessions[0].who.pid, getpid());
	ck_assert_ptr_null(list->sessions[0].restriction);
	rdmabroker_free(list);
	end_adopter(pid, report_fd);
	await_counts(1, 0);
	rdmabroker_close(admin);
}
END_TEST

START_TEST(adopted_session_is_one_like_any_other)
{
	struct rdmabroker *session = restricted("allow listen port 7471", 0), *second;
	int fd = rdmabroker_release(session), copy;

	ck_assert_int_ge(fd, 0);
	copy = dup(fd);
	ck_assert_int_eq(rdmabroker_adopt(fd, NULL, &session), 0);
	ck_assert_int_eq(try_listen(session, 7471), 0);
	expect_failure(try_listen(session, 7472), EACCES, REASON);
	/* It was adopted, so nobody else can, and who has kept the descriptor has nothing. */
	ck_assert_int_lt(rdmabroker_adopt(copy, NULL, &second), 0);
	close(copy);
	await_counts(1, 0);
	/* It can be released again. */
	fd = rdmabroker_release(session);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(rdmabroker_adopt(fd, NULL, &session), 0);
	expect_failure(try_listen(session, 7472), EACCES, REASON);
	rdmabroker_close(session);
	expect_failure(rdmabroker_adopt(STDERR_FILENO, NULL, &session), EINVAL, "descriptor 2");
}
END_TEST

static Rdmabroker__Frame *exchange(int sock, Rdmabroker__Request *request, int fd)
{
	Rdmabroker__Frame frame = RDMABROKER__FRAME__INIT, *reply;
	uint8_t buf[PACKET_MAX];
	int fds[2];
	size_t n_fds;
	ssize_t n;

	frame.body_case = RDMABROKER__FRAME__BODY_REQUEST;
	frame.request = request;
	ck_assert_int_eq(packet_send(sock, buf, rdmabroker__frame__pack(&frame, buf), &fd, fd >= 0),
			 0);
	AWAIT_INPUT(sock, "a reply");
	n = packet_recv(sock, buf, fds, 2, &n_fds);
	if (n < 0)
		return NULL;
	reply = rdmabroker__frame__unpack(NULL, (size_t)n, buf);
	ck_assert_ptr_nonnull(reply);
	return reply;
}

/* Sends adopt_session with FD over a released session. Returns the text of the refusal; "": it succeeds. */
static const char *send_adopt(int released, int fd)
{
	Rdmabroker__AdoptSession m = RDMABROKER__ADOPT_SESSION__INIT;
	Rdmabroker__Request request = RDMABROKER__REQUEST__INIT;
	static char text[256];
	Rdmabroker__Frame *reply;

	request.serial = 1;
	request.op_case = RDMABROKER__REQUEST__OP_ADOPT_SESSION;
	request.adopt_session = &m;
	reply = exchange(released, &request, fd);
	ck_assert_ptr_nonnull(reply);
	snprintf(text, sizeof(text), "%s",
		 reply->reply->failure ? reply->reply->failure->text : "");
	rdmabroker__frame__free_unpacked(reply, NULL);
	return text;
}

static int release_one(void)
{
	int fd = rdmabroker_release(restricted("allow any", 0));

	ck_assert_int_ge(fd, 0);
	return fd;
}

static void assert_no_pair(int fd)
{
	int released = release_one();

	ck_assert_ptr_nonnull(strstr(send_adopt(released, fd), "no end of a pair"));
	close(released);
	close(fd);
}

/* The credentials of any other socket than an end of a pair are those of the server to which it is connected. */
START_TEST(only_ends_of_pairs_are_adopted)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct sockaddr_un own = { .sun_family = AF_UNIX, .sun_path = "" };
	int pair[2], sock;

	sock = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	strcpy(addr.sun_path, harness.socket_path);
	ck_assert_int_eq(connect(sock, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_no_pair(sock);
	assert_no_pair(socket(AF_UNIX, SOCK_SEQPACKET, 0));
	assert_no_pair(open("/dev/null", O_RDWR));
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	assert_no_pair(pair[0]);
	close(pair[1]);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	memcpy(own.sun_path, "\0x", 2);
	snprintf(own.sun_path + 1, sizeof(own.sun_path) - 1, "rdmabroker-check-%d", getpid());
	ck_assert_int_eq(bind(pair[0], (struct sockaddr *)&own, sizeof(own)), 0);
	assert_no_pair(pair[0]);
	close(pair[1]);
}
END_TEST

/*
 * A program that opens a session with whom it believes to be the broker does not answer a name for adopters, and the
 * daemon accepts no other proof. Else the one in between could adopt a session as that program.
 */
START_TEST(proofs_for_others_are_refused)
{
	static const int types[] = { SOCK_SEQPACKET, SOCK_STREAM };
	Rdmabroker__Hello hello = RDMABROKER__HELLO__INIT;
	Rdmabroker__Request request = RDMABROKER__REQUEST__INIT;
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	Rdmabroker__Frame *reply;
	const char *name;
	size_t n;

	ck_assert_int_eq(proof_new(PROOF_ADOPTS "x", PROOF_OPENS), -EPROTO);
	ck_assert_int_eq(proof_new(PROOF_OPENS "x", PROOF_ADOPTS), -EPROTO);
	hello.version = 1;
	hello.features = RDMABROKER__FEATURE__FEATURE_PROOF;
	request.serial = 1;
	request.op_case = RDMABROKER__REQUEST__OP_HELLO;
	request.hello = &hello;
	for (size_t i = 0; i < 2; i++) {
		int released = release_one(), pair[2], proof;

		ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
		ck_assert_str_eq(send_adopt(released, pair[1]), "");
		close(released);
		close(pair[1]);
		reply = exchange(pair[0], &request, -1);
		ck_assert_ptr_nonnull(reply);
		name = reply->reply->hello->proof;
		ck_assert_int_eq(strncmp(name, PROOF_ADOPTS, strlen(PROOF_ADOPTS)), 0);
		n = strlen(name);
		memcpy(addr.sun_path + 1, name, n);
		rdmabroker__frame__free_unpacked(reply, NULL);
		proof = socket(AF_UNIX, types[i], 0);
		ck_assert_int_eq(bind(proof, (struct sockaddr *)&addr,
				      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n)),
				 0);
		ck_assert_int_eq(listen(proof, 0), 0);
		reply = exchange(pair[0], &request, proof);
		ck_assert_ptr_nonnull(reply);
		if (types[i] == SOCK_STREAM)
			ck_assert_ptr_null(reply->reply->failure);
		else
			ck_assert_ptr_nonnull(
				strstr(reply->reply->failure->text, "cannot verify which process"));
		rdmabroker__frame__free_unpacked(reply, NULL);
		close(proof);
		close(pair[0]);
	}
}
END_TEST

/* Nobody adopts it: it ends with the last copy of its descriptor, and stays charged until then. */
START_TEST(session_that_nobody_adopts)
{
	struct rdmabroker *session = restricted("allow any", 0);
	int fd = rdmabroker_release(session);

	ck_assert_int_ge(fd, 0);
	await_counts(1, 0);
	close(fd);
	await_counts(0, 0);
}
END_TEST

static void look_for_notice(struct rdmabroker *admin, const char *outcome, const char *reason)
{
	struct rdmabroker_notice *notice;

	do {
		ck_assert_int_eq(rdmabroker_get_notice(admin, T, &notice), 0);
		if (strcmp(notice->outcome ?: "", outcome) == 0) {
			ck_assert_ptr_nonnull(notice->reason);
			ck_assert_msg(strstr(notice->reason, reason) != NULL, "%s", notice->reason);
			ck_assert_ptr_null(notice->rule);
			rdmabroker_free(notice);
			return;
		}
		rdmabroker_free(notice);
	} while (true);
}

START_TEST(observers_see_what_is_restricted)
{
	struct rdmabroker *admin = open_session(0), *session;
	struct rdmabroker_list *list;

	ck_assert_int_eq(rdmabroker_watch(admin, NULL), 0);
	session = restricted("allow listen port 7471 # one\nallow connect", 4);
	ck_assert_int_eq(rdmabroker_restrict(session, "allow any", 0), 0);
	ck_assert_int_eq(rdmabroker_get_list(admin, 0, &list), 0);
	ck_assert_str_eq(list->sessions[1].restriction,
			 "allow listen port 7471; allow connect AND allow any");
	rdmabroker_free(list);
	expect_failure(try_listen(session, 7472), EACCES, REASON);
	look_for_notice(admin, "rejected", REASON);
	rdmabroker_close(session);
	rdmabroker_close(admin);
}
END_TEST

/* A published socket needs a descriptor of the daemon, which is charged. */
START_TEST(descriptors_are_limited)
{
	struct rdmabroker *session = restricted("allow any", 0);
	char path[108];

	harness.core->account.limit_per_user[ACCOUNT_FDS] = 2;
	expect_failure(rdmabroker_publish(session, path, sizeof(path)), EDQUOT,
		       "DescriptorsPerUser=");
	ck_assert_uint_eq(count_entries(harness.restricted_dir), 0);
	harness.core->account.limit_per_user[ACCOUNT_FDS] = 100;
	ck_assert_int_eq(rdmabroker_publish(session, path, sizeof(path)), 0);
	rdmabroker_close(session);
	await_counts(0, 0);
}
END_TEST

static bool is_socket(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode);
}

/* Replies by REPLIES, which is possible only if both sessions have the same restrictions: then the descriptor is a socket. */
static void open_apart(const char *path, struct rdmabroker *replies, bool same, int r)
{
	const struct rdmabroker_options options = {
		.size = sizeof(options), .socket = path, .call_timeout_ms = T, .replies = replies
	};
	struct rdmabroker *apart;

	ck_assert_int_eq(rdmabroker_open(&options, &apart), 0);
	ck_assert_int_eq(is_socket(rdmabroker_get_fd(apart)), same);
	ck_assert_int_eq(try_listen(apart, 7472), r);
	rdmabroker_close(apart);
	rdmabroker_close(replies);
}

START_TEST(replies_of_a_restricted_session)
{
	struct rdmabroker *session = restricted("allow listen port 7471", 0);
	char path[108];

	ck_assert_int_eq(rdmabroker_publish(session, path, sizeof(path)), 0);
	open_apart(path, open_at(path), true, -EACCES);
	open_apart(path, open_session(0), false, -EACCES);
	open_apart(harness.socket_path, open_at(path), false, 0);
	open_apart(harness.socket_path, open_session(0), true, 0);
	rdmabroker_close(session);
}
END_TEST

UNIT_MAIN("restrict", set_up, tear_down, only_what_its_rules_allow,
	  requests_of_peers_are_narrowed_too, policy_decides_as_well, narrowed_again_is_never_wider,
	  restrictions_of_a_session_are_limited, rules_with_errors, session_that_has_something,
	  admin_is_none_in_a_restricted_session, reload_does_not_widen, import_is_narrowed_too,
	  socket_of_a_restricted_session, ids_are_limited_for_all_sessions_together,
	  directory_that_cannot_be_made, released_session_belongs_to_who_adopts_it,
	  adopted_session_is_one_like_any_other, only_ends_of_pairs_are_adopted,
	  proofs_for_others_are_refused, session_that_nobody_adopts,
	  observers_see_what_is_restricted, descriptors_are_limited,
	  replies_of_a_restricted_session)
