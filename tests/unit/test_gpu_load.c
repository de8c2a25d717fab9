/* SPDX-License-Identifier: BSD-2-Clause */
/* How busy devices were. */
#include "cases.h"
#include "gpu/info.h"
#include "unit.h"

#define N GPU_LOAD_NS
#define BASE (1000 * N)

static struct rec_gpu_load list[4096];
static size_t n_list, n_pending;

static void take(const struct rec_hdr *h, size_t size, void *arg)
{
	assert_int_equal(h->kind, REC_GPU_LOAD);
	assert_int_equal(size, sizeof(list[0]));
	assert_int_equal(h->dur_ns, N);
	assert_int_equal((h->start_ns - BASE) % N, 0);
	memcpy(&list[n_list++], h, size);
}

static size_t pending(uint64_t until_ns, void *arg)
{
	return n_pending;
}

static uint64_t unknown_from = UINT64_MAX, unknown_to;

static bool is_known(uint64_t from_ns, uint64_t to_ns, void *arg)
{
	return from_ns >= unknown_to || to_ns <= unknown_from;
}

static const struct gpu_load_ops ops = { .pending = pending, .is_known = is_known };

static void add(struct gpu_load *l, uint32_t device, uint64_t launched, uint64_t from, uint64_t to)
{
	struct rec_gpu r = { .h = { .kind = REC_GPU, .start_ns = BASE + from, .dur_ns = to - from }, .device = device };

	r.launched_ns = launched == UINT64_MAX ? 0 : BASE + launched;
	gpu_load_add(l, &r);
}

static void run(struct gpu_load *l, uint64_t until)
{
	n_list = 0;
	gpu_load_take(l, BASE + until, &ops, NULL, take, NULL);
}

static void check(size_t i, uint64_t start, uint64_t busy, uint32_t waits)
{
	assert_true(i < n_list);
	assert_int_equal(list[i].h.start_ns, BASE + start);
	assert_int_equal(list[i].busy_ns, busy);
	assert_int_equal(list[i].waits, waits);
	assert_true(list[i].has_waits);
}

TEST(test_load)
{
	struct gpu_load *l = gpu_load_new(7, BASE + 5);

	n_pending = 0;
	run(l, 3 * N); /* no device yet */
	assert_int_equal(n_list, 0);
	add(l, 2, 3 * N, 3 * N + 10, 3 * N + 20);
	add(l, 2, 3 * N, 3 * N + 15, 3 * N + 40);    /* overlaps */
	add(l, 2, 3 * N + 1, 5 * N - 5, 6 * N + 5);  /* waits long */
	add(l, 2, UINT64_MAX, 6 * N + 1, 6 * N + 7); /* its launch was not seen */
	run(l, 4 * N - 1);
	assert_int_equal(n_list, 0); /* not over */
	n_pending = 2;
	run(l, 4 * N);
	assert_int_equal(n_list, 1);
	check(0, 3 * N, 30, 3);
	n_pending = 0;
	run(l, 9 * N);
	assert_int_equal(n_list, 4);
	check(0, 4 * N, 5, 1);
	check(1, 5 * N, N, 1);
	check(2, 6 * N, 7, 0);
	check(3, 7 * N, 0, 0);                  /* once */
	add(l, 2, 8 * N, 8 * N + 1, 8 * N + 2); /* too late */
	run(l, 15 * N);
	assert_int_equal(n_list, 0);
	add(l, 2, 15 * N, 15 * N, 18 * N - 1);
	unknown_from = BASE + 16 * N + 1;
	unknown_to = BASE + 17 * N;
	run(l, 20 * N);
	unknown_from = UINT64_MAX;
	assert_int_equal(n_list, 3); /* nothing about unknown times */
	check(0, 15 * N, N, 1);
	check(1, 17 * N, N - 1, 0);
	check(2, 18 * N, 0, 0);
	add(l, 3, 20 * N, 20 * N, 20 * N + 3);
	add(l, 2, 20 * N, 20 * N, 20 * N + 4);
	run(l, 21 * N);
	assert_int_equal(n_list, 2);
	assert_int_equal(list[0].h.id, 2);
	assert_int_equal(list[0].busy_ns, 4);
	assert_int_equal(list[1].busy_ns, 3);
	assert_false(list[0].has_waits || list[1].has_waits); /* it is unknown for which of them */
	gpu_load_free(l);
}

/* Far more than is kept, and many devices: bounded, and never more than the full time. */
TEST(test_bounds)
{
	const unsigned int n = cases(20000, 500);
	struct gpu_load *l = gpu_load_new(7, BASE);
	uint64_t at = 0;

	srand(3);
	n_pending = 0;
	for (unsigned int i = 0; i < n; i++) {
		uint64_t from = at + (uint64_t)rand() % (4 * N), to = from + (uint64_t)rand() % (rand() % 50 ? N : 3 * GPU_LOAD_SLOTS * N);

		add(l, (uint32_t)rand() % (2 * GPU_LOAD_DEVICES), from - (uint64_t)rand() % (from + 1), from, to);
		if (rand() % 20)
			continue;
		at += (uint64_t)rand() % (3 * N);
		run(l, at);
		for (size_t k = 0; k < n_list; k++)
			assert_true(list[k].busy_ns <= N);
	}
	gpu_load_free(l);
}

RUN_TESTS(NULL, NULL)
