// SPDX-License-Identifier: BSD-2-Clause
#include "export/otlp_send.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "io/http_post.h"
#include "util/clock.h"
#include "util/log.h"

#define TRIES 3
#define TRY_MS 5000
#define END_S 6 /* for what is on its way when the program ends */

struct job {
	char *body; /* NULL: none */
	size_t len, n;
};

struct otlp_sender {
	struct http_url url;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct job jobs[OTLP_KIND_MAX];
	struct otlp_sent counts;
	bool ending, failing;
};

/* Whether the same may succeed later, by the specification of OTLP/HTTP. */
static bool is_passing(int err, int status)
{
	return err || status == 429 || status == 502 || status == 503 || status == 504;
}

/* One line when it begins to fail, and one when it works again. */
static void say(struct otlp_sender *s, int err, int status)
{
	bool failed = err || status / 100 != 2;

	if (failed == s->failing)
		return;
	s->failing = failed;
	if (!failed)
		log_info("the collector at %s:%s takes what is sent again", s->url.host, s->url.port);
	else if (err)
		log_warn("cannot send to the collector at %s:%s: %s; trying on", s->url.host, s->url.port, strerror(-err));
	else
		log_warn("the collector at %s:%s answers with status %d; trying on", s->url.host, s->url.port, status);
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
	bool arrived = false, again = true;
	int err, status;

	for (unsigned int try = 0; try < TRIES && again; try++) {
		if (try)
			pause_s(s, try);
		pthread_mutex_unlock(&s->lock);
		status = 0;
		err = http_post(&s->url, paths[kind], "application/x-protobuf", job.body, job.len, TRY_MS, &status);
		say(s, err, status);
		pthread_mutex_lock(&s->lock);
		arrived = !err && status / 100 == 2;
		again = !arrived && is_passing(err, status) && !s->ending;
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
	struct otlp_sender *s = calloc(1, sizeof(*s));
	int err = s ? http_url_parse(url, OTLP_PORT, &s->url) : -ENOMEM;

	if (err == -EPROTONOSUPPORT)
		log_error("--otlp: %.128s: https is not spoken; send to a collector on this host, http://127.0.0.1:" OTLP_PORT ", which can", url);
	else if (err == -EINVAL)
		log_error("--otlp: %.128s: give http://HOST[:PORT][/PATH]", url);
	if (!err) {
		pthread_mutex_init(&s->lock, NULL);
		pthread_cond_init(&s->changed, NULL);
		err = -pthread_create(&s->thread, NULL, run, s);
		if (err)
			log_error("--otlp: cannot start a thread: %s", strerror(-err));
	}
	if (err)
		free(s);
	else
		*ret = s;
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
	free(s);
}
