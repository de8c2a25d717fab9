// SPDX-License-Identifier: BSD-2-Clause
#include "gpu/agent/agent.h"

#include "agent/guest/connection.h"

#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/*
 * The agent: a library in a process that uses a GPU. It has the vendor's library collect what runs there (cuda.c, rocm.c)
 * and writes it into inftrace's ring (gpu/hand_over.h). The vendor's runtime loads the agent at its start if the
 * environment names it; for CUDA it can also be injected later. It is a guest: it prints nothing, ends nothing, takes no
 * signals, uses no malloc of its own, and collects nothing while nothing is wanted.
 *
 * The agent's thread carries out what is wanted. Records arrive on the vendor's threads, or on the one that flushes.
 * agent_lock guards what these threads share.
 */

#define EXPORT __attribute__((visibility("default")))
#define FLUSH_MS 100 /* unless inftrace sets flush_ms */
#define IDLE_MS 1000 /* interval of checks of the connection while nothing is collected */
#define EXIT_PATIENCE_MS 1000
#define ROOM_PAUSE_US 500
#define UNTIL_MARGIN_NS 1000000 /* how far the clocks may differ */

int inftrace_gpu_attach(const char *name);

static struct {
	/* written under agent_lock */
	struct ring ring;
	struct clocks clocks;
	uint64_t callbacks_ns; /* CPU time of callbacks on threads other than the agent's */
	uint64_t patience_ns;  /* remaining wait for room in the ring until the next flush */
	pid_t pid;             /* the served process: a forked child does nothing */
	pthread_t thread;      /* the agent's, if has_thread */
	bool has_thread;

	/* used by the agent's thread, or before that by the thread that loads the agent */
	struct connection connection;
	const struct backend *backend;
	bool loaded; /* the backend's library */
	bool described;
	uint32_t version;
	uint64_t thread_ns, on_since, flushed_until;
	struct budget budget;
	uint32_t state, collected, seen;

	/* under `lives` */
	bool running;
	char next_name[GPU_SOCKET_NAME_MAX + 1]; /* socket to serve next; "": none */
	uint32_t *woken_by;                      /* futex that the agent's thread waits on; NULL: no ring */
	bool once;
} agent = { .connection.fd = -1 };

pthread_mutex_t agent_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t lives = PTHREAD_MUTEX_INITIALIZER;
/* held while the backend enables, disables or flushes */
static pthread_mutex_t steering = PTHREAD_MUTEX_INITIALIZER;

/* Returns the CPU time of this thread. */
static uint64_t cpu_time_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static struct gpu_ring *agent_shared_ring(void)
{
	return agent.ring.shared;
}

bool agent_is_here(void)
{
	return agent.pid == getpid();
}

struct ring *agent_ring(const struct clocks **ret_clocks)
{
	if (!agent.ring.shared || !agent_is_here() || !agent.clocks.count)
		return NULL;
	*ret_clocks = &agent.clocks;
	return &agent.ring;
}

struct arrival agent_arrival(void)
{
	struct arrival a = { .cpu_ns = cpu_time_ns(), .before_ns = clocks_boot_ns() };

	a.is_known = !agent.backend->time(&a.gpu);
	a.after_ns = clocks_boot_ns();
	return a;
}

void agent_show(struct ring *ring, const struct arrival *a)
{
	/* agent_count_own_time() counts all CPU time of the agent's thread */
	if (!agent.has_thread || !pthread_equal(agent.thread, pthread_self()))
		agent.callbacks_ns += cpu_time_ns() - a->cpu_ns;
	ring->said.own_ns = agent.callbacks_ns + agent.thread_ns;
	ring_show(ring);
}

bool agent_wait_for_room(void)
{
	uint64_t from_ns = clocks_boot_ns(), took_ns;

	/* while there is a ring, the connection does not change */
	if (!agent_shared_ring() || !agent.patience_ns || !connection_alive(&agent.connection))
		return false;
	pthread_mutex_unlock(&agent_lock);
	usleep(ROOM_PAUSE_US);
	pthread_mutex_lock(&agent_lock);
	took_ns = clocks_boot_ns() - from_ns;
	agent.patience_ns -= took_ns < agent.patience_ns ? took_ns : agent.patience_ns;
	if (agent_shared_ring())
		agent.ring.said.waited_ns += took_ns;
	return true;
}

const char *agent_keep(const char *name)
{
	return ring_keep(&agent.ring, name);
}

static void agent_publish_error(int error, uint32_t call)
{
	__atomic_store_n(&agent_shared_ring()->writer.error, error, __ATOMIC_RELAXED);
	__atomic_store_n(&agent_shared_ring()->writer.failed_call, call, __ATOMIC_RELAXED);
}

static void agent_publish_state(uint32_t state, int error, uint32_t call)
{
	struct gpu_ring_writer *w = &agent_shared_ring()->writer;

	agent.state = state;
	agent_publish_error(error, call);
	__atomic_store_n(&w->version, agent.version, __ATOMIC_RELAXED);
	__atomic_store_n(&w->vendor, agent.backend->vendor, __ATOMIC_RELAXED);
	__atomic_store_n(&w->collected, agent.collected, __ATOMIC_RELAXED);
	__atomic_store_n(&w->state, state, __ATOMIC_RELEASE);
}

/* Keeps the error, which tells why the agent did not collect. */
static void agent_publish_gone(void)
{
	agent.state = GPU_STATE_GONE;
	__atomic_store_n(&agent_shared_ring()->writer.collected, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&agent_shared_ring()->writer.state, GPU_STATE_GONE, __ATOMIC_RELEASE);
}

static void agent_publish_failed(int error, uint32_t call)
{
	bool other = agent.backend->other_user && error == agent.backend->other_user;

	agent_publish_state(other ? GPU_STATE_OTHER_USER : GPU_STATE_FAILED, error, call);
}

static int compare_clocks(void)
{
	struct clocks new;
	int r;

	/* the readings need no agent_lock, since all callers hold steering */
	new = agent.clocks;
	r = clocks_compare(&new, agent.backend->time);
	if (r)
		return r;
	pthread_mutex_lock(&agent_lock);
	agent.clocks = new;
	pthread_mutex_unlock(&agent_lock);
	clocks_say(&agent.clocks, &agent_shared_ring()->clock);
	return 0;
}

static bool agent_put_device(uint32_t device, const struct gpu_device *about)
{
	bool told;

	pthread_mutex_lock(&agent_lock);
	told = agent_shared_ring() && agent_is_here() && ring_device(&agent.ring, device, about);
	pthread_mutex_unlock(&agent_lock);
	return told;
}

/* Has the backend hand over completed records, with a fresh patience_ns. */
static int agent_flush_records(bool last)
{
	uint64_t until_ns = 0;
	int r;

	/* describe devices before their records */
	if (!agent.described)
		agent.described = !agent.backend->describe || agent.backend->describe(agent_put_device);
	pthread_mutex_lock(&agent_lock);
	agent.patience_ns = __atomic_load_n(&agent_shared_ring()->reader.wait_ms, __ATOMIC_RELAXED) * UINT64_C(1000000);
	pthread_mutex_unlock(&agent_lock);
	r = agent.backend->flush(last, &until_ns);
	if (!r && until_ns > agent.flushed_until + UNTIL_MARGIN_NS) {
		agent.flushed_until = until_ns - UNTIL_MARGIN_NS;
		__atomic_store_n(&agent_shared_ring()->writer.flushed_until, agent.flushed_until, __ATOMIC_RELEASE);
	}
	return r;
}

static void agent_disable_kinds(uint32_t collected)
{
	for (uint32_t want = 1; want & GPU_WANT_ALL; want <<= 1) {
		if (collected & want)
			agent.backend->disable(want);
	}
}

/* Enables all of wanted, or nothing. */
static int agent_enable_kinds(uint32_t wanted)
{
	uint32_t done = 0;
	int r = 0;

	for (uint32_t want = 1; !r && want & GPU_WANT_ALL; want <<= 1) {
		if (!(wanted & want))
			continue;
		r = agent.backend->enable(want);
		done |= r ? 0 : want;
	}
	if (r)
		agent_disable_kinds(done);
	return r;
}

/* Starts collecting what is wanted; on failure nothing is collected. */
static void agent_start_collecting(uint32_t wanted)
{
	const struct backend *b = agent.backend;
	uint32_t call = GPU_CALL_ENABLE;
	int r = b->begin ? b->begin(&call) : 0;

	if (r) {
		agent_publish_failed(r, call);
		return;
	}
	call = GPU_CALL_TIMESTAMP;
	r = compare_clocks();
	if (!r) {
		call = GPU_CALL_ENABLE;
		r = agent_enable_kinds(wanted);
	}
	if (r) {
		if (b->end)
			b->end();
		agent_publish_failed(r, call);
		return;
	}
	agent.collected = wanted;
	agent.on_since = clocks_boot_ns();
	budget_begin(&agent.budget, agent.on_since, agent.ring.said.own_ns);
	__atomic_store_n(&agent_shared_ring()->writer.on_since, agent.on_since, __ATOMIC_RELEASE);
	agent_publish_state(GPU_STATE_ON, 0, GPU_CALL_NONE);
}

static void agent_stop_collecting(uint32_t state)
{
	uint64_t now = clocks_boot_ns();
	int r;

	if (!agent.collected)
		return;
	compare_clocks();
	agent_disable_kinds(agent.collected);
	r = agent_flush_records(true);
	if (agent.backend->end)
		agent.backend->end();
	agent.collected = 0;
	agent.flushed_until = now > agent.flushed_until ? now : agent.flushed_until;
	__atomic_store_n(&agent_shared_ring()->writer.flushed_until, agent.flushed_until, __ATOMIC_RELEASE);
	__atomic_store_n(&agent_shared_ring()->writer.off_since, now, __ATOMIC_RELEASE);
	agent_publish_state(state, r, r ? GPU_CALL_FLUSH : GPU_CALL_NONE);
}

static uint32_t agent_budget_ppm(void)
{
	return __atomic_load_n(&agent_shared_ring()->reader.budget_ppm, __ATOMIC_RELAXED);
}

/* Counts and publishes the CPU time of the agent's thread. Called once per round, which is exact enough. */
static void agent_count_own_time(void)
{
	pthread_mutex_lock(&agent_lock);
	agent.thread_ns = cpu_time_ns();
	agent.ring.said.own_ns = agent.callbacks_ns + agent.thread_ns;
	__atomic_store_n(&agent_shared_ring()->writer.buffers_open, agent.backend->buffers ? agent.backend->buffers() : 0, __ATOMIC_RELAXED);
	ring_show(&agent.ring);
	pthread_mutex_unlock(&agent_lock);
}

/* Carries out the reader's current wanted. */
static void agent_apply_wanted(void)
{
	struct gpu_ring_reader *rd = &agent_shared_ring()->reader;
	uint32_t change = __atomic_load_n(&rd->wanted_change, __ATOMIC_ACQUIRE);
	uint32_t wanted = __atomic_load_n(&rd->wanted, __ATOMIC_RELAXED) & agent.backend->can;
	bool changed = change != agent.seen;
	bool is_final = agent.state == GPU_STATE_NO_CUPTI || agent.state == GPU_STATE_OTHER_USER || agent.state == GPU_STATE_FAILED;

	pthread_mutex_lock(&steering);
	if (changed && agent.state == GPU_STATE_OVER_BUDGET)
		agent_publish_state(GPU_STATE_OFF, 0, GPU_CALL_NONE);
	if (!is_final && wanted != agent.collected && agent.state != GPU_STATE_OVER_BUDGET) {
		agent_stop_collecting(GPU_STATE_OFF);
		if (wanted)
			agent_start_collecting(wanted);
	}
	pthread_mutex_unlock(&steering);
	agent.seen = change;
	__atomic_store_n(&agent_shared_ring()->writer.wanted_seen, change, __ATOMIC_RELEASE);
}

/* One round while collecting, or while paused for the budget. */
static void agent_run_round(void)
{
	uint32_t call = GPU_CALL_TIMESTAMP;
	int r;

	pthread_mutex_lock(&steering);
	if (agent.collected) {
		r = compare_clocks();
		if (!r) {
			call = GPU_CALL_FLUSH;
			r = agent_flush_records(false);
		}
		/* tried again in the next round; the last error stays published */
		agent_publish_error(r, r ? call : GPU_CALL_NONE);
		if (budget_exceeded(&agent.budget, agent_budget_ppm(), clocks_boot_ns(), agent.ring.said.own_ns))
			agent_stop_collecting(GPU_STATE_OVER_BUDGET);
	} else if (agent.state == GPU_STATE_OVER_BUDGET && budget_again(&agent.budget, agent_budget_ppm(), clocks_boot_ns())) {
		agent_publish_state(GPU_STATE_OFF, 0, GPU_CALL_NONE);
		agent_start_collecting(__atomic_load_n(&agent_shared_ring()->reader.wanted, __ATOMIC_RELAXED) & agent.backend->can);
	}
	pthread_mutex_unlock(&steering);
}

/*
 * Takes what the library still has, but delays the exit by no more than EXIT_PATIENCE_MS if the agent's thread is in the
 * library at this moment.
 */
void agent_exit(void)
{
	struct timespec until;
	int r;

	if (!agent_shared_ring() || agent.pid != getpid() || clock_gettime(CLOCK_REALTIME, &until))
		return;
	until.tv_sec += EXIT_PATIENCE_MS / 1000;
	if (pthread_mutex_timedlock(&steering, &until))
		return;
	/* steering stays locked, so the agent's thread does nothing more */
	if (agent_shared_ring() && agent.collected) {
		compare_clocks();
		r = agent_flush_records(true);
		if (r)
			agent_publish_error(r, GPU_CALL_FLUSH);
		agent_disable_kinds(agent.collected);
		agent.collected = 0;
	}
	if (agent_shared_ring())
		agent_publish_gone();
}

/* Connects, maps the ring, and loads the backend. Negative errno: there is no ring. */
static int serve_begin(const char *name, bool attached)
{
	const struct gpu_hello hello = {
		.magic = GPU_HAND_OVER_MAGIC,
		.version = GPU_HAND_OVER_VERSION,
		.record_size = sizeof(struct gpu_record),
		.attached = attached,
	};
	uint32_t call = GPU_CALL_SYMBOLS;
	struct connection c;
	int ring_fd, err;

	err = connection_open(name, &hello, &c, &ring_fd);
	if (err)
		return err;
	pthread_mutex_lock(&agent_lock);
	err = ring_map(&agent.ring, ring_fd);
	pthread_mutex_unlock(&agent_lock);
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
	agent.described = false;
	agent.callbacks_ns = agent.flushed_until = 0;
	memset(&agent.clocks, 0, sizeof(agent.clocks));
	agent_publish_state(GPU_STATE_STARTING, 0, GPU_CALL_NONE);
	if (!agent.loaded) {
		err = agent.backend->load(&agent.version, &call);
		agent.loaded = !err;
		if (err == -ENOENT)
			agent_publish_state(GPU_STATE_NO_CUPTI, err, GPU_CALL_NONE);
		else if (err)
			agent_publish_state(GPU_STATE_FAILED, err, call);
	}
	if (!err)
		agent_publish_state(GPU_STATE_OFF, 0, GPU_CALL_NONE);
	agent_apply_wanted();
	return 0;
}

static void serve_end(void)
{
	/* held until the ring is gone, since agent_exit() may run now and uses it, too */
	pthread_mutex_lock(&steering);
	agent_stop_collecting(GPU_STATE_OFF);
	agent_count_own_time();
	agent_publish_gone();
	pthread_mutex_lock(&lives);
	agent.woken_by = NULL;
	pthread_mutex_unlock(&lives);
	pthread_mutex_lock(&agent_lock);
	ring_unmap(&agent.ring);
	if (agent.backend->release)
		agent.backend->release();
	pthread_mutex_unlock(&agent_lock);
	pthread_mutex_unlock(&steering);
	connection_close(&agent.connection);
}

static void serve_until_closed(void)
{
	uint32_t short_ms = 1, ms;
	struct timespec ts;

	pthread_mutex_lock(&lives);
	agent.woken_by = &agent_shared_ring()->reader.wanted_change;
	pthread_mutex_unlock(&lives);
	while (connection_alive(&agent.connection) && !__atomic_load_n(&agent_shared_ring()->reader.leave, __ATOMIC_RELAXED)) {
		agent_apply_wanted();
		agent_run_round();
		agent_count_own_time();
		ms = __atomic_load_n(&agent_shared_ring()->reader.flush_ms, __ATOMIC_RELAXED);
		ms = ms ? ms : FLUSH_MS;
		/* the first comparisons of the clocks follow each other quickly, so that the rates are known soon */
		short_ms = agent.collected ? 2 * short_ms : 1;
		if (short_ms >= ms || short_ms > IDLE_MS)
			short_ms = ms;
		ms = agent.collected ? short_ms : IDLE_MS;
		ts = (struct timespec){ .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L };
		syscall(SYS_futex, &agent_shared_ring()->reader.wanted_change, FUTEX_WAIT, agent.seen, &ts, NULL, 0);
	}
	serve_end();
}

/* Gives the socket to serve next. Returns false if there is none: then other threads take this one as ended. */
static bool agent_take_next_name(char *ret_name)
{
	bool found;

	pthread_mutex_lock(&lives);
	found = agent.next_name[0];
	strcpy(ret_name, agent.next_name);
	agent.next_name[0] = '\0';
	agent.running = found;
	if (!found) {
		pthread_mutex_lock(&agent_lock);
		agent.has_thread = false;
		pthread_mutex_unlock(&agent_lock);
	}
	pthread_mutex_unlock(&lives);
	return found;
}

static void *thread_main(void *unused)
{
	char name[sizeof(agent.next_name)];

	pthread_mutex_lock(&agent_lock);
	agent.thread = pthread_self();
	agent.has_thread = true;
	pthread_mutex_unlock(&agent_lock);
	pthread_setname_np(pthread_self(), "inftrace-gpu");
	if (agent_shared_ring())
		serve_until_closed();
	while (agent_take_next_name(name)) {
		if (!serve_begin(name, true))
			serve_until_closed();
	}
	return NULL;
}

/* A forked child has neither the agent's thread nor the runtime's. It releases what it inherited from the parent. */
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
	pthread_mutex_init(&agent_lock, NULL);
	pthread_mutex_init(&lives, NULL);
	pthread_mutex_init(&steering, NULL);
}

static void agent_init_once(void)
{
	if (agent.once)
		return;
	agent.once = true;
	pthread_atfork(NULL, NULL, after_fork);
}

/* Enables what is wanted before the first kernel. */
int agent_start(const struct backend *b)
{
	const char *name = secure_getenv(GPU_ENV_SOCKET);
	sigset_t all, before;
	bool first;
	int err = 0;

	if (!name || !*name)
		return -ENOENT;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_mutex_lock(&lives);
	first = !agent.running;
	agent.running = true;
	if (first)
		agent.backend = b;
	agent_init_once();
	pthread_mutex_unlock(&lives);
	if (first)
		err = serve_begin(name, false) ?: guest_thread_make(thread_main);
	if (err) {
		if (agent_shared_ring()) {
			agent_publish_state(GPU_STATE_FAILED, -EAGAIN, GPU_CALL_MEMORY);
			serve_end();
		}
		pthread_mutex_lock(&lives);
		agent.running = false;
		pthread_mutex_unlock(&lives);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return first ? err : -EBUSY;
}

/* Called by an injection on any thread of the process: leaves all that could block to the agent's thread. CUDA only. */
EXPORT int inftrace_gpu_attach(const char *name)
{
	sigset_t all, before;
	int err = 0;

	if (!name || strnlen(name, sizeof(agent.next_name)) >= sizeof(agent.next_name))
		return -EINVAL;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_mutex_lock(&lives);
	agent_init_once();
	if (agent.loaded && agent.backend != &cuda_backend) {
		err = -EBUSY;
	} else if (agent.running) {
		strcpy(agent.next_name, name);
		/* the agent's thread checks whether its inftrace is still there */
		if (agent.woken_by)
			syscall(SYS_futex, agent.woken_by, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
	} else {
		strcpy(agent.next_name, name);
		agent.backend = &cuda_backend;
		err = guest_thread_make(thread_main);
		agent.running = !err;
	}
	pthread_mutex_unlock(&lives);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return err;
}
