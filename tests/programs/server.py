#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A server with workers that execute commands, each a line of stdin, and answer with a line.

  fork W        a worker named W is forked             -> its pid
  exec W        ... and starts this program again      -> its pid
  W calls N     it calls getppid() N times             -> "done"
  W thread T    starts a thread named T                -> its tid
  W T N         its thread T calls getppid() N times   -> "done"
  W touch N     it maps N pages, writes to each, and unmaps them -> "done"
  W fork V N    it forks a process that calls getppid() N times and exits -> its pid
  W end         it exits                               -> "done"

The server itself is the worker "server".
"""
import ctypes
import mmap
import os
import queue
import socket
import sys
import threading

libc = ctypes.CDLL(None)
PR_SET_NAME = 15


def name_thread(name):
    libc.prctl(PR_SET_NAME, name.encode(), 0, 0, 0)


def call(n):
    for _ in range(n):
        os.getppid()


def touch(n):
    with mmap.mmap(-1, n * mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as m:
        m.madvise(mmap.MADV_NOHUGEPAGE)
        for i in range(n):
            m[i * mmap.PAGESIZE] = 1


class Worker:
    def __init__(self, name):
        self.threads = {}
        name_thread(name)

    def thread(self, name):
        q, done = queue.Queue(), queue.Queue()

        def run():
            name_thread(name)
            done.put(threading.get_native_id())
            while True:
                call(q.get())
                done.put("done")

        threading.Thread(target=run, daemon=True).start()
        self.threads[name] = (q, done)
        return done.get()

    def do(self, words):
        if words[0] == "calls":
            call(int(words[1]))
            return "done"
        if words[0] == "touch":
            touch(int(words[1]))
            return "done"
        if words[0] == "thread":
            return self.thread(words[1])
        if words[0] == "fork":
            pid = os.fork()
            if not pid:
                name_thread(words[1])
                call(int(words[2]))
                os._exit(0)
            os.waitpid(pid, 0)
            return pid
        q, done = self.threads[words[0]]
        q.put(int(words[1]))
        return done.get()


def work(name, fd):
    worker = Worker(name)
    with socket.socket(fileno=fd) as s, s.makefile("rw") as f:
        for line in f:
            if line.split()[0] == "end":
                break
            print(worker.do(line.split()), file=f, flush=True)
    os._exit(0)


def start(how, name, workers):
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid:
        theirs.close()
        workers[name] = (pid, ours.makefile("rw"))
        ours.close()
        return pid
    ours.close()
    for _, f in workers.values():
        f.close()
    if how == "exec":
        os.set_inheritable(theirs.fileno(), True)
        os.execv(sys.executable, [sys.executable, __file__, name, str(theirs.fileno())])
    work(name, theirs.detach())


def serve():
    workers = {}
    server = Worker("server")
    print(os.getpid(), flush=True)
    for line in sys.stdin:
        who, *words = line.split()
        if who in ("fork", "exec"):
            print(start(who, words[0], workers), flush=True)
        elif who == "server":
            print(server.do(words), flush=True)
        else:
            pid, f = workers[who]
            print(*words, file=f, flush=True)
            if words == ["end"]:
                os.waitpid(pid, 0)
                f.close()
                del workers[who]
                print("done", flush=True)
            else:
                print(f.readline().strip(), flush=True)


if len(sys.argv) > 2:
    work(sys.argv[1], int(sys.argv[2]))
else:
    serve()
