// SPDX-License-Identifier: BSD-2-Clause
#include "util/nearest.h"

#include <string.h>

#define LEN_MAX 32 /* of names that are compared */

static unsigned int min(unsigned int a, unsigned int b)
{
	return a < b ? a : b;
}

/* Levenshtein distance. */
static unsigned int distance(const char *a, const char *b, size_t len_b)
{
	unsigned int row[LEN_MAX + 1];

	for (unsigned int k = 0; k <= len_b; k++)
		row[k] = k;
	for (; *a; a++) {
		unsigned int before = row[0]++; /* of the row above, one to the left */

		for (size_t k = 1; k <= len_b; k++) {
			unsigned int above = row[k];

			row[k] = min(min(above, row[k - 1]) + 1, before + (*a != b[k - 1]));
			before = above;
		}
	}
	return row[len_b];
}

const char *nearest_name(const char *typed, const char *const *names, size_t n)
{
	size_t len = strlen(typed);
	unsigned int max = len < 6 ? 1 : (unsigned int)len / 3, least = max + 1;
	const char *nearest = NULL;

	if (!len || len > LEN_MAX)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		size_t len_i = strlen(names[i]);
		unsigned int d = len_i <= LEN_MAX ? distance(typed, names[i], len_i) : least;

		if (d < least) {
			least = d;
			nearest = names[i];
		}
	}
	for (size_t i = 0; i < n && !nearest && len >= 3; i++) {
		if (strstr(names[i], typed))
			nearest = names[i];
	}
	return nearest;
}
