/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/admit/likeness.h"
#include "core/admit/refused.h"
#include "core/facts/admission.h"
#include "core/facts/proc.h"
#include "core/object/id.h"
#include "core/object/notice.h"
#include "core/object/session.h"
#include "proto/addr.h"
#include "proto/gids.h"
#include "proto/text.h"
#include "util/hash.h"
#include "util/list.h"
#include "util/owner.h"
#include "util/roster.h"
#include "util/util.h"

/* What rows have in common that differ in their peers. Compared by its bytes. */
struct key {
	uint64_t words; /* a hash of the texts; a collision joins rows of one uid only */
	uint32_t uid;
	uint16_t port, ps;
	uint8_t operation, outcome, port_kind, reserved;
	uint16_t pkey, reserved2;
	struct ledger_prefix local;
	char device[LEDGER_DEVICE_LEN];
};

struct group {
	UT_hash_handle hh; /* refused_table.groups */
	struct key key;
	struct list rows; /* row.of_group */
	unsigned n;
};

/* The owners of a range, or an owner who is in none. */
struct party {
	UT_hash_handle hh; /* refused_table.parties */
	uint64_t key; /* owner_group() */
	struct list shares; /* share.of_party */
	unsigned n; /* rows */
	struct list by_count; /* refused_table.by_count[n] */
};

/* What an owner has. */
struct share {
	UT_hash_handle hh; /* refused_table.shares */
	struct owner owner;
	struct list rows; /* row.of_share; the one that was noted last is the last */
	unsigned n;
	struct party *party;
	struct list of_party;
};

struct row {
	struct ledger_refused *at; /* in the ledger, or allocated */
	struct list of_group, of_share;
	struct group *group;
	struct share *share;
	bool is_kept; /* AT is in the ledger */
};

struct refused_table {
	struct group *groups;
	struct share *shares;
	struct party *parties;
	struct list by_count[REFUSED_OF_OWNER + 1]; /* parties by the number of their rows */
	struct roster rows; /* by number */
	unsigned n;
	uint64_t last_number;
	struct ledger_learned learned, *kept; /* KEPT is in the ledger; NULL: not yet */
	bool restored;
	struct refused_changes changes;
	struct likeness likeness;
};

static uint64_t now_ms(void)
{
	return notice_time_ns() / 1000000;
}

int refused_new(struct refused_table **ret)
{
	*ret = calloc(1, sizeof(**ret));
	if (!*ret)
		return -ENOMEM;
	(*ret)->learned.since_ms = now_ms();
	likeness_init(&(*ret)->likeness);
	for (unsigned i = 0; i <= REFUSED_OF_OWNER; i++)
		list_init(&(*ret)->by_count[i]);
	return 0;
}

static void count_row(struct refused_table *table, struct share *share, int n)
{
	struct party *party = share->party;

	share->n = (unsigned)((int)share->n + n);
	party->n = (unsigned)((int)party->n + n);
	list_remove(&party->by_count);
	list_insert(&table->by_count[party->n], &party->by_count);
}

static void put_party(struct refused_table *table, struct party *party)
{
	if (!party || party->n > 0)
		return;
	list_remove(&party->by_count);
	HASH_DEL(table->parties, party);
	free(party);
}

static void drop_empty(struct refused_table *table, struct group *group, struct share *share)
{
	if (group && group->n == 0) {
		HASH_DEL(table->groups, group);
		free(group);
	}
	if (share && share->n == 0) {
		list_remove(&share->of_party);
		put_party(table, share->party);
		HASH_DEL(table->shares, share);
		free(share);
	}
}

/* Returns 0 or -ENOMEM. */
static int find_place(struct row *row, struct ledger *ledger)
{
	row->at = ledger_add_refused(ledger);
	row->is_kept = row->at != NULL;
	if (!row->at)
		row->at = calloc(1, sizeof(*row->at));
	return row->at ? 0 : -ENOMEM;
}

/* LEDGER NULL: the place stays in it. */
static void leave_place(struct row *row, struct ledger *ledger)
{
	if (!row->is_kept)
		free(row->at);
	else if (ledger)
		ledger_remove_refused(ledger, row->at);
}

/* LEDGER NULL: the row stays in it. */
static void row_free(struct refused_table *table, struct ledger *ledger, struct row *row)
{
	roster_remove(&table->rows, row->at->number);
	table->n--;
	table->changes.n++;
	table->changes.n_all++;
	list_remove(&row->of_group);
	row->group->n--;
	list_remove(&row->of_share);
	count_row(table, row->share, -1);
	drop_empty(table, row->group, row->share);
	leave_place(row, ledger);
	free(row);
}

struct refused_table *refused_free(struct refused_table *table)
{
	struct row *row;

	if (!table)
		return NULL;
	while ((row = roster_from(&table->rows, 0)))
		row_free(table, /* ledger= */ NULL, row);
	roster_done(&table->rows);
	free(table);
	return NULL;
}

const struct ledger_refused *core_refused_from(const struct core *core, uint64_t number)
{
	const struct row *row = roster_from(&core->refused->rows, number);

	return row ? row->at : NULL;
}

/* Rows */

static void make_key(const struct refused_table *table, struct key *ret,
		     const struct ledger_refused *row)
{
	bool is_chosen = likeness_has_chosen_port(&table->likeness, row);

	memset(ret, 0, sizeof(*ret));
	ret->words = likeness_hash(row);
	ret->uid = row->uid;
	ret->port = is_chosen ? 0 : row->port;
	ret->ps = row->ps;
	ret->operation = row->operation;
	ret->outcome = row->outcome;
	ret->port_kind = is_chosen ? REFUSED_PORT_ANY : row->port_kind;
	ret->pkey = row->pkey;
	ret->local = row->local;
	text_copy(ret->device, sizeof(ret->device), row->device);
}

static struct group *get_group(struct refused_table *table, const struct key *key)
{
	struct group *group;

	HASH_FIND(hh, table->groups, key, sizeof(*key), group);
	if (group)
		return group;
	group = calloc(1, sizeof(*group));
	if (!group)
		return NULL;
	group->key = *key;
	list_init(&group->rows);
	HASH_ADD_OR_FREE(table->groups, key, group);
	return group;
}

static struct party *get_party(struct refused_table *table, struct owner owner)
{
	uint64_t key = owner_group(owner);
	struct party *party;

	HASH_FIND(hh, table->parties, &key, sizeof(key), party);
	if (party)
		return party;
	party = calloc(1, sizeof(*party));
	if (!party)
		return NULL;
	party->key = key;
	list_init(&party->shares);
	list_init(&party->by_count);
	HASH_ADD_OR_FREE(table->parties, key, party);
	return party;
}

/* NULL: no memory. What it returns goes by drop_empty(), or with its last row. */
static struct share *get_share(struct refused_table *table, struct owner owner)
{
	struct party *party;
	struct share *share;

	HASH_FIND(hh, table->shares, &owner, sizeof(owner), share);
	if (share)
		return share;
	party = get_party(table, owner);
	share = party ? calloc(1, sizeof(*share)) : NULL;
	if (share) {
		share->owner = owner;
		HASH_ADD_OR_FREE(table->shares, owner, share);
	}
	if (!share) {
		put_party(table, party);
		return NULL;
	}
	list_init(&share->rows);
	share->party = party;
	list_insert(&party->shares, &share->of_party);
	return share;
}

static void save_learned(struct refused_table *table, struct ledger *ledger)
{
	if (!table->kept)
		table->kept = ledger_add_learned(ledger);
	if (!table->kept)
		return;
	table->kept->n_left = table->learned.n_left;
	table->kept->left_ms = table->learned.left_ms;
	table->kept->since_ms = table->learned.since_ms;
}

/* The owner with the most rows in PARTY loses his oldest one. */
static void drop_oldest(struct refused_table *table, struct ledger *ledger,
			const struct party *party)
{
	struct share *most = NULL;
	struct list *l;

	list_for_each(l, &party->shares) {
		struct share *share = container_of(l, struct share, of_party);

		if (!most || share->n > most->n)
			most = share;
	}
	row_free(table, ledger, container_of(list_first(&most->rows), struct row, of_share));
	if (table->learned.n_left++ == 0)
		table->learned.left_ms = now_ms();
	save_learned(table, ledger);
}

static void make_room(struct refused_table *table, struct ledger *ledger)
{
	struct list *l = NULL;

	for (unsigned n = REFUSED_OF_OWNER; !l && n > 0; n--)
		l = list_first(&table->by_count[n]);
	assert(l);
	drop_oldest(table, ledger, container_of(l, struct party, by_count));
}

/* As it was charged, or as it is now if the row is of an older daemon. */
static struct owner get_owner(const struct ledger_refused *row)
{
	return row->charged_range != 0 ? (struct owner){ row->charged_uid, row->charged_range } :
					 owner_of(row->uid);
}

/* Adds a row like FROM, with FROM's number if it has one. NULL: no memory. */
static struct row *add(struct refused_table *table, struct ledger *ledger,
		       const struct ledger_refused *from)
{
	struct key key;
	struct owner owner = get_owner(from);
	struct party *party;
	struct share *share;
	struct group *group;
	struct row *row;
	uint64_t party_key = owner_group(owner);

	/* Not what it is to be added to: a group or an owner without rows is gone. */
	HASH_FIND(hh, table->parties, &party_key, sizeof(party_key), party);
	if (party && party->n == REFUSED_OF_OWNER)
		drop_oldest(table, ledger, party);
	else if (table->n == LEDGER_REFUSED)
		make_room(table, ledger);
	share = get_share(table, owner);
	make_key(table, &key, from);
	group = get_group(table, &key);
	row = share && group ? calloc(1, sizeof(*row)) : NULL;
	if (!row || find_place(row, ledger) < 0) {
		free(row);
		drop_empty(table, group, share);
		return NULL;
	}
	memcpy((char *)row->at + sizeof(row->at->number), (const char *)from + sizeof(from->number),
	       sizeof(*from) - sizeof(from->number));
	/* The first member is last: it makes the row one that is used. */
	row->at->number = from->number ?: table->last_number + 1;
	if (roster_add(&table->rows, row->at->number, row) < 0) {
		leave_place(row, ledger);
		free(row);
		drop_empty(table, group, share);
		return NULL;
	}
	if (row->at->number > table->last_number)
		table->last_number = row->at->number;
	table->n++;
	table->changes.n++;
	table->changes.n_all++;
	row->group = group;
	row->share = share;
	list_insert(&group->rows, &row->of_group);
	group->n++;
	list_insert(&share->rows, &row->of_share);
	count_row(table, share, 1);
	return row;
}

/* Peers */

int refused_common_bits(const struct ledger_prefix *a, const struct ledger_prefix *b)
{
	int most = a->bits < b->bits ? a->bits : b->bits, n = 0;

	if (a->family != b->family)
		return -1;
	while (n < most && n % 8 == 0 && n + 8 <= most && a->address[n / 8] == b->address[n / 8])
		n += 8;
	while (n < most && !((a->address[n / 8] ^ b->address[n / 8]) & (0x80 >> n % 8)))
		n++;
	return n;
}

static void cut(struct ledger_prefix *prefix, int bits)
{
	prefix->bits = (uint8_t)bits;
	for (unsigned i = (unsigned)bits; i < 8 * sizeof(prefix->address); i++)
		prefix->address[i / 8] &= (uint8_t) ~(0x80 >> i % 8);
}

static bool holds(const struct row *row, const struct ledger_prefix *peer)
{
	return refused_common_bits(&row->at->peer, peer) == row->at->peer.bits;
}

static struct row *find_peer(const struct group *group, const struct ledger_prefix *peer)
{
	struct list *l;

	list_for_each(l, &group->rows)
		if (holds(container_of(l, struct row, of_group), peer))
			return container_of(l, struct row, of_group);
	return NULL;
}

/* The row that is the nearest to PREFIX, and not EXCEPT. */
static struct row *find_nearest(const struct group *group, const struct ledger_prefix *prefix,
				const struct row *except, int *ret_bits)
{
	struct row *best = NULL;
	struct list *l;

	*ret_bits = -1;
	list_for_each(l, &group->rows) {
		struct row *row = container_of(l, struct row, of_group);
		int bits = row == except || prefix->family == 0 ?
				   -1 :
				   refused_common_bits(prefix, &row->at->peer);

		if (bits > *ret_bits) {
			*ret_bits = bits;
			best = row;
		}
	}
	return best;
}

/* ROW holds what ANOTHER one has held, too, but for its peer. GIDS: those of ANOTHER. */
static void join_rows(struct refused_table *table, struct ledger_refused *row,
		      const struct ledger_refused *another, const uint32_t *gids, size_t n_gids)
{
	row->n += another->n;
	if (another->first_ms < row->first_ms)
		row->first_ms = another->first_ms;
	if (another->last_ms > row->last_ms)
		row->last_ms = another->last_ms;
	row->n_gids = (uint8_t)gids_keep_common(row->gids, row->n_gids, gids, n_gids);
	table->changes.n += likeness_join(row, another);
	table->changes.n_all++;
}

static void join(struct refused_table *table, struct ledger *ledger, struct row *row,
		 struct row *another, int bits)
{
	cut(&row->at->peer, bits);
	join_rows(table, row->at, another->at, another->at->gids, another->at->n_gids);
	row_free(table, ledger, another);
}

/*
 * A group that is full gets room for PEER: the two that are nearest to each other are joined, among the rows and PEER.
 * Returns the row that holds PEER now; NULL: none.
 */
static struct row *join_nearest(struct refused_table *table, struct ledger *ledger,
				struct group *group, const struct ledger_prefix *peer)
{
	int bits, best_bits;
	struct row *best = find_nearest(group, peer, NULL, &best_bits), *one = NULL;
	struct list *l;

	list_for_each(l, &group->rows) {
		struct row *row = container_of(l, struct row, of_group), *nearest;

		nearest = find_nearest(group, &row->at->peer, row, &bits);
		if (nearest && bits > best_bits) {
			best_bits = bits;
			best = nearest;
			one = row;
		}
	}
	if (!best)
		return NULL;
	if (one) {
		join(table, ledger, one, best, best_bits);
		return NULL;
	}
	cut(&best->at->peer, best_bits);
	table->changes.n++;
	return best;
}

/* Noting */

/* The program's name, which it has chosen itself: only for people. */
static void read_name(char *ret, size_t size, pid_t pid)
{
	FILE *file = proc_open(pid, "comm");

	if (!file)
		return;
	if (fgets(ret, (int)size, file))
		ret[strcspn(ret, "\n")] = 0;
	text_make_printable(ret, strlen(ret));
	fclose(file);
}

static void fill_port(struct ledger_refused *ret, const struct intent *intent)
{
	const struct policy_question *question = &intent->question;
	bool is_own = question->operation == POLICY_LISTEN || question->operation == POLICY_ACCEPT;

	if (question->port < 0)
		return;
	if (question->port == 0 || (is_own && intent->id && intent->id->any_port)) {
		ret->port_kind = REFUSED_PORT_ANY;
		return;
	}
	ret->port_kind = REFUSED_PORT_NUMBER;
	ret->port = (uint16_t)question->port;
}

static void fill_rule(struct ledger_refused *ret, const struct policy_verdict *verdict)
{
	if (verdict->rule)
		snprintf(ret->rule, sizeof(ret->rule), "%s:%u", verdict->rule->file,
			 verdict->rule->line);
	else if (verdict->by_restriction)
		text_copy(ret->rule, sizeof(ret->rule), "restriction");
}

static enum refused_outcome outcome_of(const struct policy_verdict *verdict,
				       const struct overflow *overflow)
{
	if (overflow)
		return REFUSED_BUSY;
	if (verdict->answer != POLICY_REJECT)
		return REFUSED_WARNED;
	return verdict->rule || verdict->by_restriction ? REFUSED_REJECTED : REFUSED_NO_RULE;
}

static void copy_workload(char *to, size_t size, const struct session *session,
			  enum workload_name which)
{
	const char *name = session->identity.workload.names[which];

	if (name)
		text_copy(to, size, name);
}

/* As rules see it: a mapped address is IPv4, and the wildcard is not known. */
static void fill_address(struct ledger_prefix *ret, const struct sockaddr *addr)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	uint8_t host[ADDR_HOST_LEN];

	if (!addr || addr_is_wildcard(addr) || !addr_host(addr, host))
		return;
	if (addr->sa_family != AF_IB && memcmp(host, mapped, sizeof(mapped)) == 0) {
		*ret = (struct ledger_prefix){ .family = 4, .bits = 32 };
		memcpy(ret->address, host + sizeof(mapped), 4);
		return;
	}
	*ret = (struct ledger_prefix){
		.family = addr->sa_family == AF_IB ? ADDR_KIND_GID : 6,
		.bits = 128,
	};
	memcpy(ret->address, host, sizeof(ret->address));
}

/* The first ones, if there are too many. */
static void fill_gids(struct ledger_refused *ret, const struct identity *identity)
{
	while (ret->n_gids < LEDGER_REFUSED_GIDS && ret->n_gids < identity->n_gids) {
		ret->gids[ret->n_gids] = identity->gids[ret->n_gids];
		ret->n_gids++;
	}
}

static void fill(struct ledger_refused *ret, const struct session *session,
		 const struct intent *intent, const struct policy_verdict *verdict,
		 const struct overflow *overflow)
{
	const struct policy_question *question = &intent->question;

	*ret = (struct ledger_refused){
		.uid = session->identity.uid,
		.charged_uid = session->identity.owner.uid,
		.charged_range = session->identity.owner.range,
		.operation = (uint8_t)question->operation,
		.outcome = (uint8_t)outcome_of(verdict, overflow),
		.ps = (uint16_t)question->port_space,
		.pkey = question->names_pkey ? question->pkey : 0,
		.n = 1,
	};
	ret->first_ms = ret->last_ms = now_ms();
	fill_port(ret, intent);
	fill_rule(ret, verdict);
	fill_gids(ret, &session->identity);
	copy_workload(ret->unit, sizeof(ret->unit), session, WORKLOAD_UNIT);
	copy_workload(ret->container, sizeof(ret->container), session, WORKLOAD_CONTAINER);
	copy_workload(ret->pod, sizeof(ret->pod), session, WORKLOAD_POD);
	copy_workload(ret->job, sizeof(ret->job), session, WORKLOAD_JOB);
	if (question->device)
		text_copy(ret->device, sizeof(ret->device), question->device);
	fill_address(&ret->local, question->local);
	fill_address(&ret->peer, question->peer);
}

/* GIDS: all of the process, of which NEW has only some. PID: of which NEW gets the name if it needs a row; 0: none. */
static void note(struct core *core, struct ledger_refused *new, const uint32_t *gids, size_t n_gids,
		 pid_t pid)
{
	struct refused_table *table = core->refused;
	struct ledger *ledger = core->keep.ledger;
	struct row *row = NULL;
	struct group *group;
	struct key key;

	make_key(table, &key, new);
	HASH_FIND(hh, table->groups, &key, sizeof(key), group);
	if (group)
		row = find_peer(group, &new->peer);
	if (!row && group && group->n >= REFUSED_PEERS)
		row = join_nearest(table, ledger, group, &new->peer);
	if (!row) {
		if (pid > 0)
			read_name(new->name, sizeof(new->name), pid);
		add(table, ledger, new);
		return;
	}
	join_rows(table, row->at, new, gids, n_gids);
	list_remove(&row->of_share);
	list_insert(&row->share->rows, &row->of_share);
}

void refused_note(struct session *session, const struct intent *intent,
		  const struct policy_verdict *verdict, const struct overflow *overflow)
{
	const struct identity *identity = &session->identity;
	struct ledger_refused new;

	fill(&new, session, intent, verdict, overflow);
	note(session->core, &new, identity->gids, identity->n_gids, identity->pid);
}

void refused_note_quota(struct session *session, const char *text, bool refused)
{
	const struct identity *identity = &session->identity;
	const struct intent intent = { .question = { .operation = POLICY_SESSION, .port = -1 } };
	const struct policy_verdict verdict = { .answer = POLICY_REJECT };
	struct ledger_refused new;

	fill(&new, session, &intent, &verdict, /* overflow= */ NULL);
	new.outcome = refused ? REFUSED_QUOTA : REFUSED_QUOTA_WARNED;
	text_copy(new.rule, sizeof(new.rule), text);
	note(session->core, &new, identity->gids, identity->n_gids, identity->pid);
}

/* The table as a whole */

static int compare_times(const void *a, const void *b)
{
	const struct ledger_refused *x = a, *y = b;

	return x->last_ms < y->last_ms ? -1 : x->last_ms > y->last_ms;
}

/* By their times, because the row that was noted the longest ago is the first that leaves. */
void core_add_refused(struct core *core, struct ledger_refused *rows, size_t n,
		      const struct ledger_learned *learned)
{
	struct refused_table *table = core->refused;

	table->learned = *learned;
	if (n > 0)
		qsort(rows, n, sizeof(*rows), compare_times);
	for (size_t i = 0; i < n; i++) {
		struct ledger_refused *row = &rows[i];

		if (row->operation >= _POLICY_OPERATION_MAX || row->outcome >= _REFUSED_OUTCOME_MAX)
			continue;
		if (roster_get(&table->rows, row->number))
			row->number = 0;
		note(core, row, row->gids, row->n_gids, /* pid= */ 0);
	}
	save_learned(table, core->keep.ledger);
}

void core_restore_refused(struct core *core, const struct old_ledger *old)
{
	struct ledger_learned learned = core->refused->learned;
	struct ledger_refused *rows;

	core->refused->restored = old->n_refused > 0 || old->n_learned > 0;
	rows = calloc(old->n_refused + 1, sizeof(*rows));
	if (!rows)
		return;
	if (old->n_refused > 0)
		memcpy(rows, old->refused, old->n_refused * sizeof(*rows));
	/* An older daemon has not noted since when. */
	for (size_t i = 0; i < old->n_refused; i++)
		if (rows[i].first_ms < learned.since_ms)
			learned.since_ms = rows[i].first_ms;
	if (old->n_learned > 0)
		learned = old->learned[0];
	core_add_refused(core, rows, old->n_refused, &learned);
	free(rows);
}

void core_clear_refused(struct core *core)
{
	struct refused_table *table = core->refused;
	struct row *row;

	while ((row = roster_from(&table->rows, 0)))
		row_free(table, core->keep.ledger, row);
	table->learned = (struct ledger_learned){ .since_ms = now_ms() };
	table->changes.n++;
	save_learned(table, core->keep.ledger);
}

const struct ledger_learned *core_get_learned(const struct core *core)
{
	return &core->refused->learned;
}

unsigned core_count_refused(const struct core *core)
{
	return core->refused->n;
}

bool core_has_restored_refused(const struct core *core)
{
	return core->refused->restored;
}

struct refused_changes core_get_refused_changes(const struct core *core)
{
	return core->refused->changes;
}
