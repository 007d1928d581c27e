/* SPDX-License-Identifier: BSD-2-Clause */
#include <glob.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/guest/calls.h"

/* longer than the QPs' default ack timeout of 2.1 s */
#define WATCH_SECONDS 5

#define COUNTERS_MAX 512
#define NAME_SIZE 96

struct counter {
	char of[NAME_SIZE]; /* folder of the counter; its path has the name of the device */
	char name[NAME_SIZE];
	uint64_t value;
};

/* All links of this process, linked by link->next. Under links_lock no QP of a link is destroyed. */
static struct link *links;
static pthread_mutex_t links_lock = PTHREAD_MUTEX_INITIALIZER;

void stall_add(struct link *link)
{
	pthread_mutex_lock(&links_lock);
	link->next = links;
	links = link;
	pthread_mutex_unlock(&links_lock);
}

void stall_remove(struct link *link)
{
	pthread_mutex_lock(&links_lock);
	for (struct link **l = &links; *l; l = &(*l)->next)
		if (*l == link) {
			*l = link->next;
			break;
		}
	pthread_mutex_unlock(&links_lock);
}

static const char *state_name(enum ibv_qp_state state)
{
	static const char *const names[] = {
		[IBV_QPS_RESET] = "RESET", [IBV_QPS_INIT] = "INIT", [IBV_QPS_RTR] = "RTR",
		[IBV_QPS_RTS] = "RTS",     [IBV_QPS_SQD] = "SQD",   [IBV_QPS_SQE] = "SQE",
		[IBV_QPS_ERR] = "ERR",
	};

	return (size_t)state < sizeof(names) / sizeof(names[0]) ? names[state] : "unknown";
}

static void tell_qp(FILE *f, const struct link *link)
{
	const int mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			 IBV_QP_SQ_PSN | IBV_QP_RQ_PSN | IBV_QP_DEST_QPN | IBV_QP_PATH_MTU |
			 IBV_QP_MIN_RNR_TIMER;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;
	int r;

	if (!link->qp) {
		fprintf(f, "  a connection without a QP\n");
		return;
	}
	fprintf(f, "  QP %u on %s: ", link->qp->qp_num,
		ibv_get_device_name(link->qp->context->device));
	r = ibv_query_qp(link->qp, &a, mask, &init);
	if (r != 0) {
		fprintf(f, "cannot be queried: %s\n", strerror(r));
		return;
	}
	fprintf(f,
		"%s, dest_qp_num %u, sq_psn %u, rq_psn %u, timeout %u, retry_cnt %u,"
		" rnr_retry %u, min_rnr_timer %u, path_mtu %u\n",
		state_name(a.qp_state), a.dest_qp_num, a.sq_psn, a.rq_psn, a.timeout, a.retry_cnt,
		a.rnr_retry, a.min_rnr_timer, 128u << a.path_mtu);
	fprintf(f,
		"    %u rounds, outstanding: %u sends, %u writes, %u receives;"
		" %u completions failed, %u receives kept for later\n",
		(unsigned)link->round, link->n_sends, link->n_writes, link->n_receives,
		link->n_failed, link->n_early);
}

/* Consumes the completions: the program ends after this. */
static void tell_completions(FILE *f, struct link *link)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(link->cq, 1, &wc) == 1)
		fprintf(f, "    a completion that was not taken: opcode %d, %s\n", wc.opcode,
			ibv_wc_status_str(wc.status));
}

static void tell_events(FILE *f, struct rdmabroker *session)
{
	struct rdmabroker_event *event;

	while (rdmabroker_get_event(session, 0, &event) == 0) {
		struct ibv_qp *qp = event->id ? rdmabroker_get_qp(event->id) : NULL;

		fprintf(f, "  an event that was not taken: %s (%d, %s), QP %u\n",
			rdmabroker_event_str(event->type), event->status,
			event->text ? event->text : "-", qp ? qp->qp_num : 0);
		rdmabroker_free_event(event);
	}
}

static void tell_command(FILE *f, const char *command)
{
	FILE *output = popen(command, "r");
	char line[512];

	fprintf(f, "  %s:\n", command);
	while (output && fgets(line, sizeof(line), output))
		fprintf(f, "    %s", line);
	if (output)
		pclose(output);
}

static void tell_softnet(FILE *f)
{
	FILE *file = fopen("/proc/net/softnet_stat", "re");
	unsigned processed, dropped, squeezed;
	char line[512];

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "%x %x %x", &processed, &dropped, &squeezed) == 3)
			fprintf(f, "  softnet: processed %u, dropped %u, time_squeeze %u\n",
				processed, dropped, squeezed);
	if (file)
		fclose(file);
}

static size_t read_counters(struct counter *ret)
{
	static const char *const patterns[] = {
		"/sys/class/infiniband/*/ports/*/hw_counters/*",
		"/sys/class/infiniband/*/ports/*/counters/*",
		"/sys/class/net/*/statistics/*",
	};
	size_t n = 0;

	for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
		glob_t found;

		if (glob(patterns[i], 0, NULL, &found) != 0)
			continue;
		for (size_t j = 0; j < found.gl_pathc && n < COUNTERS_MAX; j++) {
			const char *path = found.gl_pathv[j], *name = strrchr(path, '/');
			FILE *file = fopen(path, "re");
			struct counter *c = &ret[n];

			snprintf(c->of, sizeof(c->of), "%.*s", (int)(name - path), path);
			snprintf(c->name, sizeof(c->name), "%s", name + 1);
			if (file && fscanf(file, "%" SCNu64, &c->value) == 1)
				n++;
			if (file)
				fclose(file);
		}
		globfree(&found);
	}
	return n;
}

/* Skips "lifespan", which is a setting. */
static void tell_counters(FILE *f, const struct counter *before, size_t n_before,
			  const struct counter *after, size_t n)
{
	const char *of = "";

	for (size_t i = 0; i < n; i++) {
		const struct counter *c = &after[i];

		if (c->value == 0 || strcmp(c->name, "lifespan") == 0)
			continue;
		if (strcmp(of, c->of) != 0)
			fprintf(f, "%s  %s:", of[0] ? "\n" : "", c->of);
		of = c->of;
		fprintf(f, " %s %" PRIu64, c->name, c->value);
		/* If a device was added or removed in between, the lists differ. */
		if (n == n_before && strcmp(before[i].name, c->name) == 0)
			fprintf(f, " (+%" PRIu64 ")", c->value - before[i].value);
	}
	fprintf(f, "\n");
}

static void tell_state(FILE *f, struct rdmabroker *session, struct link *link, const char *what)
{
	fprintf(f, "STALL: process %d: %s", getpid(), what);
	if (link && link->qp)
		fprintf(f, ", QP %u", link->qp->qp_num);
	fprintf(f, "\n");
	pthread_mutex_lock(&links_lock);
	for (struct link *l = links; l; l = l->next)
		tell_qp(f, l);
	pthread_mutex_unlock(&links_lock);
	/* Includes the QPs of the peers that netlink reports. */
	tell_command(f, "rdma resource show qp 2>&1");
	if (link)
		tell_completions(f, link);
	if (session)
		tell_events(f, session);
}

/* Closes F and frees its text. Other processes write to stderr, too, so one call writes the whole text. */
static void write_text(FILE *f, char **text, const size_t *length)
{
	fclose(f);
	fflush(stdout);
	fwrite(*text, 1, *length, stderr);
	free(*text);
}

void stall_tell(struct rdmabroker *session, struct link *link, const char *what)
{
	struct counter *counters = calloc(2 * (size_t)COUNTERS_MAX, sizeof(*counters));
	size_t n_before, n, length = 0;
	char *text = NULL;
	FILE *f = open_memstream(&text, &length);

	if (!f || !counters)
		die("out of memory");
	n_before = read_counters(counters);
	tell_state(f, session, link, what);
	/* The suite may end when another program fails: write the state before the wait. */
	write_text(f, &text, &length);

	sleep(WATCH_SECONDS);
	n = read_counters(counters + COUNTERS_MAX);
	f = open_memstream(&text, &length);
	if (!f)
		die("out of memory");
	fprintf(f, "STALL: process %d: counters, and how much they rose in the last %d s:\n",
		getpid(), WATCH_SECONDS);
	tell_counters(f, counters, n_before, counters + COUNTERS_MAX, n);
	tell_softnet(f);
	tell_command(f, "grep ^Udp: /proc/net/snmp");
	write_text(f, &text, &length);
	free(counters);
}
