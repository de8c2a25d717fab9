#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""inftrace top on a terminal: what it draws, and how it leaves.

    top_screen.py INFTRACE ENGINE [ARG ...]

ENGINE is a command that generates tokens until it receives a signal. Prints a result for each case."""
import re
import signal
import subprocess
import sys
import time

from screen import Terminal

INFTRACE, ENGINE = sys.argv[1], sys.argv[2:]
UTF8 = {"LC_ALL": "C.UTF-8"}
failed = False


def result(name, wrong):
    global failed
    if wrong:
        failed = True
        print("not ok %s - %s" % (name, wrong))
    else:
        print("ok %s" % name)
    sys.stdout.flush()


def engine():
    return subprocess.Popen(ENGINE, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL)


def attached(process, *options, columns=80, lines=24, env=None):
    """On the terminal, with steps on the screen."""
    t = Terminal([INFTRACE, "top", "-d", "0.5", *options, "-p", str(process.pid)], columns, lines,
                 env or UTF8)
    t.wait_for(lambda t: steps(t))
    return t


def steps(t):
    """How many the screen shows; 0: none."""
    m = re.search(r"steps (\d+)", "\n".join(t.screen.text()))
    return int(m.group(1)) if t.screen.alternate and m else 0


def elapsed(t):
    return t.screen.text()[0].split()[-1] if t.screen.alternate else None


def why(t, code=0):
    """What is wrong after its end."""
    got = t.wait_exit()
    if got != code:
        return "exit code %s, not %s; %s" % (got, code, t.screen.normal_text[-300:])
    return "; ".join(t.restored())


def case_keys(process):
    t = attached(process)
    wanted = ("llama.cpp", "steps/s", "time per output token", "Time of steps", "cpu", "█", "Slow steps", "q quit")

    def missing(t):
        shown = "\n".join(t.screen.text())
        return [part for part in wanted if part not in shown]

    t.wait_for(lambda t: not missing(t), 20)
    wrong = missing(t)
    result("80 x 24: what is drawn", "%s missing in:\n%s" % (wrong, "\n".join(t.screen.text())) if wrong else "")

    t.press("o")
    ok = t.wait_for(lambda t: any(line.startswith("System calls") for line in t.screen.text()), 10)
    result("o: system calls first", "" if ok else "\n".join(t.screen.text()))

    t.press("p")
    t.wait_for(lambda t: "PAUSED" in t.screen.text()[23], 10)
    before = (elapsed(t), steps(t))
    t.read(2.5)
    result("p: the screen stands still", "" if before == (elapsed(t), steps(t)) else "it does not")
    t.press("p")
    t.wait_for(lambda t: steps(t) > before[1], 20)
    result("p again: it goes on", "" if steps(t) > before[1] else "it does not")

    for columns, lines in ((40, 12), (132, 50), (20, 5), (80, 24)):
        t.resize(columns, lines)
        t.wait_for(lambda t: t.screen.text()[-1].startswith("q quit"), 10)
        wrong = list(t.screen.errors)
        if not t.screen.text()[-1].startswith("q quit") or not t.screen.text()[0]:
            wrong.append("%r ... %r" % (t.screen.text()[0], t.screen.text()[-1]))
        result("resized to %d x %d" % (columns, lines), "; ".join(wrong))

    t.press("\x1b[A")  # an arrow: not a key that it knows
    t.read(0.5)
    t.press("q")
    wrong = why(t)
    if "steps/s" not in t.screen.normal_text:
        wrong += "; no last word"
    result("q: the terminal is restored", wrong)
    t.end()


def case_signals(process):
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        t = attached(process)
        t.signal(number)
        result("%s: the terminal is restored" % number.name, why(t))
        t.end()
    t = attached(process)
    t.press("\x03")
    result("Ctrl-C: the terminal is restored", why(t))
    t.end()
    for number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGQUIT):
        t = attached(process)
        t.signal(number)
        result("killed by %s: the terminal is restored" % number.name, why(t, -number))
        t.end()


def case_stopped(process):
    t = attached(process)
    for how in ("Ctrl-Z", "SIGSTOP"):
        if how == "Ctrl-Z":
            t.press("\x1a")
        else:
            t.signal(signal.SIGSTOP)
        t.wait_for(lambda t: t.state == "stopped")
        wrong = "; ".join(t.restored()) if how == "Ctrl-Z" else ""
        if t.state != "stopped":
            wrong += "; it is %s" % t.state
        result("%s: stopped%s" % (how, ", the terminal restored" if how == "Ctrl-Z" else ""), wrong)
        t.to_foreground()
        t.wait_for(lambda t: t.state == "continued")
        before = steps(t)
        t.wait_for(lambda t: steps(t) > before, 30)
        result("%s, then fg: the screen again" % how, "" if steps(t) > before else t.state)
    t.press("q")
    result("q after that: the terminal is restored", why(t))
    t.end()


def case_stuck_terminal(process):
    """Nobody reads what it draws: it neither waits nor grows, and ends on request."""
    t = attached(process, "-d", "0.1")
    time.sleep(4)
    t.press("q")
    end = time.monotonic() + 30
    while t.running() and time.monotonic() < end:
        time.sleep(0.1)
    wrong = "it hangs" if t.running() else ""
    t.wait_exit()
    # what was not read is lost, in the middle of a sequence perhaps
    t.screen.errors = []
    result("a terminal that takes nothing: q ends it, the terminal is restored",
           wrong or "; ".join(t.restored()))
    t.end()


def case_crash():
    process = engine()
    t = attached(process)
    process.send_signal(signal.SIGSEGV)
    process.wait()
    result("the target crashes: the terminal is restored", why(t))
    t.end()

    t = Terminal([INFTRACE, "top", "-d", "0.5", "--", "sh", "-c", 'echo said; sleep 1; kill -SEGV $$'], env=UTF8)
    wrong = why(t, 139)
    if "said" not in t.screen.normal_text:
        wrong += "; what the command said is missing"
    result("a COMMAND crashes: the terminal is restored, its words are shown, its exit code is told", wrong)
    t.end()

    t = Terminal([INFTRACE, "top", "-d", "0.5", "--", *ENGINE], env=UTF8)
    t.wait_for(lambda t: steps(t))
    t.press("q")
    result("q ends a COMMAND", why(t))
    t.end()


def case_hostile():
    name = b"\x1b[2J\x07\xc2\x9b1mX\xe2\x80\xae"
    script = "import time; open('/proc/self/comm', 'wb').write(%r); time.sleep(60)" % name
    process = subprocess.Popen([sys.executable, "-c", script])
    time.sleep(0.5)
    t = Terminal([INFTRACE, "top", "-d", "0.2", "-p", str(process.pid)], env=UTF8)
    t.wait_for(lambda t: t.screen.alternate and "engine" in t.screen.text()[0])
    shown = t.screen.text()[0]
    t.press("q")
    wrong = why(t)
    if not shown.startswith("?[2J??1mX"):
        wrong += "; the title is %r" % shown
    result("a name that drives terminals is shown as text", wrong)
    t.end()
    process.kill()
    process.wait()


def case_ascii(process):
    t = attached(process, env={"LC_ALL": "C"})
    shown = "\n".join(t.screen.text())
    t.press("q")
    wrong = why(t)
    if not shown.isascii() or "#" not in shown:
        wrong += "; not ASCII: %r" % shown
    result("without UTF-8: bars of ASCII", wrong)
    t.end()

    t = Terminal([INFTRACE, "top", "-d", "0.5", "-n", "2", "-p", str(process.pid)], env={"TERM": "dumb"})
    t.wait_exit()
    wrong = "" if t.exit_code == 0 and t.screen.normal_text.count("steps/s") == 2 else t.screen.normal_text
    result("a dumb terminal gets blocks of text", wrong or "; ".join(t.restored()))
    t.end()


process = engine()
try:
    case_keys(process)
    case_signals(process)
    case_stopped(process)
    case_stuck_terminal(process)
    case_ascii(process)
    case_crash()
    case_hostile()
    result("the target never noticed", "" if process.poll() is None else "it is gone")
finally:
    process.kill()
    process.wait()
sys.exit(failed)
