// SPDX-License-Identifier: BSD-2-Clause
#include "report/op_code.h"

#include <errno.h>

#include "report/code_inner.h"
#include "report/read.h"
#include "util/chance.h"

int op_code_add(struct code_tree *t, struct stack_times *s, const struct stack_row *row, uint32_t op)
{
	/* the function itself: the innermost one */
	struct op_code code = { .op = op, .function = t->nodes[row->node].function };
	uint64_t key = (uint64_t)op << 32 | code.function;
	uint32_t i;

	if (!idmap_get(&s->by_op, key, &i)) {
		if (t->n_ops >= STACK_OPS_MAX) {
			s->ops_cut = true;
			return 0;
		}
		if (array_reserve(&s->ops, s->n_ops + 1, &s->ops_size, sizeof(*s->ops)) ||
			idmap_set(&s->by_op, key, (uint32_t)s->n_ops))
			return -ENOMEM;
		i = (uint32_t)s->n_ops++;
		s->ops[i] = code;
		t->n_ops++;
	}
	s->ops[i].samples += row->samples;
	return 0;
}

static void add_function(const struct code_tree *t, struct op_hot *hot, const struct op_code *code)
{
	hot->of += code->samples;
	if (t->functions[code->function].kind == CODE_UNKNOWN)
		return;
	if (code->samples > hot->samples) {
		hot->next = hot->samples;
		hot->samples = code->samples;
		hot->function = code->function;
	} else if (code->samples > hot->next) {
		hot->next = code->samples;
	}
}

void op_code_finish(const struct code_tree *t, struct process *p)
{
	uint32_t row;

	for (size_t i = 0; i < p->stacks.n_ops && !p->stacks.ops_cut; i++) {
		const struct op_code *code = &p->stacks.ops[i];

		if (idmap_get(&p->ops.by_name, code->op, &row))
			add_function(t, &p->ops.rows[row].hot, code);
	}
}

bool op_code_is_clear(const struct op_hot *hot)
{
	return chance_is_clear((double)hot->samples, (double)hot->next);
}
