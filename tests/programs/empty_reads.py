#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A server with two connections, which answers requests on one at a line of input. Before it reads each, it reads no bytes from
the other, where some are waiting. The path of a request is the time before its client sent it."""
import ctypes
import os
import select
import socket
import time

ROUNDS = 40


def client(port, go):
    other, line = (socket.create_connection(("127.0.0.1", port)) for _ in range(2))
    for _ in range(ROUNDS):
        other.sendall(b"x")
        os.read(go, 1)
        time.sleep(0.002)
        line.sendall(b"GET /%d HTTP/1.1\r\n\r\n" % time.clock_gettime_ns(time.CLOCK_BOOTTIME))
        line.recv(4096)


listener = socket.create_server(("127.0.0.1", 0))
its, go = os.pipe()
print(listener.getsockname()[1])
print("ready", flush=True)
input()
if not os.fork():
    client(listener.getsockname()[1], its)
    os._exit(0)
other, line = (listener.accept()[0] for _ in range(2))
for _ in range(ROUNDS):
    select.select([other], [], [])
    ctypes.CDLL(None).recv(other.fileno(), ctypes.create_string_buffer(1), 0, socket.MSG_DONTWAIT)
    os.write(go, b"x")
    line.recv(4096)
    line.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
