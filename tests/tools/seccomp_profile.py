#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs a command under a container runtime's seccomp profile that forbids some system calls, as contrib/seccomp.json does.

    seccomp_profile.py PROFILE COMMAND [ARG...]
"""

import ctypes
import errno
import json
import os
import re
import struct
import subprocess
import sys

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD, JUMP_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, ERRNO = 0x7FFF0000, 0x00050000

with open(sys.argv[1]) as f:
    profile = json.load(f)
headers = subprocess.run(["cc", "-dM", "-E", "-include", "sys/syscall.h", "-"], input="", capture_output=True, text=True, check=True).stdout
numbers = dict(re.findall(r"#define __NR_(\w+) (\d+)", headers))
assert profile["defaultAction"] == "SCMP_ACT_ALLOW" and all(s["action"] == "SCMP_ACT_ERRNO" for s in profile["syscalls"])
forbidden = [int(numbers[n]) for s in profile["syscalls"] for n in s["names"]]

code = [(LOAD, 0, 0, 0)]
code += [(JUMP_EQUAL, len(forbidden) - i, 0, n) for i, n in enumerate(forbidden)]
code += [(RETURN, 0, 0, ALLOW), (RETURN, 0, 0, ERRNO | errno.EPERM)]
filters = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *c) for c in code))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(code), ctypes.addressof(filters)))
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0):
    sys.exit("seccomp_profile.py: " + os.strerror(ctypes.get_errno()))
os.execvp(sys.argv[2], sys.argv[2:])
