// SPDX-License-Identifier: BSD-2-Clause
/* Names of operators, from declarations in this program's own read-only data. */
#include "engine/sites.h"
#include "unit.h"

/* In the section that is searched; the compiler may not drop any. */
static const char *const volatile texts[] = {
	"test_add.Tensor(Tensor self, Tensor other) -> Tensor",
	"test_add_(Tensor(a!) self) -> Tensor(a!)",
	"test_sum.dim_IntList(Tensor self) -> Tensor",
	"xtest_merged.int(Tensor self) -> Tensor",
	"test_text(is no declaration)",
	"test_empty.(Tensor self) -> Tensor",
	"0test(Tensor self) -> Tensor",
	"test_space (Tensor self) -> Tensor",
	"test_pair(Tensor self) -> (Tensor(a!) values, Tensor indices)",
	"test_part(Tensor(a -> *) self) -> Tensor(a)[]",
	"test_parts(Tensor[] self) -> ()",
	"test_count(Tensor self) -> int",
	"test_scheme(Tensor self) -> QScheme",
	"xtest_either(Tensor self) -> Tensor",
	"ytest_either(Tensor self) -> int",
};

static const char *find(const struct declared *d, const char *name)
{
	int result;

	return declared_find(d, name, strlen(name), &result);
}

static int result_of(const struct declared *d, const char *name)
{
	int result;

	assert_non_null(declared_find(d, name, strlen(name), &result));
	return result;
}

TEST(test_names)
{
	static const char *const absent[] = { "test_add", "test_text", "test_empty", "0test", "test_space", "zzz", "" };
	/* how a result is returned; for the last it is unknown which of two it is part of */
	static const struct {
		const char *name;
		int result;
	} results[] = { { "test_add_Tensor", 1 }, { "test_add_", 0 }, { "test_pair", 1 }, { "test_part", 1 },
		{ "test_parts", 0 }, { "test_count", 0 }, { "test_scheme", -1 }, { "test_merged_int", 1 }, { "test_either", -1 } };
	struct declared d = {};
	struct elf_file *elf;
	int result;

	assert_true(texts[0][0]);
	assert_int_equal(elf_open("/proc/self/exe", &elf), 0);
	declared_read(elf, &d);
	elf_close(elf);
	assert_string_equal(find(&d, "test_add_Tensor"), "test_add.Tensor");
	assert_string_equal(find(&d, "test_add_"), "test_add_");
	assert_string_equal(find(&d, "test_sum_dim_IntList"), "test_sum.dim_IntList");
	assert_string_equal(find(&d, "test_merged_int"), "test_merged.int"); /* part of another one */
	/* no more of the name than the length covers */
	assert_string_equal(declared_find(&d, "test_add_Tensor2", 15, &result), "test_add.Tensor");
	for (size_t i = 0; i < ARRAY_SIZE(absent); i++)
		assert_null(find(&d, absent[i]));
	for (size_t i = 0; i < ARRAY_SIZE(results); i++)
		assert_int_equal(result_of(&d, results[i].name), results[i].result);
	declared_clear(&d);
	assert_null(find(&d, "test_add_"));
}

#ifdef __x86_64__

/* Beginnings of at::native::size() as in libraries, and code that differs. */
#define CODE(name, bytes)                                                                                         \
	asm(".pushsection .text." #name ", \"ax\", @progbits\n.type " #name ", @function\n" #name ":\n.byte " bytes \
	    "\n.size " #name ", . - " #name "\n.popsection\n")
#define LOAD_1_13 "0x55, 0x53, 0x48, 0x89, 0xf3, 0x48, 0x83, 0xec, 0x08, 0x48, 0x8b, 0x2f, 0x48, 0x8b, 0x75, 0x48, 0x48, 0x89, 0xf0,"
#define JUMP_1_13 "0x77, 0x7b,"
#define LOAD_2_14 "0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x83, 0xec, 0x18, 0x4c, 0x8b, 0x07, 0x49, 0x8b, 0x70, 0x38, 0x48, 0x89, 0xf0,"
#define JUMP_2_14 "0x0f, 0x87, 0x9e, 0x00, 0x00, 0x00,"
CODE(size_1_13, LOAD_1_13 "0x48, 0x83, 0xfe, 0x05," JUMP_1_13 "0x48, 0x8d, 0x55, 0x50");	       /* lea rdx, [rbp + 80] */
CODE(size_2_14, LOAD_2_14 "0x48, 0x83, 0xfe, 0x05," JUMP_2_14 "0x49, 0x83, 0xc0, 0x40");	       /* add r8, 64 */
CODE(size_other_number, LOAD_1_13 "0x48, 0x83, 0xfe, 0x06," JUMP_1_13 "0x48, 0x8d, 0x55, 0x50");      /* cmp rsi, 6 */
CODE(size_other_register, LOAD_1_13 "0x48, 0x83, 0xf8, 0x05," JUMP_1_13 "0x48, 0x8d, 0x55, 0x50");    /* cmp rax, 5 */
CODE(size_elsewhere, LOAD_1_13 "0x48, 0x83, 0xfe, 0x05," JUMP_1_13 "0x48, 0x8d, 0x55, 0x58");	       /* lea rdx, [rbp + 88] */
CODE(size_of_another, LOAD_1_13 "0x48, 0x83, 0xfe, 0x05," JUMP_1_13 "0x48, 0x8d, 0x57, 0x50");	       /* lea rdx, [rdi + 80] */
CODE(size_cut, LOAD_1_13 "0x48, 0x83, 0xfe, 0x05, 0x77");
CODE(size_no_code, "0x06, 0x07, 0x0e, 0x16");

/* Likewise of is_complex(). */
#define TYPE_1_13 "0x48, 0x8b, 0x07, 0x0f, 0xb7, 0xb8, 0xb0, 0x00, 0x00, 0x00,"
#define TYPE_2_14 "0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x8b, 0x07, 0x0f, 0xb7, 0xb8, 0xa0, 0x00, 0x00, 0x00,"
CODE(type_1_13, TYPE_1_13 "0x66, 0x83, 0xff, 0x12, 0x77, 0x0e");
CODE(type_2_14, TYPE_2_14 "0x66, 0x83, 0xff, 0x2f, 0x77, 0x1c");
CODE(type_too_many, TYPE_2_14 "0x66, 0x83, 0xff, 0x40, 0x77, 0x1c");
CODE(type_not_compared, TYPE_2_14 "0x8d, 0x47, 0xf8, 0x66, 0x83, 0xff, 0x12"); /* lea eax, [rdi - 8] */
CODE(type_wider, TYPE_2_14 "0x83, 0xff, 0x12, 0x77, 0x1c");
CODE(type_of_another, "0x48, 0x8b, 0x06, 0x0f, 0xb7, 0xb8, 0xb0, 0x00, 0x00, 0x00, 0x66, 0x83, 0xff, 0x12"); /* mov rax, [rsi] */
CODE(type_cut, "0x48, 0x8b, 0x07, 0x0f, 0xb7, 0xb8, 0xb0, 0x00, 0x00, 0x00");

TEST(test_layout)
{
	static const struct {
		const char *name;
		uint32_t offset, types;
	} cases[] = {
		{ "size_1_13", 72, 0 },
		{ "size_2_14", 56, 0 },
		{ "type_1_13", 176, 18 },
		{ "type_2_14", 160, 47 },
		{ "size_other_number", 0, 0 },
		{ "size_other_register", 0, 0 },
		{ "size_elsewhere", 0, 0 },
		{ "size_of_another", 0, 0 },
		{ "size_cut", 0, 0 },
		{ "size_no_code", 0, 0 },
		{ "size_missing", 0, 0 },
		{ "type_too_many", 0, 0 },
		{ "type_not_compared", 0, 0 },
		{ "type_wider", 0, 0 },
		{ "type_of_another", 0, 0 },
		{ "type_cut", 0, 0 },
		{ "type_missing", 0, 0 },
	};
	struct elf_file *elf;

	assert_int_equal(elf_open("/proc/self/exe", &elf), 0);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		bool sizes = !strncmp(cases[i].name, "size", 4);
		struct tensor_args t = {};

		tensor_layout_find(elf, sizes ? cases[i].name : "", sizes ? "" : cases[i].name, &t);
		if ((sizes ? t.sizes : t.types) != cases[i].offset || t.n_types != cases[i].types)
			fail_msg("%s: %u, %u of %u", cases[i].name, t.sizes, t.types, t.n_types);
	}
	elf_close(elf);
}

#endif

/* Symbols of PyTorch 1.13, and two of 2.14, with the registers in which their tensors were found. */
TEST(test_tensors)
{
	static const struct {
		const char *symbol;
		int result;
		unsigned int n, tensors, regs, index;
	} known[] = {
		{ "_ZN2at4_ops10add_Tensor4callERKNS_6TensorES4_RKN3c106ScalarE", 1, 3, 0x3, 0x6, 0 },
		{ "_ZN2at4_ops7add_out4callERKNS_6TensorES4_RKN3c106ScalarERS2_", 0, 4, 0xb, 0xb, 0 },
		{ "_ZN2at4_ops9embedding4callERKNS_6TensorES4_lbb", 1, 5, 0x3, 0x6, 0 },
		{ "_ZN2at4_ops10layer_norm4callERKNS_6TensorEN3c108ArrayRefIlEERKNS5_8optionalIS2_EESB_db", 1, 6, 0xd, 0x32,
			SHAPE_FLAG_FIRST << 2 * REG_ARG5 | SHAPE_FLAG_FIRST << 2 * REG_ARG6 },
		{ "_ZN2at4_ops10layer_norm4callERKNS_6TensorEN3c108ArrayRefINS5_6SymIntEEERKSt8optionalIS2_ESC_db", 1, 6, 0xd, 0x32,
			SHAPE_FLAG_LAST << 2 * REG_ARG5 | SHAPE_FLAG_LAST << 2 * REG_ARG6 },
		{ "_ZN2at4_ops3cat4callERKN3c108IListRefINS_6TensorEEEl", 1, 2, 0, 0, 0 },
		{ "_ZN2at4_ops9lstm_cell4callERKNS_6TensorEN3c108ArrayRefIS2_EES4_S4_RKNS5_8optionalIS2_EESB_", 1, 6, 0xd, 0x32, 0 },
		{ "_ZN2at4_ops10index_put_4callERNS_6TensorERKN3c104ListINS4_8optionalIS2_EEEERKS2_b", 0, 4, 0x5, 0x5, 0 },
		/* the last one is on the stack */
		{ "_ZN2at4_ops12elu_backward4callERKNS_6TensorERKN3c106ScalarES8_S8_bS4_", 1, 6, 0x1, 0x2, 0 },
		/* an optional number takes two registers, a floating-point one none */
		{ "_ZN2at4_ops10argmax_out4callERKNS_6TensorEN3c108optionalIlEEbRS2_", 0, 4, 0x9, 0x11, 0 },
		{ "_ZN2at4_ops10argmax_out4callERKNS_6TensorESt8optionalIlEbRS2_", 0, 4, 0x9, 0x11, 0 },
		{ "_ZN2at4_ops8uniform_4callERNS_6TensorEddN3c108optionalINS_9GeneratorEEE", 0, 4, 0x1, 0x1, 0 },
		{ "_Z1fdN3c108optionalIdEERKN2at6TensorE", 0, 3, 0x4, 0x2, 0 },
		/* what takes two does not fit, but what follows does */
		{ "_Z1flllllN3c108ArrayRefIlEERKN2at6TensorE", 0, 7, 0x40, 0x20, 0 },
		/* no more than a record has room for */
		{ "_Z1fRKN2at6TensorES2_S2_S2_S2_S2_", 0, 6, 0x1f, 0x1f, 0 },
		/* after an unknown argument, and with an unknown result */
		{ "_Z1fRKN2at6TensorE7unknownS2_", 0, 3, 0x1, 0x1, 0 },
		{ "_ZN2at4_ops10add_Tensor4callERKNS_6TensorES4_RKN3c106ScalarE", -1, 3, 0, 0, 0 },
		{ "_Z1fv", 0, 0, 0, 0, 0 },
		{ "", 0, 0, 0, 0, 0 },
		{ "_ZN2at4_ops", 0, 0, 0, 0, 0 },
		{ "not_mangled", 0, 0, 0, 0, 0 },
		{ "_Z1fRKN2at6TensorEllllllllllllllllllllllllllllllllllllllll", 0, 32, 0x1, 0x1, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		const struct tensor_args layout = { .sizes = 72, .types = 176, .n_types = 18, .tensors = 1 };
		struct tensor_args t;

		tensor_args_read(known[i].symbol, known[i].result, &layout, &t);
		assert_int_equal(t.n, known[i].n);
		assert_int_equal(t.tensors, known[i].tensors);
		assert_int_equal(t.regs, known[i].regs);
		if (known[i].index)
			assert_int_equal(t.index, known[i].index);
		assert_int_equal(t.sizes, 72);
		assert_int_equal(t.types, 176);
		assert_int_equal(t.n_types, 18);
	}
}

RUN_TESTS(NULL, NULL)
