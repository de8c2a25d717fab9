/* SPDX-License-Identifier: BSD-2-Clause */
/* The subcommands, one file each: they parse options and compose the other parts. */
#ifndef INFTRACE_CMD_H
#define INFTRACE_CMD_H

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>

#include "util/program.h"

/*
 * Keys of options without a letter that only set a member of the command's arguments, to true or to the option's argument. Their parser
 * ends with cmd_set().
 */
#define CMD_KEY(kind, type, member, member_type) \
	((kind) + (int)offsetof(type, member) + 0 * (int)sizeof(char[__builtin_types_compatible_p(typeof(((type *)0)->member), member_type) ? 1 : -1]))
#define CMD_TRUE(type, member) CMD_KEY(CMD_TRUE_KEYS, type, member, bool)
#define CMD_TEXT(type, member) CMD_KEY(CMD_TEXT_KEYS, type, member, const char *)

enum {
	CMD_TRUE_KEYS = 1 << 16,
	CMD_TEXT_KEYS = 2 << 16,
};

error_t cmd_set(int key, char *arg, void *args);

/* Parses the options and FILEs of a command line into args. 0, or EXIT_USAGE after a message. */
int cmd_parse(int argc, char **argv, const struct argp_option *options, argp_parser_t parse, const char *files, const char *doc, void *args);

/* Writes what is left of the standard output. 0, or EXIT_RUN after the message "cannot write WHAT". */
int cmd_flush(const char *what);

/* Each takes argv with argv[0] = "inftrace NAME" and returns an exit code. */
int cmd_record(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_why(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_export(int argc, char **argv);
int cmd_link(int argc, char **argv);
int cmd_print(int argc, char **argv);
int cmd_validate(int argc, char **argv);
int cmd_engines(int argc, char **argv);
int cmd_serve(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_control(int argc, char **argv); /* start, stop, dump and status */

#endif
