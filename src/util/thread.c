// SPDX-License-Identifier: BSD-2-Clause
#include "util/thread.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

static int map_stack(struct thread *t, size_t bytes, size_t guard)
{
	char *stack = mmap(NULL, guard + bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
	int err;

	if (stack == MAP_FAILED)
		return -errno;
	if (mprotect(stack + guard, bytes, PROT_READ | PROT_WRITE)) {
		err = -errno;
		munmap(stack, guard + bytes);
		return err;
	}
	t->stack = stack;
	t->bytes = guard + bytes;
	return 0;
}

static int create(struct thread *t, size_t guard, void *(*run)(void *arg), void *arg)
{
	sigset_t all, before;
	pthread_attr_t attr;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_attr_init(&attr);
	err = pthread_attr_setstack(&attr, (char *)t->stack + guard, t->bytes - guard);
	if (!err)
		err = pthread_create(&t->id, &attr, run, arg);
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -err;
}

int thread_start(struct thread *t, const char *name, size_t stack_bytes, void *(*run)(void *arg), void *arg)
{
	size_t guard = (size_t)sysconf(_SC_PAGESIZE), least = (size_t)sysconf(_SC_THREAD_STACK_MIN);
	int err = map_stack(t, stack_bytes < least ? least : stack_bytes, guard);

	if (err)
		return err;
	err = create(t, guard, run, arg);
	if (err) {
		munmap(t->stack, t->bytes);
		return err;
	}
	pthread_setname_np(t->id, name);
	return 0;
}

void thread_join(struct thread *t)
{
	pthread_join(t->id, NULL);
	munmap(t->stack, t->bytes);
}

void thread_detach(struct thread *t)
{
	pthread_detach(t->id);
}
