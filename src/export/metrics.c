// SPDX-License-Identifier: BSD-2-Clause
#include "export/metrics.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <unistd.h>

#include "schema/profile_keys.h"
#include "util/map.h"
#include "util/names.h"
#include "util/text.h"

#define EXEMPLAR_MS 300000 /* a slower request keeps its place against newer ones for this long */
#define LABEL_OTHER 0xfe   /* number of "other", for values beyond the maximum */
#define LABEL_NONE 0xff

/* ---- the metrics ---- */

#define US(n) (UINT64_C(n) * 1000)
#define MS(n) (UINT64_C(n) * 1000000)

/* The boundaries of the GenAI conventions of OpenTelemetry, see open-telemetry/semantic-conventions,
 * docs/gen-ai/gen-ai-metrics.md; vLLM has the same up to 10 s for the first token. */
static const uint64_t ttft_bounds[] = { MS(1), MS(5), MS(10), MS(20), MS(40), MS(60), MS(80), MS(100), MS(250), MS(500),
	MS(750), MS(1000), MS(2500), MS(5000), MS(7500), MS(10000) };
static const uint64_t tpot_bounds[] = { MS(10), MS(25), MS(50), MS(75), MS(100), MS(150), MS(200), MS(300), MS(400), MS(500),
	MS(750), MS(1000), MS(2500) };
static const uint64_t duration_bounds[] = { MS(10), MS(20), MS(40), MS(80), MS(160), MS(320), MS(640), MS(1280), MS(2560),
	MS(5120), MS(10240), MS(20480), MS(40960), MS(81920) };
static const uint64_t step_bounds[] = { US(100), US(250), US(500), MS(1), US(2500), MS(5), MS(10), MS(25), MS(50), MS(100),
	MS(250), MS(500), MS(1000), MS(2500), MS(5000), MS(10000) };
/* fewer, since there is a histogram per state */
static const uint64_t state_bounds[] = { US(10), US(30), US(100), US(300), MS(1), MS(3), MS(10), MS(30), MS(100), MS(300), MS(1000) };

#define LEN(a) (sizeof(a) / sizeof((a)[0]))
#define BOUNDS(b) .bounds = (b), .n_bounds = LEN(b)
#define BIT(label) (1u << LABEL_##label)
#define OF_PROCESS (BIT(MODEL) | BIT(CONTAINER) | BIT(POD))
#define OF_REQUEST (OF_PROCESS | BIT(OPERATION) | BIT(SOURCE))
#define OF_STEP (OF_PROCESS | BIT(PHASE))
#define OF_FOREIGN (BIT(EVENT) | BIT(WRITER))

_Static_assert(LEN(ttft_bounds) < METRICS_BUCKETS_MAX && LEN(step_bounds) < METRICS_BUCKETS_MAX, "one is beyond all bounds");

static const struct metric_about abouts[METRIC_MAX] = {
	[METRIC_TTFT] = { "gen_ai.server.time_to_first_token",
		"Time from the first byte of a request to the first part of its answer, on its socket.", BOUNDS(ttft_bounds), UNIT_SECONDS,
		OF_REQUEST, NULL },
	[METRIC_FIRST_STEP] = { "inftrace.request.first_step_to_first_token",
		"Time from the first step of a request to the end of the one that gave its first token.", BOUNDS(ttft_bounds), UNIT_SECONDS,
		OF_REQUEST, NULL },
	[METRIC_TPOT] = { "gen_ai.server.time_per_output_token",
		"Time per output token after the first one: the mean of each request.", BOUNDS(tpot_bounds), UNIT_SECONDS, OF_REQUEST, NULL },
	[METRIC_DURATION] = { "gen_ai.server.request.duration", "Time of a request that was seen completely: until its answer was written, or where no socket was seen, its last step ended.",
		BOUNDS(duration_bounds), UNIT_SECONDS, OF_REQUEST, NULL },
	[METRIC_QUEUED] = { "inftrace.request.queue.time", "Time from the first byte of a request to its first step.",
		BOUNDS(ttft_bounds), UNIT_SECONDS, OF_REQUEST, NULL },
	[METRIC_REQUESTS] = { "inftrace.requests", "Requests, by how much of them is known: only complete ones are in all histograms.",
		NULL, 0, UNIT_NONE, OF_REQUEST | BIT(STATE), "outcome" },
	[METRIC_REQUEST_PART] = { "inftrace.request.part", "What complete requests spent their time with.",
		NULL, 0, UNIT_SECONDS, OF_REQUEST | BIT(STATE), "part" },
	[METRIC_REFUSED] = { "inftrace.request.refused", "Why schedulers let requests wait: of the queue of complete requests.",
		NULL, 0, UNIT_SECONDS, OF_REQUEST | BIT(STATE), "reason" },
	[METRIC_PREEMPTIONS] = { "inftrace.request.preemptions", "How often requests were preempted.", NULL, 0, UNIT_NONE, OF_REQUEST, NULL },
	[METRIC_RECOMPUTED_TOKENS] = { "inftrace.recomputed.tokens", "Tokens that were computed once more after a preemption.",
		NULL, 0, UNIT_NONE, OF_REQUEST, NULL },
	[METRIC_PROMPT_TOKENS] = { "inftrace.prompt.tokens", "Prompt tokens of requests that were decoded.", NULL, 0, UNIT_NONE, OF_REQUEST, NULL },
	[METRIC_OUTPUT_TOKENS] = { "inftrace.generation.tokens", "Output tokens of requests.", NULL, 0, UNIT_NONE, OF_REQUEST, NULL },
	[METRIC_STEP] = { "inftrace.step.duration", "Length of whole engine steps.", BOUNDS(step_bounds), UNIT_SECONDS, OF_STEP, NULL },
	[METRIC_STATE] = { "inftrace.step.state", "Time of the calling thread in each state, of each step; the states of a step sum to its length.",
		BOUNDS(state_bounds), UNIT_SECONDS, OF_STEP | BIT(STATE), "state" },
	[METRIC_STEP_TOKENS] = { "inftrace.step.tokens", "Tokens in whole engine steps.", NULL, 0, UNIT_NONE, OF_STEP, NULL },
	[METRIC_STEPS_CUT] = { "inftrace.steps.cut", "Steps of which only a part was seen; they are in nothing else.", NULL, 0, UNIT_NONE, OF_STEP, NULL },
	[METRIC_STEPS_LOST] = { "inftrace.steps.lossy", "Steps during which records were lost; their times are exact.", NULL, 0, UNIT_NONE, OF_STEP, NULL },
	[METRIC_STEPS_NO_STATES] = { "inftrace.steps.without_states",
		"Steps whose states a budget left out in part; they are not in the histograms of states.", NULL, 0, UNIT_NONE, OF_STEP, NULL },
	[METRIC_TRACER] = { "inftrace.step.tracer", "How much sooner steps would have ended without inftrace.", NULL, 0, UNIT_SECONDS, OF_STEP, NULL },
	[METRIC_GPU] = { "inftrace.step.gpu", "What the GPU did during steps.", NULL, 0, UNIT_SECONDS, OF_STEP | BIT(STATE), "state" },
	[METRIC_LOST] = { "inftrace.lost.records", "Records that were lost, known at the end of a window or recording.",
		NULL, 0, UNIT_NONE, BIT(STATE), "kind" },
	[METRIC_UNCOVERED] = { "inftrace.uncovered", "Time in which records were lost.", NULL, 0, UNIT_SECONDS, 0, NULL },
	[METRIC_RECORDED] = { "inftrace.recorded", "Length of the windows, or recordings, that ended.", NULL, 0, UNIT_SECONDS, 0, NULL },
	[METRIC_FOREIGN_LINES] = { "inftrace.foreign.lines", "Lines of other programs, of events that inftrace has not.", NULL, 0, UNIT_NONE, OF_FOREIGN, NULL },
	[METRIC_FOREIGN_DURATION] = { "inftrace.foreign.duration", "The total of those lines that have one.", BOUNDS(step_bounds), UNIT_SECONDS, OF_FOREIGN, NULL },
	[METRIC_FOREIGN_STAGE] = { "inftrace.foreign.stage", "Time of those lines in each of their stages.", NULL, 0, UNIT_SECONDS, OF_FOREIGN | BIT(STATE), "stage" },
};

static const char *const sources[] = { "sequence", "steps", "socket" };
static const char *const outcomes[] = { "complete", "cut", "cancelled", "mixed", "lossy" };
static const char *const gpu_states[] = { "busy", "copy", "idle_launch", "idle_wait", "collective", "unknown" };
static const char *const reasons[] = {
#define REASON(name, key, phrase, column) #key,
	REFUSALS_ALL(REASON)
};
static const char *const refused[] = {
#define REFUSED_TIME(name, key, phrase, column) KEY(no_##key),
	REFUSALS_ALL(REFUSED_TIME)
};
static const char *const parts[] = { "queued", "own_prefill", "own_decode", "others", "between" };
/* The conventions' names by what paths of the APIs of OpenAI, llama.cpp and Ollama end in. Longer paths first. */
static const struct {
	const char *path, *name;
} operations[] = {
	{ "/chat/completions", "chat" },
	{ "/api/chat", "chat" },
	{ "/responses", "chat" },
	{ "/messages", "chat" },
	{ "/completions", "text_completion" },
	{ "/completion", "text_completion" },
	{ "/generate", "text_completion" },
	{ "/embeddings", "embeddings" },
	{ "/embedding", "embeddings" },
	{ "/embed", "embeddings" },
};

enum outcome {
	OUTCOME_COMPLETE,
	OUTCOME_CUT,
	OUTCOME_CANCELLED,
	OUTCOME_MIXED,
	OUTCOME_LOSSY,
};

const struct metric_about *metric_about(enum metric metric)
{
	return &abouts[metric];
}

const char *metric_label_name(enum metric metric, enum metric_label label)
{
	static const char *const names[] = {
		[LABEL_MODEL] = "gen_ai.response.model",
		[LABEL_CONTAINER] = "container.id",
		[LABEL_POD] = "k8s.pod.uid",
		[LABEL_OPERATION] = "gen_ai.operation.name",
		[LABEL_SOURCE] = "source_kind",
		[LABEL_PHASE] = "phase",
		[LABEL_EVENT] = "event",
		[LABEL_WRITER] = "source",
	};

	return label == LABEL_STATE ? abouts[metric].state : names[label];
}

/* ---- series ---- */

/* memcmp() orders keys as their series are written. */
struct metric_key {
	uint8_t metric, value[LABEL_MAX];
};

struct metric_entry {
	struct metric_key key;
	struct metric_series series;
	UT_hash_handle hh;
};

/* Two labels that make one value. "": not known. */
struct metric_pair {
	char first[METRICS_LABEL_MAX], second[METRICS_LABEL_MAX];
};

struct metrics {
	struct metric_entry *entries;
	bool sorted;
	char models[METRICS_MODELS_MAX][METRICS_LABEL_MAX], phases[METRICS_PHASES_MAX][METRICS_LABEL_MAX];
	char stage_names[METRICS_STAGES_MAX][METRICS_LABEL_MAX];
	struct metric_pair containers[METRICS_CONTAINERS_MAX], families[METRICS_FAMILIES_MAX];
	size_t n_models, n_phases, n_containers, n_families, n_stage_names;
	uint64_t others;
	/* of the current line */
	const struct json_node *shape, *stages;
	struct metric_key key;
	struct metric_exemplar exemplar;
};

struct metrics *metrics_new(void)
{
	return xcalloc(1, sizeof(struct metrics));
}

void metrics_free(struct metrics *m)
{
	struct metric_entry *e, *next;

	if (!m)
		return;
	HASH_ITER(hh, m->entries, e, next)
	{
		HASH_DEL(m->entries, e);
		free((void *)e->series.exemplars);
		free(e);
	}
	free(m);
}

/* Returns the series of a metric with the labels of the current line. */
static struct metric_series *series_get(struct metrics *m, enum metric metric, int state)
{
	struct metric_key key = m->key;
	struct metric_entry *e;

	key.metric = (uint8_t)metric;
	key.value[LABEL_STATE] = (uint8_t)state; /* -1 is LABEL_NONE */
	for (int i = 0; i < LABEL_MAX; i++) {
		if (!(abouts[metric].labels & 1u << i))
			key.value[i] = LABEL_NONE;
	}
	HASH_FIND(hh, m->entries, &key, sizeof(key), e);
	if (e)
		return &e->series;
	e = xcalloc(1, sizeof(*e));
	e->key = key;
	e->series.metric = metric;
	HASH_ADD(hh, m->entries, key, sizeof(e->key), e);
	m->sorted = false;
	return &e->series;
}

static void count_n(struct metrics *m, enum metric metric, int state, uint64_t n)
{
	struct metric_series *s = series_get(m, metric, state);

	if (__builtin_add_overflow(s->sum, n, &s->sum))
		s->sum = UINT64_MAX;
}

static size_t bucket_of(const struct metric_about *about, uint64_t ns)
{
	size_t i = 0;

	while (i < about->n_bounds && ns > about->bounds[i])
		i++;
	return i;
}

static void metric_observe(struct metrics *m, enum metric metric, int state, uint64_t ns)
{
	struct metric_series *s = series_get(m, metric, state);

	if (__builtin_add_overflow(s->sum, ns, &s->sum))
		s->sum = UINT64_MAX;
	s->count++;
	s->buckets[bucket_of(&abouts[metric], ns)]++;
}

/* An observation that stands for a request, which can be found in the trace. */
static void metric_observe_request(struct metrics *m, enum metric metric, uint64_t ns)
{
	struct metric_series *s = series_get(m, metric, -1);
	struct metric_exemplar *e;

	metric_observe(m, metric, -1, ns);
	if (!s->exemplars)
		s->exemplars = xcalloc(METRICS_BUCKETS_MAX, sizeof(*s->exemplars));
	e = (struct metric_exemplar *)&s->exemplars[bucket_of(&abouts[metric], ns)];
	if (e->at_ms && e->ns >= ns && m->exemplar.at_ms - e->at_ms < EXEMPLAR_MS)
		return;
	*e = m->exemplar;
	e->ns = ns;
}

/* ---- labels ---- */

/* Interns a value; returns its id, LABEL_NONE or LABEL_OTHER. */
static uint8_t text_id(struct metrics *m, char (*known)[METRICS_LABEL_MAX], size_t *n, size_t max, const char *text)
{
	char printable[METRICS_LABEL_MAX];

	if (!text)
		return LABEL_NONE;
	text_printable(printable, sizeof(printable), text);
	for (size_t i = 0; i < *n; i++) {
		if (!strcmp(known[i], printable))
			return (uint8_t)i;
	}
	if (*n == max || !strcmp(printable, "other")) {
		m->others += *n == max;
		return LABEL_OTHER;
	}
	memcpy(known[*n], printable, sizeof(printable));
	return (uint8_t)(*n)++;
}

/* The same for two texts; NULL: unknown. */
static uint8_t text_pair_id(struct metrics *m, struct metric_pair *known, size_t *n, size_t max, const char *first, const char *second)
{
	struct metric_pair pair;
	size_t i = 0;

	if (!first && !second)
		return LABEL_NONE;
	text_printable(pair.first, sizeof(pair.first), first ? first : "");
	text_printable(pair.second, sizeof(pair.second), second ? second : "");
	while (i < *n && (strcmp(known[i].first, pair.first) || strcmp(known[i].second, pair.second)))
		i++;
	if (i == max || !strcmp(pair.first, "other")) {
		m->others += i == max;
		return LABEL_OTHER;
	}
	if (i == *n)
		known[(*n)++] = pair;
	return (uint8_t)i;
}

static int find_text_index(const char *const *names, size_t n, const char *text)
{
	for (size_t i = 0; text && i < n; i++) {
		if (!strcmp(names[i], text))
			return (int)i;
	}
	return -1;
}

/* "POST /v1/completions" */
static uint8_t operation_of(const char *request)
{
	size_t len = request ? strlen(request) : 0, n;

	for (size_t i = 0; i < LEN(operations); i++) {
		n = strlen(operations[i].path);
		if (len > n && !strncmp(request, "POST /", 6) && !strcmp(request + len - n, operations[i].path))
			return (uint8_t)i;
	}
	return LABEL_NONE;
}

static const char *label_text(const struct metrics *m, const struct metric_key *key, enum metric_label label)
{
	uint8_t v = key->value[label];

	if (v == LABEL_NONE)
		return NULL;
	if (v == LABEL_OTHER)
		return "other";
	switch (label) {
	case LABEL_MODEL:
		return m->models[v];
	case LABEL_CONTAINER:
		return m->containers[v].first[0] ? m->containers[v].first : NULL;
	case LABEL_POD:
		return m->containers[v].second[0] ? m->containers[v].second : NULL;
	case LABEL_EVENT:
		return m->families[v].first[0] ? m->families[v].first : NULL;
	case LABEL_WRITER:
		return m->families[v].second[0] ? m->families[v].second : NULL;
	case LABEL_PHASE:
		return m->phases[v];
	case LABEL_OPERATION:
		return operations[v].name;
	case LABEL_SOURCE:
		return sources[v];
	default:
		break;
	}
	switch ((enum metric)key->metric) {
	case METRIC_REQUESTS:
		return outcomes[v];
	case METRIC_REQUEST_PART:
		return parts[v];
	case METRIC_REFUSED:
		return reasons[v];
	case METRIC_GPU:
		return gpu_states[v];
	case METRIC_LOST:
		return rec_kind_name(v);
	case METRIC_FOREIGN_STAGE:
		return m->stage_names[v];
	default:
		return time_state_name(v);
	}
}

/* ---- lines ---- */

static bool shape_has_flag(const struct metrics *m, const char *name)
{
	return node_is(node_get(m->shape, name), JSON_TRUE);
}

/* Reads a time in nanoseconds; false if it is missing or not a time. */
static bool node_read_time(const struct json_node *object, const char *name, uint64_t *ret_ns)
{
	int64_t ns;

	if (node_us_to_ns(node_get(object, name), &ns) < 0 || ns < 0)
		return false;
	*ret_ns = (uint64_t)ns;
	return true;
}

static void count_states(struct metrics *m)
{
	int64_t ns;

	json_for_each (stage, m->stages) {
		for (int i = 0; i < ST_MAX; i++) {
			if (strcmp(stage->key, time_state_name((enum time_state)i)) || node_us_to_ns(stage, &ns) < 0 || ns < 0)
				continue;
			metric_observe(m, METRIC_STATE, i, (uint64_t)ns);
			break;
		}
	}
	/* a step in which a state did not occur had 0 of it: metrics_each() adds these */
	metric_observe(m, METRIC_STATE, -1, 0);
}

static void count_step(struct metrics *m)
{
	const char *left_out = node_string(node_get(m->shape, KEY(left_out)));
	char name[32];
	uint64_t ns;

	m->key.value[LABEL_PHASE] = text_id(m, m->phases, &m->n_phases, METRICS_PHASES_MAX, node_string(node_get(m->shape, KEY(phase))));
	if (shape_has_flag(m, KEY(began_before)) || shape_has_flag(m, KEY(unfinished)) || !node_read_time(m->stages, KEY(total), &ns)) {
		count_n(m, METRIC_STEPS_CUT, -1, 1);
		return;
	}
	metric_observe(m, METRIC_STEP, -1, ns);
	count_n(m, METRIC_STEP_TOKENS, -1, node_u64(node_get(m->shape, KEY(n_tokens))));
	if (node_u64(node_get(m->shape, KEY(lost))))
		count_n(m, METRIC_STEPS_LOST, -1, 1);
	if (left_out && strstr(left_out, "barriers"))
		count_n(m, METRIC_STEPS_NO_STATES, -1, 1);
	else
		count_states(m);
	if (node_read_time(m->shape, KEY(tracer_us), &ns))
		count_n(m, METRIC_TRACER, -1, ns);
	for (size_t i = 0; i < LEN(gpu_states); i++) {
		snprintf(name, sizeof(name), "gpu_%s_us", gpu_states[i]);
		if (node_read_time(m->shape, name, &ns))
			count_n(m, METRIC_GPU, (int)i, ns);
	}
}

static enum outcome outcome_of(const struct metrics *m)
{
	if (shape_has_flag(m, KEY(mixed)))
		return OUTCOME_MIXED;
	if (shape_has_flag(m, KEY(cancelled)))
		return OUTCOME_CANCELLED;
	if (shape_has_flag(m, KEY(lost_steps)))
		return OUTCOME_LOSSY;
	if (shape_has_flag(m, KEY(began_before)) || shape_has_flag(m, KEY(unfinished)) || shape_has_flag(m, KEY(end_not_seen)))
		return OUTCOME_CUT;
	return OUTCOME_COMPLETE;
}

/* total: to the end of its last step, or the end of its answer on a socket. */
static void count_complete(struct metrics *m, uint64_t total, bool has_first, uint64_t first)
{
	uint64_t tokens = node_u64(node_get(m->shape, KEY(output_tokens))), ns;

	metric_observe_request(m, METRIC_DURATION, total + (node_read_time(m->stages, KEY(answered), &ns) ? ns : 0));
	for (size_t i = 0; i < LEN(parts); i++) {
		if (node_read_time(m->stages, parts[i], &ns))
			count_n(m, METRIC_REQUEST_PART, (int)i, ns);
	}
	for (size_t i = 0; i < LEN(refused); i++) {
		if (node_read_time(m->stages, refused[i], &ns))
			count_n(m, METRIC_REFUSED, (int)i, ns);
	}
	/* by the convention: the rest of the duration per token after the first one. A socket shows parts of the answer. */
	if (!node_get(m->shape, KEY(output_tokens))) {
		if (node_read_time(m->stages, KEY(tpot_mean), &ns))
			metric_observe_request(m, METRIC_TPOT, ns);
	} else if (has_first && tokens > 1 && total >= first) {
		metric_observe_request(m, METRIC_TPOT, (total - first) / (tokens - 1));
	}
}

/* What clients saw is counted once per request: where sockets are recorded, by the socket's line, or by the joined one. */
static bool is_counted_elsewhere(const struct metrics *m, bool socket)
{
	const char *why = node_string(node_get(m->shape, KEY(joined_why)));
	bool unrelated = why && !strcmp(why, PROFILE_JOINED_NONE);

	return why && (socket ? unrelated : !unrelated);
}

static void count_request(struct metrics *m)
{
	int source = find_text_index(sources, LEN(sources), node_string(node_get(m->shape, KEY(source_kind))));
	bool has_first, elsewhere, socket = source == 2;
	enum outcome outcome = outcome_of(m);
	uint64_t first = 0, queued, total, ts;

	if (source < 0 || !node_read_time(m->stages, KEY(total), &total))
		return;
	m->key.value[LABEL_SOURCE] = (uint8_t)source;
	m->key.value[LABEL_OPERATION] = operation_of(node_string(node_get(m->shape, KEY(request))));
	count_n(m, METRIC_REQUESTS, outcome, 1);
	/* a socket also shows health checks and the like */
	if (outcome == OUTCOME_MIXED || outcome == OUTCOME_CANCELLED || (socket && m->key.value[LABEL_OPERATION] == LABEL_NONE))
		return;
	elsewhere = is_counted_elsewhere(m, socket);
	if (node_get(m->shape, KEY(prompt_tokens)))
		count_n(m, METRIC_PROMPT_TOKENS, -1, node_u64(node_get(m->shape, KEY(prompt_tokens))));
	if (node_get(m->shape, KEY(output_tokens)))
		count_n(m, METRIC_OUTPUT_TOKENS, -1, node_u64(node_get(m->shape, KEY(output_tokens))));
	if (node_get(m->shape, KEY(preemptions)))
		count_n(m, METRIC_PREEMPTIONS, -1, node_u64(node_get(m->shape, KEY(preemptions))));
	if (node_get(m->shape, KEY(recomputed_tokens)))
		count_n(m, METRIC_RECOMPUTED_TOKENS, -1, node_u64(node_get(m->shape, KEY(recomputed_tokens))));
	m->exemplar.ts_us = node_read_time(m->shape, KEY(ts_us), &ts) ? ts / 1000 : 0;
	if (!elsewhere && node_read_time(m->stages, socket ? "ttft" : "ttft_client", &first))
		metric_observe_request(m, METRIC_TTFT, first);
	has_first = node_read_time(m->stages, KEY(ttft), &first);
	if (has_first && !socket)
		metric_observe_request(m, METRIC_FIRST_STEP, first);
	if (node_read_time(m->stages, KEY(queued), &queued)) {
		metric_observe_request(m, METRIC_QUEUED, queued);
		first += queued;
	}
	if (outcome == OUTCOME_COMPLETE && !elsewhere)
		count_complete(m, total, has_first, first);
}

static void count_window(struct metrics *m)
{
	double coverage = node_double(node_get(m->shape, KEY(coverage)));
	const struct json_node *lost;
	char name[48];
	uint64_t ns;

	for (int k = 0; k < REC_KIND_MAX; k++) {
		snprintf(name, sizeof(name), "lost_%s", rec_kind_name((enum rec_kind)k));
		lost = node_get(m->shape, name);
		if (lost)
			count_n(m, METRIC_LOST, k, node_u64(lost));
	}
	if (!node_read_time(m->stages, KEY(total), &ns))
		return;
	count_n(m, METRIC_RECORDED, -1, ns);
	if (coverage >= 0 && coverage <= 1)
		count_n(m, METRIC_UNCOVERED, -1, (uint64_t)((1 - coverage) * (double)ns));
}

/* Takes an event that inftrace does not have. What its stages mean, and whether they sum to anything, is up to its writer. */
static void count_foreign(struct metrics *m, const struct profile_line *line)
{
	const char *event = node_string(line->values[PROFILE_KEY_event]), *source = node_string(line->values[PROFILE_KEY_source]);
	int64_t ns;

	memset(&m->key, LABEL_NONE, sizeof(m->key));
	m->key.value[LABEL_EVENT] = m->key.value[LABEL_WRITER] = text_pair_id(m, m->families, &m->n_families, METRICS_FAMILIES_MAX, event, source);
	count_n(m, METRIC_FOREIGN_LINES, -1, 1);
	if (!node_is(m->stages, JSON_OBJECT))
		return;
	json_for_each (stage, m->stages) {
		if (node_us_to_ns(stage, &ns) < 0 || ns < 0)
			continue;
		if (!strcmp(stage->key, "total"))
			metric_observe(m, METRIC_FOREIGN_DURATION, -1, (uint64_t)ns);
		else
			count_n(m, METRIC_FOREIGN_STAGE, text_id(m, m->stage_names, &m->n_stage_names, METRICS_STAGES_MAX, stage->key), (uint64_t)ns);
	}
}

void metrics_line(struct metrics *m, const struct profile_line *line, const char *file, int64_t now_ms)
{
	const char *event = node_string(line->values[PROFILE_KEY_event]), *slash = strrchr(file, '/');
	static const struct {
		const char *event;
		void (*take)(struct metrics *m);
	} families[] = { { "token_prof", count_step }, { "request_prof", count_request }, { "window_prof", count_window }, { "op_prof", NULL },
		{ "sample_prof", NULL }, { "graph_prof", NULL }, { "syscall_prof", NULL }, { "sched_prof", NULL }, { "fault_prof", NULL },
		{ "memory_prof", NULL }, { "stack_prof", NULL }, { "misfit_prof", NULL } };
	const struct json_node *container = line->values[PROFILE_KEY_container];
	size_t i = 0;

	m->shape = line->values[PROFILE_KEY_shape];
	m->stages = line->values[PROFILE_KEY_stage_us];
	while (event && i < LEN(families) && strcmp(event, families[i].event))
		i++;
	if (event && i == LEN(families)) {
		count_foreign(m, line);
	} else if (event && families[i].take) {
		memset(&m->key, LABEL_NONE, sizeof(m->key));
		m->key.value[LABEL_MODEL] =
			text_id(m, m->models, &m->n_models, METRICS_MODELS_MAX, node_string(line->values[PROFILE_KEY_model]));
		m->key.value[LABEL_CONTAINER] = m->key.value[LABEL_POD] = text_pair_id(m, m->containers, &m->n_containers, METRICS_CONTAINERS_MAX,
			node_string(node_get(container, "id")), node_string(node_get(container, "pod_uid")));
		m->exemplar = (struct metric_exemplar){ .at_ms = now_ms, .line = line->number };
		text_printable(m->exemplar.file, sizeof(m->exemplar.file), slash ? slash + 1 : file);
		families[i].take(m);
	}
}

/* ---- all of them ---- */

static int entries_by_key(struct metric_entry *a, struct metric_entry *b)
{
	return memcmp(&a->key, &b->key, sizeof(a->key));
}

/* Adds the steps in which the state did not occur. */
static void add_zeros(struct metrics *m, const struct metric_key *key, struct metric_series *s)
{
	struct metric_key all = *key;
	struct metric_entry *e;

	all.value[LABEL_STATE] = LABEL_NONE;
	HASH_FIND(hh, m->entries, &all, sizeof(all), e);
	if (!e || e->series.count < s->count)
		return;
	s->buckets[0] += e->series.count - s->count;
	s->count = e->series.count;
}

void metrics_each(struct metrics *m, metrics_each_fn each, void *ctx)
{
	const char *values[LABEL_MAX];
	struct metric_series s;
	struct metric_entry *e, *next;

	if (!m->sorted)
		HASH_SORT(m->entries, entries_by_key);
	m->sorted = true;
	HASH_ITER(hh, m->entries, e, next)
	{
		s = e->series;
		if (s.metric == METRIC_STATE && e->key.value[LABEL_STATE] == LABEL_NONE)
			continue;
		if (s.metric == METRIC_STATE)
			add_zeros(m, &e->key, &s);
		for (int i = 0; i < LABEL_MAX; i++)
			values[i] = label_text(m, &e->key, (enum metric_label)i);
		each(ctx, &s, values);
	}
}

#define NAME_MAX_LEN 96
#define EXEMPLAR_LABELS_MAX 128 /* characters of names and values, by OpenMetrics 1.0 */

struct metric_text {
	FILE *out;
	bool openmetrics;
	int metric; /* the current one; -1: none */
};

bool metrics_accepts_openmetrics(const char *accept)
{
	static const char type[] = "application/openmetrics-text";
	const char *p = accept, *end;

	while (p && (p = strcasestr(p, type))) {
		p += strlen(type);
		end = p + strcspn(p, ",");
		/* neither of an unknown version nor refused */
		if (!memmem(p, (size_t)(end - p), "q=0,", 4) && !memmem(p, (size_t)(end - p), "version=2", 9))
			return true;
		p = end;
	}
	return false;
}

const char *metrics_text_type(bool openmetrics)
{
	return openmetrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8" : "text/plain; version=0.0.4; charset=utf-8";
}

/* "gen_ai.server.request.duration" -> "gen_ai_server_request_duration" */
static const char *plain_name(char *buf, size_t size, const char *name)
{
	size_t i;

	for (i = 0; i < size - 1 && name[i]; i++)
		buf[i] = isalnum((unsigned char)name[i]) ? name[i] : '_';
	buf[i] = 0;
	return buf;
}

/* Writes seconds exactly, without a double; with at least one decimal, as OpenMetrics wants bounds. */
static void put_seconds(FILE *out, uint64_t ns)
{
	char digits[16];
	size_t len = 9;

	snprintf(digits, sizeof(digits), "%09llu", (unsigned long long)(ns % 1000000000));
	while (len > 1 && digits[len - 1] == '0')
		len--;
	fprintf(out, "%llu.%.*s", (unsigned long long)(ns / 1000000000), (int)len, digits);
}

static void put_label_value(FILE *out, const char *value)
{
	for (; *value; value++) {
		if (*value == '\\' || *value == '"')
			fputc('\\', out);
		if (*value == '\n')
			fputs("\\n", out);
		else
			fputc(*value, out);
	}
}

/* le: the bound of a bucket in nanoseconds, UINT64_MAX: none, 0: no bucket. */
static void put_labels(FILE *out, enum metric metric, const char *const values[LABEL_MAX], uint64_t le)
{
	char name[NAME_MAX_LEN];
	const char *sep = "{";

	for (int i = 0; i < LABEL_MAX; i++) {
		if (!values[i])
			continue;
		fprintf(out, "%s%s=\"", sep, plain_name(name, sizeof(name), metric_label_name(metric, (enum metric_label)i)));
		put_label_value(out, values[i]);
		fputc('"', out);
		sep = ",";
	}
	if (le) {
		fprintf(out, "%sle=\"", sep);
		if (le == UINT64_MAX)
			fputs("+Inf", out);
		else
			put_seconds(out, le);
		fputc('"', out);
		sep = ",";
	}
	if (*sep == ',')
		fputc('}', out);
}

static void put_family_head(struct metric_text *t, const char *family, const char *help, const char *type, bool seconds)
{
	const char *total = !t->openmetrics && !strcmp(type, "counter") ? "_total" : "";

	fprintf(t->out, "# HELP %s%s %s\n# TYPE %s%s %s\n", family, total, help, family, total, type);
	if (t->openmetrics && seconds)
		fprintf(t->out, "# UNIT %s seconds\n", family);
}

static void put_exemplar(FILE *out, const struct metric_exemplar *e)
{
	char labels[EXEMPLAR_LABELS_MAX];
	int len = snprintf(labels, sizeof(labels), "\",line=\"%llu\",ts_us=\"%llu\"", (unsigned long long)e->line, (unsigned long long)e->ts_us);

	fputs(" # {file=\"", out);
	put_label_value(out, e->file);
	fprintf(out, "%.*s} ", len, labels);
	put_seconds(out, e->ns);
}

static void put_histogram_text(struct metric_text *t, const char *family, const struct metric_series *s, const char *const values[LABEL_MAX])
{
	const struct metric_about *about = metric_about(s->metric);
	uint64_t sum = 0;

	for (size_t i = 0; i <= about->n_bounds; i++) {
		sum += s->buckets[i];
		fprintf(t->out, "%s_bucket", family);
		put_labels(t->out, s->metric, values, i < about->n_bounds ? about->bounds[i] : UINT64_MAX);
		fprintf(t->out, " %llu", (unsigned long long)sum);
		if (t->openmetrics && s->exemplars && s->exemplars[i].at_ms)
			put_exemplar(t->out, &s->exemplars[i]);
		fputc('\n', t->out);
	}
	fprintf(t->out, "%s_sum", family);
	put_labels(t->out, s->metric, values, 0);
	fputc(' ', t->out);
	put_seconds(t->out, s->sum);
	fprintf(t->out, "\n%s_count", family);
	put_labels(t->out, s->metric, values, 0);
	fprintf(t->out, " %llu\n", (unsigned long long)s->count);
}

static void put_series(void *ctx, const struct metric_series *s, const char *const values[LABEL_MAX])
{
	const struct metric_about *about = metric_about(s->metric);
	char family[NAME_MAX_LEN];
	struct metric_text *t = ctx;

	/* with the unit, as OpenTelemetry's rules for Prometheus have it */
	plain_name(family, sizeof(family), about->name);
	if (about->unit == UNIT_SECONDS)
		snprintf(family + strlen(family), sizeof(family) - strlen(family), "_seconds");
	if (t->metric != (int)s->metric)
		put_family_head(t, family, about->help, about->bounds ? "histogram" : "counter", about->unit == UNIT_SECONDS);
	t->metric = (int)s->metric;
	if (about->bounds) {
		put_histogram_text(t, family, s, values);
		return;
	}
	fprintf(t->out, "%s_total", family);
	put_labels(t->out, s->metric, values, 0);
	fputc(' ', t->out);
	if (about->unit == UNIT_SECONDS)
		put_seconds(t->out, s->sum);
	else
		fprintf(t->out, "%llu", (unsigned long long)s->sum);
	fputc('\n', t->out);
}

static void put_metric(struct metric_text *t, const char *family, const char *help, bool counter, uint64_t value)
{
	put_family_head(t, family, help, counter ? "counter" : "gauge", false);
	fprintf(t->out, "%s%s %llu\n", family, counter ? "_total" : "", (unsigned long long)value);
}

static uint64_t resident_bytes(void)
{
	unsigned long long pages = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	if (f && fscanf(f, "%*u %llu", &pages) != 1)
		pages = 0;
	if (f)
		fclose(f);
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* What the exporter itself does, misses and costs. */
static void put_own(struct metric_text *t, const struct metrics *m, const struct metrics_own *own)
{
	struct rusage ru;

	put_metric(t, "inftrace_export_files", "Profiles that are followed.", false, own->files->files);
	put_metric(t, "inftrace_export_files_left_out", "Profiles that are not read, since there are too many.", false, own->files->files_left_out);
	put_metric(t, "inftrace_export_unread_bytes", "Bytes of profiles that are not counted yet.", false, own->files->unread);
	put_metric(t, "inftrace_export_lines", "Lines of profiles that were read.", true, own->files->lines);
	put_metric(t, "inftrace_export_read_bytes", "Bytes of profiles that were read.", true, own->files->bytes);
	put_metric(t, "inftrace_export_bad_lines", "Lines of profiles that could not be used.", true, own->files->bad_lines);
	put_metric(t, "inftrace_export_errors", "Profiles that could not be read.", true, own->files->errors);
	put_metric(t, "inftrace_export_other_labels", "Models, phases, containers, events and stages of lines that are counted as \"other\", since there were too many.", true,
		m->others);
	if (own->otlp) {
		put_metric(t, "inftrace_export_otlp_sent", "Bodies that the collector took.", true, own->sent.sent);
		put_metric(t, "inftrace_export_otlp_failures", "Tries to send that failed.", true, own->sent.failed);
		put_metric(t, "inftrace_export_otlp_dropped_requests", "Slow requests whose spans were not sent.", true, own->sent.dropped);
	}
	put_metric(t, "process_resident_memory_bytes", "Resident memory of the exporter.", false, resident_bytes());
	if (getrusage(RUSAGE_SELF, &ru))
		return;
	put_family_head(t, "process_cpu_seconds", "CPU time of the exporter.", "counter", true);
	fputs("process_cpu_seconds_total ", t->out);
	put_seconds(t->out, (uint64_t)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) * 1000000000 +
				    (uint64_t)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec) * 1000);
	fputc('\n', t->out);
}

char *metrics_text(struct metrics *m, const struct metrics_own *own, bool openmetrics, size_t *ret_len)
{
	struct metric_text t = { .openmetrics = openmetrics, .metric = -1 };
	char *text = NULL;

	t.out = open_memstream(&text, ret_len);
	if (!t.out)
		out_of_memory();
	metrics_each(m, put_series, &t);
	put_own(&t, m, own);
	if (openmetrics)
		fputs("# EOF\n", t.out);
	if (ferror(t.out) | fclose(t.out))
		out_of_memory();
	return text;
}
