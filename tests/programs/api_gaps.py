#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""A server of two processes, as vLLM is: this one has the other make each step, and before it does something else. As `gaps`:

    api_gaps.py GAPS N [PLANT...]

GAPS: that program. Prints its process id and "ready", waits for a line, and prints one for each step but the first: the plant,
the thread in the way, and for how long it was (ns).
"""
import os
import socket
import subprocess
import sys
import threading
import time

PLANT_NS = 10_000_000


def none():
    return threading.get_native_id(), 0


def spin():
    start = time.thread_time_ns()
    while time.thread_time_ns() < start + PLANT_NS:
        pass
    return threading.get_native_id(), time.thread_time_ns() - start


def sleep():
    start = time.monotonic_ns()
    time.sleep(PLANT_NS / 1e9)
    return threading.get_native_id(), time.monotonic_ns() - start


def tokenizer_start():
    """A third process, which computes for each byte that it reads from a pipe. Returns the ends that are kept here."""
    asked, ask = os.pipe()
    answer, answered = os.pipe()
    if os.fork():
        os.close(asked)
        os.close(answered)
        return ask, answer
    os.close(ask)
    while os.read(asked, 1):
        os.write(answered, b"%d %d" % spin())
    os._exit(0)


def main():
    ask, answer = tokenizer_start()
    here, there = socket.socketpair()
    engine = subprocess.Popen([sys.argv[1], "orders"], stdin=there, stdout=there)
    there.close()

    def step():
        here.sendall(b"x")
        here.recv(1)

    def tokenizer():
        os.write(ask, b"x")
        return map(int, os.read(answer, 64).split())

    print(f"{engine.pid}\nready", flush=True)
    sys.stdin.readline()
    step()
    for _ in range(int(sys.argv[2])):
        for plant in sys.argv[3:]:
            tid, ns = {"none": none, "spin": spin, "sleep": sleep, "tokenizer": tokenizer}[plant]()
            step()
            print(plant, tid, ns)
    here.close()
    engine.wait()


main()
