/* SPDX-License-Identifier: BSD-2-Clause */
/* GPU time per operator. */
#include "format/gpu_ops.h"
#include "gpu_info.h"
#include "profile_lines.h"

#define OPS 4
#define NONE OPS

struct sums {
	uint64_t ns[OPS + 1], outside_ns;
};

static void add(const struct gpu_op_time *t, void *arg)
{
	struct sums *s = arg;

	assert_true(t->ns > 0);
	assert_true(t->outside_ns <= t->ns);
	s->ns[t->op == GPU_OPS_NONE ? NONE : t->op] += t->ns;
	s->outside_ns += t->outside_ns;
}

static struct rec_hdr span(uint32_t tid, uint64_t from, uint64_t to)
{
	return (struct rec_hdr){ .tgid = PID, .tid = tid, .start_ns = START + from, .dur_ns = to - from };
}

static struct rec_gpu kernel(uint32_t device, uint64_t from, uint64_t to, uint32_t tid, uint64_t launch)
{
	return (struct rec_gpu){ .h = span(PID, from, to), .device = device, .launch_tid = tid, .launch_ns = tid ? START + launch : 0 };
}

static void give(struct gpu_ops *g, struct rec_gpu k)
{
	gpu_ops_kernel(g, &k, GPU_OPS_NONE, add, NULL);
}

static void call(struct gpu_ops *g, uint32_t op, uint32_t tid, uint64_t from, uint64_t to)
{
	struct rec_hdr h = span(tid, from, to);

	gpu_ops_call(g, &h, op);
}

static void check(const struct sums *s, uint64_t a, uint64_t b, uint64_t c, uint64_t none)
{
	assert_int_equal(s->ns[0], a);
	assert_int_equal(s->ns[1], b);
	assert_int_equal(s->ns[2], c);
	assert_int_equal(s->ns[NONE], none);
}

TEST(test_innermost)
{
	struct rec_hdr step = span(TID, 100, 1000);
	struct sums in_step = { 0 }, all = { 0 };
	struct gpu_ops *g;

	g = gpu_ops_new();
	gpu_ops_step(g, &step);
	give(g, kernel(0, 200, 300, TID, 110));     /* in 1, which is inside 0 */
	give(g, kernel(0, 250, 400, TID, 130));     /* in 0, after 1 */
	give(g, kernel(0, 450, 500, TID, 90));      /* before all */
	give(g, kernel(0, 500, 600, TID + 1, 115)); /* another thread, in its 2 */
	give(g, kernel(0, 600, 700, TID, 190));     /* after all */
	give(g, kernel(0, 700, 800, 0, 0));         /* not seen */
	give(g, kernel(0, 950, 1100, TID, 120));    /* to the end of the step; in 1, up to its last instant */
	give(g, kernel(0, 50, 120, TID, 150));      /* from its begin: and in 0, at its last instant */
	give(g, kernel(1, 1200, 1300, TID, 110));
	call(g, 1, TID, 105, 120); /* they come later, the inner one first */
	call(g, 0, TID, 100, 150);
	call(g, 2, TID + 1, 115, 116);
	call(g, 3, TID, 110, 110); /* an instant */
	gpu_ops_divide(g, &step, add, &in_step);
	check(&in_step, 120, 150, 100, 250);
	gpu_ops_take(g, false, add, &all);
	check(&all, 0, 0, 0, 0); /* more may come */
	gpu_ops_take(g, true, add, &all);
	check(&all, 170, 350, 100, 250);
	assert_int_equal(all.outside_ns, 50 + 100 + 100);
	gpu_ops_take(g, true, add, &all); /* each once */
	check(&all, 170, 350, 100, 250);
	gpu_ops_divide(g, &step, add, &all); /* its kernels are gone */
	check(&all, 170, 350, 100, 250);
	gpu_ops_free(g);
}

/* Whatever overlaps, in any order: the sums are the time in which kernels ran. */
TEST(test_exact)
{
	enum { KERNELS = 40,
		NS = 500,
		ROUNDS = 200 };
	struct rec_hdr steps[2] = { span(TID, 100, 300), span(TID, 250, 400) };

	for (int round = 0; round < ROUNDS; round++) {
		uint64_t in_step = 0, anywhere = 0, outside = 0;
		bool busy[2][NS] = { 0 };
		struct sums step = { 0 }, all = { 0 };
		struct gpu_ops *g;

		srand((unsigned int)round);
		g = gpu_ops_new();
		for (int i = 0; i < KERNELS; i++) {
			uint64_t from = (uint64_t)rand() % (NS - 1), to = from + (uint64_t)rand() % (NS - from) / 8;
			uint32_t device = (uint32_t)rand() % 2;

			give(g, kernel(device, from, to, TID, (uint64_t)rand() % NS));
			for (uint64_t k = from; k < to; k++)
				busy[device][k] = true;
			from = (uint64_t)i * 10;
			call(g, (uint32_t)rand() % OPS, TID, from, from + 9);
		}
		for (int i = 0; i < 2 * NS; i++) {
			uint64_t at = (uint64_t)i % NS;

			anywhere += busy[i / NS][at];
			in_step += busy[i / NS][at] && at >= 100 && at < 300;
			outside += busy[i / NS][at] && (at < 100 || at >= 400);
		}
		gpu_ops_step(g, &steps[0]);
		gpu_ops_step(g, &steps[1]);
		gpu_ops_divide(g, &steps[0], add, &step);
		gpu_ops_take(g, true, add, &all);
		assert_int_equal(step.ns[0] + step.ns[1] + step.ns[2] + step.ns[3] + step.ns[NONE], in_step);
		assert_int_equal(all.ns[0] + all.ns[1] + all.ns[2] + all.ns[3] + all.ns[NONE], anywhere);
		assert_int_equal(all.outside_ns, outside);
		gpu_ops_free(g);
	}
}

/* With more devices than are kept, the one that has been idle for longest is forgotten, not a busy one. */
TEST(test_many_devices)
{
	enum { OTHERS = 300 };
	struct gpu_ops *g = gpu_ops_new();
	struct sums all = { 0 };

	give(g, kernel(0, 0, 1000, 0, 0));
	for (uint32_t i = 1; i <= OTHERS; i++) {
		struct rec_gpu k = kernel(0, i, i + 1, 0, 0);

		k.h.tgid += i;
		give(g, k);
	}
	give(g, kernel(0, 500, 900, 0, 0)); /* at the same time as the first */
	gpu_ops_take(g, true, add, &all);
	assert_int_equal(all.ns[NONE], 1000 + OTHERS);
	gpu_ops_free(g);
}

/* Beyond the bounds the oldest are only counted, or forgotten, and a step that needs them gets nothing. */
TEST(test_bounds)
{
	struct rec_hdr early = span(TID, 0, 100), late = span(TID, 10 * (GPU_OPS_KERNELS_MAX - 10), 10 * GPU_OPS_KERNELS_MAX);
	struct sums sums = { 0 }, early_sums = { 0 }, late_sums = { 0 };
	struct gpu_ops *g;

	g = gpu_ops_new();
	for (uint64_t i = 0; i <= GPU_OPS_KERNELS_MAX; i++) {
		struct rec_gpu k = kernel(0, 10 * i, 10 * i + 5, 0, 0);

		gpu_ops_kernel(g, &k, GPU_OPS_NONE, add, &sums);
	}
	for (uint64_t i = 0; i <= GPU_OPS_CALLS_MAX; i++)
		call(g, 0, TID + (uint32_t)i % 3, i, i + 1);
	for (uint64_t i = 0; i <= GPU_OPS_STEPS_MAX; i++)
		gpu_ops_step(g, &early);
	assert_int_equal(sums.ns[NONE], 5 * GPU_OPS_KERNELS_MAX / 2);
	gpu_ops_divide(g, &early, add, &early_sums);
	check(&early_sums, 0, 0, 0, 0);
	gpu_ops_divide(g, &late, add, &late_sums);
	check(&late_sums, 0, 0, 0, 50);
	gpu_ops_take(g, true, add, &sums);
	assert_int_equal(sums.ns[NONE], 5 * (GPU_OPS_KERNELS_MAX + 1));
	gpu_ops_free(g);
}

/* ---- in the profile ---- */

static int set_up(void **state)
{
	if (set_up_info(state))
		return -1;
	add_probe("mul_mat", ROLE_OP, PROBE_F_SPAN, NULL, "");
	add_probe("add", ROLE_OP, PROBE_F_SPAN, NULL, "");
	add_probe("work", ROLE_STEP, PROBE_F_SPAN, NULL, "");
	return 0;
}

static void emit_op(struct out *o, uint32_t id, uint64_t from, uint64_t to)
{
	struct rec_function r = { .h = span(TID, from, to), .step = from < 1000 };

	r.h.kind = REC_FUNCTION;
	r.h.id = id;
	EMIT(o, &r);
}

static void emit_kernel(struct out *o, struct rec_gpu k)
{
	k.h.kind = REC_GPU;
	EMIT(o, &k);
}

static void emit_all(struct out *o)
{
	struct rec_step step = { .h = span(TID, 100, 1000) };
	struct rec_gpu_step gpu = { .h = step.h };

	emit_op(o, 0, 100, 200);
	emit_op(o, 1, 300, 400);
	emit_op(o, 1, 1300, 1400);
	step.h.kind = REC_STEP;
	gpu.h.kind = REC_GPU_STEP;
	gpu.h.id = step.h.id = 2;
	share_out(&step, 900);
	EMIT(o, &step);
	emit_kernel(o, kernel(0, 150, 350, TID, 150));
	emit_kernel(o, kernel(0, 340, 500, TID, 310));
	emit_kernel(o, kernel(0, 990, 1100, TID, 900));
	emit_kernel(o, kernel(0, 1350, 1360, TID, 1300));
	EMIT(o, &gpu);
}

TEST_WITH(test_process, set_up, tear_down)
{
	struct out o;

	profile_open(&o, &plain);
	emit_all(&o);
	profile_close(&o);
	assert_int_equal(count(&o), 1);
	assert_body(&o, 0, "op_prof",
		"{\"window\":0,\"pid\":5000000,\"comm\":\"server\",\"ops\":3,\"n_mul_mat\":1,\"n_add\":2,"
		"\"gpu_us\":0.470,\"gpu_unattributed_us\":0.110,\"g_mul_mat_us\":0.200,\"g_add_us\":0.160} "
		"{\"total\":0.300,\"mul_mat\":0.100,\"add\":0.200}");
	read_text(&o);
	validate(&o, true);
	profile_done(&o);
}

TEST_WITH(test_steps, set_up, tear_down)
{
	struct out o;

	probes.op_detail = true;
	profile_open(&o, &plain);
	emit_all(&o);
	profile_close(&o);
	assert_int_equal(count(&o), 2);
	assert_body(&o, 0, "op_prof",
		"{\"step\":0,\"pid\":5000000,\"ops\":2,\"n_mul_mat\":1,\"n_add\":1,"
		"\"gpu_us\":0.360,\"gpu_unattributed_us\":0.010,\"g_mul_mat_us\":0.200,\"g_add_us\":0.150} "
		"{\"total\":0.200,\"mul_mat\":0.100,\"add\":0.100}");
	assert_body(&o, 1, "op_prof",
		"{\"window\":0,\"pid\":5000000,\"comm\":\"server\",\"ops\":1,\"n_add\":1,"
		"\"gpu_us\":0.110,\"gpu_unattributed_us\":0.100,\"g_add_us\":0.010} "
		"{\"total\":0.100,\"add\":0.100}");
	read_text(&o);
	validate(&o, true);
	profile_done(&o);
	probes.op_detail = false;
}

RUN_TESTS(NULL, NULL)
