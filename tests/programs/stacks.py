#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Python stacks that a test knows. Prints "ready", waits for a line of input, does one of these, prints "done" and waits until it is killed.

    stacks.py plant N       the function slow_N of ten takes ten times the others' time
    stacks.py extension     C code (hashlib) that Python code calls, and C code (sorted) that calls Python code
    stacks.py deadlock      two threads wait for each other's lock, for ever
    stacks.py locks         two threads wait for each other's lock, with a timeout, again and again
    stacks.py fork          a child does the work, of functions that the parent has not called
    stacks.py exec          runs "stacks.py plant 3" in the same process
    stacks.py circle KIND   the list of frames is made to lead somewhere else meanwhile (CPython 3.11 only)
"""
import ctypes
import hashlib
import os
import signal
import sys
import threading
import time


def work(n):
    total = 0
    for i in range(n):
        total += i * i
    return total


def repeat(seconds, f):
    end = time.process_time() + seconds
    while time.process_time() < end:
        f()


def plant(chosen):
    # each its own code object, and its own line
    for i in range(10):
        exec(f"def slow_{i}(n):\n    return work(n)\n", globals())
    functions = [globals()[f"slow_{i}"] for i in range(10)]

    def step():
        for i, f in enumerate(functions):
            f(20000 if i == chosen else 2000)

    repeat(0.6, step)


def digest():
    return hashlib.pbkdf2_hmac("sha256", b"x" * 100, b"salt", 10000)


def key(x):
    return work(2000)


def extension():
    repeat(0.4, digest)
    repeat(0.4, lambda: sorted(range(20), key=key))


def locks(timeout):
    first, second = threading.Lock(), threading.Lock()
    gate = threading.Barrier(2)

    def one():
        with first:
            gate.wait()
            return second.acquire(timeout=timeout)

    def other():
        with second:
            gate.wait()
            return first.acquire(timeout=timeout)

    threads = [threading.Thread(target=f, daemon=True) for f in (one, other)]
    for t in threads:
        t.start()
    return threads


def deadlock():
    locks(-1)
    # both have their first lock, and soon wait for the other one
    while sum(f.f_code.co_name in ("one", "other") for f in sys._current_frames().values()) < 2:
        time.sleep(0.01)


def finish():
    print("done", flush=True)
    while True:
        signal.pause()


def in_child():
    repeat(0.5, lambda: work(2000))
    os._exit(finish())


def fork():
    pid = os.fork()
    if not pid:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: ends with its parent
        in_child()
    os.waitpid(pid, 0)


def circle(kind):
    def word(address):
        return ctypes.c_uint64.from_address(address)

    ctypes.pythonapi.PyThreadState_Get.restype = ctypes.c_void_p
    cframe = word(ctypes.pythonapi.PyThreadState_Get() + 56)

    def caller():
        return word(word(cframe.value + 8).value + 48).value

    def changed():
        frame = caller()
        previous = word(frame + 48)
        kept = previous.value
        previous.value = {"circle": frame, "wild": 0x4141414141414141, "kernel": 0xffffffff81000000,
                          "odd": frame + 8, "stack": cframe.value}[kind]
        hashlib.pbkdf2_hmac("sha256", b"x" * 100, b"salt", 100000)
        previous.value = kept

    repeat(0.4, changed)


def main():
    mode, args = sys.argv[1], sys.argv[2:]
    print("ready", flush=True)
    if not os.environ.get("STARTED"):
        sys.stdin.readline()
    if mode == "plant":
        plant(int(args[0]))
    elif mode == "extension":
        extension()
    elif mode == "locks":
        for _ in range(10):
            for t in locks(0.05):
                t.join()
    elif mode == "deadlock":
        deadlock()
    elif mode == "fork":
        fork()
    elif mode == "exec":
        os.environ["STARTED"] = "1"
        os.execv(sys.executable, [sys.executable, sys.argv[0], "plant", "3"])
    elif mode == "circle":
        circle(args[0])
    finish()


main()
