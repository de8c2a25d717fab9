// SPDX-License-Identifier: BSD-2-Clause
#include "record/scrape.h"

#include <curl/curl.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/alloc.h"
#include "util/clock.h"
#include "util/confine.h"
#include "util/log.h"
#include "util/map.h"

#define PERIOD_NS NSEC_PER_SEC
#define TIMEOUT_MS 10000L
#define PAGE_MAX (4u << 20) /* bytes; vLLM's page has some 60 KB */
#define MEMORY_MAX (64u << 20)
#define DRAIN_MAX (4 * METRICS_MAX) /* messages at a time */

/* Series that are not on the page, named as Prometheus names what it adds itself. */
enum {
	SERIES_UP,       /* 1: the page was read; 0: it was not */
	SERIES_DURATION, /* of reading it */
	SERIES_OWN,
};
#define SERIES_STATE UINT32_MAX /* no series: what became of a page */

/* What the process sends: the values of a page, then its state. */
struct scrape_message {
	uint64_t ns, value;
	uint32_t series;
	uint32_t left_out;          /* of a state: values that had no room, or too long a name */
	char name[METRIC_NAME_LEN]; /* of a state: why the page was not read; "": it was */
};

/* ---- the page ---- */

struct word {
	const char *text;
	size_t len;
};

static struct word take_word(const char **at, const char *end)
{
	struct word w;

	while (*at < end && (**at == ' ' || **at == '\t'))
		++*at;
	w.text = *at;
	while (*at < end && **at != ' ' && **at != '\t' && **at != '\r')
		++*at;
	w.len = (size_t)(*at - w.text);
	return w;
}

static bool word_is(struct word w, const char *text)
{
	return w.len == strlen(text) && !memcmp(w.text, text, w.len);
}

struct family {
	struct word name;
	bool divided; /* its series are parts of histograms or summaries */
};

/* Takes a line that begins with #. */
static void take_comment(const char *at, const char *end, struct family *f)
{
	struct word name, kind;

	at++;
	if (!word_is(take_word(&at, end), "TYPE"))
		return;
	name = take_word(&at, end);
	kind = take_word(&at, end);
	*f = (struct family){ name, word_is(kind, "histogram") || word_is(kind, "summary") || word_is(kind, "gaugehistogram") };
}

/* Returns where the name of a series, with its labels, ends; NULL: it does not. *ret_name_len: without the labels. */
static const char *series_find_end(const char *line, const char *end, size_t *ret_name_len)
{
	const char *at = line;
	bool quoted = false;

	while (at < end && *at != '{' && *at != ' ' && *at != '\t')
		at++;
	*ret_name_len = (size_t)(at - line);
	if (at == end || *at != '{')
		return at < end && at > line ? at : NULL;
	for (; at < end && (quoted || *at != '}'); at++) {
		if (quoted && *at == '\\' && at + 1 < end)
			at++;
		else if (*at == '"')
			quoted = !quoted;
	}
	return at < end ? at + 1 : NULL;
}

static bool parse_value(struct word w, double *ret)
{
	char text[64], *end;

	if (!w.len || w.len >= sizeof(text))
		return false;
	memcpy(text, w.text, w.len);
	text[w.len] = 0;
	*ret = strtod(text, &end);
	return !*end && isfinite(*ret);
}

static void take_sample(const char *line, const char *end, const struct family *f, scrape_value_cb cb, void *arg)
{
	static const char created[] = "_created";
	size_t n = 0, after = sizeof(created) - 1;
	const char *at = series_find_end(line, end, &n), *series_end = at;
	double value;

	if (!at || !parse_value(take_word(&at, end), &value))
		return;
	if (f->divided && n >= f->name.len && !memcmp(line, f->name.text, f->name.len))
		return;
	if (n > after && !memcmp(line + n - after, created, after))
		return;
	cb(line, (size_t)(series_end - line), value, arg);
}

void scrape_parse(const char *page, size_t len, scrape_value_cb cb, void *arg)
{
	const char *end = page + len;
	struct family f = { { page, 0 }, false };

	while (page < end) {
		const char *line = page, *line_end = memchr(page, '\n', (size_t)(end - page)) ?: end;

		page = line_end + 1;
		if (*line == '#')
			take_comment(line, line_end, &f);
		else
			take_sample(line, line_end, &f, cb, arg);
	}
}

/* ---- the process ---- */

struct series {
	UT_hash_handle hh;
	uint32_t number;
	char name[METRIC_NAME_LEN];
};

struct scraper {
	int to;
	CURL *curl;
	char *page;
	size_t len;
	bool too_long;
	struct series *series;
	uint64_t ns; /* when the page had arrived */
	uint32_t left_out;
};

static void scraper_send(const struct scraper *s, uint32_t series, const char *name, size_t len, double value)
{
	struct scrape_message m = { .ns = s->ns, .series = series, .left_out = s->left_out };

	memcpy(m.name, name, len);
	memcpy(&m.value, &value, sizeof(value));
	if (send(s->to, &m, sizeof(m), MSG_NOSIGNAL) < 0)
		_exit(0); /* the recorder is gone */
}

static void scraper_send_own(const struct scraper *s, uint32_t series, const char *name, double value)
{
	scraper_send(s, series, name, strlen(name), value);
}

static void scraper_take(const char *name, size_t len, double value, void *arg)
{
	struct scraper *s = arg;
	struct series *known = NULL;

	if (len >= METRIC_NAME_LEN || memchr(name, 0, len)) {
		s->left_out++;
		return;
	}
	HASH_FIND(hh, s->series, name, len, known);
	if (!known && SERIES_OWN + HASH_COUNT(s->series) == METRICS_MAX) {
		s->left_out++;
		return;
	}
	if (!known) {
		known = xcalloc(1, sizeof(*known));
		known->number = SERIES_OWN + HASH_COUNT(s->series);
		memcpy(known->name, name, len);
		HASH_ADD(hh, s->series, name, len, known);
	}
	scraper_send(s, known->number, name, len, value);
}

static size_t scraper_write(char *data, size_t size, size_t n, void *arg)
{
	struct scraper *s = arg;

	size *= n;
	s->too_long = s->len + size > PAGE_MAX;
	if (s->too_long)
		return 0;
	memcpy(s->page + s->len, data, size);
	s->len += size;
	return size;
}

/* Reads the page. Returns why it could not; NULL: it has. */
static const char *scraper_read(struct scraper *s, char buf[METRIC_NAME_LEN])
{
	long status = 0, os_error = 0;
	CURLcode err;

	s->len = 0;
	s->too_long = false;
	err = curl_easy_perform(s->curl);
	curl_easy_getinfo(s->curl, CURLINFO_RESPONSE_CODE, &status);
	curl_easy_getinfo(s->curl, CURLINFO_OS_ERRNO, &os_error);
	if (s->too_long)
		return "the page has more than 4 MB";
	if (err)
		return err == CURLE_COULDNT_CONNECT && os_error ? strerror((int)os_error) : curl_easy_strerror(err);
	if (status == 200)
		return NULL;
	snprintf(buf, METRIC_NAME_LEN, "HTTP status %ld", status);
	return buf;
}

static void scraper_turn(struct scraper *s)
{
	uint64_t from = clock_boot_ns();
	char buf[METRIC_NAME_LEN];
	const char *why = scraper_read(s, buf);

	s->ns = clock_boot_ns();
	s->left_out = 0;
	scraper_send_own(s, SERIES_UP, "up", why ? 0 : 1);
	if (!why) {
		scraper_send_own(s, SERIES_DURATION, "scrape_duration_seconds", (double)(s->ns - from) / 1e9);
		scrape_parse(s->page, s->len, scraper_take, s);
	}
	scraper_send(s, SERIES_STATE, why ?: "", why ? strnlen(why, METRIC_NAME_LEN - 1) : 0, 0);
}

/* Runs in the process, and does not return. */
static void scraper_run(const char *url, int fd)
{
	struct scraper s = { .curl = curl_easy_init(), .page = malloc(PAGE_MAX) };

	s.to = confine_reader(fd, "inftrace-metric");
	if (s.to < 0 || !s.curl || !s.page)
		_exit(1);
	if (confine_is_full()) {
		confine_limit(RLIMIT_DATA, MEMORY_MAX);
		if (confine_client())
			_exit(1);
	}
	curl_easy_setopt(s.curl, CURLOPT_URL, url);
	curl_easy_setopt(s.curl, CURLOPT_PROXY, ""); /* nothing is asked elsewhere */
	curl_easy_setopt(s.curl, CURLOPT_PROTOCOLS_STR, "http");
	curl_easy_setopt(s.curl, CURLOPT_USERAGENT, "inftrace");
	curl_easy_setopt(s.curl, CURLOPT_WRITEFUNCTION, scraper_write);
	curl_easy_setopt(s.curl, CURLOPT_WRITEDATA, &s);
	curl_easy_setopt(s.curl, CURLOPT_TIMEOUT_MS, TIMEOUT_MS);
	curl_easy_setopt(s.curl, CURLOPT_NOSIGNAL, 1L);
	for (uint64_t due = clock_boot_ns();;) {
		uint64_t now;

		scraper_turn(&s);
		now = clock_boot_ns();
		due = due + PERIOD_NS > now ? due + PERIOD_NS : now;
		clock_nanosleep(CLOCK_BOOTTIME, TIMER_ABSTIME,
			&(struct timespec){ .tv_sec = (time_t)(due / NSEC_PER_SEC), .tv_nsec = (long)(due % NSEC_PER_SEC) }, NULL);
	}
}

/* ---- the recorder's side ---- */

struct scrape {
	char *url;
	pid_t pid;
	int fd; /* -1: the process is gone */
	uint64_t pages, failed; /* read; not read, after the first that was */
	uint64_t values, left_out;
	uint32_t series;
	char why[METRIC_NAME_LEN]; /* why the last one of those was not, or before there were any; "": unknown */
};

/* Returns what to ask for, for free(); NULL: it is neither a URL nor a port. */
static char *parse_where(const char *where)
{
	bool port = *where && !where[strspn(where, "0123456789")];
	char *text = port ? xasprintf("http://127.0.0.1:%s/metrics", where) : xstrdup(where), *path = NULL, *full = NULL, *ret = NULL;
	CURLU *url = curl_url();

	if (!strncasecmp(text, "http://", 7) && !curl_url_set(url, CURLUPART_URL, text, CURLU_DISALLOW_USER) &&
		!curl_url_get(url, CURLUPART_PATH, &path, 0)) {
		if (!strcmp(path, "/"))
			curl_url_set(url, CURLUPART_PATH, "/metrics", 0);
		if (!curl_url_get(url, CURLUPART_URL, &full, 0))
			ret = xstrdup(full);
	}
	curl_free(full);
	curl_free(path);
	curl_url_cleanup(url);
	free(text);
	return ret;
}

int scrape_new(const char *where, struct scrape **ret_scrape)
{
	char *url = parse_where(where);
	int fds[2], err = 0;
	pid_t pid;

	if (!url)
		return log_fail(-EINVAL, "--metrics: '%.128s' is neither http://HOST:PORT/PATH nor a port of this machine", where);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds)) {
		err = -errno;
		goto out;
	}
	pid = fork();
	if (!pid) {
		close(fds[0]);
		scraper_run(url, fds[1]);
	}
	if (pid < 0)
		err = -errno;
	close(fds[1]);
	if (err) {
		close(fds[0]);
		goto out;
	}
	*ret_scrape = xcalloc(1, sizeof(**ret_scrape));
	**ret_scrape = (struct scrape){ .url = url, .pid = pid, .fd = fds[0] };
	return 0;
out:
	free(url);
	return log_fail(err, "--metrics: cannot start the process that reads them: %s", strerror(-err));
}

void scrape_free(struct scrape *s)
{
	if (!s)
		return;
	if (s->fd >= 0)
		close(s->fd);
	kill(s->pid, SIGKILL);
	while (waitpid(s->pid, NULL, 0) < 0 && errno == EINTR)
		;
	free(s->url);
	free(s);
}

/* The process may be in the hands of the page that it reads: nothing that it says is taken on trust. */
static void scrape_take(struct scrape *s, const struct scrape_message *m, record_cb cb, void *arg)
{
	uint64_t now = clock_boot_ns();
	struct rec_metric r = {
		.h = { .kind = REC_METRIC, .start_ns = m->ns < now ? m->ns : now, .id = m->series },
		.value = m->value,
	};
	double value;

	memcpy(&value, &m->value, sizeof(value));
	memcpy(r.name, m->name, strnlen(m->name, METRIC_NAME_LEN - 1));
	if (m->series == SERIES_STATE) {
		s->pages += !*r.name;
		s->failed += *r.name && s->pages; /* a COMMAND has no page at its start */
		s->left_out = m->left_out > s->left_out ? m->left_out : s->left_out;
		if (*r.name)
			memcpy(s->why, r.name, sizeof(s->why));
		return;
	}
	if (m->series >= METRICS_MAX || !isfinite(value) || !*r.name)
		return;
	s->values++;
	s->series = m->series >= s->series ? m->series + 1 : s->series;
	cb(&r.h, sizeof(r), arg);
}

void scrape_drain(struct scrape *s, record_cb cb, void *arg)
{
	struct scrape_message m;
	ssize_t n = -1;

	for (int i = 0; s && s->fd >= 0 && i < DRAIN_MAX; i++) {
		n = recv(s->fd, &m, sizeof(m), MSG_DONTWAIT);
		if (n != sizeof(m))
			break;
		scrape_take(s, &m, cb, arg);
	}
	if (!s || s->fd < 0 || n == sizeof(m) || (n < 0 && (errno == EAGAIN || errno == EINTR)))
		return;
	close(s->fd);
	s->fd = -1;
	log_warn("--metrics: the process that reads %s has ended; there are no more of its values", s->url);
}

void scrape_summary(const struct scrape *s)
{
	if (!s)
		return;
	if (!s->pages)
		log_warn("--metrics %s: not read: %s", s->url, *s->why ? s->why : "there was no answer yet");
	else
		log_info("metrics: %" PRIu64 " values of %" PRIu32 " series, from %" PRIu64 " pages", s->values, s->series, s->pages);
	if (s->failed)
		log_warn("--metrics %s: %" PRIu64 " times the page was not read, the last time: %s", s->url, s->failed, s->why);
	if (s->left_out)
		log_warn("--metrics: of a page %" PRIu64 " values are not in the traces: they are beyond %d series, or have names of more than %d bytes",
			s->left_out, METRICS_MAX, METRIC_NAME_LEN - 1);
}
