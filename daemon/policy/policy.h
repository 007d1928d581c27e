/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * The policy: an ordered list of rules, read from files, that is never changed once it is loaded.
 *
 * A question is asked with the facts known so far. A fact can be unknown: the peer at bind time, the
 * device of a wildcard listener. Where the answer depends on an unknown fact there are two ways:
 *
 *   early   the answer is POLICY_DEFER; the caller asks again once it knows more.
 *   final   the careful reading holds: an allow rule matches only what is known to match, a reject
 *           rule matches what may match.
 *
 * Policies are reference counted: an id keeps the policy that admitted it for as long as it lives, so
 * that the deciding rule can be named after a reload.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>

struct diag;
struct policy;

enum policy_operation {
	POLICY_SESSION, /* may talk to the broker at all */
	POLICY_DEVICE, /* may use an RDMA device */
	POLICY_LISTEN, /* may bind and listen */
	POLICY_CONNECT, /* outgoing connection or look-up */
	POLICY_ACCEPT, /* request arriving at a listener; identity is the listener's owner */
	POLICY_JOIN, /* joining a multicast group: PEER is the group */
	POLICY_OBSERVE, /* rdmabrokerctl's verbs that show others' state */
	POLICY_ADMIN, /* those that change it, and those that show it */
	_POLICY_OPERATION_MAX,
};

enum policy_answer {
	POLICY_REJECT,
	POLICY_ALLOW,
	POLICY_DEFER, /* early questions only */
};

enum policy_reuseaddr {
	POLICY_REUSEADDR_NO, /* the default */
	POLICY_REUSEADDR_YES, /* forced by the broker */
	POLICY_REUSEADDR_CLIENT, /* if the client asks for it */
};

/* A token bucket. Both numbers are 1..1000000, or both 0: no limit. */
struct policy_rate {
	unsigned per_second;
	unsigned burst; /* what the bucket holds; PER_SECOND where the rule does not say */
};

/*
 * What an allow rule sets. The limits belong to the rule, not to a client: RATE, MAX and PENDING count
 * all that the rule has admitted, the others the same for each user or each peer address apart.
 * Which operations a setting makes sense for is in words.c and rdmabroker.rules(5); in a rule for any
 * operation it is to be ignored by the others.
 */
struct policy_settings {
	int tos; /* 0..255, forced; -1: not set */
	int tos_max; /* 0..255, cap of what the client asks for; -1: not set */
	enum policy_reuseaddr reuseaddr;
	int backlog; /* 1..65535, default and cap of a listener's backlog; -1: not set */
	int ack_timeout; /* 0..31, forced: 4.096 us * 2^n, 0 is no timeout; -1: not set */

	/* Caps of what the client asks for; -1: not set. */
	int responder_resources; /* 0..255 */
	int initiator_depth; /* 0..255 */
	int retry_count; /* 0..7 */
	int rnr_retry_count; /* 0..7; 7 is "for ever" */

	struct policy_rate rate;
	struct policy_rate rate_per_user;
	struct policy_rate rate_per_peer; /* by address, without the port */

	/* 1..16777216; 0: no limit */
	unsigned max; /* objects at a time that the rule has admitted, see rdmabroker.rules(5) */
	unsigned max_per_user;
	unsigned pending; /* requests at a time that wait for the client's accept */
};

/*
 * A rule as others may show it. Lives as long as its policy. FILE and TEXT tell a rule from all others:
 * of two that are alike in one policy the second never decides. So what is counted for a rule can be
 * handed on to the rule of the next policy that has the same FILE and TEXT.
 */
struct policy_rule {
	size_t index; /* its position in the policy, from 0 */
	/* as written, but on one line, one blank between tokens, none before ',', no comment */
	const char *text;
	const char *file; /* as it was opened */
	unsigned line; /* the first of its (possibly joined) lines, from 1 */
	enum policy_operation operation; /* _POLICY_OPERATION_MAX: any, but observe and admin */
	bool allow;
	bool log;
	const char *reason; /* on reject; NULL: none given */
	struct policy_settings settings; /* on allow */
	bool names_port; /* has a port match: only such a rule admits a port below 1024 */
};

struct policy_question {
	enum policy_operation operation;
	bool early; /* answer POLICY_DEFER rather than decide on unknown facts */

	uid_t uid;
	const gid_t *gids; /* primary and supplementary */
	size_t n_gids;

	const struct sockaddr *local; /* NULL or a wildcard address: not known */
	const struct sockaddr *peer; /* NULL: not known */
	int port; /* the service's, host order; -1: not known */
	const char *device; /* e.g. "mlx5_0"; NULL: not known */
	int port_space; /* enum rdma_port_space's value; 0: not known */
	/* systemd's unit of the client; "": it is in none, which no pattern matches; NULL: not known */
	const char *unit;
	bool knows_data; /* the private data is known, be it empty */
	const void *data; /* of a request; may be NULL where DATA_LEN is 0 */
	size_t data_len; /* bytes; padding of the transport may be counted */
};

struct policy_verdict {
	enum policy_answer answer;
	/* NULL: no rule matched; on POLICY_DEFER the first that may */
	const struct policy_rule *rule;
	/* on POLICY_REJECT, never NULL there: the rule's text, "denied" or "no-rule" */
	const char *reason;
};

/* What the name of a user or a group is that cannot be looked up: it does not exist, or nobody answers. */
enum policy_names {
	POLICY_NAMES_MUST_EXIST, /* an error */
	/*
	 * A complaint in DIAG, and no error: the fact is not known, and will not be. So an allow rule with such a
	 * name matches nobody, and a reject rule everybody that its other words cover.
	 */
	POLICY_NAMES_MAY_BE_MISSING,
};

/*
 * Load all of DIR's *.rules in lexical order. A missing DIR is an error; an empty one is a policy that
 * rejects all. Returns 0, or a negative errno: -EBADMSG where the text is wrong, -EPERM where a file or
 * the directory can be written by group or others; what was wrong is in DIAG, and *ret is untouched.
 */
int policy_load_dir(struct policy **ret, const char *dir, enum policy_names names,
		    struct diag *diag);
/*
 * POLICY anew, from the texts that it was loaded from, whatever the files say by now: names that were missing are
 * looked up again. Reads of POLICY only what never changes, so a thread may do it. For a policy that has missing
 * names. Returns 0 or a negative errno.
 */
int policy_load_again(struct policy **ret, const struct policy *policy, struct diag *diag);
/* Rejects everything: what is in force where none could be loaded. Its one rule says so to clients. */
int policy_new_fallback(struct policy **ret);
/* The same from a list of files, as `rdmabrokerd --check FILE...` needs it. */
int policy_load_files(struct policy **ret, const char *const *files, size_t n_files,
		      struct diag *diag);
/* The same from memory, NAME standing for the file: tests and fuzzing. TEXT need not end in NUL. */
int policy_load_text(struct policy **ret, const char *name, const char *text, size_t len,
		     struct diag *diag);

struct policy *policy_ref(struct policy *policy);
struct policy *policy_unref(struct policy *policy); /* takes NULL; returns NULL */

bool policy_is_fallback(const struct policy *policy);
/* How many names could not be looked up; *ret_first is what was said of the first one, or NULL. */
size_t policy_n_missing_names(const struct policy *policy, const char **ret_first);

size_t policy_n_rules(const struct policy *policy);
const struct policy_rule *policy_rule_at(const struct policy *policy, size_t i);

/* Decide. Cannot fail, allocates nothing. */
void policy_decide(const struct policy *policy, const struct policy_question *question,
		   struct policy_verdict *ret);

const char *policy_operation_to_string(enum policy_operation operation);
