#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""slow_python.py LIBRARY SEED STEPS: steps of six functions in Python that take as long as each other, one of which takes
much longer in one step of 20.

A step is a call of plant_call() of LIBRARY, which calls back. Prints "ready", begins once there is a line on its standard
input, prints the names of the function and of those that it alone calls, and the numbers of the steps in which it was slow, and ends with the next line.
The seed decides which function it is, and in which steps. A function does a fixed amount of work, which takes about a
millisecond of CPU time on this machine; each does its work in another way.
"""
import ctypes
import hashlib
import sys

import slow

SLOW = 25  # times as long
sink = 0


def plant_loop(n):
    """In itself."""
    v = sink
    for i in range(n):
        v = (v * 31 + i) % 65521
    return v


class Model:
    def plant_method(self, n):
        """In the methods of its own that it calls."""
        return sum(self.part(n // 4) for _ in range(4))

    def part(self, n):
        v = sink
        for i in range(n):
            v = (v * 37 + i) % 65521
        return v


def plant_native(n):
    """In an extension in C."""
    return hashlib.pbkdf2_hmac("sha256", b"plant", b"salt", max(1, n))


def plant_sorted(n):
    """In C that calls Python."""
    return sorted(range(n), key=lambda i: -i % 127)


def plant_recursive(n):
    """By way of itself."""
    if n <= 500:
        v = sink
        for i in range(n):
            v = (v * 41 + i) % 65521
        return v
    return plant_recursive(n // 2) + plant_recursive(n - n // 2)


def plant_generator(n):
    """In a generator."""
    return sum(i * i % 65521 for i in range(n))


model = Model()
# Each with the functions that it alone calls: the innermost one that holds the time is the one to be named.
FUNCTIONS = {
    plant_loop: ["plant_loop"],
    model.plant_method: ["Model.plant_method", "Model.part"],
    plant_native: ["plant_native"],
    plant_sorted: ["plant_sorted", "plant_sorted.<locals>.<lambda>"],
    plant_recursive: ["plant_recursive"],
    plant_generator: ["plant_generator", "plant_generator.<locals>.<genexpr>"],
}


def main():
    library = ctypes.PyDLL(sys.argv[1])
    work = [(f, slow.usual_work(f, 0.001)) for f in FUNCTIONS]

    def step(chosen):
        def functions():
            for f, n in work:
                f(SLOW * n if f is chosen else n)

        library.plant_call(ctypes.PYFUNCTYPE(None)(functions))

    slow.run(FUNCTIONS, int(sys.argv[2]), int(sys.argv[3]), step)


if __name__ == "__main__":
    main()
