# SPDX-License-Identifier: BSD-2-Clause
"""What recording a GPU costs the traced program, and whether it is told what torch.profiler is told. Without a GPU: what the
agent costs for each kernel of one that does not exist (tests/gpu/mock.h)."""

import collections
import ctypes
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile

from llama import engines
from rounds import number, signed, table
from tracers import BUILD, CPUS, INFTRACE, TMPFS, TOP, Failed, prepare

MOCK = os.path.join(BUILD, "gpu")
TOKENS, LAUNCHES, TIMES = 200, 300000, 20
HERE = os.path.dirname(os.path.abspath(__file__))
# name, what is given to inftrace record; None: it does not run
CLOSED = ["--window-flag", "never", "--output-dir", "windows"]
VARIANTS = (("off", None), ("agent loaded, closed", ["--engine", "none", *CLOSED]),
            ("agent loaded and launches probed, closed", CLOSED),
            ("kernels and copies", ["--engine", "none", "--profile", "p.jsonl"]),
            ("and their launches, --profile", ["--profile", "p.jsonl"]))


class TorchLoad:
    name = "PyTorch, 8 layers of width 1024, fp16"

    def command(self, tokens, *more):
        return [self.python, os.path.join(HERE, "gpu_load.py"), str(tokens), *more]

    def find(self):
        """None, or why it cannot run here"""
        for self.python in "python3", "/usr/bin/python3", os.environ.get("GPU_PYTHON", ""):
            r = subprocess.run([self.python or "false", "-c", "import sys, torch; sys.exit(not torch.cuda.is_available())"],
                               capture_output=True)
            if not r.returncode:
                return None
        return "no python3 (or $GPU_PYTHON) has a PyTorch that finds a GPU"

    def table(self, got):
        return added_table(got)

    def read(self, text, _):
        return json.loads(text.splitlines()[-1])


class LlamaLoad:
    name = "llama.cpp's CUDA build, tiny model"

    def command(self, tokens, *_):
        return [engines("llama_driver"), "-q", "-t", "1", "-g", "99", "-n", str(tokens or 200), "-r", str(int(tokens > 0)), "-S", "stages",
                self.libs, engines("llama_model")]

    def find(self):
        try:
            self.libs = engines("llama_cuda_libs")
            ctypes.CDLL("libcudart.so.13")
            ctypes.CDLL("libcublas.so.13")
        except (Failed, OSError) as e:
            return str(e)
        return None

    def table(self, got):
        return added_table(got)

    def read(self, text, folder):
        with open(os.path.join(folder, "stages")) as f:
            stages = [s for s in map(json.loads, f) if s["stage"] != "load"]
        counts = json.loads(text.splitlines()[-1])
        return {"tokens": counts["generated"], "cpu_ns": counts["cpu_ns"],
                "wall_ns": stages[-1]["start_ns"] + stages[-1]["dur_ns"] - stages[0]["start_ns"]}


class MockLoad:
    name = f"a GPU that does not exist, {LAUNCHES} kernels"

    def command(self, launches, *_):
        return [os.path.join(MOCK, "mock_driver"), "kernel-ns 100", *["launch 10000", "sync"] * (launches // 10000), "cpu"]

    def read(self, text, _):
        return json.loads(text.splitlines()[-1]) | {"tokens": LAUNCHES}

    def table(self, got):
        """A launch that does nothing is no measure: what is added to it, in CPU time"""
        rows = []
        for name, samples in got.items():
            added = sorted(a[1] - b[1] for a, b in zip(samples, got["off"]))
            rows.append([name, number(statistics.median(x[1] for x in samples)),
                         f"{signed(statistics.median(added))} ({signed(added[len(added) // 4])} to {signed(added[-1 - len(added) // 4])})"
                         if name != "off" else ""])
        return table(["ns of the program's CPU time for each kernel", "", "added (quartiles)"], rows)


def run(load, amount, options, *more):
    """Runs a load, under inftrace unless the options are None. Returns what it says, what inftrace says, and its folder."""
    folder = tempfile.mkdtemp(prefix="inftrace-bench-", dir=TMPFS)
    tracer = [] if options is None else [INFTRACE, "record", "-v", "--gpu", *CUPTI, *options, "--"]
    r = subprocess.run([*tracer, *load.command(amount, *more)], cwd=folder, capture_output=True, text=True,
                       preexec_fn=lambda: prepare(CPUS))
    if r.returncode:
        raise Failed(f"{load.name}: {(r.stderr.strip() or r.stdout.strip())[-300:]}")
    return load.read(r.stdout, folder), r.stderr, folder


CUPTI = []


def pairs(load, amount, o):
    """Each variant against the run without a tracer of the same round."""
    got = collections.defaultdict(list)
    for r in range(o.rounds):
        for name, options in VARIANTS:
            said, text, folder = run(load, amount, options)
            shutil.rmtree(folder)
            if options and "no process started CUDA" in text:
                raise Failed(f"{load.name}: the agent was not loaded")
            got[name].append((said["wall_ns"] / said["tokens"], said["cpu_ns"] / said["tokens"]))
        print(f"  round {r + 1} of {o.rounds}, load {os.getloadavg()[0]:.1f}", file=sys.stderr)
    print(f"\n### {load.name}: {o.rounds} interleaved rounds\n")
    print(load.table(got))


def added_table(got):
    rows = []
    for name, samples in got.items():
        row = [name, *(number(statistics.median(x[i] for x in samples) / 1000) for i in (0, 1))]
        for i in (0, 1):
            added = sorted(a[i] / b[i] - 1 for a, b in zip(samples, got["off"]))
            row.append(f"{statistics.median(added):+.1%} ({added[len(added) // 4]:+.1%} to {added[-1 - len(added) // 4]:+.1%})"
                       if name != "off" else "")
        rows.append(row)
    return table(["us per token", "elapsed", "CPU time", "elapsed, added (quartiles)", "CPU time, added (quartiles)"], rows)


def kernels_of(folder, said):
    """Of a trace, between two instants: how many kernels of each name, and for how long they ran"""
    kernels = collections.defaultdict(lambda: [0, 0])
    with open(os.path.join(folder, "t.json")) as f:
        events = json.load(f)
    clock = next(e for e in events if e["name"] == "inftrace_clock")
    origin = int(clock["args"]["boottime_ns"]) - clock["ts"] * 1000
    for e in events:
        if e.get("cat") == "kernel" and said["from"] <= origin + e["ts"] * 1000 <= said["to"]:
            count = kernels[e["args"].get("kernel", e["name"])]
            count[0] += 1
            count[1] += e["dur"] * 1000
    return kernels


def against_profiler(load, o):
    """Both have the same tokens, in turn, since CUPTI serves one tool at a time."""
    ours, theirs = [], []
    for _ in range(o.rounds):
        said, _, folder = run(load, TOKENS, ["--engine", "none", "-o", "t.json"])
        ours.append(list(kernels_of(folder, said).values()))
        shutil.rmtree(folder)
        said, _, folder = run(load, TOKENS, None, "profile")
        theirs.append(list(said["kernels"].values()))
        shutil.rmtree(folder)
    print(f"\n### {load.name}: against torch.profiler, {TOKENS} tokens\n")
    rows = []
    for name, runs in ("inftrace", ours), ("torch.profiler", theirs):
        counts = sorted({sum(n for n, _ in r) for r in runs})
        each = statistics.median(sum(ns for _, ns in r) / max(sum(n for n, _ in r), 1) for r in runs)
        rows.append([name, " or ".join(map(str, counts)), number(each), str(statistics.median(len(r) for r in runs))])
    print(table(["", "kernels", "ns each", "names"], rows))


def attach(load):
    """On and off in a load that runs"""
    proc = subprocess.Popen(load.command(0), stdout=subprocess.PIPE, text=True, cwd=TMPFS)
    folder = tempfile.mkdtemp(prefix="inftrace-bench-", dir=TMPFS)
    kept = []
    try:
        while not re.match("ready|pid", proc.stdout.readline()):
            pass
        for _ in range(TIMES):
            r = subprocess.run([INFTRACE, "record", "--gpu=attach", "-d", "1s", "--profile", os.path.join(folder, "p.jsonl"),
                                "-p", str(proc.pid)], capture_output=True, text=True)
            m = re.search(r"gpu: (\d+) kernels", r.stderr)
            kept.append(int(m[1]) if m and not r.returncode else 0)
        proc.send_signal(signal.SIGTERM)
        proc.stdout.read()
        rc = proc.wait(60)
    finally:
        if proc.poll() is None:
            proc.kill()
            proc.wait()
        shutil.rmtree(folder)
    print(f"\n### {load.name}: --gpu=attach, on and off {TIMES} times\n\nkernels and copies: {min(kept)} to {max(kept)} in a second; "
          f"{sum(k == 0 for k in kept)} times none; the program ended with {rc}")


def agent_cost():
    """By its own count, without any program of the kernel"""
    test = os.path.join(BUILD, "tests", "test_gpu_agent")
    subprocess.run(["make", "-s", "-C", TOP, f"O={BUILD}", test], check=True, stdout=subprocess.DEVNULL)
    counts = [int(re.search(r"kernels, (\d+) ns of CPU", subprocess.run([test], capture_output=True, text=True, cwd=TOP).stdout)[1])
              for _ in range(5)]
    print(f"\n### the agent, by its own count\n\n{min(counts)} to {max(counts)} ns of CPU time for each of 10^6 kernels, in {len(counts)} runs "
          "(its thread, and its part of CUPTI's threads)")


def mock(o):
    print("no GPU: libcuda.so.1 is not there, or finds none. What follows is of one that does not exist", file=sys.stderr)
    subprocess.run(["make", "-s", "-C", os.path.join(TOP, "tests", "gpu"), f"O={MOCK}"], check=True)
    CUPTI[:] = ["--cupti", os.path.join(MOCK, "libcupti.so")]
    agent_cost()
    pairs(MockLoad(), LAUNCHES, o)


def has_gpu():
    count = ctypes.c_int()
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
        return not cuda.cuInit(0) and not cuda.cuDeviceGetCount(ctypes.byref(count)) and count.value > 0
    except OSError:
        return False


def gpu(o):
    if not has_gpu():
        mock(o)
        return
    loads = []
    for load in TorchLoad(), LlamaLoad():
        why = load.find()
        if why:
            print(f"left out: {load.name}: {why}", file=sys.stderr)
        else:
            loads.append(load)
    if not loads:
        raise Failed("gpu: there is a GPU, but nothing to run on it: install a PyTorch with CUDA, or cuda-cudart-13 and libcublas-13")
    for load in loads:
        pairs(load, TOKENS, o)
        if isinstance(load, TorchLoad):
            against_profiler(load, o)
        attach(load)
