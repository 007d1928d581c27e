/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "filecheck.h"
#include "policy/policy.h"
#include "policy/source.h"
#include "policy/trial.h"
#include "proto/jsonout.h"
#include "reload.h"
#include "util/daemonuser.h"
#include "util/diag.h"
#include "util/util.h"

DEFINE_CLEANUP(struct diag *, diag_free)
DEFINE_CLEANUP(struct policy *, policy_unref)

static bool ends_in(const char *file, const char *suffix)
{
	size_t n = strlen(file), k = strlen(suffix);

	return n > k && strcmp(file + n - k, suffix) == 0;
}

/* False: root reads files that may not be where the daemon reads them, or not yet. */
static bool are_daemons_files(const struct broker_options *options)
{
	return !options->config_is_named && !options->policy_dir && !options->site_policy_dir;
}

static bool is_same(const char *a, const char *b)
{
	struct stat x, y;

	return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* DROPINS: the directory of the configuration's drop-ins. */
static bool is_read_by_daemon(const char *file, const struct broker_options *options,
			      const struct config *config, const char *dropins)
{
	_cleanup_free_ char *copy = strdup(file);
	const char *dir = copy ? dirname(copy) : "";

	if (ends_in(file, ".conf"))
		return is_same(file, options->config_path) || is_same(dir, dropins);
	return ends_in(file, ".rules") &&
	       (is_same(dir, config->policy_dir) || is_same(dir, config->site_policy_dir));
}

static int open_as_daemon(const char *file, struct diag *diag)
{
	struct daemonuser user;
	int fd, r = 0;

	daemonuser_take(&user);
	fd = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd >= 0)
		close(fd);
	else if (errno == EACCES && user.is_taken)
		r = source_complain_open(file, errno, /* is_dir= */ false, diag);
	daemonuser_give_back(&user);
	return r;
}

/*
 * Files that are named are read as the user who makes the check. But those in the daemon's own directories the daemon
 * must be able to read, too.
 */
static int check_readable(const struct broker_options *options, char **files, size_t n_files,
			  struct diag *diag)
{
	_cleanup_(diag_freep) struct diag *ignored = NULL;
	char dropins[PATH_MAX];
	struct config config;
	int r, k;

	config_init(&config);
	if (!are_daemons_files(options))
		return 0;
	r = diag_new(&ignored);
	snprintf(dropins, sizeof(dropins), "%s.d", options->config_path);
	/* Only a check of the configuration itself has to tell its errors. */
	if (r < 0 || config_load(&config, options->config_path, /* optional= */ true, ignored) < 0)
		return r;
	for (size_t i = 0; i < n_files; i++) {
		if (!is_read_by_daemon(files[i], options, &config, dropins))
			continue;
		k = open_as_daemon(files[i], diag);
		r = r ?: k;
	}
	config_done(&config);
	return r;
}

/* *RET_POLICY is NULL if no rules were read. */
static int check_files(const struct broker_options *options, char **files, size_t n_files,
		       struct policy **ret_policy, struct diag *diag)
{
	_cleanup_free_ const char **rules = calloc(n_files, sizeof(*rules));
	size_t n_rules = 0;
	int r;

	if (!rules)
		return -ENOMEM;
	r = check_readable(options, files, n_files, diag);
	for (size_t i = 0; i < n_files; i++) {
		struct config config;
		int k;

		if (!ends_in(files[i], ".conf")) {
			rules[n_rules++] = files[i];
			continue;
		}
		config_init(&config);
		k = config_load(&config, files[i], /* optional= */ false, diag);
		config_done(&config);
		r = r ?: k;
	}
	if (n_rules > 0) {
		int k = policy_load_files(ret_policy, rules, n_rules, diag);

		r = r ?: k;
	}
	return r;
}

static int check_all(const struct broker_options *options, struct policy **ret_policy,
		     struct diag *diag)
{
	struct daemonuser user = {};
	struct config config;
	int r;

	config_init(&config);
	if (are_daemons_files(options))
		daemonuser_take(&user);
	r = reload_read(options, &config, ret_policy, diag);
	daemonuser_give_back(&user);
	config_done(&config);
	return r;
}

/* Tests are made only with rules that have no error. */
static int run_trials(const struct broker_options *options, const struct policy *policy,
		      size_t *ret_tests, struct diag *diag)
{
	int r = 0;

	for (size_t i = 0; i < options->n_trials && policy; i++) {
		int k = trial_run(policy, options->trials[i], ret_tests, diag);

		r = r ?: k;
	}
	return r;
}

static void number_or_null(struct jsonout *json, const char *key, unsigned n)
{
	if (n > 0)
		jsonout_number(json, key, n);
	else
		jsonout_null(json, key);
}

/* MORE: the key of the number of those that were not kept. */
static void print_complaints(struct jsonout *json, const char *key, const char *more,
			     const struct complaints *complaints)
{
	jsonout_open(json, key, '[');
	for (size_t i = 0; i < complaints->n_kept; i++) {
		const struct complaint *complaint = &complaints->kept[i];

		jsonout_open(json, NULL, '{');
		jsonout_string(json, "file", complaint->file);
		number_or_null(json, "line", complaint->line);
		number_or_null(json, "column", complaint->column);
		jsonout_string(json, "text", complaint->text);
		jsonout_close(json, '}');
	}
	jsonout_close(json, ']');
	jsonout_number(json, more, complaints->n - complaints->n_kept);
}

static void check_print_json(int r, size_t n_rules, size_t n_tests, const struct diag *diag)
{
	struct jsonout json = { .file = stdout };

	jsonout_open(&json, NULL, '{');
	jsonout_bool(&json, "ok", r == 0);
	print_complaints(&json, "complaints", "more", &diag->errors);
	print_complaints(&json, "warnings", "more_warnings", &diag->warnings);
	jsonout_number(&json, "rules", n_rules);
	jsonout_number(&json, "tests", n_tests);
	jsonout_close(&json, '}');
	putchar('\n');
}

int filecheck_run(const struct broker_options *options, char **files, size_t n_files, bool json)
{
	_cleanup_(diag_freep) struct diag *diag = NULL;
	_cleanup_(policy_unrefp) struct policy *policy = NULL;
	size_t n_tests = 0;
	int r;

	r = diag_new(&diag);
	if (r < 0) {
		fprintf(stderr, "rdmabrokerd: cannot check the rules and the configuration: %s\n",
			strerror(-r));
		return 1;
	}
	r = n_files > 0 ? check_files(options, files, n_files, &policy, diag) :
			  check_all(options, &policy, diag);
	if (r == 0 && options->n_trials > 0 && !policy) {
		diag_add(diag, NULL, 0, 0, NULL, 0, "rdmabrokerd: --test needs rules to test");
		r = -EINVAL;
	}
	if (r == 0)
		r = run_trials(options, policy, &n_tests, diag);
	if (r < 0 && diag->errors.n == 0)
		diag_add(diag, NULL, 0, 0, NULL, 0,
			 "rdmabrokerd: cannot check the rules and the configuration: %s",
			 strerror(-r));
	if (json) {
		check_print_json(r, policy ? policy_n_rules(policy) : 0, n_tests, diag);
	} else {
		diag_print_warnings(diag, stderr);
		/* The errors are last, where they are seen first. */
		if (r < 0)
			diag_print(diag, stderr);
	}
	/* Output that was cut off is a failure. */
	if (fflush(stdout) != 0 || ferror(stdout))
		return 1;
	return r < 0 ? 1 : 0;
}
