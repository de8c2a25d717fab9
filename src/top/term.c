// SPDX-License-Identifier: BSD-2-Clause
#include "top/term.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "util/alloc.h"

#define LEAVE_WAIT_MS 500
#define WIDTH_DEFAULT 80
#define HEIGHT_DEFAULT 24
#define SIZE_LIMIT 1000 /* columns, lines: a terminal that claims more is not believed */

/* xterm control sequences (ctlseqs): alternate screen (1049), cursor (25), wrap at the margin (7)
 */
#define SCREEN "\x1b[?1049h"
#define ENTER "\x1b[?25l\x1b[?7l\x1b[2J"
#define LEAVE "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"
#define HOME "\x1b[H"

static const int fatal_signals[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGQUIT, SIGSYS };
#define FATAL (sizeof(fatal_signals) / sizeof(fatal_signals[0]))

enum key_state {
	KEY_PLAIN,
	KEY_ESCAPE,   /* after ESC */
	KEY_SEQUENCE, /* after ESC [ or ESC O: up to a letter or ~ */
};

struct term {
	int fd;
	bool entered;
	struct termios before;
	struct sigaction fatal_before[FATAL];
	char *out;
	size_t out_len, out_done, out_size;
	enum key_state key_state;
};

/* For the handler of fatal signals. */
static struct {
	volatile sig_atomic_t entered;
	int fd;
	struct termios before;
} screen;

static void on_fatal(int sig)
{
	if (screen.entered) {
		screen.entered = 0;
		if (write(screen.fd, LEAVE, sizeof(LEAVE) - 1) >= 0)
			tcsetattr(screen.fd, TCSANOW, &screen.before);
	}
	/* SA_RESETHAND has restored the default action */
	raise(sig);
}

int term_open(int fd, struct term **ret_term)
{
	const char *name = getenv("TERM");
	struct term *t;
	char path[64];

	if (!isatty(fd))
		return -ENOTTY;
	if (!name || !*name || !strcmp(name, "dumb"))
		return -ENXIO;
	t = xcalloc(1, sizeof(*t));
	/* Reopen: O_NONBLOCK belongs to the open file description, and this one is inherited. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	t->fd = open(path, O_RDWR | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (t->fd < 0 || tcgetattr(t->fd, &t->before)) {
		int err = -errno;

		if (t->fd >= 0)
			close(t->fd);
		free(t);
		return err;
	}
	*ret_term = t;
	return 0;
}

void term_free(struct term *t)
{
	if (!t)
		return;
	term_leave(t);
	close(t->fd);
	free(t->out);
	free(t);
}

static void catch_fatal(struct term *t)
{
	struct sigaction sa = { .sa_handler = on_fatal, .sa_flags = SA_RESETHAND | SA_NODEFER };

	for (size_t i = 0; i < FATAL; i++)
		sigaction(fatal_signals[i], &sa, &t->fatal_before[i]);
}

static void uncatch_fatal(struct term *t)
{
	for (size_t i = 0; i < FATAL; i++)
		sigaction(fatal_signals[i], &t->fatal_before[i], NULL);
}

bool term_flush(struct term *t)
{
	while (t->out_done < t->out_len) {
		ssize_t n = write(t->fd, t->out + t->out_done, t->out_len - t->out_done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return false;
		if (n <= 0) /* the terminal is gone: term_key() will report it */
			break;
		t->out_done += (size_t)n;
	}
	t->out_len = t->out_done = 0;
	return true;
}

static void append(struct term *t, const char *text, size_t len)
{
	if (t->out_len + len > t->out_size) {
		t->out_size = t->out_len + len;
		t->out = xreallocarray(t->out, t->out_size, 1);
	}
	memcpy(t->out + t->out_len, text, len);
	t->out_len += len;
}

void term_enter(struct term *t)
{
	struct termios attributes;
	bool again = t->entered;

	if (!again) {
		screen.fd = t->fd;
		screen.before = t->before;
		catch_fatal(t);
		screen.entered = 1;
		t->entered = true;
	}
	attributes = t->before;
	/* keys arrive at once and without echo, but those that send signals still do */
	attributes.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	attributes.c_cc[VMIN] = 1;
	attributes.c_cc[VTIME] = 0;
	tcsetattr(t->fd, TCSANOW, &attributes);
	t->out_len = t->out_done = 0;
	t->key_state = KEY_PLAIN;
	if (!again)
		append(t, SCREEN, sizeof(SCREEN) - 1);
	append(t, ENTER, sizeof(ENTER) - 1);
	term_flush(t);
}

static bool wait_out(struct term *t)
{
	struct pollfd p = { .fd = t->fd, .events = POLLOUT };

	while (!term_flush(t)) {
		if (poll(&p, 1, LEAVE_WAIT_MS) <= 0)
			return false;
	}
	return true;
}

void term_leave(struct term *t)
{
	sigset_t set, old;

	if (!t->entered)
		return;
	/* in the background each of the following calls would stop us */
	sigemptyset(&set);
	sigaddset(&set, SIGTTOU);
	sigprocmask(SIG_BLOCK, &set, &old);
	tcflow(t->fd, TCOON); /* undoes Ctrl-S */
	if (!wait_out(t))
		tcflush(t->fd, TCOFLUSH);
	t->out_len = t->out_done = 0;
	append(t, LEAVE, sizeof(LEAVE) - 1);
	wait_out(t);
	tcsetattr(t->fd, TCSANOW, &t->before);
	screen.entered = 0;
	t->entered = false;
	uncatch_fatal(t);
	sigprocmask(SIG_SETMASK, &old, NULL);
}

int term_fd(const struct term *t)
{
	return t->fd;
}

int term_key(struct term *t)
{
	unsigned char c;
	ssize_t n;

	for (;;) {
		n = read(t->fd, &c, 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? 0 : -1;
		if (!n)
			return -1;
		switch (t->key_state) {
		case KEY_PLAIN:
			if (c != 0x1b && c)
				return c;
			if (c)
				t->key_state = KEY_ESCAPE;
			break;
		case KEY_ESCAPE:
			t->key_state = c == '[' || c == 'O' ? KEY_SEQUENCE : KEY_PLAIN;
			break;
		case KEY_SEQUENCE:
			if (c >= 0x40 && c <= 0x7e)
				t->key_state = KEY_PLAIN;
			break;
		}
	}
}

void term_size(const struct term *t, unsigned int *ret_width, unsigned int *ret_height)
{
	struct winsize ws = { 0 };

	ioctl(t->fd, TIOCGWINSZ, &ws);
	*ret_width = ws.ws_col && ws.ws_col <= SIZE_LIMIT ? ws.ws_col : WIDTH_DEFAULT;
	*ret_height = ws.ws_row && ws.ws_row <= SIZE_LIMIT ? ws.ws_row : HEIGHT_DEFAULT;
}

void term_draw(struct term *t, const char *text, size_t len)
{
	if (!term_flush(t))
		return;
	append(t, HOME, sizeof(HOME) - 1);
	append(t, text, len);
	term_flush(t);
}
