// SPDX-License-Identifier: BSD-2-Clause
/* Names of operators, from the declarations that this very program has in its read-only data. */
#include "engine/declared.h"
#include "unit.h"

/* Kept where they are looked for; the compiler may not leave any out. */
static const char *const volatile texts[] = {
	"test_add.Tensor(Tensor self, Tensor other) -> Tensor",
	"test_add_(Tensor(a!) self) -> Tensor(a!)",
	"test_sum.dim_IntList(Tensor self) -> Tensor",
	"xtest_merged.int(Tensor self) -> Tensor",
	"test_text(is no declaration)",
	"test_empty.(Tensor self) -> Tensor",
	"0test(Tensor self) -> Tensor",
	"test_space (Tensor self) -> Tensor",
};

static const char *find(const struct declared *d, const char *name)
{
	return declared_find(d, name, strlen(name));
}

TEST(test_names)
{
	struct declared d;
	struct elf_file *elf;

	assert_true(texts[0][0]);
	assert_int_equal(elf_open("/proc/self/exe", &elf), 0);
	assert_int_equal(declared_read(elf, &d), 0);
	elf_close(elf);
	assert_string_equal(find(&d, "test_add_Tensor"), "test_add.Tensor");
	assert_string_equal(find(&d, "test_add_"), "test_add_");
	assert_string_equal(find(&d, "test_sum_dim_IntList"), "test_sum.dim_IntList");
	assert_string_equal(find(&d, "test_merged_int"), "test_merged.int"); /* a part of another one */
	/* no more of the name than the length says */
	assert_string_equal(declared_find(&d, "test_add_Tensor2", 15), "test_add.Tensor");
	assert_null(find(&d, "test_add"));
	assert_null(find(&d, "test_text"));
	assert_null(find(&d, "test_empty"));
	assert_null(find(&d, "0test"));
	assert_null(find(&d, "test_space"));
	assert_null(find(&d, "zzz"));
	assert_null(find(&d, ""));
	declared_clear(&d);
	assert_null(find(&d, "test_add_"));
}

RUN_TESTS(NULL, NULL)
