// SPDX-License-Identifier: BSD-2-Clause
#include "engine/answers.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "engine/inspect.h"
#include "util/clock.h"

#define WAIT_MS 10

int answers_read(int fd, uint64_t end_ns, const struct answers *as)
{
	static struct inspect_answer a;
	uint64_t now, served = clock_mono_ns();
	bool late = false;
	int err = 0;

	while (!err) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		ssize_t n;

		now = clock_mono_ns();
		if (as->wait && now - served >= WAIT_MS * NSEC_PER_MSEC) {
			served = now;
			err = as->wait(as->wait_arg);
			if (err)
				return err;
		}
		/* the socket keeps what it has, and takes no more */
		if (!late && now >= end_ns)
			late = !shutdown(fd, SHUT_RD);
		if (!late && poll(&p, 1, WAIT_MS) <= 0)
			continue;
		n = recv(fd, &a, sizeof(a), MSG_DONTWAIT);
		if (n > 0)
			err = as->take(&a, (size_t)n, as->arg);
		else if (late && (!n || errno != EINTR))
			err = -ETIMEDOUT;
		else if (!n || (errno != EINTR && errno != EAGAIN))
			err = -EPROTO;
	}
	return err > 0 ? 0 : err;
}
