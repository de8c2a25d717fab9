// SPDX-License-Identifier: BSD-2-Clause
#include "ggml.h"

/* Not exported and not const, as in ggml: a tracer finds the names through .symtab. */
static const char *GGML_OP_NAME[GGML_OP_COUNT] = {
	[GGML_OP_NONE] = "NONE",
	[GGML_OP_ADD] = "ADD",
	[GGML_OP_RMS_NORM] = "RMS_NORM",
	[GGML_OP_MUL_MAT] = "MUL_MAT",
	[GGML_OP_GET_ROWS] = "GET_ROWS",
	[GGML_OP_SET_ROWS] = "SET_ROWS",
	[GGML_OP_ROPE] = "ROPE",
	[GGML_OP_FLASH_ATTN_EXT] = "FLASH_ATTN_EXT",
	[GGML_OP_GLU] = "GLU",
};

const char *ggml_op_name(enum ggml_op op)
{
	return op < GGML_OP_COUNT && GGML_OP_NAME[op] ? GGML_OP_NAME[op] : "?";
}
