/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Counters and histograms of what profiles say (docs/profile-schema.md), for systems that watch many hosts.
 *
 * They are sums over all lines that were ever passed in, so that they only grow, and reading the same files again after a
 * restart makes the same values. Each label has a bounded number of values: what is beyond goes to "other".
 */
#ifndef INFTRACE_EXPORT_METRICS_H
#define INFTRACE_EXPORT_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "export/tail.h"
#include "read/profile.h"

#define METRICS_MODELS_MAX 16
#define METRICS_PHASES_MAX 8
#define METRICS_CONTAINERS_MAX 32
#define METRICS_FAMILIES_MAX 32 /* events of other programs */
#define METRICS_STAGES_MAX 64   /* of all of these together */
#define METRICS_LABEL_MAX 128   /* bytes of a value, escaped for a terminal, with the NUL */
#define METRICS_BUCKETS_MAX 20

enum metric_unit {
	UNIT_NONE,
	UNIT_SECONDS, /* kept in nanoseconds */
};

enum metric {
	METRIC_TTFT,
	METRIC_FIRST_STEP,
	METRIC_TPOT,
	METRIC_DURATION,
	METRIC_QUEUED,
	METRIC_REQUESTS,
	METRIC_REQUEST_PART,
	METRIC_REFUSED,
	METRIC_PREEMPTIONS,
	METRIC_RECOMPUTED_TOKENS,
	METRIC_PROMPT_TOKENS,
	METRIC_OUTPUT_TOKENS,
	METRIC_STEP,
	METRIC_STATE,
	METRIC_STEP_TOKENS,
	METRIC_STEPS_CUT,
	METRIC_STEPS_LOST,
	METRIC_STEPS_NO_STATES,
	METRIC_TRACER,
	METRIC_GPU,
	METRIC_LOST,
	METRIC_UNCOVERED,
	METRIC_RECORDED,
	METRIC_FOREIGN_LINES,
	METRIC_FOREIGN_DURATION,
	METRIC_FOREIGN_STAGE,
	METRIC_MAX,
};

/* The labels of metrics: each metric has the ones in its mask. */
enum metric_label {
	LABEL_MODEL,
	LABEL_CONTAINER, /* ... and the pod that it is in are one value */
	LABEL_POD,
	LABEL_OPERATION,
	LABEL_SOURCE,
	LABEL_PHASE,
	LABEL_EVENT, /* ... and who wrote it are one value */
	LABEL_WRITER,
	LABEL_STATE, /* its values and its name depend on the metric */
	LABEL_MAX,
};

struct metric_about {
	const char *name; /* with dots, as OpenTelemetry has it */
	const char *help;
	const uint64_t *bounds; /* of a histogram, in nanoseconds, in order; NULL: a counter */
	size_t n_bounds;
	enum metric_unit unit;
	unsigned int labels; /* bits by enum metric_label */
	const char *state;   /* the name of LABEL_STATE */
};

/* The slowest recent request in a bucket. */
struct metric_exemplar {
	uint64_t ns;
	int64_t at_ms;  /* when it was read; 0: none */
	uint64_t line;  /* of the profile */
	uint64_t ts_us; /* from the start of the recording */
	char file[64];  /* name of the profile, without its directory */
};

struct metric_series {
	enum metric metric;
	uint64_t count, sum;                   /* a counter has only the sum; seconds are in nanoseconds */
	uint64_t buckets[METRICS_BUCKETS_MAX]; /* not cumulative; the last one in use is beyond all bounds */
	const struct metric_exemplar *exemplars;
};

struct metrics;

struct metrics *metrics_new(void);
void metrics_free(struct metrics *m);

const struct metric_about *metric_about(enum metric metric);
/* The name of a label, with dots. */
const char *metric_label_name(enum metric metric, enum metric_label label);

/* Takes one line of the profile `file` (its path, printable). Unknown values count nothing; events that inftrace does not have
 * count as foreign. now_ms: from a clock that does not jump. */
void metrics_line(struct metrics *m, const struct profile_line *line, const char *file, int64_t now_ms);

/*
 * Calls each() for all series, those of a metric together and in the same order each time. values: of the labels that
 * the metric has; NULL for others, and for one that is not known.
 */
typedef void (*metrics_each_fn)(void *ctx, const struct metric_series *series, const char *const values[LABEL_MAX]);
void metrics_each(struct metrics *m, metrics_each_fn each, void *ctx);

/* Metrics as Prometheus reads them: its text format 0.0.4, or OpenMetrics 1.0, which has exemplars as well. */

/* What was sent to a collector. */
struct otlp_sent {
	uint64_t sent;    /* bodies that arrived */
	uint64_t failed;  /* tries that failed */
	uint64_t dropped; /* requests whose spans were given up */
};

/* What the exporter says of itself. */
struct metrics_own {
	const struct tail_counts *files;
	bool otlp;
	struct otlp_sent sent;
};

/* Whether a client that sends this header (NULL: none) wants OpenMetrics. */
bool metrics_accepts_openmetrics(const char *accept);

const char *metrics_text_type(bool openmetrics);

/* The caller frees the text. */
char *metrics_text(struct metrics *m, const struct metrics_own *own, bool openmetrics, size_t *ret_len);

#endif
