// SPDX-License-Identifier: BSD-2-Clause
#include "engine/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "util/fmt.h"
#include "util/log.h"
#include "util/text.h"

/* Printable UTF-8; the last character may have been cut off. */
static bool string_is_text(const char *s)
{
	size_t len = strnlen(s, FUNC_STR_LEN), i = 0;

	while (i < len) {
		int n = fmt_utf8_scan((const unsigned char *)s + i, len - i);

		if (n < 0 && !(len == FUNC_STR_LEN - 1 && i - (size_t)n == len))
			return false;
		if (((unsigned char)s[i] < 0x20 && !strchr("\t\n\r", s[i])) || s[i] == 0x7f)
			return false;
		i += (size_t)(n < 0 ? -n : n);
	}
	return true;
}

static bool fails_check(const struct probe_spec *s, unsigned int arg, const uint64_t *vals)
{
	for (unsigned int i = 0; i < s->n_checks; i++) {
		if (s->checks[i].arg == arg && !cond_holds(s, &s->checks[i], vals))
			return true;
	}
	return false;
}

/* Returns the fetch as the preset has it: for a USDT probe s->fetch says where the argument is in the file's code. */
static const struct fetch *fetch_of(
	const struct probe_table *pt, const struct probe_spec *s, unsigned int arg)
{
	return s->is_usdt && s->from ? &pt->specs[s->from - 1].fetch[arg] : &s->fetch[arg];
}

/* Whether the argument is read from an engine structure; others are where the ABI puts them. */
static bool is_loaded(const struct fetch *f)
{
	return f->derefs > (f->reg == REG_SP);
}

/* Returns the index of the first argument in use that does not fit; -1: none. */
static int find_misfit(const struct probe_table *pt, const struct probe_spec *s,
	const uint64_t *vals, const char *strs)
{
	for (unsigned int i = 0; i < s->nargs; i++) {
		const struct probe_arg *a = &s->args[i];

		if (s->misfits & 1u << i || !cond_holds(s, &a->only_if, vals))
			continue;
		if (a->is_row && !rows_shown(s, i, vals))
			continue;
		/* without a load this is a value newer than the preset, not another layout */
		if (a->names && is_loaded(fetch_of(pt, s, i)) && !check_enum(a->names, vals[i]))
			return (int)i;
		if (a->is_string && !string_is_text(probe_arg_string(s, i, strs)))
			return (int)i;
		if (fails_check(s, i, vals))
			return (int)i;
	}
	return -1;
}

static bool same_function(const struct probe_spec *a, const struct probe_spec *b)
{
	return a->engine == b->engine && !strcmp(a->symbol, b->symbol) &&
	       !a->library == !b->library && (!a->library || !strcmp(a->library, b->library));
}

/* Turns off all arguments read through the same pointer, in all probes of the function: they are in the same structure. */
static void spec_turn_off_arg(struct probe_table *pt, struct probe_spec *s, unsigned int arg)
{
	const struct fetch *f = fetch_of(pt, s, arg);

	s->misfits |= (uint16_t)(1u << arg);
	if (!is_loaded(f))
		return;
	for (size_t k = 0; k < pt->n; k++) {
		struct probe_spec *other = &pt->specs[k];

		for (unsigned int i = 0; i < other->nargs && same_function(s, other); i++) {
			const struct fetch *g = fetch_of(pt, other, i);

			if (is_loaded(g) && f->reg == g->reg && (f->reg != REG_SP || f->off[0] == g->off[0]))
				other->misfits |= (uint16_t)(1u << i);
		}
	}
}

static void misfit_describe(const struct probe_spec *s, unsigned int arg, const uint64_t *vals,
	const char *strs, char *buf, size_t size)
{
	const struct probe_arg *a = &s->args[arg];
	char text[FUNC_STR_LEN + 1] = "", shown[48];

	if (a->is_string) {
		memcpy(text, probe_arg_string(s, arg, strs), FUNC_STR_LEN);
		snprintf(buf, size, "%s is \"%s\"", a->name,
			text_printable(shown, sizeof(shown), text));
	} else if (a->names && !check_enum(a->names, vals[arg])) {
		snprintf(buf, size, "%s is %" PRIu64 ", which is no %s", a->name, vals[arg],
			a->names->name);
	} else {
		snprintf(buf, size, "%s is %" PRId64, a->name, (int64_t)vals[arg]);
	}
}

static void list_misfits(const struct probe_spec *s, char *buf, size_t size)
{
	size_t n = 0;

	*buf = 0;
	for (unsigned int i = 0; i < s->nargs && n < size; i++) {
		if (s->misfits & 1u << i)
			n += (size_t)snprintf(
				buf + n, size - n, "%s%s", n ? ", " : "", s->args[i].name);
	}
}

/* Returns whether the rows turn out not to fit: structures of another build end the reading of rows. Once all rows of a
 * step could be read, the layout is right, and only this batch is broken. */
static bool rows_misfit(struct probe_spec *s, const uint64_t *vals)
{
	uint64_t n = s->row_struct ? vals[s->row_count - 1] : 0;

	if (s->rows_fit || rows_refused(s) || !n || n > STEP_ROWS_MAX)
		return false;
	s->rows_fit = vals[s->rows_at + ROW_READ] == n;
	if (s->rows_fit)
		return false;
	s->misfits |= (uint16_t)(((1u << ROW_VALUES) - 1) << s->rows_at);
	return true;
}

bool check_values(
	struct probe_table *pt, struct probe_spec *s, const uint64_t *vals, const char *strs)
{
	char seen[256], list[256];
	int arg;

	if (s->checked < CHECK_CALLS) {
		s->checked++;
		if (rows_misfit(s, vals)) {
			list_misfits(s, list, sizeof(list));
			log_warn("the preset %s does not fit this engine: %s: row %" PRIu64 " of %" PRIu64
				 " is no row of a batch; left out: %s, and the requests in it (give one that fits with --engine FILE: "
				 "docs/engines.md)",
				s->engine->name, s->symbol, vals[s->rows_at + ROW_READ], vals[s->row_count - 1], list);
		}
		while ((arg = find_misfit(pt, s, vals, strs)) >= 0) {
			spec_turn_off_arg(pt, s, (unsigned int)arg);
			misfit_describe(s, (unsigned int)arg, vals, strs, seen, sizeof(seen));
			list_misfits(s, list, sizeof(list));
			log_warn("the preset %s does not fit this engine: %s: %s; left out: %s "
				 "(give one that fits with --engine FILE: docs/engines.md)",
				s->engine->name, s->symbol, seen, list);
		}
	}
	for (unsigned int i = 0; i < s->nargs; i++) {
		const struct probe_arg *a = &s->args[i];

		if (!cond_holds(s, &a->only_if, vals))
			continue;
		if (s->misfits & 1u << i) {
			s->left_out++;
		} else if (a->names && !check_enum(a->names, vals[i])) {
			s->left_out++;
			if (s->misfits_late & 1u << i)
				continue;
			s->misfits_late |= (uint16_t)(1u << i);
			misfit_describe(s, i, vals, strs, seen, sizeof(seen));
			log_warn("the preset %s does not know all of this engine: %s: %s; left out "
				 "(give one that does with --engine FILE: docs/engines.md)",
				s->engine->name, s->symbol, seen);
		}
	}
	return s->when.op == WHEN_ALWAYS || !(s->misfits & 1u << s->when.arg);
}

void check_summary(const struct probe_table *pt)
{
	for (size_t i = 0; i < pt->n; i++) {
		const struct probe_spec *s = &pt->specs[i];

		if (s->left_out)
			log_info("%s: %" PRIu64 " values left out that do not fit the preset %s",
				s->symbol, s->left_out, s->engine->name);
	}
}

bool bytes_of_call(const struct probe_spec *s, const uint64_t *vals, uint64_t *ret_bytes)
{
	unsigned int count = s->bytes_count - 1u, type = s->bytes_type;
	uint64_t n;

	if (!s->bytes_count || !check_shown(s, count, vals) || !check_shown(s, type, vals))
		return false;
	if (vals[type] >= s->args[type].names->n || __builtin_mul_overflow(vals[count], s->args[type].names->bytes[vals[type]], &n) ||
		n > INT64_MAX)
		return false;
	*ret_bytes = n;
	return true;
}
