// SPDX-License-Identifier: BSD-2-Clause
#include "format/inputs.h"

#include <stdbool.h>
#include <string.h>

#include "util/fmt.h"

/* By number; later releases only add some. PyTorch: c10/core/ScalarType.h, and the names of types in C++, which its profiler and its
 * execution traces show. */
static const char *const types[1 << SHAPE_TYPE_BITS] = { "unsigned char", "signed char", "short int", "int", "long int", "c10::Half",
	"float", "double", "c10::complex<c10::Half>", "c10::complex<float>", "c10::complex<double>", "bool", "c10::qint8", "c10::quint8",
	"c10::qint32", "c10::BFloat16", "c10::quint4x2", "c10::quint2x4", "c10::bits1x8", "c10::bits2x4", "c10::bits4x2", "c10::bits8",
	"c10::bits16", "c10::Float8_e5m2", "c10::Float8_e4m3fn", "c10::Float8_e5m2fnuz", "c10::Float8_e4m3fnuz", "short unsigned int",
	"unsigned int", "long unsigned int", "c10::dummy_uint1_7_t<1>", "c10::dummy_uint1_7_t<2>", "c10::dummy_uint1_7_t<3>",
	"c10::dummy_uint1_7_t<4>", "c10::dummy_uint1_7_t<5>", "c10::dummy_uint1_7_t<6>", "c10::dummy_uint1_7_t<7>",
	"c10::dummy_int1_7_t<1>", "c10::dummy_int1_7_t<2>", "c10::dummy_int1_7_t<3>", "c10::dummy_int1_7_t<4>",
	"c10::dummy_int1_7_t<5>", "c10::dummy_int1_7_t<6>", "c10::dummy_int1_7_t<7>", "c10::Float8_e8m0fnu", "c10::Float4_e2m1fn_x2",
	"c10::complex<c10::BFloat16>" };

/* Returns the size; -1: it is not known. */
static int64_t size_at(const uint64_t vals[2], unsigned int i)
{
	static const struct {
		unsigned int at, bits;
	} places[SHAPE_SIZES] = { { SHAPE_COUNT_BITS, SHAPE_BITS }, { SHAPE_COUNT_BITS + SHAPE_BITS, SHAPE_BITS }, { 0, SHAPE_REST_BITS },
		{ SHAPE_REST_BITS, SHAPE_REST_BITS }, { 2 * SHAPE_REST_BITS, SHAPE_LAST_BITS } };
	uint64_t max = (UINT64_C(1) << places[i].bits) - 1, size = vals[i >= 2] >> places[i].at & max;

	return size == max ? -1 : (int64_t)size;
}

/* NULL: unknown. */
static char *write_shape(char *p, const uint64_t vals[2])
{
	unsigned int n = vals[0] & ((1u << SHAPE_COUNT_BITS) - 1);

	p = fmt_lit(p, "[");
	for (unsigned int i = 0; i < n && n <= SHAPE_SIZES; i++) {
		int64_t size = size_at(vals, i);

		if (size < 0)
			return NULL;
		p = fmt_u64(i ? fmt_lit(p, ",") : p, (uint64_t)size);
	}
	return n <= SHAPE_SIZES ? fmt_lit(p, "]") : NULL;
}

/* An undefined tensor has the number after the last. */
static const char *type_name(const struct tensor_args *args, const uint64_t vals[2])
{
	uint64_t type = vals[1] >> (2 * SHAPE_REST_BITS + SHAPE_LAST_BITS);

	return type < args->n_types ? types[type] : NULL;
}

/* In PyTorch's form, a tensor's value is its identity, place and size: all 0, as for one that does not exist, since they are
 * unknown. */
static char *write_tensor(char *p, const struct tensor_args *args, const uint64_t vals[2], enum input_list list)
{
	const char *type = type_name(args, vals);

	if (!type)
		type = list == INPUT_TYPES ? "unknown" : "";
	switch (list) {
	case INPUT_TYPES:
		return fmt_lit(fmt_str(fmt_lit(p, "\"Tensor("), type, strlen(type)), ")\"");
	case INPUT_PROFILER_TYPES:
		return fmt_lit(fmt_str(fmt_lit(p, "\""), type, strlen(type)), "\"");
	default:
		return fmt_lit(p, "[0,0,0,0,0,\"\"]");
	}
}

char *inputs_write(char *p, const struct tensor_args *args, const uint64_t *shapes, enum input_list list)
{
	static const char *const unknown[] = { [INPUT_VALUES] = "\"<unknown>\"", [INPUT_SHAPES] = "[]", [INPUT_TYPES] = "\"Unknown\"", [INPUT_PROFILER_TYPES] = "\"\"" };

	*p++ = '[';
	for (unsigned int i = 0; i < args->n; i++) {
		bool tensor = args->tensors >> i & 1;
		char *end;

		p = i ? fmt_lit(p, ",") : p;
		end = tensor ? write_shape(p, shapes) : NULL; /* which shows whether it is known */
		if (!end)
			p = fmt_str(p, unknown[list], strlen(unknown[list]));
		else
			p = list == INPUT_SHAPES ? end : write_tensor(p, args, shapes, list);
		shapes += tensor ? 2 : 0;
	}
	return fmt_lit(p, "]");
}
