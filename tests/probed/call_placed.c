// SPDX-License-Identifier: BSD-2-Clause
/*
 * Calls the functions of libplaced.so from several threads, each with arguments that are a function
 * of the thread and the call, and checks what they return.
 *
 *	call_placed -l                           lists the functions: name, kind
 *	call_placed THREADS CALLS [NAME ...]     CALLS of each function, or of those, by each thread
 *
 * It prints "ready" and begins at the next line of input; its last line is JSON.
 */
#include "../program.h"

#include "placed.h"

typedef uint64_t function(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t *cell, uint64_t g);

#define DECLARE(name, kind) function name;
PLACED_FUNCTIONS(DECLARE)
COMPILED_FUNCTIONS(DECLARE)

struct placed {
	const char *name;
	function *call;
	enum kind kind;
};

static const struct placed all[] = {
#define ENTRY(name, kind) { #name, name, kind },
	PLACED_FUNCTIONS(ENTRY) COMPILED_FUNCTIONS(ENTRY)
};
#define N_ALL LENGTH(all)
#define THREADS_MAX 64

static const struct placed *chosen[N_ALL];
static size_t n_chosen;
static unsigned long calls;

struct thread {
	pthread_t id;
	uint64_t number;
	uint64_t wrong;
};

/* What a call is given follows from a: check_placed.py knows how. */
static bool call_once(const struct placed *p, uint64_t a, uint64_t i)
{
	uint64_t cell = a, b = 3 * a + 1, sum;

	sum = p->call(a, b, i % 4, a ^ 0x55, a + 7, &cell, a - 1);
	return p->kind == NOTHING || sum == a + b;
}

static void *thread_run(void *arg)
{
	struct thread *t = arg;

	for (uint64_t i = 0; i < calls; i++) {
		for (size_t k = 0; k < n_chosen; k++)
			t->wrong += !call_once(chosen[k], (t->number << 32) + i, i);
	}
	return NULL;
}

static int choose(const char *name)
{
	for (size_t i = 0; i < N_ALL; i++) {
		if (!strcmp(all[i].name, name)) {
			chosen[n_chosen++] = &all[i];
			return 0;
		}
	}
	fprintf(stderr, "call_placed: no function %s\n", name);
	return -1;
}

static void list(void)
{
	static const char *const kinds[] = { "sums", "nothing", "loops" };

	for (size_t i = 0; i < N_ALL; i++)
		printf("%s %s\n", all[i].name, kinds[all[i].kind]);
}

int main(int argc, char **argv)
{
	static struct thread threads[THREADS_MAX];
	unsigned long n;
	uint64_t wrong = 0;

	if (argc == 2 && !strcmp(argv[1], "-l")) {
		list();
		return 0;
	}
	if (argc < 3 || (size_t)argc - 3 > N_ALL)
		return 2;
	n = strtoul(argv[1], NULL, 10);
	calls = strtoul(argv[2], NULL, 10);
	if (!n || n > THREADS_MAX)
		return 2;
	for (int i = 3; i < argc; i++) {
		if (choose(argv[i]))
			return 2;
	}
	for (size_t i = 0; argc == 3 && i < N_ALL; i++)
		chosen[n_chosen++] = &all[i];
	line_wait();
	for (unsigned long i = 0; i < n; i++) {
		threads[i].number = i + 1;
		threads[i].id = thread_start(thread_run, &threads[i]);
	}
	for (unsigned long i = 0; i < n; i++) {
		pthread_join(threads[i].id, NULL);
		wrong += threads[i].wrong;
	}
	printf("{\"threads\":%lu,\"calls\":%lu,\"functions\":%zu,\"wrong\":%llu}\n", n, calls, n_chosen, (unsigned long long)wrong);
	return wrong ? 1 : 0;
}
