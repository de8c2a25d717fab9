// SPDX-License-Identifier: BSD-2-Clause
#include "report/stacks.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "read/profile.h"
#include "report/model.h"
#include "schema/profile_keys.h"
#include "util/chance.h"

/* ---- frames ---- */

#define LINE_MAX ((1u << 24) - 1)
#define ELLIPSIS "..."

/* Libraries that are nobody's own code: they work for their callers. */
static const char *const system_files[] = { "libc", "libpthread", "libm", "libdl", "librt", "ld-linux", "ld-musl",
	"libstdc++", "libgcc_s", "[vdso]", "vdso", "linux-vdso", "libpython", "python" };

/* "libc.so.6", "libc-2.36.so", "python3.11", but neither "libcuda.so" nor "python_server". */
static bool file_is_system(const char *file, size_t len)
{
	list_for_each (name, system_files, sizeof(system_files) / sizeof(system_files[0])) {
		size_t n = strlen(*name);

		if (n <= len && !memcmp(file, *name, n) && (n == len || strchr(".-0123456789", file[n])))
			return true;
	}
	return false;
}

/* The "(file:line)" or "[library]" at the end of a frame, after a blank; NULL if there is none. */
static const char *frame_find_place(const char *text, size_t len)
{
	char end = len ? text[len - 1] : '\0', open = end == ']' ? '[' : '(';

	if (end != ']' && end != ')')
		return NULL;
	for (size_t i = len - 1; i > 0; i--) {
		if (text[i] == open && text[i - 1] == ' ')
			return text + i;
	}
	return NULL;
}

/* Takes the ":line" off the file at the end. Returns the new length of the text in front of ")". */
static size_t frame_cut_line(const char *place, size_t len, uint32_t *ret_line)
{
	size_t at = len;
	unsigned long line;

	while (at > 0 && place[at - 1] >= '0' && place[at - 1] <= '9')
		at--;
	if (at == len || len - at > 9 || at < 2 || place[at - 1] != ':')
		return len;
	line = strtoul(place + at, NULL, 10);
	*ret_line = line < LINE_MAX ? (uint32_t)line : LINE_MAX;
	return at - 1;
}

/* Joins the name and the place where it is, each cut if it is too long, between characters of UTF-8. */
static void frame_join_name(struct code_frame *f, const char *name, size_t name_len, const char *place, size_t place_len,
	const char *end)
{
	const char *ellipsis = "";
	size_t room;

	/* the end of a path says more */
	for (; place_len > CODE_NAME_MAX / 3 || (place_len && (*place & 0xc0) == 0x80); place_len--)
		place++;
	room = CODE_NAME_MAX - place_len - strlen(end);
	if (name_len > room) {
		ellipsis = *place == '(' || *place == '[' ? ELLIPSIS " " : ELLIPSIS;
		name_len = room - strlen(ELLIPSIS) - 2;
		while (name_len > 0 && (name[name_len] & 0xc0) == 0x80)
			name_len--;
	}
	snprintf(f->text, sizeof(f->text), "%.*s%s%.*s%s", (int)name_len, name, ellipsis, (int)place_len, place, end);
}

void code_frame_parse(const char *text, size_t len, struct code_frame *ret)
{
	const char *place = frame_find_place(text, len);
	size_t place_len = place ? (size_t)(text + len - place) : 0, inner;

	ret->line = 0;
	ret->kind = CODE_NATIVE;
	if (!len || text[0] == '[') {
		ret->kind = CODE_UNKNOWN; /* "[unknown]", "[cut]" */
	} else if (place && place[0] == '(') {
		/* a name in C++ may end in ")" as well, but then it is followed by its library */
		ret->kind = CODE_PYTHON;
		inner = frame_cut_line(place, place_len - 1, &ret->line);
		frame_join_name(ret, text, (size_t)(place - text), place, inner, ")");
		return;
	} else if (place && place_len == 8 && !memcmp(place, "[kernel]", 8)) {
		ret->kind = CODE_KERNEL;
	} else if (place && file_is_system(place + 1, place_len - 2)) {
		ret->kind = CODE_SYSTEM;
	}
	if (!len)
		frame_join_name(ret, "[unknown]", 9, "", 0, "");
	else
		frame_join_name(ret, text, len - place_len, place ? place : "", place_len, "");
}

/* ---- the hottest function of each operator ---- */

/* Adds samples in an operator. The caller leaves out those of a thread waiting at a barrier within it: they say nothing of
 * the operator's code. */
static void op_code_add(struct code_tree *t, struct stack_times *s, const struct stack_row *row, uint32_t op)
{
	/* the function itself: the innermost one */
	struct op_code code = { .op = op, .function = t->nodes[row->node].function };
	uint64_t key = step_key(op, code.function);
	uint32_t i;

	if (!idmap_get(&s->by_op, key, &i)) {
		s->ops_cut |= t->n_ops >= STACK_OPS_MAX;
		if (t->n_ops >= STACK_OPS_MAX)
			return;
		i = idmap_number(&s->by_op, key, s->n_ops);
		*list_add(s, ops) = code;
		t->n_ops++;
	}
	s->ops[i].samples += row->samples;
}

void op_code_finish(const struct code_tree *t, struct process *p)
{
	uint32_t row;

	for (size_t i = 0; i < p->stacks.n_ops && !p->stacks.ops_cut; i++) {
		const struct op_code *code = &p->stacks.ops[i];
		struct op_hot *hot;

		if (!idmap_get(&p->ops.by_name, code->op, &row))
			continue;
		hot = &p->ops.rows[row].hot;
		hot->of += code->samples;
		if (t->functions[code->function].kind == CODE_UNKNOWN)
			continue;
		if (code->samples > hot->samples) {
			hot->next = hot->samples;
			hot->samples = code->samples;
			hot->function = code->function;
		} else if (code->samples > hot->next) {
			hot->next = code->samples;
		}
	}
}

bool op_code_is_clear(const struct op_hot *hot)
{
	return chance_is_clear((double)hot->samples, (double)hot->next);
}

/* ---- lines of stacks ---- */

void code_tree_free(struct code_tree *t)
{
	free(t->nodes);
	free(t->functions);
	idmap_free(&t->by_call);
	idmap_free(&t->by_name);
}

void stack_times_free(struct stack_times *s)
{
	free(s->rows);
	free(s->sums);
	free(s->first);
	free(s->slow);
	free(s->longer);
	free(s->ops);
	idmap_free(&s->by_op);
	free(s->wakers);
	idmap_free(&s->by_waker);
	idmap_free(&s->by_key);
}

/* Whether what happens in the function is its own doing, and not done for its caller. */
static bool function_is_own(const struct code_tree *t, uint32_t function)
{
	return t->functions[function].kind == CODE_NATIVE || t->functions[function].kind == CODE_PYTHON;
}

bool code_is_called(const struct code_tree *t, uint32_t node, uint32_t function)
{
	for (; node != CODE_ROOT; node = t->nodes[node].parent) {
		if (t->nodes[node].function == function)
			return true;
	}
	return false;
}

/* Returns -E2BIG if there are too many. */
static int code_add_function(struct model *m, const char *text, enum code_kind kind, uint32_t *ret)
{
	struct code_tree *t = &m->code;
	struct code_function function = { .kind = (uint8_t)kind };

	if (t->n_functions >= STACK_FUNCTIONS_MAX)
		return -E2BIG;
	function.name = model_name(m, text);
	*ret = idmap_number(&t->by_name, function.name, t->n_functions);
	if (*ret == t->n_functions)
		*list_add(t, functions) = function;
	return 0;
}

static int code_tree_add_node(struct code_tree *t, uint32_t parent, uint32_t function, uint32_t line, uint32_t *ret)
{
	uint64_t key = (uint64_t)parent << 44 | (uint64_t)function << 24 | line;
	const struct code_node *caller = &t->nodes[parent];
	struct code_node node = { .parent = parent, .function = function, .line = line };
	int err;

	_Static_assert(STACK_NODES_MAX <= 1u << 20 && STACK_FUNCTIONS_MAX <= 1u << 20, "they fit the key");
	if (idmap_get(&t->by_call, key, ret))
		return 0;
	if (t->n_nodes >= STACK_NODES_MAX)
		return -E2BIG;
	node.depth = (uint16_t)(caller->depth + 1);
	node.outermost = !code_is_called(t, parent, function);
	node.held_by = !function_is_own(t, function) && function_is_own(t, caller->held_by) ? caller->held_by : function;
	if (!line && caller->plain == parent) {
		node.plain = (uint32_t)t->n_nodes;
	} else {
		err = code_tree_add_node(t, caller->plain, function, 0, &node.plain);
		if (err)
			return err;
	}
	*ret = (uint32_t)t->n_nodes;
	idmap_set(&t->by_call, key, *ret);
	*list_add(t, nodes) = node;
	return 0;
}

static void tree_begin(struct model *m)
{
	static const char *const texts[] = {
		[CODE_ROOT] = "all",
		[CODE_UNKNOWN_STACK] = "[unknown stack]",
		[CODE_LEFT_OUT] = "[left out]",
	};
	struct code_tree *t = &m->code;
	struct code_node root = { 0 };
	uint32_t node;

	for (uint32_t i = 0; !(t->n_nodes > CODE_LEFT_OUT) && i <= CODE_LEFT_OUT; i++) {
		code_add_function(m, texts[i], CODE_UNKNOWN, &root.function);
		root.held_by = root.function;
		if (i)
			code_tree_add_node(t, CODE_ROOT, root.function, 0, &node);
		else
			*list_add(t, nodes) = root;
	}
}

/* Finds the node of a stack, whose frames are innermost first; CODE_LEFT_OUT if there is no room. -EINVAL: a frame is no
 * string. */
static int code_add_stack(struct model *m, const struct json_node *frames, uint32_t *ret_node)
{
	struct code_tree *t = &m->code;
	struct code_frame frame;
	const char *text;
	bool cut = false;
	size_t n = 0;
	int err = 0;

	json_for_each (value, frames) {
		cut = n == STACK_DEPTH_MAX;
		if (cut || err)
			break;
		text = node_string(value);
		if (!text)
			return -EINVAL;
		code_frame_parse(text, strlen(text), &frame);
		t->path[n].line = frame.line;
		err = code_add_function(m, frame.text, frame.kind, &t->path[n++].function);
	}
	*ret_node = n ? CODE_ROOT : CODE_UNKNOWN_STACK;
	if (cut)
		*ret_node = CODE_LEFT_OUT;
	while (!err && n--)
		err = code_tree_add_node(t, *ret_node, t->path[n].function, t->path[n].line, ret_node);
	t->cut_deep += !err && cut;
	t->cut_nodes += err != 0;
	if (err)
		*ret_node = CODE_LEFT_OUT;
	return 0;
}

/* The node of a line's stack, whose frames are in the first line with its id. *ret_why: what is wrong with the line. */
static uint32_t code_find_stack(struct model *m, struct stack_ids *ids, const struct json_node *frames, uint64_t id,
	const char **ret_why)
{
	uint32_t node = CODE_UNKNOWN_STACK;

	if (!frames && idmap_get(&ids->nodes, id, &node))
		return node;
	if (!frames || code_add_stack(m, frames, &node)) {
		m->code.unknown++;
		*ret_why = frames ? "frames is not an array of strings" : "no line before this one has the frames of its stack";
		return CODE_UNKNOWN_STACK;
	}
	if (ids->nodes.len < STACK_IDS_MAX || idmap_get(&ids->nodes, id, &(uint32_t){ 0 }))
		idmap_set(&ids->nodes, id, node);
	return node;
}

static void add_sum(struct code_tree *t, struct stack_times *s, const struct stack_row *row, uint32_t phase)
{
	struct stack_sum sum = { .phase = phase, .node = row->node, .state = row->state, .wait = row->wait };
	uint64_t key = (uint64_t)phase << 32 | (uint64_t)row->wait << 31 | (uint64_t)row->state << 20 | row->node;
	struct stack_row left_out = *row;
	uint32_t i;

	if (!idmap_get(&s->by_key, key, &i)) {
		if (t->n_sums >= STACK_SUMS_MAX && row->node != CODE_LEFT_OUT) {
			t->cut_nodes++;
			left_out.node = CODE_LEFT_OUT;
			add_sum(t, s, &left_out, phase);
			return;
		}
		i = idmap_number(&s->by_key, key, s->n_sums);
		*list_add(s, sums) = sum;
		t->n_sums++;
	}
	s->sums[i].ns = ns_add(s->sums[i].ns, row->ns);
	s->sums[i].samples += row->samples;
}

/* Returns why the line cannot be used, or NULL. */
static const char *row_values(const struct json_node *shape, const struct json_node *stages, struct stack_row *row,
	bool *ret_in_step)
{
	const char *state = node_string(node_get(shape, KEY(state)));
	const struct json_node *step = node_get(shape, KEY(step)), *samples = node_get(shape, KEY(samples));
	unsigned int hint = 0;
	int known;

	if (!state)
		return "shape.state is not a string";
	known = read_state(state, &hint);
	row->state = known < 0 ? STATE_OTHER : (uint8_t)known;
	if (!read_us(node_get(stages, KEY(total)), &row->ns))
		return "stage_us.total is not a number >= 0";
	*ret_in_step = step != NULL;
	if (step && !read_u32(step, &row->step))
		return "shape.step is not a number >= 0";
	row->samples = 1;
	if (samples && (!read_u32(samples, &row->samples) || !row->samples))
		return "shape.samples is not a number > 0";
	read_u32(node_get(shape, KEY(tid)), &row->tid);
	return NULL;
}

/* Adds a wait, if its line says who ended it. */
static void waker_code_add(struct model *m, struct stack_times *s, const struct json_node *shape, const struct stack_row *row,
	uint32_t phase)
{
	const char *text = node_string(node_get(shape, KEY(woken_by)));
	struct waker_sum w = { .phase = phase, .state = row->state, .function = m->code.nodes[row->node].held_by };
	struct code_frame frame;
	uint64_t key = 0;
	uint32_t i;

	if (text) {
		code_frame_parse(text, strlen(text), &frame);
		code_add_function(m, frame.text, frame.kind, &w.by);
	}
	w.thread = model_name(m, node_string(node_get(shape, KEY(waker))));
	if (!w.thread && !w.by)
		return;
	for (size_t k = 0; k < 5; k++)
		key = (key ^ (const uint32_t[]){ w.phase, w.state, w.function, w.by, w.thread }[k]) * 0x9e3779b97f4a7c15u;
	while (idmap_get(&s->by_waker, key, &i) &&
		(s->wakers[i].phase != phase || s->wakers[i].state != w.state || s->wakers[i].function != w.function ||
			s->wakers[i].by != w.by || s->wakers[i].thread != w.thread))
		key++;
	if (!idmap_get(&s->by_waker, key, &i)) {
		if (m->code.n_wakers >= STACK_WAKERS_MAX)
			return;
		i = idmap_number(&s->by_waker, key, s->n_wakers);
		*list_add(s, wakers) = w;
		m->code.n_wakers++;
	}
	s->wakers[i].ns = ns_add(s->wakers[i].ns, row->ns);
}

const struct waker_sum *waker_code_find(const struct stack_times *s, uint32_t phase, uint8_t state, uint32_t function)
{
	const struct waker_sum *most = NULL;

	list_for_each (w, s->wakers, s->n_wakers) {
		if (w->phase == phase && w->state == state && w->function == function && (!most || w->ns > most->ns))
			most = w;
	}
	return most;
}

const char *stack_times_read(struct model *m, struct process *p, struct stack_ids *ids, const struct json_node *frames,
	const struct json_node *shape, const struct json_node *stages, uint32_t recording)
{
	const char *kind = node_string(node_get(shape, KEY(kind))), *why = NULL, *bad;
	const struct json_node *id = node_get(shape, KEY(stack));
	struct stack_row row = { .recording = recording };
	struct stack_times *s = &p->stacks;
	uint32_t phase, op = 0;
	bool in_step;

	if (id && !node_is(id, JSON_INT))
		return "shape.stack is not a number";
	if (frames && !node_is(frames, JSON_ARRAY))
		return "frames is not an array of strings";
	tree_begin(m);
	row.node = id ? code_find_stack(m, ids, frames, node_u64(id), &why) : CODE_UNKNOWN_STACK;
	row.wait = kind && !strcmp(kind, "wait");
	/* other kinds, such as wakers, have no time, but later lines may use their stack */
	if (!kind || (!row.wait && strcmp(kind, "sample")))
		return why;
	bad = row_values(shape, stages, &row, &in_step);
	if (bad)
		return bad;
	phase = model_name(m, node_string(node_get(shape, KEY(phase))));
	row.no_phase = in_step && !phase && m->code.n_rows < STACK_ROWS_MAX;
	if (in_step && !phase)
		phase = s->unknown_phase = model_name(m, "unknown");
	if (!row.no_phase)
		add_sum(&m->code, s, &row, phase);
	if (!row.wait && row.state != ST_BARRIER)
		op = model_name(m, node_string(node_get(shape, KEY(op))));
	if (row.wait && !row.no_phase)
		waker_code_add(m, s, shape, &row, phase);
	if (op)
		op_code_add(&m->code, s, &row, op);
	if (in_step && m->code.n_rows >= STACK_ROWS_MAX) {
		m->code.cut_rows += row.samples;
	} else if (in_step) {
		m->code.n_rows++;
		*list_add(s, rows) = row;
	}
	return why;
}

void stack_times_finish(struct model *m, struct process *p)
{
	struct stack_times *s = &p->stacks;
	size_t n_steps = p->steps.len;
	struct idmap by_number = { 0 };
	struct stack_row *sorted;
	uint32_t *steps, *at; /* steps: of each row; n_steps: none */

	if (!s->n_rows)
		return;
	steps = xreallocarray(NULL, s->n_rows, sizeof(*steps));
	sorted = xreallocarray(NULL, s->n_rows, sizeof(*sorted));
	s->first = xcalloc(n_steps + 2, sizeof(*s->first));
	for (size_t i = 0; i < n_steps; i++)
		idmap_set(&by_number, step_key_at(&p->steps, i), (uint32_t)i);
	for (size_t i = 0; i < s->n_rows; i++) {
		uint32_t phase = s->unknown_phase;

		steps[i] = (uint32_t)n_steps;
		if (idmap_get(&by_number, step_key(s->rows[i].recording, s->rows[i].step), &steps[i]))
			phase = (uint32_t)steps_get(&p->steps, steps[i], STEP_PHASE);
		if (s->rows[i].no_phase)
			add_sum(&m->code, s, &s->rows[i], phase);
	}
	/* first[i + 1] becomes the end of step i, once its rows are placed from first[i] on */
	at = s->first + 1;
	for (size_t i = 0; i < s->n_rows; i++)
		at[steps[i]]++;
	for (size_t i = 0, sum = 0; i <= n_steps; i++) {
		size_t n = at[i];

		at[i] = (uint32_t)sum;
		sum += n;
	}
	for (size_t i = 0; i < s->n_rows; i++)
		sorted[at[steps[i]]++] = s->rows[i];
	free(s->rows);
	s->rows = sorted;
	idmap_free(&by_number);
	free(steps);
}
