#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What Perfetto's trace processor makes of traces; $TRACE_PROCESSOR is its directory (trace_processor.mjs).

trace_processor.py compare FILE.pftrace FILE.json   of the same recording: its tables have what the JSON has
trace_processor.py loads FILE ...                   each is taken without an error or loss, and there are slices
trace_processor.py samples FILE.pftrace COLLAPSED   its tables of samples have what `inftrace export --collapsed` found
trace_processor.py gpu FILE.pftrace FILE.json       the queries of gpu_tables.py answer what the JSON has
"""
import collections
import json
import os
import subprocess
import sys

import gpu_tables
from pftrace import BOOTTIME, COUNTER, GPU_PROCESS, INSTANT, Differences, same_as_json


class Processor:
    """One that has loaded a file."""

    def __init__(self, path):
        tool = os.path.join(os.path.dirname(os.path.abspath(__file__)), "trace_processor.mjs")
        self.path = path
        self.process = subprocess.Popen([os.environ.get("NODE", "node"), tool, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        universal_newlines=True)
        problems = self.query("SELECT name, value FROM stats WHERE severity <> 'info' AND value > 0")
        if problems:
            sys.exit(f"{path}: the trace processor counts {problems}")

    def query(self, sql):
        try:
            self.process.stdin.write(json.dumps(sql) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # it has said why
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{self.path}: the trace processor did not answer {sql}")
        return [tuple(row) for row in json.loads(line)]

    def arrows(self):
        return self.query("SELECT count(DISTINCT f.slice_in) FROM flow f JOIN gpu_slice g ON g.id = f.slice_in")[0][0]


# track: those of threads have a tid, those of processes a pid
SLICES = """
    SELECT s.id, s.ts, s.dur, s.name, s.category, s.arg_set_id, coalesce(tp.pid, p.pid), coalesce(t.tid, k.name, 'process')
    FROM slice s JOIN track k ON k.id = s.track_id
    LEFT JOIN thread_track tt ON tt.id = k.id LEFT JOIN thread t ON t.utid = tt.utid LEFT JOIN process tp ON tp.upid = t.upid
    LEFT JOIN process_track pt ON pt.id = k.id LEFT JOIN process p ON p.upid = pt.upid
    WHERE s.id NOT IN (SELECT id FROM gpu_slice)"""

ARGS = """
    SELECT DISTINCT a.arg_set_id, replace(a.key, 'debug.', ''), coalesce(a.int_value, a.real_value, a.string_value)
    FROM args a JOIN slice s ON s.arg_set_id = a.arg_set_id WHERE a.key GLOB 'debug.*'"""

STAGES = """
    SELECT s.id, EXTRACT_ARG(k.dimension_arg_set_id, 'ugpu'), k.name, s.name, s.render_stage_category, s.ts, s.dur
    FROM gpu_slice s JOIN gpu_track k ON k.id = s.track_id"""

ON_CPU = "SELECT s.cpu, t.tid, s.ts, s.ts + s.dur FROM sched_slice s JOIN thread t ON t.utid = s.utid WHERE t.tid <> 0"

WAKINGS = "SELECT ts, EXTRACT_ARG(arg_set_id, 'pid') FROM ftrace_event WHERE name = 'sched_waking'"

COUNTERS = """
    SELECT p.pid, k.name, c.ts, c.value
    FROM counter c JOIN process_counter_track k ON k.id = c.track_id JOIN process p ON p.upid = k.upid"""


COMPUTE = 2  # a render stage's category; the others are copies and sets here


class Tables:
    """What pftrace.Trace has, as the trace processor has it. There an instant is a slice of 0 ns: instants are the names of ours."""

    def __init__(self, path, instants):
        query = Processor(path).query
        args = collections.defaultdict(dict)
        for number, key, value in query(ARGS):
            args[number][key] = value
        self.tracks, self.begins, self.spans, self.events = {}, {}, [], []
        arrows = query("SELECT slice_out, slice_in FROM flow")
        carriers = {end for arrow in arrows for end in arrow}
        for n, ts, dur, name, category, number, pid, place in query(SLICES):
            self.tracks[n], self.begins[n] = (pid, place), ts
            if dur or n not in carriers and name not in instants and category != "stack":
                self.spans.append(((pid, place), name, category or "syscall", ts, ts + dur, args[number]))
            elif n not in carriers:
                self.events.append((ts, n, n, INSTANT, name, category, args[number]))
        for n, device, stream, name, category, ts, dur in query(STAGES):
            self.tracks[n], self.begins[n] = (GPU_PROCESS + device, stream), ts
            self.spans.append((self.tracks[n], name, "kernel" if category == COMPUTE else "gpu_memcpy", ts, ts + dur, {}))
        for n, (pid, name, ts, value) in enumerate(query(COUNTERS)):
            self.tracks["counter", n] = pid, name
            self.events.append((ts, n, ("counter", n), COUNTER, None, None, value))
        self.links = [(self.end(begin), self.end(end)) for begin, end in arrows]
        self.cpus = query(ON_CPU)
        self.wakings = [(ts, None, tid) for ts, tid in query(WAKINGS)]
        self.threads = dict(query("SELECT tid, name FROM thread"))
        clocks = collections.defaultdict(dict)
        for snapshot, clock, value in query("SELECT snapshot_id, clock_id, clock_value FROM clock_snapshot"):
            clocks[snapshot][clock] = value
        self.clocks = [c for c in clocks.values() if len(c) > 2]  # the others count differences
        self.machine = query("SELECT str_value FROM metadata WHERE name = 'system_machine'")
        assert BOOTTIME in self.clocks[0]

    def end(self, n):
        return (*self.tracks[n], self.begins[n])

    def slices(self):
        return self.spans

    def arrows(self):
        return self.links

    def on_cpu(self):
        return self.cpus


def compare(path, json_path):
    with open(json_path, encoding="utf-8") as f:
        instants = {e["name"] for e in json.load(f) if e["ph"] == "i"}
    same_as_json(Tables(path, instants), json_path)


def loads(*paths):
    for path in paths:
        n = Processor(path).query("SELECT count(*) FROM slice")[0][0]
        print(f"{path}: {n} slices")
        assert n


# Waits are samples, too, of another session.
SAMPLES = """
    SELECT ifnull(p.name, t.name), s.callsite_id
    FROM perf_sample s JOIN perf_counter_track k ON k.perf_session_id = s.perf_session_id AND k.is_timebase
    JOIN thread t USING (utid) LEFT JOIN process p USING (upid)
    WHERE k.name = 'CPU time' AND k.cpu = s.cpu"""

CALLS = """
    SELECT c.id, c.parent_id, f.name, m.name
    FROM stack_profile_callsite c JOIN stack_profile_frame f ON f.id = c.frame_id JOIN stack_profile_mapping m ON m.id = f.mapping"""


def frame(name, mapping):
    """As `inftrace export --collapsed` has it."""
    if mapping.startswith("/[kernel"):
        return f"{name}_[k]"
    file = os.path.basename(mapping)
    return f"[{file}]" if name == "[unknown]" and not file.startswith("[") else name


def samples(path, collapsed):
    query = Processor(path).query
    calls = {n: (parent, frame(name, mapping)) for n, parent, name, mapping in query(CALLS)}
    found = collections.Counter()
    for process, n in query(SAMPLES):
        stack = []
        while n is not None:
            n, name = calls[n]
            stack.insert(0, name)
        found[";".join([process] + stack)] += 1
    with open(collapsed, encoding="utf-8") as f:
        wanted = collections.Counter({line.rpartition(" ")[0]: int(line.rpartition(" ")[2]) for line in f})
    d = Differences()
    d.same("samples, with their stacks", found, wanted)
    d.end()


def gpu(path, json_path):
    sys.exit(gpu_tables.compare(Processor(path), json_path, None))


if __name__ == "__main__":
    {f.__name__: f for f in (compare, loads, samples, gpu)}[sys.argv[1]](*sys.argv[2:])
