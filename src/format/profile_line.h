/* SPDX-License-Identifier: BSD-2-Clause */
/* The parts of the profile sink, and what they share: the envelope of a line, and pieces of its shape and stages. */
#ifndef INFTRACE_PROFILE_LINE_H
#define INFTRACE_PROFILE_LINE_H

#include <stdbool.h>
#include <string.h>

#include "engine/spec.h"
#include "format/profile.h"
#include "io/writer.h"
#include "requests/step_requests.h"
#include "schema/profile_keys.h"
#include "sink/process_list.h"
#include "sink/sink.h"
#include "util/fmt.h"
#include "waits/causes.h"

/* The most bytes of shape, stage_us and graph_enabled together. syscall_prof is the longest: each name twice, with a number
 * and a time. */
#define PROFILE_BODY_MAX (128 * 1024)

/* Between the last value of the shape and the first stage. */
#define PROFILE_STAGES "}," PROFILE_KEY(stage_us) "{"

/* What all lines of a process have in common. */
struct profile_envelope {
	uint32_t tgid;     /* must be the first member */
	char *head, *tail; /* before shape, after graph_enabled */
	size_t head_len, tail_len;
	bool incomplete, counts; /* counts: its concurrency is the most sequences seen */
	uint32_t seen;
	uint64_t lines;
};

struct profile_lines {
	struct writer *w;
	struct profile_meta meta;
	uint32_t tgid;                 /* the only process; 0: there may be several */
	struct tasks *tasks;           /* for their containers; or NULL */
	struct process_list envelopes; /* struct profile_envelope */
	size_t current;                /* index of the envelope of the current line, or of the last one */
	char *line;
	size_t line_max;
	bool windows; /* shape begins with the number of the window */
	uint32_t window;
	uint32_t seen; /* the most sequences in one step of any process */
	struct path_code *code; /* NULL: stacks are not recorded */
};

/* Begins a line about a process (0: none in particular), up to the place of the first key of the shape,
 * or with windows of the second. */
char *profile_line_begin(struct profile_lines *l, const char *event, uint32_t tgid);

/* p: after the brace that ends stage_us. */
void profile_line_end(struct profile_lines *l, char *p, bool graph);

/* Notes how many sequences a step of the process had. */
void profile_lines_saw(struct profile_lines *l, uint32_t tgid, uint64_t sequences);

/* The process runs another program. */
void profile_lines_exec(struct profile_lines *l, uint32_t tgid);

/* Does not free the writer. */
void profile_lines_clear(struct profile_lines *l);

/* The arguments of a call, as scalars. strs: from its record; NULL leaves strings out. */
char *profile_add_args(char *p, const struct probe_spec *s, const uint64_t *vals, const char *strs);

/* ,"PREFIXKEY": */
char *profile_add_key(char *p, const char *prefix, const char *key);

/* ,"PREFIXcpu":1.000 and so on, for states with a time. */
char *profile_add_states(char *p, const char *prefix, const uint64_t *ns);

/* Time since the start of the recording, 0 before it. */
static inline uint64_t profile_since(const struct recording *rec, uint64_t ns)
{
	return ns > rec->start_boot_ns ? ns - rec->start_boot_ns : 0;
}

/* A share as a decimal number with six places, without a double; 1 if whole is 0. */
char *profile_fmt_share(char *p, uint64_t part, uint64_t whole);

/* ---- pieces; text: a key with the punctuation before and after it ---- */

static inline char *add_string(char *p, const char *text, const char *value)
{
	p = fmt_str(p, text, strlen(text));
	return fmt_json_str(p, value, strlen(value));
}

static inline char *add_u64(char *p, const char *text, uint64_t v)
{
	p = fmt_str(p, text, strlen(text));
	return fmt_u64(p, v);
}

static inline char *add_us(char *p, const char *text, uint64_t ns)
{
	p = fmt_str(p, text, strlen(text));
	return fmt_us(p, ns);
}

static inline char *add_flag(char *p, const char *text, bool v)
{
	p = fmt_str(p, text, strlen(text));
	return v ? fmt_lit(p, "true") : fmt_lit(p, "false");
}

/*
 * Adds a field of schema/profile_fields.h with a value of its type: a number, a flag, a text, or a time in nanoseconds.
 * PUT_FIRST: the first one of an object. PUT_NONZERO: nothing if the value is 0, false or NULL.
 */
#define PUT(p, key, value) PROFILE_PUT(p, ",\"" #key "\":", key, value)
#define PUT_FIRST(p, key, value) PROFILE_PUT(p, "\"" #key "\":", key, value)
#define PUT_NONZERO(p, key, value)                        \
	({                                                \
		__auto_type put_value = (value);          \
		put_value ? PUT(p, key, put_value) : (p); \
	})
#define PROFILE_PUT(p, text, key, value) PROFILE_BY_TYPE(key, add_u64, add_us, add_string, add_flag, add_string, add_string)(p, text, value)

/* Ends the shape and begins the stages. */
#define PUT_TOTAL(p, ns) PUT_FIRST(fmt_lit(p, PROFILE_STAGES), total, ns)

/* Adds the key alone; PUT_KEY_N: of a field with an N in its name, with n in its place. */
#define PUT_KEY(p, key) ((void)sizeof(profile_field_##key), fmt_lit(p, ",\"" #key "\":"))
#define PUT_KEY_N(p, key, n) ((void)sizeof(profile_field_##key), profile_add_key_n(p, #key, n))

/* ,"waited3_for": from waitedN_for and 3 */
static inline char *profile_add_key_n(char *p, const char *key, uint64_t n)
{
	size_t before = strcspn(key, "N");

	p = fmt_str(fmt_lit(p, ",\""), key, before);
	p = fmt_u64(p, n);
	p = fmt_str(p, key + before + 1, strlen(key) - before - 1);
	return fmt_lit(p, "\":");
}

/* ---- token_prof ---- */

/* `lines` and `rec` must outlive this one and those below. */
struct profile_steps *profile_steps_new(struct profile_lines *lines, const struct recording *rec);
void profile_steps_free(struct profile_steps *ps);

/* Writes the step's line, or keeps it. */
void profile_steps_add(struct profile_steps *ps, const struct rec_step *r);

/* From struct step_requests_ops: what the rows of a step were, and that all of them are known. */
void profile_steps_part(struct profile_steps *ps, const struct step_seen *s, const struct request_part *p);
void profile_steps_taken(struct profile_steps *ps, const struct step_seen *s);

/* What the GPU did during a step. */
void profile_steps_gpu(struct profile_steps *ps, const struct rec_gpu_step *r);

/* Adds causes of time within from_ns..to_ns to a shape: the longest, and the rest. Finishes them. code: NULL, or what tells which code it
 * was. */
char *profile_add_path(char *p, const struct recording *rec, const char *prefix, struct causes *c, const struct path_code *code, uint64_t from_ns,
	uint64_t to_ns);

/* Why a step did not begin sooner; comes before the second profile_steps_settled() after the step, if it comes. */
void profile_steps_gap(struct profile_steps *ps, const struct rec_gap *r);
void profile_steps_settled(struct profile_steps *ps);

/* Every record and every loss: for what threads did while the GPU was idle. */
void profile_steps_record(struct profile_steps *ps, const struct rec_hdr *h);
void profile_steps_loss(struct profile_steps *ps, const struct loss *l);

/* Writes the steps that still wait. */
void profile_steps_finish(struct profile_steps *ps);

/* ---- op_prof, graph_prof, sample_prof ---- */

struct frame;

struct profile_ops *profile_ops_new(struct profile_lines *lines, const struct recording *rec);
void profile_ops_free(struct profile_ops *o);

void profile_ops_call(struct profile_ops *o, const struct rec_function *r);

/* An operator's number, and the name of a number, which stays valid. */
uint32_t profile_ops_number(struct profile_ops *o, const struct rec_function *r);
const char *profile_ops_name(const struct profile_ops *o, uint32_t number);

/* A sample that was taken in an operator: its number, and the innermost function. step: as in struct rec_stack. */
void profile_ops_sample(struct profile_ops *o, uint32_t tgid, uint32_t step, uint32_t number, const struct frame *f);

void profile_ops_step(struct profile_ops *o, const struct rec_step *r);
void profile_ops_gpu(struct profile_ops *o, const struct rec_gpu *r);
void profile_ops_gpu_step(struct profile_ops *o, const struct rec_gpu_step *r);

/* See struct sink_ops. */
void profile_ops_settled(struct profile_ops *o);

/* Writes what is left, including the line of the window. */
void profile_ops_finish(struct profile_ops *o);

/* ---- request_prof ---- */

/* steps: is told what the rows of a step were; must outlive it. */
struct profile_requests *profile_requests_new(
	struct profile_lines *lines, const struct recording *rec, struct profile_steps *steps);
void profile_requests_free(struct profile_requests *q);

/* Takes a step's record, before its request is told. */
void profile_requests_step(struct profile_requests *q, const struct rec_step *r);
void profile_requests_gpu(struct profile_requests *q, const struct rec_gpu_step *r);
void profile_requests_gap(struct profile_requests *q, const struct rec_gap *r);

/* Writes what is left. */
void profile_requests_finish(struct profile_requests *q);

/* ---- stack_prof ---- */

/* names: has the numbers of operators; must outlive it. */
struct profile_stacks *profile_stacks_new(struct profile_lines *lines, const struct recording *rec, struct profile_ops *names);
void profile_stacks_free(struct profile_stacks *ps);

void profile_stacks_add(struct profile_stacks *ps, const struct rec_stack *r);
/* A function has ended; only operators in which samples were taken count. */
void profile_stacks_call(struct profile_stacks *ps, const struct rec_function *r);
void profile_stacks_step(struct profile_stacks *ps, const struct rec_step *r);

/* See struct sink_ops. */
void profile_stacks_settled(struct profile_stacks *ps);
/* Another file begins: the frames of each stack are written again. */
void profile_stacks_rotate(struct profile_stacks *ps);

/* Writes what is left. */
void profile_stacks_finish(struct profile_stacks *ps);

#endif
