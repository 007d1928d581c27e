/* SPDX-License-Identifier: BSD-2-Clause */
#include <curl/curl.h>
#include <errno.h>
#include <getopt.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>

#include "ctl/output.h"
#include "fleetctl.h"
#include "proto/word.h"

/*
 * rdmabroker-fleetctl, which rdmabrokerctl starts for the verb fleet, so that it needs neither curl nor jansson
 * itself: the options, the connection to etcd, and what the actions share.
 */

#define CALL_MS 5000 /* the limit of silence of a call of etcd */
#define ANSWER_MAX (16 * 1024 * 1024) /* bytes: a page of the largest states, as base64 */

enum {
	OPT_CONFIG,
	OPT_JSON,
	OPT_LABEL,
	OPT_NAME,
	OPT_ONLY_SYNTAX,
	OPT_POLICY_DIR,
	OPT_STRICT,
	OPT_WAIT,
	OPT_WATCH,
	N_OPTS, /* fewer than '?' */
};

#define BIT(option) (1U << OPT_##option)
#define WAITS (BIT(WAIT) | BIT(STRICT))
#define CHECKS (BIT(ONLY_SYNTAX) | BIT(POLICY_DIR))

static const struct action {
	const char *name;
	int min, max; /* of the arguments */
	const char *arguments;
	int (*run)(struct fleetctl *ctl, char **arguments);
	unsigned options; /* besides --config */
} actions[] = {
	{ "status", 0, 0, "", action_status, BIT(JSON) | BIT(WATCH) },
	{ "list", 0, 1, " [hosts | listeners | refusals | versions]", action_list,
	  BIT(JSON) | BIT(WATCH) | BIT(LABEL) },
	{ "push", 1, 1, " DIR", action_push, BIT(JSON) | BIT(LABEL) | BIT(NAME) | WAITS | CHECKS },
	{ "check", 1, 1, " DIR | VERSION", action_check, BIT(JSON) | CHECKS },
	{ "diff", 1, 2, " DIR | VERSION [DIR | VERSION]", action_diff, BIT(LABEL) },
	{ "use", 1, 1, " VERSION", action_use, BIT(JSON) | BIT(LABEL) | WAITS },
	{ "rollback", 0, 0, "", action_rollback, BIT(JSON) | BIT(LABEL) | WAITS },
	{ "clear", 0, 0, "", action_clear, BIT(JSON) | BIT(LABEL) },
	{ "remove", 1, 1, " VERSION", action_remove, BIT(JSON) },
	{ "forget", 1, 1, " HOST", action_forget, BIT(JSON) },
	{ "retry", 0, 1, " [HOST]", action_retry, BIT(JSON) },
	{ "history", 0, 1, " [LABEL]", action_history, BIT(JSON) | BIT(LABEL) },
};

static const struct option long_options[] = {
	{ "config", required_argument, NULL, OPT_CONFIG },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "label", required_argument, NULL, OPT_LABEL },
	{ "name", required_argument, NULL, OPT_NAME },
	{ "only-syntax", no_argument, NULL, OPT_ONLY_SYNTAX },
	{ "policy-dir", required_argument, NULL, OPT_POLICY_DIR },
	{ "strict", no_argument, NULL, OPT_STRICT },
	{ "wait", required_argument, NULL, OPT_WAIT },
	{ "watch", no_argument, NULL, OPT_WATCH },
	{ NULL, 0, NULL, 0 },
};

bool fleetctl_connect(struct fleetctl *ctl)
{
	if (!ctl->etcd)
		ctl->etcd = fleetctl_new_client(ctl, CALL_MS);
	return ctl->etcd;
}

bool fleetctl_read_fleet(struct fleetctl *ctl, struct fleet *ret)
{
	if (!fleetctl_connect(ctl))
		return false;
	if (fleet_read(ret, ctl->etcd, ctl->settings.prefix) == 0)
		return true;
	fleetctl_complain(ctl);
	fleet_done(ret);
	return false;
}

struct etcd *fleetctl_new_client(const struct fleetctl *ctl, unsigned call_ms)
{
	struct etcd *etcd;
	int r;

	r = settings_new_etcd(&ctl->settings, call_ms, ANSWER_MAX, &etcd);
	if (r == 0)
		return etcd;
	complain("%s", r == -EINVAL ? SETTINGS_INVALID_ENDPOINTS : "out of memory");
	return NULL;
}

int fleetctl_complain(const struct fleetctl *ctl)
{
	complain("cannot use etcd: %s", etcd_error(ctl->etcd));
	if (strstr(etcd_error(ctl->etcd), "database space exceeded"))
		complain("etcd is full, so nothing can be written. " FLEETCTL_CURE);
	return EXIT_FAILURE;
}

void fleetctl_key(const struct fleetctl *ctl, char ret[FLEETCTL_KEY_MAX], const char *folder,
		  const char *name)
{
	snprintf(ret, FLEETCTL_KEY_MAX, "%s%s/%s", ctl->settings.prefix, folder, name);
}

int fleetctl_get(struct fleetctl *ctl, const char *key, struct etcd_range **ret)
{
	if (etcd_range(ctl->etcd, key, /* is_prefix= */ false, 1, ret) != 0) {
		fleetctl_complain(ctl);
		return -EIO;
	}
	if ((*ret)->n == 1)
		return 1;
	*ret = etcd_range_free(*ret);
	return 0;
}

/* Whether etcd has what CHANGE would write. 1: it has; 0: it has not; negative: as the calls of etcd. */
static int is_written(struct fleetctl *ctl, const struct etcd_change *change)
{
	struct etcd_range *range;
	int r = etcd_range(ctl->etcd, change->key, /* is_prefix= */ false, 1, &range);

	if (r != 0)
		return r;
	r = range->n == 1 && range->entries[0].len == change->len &&
	    memcmp(range->entries[0].value, change->value, change->len) == 0;
	etcd_range_free(range);
	return r;
}

int fleetctl_change(struct fleetctl *ctl, const struct etcd_change *changes, size_t n)
{
	int r = etcd_change(ctl->etcd, changes, n, NULL), written = 1;

	if (r == -ETIMEDOUT || r == -ECONNREFUSED)
		r = etcd_change(ctl->etcd, changes, n, NULL);
	if (r != ETCD_CHANGED)
		return r;
	for (size_t i = 0; written == 1 && i < n; i++)
		if (changes[i].kind == ETCD_PUT)
			written = is_written(ctl, &changes[i]);
	return written == 1 ? 0 : written == 0 ? ETCD_CHANGED : written;
}

int fleetctl_open_interrupt(void)
{
	sigset_t mask;
	int fd;

	sigemptyset(&mask);
	sigaddset(&mask, SIGINT);
	sigaddset(&mask, SIGTERM);
	sigprocmask(SIG_BLOCK, &mask, NULL);
	fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		complain("cannot wait for signals: %m");
	return fd;
}

static int see_help(void)
{
	fputs("See \"rdmabrokerctl help fleet\".\n", stderr);
	return EXIT_USAGE;
}

static const struct action *find_action(const char *name)
{
	struct word_guess guess = { .word = name, .len = strlen(name) };

	for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++) {
		if (strcmp(name, actions[i].name) == 0)
			return &actions[i];
		word_guess(&guess, actions[i].name);
	}
	complain_unknown("action", "", &guess, NULL);
	return NULL;
}

/* Which of the options that were given ACTION does not take. False: an error was printed. */
static bool takes_options(const struct action *action, unsigned given)
{
	for (const struct option *option = long_options; option->name; option++) {
		unsigned bit = 1U << option->val;

		if (!(given & bit & ~BIT(CONFIG)) || action->options & bit)
			continue;
		complain("fleet %s takes no --%s", action->name, option->name);
		return false;
	}
	if (given & BIT(STRICT) && !(given & BIT(WAIT))) {
		complain("--strict needs --wait");
		return false;
	}
	if (given & BIT(WAIT) && action->run == action_push && !(given & BIT(LABEL))) {
		complain("push needs --label with --wait");
		return false;
	}
	if ((given & CHECKS) == CHECKS) {
		complain("--only-syntax and --policy-dir exclude each other");
		return false;
	}
	return true;
}

static int run(struct fleetctl *ctl, int argc, char **argv)
{
	const struct action *action = find_action(argc > 0 ? argv[0] : "");

	if (!action)
		return see_help();
	if (argc - 1 < action->min || argc - 1 > action->max) {
		complain("usage: rdmabrokerctl fleet %s%s", action->name, action->arguments);
		return see_help();
	}
	return takes_options(action, ctl->given) ? action->run(ctl, argv + 1) : see_help();
}

static bool set_wait(struct fleetctl *ctl, const char *text)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (*text < '0' || *text > '9' || *end || n == 0 || n > 86400) {
		complain("--wait must be a number of seconds from 1 to 86400, not \"%s\"", text);
		return false;
	}
	ctl->wait_s = (unsigned)n;
	return true;
}

static bool set_label(struct fleetctl *ctl, const char *text)
{
	ctl->label = text;
	if (!site_is_name(text))
		complain("invalid label \"%s\": it must have at most %d letters, digits, '.', '_', "
			 "'-' and '+', and not begin with '.' or '-'",
			 text, SITE_NAME_MAX);
	return site_is_name(text);
}

/* rdmabrokerctl has checked the options, but not their arguments. */
static bool read_options(struct fleetctl *ctl, const char **ret_config, int argc, char **argv)
{
	const char *given[N_OPTS] = { NULL };
	int c;

	while ((c = getopt_long(argc, argv, "", long_options, NULL)) >= 0) {
		if (c == '?')
			return false;
		given[c] = optarg ?: "";
		ctl->given |= 1U << c;
	}
	if (given[OPT_CONFIG])
		*ret_config = given[OPT_CONFIG];
	ctl->json = given[OPT_JSON];
	ctl->name = given[OPT_NAME];
	ctl->watch = given[OPT_WATCH];
	ctl->strict = given[OPT_STRICT];
	ctl->only_syntax = given[OPT_ONLY_SYNTAX];
	ctl->policy_dir = given[OPT_POLICY_DIR];
	return (!given[OPT_LABEL] || set_label(ctl, given[OPT_LABEL])) &&
	       (!given[OPT_WAIT] || set_wait(ctl, given[OPT_WAIT]));
}

int main(int argc, char **argv)
{
	struct fleetctl ctl = {};
	const char *config = FLEET_CONFIG;
	int status;

	setlocale(LC_CTYPE, "C.UTF-8"); /* as rdmabrokerctl does */
	/* The messages are rdmabrokerctl's. */
	program_invocation_short_name = (char *)"rdmabrokerctl";
	if (!read_options(&ctl, &config, argc, argv))
		return see_help();
	if (settings_read(&ctl.settings, config) < 0)
		return EXIT_FAILURE;
	signal(SIGPIPE, SIG_IGN);
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
		complain("libcurl cannot be set up");
		return EXIT_FAILURE;
	}
	status = run(&ctl, argc - optind, argv + optind);
	etcd_free(ctl.etcd);
	curl_global_cleanup();
	explicit_bzero(ctl.settings.password, sizeof(ctl.settings.password));
	if (fflush(stdout) != 0 || ferror(stdout)) {
		complain("cannot write the output: %m");
		return EXIT_FAILURE;
	}
	return status;
}
