/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/bench/host/host.h"

void cpus_pin(pid_t pid, int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(pid, sizeof(set), &set) < 0)
		die("sched_setaffinity: %m");
}

void cpus_find(const cpu_set_t *all, int ret[2])
{
	int n = 0;

	ret[0] = ret[1] = -1;
	for (int i = 0; i < CPU_SETSIZE && n < 2; i++)
		if (CPU_ISSET(i, all))
			ret[n++] = i;
}
