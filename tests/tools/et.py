#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Compares an execution trace with the graphs that the engine itself wrote (llama_driver -N): et.py FILE.et NODES
et.py --comms FILE.et prints the nodes of communication, each as JSON: name, type, attributes, and what comes first.
et.py --calls FILE.et FILE.et.json GRAPH holds the calls of PyTorch's operators against its own execution trace (torch_model.py), with the
shapes of the tensors that they read, which both files have.

One node for each operator for which a function runs and whose result has elements, in the same order, with the same name, operator, type, shape and
edges. protoc decodes the file. Prints what differs; the last line is JSON: what there was.
"""

import collections
import json
import os
import sys

import protos


def messages(data):
    at = 0
    while at < len(data):
        n = shift = 0
        while True:
            n |= (data[at] & 0x7f) << shift
            shift += 7
            at += 1
            if data[at - 1] < 0x80:
                break
        if at + n > len(data):
            raise SystemExit(f"a message of {n} bytes at {at} goes beyond the end of the file")
        yield data[at:at + n]
        at += n


def decode(path):
    with open(path, "rb") as f:
        data = f.read()
    return protos.decode("Trace", "execution_trace.proto",
                         b"".join(protos.part(2 if i else 1, m) for i, m in enumerate(messages(data))))


def attrs(node):
    return {a["name"][0]: next(v[0] for k, v in a.items() if k != "name") for a in node.get("attr", [])}


def first(node, key, default=None):
    return node.get(key, [default])[0]


def print_comms(path):
    for n in decode(path).get("node", []):
        if n["type"][0] != "COMP_NODE":
            print(json.dumps({"id": n["id"][0], "name": n["name"][0], "type": n["type"][0], "after": n.get("ctrl_deps", [])} | attrs(n)))


def compare_shapes(path, nodes, theirs):
    """Where the tensors among the arguments are known, which on x86_64 is in all of this model's calls. Returns the problems, and how many."""
    with open(path) as f:
        in_json = [n["inputs"] for n in json.load(f)["nodes"] if not n["name"].startswith("[pytorch|")]
    problems, n_shapes = [], 0
    for k, (n, same, (types, shapes)) in enumerate(zip(nodes, in_json, theirs)):
        ours = {kind: json.loads(text[0]) for kind, text in n["inputs"][0].items()} if "inputs" in n else {"types": [], "shapes": [], "values": []}
        known = [(kind, shape) if kind.startswith("Tensor(") else None for kind, shape in zip(ours["types"], ours["shapes"])]
        want = [(kind, shape) if kind.startswith("Tensor(") else None for kind, shape in zip(types, shapes)]
        if same != ours:
            problems.append(f"call {k}, {n['name'][0]}: {ours}, in the JSON {same}")
        if known != (want if os.uname().machine == "x86_64" else []):
            problems.append(f"call {k}, {n['name'][0]}: tensors {known}, in PyTorch {want}")
        if any(len(v) != (6 if kind.startswith("Tensor(") else len("<unknown>")) for v, kind in zip(ours["values"], ours["types"])):
            problems.append(f"call {k}, {n['name'][0]}: {ours}")
        n_shapes += len(known) - known.count(None)
    return problems, n_shapes


def compare_calls(path, path_json, graph):
    """The same calls in the same order, each within the same ones; durations that add up; one after the other."""
    with open(graph) as f:
        own = {n["id"]: n for n in json.load(f)["nodes"]}
    nodes = {n["id"][0]: n | {"attrs": attrs(n)} for n in decode(path).get("node", [])}
    got, want, problems, last, read = [], [], [], {}, []
    inner = collections.Counter()
    for n in nodes.values():
        inner[n["attrs"].get("parent")] += n["attrs"].get("duration_ns", 0)
    for i, n in sorted(nodes.items()):
        names, at = [], i
        while at:
            names.append((nodes[at]["name"][0], nodes[at]["attrs"].get("op_schema")))
            at = nodes[at]["attrs"].get("parent")
        got.append(names)
        after = [d for d in (last.get(n["attrs"]["tid"]), n["attrs"].get("parent")) if d]
        if n.get("ctrl_deps", []) != list(dict.fromkeys(after)):
            problems.append(f"node {i} comes after {n.get('ctrl_deps')}, not {after}")
        last[n["attrs"]["tid"]] = i
        if n["attrs"].get("own_ns", 0) != n["attrs"].get("duration_ns", 0) - inner[i]:
            problems.append(f"node {i}: {n['attrs']}, {inner[i]} ns in others")
    # those whose end is not seen have no time, and nothing is within them
    instants = {(n["name"][0], n["attrs"].get("op_schema")) for n in nodes.values() if "duration_ns" not in n["attrs"]}
    for i, n in sorted(own.items()):
        names, call = [], n
        if own.get(i - 1, n)["name"] == "forward":
            continue # the tensor that "forward" itself is kept in
        while n and n["name"] != "forward":
            name = n["name"], n["op_schema"].split("(")[0]
            names += [name] if not names or name not in instants else []
            n = own.get(n["parent"]) if n["parent"] != n["id"] else None
        if n and names:
            want.append(names)
            read.append((call["input_types"], call["input_shapes"]))
    wrong, n_shapes = compare_shapes(path_json, [n for _, n in sorted(nodes.items())], read)
    problems += wrong
    for k, (a, b) in enumerate(zip(got, want)):
        if a != b:
            problems.append(f"call {k}: {a}, in PyTorch {b}")
    for p in problems[:20]:
        print(p)
    print(f"{len(got)} operators, {len(want)} in PyTorch, {n_shapes} shapes, up to {max(map(len, got), default=0)} within each other, instants {sorted(instants)}")
    return bool(problems or not got or len(got) != len(want))


def main():
    if sys.argv[1] == "--calls":
        return compare_calls(*sys.argv[2:])
    if sys.argv[1] == "--comms":
        return print_comms(sys.argv[2])
    trace = decode(sys.argv[1])
    steps, graphs, problems = {}, {}, []
    for n in trace.get("node", []):
        n["attrs"] = attrs(n)
        steps.setdefault(n["attrs"]["step"], []).append(n)
    with open(sys.argv[2]) as f:
        for line in f:
            t = json.loads(line)
            if not t["empty"]:
                graphs.setdefault(t["step"], []).append(t)
    address = {n["id"][0]: n["attrs"]["address"] for s in steps.values() for n in s}
    step_of = {n["id"][0]: k for k, s in steps.items() for n in s}
    edges = last = 0
    if sorted(steps) != sorted(graphs):
        problems.append(f"steps {sorted(steps)}, the engine's {sorted(graphs)}")
    for k in sorted(set(steps) & set(graphs)):
        nodes, graph = steps[k], graphs[k]
        if len(nodes) != len(graph):
            problems.append(f"step {k}: {len(nodes)} nodes, the engine has {len(graph)}")
            continue
        for n, t in zip(nodes, graph):
            out = n["outputs"][0]
            mine = (first(n, "name"), n["attrs"]["op"], json.loads(out["types"][0]), json.loads(out["shapes"][0]),
                    n["attrs"]["address"])
            theirs = (t["name"], t["op"], [t["type"]], [t["ne"]], int(t["at"], 16))
            if mine != theirs:
                problems.append(f"step {k}: {mine}, the engine's {theirs}")
            if any(step_of.get(d) != k for d in n.get("data_deps", [])):
                problems.append(f"step {k}: {mine[0]} depends on a node of another step")
            if last and not n.get("data_deps") and n.get("ctrl_deps", []) != [last] and \
                    any(step_of.get(d) != k for d in n.get("ctrl_deps", [None])):
                problems.append(f"step {k}: {mine[0]} does not come after {last}, the last node of the step before")
            got = {address.get(d) for d in n.get("data_deps", [])}
            want = {int(a, 16) for a in t["needs"]}
            edges += len(want)
            if got != want:
                problems.append(f"step {k}: {mine[0]} ({mine[1]}) depends on {sorted(got)}, in the graph on {sorted(want)}")
            if any(d >= n["id"][0] for d in n.get("data_deps", []) + n.get("ctrl_deps", [])):
                problems.append(f"step {k}: {mine[0]} depends on a later node")
        last = nodes[-1]["id"][0]
    for p in problems[:20]:
        print(p)
    nodes = [n for s in steps.values() for n in s]
    print(json.dumps({
        "version": first(trace["metadata"][0], "version"), "steps": len(steps), "nodes": len(nodes), "edges": edges,
        "timed": sum("start_time_micros" in n for n in nodes), "fused": sum("fused_into" in n["attrs"] for n in nodes),
        "control": sum(len(n.get("ctrl_deps", [])) for n in nodes), "problems": len(problems),
        "ns": sum(n["attrs"].get("duration_ns", 0) for n in nodes),
    }))
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
