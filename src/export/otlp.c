// SPDX-License-Identifier: BSD-2-Clause
#include "export/otlp.h"

#include <curl/curl.h>
#include <errno.h>
#include <openssl/sha.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "export/message.h"
#include "schema/profile_keys.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/program.h"
#include "util/text.h"

#define PART_MAX 16384

static uint64_t bits_of(double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

static double ns_to_seconds(uint64_t ns)
{
	return (double)ns / 1e9;
}

/* common.proto: KeyValue {key 1, value 2}; AnyValue {string 1, int 3, double 4} */
static char *open_pair(char *p, uint32_t field, const char *key, char **ret_pair, char **ret_value)
{
	p = proto_open(p, field, ret_pair);
	p = proto_text(p, 1, key, strlen(key));
	return proto_open(p, 2, ret_value);
}

static char *put_text_pair(char *p, uint32_t field, const char *key, const char *text)
{
	char *pair, *value;

	p = proto_text(open_pair(p, field, key, &pair, &value), 1, text, strlen(text));
	return proto_close(pair, proto_close(value, p));
}

static char *put_int_pair(char *p, uint32_t field, const char *key, uint64_t v)
{
	char *pair, *value;

	p = proto_u64(open_pair(p, field, key, &pair, &value), 3, v);
	return proto_close(pair, proto_close(value, p));
}

static char *put_double_pair(char *p, uint32_t field, const char *key, double v)
{
	char *pair, *value;

	p = proto_fixed64(open_pair(p, field, key, &pair, &value), 4, bits_of(v));
	return proto_close(pair, proto_close(value, p));
}

/* Wraps items, which it frees, in scope and resource: Resource...{resource 1, scope 2}, Scope...{scope 1, items 2}. */
static char *message_wrap(struct message *items, const char *host, size_t *ret_len)
{
	struct message scope = { 0 }, resource = { 0 }, body = { 0 };
	char part[2048], printable[256], *p, *mark;

	p = proto_text(part, 1, "inftrace", strlen("inftrace"));
	p = proto_text(p, 2, INFTRACE_VERSION, strlen(INFTRACE_VERSION));
	message_nest(&scope, 1, part, (size_t)(p - part));
	message_add(&scope, items->buf, items->len);
	p = proto_open(part, 1, &mark);
	p = put_text_pair(p, 1, "service.name", "inftrace");
	p = put_text_pair(p, 1, "host.name", text_printable(printable, sizeof(printable), host));
	p = proto_close(mark, p);
	message_add(&resource, part, (size_t)(p - part));
	message_close(&resource, 2, &scope);
	message_close(&body, 1, &resource);
	free(items->buf);
	free(scope.buf);
	free(resource.buf);
	*ret_len = body.len;
	return body.buf;
}

/* ---- metrics ---- */

struct metrics_writer {
	struct message metrics, points; /* points: of the current metric */
	int metric;                     /* -1: none */
	uint64_t start_ns, now_ns;
};

#define CUMULATIVE 2
#define METRIC_SUM 7
#define METRIC_HISTOGRAM 9

static void end_metric(struct metrics_writer *w)
{
	const struct metric_about *about;
	struct message metric = { 0 };
	char part[2048], *p = part;

	if (w->metric < 0)
		return;
	about = metric_about((enum metric)w->metric);
	p = proto_text(p, 1, about->name, strlen(about->name));
	p = proto_text(p, 2, about->help, strlen(about->help));
	p = proto_text(p, 3, about->unit == UNIT_SECONDS ? "s" : "1", 1);
	message_add(&metric, part, (size_t)(p - part));
	p = proto_u64(part, 2, CUMULATIVE);
	if (!about->bounds)
		p = proto_u64(p, 3, true); /* it only grows */
	message_add(&w->points, part, (size_t)(p - part));
	message_close(&metric, about->bounds ? METRIC_HISTOGRAM : METRIC_SUM, &w->points);
	message_close(&w->metrics, 2, &metric);
	free(metric.buf);
	w->metric = -1;
}

/* HistogramDataPoint {count 4, sum 5, bucket_counts 6, explicit_bounds 7} */
static char *put_histogram_point(char *p, const struct metric_series *s)
{
	const struct metric_about *about = metric_about(s->metric);
	uint64_t v;

	p = proto_fixed64(p, 4, s->count);
	p = proto_fixed64(p, 5, bits_of(ns_to_seconds(s->sum)));
	p = proto_varint(proto_key(p, 6, WIRE_LEN), (about->n_bounds + 1) * 8);
	for (size_t i = 0; i <= about->n_bounds; i++)
		p = fmt_str(p, (const char *)&s->buckets[i], 8); /* fixed64 is little-endian */
	p = proto_varint(proto_key(p, 7, WIRE_LEN), about->n_bounds * 8);
	for (size_t i = 0; i < about->n_bounds; i++) {
		v = bits_of(ns_to_seconds(about->bounds[i]));
		p = fmt_str(p, (const char *)&v, 8);
	}
	return p;
}

static void add_series(void *ctx, const struct metric_series *s, const char *const values[LABEL_MAX])
{
	const struct metric_about *about = metric_about(s->metric);
	char part[PART_MAX], *p = part;
	struct metrics_writer *w = ctx;

	if (w->metric != (int)s->metric)
		end_metric(w);
	w->metric = (int)s->metric;
	p = proto_fixed64(p, 2, w->start_ns);
	p = proto_fixed64(p, 3, w->now_ns);
	for (int i = 0; i < LABEL_MAX; i++) {
		if (values[i])
			p = put_text_pair(p, about->bounds ? 9 : 7, metric_label_name(s->metric, (enum metric_label)i), values[i]);
	}
	if (about->bounds)
		p = put_histogram_point(p, s);
	else if (about->unit == UNIT_SECONDS)
		p = proto_fixed64(p, 4, bits_of(ns_to_seconds(s->sum)));
	else
		p = proto_fixed64(p, 6, s->sum);
	message_nest(&w->points, 1, part, (size_t)(p - part));
}

char *otlp_metrics_body(struct metrics *m, const char *host, uint64_t start_ns, uint64_t now_ns, size_t *ret_len)
{
	struct metrics_writer w = { .metric = -1, .start_ns = start_ns, .now_ns = now_ns };

	metrics_each(m, add_series, &w);
	end_metric(&w);
	free(w.points.buf);
	return message_wrap(&w.metrics, host, ret_len);
}

/* ---- spans ---- */

struct otlp_request {
	uint64_t start_ns, queued, first, total, line; /* first: from the end of queued; 0: not known */
	uint64_t prompt_tokens, output_tokens, waited_for;
	uint64_t own_prefill, own_decode, others, between;
	char model[METRICS_LABEL_MAX], file[64];
};

struct otlp_spans {
	struct otlp_request requests[OTLP_SPANS_MAX];
	size_t n;
	uint64_t slow_ns, dropped;
};

struct otlp_spans *otlp_spans_new(uint64_t slow_ns)
{
	struct otlp_spans *s = xcalloc(1, sizeof(*s));

	s->slow_ns = slow_ns;
	return s;
}

void otlp_spans_free(struct otlp_spans *s)
{
	free(s);
}

uint64_t otlp_spans_dropped(const struct otlp_spans *s)
{
	return s->dropped;
}

/* Reads when a window opened from "profile_pid12_1700000000000.jsonl": nothing else has the wall clock. */
static bool window_start(const char *file, uint64_t *ret_ns)
{
	const char *ms = strrchr(file, '_');
	char *end;

	*ret_ns = ms ? strtoull(ms + 1, &end, 10) * 1000000 : 0;
	return *ret_ns && ms[1] >= '0' && ms[1] <= '9' && end - ms > 10 && !strncmp(end, ".jsonl", 6);
}

static uint64_t time_or_0(const struct json_node *object, const char *key)
{
	int64_t ns;

	return node_us_to_ns(node_get(object, key), &ns) < 0 || ns < 0 ? 0 : (uint64_t)ns;
}

void otlp_spans_line(struct otlp_spans *s, const struct profile_line *line, const char *file)
{
	static const char *const not_whole[] = { "mixed", "cancelled", "began_before", "unfinished", "end_not_seen", "lost_steps" };
	const struct json_node *shape = line->values[PROFILE_KEY_shape], *stages = line->values[PROFILE_KEY_stage_us];
	const char *event = node_string(line->values[PROFILE_KEY_event]), *model = node_string(line->values[PROFILE_KEY_model]);
	const char *slash = strrchr(file, '/');
	uint64_t total, window;
	struct otlp_request *r;

	file = slash ? slash + 1 : file;
	if (!event || strcmp(event, "request_prof"))
		return;
	for (size_t i = 0; i < sizeof(not_whole) / sizeof(not_whole[0]); i++) {
		if (node_is(node_get(shape, not_whole[i]), JSON_TRUE))
			return;
	}
	total = time_or_0(stages, KEY(total));
	if (!total || total < s->slow_ns)
		return;
	if (s->n == OTLP_SPANS_MAX || !window_start(file, &window)) {
		s->dropped++;
		return;
	}
	r = &s->requests[s->n++];
	*r = (struct otlp_request){ .start_ns = window + time_or_0(shape, KEY(ts_us)),
		.total = total,
		.queued = time_or_0(stages, KEY(queued)),
		.first = time_or_0(stages, KEY(ttft)),
		.line = line->number,
		.prompt_tokens = node_u64(node_get(shape, KEY(prompt_tokens))),
		.output_tokens = node_u64(node_get(shape, KEY(output_tokens))),
		.waited_for = node_u64(node_get(shape, "waited1_for")),
		.own_prefill = time_or_0(stages, "own_prefill"),
		.own_decode = time_or_0(stages, "own_decode"),
		.others = time_or_0(stages, "others"),
		.between = time_or_0(stages, "between") };
	text_printable(r->model, sizeof(r->model), model ? model : "unknown");
	text_printable(r->file, sizeof(r->file), file);
}

struct ids {
	unsigned char trace[16], root[8];
};

/* Span {trace_id 1, span_id 2, parent_span_id 4, name 5, kind 6, start 7, end 8, attributes 9}. child 0: the root. */
static char *put_span(char *p, const struct ids *ids, unsigned char child, const char *name, uint64_t start, uint64_t end)
{
	unsigned char id[8];

	memcpy(id, ids->root, sizeof(id));
	id[7] ^= child;
	p = fmt_str(proto_varint(proto_key(p, 1, WIRE_LEN), 16), (const char *)ids->trace, 16);
	p = fmt_str(proto_varint(proto_key(p, 2, WIRE_LEN), 8), (const char *)id, 8);
	if (child)
		p = fmt_str(proto_varint(proto_key(p, 4, WIRE_LEN), 8), (const char *)ids->root, 8);
	p = proto_text(p, 5, name, strlen(name));
	p = proto_u64(p, 6, child ? 1 : 2); /* internal, server */
	p = proto_fixed64(p, 7, start);
	return proto_fixed64(p, 8, end);
}

static void spans_add_request(struct message *spans, const struct otlp_request *r, const char *host)
{
	unsigned char hash[SHA256_DIGEST_LENGTH];
	uint64_t at = r->start_ns, end = at + r->total, first = at + r->queued + r->first;
	char part[PART_MAX], name[512], *p;
	struct ids ids;
	int len;

	/* the same request has the same ids whenever it is sent */
	len = snprintf(name, sizeof(name), "%.255s/%s/%llu", host, r->file, (unsigned long long)r->line);
	SHA256((const unsigned char *)name, (size_t)len, hash);
	memcpy(ids.trace, hash, sizeof(ids.trace));
	memcpy(ids.root, hash + sizeof(ids.trace), sizeof(ids.root));
	p = put_span(part, &ids, 0, "request", at, end);
	p = put_text_pair(p, 9, "gen_ai.response.model", r->model);
	p = put_int_pair(p, 9, "gen_ai.usage.input_tokens", r->prompt_tokens);
	p = put_int_pair(p, 9, "gen_ai.usage.output_tokens", r->output_tokens);
	p = put_text_pair(p, 9, "inftrace.file", r->file);
	p = put_int_pair(p, 9, "inftrace.line", r->line);
	p = put_double_pair(p, 9, "inftrace.own_prefill", ns_to_seconds(r->own_prefill));
	p = put_double_pair(p, 9, "inftrace.own_decode", ns_to_seconds(r->own_decode));
	p = put_double_pair(p, 9, "inftrace.others", ns_to_seconds(r->others));
	p = put_double_pair(p, 9, "inftrace.between", ns_to_seconds(r->between));
	if (r->waited_for)
		p = put_int_pair(p, 9, "inftrace.waited_for", r->waited_for);
	message_nest(spans, 2, part, (size_t)(p - part));
	if (r->queued && r->queued <= r->total) {
		p = put_span(part, &ids, 1, "queued", at, at + r->queued);
		message_nest(spans, 2, part, (size_t)(p - part));
	}
	if (!r->first || first > end)
		return;
	p = put_span(part, &ids, 2, "first token", at + r->queued, first);
	message_nest(spans, 2, part, (size_t)(p - part));
	p = put_span(part, &ids, 3, "further tokens", first, end);
	message_nest(spans, 2, part, (size_t)(p - part));
}

char *otlp_spans_body(struct otlp_spans *s, const char *host, size_t *ret_len, size_t *ret_n)
{
	struct message spans = { 0 };

	*ret_n = s->n;
	if (!s->n)
		return NULL;
	for (size_t i = 0; i < s->n; i++)
		spans_add_request(&spans, &s->requests[i], host);
	s->n = 0;
	return message_wrap(&spans, host, ret_len);
}

/* ---- sending ---- */

#define PORT "4318" /* of OTLP, for an http URL without a port */
#define TRIES 3
#define TRY_MS 5000L
#define END_S 6 /* for what is on its way when the program ends */

struct job {
	char *body; /* NULL: none */
	size_t len, n;
};

struct otlp_sender {
	char *url; /* without a slash at its end */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct job jobs[OTLP_KIND_MAX];
	struct otlp_sent counts;
	bool ending, failing;
};

/* Returns the URL with a port and without a slash at its end, for curl_free(); NULL: it cannot be used. */
static char *parse_url(const char *text)
{
	bool http = !strncasecmp(text, "http://", 7);
	char *port = NULL, *ret = NULL;
	CURLU *url = curl_url();

	if ((http || !strncasecmp(text, "https://", 8)) && !strpbrk(text, "?#") &&
		!curl_url_set(url, CURLUPART_URL, text, CURLU_DISALLOW_USER)) {
		if (http && curl_url_get(url, CURLUPART_PORT, &port, 0))
			curl_url_set(url, CURLUPART_PORT, PORT, 0);
		if (!port || strtoul(port, NULL, 10))
			curl_url_get(url, CURLUPART_URL, &ret, 0);
	}
	for (size_t len = ret ? strlen(ret) : 0; len && ret[len - 1] == '/'; len--)
		ret[len - 1] = 0;
	curl_free(port);
	curl_url_cleanup(url);
	return ret;
}

static size_t ignore_answer(char *data, size_t size, size_t n, void *arg)
{
	return size * n;
}

/* Returns the status of the answer; 0: none, for the reason in `why`. */
static int job_post(const char *base, const char *path, const struct job *job, char why[CURL_ERROR_SIZE])
{
	struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/x-protobuf");
	const char *authorities = getenv("CURL_CA_BUNDLE");
	char *url = xasprintf("%s%s", base, path);
	CURL *curl = curl_easy_init();
	long status = 0, os_error = 0;

	if (!headers || !curl)
		out_of_memory();
	why[0] = 0;
	curl_easy_setopt(curl, CURLOPT_URL, url);
	curl_easy_setopt(curl, CURLOPT_PROXY, ""); /* nothing is sent elsewhere */
	curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(curl, CURLOPT_POSTFIELDS, job->body);
	curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)job->len);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, ignore_answer);
	curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, why);
	curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, TRY_MS);
	curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	if (authorities && *authorities)
		curl_easy_setopt(curl, CURLOPT_CAINFO, authorities);
	curl_easy_perform(curl);
	curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
	curl_easy_getinfo(curl, CURLINFO_OS_ERRNO, &os_error);
	if (os_error)
		snprintf(why, CURL_ERROR_SIZE, "%s", strerror((int)os_error));
	curl_easy_cleanup(curl);
	free(url);
	curl_slist_free_all(headers);
	return (int)status;
}

/* Whether the same may succeed later, by the specification of OTLP/HTTP. */
static bool status_is_transient(int status)
{
	return !status || status == 429 || status == 502 || status == 503 || status == 504;
}

/* Prints one line when sending begins to fail, and one when it works again. */
static void sender_log_status(struct otlp_sender *s, int status, const char *why)
{
	const char *place = strstr(s->url, "://") + 3;
	int len = (int)strcspn(place, "/");
	bool failed = status / 100 != 2;

	if (failed == s->failing)
		return;
	s->failing = failed;
	if (!failed)
		log_info("the collector at %.*s takes what is sent again", len, place);
	else if (!status)
		log_warn("cannot send to the collector at %.*s: %s; trying on", len, place, why);
	else
		log_warn("the collector at %.*s answers with status %d; trying on", len, place, status);
}

/* Waits, but not when the program ends. */
static void sender_pause(struct otlp_sender *s, unsigned int seconds)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += seconds;
	while (!s->ending && !pthread_cond_timedwait(&s->changed, &s->lock, &until))
		;
}

/* Called and returns with the lock held. */
static void sender_send_job(struct otlp_sender *s, enum otlp_kind kind)
{
	static const char *const paths[] = { [OTLP_METRICS] = "/v1/metrics", [OTLP_TRACES] = "/v1/traces" };
	struct job job = s->jobs[kind];
	char why[CURL_ERROR_SIZE];
	bool arrived = false, again = true;
	int status;

	for (unsigned int try = 0; try < TRIES && again; try++) {
		if (try)
			sender_pause(s, try);
		pthread_mutex_unlock(&s->lock);
		status = job_post(s->url, paths[kind], &job, why);
		sender_log_status(s, status, why);
		pthread_mutex_lock(&s->lock);
		arrived = status / 100 == 2;
		again = !arrived && status_is_transient(status) && !s->ending;
		s->counts.sent += arrived;
		s->counts.failed += !arrived;
	}
	if (!arrived)
		s->counts.dropped += job.n;
	free(job.body);
	s->jobs[kind] = (struct job){ 0 };
}

static void *sender_run(void *arg)
{
	struct otlp_sender *s = arg;

	pthread_mutex_lock(&s->lock);
	for (;;) {
		if (s->jobs[OTLP_METRICS].body)
			sender_send_job(s, OTLP_METRICS);
		else if (s->jobs[OTLP_TRACES].body)
			sender_send_job(s, OTLP_TRACES);
		else if (s->ending)
			break;
		else
			pthread_cond_wait(&s->changed, &s->lock);
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

int otlp_sender_new(const char *url, struct otlp_sender **ret)
{
	struct otlp_sender *s;
	char *base = parse_url(url);
	int err;

	if (!base)
		return log_fail(-EINVAL, "--otlp: %.128s: give http://HOST[:PORT][/PATH], or https", url);
	s = xcalloc(1, sizeof(*s));
	s->url = base;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->changed, NULL);
	err = -pthread_create(&s->thread, NULL, sender_run, s);
	if (!err) {
		*ret = s;
		return 0;
	}
	log_error("--otlp: cannot start a thread: %s", strerror(-err));
	curl_free(s->url);
	free(s);
	return err;
}

bool otlp_sender_ready(struct otlp_sender *s, enum otlp_kind kind)
{
	bool ready;

	pthread_mutex_lock(&s->lock);
	ready = !s->jobs[kind].body;
	pthread_mutex_unlock(&s->lock);
	return ready;
}

void otlp_sender_pass(struct otlp_sender *s, enum otlp_kind kind, char *body, size_t len, size_t n)
{
	pthread_mutex_lock(&s->lock);
	s->jobs[kind] = (struct job){ body, len, n };
	pthread_cond_signal(&s->changed);
	pthread_mutex_unlock(&s->lock);
}

void otlp_sender_counts(struct otlp_sender *s, struct otlp_sent *ret)
{
	pthread_mutex_lock(&s->lock);
	*ret = s->counts;
	pthread_mutex_unlock(&s->lock);
}

void otlp_sender_free(struct otlp_sender *s)
{
	struct timespec until;

	if (!s)
		return;
	pthread_mutex_lock(&s->lock);
	s->ending = true;
	pthread_cond_signal(&s->changed);
	pthread_mutex_unlock(&s->lock);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += END_S;
	/* a name server may take longer: the thread ends with the program, and uses this until then */
	if (pthread_timedjoin_np(s->thread, NULL, &until))
		return;
	pthread_cond_destroy(&s->changed);
	pthread_mutex_destroy(&s->lock);
	curl_free(s->url);
	free(s);
}
