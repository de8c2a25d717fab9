# SPDX-License-Identifier: BSD-2-Clause
"""From the start of a recording until it records, and from SIGINT until it has ended. The target sleeps; all presets are
loaded. Beside the figures of this build those of another one, if --other names its inftrace, and their ratios."""

import os
import signal
import statistics
import subprocess
import tempfile
import time

from rounds import number, table
from tracers import INFTRACE, Failed

KINDS = (("default events and profile", "-o", "t.json", "--profile", "p.jsonl"),
         ("profile only", "--profile", "p.jsonl"),
         ("scheduling only", "-e", "sched", "--engine", "none", "-o", "t.json"))


def once(program, options, pid, folder):
    """Milliseconds: until it records, until it has ended, its own CPU time."""
    begin = time.monotonic()
    p = subprocess.Popen([program, "record", "-p", str(pid), *options], cwd=folder, stderr=subprocess.PIPE, text=True)
    line = p.stderr.readline()
    while line and "Ctrl-C ends it" not in line:
        line = p.stderr.readline()
    if not line:
        raise Failed(f"{program}: exit code {p.wait()}")
    ready = time.monotonic()
    p.send_signal(signal.SIGINT)
    p.stderr.read()
    _, status, usage = os.wait4(p.pid, 0)
    p.returncode = status
    return [1e3 * t for t in (ready - begin, time.monotonic() - ready, usage.ru_utime + usage.ru_stime)]


def start(o):
    programs = [INFTRACE] + ([o.other] if o.other else [])
    rows = []
    with tempfile.TemporaryDirectory(prefix="inftrace-bench-") as folder:
        target = subprocess.Popen(["sleep", "infinity"])
        try:
            for name, *options in KINDS:
                samples = {p: [] for p in programs}
                for i in range(o.rounds):
                    for p in programs if i % 2 else programs[::-1]:
                        samples[p].append(once(p, options, target.pid, folder))
                rows.append([name] + [number(statistics.median(s[k] for s in samples[INFTRACE])) for k in range(3)])
                if o.other:
                    rows[-1] += [number(statistics.median(a[k] / b[k] for a, b in zip(*(samples[p] for p in programs))))
                                 for k in range(3)]
        finally:
            target.kill()
            target.wait()
    print(f"\n### start and stop\n\n{o.rounds} rounds, ms\n")
    print(table(["", "until it records", "SIGINT to the end", "its CPU time"] +
                (["of the other's", "stop", "CPU time"] if o.other else []), rows))
