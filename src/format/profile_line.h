/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the parts of the profile sink: the envelope of a line, and pieces of its shape and
 * stages. */
#ifndef INFTRACE_PROFILE_LINE_H
#define INFTRACE_PROFILE_LINE_H

#include <stdbool.h>
#include <string.h>

#include "engine/engine.h"
#include "format/profile.h"
#include "io/writer.h"
#include "schema/profile_keys.h"
#include "sink/process_list.h"
#include "util/fmt.h"

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
	bool incomplete, counts; /* counts: the most sequences that were seen are its concurrency */
	uint32_t seen;
	uint64_t lines;
};

struct profile_lines {
	struct writer *w;
	struct profile_meta meta;
	uint32_t tgid; /* the only process; 0: there may be several */
	struct tasks *tasks; /* which know containers; or NULL */
	struct process_list envelopes; /* struct profile_envelope */
	size_t current; /* of the current line, or of the last one */
	char *line;
	size_t line_max;
	bool windows; /* shape begins with the number of the window */
	uint32_t window;
	uint32_t seen; /* sequences in one step, of any process */
};

/* Begins a line about a process (0: none in particular), up to the place of the first key of the shape,
 * or with windows of the second. NULL: no memory. */
char *profile_line_begin(struct profile_lines *l, const char *event, uint32_t tgid);

/* p: after the brace that ends stage_us. */
void profile_line_end(struct profile_lines *l, char *p, bool graph);

/* A step of the process had so many sequences. */
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

/* A share as a decimal number with six places, without a double; of nothing it is all. */
char *profile_fmt_share(char *p, uint64_t part, uint64_t whole);

/* ---- pieces; key: with the punctuation before and after it ---- */

static inline char *add_string(char *p, const char *key, const char *value)
{
	p = fmt_str(p, key, strlen(key));
	return fmt_json_str(p, value, strlen(value));
}

static inline char *add_u64(char *p, const char *key, uint64_t v)
{
	p = fmt_str(p, key, strlen(key));
	return fmt_u64(p, v);
}

static inline char *add_us(char *p, const char *key, uint64_t ns)
{
	p = fmt_str(p, key, strlen(key));
	return fmt_us(p, ns);
}

#endif
