#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Clients of sse_server.py, or of any server: a JSON line for each request, with its own times.

  sse_client.py upstream                          a server that answers and closes; prints its port
  sse_client.py early PORT                        opens a connection, prints "open", waits for a line, and
                                                  then makes a request on it
  sse_client.py load PORT UNIX-SOCKET CLIENTS REQUESTS
  sse_client.py get PORT PATH COUNT               one after another, on one connection; prints a line
                                                  when each answer begins, too
"""
import json
import random
import socket
import sys
import threading
import time

lock = threading.Lock()
STYLES = ["chunked", "split", "close", "length", "message", "continue", "proxy"]


def now():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def tell(**what):
    with lock:
        print(json.dumps(what), flush=True)


class Connection:
    def __init__(self, address):
        self.sock = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)
        self.sock.connect(address)
        self.rest = b""

    def until(self, mark):
        """Everything up to and including the mark, and when it came."""
        while mark not in self.rest:
            data = self.sock.recv(65536)
            if not data:
                break
            self.rest += data
        data, mark, self.rest = self.rest.partition(mark)
        return data + mark, now()

    def exactly(self, n):
        while len(self.rest) < n:
            self.rest += self.sock.recv(65536)
        data, self.rest = self.rest[:n], self.rest[n:]
        return data, now()


def chunks_of(c, header):
    """When each part of an answer came, as it comes."""
    if b"chunked" in header:
        while True:
            size, _ = c.until(b"\r\n")
            if int(size, 16) == 0:
                c.until(b"\r\n")
                return
            yield c.exactly(int(size, 16) + 2)[1]
    if b"Content-Length" in header:
        length = int(header.split(b"Content-Length: ")[1].split(b"\r\n")[0])
        if length:
            yield c.exactly(length)[1]
        return
    while True:
        part, at = c.until(b"\n\n")
        if not part:
            return
        yield at


def request(c, path, say=False):
    body = b"body" if "continue" in path else b""
    sent = now()
    c.sock.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (path.encode(), len(body)))
    header, first = c.until(b"\r\n\r\n")
    if b" 100 " in header:
        c.sock.sendall(body)
        header = c.until(b"\r\n\r\n")[0]
    chunks = []
    for at in chunks_of(c, header):
        if say and not chunks:
            tell(begins=path)
        chunks.append(at)
    tell(request="POST " + path.split("?")[0], sent=sent, first=first, chunks=chunks)


def client(port, path, n, seed):
    r, c = random.Random(seed), None
    for _ in range(n):
        style = r.choice(STYLES)
        if not c:
            c = Connection(("127.0.0.1", port))
        request(c, f"/{style}/{r.randrange(1, 12)}/{r.randrange(3, 12)}?seed={seed}")
        if style == "close" or r.random() < 0.3:
            c.sock.close()
            c = None
    c = Connection(path)
    for _ in range(n):
        tokens = r.randrange(1, 6)
        c.sock.sendall(b"%d %d\n" % (tokens, r.randrange(3, 8)))
        for _ in range(tokens):
            c.until(b"\n")


def upstream():
    s = socket.socket()
    s.bind(("127.0.0.1", 0))
    s.listen(64)
    print(s.getsockname()[1], flush=True)
    while True:
        a = s.accept()[0]
        a.recv(4096)
        for _ in range(3):
            a.send(b"HTTP/1.1 200 OK\r\n\r\nslow answer\n")
            time.sleep(0.002)
        a.close()


def early(port):
    c = Connection(("127.0.0.1", port))
    request(c, "/chunked/3/5")
    print("open", flush=True)
    sys.stdin.readline()
    request(c, "/chunked/4/5")


def load(port, path, clients, requests):
    threads = [threading.Thread(target=client, args=(port, path, requests, i)) for i in range(clients)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


what = sys.argv[1]
if what == "upstream":
    upstream()
elif what == "early":
    early(int(sys.argv[2]))
elif what == "load":
    load(int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
else:
    connection = Connection(("127.0.0.1", int(sys.argv[2])))
    for _ in range(int(sys.argv[4])):
        request(connection, sys.argv[3], True)
