/* SPDX-License-Identifier: BSD-2-Clause */
/* The subcommands, one file each: they parse options and compose the other parts. */
#ifndef INFTRACE_CMD_H
#define INFTRACE_CMD_H

#include "util/program.h"

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
int cmd_start(int argc, char **argv);
int cmd_stop(int argc, char **argv);
int cmd_dump(int argc, char **argv);
int cmd_status(int argc, char **argv);

#endif
