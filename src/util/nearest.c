// SPDX-License-Identifier: BSD-2-Clause
#include "util/nearest.h"

#include <stdlib.h>
#include <string.h>

#define LEN_MAX 32 /* longer names are not compared */

/* Only the diagonal band within max is computed. */
int edit_distance(const char *a, int la, const char *b, int lb, int max)
{
	int prev[EDIT_LEN_MAX + 1], cur[EDIT_LEN_MAX + 1];

	if (abs(la - lb) > max)
		return max + 1;
	for (int j = 0; j <= lb; j++)
		prev[j] = j;
	for (int i = 1; i <= la; i++) {
		int from = i - max > 1 ? i - max : 1, to = i + max < lb ? i + max : lb;
		int best = max + 1;

		cur[from - 1] = from == 1 ? i : max + 1;
		for (int j = from; j <= to; j++) {
			int d = prev[j - 1] + (a[i - 1] != b[j - 1]);

			if (cur[j - 1] + 1 < d)
				d = cur[j - 1] + 1;
			/* beyond the band prev[] holds an older row, which must not be used */
			if (j < i + max && prev[j] + 1 < d)
				d = prev[j] + 1;
			cur[j] = d;
			if (d < best)
				best = d;
		}
		if (best > max)
			return max + 1;
		memcpy(prev + from - 1, cur + from - 1, (size_t)(to - from + 2) * sizeof(*cur));
	}
	return prev[lb] > max ? max + 1 : prev[lb];
}

const char *nearest_name(const char *typed, const char *const *names, size_t n)
{
	int len = (int)strnlen(typed, LEN_MAX + 1), max = len < 6 ? 1 : len / 3;
	const char *nearest = NULL;

	if (!len || len > LEN_MAX)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		int len_i = (int)strnlen(names[i], LEN_MAX + 1);
		int d = len_i <= LEN_MAX ? edit_distance(typed, len, names[i], len_i, max) : max + 1;

		if (d <= max) { /* from here on only a closer one counts */
			max = d - 1;
			nearest = names[i];
		}
	}
	for (size_t i = 0; i < n && !nearest && len >= 3; i++) {
		if (strstr(names[i], typed))
			nearest = names[i];
	}
	return nearest;
}
