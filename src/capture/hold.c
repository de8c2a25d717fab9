// SPDX-License-Identifier: BSD-2-Clause
#include "capture/hold.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <linux/sched.h>
#include <linux/sched/types.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "capture/links.h"
#include "probe.h"
#include "target/elf.h"
#include "target/file.h"
#include "target/process.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/log.h"

#define LOADERS_MAX 32 /* more kinds of loaders than any system has */
#define NICE (-15)
#define LOADER_FUNCTION "_dl_debug_state"

struct hold_loader {
	uint64_t ino; /* on some filesystems stat(2) and maps have different devices */
	uint64_t since_ns;
	int fd;                /* of a uprobe_multi link; or -1 */
	struct bpf_link *link; /* or NULL; if there is neither, it cannot be probed */
};

struct hold {
	struct hold_config c;
	struct hold_loader loaders[LOADERS_MAX];
	size_t n;
};

struct hold *hold_new(const struct hold_config *c)
{
	struct hold *h = xcalloc(1, sizeof(*h));

	h->c = *c;
	return h;
}

void hold_free(struct hold *h)
{
	if (!h)
		return;
	for (size_t i = 0; i < h->n; i++) {
		bpf_link__destroy(h->loaders[i].link);
		if (h->loaders[i].fd >= 0)
			close(h->loaders[i].fd);
	}
	free(h);
}

static struct hold_loader *hold_find_loader(struct hold *h, uint64_t ino)
{
	for (size_t i = 0; i < h->n; i++) {
		if (h->loaders[i].ino == ino)
			return &h->loaders[i];
	}
	return NULL;
}

/* Takes over fd. shown: for messages. A file that turns out not to be a loader is remembered, too. */
static int hold_add_loader(struct hold *h, int fd, const char *shown)
{
	struct hold_loader *l = &h->loaders[h->n];
	struct elf_file *elf = NULL;
	struct elf_symbol sym;
	struct stat st;
	char opened[32];
	int err;

	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || hold_find_loader(h, st.st_ino) || h->n == LOADERS_MAX) {
		close(fd);
		return 0;
	}
	snprintf(opened, sizeof(opened), "/proc/self/fd/%d", fd);
	*l = (struct hold_loader){ .ino = st.st_ino, .fd = -1 };
	err = elf_open(opened, &elf);
	if (!err)
		err = elf_find_symbol(elf, LOADER_FUNCTION, &sym);
	if (!err && h->c.multi) {
		l->fd = links_create_multi_at(bpf_program__fd(h->c.prog), false, fd, sym.offset, h->c.pid);
		err = l->fd < 0 ? l->fd : 0;
	} else if (!err) {
		l->link = bpf_program__attach_uprobe(h->c.prog, false, h->c.pid ? h->c.pid : -1, opened, sym.offset);
		err = l->link ? 0 : -errno;
	}
	if (!err)
		log_debug("the loader %s holds what it maps until its probes are in", shown);
	l->since_ns = err ? UINT64_MAX : clock_boot_ns();
	h->n++;
	elf_close(elf);
	close(fd);
	return err ? err : 1;
}

static int hold_add_path(struct hold *h, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	return fd < 0 ? -errno : hold_add_loader(h, fd, path);
}

int hold_loaders(struct hold *h, const char *command)
{
	static const char *const usual[] = { "/lib*/ld-*.so*", "/lib/*/ld-*.so*", "/usr/lib/*/libc.so" };
	char loader[LOADER_PATH_MAX];
	int n = 0, first = -ENOENT, err;
	glob_t g;

	if (!h)
		return 0;
	if (command && !loader_of(command, loader)) {
		err = hold_add_path(h, loader);
		n += err > 0;
		first = err < 0 ? err : first;
	}
	for (size_t i = 0; i < sizeof(usual) / sizeof(usual[0]); i++) {
		if (glob(usual[i], GLOB_NOSORT, NULL, &g))
			continue;
		for (size_t k = 0; k < g.gl_pathc; k++) {
			err = hold_add_path(h, g.gl_pathv[k]);
			n += err > 0;
			/* loaders for other systems do not matter */
			if (err < 0 && err != -EOPNOTSUPP && err != -ENOENT && err != -ENOEXEC && first == -ENOENT)
				first = err;
		}
		globfree(&g);
	}
	return n ? n : first;
}

void hold_hurry(const struct hold *h)
{
	struct sched_attr a = {
		.size = sizeof(a),
		.sched_policy = SCHED_NORMAL,
		.sched_flags = SCHED_FLAG_RESET_ON_FORK,
		.sched_nice = NICE,
	};

	if (h && syscall(SYS_sched_setattr, 0, &a, 0))
		log_debug("cannot run before others: %s", strerror(errno));
}

struct hold_look {
	struct hold *h;
	uint64_t before_ns;
	bool held;
};

static struct hold_state hold_get_state(const struct hold *h, pid_t tgid)
{
	struct hold_state s = { 0 };

	if (h && (!h->c.pid || h->c.pid == tgid))
		bpf_map_lookup_elem(h->c.holds_fd, &tgid, &s);
	return s;
}

uint64_t hold_begin(struct hold *h, pid_t tgid)
{
	return hold_get_state(h, tgid).mapped;
}

void hold_end(struct hold *h, pid_t tgid, uint64_t mapped)
{
	if (h && mapped && bpf_map_update_elem(h->c.done_fd, &tgid, &mapped, BPF_ANY))
		log_debug("process %d still waits, though its probes are in place: %s", tgid, strerror(errno));
}

bool hold_waits(struct hold *h, pid_t tgid)
{
	return hold_get_state(h, tgid).waiting;
}

static int look_find_loader(const struct mapped_file *m, void *arg)
{
	struct hold_look *l = arg;
	const struct hold_loader *found = hold_find_loader(l->h, m->ino);

	l->held |= found && found->since_ns < l->before_ns;
	return l->held;
}

bool hold_covers(struct hold *h, pid_t tgid, uint64_t mapped, uint64_t mapped_ns)
{
	struct hold_look l = { .h = h, .before_ns = mapped_ns };
	struct hold_state s;

	if (!h || !mapped || bpf_map_lookup_elem(h->c.holds_fd, &tgid, &s) || s.missed >= mapped)
		return false;
	process_each_mapped(tgid, look_find_loader, &l);
	return l.held;
}

void hold_forget(struct hold *h, pid_t tgid)
{
	if (h)
		bpf_map_delete_elem(h->c.done_fd, &tgid);
}
