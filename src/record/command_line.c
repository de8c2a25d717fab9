// SPDX-License-Identifier: BSD-2-Clause
#include "record/command_line.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "util/secret.h"

#define PLAIN "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./:=,+@%"

struct line {
	char *text;
	size_t len;
	bool cut;
};

static void put(struct line *l, const char *s, size_t n)
{
	l->cut |= l->len + n > COMMAND_LINE_MAX - sizeof(" ...");
	if (l->cut)
		return;
	memcpy(l->text + l->len, s, n);
	l->len += n;
}

static void put_secret(struct line *l, const char *word, size_t name)
{
	put(l, " ", 1);
	put(l, word, name);
	put(l, "***", 3);
}

static void put_word(struct line *l, const char *word)
{
	bool plain = *word && !word[strspn(word, PLAIN)];
	size_t before = l->len;

	if (l->len)
		put(l, " ", 1);
	if (!plain)
		put(l, "'", 1);
	for (const char *p = word; *p && !l->cut; p++)
		put(l, *p == '\'' ? "'\\''" : p, *p == '\'' ? 4 : 1);
	if (!plain)
		put(l, "'", 1);
	if (l->cut) /* no partial words */
		l->len = before;
}

/* Tells a secret from the place of a function, which looks like a URL with a user: LIB:SYMBOL@ROLE. */
static bool is_secret(const char *option, const char *word)
{
	return strncmp(option, "-u", 2) && strncmp(option, "--uprobe", 8) && secret_value(word);
}

const char *command_line_text(char *const argv[], char *const *command, char text[COMMAND_LINE_MAX])
{
	struct line l = { .text = text };
	const char *option = "";

	/* argv[0] is "inftrace record", or the path that the shell found */
	put(&l, "inftrace", strlen("inftrace"));
	if (!strncmp(argv[0], "inftrace ", strlen("inftrace ")))
		put_word(&l, argv[0] + strlen("inftrace "));
	for (char *const *arg = argv + 1; *arg && arg != command && !l.cut; arg++) {
		const char *equals = **arg == '-' ? strchr(*arg, '=') : NULL, *value = equals ? equals + 1 : *arg;

		if (**arg == '-')
			option = *arg;
		if (!strcmp(*arg, "--"))
			continue;
		if (is_secret(option, value))
			put_secret(&l, *arg, (size_t)(value - *arg));
		else
			put_word(&l, *arg);
	}
	if (command) {
		put_word(&l, "--");
		put_word(&l, *command);
		if (command[1])
			put(&l, " ...", 4);
	}
	if (l.cut) {
		memcpy(text + l.len, " ...", 4);
		l.len += 4;
	}
	text[l.len] = 0;
	return text;
}
