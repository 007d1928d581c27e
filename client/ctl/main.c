/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <string.h>

#include "ctl.h"
#include "output.h"
#include "proto/names.h"

/*
 * rdmabrokerctl: its verbs, and the choice of the socket. A verb opens its session by ctl_open_session(), and main()
 * closes it. A verb that fails ends the program where it does, by die() and the like.
 */

static const struct verb verbs[] = {
	{
		.name = "cdi",
		.summary =
			"Print or write the CDI specifications of the RDMA devices, for containers",
		.options = cdi_options,
		.run = verb_cdi,
	},
	{
		.name = "check",
		.argument = "[FILE ...]",
		.summary = "Check the rules and the configuration for errors, without the daemon",
		.max_arguments = -1,
		.run = verb_check,
	},
	{
		.name = "drain",
		.summary = "Refuse all new work, and wait until no connection is left",
		.options = drain_options,
		.run = verb_drain,
	},
	{
		.name = "dropin",
		.argument = "enable | disable | status [PROGRAM]",
		.summary = "Let all programs use the broker in place of librdmacm, or not",
		.min_arguments = 1,
		.max_arguments = 2,
		.values = dropin_actions,
		.run = verb_dropin,
	},
	{
		.name = "events",
		.summary =
			"Print decisions and connection events as they happen, until interrupted",
		.options = events_options,
		.run = verb_events,
	},
	{
		.name = "explain",
		.argument = "OPERATION",
		.summary = "Print the decision that policy would make, and its rule",
		.min_arguments = 1,
		.max_arguments = 1,
		.options = explain_options,
		.values = operation_names,
		.run = verb_explain,
	},
	{
		.name = "help",
		.argument = "[VERB]",
		.summary = "Print this summary, or the summary of one verb",
		.max_arguments = 1,
		.run = verb_help,
	},
	{
		.name = "kick",
		.argument = "SESSION[:ID]",
		.summary = "End a session, or one id of it; \"list\" prints the numbers",
		.min_arguments = 1,
		.max_arguments = 1,
		.run = verb_kick,
	},
	{
		.name = "limits",
		.summary = "Print what you can hold, in all sessions together, and what you hold",
		.run = verb_limits,
	},
	{
		.name = "list",
		.summary = "Print the daemon's sessions and their ids",
		.options = list_options,
		.run = verb_list,
	},
	{
		.name = "metrics",
		.summary = "Print the daemon's metrics in the OpenMetrics format",
		.run = verb_metrics,
	},
	{
		.name = "nodes",
		.argument = "open | close | status",
		.summary = "Let programs use RDMA without the broker, or not, and show who does",
		.min_arguments = 1,
		.max_arguments = 1,
		.options = nodes_options,
		.values = nodes_actions,
		.run = verb_nodes,
	},
	{
		.name = "refusals",
		.summary = "Print what was refused, or allowed by a warn rule, the last one first",
		.options = refusals_options,
		.run = verb_refusals,
	},
	{
		.name = "reload",
		.summary = "Reload the rules and the configuration; an error changes nothing",
		.options = reload_options,
		.run = verb_reload,
	},
	{
		.name = "restrict",
		.argument = "-- PROGRAM [ARGUMENT ...]",
		.summary = "Run a program, or a container, that can do less than you",
		.min_arguments = 1,
		.max_arguments = -1,
		.options = restrict_options,
		.run = verb_restrict,
	},
	{
		.name = "rules",
		.summary = "Print the rules in force and the number of decisions by each",
		.options = rules_options,
		.run = verb_rules,
	},
	{
		.name = "run",
		.argument = "-- PROGRAM [ARGUMENT ...]",
		.summary = "Run a program that uses librdmacm through the broker",
		.min_arguments = 1,
		.max_arguments = -1,
		.run = verb_run,
	},
	{
		.name = "site",
		.argument = "install DIR | use VERSION | hold [REASON] | release | status | log",
		.summary = "Install versions of a site's policy, and put one in force, or hold it",
		.min_arguments = 1,
		.max_arguments = 2,
		.options = site_options,
		.values = site_actions,
		.run = verb_site,
	},
	{
		.name = "status",
		.summary = "Print the daemon's state: policy, devices, counts",
		.run = verb_status,
	},
	{
		.name = "suggest",
		.summary = "Print rules that would have allowed what \"refusals\" prints",
		.options = suggest_options,
		.run = verb_suggest,
	},
	{
		.name = "version",
		.summary = "Print the version of rdmabrokerctl",
		.run = verb_version,
	},
	{ NULL },
};

/* The socket of the instance that --instance names. */
static void choose_socket(struct ctl *ctl)
{
	size_t size = sizeof(ctl->instance_socket);

	if (!ctl->instance)
		return;
	if (ctl->socket)
		ctl_misused(ctl, "--instance and --socket exclude each other");
	if (!ctl->instance[0] || strchr(ctl->instance, '/') ||
	    snprintf(ctl->instance_socket, size, "/run/rdmabroker@%s/rdmabroker.sock",
		     ctl->instance) >= (int)size)
		ctl_misused(ctl, "invalid name of an instance \"%s\"", ctl->instance);
	ctl->socket = ctl->instance_socket;
}

static int run_verb(struct ctl *ctl, int argc, char **argv)
{
	const struct verb *verb = ctl->verb;

	options_read_verb(ctl, &argc, &argv);
	choose_socket(ctl);
	if (ctl->help)
		return help_print(ctl, verb);
	if (ctl->version)
		return verb_version(ctl);
	if (argc < verb->min_arguments)
		ctl_misused(ctl, "%s needs an argument: %s", verb->name, verb->argument);
	if (verb->max_arguments >= 0 && argc > verb->max_arguments)
		ctl_misused(ctl, "unexpected argument \"%s\": %s takes %s%s",
			    argv[verb->max_arguments], verb->name,
			    verb->max_arguments > 0 ? "only " : "no arguments",
			    verb->max_arguments > 0 ? verb->argument : "");
	ctl->arguments = argv;
	return verb->run(ctl);
}

static int run(struct ctl *ctl, int argc, char **argv)
{
	options_read_common(ctl, &argc, &argv);
	if (argc == 0 && ctl->help)
		return help_print(ctl, NULL);
	if (argc == 0 && ctl->version)
		return verb_version(ctl);
	if (argc == 0)
		ctl_misused(ctl, "no verb given");
	ctl->verb = ctl_find_verb(ctl, argv[0]);
	if (!ctl->verb)
		ctl_see_help(ctl);
	return run_verb(ctl, argc, argv);
}

int main(int argc, char **argv)
{
	struct ctl ctl = { .verbs = verbs };
	int status = run(&ctl, argc, argv);

	rdmabroker_close(ctl.session);
	end(status);
}
