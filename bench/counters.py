# SPDX-License-Identifier: BSD-2-Clause
"""What -e pmu costs: the time of the BPF programs that read counters, by the kernel's own count."""

import contextlib
import statistics
import subprocess

from rounds import number, table
from rows import STATS, run_times
from tracers import INFTRACE, LOAD, Load, inftrace

CALLS = 50000
SWITCHES = 20000
WITHOUT = "without"
PROGRAMS = {  # and what makes them run
    "function_entry": ("site_push", CALLS), "function_return": ("site_push", CALLS),
    "sched_switch": ("pingpong", SWITCHES), "pmu_switch": ("pingpong", SWITCHES),
}


@contextlib.contextmanager
def counted():
    """The kernel counts what each program takes."""
    with open(STATS) as f:
        old = f.read()
    try:
        with open(STATS, "w") as f:
            f.write("1")
        yield
    finally:
        with open(STATS, "w") as f:
            f.write(old)


def measure(load, args, role):
    """Nanoseconds of a run of each program."""
    tracer = inftrace("", "--engine", "none", "-u", f"{LOAD}:site_push@{role}", *args, out=None)
    others = run_times()
    try:
        tracer.start(load.pid)
        load.run("site_push", 100)  # threads that call nothing are not counted
        before, ns = run_times(), {}
        for what, n in sorted(set(PROGRAMS.values())):
            load.run(what, n)
            after = run_times()
            for i, (name, taken, runs) in after.items():
                if PROGRAMS.get(name) == (what, n) and i not in others and runs - before[i][2] >= n:
                    ns[name] = (taken - before[i][1]) / (runs - before[i][2])
            before = after
    finally:
        if tracer.proc:
            tracer.stop()
        tracer.clean()
    return ns


def counters(o):
    doctor = subprocess.run([INFTRACE, "doctor"], capture_output=True, text=True).stdout
    sets = {WITHOUT: [], "software": ["--counters", "software"]}
    if any(line.split()[:3] == ["ok", "hardware", "counters"] for line in doctor.splitlines()):
        sets["hardware"] = ["--counters", "hardware"]
    for role in ("op", "step"):
        samples = {name: [] for name in sets}
        with counted(), Load() as load:
            for _ in range(o.rounds):
                for name, args in sets.items():
                    args = ["-e", "+functions"] if name == WITHOUT else ["-e", "+functions,+pmu", *args]
                    samples[name].append(measure(load, args, role))
        rows = []
        for program in PROGRAMS:
            of = [[s[program] for s in samples[name] if program in s] for name in sets]
            rows.append([program, *(number(statistics.median(v)) if v else "" for v in of)])
        print(f"\n### the programs of a call that is a{'n' if role == 'op' else ''} {role}, by the kernel's count, ns per run\n")
        print(table(["", *sets], rows))
