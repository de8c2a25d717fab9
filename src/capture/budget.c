// SPDX-License-Identifier: BSD-2-Clause
#include "capture/budget.h"

#include <stddef.h>

#define SEC UINT64_C(1000000000)

/* The libraries of PyTorch with CUDA, some 5 GB, take 3 s. */
#define PROCESS_NS (20 * SEC)
#define ALL_NS (60 * SEC)
#define GROWS_BY 5	       /* 1/5 s per s */
#define SMALL_NS (SEC / 100) /* less than this is not charged to a process */

void budget_init(struct budget *b)
{
	*b = (struct budget){ .left_ns = ALL_NS };
}

static uint64_t *find(struct budget *b, pid_t pid)
{
	for (unsigned int i = 0; i < BUDGET_PROCESSES; i++) {
		if (b->processes[i].pid == pid)
			return &b->processes[i].spent_ns;
	}
	return NULL;
}

uint64_t budget_left(struct budget *b, pid_t pid, uint64_t now_ns)
{
	const uint64_t *spent = find(b, pid);
	uint64_t left;

	if (b->since_ns)
		b->left_ns += (now_ns - b->since_ns) / GROWS_BY;
	if (b->left_ns > ALL_NS)
		b->left_ns = ALL_NS;
	b->since_ns = now_ns;
	if (spent && *spent >= PROCESS_NS)
		return 0;
	left = spent ? PROCESS_NS - *spent : PROCESS_NS;
	return left < b->left_ns ? left : b->left_ns;
}

void budget_spend(struct budget *b, pid_t pid, uint64_t ns)
{
	uint64_t *spent = find(b, pid);

	b->left_ns = b->left_ns > ns ? b->left_ns - ns : 0;
	if (!spent && ns >= SMALL_NS) {
		b->processes[b->next].pid = pid;
		spent = &b->processes[b->next].spent_ns;
		*spent = 0;
		b->next = (b->next + 1) % BUDGET_PROCESSES;
	}
	if (spent)
		*spent += ns;
}
