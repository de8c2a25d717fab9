/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What inftrace and its agent for hooks (hook/agent/) say to each other, on the socket of agent/listener.h:
 *
 *	agent    -> inftrace   struct gpu_hello, with the numbers below
 *	inftrace -> agent      struct gpu_welcome, with the descriptor of the slots (hook_slot.h)
 *	inftrace -> agent      struct hook_order: place hooks; with the descriptor of the rings (ring.h), if calls are wanted one by one
 *	agent    -> inftrace   struct hook_answer; another one when the process has loaded more libraries
 *
 * When the connection ends, the agent removes its hooks. What the agent says is the process's own claim.
 */
#ifndef INFTRACE_HOOK_HAND_OVER_H
#define INFTRACE_HOOK_HAND_OVER_H

#include <stdint.h>

#include "hook_slot.h"

#define HOOK_MAGIC UINT32_C(0x48464e49) /* "INFH" */
#define HOOK_VERSION 2
#define HOOK_ATTACH_ENTRY "inftrace_hook_attach" /* int (const char *socket_name) */
#define HOOK_JOINS_ENTRY "inftrace_hook_joins"   /* void (uint32_t slot, uint64_t key); a program is on it. slot 0: the thread ends */
#define HOOK_AGENT_SONAME "inftrace-hook.so.2"   /* with HOOK_VERSION */
#define HOOK_ENV_SOCKET "INFTRACE_HOOK"            /* the name of the socket, if LD_PRELOAD loads the agent */
#define HOOK_AGENT_FILE "inftrace-hook.so"

#define HOOK_FUNCTIONS 8
#define HOOK_ARGS 6 /* that are in registers */
#define HOOK_NAME_MAX 64

struct hook_order {
	uint32_t n;
	struct { /* NUL-terminated */
		char name[HOOK_NAME_MAX]; /* at most six arguments, none of them on the stack, and no variable number */
		char library[HOOK_NAME_MAX]; /* glob on the file name of the library that has it; others' functions of that name are left alone */
		uint8_t is_op; /* begins an operator, which ends at the next barrier; else it is a barrier itself */
		uint8_t arg;   /* of an operator: what this argument, from 0 on, points to ... */
		uint8_t size;  /* ... has this many bytes, 1, 2 or 4, which are its value; 0: it has none ... */
		int32_t offset; /* ... there */
	} functions[HOOK_FUNCTIONS];
};

struct hook_answer {
	uint32_t n;
	uint32_t ns; /* what a hook takes */
	struct hook_found {
		uint32_t defined; /* libraries that have the function */
		uint32_t direct;  /* libraries whose calls do not all go through the procedure linkage table */
		uint32_t slots;   /* through which it is called */
		uint32_t failed;  /* of those: cannot be written */
	} found[HOOK_FUNCTIONS];
};

#endif
