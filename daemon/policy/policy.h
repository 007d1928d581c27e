/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The policy: an ordered list of rules, read from files. It does not change once it is loaded.
 *
 * A policy request (struct policy_question: a question) contains the facts known so far. A fact can be
 * unknown: the peer at bind time, the device of a wildcard listener. If the decision depends on an unknown fact
 * there are two modes:
 *
 *   early   the decision is POLICY_DEFER; the caller asks again when it knows more.
 *   final   unknown facts count against the client: an allow rule matches only what is known to match, a reject
 *           rule matches whatever may match.
 *
 * Policies are reference counted: an id keeps the policy that admitted it for as long as it exists, so that the
 * deciding rule can still be named after a reload.
 */

#include <stdbool.h>
#include <stddef.h>

#include "policy/rule/question.h"

struct diag;
struct policy;

enum policy_answer {
	POLICY_REJECT,
	POLICY_ALLOW,
	POLICY_DEFER, /* for early questions only */
};

enum policy_reuseaddr {
	POLICY_REUSEADDR_NO, /* the default */
	POLICY_REUSEADDR_YES, /* forced by the broker */
	POLICY_REUSEADDR_CLIENT, /* if the client asks for it */
};

/* A token bucket. Both numbers are 1..1000000, or both 0: no limit. */
struct policy_rate {
	unsigned per_second;
	unsigned burst; /* capacity of the bucket; PER_SECOND if the rule does not set it */
};

/*
 * What an allow rule sets. The limits belong to the rule, not to a client: RATE, MAX and PENDING count all that
 * the rule has admitted, the others count separately for each user or each peer address. words.c and
 * rdmabroker.rules(5) list the operations to which a setting applies. In a rule for any operation it must be
 * ignored for the other ones.
 */
struct policy_settings {
	int tos; /* 0..255, forced; -1: not set */
	int tos_max; /* 0..255, maximum of what the client can ask for; -1: not set */
	enum policy_reuseaddr reuseaddr;
	int backlog; /* 1..65535, default and maximum of a listener's backlog; -1: not set */
	int ack_timeout; /* 0..31, forced: 4.096 us * 2^n, 0 is no timeout; -1: not set */

	/* Maxima of what the client can ask for; -1: not set. */
	int responder_resources; /* 0..255 */
	int initiator_depth; /* 0..255 */
	int retry_count; /* 0..7 */
	int rnr_retry_count; /* 0..7; 7 is "for ever" */

	struct policy_rate rate;
	struct policy_rate rate_per_user;
	struct policy_rate rate_per_peer; /* by address, without the port */

	/* Numbers at a time, each 1..16777216; 0: no limit. */
	unsigned max; /* objects that the rule has admitted, see rdmabroker.rules(5) */
	unsigned max_per_user;
	unsigned pending; /* connection requests that wait for the client's accept */
};

/*
 * The part of a rule that may be shown outside of daemon/policy/. Lives as long as its policy. FILE and TEXT
 * identify a rule: of two rules in one policy that have the same FILE and TEXT, the second never decides. So a
 * rule's counters can be carried over to the rule of the next policy that has the same FILE and TEXT.
 */
struct policy_rule {
	size_t index; /* its position in the policy, from 0 */
	/* as written, but on one line, one blank between tokens, none before ',', no comment */
	const char *text;
	const char *file; /* as it was opened */
	unsigned line; /* number of the first of its (possibly joined) lines, from 1 */
	enum policy_operation operation; /* _POLICY_OPERATION_MAX: any except observe and admin */
	bool allow;
	bool log;
	const char *reason; /* for a reject rule; NULL: none given */
	struct policy_settings settings; /* for an allow rule */
	bool names_port; /* has a port match; see policy_check_port() */
};

struct policy_verdict {
	enum policy_answer answer;
	/* NULL: no rule matched; on POLICY_DEFER: the first rule that may match */
	const struct policy_rule *rule;
	/* set on POLICY_REJECT: the rule's reason, "denied" or "no-rule" */
	const char *reason;
};

/*
 * How to treat the name of a user or group that cannot be looked up, because it does not exist or because the user
 * database does not respond.
 */
enum policy_names {
	POLICY_NAMES_MUST_EXIST, /* an error */
	/*
	 * Adds a complaint to DIAG, but is no error. Whether the user or group matches stays unknown. So an allow
	 * rule with such a name matches nobody, and a reject rule matches everybody whom its other words cover.
	 */
	POLICY_NAMES_MAY_BE_MISSING,
};

/*
 * Load all of DIR's *.rules in lexical order. A missing DIR is an error; an empty DIR gives a policy that rejects
 * everything. Returns 0, or a negative errno: -EBADMSG if the text has errors, -EPERM if group or others can write
 * a file or the directory, or if neither root nor our own user owns it. DIAG gets the complaints; on failure *ret
 * is unchanged.
 */
int policy_load_dir(struct policy **ret, const char *dir, enum policy_names names,
		    struct diag *diag);
/*
 * Load POLICY again, from copies of the texts that it was loaded from, whether or not the files have changed:
 * missing names are looked up again. Reads only members of POLICY that never change, so a thread may call this.
 * Only for a policy that has missing names. Returns 0 or a negative errno.
 */
int policy_load_again(struct policy **ret, const struct policy *policy, struct diag *diag);
/*
 * A policy that rejects everything, in force if none could be loaded. The reason in its only rule tells clients
 * so.
 */
int policy_new_fallback(struct policy **ret);
/* Like policy_load_dir(), from a list of files, for `rdmabrokerd --check FILE...`. */
int policy_load_files(struct policy **ret, const char *const *files, size_t n_files,
		      struct diag *diag);
/* The same from memory, with NAME as the file's name: for tests and fuzzing. TEXT need not end in NUL. */
int policy_load_text(struct policy **ret, const char *name, const char *text, size_t len,
		     struct diag *diag);

struct policy *policy_ref(struct policy *policy);
struct policy *policy_unref(struct policy *policy); /* takes NULL; returns NULL */

bool policy_is_fallback(const struct policy *policy);
/* How many names could not be looked up; *ret_first is the complaint about the first one, or NULL. */
size_t policy_n_missing_names(const struct policy *policy, const char **ret_first);

size_t policy_n_rules(const struct policy *policy);
const struct policy_rule *policy_rule_at(const struct policy *policy, size_t i);

/* Decide. Cannot fail, allocates nothing. */
void policy_decide(const struct policy *policy, const struct policy_question *question,
		   struct policy_verdict *ret);

/*
 * Peers trust ports below 1024, and the kernel checks only the broker's right to them, not the client's. So to
 * listen on one, a rule that allows it is not enough: it has to name the port. The second function turns VERDICT,
 * about listening, into a rejection if that is missing. It does nothing for other ports and operations.
 */
bool policy_port_needs_name(int port);
void policy_check_port(const struct policy_question *question, struct policy_verdict *verdict);

const char *policy_operation_to_string(enum policy_operation operation);
