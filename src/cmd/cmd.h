/* SPDX-License-Identifier: BSD-2-Clause */
/* The subcommands, one file each: they parse options and compose the other parts. */
#ifndef INFTRACE_CMD_H
#define INFTRACE_CMD_H

#include <argp.h>

#include "util/program.h"

/* Parses the options and FILEs of a command line into args. 0, or EXIT_USAGE after a message. */
int cmd_parse(int argc, char **argv, const struct argp_option *options, argp_parser_t parse, const char *files, const char *doc, void *args);

/* Writes what is left of the standard output. 0, or EXIT_RUN after the message "cannot write WHAT". */
int cmd_flush(const char *what);

/* Each takes argv with argv[0] = "inftrace NAME" and returns an exit code. */
int cmd_record(int argc, char **argv);
int cmd_top(int argc, char **argv);
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
