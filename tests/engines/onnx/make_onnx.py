#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Writes a small ONNX model with fixed weights: scores = Softmax(Relu(tokens @ w0) @ w1).

  make_onnx.py FILE

Standard library only. The format: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
"""
import hashlib
import struct
import sys

WIDTH, HIDDEN = 256, 1024
FLOAT = 1  # TensorProto.DataType


# ---- protobuf ---------------------------------------------------------------


def varint(n):
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def number(field, value):
    return varint(field << 3) + varint(value)


def data(field, value):
    value = value if isinstance(value, bytes) else value.encode()
    return varint(field << 3 | 2) + varint(len(value)) + value


# ---- onnx.proto -------------------------------------------------------------


def value_info(name, dims):
    shape = b"".join(data(1, number(1, d)) for d in dims)
    tensor_type = number(1, FLOAT) + data(2, shape)
    return data(1, name) + data(2, data(1, tensor_type))


def node(op, inputs, output):
    return (b"".join(data(1, i) for i in inputs) + data(2, output) +
            data(3, op + "_" + output) + data(4, op))


def initializer(name, rows, columns):
    noise = hashlib.shake_128(name.encode()).digest(rows * columns)
    values = [(b - 127.5) / 127.5 / rows ** 0.5 for b in noise]
    return (number(1, rows) + number(1, columns) + number(2, FLOAT) + data(8, name) +
            data(9, struct.pack("<%df" % len(values), *values)))


def graph():
    nodes = [node("MatMul", ["tokens", "w0"], "h"), node("Relu", ["h"], "r"),
             node("MatMul", ["r", "w1"], "l"), node("Softmax", ["l"], "scores")]
    return (b"".join(data(1, n) for n in nodes) + data(2, "small") +
            data(5, initializer("w0", WIDTH, HIDDEN)) +
            data(5, initializer("w1", HIDDEN, WIDTH)) +
            data(11, value_info("tokens", [1, WIDTH])) + data(12, value_info("scores", [1, WIDTH])))


def model():
    opset = data(1, "") + number(2, 13)
    return number(1, 8) + data(2, "make_onnx") + data(7, graph()) + data(8, opset)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: make_onnx.py FILE")
    with open(sys.argv[1], "wb") as f:
        f.write(model())
