/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>
#include <systemd/sd-login.h>
#include <unistd.h>

#include "core/facts/proc.h"
#include "core/facts/sampler.h"
#include "proto/cmdump.h"
#include "proto/maker.h"
#include "proto/text.h"
#include "proto/timer.h"
#include "proto/unitname.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/offload.h"
#include "util/util.h"

#define DEVICES_MAX 256
#define TIDS_MAX (4 * 1024 * 1024) /* the kernel's PID_MAX_LIMIT */
#define REST_FACTOR \
	19 /* a sample that takes long is followed by a pause of this many times as long */

struct tids {
	uint64_t words[TIDS_MAX / 64];
};

/* Only the thread uses this while the job runs. */
struct sample {
	pid_t *clients; /* sorted */
	size_t n_clients;
	struct nldev_device devices[DEVICES_MAX];
	size_t n_devices;
	struct tids *with_ids, *with_contexts, *dumped; /* DUMPED: one of them */
	struct seen found[SAMPLER_PROCESSES];
	size_t n_found;
	uint32_t first, next; /* the tid where reading begins; where the next sample begins */
	uint64_t begun_ms, took_ms;
	int r;
};

struct sampler {
	const struct sampler_ops *ops;
	void *userdata;
	const char *open_file;
	struct offload *offload;
	sd_event_source *timer;
	uint64_t rest_until_ms;
	uint32_t next;
	struct ratelimit failures;
	struct offload_job job;
	struct sample *sample; /* NULL: none is taken */
	bool ending; /* the clients are gone already */
};

/* In the thread */

static void set_tid(struct tids *tids, uint32_t tid)
{
	tids->words[tid / 64] |= UINT64_C(1) << tid % 64;
}

static bool has_tid(const struct tids *tids, uint32_t tid)
{
	return tids->words[tid / 64] >> tid % 64 & 1;
}

static int take(void *userdata, const struct cmdump_id *id)
{
	struct sample *sample = userdata;

	if (!id->kernel && id->tid > 0 && id->tid < TIDS_MAX)
		set_tid(sample->dumped, id->tid);
	return 0;
}

static int add_device(void *userdata, const char *name, const struct nldev_device *device)
{
	struct sample *sample = userdata;

	if (sample->n_devices < DEVICES_MAX)
		sample->devices[sample->n_devices++] = *device;
	return 0;
}

static int list_devices(struct sample *sample)
{
	struct nldev *nl;
	int r = nldev_new(&nl);

	if (r < 0)
		return r;
	r = nldev_list_devices(nl, add_device, sample);
	nldev_free(nl);
	return r;
}

static int dump(struct sample *sample, const struct nldev_device *device, struct tids *tids,
		struct nlmsghdr *(*request)(void *buf, const struct nldev_device *device))
{
	_Alignas(struct nlmsghdr) char buf[CMDUMP_REQUEST_SIZE];
	struct cmdump cmdump = { .on_id = take, .userdata = sample };
	struct nldev *nl;
	int r = nldev_new(&nl);

	if (r < 0)
		return r;
	sample->dumped = tids;
	r = nldev_dump(nl, request(buf, device), cmdump_take, &cmdump);
	nldev_free(nl);
	/* What was read so far counts if there is too much. */
	return r == -EOVERFLOW ? 0 : r;
}

static int read_device(struct sample *sample, const struct nldev_device *device)
{
	int r = dump(sample, device, sample->with_ids, cmdump_request);

	if (r >= 0)
		return dump(sample, device, sample->with_contexts, cmdump_request_contexts);
	/* The device is gone. */
	return r == -EINVAL || r == -ENODEV ? 0 : r;
}

static bool is_client(const struct sample *sample, pid_t pid)
{
	size_t at = LOWER_BOUND(i, sample->n_clients, sample->clients[i] < pid);

	return at < sample->n_clients && sample->clients[at] == pid;
}

static struct seen *find_seen(struct sample *sample, pid_t pid)
{
	for (size_t i = 0; i < sample->n_found; i++)
		if (sample->found[i].pid == pid)
			return &sample->found[i];
	return NULL;
}

/* The memory of a process goes before its descriptors. A client that ends has lost its session, and still has its devices. */
static bool is_ending(pid_t pid)
{
	unsigned size;

	return proc_scan(pid, "status", "VmSize: %u", &size) != 1;
}

static void find_unit(struct seen *seen)
{
	_cleanup_free_ char *unit = NULL;

	if (sd_pid_get_unit(seen->pid, &unit) >= 0)
		unit_class(seen->unit, sizeof(seen->unit), unit);
}

/* The daemon's own ids are its clients'. Another instance of it has the same user. */
static bool is_daemon(const struct maker *process)
{
	return process->pid == getpid() || (geteuid() != 0 && process->uid == geteuid());
}

static void read_process(struct sample *sample, uint32_t tid)
{
	bool has_ids = has_tid(sample->with_ids, tid);
	struct maker process;
	struct seen *seen;
	uid_t uid;

	maker_read((pid_t)tid, &process);
	uid = process.uid;
	if (uid == (uid_t)-1 || is_daemon(&process))
		return;
	seen = find_seen(sample, process.pid);
	if (seen) {
		seen->has_ids = seen->has_ids || has_ids;
		return;
	}
	if (!has_ids && (is_client(sample, process.pid) || is_ending(process.pid)))
		return;
	/* The name of the process is that of its first thread. */
	if (process.pid != (pid_t)tid)
		maker_read(process.pid, &process);
	seen = &sample->found[sample->n_found++];
	*seen = (struct seen){ .pid = process.pid, .uid = uid, .has_ids = has_ids };
	text_copy(seen->name, sizeof(seen->name), process.name);
	find_unit(seen);
}

/* From FIRST to the last one, and from the first one to FIRST. */
static void read_processes(struct sample *sample)
{
	unsigned n = 0;

	sample->next = sample->first;
	for (uint32_t i = 0; i < TIDS_MAX && n < SAMPLER_PROCESSES; i++) {
		uint32_t tid = (sample->first + i) % TIDS_MAX;

		sample->next = (tid + 1) % TIDS_MAX;
		if (tid % 64 == 0 && !sample->with_ids->words[tid / 64] &&
		    !sample->with_contexts->words[tid / 64]) {
			i += 63;
			continue;
		}
		if (!has_tid(sample->with_ids, tid) && !has_tid(sample->with_contexts, tid))
			continue;
		read_process(sample, tid);
		n++;
	}
}

static void run(struct offload_job *job)
{
	struct sample *sample = container_of(job, struct sampler, job)->sample;

	sample->r = list_devices(sample);
	for (size_t i = 0; i < sample->n_devices && sample->r >= 0; i++)
		sample->r = read_device(sample, &sample->devices[i]);
	if (sample->r >= 0)
		read_processes(sample);
	sample->took_ms = clock_ms() - sample->begun_ms;
}

/* In the loop */

static struct sample *sample_free(struct sample *sample)
{
	if (!sample)
		return NULL;
	free(sample->clients);
	free(sample->with_ids);
	free(sample->with_contexts);
	free(sample);
	return NULL;
}

static int compare_pids(const void *a, const void *b)
{
	const pid_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static int list_clients(struct sampler *sampler, struct sample *sample)
{
	int n = sampler->ops->list_clients(sampler->userdata, &sample->clients);

	if (n < 0)
		return n;
	sample->n_clients = (size_t)n;
	qsort(sample->clients, sample->n_clients, sizeof(*sample->clients), compare_pids);
	return 0;
}

/* A client that has come meanwhile, or that was one when the sample was begun, is none who does without the broker. */
static int tell(struct sampler *sampler, struct sample *sample)
{
	int r = sample->r;

	free(TAKE_PTR(sample->clients));
	if (r >= 0)
		r = list_clients(sampler, sample);
	for (size_t i = 0; r >= 0 && i < sample->n_found; i++)
		if (sample->found[i].has_ids || !is_client(sample, sample->found[i].pid))
			sampler->ops->seen(sampler->userdata, &sample->found[i]);
	if (r >= 0)
		sampler->ops->sampled(sampler->userdata);
	return r;
}

static void on_done(struct offload_job *job)
{
	struct sampler *sampler = container_of(job, struct sampler, job);
	struct sample *sample = TAKE_PTR(sampler->sample);
	int r = sampler->ending ? 0 : tell(sampler, sample);

	if (r < 0)
		log_limited(&sampler->failures, LOG_WARNING,
			    "Cannot find out who uses RDMA without the broker: %s.", strerror(-r));
	sampler->next = sample->next;
	sampler->rest_until_ms = clock_ms() + REST_FACTOR * sample->took_ms;
	sample_free(sample);
}

static int begin(struct sampler *sampler)
{
	struct sample *sample = calloc(1, sizeof(*sample));
	int r = -ENOMEM;

	sampler->sample = sample;
	if (sample) {
		/* Of these, only the parts that are used become memory. */
		sample->with_ids = calloc(1, sizeof(*sample->with_ids));
		sample->with_contexts = calloc(1, sizeof(*sample->with_contexts));
		sample->first = sampler->next;
		sample->begun_ms = clock_ms();
	}
	if (sample && sample->with_ids && sample->with_contexts)
		r = list_clients(sampler, sample);
	if (r >= 0)
		r = offload_prepare(sampler->offload, &sampler->job, 0);
	if (r < 0) {
		sampler->sample = sample_free(sample);
		return r;
	}
	offload_submit(sampler->offload, &sampler->job);
	return 0;
}

static int on_time(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct sampler *sampler = userdata;
	int r;

	timer_start(source, SAMPLER_PERIOD_USEC);
	if (sampler->sample || clock_ms() < sampler->rest_until_ms ||
	    access(sampler->open_file, F_OK) < 0)
		return 0;
	r = begin(sampler);
	if (r < 0)
		log_limited(&sampler->failures, LOG_WARNING,
			    "Cannot find out who uses RDMA without the broker: %s.", strerror(-r));
	return 0;
}

DEFINE_CLEANUP(struct sampler *, sampler_free)

int sampler_new(struct sampler **ret, sd_event *loop, const char *open_file,
		const struct sampler_ops *ops, void *userdata)
{
	_cleanup_(sampler_freep) struct sampler *sampler = calloc(1, sizeof(*sampler));
	int r;

	if (!sampler)
		return -ENOMEM;
	sampler->ops = ops;
	sampler->userdata = userdata;
	sampler->open_file = open_file;
	sampler->job.run = run;
	sampler->job.done = on_done;
	r = offload_new(&sampler->offload, loop, 1);
	if (r >= 0)
		r = timer_new(&sampler->timer, loop, 0, on_time, sampler);
	if (r >= 0)
		r = timer_start(sampler->timer, SAMPLER_PERIOD_USEC);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(sampler);
	return 0;
}

struct sampler *sampler_free(struct sampler *sampler)
{
	if (!sampler)
		return NULL;
	sd_event_source_disable_unref(sampler->timer);
	sampler->ending = true;
	/* If the thread hangs, what it uses has to stay. */
	if (!offload_free(sampler->offload))
		free(sampler);
	return NULL;
}
