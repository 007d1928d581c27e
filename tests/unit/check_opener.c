/* SPDX-License-Identifier: BSD-2-Clause */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/ib_user_verbs.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fabric/device/opener.h"
#include "tests/unit/unit.h"

/*
 * Devices that are slow, not ready, and gone: libibverbs is made here, and the test takes librdmacm's part, by the
 * functions that librdmacm calls.
 */

#undef ibv_get_device_list

#define N 3

struct adapter {
	struct ibv_device device;
	bool listed, open;
	int error; /* of the next opens */
	bool is_slow; /* an open takes until DONE is posted */
	sem_t done;
	unsigned n_opens, n_queries;
	uint8_t lmc, link_layer;
	struct ibv_context context;
	int kernel; /* the other end of the context's descriptors */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct adapter adapters[N];
static sd_event *loop;
static struct opener *opener;
static unsigned n_lists;
static bool others_go_on; /* the opener has told that nobody waits any more */

static struct adapter *adapter_of(const struct ibv_device *device)
{
	for (size_t i = 0; i < N; i++)
		if (&adapters[i].device == device)
			return &adapters[i];
	ck_abort_msg("an unknown device");
}

static struct ibv_device **get_list(int *ret_n)
{
	struct ibv_device **list = calloc(N + 1, sizeof(struct ibv_device *));
	size_t n = 0;

	pthread_mutex_lock(&lock);
	n_lists++;
	for (size_t i = 0; i < N; i++)
		if (adapters[i].listed)
			list[n++] = &adapters[i].device;
	pthread_mutex_unlock(&lock);
	return list;
}

static void free_list(struct ibv_device **list)
{
	pthread_mutex_lock(&lock);
	n_lists--;
	pthread_mutex_unlock(&lock);
	free(list);
}

static struct ibv_context *open_device(struct ibv_device *device)
{
	struct adapter *adapter = adapter_of(device);
	struct ibv_context *ret = NULL;
	int fds[2];

	pthread_mutex_lock(&lock);
	adapter->n_opens++;
	if (adapter->is_slow) {
		pthread_mutex_unlock(&lock);
		sem_wait(&adapter->done);
		pthread_mutex_lock(&lock);
	}
	if (adapter->error == 0) {
		ck_assert_int_eq(socketpair(AF_UNIX, SOCK_DGRAM, 0, fds), 0);
		adapter->kernel = fds[1];
		adapter->context.device = device;
		adapter->context.async_fd = fds[0];
		adapter->context.cmd_fd = dup(fds[0]);
		adapter->open = true;
		ret = &adapter->context;
	}
	errno = adapter->error;
	pthread_mutex_unlock(&lock);
	return ret;
}

#undef ibv_query_port
int ibv_query_port(struct ibv_context *context, uint8_t port_num,
		   struct _compat_ibv_port_attr *compat)
{
	struct ibv_port_attr *attr = (struct ibv_port_attr *)compat;
	struct adapter *adapter = adapter_of(context->device);

	pthread_mutex_lock(&lock);
	adapter->n_queries++;
	attr->lmc = adapter->lmc;
	attr->link_layer = adapter->link_layer;
	pthread_mutex_unlock(&lock);
	return port_num <= 2 ? 0 : EINVAL;
}

static int close_device(struct ibv_context *context)
{
	struct adapter *adapter = adapter_of(context->device);

	pthread_mutex_lock(&lock);
	ck_assert(adapter->open);
	adapter->open = false;
	close(context->cmd_fd);
	close(context->async_fd);
	close(adapter->kernel);
	pthread_mutex_unlock(&lock);
	return 0;
}

void *dlvsym(void *handle, const char *name, const char *version)
{
	return strcmp(name, "ibv_get_device_list") == 0  ? (void *)get_list :
	       strcmp(name, "ibv_free_device_list") == 0 ? (void *)free_list :
	       strcmp(name, "ibv_open_device") == 0      ? (void *)open_device :
							   (void *)close_device;
}

static bool is_open(const struct adapter *adapter)
{
	bool ret;

	pthread_mutex_lock(&lock);
	ret = adapter->open;
	pthread_mutex_unlock(&lock);
	return ret;
}

static void on_change(void *userdata)
{
	others_go_on = others_go_on || !opener_is_new(opener);
}

static void set_up(void)
{
	others_go_on = false;
	ck_assert_int_ge(sd_event_new(&loop), 0);
	ck_assert_int_eq(opener_new(&opener, loop, on_change, NULL), 0);
	for (size_t i = 0; i < N; i++) {
		snprintf(adapters[i].device.name, sizeof(adapters[i].device.name), "fake%zu", i);
		snprintf(adapters[i].device.dev_name, sizeof(adapters[i].device.dev_name),
			 "uverbs%zu", i);
		sem_init(&adapters[i].done, 0, 0);
	}
}

static void tear_down(void)
{
	opener_free(opener);
	for (size_t i = 0; i < N; i++)
		ck_assert(!adapters[i].open);
	ck_assert_uint_eq(n_lists, 0);
	sd_event_unref(loop);
}

static struct opener_status status_of(const char *name)
{
	struct opener_status ret;

	opener_get_status(opener, name, &ret);
	return ret;
}

static void await(const char *name, enum opener_state state)
{
	while (status_of(name).state != state)
		ck_assert_int_gt(sd_event_run(loop, PATIENCE_MS * 1000ULL), 0);
}

static void await_rest(void)
{
	while (opener_is_busy(opener))
		ck_assert_int_gt(sd_event_run(loop, PATIENCE_MS * 1000ULL), 0);
}

/* What librdmacm does when it lists the devices. */
static int count_shown(void)
{
	struct ibv_device **list;
	int n = -1;

	list = ibv_get_device_list(&n);
	ck_assert_ptr_nonnull(list);
	for (int i = 0; i < n; i++)
		ck_assert_ptr_nonnull(list[i]);
	ck_assert_ptr_null(list[n]);
	ibv_free_device_list(list);
	return n;
}

START_TEST(librdmacm_borrows_what_is_open)
{
	struct ibv_context *verbs;

	adapters[0].listed = true;
	ck_assert_int_eq(count_shown(), 0);
	ck_assert_ptr_null(ibv_open_device(&adapters[0].device));
	ck_assert_int_eq(errno, ENODEV);
	opener_look(opener);
	ck_assert(opener_is_busy(opener));
	await("uverbs0", OPENER_OPEN);
	await_rest();
	ck_assert(!opener_is_new(opener));
	ck_assert_int_eq(count_shown(), 1);
	for (int i = 0; i < 2; i++) {
		verbs = ibv_open_device(&adapters[0].device);
		ck_assert_ptr_eq(verbs, &adapters[0].context);
		ck_assert_int_eq(ibv_close_device(verbs), 0);
		ck_assert(is_open(&adapters[0]));
	}
	ck_assert_uint_eq(adapters[0].n_opens, 1);
}
END_TEST

/* The LMCs, which can change as long as the device is open. */
START_TEST(lids_of_ports)
{
	const struct ib_uverbs_async_event_desc event = { .event_type = IBV_EVENT_LID_CHANGE };
	const struct ib_uverbs_async_event_desc other = { .event_type = IBV_EVENT_PORT_ERR };

	adapters[0].listed = adapters[1].listed = true;
	adapters[0].lmc = adapters[1].lmc = 2;
	adapters[0].link_layer = IBV_LINK_LAYER_INFINIBAND;
	adapters[1].link_layer = IBV_LINK_LAYER_ETHERNET;
	opener_look(opener);
	await("uverbs0", OPENER_OPEN);
	await("uverbs1", OPENER_OPEN);
	ck_assert_uint_eq(status_of("uverbs0").lmc[0], 2);
	ck_assert_uint_eq(status_of("uverbs0").lmc[1], 2);
	ck_assert_uint_eq(status_of("uverbs0").lmc[2], 0);
	ck_assert_uint_eq(status_of("uverbs1").lmc[0], 0);
	await_rest();

	pthread_mutex_lock(&lock);
	adapters[0].lmc = 3;
	adapters[0].n_queries = 0;
	pthread_mutex_unlock(&lock);
	ck_assert_int_gt(write(adapters[0].kernel, &other, sizeof(other)), 0);
	ck_assert_int_gt(write(adapters[0].kernel, &event, sizeof(event)), 0);
	while (status_of("uverbs0").lmc[0] != 3)
		ck_assert_int_gt(sd_event_run(loop, PATIENCE_MS * 1000ULL), 0);
	ck_assert_uint_eq(adapters[0].n_queries, 3);
	ck_assert_int_eq(status_of("uverbs0").state, OPENER_OPEN);
	ck_assert_int_eq(count_shown(), 2);
}
END_TEST

START_TEST(a_device_that_is_not_ready)
{
	struct opener_status status;

	adapters[0].listed = adapters[1].listed = true;
	adapters[0].error = EAGAIN;
	opener_look(opener);
	await("uverbs0", OPENER_FAILED);
	await("uverbs1", OPENER_OPEN);
	status = status_of("uverbs0");
	ck_assert_int_eq(status.error, EAGAIN);
	ck_assert_uint_gt(status.since_ms, 0);
	ck_assert_uint_gt(status.n_tries, 0);
	ck_assert_int_eq(count_shown(), 1);
	await_rest();

	/* It is tried again, without a word from udev. */
	pthread_mutex_lock(&lock);
	adapters[0].error = 0;
	pthread_mutex_unlock(&lock);
	await("uverbs0", OPENER_OPEN);
	ck_assert_uint_gt(status_of("uverbs0").n_tries, 1);
	ck_assert_int_eq(count_shown(), 2);
}
END_TEST

START_TEST(a_slow_device_delays_no_other)
{
	adapters[0].listed = adapters[1].listed = true;
	adapters[0].is_slow = true;
	opener_look(opener);
	await("uverbs1", OPENER_OPEN);
	ck_assert_int_eq(count_shown(), 1);
	/* Others wait for some time, and then they are told. */
	while (!others_go_on)
		ck_assert_int_gt(sd_event_run(loop, PATIENCE_MS * 1000ULL), 0);
	ck_assert_int_eq(status_of("uverbs0").state, OPENER_OPENING);
	ck_assert(opener_is_busy(opener));

	/* A third device does not wait for it, nor does it begin another wait. */
	pthread_mutex_lock(&lock);
	adapters[2].listed = true;
	pthread_mutex_unlock(&lock);
	opener_look(opener);
	ck_assert(!opener_is_new(opener));
	await("uverbs2", OPENER_OPEN);
	ck_assert_int_eq(count_shown(), 2);

	sem_post(&adapters[0].done);
	await("uverbs0", OPENER_OPEN);
	ck_assert_int_eq(count_shown(), 3);
}
END_TEST

static void remove_adapter(struct adapter *adapter)
{
	pthread_mutex_lock(&lock);
	adapter->listed = false;
	pthread_mutex_unlock(&lock);
	opener_look(opener);
}

/* Whether the kernel's end of the context's descriptors says that nobody has them any more. */
static void await_release(const struct adapter *adapter)
{
	char byte;

	do
		ck_assert_int_ge(sd_event_run(loop, 10000), 0);
	while (send(adapter->kernel, &byte, 0, MSG_NOSIGNAL | MSG_DONTWAIT) == 0);
}

START_TEST(a_device_that_goes_while_ids_are_bound_to_it)
{
	struct ibv_context *verbs;
	struct stat st, null;

	adapters[0].listed = adapters[1].listed = true;
	opener_look(opener);
	await("uverbs0", OPENER_OPEN);
	await("uverbs1", OPENER_OPEN);
	await_rest();
	verbs = ibv_open_device(&adapters[0].device);
	ck_assert_ptr_nonnull(verbs);
	remove_adapter(&adapters[0]);
	await("uverbs0", OPENER_ABSENT);
	ck_assert_int_eq(count_shown(), 1);
	/* The kernel has its descriptors back, and librdmacm has others in their place. */
	await_release(&adapters[0]);
	ck_assert_int_eq(fstat(verbs->cmd_fd, &st), 0);
	ck_assert_int_eq(stat("/dev/null", &null), 0);
	ck_assert_uint_eq(st.st_rdev, null.st_rdev);
	ck_assert(is_open(&adapters[0]));

	/* librdmacm gives it back, and at the next look it is closed. */
	ibv_close_device(verbs);
	opener_look(opener);
	while (is_open(&adapters[0]))
		ck_assert_int_ge(sd_event_run(loop, 10000), 0);
	ck_assert(is_open(&adapters[1]));
}
END_TEST

START_TEST(a_device_that_goes_while_it_is_opened)
{
	adapters[0].listed = adapters[0].is_slow = true;
	opener_look(opener);
	await("uverbs0", OPENER_OPENING);
	remove_adapter(&adapters[0]);
	await("uverbs0", OPENER_ABSENT);
	sem_post(&adapters[0].done);
	while (adapters[0].n_opens == 0 || is_open(&adapters[0]) || opener_is_busy(opener))
		ck_assert_int_ge(sd_event_run(loop, 10000), 0);
	ck_assert_int_eq(count_shown(), 0);
}
END_TEST

START_TEST(a_new_device_with_the_name_of_an_old_one)
{
	strcpy(adapters[1].device.dev_name, "uverbs0");
	adapters[0].listed = true;
	opener_look(opener);
	await("uverbs0", OPENER_OPEN);
	ck_assert_ptr_nonnull(ibv_open_device(&adapters[0].device));
	adapters[1].listed = true;
	remove_adapter(&adapters[0]);
	while (!is_open(&adapters[1]) || status_of("uverbs0").state != OPENER_OPEN)
		ck_assert_int_gt(sd_event_run(loop, PATIENCE_MS * 1000ULL), 0);
	ck_assert_ptr_eq(ibv_open_device(&adapters[1].device), &adapters[1].context);
	ck_assert_ptr_null(ibv_open_device(&adapters[0].device));
	ibv_close_device(&adapters[0].context);
	ibv_close_device(&adapters[1].context);
}
END_TEST

START_TEST(events_of_a_context_do_not_queue)
{
	struct ib_uverbs_async_event_desc event = { .event_type = IBV_EVENT_PORT_ERR };
	int n = 0;

	adapters[0].listed = true;
	opener_look(opener);
	await("uverbs0", OPENER_OPEN);
	while (send(adapters[0].kernel, &event, sizeof(event), MSG_DONTWAIT) > 0)
		n++;
	ck_assert_int_gt(n, 0);
	while (recv(adapters[0].context.async_fd, &event, sizeof(event), MSG_PEEK | MSG_DONTWAIT) >
	       0)
		ck_assert_int_gt(sd_event_run(loop, PATIENCE_MS * 1000ULL), 0);
}
END_TEST

START_TEST(what_is_lent_at_the_end_is_librdmacms)
{
	struct ibv_context *verbs;

	adapters[0].listed = true;
	opener_look(opener);
	await("uverbs0", OPENER_OPEN);
	verbs = ibv_open_device(&adapters[0].device);
	opener = opener_free(opener);
	ck_assert(is_open(&adapters[0]));
	ibv_close_device(verbs);
	ck_assert(!is_open(&adapters[0]));
}
END_TEST

UNIT_MAIN("opener", set_up, tear_down, librdmacm_borrows_what_is_open, lids_of_ports,
	  a_device_that_is_not_ready, a_slow_device_delays_no_other,
	  a_device_that_goes_while_ids_are_bound_to_it, a_device_that_goes_while_it_is_opened,
	  a_new_device_with_the_name_of_an_old_one, events_of_a_context_do_not_queue,
	  what_is_lent_at_the_end_is_librdmacms)
