/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/alloc.h"
#include "util/log.h"

void out_of_memory(void)
{
	log_error("out of memory; a limit on memory (ulimit -v, a container's) may be too low");
	_exit(EXIT_FAILURE); /* other threads run on: no exit handlers */
}

void *xmalloc(size_t size)
{
	void *memory = malloc(size ? size : 1);

	if (!memory)
		out_of_memory();
	return memory;
}

void *xcalloc(size_t n, size_t size)
{
	void *memory = calloc(n ? n : 1, size ? size : 1);

	if (!memory)
		out_of_memory();
	return memory;
}

void *xreallocarray(void *memory, size_t n, size_t size)
{
	void *bigger = reallocarray(memory, n ? n : 1, size ? size : 1);

	if (!bigger)
		out_of_memory();
	return bigger;
}

char *xstrndup(const char *text, size_t len)
{
	char *copy = strndup(text, len);

	if (!copy)
		out_of_memory();
	return copy;
}

char *xstrdup(const char *text)
{
	return xstrndup(text, strlen(text));
}

char *xasprintf(const char *fmt, ...)
{
	va_list args;
	char *text;
	int n;

	va_start(args, fmt);
	n = vasprintf(&text, fmt, args);
	va_end(args);
	if (n < 0)
		out_of_memory();
	return text;
}
