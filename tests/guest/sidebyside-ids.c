/* SPDX-License-Identifier: BSD-2-Clause */

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/guest/sidebyside.h"

struct slot slots[MAX_SLOTS];

const char *const side_names[N_SIDES] = {
	[SIDE_PASSIVE] = "passive",
	[SIDE_ACTIVE] = "active",
	[SIDE_WORKER] = "worker",
};

int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000LL + ts.tv_nsec / 1000000;
}

void die(const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "sidebyside: %s %s: ", backend->name, script->name);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(2);
}

void add(struct text *text, const char *fmt, ...)
{
	size_t left = sizeof(text->buf) - text->n;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(text->buf + text->n, left, fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= left)
		die("a line is too long");
	text->n += (size_t)n;
}

const char *error_name(int r)
{
	static char number[24];
	const char *name = strerrorname_np(-r);

	/* An errno that the kernel should not pass to user space has no name. */
	snprintf(number, sizeof(number), "errno %d", -r);
	return name ?: number;
}

static enum side side_of(const char *name)
{
	return strncmp(name, "active", strlen("active")) == 0 ? SIDE_ACTIVE : SIDE_PASSIVE;
}

struct slot *find_slot(const char *name)
{
	for (size_t i = 0; i < MAX_SLOTS; i++)
		if (slots[i].id && strcmp(slots[i].name, name) == 0)
			return &slots[i];
	return NULL;
}

struct slot *new_slot(const char *name)
{
	if (find_slot(name))
		die("there is an id %s already", name);
	for (size_t i = 0; i < MAX_SLOTS; i++) {
		struct slot *slot = &slots[i];

		if (slot->id)
			continue;
		*slot = (struct slot){ .side = side_of(name) };
		snprintf(slot->name, sizeof(slot->name), "%s", name);
		return slot;
	}
	die("too many ids");
}

const struct slot *slot_by_id(const void *id)
{
	for (size_t i = 0; i < MAX_SLOTS; i++)
		if (id && slots[i].id == id)
			return &slots[i];
	return NULL;
}

const char *name_of_id(const void *id)
{
	const struct slot *slot = slot_by_id(id);

	return slot ? slot->name : "unknown";
}

struct ibv_qp *slot_qp(const struct slot *slot)
{
	return slot->own_qp ? slot->own_qp : backend->get_qp(slot->id);
}

const char *name_of_qp(uint32_t qp_num)
{
	if (qp_num == 0)
		return "none";
	if (qp_num == 0xffffff)
		return "multicast";
	for (size_t i = 0; i < MAX_SLOTS; i++) {
		struct ibv_qp *qp = slots[i].id ? slot_qp(&slots[i]) : NULL;

		if (qp && qp->qp_num == qp_num)
			return slots[i].name;
	}
	return "unknown";
}

void drop_qps(struct slot *slot)
{
	if (backend->get_qp(slot->id))
		backend->destroy_qp(slot->id);
	if (slot->cq)
		ibv_destroy_cq(slot->cq);
	if (slot->own_qp)
		ibv_destroy_qp(slot->own_qp);
	if (slot->own_cq)
		ibv_destroy_cq(slot->own_cq);
	if (slot->own_pd)
		ibv_dealloc_pd(slot->own_pd);
	slot->cq = slot->own_cq = NULL;
	slot->own_qp = NULL;
	slot->own_pd = NULL;
}

int drop_slot(struct slot *slot)
{
	int r;

	drop_qps(slot);
	r = backend->destroy_id(slot->id);
	slot->id = NULL;
	return r;
}
