/* SPDX-License-Identifier: BSD-2-Clause */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/admit/watch.h"
#include "tests/unit/program.h"
#include "tests/unit/watch.h"

const char watch_rules[] = "allow session\nallow listen port 7471-7479 max 2\n"
			   "reject listen port 7480-7999 reason \"not here\"\nallow connect\n"
			   "allow accept\n";

int try_to_listen(struct rdmabroker *session, uint16_t port)
{
	struct rdmabroker_id *id;
	int r;

	ck_assert_int_eq(rdmabroker_create_id(session, RDMABROKER_PS_TCP, NULL, &id), 0);
	r = rdmabroker_bind_addr(id, addr(port));
	if (r == 0)
		r = rdmabroker_listen(id, 0);
	rdmabroker_destroy_id(id);
	return r;
}

static void do_count_watches(void *arg)
{
	struct list *l;

	*(unsigned *)arg = 0;
	list_for_each(l, &harness.core->watches)
		++*(unsigned *)arg;
}

void await_watches(unsigned wanted)
{
	unsigned n;

	AWAIT((in_server(do_count_watches, &n), n == wanted), "%u watches, and not %u", wanted, n);
}

void start_events(struct child *child, const char *const *argv)
{
	int fds[2], err;

	/* The session of an earlier one can end later than its process. */
	await_watches(0);
	snprintf(child->err_path, sizeof(child->err_path), "%s/err", harness.dir);
	ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
	err = open(child->err_path, O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0600);
	ck_assert_int_ge(err, 0);
	child->pid = fork();
	ck_assert_int_ge(child->pid, 0);
	if (child->pid == 0) {
		dup2(fds[1], STDOUT_FILENO);
		dup2(err, STDERR_FILENO);
		execv(argv[0], (char *const *)argv);
		_exit(127);
	}
	close(fds[1]);
	close(err);
	child->out = fdopen(fds[0], "r");
	await_watches(1);
}

const char *read_line(struct child *child)
{
	ck_assert_ptr_nonnull(fgets(got.out, sizeof(got.out), child->out));
	return got.out;
}

int end_ctl(struct child *child)
{
	int status;
	FILE *err;

	ck_assert_int_eq(waitpid(child->pid, &status, 0), child->pid);
	if (child->out)
		fclose(child->out);
	err = fopen(child->err_path, "r");
	got.err[fread(got.err, 1, sizeof(got.err) - 1, err)] = '\0';
	fclose(err);
	unlink(child->err_path);
	ck_assert(WIFEXITED(status));
	return WEXITSTATUS(status);
}
