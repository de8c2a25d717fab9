#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A small transformer on the CPU, with PyTorch's own count of the operators it calls.

    torch_model.py GO COUNTS [GRAPH]

Prints "ready", waits until the file GO exists, generates ten tokens and takes a training step, and
writes COUNTS, a JSON object:

    from, to    CLOCK_BOOTTIME before and after, in ns
    counts      calls by operator, as the profiler names them: aten::add
    times       how long each of them took, in us
    names       the profiler's name for each name of at::_ops: add_Tensor is aten::add

With GRAPH, a path, PyTorch writes its own execution trace there, of ten tokens and nothing else. What Model.forward calls is below
"forward" in it.
"""

import collections
import json
import os
import sys
import time

import torch
from torch import nn
from torch.autograd import profiler, profiler_util


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width)
        self.between = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x, mask):
        batch, n, width = x.shape
        size = width // self.heads
        qkv = self.qkv(self.before(x)).view(batch, n, 3, self.heads, size)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        scores = (q @ k.transpose(-2, -1)) / size**0.5
        scores = scores.masked_fill(mask[:n, :n] == 0, float("-inf")).softmax(-1)
        x = x + self.out((scores @ v).transpose(1, 2).reshape(batch, n, width))
        return x + self.down(nn.functional.gelu(self.up(self.between(x))))


class Model(nn.Module):
    def __init__(self, words=100, width=32, heads=4, layers=3):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.register_buffer("mask", torch.ones(64, 64).tril())

    def forward(self, ids):
        x = self.words(ids)
        for block in self.blocks:
            x = block(x, self.mask)
        return self.norm(x) @ self.words.weight.t()


def generate(model, tokens):
    ids = torch.tensor([[1, 2, 3]])
    with torch.no_grad():
        for _ in range(tokens):
            with profiler.record_function("forward"):
                out = model(ids)
            top = torch.topk(out[:, -1], 5)
            chosen = torch.multinomial((top.values / 0.8).softmax(-1), 1)
            ids = torch.cat([ids, top.indices.gather(-1, chosen)], 1)
    return ids


def train(model, ids):
    out = model(ids[:, :-1])
    nn.functional.cross_entropy(out.flatten(0, 1), ids[:, 1:].flatten()).backward()
    with torch.no_grad():
        for weights in model.parameters():
            weights.sub_(weights.grad, alpha=0.1)


def write_graph(model, path):
    kind = getattr(torch.profiler, "ExecutionGraphObserver", None) or torch.profiler.ExecutionTraceObserver
    observer = kind()
    observer.register_callback(path)
    observer.start()
    generate(model, 10)
    observer.stop()
    observer.unregister_callback()


def main():
    go, path, *graph = sys.argv[1:]
    torch.set_num_threads(1)
    # it merges an operator with its only child when both have one name (sum and sum_dim_IntList)
    profiler_util.EventList._remove_dup_nodes = lambda self: None
    model = Model()
    print("ready", flush=True)
    while not os.path.exists(go):
        time.sleep(0.01)

    if graph:
        write_graph(model, graph[0])
        return
    start = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    with profiler.profile(use_kineto=False) as p:
        train(model, generate(model, 10))
    end = time.clock_gettime_ns(time.CLOCK_BOOTTIME)

    names = {}
    for schema in torch._C._jit_get_all_schemas():
        space, name = schema.name.split("::", 1)
        if space == "aten":
            overload = "_" + schema.overload_name if schema.overload_name else ""
            names[name + overload] = schema.name
    counts = collections.Counter(e.name for e in p.function_events)
    times = collections.defaultdict(list)
    for e in p.function_events:
        times[e.name].append(e.time_range.elapsed_us())
    with open(path, "w") as f:
        json.dump({"from": start, "to": end, "counts": counts, "names": names, "times": times}, f)


main()
