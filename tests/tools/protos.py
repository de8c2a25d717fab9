# SPDX-License-Identifier: BSD-2-Clause
"""Messages of protobuf: written, and read by protoc with a schema that lies here."""
import os
import re
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))


def varint(n):
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def number(field, value):
    return varint(field << 3) + varint(value)


def part(field, value):
    value = value if isinstance(value, bytes) else value.encode()
    return varint(field << 3 | 2) + varint(len(value)) + value


def raw_text(quoted):
    """The bytes of a string of the text format."""
    return re.sub(rb'\\([0-7]{3}|.)', lambda m: bytes([int(m[1], 8)]) if len(m[1]) == 3 else
                  {b"n": b"\n", b"t": b"\t", b"r": b"\r"}.get(m[1], m[1]), quoted[1:-1].encode())


def value_of(text):
    if text.startswith('"'):
        return raw_text(text).decode("utf-8", "replace")
    return text if re.search("[A-Za-z]", text) else int(text)


def parse(lines, value, unknown):
    out = {}
    for line in lines:
        key, colon, text = line.strip().partition(": ")
        if key == "}":
            return out
        inner = value(text) if colon else parse(lines, value, unknown)
        key = key.removesuffix(" {")
        # a field that the schema does not have shows as its number
        if not key.isdigit():
            out.setdefault(key, []).append(inner)
        elif not unknown:
            raise SystemExit(f"a field that the schema does not have: {key}")
    return out


def decode(message, schema, data, value=value_of, unknown=False):
    """The message as lists of values by key. unknown: fields that the schema does not have are left out."""
    text = subprocess.run(["protoc", "-I", HERE, f"--decode={message}", schema], input=data, stdout=subprocess.PIPE,
                          check=True).stdout.decode("utf-8", "replace")
    return parse(iter(text.splitlines()), value, unknown)
