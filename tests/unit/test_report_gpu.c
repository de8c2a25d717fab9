/* SPDX-License-Identifier: BSD-2-Clause */
/* inftrace report: what GPUs did. */
#include "read/profile.h"
#include "report.h"

#define LINE(number, phase, gpu)                                                                                     \
	"{\"event\":\"token_prof\",\"commit_sha\":null,\"env_hash\":\"sha256:0\",\"model\":\"m\",\"concurrency\":1," \
	"\"shape\":{\"step\":" #number ",\"pid\":7,\"tid\":7,\"phase\":\"" phase "\",\"ts_us\":1" #number "000.000"  \
	"" gpu "},\"stage_us\":{\"total\":100.000,\"cpu\":100.000},\"graph_enabled\":false,\"runtime_flags\":{},"    \
	"\"source\":\"native\"}\n"
#define PARTS(busy, copy, launch, wait, unknown)                                                                \
	",\"gpu_device\":0,\"gpu_kernels\":3,\"gpu_copies\":1,\"gpu_busy_us\":" #busy ",\"gpu_copy_us\":" #copy \
	",\"gpu_idle_launch_us\":" #launch ",\"gpu_idle_wait_us\":" #wait ",\"gpu_unknown_us\":" #unknown       \
	",\"gpu_residual_us\":0.1"

TEST(test_phases)
{
	static const char profile[] = LINE(0, "prefill", PARTS(90, 5, 5, 0, 0)) LINE(1, "decode", PARTS(10, 20, 60, 10, 0))
		LINE(2, "decode", PARTS(30, 20, 40, 10, 0)) LINE(3, "decode", ",\"gpu_lost\":true")
		/* does not add up, and has no share */
		LINE(4, "decode", PARTS(100, 100, 100, 0, 0)) LINE(5, "decode", "");

	REPORT_SAYS(profile, ARGV("-"),
		"\nWhat the GPU did in prefill: GPU-bound\n",
		"  kernels         90.00 % ",
		"\nWhat the GPU did in decode: launch-bound\n",
		"  idle: launch    50.00 % ",
		"  3.0 kernels, 1.0 copies a step\n",
		"  of 1 of 3 steps it is not known: records of the GPU are missing\n");
	REPORT_SAYS(profile, ARGV("-", "--json"), "launch-bound");
}

/* Work left on the GPU after a step counts as the step's, too. */
TEST(test_after)
{
	static const char profile[] =
		LINE(0, "decode", PARTS(30, 0, 70, 0, 0) ",\"gpu_after_us\":50") LINE(1, "decode", PARTS(30, 0, 70, 0, 0) ",\"gpu_after_us\":50");

	REPORT_SAYS(profile, ARGV("-"),
		"\nWhat the GPU did in decode: GPU-bound\n",
		"  after the step the GPU worked for another 50.0 us on what the step had launched\n");
}

#define OTHER(device, kernels, parts) ",\"gpu_device" #device "_kernels\":" #kernels ",\"gpu_device" #device "_copies\":0" parts

/* Several devices; one that a step does not name was idle in it. */
TEST(test_devices)
{
	static const char profile[] =
		LINE(0, "decode", PARTS(90, 0, 10, 0, 0) ",\"gpu_devices\":2" OTHER(0, 2, ",\"gpu_device0_busy_us\":50,\"gpu_device0_idle_wait_us\":50,\"gpu_device0_after_us\":4") OTHER(5, 1, ",\"gpu_device5_busy_us\":40,\"gpu_device5_idle_launch_us\":60"))
			LINE(1, "decode", PARTS(100, 0, 0, 0, 0))
		/* nothing ran */
		LINE(2, "decode", PARTS(0, 0, 100, 0, 0));

	REPORT_SAYS(profile, ARGV("-"),
		"\nWhat the GPUs did in decode: GPU-bound\n",
		"\n  GPU 0   kernels 50.00 %, idle: launch 33.33 %, idle: waits 16.67 %; after the step for another 1.33 us\n"
		"  GPU 5   kernels 13.33 %, idle: launch 86.67 %\n");
	REPORT_SAYS(profile, ARGV("-", "--json"),
		"\"devices\":[{\"device\":0,\"kernels\":5,\"copies\":1,\"gpu_us\":{\"total\":300.000,\"busy\":150.000,\"copy\":0.000,"
		"\"idle_launch\":100.000,\"idle_wait\":50.000,\"collective\":0.000,\"unknown\":0.000},\"after_us\":4.000},"
		"{\"device\":5,\"kernels\":1,");
}

#define GAP(n, us, more) ",\"gpu_gap" #n "_us\":" #us ",\"gpu_gap" #n "_ts_us\":1,\"gpu_gap" #n "_tid\":7" more

/* What the launching thread did in the longest gaps. */
TEST(test_gaps)
{
	static const char profile[] =
		LINE(0, "decode", PARTS(10, 0, 90, 0, 0) GAP(1, 50, ",\"gpu_gap1_state\":\"runnable\",\"gpu_gap1_cpu_us\":10,"
								    "\"gpu_gap1_runnable_us\":40,\"gpu_gap1_by\":\"cc1\\u001b[0m\",\"gpu_gap1_by_tid\":9") GAP(2, 5, ""))
			LINE(1, "decode", PARTS(10, 0, 90, 0, 0) GAP(1, 70, ",\"gpu_gap1_state\":\"blocked_futex\",\"gpu_gap1_blocked_futex_us\":70,"
									    "\"gpu_gap1_call\":\"futex\",\"gpu_gap1_by\":\"worker\",\"gpu_gap1_by_tid\":9") GAP(2, 20, ""))
				LINE(2, "decode", PARTS(10, 0, 90, 0, 0) GAP(1, 60, ",\"gpu_gap1_state\":\"cpu\",\"gpu_gap1_cpu_us\":60,"
										    "\"gpu_gap1_in\":\"sample (s.py:3)\""))
					LINE(3, "prefill", PARTS(10, 0, 90, 0, 0) GAP(1, 90, ",\"gpu_gap1_state\":\"no such\"") GAP(2, 80, ",\"gpu_gap2_state\":\"syscall\",\"gpu_gap2_syscall_us\":80,\"gpu_gap2_call\":\"ioctl\""));

	REPORT_SAYS(profile, ARGV("-"),
		"\n  longest gaps:  70.0 us in step 1, the launching thread waited 70.0 us for a lock in `futex`, woken by `worker`\n"
		"                 60.0 us in step 2, the launching thread computed for 60.0 us in `sample (s.py:3)`\n"
		"                 50.0 us in step 0, the launching thread waited 40.0 us for a CPU behind `cc1\\x1b[0m`\n",
		"\n  longest gaps:  90.0 us in step 3\n"
		"                 80.0 us in step 3, the launching thread was in system calls for 80.0 us, mostly `ioctl`\n");
	REPORT_SAYS(profile, ARGV("-", "--json"),
		"\"gaps\":[{\"step\":3,\"us\":90.000},{\"step\":3,\"us\":80.000,\"text\":\"the launching thread was in");
}

TEST(test_none)
{
	REPORT_SAYS(LINE(0, "decode", ""), ARGV("-"), "!GPU");
}

TEST(test_lost)
{
	REPORT_SAYS(LINE(0, "decode", ",\"gpu_lost\":true"), ARGV("-"), "\nWhat the GPU did in decode\n  of 1 of 1 steps");
}

/* Numbers in keys: written differently, it is another key. */
TEST(test_keys)
{
	static const char *const others[] = { "gpu_gap_us", "gpu_gap1", "gpu_gap01_us", "gpu_gap+1_us", "gpu_gap 1_us", "gpu_gapx_us", "gpu_ga", "",
		"gpu_gap1234567890_us", "workers_gpu_gap1_us" };
	uint32_t n = 77;

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		assert_null(profile_key_numbered(others[i], "gpu_gap", &n));
	assert_int_equal(n, 77);
	assert_string_equal(profile_key_numbered("gpu_gap3_blocked_futex_us", "gpu_gap", &n), "blocked_futex_us");
	assert_int_equal(n, 3);
	assert_string_equal(profile_key_numbered("gpu_gap0_", "gpu_gap", &n), "");
	assert_int_equal(n, 0);
	assert_string_equal(profile_key_numbered("behind123456789_us", "behind", &n), "us");
	assert_int_equal(n, 123456789);
}

RUN_TESTS(NULL, NULL)
