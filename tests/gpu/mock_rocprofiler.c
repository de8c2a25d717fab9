// SPDX-License-Identifier: BSD-2-Clause
/*
 * librocprofiler-sdk.so.1 of a GPU that does not exist: see mock_rocm.h. As the real one it loads the tools of
 * ROCP_TOOL_LIBRARIES when HIP starts, lets them configure contexts, buffers and services then and only then, asks for the
 * external correlation id on the launching thread, and hands over buffers on the thread that was made for them, once
 * they are full enough or are flushed. Bytes of records that are not documented hold junk.
 */
#define _GNU_SOURCE
#include "mock.h"
#include "mock_rocm.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define JUNK 0xa5
#define CONTEXTS 8
#define HEADERS_MAX 65536
#define LOCKED 16 /* statuses */
#define INVALID 19
#define PATIENCE_MS 200 /* for what still runs, when the process ends */

enum { TRACE_COPY = 10, TRACE_KERNEL = 11, CODE_OBJECT = 10, LOSSLESS = 2 };

struct header {
	uint32_t category, kind;
	void *payload;
};

struct agent {
	uint64_t size, id;
	uint32_t type;
	uint8_t rest[300];
};

typedef int agents_fn(uint32_t version, const void **agents, size_t count, void *user);
typedef void buffer_fn(uint64_t context, uint64_t buffer, struct header **headers, size_t count, void *user, uint64_t dropped);
typedef int request_fn(uint64_t thread, uint64_t context, uint32_t kind, int32_t operation, uint64_t correlation, uint64_t *external,
	void *user);

struct record_0 { /* of a callback, before 1.0 */
	uint64_t context, thread, internal, external;
	uint32_t kind, operation, phase;
	void *payload;
};

struct record_1 {
	uint64_t context, thread, internal, external, ancestor;
	uint32_t kind, operation, phase;
	void *payload;
};

struct symbol {
	uint64_t size, kernel, code_object;
	const char *name;
	uint64_t object;
	uint32_t rest[7];
};

struct result {
	size_t size;
	int (*initialize)(void (*finalize)(void), void *data);
	void (*finalize)(void *data);
	void *data;
};

/* Context and buffer of the same number belong together. Handles are numbers from 1 on, and something in front of them. */
struct context {
	bool made, active;
	uint32_t kind, request_kind; /* what is traced; 0: nothing */
	request_fn *request;
	void *request_user, *code_callback, *code_user;
	/* the buffer */
	buffer_fn *callback;
	void *user;
	size_t size, watermark, used[2];
	uint8_t *half[2];
	int index;
	uint64_t thread, asked, done, dropped;
};

struct pending {
	struct mock_rocm_work w;
	struct context *context;
	uint64_t internal, external, thread;
};

struct lane {
	struct pending *list;
	size_t first, count, room;
};

static const struct version {
	const char *name;
	uint32_t number;
	size_t kernel, copy;
} versions[] = { { "0.5", 500, 184, 80 }, { "1.1", 10100, 184, 96 }, { "1.3", 10300, 192, 96 } };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER, some = PTHREAD_COND_INITIALIZER;
static const struct version *version = &versions[1];
static struct context contexts[CONTEXTS];
static struct lane lanes[MOCK_ROCM_LANES];
static struct result *tools[CONTEXTS];
static pid_t owner;
static bool locked, has_worker, shuffle;
static uint64_t correlation, began, drop_every, zero_every, complete_ms, fail_start, fail_configure, count, threads;
static int64_t clock_offset;
static double clock_drift;

static uint64_t device_clock(uint64_t boot)
{
	return boot + (uint64_t)clock_offset + (uint64_t)(int64_t)((double)(int64_t)(boot - began) * clock_drift);
}

static struct context *context_of(uint64_t handle)
{
	uint64_t i = handle - 0x100000001;

	return i < CONTEXTS && contexts[i].made ? &contexts[i] : NULL;
}

static uint64_t handle_of(const struct context *c)
{
	return (uint64_t)(c - contexts) + 0x100000001;
}

/* ---- buffers; under the lock ---- */

static void ask(struct context *c, bool wait)
{
	uint64_t ticket = ++c->asked;

	pthread_cond_broadcast(&changed);
	while (wait && c->done < ticket)
		pthread_cond_wait(&changed, &lock);
}

static size_t make_headers(struct context *c, int half, struct header *list, struct header **headers)
{
	size_t n = 0;

	for (size_t at = 0; at < c->used[half] && n < HEADERS_MAX; n++) {
		uint8_t *rec = c->half[half] + at;

		list[n] = (struct header){ 1, *(uint32_t *)(rec + 8), rec };
		headers[n] = &list[n];
		at += *(uint64_t *)rec;
	}
	for (size_t i = 0; shuffle && i < n; i++) {
		size_t other = (size_t)rand() % n;
		struct header *h = headers[i];

		headers[i] = headers[other];
		headers[other] = h;
	}
	return n;
}

static void *callback_thread(void *arg)
{
	uint64_t self = (uint64_t)(uintptr_t)arg, ticket;
	struct header *list = calloc(HEADERS_MAX, sizeof(*list)), **headers = calloc(HEADERS_MAX, sizeof(void *));
	struct context *c;
	size_t n;
	int half;

	pthread_mutex_lock(&lock);
	for (;;) {
		for (c = contexts; c < contexts + CONTEXTS && (c->thread != self || c->done == c->asked); c++)
			;
		if (c == contexts + CONTEXTS) {
			pthread_cond_wait(&changed, &lock);
			continue;
		}
		ticket = c->asked;
		half = c->index;
		c->index = !half;
		pthread_mutex_unlock(&lock);
		n = make_headers(c, half, list, headers);
		if (n)
			c->callback(handle_of(c), handle_of(c), headers, n, c->user, __atomic_load_n(&c->dropped, __ATOMIC_RELAXED));
		pthread_mutex_lock(&lock);
		c->used[half] = 0;
		c->done = ticket;
		pthread_cond_broadcast(&changed);
	}
	return NULL;
}

#define PUT(at, type, value) (*(type *)(rec + (at)) = (type)(value))

static size_t fill(uint8_t *rec, const struct pending *p)
{
	const struct mock_rocm_work *w = &p->w;
	bool zero = zero_every && count % zero_every == 0;
	size_t size = w->kernel ? version->kernel : version->copy;

	memset(rec, JUNK, size);
	PUT(0, uint64_t, size), PUT(8, uint32_t, w->kernel ? TRACE_KERNEL : TRACE_COPY), PUT(12, uint32_t, w->kernel ? 2 : w->operation);
	PUT(16, uint64_t, p->internal), PUT(24, uint64_t, p->external), PUT(32, uint64_t, p->thread);
	PUT(40, uint64_t, zero ? 0 : device_clock(w->start)), PUT(48, uint64_t, zero ? 0 : device_clock(w->end));
	if (w->kernel) {
		PUT(56, uint64_t, 72), PUT(64, uint64_t, w->agent), PUT(72, uint64_t, w->queue), PUT(80, uint64_t, w->kernel);
		PUT(88, uint64_t, p->internal), PUT(96, uint32_t, 0), PUT(100, uint32_t, w->group_segment);
		for (int i = 0; i < 3; i++)
			PUT(104 + 4 * i, uint32_t, w->workgroup[i]), PUT(116 + 4 * i, uint32_t, w->grid[i]);
	} else {
		PUT(56, uint64_t, w->operation == 3 ? MOCK_ROCM_CPU : w->agent);
		PUT(64, uint64_t, w->operation == 2 ? MOCK_ROCM_CPU : w->agent);
		PUT(72, uint64_t, w->bytes);
	}
	return size;
}

static void emplace(const struct pending *p)
{
	struct context *c = p->context;
	size_t size = p->w.kernel ? version->kernel : version->copy;

	count++;
	if (drop_every && count % drop_every == 0) {
		__atomic_add_fetch(&c->dropped, 1, __ATOMIC_RELAXED);
		return;
	}
	while (c->used[c->index] + size > c->size)
		ask(c, true);
	c->used[c->index] += fill(c->half[c->index] + c->used[c->index], p);
	if (c->used[c->index] >= c->watermark && c->done == c->asked)
		ask(c, false);
}

/* ---- what has ended ---- */

/* Moves it to the buffers. Returns when the next one ends; 0: there is none. */
static uint64_t complete(uint64_t now)
{
	uint64_t next = 0;

	for (struct lane *l = lanes; l < lanes + MOCK_ROCM_LANES; l++) {
		while (l->first < l->count && l->list[l->first].w.end <= now) {
			struct pending p = l->list[l->first++]; /* the list may move */

			emplace(&p);
		}
		if (l->first == l->count)
			l->first = l->count = 0;
		else if (!next || l->list[l->first].w.end < next)
			next = l->list[l->first].w.end;
	}
	return next;
}

/* As the thread of HSA's that handles signals: somewhat later. */
static void *worker(void *unused)
{
	uint64_t next, now;

	pthread_mutex_lock(&lock);
	for (;;) {
		next = complete(mock_boot_ns());
		if (!next) {
			pthread_cond_wait(&some, &lock);
			continue;
		}
		pthread_mutex_unlock(&lock);
		now = mock_boot_ns();
		usleep((useconds_t)(complete_ms * 1000 + (next > now && next - now < 1000000 ? (next - now) / 1000 + 20 : 500)));
		pthread_mutex_lock(&lock);
	}
	return NULL;
}

static void queue_up(const struct pending *p)
{
	struct lane *l = &lanes[p->w.lane];

	if (l->count == l->room) {
		l->room = l->room ? 2 * l->room : 1024;
		l->list = realloc(l->list, l->room * sizeof(*l->list));
		if (!l->list)
			abort();
	}
	l->list[l->count++] = *p;
	pthread_cond_signal(&some);
}

/* ---- for HIP ---- */

static void finalize_client(void)
{
}

static void finalize(void)
{
	bool any = true;

	if (owner != getpid()) /* a child, where a thread that is not there may have the lock */
		return;
	pthread_mutex_lock(&lock);
	for (int i = 0; i < CONTEXTS; i++)
		contexts[i].active = false;
	for (int ms = 0; any && ms < PATIENCE_MS; ms++) {
		any = complete(mock_boot_ns());
		pthread_mutex_unlock(&lock);
		if (any)
			usleep(1000);
		pthread_mutex_lock(&lock);
	}
	pthread_mutex_unlock(&lock);
	for (int i = 0; i < CONTEXTS && tools[i]; i++)
		tools[i]->finalize(tools[i]->data);
}

static void load_tool(const char *path, uint32_t number)
{
	struct {
		uint64_t words[3];
	} client = { { version->number < 10000 ? 0 : sizeof(client), 0, 0 } };
	struct result *(*configure)(uint32_t, const char *, uint32_t, void *);
	void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);

	configure = library ? (struct result * (*)(uint32_t, const char *, uint32_t, void *)) dlsym(library, "rocprofiler_configure") : NULL;
	if (!configure) {
		fprintf(stderr, "rocprofiler-sdk: %s is no tool\n", path);
		abort(); /* as the real one does */
	}
	tools[number] = configure(version->number, "mock", number, &client);
	if (version->number >= 10000 && client.words[0] != sizeof(client))
		abort(); /* the size is not the tool's to change */
	if (tools[number])
		tools[number]->initialize(finalize_client, tools[number]->data);
}

EXPORT void mock_rocm_start(void)
{
	const char *wanted = getenv("MOCK_ROCPROFILER"), *libraries = getenv("ROCP_TOOL_LIBRARIES");
	char *list = strdup(libraries ? libraries : ""), *save = NULL;
	uint32_t n = 0;

	began = mock_boot_ns();
	owner = getpid();
	for (size_t i = 0; wanted && i < sizeof(versions) / sizeof(*versions); i++)
		if (!strcmp(versions[i].name, wanted))
			version = &versions[i];
	drop_every = mock_number_of("MOCK_DROP_EVERY", 0);
	zero_every = mock_number_of("MOCK_ZERO_EVERY", 0);
	complete_ms = mock_number_of("MOCK_COMPLETE_MS", 0);
	fail_start = mock_number_of("MOCK_FAIL_START", 0);
	fail_configure = mock_number_of("MOCK_FAIL_CONFIGURE", 0);
	shuffle = mock_number_of("MOCK_SHUFFLE", 0);
	clock_offset = (int64_t)mock_number_of("MOCK_CLOCK_OFFSET_NS", 0);
	clock_drift = getenv("MOCK_CLOCK_DRIFT_PPM") ? strtod(getenv("MOCK_CLOCK_DRIFT_PPM"), NULL) / 1e6 : 0;
	atexit(finalize);
	for (char *path = strtok_r(list, ":", &save); path && n < CONTEXTS; path = strtok_r(NULL, ":", &save))
		load_tool(path, n++);
	free(list);
	locked = true;
}

/* What was asked of a context while it was active is recorded for it. */
EXPORT uint32_t mock_rocm_launch(struct mock_rocm_work *w, mock_rocm_begin_fn *begin)
{
	uint32_t kind = w->kernel ? TRACE_KERNEL : TRACE_COPY;
	struct pending p[CONTEXTS] = { 0 };
	uint64_t internal = ++correlation, thread = (uint64_t)syscall(SYS_gettid);
	pthread_t t;

	for (int i = 0; i < CONTEXTS; i++) {
		struct context *c = &contexts[i];

		if (!__atomic_load_n(&c->active, __ATOMIC_ACQUIRE) || c->kind != kind)
			continue;
		p[i].context = c;
		if (c->request && c->request_kind == kind)
			c->request(thread, handle_of(c), kind, 1, internal, &p[i].external, c->request_user);
	}
	begin(w);
	pthread_mutex_lock(&lock);
	for (int i = 0; i < CONTEXTS; i++) {
		if (!p[i].context)
			continue;
		p[i].w = *w;
		p[i].internal = internal;
		p[i].thread = thread;
		if (!has_worker && !pthread_create(&t, NULL, worker, NULL))
			has_worker = true;
		queue_up(&p[i]);
	}
	pthread_mutex_unlock(&lock);
	return (uint32_t)internal;
}

EXPORT void mock_rocm_symbol(uint64_t kernel, const char *name)
{
	struct symbol s = { .size = sizeof(s), .kernel = kernel, .code_object = 1, .name = name, .rest = { 0, 0, 0, 0, 32, 40, 8 } };
	uint64_t user_data = 0;

	for (struct context *c = contexts; c < contexts + CONTEXTS; c++) {
		struct record_0 old = { handle_of(c), 0, 0, 0, CODE_OBJECT, 2, 1, &s };
		struct record_1 now = { handle_of(c), 0, 0, 0, 0, CODE_OBJECT, 2, 1, &s };

		if (!__atomic_load_n(&c->active, __ATOMIC_ACQUIRE) || !c->code_callback)
			continue;
		if (version->number < 10000)
			((void (*)(struct record_0, uint64_t *, void *))c->code_callback)(old, &user_data, c->code_user);
		else
			((void (*)(struct record_1, uint64_t *, void *))c->code_callback)(now, &user_data, c->code_user);
	}
}

/* ---- for tools ---- */

EXPORT int rocprofiler_get_timestamp(uint64_t *ns)
{
	*ns = device_clock(mock_boot_ns());
	return 0;
}

EXPORT int rocprofiler_query_available_agents(uint32_t info, agents_fn *callback, size_t size, void *user)
{
	static const struct agent cpu = { sizeof(cpu), MOCK_ROCM_CPU, 1, { JUNK } }, gpu = { sizeof(gpu), MOCK_ROCM_GPU, 2, { JUNK } };
	const void *agents[] = { &cpu, &gpu };

	return info != 1 || size > sizeof(cpu) ? INVALID : callback(info, agents, 2, user);
}

EXPORT int rocprofiler_create_context(uint64_t *context)
{
	if (locked)
		return LOCKED;
	for (struct context *c = contexts; c < contexts + CONTEXTS && !*context; c++) {
		if (c->made)
			continue;
		c->made = true;
		*context = handle_of(c);
		return 0;
	}
	return INVALID; /* also of a number that was not 0 */
}

static int set_active(uint64_t context, bool active)
{
	struct context *c = context_of(context);

	if (!c)
		return INVALID;
	__atomic_store_n(&c->active, active, __ATOMIC_RELEASE);
	return 0;
}

EXPORT int rocprofiler_start_context(uint64_t context)
{
	struct context *c = context_of(context);

	return c && !c->code_callback && fail_start ? (int)fail_start : set_active(context, true);
}

EXPORT int rocprofiler_stop_context(uint64_t context)
{
	return set_active(context, false);
}

EXPORT int rocprofiler_create_buffer(
	uint64_t context, size_t size, size_t watermark, uint32_t policy, buffer_fn *callback, void *user, uint64_t *buffer)
{
	struct context *c = context_of(context);

	if (locked)
		return LOCKED;
	if (!c || c->size || *buffer || policy != LOSSLESS)
		return INVALID;
	c->size = size;
	c->watermark = watermark;
	c->callback = callback;
	c->user = user;
	c->half[0] = malloc(size);
	c->half[1] = malloc(size);
	*buffer = context;
	return 0;
}

EXPORT int rocprofiler_flush_buffer(uint64_t buffer)
{
	struct context *c = context_of(buffer);

	if (!c || !c->thread)
		return INVALID;
	pthread_mutex_lock(&lock);
	ask(c, true);
	pthread_mutex_unlock(&lock);
	return 0;
}

EXPORT int rocprofiler_create_callback_thread(uint64_t *thread)
{
	pthread_t t;

	if (locked)
		return LOCKED;
	*thread = ++threads;
	return pthread_create(&t, NULL, callback_thread, (void *)(uintptr_t)*thread) ? 1 : pthread_detach(t);
}

EXPORT int rocprofiler_assign_callback_thread(uint64_t buffer, uint64_t thread)
{
	struct context *c = context_of(buffer);

	if (locked)
		return LOCKED;
	if (!c || !c->size || !thread || thread > threads)
		return INVALID;
	pthread_mutex_lock(&lock);
	c->thread = thread;
	pthread_mutex_unlock(&lock);
	return 0;
}

EXPORT int rocprofiler_configure_buffer_tracing_service(
	uint64_t context, uint32_t kind, const int32_t *operations, size_t n, uint64_t buffer)
{
	struct context *c = context_of(context);

	if (fail_configure)
		return (int)fail_configure;
	if (locked)
		return LOCKED;
	if (!c || c->kind || buffer != context || (kind != TRACE_COPY && kind != TRACE_KERNEL))
		return INVALID;
	c->kind = kind;
	return 0;
}

EXPORT int rocprofiler_configure_callback_tracing_service(
	uint64_t context, uint32_t kind, const int32_t *operations, size_t n, void *callback, void *user)
{
	struct context *c = context_of(context);

	if (locked)
		return LOCKED;
	if (!c || kind != CODE_OBJECT || n != 1 || *operations != 2)
		return INVALID;
	c->code_callback = callback;
	c->code_user = user;
	return 0;
}

EXPORT int rocprofiler_configure_external_correlation_id_request_service(
	uint64_t context, const uint32_t *kinds, size_t n, request_fn *callback, void *user)
{
	struct context *c = context_of(context);

	if (locked)
		return LOCKED;
	if (!c || n != 1)
		return INVALID;
	c->request_kind = *kinds;
	c->request = callback;
	c->request_user = user;
	return 0;
}
