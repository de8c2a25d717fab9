// SPDX-License-Identifier: BSD-2-Clause
/* One copy of each text, frame and stack, in bounded memory. */
#include "stack/intern.h"
#include "unit.h"

static uint32_t add_frame(struct intern *in, const char *name)
{
	struct frame f = { .kind = FRAME_NATIVE, .name = intern_text(in, name), .rel_pc = 16 };

	return intern_frame(in, &f);
}

TEST(same_is_one)
{
	struct intern *in = intern_new(1 << 20);
	uint32_t f[3] = { add_frame(in, "a"), add_frame(in, "b"), add_frame(in, "a") };
	const uint32_t *frames;

	assert_ptr_equal(intern_text(in, "a"), intern_text(in, "a"));
	assert_null(intern_text(in, NULL));
	assert_int_equal(f[0], f[2]);
	assert_int_not_equal(f[0], f[1]);
	assert_int_equal(intern_stack(in, f, 2), 0);
	assert_int_equal(intern_stack(in, f, 3), 1);
	assert_int_equal(intern_stack(in, f, 2), 0);
	assert_int_equal(intern_get_stack(in, 1, &frames), 3);
	assert_memory_equal(frames, f, sizeof(f));
	assert_string_equal(intern_get_frame(in, f[1])->name, "b");
	assert_int_equal(intern_get_frame(in, f[1])->rel_pc, 16);
	assert_int_equal(intern_get_stack(in, 2, &frames), 0);
	assert_int_equal(intern_get_stack(in, STACK_NONE, &frames), 0);
	assert_null(intern_get_frame(in, 2));
	assert_null(intern_get_frame(in, INTERN_NONE));
	intern_free(in);
}

TEST(texts_are_cleaned)
{
	struct intern *in = intern_new(1 << 20);
	char text[2 * STACK_NAME_MAX];

	assert_string_equal(intern_text(in, "a\n\x1b[2J\x7f;\xff\xc3\xa9"), "a??[2J?;?\xc3\xa9");
	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	assert_int_equal(strlen(intern_text(in, text)), STACK_NAME_MAX - 1);
	/* a character that the end would cut in two */
	memcpy(text + STACK_NAME_MAX - 2, "\xc3\xa9", 2);
	assert_string_equal(intern_text(in, text) + STACK_NAME_MAX - 4, "xx?");
	intern_free(in);
}

TEST(memory_has_a_limit)
{
	struct intern *in = intern_new(1 << 20);
	uint32_t last = INTERN_NONE, n = 0;
	struct intern_counts counts;
	const uint32_t *frames;
	char name[32];

	for (;; n++) {
		uint32_t f, id;

		snprintf(name, sizeof(name), "function_%u", n);
		f = add_frame(in, name);
		id = f == INTERN_NONE ? INTERN_NONE : intern_stack(in, &f, 1);
		if (id == INTERN_NONE)
			break;
		last = id;
	}
	assert_in_range(n, 1000, 10000);
	intern_counts(in, &counts);
	assert_int_equal(counts.frames, n);
	assert_int_equal(counts.stacks, n);
	assert_in_range(counts.memory, (1 << 20) - 70000, 1 << 20);
	/* what was there before still is */
	assert_int_equal(intern_get_stack(in, last, &frames), 1);
	snprintf(name, sizeof(name), "function_%u", n - 1);
	assert_string_equal(intern_get_frame(in, frames[0])->name, name);
	assert_int_equal(intern_stack(in, frames, 1), last);
	intern_free(in);
}

RUN_TESTS(NULL, NULL)
