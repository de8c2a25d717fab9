#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""serve_client.py PORT REQUESTS GAP_MS TOKENS [SLOW_EVERY [CLOSE_EVERY]]

Asks tests/engines/serve_driver -H, or serve.py: requests that arrive at random, GAP_MS apart on average, each with a connection of its
own and up to TOKENS tokens of an answer. Every SLOW_EVERYth has large parts, which its client reads slowly; every
CLOSE_EVERYth asks for many, and closes the connection after the first of them (0: none). Prints a
line of JSON for each: its own clock (CLOCK_BOOTTIME) as it connected, right before it sent, and as it read the first and the last part."""

import json
import random
import socket
import sys
import threading
import time

lock = threading.Lock()


def now():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def ask(port, name, prompt, tokens, slow, closes):
    told = {"name": name, "slow": slow, "closes": closes, "connected": now()}
    with socket.socket() as s:
        if slow:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.connect(("127.0.0.1", port))
        pad = 40000 if slow else 0
        told["sent"] = now()
        s.sendall(f"GET /{name}?prompt={prompt}&tokens={tokens}&pad={pad} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        answer = b""
        while not answer.endswith(b"\r\n0\r\n\r\n"):
            part = s.recv(4096)
            if not part:
                break
            if (answer + part).partition(b"\r\n\r\n")[2]:
                told.setdefault("first", now())
            answer += part
            if closes and b"x\n" in answer:
                break
            if slow:
                time.sleep(0.002)
    told |= {"last": now(), "whole": answer.endswith(b"0\r\n\r\n"), "parts": answer.count(b"x\n\r\n")}
    with lock:
        print(json.dumps(told), flush=True)


def main():
    port, requests, gap_ms, tokens, slow, close, *_ = (*map(int, sys.argv[1:]), 0, 0)
    draw = random.Random(port if not requests else requests)
    threads = []
    for name in range(requests):
        closes = bool(close) and name % close == close - 1
        t = threading.Thread(target=ask, args=(port, name, draw.randint(1, 80), 200 if closes else draw.randint(2, tokens),
                                               bool(slow) and name % slow == slow - 1, closes))
        t.start()
        threads.append(t)
        time.sleep(draw.expovariate(1 / gap_ms) / 1000 if gap_ms else 0)
    for t in threads:
        t.join()


main()
