/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The policy: an ordered list of rules, read from files. It does not change once it is loaded.
 *
 * A policy request (struct policy_question: a question) contains the facts that are known so far. A fact can
 * be unknown, such as the peer at bind time, or the device of a wildcard listener. If the decision depends on
 * an unknown fact, the result depends on the mode of the question:
 *
 *   early   the decision is POLICY_DEFER; the caller asks again when it knows more.
 *   final   unknown facts count against the client: an allow rule matches only what is known to match, a reject
 *           rule matches whatever may match.
 *
 * Policies are reference counted: an id holds a reference to the policy whose rule admitted it, so that this
 * rule can still be reported after a reload.
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
	POLICY_REUSEADDR_YES, /* REUSEADDR is forced */
	POLICY_REUSEADDR_CLIENT, /* REUSEADDR is set if the client requests it */
};

enum policy_qp {
	POLICY_QP_OWN, /* the default: the client can offer the number of a QP of its own only */
	POLICY_QP_RESERVED, /* the client can also offer a number for which the kernel reports no QP */
};

/* A token bucket. Both numbers are 1..1000000, or both 0: no limit. */
struct policy_rate {
	unsigned per_second;
	unsigned burst; /* capacity of the bucket; PER_SECOND if the rule does not set it */
};

/*
 * The settings of an allow rule. The limits belong to the rule, not to a client: RATE, MAX and PENDING count
 * all objects that the rule has admitted, the other limits count them separately for each user or each peer
 * address. words.c and rdmabroker.rules(5) list the operations to which a setting applies. A rule for "any" can
 * have settings that do not apply to the operation of a question. The caller must ignore these.
 */
struct policy_settings {
	int tos; /* 0..255, forced; -1: not set */
	int tos_max; /* 0..255, upper limit for the TOS that the client requests; -1: not set */
	enum policy_reuseaddr reuseaddr;
	int backlog; /* 1..65535, default and maximum of a listener's backlog; -1: not set */
	enum policy_qp qp; /* which QP numbers the client can offer */
	int ack_timeout; /* 0..31, forced: 4.096 us * 2^n, 0 is no timeout; -1: not set */

	/* Upper limits for the values that the client requests; -1: not set. */
	int responder_resources; /* 0..255 */
	int initiator_depth; /* 0..255 */
	int retry_count; /* 0..7 */
	int rnr_retry_count; /* 0..7; 7: retries without end */

	struct policy_rate rate;
	struct policy_rate rate_per_user;
	struct policy_rate rate_per_peer; /* by address, without the port */

	/* Limits for the number of objects that exist at one time, each 1..16777216; 0: no limit. */
	unsigned max; /* objects that the rule has admitted, see rdmabroker.rules(5) */
	unsigned max_per_user;
	unsigned pending; /* connection requests that wait for the client's accept */
};

/*
 * The part of a rule that other folders may read. Lives as long as its policy. FILE and TEXT identify a rule:
 * if two rules of one policy have the same FILE and TEXT, the second never decides, because the first matches
 * whenever the second does. So the counters of a rule can be carried over to the rule of the next policy that
 * has the same FILE and TEXT.
 */
struct policy_rule {
	size_t index; /* position of the rule in the policy, from 0 */
	/*
	 * the rule as it was written, but on one line, with one blank between tokens, no blanks around ',', and no
	 * comment
	 */
	const char *text;
	const char *file; /* path of the file, as it was opened */
	unsigned line; /* number of the first of its (possibly joined) lines, from 1 */
	enum policy_operation operation; /* _POLICY_OPERATION_MAX: any except observe and admin */
	bool allow;
	bool log;
	const char *reason; /* reason of a reject rule; NULL: none given */
	struct policy_settings settings; /* settings of an allow rule */
	bool names_port; /* the rule has a port match, see policy_check_port() */
};

struct policy_verdict {
	enum policy_answer answer;
	/* the rule that decided; NULL: no rule matched; on POLICY_DEFER: the first rule that can still match */
	const struct policy_rule *rule;
	/*
	 * on POLICY_REJECT: the reason that the rule gives; "denied": the rule gives none; "no-rule": no rule
	 * matched; or a text from policy_check_port()
	 */
	const char *reason;
};

/*
 * What to do about the name of a user or group that cannot be looked up, because it does not exist or because
 * the user database does not respond.
 */
enum policy_names {
	POLICY_NAMES_MUST_EXIST, /* a missing name is an error */
	/*
	 * A missing name gives a complaint in DIAG, but is no error. The result of a match that contains the name is
	 * unknown for every client, also for one that the rest of the list names. So in a final question, an allow
	 * rule with this match matches nobody, and a reject rule matches everybody whom its other matches can match.
	 */
	POLICY_NAMES_MAY_BE_MISSING,
};

/*
 * Loads all *.rules files of DIR in lexical order. A missing DIR is an error; an empty DIR gives a policy
 * that rejects everything. Returns 0, or a negative errno: -EBADMSG if the text has errors, -EPERM if group
 * or others can write a file or the directory, or if neither root nor the daemon's own user owns it. DIAG
 * gets the complaints; on failure *ret is unchanged.
 */
int policy_load_dir(struct policy **ret, const char *dir, enum policy_names names,
		    struct diag *diag);
/*
 * Loads POLICY again to look up missing names, from copies of the texts that it was loaded from, whether or
 * not the files have changed. Reads only members of POLICY that never change, so it can be called in a thread.
 * Only for a policy that has missing names. Returns 0 or a negative errno.
 */
int policy_load_again(struct policy **ret, const struct policy *policy, struct diag *diag);
/*
 * Makes a policy that rejects everything, for use when no policy could be loaded. The reason that clients get
 * for a rejection says that the policy could not be loaded.
 */
int policy_new_fallback(struct policy **ret);
/* As policy_load_dir(), from a list of files, for `rdmabrokerd --check FILE...`. */
int policy_load_files(struct policy **ret, const char *const *files, size_t n_files,
		      struct diag *diag);
/*
 * As policy_load_dir(), from memory, with NAME as the file's name: for tests and fuzzing. TEXT need not end
 * in NUL.
 */
int policy_load_text(struct policy **ret, const char *name, const char *text, size_t len,
		     struct diag *diag);

struct policy *policy_ref(struct policy *policy);
struct policy *policy_unref(struct policy *policy); /* takes NULL; returns NULL */

bool policy_is_fallback(const struct policy *policy);
/*
 * Returns the number of names that could not be looked up; *ret_first is the complaint about the first one,
 * or NULL.
 */
size_t policy_n_missing_names(const struct policy *policy, const char **ret_first);

size_t policy_n_rules(const struct policy *policy);
const struct policy_rule *policy_rule_at(const struct policy *policy, size_t i);

/* Decides about QUESTION. Cannot fail, and does not allocate memory. */
void policy_decide(const struct policy *policy, const struct policy_question *question,
		   struct policy_verdict *ret);

/*
 * Peers trust ports below 1024, but the kernel checks the broker's right to use them, not the client's. So
 * a rule that allows a client to listen on one of them has to have a port match. If VERDICT allows listening on
 * one of them by a rule without a port match, policy_check_port() turns it into a rejection. It does nothing for
 * other ports and operations.
 */
bool policy_port_needs_name(int port);
void policy_check_port(const struct policy_question *question, struct policy_verdict *verdict);

const char *policy_operation_to_string(enum policy_operation operation);
