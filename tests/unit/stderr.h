/* SPDX-License-Identifier: BSD-2-Clause */
/* Captures what the code under test prints on stderr. No assertions between the two calls: their messages would be captured. */
#ifndef INFTRACE_TEST_STDERR_H
#define INFTRACE_TEST_STDERR_H

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

struct stderr_grab {
	int saved, fd;
	char text[8192];
};

static inline void stderr_grab_begin(struct stderr_grab *g)
{
	fflush(stderr);
	g->saved = dup(STDERR_FILENO);
	g->fd = memfd_create("stderr", MFD_CLOEXEC);
	dup2(g->fd, STDERR_FILENO);
}

/* Returns the text. */
static inline const char *stderr_grab_end(struct stderr_grab *g)
{
	ssize_t n;

	fflush(stderr);
	n = pread(g->fd, g->text, sizeof(g->text) - 1, 0);
	g->text[n > 0 ? n : 0] = 0;
	dup2(g->saved, STDERR_FILENO);
	close(g->saved);
	close(g->fd);
	return g->text;
}

/* The result of a call; its output is in grab.text. */
#define GRABBED(grab, call)               \
	({                                \
		int err_;                 \
                                          \
		stderr_grab_begin(&grab); \
		err_ = (call);            \
		stderr_grab_end(&grab);   \
		err_;                     \
	})

#endif
