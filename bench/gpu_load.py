# SPDX-License-Identifier: BSD-2-Clause
"""A small transformer that generates on a GPU with PyTorch, for bench/run gpu.

    gpu_load.py TOKENS [profile]

Without gradients or a cache, so that each token launches the same kernels. The last line is a JSON object: "tokens",
"wall_ns", "cpu_ns", "from" and "to" (CLOCK_BOOTTIME, ns), and with "profile", which has torch.profiler collect kernels,
"kernels": {NAME: [COUNT, NANOSECONDS]}. TOKENS 0: until SIGTERM.
"""
import json
import signal
import sys
import time

import torch
from torch import nn

WIDTH, LAYERS, HEADS, WORDS, CONTEXT = 1024, 8, 16, 1000, 64


def boot_ns():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, batch_first=True) for _ in range(LAYERS))
        self.out = nn.Linear(WIDTH, WORDS)

    def forward(self, ids):
        x = self.words(ids)
        for block in self.blocks:
            x = block(x)
        return self.out(x[:, -1])


def generate(model, ids, tokens):
    for _ in range(tokens):
        word = model(ids).argmax(-1, keepdim=True)
        ids = torch.cat([ids[:, 1:], word], 1)
        word.item()  # waits for it
    return ids


def main():
    tokens, profiled = int(sys.argv[1]), sys.argv[2:] == ["profile"]
    stopped = []
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(True))
    torch.manual_seed(1)
    model = Model().eval().half().cuda()
    ids = torch.randint(WORDS, (1, CONTEXT), device="cuda")
    with torch.no_grad():
        ids = generate(model, ids, 10)
        print("ready", flush=True)
        while not tokens and not stopped:
            generate(model, ids, 1)
        torch.cuda.synchronize()
        profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) if profiled else None
        if profiler:
            profiler.__enter__()
        start, begin, cpu = boot_ns(), time.perf_counter_ns(), time.process_time_ns()
        generate(model, ids, tokens)
        torch.cuda.synchronize()
        said = {"tokens": tokens, "wall_ns": time.perf_counter_ns() - begin, "cpu_ns": time.process_time_ns() - cpu,
                "from": start, "to": boot_ns()}
        if profiler:
            profiler.__exit__(None, None, None)
            kernels = {}
            for e in profiler.profiler.kineto_results.events():
                if "cuda" in str(e.device_type()).lower() and not e.name().startswith(("Memcpy", "Memset")):
                    count = kernels.setdefault(e.name(), [0, 0])
                    count[0] += 1
                    count[1] += e.duration_ns() if hasattr(e, "duration_ns") else e.duration_us() * 1000
            said["kernels"] = kernels
    print(json.dumps(said))


main()
