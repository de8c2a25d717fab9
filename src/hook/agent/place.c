// SPDX-License-Identifier: BSD-2-Clause
/*
 * Where hooks are placed, and removed again: in slots of the global offset tables of the process's libraries. Only the agent's thread
 * does so.
 */
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fnmatch.h>
#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/guest/connection.h"
#include "hook/agent/hook.h"

#define EXPORT __attribute__((visibility("default")))
#define SCAN_MAX (256UL << 20) /* bytes of code of a library that are searched for direct calls */
#define WANTED_MAX 64          /* libraries that have a function; those of further ones are left alone */
#define LOOK_MS 50             /* interval of looks whether libraries have been loaded */
#define TRIES 100              /* while libraries come and go; then it waits */
#define SETTLE_MS 20           /* a thread that was resolving a slot has written it by then */

int inftrace_hook_attach(const char *name);

static struct hook_order order;
static uintptr_t global[HOOK_FUNCTIONS]; /* what a call of that name reaches from anywhere */
static struct {
	uintptr_t at[WANTED_MAX];
	uint32_t n;
} wanted[HOOK_FUNCTIONS]; /* the functions to hook: of the libraries that are meant */

/* An object of the process. Pointers into it are NULL if it has no such table. */
struct object {
	uintptr_t base;
	const ElfW(Phdr) *phdr;
	size_t n_phdr;
	const ElfW(Sym) *symbols;
	const char *strings;
	size_t strings_size;
	const ElfW(Rela) *slots, *others; /* of the linkage table; all other relocations */
	size_t n_slots, n_others;
	const uint32_t *gnu_hash;
	uintptr_t relro, relro_end;
};

/* Some C libraries leave addresses in the dynamic section as they are in the file. */
static uintptr_t object_address(const struct object *o, uintptr_t at)
{
	return at < o->base ? o->base + at : at;
}

static bool object_read(const struct dl_phdr_info *info, struct object *ret)
{
	struct object o = { .base = info->dlpi_addr, .phdr = info->dlpi_phdr, .n_phdr = info->dlpi_phnum };
	const ElfW(Dyn) *d = NULL;
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uint64_t kind = 0;

	for (size_t i = 0; i < o.n_phdr; i++) {
		if (o.phdr[i].p_type == PT_DYNAMIC)
			d = (const void *)(o.base + o.phdr[i].p_vaddr);
		if (o.phdr[i].p_type == PT_GNU_RELRO) {
			o.relro = (o.base + o.phdr[i].p_vaddr) & ~(page - 1);
			o.relro_end = (o.base + o.phdr[i].p_vaddr + o.phdr[i].p_memsz) & ~(page - 1);
		}
	}
	for (; d && d->d_tag != DT_NULL; d++) {
		uintptr_t at = object_address(&o, d->d_un.d_ptr);

		switch (d->d_tag) {
		case DT_SYMTAB:
			o.symbols = (const void *)at;
			break;
		case DT_STRTAB:
			o.strings = (const void *)at;
			break;
		case DT_STRSZ:
			o.strings_size = d->d_un.d_val;
			break;
		case DT_GNU_HASH:
			o.gnu_hash = (const void *)at;
			break;
		case DT_RELA:
			o.others = (const void *)at;
			break;
		case DT_RELASZ:
			o.n_others = d->d_un.d_val / sizeof(*o.others);
			break;
		case DT_JMPREL:
			o.slots = (const void *)at;
			break;
		case DT_PLTRELSZ:
			o.n_slots = d->d_un.d_val / sizeof(*o.slots);
			break;
		case DT_PLTREL:
			kind = d->d_un.d_val;
			break;
		default:
			break;
		}
	}
	if (!o.symbols || !o.strings || (o.slots && kind != DT_RELA))
		return false;
	*ret = o;
	return true;
}

static bool object_has_code(const struct object *o, uintptr_t at)
{
	for (size_t i = 0; i < o->n_phdr; i++) {
		const ElfW(Phdr) *p = &o->phdr[i];

		if (p->p_type == PT_LOAD && p->p_flags & PF_X && at - (o->base + p->p_vaddr) < p->p_memsz)
			return true;
	}
	return false;
}

static const char *object_string(const struct object *o, uint32_t at)
{
	return at < o->strings_size ? o->strings + at : "";
}

/* The address of a function that the object defines; 0: it does not. By its DT_GNU_HASH, since dlsym() would wait for a lock here that
 * another thread may hold which waits for dl_iterate_phdr(). */
static uintptr_t object_function(const struct object *o, const char *name)
{
	const uint32_t *h = o->gnu_hash, *buckets, *chain;
	uint32_t hash = 5381, i;

	if (!h || !h[0])
		return 0;
	buckets = h + 4 + h[2] * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
	chain = buckets + h[0];
	for (const char *c = name; *c; c++)
		hash = hash * 33 + (uint8_t)*c;
	for (i = buckets[hash % h[0]]; i >= h[1]; i++) {
		const ElfW(Sym) *s = &o->symbols[i];

		if ((chain[i - h[1]] | 1) == (hash | 1) && s->st_shndx != SHN_UNDEF && ELF64_ST_TYPE(s->st_info) == STT_FUNC &&
			!strcmp(object_string(o, s->st_name), name))
			return o->base + s->st_value;
		if (chain[i - h[1]] & 1)
			break;
	}
	return 0;
}

/* Stores a value into a slot, of which other threads find the old value or the new one. */
static int slot_store(const struct object *o, void **slot, void *value)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)slot & ~(page - 1);
	bool protected = at >= o->relro && at < o->relro_end;

	if (protected && mprotect((void *)at, page, PROT_READ | PROT_WRITE))
		return -errno;
	__atomic_store_n(slot, value, __ATOMIC_RELEASE);
	if (protected)
		mprotect((void *)at, page, PROT_READ);
	return 0;
}

/* How many calls and jumps in the object's code go straight to an address. */
static uint32_t count_direct(const struct object *o, uintptr_t to)
{
	uint32_t n = 0;

	for (size_t i = 0; i < o->n_phdr; i++) {
		const ElfW(Phdr) *p = &o->phdr[i];
		const uint8_t *code = (const uint8_t *)(o->base + p->p_vaddr);
		int32_t by;

		if (p->p_type != PT_LOAD || !(p->p_flags & PF_X))
			continue;
		if (!(p->p_flags & PF_R) || p->p_memsz > SCAN_MAX)
			return 1; /* who knows */
		for (size_t k = 0; k + 5 <= p->p_memsz; k++) {
			if (code[k] != 0xe8 && code[k] != 0xe9)
				continue;
			memcpy(&by, code + k + 1, sizeof(by));
			n += (uintptr_t)(code + k + 5) + (uintptr_t)(intptr_t)by == to;
		}
	}
	return n;
}

enum pass {
	PASS_LOOK,   /* counts what there is */
	PASS_PLACE,  /* stores the hooks */
	PASS_REMOVE, /* stores what was there */
};

/* How many libraries have been loaded, and unloaded, so far. */
struct loads {
	unsigned long long adds, subs;
};

static int loads_read(struct dl_phdr_info *info, size_t size, void *ret)
{
	(void)size;
	*(struct loads *)ret = (struct loads){ info->dlpi_adds, info->dlpi_subs };
	return 1;
}

static struct loads loads_now(void)
{
	struct loads l = { 0, 0 };

	dl_iterate_phdr(loads_read, &l);
	return l;
}

/*
 * Waits until libraries that are being loaded have been. dl_iterate_phdr() shows one before its slots are relocated, which would add
 * its base to the address of a hook. dlopen() takes the lock under which all that is done.
 */
static void loads_wait(void)
{
	void *program = dlopen(NULL, RTLD_LAZY);

	if (program)
		dlclose(program);
}

struct walk {
	enum pass pass;
	const struct loads *loads; /* ends if there have been others; NULL: does not */
	bool changed;              /* there have been */
	struct hook_answer *answer;
};

/* Which of the functions a relocation of that type names; -1: none. */
static int relocation_of(const struct object *o, const ElfW(Rela) *r, uint32_t type)
{
	const char *name = ELF64_R_TYPE(r->r_info) == type ? object_string(o, o->symbols[ELF64_R_SYM(r->r_info)].st_name) : "";

	for (uint32_t i = 0; i < order.n && *name; i++) {
		if (!strcmp(name, order.functions[i].name))
			return (int)i;
	}
	return -1;
}

static bool is_wanted(uint32_t name, const void *function)
{
	for (uint32_t i = 0; i < wanted[name].n; i++) {
		if (wanted[name].at[i] == (uintptr_t)function)
			return true;
	}
	return false;
}

/* What a slot with this value calls; NULL: it is not known. */
static void *slot_function(const struct object *o, void *value, uint32_t name)
{
	uintptr_t own = object_function(o, order.functions[name].name);

	if ((uintptr_t)value == own || !object_has_code(o, (uintptr_t)value))
		return value;
	/* not resolved yet: it leads back into the object's own linkage table. In the dynamic linker's order: */
	if (global[name] || own)
		return (void *)(global[name] ? global[name] : own);
	return wanted[name].n == 1 ? (void *)wanted[name].at[0] : NULL;
}

/* One slot for a function of a name that is wanted. */
static void walk_slot(const struct walk *w, const struct object *o, void **slot, uint32_t name)
{
	struct hook_found *found = w->answer ? &w->answer->found[name] : NULL;
	void *now = __atomic_load_n(slot, __ATOMIC_ACQUIRE), *original;
	int i = hook_in(now);

	if (w->pass == PASS_REMOVE) {
		if (i >= 0)
			slot_store(o, slot, hook_original(i));
		return;
	}
	original = i >= 0 ? hook_original(i) : slot_function(o, now, name);
	if (original && !is_wanted(name, original))
		return; /* another library's */
	found->slots++;
	if (i >= 0)
		return;
	i = original ? hook_of(original, &order, name) : -ENOENT;
	if (i < 0 || slot_store(o, slot, hook_address(i)))
		found->failed++;
}

/* Where the object has functions that are wanted. */
static void walk_functions(const struct walk *w, const struct object *o, const char *path)
{
	const char *file = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;

	for (uint32_t i = 0; i < order.n; i++) {
		uintptr_t at = fnmatch(order.functions[i].library, file, 0) ? 0 : object_function(o, order.functions[i].name);

		if (!at || wanted[i].n == WANTED_MAX)
			continue;
		wanted[i].at[wanted[i].n++] = at;
		w->answer->found[i].defined++;
		w->answer->found[i].direct += count_direct(o, at) > 0;
	}
}

static int walk_object(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct walk *w = arg;
	struct object o;
	int name;

	(void)size;
	w->changed = w->loads && (info->dlpi_adds != w->loads->adds || info->dlpi_subs != w->loads->subs);
	if (w->changed)
		return 1;
	if (!object_read(info, &o))
		return 0;
	if (w->pass == PASS_LOOK) {
		walk_functions(w, &o, info->dlpi_name);
		return 0;
	}
	for (size_t k = 0; k < o.n_slots; k++) {
		name = relocation_of(&o, &o.slots[k], R_X86_64_JUMP_SLOT);
		if (name >= 0)
			walk_slot(w, &o, (void **)(o.base + o.slots[k].r_offset), (uint32_t)name);
	}
	/* its address is also elsewhere, through which it may be called */
	for (size_t k = 0; w->pass == PASS_PLACE && k < o.n_others; k++) {
		name = relocation_of(&o, &o.others[k], R_X86_64_GLOB_DAT);
		if (name >= 0 && is_wanted((uint32_t)name, *(void **)(o.base + o.others[k].r_offset)))
			w->answer->found[name].direct++;
	}
	return 0;
}

/* Held during a walk, and by fork(): a child would have the lock of dl_iterate_phdr() for ever. */
static pthread_mutex_t walks = PTHREAD_MUTEX_INITIALIZER;

static void before_fork(void)
{
	pthread_mutex_lock(&walks);
}

static void after_fork_here(void)
{
	pthread_mutex_unlock(&walks);
}

/* Returns false if libraries have been loaded or unloaded since. */
static bool walk(enum pass pass, const struct loads *loads, struct hook_answer *answer)
{
	struct walk w = { .pass = pass, .loads = loads, .answer = answer };

	if (answer)
		memset(answer, 0, sizeof(*answer));
	pthread_mutex_lock(&walks);
	dl_iterate_phdr(walk_object, &w);
	pthread_mutex_unlock(&walks);
	return !w.changed;
}

/* Places the hooks that are ordered, unless some calls would be missed. Returns false if libraries come and go just now. */
static bool hooks_place(const struct loads *loads, struct hook_answer *ret)
{
	struct hook_answer placed, again;

	loads_wait();
	for (uint32_t i = 0; i < order.n; i++)
		global[i] = (uintptr_t)dlsym(RTLD_DEFAULT, order.functions[i].name);
	memset(wanted, 0, sizeof(wanted));
	if (!walk(PASS_LOOK, loads, ret))
		return false;
	ret->n = order.n;
	ret->ns = hook_measure();
	for (uint32_t i = 0; i < order.n; i++) {
		if (ret->found[i].direct)
			return true;
	}
	if (!walk(PASS_PLACE, loads, &placed))
		return false;
	/* a thread that was resolving a slot meanwhile may have overwritten it */
	poll(NULL, 0, SETTLE_MS);
	walk(PASS_PLACE, loads, &again);
	for (uint32_t i = 0; i < order.n; i++) {
		ret->found[i].slots = placed.found[i].slots;
		ret->found[i].failed = placed.found[i].failed;
		ret->found[i].direct = placed.found[i].direct;
	}
	return true;
}

/* ---- the connection ---- */

static pthread_mutex_t lives = PTHREAD_MUTEX_INITIALIZER;
static struct connection connection = { .fd = -1 };
static char next_name[GPU_SOCKET_NAME_MAX + 1]; /* socket to serve next; "": none */
static bool running, once;

/* A forked child: its hooks only pass calls on. */
static void after_fork(void)
{
	pthread_mutex_init(&walks, NULL);
	slots_map(-1);
	rings_map(-1);
	connection_close(&connection);
	running = false;
	next_name[0] = '\0';
	pthread_mutex_init(&lives, NULL);
}

static int serve_begin(const char *name)
{
	const struct gpu_hello hello = {
		.magic = HOOK_MAGIC, .version = HOOK_VERSION, .record_size = sizeof(struct hook_slot), .attached = 1
	};
	int fd, err;

	err = connection_open(name, &hello, &connection, &fd);
	if (err)
		return err;
	err = slots_map(fd);
	close(fd);
	if (err)
		connection_close(&connection);
	return err;
}

/* By recvmsg(): of all calls to receive, the one that has been checked against the process's filters. */
static bool order_receive(void)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec iov = { &order, sizeof(order) };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control) };
	bool valid = recvmsg(connection.fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) == sizeof(order) && order.n <= HOOK_FUNCTIONS;
	struct cmsghdr *c = valid ? CMSG_FIRSTHDR(&m) : NULL;
	int fd;

	for (uint32_t i = 0; valid && i < order.n; i++) {
		order.functions[i].name[HOOK_NAME_MAX - 1] = order.functions[i].library[HOOK_NAME_MAX - 1] = '\0';
		valid = order.functions[i].arg < HOOK_ARGS;
	}
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof(int))) {
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
		valid = !rings_map(fd) && valid;
		close(fd);
	}
	return valid;
}

/* Carries out the order, and again when more libraries have been loaded, until inftrace ends in whatever way. */
static void serve(void)
{
	struct hook_answer answer;
	struct pollfd p = { .events = POLLIN | POLLRDHUP };
	struct loads seen = { 0, 0 }, now;
	int ready, tries;

	for (;;) {
		p.fd = connection.fd;
		ready = poll(&p, 1, LOOK_MS);
		if (ready < 0 && errno == EINTR)
			continue;
		if (!connection_is_ours(&connection) || (ready && !order_receive()))
			break;
		now = loads_now();
		if (!order.n || (now.adds == seen.adds && now.subs == seen.subs))
			continue;
		for (tries = 0; tries < TRIES && !hooks_place(&now, &answer); tries++)
			now = loads_now();
		if (tries == TRIES)
			continue;
		seen = now;
		if (connection_is_ours(&connection)) /* still */
			send(connection.fd, &answer, sizeof(answer), MSG_NOSIGNAL | MSG_DONTWAIT);
	}
	slots_turn_off();
	walk(PASS_REMOVE, NULL, NULL);
	order.n = 0;
	slots_map(-1);
	rings_map(-1);
	connection_close(&connection);
}

static bool take_next_name(char *ret_name)
{
	bool found;

	pthread_mutex_lock(&lives);
	found = next_name[0];
	strcpy(ret_name, next_name);
	next_name[0] = '\0';
	running = found;
	pthread_mutex_unlock(&lives);
	return found;
}

static void *thread_main(void *unused)
{
	char name[sizeof(next_name)];

	pthread_setname_np(pthread_self(), "inftrace-hook");
	while (take_next_name(name)) {
		if (!serve_begin(name))
			serve();
	}
	return unused;
}

/* Called by an injection on any thread of the process: leaves all that could block to the agent's thread. */
EXPORT int inftrace_hook_attach(const char *name)
{
	sigset_t all, before;
	int err = 0;

	if (!name || strnlen(name, sizeof(next_name)) >= sizeof(next_name))
		return -EINVAL;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_mutex_lock(&lives);
	if (!once)
		err = slots_init() ?: -pthread_atfork(before_fork, after_fork_here, after_fork);
	once = !err;
	strcpy(next_name, name);
	if (!err && !running) {
		err = guest_thread_make(thread_main);
		running = !err;
	}
	pthread_mutex_unlock(&lives);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return err;
}

/* Loaded as the process starts. */
static __attribute__((constructor)) void start(void)
{
	const char *name = secure_getenv(HOOK_ENV_SOCKET);

	if (name && *name)
		inftrace_hook_attach(name);
}
