#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Compares what a trace shows of a GPU with the truth of the GPU that does not exist (tests/gpu/mock.h).

  check_gpu.py all TRACE TRUTH MESSAGES      each kernel, copy and set is there, as it was; and each has its launch
  check_gpu.py some TRACE TRUTH MESSAGES     those that are there are as they were
  check_gpu.py hta TRACE                     arguments have the types that HolisticTraceAnalysis wants, once the array is an object
  check_gpu.py steps TRACE TRUTH MESSAGES PROFILE
                                             as "all", and the parts of steps that wait for what they launch follow from what ran
  check_gpu.py engine TRACE TRUTH MESSAGES PROFILE
                                             each is there, as it was; from the first step on with its launch; and the parts
                                             of steps follow from what ran
TRUTH: of mock_driver --truth. MESSAGES: of inftrace, which state how exact times are.
Exits with 0, or prints differences and exits with 1.
"""
import collections
import re
import subprocess
import sys

from check import Differences, events_of, start
from reading import ns, read_lines

CATEGORIES = {"kernel": "kernel", "copy": "gpu_memcpy", "set": "gpu_memset"}
COPIES = {1: "Memcpy HtoD", 2: "Memcpy DtoH", 8: "Memcpy DtoD"}
# those of tests/gpu/mock_driver.c; of others, as of a real program's, the demangler of binutils says it
NAMES = {
    "_Z7rmsnormPKfS0_Pfif": "rmsnorm",
    "_ZN7cutlass6KernelINS_4gemm6kernel4GemmEEEvNT_6ParamsE": "cutlass::Kernel",
    "void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, cutlass::half_t>>(Flash_fwd_params)":
        "flash_fwd_kernel",
    "_Z13mul_mat_vec_qILi4EEvPKvS1_Pfiii": "mul_mat_vec_q",
    "rope_norm<float, true>": "rope_norm",
}


def demangle(names):
    """What is shown of names: without what is returned, arguments of templates and parameters."""
    out = subprocess.run(["c++filt", "-p"], input="\n".join(names), capture_output=True, text=True, check=True).stdout
    for name, text in zip(names, out.splitlines()):
        while "<" in text:  # the innermost
            text = re.sub(r"<[^<>]*>", "", text)
        NAMES[name] = text.removeprefix("void ")


def name_of(work):
    if work["kind"] == "kernel":
        return NAMES[work["name"]]
    return COPIES[work["copy_kind"]] if work["kind"] == "copy" else "Memset (Device)"


def key(work):
    shape = (tuple(work["grid"]), tuple(work["block"])) if work["kind"] == "kernel" else work["bytes"]
    return CATEGORIES[work["kind"]], name_of(work), work["stream"], work["device"], work["correlation"], shape


def key_of(event):
    a = event["args"]
    shape = (tuple(a["grid"]), tuple(a["block"])) if event["cat"] == "kernel" else a["bytes"]
    return event["cat"], event["name"], a["stream"], a["device"], a["correlation"], shape


def union(works, start_ns, end_ns):
    """For how long one of them ran in that time."""
    total, at = 0, start_ns
    for w in works:  # sorted
        begin, end = max(w["start"], at), min(w["end"], end_ns)
        if end > begin:
            total += end - begin
            at = end
    return total


def launch_times(events, slices, origin):
    """{correlation: when it was launched}, by the arrows."""
    launches = {e["id"]: origin + start(e) for e in events if e.get("ph") == "s" and e.get("cat") == "ac2g"}
    reached = {(e["pid"], e["tid"], e["ts"]): e["id"] for e in events if e.get("ph") == "f" and e.get("cat") == "ac2g"}
    ids = ((e["args"]["correlation"], reached.get((e["pid"], e["tid"], e["ts"]))) for e in slices)
    return {correlation: launches[i] for correlation, i in ids if i in launches}


def check_devices(d, s, works, begin, end, slack):
    """The same of each of several devices."""
    devices = sorted({w["device"] for w in works if w["start"] < end and w["end"] > begin})
    d.equal(f"step {s['step']}: devices", s.get("gpu_devices", 1), max(len(devices), 1))
    for device in devices if len(devices) > 1 else ():
        of = [w for w in works if w["device"] == device]
        busy, both = union([w for w in of if w["kind"] == "kernel"], begin, end), union(of, begin, end)
        for part, wanted in ("busy", busy), ("copy", both - busy):
            got = ns(s.get(f"gpu_device{device}_{part}_us", 0))
            if abs(got - wanted) > slack:
                d.equal(f"step {s['step']}: {part} of GPU {device}", got, wanted)


def check_steps(d, profile, works, origin, residual, launched):
    """The busy time of each step, as much copying as there is beside kernels, and what ran after it. Of all devices together."""
    lines = [x for x in read_lines(profile, "token_prof") if "gpu_busy_us" in x["shape"]]
    works.sort(key=lambda w: w["start"])
    kernels = [w for w in works if w["kind"] == "kernel"]
    begins = sorted(origin + ns(x["shape"]["ts_us"]) for x in lines) + [1 << 63]
    for x in lines:
        s = x["shape"]
        begin = origin + ns(s["ts_us"])
        end = begin + ns(x["stage_us"]["total"])
        busy, both = union(kernels, begin, end), union(works, begin, end)
        slack = (s["gpu_kernels"] + s["gpu_copies"] + 2) * 2 * residual
        if abs(ns(s["gpu_busy_us"]) - busy) > slack:
            d.equal(f"step {s['step']}: busy", ns(s["gpu_busy_us"]), busy)
        if abs(ns(s["gpu_copy_us"]) - (both - busy)) > slack:
            d.equal(f"step {s['step']}: copies", ns(s["gpu_copy_us"]), both - busy)
        check_devices(d, s, works, begin, end, slack)
        # of an engine that has waited for all of it before the next step; what it launches between steps is of none
        next_begin = begins[begins.index(begin) + 1]
        after = union([w for w in works if begin <= launched.get(w["correlation"], 0) <= end], end, next_begin)
        if after < next_begin - end - slack and abs(ns(s.get("gpu_after_us", 0)) - after) > slack:
            d.equal(f"step {s['step']}: after it", ns(s.get("gpu_after_us", 0)), after)
        if s["gpu_unknown_us"]:
            d.equal(f"step {s['step']}: not known", s["gpu_unknown_us"], 0)
    print(f"{len(lines)} steps, {sum(x['shape']['gpu_kernels'] for x in lines)} kernels within them")


def main(what, trace, truth, messages, profile=None):
    d = Differences()
    with open(messages, encoding="utf-8") as f:
        said = f.read()
    within = re.search(r"times within ([0-9.]+) us", said)
    # records left out since a clock was stepped meanwhile, as a machine under load may do: then it is not known, either, what was launched
    disturbed = re.search(r"records are missing, .* and ([0-9]+) made no sense", said)
    missing = int(disturbed[1]) if disturbed else 0
    residual = float(within[1]) * 1000 + 100 if within else 0  # it is rounded
    works = [w for w in read_lines(truth) if w["kind"] in CATEGORIES]
    for w in works:
        w["name"] = w["name"] and w["name"].removesuffix(".kd")  # AMD's: of its descriptor
    events = events_of(trace)
    clock = next(e for e in events if e["name"] == "inftrace_clock")
    origin = int(clock["args"]["boottime_ns"]) - start(clock)
    demangle(sorted({w["name"] for w in works if w["kind"] == "kernel"} - NAMES.keys()))
    wanted, got = collections.defaultdict(list), collections.defaultdict(list)
    for w in works:
        wanted[key(w)].append((w["start"], w["end"]))
    slices = [e for e in events if e.get("ph") == "X" and e.get("cat") in CATEGORIES.values()]
    for e in slices:
        got[key_of(e)].append((origin + start(e), origin + start(e) + ns(e["dur"])))
    print(f"{len(slices)} of {len(works)}, within {residual:.0f} ns")
    if what != "some":
        lacks = sum(max(len(wanted[k]) - len(got[k]), 0) for k in wanted)
        for k in got.keys() | wanted.keys():
            if d.n < 5 and (len(got[k]) > len(wanted[k]) or lacks > missing):
                d.equal(k, len(got[k]), len(wanted[k]))
    if what == "steps" and not missing:
        check_steps(d, profile, works, origin, residual, {})
    if what in ("all", "steps") and not missing:
        begins = sum(e.get("ph") == "s" and e.get("cat") == "ac2g" for e in events)
        d.equal("arrows from launches", begins, len({w["correlation"] for w in works if w["end"] > w["start"]}))
    if what == "engine":
        first = min(start(e) for e in events if e.get("cat") == "step")
        launched = launch_times(events, slices, origin)
        d.equal("without their launch",
                [e for e in slices if start(e) >= first and e["args"]["correlation"] not in launched][:3], [])
        check_steps(d, profile, works, origin, residual, launched)
    worst = 0
    for k, times in got.items():
        truths = wanted.get(k, [])
        for t in times:
            worst = max(worst, min((max(abs(t[0] - w[0]), abs(t[1] - w[1])) for w in truths), default=1 << 62))
    d.equal("the largest difference of a time is within what is stated", worst <= residual, True)
    print(f"the largest difference: {worst} ns")
    sys.exit(d.n > 0)


# Arguments that HTA (hta/configs/event_args_formats, 1.0.0) reads by name, in whatever event, and their types.
HTA_ARGS = {name: int for name in (
    "External id", "correlation", "cbid", "context", "device", "stream", "queued", "bytes", "shared memory", "registers per thread",
    "wait_on_stream", "wait_on_cuda_event_record_corr_id", "Sequence number", "Fwd thread id", "Python id", "Python parent id",
    "Ev Idx")}
HTA_ARGS |= {"memory bandwidth (GB/s)": (int, float), "warps per SM": (int, float)}


def check_hta(trace):
    d = Differences()
    events = events_of(trace)
    d.equal("arguments of another type", [e for e in events for k, v in e.get("args", {}).items()
                                          if k in HTA_ARGS and not isinstance(v, HTA_ARGS[k])][:3], [])
    d.equal("slices without what its table needs", [e for e in events if e["ph"] == "X" and
                                                    not {"ts", "dur", "name", "cat", "pid", "tid"} <= set(e)][:3], [])
    on_gpu = [e for e in events if e.get("cat") in CATEGORIES.values()]
    d.equal("there are slices of a GPU", bool(on_gpu), True)
    d.equal("those without a stream", [e for e in on_gpu if e["args"]["stream"] < 0 or not e["args"]["correlation"]][:3], [])
    sys.exit(d.n > 0)


if __name__ == "__main__":
    if sys.argv[1] == "hta":
        check_hta(sys.argv[2])
    main(*sys.argv[1:])
