#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Another host, as far as its network and its clock go: host.py SECONDS NANOSECONDS

Prints the process id of a child that is in a network namespace of its own, and in a time namespace whose CLOCK_BOOTTIME is
ahead by that. It sleeps until it is killed. unshare(1) knows only whole seconds.
"""
import ctypes
import os
import signal
import sys

CLONE_NEWTIME, CLONE_NEWNET = 0x80, 0x40000000
PR_SET_PDEATHSIG = 1


def main():
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWTIME | CLONE_NEWNET):
        sys.exit(f"host.py: unshare: {os.strerror(ctypes.get_errno())}")
    # before a process is in it: the next child will be the first
    with open("/proc/self/timens_offsets", "w", encoding="ascii") as f:
        f.write(f"boottime {sys.argv[1]} {sys.argv[2]}\n")
    pid = os.fork()
    if not pid:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        os.execlp("sleep", "sleep", "600")
    print(pid, flush=True)
    os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
