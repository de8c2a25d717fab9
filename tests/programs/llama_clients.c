// SPDX-License-Identifier: BSD-2-Clause
/*
 * Users of a llama-server: each sends one request after the other, reads the answer as it comes, and logs what it saw as
 * JSON: when the first token came, when the answer ended, and the server's own numbers at its end.
 *
 *   llama_clients [-u USERS] [-n REQUESTS] [-t TOKENS] [-l EVERY] [-w WORDS] [-c] [-d EVERY] [-1] [-f] [-s SEED] [-j MEMBERS ...] PORT
 *
 * -n: per user. -l, -w: every EVERY-th prompt has WORDS words, others up to 14. -c: prompts are cached. -d: every EVERY-th answer
 * is not read to its end. -1: answers in one part. -f: all answers are equally long. -j: more members for the JSON of a request;
 * several take turns. Request N of all is 4000 + N bytes long, so that it is recognised wherever it is seen.
 */
#include "../program.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>

#define BYTES 4000 /* of the shortest request */
#define ANSWER_MAX (4 << 20)

static int users = 8, requests = 20, tokens = 24, long_every = 9, long_words = 300, drop_every, port;
static bool cache, whole, fixed;
static unsigned int seed = 1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int n_sent;
static const char *members[4];
static int n_members;

static int connect_server(void)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;

	must(fd >= 0 && !connect(fd, (struct sockaddr *)&to, sizeof(to)), "connect");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

/* Returns the length of the request, which is 4000 + number. */
static size_t make_request(char *buf, size_t size, int number, int words, unsigned int *state)
{
	static const char *const list[] = { "the", "time", "of", "a", "token", "went", "into", "waiting", "for", "and", "one" };
	char body[16384], pad[BYTES + 100000] = "";
	size_t n = 0, len;

	n += (size_t)snprintf(body, sizeof(body), "{\"stream\":%s,\"n_predict\":%d,\"ignore_eos\":true,\"cache_prompt\":%s,%s%s\"prompt\":\"",
		whole ? "false" : "true", fixed ? tokens : tokens / 2 + rand_r(state) % (tokens + 1), cache ? "true" : "false",
		n_members ? members[number % n_members] : "", n_members ? "," : "");
	for (int i = 0; i < words; i++)
		n += (size_t)snprintf(body + n, sizeof(body) - n, "%s ", list[rand_r(state) % 11]);
	n += (size_t)snprintf(body + n, sizeof(body) - n, "\"}");
	for (int round = 0; round < 2; round++) {
		len = (size_t)snprintf(buf, size,
			"POST /completion HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
			"Content-Length: %zu\r\nX-Pad: %s\r\n\r\n%s",
			n, pad, body);
		if (!round && (size_t)(BYTES + number) > len)
			memset(pad, 'x', (size_t)(BYTES + number) - len);
	}
	return len;
}

/* Returns how long this thread has waited for a CPU so far: a delay in what it sees that is not the server's. */
static uint64_t run_delay(void)
{
	unsigned long long delay = 0;
	FILE *f = fopen("/proc/thread-self/schedstat", "re");

	must(f && fscanf(f, "%*u %llu", &delay) == 1, "schedstat");
	fclose(f);
	return delay;
}

/* Reads one answer; drop: the reader leaves after the first parts. */
static void read_answer(int fd, char *buf, uint64_t *ret_first, uint64_t *ret_delay, bool drop)
{
	size_t n = 0;
	ssize_t got;

	*ret_first = *ret_delay = 0;
	while (n < ANSWER_MAX - 1 && (got = read(fd, buf + n, ANSWER_MAX - 1 - n)) > 0) {
		n += (size_t)got;
		buf[n] = 0;
		if (!*ret_first && strstr(buf, whole ? "\"content\"" : "data: ")) {
			*ret_first = clock_ns(CLOCK_BOOTTIME);
			*ret_delay = run_delay();
		}
		if (drop && n > 2000)
			break;
	}
}

/* Returns the JSON of the last part, which has the server's own numbers. */
static char *last_part(char *buf)
{
	char *at = whole ? strstr(buf, "\r\n\r\n") : NULL, *end;

	for (char *p = buf; !whole && (p = strstr(p, "data: {")); p += 6)
		at = p;
	at = at ? strchr(at, '{') : NULL;
	end = at ? strstr(at, "\n\n") : NULL;
	if (end)
		*end = 0;
	return at && strstr(at, "\"timings\"") ? at : NULL;
}

static void *user(void *arg)
{
	unsigned int state = seed * 1000 + (unsigned int)(intptr_t)arg;
	char *buf = malloc(ANSWER_MAX), *request = malloc(1 << 18), *part;

	for (int i = 0; buf && request && i < requests; i++) {
		uint64_t sent, first, end, before, delay;
		int number, fd;
		size_t len;
		bool drop;

		pthread_mutex_lock(&lock);
		number = n_sent++;
		pthread_mutex_unlock(&lock);
		drop = drop_every && number % drop_every == drop_every - 1;
		len = make_request(request, 1 << 18, number,
			long_every && number % long_every == long_every - 1 ? long_words : 1 + rand_r(&state) % 14, &state);
		fd = connect_server();
		before = run_delay();
		sent = clock_ns(CLOCK_BOOTTIME);
		must(write(fd, request, len) == (ssize_t)len, "write");
		*buf = 0;
		read_answer(fd, buf, &first, &delay, drop);
		end = clock_ns(CLOCK_BOOTTIME);
		close(fd);
		part = drop ? NULL : last_part(buf);
		pthread_mutex_lock(&lock);
		printf("{\"number\":%d,\"bytes\":%zu,\"dropped\":%s,\"sent\":%llu,\"first\":%llu,\"end\":%llu,\"delayed\":%llu,\"said\":%s}\n", number,
			len, drop ? "true" : "false", (unsigned long long)sent, (unsigned long long)first,
			(unsigned long long)end, first ? (unsigned long long)(delay - before) : 0, part ? part : "null");
		fflush(stdout);
		pthread_mutex_unlock(&lock);
	}
	free(buf);
	free(request);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[256];
	static int *const numbers[128] = { ['u'] = &users, ['n'] = &requests, ['t'] = &tokens, ['l'] = &long_every, ['w'] = &long_words,
		['d'] = &drop_every, ['s'] = (int *)&seed };
	static bool *const flags[128] = { ['c'] = &cache, ['1'] = &whole, ['f'] = &fixed };
	int opt;

	while ((opt = getopt(argc, argv, "u:n:t:l:w:cd:1fs:j:")) != -1) {
		if (numbers[opt])
			*numbers[opt] = atoi(optarg);
		else if (flags[opt])
			*flags[opt] = true;
		else if (opt == 'j' && n_members < (int)LENGTH(members))
			members[n_members++] = optarg;
		else
			return 2;
	}
	port = optind < argc ? atoi(argv[optind]) : 0;
	if (!port || users < 1 || users > 256)
		return 2;
	for (int i = 0; i < users; i++)
		threads[i] = thread_start(user, (void *)(intptr_t)i);
	threads_join(threads, (size_t)users);
	return 0;
}
