/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef INFTRACE_BYTES_H
#define INFTRACE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Numbers in copies of a traced process's memory, in this machine's byte order, aligned or not. The caller checks
 * that they lie within the copy. */
static inline uint64_t u64_at(const uint8_t *buf, uint16_t offset)
{
	uint64_t v;

	memcpy(&v, buf + offset, sizeof(v));
	return v;
}

static inline uint32_t u32_at(const uint8_t *buf, uint16_t offset)
{
	uint32_t v;

	memcpy(&v, buf + offset, sizeof(v));
	return v;
}

/* A bit set of small numbers. */
static inline bool bit_is_set(const uint64_t *bits, size_t i)
{
	return bits[i / 64] >> i % 64 & 1;
}

static inline void bit_set(uint64_t *bits, size_t i)
{
	bits[i / 64] |= UINT64_C(1) << i % 64;
}

#endif
