# SPDX-License-Identifier: BSD-2-Clause
"""Holds the shapes and types of operators' tensors against PyTorch's own: check_shapes.py TYPES PYTORCH.json OURS.kineto.json OURS.json

What torch_shapes.py called between its two marks. A tensor whose shape may be unknown, by docs/execution-trace.md, must be, and no other.
At least TYPES types were seen.
"""

import json
import sys

LIMITS = (2**30 - 1, 2**30 - 1, 2**21 - 1, 2**21 - 1, 2**16 - 1)
MARK = [([7, 11], "float")]


def load(path):
    with open(path) as f:
        return json.load(f)


def between_marks(ops):
    """ops: name, and shape and type of each argument."""
    marks = [i for i, (_, inputs) in enumerate(ops) if inputs == MARK]
    return ops[marks[0]:marks[-1] + 1]


def of_pytorch(path):
    """With what inftrace has to say of the arguments."""
    ops = []
    for n in sorted(load(path)["nodes"], key=lambda n: n["id"]):
        types, shapes = (n["inputs"]["types"], n["inputs"]["shapes"]) if "inputs" in n and isinstance(n["inputs"], dict) else \
            (n["input_types"], n["input_shapes"])
        inputs = []
        for kind, shape in zip(types, shapes):
            fits = kind.startswith("Tensor(") and "nullptr" not in kind and len(shape) <= len(LIMITS) and all(d < limit for d, limit in zip(shape, LIMITS))
            inputs.append((shape, kind[len("Tensor("):-1]) if fits else ([], ""))
        if n["name"].startswith("aten::"):
            ops.append((n["name"], inputs))
    return between_marks(ops)


def of_trace(events, cat):
    ops = sorted((e for e in events if e.get("cat") == cat), key=lambda e: (e["ts"], -e.get("dur", 0)))
    args = [e.get("args", {}) for e in ops]
    return between_marks([(e["name"], list(zip(a.get("Input Dims", []), a.get("Input type", [])))) for e, a in zip(ops, args)])


def same(want, got):
    """An operator of which no argument is known to be a tensor has no list."""
    return want[0] == got[0] and (want[1] == got[1] or not got[1] and all(kind == "" for _, kind in want[1]))


def main():
    want = of_pytorch(sys.argv[2])
    got = of_trace(load(sys.argv[3])["traceEvents"], "cpu_op")
    plain = of_trace(load(sys.argv[4]), "op")
    problems = [f"{g}, in PyTorch {w}" for w, g in zip(want, got) if not same(w, g)]
    if len(want) != len(got):
        problems.append(f"{len(got)} operators, {len(want)} in PyTorch")
    if [inputs for _, inputs in plain] != [inputs for _, inputs in got]:
        problems.append("the other trace has others")
    for p in problems[:20]:
        print(p)
    types = {kind for _, inputs in got for _, kind in inputs} - {""}
    print(f"{len(want)} operators, {sum(kind != '' for _, inputs in got for _, kind in inputs)} tensors of {len(types)} types: {' '.join(sorted(types))}")
    return bool(problems or len(types) < int(sys.argv[1]))


if __name__ == "__main__":
    sys.exit(main())
