// SPDX-License-Identifier: BSD-2-Clause
/* The formats are described in CPython's Objects/lnotab_notes.txt and Objects/locations.md. */
#include "stack/python_line.h"

#define UNIT 2 /* bytes: locations count in code units */

/* Kinds of locations; the smaller ones are of the same line, with columns in one more byte. */
enum {
	LOC_ONE_LINE = 10, /* 0 to 2 lines further, and two bytes of columns */
	LOC_NO_COLUMNS = 13,
	LOC_LONG = 14,
	LOC_NONE = 15,
};

static uint32_t to_line(int64_t line)
{
	return line > 0 && line <= INT32_MAX ? (uint32_t)line : 0;
}

/* Pairs of how much further in the code the next line begins, and how much further in the file. */
static uint32_t line_by_lnotab(const uint8_t *t, size_t len, int64_t line, int64_t offset)
{
	int64_t at = 0;

	for (size_t i = 0; i + 1 < len; i += 2) {
		at += t[i];
		if (at > offset)
			break;
		line += (int8_t)t[i + 1];
	}
	return to_line(line);
}

/* Pairs of the length of a range and the difference between its line and the one before; -128: it has none. */
static uint32_t line_by_ranges(const uint8_t *t, size_t len, int64_t line, int64_t offset)
{
	int64_t end = 0;

	if (offset < 0)
		return to_line(line);
	for (size_t i = 0; i + 1 < len; i += 2) {
		int8_t delta = (int8_t)t[i + 1];

		end += t[i];
		if (delta != -128)
			line += delta;
		if (offset < end)
			return delta == -128 ? 0 : to_line(line);
	}
	return 0;
}

/* Six bits a byte, lowest first, bit 6: more follow; the lowest bit of the number is its sign. */
static int64_t read_svarint(const uint8_t *t, size_t len, size_t i)
{
	uint64_t value = 0;

	for (unsigned int shift = 0; i < len && shift < 36; shift += 6) {
		value |= (uint64_t)(t[i] & 63) << shift;
		if (!(t[i++] & 64))
			break;
	}
	return value & 1 ? -(int64_t)(value >> 1) : (int64_t)(value >> 1);
}

/* Entries of a first byte with its highest bit set: kind and length, and others without. */
static uint32_t line_by_locations(const uint8_t *t, size_t len, int64_t line, int64_t offset)
{
	int64_t end = 0;
	size_t i = 0;

	if (offset < 0)
		return to_line(line);
	while (i < len) {
		unsigned int kind = (t[i] >> 3) & 15;

		end += ((t[i] & 7) + 1) * UNIT;
		if (kind == LOC_LONG || kind == LOC_NO_COLUMNS)
			line += read_svarint(t, len, i + 1);
		else if (kind >= LOC_ONE_LINE && kind < LOC_NO_COLUMNS)
			line += kind - LOC_ONE_LINE;
		if (offset < end)
			return kind == LOC_NONE ? 0 : to_line(line);
		for (i++; i < len && !(t[i] & 0x80); i++)
			;
	}
	return 0;
}

uint32_t python_line(enum python_lines kind, const uint8_t *table, size_t len, uint32_t first_line, int64_t offset)
{
	switch (kind) {
	case PYTHON_LINES_LNOTAB:
		return line_by_lnotab(table, len, first_line, offset);
	case PYTHON_LINES_RANGES:
		return line_by_ranges(table, len, first_line, offset);
	case PYTHON_LINES_LOCATIONS:
		return line_by_locations(table, len, first_line, offset);
	}
	return 0;
}
