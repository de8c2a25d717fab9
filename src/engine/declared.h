/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The names that a library has for its operators, from their declarations, which lie in it as text: PyTorch's
 * "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor" is its function add_Tensor.
 */
#ifndef INFTRACE_ENGINE_DECLARED_H
#define INFTRACE_ENGINE_DECLARED_H

#include <stddef.h>

#include "engine/engine.h"
#include "target/elf.h"

struct declared {
	char *text;
	const char **names; /* in `text`, in the order of those of the functions */
	size_t n;
};

/* *ret is all 0 before, and stays so for a file without any. The caller clears it. */
void declared_read(struct elf_file *elf, struct declared *ret);
void declared_clear(struct declared *d);

/* "add.Tensor" for add_Tensor; NULL: it is not declared. The last part of a mangled name. ret_result: 1: its result is returned in memory,
 * whose address is the first argument; 0: in registers; -1: not known. */
const char *declared_find(const struct declared *d, const char *name, size_t len, int *ret_result);

/* Where PyTorch has the sizes of a tensor, for struct tensor_args. 0: its code does not show that, or this is no x86_64. */
uint32_t tensor_sizes_find(struct elf_file *elf, const char *function);

/* The arguments of a function; result: of declared_find(). Those from the first one on of which it is not known how it is passed are no
 * tensors. */
void tensor_args_read(const char *symbol, int result, uint32_t sizes, struct tensor_args *ret_tensors);

#endif
