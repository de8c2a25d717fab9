/* SPDX-License-Identifier: BSD-2-Clause */
/* inftrace report: what GPUs did. */
#include "report.h"

#define LINE(number, phase, gpu)                                                                                       \
	"{\"event\":\"token_prof\",\"commit_sha\":null,\"env_hash\":\"sha256:0\",\"model\":\"m\",\"concurrency\":1,"   \
	"\"shape\":{\"step\":" #number ",\"pid\":7,\"tid\":7,\"phase\":\"" phase "\",\"ts_us\":1" #number "000.000"    \
	"" gpu "},\"stage_us\":{\"total\":100.000,\"cpu\":100.000},\"graph_enabled\":false,\"runtime_flags\":{},"      \
	"\"source\":\"native\"}\n"
#define PARTS(busy, copy, launch, wait, unknown)                                                                     \
	",\"gpu_device\":0,\"gpu_kernels\":3,\"gpu_copies\":1,\"gpu_busy_us\":" #busy ",\"gpu_copy_us\":" #copy      \
	",\"gpu_idle_launch_us\":" #launch ",\"gpu_idle_wait_us\":" #wait ",\"gpu_unknown_us\":" #unknown            \
	",\"gpu_residual_us\":0.1"

static void test_phases(void **state)
{
	static const char profile[] = LINE(0, "prefill", PARTS(90, 5, 5, 0, 0)) LINE(1, "decode", PARTS(10, 20, 60, 10, 0))
		LINE(2, "decode", PARTS(30, 20, 40, 10, 0)) LINE(3, "decode", ",\"gpu_lost\":true")
		/* does not add up, and has no share */
		LINE(4, "decode", PARTS(100, 100, 100, 0, 0)) LINE(5, "decode", "");
	struct output r;

	(void)state;
	RUN(&r, profile, "-");
	assert_int_equal(r.rc, 0);
	assert_contains(r.out, "\nWhat the GPU did in prefill: GPU-bound\n");
	assert_contains(r.out, "  kernels         90.00 % ");
	assert_contains(r.out, "\nWhat the GPU did in decode: launch-bound\n");
	assert_contains(r.out, "  idle: launch    50.00 % ");
	assert_contains(r.out, "  3.0 kernels, 1.0 copies a step\n");
	assert_contains(r.out, "  of 1 of 3 steps it is not known: records of the GPU are missing\n");
	output_free(&r);
	RUN(&r, profile, "-", "--json");
	assert_int_equal(r.rc, 0);
	assert_contains(r.out, "launch-bound");
	output_free(&r);
}

static void test_none(void **state)
{
	struct output r;

	(void)state;
	RUN(&r, LINE(0, "decode", ""), "-");
	assert_int_equal(r.rc, 0);
	assert_null(strstr(r.out, "GPU"));
	output_free(&r);
}

static void test_lost(void **state)
{
	struct output r;

	(void)state;
	RUN(&r, LINE(0, "decode", ",\"gpu_lost\":true"), "-");
	assert_int_equal(r.rc, 0);
	assert_contains(r.out, "\nWhat the GPU did in decode\n  of 1 of 1 steps");
	output_free(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_phases),
		cmocka_unit_test(test_none),
		cmocka_unit_test(test_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
