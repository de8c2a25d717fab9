/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef INFTRACE_RECORD_COMMAND_LINE_H
#define INFTRACE_RECORD_COMMAND_LINE_H

#define COMMAND_LINE_MAX 1024

/*
 * How the recording was started, as it stands in its files: the words of argv, quoted for a shell where that is
 * needed. Of a COMMAND (NULL: none; else a place in argv) the program alone, since its arguments may hold prompts;
 * what may be a secret is "***". Cut with "..." at COMMAND_LINE_MAX. Returns text.
 */
const char *command_line_text(char *const argv[], char *const *command, char text[COMMAND_LINE_MAX]);

#endif
