// SPDX-License-Identifier: BSD-2-Clause
#include "format/inputs.h"
#include "unit.h"

#define FIRST (UINT64_C(1) << SHAPE_COUNT_BITS)
#define SECOND (FIRST << SHAPE_BITS)
#define FOURTH (UINT64_C(1) << SHAPE_REST_BITS)
#define FIFTH (FOURTH << SHAPE_REST_BITS)
#define TYPE (FIFTH << SHAPE_LAST_BITS)
#define NO_TYPE (63 * TYPE)

static const char *inputs_of(const struct tensor_args *args, const uint64_t *shapes, enum input_list list)
{
	static char text[INPUTS_TEXT_MAX + 1];

	*inputs_write(text, args, shapes, list) = 0;
	return text;
}

/* As the programs pack them: a number and two sizes, and three more with a type. */
TEST(test_lists)
{
	const struct tensor_args args = { .n = 4, .tensors = 0xb, .n_types = 18 };
	const uint64_t shapes[] = { 5 | 7 * FIRST | 8 * SECOND, 9 | 10 * FOURTH | 65534 * FIFTH | 15 * TYPE, 2 | 0 * FIRST | 1073741822 * SECOND,
		UINT64_MAX, /* sizes and a type that are not known */ UINT64_MAX, UINT64_MAX };

	assert_string_equal(inputs_of(&args, shapes, INPUT_SHAPES), "[[7,8,9,10,65534],[0,1073741822],[],[]]");
	assert_string_equal(inputs_of(&args, shapes, INPUT_TYPES), "[\"Tensor(c10::BFloat16)\",\"Tensor(unknown)\",\"Unknown\",\"Unknown\"]");
	assert_string_equal(inputs_of(&args, shapes, INPUT_PROFILER_TYPES), "[\"c10::BFloat16\",\"\",\"\",\"\"]");
	assert_string_equal(inputs_of(&args, shapes, INPUT_VALUES), "[[0,0,0,0,0,\"\"],[0,0,0,0,0,\"\"],\"<unknown>\",\"<unknown>\"]");
	assert_string_equal(inputs_of(&(struct tensor_args){ 0 }, NULL, INPUT_SHAPES), "[]");
}

/* No sizes; one that does not fit, in either value; more than allowed; and a type that a release does not have. */
TEST(test_unknown)
{
	const struct tensor_args args = { .n = 5, .tensors = 0x1f, .n_types = 18 };
	const uint64_t shapes[10] = { 0, NO_TYPE, 1 | (SECOND - FIRST), 0, 3, FOURTH - 1, SHAPE_SIZES + 1, 0, 1 | 2 * FIRST, 18 * TYPE };

	assert_string_equal(inputs_of(&args, shapes, INPUT_SHAPES), "[[],[],[],[],[2]]");
	assert_string_equal(inputs_of(&args, shapes, INPUT_TYPES),
		"[\"Tensor(unknown)\",\"Unknown\",\"Unknown\",\"Unknown\",\"Tensor(unknown)\"]");
}

/* No list is longer than it may be, whatever the values are; types that are not known yet have no name. */
TEST(test_largest)
{
	const struct tensor_args args = { .n = 32, .tensors = 0x1f, .n_types = 63 };
	uint64_t shapes[10];

	for (uint64_t type = 0; type < 64; type++) {
		for (unsigned int i = 0; i < 10; i += 2) {
			shapes[i] = SHAPE_SIZES | 1073741822 * FIRST | 1073741822 * SECOND;
			shapes[i + 1] = 2097150 | 2097150 * FOURTH | 65534 * FIFTH | type * TYPE;
		}
		for (enum input_list list = INPUT_VALUES; list <= INPUT_PROFILER_TYPES; list++)
			assert_in_range(strlen(inputs_of(&args, shapes, list)), 3 * args.n, INPUTS_TEXT_MAX);
		assert_int_equal(strstr(inputs_of(&args, shapes, INPUT_TYPES), "unknown") != NULL, type > 46);
	}
}

RUN_TESTS(NULL, NULL)
