// SPDX-License-Identifier: BSD-2-Clause
/* The library of dl.c. */

int dl_work(int n);

int dl_work(int n)
{
	return n;
}
