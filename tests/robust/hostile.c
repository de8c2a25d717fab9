// SPDX-License-Identifier: BSD-2-Clause
/*
 * Threads with names that are hard to write into a file.
 *
 *   hostile        a thread of each name, one after the other
 *   hostile wait   takes one of the names and waits for a signal
 *
 * Prints one JSON line: the names, in hexadecimal.
 */
#include "../program.h"

static const char *const names[] = {
	"\x01\x02\x1b[31m\x7f",
	"\"\\\"\\",
	"a\nb\rc\td",
	"</script>",
	"\xff\xfe\x80",
	"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",
	/* cut within a character by the kernel's limit of 15 bytes */
	"0123456789abc\xe2\x82\xac",
	"\xed\xa0\xbd\xed\xb8\x80", /* surrogates */
	"\xc0\xaf\xf5\x80\x80\x80",
	"%s%n%x\\u0000",
	" ",
	"{},[]:,\n,\n",
};

static __attribute__((noinline, noipa)) void hostile_step(const char *name)
{
	prctl(PR_SET_NAME, name);
}

static void *take_name(void *arg)
{
	hostile_step(arg);
	getppid();
	return NULL;
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "wait")) {
		prctl(PR_SET_NAME, "\x1b\"\\\n \xff</script>");
		pause();
	}
	printf("{\"names\":[");
	for (size_t i = 0; i < LENGTH(names); i++) {
		pthread_join(thread_start(take_name, (void *)names[i]), NULL);
		printf("%s\"", i ? "," : "");
		for (size_t k = 0; names[i][k] && k < 15; k++)
			printf("%02x", (unsigned char)names[i][k]);
		printf("\"");
	}
	printf("]}\n");
	return 0;
}
