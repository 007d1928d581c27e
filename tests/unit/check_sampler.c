/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/facts/sampler.h"
#include "tests/unit/nldev.h"
#include "tests/unit/unit.h"
#include "util/list.h"
#include "util/util.h"

/* Who uses RDMA without the broker, by a netlink that the test plays, and real processes in /proc. */

static sd_event *loop;
static struct sampler *sampler;
static char open_file[] = "/tmp/check_sampler.XXXXXX";
static struct seen seen[2 * SAMPLER_PROCESSES];
static unsigned n_seen, n_samples;
static pid_t clients[8];
static int n_clients;
static pid_t goes; /* the client that ends once the sample has begun */

/* The daemon's user. The processes of the test are of another one, so they are not another instance of the daemon. */
uid_t geteuid(void)
{
	return getuid() == 0 ? 0 : getuid() + 1;
}

static int list_clients(void *userdata, pid_t **ret)
{
	*ret = malloc(sizeof(clients));
	ck_assert_ptr_nonnull(*ret);
	memcpy(*ret, clients, sizeof(clients));
	return n_clients;
}

static void on_seen(void *userdata, const struct seen *one)
{
	ck_assert_uint_lt(n_seen, ELEMENTS_OF(seen));
	seen[n_seen++] = *one;
}

static void on_sampled(void *userdata)
{
	n_samples++;
}

static const struct sampler_ops ops = {
	.list_clients = list_clients,
	.seen = on_seen,
	.sampled = on_sampled,
};

static void set_up(void)
{
	int fd = mkstemp(open_file);

	ck_assert_int_ge(fd, 0);
	close(fd);
	memset(&kernel, 0, sizeof(kernel));
	strcpy(kernel.name, "rxe0");
	kernel.n_ports = 1;
	kernel.n_pieces = 1;
	ck_assert_int_ge(sd_event_new(&loop), 0);
	ck_assert_int_eq(sampler_new(&sampler, loop, open_file, &ops, NULL), 0);
}

static void tear_down(void)
{
	sampler_free(sampler);
	sd_event_unref(loop);
	unlink(open_file);
}

static void run_once(void)
{
	ck_assert_int_ge(sd_event_run(loop, 0), 0);
}

/* Lets the next time come, and runs the loop until nothing is due. */
static void wait_for_time(void)
{
	skipped += SAMPLER_PERIOD_USEC / 1000000 + 1;
	while (sd_event_run(loop, 0) > 0)
		;
}

static void sample(void)
{
	unsigned n = n_samples;

	n_seen = 0;
	wait_for_time();
	AWAIT((run_once(), n_samples > n), "a sample");
}

static void add_id(uint32_t tid)
{
	kernel.ids[0][kernel.n_ids[0]++] = (struct id){ tid, NULL, LISTEN, "10.9.0.1", NULL, 0 };
}

static void add_context(uint32_t tid)
{
	kernel.contexts[kernel.n_contexts++] = tid;
}

START_TEST(ids_and_verbs_alone)
{
	pid_t server = start_process("rping"), verbs = start_process("ib_write_bw"),
	      both = start_process("ucx");

	add_id((uint32_t)server);
	add_context((uint32_t)verbs);
	add_context((uint32_t)both);
	add_id((uint32_t)both);
	sample();
	ck_assert_uint_eq(n_seen, 3);
	for (unsigned i = 0; i < n_seen; i++) {
		const struct seen *one = &seen[i];
		bool is_verbs = one->pid == verbs;

		ck_assert_uint_eq(one->uid, getuid());
		ck_assert_int_eq(one->has_ids, !is_verbs);
		ck_assert_str_eq(one->name, is_verbs           ? "ib_write_bw" :
					    one->pid == server ? "rping" :
								 "ucx");
	}
	stop_process(server);
	stop_process(verbs);
	stop_process(both);
}
END_TEST

/* Of a client only the ids are without the broker: its contexts are what it has leased. */
START_TEST(clients_have_contexts)
{
	pid_t client = start_process("client"), apart = start_process("apart");

	clients[n_clients++] = apart;
	clients[n_clients++] = client;
	add_context((uint32_t)client);
	add_context((uint32_t)apart);
	add_id((uint32_t)apart);
	sample();
	ck_assert_uint_eq(n_seen, 1);
	ck_assert_int_eq(seen[0].pid, apart);
	stop_process(client);
	stop_process(apart);
}
END_TEST

static int list_clients_once(void *userdata, pid_t **ret)
{
	static int n_calls;

	*ret = malloc(sizeof(pid_t));
	ck_assert_ptr_nonnull(*ret);
	**ret = goes;
	return n_calls++ == 0;
}

/* Its session has ended since the sample was begun. */
START_TEST(a_client_goes)
{
	static const struct sampler_ops once = { list_clients_once, on_seen, on_sampled };

	sampler_free(sampler);
	ck_assert_int_eq(sampler_new(&sampler, loop, open_file, &once, NULL), 0);
	goes = start_process("client");
	add_context((uint32_t)goes);
	sample();
	ck_assert_uint_eq(n_seen, 0);
	sample();
	ck_assert_uint_eq(n_seen, 1);
	stop_process(goes);
}
END_TEST

/* Its session has ended, and its devices are still open: as a process that ends, it has no memory any more. */
START_TEST(a_client_ends)
{
	pid_t pid = start_process("client");
	siginfo_t info;

	add_context((uint32_t)pid);
	ck_assert_int_eq(kill(pid, SIGKILL), 0);
	ck_assert_int_eq(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	sample();
	ck_assert_uint_eq(n_seen, 0);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	sample();
	ck_assert_uint_eq(n_seen, 0);
}
END_TEST

static void *in_thread(void *arg)
{
	int *pipes = arg;
	pid_t tid = (pid_t)syscall(SYS_gettid);
	char c;

	prctl(PR_SET_NAME, "worker");
	if (write(pipes[1], &tid, sizeof(tid)) != sizeof(tid))
		abort();
	if (read(pipes[2], &c, 1) < 0)
		abort();
	return NULL;
}

/* What several threads have made is of one process, which has the name of its first thread. */
START_TEST(threads_of_a_process)
{
	int pipes[4];
	pid_t tid, pid;

	ck_assert_int_eq(pipe(pipes), 0);
	ck_assert_int_eq(pipe(&pipes[2]), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		pthread_t thread;

		prctl(PR_SET_NAME, "mpirun");
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pthread_create(&thread, NULL, in_thread, pipes);
		pthread_join(thread, NULL);
		_exit(1);
	}
	ck_assert_int_eq(read(pipes[0], &tid, sizeof(tid)), sizeof(tid));
	ck_assert_int_ne(tid, pid);
	add_context((uint32_t)tid);
	sample();
	ck_assert_uint_eq(n_seen, 1);
	ck_assert_int_eq(seen[0].pid, pid);
	ck_assert_str_eq(seen[0].name, "mpirun");
	add_id((uint32_t)pid);
	sample();
	ck_assert_uint_eq(n_seen, 1);
	ck_assert(seen[0].has_ids);
	stop_process(pid);
}
END_TEST

/* The daemon's own ids are its clients'; modules of the kernel never ask the broker; of a thread that has ended nothing is known. */
START_TEST(not_counted)
{
	add_id((uint32_t)getpid());
	add_context((uint32_t)getpid());
	add_context(0);
	kernel.ids[0][kernel.n_ids[0]++] = (struct id){ .kernel = "nvme_rdma", .state = CONNECT };
	sample();
	ck_assert_uint_eq(n_seen, 0);
}
END_TEST

START_TEST(closed_nodes_are_not_looked_at)
{
	ck_assert_int_eq(unlink(open_file), 0);
	wait_for_time();
	ck_assert_uint_eq(kernel.n_device_dumps, 0);
	ck_assert_uint_eq(kernel.n_context_dumps, 0);
}
END_TEST

/* A QP costs the device a command. */
START_TEST(qps_are_not_asked)
{
	sample();
	sample();
	ck_assert_uint_eq(kernel.n_context_dumps, 2);
	ck_assert_uint_eq(kernel.n_qp_dumps, 0);
	ck_assert_uint_eq(kernel.n_qp_asked, 0);
}
END_TEST

/* A kernel that cannot list contexts, for example: the next sample may come. A sample that has failed tells nothing. */
START_TEST(a_failure)
{
	pid_t server = start_process("rping");

	add_id((uint32_t)server);
	kernel.context_error = -EINVAL;
	wait_for_time();
	AWAIT((run_once(), kernel.n_context_dumps == 1), "the dump");
	kernel.context_error = 0;
	AWAIT((wait_for_time(), n_samples > 0), "a sample");
	ck_assert_uint_ge(kernel.n_context_dumps, 2);
	ck_assert_uint_eq(n_seen, n_samples);
	stop_process(server);
}
END_TEST

/* One user's crowd of processes hides those of others in one sample, but not in all. */
START_TEST(a_crowd)
{
	enum { N = SAMPLER_PROCESSES + 200 };
	static pid_t crowd[N];
	bool found_last = false;
	unsigned n = 0;

	for (unsigned i = 0; i < N; i++) {
		crowd[i] = fork();
		ck_assert_int_ge(crowd[i], 0);
		if (crowd[i] == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			pause();
			_exit(1);
		}
		add_context((uint32_t)crowd[i]);
	}
	for (unsigned i = 0; i < 2; i++) {
		sample();
		ck_assert_uint_le(n_seen, SAMPLER_PROCESSES);
		n += n_seen;
		for (unsigned k = 0; k < n_seen; k++)
			found_last = found_last || seen[k].pid == crowd[N - 1];
	}
	ck_assert(found_last);
	ck_assert_uint_ge(n, N);
	for (unsigned i = 0; i < N; i++)
		stop_process(crowd[i]);
}
END_TEST

UNIT_MAIN("sampler", set_up, tear_down, ids_and_verbs_alone, clients_have_contexts, a_client_goes,
	  a_client_ends, threads_of_a_process, not_counted, closed_nodes_are_not_looked_at,
	  qps_are_not_asked, a_failure, a_crowd)
