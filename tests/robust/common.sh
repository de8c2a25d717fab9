# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
#
# Shared by the integration tests robust, badinput and leaks; sourced behind lib.sh.

ROBUST=$TOP/tests/robust

# build NAME [FLAG...]: compiles NAME.c into TMP.
build() {
	cc -std=gnu11 -D_GNU_SOURCE -O2 -g -Wall -Wextra -Werror -pthread \
		-o "$TMP/$1" "$ROBUST/$1.c" "${@:2}"
}

# What the recordings are of, and what is loaded before the first of them: TMP/bpf.before.
setup_robust() {
	need cc node bpftool
	build storm
	build life
	build dl
	build dl_lib -shared -fPIC
	bpf_ids >"$TMP/bpf.before"
}

# The BPF programs, links and maps in the kernel, a line each. One that goes meanwhile ends the list with an error.
bpf_ids() {
	python3 -c '
import json, subprocess
for kind in ("prog", "link", "map"):
    objects = None
    while not isinstance(objects, list) or any("id" not in o for o in objects):
        shown = subprocess.run(["bpftool", "-j", kind, "show"], capture_output=True, text=True).stdout
        objects = json.loads(shown or "[]")
    for o in objects:
        print(kind, o["id"])' | sort
}

# Those of them that were not there when BEFORE was written and that no process holds, nor a map of maps
# that one holds (as the rings are): others may trace at the same time.
bpf_left() { # BEFORE
	bpf_ids | comm -13 "$1" - | python3 -c '
import glob, json, subprocess, sys

def bpftool(*args):
    done = subprocess.run(["bpftool", "-j", "map", *args], capture_output=True, text=True)
    return json.loads(done.stdout or "[]") if not done.returncode else []

def inner(map_id):  # of one that has just gone: none
    elements = bpftool("dump", "id", map_id)
    values = [e["value"] for e in elements if isinstance(e, dict) and isinstance(e.get("value"), list)]
    return [int.from_bytes(bytes(int(b, 16) for b in v), "little") for v in values]

held = set()
for path in glob.glob("/proc/[0-9]*/fdinfo/*"):
    try:
        lines = open(path).read().splitlines()
    except OSError:
        continue
    for line in lines:
        key, _, value = line.partition(":")
        if key in ("prog_id", "link_id", "map_id"):
            held.add(key[:-3] + " " + value.strip())
left = [line.strip() for line in sys.stdin if line.strip() not in held]
if any(line.startswith("map ") for line in left):
    for m in bpftool("show"):
        if isinstance(m, dict) and m.get("type") == "array_of_maps" and "map %d" % m["id"] in held:
            held.update("map %d" % i for i in inner(str(m["id"])))
for line in left:
    if line not in held:
        print(line)'
}

# Others may be on their way in or out at any instant: what stays was left each time one looked.
bpf_nothing_left() { # BEFORE
	bpf_left "$1" | sort >"$1.now"
	[ ! -e "$1.left" ] || comm -12 "$1.left" "$1.now" >"$1.both"
	mv "$1.$([ -e "$1.left" ] && echo both || echo now)" "$1.left"
	[ ! -s "$1.left" ]
}

# check_bpf NAME BEFORE: the kernel frees programs after a grace period of RCU, which takes long on busy CPUs.
check_bpf() {
	rm -f "$2.left"
	if wait_until 120 bpf_nothing_left "$2"; then
		ok "$1: nothing stays loaded"
	else
		not_ok "$1: nothing stays loaded" "$(tr '\n' ' ' <"$2.left")"
	fi
}

# importer NAME FILE...: they open in chrome://tracing without a warning.
importer() {
	check "$1" node "$TOP/tests/tools/check_chrome_trace.mjs" --brief "${@:2}"
}
