#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Compares what a trace shows of a GPU with the truth of the GPU that does not exist (tests/gpu/mock.h).

  check_gpu.py all TRACE TRUTH MESSAGES      each kernel, copy and set is there, as it was; and each has its launch
  check_gpu.py some TRACE TRUTH MESSAGES     those that are there are as they were
TRUTH: of mock_driver --truth. MESSAGES: of inftrace, which state how exact times are.
Exits with 0, or prints differences and exits with 1.
"""
import collections
import json
import re
import sys

sys.dont_write_bytecode = True

from check import Differences, events_of, ns, start  # noqa: E402

CATEGORIES = {"kernel": "kernel", "copy": "gpu_memcpy", "set": "gpu_memset"}
COPIES = {1: "Memcpy HtoD", 2: "Memcpy DtoH", 8: "Memcpy DtoD"}
NAMES = {
    "_Z7rmsnormPKfS0_Pfif": "rmsnorm",
    "_ZN7cutlass6KernelINS_4gemm6kernel4GemmEEEvNT_6ParamsE": "cutlass::Kernel",
    "void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, cutlass::half_t>>(Flash_fwd_params)":
        "flash_fwd_kernel",
    "_Z13mul_mat_vec_qILi4EEvPKvS1_Pfiii": "mul_mat_vec_q",
    "rope_norm<float, true>": "rope_norm",
}


def name_of(work):
    if work["kind"] == "kernel":
        return NAMES.get(work["name"], work["name"])
    return COPIES[work["copy_kind"]] if work["kind"] == "copy" else "Memset (Device)"


def key(work):
    shape = (tuple(work["grid"]), tuple(work["block"])) if work["kind"] == "kernel" else work["bytes"]
    return CATEGORIES[work["kind"]], name_of(work), work["stream"], work["device"], work["correlation"], shape


def key_of(event):
    a = event["args"]
    shape = (tuple(a["grid"]), tuple(a["block"])) if event["cat"] == "kernel" else a["bytes"]
    return event["cat"], event["name"], a["stream"], a["device"], a["correlation"], shape


def main(what, trace, truth, messages):
    d = Differences()
    events = events_of(trace)
    clock = next(e for e in events if e["name"] == "inftrace_clock")
    origin = int(clock["args"]["boottime_ns"]) - start(clock)
    with open(messages, encoding="utf-8") as f:
        within = re.search(r"times within ([0-9.]+) us", f.read())
    residual = float(within[1]) * 1000 + 100 if within else 0  # it is rounded
    with open(truth, encoding="utf-8") as f:
        works = [w for w in map(json.loads, f) if w["kind"] in CATEGORIES]
    wanted, got = collections.defaultdict(list), collections.defaultdict(list)
    for w in works:
        wanted[key(w)].append((w["start"], w["end"]))
    slices = [e for e in events if e.get("ph") == "X" and e.get("cat") in CATEGORIES.values()]
    for e in slices:
        got[key_of(e)].append((origin + start(e), origin + start(e) + ns(e["dur"])))
    print(f"{len(slices)} of {len(works)}, within {residual:.0f} ns")
    if what == "all":
        d.equal("kernels, copies and sets", collections.Counter({k: len(v) for k, v in got.items()}),
               collections.Counter({k: len(v) for k, v in wanted.items()}))
        begins = sum(e.get("ph") == "s" and e.get("cat") == "ac2g" for e in events)
        d.equal("arrows from launches", begins, len({w["correlation"] for w in works if w["end"] > w["start"]}))
    worst = 0
    for k, times in got.items():
        truths = wanted.get(k, [])
        for t in times:
            worst = max(worst, min((max(abs(t[0] - w[0]), abs(t[1] - w[1])) for w in truths), default=1 << 62))
    d.equal("the largest difference of a time is within what is stated", worst <= residual, True)
    print(f"the largest difference: {worst} ns")
    sys.exit(d.n > 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
