#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Writes a small ONNX model with fixed weights: scores = Softmax(Relu(tokens @ w0) @ w1).

  make_onnx.py FILE

Standard library only. The format: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
"""
import hashlib
import os
import struct
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools"))
from protos import number, part  # noqa: E402

WIDTH, HIDDEN = 256, 1024
FLOAT = 1  # TensorProto.DataType


# ---- onnx.proto -------------------------------------------------------------


def value_info(name, dims):
    shape = b"".join(part(1, number(1, d)) for d in dims)
    tensor_type = number(1, FLOAT) + part(2, shape)
    return part(1, name) + part(2, part(1, tensor_type))


def node(op, inputs, output):
    return (b"".join(part(1, i) for i in inputs) + part(2, output) +
            part(3, op + "_" + output) + part(4, op))


def initializer(name, rows, columns):
    noise = hashlib.shake_128(name.encode()).digest(rows * columns)
    values = [(b - 127.5) / 127.5 / rows ** 0.5 for b in noise]
    return (number(1, rows) + number(1, columns) + number(2, FLOAT) + part(8, name) +
            part(9, struct.pack("<%df" % len(values), *values)))


def graph():
    nodes = [node("MatMul", ["tokens", "w0"], "h"), node("Relu", ["h"], "r"),
             node("MatMul", ["r", "w1"], "l"), node("Softmax", ["l"], "scores")]
    return (b"".join(part(1, n) for n in nodes) + part(2, "small") +
            part(5, initializer("w0", WIDTH, HIDDEN)) +
            part(5, initializer("w1", HIDDEN, WIDTH)) +
            part(11, value_info("tokens", [1, WIDTH])) + part(12, value_info("scores", [1, WIDTH])))


def model():
    opset = part(1, "") + number(2, 13)
    return number(1, 8) + part(2, "make_onnx") + part(7, graph()) + part(8, opset)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: make_onnx.py FILE")
    with open(sys.argv[1], "wb") as f:
        f.write(model())
