// SPDX-License-Identifier: BSD-2-Clause
#include "record/gpu.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/listener.h"
#include "engine/check.h"
#include "gpu/hand_over.h"
#include "gpu/inject.h"
#include "target/process.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/passing.h"

#define AGENT_FILE "inftrace-gpu.so"
#define INJECTION "CUDA_INJECTION64_PATH" /* read by the CUDA driver: one library */
#define TOOLS "ROCP_TOOL_LIBRARIES"       /* read by rocprofiler-sdk: a colon-separated list */
#define GPU_FLUSH_MS 100
#define WAIT_MS 50 /* for room in a ring, unless --gpu says otherwise */

#define STOP_NS (2 * NSEC_PER_SEC)
#define STOP_PAUSE_US 1000
#define ATTACH_NS (NSEC_PER_SEC / 2) /* how long the end of the recording waits for injections */
#define WANTED (GPU_WANT_KERNELS | GPU_WANT_COPIES)

struct agent {
	int fd;
	uint32_t pid;
	struct gpu_process *process;
	bool off;         /* waits for the next step to collect */
	uint32_t skipped; /* steps let pass since then */
	bool said_over, said_broken;
	bool ended; /* its process is gone, or has called exec */
};

struct gpu {
	const struct record_options *o;
	gpu_record_cb cb;
	void *arg;
	struct agent_listener listener; /* on which agents connect (gpu/hand_over.h) */
	char library[PATH_MAX];
	char *environment[5]; /* what the COMMAND needs; ends with NULL */
	size_t n_environment;
	struct gpu_info *info;
	struct gpu_launches *launches;
	struct agent agents[GPU_PROCESSES_MAX];
	size_t n_agents;
	pthread_mutex_t lock; /* held to change the agents, and by other threads to read them */
	bool wanted;
	bool stopped;     /* and all records were taken */
	uint32_t unknown; /* the last process in this turn that launched something without an agent; 0: none */
	/* of the run */
	struct gpu_counts gone; /* of processes that have ended */
	uint32_t connected, refused;
	uint64_t refused_full;
	struct gpu_injection *injections; /* of --gpu=attach, in progress */
	size_t n_injections;
	uint32_t attached[GPU_PROCESSES_MAX]; /* injected, but not connected yet */
	size_t n_attached;
	bool said_failed;
};

/* ---- what the COMMAND needs ---- */

/* Takes over value, which is malloc()ed. */
static void add_variable(struct gpu *g, char *value)
{
	g->environment[g->n_environment++] = value;
}

static int set_environment(struct gpu *g)
{
	const char *other = getenv(INJECTION), *tools = getenv(TOOLS), *cupti = g->o->cupti;
	int err = agent_find_file("--gpu", AGENT_FILE, g->library);
	char *real = NULL;

	if (err)
		return err;
	if (other && *other)
		return log_fail(-EINVAL, "--gpu: " INJECTION " is set to '%.200s': only one tool can be loaded with CUDA; unset it", other);
	if (cupti && (access(cupti, R_OK) || !(real = realpath(cupti, NULL))))
		return log_fail(-EINVAL, "--cupti %s: %s", cupti, strerror(errno));
	tools = tools ? tools : "";
	add_variable(g, xasprintf(INJECTION "=%s", g->library));
	add_variable(g, xasprintf(TOOLS "=%s%s%s", g->library, *tools ? ":" : "", tools));
	add_variable(g, xasprintf(GPU_ENV_SOCKET "=%s", g->listener.socket_name));
	if (real)
		add_variable(g, xasprintf(GPU_ENV_CUPTI "=%s", real));
	free(real);
	return 0;
}

/* Hands over a ring; memfd -1: sends err, the reason that there is none. */
static int agent_send_welcome(int fd, int memfd, int err)
{
	struct gpu_welcome w = { .magic = GPU_HAND_OVER_MAGIC, .version = GPU_HAND_OVER_VERSION, .error = err };

	return passing_send(fd, &w, sizeof(w), &memfd, memfd >= 0, MSG_DONTWAIT);
}

/* ---- launches ---- */

enum launch_arg {
	ARG_GRID_X,
	ARG_BLOCK_X = ARG_GRID_X + 3,
	ARG_STREAM = ARG_BLOCK_X + 3,
	ARG_BYTES,
	ARG_WIDTH,
	ARG_HEIGHT,
	ARG_DEPTH,
	ARG_EVENT,
	ARGS,
};

static const char *const arg_names[ARGS] = { "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z",
	"stream_handle", "bytes", "width", "height", "depth", "event" };

#define KNOWN_MAX 4096 /* probes */

/* The positions of a probe's arguments, so that names are compared only once. */
struct launch_args {
	bool known;
	bool is_nccl;    /* NCCL launches through CUDA, as late as at the end of a group: its own calls are no launches */
	int8_t at[ARGS]; /* -1: none */
};

struct gpu_launches {
	struct launch_args by_id[KNOWN_MAX];
};

struct gpu_launches *gpu_launches_new(void)
{
	return xcalloc(1, sizeof(struct gpu_launches));
}

void gpu_launches_free(struct gpu_launches *gl)
{
	free(gl);
}

static const struct launch_args *launch_find_args(struct gpu_launches *gl, const struct probe_spec *s, uint32_t id)
{
	struct launch_args *p = id < KNOWN_MAX ? &gl->by_id[id] : NULL;

	if (!p || p->known)
		return p;
	p->known = true;
	p->is_nccl = !strncmp(s->symbol, "nccl", strlen("nccl"));
	for (int k = 0; k < ARGS; k++) {
		p->at[k] = -1;
		for (unsigned int i = 0; i < s->nargs; i++) {
			if (!strcmp(s->args[i].name, arg_names[k]))
				p->at[k] = (int8_t)i;
		}
	}
	return p;
}

static bool launch_get_arg(const struct launch_args *p, const struct probe_spec *s, const struct rec_function *r, enum launch_arg arg,
	uint64_t *ret_value)
{
	int at = p->at[arg];

	if (at < 0 || !check_shown(s, (unsigned int)at, r->vals))
		return false;
	*ret_value = r->vals[at];
	return true;
}

static bool launch_get_three(const struct launch_args *p, const struct probe_spec *s, const struct rec_function *r, enum launch_arg first,
	uint32_t ret[3])
{
	uint64_t v;

	for (int i = 0; i < 3; i++) {
		if (!launch_get_arg(p, s, r, first + (enum launch_arg)i, &v))
			return false;
		ret[i] = (uint32_t)v;
	}
	return true;
}

static bool launch_get_bytes(const struct launch_args *p, const struct probe_spec *s, const struct rec_function *r, uint64_t *ret_bytes)
{
	uint64_t width, height, depth = 1;

	if (launch_get_arg(p, s, r, ARG_BYTES, ret_bytes))
		return true;
	if (!launch_get_arg(p, s, r, ARG_WIDTH, &width) || !launch_get_arg(p, s, r, ARG_HEIGHT, &height))
		return false;
	launch_get_arg(p, s, r, ARG_DEPTH, &depth);
	*ret_bytes = width * height * depth;
	return true;
}

/* Two handles are no addresses: 1 is the same stream as 0, and 2 a stream of each thread. */
static uint64_t launch_stream_id(uint64_t handle, uint32_t tid)
{
	return handle == 1 ? 0 : handle == 2 ? 2 | (uint64_t)tid << 32
					     : handle;
}

static bool launch_find_kind(enum probe_role role, enum launch_kind *ret_kind)
{
	static const struct {
		enum probe_role role;
		enum launch_kind kind;
	} kinds[] = {
		{ ROLE_LAUNCH, LAUNCH_KERNEL },
		{ ROLE_GRAPH, LAUNCH_GRAPH },
		{ ROLE_TRANSFER, LAUNCH_COPY },
		{ ROLE_CAPTURE, LAUNCH_CAPTURE },
		{ ROLE_CAPTURE_END, LAUNCH_CAPTURE_END },
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		*ret_kind = kinds[i].kind;
		if (kinds[i].role == role)
			return true;
	}
	return false;
}

bool gpu_launch_get(struct gpu_launches *gl, const struct probe_spec *s, const struct rec_function *r, struct launch *ret_launch)
{
	const struct launch_args *p = launch_find_args(gl, s, r->h.id);
	struct launch l = { .start_ns = r->h.start_ns, .end_ns = r->h.start_ns + r->h.dur_ns, .tid = r->h.tid };

	if (!p || p->is_nccl || r->h.flags & REC_F_OPEN_END)
		return false;
	if (!launch_find_kind(s->role, &l.kind))
		return false;
	if (l.kind == LAUNCH_GRAPH && !(s->flags & PROBE_F_GRAPH)) /* no launch: an engine builds its graph */
		return false;
	if (l.kind == LAUNCH_KERNEL)
		l.has_shape = launch_get_three(p, s, r, ARG_GRID_X, l.grid) && launch_get_three(p, s, r, ARG_BLOCK_X, l.block);
	if (l.kind == LAUNCH_COPY)
		l.has_bytes = launch_get_bytes(p, s, r, &l.bytes);
	l.has_stream = launch_get_arg(p, s, r, ARG_STREAM, &l.stream);
	l.stream = launch_stream_id(l.stream, r->h.tid);
	*ret_launch = l;
	return true;
}

/* Tells proc if the call waited for all work of a stream, or of all streams. */
static void gpu_launch_wait(struct gpu_launches *gl, const struct probe_spec *s, const struct rec_function *r,
	struct gpu_process *proc)
{
	const struct launch_args *p = launch_find_args(gl, s, r->h.id);
	uint64_t stream, event;
	bool has_stream;

	if (!p || p->is_nccl || r->h.flags & (REC_F_OPEN_START | REC_F_OPEN_END) || launch_get_arg(p, s, r, ARG_EVENT, &event))
		return;
	has_stream = launch_get_arg(p, s, r, ARG_STREAM, &stream);
	stream = has_stream ? launch_stream_id(stream, r->h.tid) : 0;
	gpu_process_wait(proc, has_stream ? &stream : NULL, r->h.start_ns, r->h.start_ns + r->h.dur_ns);
}

static const char *const libraries[GPU_VENDOR_MAX] = {
	[GPU_VENDOR_NVIDIA] = "CUPTI",
	[GPU_VENDOR_AMD] = "rocprofiler-sdk",
};

/* ---- agents ---- */

static void gpu_add_gone_counts(struct gpu *g, const struct gpu_process *p)
{
	struct gpu_counts c;

	gpu_process_counts(p, &c);
	g->gone.kept += c.kept;
	g->gone.vendor = c.vendor;
	g->gone.lost += c.lost;
	g->gone.dropped_cupti += c.dropped_cupti;
	g->gone.bad += c.bad;
	g->gone.joined += c.joined;
	g->gone.missed += c.missed;
	g->gone.pending += c.pending;
	g->gone.over_ns += c.over_ns;
	g->gone.waited_ns += c.waited_ns;
	g->gone.is_over |= c.is_over;
	if (c.residual_ns > g->gone.residual_ns)
		g->gone.residual_ns = c.residual_ns;
}

static void agent_report_state(struct gpu *g, const struct agent *a, const struct gpu_feed_state *st)
{
	static const char *const calls[GPU_CALL_MAX][GPU_VENDOR_MAX] = {
		[GPU_CALL_NONE] = { "a call", "a call" },
		[GPU_CALL_SYMBOLS] = { "finding its functions", "finding its functions" },
		[GPU_CALL_REGISTER] = { "cuptiActivityRegisterCallbacks", "configuring its services" },
		[GPU_CALL_ENABLE] = { "cuptiActivityEnable", "rocprofiler_start_context" },
		[GPU_CALL_TIMESTAMP] = { "cuptiGetTimestamp", "rocprofiler_get_timestamp" },
		[GPU_CALL_FLUSH] = { "cuptiActivityFlushAll", "rocprofiler_flush_buffer" },
		[GPU_CALL_MEMORY] = { "getting memory or a thread", "getting memory or a thread" },
	};

	if (st->state == GPU_STATE_NO_CUPTI)
		log_warn("process %u: libcupti was not found, so what its GPU did is not recorded; --cupti FILE names it, or install "
			 "cuda-cupti (pip: nvidia-cuda-cupti)",
			a->pid);
	else if (st->state == GPU_STATE_OTHER_USER)
		log_warn("process %u: another tool in it uses CUPTI (its error 39), which serves only one, so what its GPU did is not "
			 "recorded",
			a->pid);
	else if (st->state == GPU_STATE_FAILED)
		log_warn("process %u: %s failed in %s (error %d), so %swhat its GPU did is not recorded", a->pid, libraries[st->vendor],
			calls[st->failed_call][st->vendor], st->error, st->records ? "some of " : "");
	else
		return;
	g->said_failed = true;
}

/* Takes the rest of what an ended agent wrote, and removes the agent. */
static void end_agent(struct gpu *g, size_t i)
{
	struct agent *a = &g->agents[i];
	struct gpu_feed_state st;

	gpu_process_finish(a->process, clock_boot_ns(), g->cb, g->arg);
	gpu_process_state(a->process, &st);
	gpu_info_expect(g->info, a->pid, false);
	agent_report_state(g, a, &st);
	gpu_add_gone_counts(g, a->process);
	pthread_mutex_lock(&g->lock);
	gpu_process_free(a->process);
	close(a->fd);
	*a = g->agents[--g->n_agents];
	pthread_mutex_unlock(&g->lock);
}

static bool agent_has_ended(const struct agent *a)
{
	char c;
	ssize_t n = recv(a->fd, &c, 1, MSG_DONTWAIT);

	/* an agent sends nothing after its first message */
	return n >= 0 || (errno != EAGAIN && errno != EINTR);
}

static int add_agent(struct gpu *g, int fd, uint32_t pid)
{
	struct clock_shift own = clock_shift_read(), its = own;
	struct agent *a;
	int err;

	if (!g->listener.is_target(pid, g->listener.arg)) {
		g->refused++;
		log_debug("--gpu: process %u is not recorded, and refused", pid);
		return -EACCES;
	}
	for (size_t i = g->n_agents; i-- > 0;) {
		if (g->agents[i].pid != pid)
			continue;
		if (!g->agents[i].ended && !agent_has_ended(&g->agents[i]))
			return -EEXIST;
		end_agent(g, i); /* the same process before an exec */
	}
	if (g->n_agents == GPU_PROCESSES_MAX) {
		g->refused_full++;
		return -EMFILE;
	}
	err = process_clock_shift((pid_t)pid, &its);
	if (err) {
		log_warn("process %u: what its time namespace adds to its clock is not known (%s), so what its GPU did is not recorded", pid, strerror(-err));
		return err;
	}
	a = &g->agents[g->n_agents];
	err = gpu_process_new(pid, g->info, clock_boot_ns(), &a->process);
	if (err)
		return err;
	gpu_process_feed(a->process)->shift_ns = (uint64_t)(own.boot_ns - its.boot_ns);
	gpu_feed_limits(gpu_process_feed(a->process), (uint32_t)g->o->gpu_budget,
		g->o->has_gpu_wait ? g->o->gpu_wait_ms : WAIT_MS);
	if (g->wanted)
		gpu_feed_want(gpu_process_feed(a->process), WANTED, GPU_FLUSH_MS);
	err = agent_send_welcome(fd, gpu_process_feed(a->process)->fd, 0);
	if (err) {
		gpu_process_free(a->process);
		return err;
	}
	a->fd = fd;
	a->pid = pid;
	a->ended = a->off = a->said_over = a->said_broken = false;
	pthread_mutex_lock(&g->lock);
	g->n_agents++;
	pthread_mutex_unlock(&g->lock);
	g->connected++;
	g->unknown = 0;
	gpu_info_expect(g->info, pid, true);
	for (size_t i = 0; i < g->n_attached; i++) { /* its agent has connected */
		if (g->attached[i] == pid)
			g->attached[i--] = g->attached[--g->n_attached];
	}
	log_debug("--gpu: process %u has connected", pid);
	return 0;
}

static void accept_agents(struct gpu *g)
{
	unsigned int left = AGENT_ACCEPT_MAX;
	uint32_t pid;
	int fd, err;

	while ((fd = agent_listener_next(&g->listener, &left, &pid)) >= 0) {
		err = add_agent(g, fd, pid);
		if (!err)
			continue;
		if (agent_send_welcome(fd, -1, err))
			log_debug("--gpu: an agent was gone before it could be refused: %s", strerror(errno));
		close(fd);
	}
}

static struct agent *find_agent(struct gpu *g, uint32_t tgid)
{
	for (size_t i = 0; i < g->n_agents; i++) {
		if (g->agents[i].pid == tgid)
			return &g->agents[i];
	}
	return NULL;
}

/* ---- windows ---- */

static void gpu_set_wanted(struct gpu *g, uint32_t wanted)
{
	g->wanted = wanted;
	for (size_t i = 0; i < g->n_agents; i++) {
		g->agents[i].off = false;
		gpu_feed_want(gpu_process_feed(g->agents[i].process), wanted, GPU_FLUSH_MS);
	}
}

void gpu_start(struct gpu *g)
{
	g->stopped = false;
	for (size_t i = 0; i < g->n_agents; i++)
		gpu_process_end(g->agents[i].process, UINT64_MAX);
	gpu_set_wanted(g, WANTED);
}

static bool gpu_all_settled(const struct gpu *g)
{
	struct gpu_feed_state st;

	for (size_t i = 0; i < g->n_agents; i++) {
		gpu_process_state(g->agents[i].process, &st);
		if (!st.settled && st.state != GPU_STATE_STARTING && !gpu_state_is_over(st.state) && !agent_has_ended(&g->agents[i]))
			return false;
	}
	return true;
}

void gpu_stop(struct gpu *g, uint64_t end_ns)
{
	uint64_t until_ns = clock_boot_ns() + STOP_NS;

	if (g->stopped)
		return;
	g->stopped = true;
	for (size_t i = 0; i < g->n_agents; i++)
		gpu_process_end(g->agents[i].process, end_ns);
	gpu_set_wanted(g, 0);
	while (gpu_drain(g, clock_boot_ns(), false) || (!gpu_all_settled(g) && clock_boot_ns() < until_ns))
		usleep(STOP_PAUSE_US);
	if (!gpu_all_settled(g))
		log_warn("--gpu: an agent did not answer: its last records may be missing");
	for (size_t i = 0; i < g->n_agents; i++)
		gpu_process_finish(g->agents[i].process, clock_boot_ns(), g->cb, g->arg);
}

/* ---- processes that run already ---- */

static int mapping_has_name(const struct mapped_file *m, void *arg)
{
	return strstr(m->path, arg) != NULL;
}

/* A process that does not use CUDA is left unchanged. */
static int check_cuda(pid_t pid, char *ret_why, size_t size)
{
	bool amd;

	if (process_each_mapped(pid, mapping_has_name, "/libcuda.so") > 0)
		return 0;
	amd = process_each_mapped(pid, mapping_has_name, "/libamdhip64.so") > 0;
	snprintf(ret_why, size, "%s",
		amd ? "it uses an AMD GPU, which can be recorded from its start only: record --gpu -- COMMAND"
		    : "it has not loaded CUDA (libcuda.so)");
	return -ENOENT;
}

void gpu_attach(struct gpu *g, struct inspector *inspector, const pid_t *pids, size_t n)
{
	static const struct injected_library library = { GPU_ATTACH_ENTRY, GPU_AGENT_SONAME };
	const char *what;
	int err;

	g->injections = xcalloc(n, sizeof(*g->injections));
	for (size_t k = 0; k < n; k++) {
		what = "it is in another network namespace, where it cannot be listened to";
		err = agent_listener_add_namespace(&g->listener, pids[k]);
		if (!err) {
			what = "no process can be started for that";
			err = gpu_injection_begin(inspector, pids[k], &library, g->library, g->listener.socket_name, check_cuda,
				&g->injections[g->n_injections]);
		}
		if (err)
			log_warn("--gpu=attach: process %d: %s: %s; what its GPU does is not recorded", pids[k], what, strerror(-err));
		else
			g->n_injections++;
	}
}

static void injection_report(struct gpu *g, pid_t pid, int err, const char *why)
{
	if (err == -ETIMEDOUT)
		log_warn("--gpu=attach: process %d: not done in time: %s; what its GPU does is not recorded, unless the library connects later", pid, why);
	else if (err)
		log_warn("--gpu=attach: process %d: %s; what its GPU does is not recorded", pid, *why ? why : strerror(-err));
	else
		log_debug("--gpu=attach: the agent is in process %d", pid);
	if (!err && g->n_attached < GPU_PROCESSES_MAX && !find_agent(g, (uint32_t)pid))
		g->attached[g->n_attached++] = (uint32_t)pid;
}

/* Returns whether any is still in progress. */
static bool gpu_take_injections(struct gpu *g)
{
	char why[256] = "";
	pid_t pid;
	int err;

	for (size_t k = g->n_injections; k-- > 0;) {
		pid = g->injections[k].pid;
		err = gpu_injection_result(&g->injections[k], why, sizeof(why));
		if (err == -EINPROGRESS)
			continue;
		g->injections[k] = g->injections[--g->n_injections];
		injection_report(g, pid, err, why);
	}
	return g->n_injections;
}

/* ---- records ---- */

/* Finds the process of a launch: its agent connected before that, but perhaps in this turn. */
static struct gpu_process *gpu_find_process(struct gpu *g, uint32_t tgid)
{
	struct agent *a = find_agent(g, tgid);

	if (!a && g->unknown != tgid) {
		accept_agents(g);
		a = find_agent(g, tgid);
		g->unknown = a ? 0 : tgid;
	}
	return a ? a->process : NULL;
}

void gpu_call(struct gpu *g, const struct probe_spec *s, const struct rec_function *r)
{
	const struct agent *a = s->role == ROLE_OP ? find_agent(g, r->h.tgid) : NULL;
	struct gpu_process *p;
	struct launch l;

	if (a)
		gpu_process_operator(a->process, &r->h, probe_record_name(s, r));
	if (s->role != ROLE_GPU_WAIT && !launch_find_kind(s->role, &l.kind))
		return;
	p = gpu_find_process(g, r->h.tgid);
	if (!p || r->h.flags & REC_F_OPEN_START)
		return;
	if (s->role == ROLE_GPU_WAIT)
		gpu_launch_wait(g->launches, s, r, p);
	else if (gpu_launch_get(g->launches, s, r, &l))
		gpu_process_call(p, &l);
}

/* Collects one whole step, then nothing for the next gpu_every - 1 steps. */
static void agent_apply_every(const struct gpu *g, struct agent *a, const struct rec_step *r)
{
	struct gpu_feed *f = gpu_process_feed(a->process);
	struct gpu_feed_state st;

	if (!g->o->gpu_every || !g->wanted)
		return;
	if (a->off) {
		if (++a->skipped < g->o->gpu_every - 1)
			return;
		a->off = false;
		gpu_feed_want(f, WANTED, GPU_FLUSH_MS);
		return;
	}
	gpu_feed_state(f, clock_boot_ns(), &st);
	if (!st.settled || !st.collected || r->h.start_ns < st.on_since)
		return;
	a->off = true;
	a->skipped = 0;
	gpu_feed_want(f, 0, GPU_FLUSH_MS);
}

void gpu_step(struct gpu *g, const struct rec_step *r)
{
	struct agent *a = find_agent(g, r->h.tgid);

	if (!a)
		return;
	agent_apply_every(g, a, r);
	gpu_info_expect(g->info, r->h.tgid, gpu_process_step(a->process, r));
}

/* Reports a broken ring and an exceeded budget, each once. */
static void agent_report_limits(struct agent *a)
{
	struct gpu_counts c;

	if (!a->said_broken && gpu_process_feed(a->process)->broken) {
		a->said_broken = true;
		log_warn("process %u: its ring makes no sense, so what its GPU does from now on is not recorded", a->pid);
	}
	if (a->said_over)
		return;
	gpu_process_counts(a->process, &c);
	if (!c.is_over && !c.over_ns)
		return;
	a->said_over = true;
	log_info("--gpu-budget: what the GPU of process %u does is not collected for a while, since that took more", a->pid);
}

bool gpu_drain(struct gpu *g, uint64_t now_ns, bool drained)
{
	bool more = false;

	g->unknown = 0;
	gpu_take_injections(g);
	accept_agents(g);
	for (size_t i = 0; i < g->n_agents; i++) {
		more |= gpu_process_drain(g->agents[i].process, now_ns, g->cb, g->arg);
		agent_report_limits(&g->agents[i]);
	}
	/* ends agents that were gone at the last drain: the calls and steps of their processes are known by now */
	for (size_t i = more || !drained ? 0 : g->n_agents; i-- > 0;) {
		struct agent *a = &g->agents[i];

		if (a->ended)
			end_agent(g, i);
		else
			a->ended = agent_has_ended(a);
	}
	return more;
}

uint64_t gpu_lost(const struct gpu *g)
{
	uint64_t n = g->gone.lost;
	struct gpu_counts c;

	for (size_t i = 0; i < g->n_agents; i++) {
		gpu_process_counts(g->agents[i].process, &c);
		n += c.lost;
	}
	return n;
}

/* ---- start and end ---- */

int gpu_new(const struct record_options *o, bool (*is_target)(uint32_t tgid, void *arg), gpu_record_cb cb, void *arg,
	struct gpu **ret_gpu)
{
	static const struct gpu_hello hello = {
		.magic = GPU_HAND_OVER_MAGIC, .version = GPU_HAND_OVER_VERSION, .record_size = sizeof(struct gpu_record)
	};
	struct gpu *g = xcalloc(1, sizeof(*g));
	int err;

	g->o = o;
	g->cb = cb;
	g->arg = arg;
	pthread_mutex_init(&g->lock, NULL);
	err = agent_listener_init(&g->listener, "gpu", &hello, is_target, arg);
	if (!err)
		err = set_environment(g) ?: agent_listener_open(&g->listener);
	if (err) {
		gpu_free(g);
		return err;
	}
	g->info = gpu_info_new();
	g->launches = gpu_launches_new();
	*ret_gpu = g;
	return 0;
}

void gpu_free(struct gpu *g)
{
	if (!g)
		return;
	for (size_t i = 0; i < g->n_agents; i++) {
		gpu_process_free(g->agents[i].process);
		close(g->agents[i].fd);
	}
	for (size_t i = 0; i < g->n_injections; i++)
		gpu_injection_end(&g->injections[i]);
	free(g->injections);
	agent_listener_close(&g->listener);
	while (g->n_environment)
		free(g->environment[--g->n_environment]);
	gpu_launches_free(g->launches);
	gpu_info_free(g->info);
	free(g);
}

const char *const *gpu_environment(const struct gpu *g)
{
	return (const char *const *)g->environment;
}

unsigned int gpu_fill(struct gpu *g)
{
	unsigned int most = 0, fill;

	pthread_mutex_lock(&g->lock);
	for (size_t i = 0; i < g->n_agents; i++) {
		fill = gpu_feed_fill(gpu_process_feed(g->agents[i].process));
		most = fill > most ? fill : most;
	}
	pthread_mutex_unlock(&g->lock);
	return most;
}

int gpu_fd(const struct gpu *g)
{
	return g ? g->listener.epoll : -1;
}

const struct gpu_info *gpu_get_info(const struct gpu *g)
{
	return g->info;
}

void gpu_summary(struct gpu *g)
{
	uint64_t until_ns = clock_boot_ns() + ATTACH_NS;
	struct gpu_feed_state st;
	struct gpu all;

	while (gpu_take_injections(g) && clock_boot_ns() < until_ns)
		usleep(STOP_PAUSE_US);
	for (size_t i = 0; i < g->n_injections; i++)
		log_warn("--gpu=attach: process %d: the recording ended before the library was in it", g->injections[i].pid);
	all = *g;

	for (size_t i = 0; i < g->n_agents; i++) {
		gpu_process_state(g->agents[i].process, &st);
		agent_report_state(&all, &g->agents[i], &st);
		gpu_add_gone_counts(&all, g->agents[i].process);
	}
	if (g->refused_full)
		log_warn("--gpu: %" PRIu64 " processes are without their GPU: at most %d at once", g->refused_full, GPU_PROCESSES_MAX);
	for (size_t i = 0; i < g->n_attached; i++)
		log_warn("--gpu=attach: the agent in process %u has not connected, so what its GPU did is not recorded", g->attached[i]);
	if (!g->connected && g->n_attached)
		return;
	if (!g->connected) {
		log_warn("--gpu: no process started CUDA, or ROCm with rocprofiler-sdk, so nothing of a GPU was recorded");
		return;
	}
	if (all.said_failed && !all.gone.kept)
		return;
	log_info("gpu: %" PRIu64 " kernels and copies of %u process%s, times within %.1f us; of %" PRIu64 " the launch was not seen",
		all.gone.kept, g->connected, g->connected == 1 ? "" : "es", (double)all.gone.residual_ns / 1e3, all.gone.missed);
	if (all.gone.pending)
		log_warn("gpu: of %" PRIu64 " launches no record came: it was not done at the end, their processes were killed or called exec, or records are missing",
			all.gone.pending);
	if (all.gone.over_ns || all.gone.is_over)
		log_info("gpu: nothing was collected for %.1f s%s, since it would have taken more than --gpu-budget",
			(double)all.gone.over_ns / 1e9, all.gone.is_over ? ", and at the end" : "");
	if (all.gone.waited_ns)
		log_info("gpu: the library waited %.3f s in all for room in its ring (--gpu=wait=...)", (double)all.gone.waited_ns / 1e9);
	if (all.gone.lost)
		log_warn("gpu: %" PRIu64 " records are missing, of which %s itself dropped %" PRIu64 " and %" PRIu64 " made no sense",
			all.gone.lost, libraries[all.gone.vendor], all.gone.dropped_cupti, all.gone.bad);
}
