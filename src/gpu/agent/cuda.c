// SPDX-License-Identifier: BSD-2-Clause
/*
 * NVIDIA: CUPTI collects. The driver loads the agent while CUDA starts, if CUDA_INJECTION64_PATH names it, or the agent is
 * injected into a running process. CUPTI hands over buffers on threads of its own, or on the one that flushes; only its two
 * functions that read a buffer are called under agent_lock.
 */
#include "gpu/agent/agent.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

int InitializeInjection(void);

/*
 * ---- the parts of CUPTI in use ----
 *
 * Declared here from the documented ABI: no NVIDIA header is needed, and nothing is linked. Records only grow at their end, so
 * these prefixes hold for CUDA 11.5 to 13.
 */

#define CUPTI_OK 0
#define CUPTI_MAX_LIMIT_REACHED 12 /* no further record in this buffer */
#define CUPTI_MULTIPLE_SUBSCRIBERS 39

#define CUPTI_KIND_MEMCPY 1
#define CUPTI_KIND_MEMSET 2
#define CUPTI_KIND_KERNEL 3
#define CUPTI_KIND_CONCURRENT_KERNEL 10
#define CUPTI_KIND_MEMCPY2 22 /* between two devices */
#define CUPTI_KIND_GRAPH_TRACE 51

struct cupti_kernel {
	uint32_t kind;
	uint8_t cache_config, shared_config;
	uint16_t registers;
	uint64_t unused_8;
	uint64_t start, end, completed;
	uint32_t device, context, stream;
	uint32_t grid[3], block[3];
	uint32_t shared_static, shared_dynamic;
	uint32_t local_thread, local_total;
	uint32_t correlation;
	int64_t grid_id;
	const char *name;
	void *unused_112;
	uint64_t queued, submitted;
	uint64_t unused_136;
	uint64_t graph_node;
	uint32_t unused_152;
	uint32_t graph;
};

struct cupti_memcpy {
	uint32_t kind;
	uint8_t copy_kind, source, destination, flags;
	uint64_t bytes, start, end;
	uint32_t device, context, stream, correlation;
	uint32_t runtime_correlation, unused_52;
	void *unused_56;
	uint64_t graph_node;
	uint32_t graph;
	uint32_t channel, channel_type, unused_84;
};

struct cupti_memcpy2 {
	uint32_t kind;
	uint8_t copy_kind, source, destination, flags;
	uint64_t bytes, start, end;
	uint32_t device, context, stream;
	uint32_t source_device, source_context, destination_device, destination_context;
	uint32_t correlation;
};

struct cupti_memset {
	uint32_t kind;
	uint32_t value;
	uint64_t bytes, start, end;
	uint32_t device, context, stream, correlation;
	uint16_t flags, memory_kind;
	uint32_t unused_52;
	void *unused_56;
	uint64_t graph_node;
	uint32_t graph;
	uint32_t channel, channel_type, unused_84;
};

struct cupti_graph {
	uint32_t kind;
	uint32_t correlation;
	uint64_t start, end;
	uint32_t device, graph, context, stream;
};

_Static_assert(sizeof(struct cupti_kernel) == 160, "kernel");
_Static_assert(offsetof(struct cupti_kernel, start) == 16 && offsetof(struct cupti_kernel, device) == 40, "kernel");
_Static_assert(offsetof(struct cupti_kernel, grid) == 52 && offsetof(struct cupti_kernel, block) == 64, "kernel");
_Static_assert(offsetof(struct cupti_kernel, correlation) == 92 && offsetof(struct cupti_kernel, name) == 104, "kernel");
_Static_assert(offsetof(struct cupti_kernel, queued) == 120 && offsetof(struct cupti_kernel, graph_node) == 144, "kernel");
_Static_assert(offsetof(struct cupti_kernel, graph) == 156, "kernel");
_Static_assert(sizeof(struct cupti_memcpy) == 88 && sizeof(struct cupti_memset) == 88, "copies and sets");
_Static_assert(offsetof(struct cupti_memcpy2, correlation) == 60, "copies between devices");

typedef void cupti_request_fn(uint8_t **buffer, size_t *size, size_t *max_records);
typedef void cupti_complete_fn(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid);
typedef void cupti_callback_fn(void *user, int domain, uint32_t id, const void *data);

struct cupti {
	int (*get_version)(uint32_t *version);
	int (*get_timestamp)(uint64_t *ns);
	int (*subscribe)(void **subscriber, cupti_callback_fn *callback, void *user);
	int (*unsubscribe)(void *subscriber);
	int (*register_callbacks)(cupti_request_fn *request, cupti_complete_fn *complete);
	int (*enable)(int kind);
	int (*disable)(int kind);
	int (*flush)(uint32_t forced);
	int (*next_record)(uint8_t *buffer, size_t valid, void **record);
	int (*dropped)(void *context, uint32_t stream, size_t *count);
	uint32_t version;
};

static struct cupti cupti;
static void *subscriber;
static bool forced; /* a flush is under way that does not wait for running work; under agent_lock */

/*
 * ---- where libcupti is ----
 *
 * In this order: INFTRACE_CUPTI; the one already mapped; beside libcudart, or where pip puts it relative to that; the library
 * search path of the process; /usr/local/cuda*.
 */

#define PATH_SIZE 1024

/* Returns the first number behind "libcupti.so.": 12 of libcupti.so.12, 2024 of ...so.2024.1; 0: none. */
static long library_version(const char *name)
{
	const char *dot = strstr(name, ".so.");

	return dot ? strtol(dot + strlen(".so."), NULL, 10) : 0;
}

/* Opens the library with the highest version in a directory. */
static void *library_open_in(const char *directory)
{
	char best[256] = "", path[PATH_SIZE + sizeof(best) + 1];
	struct dirent *e;
	DIR *d = opendir(directory);

	if (!d)
		return NULL;
	while ((e = readdir(d))) {
		if (strncmp(e->d_name, "libcupti.so", strlen("libcupti.so")) || strlen(e->d_name) >= sizeof(best))
			continue;
		if (!*best || library_version(e->d_name) > library_version(best))
			strcpy(best, e->d_name);
	}
	closedir(d);
	if (!*best)
		return NULL;
	snprintf(path, sizeof(path), "%s/%s", directory, best);
	return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static void *library_open_below(const char *directory, const char *below)
{
	char path[PATH_SIZE];

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", directory, below) >= sizeof(path))
		return NULL;
	return library_open_in(path);
}

/* Beside libcudart: the toolkit's lib64, pip's nvidia/cuda_runtime/lib (12), nvidia/cu13/lib, torch/lib. */
static void *library_open_near(const char *cudart)
{
	static const char *const places[] = {
		".", "../../cuda_cupti/lib", "../extras/CUPTI/lib64", "../../nvidia/cuda_cupti/lib", "../../nvidia/cu13/lib"
	};
	char directory[PATH_SIZE];
	void *library = NULL;
	char *slash;

	snprintf(directory, sizeof(directory), "%s", cudart);
	slash = strrchr(directory, '/');
	if (!slash)
		return NULL;
	*slash = '\0';
	for (size_t i = 0; i < sizeof(places) / sizeof(*places) && !library; i++)
		library = library_open_below(directory, places[i]);
	return library;
}

/* Calls open_it for each mapped file whose name begins with `name`, until it returns a library. */
static void *library_open_by_maps(const char *name, void *(*open_it)(const char *path))
{
	char line[PATH_SIZE + 256], *path, *base;
	void *library = NULL;
	FILE *f = fopen("/proc/self/maps", "re");

	if (!f)
		return NULL;
	while (!library && fgets(line, sizeof(line), f)) {
		path = strchr(line, '/');
		if (!path)
			continue;
		path[strcspn(path, "\n")] = '\0';
		base = strrchr(path, '/') + 1;
		if (!strncmp(base, name, strlen(name)) && strlen(path) < PATH_SIZE)
			library = open_it(path);
	}
	fclose(f);
	return library;
}

static void *library_open_mapped(const char *path)
{
	return dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
}

static void *library_open_by_name(void)
{
	static const char *const names[] = { "libcupti.so.13", "libcupti.so.12", "libcupti.so.11", "libcupti.so" };
	void *library = NULL;

	for (size_t i = 0; i < sizeof(names) / sizeof(*names) && !library; i++)
		library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
	return library;
}

static void *library_open_installed(void)
{
	static const char *const below[] = { "extras/CUPTI/lib64", "lib64", "lib" };
	char directory[PATH_SIZE];
	void *library = NULL;
	struct dirent *e;
	DIR *d = opendir("/usr/local");

	for (size_t i = 0; i < sizeof(below) / sizeof(*below) && !library; i++)
		library = library_open_below("/usr/local/cuda", below[i]);
	while (d && !library && (e = readdir(d))) {
		if (strncmp(e->d_name, "cuda-", strlen("cuda-")))
			continue;
		snprintf(directory, sizeof(directory), "/usr/local/%s", e->d_name);
		for (size_t i = 0; i < sizeof(below) / sizeof(*below) && !library; i++)
			library = library_open_below(directory, below[i]);
	}
	if (d)
		closedir(d);
	return library;
}

/* Opens the library, which stays open. -ENOENT: there is none; -ENOSYS: it lacks a function. */
static int cupti_open_library(void)
{
	const char *given = secure_getenv(GPU_ENV_CUPTI);
	void *library;
	int err;
	const struct symbol functions[] = {
		{ "cuptiGetVersion", &cupti.get_version },
		{ "cuptiGetTimestamp", &cupti.get_timestamp },
		{ "cuptiSubscribe", &cupti.subscribe },
		{ "cuptiUnsubscribe", &cupti.unsubscribe },
		{ "cuptiActivityRegisterCallbacks", &cupti.register_callbacks },
		{ "cuptiActivityEnable", &cupti.enable },
		{ "cuptiActivityDisable", &cupti.disable },
		{ "cuptiActivityFlushAll", &cupti.flush },
		{ "cuptiActivityGetNextRecord", &cupti.next_record },
		{ "cuptiActivityGetNumDroppedRecords", &cupti.dropped },
	};

	/* no other library replaces one that the user named */
	if (given && *given) {
		library = dlopen(given, RTLD_NOW | RTLD_LOCAL);
	} else {
		library = library_open_by_maps("libcupti.so", library_open_mapped);
		library = library ? library : library_open_by_maps("libcudart", library_open_near);
		library = library ? library : library_open_by_name();
		library = library ? library : library_open_installed();
	}
	if (!library)
		return -ENOENT;
	err = symbols_find(library, functions, sizeof(functions) / sizeof(*functions));
	if (err)
		return err;
	cupti.get_version(&cupti.version);
	return 0;
}

/* ---- the buffers that CUPTI fills ---- */

#define BUFFER_SIZE (1u << 20)
#define BUFFERS_MAX 64 /* that CUPTI may have at once; it drops and counts records beyond */
#define BUFFERS_KEPT 8

/* Free buffers, linked through their first bytes, and the buffers that CUPTI has. Under agent_lock. */
static struct {
	void *free;
	uint32_t free_count;
	uint32_t open;
	struct {
		void *buffer;
		uint64_t since_ns;
	} taken[BUFFERS_MAX];
} buffers;

/* An old CUPTI's last record may be shorter than the structures here, so reads may pass the end of the buffer. */
#define MAPPED_SIZE (BUFFER_SIZE + 4096u)

/* Returns a buffer for CUPTI, or NULL. */
static void *buffer_take(void)
{
	void *buffer;

	if (buffers.open >= BUFFERS_MAX)
		return NULL;
	if (buffers.free) {
		buffer = buffers.free;
		buffers.free = *(void **)buffer;
		buffers.free_count--;
	} else {
		buffer = mmap(NULL, MAPPED_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (buffer == MAP_FAILED)
			return NULL;
	}
	buffers.taken[buffers.open].buffer = buffer;
	buffers.taken[buffers.open++].since_ns = clocks_boot_ns();
	return buffer;
}

static void buffer_return(void *buffer)
{
	for (uint32_t i = 0; i < buffers.open; i++) {
		if (buffers.taken[i].buffer != buffer)
			continue;
		buffers.taken[i] = buffers.taken[--buffers.open];
		break;
	}
	if (buffers.free_count >= BUFFERS_KEPT) {
		munmap(buffer, MAPPED_SIZE);
		return;
	}
	*(void **)buffer = buffers.free;
	buffers.free = buffer;
	buffers.free_count++;
}

static void buffers_free(void)
{
	while (buffers.free) {
		void *buffer = buffers.free;

		buffers.free = *(void **)buffer;
		munmap(buffer, MAPPED_SIZE);
	}
	buffers.free_count = 0;
}

/* Returns since when CUPTI has had its oldest buffer; UINT64_MAX: it has none. */
static uint64_t buffers_oldest_ns(void)
{
	uint64_t since = UINT64_MAX;

	for (uint32_t i = 0; i < buffers.open; i++) {
		if (buffers.taken[i].since_ns < since)
			since = buffers.taken[i].since_ns;
	}
	return since;
}

/* ---- converting CUPTI's records to records of the ring ---- */

#define SPAN(r)                                                                                \
	{                                                                                      \
		(r)->start, (r)->end, (r)->device, (r)->context, (r)->stream, (r)->correlation \
	}

static void cu_put_kernel(const struct cupti_kernel *k, const struct reading *r)
{
	struct gpu_record rec = { .kind = GPU_RECORD_KERNEL };

	if (!reading_span(&rec, r, &(struct span)SPAN(k)))
		return;
	for (int i = 0; i < 3; i++) {
		rec.kernel.grid[i] = k->grid[i];
		rec.kernel.block[i] = k->block[i];
	}
	rec.kernel.shared_static = k->shared_static;
	rec.kernel.shared_dynamic = k->shared_dynamic;
	rec.kernel.graph_node = k->graph_node;
	rec.kernel.graph = k->graph;
	rec.kernel.registers = k->registers;
	reading_put_kernel(&rec, r, k->name);
}

static void cu_put_copy(uint16_t kind, const struct span *s, const struct gpu_copy *copy, const struct reading *r)
{
	struct gpu_record rec = { .kind = kind };

	if (!reading_span(&rec, r, s))
		return;
	rec.copy = *copy;
	ring_put(r->ring, &rec);
}

/* Converts the three kinds of records that move or fill memory; each has its own layout. */
static void cu_put_memory(const void *any, const struct reading *r)
{
	const struct cupti_memcpy *m = any;
	const struct cupti_memcpy2 *p = any; /* to another device; has no graph */
	const struct cupti_memset *s = any;

	if (m->kind == CUPTI_KIND_MEMCPY)
		cu_put_copy(GPU_RECORD_COPY, &(struct span)SPAN(m),
			&(struct gpu_copy){ m->bytes, m->copy_kind, m->source, m->destination, m->graph, m->graph_node }, r);
	else if (p->kind == CUPTI_KIND_MEMCPY2)
		cu_put_copy(GPU_RECORD_COPY, &(struct span)SPAN(p), &(struct gpu_copy){ p->bytes, p->copy_kind, p->source, p->destination, 0, 0 }, r);
	else
		cu_put_copy(GPU_RECORD_SET, &(struct span)SPAN(s),
			&(struct gpu_copy){ s->bytes, s->value, 0, s->memory_kind, s->graph, s->graph_node }, r);
}

static void cu_put_graph(const struct cupti_graph *g, const struct reading *r)
{
	struct gpu_record rec = { .kind = GPU_RECORD_GRAPH };

	if (!reading_span(&rec, r, &(struct span)SPAN(g)))
		return;
	rec.graph.graph = g->graph;
	ring_put(r->ring, &rec);
}

static void cu_put_record(const void *rec, const struct reading *r)
{
	switch (*(const uint32_t *)rec) {
	case CUPTI_KIND_KERNEL:
	case CUPTI_KIND_CONCURRENT_KERNEL:
		cu_put_kernel(rec, r);
		break;
	case CUPTI_KIND_MEMCPY:
	case CUPTI_KIND_MEMCPY2:
	case CUPTI_KIND_MEMSET:
		cu_put_memory(rec, r);
		break;
	case CUPTI_KIND_GRAPH_TRACE:
		cu_put_graph(rec, r);
		break;
	default:
		r->ring->said.unknown++;
	}
}

/* Converts the records of a buffer behind *at, NULL at first. Returns false, with *at at the last record converted, if the ring is
 * full; with drop it goes on. */
static bool buffer_read_some(const struct reading *r, uint8_t *buffer, size_t valid, bool drop, void **at)
{
	while (valid) {
		if (!drop && !ring_has_room(r->ring))
			return false;
		if (cupti.next_record(buffer, valid, at) != CUPTI_OK)
			break;
		cu_put_record(*at, r);
	}
	return true;
}

/* ---- callbacks of CUPTI ---- */

static int cupti_read_time(uint64_t *ns)
{
	return cupti.get_timestamp(ns);
}

static void on_buffer_request(uint8_t **buffer, size_t *size, size_t *max_records)
{
	pthread_mutex_lock(&agent_lock);
	*buffer = agent_is_here() ? buffer_take() : NULL;
	pthread_mutex_unlock(&agent_lock);
	*size = *buffer ? BUFFER_SIZE : 0;
	*max_records = 0;
}

/* Under agent_lock, which it releases while it waits for room in the ring. */
static void buffer_read_all(bool stepped, uint8_t *buffer, size_t valid)
{
	const struct clocks *clocks;
	struct ring *ring = agent_ring(&clocks);
	uint32_t generation = ring ? ring->generation : 0;
	bool patient = true, done = !ring;
	void *at = NULL;

	while (!done) {
		struct reading r = reading_begin(clocks, stepped, ring);

		r.forced = forced;
		done = buffer_read_some(&r, buffer, valid, !patient, &at);
		if (done)
			break;
		ring_show(ring);
		patient = agent_wait_for_room();
		ring = agent_ring(&clocks);
		done = !ring || ring->generation != generation;
	}
}

static void on_buffer_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
	const struct arrival arrival = agent_arrival();
	const struct clocks *clocks;
	size_t dropped = 0;
	struct ring *ring;

	pthread_mutex_lock(&agent_lock);
	ring = agent_ring(&clocks);
	if (ring) {
		if (cupti.dropped(context, stream, &dropped) == CUPTI_OK)
			ring->said.dropped_cupti += dropped;
		if (buffer)
			buffer_read_all(arrival_stepped(&arrival, clocks), buffer, valid);
		ring = agent_ring(&clocks);
		if (ring)
			agent_show(ring, &arrival);
	}
	if (buffer)
		buffer_return(buffer);
	pthread_mutex_unlock(&agent_lock);
}

/* No callback is enabled: the subscription only keeps other users away, and detects them. */
static void on_cupti_callback(void *user, int domain, uint32_t id, const void *data)
{
	(void)user, (void)domain, (void)id, (void)data;
}

static int cupti_load(uint32_t *ret_version, uint32_t *ret_call)
{
	int err = cupti_open_library();

	*ret_call = GPU_CALL_SYMBOLS;
	if (err)
		return err;
	atexit(agent_exit); /* registered after CUPTI was loaded, so that it runs before CUPTI's own handlers */
	*ret_version = cupti.version;
	return 0;
}

static void cupti_unsubscribe(void)
{
	cupti.unsubscribe(subscriber);
	subscriber = NULL;
}

static int cupti_subscribe(uint32_t *ret_call)
{
	int r = cupti.subscribe(&subscriber, on_cupti_callback, NULL);

	*ret_call = GPU_CALL_ENABLE;
	if (r) {
		subscriber = NULL;
		return r;
	}
	*ret_call = GPU_CALL_REGISTER;
	r = cupti.register_callbacks(on_buffer_request, on_buffer_complete);
	if (r)
		cupti_unsubscribe();
	return r;
}

/* The CUPTI record kinds for each GPU_WANT_*; all but the first may be missing. */
static const struct wish {
	uint32_t want;
	int kinds[3];
} wishes[] = {
	{ GPU_WANT_KERNELS, { CUPTI_KIND_CONCURRENT_KERNEL } },
	{ GPU_WANT_COPIES, { CUPTI_KIND_MEMCPY, CUPTI_KIND_MEMSET, CUPTI_KIND_MEMCPY2 } },
	{ GPU_WANT_GRAPHS, { CUPTI_KIND_GRAPH_TRACE } },
};

static void cupti_disable_kinds(uint32_t want)
{
	for (size_t i = 0; i < sizeof(wishes) / sizeof(*wishes); i++)
		for (int k = 0; k < 3 && wishes[i].want == want && wishes[i].kinds[k]; k++)
			cupti.disable(wishes[i].kinds[k]);
}

static int cupti_enable_kinds(uint32_t want)
{
	int r = 0;

	for (size_t i = 0; !r && i < sizeof(wishes) / sizeof(*wishes); i++) {
		if (wishes[i].want != want)
			continue;
		r = cupti.enable(wishes[i].kinds[0]);
		for (int k = 1; !r && k < 3 && wishes[i].kinds[k]; k++)
			cupti.enable(wishes[i].kinds[k]);
	}
	return r;
}

/* Counts records dropped since the last buffer was handed over. */
static void count_dropped(void)
{
	const struct clocks *clocks;
	size_t dropped = 0;
	struct ring *ring;

	if (cupti.dropped(NULL, 0, &dropped) != CUPTI_OK || !dropped)
		return;
	pthread_mutex_lock(&agent_lock);
	ring = agent_ring(&clocks);
	if (ring) {
		ring->said.dropped_cupti += dropped;
		ring_show(ring);
	}
	pthread_mutex_unlock(&agent_lock);
}

/*
 * The last flush is forced: it does not wait for what still runs on the GPU. CUPTI keeps a buffer until everything launched while the
 * buffer was in use is done. So everything that ended before CUPTI got its oldest buffer has arrived.
 */
static int cupti_flush_buffers(bool last, uint64_t *ret_until_ns)
{
	uint64_t before_ns = clocks_boot_ns(), since_ns;
	int r;

	pthread_mutex_lock(&agent_lock);
	forced = last;
	pthread_mutex_unlock(&agent_lock);
	r = cupti.flush(last);
	count_dropped();
	pthread_mutex_lock(&agent_lock);
	forced = false;
	since_ns = buffers_oldest_ns();
	pthread_mutex_unlock(&agent_lock);
	*ret_until_ns = since_ns < before_ns ? since_ns : before_ns;
	return r == CUPTI_MAX_LIMIT_REACHED ? 0 : r;
}

/* Functions of the CUDA driver that need no context, and fail until CUDA is initialised. */
struct driver {
	int (*get_count)(int *n);
	int (*get)(int *device, int ordinal);
	int (*get_name)(char *name, int size, int device);
	int (*get_pci)(char *pci, int size, int device);
	int (*get_uuid)(uint8_t uuid[16], int device);
	int (*get_instance)(uint8_t uuid[16], int device); /* since 11.4; NULL: the driver has no instances */
};

/* A MIG instance has its own UUID; the older function gives only the whole device's. */
static void driver_get_uuid(const struct driver *d, int device, struct gpu_device *ret)
{
	uint8_t whole[sizeof(ret->uuid)] = { 0 };
	static const uint8_t none[sizeof(ret->uuid)];
	bool known = d->get_uuid && !d->get_uuid(whole, device);

	ret->uuid_kind = GPU_UUID_DEVICE;
	if (!d->get_instance || d->get_instance(ret->uuid, device))
		memcpy(ret->uuid, whole, sizeof(ret->uuid));
	else if (known && memcmp(ret->uuid, whole, sizeof(whole)) != 0)
		ret->uuid_kind = GPU_UUID_MIG;
	if (!memcmp(ret->uuid, none, sizeof(none)))
		ret->uuid_kind = GPU_UUID_NONE;
}

/* Describes the device that CUPTI's records call `number`. Unknown values stay empty; false: nothing is known. */
static bool driver_get_device(const struct driver *d, int number, struct gpu_device *ret)
{
	int device;

	memset(ret, 0, sizeof(*ret));
	if (d->get(&device, number))
		return false;
	if (!d->get_name || d->get_name(ret->name, sizeof(ret->name), device))
		ret->name[0] = '\0';
	if (!d->get_pci || d->get_pci(ret->pci, sizeof(ret->pci), device))
		ret->pci[0] = '\0';
	ret->name[sizeof(ret->name) - 1] = ret->pci[sizeof(ret->pci) - 1] = '\0';
	driver_get_uuid(d, device, ret);
	return true;
}

static bool driver_describe_devices(bool (*tell)(uint32_t device, const struct gpu_device *about))
{
	struct driver d;
	const struct symbol needed[] = { { "cuDeviceGetCount", &d.get_count }, { "cuDeviceGet", &d.get } };
	const struct symbol optional[] = {
		{ "cuDeviceGetName", &d.get_name },
		{ "cuDeviceGetPCIBusId", &d.get_pci },
		{ "cuDeviceGetUuid", &d.get_uuid },
		{ "cuDeviceGetUuid_v2", &d.get_instance },
	};
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	struct gpu_device about;
	bool done = true;
	int n = 0;

	if (!driver)
		return true;
	memset(&d, 0, sizeof(d));
	for (size_t i = 0; i < sizeof(optional) / sizeof(*optional); i++)
		symbols_find(driver, &optional[i], 1);
	if (!symbols_find(driver, needed, sizeof(needed) / sizeof(*needed))) {
		done = !d.get_count(&n);
		for (int i = 0; done && i < n; i++)
			done = !driver_get_device(&d, i, &about) || tell((uint32_t)i, &about);
	}
	dlclose(driver);
	return done;
}

static uint32_t count_buffers(void)
{
	return buffers.open;
}

const struct backend cuda_backend = {
	.vendor = GPU_VENDOR_NVIDIA,
	.can = GPU_WANT_ALL,
	.other_user = CUPTI_MULTIPLE_SUBSCRIBERS,
	.time = cupti_read_time,
	.load = cupti_load,
	.begin = cupti_subscribe,
	.end = cupti_unsubscribe,
	.enable = cupti_enable_kinds,
	.disable = cupti_disable_kinds,
	.flush = cupti_flush_buffers,
	.describe = driver_describe_devices,
	.buffers = count_buffers,
	.release = buffers_free,
};

/* Called by the driver, while CUDA starts. */
__attribute__((visibility("default"))) int InitializeInjection(void)
{
	agent_start(&cuda_backend);
	return 1;
}
