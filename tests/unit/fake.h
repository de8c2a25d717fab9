/* SPDX-License-Identifier: BSD-2-Clause */
/* A function that replaces another one, with the program linked by --wrap; and one that only returns a value. */
#ifndef INFTRACE_TEST_FAKE_H
#define INFTRACE_TEST_FAKE_H

#define FAKE(type, name, ...)            \
	type __wrap_##name(__VA_ARGS__); \
	type __wrap_##name(__VA_ARGS__)
#define FAKE_VALUE(type, value, name, ...) \
	FAKE(type, name, __VA_ARGS__)      \
	{                                  \
		return value;              \
	}

#endif
