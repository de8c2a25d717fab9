#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A server that streams like an engine, and knows when: one JSON line for each request.

  sse_server.py LOG UNIX-SOCKET UPSTREAM-PORT [LATE-MS]

Prints its port and "ready". A request says in its path how it wants to be answered:

  /STYLE/TOKENS/MILLISECONDS      STYLE: chunked (each part in one call), split (in three calls), close
                                  (ended by the end of the connection), length (one answer of a known
                                  length), message (sendmsg of pieces, and readv), continue (the body is
                                  asked for), proxy (asks the upstream server first)

LATE-MS: so long a connection waits to be accepted, and what it has sent to be read. "seen" is when that had come, at the latest.

The UNIX socket speaks a protocol of lines: "TOKENS MILLISECONDS\\n" is answered by TOKENS lines. Times
are of CLOCK_BOOTTIME, each pair right before and right after a call.
"""
import json
import os
import select
import socket
import sys
import threading
import time

# as in memory of nginx: what ends a chunk is also the end of what ends the answer
LAST = memoryview(b"\r\n0\r\n\r\n")

lock = threading.Lock()
log = open(sys.argv[1], "w", buffering=1)
late = int(sys.argv[4]) / 1000 if len(sys.argv) > 4 else 0


def now():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Request:
    answering = 0  # requests whose line is not written yet

    def __init__(self, sock, name, read):
        with lock:
            Request.answering += 1
        self.sock, self.writes = sock, []
        self.told = {"fd": sock.fileno(), "request": name, "read": read, "bytes_read": 0, "writes": self.writes}

    def write(self, kind, *pieces):
        before = now()
        if len(pieces) > 1:
            n = self.sock.sendmsg(pieces)
        else:
            n = self.sock.send(pieces[0])
        assert n == sum(map(len, pieces))
        self.writes.append([kind, n, before, now()])

    def done(self):
        with lock:
            log.write(json.dumps(self.told) + "\n")
            Request.answering -= 1


def receive(sock, vector=False):
    before = now()
    try:
        if vector:
            piece = bytearray(4096)
            data = bytes(piece[:os.readv(sock.fileno(), [piece])])
        else:
            data = sock.recv(4096)
    except ConnectionResetError:
        data = b""
    return data, [before, now()]


def is_late(sock):
    """Waits while there is something to read or to accept. Returns when it had come, at the latest."""
    if not late:
        return 0
    select.select([sock], [], [])
    seen = now()
    time.sleep(late)
    return seen


def ask_upstream():
    with socket.create_connection(("127.0.0.1", int(sys.argv[3]))) as s:
        s.send(b"POST /upstream HTTP/1.1\r\n\r\n")
        while s.recv(4096):
            pass


def answer(r, style, tokens, pause):
    parts = [b"data: token %d\n\n" % i for i in range(tokens)]
    if style == "length":
        time.sleep(pause)
        body = b"".join(parts)
        r.write("chunk", b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        return
    if style == "proxy":
        ask_upstream()
    if style == "close":
        r.write("header", b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
    else:
        r.write("header", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    for part in parts:
        time.sleep(pause)
        pieces = b"%x\r\n" % len(part), part, b"\r\n"
        if style == "close":
            r.write("chunk", part)
        elif style == "split":
            for i, piece in enumerate(pieces):
                r.write("more" if i else "chunk", piece)
        elif style == "message":
            r.write("chunk", *pieces[:2], LAST[5:])
        else:
            r.write("chunk", b"".join(pieces))
    if style == "message":
        r.write("end", LAST[2:5], LAST[5:])
    elif style != "close":
        r.write("end", b"0\r\n\r\n")


def serve_http(sock):
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    vector = False
    while True:
        seen = is_late(sock)
        data, read = receive(sock, vector)
        if not data:
            break
        method, path = data.split(b" ", 2)[:2]
        style, tokens, ms = path.decode().split("?")[0].strip("/").split("/")
        r = Request(sock, f"{method.decode()} {path.decode().split('?')[0]}", read)
        r.told["bytes_read"] += len(data)
        if late:
            r.told["seen"] = seen
        if style == "continue":
            r.write("header", b"HTTP/1.1 100 Continue\r\n\r\n")
            r.told["bytes_read"] += len(receive(sock)[0])
        answer(r, style, int(tokens), int(ms) / 1000)
        r.done()
        vector = style == "message"
        if style == "close":
            break
    sock.close()


def serve_lines(sock):
    while True:
        data, read = receive(sock)
        if not data:
            break
        r = Request(sock, "request", read)
        r.told["bytes_read"] += len(data)
        tokens, ms = map(int, data.split())
        for _ in range(tokens):
            time.sleep(ms / 1000)
            r.write("chunk", b"token\n")
        r.done()
    sock.close()


def listen(sock, serve):
    sock.listen(64)
    while True:
        is_late(sock)
        accepted = sock.accept()[0]
        threading.Thread(target=serve, args=(accepted,), daemon=True).start()


tcp = socket.socket()
tcp.bind(("127.0.0.1", 0))
unix = socket.socket(socket.AF_UNIX)
unix.bind(sys.argv[2])
threading.Thread(target=listen, args=(tcp, serve_http), daemon=True).start()
threading.Thread(target=listen, args=(unix, serve_lines), daemon=True).start()
print(tcp.getsockname()[1], flush=True)
print("ready", flush=True)
sys.stdin.readline()
# a client has its answer before the line about it is written; one whose client has gone never gets a line
until = time.monotonic() + 5
while Request.answering and time.monotonic() < until:
    time.sleep(0.01)
