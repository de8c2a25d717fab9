# SPDX-License-Identifier: BSD-2-Clause
"""
serve.py with what vLLM's API server and engine have in between them and their clients: uvicorn, FastAPI, uvloop and httptools, and
ZeroMQ between the two processes: sockets of asyncio in the API process; in the engine's a thread that reads requests into a queue, and
one that writes what the engine has to say. All but the plants with a tokenizer.
"""
import asyncio
import os
import queue
import socket
import tempfile
import threading

import uvicorn
import uvloop
import zmq
import zmq.asyncio
from fastapi import FastAPI
from fastapi.responses import StreamingResponse

import serve
from serving import spawn


class ApiPipe:
    def __init__(self, at):
        self.context = zmq.Context()
        self.asyncio = zmq.asyncio.Context.shadow(self.context.underlying)
        self.input = self.bound(zmq.PUSH, at + "/in")
        self.output = self.bound(zmq.PULL, at + "/out")

    def bound(self, kind, path):
        bound = self.asyncio.socket(kind)
        bound.bind("ipc://" + path)
        return bound

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
            threading.Thread(target=target, args=(kind, "ipc://" + path), daemon=True).start()
        self.next = []

    def connected(self, kind, path):
        connected = self.context.socket(kind)
        connected.connect(path)
        return connected

    def read(self, kind, path):
        requests = self.connected(kind, path)
        poller = zmq.Poller()
        poller.register(requests, zmq.POLLIN)
        while True:
            poller.poll()
            self.asked.put_nowait(requests.recv_pyobj())

    def write(self, kind, path):
        outputs = self.connected(kind, path)
        while True:
            outputs.send_pyobj(self.told.get())

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


def run_engine(function, at, *args):
    function(EnginePipe(at), *args)
    os._exit(0)  # whatever the threads are at


def child(function, *args):
    at = tempfile.mkdtemp()
    pipe = ApiPipe(at)
    return spawn(run_engine, function, at, *args), pipe


async def run(api):
    app = FastAPI()

    @app.get("/{name}")
    async def completion(name: str, prompt: int, tokens: int):
        request = await api.begin(name, {"prompt": prompt, "tokens": tokens}, name)
        return StreamingResponse(api.events(*request), media_type="text/event-stream")

    at = socket.socket()
    at.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, http="httptools", log_level="warning", access_log=False))
    task = asyncio.get_running_loop().create_task(api.pipe.take(api.take))
    serve.say_ready(at.getsockname()[1])
    await server.serve(sockets=[at])
    task.cancel()
    await api.pipe.send(None)


if __name__ == "__main__":
    uvloop.install()
    serve.main(child, run)
    os._exit(0)
