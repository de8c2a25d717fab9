# SPDX-License-Identifier: BSD-2-Clause
"""The pipe between serve.py and its engine over ZeroMQ, as vLLM has it: sockets of asyncio in the API process; in the engine's a thread that
reads requests into a queue, and one that writes what the engine has to say."""
import os
import queue
import tempfile
import threading

import zmq
import zmq.asyncio

from serving import spawn


class ApiPipe:
    def __init__(self, at):
        self.context = zmq.Context()
        self.asyncio = zmq.asyncio.Context.shadow(self.context.underlying)
        self.input = self.bound(zmq.PUSH, at + "/in")
        self.output = self.bound(zmq.PULL, at + "/out")

    def bound(self, kind, path):
        socket = self.asyncio.socket(kind)
        socket.bind("ipc://" + path)
        return socket

    def send(self, what):
        return self.input.send_pyobj(what)

    def recv(self):
        """Before the loop runs."""
        return zmq.Socket.shadow(self.output.underlying).recv_pyobj()

    async def take(self, cb):
        while True:
            cb(await self.output.recv_pyobj())


class EnginePipe:
    def __init__(self, at):
        self.context = zmq.Context()
        self.asked, self.told = queue.Queue(), queue.Queue()
        for target, kind, path in ((self.read, zmq.PULL, at + "/in"), (self.write, zmq.PUSH, at + "/out")):
            threading.Thread(target=target, args=(kind, "ipc://" + path), daemon=True, name=target.__name__).start()
        self.next = []

    def read(self, kind, path):
        socket = self.context.socket(kind)
        socket.connect(path)
        poller = zmq.Poller()
        poller.register(socket, zmq.POLLIN)
        while True:
            poller.poll()
            self.asked.put_nowait(socket.recv_pyobj())

    def write(self, kind, path):
        socket = self.context.socket(kind)
        socket.connect(path)
        while True:
            socket.send_pyobj(self.told.get())

    def poll(self, timeout):
        if not self.next:
            try:
                self.next.append(self.asked.get(timeout is None))
            except queue.Empty:
                return False
        return True

    def recv(self):
        return self.next.pop() if self.next else self.asked.get()

    def send(self, what):
        self.told.put_nowait(what)


def run(function, at, *args):
    function(EnginePipe(at), *args)
    os._exit(0)  # whatever the threads are at


def child(function, *args):
    at = tempfile.mkdtemp()
    pipe = ApiPipe(at)
    return spawn(run, function, at, *args), pipe
