// SPDX-License-Identifier: BSD-2-Clause
/*
 * AMD: rocprofiler-sdk collects. The ROCm runtimes load it at their start, and it loads the agent if ROCP_TOOL_LIBRARIES
 * names it. Services can be configured only at that time, so the agent cannot attach later; they are in contexts, which
 * are started and stopped with the windows.
 *
 * rocprofiler itself links records to launches: at each launch it asks, on the launching thread, for an external number
 * for the record. The agent gives it the time; with the thread, that tells the launching call.
 *
 * Built against the documented interface and a mock (tests/gpu/mock_rocprofiler.c); it has never run on hardware.
 */
#include "gpu/agent/agent.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/*
 * ---- the parts of rocprofiler-sdk in use ----
 *
 * Declared here from the documented ABI: no AMD header is needed, and nothing is linked. Taken from the headers of
 * 0.4.0 (ROCm 6.2), 0.5.0 (6.3) and the development branch after 1.3.5 (ROCm 10.0, 2026): fwd.h, registration.h,
 * buffer.h, buffer_tracing.h, callback_tracing.h, external_correlation.h, internal_threading.h, agent.h.
 *
 * Each structure begins with its size, which is checked; they grew only at their ends, except the record of a callback.
 * An id is a structure of one 64-bit number, which x86_64 and arm64 pass like the number.
 */

#define ROCP_OK 0 /* other numbers changed between versions */

#define ROCP_AGENT_INFO_VERSION_0 1
#define ROCP_AGENT_GPU 2
#define ROCP_CATEGORY_TRACING 1
#define ROCP_BUFFER_MEMORY_COPY 10
#define ROCP_BUFFER_KERNEL_DISPATCH 11
#define ROCP_CALLBACK_CODE_OBJECT 10
#define ROCP_CODE_OBJECT_KERNEL_SYMBOL 2
#define ROCP_PHASE_LOAD 1
#define ROCP_PHASE_UNLOAD 2
#define ROCP_REQUEST_MEMORY_COPY 10
#define ROCP_REQUEST_KERNEL_DISPATCH 11
#define ROCP_POLICY_LOSSLESS 2 /* blocks writers while both halves are full */

enum { ROCP_COPY_HOST_TO_HOST = 1,
	ROCP_COPY_HOST_TO_DEVICE,
	ROCP_COPY_DEVICE_TO_HOST,
	ROCP_COPY_DEVICE_TO_DEVICE };

struct rocp_agent {
	uint64_t size;
	uint64_t id;
	uint32_t type;
	uint32_t cpu_cores;
};

struct rocp_header {
	uint32_t category, kind;
	void *payload;
};

struct rocp_dispatch {
	uint64_t size;
	uint32_t kind, operation;
	uint64_t correlation, external;
	uint64_t thread;
	uint64_t start, end;
	struct {
		uint64_t size;
		uint64_t agent, queue, kernel, dispatch;
		uint32_t private_segment, group_segment;
		uint32_t workgroup[3], grid[3]; /* both in work items */
	} info;
};

struct rocp_copy {
	uint64_t size;
	uint32_t kind, operation;
	uint64_t correlation, external;
	uint64_t thread;
	uint64_t start, end;
	uint64_t destination, source; /* agents */
	uint64_t bytes;
};

/* Passed by value. Since 1.0 there is a further number before the kind; the content tells which layout it is. */
struct rocp_callback {
	uint64_t context, thread, correlation, external;
	union {
		struct {
			uint32_t kind, operation, phase, unused;
			const void *payload;
		} old;
		struct {
			uint64_t ancestor;
			uint32_t kind, operation, phase, unused;
			const void *payload;
		} now;
	};
};

struct rocp_kernel_symbol {
	uint64_t size;
	uint64_t kernel;
	uint64_t code_object;
	const char *name;
	/* also in 0.4.0 */
	uint64_t object;
	uint32_t kernarg_size, kernarg_alignment, group_segment, private_segment;
	uint32_t sgprs, arch_vgprs, accum_vgprs; /* vector registers are per work item */
};

_Static_assert(offsetof(struct rocp_dispatch, start) == 40 && offsetof(struct rocp_dispatch, info) == 56, "kernel");
_Static_assert(offsetof(struct rocp_dispatch, info.workgroup) == 56 + 48 && sizeof(struct rocp_dispatch) == 56 + 72, "kernel");
_Static_assert(offsetof(struct rocp_kernel_symbol, name) == 24 && offsetof(struct rocp_kernel_symbol, accum_vgprs) == 64, "symbol");
_Static_assert(offsetof(struct rocp_copy, destination) == 56 && sizeof(struct rocp_copy) == 80, "copy");
_Static_assert(offsetof(struct rocp_callback, old.payload) == 48 && sizeof(struct rocp_callback) == 64, "callback");

typedef int rocp_agents_fn(uint32_t version, const void **agents, size_t count, void *user);
typedef void rocp_buffer_fn(uint64_t context, uint64_t buffer, struct rocp_header **headers, size_t count, void *user, uint64_t dropped);
typedef void rocp_callback_fn(struct rocp_callback record, void *user_data, void *user);
typedef int rocp_request_fn(uint64_t thread, uint64_t context, uint32_t kind, int32_t operation, uint64_t correlation,
	uint64_t *ret_external, void *user);

/* A tool's answer; the library may write to it. */
struct rocp_configured {
	size_t size;
	int (*initialize)(void (*finalize)(void), void *user);
	void (*finalize)(void *user);
	void *user;
};

struct rocprofiler {
	int (*get_timestamp)(uint64_t *ns);
	int (*query_agents)(uint32_t version, rocp_agents_fn *agents, size_t agent_size, void *user);
	int (*create_context)(uint64_t *context);
	int (*start_context)(uint64_t context);
	int (*stop_context)(uint64_t context);
	int (*create_buffer)(uint64_t context, size_t size, size_t watermark, uint32_t policy, rocp_buffer_fn *callback, void *user,
		uint64_t *buffer);
	int (*flush_buffer)(uint64_t buffer);
	int (*create_thread)(uint64_t *thread);
	int (*assign_thread)(uint64_t buffer, uint64_t thread);
	int (*trace_buffered)(uint64_t context, uint32_t kind, const int32_t *operations, size_t count, uint64_t buffer);
	int (*trace_callback)(uint64_t context, uint32_t kind, const int32_t *operations, size_t count, rocp_callback_fn *callback,
		void *user);
	int (*request_external)(uint64_t context, const uint32_t *kinds, size_t count, rocp_request_fn *callback, void *user);
};

#define ROCP_BUFFER_SIZE (2u << 20) /* bytes, twice for each service */
#define WATERMARK (ROCP_BUFFER_SIZE / 4)
#define DEVICES_MAX 64
#define KERNELS_MAX (1u << 18) /* further ones have no name */
#define LATE_TRIES 1000        /* an HSA thread handles the end of work soon after it */
#define LATE_PAUSE_US 1000

struct rocp_configured *rocprofiler_configure(uint32_t version, const char *text, uint32_t priority, void *client);

static struct rocprofiler rocp;

static struct service {
	uint32_t want, kind, request;
	uint64_t context, buffer;
	uint64_t dropped; /* so far, as rocprofiler counts; under agent_lock */
} services[] = {
	{ .want = GPU_WANT_KERNELS, .kind = ROCP_BUFFER_KERNEL_DISPATCH, .request = ROCP_REQUEST_KERNEL_DISPATCH },
	{ .want = GPU_WANT_COPIES, .kind = ROCP_BUFFER_MEMORY_COPY, .request = ROCP_REQUEST_MEMORY_COPY },
};

#define SERVICES (sizeof(services) / sizeof(*services))

static uint32_t version;
static uint64_t names_context;
static const char *library_of;     /* address of a function of rocprofiler */
static uint64_t launched, arrived; /* records to come in all, and records that came */

/* under agent_lock */
static struct kernel {
	const char *name;
	uint32_t registers; /* per work item; 0: not known */
} * kernels;                /* by their ids */
static struct {
	uint64_t agents[DEVICES_MAX];
	uint32_t count;
} devices;

/* ---- callbacks of rocprofiler ---- */

/* On the launching thread. */
static int on_launch(uint64_t thread, uint64_t context, uint32_t kind, int32_t operation, uint64_t correlation,
	uint64_t *ret_external, void *user)
{
	(void)thread, (void)context, (void)kind, (void)operation, (void)correlation, (void)user;
	__atomic_add_fetch(&launched, 1, __ATOMIC_RELAXED);
	*ret_external = clocks_boot_ns();
	return 0;
}

static bool map_kernels(void)
{
	void *p;

	if (kernels)
		return true;
	p = mmap(NULL, KERNELS_MAX * sizeof(*kernels), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p != MAP_FAILED)
		kernels = p;
	return p != MAP_FAILED;
}

static void name_kernel(const struct rocp_kernel_symbol *s, uint32_t phase)
{
	struct kernel *k;

	if (!s || s->size < offsetof(struct rocp_kernel_symbol, object) || s->kernel >= KERNELS_MAX || !map_kernels())
		return;
	k = &kernels[s->kernel];
	if (phase != ROCP_PHASE_LOAD) {
		k->name = k->name ? agent_keep(k->name) : NULL; /* its records may still come */
		return;
	}
	k->name = s->name;
	k->registers = s->size < sizeof(*s) ? 0 : s->arch_vgprs + s->accum_vgprs;
}

static void on_code_object(struct rocp_callback c, void *user_data, void *user)
{
	(void)user_data, (void)user;
	pthread_mutex_lock(&agent_lock);
	if (!agent_is_here())
		;
	else if (c.old.kind == ROCP_CALLBACK_CODE_OBJECT && c.old.operation == ROCP_CODE_OBJECT_KERNEL_SYMBOL)
		name_kernel(c.old.payload, c.old.phase);
	else if (c.now.kind == ROCP_CALLBACK_CODE_OBJECT && c.now.operation == ROCP_CODE_OBJECT_KERNEL_SYMBOL)
		name_kernel(c.now.payload, c.now.phase);
	pthread_mutex_unlock(&agent_lock);
}

/* Returns the device number of a GPU: GPUs are numbered in order of appearance, as HIP does if all are visible. */
static uint32_t agent_device_number(uint64_t agent)
{
	for (uint32_t i = 0; i < devices.count; i++) {
		if (devices.agents[i] == agent)
			return i;
	}
	if (devices.count == DEVICES_MAX)
		return DEVICES_MAX; /* the reader rejects it */
	devices.agents[devices.count] = agent;
	return devices.count++;
}

static int on_agents(uint32_t info_version, const void **agents, size_t count, void *user)
{
	(void)info_version, (void)user;
	for (size_t i = 0; i < count; i++) {
		const struct rocp_agent *a = agents[i];

		if (a->size >= sizeof(*a) && a->type == ROCP_AGENT_GPU)
			agent_device_number(a->id);
	}
	return ROCP_OK;
}

/* An HSA queue stands for the stream; several HIP streams may share one. Its number is small. */
static uint32_t queue_stream_number(uint64_t queue)
{
	return (uint32_t)(queue ^ queue >> 32);
}

static void record_set_launch(struct gpu_record *rec, uint64_t thread, uint64_t external)
{
	rec->thread = (uint32_t)thread;
	rec->launched = external;
}

static void rocm_put_kernel(const struct rocp_dispatch *k, const struct reading *r)
{
	struct gpu_record rec = { .kind = GPU_RECORD_KERNEL };
	const struct span span = {
		k->start, k->end, agent_device_number(k->info.agent), 0, queue_stream_number(k->info.queue), (uint32_t)k->correlation
	};
	static const struct kernel unknown;
	const struct kernel *of = kernels && k->info.kernel < KERNELS_MAX ? &kernels[k->info.kernel] : &unknown;

	if (!reading_span(&rec, r, &span))
		return;
	for (int i = 0; i < 3; i++) {
		uint32_t block = k->info.workgroup[i];

		rec.kernel.block[i] = block;
		rec.kernel.grid[i] = block ? k->info.grid[i] / block + (k->info.grid[i] % block > 0) : 0;
	}
	rec.kernel.shared_static = k->info.group_segment;
	rec.kernel.registers = of->registers;
	record_set_launch(&rec, k->thread, k->external);
	reading_put_kernel(&rec, r, of->name);
}

static uint32_t rocm_copy_kind(const struct rocp_copy *c)
{
	switch (c->operation) {
	case ROCP_COPY_HOST_TO_HOST:
		return GPU_COPY_HOST_TO_HOST;
	case ROCP_COPY_HOST_TO_DEVICE:
		return GPU_COPY_HOST_TO_DEVICE;
	case ROCP_COPY_DEVICE_TO_HOST:
		return GPU_COPY_DEVICE_TO_HOST;
	case ROCP_COPY_DEVICE_TO_DEVICE:
		return c->source == c->destination ? GPU_COPY_DEVICE_TO_DEVICE : GPU_COPY_PEER_TO_PEER;
	default:
		return 0;
	}
}

/* A copy has no queue, since a copy engine makes it: it gets stream 0. */
static void rocm_put_copy(const struct rocp_copy *c, const struct reading *r)
{
	struct gpu_record rec = { .kind = GPU_RECORD_COPY };
	uint64_t agent = c->operation == ROCP_COPY_DEVICE_TO_HOST ? c->source : c->destination;
	const struct span span = { c->start, c->end, agent_device_number(agent), 0, 0, (uint32_t)c->correlation };

	if (!reading_span(&rec, r, &span))
		return;
	rec.copy.bytes = c->bytes;
	rec.copy.kind = rocm_copy_kind(c);
	record_set_launch(&rec, c->thread, c->external);
	ring_put(r->ring, &rec);
}

static void rocm_put_record(const struct rocp_header *h, const struct reading *r)
{
	const struct rocp_dispatch *k = h->payload;
	const struct rocp_copy *c = h->payload;
	bool tracing = h->category == ROCP_CATEGORY_TRACING && h->payload; /* no other category was asked for */

	if (tracing && h->kind == ROCP_BUFFER_KERNEL_DISPATCH && k->size >= sizeof(*k) && k->info.size >= sizeof(k->info))
		rocm_put_kernel(k, r);
	else if (tracing && h->kind == ROCP_BUFFER_MEMORY_COPY && c->size >= sizeof(*c))
		rocm_put_copy(c, r);
	else
		r->ring->said.unknown++;
}

/* Called on a rocprofiler thread that has nothing else to do. */
static void on_records(uint64_t context, uint64_t buffer, struct rocp_header **headers, size_t count, void *user, uint64_t dropped)
{
	const struct arrival arrival = agent_arrival();
	struct service *s = user;
	const struct clocks *clocks;
	struct ring *ring;

	(void)context, (void)buffer;
	pthread_mutex_lock(&agent_lock);
	ring = agent_ring(&clocks);
	if (ring) {
		struct reading r = reading_begin(clocks, arrival_stepped(&arrival, clocks), ring);

		for (size_t i = 0; i < count; i++)
			rocm_put_record(headers[i], &r);
		if (dropped > s->dropped)
			ring->said.dropped_cupti += dropped - s->dropped;
		agent_show(ring, &arrival);
	}
	__atomic_add_fetch(&arrived, count + (dropped > s->dropped ? dropped - s->dropped : 0), __ATOMIC_RELAXED);
	s->dropped = dropped;
	pthread_mutex_unlock(&agent_lock);
}

/* ---- the backend ---- */

static int rocm_read_time(uint64_t *ns)
{
	return rocp.get_timestamp(ns);
}

/* Finds the functions in the library that called the agent. */
static int rocm_find_functions(void)
{
	const struct symbol functions[] = {
		{ "rocprofiler_get_timestamp", &rocp.get_timestamp },
		{ "rocprofiler_query_available_agents", &rocp.query_agents },
		{ "rocprofiler_create_context", &rocp.create_context },
		{ "rocprofiler_start_context", &rocp.start_context },
		{ "rocprofiler_stop_context", &rocp.stop_context },
		{ "rocprofiler_create_buffer", &rocp.create_buffer },
		{ "rocprofiler_flush_buffer", &rocp.flush_buffer },
		{ "rocprofiler_create_callback_thread", &rocp.create_thread },
		{ "rocprofiler_assign_callback_thread", &rocp.assign_thread },
		{ "rocprofiler_configure_buffer_tracing_service", &rocp.trace_buffered },
		{ "rocprofiler_configure_callback_tracing_service", &rocp.trace_callback },
		{ "rocprofiler_configure_external_correlation_id_request_service", &rocp.request_external },
	};
	Dl_info info;
	void *library = NULL;

	if (dladdr(library_of, &info) && info.dli_fname)
		library = dlopen(info.dli_fname, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
	return library ? symbols_find(library, functions, sizeof(functions) / sizeof(*functions)) : -ENOENT;
}

static int configure_service(struct service *s)
{
	uint64_t thread = 0;
	int r = rocp.create_context(&s->context);

	r = r ?: rocp.create_buffer(s->context, ROCP_BUFFER_SIZE, WATERMARK, ROCP_POLICY_LOSSLESS, on_records, s, &s->buffer);
	r = r ?: rocp.trace_buffered(s->context, s->kind, NULL, 0, s->buffer);
	r = r ?: rocp.request_external(s->context, &s->request, 1, on_launch, NULL);
	r = r ?: rocp.create_thread(&thread);
	return r ?: rocp.assign_thread(s->buffer, thread);
}

/* Names come only when code is loaded, so their context runs from the beginning. */
static int configure_names(void)
{
	static const int32_t operation = ROCP_CODE_OBJECT_KERNEL_SYMBOL;
	int r = rocp.create_context(&names_context);

	r = r ?: rocp.trace_callback(names_context, ROCP_CALLBACK_CODE_OBJECT, &operation, 1, on_code_object, NULL);
	return r ?: rocp.start_context(names_context);
}

static int rocm_load(uint32_t *ret_version, uint32_t *ret_call)
{
	int r = rocm_find_functions();

	*ret_call = GPU_CALL_SYMBOLS;
	if (r)
		return r;
	*ret_version = version;
	*ret_call = GPU_CALL_REGISTER;
	r = rocp.query_agents(ROCP_AGENT_INFO_VERSION_0, on_agents, sizeof(struct rocp_agent), NULL);
	for (size_t i = 0; !r && i < SERVICES; i++)
		r = configure_service(&services[i]);
	return r ?: configure_names();
}

static void services_stop(uint32_t want)
{
	for (size_t i = 0; i < SERVICES; i++)
		if (services[i].want == want)
			rocp.stop_context(services[i].context);
}

static int services_start(uint32_t want)
{
	int r = 0;

	for (size_t i = 0; !r && i < SERVICES; i++)
		r = services[i].want == want ? rocp.start_context(services[i].context) : 0;
	return r;
}

/* Errors are ignored: one says that a buffer is being handed over already, but its number differs between versions. */
static void services_flush_buffers(void)
{
	for (size_t i = 0; i < SERVICES; i++)
		rocp.flush_buffer(services[i].buffer);
}

/* Returns how many records are still to come. */
static uint64_t rocm_count_late(void)
{
	uint64_t there = __atomic_load_n(&arrived, __ATOMIC_RELAXED), all = __atomic_load_n(&launched, __ATOMIC_RELAXED);

	return all > there ? all - there : 0;
}

/* Work launched while a context was on is recorded even if the context has been stopped since. The last flush waits for running work,
 * for about a second at most, and not again for what it has given up. */
static int rocm_flush_records(bool last, uint64_t *ret_until_ns)
{
	static uint64_t given_up;
	uint64_t before_ns = clocks_boot_ns();

	services_flush_buffers();
	for (int i = 0; last && i < LATE_TRIES && rocm_count_late() > given_up; i++) {
		usleep(LATE_PAUSE_US);
		services_flush_buffers();
	}
	/* if none is late, everything launched before before_ns has come */
	*ret_until_ns = rocm_count_late() ? 0 : before_ns;
	if (last)
		given_up = rocm_count_late();
	return 0;
}

static const struct backend rocm_backend = {
	.vendor = GPU_VENDOR_AMD,
	.can = GPU_WANT_KERNELS | GPU_WANT_COPIES,
	.time = rocm_read_time,
	.load = rocm_load,
	.enable = services_start,
	.disable = services_stop,
	.flush = rocm_flush_records,
};

/* ---- entry points for rocprofiler ---- */

static int rocm_initialize(void (*finalize)(void), void *user)
{
	memcpy(&library_of, &finalize, sizeof(library_of));
	return agent_start(&rocm_backend) ? -1 : 0;
}

/* Called at the end of the process, while rocprofiler still works. */
static void rocm_finalize(void *user)
{
	agent_exit();
}

/* Called while a ROCm runtime starts. The client's id is left alone, since its layout changed. */
__attribute__((visibility("default"))) struct rocp_configured *rocprofiler_configure(
	uint32_t number, const char *text, uint32_t priority, void *client)
{
	static struct rocp_configured configured = { sizeof(configured), rocm_initialize, rocm_finalize, NULL };

	(void)text, (void)priority, (void)client;
	version = number;
	return secure_getenv(GPU_ENV_SOCKET) ? &configured : NULL;
}
