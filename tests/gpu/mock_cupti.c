// SPDX-License-Identifier: BSD-2-Clause
/*
 * libcupti.so of a GPU that does not exist: see mock.h. As the real one it keeps what was launched while a kind was
 * enabled, puts it into buffers of its user's once it has completed, and hands those over on a thread of its own;
 * what does not fit, since no buffer is given, is dropped and counted. Bytes of records that are not documented hold
 * junk.
 */
#define _GNU_SOURCE
#include "mock.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define JUNK 0xa5
#define EXPORT __attribute__((visibility("default")))
#define MAX_LIMIT_REACHED 12
#define INVALID_PARAMETER 1
#define NOT_INITIALIZED 15
#define BATCH 2048 /* as many launches have the worker look */

enum { KIND_MEMCPY = 1, KIND_MEMSET = 2, KIND_KERNEL = 10, KIND_MEMCPY2 = 22, KIND_GRAPH = 51, KIND_MAX = 64 };

typedef void request_fn(uint8_t **buffer, size_t *size, size_t *max_records);
typedef void complete_fn(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid);

static const struct version {
	const char *name;
	uint32_t number;
	size_t kernel, copy;
} versions[] = {
	{ "12.0", 19, 208, 88 },
	{ "12.8", 26, 208, 96 },
	{ "13.0", 130000, 216, 96 },
	{ "13.1", 130100, 224, 96 },
	{ "13.3", 130300, 232, 96 },
	{ "13.4", 130400, 248, 112 },
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;	/* of what was launched */
static pthread_mutex_t handing = PTHREAD_MUTEX_INITIALIZER;	/* of the buffers; taken first */
static pthread_cond_t some = PTHREAD_COND_INITIALIZER;
static bool enabled[KIND_MAX], subscribed, has_worker, shuffle, error39, keep;
static request_fn *request;
static complete_fn *complete;
static const struct version *version = &versions[0];
static uint64_t drop_every, zero_every, complete_ms, fail_enable, fail_flush, count;
static size_t dropped;
static struct mock_work *pending;
static size_t pending_count, pending_room;
static uint8_t *buffer;
static size_t buffer_size, buffer_used;
static uint64_t (*device_clock)(uint64_t), (*now_ns)(void);

static int kind_of(const struct mock_work *w)
{
	return w->kind == MOCK_COPY ? KIND_MEMCPY : w->kind == MOCK_SET ? KIND_MEMSET :
		w->kind == MOCK_GRAPH					? KIND_GRAPH :
									  KIND_KERNEL;
}

static void ask(void)
{
	size_t max_records;

	buffer_used = 0;
	request(&buffer, &buffer_size, &max_records);
}

/* libcuda calls this at each launch. */
static void on_work(const struct mock_work *w)
{
	int kind = kind_of(w);

	if (keep) {
		pthread_mutex_lock(&handing);
		if (enabled[kind] && !buffer)
			ask();
		pthread_mutex_unlock(&handing);
	}
	pthread_mutex_lock(&lock);
	/* either the nodes of graphs or the graphs as a whole */
	if (enabled[kind] && !(w->graph && w->kind == MOCK_KERNEL && enabled[KIND_GRAPH])) {
		if (pending_count == pending_room) {
			pending_room = pending_room ? 2 * pending_room : 4096;
			pending = realloc(pending, pending_room * sizeof(*pending));
			if (!pending)
				abort();
		}
		pending[pending_count++] = *w;
		if (pending_count % BATCH == 0)
			pthread_cond_signal(&some);
	}
	pthread_mutex_unlock(&lock);
}

#define PUT(at, type, value) (*(type *)(rec + (at)) = (type)(value))

static size_t record_size(uint32_t kind)
{
	return kind == KIND_KERNEL ? version->kernel : kind == KIND_GRAPH ? 48 : version->copy;
}

static size_t fill(uint8_t *rec, const struct mock_work *w)
{
	int kind = kind_of(w);
	bool zero = zero_every && count % zero_every == 0;
	uint64_t start = zero ? 0 : device_clock(w->start), end = zero ? 0 : device_clock(w->end);

	memset(rec, JUNK, record_size((uint32_t)kind));
	PUT(0, uint32_t, kind);
	if (kind == KIND_KERNEL) {
		PUT(6, uint16_t, 40), PUT(16, uint64_t, start), PUT(24, uint64_t, end), PUT(32, uint64_t, end);
		PUT(40, uint32_t, w->device), PUT(44, uint32_t, w->context), PUT(48, uint32_t, w->stream);
		for (int i = 0; i < 3; i++)
			PUT(52 + 4 * i, uint32_t, w->grid[i]), PUT(64 + 4 * i, uint32_t, w->block[i]);
		PUT(76, uint32_t, 0), PUT(80, uint32_t, w->shared), PUT(92, uint32_t, w->correlation);
		PUT(104, const char *, w->name), PUT(144, uint64_t, w->graph_node), PUT(156, uint32_t, w->graph);
	} else if (kind == KIND_GRAPH) {
		PUT(4, uint32_t, w->correlation), PUT(8, uint64_t, start), PUT(16, uint64_t, end);
		PUT(24, uint32_t, w->device), PUT(28, uint32_t, w->graph), PUT(32, uint32_t, w->context), PUT(36, uint32_t, w->stream);
	} else {
		PUT(8, uint64_t, w->bytes), PUT(16, uint64_t, start), PUT(24, uint64_t, end);
		PUT(32, uint32_t, w->device), PUT(36, uint32_t, w->context), PUT(40, uint32_t, w->stream);
		PUT(44, uint32_t, w->correlation), PUT(64, uint64_t, w->graph_node), PUT(72, uint32_t, w->graph);
		if (kind == KIND_MEMCPY)
			PUT(4, uint8_t, w->copy_kind), PUT(5, uint8_t, 1), PUT(6, uint8_t, 3);
		else
			PUT(4, uint32_t, w->copy_kind), PUT(50, uint16_t, 3);
	}
	return record_size((uint32_t)kind);
}

static void hand_over(void)
{
	if (!buffer)
		return;
	if (complete_ms)
		usleep((useconds_t)complete_ms * 1000);
	complete(NULL, 0, buffer, buffer_size, buffer_used);
	buffer = NULL;
}

/* Puts what has completed into buffers; forced: all. Under the lock "handing". Returns whether something is not done. */
static bool drain(bool forced)
{
	struct mock_work *taken;
	size_t n, kept = 0, size;
	uint64_t now = now_ns ? now_ns() : 0;

	pthread_mutex_lock(&lock);
	taken = pending;
	n = pending_count;
	pending = NULL;
	pending_count = pending_room = 0;
	pthread_mutex_unlock(&lock);
	for (size_t i = 0; shuffle && i + 1 < n; i++) {
		size_t other = i + (size_t)rand() % (n - i < 64 ? n - i : 64);
		struct mock_work w = taken[i];

		taken[i] = taken[other];
		taken[other] = w;
	}
	for (size_t i = 0; i < n; i++) {
		if (taken[i].end > now && !forced) {
			taken[kept++] = taken[i];
			continue;
		}
		count++;
		if (drop_every && count % drop_every == 0) {
			dropped++;
			continue;
		}
		size = record_size((uint32_t)kind_of(&taken[i]));
		if (buffer && buffer_size - buffer_used < size)
			hand_over();
		if (!buffer)
			ask();
		if (!buffer || buffer_size < size) {
			dropped++;
			continue;
		}
		/* as CUPTI 13.0 does; at the end of a process it waits for what runs */
		if (taken[i].end > now && !enabled[kind_of(&taken[i])])
			taken[i].start = taken[i].end = 0;
		buffer_used += fill(buffer + buffer_used, &taken[i]);
	}
	/* what was launched in the meantime comes after it */
	pthread_mutex_lock(&lock);
	if (kept) {
		if (kept + pending_count > n) {
			taken = realloc(taken, (kept + pending_count) * sizeof(*taken));
			n = kept + pending_count;
			if (!taken)
				abort();
		}
		if (pending_count)
			memcpy(taken + kept, pending, pending_count * sizeof(*taken));
		free(pending);
		pending = taken;
		pending_room = n;
		pending_count += kept;
	} else {
		free(taken);
	}
	pthread_mutex_unlock(&lock);
	return kept;
}

static void *worker(void *unused)
{
	pthread_mutex_lock(&lock);
	for (;;) {
		pthread_cond_wait(&some, &lock);
		pthread_mutex_unlock(&lock);
		pthread_mutex_lock(&handing);
		if (request)
			drain(false);
		pthread_mutex_unlock(&handing);
		pthread_mutex_lock(&lock);
	}
	return NULL;
}

/* A process that forks does not leave its child a lock that another thread holds. */
static void before_fork(void)
{
	pthread_mutex_lock(&handing);
	pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&lock);
	pthread_mutex_unlock(&handing);
}

static void __attribute__((constructor)) load(void)
{
	const char *wanted = getenv("MOCK_CUPTI");

	for (size_t i = 0; wanted && i < sizeof(versions) / sizeof(*versions); i++)
		if (!strcmp(versions[i].name, wanted))
			version = &versions[i];
	drop_every = mock_number_of("MOCK_DROP_EVERY", 0);
	zero_every = mock_number_of("MOCK_ZERO_EVERY", 0);
	complete_ms = mock_number_of("MOCK_COMPLETE_MS", 0);
	fail_enable = mock_number_of("MOCK_FAIL_ENABLE", 0);
	fail_flush = mock_number_of("MOCK_FAIL_FLUSH", 0);
	shuffle = mock_number_of("MOCK_SHUFFLE", 0);
	keep = mock_number_of("MOCK_KEEP", 0);
	error39 = mock_number_of("MOCK_ERROR39", 0);
	pthread_atfork(before_fork, after_fork, after_fork);
}

/* The first call finds libcuda, as the real one does. */
static int initialize(void)
{
	void *cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	void (*listen)(mock_sink_fn *) = cuda ? (void (*)(mock_sink_fn *))dlsym(cuda, "mock_cuda_listen") : NULL;
	pthread_t t;

	if (!listen)
		return NOT_INITIALIZED;
	device_clock = (uint64_t(*)(uint64_t))dlsym(cuda, "mock_cuda_clock");
	now_ns = (uint64_t(*)(void))dlsym(cuda, "mock_cuda_now");
	if (!has_worker) {
		has_worker = true;
		listen(on_work);
		if (pthread_create(&t, NULL, worker, NULL))
			return NOT_INITIALIZED;
		pthread_detach(t);
	}
	return 0;
}

EXPORT int cuptiGetVersion(uint32_t *ret)
{
	*ret = version->number;
	return 0;
}

EXPORT int cuptiGetTimestamp(uint64_t *ret)
{
	int r = now_ns ? 0 : initialize();

	if (!r)
		*ret = device_clock(now_ns());
	return r;
}

EXPORT int cuptiSubscribe(void **ret, void (*callback)(void *, int, uint32_t, const void *), void *user)
{
	if (error39 || subscribed)
		return 39;
	if (!callback)
		return INVALID_PARAMETER;
	subscribed = true;
	*ret = &subscribed;
	return initialize();
}

EXPORT int cuptiUnsubscribe(void *subscriber)
{
	if (subscriber != &subscribed || !subscribed)
		return INVALID_PARAMETER;
	subscribed = false;
	return 0;
}

EXPORT int cuptiActivityRegisterCallbacks(request_fn *r, complete_fn *c)
{
	if (!r || !c)
		return INVALID_PARAMETER;
	pthread_mutex_lock(&handing);
	request = r;
	complete = c;
	pthread_mutex_unlock(&handing);
	return 0;
}

static int set_enabled(int kind, bool on)
{
	if (kind != KIND_KERNEL && kind != KIND_MEMCPY && kind != KIND_MEMSET && kind != KIND_MEMCPY2 && kind != KIND_GRAPH)
		return INVALID_PARAMETER;
	pthread_mutex_lock(&lock);
	enabled[kind] = on;
	pthread_mutex_unlock(&lock);
	return 0;
}

EXPORT int cuptiActivityEnable(int kind)
{
	if (fail_enable)
		return (int)fail_enable;
	return request ? set_enabled(kind, true) : INVALID_PARAMETER;
}

EXPORT int cuptiActivityDisable(int kind)
{
	return set_enabled(kind, false);
}

EXPORT int cuptiActivityFlushAll(uint32_t forced)
{
	if (fail_flush)
		return (int)fail_flush;
	pthread_mutex_lock(&handing);
	if (request) {
		if (!drain(forced) || !keep)
			hand_over();
	}
	pthread_mutex_unlock(&handing);
	return 0;
}

EXPORT int cuptiActivityGetNextRecord(uint8_t *b, size_t valid, void **rec)
{
	uint8_t *next = *rec ? (uint8_t *)*rec + record_size(**(uint32_t **)rec) : b;

	if (next >= b + valid)
		return MAX_LIMIT_REACHED;
	*rec = next;
	return 0;
}

EXPORT int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *ret)
{
	*ret = dropped;
	dropped = 0;
	return 0;
}
