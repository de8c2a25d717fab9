#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Two programs that ask each other over TCP: messenger.py listen|connect ADDRESS PORT EXCHANGES PAUSE

Each exchange is a request and its answer, in turns by either side, of lengths that vary, over a new connection after each
fiftieth, and PAUSE seconds after the one before. Prints "ready", and begins with a line of input.
"""
import socket
import sys
import time

PER_CONNECTION = 50


def receive(s, n):
    while n:
        data = s.recv(n)
        if not data:
            sys.exit("messenger.py: the connection was closed")
        n -= len(data)


def exchange(s, i, asks, pause):
    ask, answer = 100 + i % 7, 3000 + i % 11 * 500
    if asks:
        time.sleep(pause)
        s.sendall(b"?" * ask)
        receive(s, answer)
    else:
        receive(s, ask)
        s.sendall(b"!" * answer)


def main():
    side, address, port, count, pause = *sys.argv[1:3], *map(int, sys.argv[3:5]), float(sys.argv[5])
    listens = side == "listen"
    if listens:
        server = socket.create_server((address, port), family=socket.AF_INET6 if ":" in address else socket.AF_INET)
    print("ready", flush=True)
    sys.stdin.readline()
    for first in range(0, count, PER_CONNECTION):
        with (server.accept()[0] if listens else socket.create_connection((address, port))) as s:
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for i in range(first, min(first + PER_CONNECTION, count)):
                exchange(s, i, listens == bool(i % 2), pause)


if __name__ == "__main__":
    main()
