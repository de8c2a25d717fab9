// SPDX-License-Identifier: BSD-2-Clause
/*
 * What the kernel's verifier spends on each program, which every start of a recording pays for.
 *
 *	verifier_cost [LIMIT]
 *
 * Loads the programs, with everything on that makes them longer, and prints how many instructions the verifier
 * walked. Exits with 1 when one took more than LIMIT, or when one that inftrace cannot do without did not load.
 * The others are for kernels that have their attachment points: those that do not load are counted.
 */
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probe.h"
#include "process_sums.h"

#include "inftrace.skel.h"

#define LIMIT 100000
#define LOG_STATS 4 /* BPF_LOG_STATS of <linux/bpf_verifier.h>: the totals alone */

#define PROGRAMS_MAX 64

static struct cost {
	char name[64];
	char log[16384];
	long instructions; /* or -errno */
} costs[PROGRAMS_MAX];

static const char *const needed[] = {
	"sched_switch",	  "sched_waking",    "sched_process_fork", "sched_process_exec", "sched_process_exit",
	"sys_enter",	  "sys_exit",	     "fault_minor",	   "fault_major",
#ifdef __x86_64__
	"page_fault_user",
#endif
	"function_entry", "function_return", "snapshot_create",	   "snapshot_init",	 "snapshot_close",
	"snapshot_peek",  "node_entry",
};

static bool is_needed(const char *name)
{
	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
		if (!strcmp(needed[i], name))
			return true;
	}
	return false;
}

static int print_nothing(enum libbpf_print_level level, const char *format, va_list args)
{
	(void)level;
	(void)format;
	(void)args;
	return 0;
}

/* The verifier knows what is off, and leaves out the code that depends on it. */
static void turn_on_everything(struct inftrace_bpf *skel)
{
	struct inf_config *c = &skel->rodata->cfg;

	c->emit_mask = ~0u;
	c->all_cpus = c->watch_maps = c->hold = 1;
	c->steps = c->track_syscalls = c->track_sched = c->track_irq = c->count_strangers = 1;
	c->sums = c->memory = c->ipc = c->ipc_only = c->windows = 1;
	c->fault_return = c->shapes = 1;
	c->max_steps = 1;
	c->min_syscall_ns = 1;
}

/* Loads programs from..to - 1 together; where that fails, each half of them. That is less work than loading them
 * one by one, and a single load where none fails. */
static void load_range(unsigned int from, unsigned int to)
{
	struct inftrace_bpf *skel = inftrace_bpf__open();
	struct bpf_program *p;
	unsigned int i = 0;
	int err;

	if (!skel)
		exit(1);
	turn_on_everything(skel);
	bpf_object__for_each_program(p, skel->obj) {
		struct cost *c = &costs[i];

		bpf_program__set_autoload(p, i >= from && i < to);
		snprintf(c->name, sizeof(c->name), "%s", bpf_program__name(p));
		bpf_program__set_log_level(p, LOG_STATS);
		bpf_program__set_log_buf(p, c->log, sizeof(c->log));
		if (i >= from && i < to)
			c->log[0] = 0;
		i++;
	}
	err = bpf_object__load(skel->obj);
	for (i = from; !err && i < to; i++) {
		const char *processed = strstr(costs[i].log, "processed ");

		costs[i].instructions = processed ? strtol(processed + strlen("processed "), NULL, 10) : -ENODATA;
	}
	inftrace_bpf__destroy(skel);
	if (err && to - from == 1)
		costs[from].instructions = err;
	if (!err || to - from == 1)
		return;
	load_range(from, from + (to - from) / 2);
	load_range(from + (to - from) / 2, to);
}

static unsigned int count_programs(void)
{
	struct inftrace_bpf *skel = inftrace_bpf__open();
	struct bpf_program *p;
	unsigned int n = 0;

	if (!skel)
		return 0;
	bpf_object__for_each_program(p, skel->obj)
		n++;
	inftrace_bpf__destroy(skel);
	return n;
}

int main(int argc, char **argv)
{
	long limit = argc > 1 ? atol(argv[1]) : LIMIT, total = 0;
	unsigned int n = count_programs(), missing = 0;
	const struct cost *most = &costs[0];
	int rc = 0;

	libbpf_set_print(print_nothing);
	if (!n || n > PROGRAMS_MAX)
		return 1;
	load_range(0, n);
	for (const struct cost *c = costs; c < costs + n; c++) {
		if (c->instructions < 0) {
			missing++;
			printf("%-40s %s\n", c->name, strerror((int)-c->instructions));
			rc |= is_needed(c->name);
			continue;
		}
		printf("%-40s %ld%s\n", c->name, c->instructions, c->instructions > limit ? " too many" : "");
		rc |= c->instructions > limit;
		total += c->instructions;
		if (c->instructions > most->instructions)
			most = c;
	}
	printf("%u programs, %ld instructions in all, %ld of %s; %u did not load\n", n - missing, total, most->instructions,
		most->name, missing);
	return rc;
}
