#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""How fast validate and report read, and how much memory that takes.

    bench/reading.py [-n STEPS] [-r ROUNDS] [BINARY...]

Makes a profile of STEPS steps and a trace of eight times as many events, plain and compressed, and has each BINARY
(build/inftrace; several versions to compare) read them, in rounds in which all take turns. Prints the
medians of the CPU time as MB of text per second, and the highest memory. No root, nothing is recorded.
"""
import argparse
import gzip
import json
import os
import random
import shutil
import statistics
import sys
import tempfile
import time

HEAD = ('"commit_sha":"0a1b2c3","env_hash":"sha256:6f1e8d2b6a0c4b7f9e3d5a1c2b4f6e8d0a9c7b5e3f1d2c4b6a8e0f1d3c5b7a9e",'
        '"model":"llama-small.gguf","concurrency":4')
TAIL = '"graph_enabled":false,"runtime_flags":{"threads":2,"ctx_size":4096},"source":"native","inftrace":1}\n'
OPS = ["mul_mat", "rms_norm", "rope", "soft_max", "add", "silu", "get_rows"]
CALLS = ["read", "write", "futex", "sched_yield", "getpid"]


def us(ns):
    return f"{ns // 1000}.{ns % 1000:03d}"


def step_line(i, ts, rng):
    """As a busy machine gives them: a prompt, then 499 tokens."""
    prefill = i % 500 == 0
    cpu = rng.randint(3000000, 3600000) * (8 if prefill else 1)
    barrier, syscall, futex = rng.randint(100000, 300000), rng.randint(1000, 9000), rng.randint(1, 5000)
    wait = rng.randint(1, 20000) + (2000000 if rng.random() < 0.01 else 0)
    total = cpu + barrier + syscall + futex + wait
    line = (f'{{"event":"token_prof",{HEAD},"shape":{{"step":{i},"pid":4242,"tid":4242,'
            f'"phase":"{"prefill" if prefill else "decode"}","n_tokens":{64 if prefill else 1},"n_outputs":1,'
            f'"n_sequences":1,"sequence":0,"position":{i % 500 + 64},"ts_us":{us(ts)},"switches":{rng.randint(1, 9)},'
            f'"switches_voluntary":1,"migrations":0,"faults_minor":{rng.randint(0, 12)},"faults_major":0,'
            f'"syscalls":3,"lost":0,"workers":1,"cpus_allowed":2,"stall_state":"runnable","stall_us":{us(wait)},'
            f'"stall_by":"hog","stall_by_tid":77}},"stage_us":{{"total":{us(total)},"cpu":{us(cpu)},'
            f'"barrier":{us(barrier)},"syscall":{us(syscall)},"runnable":{us(wait)},"blocked_futex":{us(futex)},'
            f'"workers_total":{us(total)},"workers_cpu":{us(total - barrier)},"workers_barrier":{us(barrier)}}},{TAIL}')
    return line, ts + total + rng.randint(50000, 90000)


def make_profile(path, steps):
    rng, ts = random.Random(1), 0
    with open(path, "w", encoding="ascii") as f:
        for i in range(steps):
            line, ts = step_line(i, ts, rng)
            f.write(line)


def step_events(ts, rng):
    start = ts
    for i in range(120):
        dur = rng.randint(5000, 60000)
        for tid in 4242, 4243:
            yield (f'{{"name":"{OPS[i % 7]}","cat":"op","ph":"X","ts":{us(ts)},"dur":{us(dur)},'
                   f'"pid":4242,"tid":{tid},"args":{{"node":{i}}}}}')
        if i % 6 == 0:
            yield (f'{{"name":"{CALLS[i % 5]}","cat":"syscall","ph":"X","ts":{us(ts + 1000)},"dur":2.000,'
                   '"pid":4242,"tid":4242,"args":{"ret":0,"fd":3}}')
        if i % 10 == 0:
            flow = f'"name":"wake","cat":"sched","id":{ts},"ts":{us(ts + 10)},"pid":4242'
            yield f'{{{flow},"ph":"s","tid":4242}}'
            yield f'{{{flow},"ph":"f","bp":"e","tid":4243}}'
        ts += dur + 100
    yield (f'{{"name":"decode","cat":"step","ph":"X","ts":{us(start)},"dur":{us(ts - start)},"pid":4242,"tid":4242,'
           f'"args":{{"n_tokens":1,"breakdown_us":{{"cpu":{us(ts - start)}}}}}}}')


def make_trace(path, events):
    rng, ts, n = random.Random(1), 0, 0
    with open(path, "w", encoding="ascii") as f:
        f.write('[\n{"name":"process_name","ph":"M","pid":4242,"tid":4242,"args":{"name":"llama-cli"}}')
        while n < events:
            for event in step_events(ts, rng):
                f.write(",\n" + event)
                n += 1
            ts += 20000000
        f.write("\n]\n")


def measure(command):
    """CPU seconds and KB of a command that must not fail."""
    pid = os.fork()
    if not pid:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.execv(command[0], command)
    _, status, usage = os.wait4(pid, 0)
    if status:
        sys.exit(f"{' '.join(command)}: failed")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss


def python_speed(path):
    """The json module of Python, on the same lines."""
    with open(path, encoding="ascii") as f:
        lines = [line.rstrip(",\n") for line in f if line.startswith("{")]
    start = time.process_time()
    for line in lines:
        json.loads(line)
    return sum(map(len, lines)) / 1e6 / (time.process_time() - start)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", type=int, default=100000, help="steps (100000)")
    parser.add_argument("-r", type=int, default=3, help="rounds (3)")
    parser.add_argument("binaries", nargs="*", metavar="BINARY")
    args = parser.parse_args()
    top = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    binaries = [os.path.abspath(b) for b in args.binaries] or [os.path.join(top, "build/inftrace")]
    with tempfile.TemporaryDirectory() as tmp:
        profile, trace = os.path.join(tmp, "profile.jsonl"), os.path.join(tmp, "trace.json")
        make_profile(profile, args.n)
        make_trace(trace, 8 * args.n)
        files = [profile, trace]
        for path in profile, trace:
            with open(path, "rb") as plain, gzip.open(path + ".gz", "wb", 6) as packed:
                shutil.copyfileobj(plain, packed)
            files.append(path + ".gz")
        mb = [os.path.getsize(path.removesuffix(".gz")) / 1e6 for path in files]
        seen = {}
        for _ in range(args.r):
            for command in "validate", "report":
                for path in files:
                    for binary in binaries:
                        seen.setdefault((command, path, binary), []).append(measure([binary, command, path]))
        print(f"{args.n} steps, {args.r} rounds; Python's json module: "
              f"{python_speed(profile):.0f} and {python_speed(trace):.0f} MB/s\n")
        print("| | MB |" + " MB/s | peak MB |" * len(binaries))
        print("|---|---:|" + "---:|---:|" * len(binaries))
        for command in "validate", "report":
            for path, size in zip(files, mb):
                row = f"| {command} {os.path.basename(path)} | {size:.0f} |"
                for binary in binaries:
                    runs = seen[command, path, binary]
                    row += f" {size / statistics.median(s for s, _ in runs):.0f} | {max(k for _, k in runs) / 1024:.1f} |"
                print(row)


main()
