/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "core/facts/peerid.h"
#include "core/object/inquiry.h"
#include "core/object/notice.h"
#include "core/object/session.h"
#include "core/object/whois.h"
#include "proto/addr.h"
#include "proto/timer.h"
#include "util/clock.h"
#include "util/hash.h"
#include "util/owner.h"
#include "util/util.h"

#define NO_HELPER "rdmabroker-peerd is not there"

/* How many inquiries about one address there are for one user. It has no padding, because uthash hashes its bytes. */
struct share_key {
	uid_t uid;
	uint8_t address[ADDR_HOST_LEN];
};
_Static_assert(sizeof(struct share_key) == sizeof(uid_t) + ADDR_HOST_LEN, "no padding");

struct inquiry_share {
	struct share_key key;
	unsigned n;
	UT_hash_handle hh;
};

struct inquiry {
	struct inquiries *inquiries;
	struct inquiry_share *share;
	struct session *session; /* that waits for the answer */
	struct charge charge;
	/* the question */
	enum policy_operation operation;
	int port_space;
	struct sockaddr_storage local, peer;
	uint32_t peer_qpn;

	uint64_t number;
	uint64_t until_ms; /* CLOCK_MONOTONIC */
	struct list link; /* inquiries.by_age */
	UT_hash_handle hh;
	void (*done)(void *userdata, struct peerid *answer);
	void *userdata;
};

static struct inquiry *oldest(struct inquiries *inquiries)
{
	struct list *l = list_first(&inquiries->by_age);

	return l ? container_of(l, struct inquiry, link) : NULL;
}

static void arm(struct inquiries *inquiries)
{
	struct inquiry *first = oldest(inquiries);

	if (first)
		timer_start_at(inquiries->timer, first->until_ms * 1000);
	else
		timer_stop(inquiries->timer);
}

/* Ends INQUIRY with ANSWER, which is taken. */
static void end(struct inquiry *inquiry, struct peerid *answer)
{
	void (*done)(void *userdata, struct peerid *answer) = inquiry->done;
	void *userdata = inquiry->userdata;

	inquiry_free(inquiry);
	done(userdata, answer);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct inquiries *inquiries = userdata;
	uint64_t now = clock_ms();
	struct inquiry *inquiry;

	while ((inquiry = oldest(inquiries)) && inquiry->until_ms <= now)
		end(inquiry,
		    inquiries->helper ?
			    peerid_new_unknown("rdmabroker-peerd has not answered within %u s",
					       inquiries->wait_ms / 1000) :
			    peerid_new_unknown(NO_HELPER));
	arm(inquiries);
	return 0;
}

int inquiries_init(struct inquiries *inquiries, sd_event *loop)
{
	int r;

	list_init(&inquiries->by_age);
	inquiries->helper_uid = (uid_t)-1;
	inquiries->wait_ms = INQUIRY_MS;
	inquiries->without_helper_ms = clock_ms();
	r = timer_new(&inquiries->timer, loop, 1, on_timer, inquiries);
	return r < 0 ? r : 0;
}

void inquiries_done(struct inquiries *inquiries)
{
	inquiries->timer = sd_event_source_disable_unref(inquiries->timer);
}

/* False: HELPER does not read its questions. One that is ending gets none; the next one does. */
static bool tell(struct session *helper, const struct inquiry *inquiry)
{
	const struct notice notice = {
		.kind = NOTICE_QUESTION,
		.time_ns = notice_time_ns(),
		.session = inquiry->session,
		.local = (const struct sockaddr *)&inquiry->local,
		.peer = (const struct sockaddr *)&inquiry->peer,
		.port_space = inquiry->port_space,
		.operation = inquiry->operation,
		.question = inquiry->number,
		.peer_qpn = inquiry->peer_qpn,
	};

	return helper->ops->notice(helper->userdata, &notice);
}

void inquiries_set_helper_uid(struct core *core, uid_t uid)
{
	struct inquiries *inquiries = core->inquiries;
	struct list *l;

	if (inquiries->helper_uid == uid)
		return;
	inquiries->helper_uid = uid;
	list_for_each(l, &core->sessions) {
		struct session *session = container_of(l, struct session, link);

		if (!(session->permits & SESSION_PERMIT_PEERS) || session->identity.uid == uid)
			continue;
		session->permits &= ~(unsigned)SESSION_PERMIT_PEERS;
		session_save(session);
		if (session == inquiries->helper || session->permits == 0)
			session->ops->end(session->userdata,
					  "Helper= of rdmabrokerd.conf names another user now");
	}
}

void inquiries_set_door(struct core *core)
{
	core->inquiries->has_door = true;
}

const char *inquiries_find_fault(const struct core *core)
{
	if (!policy_asks(core->policy) || core->inquiries->helper)
		return NULL;
	if (core->inquiries->helper_uid == (uid_t)-1)
		return "rules depend on who peers are, but the user in Helper= of rdmabrokerd.conf does not exist: "
		       "install rdmabroker-peerd, then run systemctl restart rdmabrokerd";
	if (!core->inquiries->has_door)
		return "rules depend on who peers are, but rdmabroker-peerd has no socket to come to, because it was "
		       "installed while the daemon ran: run systemctl restart rdmabrokerd, which ends no session";
	return "rules depend on who peers are, but rdmabroker-peerd is not there: run systemctl start rdmabroker-peerd";
}

int inquiries_serve(struct session *session)
{
	struct inquiries *inquiries = session->core->inquiries;
	struct list *l;
	int r;

	if (inquiries->helper == session)
		return 0;
	r = whois_begin(session->core);
	if (r < 0)
		return r;
	if (inquiries->helper) {
		inquiries->helper->serves = false;
		inquiries->helper->ops->end(inquiries->helper->userdata,
					    "another rdmabroker-peerd has come");
	}
	inquiries->helper = session;
	session->serves = true;
	session_save(session);
	/* One that it does not get ends at its deadline. */
	list_for_each(l, &inquiries->by_age)
		if (!tell(session, container_of(l, struct inquiry, link)))
			break;
	return 0;
}

void inquiries_forget(struct session *session)
{
	struct inquiries *inquiries = session->core->inquiries;

	if (inquiries->helper != session)
		return;
	session->serves = false;
	inquiries->helper = NULL;
	inquiries->without_helper_ms = clock_ms();
	whois_end(session->core);
}

/* Whether a helper is there, or is expected. */
static bool can_ask(const struct inquiries *inquiries)
{
	return inquiries->helper || (inquiries->helper_uid != (uid_t)-1 &&
				     clock_ms() < inquiries->without_helper_ms + HELPER_RETURNS_MS);
}

static void put_share(struct inquiries *inquiries, struct inquiry_share *share)
{
	if (!share || --share->n > 0)
		return;
	HASH_DEL(inquiries->shares, share);
	free(share);
}

/* NULL: there is none. */
static struct inquiry_share *find_share(const struct inquiries *inquiries, struct owner owner,
					const struct sockaddr *peer, struct share_key *ret_key)
{
	struct inquiry_share *share;

	ret_key->uid = owner.uid;
	addr_host(peer, ret_key->address);
	HASH_FIND(hh, inquiries->shares, ret_key, sizeof(*ret_key), share);
	return share;
}

/* NULL: out of memory. */
static struct inquiry_share *get_share(struct inquiries *inquiries, struct owner owner,
				       const struct sockaddr *peer)
{
	struct share_key key;
	struct inquiry_share *share = find_share(inquiries, owner, peer, &key);

	if (share) {
		share->n++;
		return share;
	}
	share = calloc(1, sizeof(*share));
	if (!share)
		return NULL;
	share->key = key;
	share->n = 1;
	HASH_ADD_OR_FREE(inquiries->shares, key, share);
	return share;
}

/* Charges INQUIRY to the user. If that cannot be, returns -EDQUOT, and *RET_UNKNOWN says why; or -ENOMEM. */
static int charge(struct inquiry *inquiry, struct peerid **ret_unknown)
{
	const struct sockaddr *peer = (const struct sockaddr *)&inquiry->peer;
	const struct identity *identity = &inquiry->session->identity;
	struct account *account = &inquiry->session->core->account;
	uint64_t limit = account->limit_per_user[ACCOUNT_INQUIRIES];
	const struct inquiry_share *share;
	struct share_key ignored;
	char text[ADDR_STRLEN];
	int r;

	share = find_share(inquiry->inquiries, identity->owner, peer, &ignored);
	if (share && share->n >= (limit + 1) / 2) {
		*ret_unknown = peerid_new_unknown(
			"%u programs at the address of %s are being asked about already for programs of uid %u",
			share->n, addr_to_string(peer, text), identity->uid);
		return -EDQUOT;
	}
	r = account_charge(account, &inquiry->charge, ACCOUNT_INQUIRIES, 1, identity->owner);
	if (r == -EDQUOT)
		*ret_unknown = peerid_new_unknown(
			"%llu peers of programs of uid %u are being asked already",
			(unsigned long long)limit, identity->uid);
	else if (r == -EUSERS)
		*ret_unknown =
			peerid_new_unknown("%llu peers are being asked already",
					   (unsigned long long)account->limit[ACCOUNT_INQUIRIES]);
	return r;
}

DEFINE_CLEANUP(struct inquiry *, inquiry_free)

struct inquiry *inquiry_new(struct session *session, const struct policy_question *question,
			    uint32_t peer_qpn, void (*done)(void *userdata, struct peerid *answer),
			    void *userdata, struct peerid **ret_unknown)
{
	_cleanup_(inquiry_freep) struct inquiry *inquiry = NULL;
	struct inquiries *inquiries = session->core->inquiries;

	*ret_unknown = NULL;
	if (!can_ask(inquiries))
		*ret_unknown = peerid_new_unknown(NO_HELPER);
	else if (!addr_is_ip(question->local) || !addr_is_ip(question->peer))
		*ret_unknown = peerid_new_unknown("the peer has no IP address");
	else
		inquiry = calloc(1, sizeof(*inquiry));
	if (!inquiry)
		return NULL;
	list_init(&inquiry->link);
	inquiry->inquiries = inquiries;
	inquiry->session = session;
	inquiry->operation = question->operation;
	inquiry->port_space = question->port_space;
	memcpy(&inquiry->local, question->local, addr_len(question->local));
	memcpy(&inquiry->peer, question->peer, addr_len(question->peer));
	inquiry->peer_qpn = peer_qpn;
	inquiry->done = done;
	inquiry->userdata = userdata;
	if (charge(inquiry, ret_unknown) < 0)
		return NULL;
	inquiry->share = get_share(inquiries, session->identity.owner, question->peer);
	inquiry->number = ++inquiries->last;
	inquiry->until_ms = clock_ms() + inquiries->wait_ms;
	if (inquiry->share)
		HASH_ADD(hh, inquiries->open, number, sizeof(inquiry->number), inquiry);
	if (!inquiry->hh.tbl)
		return NULL;
	list_insert(&inquiries->by_age, &inquiry->link);
	if (oldest(inquiries) == inquiry)
		arm(inquiries);
	if (inquiries->helper && !tell(inquiries->helper, inquiry)) {
		*ret_unknown = peerid_new_unknown("rdmabroker-peerd does not read its questions");
		return NULL;
	}
	return TAKE_PTR(inquiry);
}

const struct sockaddr *inquiry_get_peer(const struct inquiry *inquiry)
{
	return (const struct sockaddr *)&inquiry->peer;
}

void inquiry_move(struct inquiry *inquiry, struct session *session, void *userdata)
{
	if (!inquiry)
		return;
	inquiry->session = session;
	inquiry->userdata = userdata;
}

struct inquiry *inquiry_free(struct inquiry *inquiry)
{
	if (!inquiry)
		return NULL;
	list_remove(&inquiry->link);
	if (inquiry->hh.tbl)
		HASH_DEL(inquiry->inquiries->open, inquiry);
	put_share(inquiry->inquiries, inquiry->share);
	charge_done(&inquiry->charge);
	free(inquiry);
	return NULL;
}

bool inquiry_answer(struct core *core, uint64_t number, struct peerid *answer)
{
	struct inquiry *inquiry;

	HASH_FIND(hh, core->inquiries->open, &number, sizeof(number), inquiry);
	if (!inquiry) {
		peerid_free(answer);
		return false;
	}
	end(inquiry, answer);
	return true;
}
