/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

/*
 * Names in messages of the protocol, in rules and in rdmabrokerctl: of operations, and of the kinds, outcomes and
 * events of notices. Each array ends with NULL. Entry I of event_names is event type I of rdma_cma.h.
 */

extern const char *const operation_names[];
extern const char *const notice_kind_names[];
extern const char *const outcome_names[];
extern const char *const event_names[];

/* What a process belongs to, from the control group that it is in. Names are as in rdmabroker.rules(5). */
enum workload_name {
	WORKLOAD_UNIT, /* systemd unit */
	WORKLOAD_CONTAINER, /* id of a container, or name of a machine of systemd-nspawn */
	WORKLOAD_POD, /* uid of a pod of Kubernetes, or id of a pod of podman */
	WORKLOAD_JOB, /* number of a job of Slurm */
	WORKLOAD_CGROUP, /* path of the control group, from the root of the hierarchy */
	_WORKLOAD_MAX,
};
