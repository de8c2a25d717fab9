/* SPDX-License-Identifier: BSD-2-Clause */
/* The flight recorder's store beside a model that keeps everything. */
#ifndef INFTRACE_TEST_FLIGHT_MODEL_H
#define INFTRACE_TEST_FLIGHT_MODEL_H

#include "record/flight_store.h"
#include "unit.h"

#define MB (UINT64_C(1) << 20)
#define START UINT64_C(1000000000000)
#define MS UINT64_C(1000000)
#define TID 5000000u /* no such thread: /proc does not know it */

static inline void seek_span(const struct rec_hdr *h, size_t size, void *open)
{
	if (size && is_same_span(open, (void *)h))
		((struct rec_hdr *)open)->kind = REC_KIND_MAX; /* found */
}

/* Whether the dump has the record of an open span that ended at since_ns or later. */
static inline bool dump_has(struct flight *f, struct rec_hdr open, uint64_t since_ns)
{
	flight_dump_since(f, since_ns, seek_span, &open);
	return open.kind == REC_KIND_MAX;
}

union any_rec {
	struct rec_hdr h;
	struct rec_task task;
	uint8_t bytes[REC_SIZE_MAX];
};

/* Record n is reproducible, so the model keeps only where it ends. */
struct model {
	struct flight *f;
	struct tasks *tasks;
	uint64_t seed;    /* of the records */
	uint64_t *ends;   /* of record 0, 1, ... */
	uint64_t *latest; /* the latest end of this record and all before */
	size_t n, cap;
	/* of the dump */
	uint64_t horizon_ns;
	size_t dump_next, dump_end; /* the next one, if it is no older than the horizon */
	size_t handed_over;
};

static inline size_t make_record(const struct model *m, size_t n, union any_rec *ret_rec)
{
	static const size_t sizes[REC_KIND_MAX] = {
		[REC_SYSCALL] = sizeof(struct rec_syscall),
		[REC_OFF_CPU] = sizeof(struct rec_off_cpu),
		[REC_ON_CPU] = sizeof(struct rec_on_cpu),
		[REC_FAULT] = sizeof(struct rec_fault),
		[REC_STEP] = sizeof(struct rec_step),
		[REC_TASK] = sizeof(struct rec_task),
		[REC_IRQ] = sizeof(struct rec_irq),
		[REC_MEMORY] = sizeof(struct rec_memory),
		[REC_REQUEST] = sizeof(struct rec_request),
		[REC_HOLD] = sizeof(struct rec_hold),
		[REC_PLACED] = sizeof(struct rec_placed),
		[REC_STACK] = sizeof(struct rec_stack),
		[REC_GPU] = sizeof(struct rec_gpu),
		[REC_GPU_STEP] = REC_GPU_STEP_SIZE(1),
		[REC_GPU_LOAD] = sizeof(struct rec_gpu_load),
		[REC_MESSAGE] = sizeof(struct rec_message),
		[REC_GAP] = REC_GAP_SIZE(2),
		[REC_SENT] = REC_GAP_SIZE(3),
		[REC_METRIC] = sizeof(struct rec_metric),
		[REC_ANSWERED] = sizeof(struct rec_hdr),
	};
	uint64_t seed = m->seed + n * UINT64_C(0x9e3779b97f4a7c15), r = 0;
	enum rec_kind kind;
	size_t size;

	for (int i = 0; i < 4; i++)
		r = next_random(&seed);
	/* large ones are rare */
	kind = r % 64 ? (enum rec_kind)(r / 64 % REC_KIND_MAX) : REC_REQUEST;
	if (kind == REC_MAPPED || kind == REC_SAMPLE || kind == REC_NODE || (kind == REC_STEP && r % 5) || (kind == REC_REQUEST && r % 64))
		kind = REC_SYSCALL;
	size = sizes[kind];
	if (kind == REC_FUNCTION) /* of any length, also one that is no multiple of 8 */
		size = REC_FUNCTION_SIZE(next_random(&seed) % (FUNC_VALS_MAX + 1)) +
		       next_random(&seed) % (FUNC_STRS_MAX * FUNC_STR_LEN);
	if (kind == REC_FUNCTION && size > sizeof(struct rec_function))
		size = sizeof(struct rec_function);
	for (size_t i = 0; i < size; i += sizeof(r)) {
		r = next_random(&seed);
		memcpy(ret_rec->bytes + i, &r, size - i < sizeof(r) ? size - i : sizeof(r));
	}
	/* one per microsecond, ends up to 2 ms out of order, some of them long */
	ret_rec->h.kind = kind;
	ret_rec->h.start_ns = START + n * 1000 + next_random(&seed) % (2 * MS);
	ret_rec->h.dur_ns = next_random(&seed) % 100 ? next_random(&seed) % 50000 : 0;
	if (next_random(&seed) % 1000 == 0) {
		ret_rec->h.dur_ns = next_random(&seed) % (500 * MS);
		ret_rec->h.start_ns -= ret_rec->h.dur_ns;
	}
	if (next_random(&seed) % 1000 == 0) /* from a ring that is ahead of the others */
		ret_rec->h.start_ns += 5 * MS;
	if (kind == REC_TASK) {
		ret_rec->h.id = TASK_COMM;
		ret_rec->h.tid = TID + n % 1000;
		ret_rec->h.tgid = TID;
		ret_rec->h.dur_ns = 0;
	}
	return size;
}

static inline void model_new(struct model *m, uint64_t bytes, uint64_t keep_ns, uint64_t seed)
{
	*m = (struct model){ .seed = seed * 1000003 };
	m->tasks = tasks_new();
	assert_int_equal(flight_new(bytes, keep_ns, m->tasks, &m->f), 0);
}

static inline void model_free(struct model *m)
{
	flight_free(m->f);
	tasks_free(m->tasks);
	free(m->ends);
	free(m->latest);
}

static inline void append_one(struct model *m)
{
	union any_rec rec;
	size_t size = make_record(m, m->n, &rec);
	uint64_t end = rec.h.start_ns + rec.h.dur_ns;

	if (m->n == m->cap) {
		m->cap = m->cap ? m->cap * 2 : 1024;
		m->ends = realloc(m->ends, m->cap * sizeof(*m->ends));
		m->latest = realloc(m->latest, m->cap * sizeof(*m->latest));
		assert_true(m->ends && m->latest);
	}
	m->ends[m->n] = end;
	m->latest[m->n] = m->n && m->latest[m->n - 1] > end ? m->latest[m->n - 1] : end;
	m->n++;
	assert_int_equal(flight_append(m->f, &rec.h, size), 0);
}

static inline void model_append(struct model *m, size_t n)
{
	while (n--)
		append_one(m);
}

/* The store keeps the last appended records, and its horizon is the latest end of all others. */
static inline struct flight_stats model_check(const struct model *m)
{
	struct flight_stats st;
	uint64_t sum = 0;

	flight_get_stats(m->f, &st);
	assert_int_equal(st.kept + st.evicted, m->n);
	assert_int_equal(st.horizon_ns, st.evicted ? m->latest[st.evicted - 1] : 0);
	for (int k = 0; k < REC_KIND_MAX; k++)
		sum += st.records[k];
	assert_int_equal(sum, st.kept);
	assert_true(st.used_bytes < st.bytes);
	return st;
}

static inline void skip_older(struct model *m)
{
	while (m->dump_next < m->dump_end && m->ends[m->dump_next] <= m->horizon_ns)
		m->dump_next++;
}

static inline void model_dump_begin(struct model *m, uint64_t at_ns, uint64_t keep_ns)
{
	struct flight_stats st;
	struct flight_dump dump;

	assert_int_equal(flight_dump_begin(m->f, at_ns, NULL, &dump), 0);
	assert_int_equal(flight_dump_begin(m->f, at_ns, NULL, &dump), -EBUSY);
	st = model_check(m); /* of what the dump has: spare chunks were made before */
	m->horizon_ns = st.horizon_ns;
	if (keep_ns && at_ns - keep_ns > m->horizon_ns)
		m->horizon_ns = at_ns - keep_ns;
	assert_int_equal(dump.horizon_ns, m->horizon_ns);
	assert_non_null(dump.names);
	m->dump_next = st.evicted;
	m->dump_end = m->n;
	m->handed_over = 0;
	skip_older(m);
}

/* Checks each expected record, in order, byte by byte. */
static inline void on_dumped(const struct rec_hdr *rec, size_t size, void *arg)
{
	struct model *m = arg;
	union any_rec expected;

	assert_true(m->dump_next < m->dump_end);
	assert_int_equal(size, make_record(m, m->dump_next, &expected));
	assert_memory_equal(rec, &expected, size);
	m->dump_next++;
	m->handed_over++;
	skip_older(m);
}

static inline void model_dump_rest(struct model *m)
{
	while (flight_dump_next(m->f, on_dumped, m, 1000))
		;
	assert_int_equal(m->dump_next, m->dump_end);
	flight_dump_end(m->f);
}

/* Reads a whole dump at once. */
static inline void model_dump(struct model *m)
{
	model_dump_begin(m, START, 0);
	model_dump_rest(m);
}

/* ---- a store without a model ---- */

static struct flight *store;
static struct tasks *store_tasks;

static inline struct flight *store_new(uint64_t bytes, uint64_t keep_ns)
{
	store_tasks = tasks_new();
	assert_int_equal(flight_new(bytes, keep_ns, store_tasks, &store), 0);
	return store;
}

/* Of a test that has called it. */
static inline int store_free(void **state)
{
	flight_free(store);
	tasks_free(store_tasks);
	store = NULL;
	store_tasks = NULL;
	return 0;
}

#define TEST_STORE(name) TEST_WITH(name, NULL, store_free)

/* In kB, of the mapping that the store is in: "Size", "Rss". */
static inline unsigned long mapping_kb(const void *at, const char *key)
{
	FILE *smaps = fopen("/proc/self/smaps", "re");
	unsigned long from, to, value = 0;
	bool within = false;
	char line[512];

	assert_non_null(smaps);
	while (fgets(line, sizeof(line), smaps)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			within = (uintptr_t)at >= from && (uintptr_t)at < to;
		else if (within && !strncmp(line, key, strlen(key)) && line[strlen(key)] == ':')
			value = strtoul(line + strlen(key) + 1, NULL, 10);
	}
	fclose(smaps);
	return value;
}

#endif
