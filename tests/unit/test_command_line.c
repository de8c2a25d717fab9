// SPDX-License-Identifier: BSD-2-Clause
/* The command line of a recording as written to its files. */
#include "record/metadata.h"
#include "unit.h"

static char text[COMMAND_LINE_MAX];

TEST(test_words)
{
	static char *const rows[][7] = {
		{ "inftrace record", "-p", "1", "-o", "a b.json", NULL },
		{ "/usr/bin/inftrace", "-p", "1", NULL },
		{ "inftrace record", "-u", "./l.so:f(n=s32 arg1)@step", "-a", NULL },
		{ "inftrace record", "--uprobe=l.so:f@step", "-a", NULL },
		{ "inftrace record", "--model", "it's", "--commit-sha=", "", NULL },
		{ "inftrace record", "--model=hf_abc", "--runtime-flags", "{\"token=x\":1}", NULL },
		{ "inftrace record", "--model", "http://u:p@h", "-d1s", NULL },
	};
	static const char *const wanted[] = {
		"inftrace record -p 1 -o 'a b.json'",
		"inftrace -p 1",
		"inftrace record -u './l.so:f(n=s32 arg1)@step' -a",
		"inftrace record --uprobe=l.so:f@step -a",
		"inftrace record --model 'it'\\''s' --commit-sha= ''",
		"inftrace record --model=*** --runtime-flags ***",
		"inftrace record --model *** -d1s",
	};

	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
		assert_string_equal(command_line_text(rows[i], NULL, text), wanted[i]);
}

/* Prompts and keys may be among its arguments. */
TEST(test_command)
{
	char *const argv[] = { "inftrace record", "-d", "1s", "--", "./llama cli", "-p", "my prompt", NULL };
	char *const alone[] = { "inftrace record", "true", NULL };

	assert_string_equal(command_line_text(argv, argv + 4, text), "inftrace record -d 1s -- './llama cli' ...");
	assert_string_equal(command_line_text(alone, alone + 1, text), "inftrace record -- true");
}

TEST(test_long)
{
	static char word[4000];
	char *const argv[] = { "inftrace record", "-a", "-o", word, NULL };

	for (size_t n = 1; n < sizeof(word); n++) {
		word[n - 1] = n % 3 ? 'x' : '\'';
		assert_in_range(strlen(command_line_text(argv, NULL, text)), 1, COMMAND_LINE_MAX - 1);
		if (n > COMMAND_LINE_MAX)
			assert_string_equal(text, "inftrace record -a -o ...");
		else
			assert_true(n > 400 || strstr(text, word) || strchr(word, '\''));
	}
}

RUN_TESTS(NULL, NULL)
