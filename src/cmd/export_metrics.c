// SPDX-License-Identifier: BSD-2-Clause
#include "cmd/export_metrics.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "export/metrics.h"
#include "export/otlp.h"
#include "export/otlp_send.h"
#include "export/tail.h"
#include "io/http_server.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/parse.h"
#include "util/thread.h"
#include "util/program.h"

#define LOOK_MS 1000                  /* how often files are looked at */
#define READ_MAX (UINT64_C(64) << 20) /* at a time, so that a client is answered meanwhile */

/* How long the last sending waits for the one before. */
#define END_WAITS 100
#define END_WAIT_US 50000

struct exporter {
	struct tail *tail;
	struct metrics *metrics;
	struct http_server *server;
	struct http_page page;
	int signals;
	int64_t now_ms, look_ms;
	struct otlp_sender *sender; /* NULL: not asked for, as spans */
	struct otlp_spans *spans;
	char host[256];
	uint64_t start_ns; /* by the wall clock */
	int64_t interval_ms, send_ms;
	bool following; /* what comes now has not been there at the start */
};

static void take_line(void *ctx, const struct profile_line *line, const char *path)
{
	struct exporter *e = ctx;

	metrics_line(e->metrics, line, path, e->now_ms);
	if (e->spans && e->following)
		otlp_spans_line(e->spans, line, path);
}

static void look(struct exporter *e)
{
	e->now_ms = clock_mono_ms();
	e->look_ms = e->now_ms + LOOK_MS;
	tail_read(e->tail, READ_MAX, take_line, e);
}

/* What is in the files at this moment. */
static char *make_page(void *ctx, const char *accept, size_t *ret_len, const char **ret_type)
{
	bool openmetrics = metrics_accepts_openmetrics(accept);
	struct exporter *e = ctx;
	struct metrics_own own;

	look(e);
	*ret_type = metrics_text_type(openmetrics);
	own = (struct metrics_own){ .files = tail_counts(e->tail), .otlp = e->sender };
	if (e->sender) {
		otlp_sender_counts(e->sender, &own.sent);
		own.sent.dropped += otlp_spans_dropped(e->spans);
	}
	return metrics_text(e->metrics, &own, openmetrics, ret_len);
}

/* ---- to a collector ---- */

/* Metrics are sums, so that what one sending lacks is in the next one; spans wait until the last ones have arrived. */
static void send_all(struct exporter *e)
{
	size_t len, n;
	char *body;

	e->send_ms = e->now_ms + e->interval_ms;
	if (otlp_sender_ready(e->sender, OTLP_METRICS)) {
		body = otlp_metrics_body(e->metrics, e->host, e->start_ns, clock_ns(CLOCK_REALTIME), &len);
		otlp_sender_pass(e->sender, OTLP_METRICS, body, len, 0);
	}
	body = otlp_sender_ready(e->sender, OTLP_TRACES) ? otlp_spans_body(e->spans, e->host, &len, &n) : NULL;
	if (body)
		otlp_sender_pass(e->sender, OTLP_TRACES, body, len, n);
}

static int open_sender(struct exporter *e, const struct export_metrics_args *args)
{
	int err;

	if (!args->otlp)
		return EXIT_OK;
	if (gethostname(e->host, sizeof(e->host) - 1))
		snprintf(e->host, sizeof(e->host), "unknown");
	e->start_ns = clock_ns(CLOCK_REALTIME);
	e->interval_ms = (int64_t)(args->interval_ns / NSEC_PER_MSEC);
	e->spans = otlp_spans_new(args->slow_ns);
	err = otlp_sender_new(args->otlp, &e->sender);
	return !err ? EXIT_OK : err == -EINVAL ? EXIT_USAGE
					       : EXIT_RUN;
}

/* ---- where ---- */

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

/* ":9464", "0.0.0.0:9464", "[::]:9464". Returns the length of the address, 0: it is none. */
static socklen_t parse_address(const char *text, union address *ret)
{
	const char *colon = strrchr(text, ':');
	char host[INET6_ADDRSTRLEN + 2];
	uint32_t port;
	size_t len;

	if (!colon || parse_u32(colon + 1, &port) || port > UINT16_MAX || (size_t)(colon - text) >= sizeof(host))
		return 0;
	len = (size_t)(colon - text);
	memcpy(host, text, len);
	host[len] = 0;
	memset(ret, 0, sizeof(*ret));
	if (len > 2 && host[0] == '[' && host[len - 1] == ']') {
		host[len - 1] = 0;
		ret->v6.sin6_family = AF_INET6;
		ret->v6.sin6_port = htons((uint16_t)port);
		return inet_pton(AF_INET6, host + 1, &ret->v6.sin6_addr) == 1 ? sizeof(ret->v6) : 0;
	}
	ret->v4.sin_family = AF_INET;
	ret->v4.sin_port = htons((uint16_t)port);
	return inet_pton(AF_INET, len ? host : "127.0.0.1", &ret->v4.sin_addr) == 1 ? sizeof(ret->v4) : 0;
}

static bool is_loopback(const union address *a)
{
	return a->any.sa_family == AF_INET ? ntohl(a->v4.sin_addr.s_addr) >> 24 == 127 : IN6_IS_ADDR_LOOPBACK(&a->v6.sin6_addr);
}

static int listen_at(struct exporter *e, const char *text)
{
	union address address;
	socklen_t len = text ? parse_address(text, &address) : 0;
	char host[INET6_ADDRSTRLEN] = "";
	bool v6;
	int err;

	if (!text)
		return EXIT_OK;
	if (!len) {
		log_error("--prometheus: %.64s: give :PORT, ADDRESS:PORT or [ADDRESS]:PORT, with the address in numbers", text);
		return EXIT_USAGE;
	}
	v6 = address.any.sa_family == AF_INET6;
	e->page = (struct http_page){ .name = "metrics", .make = make_page, .ctx = e, .any_host = v6 || !is_loopback(&address) };
	err = http_server_new_page(&address.any, len, &e->page, &e->server);
	if (err) {
		log_error("cannot listen on %.64s: %s", text, strerror(-err));
		return err == -EACCES ? EXIT_ALLOWED : EXIT_RUN;
	}
	inet_ntop(address.any.sa_family, v6 ? (void *)&address.v6.sin6_addr : (void *)&address.v4.sin_addr, host, sizeof(host));
	printf(v6 ? "http://[%s]:%u/metrics\n" : "http://%s:%u/metrics\n", host, http_server_port(e->server));
	return cmd_flush("the URL");
}

/* ---- the loop ---- */

/* The milliseconds until something is to be done. */
static int64_t wait_ms(const struct exporter *e, int64_t now)
{
	int64_t next = e->sender && e->send_ms < e->look_ms ? e->send_ms : e->look_ms;

	return next > now ? next - now : 0;
}

static bool all_ready(struct exporter *e)
{
	return otlp_sender_ready(e->sender, OTLP_METRICS) && otlp_sender_ready(e->sender, OTLP_TRACES);
}

static int serve(struct exporter *e)
{
	struct pollfd signal = { .fd = e->signals, .events = POLLIN };
	int err;

	e->following = true;
	for (;;) {
		err = http_server_poll(e->server, &signal, 1, wait_ms(e, clock_mono_ms()));
		if (err) {
			log_error("cannot go on: %s", strerror(-err));
			return EXIT_RUN;
		}
		if (signal.revents)
			break;
		e->now_ms = clock_mono_ms();
		if (e->now_ms >= e->look_ms)
			look(e);
		if (e->sender && e->now_ms >= e->send_ms)
			send_all(e);
	}
	if (!e->sender)
		return EXIT_OK;
	/* what came since, after what is on its way */
	look(e);
	for (int i = 0; i < END_WAITS && !all_ready(e); i++)
		usleep(END_WAIT_US);
	send_all(e);
	return EXIT_OK;
}

/* All that is there is read before anyone can ask: sums that are still catching up would look like a burst of requests. */
static void read_all(struct exporter *e)
{
	struct pollfd p = { .fd = e->signals, .events = POLLIN };

	do {
		look(e);
	} while (tail_counts(e->tail)->unread > READ_MAX && poll(&p, 1, 0) <= 0);
}

int export_metrics(const struct export_metrics_args *args)
{
	struct exporter e = { .signals = -1 };
	int ret = EXIT_RUN;

	e.metrics = metrics_new();
	if (!tail_new(args->paths, args->n_paths, &e.tail))
		e.signals = thread_stop_signals();
	if (e.signals >= 0)
		ret = open_sender(&e, args);
	if (e.signals >= 0 && ret == EXIT_OK) {
		read_all(&e);
		ret = listen_at(&e, args->prometheus) ?: serve(&e);
	}
	http_server_free(e.server);
	otlp_sender_free(e.sender);
	otlp_spans_free(e.spans);
	tail_free(e.tail);
	metrics_free(e.metrics);
	if (e.signals >= 0)
		close(e.signals);
	return ret;
}
