#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Perfetto's tables of GPUs, of a .pftrace: gpu_tables.py FILE.pftrace FILE.json [API]

protoc decodes the file (gpu_trace.proto), and Perfetto's tables gpu_slice, gpu_track, gpu, args and flow are made in SQLite as
src/trace_processor/importers/proto/gpu_event_parser.cc of v58 makes them; trace_processor.py asks an older trace processor itself. Queries with the columns of kernels_summary, gpu_idle_gaps and gpu_timeline_decomposition of its public skills, written anew,
run on these, and what they return is compared with the Chrome JSON of the same recording. The last line is JSON: what there was.
"""

import collections
import json
import sqlite3
import sys

import protos

INCREMENTAL_CLEARED = 1


def decode(path):
    """The packets, without the fields that gpu_trace.proto does not have."""
    with open(path, "rb") as f:
        return protos.decode("Trace", "gpu_trace.proto", f.read(), unknown=True).get("packet", [])


def one(message, key, default=None):
    return message.get(key, [default])[0]


class Tables:
    def __init__(self):
        self.db = sqlite3.connect(":memory:")
        self.db.executescript("""
            CREATE TABLE gpu_slice(id INTEGER PRIMARY KEY, ts, dur, track_id, name, arg_set_id, context_id, submission_id, hw_queue_id, upid,
                                   render_stage_category);
            CREATE TABLE gpu_track(id INTEGER PRIMARY KEY, name, type, dimension_arg_set_id);
            CREATE TABLE gpu(id INTEGER PRIMARY KEY, ugpu, gpu, name);
            CREATE TABLE gpu_context(id INTEGER PRIMARY KEY, context_id, pid, api);
            CREATE TABLE args(arg_set_id, key, value);
            CREATE TABLE flow(slice_out, slice_in);
            CREATE INDEX args_of ON args(arg_set_id, key);
        """)
        self.db.create_function("EXTRACT_ARG", 2, self.extract_arg)
        self.interned = collections.defaultdict(dict)  # by sequence
        self.tracks, self.gpus, self.contexts, self.args = {}, set(), set(), {}
        self.submitted = set()

    def extract_arg(self, arg_set, key):
        return self.args.get(arg_set, {}).get(key)

    def insert(self, table, *values):
        return self.db.execute(f"INSERT INTO {table} VALUES ({','.join('?' * len(values))})", values).lastrowid

    def arg_set(self, args):
        number = len(self.args) + 1
        self.args[number] = args
        self.db.executemany("INSERT INTO args VALUES (?, ?, ?)", [(number, k, v) for k, v in args.items()])
        return number

    def intern(self, names, data):
        for kind, entries in data.items():
            for e in entries:
                names[kind, one(e, "iid")] = e

    def packet(self, p):
        sequence = one(p, "trusted_packet_sequence_id", 0)
        if one(p, "sequence_flags", 0) & INCREMENTAL_CLEARED:
            self.interned[sequence] = {}
        for data in p.get("interned_data", []):
            self.intern(self.interned[sequence], data)
        for info in p.get("gpu_info", []):
            for gpu, about in enumerate(info.get("gpus", [])):
                self.add_gpu(gpu)
                if "name" in about:
                    self.db.execute("UPDATE gpu SET name = ? WHERE gpu = ?", (one(about, "name"), gpu))
        for e in p.get("gpu_render_stage_event", []):
            assert "timestamp_clock_id" not in p, "not the clock of the trace"
            self.stage(one(p, "timestamp"), e, self.interned[sequence])
        for e in p.get("track_event", []):
            self.submitted.update(one(e, "gpu_correlation", {}).get("render_stage_submission_event_ids", []))

    def add_gpu(self, gpu):
        if gpu not in self.gpus:
            self.gpus.add(gpu)
            self.insert("gpu", None, gpu, gpu, None)

    def stage(self, ts, e, names):
        gpu = one(e, "gpu_id", 0)
        queue = names["gpu_specifications", one(e, "hw_queue_iid")]
        stage = names["gpu_specifications", one(e, "stage_iid")]
        context = names["graphics_contexts", one(e, "context")]
        self.add_gpu(gpu)
        if one(e, "context") not in self.contexts:
            self.contexts.add(one(e, "context"))
            self.insert("gpu_context", None, one(e, "context"), one(context, "pid"), {4: "CUDA", 5: "HIP"}.get(one(context, "api")))
        key = gpu, one(e, "hw_queue_iid"), one(queue, "name")
        if key not in self.tracks:
            dimensions = {"ugpu": gpu, "gpu": gpu, "render_stage_source": "iid", "hwqueue_id": key[1], "hwqueue_name": key[2]}
            self.tracks[key] = self.insert("gpu_track", None, key[2], "gpu_render_stage", self.arg_set(dimensions))
        name = one(names["event_names", one(e, "name_iid")], "name") if "name_iid" in e else one(e, "name") or one(stage, "name")
        args = {"render_stage_category": one(stage, "category", 0), "context_id": one(e, "context"),
                "submission_id": one(e, "submission_id", 0), "hw_queue_id": key[1], "pid": one(context, "pid")}
        if "kernel_iid" in e:
            kernel = names["compute_kernels", one(e, "kernel_iid")]
            args.update({k: one(kernel, of) for k, of in (("kernel_name", "name"), ("kernel_demangled_name", "demangled_name"))
                         if of in kernel})
        for launch in e.get("launch", []):
            for what in ("grid_size", "workgroup_size"):
                for dim in launch.get(what, []):
                    args.update({f"launch.{what}.{k}": v[0] for k, v in dim.items()})
            for arg in launch.get("args", []):
                value = next(v[0] for k, v in arg.items() if k.endswith("_value"))
                args[one(names["compute_arg_names", one(arg, "name_iid")], "name")] = value
        arg_set = self.arg_set(args)
        self.insert("gpu_slice", one(e, "event_id"), ts, one(e, "duration"), self.tracks[key], name, arg_set, one(e, "context"),
                    one(e, "submission_id", 0), key[1], one(context, "pid"), args["render_stage_category"])

    def query(self, sql):
        return [tuple(row) for row in self.db.execute(sql)]

    def arrows(self):
        return len(self.submitted & {row[0] for row in self.query("SELECT id FROM gpu_slice")})


# The columns of compute/scripts/kernels_summary.sql: id, kernel, ugpu, dur_ns, block_size, grid_size, registers
KERNELS = """
    SELECT row_number() OVER (ORDER BY s.ts) AS id,
        coalesce(EXTRACT_ARG(s.arg_set_id, 'kernel_demangled_name'), EXTRACT_ARG(s.arg_set_id, 'kernel_name'), s.name) AS kernel,
        EXTRACT_ARG(t.dimension_arg_set_id, 'ugpu') AS ugpu, s.dur AS dur_ns,
        EXTRACT_ARG(s.arg_set_id, 'workgroup_size') AS block_size, EXTRACT_ARG(s.arg_set_id, 'grid_size') AS grid_size,
        EXTRACT_ARG(s.arg_set_id, 'registers_per_thread') AS registers
    FROM gpu_slice s JOIN gpu_track t ON t.id = s.track_id
    WHERE s.render_stage_category = 2 AND s.dur > 0"""

# Times in which a GPU did something, merged, by GPU: what Perfetto's intervals.overlap returns for gpu_slice with dur > 0
BUSY = """
    WITH work AS (SELECT EXTRACT_ARG(t.dimension_arg_set_id, 'ugpu') AS ugpu, s.ts AS ts, s.ts + s.dur AS ended
            FROM gpu_slice s JOIN gpu_track t ON t.id = s.track_id WHERE s.dur > 0),
        edge AS (SELECT *, max(ended) OVER (PARTITION BY ugpu ORDER BY ts, ended ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
            FROM work),
        island AS (SELECT *, sum(before IS NULL OR ts > before) OVER (PARTITION BY ugpu ORDER BY ts, ended) AS number FROM edge),
        busy AS (SELECT ugpu, min(ts) AS ts, max(ended) AS ended FROM island GROUP BY ugpu, number)"""

# gpu_idle_gaps.sql: gap_start_rel_ns, gap_dur_ns
GAPS = BUSY + """
    SELECT ended - (SELECT min(ts) FROM gpu_slice) AS gap_start_rel_ns, next - ended AS gap_dur_ns
    FROM (SELECT ended, lead(ts) OVER (PARTITION BY ugpu ORDER BY ts) AS next FROM busy) WHERE next > ended
    ORDER BY gap_dur_ns DESC, ended LIMIT 10"""

# gpu_timeline_decomposition.sql: gpu, gpu_name, activities, active_span_ns, gpu_busy_ns, busy_pct_of_active; without trace_wall_ns and
# busy_pct_of_trace, which are of what is not read here
TIMELINE = BUSY + """
    SELECT w.ugpu AS gpu, ifnull(g.name, 'GPU ' || w.ugpu) AS gpu_name, count(*) AS activities, max(w.ended) - min(w.ts) AS active_span_ns,
        (SELECT sum(ended - ts) FROM busy WHERE ugpu = w.ugpu) AS gpu_busy_ns,
        round(100.0 * (SELECT sum(ended - ts) FROM busy WHERE ugpu = w.ugpu) / (max(w.ended) - min(w.ts)), 1) AS busy_pct_of_active
    FROM work w LEFT JOIN gpu g ON g.ugpu = w.ugpu GROUP BY w.ugpu ORDER BY w.ugpu"""

# compute/scripts/launch_statistics.sql, of those that CUPTI knows
LAUNCHES = """
    SELECT EXTRACT_ARG(arg_set_id, 'thread_count'), EXTRACT_ARG(arg_set_id, 'shared_mem_static'),
        EXTRACT_ARG(arg_set_id, 'shared_mem_dynamic')
    FROM gpu_slice WHERE render_stage_category = 2 AND dur > 0"""

# How the UI places streams in their process: dev.perfetto.GpuByProcess
STREAMS = """
    SELECT s.upid, EXTRACT_ARG(s.arg_set_id, 'device'), EXTRACT_ARG(s.arg_set_id, 'stream'), c.api, count(*)
    FROM gpu_slice s LEFT JOIN gpu_context c ON c.context_id = s.context_id GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3"""

STREAMS_ALONE = """
    SELECT p.pid, EXTRACT_ARG(s.arg_set_id, 'device'), EXTRACT_ARG(s.arg_set_id, 'stream'), NULL, count(*)
    FROM gpu_slice s JOIN process p ON p.upid = s.upid GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"""


def product(v):
    return v[0] * v[1] * v[2]


def merged(spans):
    out = []
    for start, end in sorted(spans):
        if out and start <= out[-1][1]:
            out[-1][1] = max(out[-1][1], end)
        else:
            out.append([start, end])
    return out


def of_json(path):
    with open(path, encoding="utf-8") as f:
        events = [e for e in json.load(f) if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset") and e["ph"] == "X"]
    for e in events:
        e["start"] = round(e["ts"] * 1000)
        e["ns"] = round(e["dur"] * 1000)
    return events


def names_of_json(path):
    """{device: name}: of processes such as GPU 0: NVIDIA H200 (0000:1b:00.0)."""
    with open(path, encoding="utf-8") as f:
        names = [e["args"]["name"] for e in json.load(f) if e["name"] == "process_name" and e["args"]["name"].startswith("GPU ")]
    return {int(n.split(":")[0].removeprefix("GPU ")): n.partition(": ")[2].partition(" (")[0] for n in names}


def main(path, json_path, api="CUDA"):
    tables = Tables()
    for p in decode(path):
        tables.packet(p)
    return compare(tables, json_path, api)


def compare(tables, json_path, api):
    """tables: query(SQL) returns the rows, arrows() how many launches have a slice; api: None if it has no table gpu_context."""
    events = of_json(json_path)
    kernels = [e for e in events if e["cat"] == "kernel" and e["ns"]]
    wanted = {}
    wanted["kernels_summary"] = sorted((e["args"].get("kernel", e["name"]), e["args"]["device"], e["ns"], product(e["args"]["block"]),
                                        product(e["args"]["grid"]), e["args"].get("registers per thread")) for e in kernels)
    wanted["launch_statistics"] = sorted((product(e["args"]["block"]) * product(e["args"]["grid"]), e["args"]["shared memory"])
                                         for e in kernels)
    first = min(e["start"] for e in events)
    gaps, timeline = [], []
    names = names_of_json(json_path)
    several = tables.query("SELECT count(*) > 1 FROM gpu WHERE name IS NOT NULL")[0][0]
    for device in sorted({e["args"]["device"] for e in events if e["ns"]}):
        of = [(e["start"], e["start"] + e["ns"]) for e in events if e["args"]["device"] == device and e["ns"]]
        busy = merged(of)
        gaps += [(a[1] - first, b[0] - a[1]) for a, b in zip(busy, busy[1:])]
        span, ran = max(b for _, b in of) - min(a for a, _ in of), sum(b - a for a, b in busy)
        name = names.get(device) and names[device] + (f" #{device}" if several else "")
        timeline.append((device, name or f"GPU {device}", len(of), span, ran, tables.query(f"SELECT round({100.0 * ran / span!r}, 1)")[0][0]))
    wanted["gpu_idle_gaps"] = sorted(gaps, key=lambda g: (-g[1], g[0]))[:10]
    wanted["gpu_timeline_decomposition"] = timeline
    wanted["streams"] = sorted((*k, api, n) for k, n in collections.Counter(
        (e["args"]["pid"], e["args"]["device"], e["args"]["stream"]) for e in events).items())
    with open(json_path, encoding="utf-8") as f:
        wanted["arrows"] = sum(e["ph"] == "s" and e["name"] == "ac2g" for e in json.load(f))
    got = {"kernels_summary": sorted(row[1:] for row in tables.query(KERNELS)),
           "launch_statistics": sorted((threads, static + dynamic) for threads, static, dynamic in tables.query(LAUNCHES)),
           "gpu_idle_gaps": tables.query(GAPS), "gpu_timeline_decomposition": tables.query(TIMELINE),
           "streams": tables.query(STREAMS if api else STREAMS_ALONE),
           "arrows": tables.arrows()}
    failed = [k for k in wanted if got[k] != wanted[k]] + [k for k in ("kernels_summary", "streams") if not wanted[k]]
    for k in failed:
        print(f"{k}: {str(got[k])[:500]}\n  the JSON says {str(wanted[k])[:500]}")
    print(json.dumps({k: len(v) if isinstance(v, list) else v for k, v in got.items()}))
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
