// SPDX-License-Identifier: BSD-2-Clause
/*
 * Fires USDT probes with arguments in every place that a compiler may choose, and says what it gave
 * them: sdt ROUNDS. Prints "ready", waits for a byte on stdin, then prints a JSON object for each
 * probe that it fires, in order. Then it prints "done", waits for another byte, and says whether
 * anybody still looks at the probe that is behind a semaphore.
 */
#include "../program.h"

#include <math.h>
#include <sys/sdt.h>

#include "sdt.h"

struct inner {
	const char *name;
	int32_t number;
};

struct outer {
	char text[8];
	struct inner *inner;
	struct outer *next;
};

int sdt_global;
static int64_t sdt_static;
static int sdt_twice; /* another source file has one too */
static short sdt_table[16];

/* The compiler must not know the value. */
#define HIDE(x) __asm__ volatile("" : "+r"(x))

static void said(const char *name, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void said(const char *name, const char *fmt, ...)
{
	va_list ap;

	printf("{\"name\":\"%s\",\"args\":{", name);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	puts("}}");
}

/* Each in a register of its own. */
static __attribute__((noinline)) void fire_registers(int64_t n)
{
#ifdef __x86_64__
#define REG(name) register int64_t name __asm__(#name)
	REG(rax) = n * 1000003;
	REG(rbx) = n - 1;
	REG(rcx) = n - 2;
	REG(rdx) = n - 3;
	REG(rsi) = n - 4;
	REG(rdi) = n - 5;
	REG(r8) = n - 8;
	REG(r9) = n - 9;
	REG(r10) = n << 32;
	REG(r11) = n - 11;
	REG(r12) = n - 12;
	REG(r13) = ~n;

	__asm__ volatile("" : "+r"(rax), "+r"(rbx), "+r"(rcx), "+r"(rdx), "+r"(rsi), "+r"(rdi));
	__asm__ volatile("" : "+r"(r8), "+r"(r9), "+r"(r10), "+r"(r11), "+r"(r12), "+r"(r13));
	STAP_PROBE12(sdt, registers, rax, rbx, rcx, rdx, rsi, rdi, r8, r9, r10, r11, r12, r13);
#else
	int64_t rax = n * 1000003, rbx = n - 1, rcx = n - 2, rdx = n - 3, rsi = n - 4, rdi = n - 5;
	int64_t r8 = n - 8, r9 = n - 9, r10 = n << 32, r11 = n - 11, r12 = n - 12, r13 = ~n;

	STAP_PROBE12(sdt, registers, rax, rbx, rcx, rdx, rsi, rdi, r8, r9, r10, r11, r12, r13);
#endif
}

/* 14 and 15, and parts of registers. */
static __attribute__((noinline)) void fire_parts(int64_t n)
{
	int8_t s8 = (int8_t)n;
	uint8_t u8 = (uint8_t)n;
	int16_t s16 = (int16_t)(-n);
	uint16_t u16 = (uint16_t)(-n);
	int32_t s32 = (int32_t)-n;
	uint32_t u32 = (uint32_t)-n;
#ifdef __x86_64__
	REG(r14) = n + 14;
	REG(r15) = n + 15;
#else
	int64_t r14 = n + 14, r15 = n + 15;
#endif

	HIDE(s8);
	HIDE(u8);
	HIDE(s16);
	HIDE(u16);
	HIDE(s32);
	HIDE(u32);
	__asm__ volatile("" : "+r"(r14), "+r"(r15));
	STAP_PROBE8(sdt, parts, s8, u8, s16, u16, s32, u32, r14, r15);
}

struct sizes {
	int8_t s8;
	uint8_t u8;
	int16_t s16;
	uint16_t u16;
	int32_t s32;
	uint32_t u32;
	int64_t s64;
	uint64_t u64;
};

static void say_sizes(const char *name, const struct sizes *s)
{
	said(name, "\"s8\":%d,\"u8\":%d,\"s16\":%d,\"u16\":%d,\"s32\":%d,\"u32\":%u,\"s64\":%ld,\"u64\":%lu", s->s8, s->u8, s->s16,
		s->u16, s->s32, s->u32, s->s64, s->u64);
}

static __attribute__((noinline)) void fire_memory(const struct sizes *s)
{
	STAP_PROBE8(sdt, memory, s->s8, s->u8, s->s16, s->u16, s->s32, s->u32, s->s64, s->u64);
}

static __attribute__((noinline)) void fire_stack(struct sizes s)
{
	STAP_PROBE8(sdt, stack, s.s8, s.u8, s.s16, s.u16, s.s32, s.u32, s.s64, s.u64);
}

static __attribute__((noinline)) void fire_variables(const short *table, uint64_t i)
{
	STAP_PROBE3(sdt, variables, sdt_global, sdt_static, table[i]);
}

static __attribute__((noinline)) void fire_twice(void)
{
	STAP_PROBE1(sdt, twice, sdt_twice);
}

/* Copies of one probe, with its argument in other places. */
static inline __attribute__((always_inline)) void fire_copy(int64_t n)
{
	STAP_PROBE1(sdt, copies, n);
}

static __attribute__((noinline)) void fire_copies(int64_t n, const int64_t *at)
{
	fire_copy(7);
	fire_copy(n);
	fire_copy(*at);
}

static __attribute__((noinline)) void fire_pointers(
	const char *text, struct outer *o, struct outer **at)
{
	STAP_PROBE3(sdt, pointers, text, o, *at);
}

static __attribute__((noinline)) void fire_floats(double d, float f, const double *at)
{
	STAP_PROBE3(sdt, floats, d, f, *at);
}

static void fire_numbers(int64_t n)
{
	struct sizes s = { (int8_t)-n, (uint8_t)n, (int16_t)(-300 * n), (uint16_t)(300 * n),
		(int32_t)(-70000 * n), (uint32_t)(70000 * n), -n << 33, (uint64_t)n << 33 };
	int64_t at = -n;

	fire_registers(n);
	said("registers",
		"\"a1\":%ld,\"a2\":%ld,\"a3\":%ld,\"a4\":%ld,\"a5\":%ld,\"a9\":%ld,\"a11\":%ld,"
		"\"a12\":%ld",
		n * 1000003, n - 1, n - 2, n - 3, n - 4, n << 32, n - 12, ~n);
	said("registers_more", "\"a6\":%ld,\"a7\":%ld,\"a8\":%ld,\"a10\":%ld", n - 5, n - 8, n - 9, n - 11);
	fire_parts(n);
	said("parts",
		"\"s8\":%d,\"u8\":%d,\"s16\":%d,\"u16\":%d,\"s32\":%d,\"u32\":%u,\"r14\":%ld,\"r15\":%ld,\"wide\":%d,\"cut\":%u",
		(int8_t)n, (uint8_t)n, (int16_t)-n, (uint16_t)-n, (int32_t)-n, (uint32_t)-n, n + 14, n + 15, (int8_t)n, (uint8_t)-n);
	fire_memory(&s);
	say_sizes("sdt:memory", &s);
	fire_stack(s);
	say_sizes("sdt:stack", &s);
	STAP_PROBE4(sdt, constants, 5, -6, 0x123456789abcdef0, (unsigned char)250);
	said("constants", "\"a1\":5,\"a2\":-6,\"a3\":%ld,\"a4\":250", 0x123456789abcdef0);
	sdt_global = (int)n;
	sdt_static = -n;
	sdt_twice = (int)n;
	fire_twice();
	sdt_table[n & 15] = (short)(3 * n);
	fire_variables(sdt_table, (uint64_t)n & 15);
	said("variables", "\"global\":%ld,\"static\":%ld,\"table\":%d", n, -n, (short)(3 * n));
	fire_copies(n, &at);
	said("copies", "\"n\":7");
	said("sevens", "\"n\":7");
	if (n == 7)
		said("sevens", "\"n\":7");
	said("copies", "\"n\":%ld", n);
	said("copies", "\"n\":%ld", -n);
}

static void fire_rest(int64_t n)
{
	static const double doubles[] = { 0.1, -0.0, 1e300, 5e-324, NAN, INFINITY, -INFINITY, 3 };
	struct inner in = { "deep", (int32_t)n };
	struct outer last = { "last", &in, NULL }, o = { "here", &in, &last }, *at = &o;
	double d = doubles[n & 7] * (double)n, other = (double)n / 3;
	float f = (float)d;
	struct sdt_numbers numbers = { { (int)n, f }, d, 0 };

	fire_pointers("hello", &o, &at);
	said("pointers", "\"text\":\"hello\",\"here\":\"here\",\"number\":%ld,\"last\":%ld", n, n);
	said("names", "\"name\":\"deep\",\"last_text\":\"last\"");
	fire_floats(d, f, &other);
	said("floats", "\"d\":\"%a\",\"f\":\"%a\",\"other\":\"%a\"", d, (double)f, other);
	if (sdt_is_guarded_on()) {
		sdt_fire_guarded(n);
		said("guarded", "\"n\":%ld", n);
		said("fire_guarded", "\"n\":%ld", n);
	}
	sdt_take_numbers(&numbers, numbers.pair, numbers);
	said("take_numbers", "\"n\":%ld,\"f\":\"%a\",\"d\":\"%a\",\"pair_f\":\"%a\",\"copy_d\":\"%a\"", n, (double)f, d, (double)f, d);
	STAP_PROBE1(sdt, begin, n);
	STAP_PROBE(sdt, end);
	if (n & 1)
		STAP_PROBE(sdt, end);
	said("pair", "\"n\":%ld", n);
}

static void wait_for_go(const char *what)
{
	say(what);
	byte_receive(STDIN_FILENO);
}

int main(int argc, char **argv)
{
	long rounds = argc > 1 ? atol(argv[1]) : 1;

	wait_for_go("ready");
	for (long n = 1; n <= rounds; n++) {
		fire_numbers(n);
		fire_rest(n);
	}
	wait_for_go("done");
	puts(sdt_is_guarded_on() ? "on" : "off");
	return 0;
}
