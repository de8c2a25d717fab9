// SPDX-License-Identifier: BSD-2-Clause
/*
 * The agent: a library in a process that uses CUDA, which has CUPTI collect what runs on the GPU and writes it into
 * a ring of inftrace's (gpu/hand_over.h). The driver loads it at its start, where CUDA_INJECTION64_PATH names it, or
 * it is injected later. It is a guest: it prints nothing, ends nothing, takes no signals, uses no malloc of its own,
 * and calls nothing of CUPTI's while nothing is wanted.
 *
 * One thread of its own carries out what is wanted. CUPTI hands over buffers on threads of its own, or on the one
 * that asks for them. The lock guards all that those share; it is never held while CUPTI is called, but for the two
 * functions that read a buffer.
 */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "gpu/agent/buffers.h"
#include "gpu/agent/clocks.h"
#include "gpu/agent/connection.h"
#include "gpu/agent/cupti.h"
#include "gpu/agent/ring.h"
#include "gpu/hand_over.h"

#define EXPORT __attribute__((visibility("default")))
#define FLUSH_MS 100	/* unless inftrace wants another one */
#define IDLE_MS 1000	/* how often the connection is looked at while nothing is collected */
#define BUDGET_AFTER_NS 1000000000u /* what enabling takes at once is no rate */
#define EXIT_PATIENCE_MS 1000

int InitializeInjection(void);
int inftrace_gpu_attach(const char *name);

/* Which kinds of CUPTI's each wish needs; those that may be missing come after the first. */
static const struct wish {
	uint32_t want;
	int kinds[3];
} wishes[] = {
	{ GPU_WANT_KERNELS, { CUPTI_KIND_CONCURRENT_KERNEL } },
	{ GPU_WANT_COPIES, { CUPTI_KIND_MEMCPY, CUPTI_KIND_MEMSET, CUPTI_KIND_MEMCPY2 } },
	{ GPU_WANT_GRAPHS, { CUPTI_KIND_GRAPH_TRACE } },
};

static struct {
	/* written under the lock */
	struct ring ring;
	struct clocks clocks;
	struct buffers buffers;
	uint64_t callbacks_ns;	/* CPU time of the callbacks on other threads than ours */
	pid_t pid;		/* whose all this is: in a child that was forked nothing is done */
	pthread_t thread;	/* ours, while there is one */
	bool has_thread;

	/* of our thread, or of the one that loads us before there is ours */
	struct connection connection;
	struct cupti cupti;
	void *subscriber;
	uint64_t own_before_on, thread_ns, on_since;
	uint32_t state, collected, seen;

	/* under the lock of lives */
	bool running;
	char next_name[GPU_SOCKET_NAME_MAX + 1]; /* whom to serve next; "": nobody */
	uint32_t *woken_by;	/* the futex that our thread waits for, while there is a ring */
	bool once;
} agent = { .connection.fd = -1 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t lives = PTHREAD_MUTEX_INITIALIZER;
/* held by whoever has CUPTI enable, disable or flush */
static pthread_mutex_t steering = PTHREAD_MUTEX_INITIALIZER;

static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static struct gpu_ring *shared(void)
{
	return agent.ring.shared;
}

static void on_request(uint8_t **buffer, size_t *size, size_t *max_records)
{
	pthread_mutex_lock(&lock);
	*buffer = agent.pid == getpid() ? buffer_take(&agent.buffers) : NULL;
	pthread_mutex_unlock(&lock);
	*size = *buffer ? BUFFER_SIZE : 0;
	*max_records = 0;
}

static void on_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
	uint64_t before = cpu_ns();
	size_t dropped = 0;

	(void)size;
	pthread_mutex_lock(&lock);
	if (agent.ring.shared && agent.pid == getpid() && agent.clocks.count) {
		if (agent.cupti.dropped(context, stream, &dropped) == CUPTI_OK)
			agent.ring.said.dropped_cupti += dropped;
		if (buffer)
			buffer_read(&agent.cupti, &agent.clocks, &agent.ring, buffer, valid);
		/* our thread counts all that it takes */
		if (!agent.has_thread || !pthread_equal(agent.thread, pthread_self()))
			agent.callbacks_ns += cpu_ns() - before;
		agent.ring.said.own_ns = agent.callbacks_ns + agent.thread_ns;
		ring_show(&agent.ring);
	}
	if (buffer)
		buffer_return(&agent.buffers, buffer);
	pthread_mutex_unlock(&lock);
}

/* Nothing is asked of CUPTI's callbacks: to be subscribed keeps other users away, and finds them. */
static void on_callback(void *user, int domain, uint32_t id, const void *data)
{
	(void)user, (void)domain, (void)id, (void)data;
}

static void say_state(uint32_t state, int error, uint32_t call)
{
	struct gpu_ring_writer *w = &shared()->writer;

	agent.state = state;
	w->error = error;
	w->failed_call = call;
	w->cupti_version = agent.cupti.version;
	__atomic_store_n(&w->collected, agent.collected, __ATOMIC_RELAXED);
	__atomic_store_n(&w->state, state, __ATOMIC_RELEASE);
}

/* What was the matter before remains to be seen. */
static void say_gone(void)
{
	agent.state = GPU_STATE_GONE;
	__atomic_store_n(&shared()->writer.collected, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&shared()->writer.state, GPU_STATE_GONE, __ATOMIC_RELEASE);
}

static bool is_final(void)
{
	return agent.state == GPU_STATE_NO_CUPTI || agent.state == GPU_STATE_OTHER_USER || agent.state == GPU_STATE_FAILED;
}

static void say_failed(int error, uint32_t call)
{
	say_state(error == CUPTI_MULTIPLE_SUBSCRIBERS ? GPU_STATE_OTHER_USER : GPU_STATE_FAILED, error, call);
}

static int compare_clocks(void)
{
	struct clocks new;
	int r;

	/* our thread alone changes them: the readings are made without the lock */
	new = agent.clocks;
	r = clocks_compare(&new, agent.cupti.get_timestamp);
	if (r)
		return r;
	pthread_mutex_lock(&lock);
	agent.clocks = new;
	pthread_mutex_unlock(&lock);
	clocks_say(&agent.clocks, &shared()->clock);
	return 0;
}

static void disable_all(uint32_t collected)
{
	for (size_t i = 0; i < sizeof(wishes) / sizeof(*wishes); i++)
		for (int k = 0; k < 3 && wishes[i].kinds[k]; k++)
			if (collected & wishes[i].want)
				agent.cupti.disable(wishes[i].kinds[k]);
}

/* Has CUPTI collect what is wanted. On failure nothing is collected. */
static void turn_on(uint32_t wanted)
{
	int r = agent.cupti.subscribe(&agent.subscriber, on_callback, NULL);
	uint32_t call = GPU_CALL_REGISTER;

	if (r) {
		agent.subscriber = NULL;
		say_failed(r, GPU_CALL_ENABLE);
		return;
	}
	r = agent.cupti.register_callbacks(on_request, on_complete);
	if (!r) {
		call = GPU_CALL_TIMESTAMP;
		r = compare_clocks();
	}
	for (size_t i = 0; !r && i < sizeof(wishes) / sizeof(*wishes); i++) {
		if (!(wanted & wishes[i].want))
			continue;
		call = GPU_CALL_ENABLE;
		r = agent.cupti.enable(wishes[i].kinds[0]);
		for (int k = 1; !r && k < 3 && wishes[i].kinds[k]; k++)
			agent.cupti.enable(wishes[i].kinds[k]);
		agent.collected |= r ? 0 : wishes[i].want;
	}
	if (r) {
		disable_all(agent.collected);
		agent.collected = 0;
		agent.cupti.unsubscribe(agent.subscriber);
		agent.subscriber = NULL;
		say_failed(r, call);
		return;
	}
	agent.on_since = clocks_boot_ns();
	agent.own_before_on = agent.ring.said.own_ns;
	shared()->writer.on_since = agent.on_since;
	say_state(GPU_STATE_ON, 0, GPU_CALL_NONE);
}

static void turn_off(uint32_t state)
{
	uint64_t now = clocks_boot_ns();

	if (!agent.collected)
		return;
	compare_clocks();
	disable_all(agent.collected);
	/* forced: what is still running on the GPU is not waited for */
	agent.cupti.flush(1);
	agent.cupti.unsubscribe(agent.subscriber);
	agent.subscriber = NULL;
	agent.collected = 0;
	__atomic_store_n(&shared()->writer.flushed_until, now, __ATOMIC_RELEASE);
	say_state(state, 0, GPU_CALL_NONE);
}

static bool over_budget(void)
{
	uint64_t ppm = __atomic_load_n(&shared()->reader.budget_ppm, __ATOMIC_RELAXED);
	uint64_t elapsed = clocks_boot_ns() - agent.on_since;

	return ppm && elapsed >= BUDGET_AFTER_NS && agent.ring.said.own_ns - agent.own_before_on > elapsed / 1000000 * ppm;
}

/* Counts what our thread has taken, and shows it. Called once in a while, which is exact enough. */
static void count_own(void)
{
	pthread_mutex_lock(&lock);
	agent.thread_ns = cpu_ns();
	agent.ring.said.own_ns = agent.callbacks_ns + agent.thread_ns;
	shared()->writer.buffers_open = agent.buffers.open;
	ring_show(&agent.ring);
	pthread_mutex_unlock(&lock);
}

/* Carries out what is wanted now. */
static void follow_wishes(void)
{
	struct gpu_ring_reader *rd = &shared()->reader;
	uint32_t change = __atomic_load_n(&rd->wanted_change, __ATOMIC_ACQUIRE);
	uint32_t wanted = __atomic_load_n(&rd->wanted, __ATOMIC_RELAXED) & GPU_WANT_ALL;
	bool changed = change != agent.seen;

	pthread_mutex_lock(&steering);
	if (changed && agent.state == GPU_STATE_OVER_BUDGET)
		say_state(GPU_STATE_OFF, 0, GPU_CALL_NONE);
	if (!is_final() && wanted != agent.collected && agent.state != GPU_STATE_OVER_BUDGET) {
		turn_off(GPU_STATE_OFF);
		if (wanted)
			turn_on(wanted);
	}
	pthread_mutex_unlock(&steering);
	agent.seen = change;
	__atomic_store_n(&shared()->writer.wanted_seen, change, __ATOMIC_RELEASE);
}

/* What is done again and again while something is collected. */
static void tick(void)
{
	int r;

	pthread_mutex_lock(&steering);
	if (agent.collected) {
		r = compare_clocks();
		if (!r)
			r = agent.cupti.flush(0);
		if (r && r != CUPTI_MAX_LIMIT_REACHED)
			shared()->writer.error = r;
		if (over_budget())
			turn_off(GPU_STATE_OVER_BUDGET);
	}
	pthread_mutex_unlock(&steering);
}

static void wait_for_change(uint32_t ms)
{
	struct timespec ts = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L };

	syscall(SYS_futex, &shared()->reader.wanted_change, FUTEX_WAIT, agent.seen, &ts, NULL, 0);
}

/*
 * The process ends: what CUPTI still has is worth having. Our thread may be in CUPTI at this moment; then, and after
 * a while in any case, the end of the process is more important.
 */
static void at_exit(void)
{
	struct timespec until;

	if (!shared() || agent.pid != getpid() || clock_gettime(CLOCK_REALTIME, &until))
		return;
	until.tv_sec += EXIT_PATIENCE_MS / 1000;
	if (pthread_mutex_timedlock(&steering, &until))
		return;
	/* our thread finds nothing more to do; steering stays locked */
	if (shared() && agent.collected) {
		compare_clocks();
		agent.cupti.flush(1);
		disable_all(agent.collected);
		agent.collected = 0;
	}
	if (shared())
		say_gone();
}

/* Connects, maps the ring, and finds CUPTI. 0, or a negative errno: there is no ring. */
static int serve_begin(const char *name, bool attached)
{
	struct connection c;
	int ring_fd, err;

	err = connection_open(name, attached, &c, &ring_fd);
	if (err)
		return err;
	pthread_mutex_lock(&lock);
	err = ring_map(&agent.ring, ring_fd);
	pthread_mutex_unlock(&lock);
	close(ring_fd);
	if (err) {
		connection_close(&c);
		return err;
	}
	agent.connection = c;
	agent.pid = getpid();
	agent.thread_ns = 0;
	agent.seen = 0;
	agent.collected = 0;
	agent.callbacks_ns = 0;
	memset(&agent.clocks, 0, sizeof(agent.clocks));
	say_state(GPU_STATE_STARTING, 0, GPU_CALL_NONE);
	if (!agent.cupti.enable) {
		err = cupti_load(&agent.cupti);
		if (err == -ENOENT)
			say_state(GPU_STATE_NO_CUPTI, err, GPU_CALL_NONE);
		else if (err)
			say_state(GPU_STATE_FAILED, err, GPU_CALL_SYMBOLS);
		else
			atexit(at_exit); /* after CUPTI has been loaded, so that it runs before CUPTI's own */
	}
	if (!err)
		say_state(GPU_STATE_OFF, 0, GPU_CALL_NONE);
	follow_wishes();
	return 0;
}

static void serve_end(void)
{
	pthread_mutex_lock(&steering);
	turn_off(GPU_STATE_OFF);
	pthread_mutex_unlock(&steering);
	count_own();
	say_gone();
	pthread_mutex_lock(&lives);
	agent.woken_by = NULL;
	pthread_mutex_unlock(&lives);
	pthread_mutex_lock(&lock);
	ring_unmap(&agent.ring);
	buffers_free(&agent.buffers);
	pthread_mutex_unlock(&lock);
	connection_close(&agent.connection);
}

static void serve(void)
{
	uint32_t short_ms = 1, ms;

	pthread_mutex_lock(&lives);
	agent.woken_by = &shared()->reader.wanted_change;
	pthread_mutex_unlock(&lives);
	while (connection_alive(&agent.connection) && !__atomic_load_n(&shared()->reader.leave, __ATOMIC_RELAXED)) {
		follow_wishes();
		tick();
		count_own();
		ms = __atomic_load_n(&shared()->reader.flush_ms, __ATOMIC_RELAXED);
		ms = ms ? ms : FLUSH_MS;
		/* the first comparisons of the clocks follow each other quickly: the sooner their rates are known */
		short_ms = agent.collected ? 2 * short_ms : 1;
		if (short_ms >= ms || short_ms > IDLE_MS)
			short_ms = ms;
		wait_for_change(agent.collected ? short_ms : IDLE_MS);
	}
	serve_end();
}

/* Whom to serve next. Once there is nobody, this thread has ended for all others. */
static bool take_next(char *ret_name)
{
	bool found;

	pthread_mutex_lock(&lives);
	found = agent.next_name[0];
	strcpy(ret_name, agent.next_name);
	agent.next_name[0] = '\0';
	agent.running = found;
	if (!found) {
		pthread_mutex_lock(&lock);
		agent.has_thread = false;
		pthread_mutex_unlock(&lock);
	}
	pthread_mutex_unlock(&lives);
	return found;
}

static void *thread_main(void *unused)
{
	char name[sizeof(agent.next_name)];

	(void)unused;
	pthread_mutex_lock(&lock);
	agent.thread = pthread_self();
	agent.has_thread = true;
	pthread_mutex_unlock(&lock);
	pthread_setname_np(pthread_self(), "inftrace-gpu");
	if (shared())
		serve();
	while (take_next(name)) {
		if (!serve_begin(name, true))
			serve();
	}
	return NULL;
}

/* All signals are the process's: our thread, and those that CUPTI makes on our behalf, take none. */
static int make_thread(void)
{
	pthread_attr_t attr;
	pthread_t t;
	int err = pthread_attr_init(&attr);

	if (err)
		return -err;
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	err = pthread_create(&t, &attr, thread_main, NULL);
	pthread_attr_destroy(&attr);
	return -err;
}

/* A child has neither our thread nor CUDA's. What was inherited is the parent's, and is let go of. */
static void after_fork(void)
{
	ring_unmap(&agent.ring);
	connection_close(&agent.connection);
	agent.running = false;
	agent.woken_by = NULL;
	agent.next_name[0] = '\0';
	agent.collected = 0;
	agent.has_thread = false;
	agent.pid = 0;
	pthread_mutex_init(&lock, NULL);
	pthread_mutex_init(&lives, NULL);
	pthread_mutex_init(&steering, NULL);
}

static void once(void)
{
	if (agent.once)
		return;
	agent.once = true;
	pthread_atfork(NULL, NULL, after_fork);
}

/* Loaded by the driver, while CUDA starts: what is wanted is enabled before the first kernel. */
EXPORT int InitializeInjection(void)
{
	const char *name = secure_getenv(GPU_ENV_SOCKET);
	sigset_t all, before;
	bool first;

	if (!name || !*name)
		return 1;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_mutex_lock(&lives);
	first = !agent.running;
	agent.running = true;
	once();
	pthread_mutex_unlock(&lives);
	if (first && (serve_begin(name, false) || make_thread())) {
		if (shared()) {
			say_state(GPU_STATE_FAILED, -EAGAIN, GPU_CALL_MEMORY);
			serve_end();
		}
		pthread_mutex_lock(&lives);
		agent.running = false;
		pthread_mutex_unlock(&lives);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return 1;
}

/* Called by an injected call on any thread of the process: leaves all that could wait to a thread of our own. */
EXPORT int inftrace_gpu_attach(const char *name)
{
	sigset_t all, before;
	int err = 0;

	if (!name || strnlen(name, sizeof(agent.next_name)) >= sizeof(agent.next_name))
		return -EINVAL;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_mutex_lock(&lives);
	once();
	strcpy(agent.next_name, name);
	if (agent.running) {
		/* it looks whether whom it serves is still there */
		if (agent.woken_by)
			syscall(SYS_futex, agent.woken_by, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
	} else {
		err = make_thread();
		agent.running = !err;
	}
	pthread_mutex_unlock(&lives);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return err;
}
