#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs a model of make_onnx.py with ONNX Runtime's Python module, again and again.

  run_onnx.py MODEL.onnx RUNS

Once ready, prints "ready" and begins at the next line of input. The last line printed is JSON: the engine, and how often each node ran by its own profiler.
"""
import collections
import json
import os
import sys

import numpy
import onnxruntime

model, runs = sys.argv[1:]
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
options.enable_profiling = True
options.profile_file_prefix = f"{model}-{os.getpid()}"
session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
tokens = numpy.sin(numpy.arange(256, dtype=numpy.float32)).reshape(1, 256)
print("ready", flush=True)
sys.stdin.readline()
for i in range(int(runs)):
    session.run(None, {"tokens": tokens})
with open(session.end_profiling(), encoding="utf-8") as f:
    nodes = collections.Counter(e["args"]["node_index"] for e in json.load(f) if e["name"].endswith("_kernel_time"))
print(json.dumps({"engine": "onnxruntime " + onnxruntime.__version__, "runs": int(runs), "nodes": nodes}))
