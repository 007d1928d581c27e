/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "policy/parser.h"
#include "policy/policy.h"
#include "policy/rules.h"
#include "policy/shadow.h"
#include "policy/source.h"
#include "util/util.h"

/*
 * From files, or texts, to a policy: which files are read and in which order, the parser for each of them, and then
 * the rows and the warnings. A policy is made as a whole or not at all. It runs in a thread at a reload, so it uses
 * nothing of the loop.
 */

struct loading {
	struct policy *policy;
	struct parser parser;
	int first_error;
};

static int begin(struct loading *loading, enum policy_names names, struct diag *diag)
{
	int r = policy_new(&loading->policy);

	if (r < 0)
		return r;
	parser_init(&loading->parser, loading->policy, names, diag);
	loading->first_error = 0;
	return 0;
}

/* Keeps SOURCE in POLICY, for policy_load_again(). On failure SOURCE is freed. */
static int keep_source(struct policy *policy, struct source *source)
{
	struct source **grown =
		reallocarray(policy->sources, policy->n_sources + 1, sizeof(*grown));

	if (!grown) {
		source_free(source);
		return -ENOMEM;
	}
	policy->sources = grown;
	grown[policy->n_sources++] = source;
	return 0;
}

/* Parses SOURCE, and takes ownership of it. If R < 0, there is no SOURCE, and R is the error. */
static void feed(struct loading *loading, struct source *source, int r)
{
	if (r == 0) {
		r = grammar_read(&loading->parser, source);
		if (loading->parser.names == POLICY_NAMES_MUST_EXIST)
			source_free(source);
		else if (keep_source(loading->policy, source) < 0)
			r = -ENOMEM;
	}
	if (r < 0 && (!loading->first_error || r == -ENOMEM))
		loading->first_error = r;
}

static int end(struct loading *loading, struct policy **ret)
{
	struct policy *policy = loading->policy;
	int r = loading->first_error;

	set_done(&loading->parser);
	if (policy->n_missing == 0)
		policy_forget_sources(policy);
	if (r == 0)
		r = rows_make(policy);
	if (r < 0)
		policy_unref(policy);
	else
		*ret = policy;
	return r;
}

/* A file, and whether it is a site's. */
struct listed {
	const char *path;
	bool is_site;
};

static int load_files(struct policy **ret, const struct listed *files, size_t n_files,
		      enum policy_names names, struct diag *diag)
{
	struct source *source = NULL;
	struct loading loading;
	int r = begin(&loading, names, diag);

	if (r < 0)
		return r;
	/* After an error other than -ENOMEM, parse the next files too, so that one run shows all errors. */
	for (size_t i = 0; i < n_files && loading.first_error != -ENOMEM; i++) {
		r = source_new_file(&source, files[i].path, /* optional= */ false, diag);
		loading.parser.is_site = files[i].is_site;
		feed(&loading, source, r);
	}
	r = end(&loading, ret);
	if (r == 0)
		shadow_warn(*ret, diag);
	return r;
}

static const char *base_name(const char *path)
{
	return strrchr(path, '/') + 1;
}

/* Adds what has the smaller name, until both lists are empty. Returns the number of files in RET. */
static size_t merge(char **own, char **sites, struct listed *ret)
{
	size_t n = 0;

	while (*own || *sites) {
		bool is_site = !*own || (*sites && strcmp(base_name(*sites), base_name(*own)) < 0);

		ret[n++] = (struct listed){ is_site ? *sites++ : *own++, is_site };
	}
	return n;
}

static size_t count(char **paths)
{
	size_t n = 0;

	while (paths[n])
		n++;
	return n;
}

/*
 * The link is followed once, so that all files are of one version. A relative path, which only a check has, stays as it
 * is: errors name the files as the caller does.
 */
static int list_site(char ***ret, const struct policy_site *site, struct diag *diag)
{
	_cleanup_free_ char *real = NULL;
	struct stat st;

	if (!site || (lstat(site->dir, &st) < 0 && errno == ENOENT)) {
		*ret = calloc(1, sizeof(**ret));
		return *ret ? 0 : -ENOMEM;
	}
	real = site->dir[0] == '/' ? realpath(site->dir, NULL) : strdup(site->dir);
	if (real)
		return source_list_new(ret, real, ".rules", /* optional= */ false, diag);
	/* A link to nothing is an error too: without the site's rules, others could allow too much. */
	return source_complain_open(site->dir, errno, /* is_dir= */ true, diag);
}

int policy_load_dirs(struct policy **ret, const char *dir, const struct policy_site *site,
		     enum policy_names names, struct diag *diag)
{
	_cleanup_free_ struct listed *files = NULL;
	char **own = NULL, **sites = NULL;
	size_t n;
	int r;

	r = source_list_new(&own, dir, ".rules", /* optional= */ false, diag);
	if (r == 0)
		r = list_site(&sites, site, diag);
	if (r == 0) {
		files = calloc(count(own) + count(sites) + 1, sizeof(*files));
		r = files ? 0 : -ENOMEM;
	}
	if (r == 0) {
		n = merge(own, sites, files);
		for (size_t i = 0; i < n; i++)
			files[i].is_site = files[i].is_site && !site->may_admin;
		r = load_files(ret, files, n, names, diag);
	}
	source_list_free(own);
	source_list_free(sites);
	return r;
}

int policy_load_dir(struct policy **ret, const char *dir, enum policy_names names,
		    struct diag *diag)
{
	return policy_load_dirs(ret, dir, /* site= */ NULL, names, diag);
}

int policy_load_files(struct policy **ret, const char *const *files, size_t n_files,
		      struct diag *diag)
{
	_cleanup_free_ struct listed *listed = calloc(n_files + 1, sizeof(*listed));

	if (!listed)
		return -ENOMEM;
	for (size_t i = 0; i < n_files; i++)
		listed[i].path = files[i];
	return load_files(ret, listed, n_files, POLICY_NAMES_MUST_EXIST, diag);
}

int policy_load_again(struct policy **ret, const struct policy *policy, struct diag *diag)
{
	struct source *source = NULL;
	struct loading loading;
	int r = begin(&loading, POLICY_NAMES_MAY_BE_MISSING, diag);

	if (r < 0)
		return r;
	for (size_t i = 0; i < policy->n_sources && loading.first_error != -ENOMEM; i++) {
		r = source_copy(&source, policy->sources[i]);
		feed(&loading, source, r);
	}
	return end(&loading, ret);
}

static int load_text(struct policy **ret, const char *name, const char *text, size_t len,
		     bool is_restriction, struct diag *diag)
{
	struct source *source = NULL;
	struct loading loading;
	int r = begin(&loading, POLICY_NAMES_MUST_EXIST, diag);

	if (r < 0)
		return r;
	loading.parser.is_restriction = is_restriction;
	r = source_new_text(&source, name, text, len, diag);
	feed(&loading, source, r);
	return end(&loading, ret);
}

int policy_load_text(struct policy **ret, const char *name, const char *text, size_t len,
		     struct diag *diag)
{
	return load_text(ret, name, text, len, /* is_restriction= */ false, diag);
}

int policy_load_restriction(struct policy **ret, const char *name, const char *text, size_t len,
			    struct diag *diag)
{
	return load_text(ret, name, text, len, /* is_restriction= */ true, diag);
}

int policy_new_fallback(struct policy **ret)
{
	static const char text[] =
		"reject any reason \"the broker's policy has an error and could not be loaded: "
		"see rdmabrokerctl status\"";
	struct policy *policy;
	int r = policy_load_text(&policy, "built-in", text, sizeof(text) - 1, /* diag= */ NULL);

	if (r < 0)
		return r;
	policy->is_fallback = true;
	*ret = policy;
	return 0;
}
