// SPDX-License-Identifier: BSD-2-Clause
#include "hooked_lib.h"

struct sums meet_there(struct place *p)
{
	return meet(p, 1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 6, 7, 8);
}
