/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef INFTRACE_RECORD_COMMAND_LINE_H
#define INFTRACE_RECORD_COMMAND_LINE_H

#define COMMAND_LINE_MAX 1024

/*
 * How the recording was started, for its files: the words of argv, quoted for a shell where needed. Of a COMMAND
 * (a place in argv; NULL: none) only the program, since its arguments may hold prompts; possible secrets become
 * "***". Cut with "..." at COMMAND_LINE_MAX. Returns text.
 */
const char *command_line_text(char *const argv[], char *const *command, char text[COMMAND_LINE_MAX]);

#endif
