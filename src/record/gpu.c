// SPDX-License-Identifier: BSD-2-Clause
#include "record/gpu.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gpu/inject.h"
#include "record/gpu_launch.h"
#include "record/gpu_socket.h"
#include "target/process.h"
#include "util/clock.h"
#include "util/log.h"

#define STOP_NS (2 * NSEC_PER_SEC)
#define STOP_PAUSE_US 1000
#define ATTACH_NS (NSEC_PER_SEC / 2) /* for those that go on at the end */
#define WANTED (GPU_WANT_KERNELS | GPU_WANT_COPIES)

/* A connection; without a process it has not said anything yet. */
struct agent {
	int fd;
	uint32_t pid;
	struct gpu_process *process;
	bool off;         /* between the steps that are taken, */
	uint32_t skipped; /* of which there have been so many */
	bool said_over, said_broken;
	bool ended; /* its process is gone, or has called exec */
};

struct gpu {
	struct gpu_config c;
	struct gpu_socket socket;
	struct gpu_info *info;
	struct gpu_launches *launches;
	struct agent agents[GPU_PROCESSES_MAX];
	size_t n_agents;
	pthread_mutex_t lock; /* held while the agents are others, and by other threads while they look at them */
	bool wanted;
	bool stopped;     /* and nothing is left to hand over */
	uint32_t unknown; /* the last process that launched something and had no agent, in this turn; 0: none */
	/* of the run */
	struct gpu_counts gone; /* of processes that are */
	uint32_t connected, refused;
	uint64_t refused_full;
	struct gpu_injection *injections; /* of --gpu=attach, that have begun */
	size_t n_injections;
	uint32_t attached[GPU_PROCESSES_MAX]; /* that have not connected yet */
	size_t n_attached;
	bool said_failed;
};

static const char *const libraries[GPU_VENDOR_MAX] = {
	[GPU_VENDOR_NVIDIA] = "CUPTI",
	[GPU_VENDOR_AMD] = "rocprofiler-sdk",
};

/* ---- agents ---- */

static void count_gone(struct gpu *g, const struct gpu_process *p)
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

static void say_state(struct gpu *g, const struct agent *a, const struct gpu_feed_state *st)
{
	static const char *const calls[GPU_VENDOR_MAX][GPU_CALL_MAX] = {
		[GPU_VENDOR_NVIDIA] = {
			[GPU_CALL_NONE] = "a call",
			[GPU_CALL_SYMBOLS] = "finding its functions",
			[GPU_CALL_REGISTER] = "cuptiActivityRegisterCallbacks",
			[GPU_CALL_ENABLE] = "cuptiActivityEnable",
			[GPU_CALL_TIMESTAMP] = "cuptiGetTimestamp",
			[GPU_CALL_FLUSH] = "cuptiActivityFlushAll",
			[GPU_CALL_MEMORY] = "getting memory or a thread",
		},
		[GPU_VENDOR_AMD] = {
			[GPU_CALL_NONE] = "a call",
			[GPU_CALL_SYMBOLS] = "finding its functions",
			[GPU_CALL_REGISTER] = "configuring its services",
			[GPU_CALL_ENABLE] = "rocprofiler_start_context",
			[GPU_CALL_TIMESTAMP] = "rocprofiler_get_timestamp",
			[GPU_CALL_FLUSH] = "rocprofiler_flush_buffer",
			[GPU_CALL_MEMORY] = "getting memory or a thread",
		},
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
			calls[st->vendor][st->failed_call], st->error, st->records ? "some of " : "");
	else
		return;
	g->said_failed = true;
}

/* Everything that it wrote is there. */
static void end_agent(struct gpu *g, size_t i)
{
	struct agent *a = &g->agents[i];
	struct gpu_feed_state st;

	gpu_process_finish(a->process, clock_boot_ns(), g->c.cb, g->c.arg);
	gpu_process_state(a->process, &st);
	gpu_info_expect(g->info, a->pid, false);
	say_state(g, a, &st);
	count_gone(g, a->process);
	pthread_mutex_lock(&g->lock);
	gpu_process_free(a->process);
	close(a->fd);
	*a = g->agents[--g->n_agents];
	pthread_mutex_unlock(&g->lock);
}

static bool has_ended(const struct agent *a)
{
	char c;
	ssize_t n = recv(a->fd, &c, 1, MSG_DONTWAIT);

	/* nothing is to be sent after the first message */
	return n >= 0 || (errno != EAGAIN && errno != EINTR);
}

/* Ends those that had gone the last time: their calls and steps are known by now. */
static void end_gone(struct gpu *g)
{
	for (size_t i = g->n_agents; i-- > 0;) {
		struct agent *a = &g->agents[i];

		if (a->ended)
			end_agent(g, i);
		else
			a->ended = has_ended(a);
	}
}

/* The agent is in it, and has connected. */
static void forget_attached(struct gpu *g, uint32_t pid)
{
	for (size_t i = 0; i < g->n_attached; i++) {
		if (g->attached[i] == pid)
			g->attached[i--] = g->attached[--g->n_attached];
	}
}

static int add_agent(struct gpu *g, int fd, uint32_t pid)
{
	struct clock_shift own = clock_shift_read(), its = own;
	struct agent *a;
	int err;

	if (!g->c.is_target(pid, g->c.is_target_arg)) {
		g->refused++;
		log_debug("--gpu: process %u is not recorded, and refused", pid);
		return -EACCES;
	}
	for (size_t i = g->n_agents; i-- > 0;) {
		if (g->agents[i].pid != pid)
			continue;
		if (!g->agents[i].ended && !has_ended(&g->agents[i]))
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
	gpu_feed_shift(gpu_process_feed(a->process), own.boot_ns - its.boot_ns);
	gpu_feed_limits(gpu_process_feed(a->process), g->c.budget_ppm, g->c.wait_ms);
	if (g->wanted)
		gpu_feed_want(gpu_process_feed(a->process), WANTED, GPU_FLUSH_MS);
	err = gpu_socket_welcome(fd, gpu_feed_fd(gpu_process_feed(a->process)));
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
	forget_attached(g, pid);
	log_debug("--gpu: process %u has connected", pid);
	return 0;
}

static void accept_agents(struct gpu *g)
{
	unsigned int left = GPU_ACCEPT_MAX;
	uint32_t pid;
	int fd, err;

	while ((fd = gpu_socket_next(&g->socket, &left, &pid)) >= 0) {
		err = add_agent(g, fd, pid);
		if (!err)
			continue;
		gpu_socket_refuse(fd, err);
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

static void want(struct gpu *g, uint32_t wanted)
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
	want(g, WANTED);
}

static bool all_settled(const struct gpu *g)
{
	struct gpu_feed_state st;

	for (size_t i = 0; i < g->n_agents; i++) {
		gpu_process_state(g->agents[i].process, &st);
		if (!st.settled && st.state != GPU_STATE_STARTING && !gpu_state_is_over(st.state) && !has_ended(&g->agents[i]))
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
	want(g, 0);
	while (gpu_drain(g, clock_boot_ns(), false) || (!all_settled(g) && clock_boot_ns() < until_ns))
		usleep(STOP_PAUSE_US);
	if (!all_settled(g))
		log_warn("--gpu: an agent did not answer: its last records may be missing");
	for (size_t i = 0; i < g->n_agents; i++)
		gpu_process_finish(g->agents[i].process, clock_boot_ns(), g->c.cb, g->c.arg);
}

/* ---- processes that run already ---- */

static int is_mapped(const struct mapped_file *m, void *arg)
{
	return strstr(m->path, arg) != NULL;
}

static bool has_mapped(pid_t pid, char *library)
{
	return process_each_mapped(pid, is_mapped, library) > 0;
}

/* Nothing is changed in a process that does not use CUDA. */
static int check_cuda(pid_t pid, char *ret_why, size_t size)
{
	if (has_mapped(pid, "/libcuda.so"))
		return 0;
	snprintf(ret_why, size, "%s",
		has_mapped(pid, "/libamdhip64.so") ? "it uses an AMD GPU, which can be recorded from its start only: record --gpu -- COMMAND"
						   : "it has not loaded CUDA (libcuda.so)");
	return -ENOENT;
}

void gpu_attach(struct gpu *g, struct inspector *inspector, const pid_t *pids, size_t n)
{
	const struct gpu_socket *s = &g->socket;
	const char *what;
	int err;

	g->injections = calloc(n, sizeof(*g->injections));
	for (size_t k = 0; k < n; k++) {
		what = "it is in another network namespace, where it cannot be listened to";
		err = g->injections ? gpu_socket_listen_for(&g->socket, pids[k]) : -ENOMEM;
		if (!err) {
			what = "no process can be started for that";
			err = gpu_injection_begin(inspector, pids[k], s->agent, s->socket_name, check_cuda, &g->injections[g->n_injections]);
		}
		if (err)
			log_warn("--gpu=attach: process %d: %s: %s; what its GPU does is not recorded", pids[k], what, strerror(-err));
		else
			g->n_injections++;
	}
}

static void say_injected(struct gpu *g, pid_t pid, int err, const char *why)
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

/* Returns whether any goes on. */
static bool take_injections(struct gpu *g)
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
		say_injected(g, pid, err, why);
	}
	return g->n_injections;
}

/* ---- records ---- */

/* Its agent connected before it launched anything, but perhaps in this turn. */
static struct gpu_process *meet_process(struct gpu *g, uint32_t tgid)
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
	struct gpu_process *p;
	struct agent *a;
	struct launch l;

	if (s->role == ROLE_OP) {
		a = find_agent(g, r->h.tgid);
		if (a)
			gpu_process_operator(a->process, &r->h, probe_spec_name(s, r->vals));
	}
	if (!gpu_launch_role(s->role))
		return;
	p = meet_process(g, r->h.tgid);
	if (!p || r->h.flags & REC_F_OPEN_START)
		return;
	if (s->role == ROLE_GPU_WAIT)
		gpu_launch_wait(g->launches, s, r, p);
	else if (gpu_launch_get(g->launches, s, r, &l))
		gpu_process_call(p, &l);
}

/* One step is collected from its begin to its end; then nothing is, until it is time for the next one but one. */
static void follow_every(const struct gpu *g, struct agent *a, const struct rec_step *r)
{
	struct gpu_feed *f = gpu_process_feed(a->process);
	struct gpu_feed_state st;

	if (!g->c.every || !g->wanted)
		return;
	if (a->off) {
		if (++a->skipped < g->c.every - 1)
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
	gpu_info_expect(g->info, r->h.tgid, gpu_process_step(a->process, r));
	follow_every(g, a, r);
}

/* The first time. */
static void say_over(struct agent *a)
{
	struct gpu_counts c;

	if (!a->said_broken && gpu_feed_broken(gpu_process_feed(a->process))) {
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
	take_injections(g);
	accept_agents(g);
	for (size_t i = 0; i < g->n_agents; i++) {
		more |= gpu_process_drain(g->agents[i].process, now_ns, g->c.cb, g->c.arg);
		say_over(&g->agents[i]);
	}
	if (!more && drained)
		end_gone(g);
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

int gpu_new(const struct gpu_config *c, struct gpu **ret_gpu)
{
	struct gpu *g = calloc(1, sizeof(*g));
	int err;

	if (!g)
		return -ENOMEM;
	g->c = *c;
	pthread_mutex_init(&g->lock, NULL);
	g->socket = GPU_SOCKET_INIT;
	g->socket.is_target = c->is_target;
	g->socket.is_target_arg = c->is_target_arg;
	err = gpu_socket_open(&g->socket, c->cupti) ?: gpu_info_new(&g->info) ?
									      : gpu_launches_new(&g->launches);
	if (err) {
		gpu_free(g);
		return err;
	}
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
	gpu_socket_close(&g->socket);
	gpu_launches_free(g->launches);
	gpu_info_free(g->info);
	free(g);
}

const char *const *gpu_environment(const struct gpu *g)
{
	return gpu_socket_environment(&g->socket);
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
	return g ? g->socket.epoll : -1;
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

	while (take_injections(g) && clock_boot_ns() < until_ns)
		usleep(STOP_PAUSE_US);
	for (size_t i = 0; i < g->n_injections; i++)
		log_warn("--gpu=attach: process %d: the recording ended before the library was in it", g->injections[i].pid);
	all = *g;

	for (size_t i = 0; i < g->n_agents; i++) {
		gpu_process_state(g->agents[i].process, &st);
		say_state(&all, &g->agents[i], &st);
		count_gone(&all, g->agents[i].process);
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
