// SPDX-License-Identifier: BSD-2-Clause
/* inftrace report: CPU costs of steps and operators, and when they are called memory- or compute-bound. */
#include "report.h"

#include "report/costs.h"

#define LINE(event, shape, stages)                                                                                  \
	"{\"event\":\"" event "\",\"commit_sha\":null,\"env_hash\":\"sha256:0\",\"model\":\"m\",\"concurrency\":1," \
	"\"shape\":{" shape "},\"stage_us\":{" stages "},\"graph_enabled\":false,\"runtime_flags\":{},"             \
	"\"source\":\"native\"}\n"
#define STEP(number, phase, counts)                                                                                                 \
	LINE("token_prof", "\"step\":" #number ",\"pid\":7,\"tid\":7,\"phase\":\"" phase "\",\"ts_us\":1" #number "000.000" counts, \
		"\"total\":100.000,\"cpu\":100.000")
#define COUNTS(instructions, cycles, misses) \
	",\"instructions\":" #instructions ",\"cycles\":" #cycles ",\"llc_misses\":" #misses ",\"ipc\":1.0"

static const char *bound_of(uint64_t instructions, uint64_t cycles, uint64_t misses, bool known)
{
	struct count_sum s = { .of = 1, .all = 1, .n = { instructions, cycles, misses }, .missed_of = known };
	const char *bound = counts_bound(&s);

	return bound ? bound : "";
}

/* Both limits of both rules. */
TEST(test_rule)
{
	assert_string_equal(bound_of(6399, 6400, 100, true), "memory-bound");
	assert_string_equal(bound_of(6400, 6400, 100, true), "");
	assert_string_equal(bound_of(6399, 6400, 99, true), "");
	assert_string_equal(bound_of(12800, 6400, 99, true), "compute-bound");
	assert_string_equal(bound_of(12799, 6400, 99, true), "");
	assert_string_equal(bound_of(12800, 6400, 100, true), "");
	assert_string_equal(bound_of(100, 6400, 0, true), "");
	/* nothing is said about what was not counted */
	assert_string_equal(bound_of(6399, 6400, 100, false), "");
	assert_string_equal(bound_of(12800, 6400, 0, false), "");
	assert_string_equal(bound_of(1, 0, 1, true), "");
	assert_string_equal(bound_of(UINT64_MAX, UINT64_MAX, UINT64_MAX, true), "");
}

TEST(test_phases)
{
	static const char profile[] = STEP(0, "prefill", COUNTS(30000000, 10000000, 1000)) STEP(1, "decode", COUNTS(4000000, 10000000, 300000))
		STEP(2, "decode", COUNTS(6000000, 10000000, 100000)) STEP(3, "decode", ",\"counters_shared\":true");

	REPORT_SAYS(profile, ARGV("-"),
		"\nWhat prefill cost the CPU: compute-bound\n  3.00 instructions a cycle, at least 0.01 bytes from memory a cycle\n",
		"\nWhat decode cost the CPU: memory-bound\n  0.50 instructions a cycle, at least 1.28 bytes from memory a cycle\n"
		"  5.0 million instructions a step, on the thread that calls it\n  of 1 of 3 steps it is not known\n");
	REPORT_SAYS(profile, ARGV("-", "--json"),
		"\"counters\":[{\"phase\":\"prefill\",\"steps\":1,\"counted\":1,\"instructions\":30000000,\"cycles\":10000000,"
		"\"llc_misses\":1000,\"ipc\":3",
		"\"bound\":\"memory-bound\"");
}

/* Where some steps, or the machine, have no count of misses, the sum of the others is not the total. */
TEST(test_no_misses)
{
	static const char profile[] = STEP(0, "decode", COUNTS(4000000, 10000000, 300000))
		STEP(1, "decode", ",\"instructions\":4000000,\"cycles\":10000000,\"ipc\":0.4");

	REPORT_SAYS(profile, ARGV("-"), "\nWhat decode cost the CPU\n  0.40 instructions a cycle\n");
	REPORT_SAYS(profile, ARGV("-", "--json"),
		"!llc_misses",
		"!\"bound\"");
}

TEST(test_operators)
{
	static const char profile[] = STEP(0, "decode", "")
		LINE("op_prof", "\"window\":0,\"pid\":7,\"ops\":9,\"n_mul_mat\":4,\"n_add\":4,\"n_get\":1,\"instructions_mul_mat\":5000,\"cycles_mul_mat\":10000,"
				"\"llc_misses_mul_mat\":400,\"counted_mul_mat\":3,\"instructions_get\":300,\"cycles_get\":100,\"llc_misses_get\":0",
			"\"total\":100.000,\"mul_mat\":60.000,\"add\":30.000,\"get\":10.000");

	REPORT_SAYS(profile, ARGV("-"),
		"\n    0.50 instructions a cycle, at least 2.56 bytes from memory a cycle: memory-bound\n  add ",
		"\n    3.00 instructions a cycle, at least 0.00 bytes from memory a cycle: compute-bound\n",
		"!cost the CPU");
	REPORT_SAYS(profile, ARGV("-", "--json"),
		"\"counted\":3,\"instructions\":5000,\"cycles\":10000,\"llc_misses\":400,\"ipc\":0.5");
}

/* A file may claim anything: sums stop at their limit, and a non-number counts as none. */
TEST(test_hostile)
{
	static const char profile[] = STEP(0, "a", COUNTS(18446744073709551615, 18446744073709551615, 1)) STEP(1, "a", COUNTS(18446744073709551615, 5, 5))
		STEP(2, "b", COUNTS(-1, 0, 0)) STEP(3, "c", ",\"instructions\":\"x\",\"cycles\":true,\"llc_misses\":[]") STEP(4, "d", ",\"cycles\":7");

	REPORT_SAYS(profile, ARGV("-"),
		"\nWhat a cost the CPU\n  1.00 instructions a cycle, at least 0.00 bytes from memory a cycle\n",
		"!What b cost",
		"!What c cost",
		"!What d cost");
}

RUN_TESTS(NULL, NULL)
