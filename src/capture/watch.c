// SPDX-License-Identifier: BSD-2-Clause
#include "capture/watch.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "capture/links.h"
#include "capture/perf_events.h"
#include "engine/python_steps.h"
#include "engine/spec.h"
#include "probe.h"
#include "process_sums.h"
#include "target/process.h"
#include "target/python.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/list.h"
#include "util/log.h"
#include "util/thread.h"

#include "inftrace.skel.h" /* uses types of the headers above */

/* Probes and watchpoints must agree on this many steps, before they have seen as many as ... */
#define TRIED_STEPS 16
#define TRIED_STEPS_MAX 64
/* A process that was seen to make steps for less than this is left alone: watchpoints, and probes by process, cost some milliseconds. */
#define SEEN_NS NSEC_PER_SEC
#define THREADS_MAX 512
#define ROUNDS_MAX 8 /* looks for threads that were made meanwhile */
#define TRIES_MAX 8  /* a thread that was made meanwhile may have some watchpoints already, and lack others */

struct watched {
	int *fds; /* of the watchpoints: of each thread, for each function */
	size_t n_fds, cap_fds;
	uint64_t seen_ns; /* when its step was noticed; 0: not yet */
	unsigned int users, tries;
	bool refused; /* it keeps the probes */
};

struct watches {
	struct inftrace_bpf *k;
	struct links *links;
	const struct probe_table *probes;
	struct python_finder *finder;
	struct python_watched *map; /* PYTHON_WATCHED_MAX, shared with the programs */
	struct watched watched[PYTHON_WATCHED_MAX];
	uint64_t seen, lost; /* hits */
	pthread_t loader;
	bool loads;
	int prog_fd; /* of python_watch; 0: it is not loaded yet; or a negative errno. Set by the loader */
};

/* Sets whether there are Python functions that are steps, and that are slices. */
static void find_python(const struct probe_table *pt, bool *ret_steps, bool *ret_spans)
{
	*ret_steps = *ret_spans = false;
	for (size_t i = 0; pt && i < pt->n; i++)
		*(pt->specs[i].role == ROLE_STEP ? ret_steps : ret_spans) |= pt->specs[i].is_python;
}

void watches_configure(struct inftrace_bpf *k, const struct probe_table *probes, bool can)
{
	bool steps, spans;

	find_python(probes, &steps, &spans);
	bpf_program__set_autoload(k->progs.python_entry, steps || spans);
	bpf_program__set_autoload(k->progs.python_watch, false);
	k->rodata->cfg.watch = steps && !spans && can; /* slices need the probes all the time */
}

int watches_new(struct inftrace_bpf *k, struct links *links, const struct probe_table *probes, struct watches **ret_watches)
{
	struct watches *w;
	void *map;

	*ret_watches = NULL;
	if (!k->rodata->cfg.watch)
		return 0;
	map = mmap(NULL, PYTHON_WATCHED_MAX * sizeof(struct python_watched), PROT_READ | PROT_WRITE, MAP_SHARED,
		bpf_map__fd(k->maps.python_watched), 0);
	if (map == MAP_FAILED)
		return -errno;
	w = xcalloc(1, sizeof(*w));
	w->k = k;
	w->links = links;
	w->probes = probes;
	w->finder = python_finder_new();
	w->map = map;
	*ret_watches = w;
	return 0;
}

static struct python_watched *shared(const struct watches *w, const struct watched *of)
{
	return &w->map[of - w->watched];
}

static void set_state(const struct watches *w, const struct watched *of, enum python_watch_state state)
{
	__atomic_store_n(&shared(w, of)->state, state, __ATOMIC_RELEASE);
}

/* ---- the program ---- */

/*
 * Loads python_watch, as the only program of a second copy of the object, with the maps of the first. To verify it takes the kernel
 * some 70 ms, which no other recording shall have to wait for. Returns its descriptor, or negative errno.
 */
static int program_load(const struct inftrace_bpf *first)
{
	struct inftrace_bpf *k = inftrace_bpf__open();
	struct bpf_map *map, *from = NULL;
	struct bpf_program *prog;
	int err = 0;

	if (!k)
		return -errno;
	bpf_object__for_each_program(prog, k->obj)
		bpf_program__set_autoload(prog, prog == k->progs.python_watch);
	bpf_object__for_each_map(map, k->obj)
	{
		from = bpf_object__next_map(first->obj, from);
		err = bpf_map__fd(from) >= 0 ? bpf_map__reuse_fd(map, bpf_map__fd(from)) : bpf_map__set_autocreate(map, false);
		if (err)
			goto out;
	}
	err = inftrace_bpf__load(k);
	if (!err)
		err = fcntl(bpf_program__fd(k->progs.python_watch), F_DUPFD_CLOEXEC, 1);
	if (err == -1)
		err = -errno;
out:
	inftrace_bpf__destroy(k);
	return err;
}

static void *loader_thread(void *arg)
{
	struct watches *w = arg;

	yield_not(); /* the loop that has started it may */
	__atomic_store_n(&w->prog_fd, program_load(w->k), __ATOMIC_RELEASE);
	return NULL;
}

/* In a thread of its own, since records have to be read meanwhile. */
static void loader_start(struct watches *w)
{
	if (w->loads || w->prog_fd)
		return;
	w->prog_fd = -pthread_create(&w->loader, NULL, loader_thread, w);
	w->loads = !w->prog_fd;
}

/* ---- watchpoints ---- */

static void watched_set(const struct watched *of, bool on)
{
	for (size_t i = 0; i < of->n_fds; i++)
		ioctl(of->fds[i], on ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE, 0);
}

/* Takes the watchpoints away, and adds up what they have counted and what the programs have seen of it. */
static void watched_close(struct watches *w, struct watched *of)
{
	uint64_t hits = 0, n, seen;

	watched_set(of, false); /* returns when no program runs for them */
	seen = shared(w, of)->hits;
	for (size_t i = 0; i < of->n_fds; i++) {
		if (read(of->fds[i], &n, sizeof(n)) == sizeof(n))
			hits += n;
		close(of->fds[i]);
	}
	w->seen += seen;
	w->lost += hits > seen ? hits - seen : 0;
	shared(w, of)->hits = 0;
	free(of->fds);
	of->fds = NULL;
	of->n_fds = of->cap_fds = 0;
}

/* A process that keeps its probes. */
static void watched_refuse(struct watches *w, struct watched *of, const char *why)
{
	set_state(w, of, PYTHON_WATCH_NONE);
	watched_close(w, of);
	of->refused = true;
	log_debug("process %u: its Python functions have probes only: %s", shared(w, of)->tgid, why);
}

struct watch_place {
	uint64_t addr;
	uint32_t type, len;
};

static int watch_open(const struct watches *w, pid_t tid, const struct watch_place *place)
{
	int fd = watchpoint_open(tid, place->addr, place->type, place->len), err = 0;

	if (fd < 0)
		return fd;
	if (ioctl(fd, PERF_EVENT_IOC_SET_BPF, w->prog_fd) || ioctl(fd, PERF_EVENT_IOC_ENABLE, 0)) {
		err = -errno;
		close(fd);
	}
	return err ? err : fd;
}

/* Watches the threads of a process. */
struct watch_threads {
	const struct watches *w;
	struct watched *of;
	struct watch_place places[PYTHON_WHATS + 1];
	unsigned int n_places;
	pid_t tids[THREADS_MAX];
	unsigned int n;
};

static int watch_thread(pid_t tid, void *arg)
{
	struct watch_threads *t = arg;

	for (unsigned int i = 0; i < t->n; i++) {
		if (t->tids[i] == tid)
			return 0;
	}
	if (t->n == THREADS_MAX)
		return -E2BIG;
	for (unsigned int i = 0; i < t->n_places; i++) {
		int fd = watch_open(t->w, tid, &t->places[i]);

		if (fd == -ESRCH)
			return 0;
		if (fd < 0)
			return fd;
		*list_push(t->of->fds, t->of->n_fds, t->of->cap_fds) = fd;
	}
	t->tids[t->n++] = tid;
	return 0;
}

/* A thread that is made meanwhile has no watchpoints if its maker had none yet. */
static int watch_all_threads(struct watch_threads *t, pid_t pid)
{
	unsigned int before;
	int err = 0;

	for (int i = 0; i < ROUNDS_MAX && !err; i++) {
		before = t->n;
		err = process_each_thread(pid, watch_thread, t);
		if (t->n == before)
			return err;
	}
	return err;
}

static int watched_open(struct watches *w, struct watched *of)
{
	struct watch_threads *t = xcalloc(1, sizeof(*t));
	struct python_watched *s = shared(w, of);
	struct python p;
	int err = python_find(w->finder, (pid_t)s->tgid, &p);

	if (!err && p.objects.code_start == PYTHON_NO_OFFSET)
		err = -ENOTSUP;
	if (err)
		goto out;
	t->w = w;
	t->of = of;
	s->walk = p.walk;
	s->ends = s->code[PYTHON_HAS_RESULTS] ? PYTHON_HAS_RESULTS : PYTHON_IS_STEP;
	t->places[t->n_places++] = (struct watch_place){ s->code[s->ends], HW_BREAKPOINT_W, HW_BREAKPOINT_LEN_8 };
	for (int i = 0; i < PYTHON_WHATS; i++) {
		s->first[i] = s->code[i] ? s->code[i] + p.objects.code_start + p.first : 0;
		if (s->code[i]) /* one byte: some builds read the two of an instruction one after the other */
			t->places[t->n_places++] = (struct watch_place){ s->first[i], HW_BREAKPOINT_RW, HW_BREAKPOINT_LEN_1 };
	}
	memset(s->seen, 0, sizeof(s->seen));
	memset(s->left, 0, sizeof(s->left));
	err = watch_all_threads(t, (pid_t)s->tgid);
	if (!err)
		set_state(w, of, PYTHON_WATCH_TRIED);
out:
	free(t);
	return err;
}

/* ---- the life of an entry ---- */

/*
 * Why the functions cannot be watched; NULL: they can. A name without a file may be that of several functions, and several names
 * are; but a preset's names are those of one function in different releases and processes.
 */
static const char *names_refuse(const struct watches *w, const struct python_watched *s, const struct python_calls *calls)
{
	if (s->others)
		return "several were called";
	if (calls->how == PYTHON_BY_CALL)
		return "this takes CPython 3.11 or newer";
	if (!w->probes->specs[s->id].engine && (calls->n != 1 || !calls->names[0].file_len))
		return "this takes one FILE:NAME";
	return NULL;
}

/* Whether the probes have seen one function for each purpose that is watched. */
static bool has_all(const struct python_watched *s, const struct python_calls *calls)
{
	for (unsigned int i = 0; i < calls->n; i++) {
		if (calls->names[i].what < PYTHON_WHATS && !s->code[calls->names[i].what])
			return false;
	}
	return true;
}

static bool differ(uint32_t a, uint32_t b)
{
	return a > b + 1 || b > a + 1; /* one is under way */
}

static bool agree(const struct python_watched *s)
{
	for (int i = 0; i < PYTHON_WHATS; i++) {
		if (differ(s->seen[i][PYTHON_BY_PROBE], s->seen[i][PYTHON_BY_WATCH]))
			return false;
	}
	return !differ(s->left[PYTHON_BY_PROBE], s->left[PYTHON_BY_WATCH]);
}

/* Both see the calls. They differ for an instant, too, if threads are held up between the two. */
static void watched_try(struct watches *w, struct watched *of)
{
	struct python_watched *s = shared(w, of);
	uint32_t steps = s->seen[PYTHON_IS_STEP][PYTHON_BY_PROBE];

	if (s->left[PYTHON_BY_PROBE] >= TRIED_STEPS && agree(s)) {
		set_state(w, of, PYTHON_WATCH_LIVE);
	} else if (steps >= TRIED_STEPS_MAX) {
		log_debug("probes and watchpoints see %u and %u steps, %u and %u ends", steps, s->seen[PYTHON_IS_STEP][PYTHON_BY_WATCH],
			s->left[PYTHON_BY_PROBE], s->left[PYTHON_BY_WATCH]);
		watched_refuse(w, of, "watchpoints see other calls");
	}
}

static void watched_turn(struct watches *w, struct watched *of, uint64_t now_ns)
{
	struct python_watched *s = shared(w, of);
	struct python_calls calls;
	const char *why;
	int err, prog;

	if (of->refused || !s->key || s->state == PYTHON_WATCH_LIVE)
		return;
	probe_spec_python(w->probes, s->id, (s->key - 1) % PYTHON_LAYOUTS, &calls);
	why = names_refuse(w, s, &calls);
	if (why) {
		watched_refuse(w, of, why);
	} else if (s->state == PYTHON_WATCH_TRIED) {
		watched_try(w, of);
	} else if (!of->seen_ns) {
		of->seen_ns = s->code[PYTHON_IS_STEP] ? now_ns : 0;
		if (of->seen_ns)
			loader_start(w);
	} else if (now_ns - of->seen_ns >= SEEN_NS && has_all(s, &calls) && (prog = __atomic_load_n(&w->prog_fd, __ATOMIC_ACQUIRE))) {
		err = prog < 0 ? prog : watched_open(w, of);
		if (err == -ENOSPC && ++of->tries < TRIES_MAX)
			watched_close(w, of);
		else if (err)
			watched_refuse(w, of, err == -ENOSPC ? "the watchpoints are taken" : strerror(-err));
	}
}

/* Calls cb for each process that has an entry. */
static void each_process(struct watches *w, void (*cb)(struct watches *w, uint32_t tgid, struct watched *of))
{
	int fd = bpf_map__fd(w->k->maps.python_watched_of);
	uint32_t key, next, i, *at = NULL;

	while (!bpf_map_get_next_key(fd, at, &next)) {
		key = next;
		at = &key;
		if (!bpf_map_lookup_elem(fd, &key, &i) && i < PYTHON_WATCHED_MAX)
			cb(w, key, &w->watched[i]);
	}
}

static void count_user(struct watches *w, uint32_t tgid, struct watched *of)
{
	if (process_exists((pid_t)tgid))
		of->users++;
	else
		bpf_map_delete_elem(bpf_map__fd(w->k->maps.python_watched_of), &tgid);
}

bool watches_turn(struct watches *w, uint64_t now_ns)
{
	uint32_t n = w ? __atomic_load_n(&w->k->bss->n_python_watched, __ATOMIC_ACQUIRE) : 0;
	bool live = false;

	if (!n)
		return false;
	for (uint32_t i = 0; i < PYTHON_WATCHED_MAX; i++)
		w->watched[i].users = 0;
	each_process(w, count_user);
	for (uint32_t i = 0; i < n && i < PYTHON_WATCHED_MAX; i++) {
		struct watched *of = &w->watched[i];

		if (!shared(w, of)->tgid)
			continue;
		if (!of->users) { /* its processes are gone */
			watched_close(w, of);
			shared(w, of)->tgid = 0;
			continue;
		}
		if (links_may_watch(w->links))
			watched_turn(w, of, now_ns);
		live |= shared(w, of)->state == PYTHON_WATCH_LIVE;
	}
	return live;
}

static void take_over(struct watches *w, uint32_t tgid, struct watched *of)
{
	if (shared(w, of)->state == PYTHON_WATCH_LIVE && links_watch_process(w->links, (pid_t)tgid))
		log_debug("process %u: its Python functions are watched, %zu watchpoints", tgid, of->n_fds);
}

void watches_take_over(struct watches *w)
{
	each_process(w, take_over);
}

void watches_set(struct watches *w, bool on)
{
	for (size_t i = 0; w && i < PYTHON_WATCHED_MAX; i++)
		watched_set(&w->watched[i], on);
}

void watches_free(struct watches *w)
{
	if (!w)
		return;
	for (size_t i = 0; i < PYTHON_WATCHED_MAX; i++)
		watched_close(w, &w->watched[i]);
	if (w->loads)
		pthread_join(w->loader, NULL);
	if (w->prog_fd > 0)
		close(w->prog_fd);
	if (w->lost)
		log_warn("%" PRIu64 " of %" PRIu64 " watchpoints at Python functions were missed: steps, or their ends, may be missing", w->lost,
			w->seen + w->lost);
	munmap(w->map, PYTHON_WATCHED_MAX * sizeof(struct python_watched));
	python_finder_free(w->finder);
	free(w);
}
