#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Asks `inftrace serve` on 127.0.0.1 as browsers and attackers do, over plain sockets.

serve_client.py fetch PORT NAME FILE          the whole of it into FILE; prints its size
serve_client.py follow PORT NAME N S          N times in S seconds; prints the size and sha256 of each
serve_client.py ask PORT LINE [HEADER...]     prints the status line and the headers of the answer
serve_client.py hostile PORT NAME FILE SEED   all kinds of abuse; the file can still be fetched after it
"""
import hashlib
import random
import socket
import sys
import time

TIMEOUT_S = 30


def connect(port):
    return socket.create_connection(("127.0.0.1", port), TIMEOUT_S)


def receive_head(sock):
    """(status, head, the received part of the body)"""
    data = b""
    while b"\r\n\r\n" not in data:
        part = sock.recv(65536)
        if not part:
            raise EOFError("closed after %d bytes of an answer" % len(data))
        data += part
    head, rest = data.split(b"\r\n\r\n", 1)
    return int(head.split()[1]), head.decode("latin-1"), rest


def length_of(head):
    for line in head.split("\r\n")[1:]:
        name, _, value = line.partition(":")
        if name.lower() == "content-length":
            return int(value)
    return 0


def fetch(port, name, *headers, method="GET"):
    """(status, head, body)"""
    lines = ["%s /%s HTTP/1.1" % (method, name), "Host: 127.0.0.1:%d" % port, "Connection: close", *headers]
    with connect(port) as sock:
        sock.sendall("\r\n".join(lines).encode() + b"\r\n\r\n")
        status, head, body = receive_head(sock)
        parts = [body]
        while part := sock.recv(1 << 20):
            parts.append(part)
    body = b"".join(parts)
    if method != "HEAD" and len(body) != length_of(head):
        raise EOFError("%d bytes, not the %d it said" % (len(body), length_of(head)))
    return status, head, body


def fetch_file(port, name):
    status, head, body = fetch(port, name, "Origin: https://ui.perfetto.dev")
    if status != 200:
        raise ValueError(head)
    return body


def follow(port, name, n, seconds):
    start = time.monotonic()
    for i in range(n):
        time.sleep(max(0, start + seconds * i / n - time.monotonic()))
        body = fetch_file(port, name)
        print(len(body), hashlib.sha256(body).hexdigest())


def ask(port, line, *headers):
    with connect(port) as sock:
        lines = [line, *(h.replace("PORT", str(port)) for h in headers)]
        sock.sendall("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n")
        sock.shutdown(socket.SHUT_WR)
        print(receive_head(sock)[1])


def attempt(f):
    """A server may close the connection of a client that abuses it, but must not leave it waiting."""
    try:
        f()
    except TimeoutError:
        raise
    except (OSError, EOFError):
        pass


def hostile(port, name, path, seed):
    rng = random.Random(seed)
    content = open(path, "rb").read()
    good = b"GET /%s HTTP/1.1\r\nHost: localhost:%d\r\n\r\n" % (name.encode(), port)

    def reset(sock):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        sock.close()

    def noise():
        with connect(port) as sock:
            sock.sendall(rng.randbytes(rng.randrange(1, 20000)))
            sock.shutdown(socket.SHUT_WR)
            sock.recv(65536)

    def damaged():
        data = bytearray(good)
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        with connect(port) as sock:
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
            receive_head(sock)

    def half():
        sock = connect(port)
        sock.sendall(good[: rng.randrange(len(good))])
        (reset if rng.random() < 0.5 else socket.socket.close)(sock)

    def cut():
        sock = connect(port)
        sock.sendall(good * rng.randrange(1, 100))
        sock.recv(rng.randrange(1, 100000))
        (reset if rng.random() < 0.5 else socket.socket.close)(sock)

    def long_head():
        with connect(port) as sock:
            sock.sendall(b"GET /%s HTTP/1.1\r\nX: " % name.encode() + b"y" * rng.randrange(16384, 200000))
            receive_head(sock)

    def silent_crowd():
        crowd = [connect(port) for _ in range(rng.randrange(1, 40))]
        for sock in crowd:
            sock.close()

    for i in range(300):
        attempt(rng.choice([noise, damaged, half, cut, long_head, silent_crowd]))
    end = time.monotonic() + TIMEOUT_S
    while True:  # connections of the last one may still take all places
        status, head, body = fetch(port, name)
        if status != 503 or time.monotonic() > end:
            break
        time.sleep(0.05)
    if status != 200 or body != content:
        raise ValueError("%d bytes: %s" % (len(body), head))


def main(command, port, *args):
    port = int(port)
    if command == "fetch":
        body = fetch_file(port, args[0])
        with open(args[1], "wb") as out:
            out.write(body)
        print(len(body))
    elif command == "follow":
        follow(port, args[0], int(args[1]), float(args[2]))
    elif command == "ask":
        ask(port, *args)
    elif command == "hostile":
        hostile(port, args[0], args[1], int(args[2]))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
