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

	p->map_fd = -1;
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

void pythons_bind(struct pythons *p, int map_fd, volatile uint32_t *known)
{
	p->map_fd = map_fd;
	p->known = known;
}

static void pythons_add_process(struct pythons *p, uint32_t tgid, const struct python *python)
{
	/* names first: the programs may send frames at once */
	python_names_set(p->names, tgid, python);
	if (bpf_map_update_elem(p->map_fd, &tgid, &python->walk, BPF_ANY)) {
		log_warn("process %u: its Python functions have no names in stacks: %s", tgid, strerror(errno));
		python_names_gone(p->names, tgid);
		return;
	}
	(*p->known)++;
}

void pythons_look(struct pythons *p, pid_t pid)
{
	struct python python = { 0 };
	int err;

	if (!p || p->map_fd < 0 || python_names_has(p->names, (uint32_t)pid, &python))
		return;
	err = python_find(p->finder, pid, &python);
	if (err == -ENOTSUP && python.major && python.minor != p->told_minor) {
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
	struct python python;

	if (!p || p->map_fd < 0)
		return;
	if (python_names_gone(p->names, tgid))
		bpf_map_delete_elem(p->map_fd, &tgid);
	if (parent && python_names_has(p->names, parent, &python))
		pythons_add_process(p, tgid, &python);
}
