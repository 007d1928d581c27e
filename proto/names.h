/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

#include <stddef.h>

/*
 * Names in messages of the protocol, in rules and in rdmabrokerctl: of operations, of the kinds, outcomes and events of
 * notices, and of port spaces. Each array ends with NULL. Entry I of event_names is event type I of rdma_cma.h.
 */

extern const char *const operation_names[];
extern const char *const notice_kind_names[];
extern const char *const outcome_names[];
extern const char *const event_names[];
extern const char *const portspace_names[];

/* The index of WORD in NAMES; -1: it is not there. */
int names_find(const char *const *names, const char *word);

/* The number of portspace_names[I], as in rdma_cma.h. */
int portspace_number(size_t i);
/* NULL: there is no such port space. */
const char *portspace_name(int number);

/* What a process belongs to, from the control group that it is in. Names are as in rdmabroker.rules(5). */
enum workload_name {
	WORKLOAD_UNIT, /* systemd unit */
	WORKLOAD_CONTAINER, /* id of a container, or name of a machine of systemd-nspawn */
	WORKLOAD_POD, /* uid of a pod of Kubernetes, or id of a pod of podman */
	WORKLOAD_JOB, /* number of a job of Slurm */
	WORKLOAD_CGROUP, /* path of the control group, from the root of the hierarchy */
	_WORKLOAD_MAX,
};
