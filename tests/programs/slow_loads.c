// SPDX-License-Identifier: BSD-2-Clause
/*
 * Loads and unloads a library again and again. Ten times as long as between, it waits for memory that the dynamic linker asks for while
 * its list of libraries is not consistent: a call of dlopen() then ends the program, if that library is there already.
 *
 *	slow_loads LIBRARY
 */
#include "../program.h"

#include "hooked_lib.h"

#include <link.h>

extern ElfW(Dyn) _DYNAMIC[];

static const struct r_debug *linker; /* what it says of itself; NULL: not known yet */
static volatile sig_atomic_t stopped;

void *__libc_malloc(size_t size);

static void nap(long ms)
{
	nanosleep(&(struct timespec){ .tv_nsec = ms * 1000000 }, NULL);
}

/* The dynamic linker uses the program's, once that is there. */
void *malloc(size_t size)
{
	if (linker && linker->r_state != RT_CONSISTENT)
		nap(50);
	return __libc_malloc(size);
}

static void stop(int sig)
{
	(void)sig;
	stopped = 1;
}

int main(int argc, char **argv)
{
	struct place p = { NULL, NULL };

	must(argc == 2, "usage: slow_loads LIBRARY");
	signal(SIGTERM, stop);
	for (const ElfW(Dyn) *d = _DYNAMIC; d->d_tag != DT_NULL; d++) {
		if (d->d_tag == DT_DEBUG)
			linker = (const struct r_debug *)d->d_un.d_ptr;
	}
	must(linker, "DT_DEBUG");
	puts("ready");
	fflush(stdout);
	while (!stopped) {
		void *library = dlopen(argv[1], RTLD_LAZY);

		must(library, "dlopen");
		meet(&p, 1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 6, 7, 8);
		dlclose(library);
		nap(5);
	}
	return 0;
}
