# SPDX-License-Identifier: BSD-2-Clause
"""What tracing costs a real llama.cpp per token, and how large the files of inftrace are."""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

from rounds import Sample, added, interleave, median, neighbours_text, number, signed, spread, table
from tracers import (BUILD, CPUS, DRAIN_S, LOAD_CPU, TMPFS, TOP, Failed, Load, Tracer, Neighbours, inftrace,
                     prepare, process_cpu_ns, untraced)

MODELS = {  # name: preset and type of make_gguf.py, seconds per measurement
    "tiny": ("tiny", "f16", 1.5),
    "198 MB": ("big", "q8_0", 4),
}
SETUPS = [  # model, threads, one pool for the whole run (as llama-server has) or threads per graph
    ("tiny", 1, False),
    ("tiny", 2, True),
    ("tiny", 2, False),
    ("198 MB", 1, False),
    ("198 MB", 2, True),
]

COUNT_OPS = """
uprobe:LLAMA:llama_decode { @["step"] = count(); }
uretprobe:LLAMA:llama_decode { @["step end"] = count(); }
uprobe:CPU:ggml_cpu_extra_compute_forward { @["op"] = count(); }
uprobe:CPU:ggml_compute_forward_rms_norm_mul_fused { @["norm"] = count(); }
uprobe:CPU:ggml_barrier { @["barrier"] = count(); }
uretprobe:CPU:ggml_barrier { @["barrier end"] = count(); }
"""
PRINT_OPS = """
uprobe:LLAMA:llama_decode { @step[tid] = nsecs; }
uretprobe:LLAMA:llama_decode { printf("step %lu %lu %d\\n", @step[tid], nsecs - @step[tid], tid); }
uprobe:CPU:ggml_cpu_extra_compute_forward { @op[tid] = nsecs; }
uprobe:CPU:ggml_compute_forward_rms_norm_mul_fused { @op[tid] = nsecs; }
uprobe:CPU:ggml_barrier {
	if (@op[tid]) { printf("op %lu %lu %d\\n", @op[tid], nsecs - @op[tid], tid); delete(@op[tid]); }
	@barrier[tid] = nsecs;
}
uretprobe:CPU:ggml_barrier { printf("barrier %lu %lu %d\\n", @barrier[tid], nsecs - @barrier[tid], tid); }
END { clear(@step); clear(@op); clear(@barrier); }
"""


def engines(function, *args):
    """Calls a function of tests/engines/engines.sh; returns the path that it prints."""
    shell = f'set -eu -o pipefail; TOP={TOP} BUILD={BUILD} ENGINES=$BUILD/engines; . $TOP/tests/engines/engines.sh; "$@"'
    r = subprocess.run(["bash", "-c", shell, "bash", function, *args], capture_output=True, text=True)
    if r.returncode:
        raise Failed(r.stderr.strip() or f"{function} failed")
    return r.stdout.strip()


class Engine:
    """The llama.cpp driver of the tests, generating until it is closed. It writes the time of each
    token itself, by the clock that we read too."""

    def __init__(self, model, threads, pool, tokens=64):
        preset, kind, self.seconds = MODELS[model]
        self.dir = tempfile.mkdtemp(prefix="inftrace-bench-", dir=TMPFS)
        self.stages = os.path.join(self.dir, "stages")
        # a single thread has a CPU for itself, several share all with the tracer
        cpus = [LOAD_CPU] if threads == 1 else CPUS
        args = [engines("llama_driver"), "-q", "-w", "-W", "-r", "0", "-n", str(tokens), "-t", str(threads),
                "-S", self.stages, *(["-P", "50"] if pool else []), engines("llama_libs"),
                engines("llama_model", preset, kind)]
        self.proc = subprocess.Popen(args, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                     preexec_fn=lambda: prepare(cpus))
        self.pid = self.proc.pid
        for line in self.proc.stdout:
            if line.strip() == "ready":
                return
        raise Failed("the llama.cpp driver did not start")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.proc.poll() is None:
            self.proc.kill()
            self.proc.wait()
        shutil.rmtree(self.dir)

    def go(self):
        self.proc.stdin.write("\n")
        self.proc.stdin.flush()

    def library(self, pattern):
        with open(f"/proc/{self.pid}/maps") as maps:
            return re.search(rf"(/\S*/{pattern}\S*\.so\S*)", maps.read()).group(1)

    def end(self):
        """Ends it. Returns (start, nanoseconds of the token's decode and sampling) of each token."""
        self.proc.send_signal(signal.SIGINT)
        self.proc.stdout.read()
        self.proc.wait()
        tokens, sample = [], 0
        with open(self.stages) as f:
            for line in f:
                s = json.loads(line)
                if s["stage"] == "sample":
                    sample = s["dur_ns"]
                elif s["stage"] == "decode" and s["n_tokens"] == 1:
                    tokens.append((s["start_ns"], s["dur_ns"] + sample))
        return tokens


def boot_ns():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def measure(engine, v, other):
    """Lets the engine run for a while under a tracer; its tokens are only known when it has ended."""
    s = Sample(None, None)
    try:
        if v.weight:
            v.start(other.pid if v.bystander else engine.pid)
        time.sleep(DRAIN_S)
        own = v.own_cpu_ns() if v.weight else 0
        n = Neighbours(engine.pid, *([v.proc.pid] if v.weight else []))
        s.cpu, s.begin = -process_cpu_ns(engine.pid), boot_ns()
        time.sleep(engine.seconds)
        s.end, s.cpu = boot_ns(), s.cpu + process_cpu_ns(engine.pid)
        s.neighbours = n.share()
        if not v.weight:
            return s
        s.own_share = (v.own_cpu_ns() - own) / (s.end - s.begin)
        total = v.own_cpu_ns()
        v.stop()
        s.size = v.kept()[1]
        s.records, s.lost = v.records(), v.lost()
        n = sum(n for kind, n in s.records.items() if v.out or kind == "step")
        s.own = (total - v.ready_cpu_ns) / n if n else None
        return s
    finally:
        v.clean()


def attribute(samples, tokens):
    """Gives each sample its tokens."""
    for s in samples:
        mine = [ns for start, ns in tokens if s.begin <= start and start + ns <= s.end]
        if not mine:
            raise Failed("no tokens were generated during a measurement")
        s.tokens = len(mine)
        s.wall = sum(mine) / len(mine)
        s.cpu /= len(mine)


def bpftrace_ops(name, program, engine):
    # in quotes: npm's paths have an @, which is a map in bpftrace
    for word, pattern in (("LLAMA", "libllama\\."), ("CPU", "libggml-cpu")):
        program = program.replace(word, f'"{engine.library(pattern)}"')
    return Tracer(name, lambda t: ["bpftrace", "-o", t.path("out"), "-e", program], needs="bpftrace", out="out")


def all_variants(engine):
    return [
        untraced(),
        inftrace("inftrace --profile only", out=None),
        inftrace("inftrace, timeline (default)"),
        inftrace("inftrace -e functions", "-e", "functions"),
        inftrace("inftrace --engine none (timeline without functions)", "--engine", "none"),
        inftrace("inftrace on another process with the same libraries", bystander=True),
        bpftrace_ops("bpftrace, count() on the same functions", COUNT_OPS, engine),
        bpftrace_ops("bpftrace, printf of their spans", PRINT_OPS, engine),
    ]


def run_setup(model, threads, pool, o, make_variants=all_variants):
    # the other maps the same libraries and does nothing
    with Engine(model, threads, pool) as engine, Engine(model, 1, False) as other:
        variants = make_variants(engine)
        for v in variants:
            v.cpus = CPUS if threads > 1 else v.cpus
        engine.go()
        time.sleep(1)
        results = interleave(variants, o, lambda v: measure(engine, v, other), [engine.pid])
        tokens = engine.end()
    for samples in results.values():
        attribute(samples, tokens)
    return results


def token_table(results):
    rows = []
    base = median(results["untraced"], "wall")
    for name, samples in results.items():
        row = [name, number(median(samples, "wall") / 1000)]
        if name == "untraced":
            row += ["", "", "", ""]
        else:
            low, high = spread(results, name)
            row += [signed(added(results, name) / 1000), f"{added(results, name) / base:+.1%}",
                    f"{low / base:+.1%} to {high / base:+.1%}",
                    f"{added(results, name, 'cpu') / median(results['untraced'], 'cpu'):+.1%}"]
        # without a timeline the few records cost nothing: it is the drains that cost
        row += [number(median(samples, "own")) if "timeline" in name or " -e" in name else "",
                f"{median(samples, 'own_share'):.1%}" if hasattr(samples[0], "own_share") else ""]
        rows.append(row)
    return table(["", "us per token", "added us", "added", "quartiles", "added CPU time", "own CPU, ns per record",
                  "own CPU, of one CPU"], rows)


def llama(o):
    for model, threads, pool in SETUPS:
        how = "" if threads == 1 else ", one pool" if pool else ", new threads for every graph"
        title = f"llama.cpp, {model} model, {threads} thread{'s' * (threads > 1)}{how}"
        if o.model not in title:
            continue
        results = run_setup(model, threads, pool, o)
        print(f"\n### {title}\n\n{neighbours_text(results)}\n")
        print(token_table(results))
        for name, samples in results.items():
            for lost in {s.lost for s in samples if s.lost}:
                print(f"- {name}: lost {lost}")


# ---- samples ----


def sampled_variants(_):
    return [
        untraced(),
        inftrace("inftrace --profile only", out=None),
        inftrace("the same with -e +samples", "-e", "+samples", out=None),
        inftrace("with -e +samples,+stacks", "-e", "+samples,+stacks", out=None),
    ]


def samples(o):
    """What stacks add to a profile."""
    for model in MODELS:
        title = f"llama.cpp, {model} model, 2 threads, one pool: stacks"
        if o.model not in title:
            continue
        results = run_setup(model, 2, True, o, sampled_variants)
        print(f"\n### {title}\n\n{neighbours_text(results)}\n")
        print(token_table(results))


# ---- hooks ----


def hooked_variants(_):
    return [
        untraced(),
        inftrace("inftrace --profile only", out=None),
        inftrace("the same with --hooks", "--hooks", out=None),
    ]


def fast(o):
    """Barriers by probes and by hooks."""
    for model, threads in (("tiny", 1), ("tiny", 2), ("198 MB", 2)):
        title = f"llama.cpp, {model} model, {threads} thread{'s' * (threads > 1)}, one pool: hooks"
        if o.model not in title:
            continue
        results = run_setup(model, threads, True, o, hooked_variants)
        print(f"\n### {title}\n\n{neighbours_text(results)}\n")
        print(token_table(results))


# ---- files ----


def line_sizes(path):
    """Bytes per event of a Chrome trace, by phase and category: {key: (events, bytes)}."""
    kinds = {}
    with open(path) as f:
        for line in f:
            m = re.match(r'\{"ph":"(.)"', line)
            if not m:
                continue
            cat = re.search(r'"cat":"([a-z]+)"', line)
            key = m.group(1) + " " + (cat.group(1) if cat else "")
            n, size = kinds.get(key, (0, 0))
            kinds[key] = n + 1, size + len(line) + 1
    return kinds


def storm(v, ops):
    with Load() as load:
        try:
            v.start(load.pid)
            load.run("getppid", ops)
            peak = v.peak_kib()
            v.stop()
            return [f"{v.ready_s * 1000:.0f}", f"{v.stop_s * 1000:.0f}", number(peak / 1024),
                    f"{v.kept()[1] / 1e6:.0f}" if v.out else ""]
        finally:
            v.clean()


def generation(v):
    with Engine("tiny", 1, False) as engine:
        try:
            v.start(engine.pid)
            engine.go()
            time.sleep(engine.seconds)
            v.stop()
            sizes = line_sizes(v.path("t.json"))
            packed = os.stat(v.path("t.json.gz")).st_size / os.stat(v.path("t.json")).st_size
            return [f"{v.ready_s * 1000:.0f}", f"{v.stop_s * 1000:.0f}"], sizes, packed
        finally:
            v.clean()


def files(o):
    ops = 3 * o.ops
    rows = []
    for name, v in (("getppid storm, .json", inftrace("json")),
                    ("getppid storm, .json on a disk", inftrace("json", disk=True)),
                    ("getppid storm, .json.gz", inftrace("gz", out="t.json.gz")),
                    ("getppid storm, --profile only", inftrace("profile", out=None))):
        runs = [storm(v, ops) for _ in range(min(o.rounds, 5))]
        rows.append([name] + sorted(runs, key=lambda r: int(r[0]))[len(runs) // 2])
    both = Tracer("both", lambda t: inftrace("").command(t)[:-2] + ["-o", t.path("t.json.gz"), "-p", t.pid])
    runs = [generation(both) for _ in range(min(o.rounds, 5))]
    times, sizes, packed = sorted(runs, key=lambda r: int(r[0][0]))[len(runs) // 2]
    rows.append(["llama.cpp, .json and .json.gz"] + times + ["", ""])
    print(f"\n### start, stop and memory, {ops:,} system calls\n")
    print(table(["", "start to recording, ms", "stop to finished file, ms", "peak RSS, MiB", "file, MB"], rows))
    print(f"\n### bytes per event, llama.cpp tiny; .json.gz is {packed:.1%} of .json\n")
    print(table(["event", "count", "bytes each"],
                [[k, f"{n:,}", number(size / n)] for k, (n, size) in sorted(sizes.items(), key=lambda x: -x[1][1])]))
