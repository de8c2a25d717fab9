#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""slow_torch.py SEED STEPS: a generate loop of PyTorch, in which 20 functions take as long as each other in a token, one of
which takes much longer in one token of 20.

A step is a call of Model.forward(). Prints "ready", begins once there is a line on its standard input, prints the names
of the function and of those that it alone calls, and the numbers of the steps in which it was slow, and ends with the
next line. The seed decides which function it is, and in which steps. A function does a fixed amount of work: torch's, its
own in Python, or both, and it is called by the model, by a hook of a module, by autograd, or by C.
"""
import json
import re
import sys

import torch
from torch import nn
from torch.nn import functional

import slow

SLOW = 100  # times as long
USUAL_MS = 0.25
WIDTH = 64
HEADS = 4
TEXT = "the quick brown fox jumps over the lazy dog 0123456789 " * 4
WORDS = {i: f"word{i}" for i in range(100)}


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = self.qkv(x).view(-1, 3, HEADS, WIDTH // HEADS).permute(1, 2, 0, 3).unbind(0)
        scores = (q @ k.transpose(-2, -1)).softmax(-1)
        return self.out((scores @ v).transpose(0, 1).reshape(-1, WIDTH))


class Doubled(torch.autograd.Function):
    """Its gradient is computed in Python, which C++ calls."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        for _ in range(8):
            grad = grad * 1.01
        return grad


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(100, WIDTH)
        self.attention = Attention()
        self.norm = nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))
        self.head = nn.Linear(WIDTH, 100)
        self.hooked, self.hooked_too = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.hooked.register_forward_hook(self.hook)
        self.hooked_too.register_forward_pre_hook(self.pre_hook)
        self.times = {}  # of each plant, how often it does its work
        self.x = torch.zeros(4, WIDTH)

    def forward(self, ids):
        """One token."""
        self.x = self.words(ids[-4:])
        with torch.no_grad():
            for plant in PLANTS:
                plant(self, self.times[plant])
            return self.head(self.x)[-1].argmax()

    # --- plants: each does its work n times ---

    def plant_linear(self, n):
        for _ in range(n):
            self.down(self.up(self.x))

    def plant_attention(self, n):
        for _ in range(n):
            self.attention(self.x)

    def plant_matmul(self, n):
        for _ in range(n):
            self.x @ self.x.t()

    def plant_norm(self, n):
        for _ in range(n):
            self.norm(self.x)

    def plant_functional(self, n):
        for _ in range(n):
            functional.gelu(self.x)

    def plant_cache(self, n):
        keys = self.x
        for i in range(n):
            keys = torch.cat([keys, self.x]) if i % 64 else self.x

    def plant_sample(self, n):
        for _ in range(n):
            top = torch.topk(self.x[-1], 5)
            top.indices.gather(-1, torch.multinomial(top.values.softmax(-1), 1))

    def plant_sort(self, n):
        for _ in range(n):
            self.x.flatten().sort()

    def plant_items(self, n):
        for i in range(n):
            self.x[0, i % WIDTH].item()

    def plant_list(self, n):
        for _ in range(n):
            sum([v * v for v in self.x.flatten().tolist()])

    def plant_sequential(self, n):
        for _ in range(n):
            self.mlp(self.x)

    def plant_backward(self, n):
        with torch.enable_grad():
            for _ in range(n):
                x = self.x.detach().requires_grad_()
                Doubled.apply(x).sum().backward()

    @torch.no_grad()
    def plant_decorated(self, n):
        for _ in range(n):
            self.x.softmax(-1)

    def plant_hook(self, n):
        self.n = n
        self.hooked(self.x)

    def hook(self, module, args, output):
        v = 0
        for i in range(self.n):
            v = (v * 31 + i) % 65521

    def plant_pre_hook(self, n):
        self.n = n
        self.hooked_too(self.x)

    def pre_hook(self, module, args):
        for _ in range(self.n):
            args[0].clamp(-1, 1)

    def plant_penalty(self, n):
        seen = {}
        for i in range(n):
            seen[i % 100] = seen.get(i % 100, 0) + 1

    def plant_detokenize(self, n):
        for i in range(n):
            "".join([WORDS[(i + k) % 100] for k in range(200)]).strip().split("word")

    def plant_regex(self, n):
        for _ in range(n):
            re.sub(r"[aeiou]+", "*", TEXT)

    def plant_json(self, n):
        for _ in range(n):
            json.loads(json.dumps(WORDS))

    def plant_sorted(self, n):
        for _ in range(n):
            sorted(range(5), key=lambda i: sum(range(i, i + 500)))


# The functions that one of them alone calls: the innermost one that holds the time is the one to be named.
CALLED = {
    "plant_attention": ["Attention.forward"],
    "plant_list": ["Model.plant_list.<locals>.<listcomp>"],
    "plant_backward": ["Doubled.backward", "Doubled.forward"],
    "plant_hook": ["Model.hook"],
    "plant_pre_hook": ["Model.pre_hook"],
    "plant_detokenize": ["Model.plant_detokenize.<locals>.<listcomp>"],
    "plant_sorted": ["Model.plant_sorted.<locals>.<lambda>"],
}
PLANTS = {f: [f.__qualname__, *CALLED.get(name, [])] for name, f in vars(Model).items() if name.startswith("plant_")}


def main():
    torch.manual_seed(int(sys.argv[1]))
    torch.set_num_threads(1)
    model = Model()
    ids = torch.tensor([1, 2, 3, 4])
    with torch.no_grad():
        usual = {plant: slow.usual_work(lambda n, plant=plant: plant(model, n), USUAL_MS / 1000) for plant in PLANTS}

    def step(chosen):
        nonlocal ids
        model.times = {plant: n * SLOW if plant is chosen else n for plant, n in usual.items()}
        ids = torch.cat([ids, model(ids).view(1)])

    slow.run(PLANTS, int(sys.argv[1]), int(sys.argv[2]), step)


if __name__ == "__main__":
    main()
