// SPDX-License-Identifier: BSD-2-Clause
/*
 * What a sink costs: records of each kind, as the BPF programs send them, to a Chrome and a Perfetto
 * sink in turns, into a file in memory, with all that its writer does. Prints nanoseconds of CPU
 * and bytes per record, medians over the rounds, and their ratio.
 *
 * sinks json|pftrace KIND feeds one sink once, for bench/instructions, and prints the number of records.
 *
 * sinks count, for bench/run --guard, feeds each sink with each kind once and prints bytes per record; valgrind's
 * callgrind writes a part for each (with --toggle-collect=feed: of what formats, not of the writer's thread).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_DUMP_STATS_AT(name) (void)(name)
#endif

#include "engine/spec.h"
#include "io/writer.h"
#include "sink/sink.h"

#define RECORDS 20000 /* between two calls of settled(), as in 10 ms of a busy recording */
#define BATCHES 25
#define ROUNDS 9
#define THREADS 8
#define PID 5000000u

static struct probe_table probes;
static struct recording rec = { .start_boot_ns = 1000000000000, .probes = &probes };

typedef struct sink *sink_new(struct writer *w, const struct recording *r);

union any {
	struct rec_hdr h;
	struct rec_syscall syscall;
	struct rec_off_cpu off;
	struct rec_on_cpu on;
	struct rec_fault fault;
	struct rec_function function;
};

static double cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static union any make(enum rec_kind kind, uint8_t flags, uint64_t i)
{
	union any r = { .h = {
				.kind = (uint8_t)kind,
				.flags = flags,
				.start_ns = rec.start_boot_ns + 1000 * i,
				.dur_ns = 600 + i % 300,
				.tgid = PID,
				.tid = PID + (uint32_t)(i / 64 % THREADS),
				.cpu = (uint16_t)(i / 64 % 2),
			} };

	switch (kind) {
	case REC_SYSCALL:
		r.h.id = 110; /* getppid; 17 is pread64 */
		r.syscall.ret = 1234;
		break;
	case REC_OFF_CPU:
		r.h.id = ST_BLOCKED_FUTEX;
		r.off.wake_ns = r.h.start_ns + 500;
		r.off.waker_tid = PID + 1;
		break;
	case REC_FAULT:
		r.fault.addr = 0x7f0012345000 + 4096 * i;
		break;
	case REC_FUNCTION:
		r.function.vals[0] = 29;
		r.function.vals[1] = i;
		break;
	default:
		break;
	}
	return r;
}

struct result {
	double ns, bytes;
};

#define TURNS 3 /* after these nothing of a turn waits for others */

/* One turn of the rings, and what further ones do with it. Not inlined: callgrind counts from its entry to its
 * return. */
__attribute__((noinline)) static void feed(struct sink *s, const union any *records, int turns)
{
	for (int i = 0; i < RECORDS; i++)
		sink_record(s, &records[i].h, sizeof(records[i]));
	for (int i = 0; i < turns; i++)
		sink_settled(s);
	sink_flush(s);
}

/* part: what callgrind calls it; NULL: nothing is counted. */
static struct result run(sink_new *new, enum rec_kind kind, uint8_t flags, int batches, const char *part)
{
	struct writer *w;
	struct sink *s;
	double begin, ns = 0, bytes;
	uint64_t n = 0;
	union any *records = malloc(RECORDS * sizeof(*records));

	w = writer_new(memfd_create("trace", MFD_CLOEXEC), "trace", WRITER_LINES);
	if (!records)
		exit(1);
	s = new (w, &rec);
	for (int b = 0; b < batches; b++) {
		for (int i = 0; i < RECORDS; i++)
			records[i] = make(kind, flags, n++);
		begin = cpu_ns();
		feed(s, records, part ? TURNS : 1);
		writer_sync(w);
		ns += cpu_ns() - begin;
	}
	if (part)
		CALLGRIND_DUMP_STATS_AT(part);
	begin = cpu_ns();
	bytes = (double)sink_bytes(s);
	s->ops->close(s, NULL);
	ns += cpu_ns() - begin;
	free(records);
	return (struct result){ ns / (double)n, bytes / (double)n };
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *v)
{
	qsort(v, ROUNDS, sizeof(*v), compare);
	return v[ROUNDS / 2];
}

static const struct {
	enum rec_kind kind;
	uint8_t flags;
	const char *name, *word;
} kinds[] = {
	{ REC_SYSCALL, 0, "system call", "syscall" },
	{ REC_SYSCALL, IPC_PIPE << SYSCALL_IPC_SHIFT, "system call that passes data", "ipc" },
	{ REC_OFF_CPU, 0, "time off CPU", "offcpu" },
	{ REC_ON_CPU, 0, "time on CPU", "oncpu" },
	{ REC_FAULT, 0, "page fault", "fault" },
	{ REC_FUNCTION, 0, "function, 2 arguments", "function" },
};

static void run_all(void)
{
	printf("| | JSON ns | .pftrace ns | ratio | JSON bytes | .pftrace bytes "
	       "|\n|---|---:|---:|---:|---:|---:|\n");
	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		double c[ROUNDS], p[ROUNDS], ratio[ROUNDS];
		struct result a = {}, b = {};

		for (int r = 0; r < ROUNDS; r++) {
			a = run(chrome_sink_new, kinds[k].kind, kinds[k].flags, BATCHES, NULL);
			b = run(perfetto_sink_new, kinds[k].kind, kinds[k].flags, BATCHES, NULL);
			c[r] = a.ns;
			p[r] = b.ns;
			ratio[r] = b.ns / a.ns;
		}
		printf("| %s | %.0f | %.0f | %.2f | %.0f | %.0f |\n", kinds[k].name, median(c),
			median(p), median(ratio), a.bytes, b.bytes);
	}
}

static int run_one(const char *format, const char *word)
{
	sink_new *new = strcmp(format, "json") ? perfetto_sink_new : chrome_sink_new;

	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		if (strcmp(kinds[k].word, word))
			continue;
		run(new, kinds[k].kind, kinds[k].flags, BATCHES, NULL);
		printf("%d\n", BATCHES * RECORDS);
		return 0;
	}
	return 2;
}

static void count_all(void)
{
	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		for (int json = 0; json < 2; json++) {
			char part[64];
			struct result r;

			snprintf(part, sizeof(part), "%s, %s", kinds[k].name, json ? ".json" : ".pftrace");
			r = run(json ? chrome_sink_new : perfetto_sink_new, kinds[k].kind, kinds[k].flags, 1, part);
			printf("%d %.2f %s\n", RECORDS, r.bytes, part);
		}
	}
}

int main(int argc, char **argv)
{
	const char *why;
	struct probe_spec *s;

	rec.tasks = tasks_new();
	for (uint32_t i = 0; i < THREADS; i++) {
		struct rec_task t = {
			.h = { .kind = REC_TASK, .id = TASK_FORK, .tgid = PID, .tid = PID + i },
			.comm = "worker"
		};
		tasks_update(rec.tasks, &t);
	}
	s = spec_append(&probes, NULL, "ggml_compute_forward_mul_mat");
	spec_set_role(s, "op");
	spec_add_arg(s, "n", "s32 arg1", NULL, 0, &why);
	spec_add_arg(s, "bytes", "u64 arg2", NULL, 0, &why);
	if (argc == 2) {
		count_all();
		return 0;
	}
	if (argc == 3)
		return run_one(argv[1], argv[2]);
	run_all();
	return 0;
}
