// SPDX-License-Identifier: BSD-2-Clause
#include "record/unwinder.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "stack/stack.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/thread.h"

#define WAITING_MAX (12u << 20) /* bytes of samples */
#define PENDING_MAX 256
#define PENDING_NS NSEC_PER_SEC /* longer than samples stay in the rings */
#define WAKERS_MAX 1024         /* slots of a hash; a waker whose slot was reused is not found */
#define HELD_MAX 256            /* waits; if there are more, the oldest is passed on */

struct waker {
	uint64_t at_ns; /* 0: none */
	uint32_t tid, stack;
	bool interrupt; /* it was an interrupt that hit the thread */
};

struct unwinder_held {
	struct rec_stack r;
	bool seen;      /* a round has ended since */
	uint64_t until; /* after this many stacks its waker's cannot come; 0: not known before the second round */
};

/* A sample, or news about a process. */
struct item {
	struct item *next;
	size_t size; /* of the sample; 0: news */
	uint32_t tgid;
	enum process_news news;
	uint64_t at_ns;
	struct rec_stack done; /* the result, here so that the thread need not allocate it */
	_Alignas(struct rec_sample) unsigned char sample[];
};

/* The end of a program or process: samples from before may still arrive. */
struct pending {
	uint32_t tgid;
	enum process_news news;
	uint64_t at_ns;
};

struct unwinder {
	struct stacks *stacks;
	uint64_t period_ns;
	pthread_t thread;
	/* of that thread */
	struct pending pending[PENDING_MAX]; /* in the order in which they came */
	size_t n_pending;
	uint64_t newest_ns; /* of all that came */
	pthread_mutex_t lock;
	pthread_cond_t wake, idle;
	/* under the lock */
	struct item *first, **end;
	struct item *mapped; /* the last item, if it is NEWS_MAPPED; else NULL */
	size_t waiting;      /* bytes of samples, with the one that is being unwound */
	bool busy, stop;
	struct item *done, **done_end; /* without their samples */
	/* of the caller's thread */
	struct waker wakers[WAKERS_MAX];
	struct unwinder_held held[HELD_MAX];
	size_t n_held;
	record_cb cb; /* gets what is passed on */
	void *arg;
	uint64_t samples, collected, passed; /* taken, unwound, and passed on */
	uint64_t settled_at;                 /* `samples` when it was last settled */
	uint64_t dropped;
};

static void unwinder_apply_news(struct unwinder *u, const struct pending *p)
{
	stacks_forget_process(u->stacks, p->tgid);
	if (p->news == NEWS_EXEC)
		stacks_know_process(u->stacks, p->tgid);
}

/* Applies news of the process from before that instant, and old news of any process. */
static void unwinder_apply_pending(struct unwinder *u, uint32_t tgid, uint64_t at_ns)
{
	size_t n = 0;

	if (at_ns > u->newest_ns)
		u->newest_ns = at_ns;
	for (size_t i = 0; i < u->n_pending; i++) {
		const struct pending *p = &u->pending[i];

		if ((p->tgid == tgid && p->at_ns <= at_ns) || p->at_ns + PENDING_NS < u->newest_ns)
			unwinder_apply_news(u, p);
		else
			u->pending[n++] = *p;
	}
	u->n_pending = n;
}

static void unwinder_take_news(struct unwinder *u, const struct item *it)
{
	if (it->news == NEWS_MAPPED) {
		stacks_remap_process(u->stacks, it->tgid);
		return;
	}
	if (u->n_pending == PENDING_MAX) {
		unwinder_apply_news(u, &u->pending[0]);
		memmove(u->pending, u->pending + 1, --u->n_pending * sizeof(u->pending[0]));
	}
	u->pending[u->n_pending++] = (struct pending){ it->tgid, it->news, it->at_ns };
}

/* Whether the thread was in an interrupt, by the kernel's functions that enter one, on x86 and on arm64. */
static bool stack_is_interrupt(const struct stacks *s, uint32_t stack)
{
	static const char *const entries[] = { "asm_sysvec_", "asm_common_interrupt", "asm_exc_nmi", "el1h_64_irq", "el1_interrupt" };
	const uint32_t *frames;
	unsigned int n = stacks_get(s, stack, &frames);

	for (unsigned int i = 0; i < n; i++) {
		const struct frame *f = stacks_frame(s, frames[i]);

		for (size_t k = 0; f && f->kind == FRAME_KERNEL && k < sizeof(entries) / sizeof(entries[0]); k++) {
			if (!strncmp(f->name, entries[k], strlen(entries[k])))
				return true;
		}
	}
	return false;
}

static void unwinder_unwind_sample(struct unwinder *u, const struct item *it, struct rec_stack *ret)
{
	const struct rec_sample *r = (const struct rec_sample *)it->sample;

	unwinder_apply_pending(u, r->h.tgid, r->h.start_ns + r->h.dur_ns);
	*ret = (struct rec_stack){
		.h = r->h,
		.step = r->step,
		.state = r->state,
		.flags = r->flags,
		.stack = stacks_take(u->stacks, r, it->size),
		.waker_tid = r->waker_tid,
		.weight_ns = r->h.id == SAMPLE_CPU ? r->kept_of * u->period_ns : r->h.dur_ns,
		.ref = r->ref,
	};
	ret->h.kind = REC_STACK;
	if (r->h.id == SAMPLE_WAKER && stack_is_interrupt(u->stacks, ret->stack))
		ret->flags |= SAMPLE_F_WOKEN_IRQ;
}

static void *unwinder_thread(void *arg)
{
	struct unwinder *u = arg;
	struct item *it;

	/* does not yield: a process, and the way to its files, may be gone before a busy machine has a CPU to spare */
	pthread_mutex_lock(&u->lock);
	while (!u->stop) {
		it = u->first;
		if (!it) {
			pthread_cond_wait(&u->wake, &u->lock);
			continue;
		}
		u->first = it->next;
		if (!u->first)
			u->end = &u->first;
		if (it == u->mapped)
			u->mapped = NULL;
		u->busy = true;
		pthread_mutex_unlock(&u->lock);
		if (it->size) {
			unwinder_unwind_sample(u, it, &it->done);
			it = xreallocarray(it, sizeof(*it), 1);
			it->next = NULL;
		} else {
			unwinder_take_news(u, it);
		}
		pthread_mutex_lock(&u->lock);
		u->busy = false;
		if (it->size) {
			u->waiting -= it->size;
			*u->done_end = it;
			u->done_end = &it->next;
		} else {
			free(it);
		}
		if (!u->first)
			pthread_cond_signal(&u->idle);
	}
	pthread_mutex_unlock(&u->lock);
	return NULL;
}

/* ---- stacks of wakers ---- */

/*
 * Adds to a wait the stack of its waker. The waker's stack was sent first, but perhaps through another ring, and may be read
 * after the wait, which is held until all rings have been read once more and their samples are unwound.
 */
static void unwinder_pass_stack(struct unwinder *u, const struct rec_stack *r)
{
	u->passed++;
	if (r->h.id == SAMPLE_WAKER && r->flags & SAMPLE_F_WOKEN_IRQ)
		return; /* it woke nobody: an interrupt that hit it did */
	u->cb(&r->h, sizeof(*r), u->arg);
}

static struct waker *waker_at(struct unwinder *u, uint32_t tid, uint64_t at_ns)
{
	return &u->wakers[(at_ns ^ at_ns >> 12 ^ (uint64_t)tid * 2654435761u) % WAKERS_MAX];
}

static void set_waker_stack(struct rec_stack *r, uint32_t stack)
{
	r->ref = 0;
	r->waker_stack = stack;
}

/* Passes on the first n that are held, without their wakers' stacks. */
static void unwinder_pass_held(struct unwinder *u, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		set_waker_stack(&u->held[i].r, STACK_NONE);
		unwinder_pass_stack(u, &u->held[i].r);
	}
	u->n_held -= n;
	memmove(u->held, u->held + n, u->n_held * sizeof(u->held[0]));
}

static bool unwinder_find_waker(struct unwinder *u, struct rec_stack *r)
{
	const struct waker *w = waker_at(u, r->waker_tid, r->ref);

	if (w->at_ns != r->ref || w->tid != r->waker_tid)
		return false;
	if (w->interrupt) {
		r->flags |= SAMPLE_F_WOKEN_IRQ;
		r->waker_tid = 0;
		set_waker_stack(r, STACK_NONE);
	} else {
		set_waker_stack(r, w->stack);
	}
	return true;
}

static void take_waker(struct unwinder *u, const struct rec_stack *r)
{
	size_t n = 0;

	*waker_at(u, r->h.tid, r->h.start_ns) = (struct waker){
		.at_ns = r->h.start_ns,
		.tid = r->h.tid,
		.stack = r->stack,
		.interrupt = r->flags & SAMPLE_F_WOKEN_IRQ,
	};
	for (size_t i = 0; i < u->n_held; i++) {
		if (unwinder_find_waker(u, &u->held[i].r))
			unwinder_pass_stack(u, &u->held[i].r);
		else
			u->held[n++] = u->held[i];
	}
	u->n_held = n;
}

/* Takes a stack; they come in the order in which they were unwound. */
static void unwinder_take_stack(struct unwinder *u, struct rec_stack *r)
{
	if (r->h.id == SAMPLE_WAKER)
		take_waker(u, r);
	if (r->h.id == SAMPLE_OFF_CPU && !r->ref) {
		set_waker_stack(r, STACK_NONE);
	} else if (r->h.id == SAMPLE_OFF_CPU && !unwinder_find_waker(u, r)) {
		if (u->n_held == HELD_MAX)
			unwinder_pass_held(u, 1);
		u->held[u->n_held++] = (struct unwinder_held){ .r = *r };
		return;
	}
	unwinder_pass_stack(u, r);
}

/* All rings have been read, and the stacks unwound so far were taken. */
static void unwinder_end_round(struct unwinder *u)
{
	size_t n = 0;

	for (size_t i = 0; i < u->n_held; i++) {
		struct unwinder_held *h = &u->held[i];

		if (h->seen && !h->until)
			h->until = u->samples;
		h->seen = true;
	}
	/* the oldest are over first */
	while (n < u->n_held && u->held[n].until && u->collected >= u->held[n].until)
		n++;
	unwinder_pass_held(u, n);
}

/* ---- from outside ---- */

int unwinder_new(struct stacks *stacks, uint64_t period_ns, struct unwinder **ret_unwinder)
{
	struct unwinder *u = xcalloc(1, sizeof(*u));
	int err;

	u->stacks = stacks;
	u->period_ns = period_ns;
	u->end = &u->first;
	u->done_end = &u->done;
	yield_lock_init(&u->lock);
	pthread_cond_init(&u->wake, NULL);
	pthread_cond_init(&u->idle, NULL);
	err = -pthread_create(&u->thread, NULL, unwinder_thread, u);
	if (err) {
		pthread_mutex_destroy(&u->lock);
		free(u);
		return err;
	}
	*ret_unwinder = u;
	return 0;
}

void unwinder_free(struct unwinder *u)
{
	struct item *next;

	if (!u)
		return;
	pthread_mutex_lock(&u->lock);
	u->stop = true;
	pthread_cond_signal(&u->wake);
	pthread_mutex_unlock(&u->lock);
	pthread_join(u->thread, NULL);
	*u->end = u->done;
	for (; u->first; u->first = next) {
		next = u->first->next;
		free(u->first);
	}
	pthread_cond_destroy(&u->wake);
	pthread_cond_destroy(&u->idle);
	pthread_mutex_destroy(&u->lock);
	free(u);
}

static void unwinder_queue_item(struct unwinder *u, struct item *it)
{
	bool was_empty = !u->first;

	it->next = NULL;
	*u->end = it;
	u->end = &it->next;
	u->mapped = !it->size && it->news == NEWS_MAPPED ? it : NULL;
	u->waiting += it->size;
	if (was_empty)
		pthread_cond_signal(&u->wake);
}

void unwinder_sample(struct unwinder *u, const struct rec_sample *r, size_t size)
{
	struct item *it = xmalloc(sizeof(*it) + size);

	it->size = size;
	memcpy(it->sample, r, size);
	pthread_mutex_lock(&u->lock);
	if (u->waiting + size <= WAITING_MAX) {
		unwinder_queue_item(u, it);
		u->samples++;
	} else {
		free(it);
		u->dropped++;
	}
	pthread_mutex_unlock(&u->lock);
}

void unwinder_process(struct unwinder *u, uint32_t tgid, enum process_news news, uint64_t at_ns)
{
	struct item *it = xmalloc(sizeof(*it));

	*it = (struct item){ .tgid = tgid, .news = news, .at_ns = at_ns };
	pthread_mutex_lock(&u->lock);
	if (news == NEWS_MAPPED && u->mapped && u->mapped->tgid == tgid) /* a storm of them takes no memory */
		free(it);
	else
		unwinder_queue_item(u, it);
	pthread_mutex_unlock(&u->lock);
}

void unwinder_collect(struct unwinder *u, record_cb cb, void *arg)
{
	struct item *it, *next;

	u->cb = cb;
	u->arg = arg;
	pthread_mutex_lock(&u->lock);
	it = u->done;
	u->done = NULL;
	u->done_end = &u->done;
	pthread_mutex_unlock(&u->lock);
	for (; it; it = next) {
		next = it->next;
		u->collected++;
		unwinder_take_stack(u, &it->done);
		free(it);
	}
	unwinder_end_round(u);
}

bool unwinder_settled(struct unwinder *u)
{
	if (u->passed < u->settled_at)
		return false;
	u->settled_at = u->samples;
	return true;
}

void unwinder_finish(struct unwinder *u, record_cb cb, void *arg)
{
	pthread_mutex_lock(&u->lock);
	while (u->first || u->busy)
		pthread_cond_wait(&u->idle, &u->lock);
	pthread_mutex_unlock(&u->lock);
	unwinder_collect(u, cb, arg);
	unwinder_pass_held(u, u->n_held); /* nothing else comes */
}

size_t unwinder_waiting(struct unwinder *u)
{
	size_t waiting;

	pthread_mutex_lock(&u->lock);
	waiting = u->waiting;
	pthread_mutex_unlock(&u->lock);
	return waiting;
}

uint64_t unwinder_dropped(const struct unwinder *u)
{
	return u->dropped;
}
