# SPDX-License-Identifier: BSD-2-Clause
"""What serve.py and the engine that it starts have in common."""
import asyncio
import collections
import multiprocessing
import signal
import time


def now():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def say(*words):
    """A line, at once: threads and processes do so."""
    print(" ".join(map(str, words)) + "\n", end="", flush=True)


def spawn(function, *args):
    process = multiprocessing.get_context("spawn").Process(target=function, args=args)
    process.start()
    return process


def child(function, *args):
    """Returns the process and its pipe."""
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    return spawn(function, theirs, *args), ours


def load(library):
    """What the engine is known by."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        __import__(library)
    except ImportError:
        pass  # it is no Python module


class Refusals:
    """For how long an engine lets each request that waits not in, and why; it says so as it lets it in."""

    def __init__(self):
        self.at, self.why, self.ns = 0, None, {}

    def begin(self):
        """The engine looks at its queue: those that were left in it were refused since then."""
        at = now()
        for refused in self.ns.values():
            if self.why:
                refused[self.why] += at - self.at
        self.at = at

    def admit(self, request_id):
        refused = self.ns.pop(request_id, collections.Counter())
        say("refused", request_id, *(refused[why] for why in ("slot", "tokens", "kv")))

    def end(self, why, waiting):
        self.why = why
        for request_id in waiting:
            self.ns.setdefault(request_id, collections.Counter())


class State:
    """What the API process keeps of a request that it passes on."""

    def __init__(self):
        self.queue = asyncio.Queue()
