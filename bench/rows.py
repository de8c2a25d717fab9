# SPDX-License-Identifier: BSD-2-Clause
"""What the rows of steps cost: what the BPF programs take for them, and what a server pays that has one sequence only."""

import json
import os
import shutil
import signal
import statistics
import subprocess
import tempfile
import time

from llama import attribute, engines, measure
from rounds import interleave, neighbours_text, number, signed, table
from tracers import BENCH, LOAD_CPU, TMPFS, TOP, Failed, inftrace, prepare, untraced

PROGRAM = os.path.join(BENCH, "rows")
SHAPES = [  # rows, sequences, steps
    (1, 1, 20000), (16, 1, 20000), (16, 16, 20000), (256, 256, 4000), (512, 1, 8000), (2048, 1, 3000), (2048, 4, 3000),
]
STATS = "/proc/sys/kernel/bpf_stats_enabled"
PROGRAMS = ("function_entry", "function_return")
WITH, WITHOUT = "with rows", "without"
STEPS = {"llama_decode": "arrays", "llama_process": "structs"}  # and what the rows are that PROGRAM passes to it


def presets(folder, function=None):
    """llama.cpp's preset as it is, and without rows or calls that change sequences. function: only this step, as PROGRAM has
    it."""
    with open(os.path.join(TOP, "engines/llama.cpp.json")) as f:
        whole = json.load(f)
    for name in (WITH, WITHOUT):
        probes = [dict(p) for p in whole["probes"] if name == WITH or p.get("role") != "sequence"]
        step = next(p for p in probes if p.get("symbol") == (function or "llama_decode"))
        if name == WITHOUT:
            step.pop("rows")
            step.pop("rows_arm64", None)
            step["name"] = "n_tokens == 1 ? decode : prefill"
        made = {**whole, "name": name.replace(" ", "-"), "probes": probes}
        if function:
            step.pop("library")
            made = {**made, "match": {"mapped": ["rows"]}, "probes": [step]}
        path = os.path.join(folder, f"{made['name']}.json")
        with open(path, "w") as f:
            json.dump(made, f)
        yield name, path


# ---- the programs ----


def run_times():
    """Of each program that is loaded: its name, the time that it has taken, and how often it ran."""
    out = subprocess.run(["bpftool", "-j", "prog", "show"], capture_output=True, text=True, check=True).stdout
    return {p["id"]: (p.get("name", ""), p.get("run_time_ns", 0), p.get("run_cnt", 0)) for p in json.loads(out)}


def measure_programs(program, preset, steps):
    """Nanoseconds of the programs per step."""
    def step(n):
        program.stdin.write(f"{n}\n")
        program.stdin.flush()
        program.stdout.readline()

    tracer = inftrace(preset, "--engine", preset, out=None)
    others = run_times()
    try:
        tracer.start(program.pid)
        step(100)
        before = run_times()
        step(steps)
        after = run_times()
    finally:
        if tracer.proc:
            tracer.stop()
        tracer.clean()
    taken = [(ns - before[i][1]) / steps for i, (name, ns, n) in after.items()
             if name in PROGRAMS and i in before and i not in others and n - before[i][2] == steps]
    if len(taken) != len(PROGRAMS):
        raise Failed(f"{len(taken)} programs ran once for each step, and not {len(PROGRAMS)}")
    return sum(taken)


def programs(o, folder, function):
    paths = dict(presets(folder, function))
    with open(STATS) as f:
        old = f.read()
    rows = []
    try:
        with open(STATS, "w") as f:
            f.write("1")
        for n, sequences, steps in SHAPES:
            program = subprocess.Popen([PROGRAM, str(n), str(sequences), STEPS[function]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                       preexec_fn=lambda: prepare([LOAD_CPU]))
            try:
                program.stdout.readline()
                ns = {name: [] for name in paths}
                for _ in range(o.rounds):
                    for name, path in paths.items():
                        ns[name].append(measure_programs(program, path, steps))
            finally:
                program.kill()
                program.wait()
            more = sorted(a - b for a, b in zip(ns[WITH], ns[WITHOUT]))
            rows.append([f"{n:,}", f"{sequences:,}", *(number(statistics.median(ns[k]) / 1000) for k in (WITHOUT, WITH)),
                         signed(statistics.median(more) / 1000),
                         f"{signed(more[len(more) // 4] / 1000)} to {signed(more[-1 - len(more) // 4] / 1000)}"])
    finally:
        with open(STATS, "w") as f:
            f.write(old)
    print(f"\n### the programs of a step, {function} ({STEPS[function]}), by the kernel's count, us per step\n")
    print(table(["rows", "sequences", WITHOUT, WITH, "added", "quartiles"], rows))


# ---- a server ----


class Server:
    """The driver of the tests that serves as llama.cpp's server does, with one slot: a token a step."""

    seconds = 2

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="inftrace-bench-", dir=TMPFS)
        self.log = os.path.join(self.dir, "log")
        self.proc = subprocess.Popen(
            [engines("serve_driver"), "-w", "-l", self.log, "-r", "100000000", "-p", "1", "-a", "400", "-m", "8", "-n", "400",
             "-x", "0", "-c", "512", engines("llama_libs"), engines("llama_model", "tiny", "f16")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=lambda: prepare([LOAD_CPU]))
        self.pid = self.proc.pid
        if self.proc.stdout.readline().strip() != "ready":
            raise Failed("the driver did not start")
        self.proc.stdin.write("\n")
        self.proc.stdin.flush()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.proc.poll() is None:
            self.proc.kill()
        self.proc.wait()
        shutil.rmtree(self.dir)

    def end(self):
        """Ends it. Returns (start, nanoseconds) of each step of one row."""
        self.proc.send_signal(signal.SIGTERM)
        self.proc.wait()
        with open(self.log) as f:
            steps = [json.loads(line) for line in f if '"parts"' in line]
        return [(s["before"], s["after"] - s["before"]) for s in steps if len(s["parts"]) == 1 and s["parts"][0][3] == 1]


def server(o, folder):
    paths = dict(presets(folder))
    with Server() as driver:
        time.sleep(1)
        variants = [untraced(), *(inftrace(name, "--engine", paths[name], out=None) for name in (WITHOUT, WITH))]
        results = interleave(variants, o, lambda v: measure(driver, v, None), [driver.pid])
        tokens = driver.end()
    for samples in results.values():
        attribute(samples, tokens)
    print(f"\n### a server with one sequence, tiny model, `--profile` only, us per token\n\n{neighbours_text(results)}\n")

    def against(name, base, key):
        d = sorted(getattr(a, key) / getattr(b, key) - 1 for a, b in zip(results[name], results[base]))
        return f"{statistics.median(d):+.2%} ({d[len(d) // 4]:+.2%} to {d[-1 - len(d) // 4]:+.2%})"

    print(table(["", "step", "CPU time", "CPU time, against untraced", f"CPU time, against {WITHOUT}", f"step, against {WITHOUT}"],
                [[name, *(number(statistics.median(getattr(s, k) for s in samples) / 1000) for k in ("wall", "cpu")),
                  against(name, "untraced", "cpu") if name != "untraced" else "",
                  *(against(name, WITHOUT, k) if name == WITH else "" for k in ("cpu", "wall"))]
                 for name, samples in results.items()]))


def rows(o):
    with tempfile.TemporaryDirectory() as folder:
        for function in STEPS:
            programs(o, folder, function)
        server(o, folder)
