/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "fabric/device/device.h"
#include "fabric/internal.h"
#include "tests/unit/nldev.h"
#include "tests/unit/unit.h"

/*
 * The owner of a QP without a port is found only in a dump of all QPs. The fabric is the real one, with a device that
 * the test adds.
 */

#define N_MANY 100

static sd_event *loop;
static struct fabric *fabric;

static void on_device(void *userdata, struct fabric_device *device)
{
}

static const struct fabric_ops ops = { .device_added = on_device, .device_removed = on_device };

static void add_device(const char *name)
{
	struct fabric_device *device = calloc(1, sizeof(*device));

	ck_assert_ptr_nonnull(device);
	device->n_refs = 1;
	device->fabric = fabric;
	device->announced = true;
	list_init(&device->grants);
	device->name = strdup(name);
	device->node = strdup("/dev/infiniband/uverbs0");
	list_insert(&fabric->devices, &device->link);
	snprintf(kernel.name, sizeof(kernel.name), "%s", name);
}

static void set_up(void)
{
	memset(&kernel, 0, sizeof(kernel));
	kernel.n_ports = 1;
	skipped = 0;
	ck_assert_int_ge(sd_event_new(&loop), 0);
	ck_assert_int_eq(fabric_new(&fabric, loop, FABRIC_ACCESS_ACL, &ops, NULL), 0);
	add_device("rxe0");
}

static void tear_down(void)
{
	fabric_free(fabric);
	sd_event_unref(loop);
}

static void add_qp(uint32_t qpn, uint32_t port, uint32_t tid, uint32_t pdn)
{
	ck_assert_uint_lt(kernel.n_qps, QPS_MAX);
	kernel.qps[kernel.n_qps++] =
		(struct qp){ .qpn = qpn, .port = port, .tid = tid, .pdn = pdn };
}

struct question {
	struct fabric_lookup *lookup;
	bool done;
	int answer;
};

static void on_answer(void *userdata, int answer)
{
	struct question *question = userdata;

	ck_assert(!question->done);
	question->done = true;
	question->answer = answer;
}

static void ask_as(struct question *question, const char *device, uint32_t qpn, pid_t pid,
		   uid_t uid)
{
	*question = (struct question){ 0 };
	ck_assert_int_eq(fabric_qp_belongs(&question->lookup, fabric, device, qpn, pid,
					   owner_of(uid), on_answer, question),
			 -EINPROGRESS);
}

static void ask(struct question *question, uint32_t qpn, pid_t pid)
{
	ask_as(question, "rxe0", qpn, pid, 1000);
}

/*
 * Timers expire by the clock that the test advances, but the kernel does not wake the loop for them. So each turn
 * waits only for 1 ms.
 */
static void run_until(const struct question *question)
{
	while (!question->done)
		ck_assert_int_ge(sd_event_run(loop, 1000), 0);
}

static int ask_now(uint32_t qpn, pid_t pid)
{
	struct question question;

	ask(&question, qpn, pid);
	run_until(&question);
	return question.answer;
}

START_TEST(with_a_port_there_is_no_dump)
{
	add_qp(17, 1, (uint32_t)getpid(), 0);
	ck_assert_int_eq(ask_now(17, getpid()), 1);
	ck_assert_int_eq(ask_now(17, getppid()), FABRIC_QP_FOREIGN);
	ck_assert_uint_eq(kernel.n_qp_dumps, 0);
}
END_TEST

/* If no QP has the number, the look-up by number reports that, and no dump is needed. */
START_TEST(a_number_without_a_qp_is_unknown)
{
	ck_assert_int_eq(ask_now(17, getpid()), FABRIC_QP_UNKNOWN);
	add_qp(17, 1, (uint32_t)getppid(), 0);
	ck_assert_int_eq(ask_now(17, getpid()), FABRIC_QP_FOREIGN);
	ck_assert_int_eq(ask_now(18, getpid()), FABRIC_QP_UNKNOWN);
	ck_assert_uint_eq(kernel.n_qp_dumps, 0);
}
END_TEST

/* Each process has made it, as far as the kernel tells, with a port and without. */
START_TEST(a_target_of_xrc_belongs_to_a_domain)
{
	kernel.qps[kernel.n_qps++] =
		(struct qp){ .qpn = 17, .port = 1, .kernel = "ib_uverbs", .type = 10 };
	kernel.qps[kernel.n_qps++] = (struct qp){ .qpn = 18, .kernel = "ib_uverbs", .type = 10 };
	/* The kernel's own. */
	kernel.qps[kernel.n_qps++] =
		(struct qp){ .qpn = 19, .port = 1, .kernel = "nvmet_rdma", .type = 10 };
	kernel.qps[kernel.n_qps++] =
		(struct qp){ .qpn = 20, .port = 1, .kernel = "ib_uverbs", .type = 2 };
	ck_assert_int_eq(ask_now(17, getpid()), FABRIC_QP_XRC_TARGET);
	ck_assert_int_eq(ask_now(18, getpid()), FABRIC_QP_XRC_TARGET);
	ck_assert_int_eq(ask_now(19, getpid()), FABRIC_QP_FOREIGN);
	ck_assert_int_eq(ask_now(20, getpid()), FABRIC_QP_FOREIGN);
}
END_TEST

/*
 * The kernel does not find QPs 0 and 1 by number, and 0xffffff stands for multicast. These numbers must not be
 * reported as unknown.
 */
START_TEST(special_numbers_are_not_unknown)
{
	ck_assert_int_eq(ask_now(0, getpid()), FABRIC_QP_FOREIGN);
	ck_assert_int_eq(ask_now(1, getpid()), FABRIC_QP_FOREIGN);
	ck_assert_int_eq(ask_now(2, getpid()), FABRIC_QP_UNKNOWN);
	ck_assert_int_eq(ask_now(0xfffffe, getpid()), FABRIC_QP_UNKNOWN);
	ck_assert_int_eq(ask_now(0xffffff, getpid()), FABRIC_QP_FOREIGN);
}
END_TEST

/* If the kernel reports no ports for the device, the look-up fails, and does not report the number as unknown. */
START_TEST(a_device_without_ports)
{
	kernel.n_ports = 0;
	ck_assert_int_eq(ask_now(17, getpid()), -ENODEV);
}
END_TEST

START_TEST(without_a_port_the_owner_is_found)
{
	for (uint32_t qpn = 100; qpn < 200; qpn++)
		add_qp(qpn, qpn % 2, (uint32_t)(qpn == 170 ? getpid() : getppid()), 0);
	ck_assert_int_eq(ask_now(170, getpid()), 1);
	ck_assert_int_eq(ask_now(170, getppid()), 0);
	ck_assert_int_eq(ask_now(172, getpid()), 0);
	ck_assert_uint_eq(kernel.n_qp_dumps, 3);
}
END_TEST

/* The thread that made the QP has ended, so the process that made its protection domain is the owner. */
START_TEST(the_owner_of_the_protection_domain)
{
	add_qp(17, 0, 0, 4);
	ck_assert_int_eq(ask_now(17, PD_TID), 1);
	ck_assert_int_eq(ask_now(17, getpid()), 0);
	/* If the kernel reports neither the QP's thread nor its protection domain, the QP belongs to nobody. */
	add_qp(18, 0, 0, 0);
	ck_assert_int_eq(ask_now(18, getpid()), 0);
}
END_TEST

static void take_all_away(void)
{
	kernel.n_qps = 0;
}

/* The QP is destroyed between the look-up and the dump. */
START_TEST(a_qp_that_goes_meanwhile)
{
	add_qp(17, 0, (uint32_t)getpid(), 0);
	kernel.on_qp_dump = take_all_away;
	ck_assert_int_eq(ask_now(17, getpid()), 0);
	ck_assert_uint_eq(kernel.n_qp_dumps, 1);
}
END_TEST

/*
 * The kernel can skip a QP if another one is destroyed during a long dump. So a long dump that lacks the QP is
 * repeated.
 */
START_TEST(what_a_long_dump_skips_is_looked_for_again)
{
	for (uint32_t qpn = 100; qpn < 200; qpn++)
		add_qp(qpn, 0, (uint32_t)getpid(), 0);
	kernel.skips = 1;
	ck_assert_int_eq(ask_now(100, getpid()), 1);
	ck_assert_uint_eq(kernel.n_qp_dumps, 2);
	/* A short dump is complete and is not repeated. */
	kernel.n_qps = 2;
	kernel.skips = 1;
	ck_assert_int_eq(ask_now(100, getpid()), 0);
	ck_assert_uint_eq(kernel.n_qp_dumps, 3);
}
END_TEST

START_TEST(a_dump_that_fails)
{
	add_qp(17, 0, (uint32_t)getpid(), 0);
	kernel.qp_error = -ENOMEM;
	ck_assert_int_eq(ask_now(17, getpid()), -ENOMEM);
	ck_assert_int_eq(ask_now(17, getpid()), 1);
}
END_TEST

/*
 * One QP that its driver cannot be asked about ends each dump, as mlx5's DCT does until it is ready. Those with smaller
 * numbers are found nevertheless, and nothing is repeated.
 */
START_TEST(a_qp_that_ends_the_dump)
{
	for (uint32_t qpn = 100; qpn < 300; qpn++)
		add_qp(qpn, 0, (uint32_t)getpid(), 0);
	kernel.qps[150].error = -EINVAL;
	ck_assert_int_eq(ask_now(110, getpid()), FABRIC_QP_OWN);
	ck_assert_int_eq(ask_now(110, getppid()), FABRIC_QP_FOREIGN);
	kernel.n_qp_dumps = kernel.n_device_dumps = 0;
	ck_assert_int_eq(ask_now(299, getpid()), -EINVAL);
	ck_assert_uint_eq(kernel.n_qp_dumps, 1);
	ck_assert_int_eq(ask_now(110, getpid()), FABRIC_QP_OWN);
}
END_TEST

/* The rest of the dump is not read. */
START_TEST(a_dump_ends_with_what_is_wanted)
{
	for (uint32_t qpn = 0; qpn < QPS_MAX; qpn++)
		add_qp(100 + qpn, 0, (uint32_t)getpid(), 0);
	ck_assert_int_eq(ask_now(100 + QPS_MAX - 1, getpid()), FABRIC_QP_OWN);
	kernel.n_read = 0;
	ck_assert_int_eq(ask_now(100, getpid()), FABRIC_QP_OWN);
	/* That the QP has no port, and one piece. */
	ck_assert_uint_eq(kernel.n_read, 2);
}
END_TEST

/* The device was replaced by one of the same name with another index, so the index is looked up again. */
START_TEST(a_device_that_was_replaced)
{
	add_qp(17, 0, (uint32_t)getpid(), 0);
	ck_assert_int_eq(ask_now(17, getpid()), 1);
	kernel.n_device_dumps = 0;
	kernel.n_replaced = 1;
	kernel.qp_error = -EINVAL;
	ck_assert_int_eq(ask_now(17, getpid()), 1);
	ck_assert_uint_eq(kernel.n_device_dumps, 1);
}
END_TEST

/* Delays the first dump until all look-ups have asked the kernel for their QPs by number. */
static void hold_first_dump(void)
{
	if (kernel.n_qp_dumps == 1)
		while (kernel.n_qp_asked < N_MANY)
			sched_yield();
}

START_TEST(those_that_wait_share_a_dump)
{
	static struct question questions[N_MANY];

	for (uint32_t i = 0; i < N_MANY; i++)
		add_qp(100 + i, 0, (uint32_t)(i % 2 ? getpid() : getppid()), 0);
	kernel.on_qp_dump = hold_first_dump;
	for (uint32_t i = 0; i < N_MANY; i++)
		ask(&questions[i], 100 + i, getpid());
	for (uint32_t i = 0; i < N_MANY; i++) {
		run_until(&questions[i]);
		ck_assert_int_eq(questions[i].answer, i % 2);
	}
	ck_assert_uint_le(kernel.n_qp_dumps, 3);
	ck_assert_uint_ge(kernel.n_qp_dumps, 2);
}
END_TEST

static void take_a_second(void)
{
	skipped += 1;
}

static void run_for_what_is_due(void)
{
	while (sd_event_run(loop, 100000) > 0)
		;
}

/* Runs until the kernel was asked N times about a QP by its number. */
static void run_until_asked(unsigned n)
{
	while (kernel.n_qp_asked < n)
		ck_assert_int_ge(sd_event_run(loop, 1000), 0);
	run_for_what_is_due();
}

/* Dumps take at most a tenth of the time: a rest of 9 s follows a dump of a second. */
START_TEST(there_is_a_rest)
{
	static struct question question;

	add_qp(17, 0, (uint32_t)getpid(), 0);
	kernel.on_qp_dump = take_a_second;
	ck_assert_int_eq(ask_now(17, getpid()), 1);
	ask(&question, 17, getpid());
	run_until_asked(2);
	skipped += 8;
	run_for_what_is_due();
	ck_assert(!question.done);
	ck_assert_uint_eq(kernel.n_qp_dumps, 1);
	skipped += 1;
	run_until(&question);
	ck_assert_int_eq(question.answer, 1);
	ck_assert_uint_eq(kernel.n_qp_dumps, 2);
}
END_TEST

/*
 * Each dump costs its owner 24 s, and he can be 20 s ahead. So his third one has to wait for longer than the device. Another
 * one need not wait; the first shares his dump, and what it costs.
 */
START_TEST(an_owner_pays_for_his_dumps)
{
	static struct question question, other;

	add_qp(17, 0, (uint32_t)getpid(), 0);
	kernel.on_qp_dump = take_a_second;
	ck_assert_int_eq(ask_now(17, getpid()), 1);
	skipped += 10;
	ck_assert_int_eq(ask_now(17, getpid()), 1);
	ask(&question, 17, getpid());
	run_until_asked(3);
	skipped += 10;
	run_for_what_is_due();
	ck_assert(!question.done);
	ck_assert_uint_eq(kernel.n_qp_dumps, 2);
	ask_as(&other, "rxe0", 17, getpid(), 1001);
	run_until(&other);
	run_until(&question);
	ck_assert_uint_eq(kernel.n_qp_dumps, 3);
	/* He owes 24 + 24 - 11 - 11 + 12. */
	ask(&question, 17, getpid());
	run_until_asked(5);
	skipped += 14;
	run_for_what_is_due();
	ck_assert(!question.done);
	skipped += 5;
	run_until(&question);
	ck_assert_uint_eq(kernel.n_qp_dumps, 4);
}
END_TEST

static atomic_bool hangs;

static void hang(void)
{
	if (kernel.n_qp_dumps == 1)
		while (hangs)
			sched_yield();
}

START_TEST(no_device_waits_for_another)
{
	static struct question slow, question;

	add_qp(17, 0, (uint32_t)getpid(), 0);
	kernel.on_qp_dump = hang;
	hangs = true;
	ask(&slow, 17, getpid());
	while (kernel.n_qp_dumps == 0)
		ck_assert_int_ge(sd_event_run(loop, 1000), 0);
	add_device("rxe1");
	ask_as(&question, "rxe1", 17, getpid(), 1000);
	run_until(&question);
	ck_assert_int_eq(question.answer, FABRIC_QP_OWN);
	ck_assert(!slow.done);
	hangs = false;
	run_until(&slow);
	ck_assert_int_eq(slow.answer, FABRIC_QP_OWN);
}
END_TEST

/* Look-ups that wait for a dump are freed with the fabric. Cancelled look-ups get no result. */
START_TEST(cancelled_while_they_wait)
{
	static struct question questions[3];

	add_qp(17, 0, (uint32_t)getpid(), 0);
	kernel.on_qp_dump = take_a_second;
	ck_assert_int_eq(ask_now(17, getpid()), 1);
	for (unsigned i = 0; i < 3; i++) {
		ask(&questions[i], 17, getpid());
		run_until_asked(2 + i);
	}
	fabric_lookup_cancel(questions[0].lookup);
	skipped += 9;
	run_until(&questions[1]);
	run_until(&questions[2]);
	ck_assert(!questions[0].done);
	ask(&questions[0], 17, getpid());
	run_until_asked(5);
	fabric_lookup_cancel(questions[0].lookup);
}
END_TEST

UNIT_MAIN("qpscan", set_up, tear_down, with_a_port_there_is_no_dump,
	  a_number_without_a_qp_is_unknown, a_target_of_xrc_belongs_to_a_domain,
	  special_numbers_are_not_unknown, a_device_without_ports,
	  without_a_port_the_owner_is_found, the_owner_of_the_protection_domain,
	  a_qp_that_goes_meanwhile, what_a_long_dump_skips_is_looked_for_again, a_dump_that_fails,
	  a_qp_that_ends_the_dump, a_dump_ends_with_what_is_wanted, a_device_that_was_replaced,
	  those_that_wait_share_a_dump, there_is_a_rest, an_owner_pays_for_his_dumps,
	  no_device_waits_for_another, cancelled_while_they_wait)
