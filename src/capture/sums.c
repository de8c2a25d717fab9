// SPDX-License-Identifier: BSD-2-Clause
#include "capture/sums.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>

static int compare_totals(const void *a, const void *b)
{
	uint32_t x = ((const struct process_totals *)a)->tgid,
		 y = ((const struct process_totals *)b)->tgid;

	return x < y ? -1 : x > y;
}

static int compare_calls(const void *a, const void *b)
{
	const struct syscall_key *x = &((const struct process_call *)a)->key,
				 *y = &((const struct process_call *)b)->key;

	if (x->tgid != y->tgid)
		return x->tgid < y->tgid ? -1 : 1;
	return x->nr < y->nr ? -1 : x->nr > y->nr;
}

/* Nothing adds to the maps any more, so a walk over the keys sees each entry once. */
static int processes_read(int fd, struct process_totals **ret_list, size_t *ret_n)
{
	struct process_totals *list;
	uint32_t key, *before = NULL;
	size_t n = 0;

	list = calloc(PROCESS_SUMS_MAX, sizeof(*list));
	if (!list)
		return -ENOMEM;
	for (; n < PROCESS_SUMS_MAX && !bpf_map_get_next_key(fd, before, &key); before = &key) {
		list[n].tgid = key;
		n += !bpf_map_lookup_elem(fd, &key, &list[n].sums);
	}
	qsort(list, n, sizeof(*list), compare_totals);
	*ret_list = list;
	*ret_n = n;
	return 0;
}

int sums_read_calls(int fd, struct process_call **ret_calls, size_t *ret_n)
{
	struct syscall_key key, *before = NULL;
	struct process_call *calls;
	size_t n = 0;

	calls = calloc(SYSCALL_SUMS_MAX, sizeof(*calls));
	if (!calls)
		return -ENOMEM;
	for (; n < SYSCALL_SUMS_MAX && !bpf_map_get_next_key(fd, before, &key); before = &key) {
		calls[n].key = key;
		n += !bpf_map_lookup_elem(fd, &key, &calls[n].sum);
	}
	qsort(calls, n, sizeof(*calls), compare_calls);
	*ret_calls = calls;
	*ret_n = n;
	return 0;
}

/* Leaves out the calls of a process that is in no list, since the list was full. */
static int calls_share(
	struct process_totals *list, size_t n, const struct process_call *calls, size_t n_calls)
{
	size_t i = 0;

	for (size_t k = 0; k < n; k++) {
		size_t from;

		while (i < n_calls && calls[i].key.tgid < list[k].tgid)
			i++;
		from = i;
		while (i < n_calls && calls[i].key.tgid == list[k].tgid)
			i++;
		if (i == from)
			continue;
		list[k].calls = calloc(i - from, sizeof(*list[k].calls));
		if (!list[k].calls)
			return -ENOMEM;
		for (size_t c = from; c < i; c++)
			list[k].calls[list[k].n_calls++] =
				(struct syscall_total){ .nr = calls[c].key.nr,
					.sum = calls[c].sum };
	}
	return 0;
}

int sums_read(int process_fd, int syscall_fd, struct process_totals **ret_list, size_t *ret_n)
{
	struct process_totals *list = NULL;
	struct process_call *calls = NULL;
	size_t n = 0, n_calls = 0;
	int err;

	err = processes_read(process_fd, &list, &n);
	if (!err)
		err = sums_read_calls(syscall_fd, &calls, &n_calls);
	if (!err)
		err = calls_share(list, n, calls, n_calls);
	free(calls);
	if (err) {
		sums_free(list, n);
		return err;
	}
	*ret_list = list;
	*ret_n = n;
	return 0;
}

void sums_free(struct process_totals *list, size_t n)
{
	for (size_t i = 0; list && i < n; i++)
		free(list[i].calls);
	free(list);
}
