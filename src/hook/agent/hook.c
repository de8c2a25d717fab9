// SPDX-License-Identifier: BSD-2-Clause
/*
 * The agent for hooks: a library in a traced process. A call of another library's function, or of one that could be another's, goes
 * through a slot of the global offset table, which has the function's address. The agent writes the address of a hook there,
 * which calls the function and adds up in the thread's slot how long that took (hook_slot.h). No code is changed, and another
 * store undoes it.
 *
 * A hook is a guest on any thread, in a signal handler perhaps: it takes no lock, allocates nothing, and leaves errno alone. It is a
 * function like any other, with a frame that exceptions and backtraces pass. Compiled without vector registers, it leaves those
 * that carry arguments and results as they are.
 */
#include "hook/agent/hook.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>

#include "hook/agent/slot.h"
#include "hook/ring.h"

#define HOOKS_MAX 64           /* functions, by address */
#define KEYS_READY 32          /* glibc calls malloc() for a thread's first value of a later key, which a signal handler must not */
#define RECENT_NS 10000000     /* a slot is not taken again before that, if there are others */
/* At its second meeting in a step, the thread whose step it is has been at the first one. The first call may begin an operator. */
#define ASKS 2

/* A program is on it, on an instruction that the kernel need not single-step. */
void inftrace_hook_joins(uint32_t slot, uint64_t key);
__asm__(".pushsection .text\n"
	".globl " HOOK_JOINS_ENTRY "\n"
	".type " HOOK_JOINS_ENTRY ", @function\n" HOOK_JOINS_ENTRY ":\n"
	"	nop\n"
	"	ret\n"
	".size " HOOK_JOINS_ENTRY ", . - " HOOK_JOINS_ENTRY "\n"
	".popsection\n");

/* ---- in the threads of the process ---- */

/* Always mapped at one place: the array of BPF, or memory in which nobody reads. */
static struct hook_slot *slots;
static uint32_t generation; /* of the array; 0: there has been none */
static pthread_key_t own_key;

/* Likewise: shared with inftrace, or not. NULL: calls have never been wanted one by one. */
static struct hook_ring *rings;
static bool rings_wanted;

static __thread struct {
	struct hook_slot *slot; /* NULL: none is free */
	struct hook_ring *ring; /* NULL: it writes no calls */
	uint32_t generation;    /* to which it belongs */
} own __attribute__((tls_model("initial-exec")));

static inline struct hooks_head *head_of(void)
{
	return (struct hooks_head *)slots;
}

static inline __attribute__((always_inline)) uint64_t now_ns(void)
{
	const struct hooks_head *h = head_of();
	uint64_t tsc = __builtin_ia32_rdtsc(), from, ns, mult;
	uint32_t changes, i;

	do {
		changes = __atomic_load_n(&h->changes, __ATOMIC_ACQUIRE);
		i = changes & 1;
		from = __atomic_load_n(&h->clock[i].tsc, __ATOMIC_RELAXED);
		ns = __atomic_load_n(&h->clock[i].ns, __ATOMIC_RELAXED);
		mult = __atomic_load_n(&h->clock[i].mult, __ATOMIC_RELAXED);
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
	} while (__builtin_expect(changes != __atomic_load_n(&h->changes, __ATOMIC_RELAXED), 0));
	return ns + (uint64_t)(((__int128)(int64_t)(tsc - from) * (int64_t)mult) >> 32);
}

/* Takes the slot for the thread if it is free, and has not been used lately: others may still ask who was late. */
static bool own_try(struct hook_slot *s, uint64_t before_ns)
{
	uint32_t free = 0;

	if (s->began[s->met & 1] > before_ns || !__atomic_compare_exchange_n(&s->taken, &free, 1, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return false;
	s->tid = 0;
	s->key = 0;
	s->held_ns = 0;
	s->step = UINT64_MAX;
	s->calls &= ~UINT64_C(1);
	s->work = 0;
	own.slot = s;
	own.ring = rings_wanted ? &rings[s - slots] : NULL;
	if (own.ring)
		own.ring->op.start = 0;
	pthread_setspecific(own_key, s);
	return true;
}

/* Takes a free slot for the thread, if there is one. What this calls may use the registers in which the function has arguments. */
static __attribute__((noinline, cold)) void own_take(void)
{
	char registers[512] __attribute__((aligned(16)));
	uint64_t now = now_ns(), before_ns = now > RECENT_NS ? now - RECENT_NS : 0;
	struct hooks_head *h = head_of();
	uint32_t used, i = 1;

	__asm__ volatile("fxsave64 %0"
			 : "=m"(registers));
	own.generation = __atomic_load_n(&generation, __ATOMIC_ACQUIRE);
	own.slot = NULL;
	own.ring = NULL;
	while (i <= HOOK_SLOTS && !own_try(&slots[i], before_ns))
		i++;
	for (i = own.slot ? i : 1; i <= HOOK_SLOTS && !own.slot && !own_try(&slots[i], UINT64_MAX);)
		i++;
	if (!own.slot)
		__atomic_fetch_add(&h->full, 1, __ATOMIC_RELAXED);
	used = __atomic_load_n(&h->used, __ATOMIC_RELAXED);
	while (own.slot && used < i && !__atomic_compare_exchange_n(&h->used, &used, i, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
	__asm__ volatile("fxrstor64 %0"
			 :
			 : "m"(registers));
}

/* ---- calls one by one ---- */

static inline __attribute__((always_inline)) void ring_put(struct hook_ring *r, const struct hook_entry *e)
{
	uint64_t n = r->n;

	r->entries[n % HOOK_RING] = *e;
	__atomic_store_n(&r->n, n + 1, __ATOMIC_RELEASE);
}

/* The operator that began last is over, with the last barrier to which the thread came since; if it came to none, at `now`. */
static void op_over(struct hook_ring *r, uint64_t now)
{
	if (!r->op.start)
		return;
	if (!r->op.dur && now > r->op.start)
		r->op.dur = now - r->op.start;
	if (r->op.dur)
		ring_put(r, &r->op);
	__atomic_store_n(&r->op.start, 0, __ATOMIC_RELEASE);
}

/* ---- slots ---- */

/* The thread ends. What it has in its slot is accounted before another thread may take that. */
static void own_free(void *slot)
{
	struct hook_slot *s = slot;

	if (s != own.slot || own.generation != __atomic_load_n(&generation, __ATOMIC_ACQUIRE))
		return;
	if (own.ring)
		op_over(own.ring, now_ns());
	inftrace_hook_joins(0, 0);
	own.slot = NULL;
	own.ring = NULL;
	__atomic_store_n(&s->taken, 0, __ATOMIC_RELEASE);
}

/* Returns the number of the slots in use, which never becomes less. */
static uint32_t slots_used(void)
{
	uint32_t used = __atomic_load_n(&head_of()->used, __ATOMIC_RELAXED);

	return used < HOOK_SLOTS ? used : HOOK_SLOTS;
}

/*
 * The number of the meeting to which a thread comes that has not been at this place before: the one at which others wait, since they
 * cannot go on without it; or the next one, if none does.
 */
static uint64_t meeting_next(const struct hook_slot *s, uint64_t key)
{
	uint64_t last = 0, waits = 0, met;
	uint32_t used = slots_used();

	for (uint32_t i = 1; i <= used; i++) {
		if (&slots[i] == s || __atomic_load_n(&slots[i].key, __ATOMIC_RELAXED) != key)
			continue;
		met = SLOT_GET(slots[i].met);
		last = met > last ? met : last;
		if (SLOT_GET(slots[i].calls) & 1 && slots[i].taken && met > waits)
			waits = met;
	}
	return waits ?: last + 1;
}

static __attribute__((noinline, cold)) void own_join(struct hook_slot *s, uint64_t key)
{
	uint64_t steps = __atomic_load_n(&head_of()->steps, __ATOMIC_RELAXED);

	if (s->key != key) {
		SLOT_SET(s->met, meeting_next(s, key) - 1);
		SLOT_SET(s->key, key);
	}
	if (s->step != steps)
		s->asks = ASKS + (own.ring != NULL);
	s->step = steps;
	s->asks -= s->asks > 0;
	inftrace_hook_joins((uint32_t)(s - slots), key);
}

/* The thread has waited for longer than ever in its step: for the one that came last. It may have gone on to the next meeting, but not
 * further. */
static __attribute__((noinline)) void own_held(struct hook_slot *s, uint64_t ns)
{
	uint64_t met = s->met, since = s->began[met & 1], last = since, at;
	uint32_t used = slots_used();

	s->straggler = 0;
	for (uint32_t i = 1; i <= used; i++) {
		if (&slots[i] == s || slots[i].key != s->key || SLOT_GET(slots[i].met) - met > 1)
			continue;
		at = SLOT_GET(slots[i].began[met & 1]);
		if (at <= last || at > since + ns)
			continue;
		last = at;
		s->straggler = slots[i].tid;
	}
	s->held_since = since;
	s->held_ns = ns;
}

/* Returns the slot; NULL: the call is not counted. */
static inline struct hook_slot *hook_enter(uint64_t key, uint32_t function, uint64_t *ret_calls)
{
	struct hooks_head *h = head_of();
	struct hook_slot *s;

	if (__builtin_expect(__atomic_load_n(&h->off, __ATOMIC_RELAXED), 0))
		return NULL;
	if (__builtin_expect(own.generation != __atomic_load_n(&generation, __ATOMIC_RELAXED), 0))
		own_take();
	s = own.slot;
	if (!s)
		return NULL;
	if (__builtin_expect(s->calls & 1, 0))
		slot_drop(s);
	if (__builtin_expect(s->step != __atomic_load_n(&h->steps, __ATOMIC_RELAXED) || s->key != key || s->asks, 0))
		own_join(s, key);
	if (own.ring)
		own.ring->barrier = function;
	slot_begin(s, now_ns);
	*ret_calls = s->calls;
	if (own.ring && own.ring->op.start) { /* the operator reaches here, at least */
		own.ring->op.step = s->work;
		own.ring->op.tid = s->tid;
		__atomic_store_n(&own.ring->op.dur, s->began[s->met & 1] - own.ring->op.start, __ATOMIC_RELEASE);
	}
	return s;
}

static inline void hook_leave(struct hook_slot *s, uint64_t calls, uint32_t function)
{
	uint64_t ns;

	if (__builtin_expect(s->calls != calls, 0))
		return;
	ns = slot_end(s, now_ns);
	if (__builtin_expect(ns > s->held_ns, 0))
		own_held(s, ns);
	if (own.ring)
		ring_put(own.ring, &(struct hook_entry){ s->began[s->met & 1], ns, function, 0, s->work, s->tid });
}

/* ---- the hooks: one for each function ---- */

struct result {
	uint64_t a, d; /* both registers in which a function may return */
};

typedef struct result function(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

static function *originals[HOOKS_MAX]; /* never change once their hooks are in use */
static int n_hooked;

/* Of the order. */
static struct {
	uint8_t function, is_op, arg, size;
	int32_t offset;
} roles[HOOKS_MAX];

/* The value of an operator's argument. The preset says that the function reads there itself. */
static inline uint32_t op_value(uint32_t i, uint64_t arg)
{
	const char *at = (const char *)arg + roles[i].offset;

	if (!arg)
		return 0;
	return roles[i].size == 4   ? *(const uint32_t *)at
	       : roles[i].size == 2 ? *(const uint16_t *)at
	       : roles[i].size      ? *(const uint8_t *)at
				    : 0;
}

/* An operator begins. */
static void op_enter(uint32_t i, uint64_t arg)
{
	struct hooks_head *h = head_of();
	struct hook_ring *r;
	struct hook_slot *s;
	uint64_t now;

	if (__builtin_expect(__atomic_load_n(&h->off, __ATOMIC_RELAXED), 0))
		return;
	if (__builtin_expect(own.generation != __atomic_load_n(&generation, __ATOMIC_RELAXED), 0))
		own_take();
	s = own.slot;
	r = own.ring;
	if (!r)
		return;
	if (__builtin_expect(s->step != __atomic_load_n(&h->steps, __ATOMIC_RELAXED), 0))
		own_join(s, s->key);
	s->begun++;
	now = now_ns();
	op_over(r, now);
	r->op.dur = 0;
	r->op.function = roles[i].function;
	r->op.value = op_value(i, arg);
	r->op.step = s->work;
	r->op.tid = s->tid;
	__atomic_store_n(&r->op.start, now, __ATOMIC_RELEASE);
}

static inline __attribute__((always_inline)) struct result hook_call(uint32_t i, uint64_t a, uint64_t b, uint64_t c,
	uint64_t d, uint64_t e, uint64_t f)
{
	const uint64_t args[] = { a, b, c, d, e, f };
	struct hook_slot *s;
	struct result r;
	uint64_t calls;

	if (roles[i].is_op) {
		op_enter(i, args[roles[i].arg]);
		return originals[i](a, b, c, d, e, f);
	}
	s = hook_enter(a, roles[i].function, &calls);
	r = originals[i](a, b, c, d, e, f);
	if (s)
		hook_leave(s, calls, roles[i].function);
	return r;
}

#define HOOK(i)                                                                                                   \
	static struct result hook_##i(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f) \
	{                                                                                                         \
		return hook_call(i, a, b, c, d, e, f);                                                            \
	}
#define EIGHT(x, o) x(o##0) x(o##1) x(o##2) x(o##3) x(o##4) x(o##5) x(o##6) x(o##7)
#define ALL(x) EIGHT(x, 00) EIGHT(x, 01) EIGHT(x, 02) EIGHT(x, 03) EIGHT(x, 04) EIGHT(x, 05) EIGHT(x, 06) EIGHT(x, 07)
#define ADDRESS(i) [i] = hook_##i,

ALL(HOOK)
static function *const hooks[HOOKS_MAX] = { ALL(ADDRESS) };

int hook_of(void *original, const struct hook_order *o, uint32_t f)
{
	int i = 0;

	while (i < n_hooked && (void *)originals[i] != original)
		i++;
	if (i == HOOKS_MAX)
		return -ENOSPC;
	originals[i] = (function *)original;
	roles[i].function = (uint8_t)f;
	roles[i].arg = o->functions[f].arg;
	roles[i].size = o->functions[f].size;
	roles[i].offset = o->functions[f].offset;
	roles[i].is_op = o->functions[f].is_op;
	n_hooked += i == n_hooked;
	return i;
}

int hook_in(const void *value)
{
	for (int i = 0; i < n_hooked; i++) {
		if ((const void *)hooks[i] == value)
			return i;
	}
	return -1;
}

void *hook_address(int i)
{
	return (void *)hooks[i];
}

void *hook_original(int i)
{
	return (void *)originals[i];
}

/* The mean of the fastest of some rounds. The first ring is no thread's, as the first slot. */
uint32_t hook_measure(void)
{
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < 10; i++) {
		struct hook_slot s = { 0 };
		uint64_t from = now_ns(), ns;

		for (int k = 0; k < 100; k++) {
			slot_begin(&s, now_ns);
			slot_end(&s, now_ns);
			if (rings_wanted)
				ring_put(rings, &(struct hook_entry){ s.began[0], s.began[1], 0, 0, 0, 0 });
		}
		ns = now_ns() - from;
		least = ns < least ? ns : least;
	}
	return (uint32_t)(least / 100);
}

/* ---- the memory ---- */

#define RINGS_BYTES (sizeof(struct hook_ring) * (1 + HOOK_SLOTS))
#define SLOTS_BYTES (sizeof(struct hook_slot) * (1 + HOOK_SLOTS))

/* What is mapped there is replaced as a whole. */
int slots_map(int fd)
{
	int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
	void *at;

	__atomic_fetch_add(&generation, 1, __ATOMIC_RELEASE);
	at = mmap(slots, SLOTS_BYTES, PROT_READ | PROT_WRITE, flags | (slots ? MAP_FIXED : 0), fd, 0);
	if (at == MAP_FAILED)
		return -errno;
	slots = at;
	if (fd < 0)
		head_of()->off = 1;
	__atomic_fetch_add(&generation, 1, __ATOMIC_RELEASE);
	return 0;
}

int rings_map(int fd)
{
	int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
	void *at;

	if (fd < 0 && !rings)
		return 0;
	rings_wanted = false;
	at = mmap(rings, RINGS_BYTES, PROT_READ | PROT_WRITE, flags | MAP_NORESERVE | (rings ? MAP_FIXED : 0), fd, 0);
	if (at == MAP_FAILED)
		return -errno;
	rings = at;
	rings_wanted = fd >= 0;
	return 0;
}

void slots_turn_off(void)
{
	if (slots)
		head_of()->off = 1;
}

int slots_init(void)
{
	int err = -pthread_key_create(&own_key, own_free);

	if (!err && own_key >= KEYS_READY) {
		pthread_key_delete(own_key);
		err = -ENOSPC;
	}
	return err;
}
