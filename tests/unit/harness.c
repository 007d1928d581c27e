/* SPDX-License-Identifier: BSD-2-Clause */
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/rule/core_life.h"
#include "core/rule/enforce.h"
#include "tests/unit/harness.h"
#include "util/diag.h"

struct harness harness;

static pthread_t thread;

static struct {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	void (*run)(void *arg);
	void *arg;
	int wake[2];
} errand = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL, NULL, { -1, -1 } };

static int on_errand(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	char c;

	ck_assert_int_eq(read(fd, &c, 1), 1);
	pthread_mutex_lock(&errand.lock);
	errand.run(errand.arg);
	errand.run = NULL;
	pthread_cond_signal(&errand.cond);
	pthread_mutex_unlock(&errand.lock);
	return 0;
}

void in_server(void (*run)(void *arg), void *arg)
{
	pthread_mutex_lock(&errand.lock);
	errand.run = run;
	errand.arg = arg;
	ck_assert_int_eq(write(errand.wake[1], "x", 1), 1);
	while (errand.run)
		pthread_cond_wait(&errand.cond, &errand.lock);
	pthread_mutex_unlock(&errand.lock);
}

static sem_t hangs, resumes;
static pthread_t hanging;

static void do_hang(void *arg)
{
	sem_post(&hangs);
	sem_wait(&resumes);
}

static void *hang(void *arg)
{
	in_server(do_hang, arg);
	return NULL;
}

void hang_server(void)
{
	ck_assert_int_eq(sem_init(&hangs, 0, 0), 0);
	ck_assert_int_eq(sem_init(&resumes, 0, 0), 0);
	ck_assert_int_eq(pthread_create(&hanging, NULL, hang, NULL), 0);
	sem_wait(&hangs);
}

void resume_server(void)
{
	sem_post(&resumes);
	pthread_join(hanging, NULL);
}

static void do_exit(void *arg)
{
	sd_event_exit(harness.loop, 0);
}

static void do_stop(void *arg)
{
	harness.server = server_free(harness.server);
}

void stop_server(void)
{
	in_server(do_stop, NULL);
}

static void do_set_policy(void *arg)
{
	struct policy *policy = NULL;
	struct diag *diag = NULL;

	ck_assert_int_eq(diag_new(&diag), 0);
	ck_assert_int_eq(policy_load_text(&policy, "test.rules", arg, strlen(arg), diag), 0);
	ck_assert_int_eq(core_set_policy(harness.core, policy), 0);
	policy_unref(policy);
	diag_free(diag);
}

void set_policy(const char *rules)
{
	in_server(do_set_policy, (void *)rules);
}

struct counts {
	unsigned sessions, ids, fabric_ids, fds;
};

static void do_count(void *arg)
{
	*(struct counts *)arg = (struct counts){
		.sessions = harness.core->n_sessions,
		.ids = harness.core->n_ids,
		.fabric_ids = fake_n_ids(harness.core->fabric),
	};
}

void await_counts(unsigned sessions, unsigned ids)
{
	struct counts counts;

	AWAIT((in_server(do_count, &counts), counts.sessions == sessions && counts.ids == ids),
	      "%u sessions and %u ids, and not %u and %u", sessions, ids, counts.sessions,
	      counts.ids);
}

static int listening_socket(const char *path)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	/* It blocks, as those that systemd passes. */
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	strcpy(addr.sun_path, path);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	ck_assert_int_eq(listen(fd, 64), 0);
	return fd;
}

static uint64_t do_reload(void *userdata, bool dry_run)
{
	struct control *control = server_get_control(harness.server);
	const char *files[] = { harness.rules_path };
	static uint64_t ticket;
	struct policy *policy = NULL;
	struct diag *diag;
	int r;

	ck_assert_int_eq(diag_new(&diag), 0);
	r = policy_load_files(&policy, files, 1, diag);
	if (dry_run) {
		control_reloaded(control, true, ++ticket, r, diag, policy);
	} else {
		if (r == 0)
			r = core_set_policy(harness.core, policy);
		if (r == 0 && harness.enforce)
			enforce_start(harness.core);
		control_set_policy_error(control, r < 0 ? complaints_at(&diag->errors, 0) : NULL);
		control_reloaded(control, false, ++ticket, r, diag, NULL);
	}
	if (policy)
		policy_unref(policy);
	return ticket;
}

static void *serve(void *arg)
{
	sd_event_loop(harness.loop);
	harness.server = server_free(harness.server);
	harness.core = core_free(harness.core);
	sd_event_unref(harness.loop);
	return NULL;
}

void set_up(void)
{
	struct policy *policy = NULL;
	struct diag *diag = NULL;
	int fds[_DOOR_MAX];

	harness = (struct harness){ .dir = "/tmp/rdmabroker-check-XXXXXX" };
	ck_assert_ptr_nonnull(mkdtemp(harness.dir));
	snprintf(harness.socket_path, sizeof(harness.socket_path), "%s/socket", harness.dir);
	snprintf(harness.doors_dir, sizeof(harness.doors_dir), "%s.doors", harness.dir);
	ck_assert_int_eq(mkdir(harness.doors_dir, 0700), 0);
	snprintf(harness.common_path, sizeof(harness.common_path), "%s/common", harness.doors_dir);
	snprintf(harness.helper_path, sizeof(harness.helper_path), "%s/helper", harness.doors_dir);
	snprintf(harness.restricted_dir, sizeof(harness.restricted_dir), "%s/restricted",
		 harness.dir);
	snprintf(harness.rules_path, sizeof(harness.rules_path), "%s/test.rules", harness.dir);
	ck_assert_int_eq(diag_new(&diag), 0);
	ck_assert_int_eq(policy_load_text(&policy, "test.rules", "allow any\n", 10, diag), 0);
	diag_free(diag);

	ck_assert_int_ge(sd_event_new(&harness.loop), 0);
	ck_assert_int_eq(core_new(&harness.core, harness.loop, FABRIC_ACCESS_ACL, policy), 0);
	policy_unref(policy);
	harness.core->settings = (struct core_settings){
		.max_ids_per_session = 8,
		.backlog = 128,
		.tos = -1,
		.resolve_timeout_ms = 1000,
	};
	harness.core->account.limit_per_user[ACCOUNT_SESSIONS] = 4;
	fds[DOOR_ADMIN] = listening_socket(harness.socket_path);
	fds[DOOR_COMMON] = listening_socket(harness.common_path);
	fds[DOOR_HELPER] = listening_socket(harness.helper_path);
	ck_assert_int_eq(server_new(&harness.server, harness.core, fds, harness.restricted_dir,
				    65536, do_reload, NULL),
			 0);
	ck_assert_int_eq(pipe(errand.wake), 0);
	ck_assert_int_ge(
		sd_event_add_io(harness.loop, NULL, errand.wake[0], POLLIN, on_errand, NULL), 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, serve, NULL), 0);
}

void tear_down(void)
{
	if (harness.core)
		in_server(do_exit, NULL);
	pthread_join(thread, NULL);
	close(errand.wake[0]);
	close(errand.wake[1]);
	unlink(harness.socket_path);
	unlink(harness.common_path);
	unlink(harness.helper_path);
	rmdir(harness.doors_dir);
	rmdir(harness.restricted_dir);
	unlink(harness.rules_path);
	rmdir(harness.dir);
}

struct rdmabroker *open_session_at(const char *path, unsigned flags)
{
	struct rdmabroker_options options = {
		.size = sizeof(options),
		.socket = path,
		.flags = flags,
		.call_timeout_ms = T,
	};
	struct rdmabroker *session;

	ck_assert_msg(rdmabroker_open(&options, &session) == 0, "%s",
		      rdmabroker_last_failure()->text);
	return session;
}

struct rdmabroker *open_session(unsigned flags)
{
	return open_session_at(harness.socket_path, flags);
}

const struct sockaddr *addr(uint16_t port)
{
	static _Thread_local struct sockaddr_in in[4];
	static _Thread_local unsigned n;
	struct sockaddr_in *a = &in[n++ % 4];

	*a = (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(0x0a090001),
	};
	return (struct sockaddr *)a;
}

struct rdmabroker_event *expect(struct rdmabroker *session, enum rdmabroker_event_type type)
{
	struct rdmabroker_event *event;

	AWAIT_INPUT(rdmabroker_get_fd(session), "the event %s", rdmabroker_event_str(type));
	ck_assert_int_eq(rdmabroker_get_event(session, T, &event), 0);
	ck_assert_str_eq(rdmabroker_event_str(event->type), rdmabroker_event_str(type));
	return event;
}

void expect_done(struct rdmabroker *session, const char *call, int status)
{
	struct rdmabroker_event *event = expect(session, RDMABROKER_EVENT_DONE);

	ck_assert_str_eq(event->call, call);
	ck_assert_int_eq(event->status, status);
	rdmabroker_free_event(event);
}

void expect_failure(int r, int error, const char *part)
{
	const struct rdmabroker_failure *failure = rdmabroker_last_failure();

	ck_assert_int_eq(r, -error);
	ck_assert_int_eq(failure->error, -error);
	ck_assert_msg(strstr(failure->text, part) != NULL, "no '%s' in '%s'", part, failure->text);
}

void be_client(struct rdmabroker *session)
{
	ck_assert_int_eq(rdmabroker_lease_devices(session, "none"), -ENODEV);
}

struct rdmabroker_id *start_listening(struct rdmabroker *session, uint16_t port)
{
	return start_listening_with(session, port, 0);
}

struct rdmabroker_id *start_listening_with(struct rdmabroker *session, uint16_t port, int backlog)
{
	struct rdmabroker_id *id;

	ck_assert_int_eq(rdmabroker_create_id(session, RDMABROKER_PS_TCP, session, &id), 0);
	ck_assert_int_eq(rdmabroker_bind_addr(id, addr(port)), 0);
	ck_assert_int_eq(rdmabroker_listen(id, backlog), 0);
	return id;
}

struct rdmabroker_id *resolve(struct rdmabroker *session, uint16_t port)
{
	struct rdmabroker_id *id;

	ck_assert_int_eq(rdmabroker_create_id(session, RDMABROKER_PS_TCP, NULL, &id), 0);
	ck_assert_int_eq(rdmabroker_resolve_addr_wait(id, NULL, addr(port), T), 0);
	ck_assert_int_eq(rdmabroker_resolve_route_wait(id, T), 0);
	ck_assert_str_eq(rdmabroker_get_device_name(id), "fake0");
	ck_assert_uint_eq(rdmabroker_get_peer_port(id), port);
	return id;
}

uint64_t number_of(struct rdmabroker *session, size_t i)
{
	struct rdmabroker_list *list;
	uint64_t number;

	ck_assert_int_eq(rdmabroker_get_list(session, 0, &list), 0);
	ck_assert_uint_gt(list->n_sessions, i);
	number = list->sessions[i].number;
	rdmabroker_free(list);
	return number;
}
