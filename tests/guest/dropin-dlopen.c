/* SPDX-License-Identifier: BSD-2-Clause */
#include <dlfcn.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>

/* Loads librdmacm at run time, and prints the file that was found. */

int main(void)
{
	struct rdma_event_channel *(*create)(void);
	void (*destroy)(struct rdma_event_channel *);
	struct rdma_event_channel *channel;
	void *lib = dlopen("librdmacm.so.1", RTLD_NOW | RTLD_LOCAL);
	Dl_info info;

	if (!lib) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	create = (__typeof__(create))dlsym(lib, "rdma_create_event_channel");
	destroy = (__typeof__(destroy))dlvsym(lib, "rdma_destroy_event_channel", "RDMACM_1.0");
	if (!create || !destroy || !dladdr((void *)create, &info)) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	printf("found in %s\n", info.dli_fname);
	channel = create();
	if (!channel) {
		perror("rdma_create_event_channel");
		return 1;
	}
	destroy(channel);
	return 0;
}
