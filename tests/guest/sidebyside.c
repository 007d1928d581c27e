/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Checks that the same calls have the same results and events, in the same order, with librdmacm and librdmabroker.
 *
 *   sidebyside list|exceptions
 *   sidebyside direct|broker|dropin SCRIPT
 *
 * Runs a script of sidebyside-scripts.c, with both ends in this process. Prints a line for each step with its result.
 * The suite compares the lines of the runs.
 */

#include <fnmatch.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/guest/sidebyside.h"

const struct backend *backend;
const struct script *script;
/*
 * The drop-in is preloaded, so librdmacm's calls go through the broker. An exception then also applies to the outcome
 * in its member BROKER.
 */
static bool is_dropin;

/* The fabric of the host's devices. */
static enum exception_fabric fabric;

static enum exception_fabric find_fabric(void)
{
	enum exception_fabric ret = ON_IB;
	struct ibv_device **list = ibv_get_device_list(NULL);

	if (list && list[0] && list[0]->transport_type == IBV_TRANSPORT_IWARP)
		ret = ON_IWARP;
	if (list)
		ibv_free_device_list(list);
	return ret;
}

static bool is_like(const char *pattern, const char *outcome)
{
	return fnmatch(pattern, outcome, FNM_EXTMATCH) == 0;
}

static const struct exception *find_exception(const char *step, const char *outcome)
{
	const struct exception *e;

	for (e = exceptions; e->script; e++)
		if (strcmp(e->script, script->name) == 0 && strcmp(e->step, step) == 0 &&
		    (e->fabric == ON_BOTH || e->fabric == fabric) &&
		    (is_like(backend == &direct_backend ? e->direct : e->broker, outcome) ||
		     (is_dropin && is_like(e->broker, outcome))))
			return e;
	return NULL;
}

static void tell(const char *step, const char *outcome)
{
	const struct exception *e = find_exception(step, outcome);

	if (e)
		printf("%s: # differs by design: directly %s, by the broker %s: %s\n", step,
		       e->direct, e->broker, e->reason);
	else
		printf("%s: %s\n", step, outcome);
}

static void run_step(const char *text)
{
	struct text out = { .n = 0 };
	struct step step = { .may_time_out = find_exception(text, error_name(-ETIMEDOUT)) };
	char copy[256], *word, *rest;
	int r;

	if (text[0] == '!') {
		text++;
		if (backend == &direct_backend) {
			tell(text, "not tried");
			return;
		}
	}
	snprintf(copy, sizeof(copy), "%s", text);
	for (word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
		if (step.n == MAX_ARGS - 1)
			die("too many words: %s", text);
		step.words[step.n++] = word;
	}
	for (size_t i = 0; step_verbs[i].name; i++) {
		if (step.n < step_verbs[i].n_words ||
		    strcmp(step_verbs[i].name, step.words[0]) != 0)
			continue;
		r = step_verbs[i].run(&step, &out);
		tell(text, r < 0 || !out.n ? error_name(r) : out.buf);
		return;
	}
	die("not a step: %s", text);
}

/* Prints the events that no step has taken, but not those of the kernel's time wait. */
static void tell_rest(void)
{
	int64_t deadline = now_ms() + QUIET_MS;
	struct text rest[N_SIDES] = { 0 };
	struct pollfd p[N_SIDES];
	int64_t left;

	for (int side = 0; side < N_SIDES; side++)
		p[side] =
			(struct pollfd){ .fd = backend->get_fd((enum side)side), .events = POLLIN };
	while ((left = deadline - now_ms()) > 0 && poll(p, N_SIDES, (int)left) > 0) {
		for (int side = 0; side < N_SIDES; side++) {
			size_t n = rest[side].n;
			char name[16];

			snprintf(name, sizeof(name), "rest%zu", n);
			if (take_event((enum side)side, name, &rest[side]) < 0 ||
			    drop_timewait(&rest[side], n))
				continue;
			add(&rest[side], "; ");
			deadline = now_ms() + QUIET_MS;
		}
	}
	for (int side = 0; side < N_SIDES; side++) {
		const char *outcome = rest[side].n ? rest[side].buf : "nothing";
		char step[32];

		snprintf(step, sizeof(step), "rest of %s", side_names[side]);
		if (rest[side].n || find_exception(step, outcome))
			tell(step, outcome);
	}
}

static void run_script(void)
{
	char *steps = strdup(script->steps), *text, *rest;

	for (int side = 0; side < N_SIDES; side++) {
		int r = backend->open((enum side)side);

		if (r < 0)
			die("no event channel: %s", error_name(r));
	}
	for (text = strtok_r(steps, ";", &rest); text; text = strtok_r(NULL, ";", &rest)) {
		text += strspn(text, " ");
		if (*text)
			run_step(text);
	}
	tell_rest();
	for (size_t i = 0; i < MAX_SLOTS; i++)
		if (slots[i].id)
			drop_slot(&slots[i]);
	for (int side = 0; side < N_SIDES; side++)
		backend->close((enum side)side);
	free(steps);
}

static int list(void)
{
	for (script = scripts; script->name; script++)
		printf("%s\n", script->name);
	return 0;
}

static bool uses_datagrams(const char *steps)
{
	return strstr(steps, " udp") && (strstr(steps, "create-qp") || strstr(steps, "make-qp") ||
					 strstr(steps, "connect") || strstr(steps, "join"));
}

/* The scripts with QPs for datagrams, or with multicast. */
static int list_datagrams(void)
{
	for (script = scripts; script->name; script++)
		if (uses_datagrams(script->steps))
			printf("%s\n", script->name);
	return 0;
}

static int list_exceptions(void)
{
	const struct exception *e;

	for (e = exceptions; e->script; e++)
		printf("# differs by design%s: %s: %s: directly %s, by the broker %s: %s\n",
		       e->fabric == ON_IB    ? " (not iWARP)" :
		       e->fabric == ON_IWARP ? " (iWARP)" :
					       "",
		       e->script, e->step, e->direct, e->broker, e->reason);
	printf("# %zu exceptions\n", (size_t)(e - exceptions));
	return 0;
}

static int usage(void)
{
	fprintf(stderr,
		"sidebyside list|datagrams|exceptions, or sidebyside direct|broker|dropin SCRIPT\n");
	return 2;
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "list") == 0)
		return list();
	if (argc == 2 && strcmp(argv[1], "datagrams") == 0)
		return list_datagrams();
	if (argc == 2 && strcmp(argv[1], "exceptions") == 0)
		return list_exceptions();
	if (argc != 3)
		return usage();
	if (strcmp(argv[1], direct_backend.name) == 0)
		backend = &direct_backend;
	else if (strcmp(argv[1], broker_backend.name) == 0)
		backend = &broker_backend;
	else if (strcmp(argv[1], "dropin") == 0)
		backend = &direct_backend, is_dropin = true;
	else
		return usage();
	for (script = scripts; script->name; script++)
		if (strcmp(script->name, argv[2]) == 0)
			break;
	if (!script->name) {
		fprintf(stderr, "sidebyside: there is no script %s\n", argv[2]);
		return 2;
	}

	fabric = find_fabric();
	setvbuf(stdout, NULL, _IOLBF, 0);
	/* Calls of librdmacm can wait for ever. */
	alarm(PATIENCE_PROGRAM_S);
	run_script();
	return 0;
}
