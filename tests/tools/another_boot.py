#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Another machine, as far as recordings tell: another_boot.py NAME FILE...

Changes traces (.json, .pftrace) and profiles (.jsonl) of namespaces on this machine into those of a machine of this name, which has another boot id,
and whose CLOCK_BOOTTIME is what the recorder's time namespace made of it. With "-" as NAME into those of an inftrace that does not write
boot ids. Nothing else in the files changes: in a .pftrace, what is changed has the same length.
"""
import re
import sys
import uuid

MEMBER = rb',"%s":"[^"]*"'


def changed(data, own, name, packets):
    other = str(uuid.uuid5(uuid.NAMESPACE_DNS, name)).encode()
    assert own in data, "its boot id is not that of this machine"
    keys = [b"boottime_shift_ns"] + ([b"boot_id"] if name == "-" else [])
    for key in keys:
        # the name of an argument, which nothing looks for
        data = data.replace(key, b"x" * len(key)) if packets else re.sub(MEMBER % key, b"", data)
    return data.replace(own, other)


def main():
    name, *paths = sys.argv[1:]
    with open("/proc/sys/kernel/random/boot_id", "rb") as f:
        own = f.read().strip()
    for path in paths:
        with open(path, "rb") as f:
            data = f.read()
        with open(path, "wb") as f:
            f.write(changed(data, own, name, path.endswith(".pftrace")))


if __name__ == "__main__":
    main()
