// SPDX-License-Identifier: BSD-2-Clause
#include "print/print.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "read/detect.h"
#include "read/profile.h"
#include "read/trace.h"
#include "report/model.h"
#include "schema/profile_keys.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/text.h"

#define NAMES_MAX 65536
#define WORDS_MAX 4096 /* of an event */
#define TEXT_SIZE 256  /* of one text in it */
#define OF_NAMES "\"=" /* characters that need quotes in them */
#define OF_VALUES " \"={}"
#define TIME_MIN (INT64_MIN / 4) /* so that differences do not overflow */
#define KEY_NAME(key) #key,
#define PID_MAX_LIMIT 4194304 /* the kernel's; a number above it is no thread */

struct print_line {
	int64_t start_ns, end_ns;
	uint64_t number; /* in the file, which decides between lines that begin together */
	uint32_t pid, tid, cpu;
	bool timed, on_cpu;
	char *text;
};

/* The text of a line; what does not fit is cut, with "...". */
struct words {
	char text[WORDS_MAX];
	size_t len;
};

struct printer {
	const char *path; /* printable */
	struct last last;
	uint64_t bytes_max, bytes, number;
	FILE *out;
	struct print_line *lines;
	size_t n, size;
	struct model names;            /* only its texts */
	struct idmap ids;              /* by pid and tid; of a process tid is 0 */
	int64_t newest_ns, printed_ns; /* the latest end; the latest start of a printed line */
	uint64_t late;                 /* printed after later ones */
	bool damaged, dropped;
};

/* ---- words ---- */

__attribute__((format(printf, 2, 3))) static void words_put(struct words *w, const char *fmt, ...)
{
	va_list ap;
	size_t end;

	va_start(ap, fmt);
	w->len += (size_t)vsnprintf(w->text + w->len, sizeof(w->text) - w->len, fmt, ap);
	va_end(ap);
	if (w->len < sizeof(w->text))
		return;
	w->len = sizeof(w->text) - 1; /* and stays there */
	for (end = w->len - 3; (w->text[end] & 0xc0) == 0x80;)
		end--;
	strcpy(w->text + end, "...");
}

/* Puts a text in quotes if it could be taken for more than a text of its kind. */
static void words_put_text(struct words *w, const char *text, const char *special)
{
	char shown[TEXT_SIZE];

	text_printable(shown, sizeof(shown), text);
	if (*shown && !strpbrk(shown, special) && !strstr(shown, "  ")) {
		words_put(w, "%s", shown);
		return;
	}
	words_put(w, "\"");
	for (const char *p = shown; *p; p++)
		words_put(w, "%s", *p == '"' ? "\\x22" : (char[]){ *p, 0 });
	words_put(w, "\"");
}

/* A value after SEP, as "KEY=VALUE" with its unit, or "KEY={A=1 B=2}"; NULL: nothing. */
static void words_put_value(struct words *w, const char *sep, const char *key, const struct json_node *value, const char *unit)
{
	static const char *const literals[] = { [JSON_NULL] = "null", [JSON_FALSE] = "false", [JSON_TRUE] = "true" };

	if (!value)
		return;
	words_put(w, "%s", sep);
	if (key) {
		words_put_text(w, key, OF_VALUES);
		words_put(w, "=");
	}
	if (value->kind == JSON_STRING) {
		words_put_text(w, value->text, OF_VALUES);
	} else if (node_is_scalar(value)) {
		words_put(w, "%.40s", value->kind < JSON_INT ? literals[value->kind] : value->text);
	} else {
		words_put(w, "{");
		json_for_each (child, value)
			words_put_value(w, child == json_next(value, NULL) ? "" : " ", child->key, child, "");
		words_put(w, "}");
	}
	words_put(w, "%s", unit);
}

/* ---- lines ---- */

static const char *printer_thread_name(const struct printer *p, uint32_t pid, uint32_t tid)
{
	uint32_t id = 0;

	if (!idmap_get(&p->ids, (uint64_t)pid << 32 | tid, &id) && tid)
		return printer_thread_name(p, pid, 0);
	return model_text(&p->names, id);
}

static void printer_set_name(struct printer *p, uint32_t pid, uint32_t tid, const char *text)
{
	if (p->names.names.len < NAMES_MAX && p->ids.len < NAMES_MAX)
		idmap_set(&p->ids, (uint64_t)pid << 32 | tid, model_name(&p->names, text));
}

ORDER(by_start, struct print_line, RISING(start_ns), RISING(number))

static void printer_print_line(struct printer *p, const struct print_line *line)
{
	const char *name = printer_thread_name(p, line->pid, line->tid);
	uint64_t ns = (uint64_t)llabs(line->start_ns);
	char time[48] = "-", cpu[16] = "---";
	struct words thread = { 0 };

	if (line->timed)
		snprintf(time, sizeof(time), "%s%" PRIu64 ".%09" PRIu64, line->start_ns < 0 ? "-" : "", ns / NSEC_PER_SEC, ns % NSEC_PER_SEC);
	if (line->on_cpu)
		snprintf(cpu, sizeof(cpu), "%03" PRIu32, line->cpu);
	if (*name)
		words_put_text(&thread, name, OF_NAMES);
	if ((line->pid | line->tid) && line->pid <= PID_MAX_LIMIT && line->tid <= PID_MAX_LIMIT)
		words_put(&thread, "/%" PRIu32, line->tid ?: line->pid);
	fprintf(p->out, "%15s  [%s]  %-20s  %s\n", time, cpu, thread.text, line->text);
	p->late += line->start_ns < p->printed_ns;
	if (line->start_ns > p->printed_ns)
		p->printed_ns = line->start_ns;
}

/* Removes the first n lines, and prints them if asked to. */
static void printer_remove_lines(struct printer *p, size_t n, bool print)
{
	for (size_t i = 0; i < n; i++) {
		if (print)
			printer_print_line(p, &p->lines[i]);
		p->bytes -= sizeof(struct print_line) + strlen(p->lines[i].text);
		free(p->lines[i].text);
	}
	p->n -= n;
	if (n)
		memmove(p->lines, p->lines + n, p->n * sizeof(*p->lines));
}

/* Sorts the lines, and removes those that `last` does not ask for so far. */
static void printer_sort_lines(struct printer *p)
{
	size_t n = 0;

	for (size_t i = 0; p->last.ns && i < p->n; i++) {
		struct print_line line = p->lines[i];

		if (p->newest_ns - line.end_ns <= (int64_t)p->last.ns)
			continue;
		p->lines[i] = p->lines[n];
		p->lines[n++] = line;
	}
	printer_remove_lines(p, n, false);
	list_sort(p->lines, p->n, by_start);
	if (p->last.n && p->n > p->last.n)
		printer_remove_lines(p, p->n - p->last.n, false);
}

static int printer_add_line(struct printer *p, struct print_line *line, const struct words *w, int64_t dur)
{
	bool all = !p->last.n && !p->last.ns;

	if (ferror(p->out))
		return -EIO;
	line->text = xstrdup(w->text);
	line->number = p->number++;
	line->end_ns = line->start_ns + (dur > 0 ? dur : 0);
	if (line->end_ns > p->newest_ns)
		p->newest_ns = line->end_ns;
	*list_push(p->lines, p->n, p->size) = *line;
	p->bytes += sizeof(*line) + strlen(w->text);
	if (p->bytes <= p->bytes_max)
		return 0;
	printer_sort_lines(p);
	if (p->bytes > p->bytes_max / 2) {
		p->dropped |= !all;
		printer_remove_lines(p, p->n / 2, all);
	}
	return 0;
}

/* ---- events ---- */

/* Reads a time; false if it is missing, or so large that sums could overflow. */
static bool node_read_us(const struct json_node *value, int64_t *ret_ns)
{
	int64_t ns;

	if (node_us_to_ns(value, &ns) < 0 || ns <= TIME_MIN || ns >= -TIME_MIN)
		return false;
	*ret_ns = ns;
	return true;
}

static uint32_t node_read_id(const struct json_node *value)
{
	return node_is(value, JSON_INT) && node_u64(value) <= UINT32_MAX ? (uint32_t)node_u64(value) : 0;
}

static int printer_take_event(void *ctx, const struct trace_event *event)
{
	const char *ph = node_string(event->ph) ?: "", *name = node_string(event->name) ?: "", *cat = node_string(event->cat);
	const struct json_node *cpu = node_get(event->args, "cpu"), *called = node_get(event->args, "name");
	struct print_line line = { .timed = true, .pid = node_read_id(event->pid), .tid = node_read_id(event->tid) };
	bool process = !strcmp(name, "process_name");
	struct words w = { 0 };
	int64_t dur = 0;

	if (!strcmp(ph, "M") && node_string(called) && (process || !strcmp(name, "thread_name")))
		printer_set_name(ctx, line.pid, process ? 0 : line.tid, called->text);
	if (!strcmp(ph, "M") || !node_read_us(event->ts, &line.start_ns))
		return 0;
	if (cat && !strcmp(cat, "cpu") && line.pid > PID_MAX_LIMIT)
		cpu = event->tid; /* the track is a CPU's */
	line.on_cpu = node_is(cpu, JSON_INT) && node_s64(cpu) >= 0 && node_s64(cpu) <= INT32_MAX;
	line.cpu = node_read_id(cpu);
	words_put_text(&w, cat ?: "-", OF_NAMES);
	words_put(&w, " ");
	words_put_text(&w, name, OF_NAMES);
	words_put(&w, " ");
	if (!node_is(event->tid, JSON_INT))
		words_put_value(&w, " ", "tid", event->tid, "");
	if (!*ph || !strchr("XiIC", *ph))
		words_put_value(&w, " ", "ph", event->ph, "");
	words_put_value(&w, " ", "id", event->id, "");
	for (const struct json_node *arg = NULL; node_is(event->args, JSON_OBJECT) && (arg = json_next(event->args, arg));) {
		if (arg != cpu || !line.on_cpu)
			words_put_value(&w, " ", arg->key, arg, "");
	}
	if (!node_is(event->args, JSON_OBJECT))
		words_put_value(&w, " ", "args", event->args, "");
	words_put_value(&w, " ", "dur", event->dur, "us");
	node_read_us(event->dur, &dur);
	return printer_add_line(ctx, &line, &w, dur);
}

/* Reports only the first bad line. */
static void printer_bad_line(void *ctx, uint64_t number, const char *why)
{
	struct printer *p = ctx;

	if (!p->damaged)
		log_error("%s: line %llu: %s; what can be read is printed", p->path, (unsigned long long)number, why);
	p->damaged = true;
}

static void printer_trace_stopped(void *ctx, const struct trace_stop *stop)
{
	printer_bad_line(ctx, stop->line, stop->why);
}

static int printer_take_line(void *ctx, const struct profile_line *in)
{
	/* what tells lines of one event apart */
	static const char *const keys[] = { PROFILE_SHOWN(KEY_NAME) };
	const struct json_node *shape = in->values[PROFILE_KEY_shape], *stages = in->values[PROFILE_KEY_stage_us];
	struct print_line line = { .pid = node_read_id(node_get(shape, KEY(pid))), .tid = node_read_id(node_get(shape, KEY(tid))) };
	const char *comm = node_string(node_get(shape, KEY(comm)));
	struct printer *p = ctx;
	struct words w = { 0 };
	int64_t total = 0, ns;

	words_put_text(&w, node_string(in->values[PROFILE_KEY_event]) ?: "", OF_NAMES);
	words_put(&w, " ");
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		words_put_value(&w, " ", keys[i], node_get(shape, keys[i]), "");
	node_read_us(node_get(stages, KEY(total)), &total);
	words_put_value(&w, " ", "total", node_get(stages, KEY(total)), "us");
	for (const struct json_node *s = NULL; node_is(stages, JSON_OBJECT) && (s = json_next(stages, s));) {
		if (strcmp(s->key, "total") && node_read_us(s, &ns) && ns && ns >= total / 20) /* the short ones are left out */
			words_put_value(&w, " ", s->key, s, "us");
	}
	line.timed = node_read_us(node_get(shape, KEY(ts_us)), &line.start_ns);
	if (!line.timed) /* a sum, placed where it became known */
		line.start_ns = p->newest_ns;
	if (comm)
		printer_set_name(p, line.pid, 0, comm);
	return printer_add_line(p, &line, &w, line.timed ? total : 0);
}

int print_file(const char *path, struct last last, uint64_t bytes_max, FILE *out)
{
	static const struct trace_reader_ops trace_ops = { .event = printer_take_event, .stop = printer_trace_stopped };
	static const struct profile_reader_ops profile_ops = { .line = printer_take_line, .bad = printer_bad_line };
	struct printer p = { .last = last, .bytes_max = bytes_max, .out = out, .newest_ns = TIME_MIN, .printed_ns = TIME_MIN };
	enum file_kind kind = FILE_OTHER;
	char printable[TEXT_SIZE], buf[160];
	struct json_source source;
	struct trace_form form;
	const char *why;
	int err;

	p.path = text_printable(printable, sizeof(printable), path);
	model_init(&p.names);
	err = json_source_open(&source, path);
	why = source.error;
	if (!err)
		kind = file_detect(&source, buf, sizeof(buf), &why);
	if (kind == FILE_TRACE)
		err = trace_read(&source, &trace_ops, &p, &form);
	else if (kind == FILE_PROFILE)
		err = profile_read(&source, &profile_ops, &p);
	else
		err = err ?: -EINVAL;
	if (err && !p.damaged && !ferror(out))
		log_error("%s: %s", p.path, why);
	printer_sort_lines(&p);
	printer_remove_lines(&p, p.n, true);
	if (p.late)
		log_warn("%s: too large to sort: %llu events come after later ones; --last 2s sorts its end", p.path, (unsigned long long)p.late);
	if (p.dropped)
		log_warn("%s: that is too much to sort: of what --last asks for the first ones may be missing", p.path);
	json_source_close(&source);
	model_free(&p.names);
	idmap_free(&p.ids);
	free(p.lines);
	return !err && p.damaged ? -EBADMSG : err;
}
