/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/bind.h"
#include "core/decide.h"
#include "core/id.h"
#include "core/listener.h"
#include "core/settings.h"
#include "core/wish.h"
#include "util/util.h"

/*
 * An exported id is represented by a descriptor: one end of a socket pair whose other end is kept here. On
 * import it is identified by the kernel's socket cookie, which is never reused and stays the same however the
 * descriptor was passed on. When the last copy of the descriptor is closed, our end gets a hang-up, and the
 * export ends.
 */
struct export
{
	struct list link; /* core.exports */
	struct id *id;
	uint64_t cookie;
	int sock;
	sd_event_source *io;
	struct charge charge;
};

/*
 * The only call that is made on a descriptor which a client sent for an import. It takes no lock that the
 * sender could hold, and calls nothing in the file if that is not a socket.
 */
static int get_cookie(int fd, uint64_t *ret)
{
	socklen_t len = sizeof(*ret);

	return getsockopt(fd, SOL_SOCKET, SO_COOKIE, ret, &len) < 0 ? -errno : 0;
}

static int on_end(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	(void)source;
	(void)fd;
	(void)events;
	export_free(userdata);
	return 0;
}

struct export *export_free(struct export *export)
{
	if (!export)
		return NULL;
	export->id->export = NULL;
	list_remove(&export->link);
	sd_event_source_disable_unref(export->io);
	closep(&export->sock);
	charge_done(&export->charge);
	free(export);
	return NULL;
}

DEFINE_CLEANUP(struct export *, export_free)

int id_export(struct id *id, int *ret_fd)
{
	_cleanup_(export_freep) struct export *export = NULL;
	struct core *core = id->session->core;
	_cleanup_close_ int theirs = -1;
	int pair[2], r;

	if (id_is_empty(id) || id->state == ID_REMOVED || id->export)
		return id->export ? failure_set(&id->session->failure, STATUS_BAD_STATE,
						"export: id %u is exported already", id->handle) :
				    id_refuse_state(id, "export");
	if (!list_is_empty(&id->groups)) {
		failure_set(&id->session->failure, STATUS_BAD_STATE,
			    "export: id %u has joined multicast groups", id->handle);
		id->session->failure.error = EBUSY;
		return STATUS_BAD_STATE;
	}
	export = calloc(1, sizeof(*export));
	if (!export)
		return -ENOMEM;
	list_init(&export->link);
	export->id = id;
	export->sock = -1;
	r = session_charge(id->session, &export->charge, ACCOUNT_FDS, 1, "descriptors",
			   "DescriptorsPerUser=");
	if (r != 0)
		return r;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return -errno;
	export->sock = pair[0];
	theirs = pair[1];
	/*
	 * From now on nothing can be sent to our end, so closing it never waits for something that a client
	 * has queued.
	 */
	if (shutdown(export->sock, SHUT_RD) < 0)
		return -errno;
	r = get_cookie(theirs, &export->cookie);
	/* With no events selected, epoll still reports EPOLLHUP: the other end was closed. */
	if (r == 0)
		r = sd_event_add_io(core->loop, &export->io, export->sock, 0, on_end, export);
	if (r < 0)
		return r;
	list_insert(&core->exports, &export->link);
	id->export = TAKE_PTR(export);
	*ret_fd = TAKE_FD(theirs);
	return 0;
}

/*
 * True: policy has to decide about the take-over. The session needs permission for what the id is used for,
 * as if it had created the id itself. Rules look at the user, the groups and the unit. So if these stay the
 * same, the earlier decision still holds, provided that it is of the policy in force. Within one process the
 * owner stays the same.
 */
static bool has_to_ask(const struct session *session, const struct id *id)
{
	const struct identity *from = &id->session->identity, *to = &session->identity;

	if (from->uid != to->uid || from->n_gids != to->n_gids ||
	    memcmp(from->gids, to->gids, from->n_gids * sizeof(gid_t)) != 0)
		return true;
	if (from->pid == to->pid && from->pid > 0)
		return false;
	return !from->unit || !to->unit || strcmp(from->unit, to->unit) != 0 ||
	       id->policy != session->core->policy;
}

/* Policy's decision about a take-over. */
struct take_over {
	struct policy_verdict verdict; /* its rule becomes the id's; NULL: nothing was decided */
	struct admitted admitted; /* by that rule; its tally NULL: the id keeps its old admission */
};

/* False: in this state there is nothing to decide. */
static bool wish_to_take_over(struct id_wish *ret, struct id *id)
{
	switch (id->state) {
	case ID_LISTENING:
		wish_to_listen(ret, id);
		ret->wish.what = "take over the listener on";
		break;
	case ID_ADDR_QUERY:
	case ID_ADDR_RESOLVED:
	case ID_ROUTE_QUERY:
	case ID_ROUTE_RESOLVED:
	case ID_CONNECTING:
	case ID_RESPONDED:
	case ID_REQUEST:
	case ID_ACCEPTED:
	case ID_ESTABLISHED:
	case ID_DISCONNECTING:
		if (id->passive) {
			wish_to_accept(ret, id->fabric, id->ps, id->request);
			ret->wish.what = id->request ? "take over the request from" :
						       "take over the connection from";
		} else {
			wish_to_connect(ret, id);
			ret->wish.what = "take over the connection to";
		}
		break;
	default:
		return false;
	}
	ret->wish.question.early = id->state == ID_ADDR_QUERY;
	/* The id has a handle only in the other session. */
	ret->wish.id = NULL;
	return true;
}

/* The new owner will use the address that the id is bound to. */
static int check_binding(struct session *session, const struct id *id, const struct id_wish *wish,
			 const struct policy_verdict *verdict)
{
	struct policy_verdict rejected = { .answer = POLICY_REJECT, .rule = verdict->rule };
	char object[WISH_OBJECT_LEN];

	if (id->passive)
		return 0;
	if (id->state != ID_LISTENING && id->reuseaddr &&
	    verdict->rule->settings.reuseaddr == POLICY_REUSEADDR_NO) {
		rejected.reason = "it is bound with REUSEADDR, which the rule does not allow";
		decide_audit(session, &wish->wish, &rejected, /* overflow= */ NULL);
		return failure_set_denied(&session->failure, &rejected, "uid %u may not %s %s",
					  session->identity.uid, wish->wish.what,
					  wish_object(&wish->wish, object));
	}
	return bind_check_port(session, id->ps, (const struct sockaddr *)&wish->info.local,
			       "take over");
}

/* Rates do not apply: a take-over sends nothing new to the network. */
static int admit_take_over(struct session *session, const struct id *id, const struct wish *wish,
			   struct take_over *take_over)
{
	const struct policy_rule *rule = take_over->verdict.rule;
	struct tally *tally = admissions_find(session->core->admissions, rule);
	struct policy_settings settings = rule->settings;
	const struct policy_rate none = { 0 };

	if (!id->admitted.tally)
		return 0;
	if (id->admitted.tally == tally) {
		/* The rule counts the id already, but for the other user. */
		if (id->session->identity.uid == session->identity.uid)
			return 0;
		settings.max = settings.pending = 0;
	}
	settings.rate = settings.rate_per_user = settings.rate_per_peer = none;
	return decide_admit_within(session, wish, rule, &settings, tally, id->admitted.pending,
				   &take_over->admitted);
}

static int decide_take_over(struct session *session, struct id *id, struct take_over *ret)
{
	struct policy_verdict verdict;
	char object[WISH_OBJECT_LEN];
	struct id_wish wish;
	int r;

	if (id->state == ID_BOUND)
		return bind_decide_over(session, id, "take over");
	if (!wish_to_take_over(&wish, id))
		return 0;
	decide(session, &wish.wish, &verdict);
	if (verdict.answer == POLICY_REJECT)
		return failure_set_denied(&session->failure, &verdict, "uid %u may not %s %s",
					  session->identity.uid, wish.wish.what,
					  wish_object(&wish.wish, object));
	/* The final decision follows once the address is resolved, and will be about this session. */
	if (wish.wish.question.early)
		return 0;
	r = check_binding(session, id, &wish, &verdict);
	if (r != 0)
		return r;
	ret->verdict = verdict;
	return admit_take_over(session, id, &wish.wish, ret);
}

static void adopt(struct id *id, struct take_over *take_over)
{
	int r = 0;

	if (!take_over->verdict.rule)
		return;
	if (take_over->admitted.tally) {
		admitted_done(&id->admitted);
		id->admitted = take_over->admitted;
	}
	switch (id->state) {
	case ID_ADDR_RESOLVED:
	case ID_ROUTE_QUERY:
	case ID_ROUTE_RESOLVED:
		r = settings_admit(id, &take_over->verdict);
		break;
	case ID_REQUEST:
		settings_set_rule(id, take_over->verdict.rule);
		/*
		 * The new owner gets the request's attributes again, without the TOS that the old owner's
		 * rule set.
		 */
		id->tos = -1;
		r = settings_apply(id);
		break;
	default:
		settings_set_rule(id, take_over->verdict.rule);
		if (id->listener)
			listener_set_rule(id->listener, take_over->verdict.rule);
	}
	/*
	 * The take-over cannot be undone. Without a rule, the id's next step is decided anew and reports the
	 * failure.
	 */
	if (r != 0)
		settings_forget_rule(id);
}

int id_import(struct session *session, int fd, struct id **ret)
{
	struct take_over take_over = { 0 };
	struct export *export = NULL;
	uint64_t cookie;
	struct list *l;
	int r;

	if (get_cookie(fd, &cookie) == 0)
		list_for_each(l, &session->core->exports) {
			struct export *e = container_of(l, struct export, link);

			if (e->cookie == cookie)
				export = e;
		}
	if (!export)
		return failure_set(
			&session->failure, STATUS_NO_SUCH_ID,
			"import: the descriptor does not stand for an id, or not any more");
	if (has_to_ask(session, export->id)) {
		r = decide_take_over(session, export->id, &take_over);
		if (r != 0)
			return r;
	}
	r = id_new_moved(ret, session, export->id);
	if (r != 0) {
		admitted_done(&take_over.admitted);
		return r;
	}
	adopt(*ret, &take_over);
	export_free(export);
	return 0;
}
