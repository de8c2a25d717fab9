# SPDX-License-Identifier: BSD-2-Clause
"""A terminal that shows what a program under test draws. It only knows the escape sequences listed
here: any other one, or a control byte, is an error of the program."""
import codecs
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
import unicodedata


class Screen:
    """The two buffers of a terminal: the one with the shell, and the alternate one."""

    def __init__(self, columns, lines):
        self.alternate = False
        self.cursor_shown = True
        self.wrap = True
        self.errors = []
        self.styles = set()
        self.decoder = codecs.getincrementaldecoder("utf-8")("strict")
        self.pending = ""
        self.normal_text = ""
        self.resize(columns, lines)

    def resize(self, columns, lines):
        self.columns, self.lines = columns, lines
        self.clear()

    def clear(self):
        self.cells = [[" "] * self.columns for _ in range(self.lines)]
        self.x = self.y = 0

    def text(self):
        return ["".join(row).rstrip() for row in self.cells]

    def feed(self, data):
        try:
            self.pending += self.decoder.decode(data)
        except UnicodeDecodeError:
            self.errors.append("bytes that are no UTF-8: %r" % data[:12])
            self.decoder.reset()
            self.pending += data.decode("utf-8", "replace")
        while self.pending:
            if self.pending[0] == "\x1b":
                m = re.match(r"\x1b\[(\??)([0-9;]*)([A-Za-z])", self.pending)
                if not m:
                    if re.fullmatch(r"\x1b(\[\??[0-9;]*)?", self.pending):
                        return  # the rest comes
                    self.errors.append("escape sequence %r" % self.pending[:12])
                    self.pending = self.pending[1:]
                    continue
                self.pending = self.pending[m.end():]
                self.sequence(*m.groups())
            else:
                self.character(self.pending[0])
                self.pending = self.pending[1:]

    def sequence(self, private, numbers, letter):
        if private and letter in "hl" and numbers in ("1049", "25", "7"):
            on = letter == "h"
            if numbers == "1049":
                self.alternate = on
                self.clear()
            elif numbers == "25":
                self.cursor_shown = on
            else:
                self.wrap = on
        elif not private and letter == "H" and not numbers:
            self.x = self.y = 0
        elif not private and letter == "J" and numbers == "2":
            self.cells = [[" "] * self.columns for _ in range(self.lines)]
        elif not private and letter == "K" and not numbers and self.alternate:
            self.cells[self.y][self.x:] = [" "] * (self.columns - self.x)
        elif not private and letter == "m" and numbers in ("0", "1", "2", "7"):
            self.styles = set() if numbers == "0" else self.styles | {numbers}
        else:
            self.errors.append("sequence %s%s%s" % (private, numbers, letter))

    def character(self, c):
        if not self.alternate:
            self.normal_text += c
            return
        if c == "\r":
            self.x = 0
        elif c == "\n":
            self.y += 1
            if self.y >= self.lines:
                self.errors.append("scrolled")
                self.y = self.lines - 1
        elif unicodedata.category(c) in ("Cc", "Cf", "Mn", "Me"):
            self.errors.append("character %r" % c)
        else:
            width = 2 if unicodedata.east_asian_width(c) in "WF" else 1
            if self.x + width > self.columns:
                self.errors.append("beyond the margin: %r in line %d" % (c, self.y))
                return
            self.cells[self.y][self.x] = c
            if width == 2:
                self.cells[self.y][self.x + 1] = ""
            self.x += width


def lead(slave, command, env, report):
    """As a shell does: its own session, and the program as the job in the foreground. Reports the pid,
    and how the program ends."""
    os.setsid()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    for fd in range(3):
        os.dup2(slave, fd)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    pid = os.fork()
    if not pid:
        os.setpgid(0, 0)
        os.tcsetpgrp(0, os.getpid())
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        os.execvpe(command[0], command, env)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGUSR1, lambda *_: (os.tcsetpgrp(0, pid), os.killpg(pid, signal.SIGCONT)))
    os.write(report, b"pid %d\n" % pid)
    while True:
        _, status = os.waitpid(pid, os.WUNTRACED | os.WCONTINUED)
        if os.WIFSTOPPED(status):
            os.tcsetpgrp(0, os.getpid())
            os.write(report, b"stopped\n")
        elif os.WIFCONTINUED(status):
            os.write(report, b"continued\n")
        else:
            os.write(report, b"exit %d\n" % os.waitstatus_to_exitcode(status))
            os._exit(0)


class Terminal:
    """A program on a terminal of its own."""

    def __init__(self, command, columns=80, lines=24, env=None):
        self.master, self.slave = pty.openpty()  # the slave is kept open, to look at its attributes
        self.screen = Screen(columns, lines)
        self.set_size(columns, lines)
        self.before = termios.tcgetattr(self.slave)
        self.events, report = os.pipe()
        self.leader = os.fork()
        if not self.leader:
            try:
                lead(self.slave, command, {**os.environ, "TERM": "xterm", **(env or {})}, report)
            finally:
                os._exit(127)
        os.close(report)
        self.state, self.exit_code = "running", None
        self.pid = int(os.read(self.events, 64).split()[1])

    def set_size(self, columns, lines):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def resize(self, columns, lines):
        self.screen.resize(columns, lines)
        self.set_size(columns, lines)  # which sends SIGWINCH

    def read(self, seconds):
        """What is drawn and happens within that time."""
        end = time.monotonic() + seconds
        while self.exit_code is None:
            left = end - time.monotonic()
            ready = select.select([self.master, self.events], [], [], max(left, 0))[0]
            if not ready:
                return
            if self.master in ready:
                self.screen.feed(os.read(self.master, 65536))
            elif self.events in ready:
                for event in os.read(self.events, 4096).decode().splitlines():
                    if event.startswith("exit"):
                        self.state, self.exit_code = "exited", int(event.split()[1])
                    else:
                        self.state = event
        while select.select([self.master], [], [], 0.2)[0]:
            self.screen.feed(os.read(self.master, 65536))

    def wait_for(self, condition, seconds=60):
        """Whether the condition of this terminal comes true before the time is over, or the program."""
        end = time.monotonic() + seconds
        while not condition(self) and time.monotonic() < end and self.exit_code is None:
            self.read(0.1)
        return condition(self)

    def press(self, key):
        os.write(self.master, key.encode())

    def signal(self, number):
        os.kill(self.pid, number)

    def to_foreground(self):
        """What fg does in a shell."""
        os.kill(self.leader, signal.SIGUSR1)

    def running(self):
        """Without a look at what it draws."""
        try:
            with open("/proc/%d/stat" % self.pid) as f:
                return f.read().rpartition(") ")[2][0] != "Z"
        except FileNotFoundError:
            return False

    def wait_exit(self, seconds=60):
        """The exit code, -N of signal N; None when it still runs."""
        self.wait_for(lambda t: t.exit_code is not None, seconds)
        return self.exit_code

    def restored(self):
        """What is not as it was before: an empty list if all is well."""
        wrong = list(self.screen.errors)
        if termios.tcgetattr(self.slave) != self.before:
            wrong.append("attributes of the terminal")
        if self.screen.alternate:
            wrong.append("alternate screen")
        if not self.screen.cursor_shown:
            wrong.append("cursor hidden")
        if not self.screen.wrap:
            wrong.append("no wrapping")
        if self.screen.styles:
            wrong.append("style")
        return wrong

    def end(self):
        if self.exit_code is None:
            self.signal(signal.SIGKILL)
            self.wait_exit(10)
        os.kill(self.leader, signal.SIGKILL)
        os.waitpid(self.leader, 0)
        for fd in (self.master, self.slave, self.events):
            os.close(fd)
