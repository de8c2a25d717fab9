// SPDX-License-Identifier: BSD-2-Clause
/* Where vectors and their elements are, derived from functions that the compiler made for all kinds of structures. */
#include "target/code.h"
#include "unit.h"

#define AS_IN_A_LIBRARY __attribute__((noipa, used, optimize("O2"), no_sanitize("address", "undefined")))

/* Not inlined, like a container's functions. */
void insert(void *set, int id);
AS_IN_A_LIBRARY void insert(void *set, int id)
{
	*(int *)set = id;
}

/* CLASS(name, bytes before the vector, before the members, after them): set_, put_ and add_ of its elements. */
#define CLASS(name, head, gap, rest)                                               \
	struct name##_row {                                                        \
		int32_t id;                                                        \
		char gap_bytes[gap];                                               \
		bool output;                                                       \
		int32_t set[4], pos[4];                                            \
		char rest_bytes[rest];                                             \
	};                                                                         \
	struct name {                                                              \
		char head_bytes[head];                                             \
		struct name##_row *begin, *end;                                    \
	};                                                                         \
	bool name##_set(struct name *o, int i, bool v);                            \
	bool name##_put(struct name *o, int i, const int32_t *pos);                \
	bool name##_add(struct name *o, int i, int id);                            \
	AS_IN_A_LIBRARY bool name##_set(struct name *o, int i, bool v)             \
	{                                                                          \
		if (i < 0 || i >= (int)(o->end - o->begin))                        \
			return false;                                              \
		o->begin[i].output = v;                                            \
		return true;                                                       \
	}                                                                          \
	AS_IN_A_LIBRARY bool name##_put(struct name *o, int i, const int32_t *pos) \
	{                                                                          \
		if (i < 0 || i >= (int)(o->end - o->begin) || !pos)                \
			return false;                                              \
		for (int k = 0; k < (o->begin[i].id == -1 ? 4 : 1); k++)           \
			o->begin[i].pos[k] = pos[k];                               \
		return true;                                                       \
	}                                                                          \
	AS_IN_A_LIBRARY bool name##_add(struct name *o, int i, int id)             \
	{                                                                          \
		if (i < 0 || i >= (int)(o->end - o->begin) || id < 0)              \
			return false;                                              \
		insert(o->begin[i].set, id);                                       \
		return true;                                                       \
	}

CLASS(small, 8, 3, 4)
CLASS(odd, 72, 28, 37)
CLASS(power, 64, 11, 16)
CLASS(tripled, 24, 43, 12)
CLASS(large, 1000, 200, 300)

#define FUNCTIONS(name)                                                                                                          \
	{ #name "_set", { offsetof(struct name, begin), sizeof(struct name##_row), offsetof(struct name##_row, output) } },      \
		{ #name "_put", { offsetof(struct name, begin), sizeof(struct name##_row), offsetof(struct name##_row, pos) } }, \
	{                                                                                                                        \
#name "_add",                                                                                                    \
		{                                                                                                                \
			offsetof(struct name, begin), sizeof(struct name##_row), offsetof(struct name##_row, set)                \
		}                                                                                                                \
	}

/* Functions of another kind. */
int first_id(struct odd *o);
AS_IN_A_LIBRARY int first_id(struct odd *o)
{
	return o->begin->id;
}

void two_vectors(struct odd *o, int i, struct small *other);
AS_IN_A_LIBRARY void two_vectors(struct odd *o, int i, struct small *other)
{
	other->begin[i].output = o->begin != o->end;
}

static bool find(const char *name, struct element *ret)
{
	struct elf_symbol sym;
	struct elf_file *elf;
	bool found;

	assert_int_equal(elf_open("/proc/self/exe", &elf), 0);
	assert_int_equal(elf_find_symbol(elf, name, &sym), 0);
	found = element_find(elf, &sym, ret);
	elf_close(elf);
	return found;
}

#ifdef __x86_64__
TEST(test_found)
{
	static const struct {
		const char *name;
		struct element want;
	} cases[] = { FUNCTIONS(small), FUNCTIONS(odd), FUNCTIONS(power), FUNCTIONS(tripled), FUNCTIONS(large) };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct element e = {};

		if (!find(cases[i].name, &e))
			fail_msg("%s: not found", cases[i].name);
		if (e.vector != cases[i].want.vector || e.size != cases[i].want.size || e.member != cases[i].want.member)
			fail_msg("%s: %u %u %u", cases[i].name, e.vector, e.size, e.member);
	}
}
#endif

TEST(test_not_found)
{
	static const char *const names[] = { "first_id", "two_vectors", "insert", "main", "test_not_found" };
	struct element e = { .size = 7 };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		assert_false(find(names[i], &e));
		assert_int_equal(e.size, 7);
	}
}

RUN_TESTS(NULL, NULL)
