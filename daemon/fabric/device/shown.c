/* SPDX-License-Identifier: BSD-2-Clause */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>

#include "fabric/device/shown.h"
#include "util/util.h"

#undef ibv_get_device_list

/* A list that librdmacm has got. */
struct list_for_cm {
	struct ibv_device **all; /* libibverbs's list, which keeps the devices */
	struct ibv_device *some[];
};

static struct {
	struct ibv_device **(*get_device_list)(int *ret_n);
	void (*free_device_list)(struct ibv_device **list);
	struct ibv_context *(*open_device)(struct ibv_device *device);
	int (*close_device)(struct ibv_context *context);
} real;
static pthread_once_t found = PTHREAD_ONCE_INIT;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list and what is on it */
static struct list all_shown = { &all_shown, &all_shown };

static void *find_function(const char *name)
{
	void *function = dlvsym(RTLD_NEXT, name, "IBVERBS_1.1");

	/* The program is linked with libibverbs, so it was there. */
	if (!function)
		abort();
	return function;
}

static void find_functions(void)
{
	*(void **)&real.get_device_list = find_function("ibv_get_device_list");
	*(void **)&real.free_device_list = find_function("ibv_free_device_list");
	*(void **)&real.open_device = find_function("ibv_open_device");
	*(void **)&real.close_device = find_function("ibv_close_device");
}

struct ibv_device **shown_list_all(void)
{
	pthread_once(&found, find_functions);
	return real.get_device_list(NULL);
}

void shown_free_list(struct ibv_device **list)
{
	pthread_once(&found, find_functions);
	real.free_device_list(list);
}

struct ibv_context *shown_open(struct ibv_device *device)
{
	pthread_once(&found, find_functions);
	return real.open_device(device);
}

void shown_close(struct ibv_context *verbs)
{
	pthread_once(&found, find_functions);
	real.close_device(verbs);
}

void shown_begin(struct shown *shown, struct ibv_context *verbs)
{
	*shown = (struct shown){ .device = verbs->device, .verbs = verbs };
	pthread_mutex_lock(&lock);
	list_insert(&all_shown, &shown->link);
	pthread_mutex_unlock(&lock);
}

void shown_hide(struct shown *shown)
{
	pthread_mutex_lock(&lock);
	shown->is_hidden = true;
	pthread_mutex_unlock(&lock);
}

bool shown_is_lent(const struct shown *shown)
{
	bool ret;

	pthread_mutex_lock(&lock);
	ret = shown->n_lent > 0;
	pthread_mutex_unlock(&lock);
	return ret;
}

void shown_end(struct shown *shown)
{
	if (!shown->verbs)
		return;
	pthread_mutex_lock(&lock);
	list_remove(&shown->link);
	pthread_mutex_unlock(&lock);
	*shown = (struct shown){ 0 };
}

/* ---- what librdmacm calls; LOCK is held in find() and lend() ---- */

static struct shown *find(const struct ibv_device *device, const struct ibv_context *verbs)
{
	struct list *l;

	list_for_each(l, &all_shown) {
		struct shown *shown = container_of(l, struct shown, link);

		if (verbs ? shown->verbs == verbs : shown->device == device && !shown->is_hidden)
			return shown;
	}
	return NULL;
}

static size_t count(struct ibv_device *const *list)
{
	size_t n = 0;

	while (list[n])
		n++;
	return n;
}

struct ibv_device **ibv_get_device_list(int *ret_n)
{
	struct ibv_device **all = shown_list_all();
	struct list_for_cm *list;
	int n = 0;

	if (!all)
		return NULL;
	list = calloc(1, sizeof(*list) + (count(all) + 1) * sizeof(list->some[0]));
	if (!list) {
		shown_free_list(all);
		return NULL;
	}
	list->all = all;
	pthread_mutex_lock(&lock);
	for (struct ibv_device **device = all; *device; device++)
		if (find(*device, NULL))
			list->some[n++] = *device;
	pthread_mutex_unlock(&lock);
	if (ret_n)
		*ret_n = n;
	return list->some;
}

void ibv_free_device_list(struct ibv_device **some)
{
	struct list_for_cm *list =
		(struct list_for_cm *)((char *)some - offsetof(struct list_for_cm, some));

	shown_free_list(list->all);
	free(list);
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct ibv_context *verbs = NULL;
	struct shown *shown;

	pthread_mutex_lock(&lock);
	shown = find(device, NULL);
	if (shown) {
		shown->n_lent++;
		verbs = shown->verbs;
	}
	pthread_mutex_unlock(&lock);
	if (!verbs)
		errno = ENODEV;
	return verbs;
}

int ibv_close_device(struct ibv_context *verbs)
{
	struct shown *shown;

	pthread_mutex_lock(&lock);
	shown = find(NULL, verbs);
	if (shown)
		shown->n_lent--;
	pthread_mutex_unlock(&lock);
	if (!shown)
		shown_close(verbs);
	return 0;
}
