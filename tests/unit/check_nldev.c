/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <rdma/rdma_netlink.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fabric/device/device.h"
#include "fabric/internal.h"
#include "fabric/owner/qpowner.h"
#include "tests/unit/nldev.h"
#include "tests/unit/unit.h"

/* The ids and QPs that the kernel reports by netlink. The fabric is the real one, with devices that the tests add. */

static sd_event *loop;
static struct fabric *fabric;
static int real_stderr, words;

/* Skips the pause between two requested scans. */
static void let_rest_be_over(void)
{
	skipped += 60;
}

static void on_device(void *userdata, struct fabric_device *device)
{
}

static const struct fabric_ops ops = { .device_added = on_device, .device_removed = on_device };

/* Adds a device. The next call of run() announces it. */
static struct fabric_device *add_device(const char *name)
{
	struct fabric_device *device = calloc(1, sizeof(*device));

	ck_assert_ptr_nonnull(device);
	device->n_refs = 1;
	device->fabric = fabric;
	list_init(&device->grants);
	device->name = strdup(name);
	device->node = strdup("/dev/infiniband/uverbs0");
	list_insert(&fabric->devices, &device->link);
	snprintf(kernel.name, sizeof(kernel.name), "%s", name);
	return device;
}

static void set_up(void)
{
	memset(&kernel, 0, sizeof(kernel));
	kernel.n_ports = 1;
	kernel.n_pieces = 1;
	ck_assert_int_ge(sd_event_new(&loop), 0);
	ck_assert_int_eq(fabric_new(&fabric, loop, FABRIC_ACCESS_ACL, &ops, NULL), 0);
	words = memfd_create("words", MFD_CLOEXEC);
	real_stderr = dup(STDERR_FILENO);
	dup2(words, STDERR_FILENO);
}

static void tear_down(void)
{
	fabric_free(fabric);
	sd_event_unref(loop);
	dup2(real_stderr, STDERR_FILENO);
	close(real_stderr);
	close(words);
}

/* Returns what was logged since the last call. */
static const char *said(void)
{
	static char text[32768];
	ssize_t n = pread(words, text, sizeof(text) - 1, 0);

	ck_assert_int_ge(n, 0);
	text[n] = '\0';
	ck_assert_int_eq(ftruncate(words, 0), 0);
	ck_assert_int_eq(lseek(words, 0, SEEK_SET), 0);
	return text;
}

static unsigned count_lines(const char *text)
{
	unsigned n = 0;

	for (; (text = strchr(text, '\n')); text++)
		n++;
	return n;
}

static void add_id(struct id id)
{
	kernel.ids[0][kernel.n_ids[0]++] = id;
}

/* Does what hotplug.c does with a new device. */
static void appear(struct fabric_device *device)
{
	device->announced = true;
	fabric_scan_holders_of(device);
}

/* Announces new devices, and runs the loop until it has nothing to do. */
static void run(void)
{
	struct fabric_device *device = NULL;

	while ((device = fabric_next_device(fabric, device)))
		if (!device->announced)
			appear(device);
	while (sd_event_run(loop, 0) > 0)
		;
}

/* A process that does nothing, and the tids of its threads besides the first one. */
struct child {
	pid_t pid;
	uint32_t tids[2];
};

static void *stay(void *arg)
{
	int fd = *(int *)arg;
	uint32_t tid = (uint32_t)gettid();

	if (write(fd, &tid, sizeof(tid)) < 0)
		_exit(1);
	pause();
	return NULL;
}

static struct child start_child(const char *name, unsigned n_threads)
{
	struct child child = { 0 };
	int fds[2];
	char ready;

	ck_assert_int_eq(pipe(fds), 0);
	child.pid = fork();
	ck_assert_int_ge(child.pid, 0);
	if (child.pid == 0) {
		pthread_t thread;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_NAME, name);
		for (unsigned i = 0; i < n_threads; i++)
			pthread_create(&thread, NULL, stay, &fds[1]);
		if (n_threads == 0 && write(fds[1], "", 1) < 0)
			_exit(1);
		for (;;)
			pause();
	}
	for (unsigned i = 0; i < n_threads; i++)
		ck_assert_int_eq(read(fds[0], &child.tids[i], sizeof(child.tids[i])),
				 sizeof(child.tids[i]));
	if (n_threads == 0)
		ck_assert_int_eq(read(fds[0], &ready, 1), 1);
	close(fds[0]);
	close(fds[1]);
	return child;
}

static void end_child(const struct child *child)
{
	kill(child->pid, SIGKILL);
	waitpid(child->pid, NULL, 0);
}

START_TEST(other_processes_are_logged)
{
	struct child child = start_child("rping", 0);
	struct fabric_device *device = add_device("rxe0");
	const struct fabric_holders *holders;
	const char *text;
	char line[256];

	ck_assert_ptr_null(fabric_device_holders(device));
	add_id((struct id){ (uint32_t)child.pid, NULL, ADDR_BOUND, "10.9.0.1", NULL, 0 });
	add_id((struct id){ (uint32_t)child.pid, NULL, LISTEN, "10.9.0.2", "0.0.0.0", 0 });
	add_id((struct id){ (uint32_t)child.pid, NULL, CONNECT, "10.9.0.3", "10.9.0.4", 0 });
	run();

	holders = fabric_device_holders(device);
	ck_assert_ptr_nonnull(holders);
	ck_assert_uint_eq(holders->n_holders, 1);
	ck_assert_int_eq(holders->holders[0].pid, child.pid);
	ck_assert_uint_eq(holders->holders[0].uid, geteuid());
	ck_assert_str_eq(holders->holders[0].name, "rping");
	ck_assert_uint_eq(holders->holders[0].n_ids, 3);
	ck_assert_str_eq(holders->holders[0].state, "LISTEN");
	ck_assert_int_eq(holders->holders[0].peer.ss_family, AF_UNSPEC);
	ck_assert_uint_eq(holders->n_more_ids, 0);
	ck_assert_uint_eq(holders->n_nameless_ids, 0);
	text = said();
	snprintf(line, sizeof(line),
		 "Process %d (rping, uid %u) holds connection manager ids on rxe0 that the broker "
		 "did not create, so no rule applies to them: 3 in all, one of them LISTEN "
		 "10.9.0.2:7471.\n",
		 child.pid, geteuid());
	ck_assert_str_eq(text, line);
	end_child(&child);
}
END_TEST

START_TEST(peers_are_logged)
{
	struct child child = start_child("client", 0);

	add_device("rxe0");
	add_id((struct id){ (uint32_t)child.pid, NULL, CONNECT, "10.9.0.3", "10.9.0.4", 0 });
	run();
	ck_assert_ptr_nonnull(strstr(said(), "CONNECT 10.9.0.3:7471 to 10.9.0.4:7471."));
	end_child(&child);
}
END_TEST

static void *own_thread(void *arg)
{
	sd_event *own = NULL;

	/* An id that another running thread of this process has made counts as the process's own. */
	add_id((struct id){ (uint32_t)gettid(), NULL, LISTEN, "10.9.0.1", NULL, 0 });
	run();
	return own;
}

/* No rule applies to what NFS, NVMe and the like do inside the kernel, so an admin has to know of it. */
START_TEST(modules_of_the_kernel_are_listed)
{
	struct fabric_device *device = add_device("rxe0");
	const struct fabric_holders *holders;

	add_id((struct id){ 0, "rpcrdma", CONNECT, "10.9.0.1", "10.9.0.2", 7 });
	add_id((struct id){ 0, "nvmet_rdma", CONNECT, "10.9.0.1", "10.9.0.3", 8 });
	add_id((struct id){ 0, "nvmet_rdma", LISTEN, "10.9.0.1", NULL, 0 });
	run();
	holders = fabric_device_holders(device);
	ck_assert_uint_eq(holders->n_holders, 2);
	ck_assert_int_eq(holders->holders[1].pid, 0);
	ck_assert_uint_eq(holders->holders[1].uid, (uid_t)-1);
	ck_assert_str_eq(holders->holders[1].name, "nvmet_rdma");
	ck_assert_uint_eq(holders->holders[1].n_ids, 2);
	ck_assert_str_eq(holders->holders[1].state, "LISTEN");
	ck_assert_ptr_nonnull(strstr(said(), "The kernel's module rpcrdma holds connection manager "
					     "ids on rxe0 that the broker did not create"));
}
END_TEST

START_TEST(own_ids_are_left_out)
{
	struct fabric_device *device = add_device("rxe0");
	const struct fabric_holders *holders;
	pthread_t thread;

	add_id((struct id){ (uint32_t)getpid(), NULL, LISTEN, "10.9.0.1", NULL, 0 });
	ck_assert_int_eq(pthread_create(&thread, NULL, own_thread, NULL), 0);
	pthread_join(thread, NULL);
	holders = fabric_device_holders(device);
	ck_assert_ptr_nonnull(holders);
	ck_assert_uint_eq(holders->n_holders, 0);
	ck_assert_uint_eq(holders->n_more_ids, 0);
	ck_assert_uint_eq(holders->n_nameless_ids, 0);
	ck_assert_str_eq(said(), "");
}
END_TEST

START_TEST(threads_that_have_ended_are_counted)
{
	struct fabric_device *device = add_device("rxe0");

	add_id((struct id){ 0, NULL, LISTEN, "10.9.0.1", NULL, 0 });
	add_id((struct id){ 0, NULL, CONNECT, "10.9.0.1", NULL, 0 });
	run();
	ck_assert_uint_eq(fabric_device_holders(device)->n_nameless_ids, 2);
	ck_assert_uint_eq(fabric_device_holders(device)->n_holders, 0);
	ck_assert_ptr_nonnull(
		strstr(said(), "2 connection manager ids on rxe0 were created by threads"));
}
END_TEST

START_TEST(threads_are_one_process)
{
	struct child child = start_child("pool", 2);
	struct fabric_device *device = add_device("rxe0");
	const struct fabric_holders *holders;

	add_id((struct id){ child.tids[0], NULL, LISTEN, "10.9.0.1", NULL, 0 });
	add_id((struct id){ child.tids[1], NULL, LISTEN, "10.9.0.1", NULL, 0 });
	add_id((struct id){ (uint32_t)child.pid, NULL, LISTEN, "10.9.0.1", NULL, 0 });
	run();
	holders = fabric_device_holders(device);
	ck_assert_uint_eq(holders->n_holders, 1);
	ck_assert_int_eq(holders->holders[0].pid, child.pid);
	ck_assert_uint_eq(holders->holders[0].n_ids, 3);
	end_child(&child);
}
END_TEST

START_TEST(control_characters_of_names_are_replaced)
{
	struct child child = start_child("a\033[31m\nb\xff", 0);
	struct fabric_device *device = add_device("rxe0");

	add_id((struct id){ (uint32_t)child.pid, NULL, LISTEN, "10.9.0.1", NULL, 0 });
	run();
	ck_assert_str_eq(fabric_device_holders(device)->holders[0].name, "a?[31m\\nb?");
	ck_assert_uint_eq(count_lines(said()), 1);
	end_child(&child);
}
END_TEST

START_TEST(a_process_without_an_entry_in_proc)
{
	struct fabric_device *device = add_device("rxe0");
	const struct fabric_holders *holders;

	add_id((struct id){ 0x7ffffff0, NULL, LISTEN, "10.9.0.1", NULL, 0 });
	run();
	holders = fabric_device_holders(device);
	ck_assert_uint_eq(holders->n_holders, 1);
	ck_assert_int_eq(holders->holders[0].pid, 0x7ffffff0);
	ck_assert_uint_eq(holders->holders[0].uid, (uid_t)-1);
	ck_assert_ptr_nonnull(strstr(said(), "Process 2147483632 (?, uid ?) holds"));
}
END_TEST

START_TEST(the_number_of_holders_is_limited)
{
	enum { N = FABRIC_HOLDERS_MAX + 6, BASE = 0x7fff0000 };
	struct fabric_device *device = add_device("rxe0");
	const struct fabric_holders *holders;
	const char *text;

	/* Each process has two ids, in different pieces of the dump. */
	kernel.n_pieces = 2 * N;
	for (unsigned i = 0; i < 2 * N; i++) {
		kernel.ids[i][0] = (struct id){ BASE + i % N, NULL, LISTEN, "10.9.0.1", NULL, 0 };
		kernel.n_ids[i] = 1;
	}
	run();
	holders = fabric_device_holders(device);
	ck_assert_uint_eq(holders->n_holders, FABRIC_HOLDERS_MAX);
	for (unsigned i = 0; i < FABRIC_HOLDERS_MAX; i++)
		ck_assert_uint_eq(holders->holders[i].n_ids, 2);
	ck_assert_uint_eq(holders->n_more_ids, 2 * (N - FABRIC_HOLDERS_MAX));
	text = said();
	ck_assert_uint_eq(count_lines(text), FABRIC_HOLDERS_MAX + 1);
	ck_assert_ptr_nonnull(strstr(
		text, "Further processes, not listed, hold 12 connection manager ids on rxe0"));
}
END_TEST

static int on_busy(sd_event_source *source, void *userdata)
{
	unsigned *left = userdata;

	if (--*left == 0)
		sd_event_source_set_enabled(source, SD_EVENT_OFF);
	return 0;
}

START_TEST(one_piece_in_a_turn_with_low_priority)
{
	struct fabric_device *device = add_device("rxe0");
	sd_event_source *busy;
	unsigned left = 20;

	kernel.n_pieces = 50;
	ck_assert_int_ge(sd_event_add_defer(loop, &busy, on_busy, &left), 0);
	ck_assert_int_ge(sd_event_source_set_enabled(busy, SD_EVENT_OFF), 0);
	/* BUSY stands for the requests of clients, which have a higher priority than the scan. */
	ck_assert_int_ge(sd_event_source_set_priority(busy, SD_EVENT_PRIORITY_IDLE - 1), 0);
	appear(device);
	ck_assert_uint_eq(kernel.n_dumps, 1);
	kernel.n_read = 0;
	ck_assert_int_ge(sd_event_source_set_enabled(busy, SD_EVENT_ON), 0);
	while (left > 0) {
		ck_assert_int_gt(sd_event_run(loop, 0), 0);
		ck_assert_uint_eq(kernel.n_read, 0);
	}
	for (unsigned i = 1; i <= kernel.n_pieces + 1; i++) {
		ck_assert_ptr_null(fabric_device_holders(device));
		ck_assert_int_gt(sd_event_run(loop, 0), 0);
		ck_assert_uint_eq(kernel.n_read, i);
	}
	ck_assert_ptr_nonnull(fabric_device_holders(device));
	ck_assert_int_eq(sd_event_run(loop, 0), 0);
	sd_event_source_unref(busy);
}
END_TEST

START_TEST(a_dump_without_end)
{
	struct child child = start_child("rping", 0);
	struct fabric_device *device = add_device("rxe0");

	kernel.n_pieces = UINT_MAX;
	add_id((struct id){ (uint32_t)child.pid, NULL, LISTEN, "10.9.0.1", NULL, 0 });
	run();
	ck_assert_uint_eq(kernel.n_read, 8192 + 2);
	/* The holders that were found up to the limit are reported. */
	ck_assert_uint_eq(fabric_device_holders(device)->n_holders, 1);
	ck_assert_uint_eq(fabric_device_holders(device)->holders[0].n_ids, 8192 / PIECES_MAX + 1);
	ck_assert_ptr_nonnull(strstr(said(), "connection manager ids on rxe0: too many"));
	/* The next scan begins from the start. */
	kernel.n_pieces = 1;
	let_rest_be_over();
	fabric_scan_holders(fabric);
	ck_assert_uint_eq(kernel.n_dumps, 2);
	ck_assert_uint_eq(fabric_device_holders(device)->holders[0].n_ids, 1);
	end_child(&child);
}
END_TEST

START_TEST(a_requested_scan)
{
	struct child child = start_child("rping", 0);
	struct fabric_device *device = add_device("rxe0");

	run();
	ck_assert_uint_eq(kernel.n_dumps, 1);
	add_id((struct id){ (uint32_t)child.pid, NULL, LISTEN, "10.9.0.1", NULL, 0 });
	/* A scan has just ended, so fabric_scan_holders() does not begin another one. */
	fabric_scan_holders(fabric);
	ck_assert_uint_eq(kernel.n_dumps, 1);
	ck_assert_uint_eq(fabric_device_holders(device)->n_holders, 0);
	let_rest_be_over();
	/* A short dump is read at once. It is not logged, because only a device's first successful scan is. */
	fabric_scan_holders(fabric);
	ck_assert_uint_eq(kernel.n_dumps, 2);
	ck_assert_uint_eq(kernel.n_device_dumps, 1);
	ck_assert_uint_eq(fabric_device_holders(device)->n_holders, 1);
	ck_assert_str_eq(said(), "");
	fabric_scan_holders(fabric);
	ck_assert_uint_eq(kernel.n_dumps, 2);
	end_child(&child);
}
END_TEST

START_TEST(a_long_dump_is_read_later)
{
	struct child child = start_child("rping", 0);
	struct fabric_device *device = add_device("rxe0");

	run();
	let_rest_be_over();
	add_id((struct id){ (uint32_t)child.pid, NULL, LISTEN, "10.9.0.1", NULL, 0 });
	kernel.n_pieces = 100;
	kernel.n_read = 0;
	fabric_scan_holders(fabric);
	ck_assert_uint_lt(kernel.n_read, 50);
	/* Until the scan is complete, the previous result remains. */
	ck_assert_uint_eq(fabric_device_holders(device)->n_holders, 0);
	run();
	ck_assert_uint_eq(fabric_device_holders(device)->n_holders, 1);
	ck_assert_uint_eq(kernel.n_dumps, 2);
	end_child(&child);
}
END_TEST

START_TEST(a_scan_that_fails)
{
	struct child child = start_child("rping", 0);
	struct fabric_device *device = add_device("rxe0");

	add_id((struct id){ (uint32_t)child.pid, NULL, LISTEN, "10.9.0.1", NULL, 0 });
	kernel.error = -ENOMEM;
	run();
	ck_assert_ptr_null(fabric_device_holders(device));
	ck_assert_str_eq(said(), "Cannot find the other holders of connection manager ids on rxe0: "
				 "Cannot allocate memory.\n");
	let_rest_be_over();
	kernel.error = 0;
	fabric_scan_holders(fabric);
	/*
	 * The device can have been replaced, so its index is looked up again. Its holders are logged now, because the
	 * first scan failed.
	 */
	ck_assert_uint_eq(kernel.n_device_dumps, 2);
	ck_assert_uint_eq(fabric_device_holders(device)->n_holders, 1);
	ck_assert_uint_eq(count_lines(said()), 1);
	let_rest_be_over();
	kernel.error = -ENOMEM;
	fabric_scan_holders(fabric);
	ck_assert_uint_eq(kernel.n_dumps, 3);
	ck_assert_uint_eq(fabric_device_holders(device)->n_holders, 1);
	end_child(&child);
}
END_TEST

START_TEST(a_device_is_removed_during_the_scan)
{
	struct fabric_device *device = add_device("rxe0");

	kernel.n_pieces = 50;
	appear(device);
	while (kernel.n_read < 10)
		ck_assert_int_gt(sd_event_run(loop, 0), 0);
	/* hotplug.c does the same with a removed device. */
	list_remove(&device->link);
	device->gone = true;
	fabric_device_unref(device);
	kernel.n_pieces = kernel.next;
	kernel.error = -EINVAL;
	run();
	ck_assert_str_eq(said(), "");
	/* The next device is scanned. */
	kernel.error = 0;
	device = add_device("rxe1");
	run();
	ck_assert_ptr_nonnull(fabric_device_holders(device));
}
END_TEST

START_TEST(the_fabric_is_freed_during_the_scan)
{
	kernel.n_pieces = 50;
	appear(add_device("rxe0"));
	while (kernel.n_read < 10)
		ck_assert_int_gt(sd_event_run(loop, 0), 0);
	/* tear_down() frees the fabric in the middle of the scan. */
}
END_TEST

/* If a QP is not on the requested port, the kernel returns EAGAIN, as a non-blocking socket without data does. */
START_TEST(a_qp_of_another_port)
{
	struct nldev_device device = { 0 };
	struct nldev *nl;

	ck_assert_int_eq(nldev_new(&nl), 0);
	snprintf(kernel.name, sizeof(kernel.name), "rxe0");
	kernel.n_ports = 3;
	kernel.qps[0] = (struct qp){ .qpn = 17, .port = 2, .tid = (uint32_t)getpid() };
	kernel.n_qps = 1;
	ck_assert_int_eq(qpowner_find(nl, "rxe0", &device, 17, getpid()), 1);
	ck_assert_int_eq(qpowner_find(nl, "rxe0", &device, 17, getppid()), 0);
	kernel.qps[0].port = 4;
	ck_assert_int_eq(qpowner_find(nl, "rxe0", &device, 17, getpid()), -EAGAIN);
	device.n_ports = 0;
	ck_assert_int_eq(qpowner_find(nl, "rxe1", &device, 17, getpid()), -ENODEV);
	nldev_free(nl);
}
END_TEST

static int on_answer_fail(const struct nlmsghdr *header, void *data)
{
	errno = ENOMEM;
	return MNL_CB_ERROR;
}

/* Begins a dump of all QPs, and fails at its first datagram. */
static void dump_and_fail(struct nldev *nl)
{
	_Alignas(struct nlmsghdr) char buf[256];
	struct nlmsghdr *header = nldev_request(buf, RDMA_NLDEV_CMD_RES_QP_GET, NLM_F_DUMP);

	mnl_attr_put_u32(header, RDMA_NLDEV_ATTR_DEV_INDEX, 7);
	ck_assert_int_eq(nldev_exchange(nl, header, on_answer_fail, NULL), -ENOMEM);
}

/* An exchange that does not read its dump to the end does not make the next exchange fail. */
START_TEST(a_dump_that_is_not_read_to_its_end)
{
	struct nldev_device device = { 0 };
	struct nldev *nl;

	ck_assert_int_eq(nldev_new(&nl), 0);
	snprintf(kernel.name, sizeof(kernel.name), "rxe0");
	for (uint32_t i = 0; i < 3 * QPS_A_PIECE; i++)
		kernel.qps[i] = (struct qp){ .qpn = 17 + i, .port = 1, .tid = (uint32_t)getpid() };
	kernel.n_qps = 3 * QPS_A_PIECE;
	/* The next exchange is a dump, too. */
	dump_and_fail(nl);
	ck_assert_int_eq(nldev_find_device(nl, "rxe0", &device), 0);
	/* The next exchange has a single reply. */
	dump_and_fail(nl);
	ck_assert_int_eq(qpowner_find(nl, "rxe0", &device, 17, getpid()), 1);
	nldev_free(nl);
}
END_TEST

UNIT_MAIN("nldev", set_up, tear_down, other_processes_are_logged, peers_are_logged,
	  own_ids_are_left_out, modules_of_the_kernel_are_listed,
	  threads_that_have_ended_are_counted, threads_are_one_process,
	  control_characters_of_names_are_replaced, a_process_without_an_entry_in_proc,
	  the_number_of_holders_is_limited, one_piece_in_a_turn_with_low_priority,
	  a_dump_without_end, a_requested_scan, a_long_dump_is_read_later, a_scan_that_fails,
	  a_device_is_removed_during_the_scan, the_fabric_is_freed_during_the_scan,
	  a_qp_of_another_port, a_dump_that_is_not_read_to_its_end)
