// SPDX-License-Identifier: BSD-2-Clause
/* A function of C around Python: plant_call(f) calls f. For slow_python.py, whose steps its calls are. */
void plant_call(void (*f)(void));

/* The kernel emulates its first instruction, so that a probe of it is cheap. */
void plant_call(void (*f)(void))
{
	__asm__ volatile("nop" ::: "memory");
	f();
	__asm__ volatile("" ::: "memory"); /* no tail call: a step lasts until its function returns */
}
