// SPDX-License-Identifier: BSD-2-Clause
#include "capture/python.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "stack/python_name.h"
#include "target/python.h"
#include "util/alloc.h"
#include "util/log.h"

struct pythons *pythons_new(void)
{
	struct pythons *p = xcalloc(1, sizeof(*p));

	p->runtimes_fd = p->walks_fd = -1;
	p->finder = python_finder_new();
	p->names = python_names_new(NULL, NULL);
	return p;
}

void pythons_free(struct pythons *p)
{
	if (!p)
		return;
	python_names_free(p->names);
	python_finder_free(p->finder);
	free(p);
}

void pythons_bind(struct pythons *p, int runtimes_fd, int walks_fd, volatile uint32_t *known)
{
	p->runtimes_fd = runtimes_fd;
	p->walks_fd = walks_fd;
	p->known = known;
}

static void add_runtime(struct pythons *p, uint32_t tgid, const struct python *python)
{
	const struct python_runtime r = { python->walk.runtime, python->runtime_bytes };

	if (bpf_map_update_elem(p->runtimes_fd, &tgid, &r, BPF_ANY))
		log_debug("process %u: waits for its GIL are waits for a lock: %s", tgid, strerror(errno));
	else
		(*p->known)++;
}

static void pythons_add_process(struct pythons *p, uint32_t tgid, const struct python *python)
{
	/* names first: the programs may send frames at once */
	python_names_set(p->names, tgid, python);
	if (p->walks_fd >= 0 && bpf_map_update_elem(p->walks_fd, &tgid, &python->walk, BPF_ANY)) {
		log_warn("process %u: its Python functions have no names in stacks: %s", tgid, strerror(errno));
		python_names_gone(p->names, tgid);
	}
	add_runtime(p, tgid, python);
}

void pythons_look(struct pythons *p, pid_t pid)
{
	struct python python = { 0 };
	int err;

	if (!p || p->runtimes_fd < 0 || python_names_has(p->names, (uint32_t)pid, &python))
		return;
	err = python_find(p->finder, pid, &python);
	if (err == -ENOTSUP && python.walk.runtime)
		add_runtime(p, (uint32_t)pid, &python);
	if (err == -ENOTSUP && p->walks_fd >= 0 && python.major && python.minor != p->told_minor) {
		log_warn("process %d runs Python %u.%u, whose frames are not known (3.8 to 3.14 are): its stacks have "
			 "only native functions",
			pid, python.major, python.minor);
		p->told_minor = python.minor;
	}
	if (!err)
		pythons_add_process(p, (uint32_t)pid, &python);
}

void pythons_process(struct pythons *p, uint32_t parent, uint32_t tgid)
{
	struct python_runtime r;
	struct python python;

	if (!p || p->runtimes_fd < 0)
		return;
	if (python_names_gone(p->names, tgid) && p->walks_fd >= 0)
		bpf_map_delete_elem(p->walks_fd, &tgid);
	bpf_map_delete_elem(p->runtimes_fd, &tgid);
	if (!parent)
		return;
	if (python_names_has(p->names, parent, &python))
		pythons_add_process(p, tgid, &python);
	else if (!bpf_map_lookup_elem(p->runtimes_fd, &parent, &r))
		bpf_map_update_elem(p->runtimes_fd, &tgid, &r, BPF_ANY);
}
