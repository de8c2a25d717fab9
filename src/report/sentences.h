/* SPDX-License-Identifier: BSD-2-Clause */
/* What the report says about steps and times, in words. */
#ifndef INFTRACE_REPORT_SENTENCES_H
#define INFTRACE_REPORT_SENTENCES_H

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include "report/summary.h"
#include "util/text.h"

#define DURATION_MAX 32
#define SENTENCE_MAX 640

/* A buffer that lives as long as the enclosing block. */
#define SENTENCE ((char[SENTENCE_MAX]){ 0 })

/* "183 ms", "41.2 us", "1.85 s": three digits. Returns buf. */
const char *words_duration(char buf[DURATION_MAX], int64_t ns);

/* The same in a buffer of the enclosing block. */
#define DURATION(ns) words_duration((char[DURATION_MAX]){ 0 }, ns)

/* A name of a model, printable and cut, in a buffer of the block; "" for 0. */
#define NAME(m, name) text_printable((char[64]){ 0 }, 64, model_text(m, name))

/* The same of a cause of a gap: a thread, a process, a system call and another thread. */
#define GAP_NAME(m, name) text_printable((char[384]){ 0 }, 384, model_text(m, name))

/* For %llu. */
#define LLU(v) ((unsigned long long)(v))

/* "0.509", "41.2", "10412": three digits, or all of a large number. */
const char *words_rate(char buf[DURATION_MAX], double per_s);

/* "waited 20.0 ms for a CPU": what more time in a state means, for a state of record.h or STATE_OTHER. Returns buf. */
#define PHRASE_MAX 96
const char *words_phrase(char buf[PHRASE_MAX], unsigned int state, int64_t ns);

/* "cpu", ...; "(other)" for STATE_OTHER and "none" for STATE_NONE. */
const char *words_state(unsigned int state);

/* One printable sentence: "step 412, 183 ms instead of 41.0 ms: worker 4711 waited 139 ms for a CPU behind pid 990
 * `cc1plus`". Returns buf. */
const char *words_slow(const struct model *m, const struct process *p, const struct slow_step *slow, char buf[SENTENCE_MAX]);

/* The same for a step that had not ended: "step 16 had not ended after 1.13 s: the calling thread was stopped
 * for 1.13 s by a signal or a debugger". Returns buf. */
const char *words_open(const struct model *m, const struct process *p, const struct slow_step *open, char buf[SENTENCE_MAX]);

/* "2 spinning threads share 1 allowed CPU: ...". Returns buf. */
const char *words_crowd(const struct crowd *c, char buf[SENTENCE_MAX]);

/* "2 spinning threads share 1 CPU (cgroup cpu.max): ...", if sum->limited has threads. Returns buf. */
const char *words_limited(const struct summary *sum, char buf[SENTENCE_MAX]);

/* "sched.schedule (scheduler.py:212)", printable; a long name is cut. Returns buf. */
#define FUNCTION_MAX 112
const char *words_function(const struct model *m, uint32_t function, uint32_t line, char buf[FUNCTION_MAX]);
#define FUNCTION(m, function, line) words_function(m, function, line, (char[FUNCTION_MAX]){ 0 })

/* The cause of several steps: "workers: waited for a CPU behind `cc1plus`". Returns buf. */
const char *words_cause(const struct model *m, const struct cause_sum *cause, char buf[SENTENCE_MAX]);

/* "12 wait, 4 of 4 slots taken, 3 of 512 blocks of the KV cache free": what the scheduler of an engine says of itself in a step, as in
 * struct rec_step; "" if nothing. Returns buf. */
const char *words_scheduler(const uint32_t said[SCHEDULER_VALUES], char buf[PHRASE_MAX]);

/* One sentence about the requests that are left out of the times, and why; false: there are none. */
#define REQUESTS_TEXT_MAX 512
bool requests_left_out(const struct request_summary *rs, char text[REQUESTS_TEXT_MAX]);

/* ---- Puts sentences together piece by piece. ---- */

/* The text so far; what does not fit is cut. */
struct text {
	char *buf;
	size_t size, len;
};

static inline struct text text_in(char *buf, size_t size)
{
	*buf = '\0';
	return (struct text){ .buf = buf, .size = size };
}

static inline void __attribute__((format(printf, 2, 3))) text_add(struct text *t, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(t->buf + t->len, t->size - t->len, fmt, ap);
	va_end(ap);
	if (n > 0)
		t->len += (size_t)n < t->size - t->len ? (size_t)n : t->size - t->len - 1;
}

#endif
