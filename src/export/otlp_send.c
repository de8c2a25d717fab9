// SPDX-License-Identifier: BSD-2-Clause
#include "export/otlp_send.h"

#include <curl/curl.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "util/alloc.h"
#include "util/clock.h"
#include "util/log.h"

#define PORT "4318" /* of OTLP, where a URL with http has none */
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

/* Returns the URL with a port and without a slash at its end, for curl_free(); NULL: it is none of a collector. */
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

static size_t ignore(char *data, size_t size, size_t n, void *arg)
{
	return size * n;
}

/* Returns the status of the answer; 0: none, for the reason in `why`. */
static int post(const char *base, const char *path, const struct job *job, char why[CURL_ERROR_SIZE])
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
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, ignore);
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
static bool is_passing(int status)
{
	return !status || status == 429 || status == 502 || status == 503 || status == 504;
}

/* One line when it begins to fail, and one when it works again. */
static void say(struct otlp_sender *s, int status, const char *why)
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
static void pause_s(struct otlp_sender *s, unsigned int seconds)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += seconds;
	while (!s->ending && !pthread_cond_timedwait(&s->changed, &s->lock, &until))
		;
}

/* Called and returns with the lock held. */
static void send_job(struct otlp_sender *s, enum otlp_kind kind)
{
	static const char *const paths[] = { [OTLP_METRICS] = "/v1/metrics", [OTLP_TRACES] = "/v1/traces" };
	struct job job = s->jobs[kind];
	char why[CURL_ERROR_SIZE];
	bool arrived = false, again = true;
	int status;

	for (unsigned int try = 0; try < TRIES && again; try++) {
		if (try)
			pause_s(s, try);
		pthread_mutex_unlock(&s->lock);
		status = post(s->url, paths[kind], &job, why);
		say(s, status, why);
		pthread_mutex_lock(&s->lock);
		arrived = status / 100 == 2;
		again = !arrived && is_passing(status) && !s->ending;
		s->counts.sent += arrived;
		s->counts.failed += !arrived;
	}
	if (!arrived)
		s->counts.dropped += job.n;
	free(job.body);
	s->jobs[kind] = (struct job){ 0 };
}

static void *run(void *arg)
{
	struct otlp_sender *s = arg;

	pthread_mutex_lock(&s->lock);
	for (;;) {
		if (s->jobs[OTLP_METRICS].body)
			send_job(s, OTLP_METRICS);
		else if (s->jobs[OTLP_TRACES].body)
			send_job(s, OTLP_TRACES);
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

	if (!base) {
		log_error("--otlp: %.128s: give http://HOST[:PORT][/PATH], or https", url);
		return -EINVAL;
	}
	s = xcalloc(1, sizeof(*s));
	s->url = base;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->changed, NULL);
	err = -pthread_create(&s->thread, NULL, run, s);
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
