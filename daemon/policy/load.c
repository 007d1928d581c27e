/* SPDX-License-Identifier: BSD-2-Clause */

#include <errno.h>
#include <stdlib.h>

#include "policy/grammar.h"
#include "policy/parser.h"
#include "policy/policy.h"
#include "policy/rules.h"
#include "policy/source.h"

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
		r = policy_finish(policy);
	if (r < 0)
		policy_unref(policy);
	else
		*ret = policy;
	return r;
}

static int load_files(struct policy **ret, const char *const *files, size_t n_files,
		      enum policy_names names, struct diag *diag)
{
	struct source *source = NULL;
	struct loading loading;
	int r = begin(&loading, names, diag);

	if (r < 0)
		return r;
	/* After an error other than -ENOMEM, parse the next files too, so that one run shows all errors. */
	for (size_t i = 0; i < n_files && loading.first_error != -ENOMEM; i++) {
		r = source_new_file(&source, files[i], /* optional= */ false, diag);
		feed(&loading, source, r);
	}
	return end(&loading, ret);
}

int policy_load_dir(struct policy **ret, const char *dir, enum policy_names names,
		    struct diag *diag)
{
	size_t n_paths = 0;
	char **paths;
	int r;

	r = source_list_new(&paths, dir, ".rules", /* optional= */ false, diag);
	if (r < 0)
		return r;

	while (paths[n_paths])
		n_paths++;
	r = load_files(ret, (const char *const *)paths, n_paths, names, diag);
	source_list_free(paths);
	return r;
}

int policy_load_files(struct policy **ret, const char *const *files, size_t n_files,
		      struct diag *diag)
{
	return load_files(ret, files, n_files, POLICY_NAMES_MUST_EXIST, diag);
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

int policy_load_text(struct policy **ret, const char *name, const char *text, size_t len,
		     struct diag *diag)
{
	struct source *source = NULL;
	struct loading loading;
	int r = begin(&loading, POLICY_NAMES_MUST_EXIST, diag);

	if (r < 0)
		return r;
	r = source_new_text(&source, name, text, len, diag);
	feed(&loading, source, r);
	return end(&loading, ret);
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
