/* SPDX-License-Identifier: BSD-2-Clause */
#include <sys/mman.h>
#include <unistd.h>

#include "client/lib/wire/forkmark.h"

static size_t page_size(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

void fork_mark_init(struct fork_mark *mark)
{
	size_t size = page_size();
	uint8_t *page;

	*mark = (struct fork_mark){ .pid = getpid() };
	page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		return;
	/* Some emulators ignore advice that they do not know. They also accept -1, which is no advice. */
	if (madvise(page, size, -1) == 0 || madvise(page, size, MADV_WIPEONFORK) < 0) {
		munmap(page, size);
		return;
	}
	*page = 1;
	mark->page = page;
}

void fork_mark_done(struct fork_mark *mark)
{
	if (mark->page)
		munmap((void *)mark->page, page_size());
	mark->page = NULL;
}

bool fork_mark_is_child(const struct fork_mark *mark)
{
	return mark->page ? *mark->page == 0 : getpid() != mark->pid;
}
