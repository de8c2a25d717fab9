# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
#
# Shared by the integration tests robust, badinput and leaks; sourced behind lib.sh.

ROBUST=$TOP/tests/robust

# build NAME [FLAG...]: compiles NAME.c into TMP.
build() {
	local name=$1
	shift
	cc -std=gnu11 -D_GNU_SOURCE -O2 -g -Wall -Wextra -Werror -pthread \
		-o "$TMP/$name" "$ROBUST/$name.c" "$@"
}

# The BPF programs, links and maps in the kernel, a line each.
bpf_ids() {
	local kind
	for kind in prog link map; do
		bpftool -j "$kind" show |
			python3 -c 'import json, sys
for o in json.load(sys.stdin):
    print(sys.argv[1], o["id"])' "$kind"
	done | sort
}

# Those of them that were not there when BEFORE was written and that no process holds: others may
# trace at the same time.
bpf_left() { # BEFORE
	bpf_ids | comm -13 "$1" - | python3 -c '
import glob, sys
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
for line in sys.stdin:
    if line.strip() not in held:
        print(line.strip())'
}

# Others may be on their way in or out at any instant: what stays was left each time one looked.
bpf_nothing_left() { # BEFORE
	bpf_left "$1" | sort >"$1.now"
	[ ! -e "$1.left" ] || comm -12 "$1.left" "$1.now" >"$1.both"
	mv "$1.$([ -e "$1.left" ] && echo both || echo now)" "$1.left"
	[ ! -s "$1.left" ]
}

# check_bpf NAME BEFORE: the kernel frees programs after a grace period of RCU.
check_bpf() {
	rm -f "$2.left"
	if wait_until 20 bpf_nothing_left "$2"; then
		ok "$1: nothing stays loaded"
	else
		not_ok "$1: nothing stays loaded" "$(tr '\n' ' ' <"$2.left")"
	fi
}

# importer NAME FILE...: they open in chrome://tracing without a warning.
importer() {
	local name=$1
	shift
	check "$name" node "$TOP/tests/tools/check_chrome_trace.mjs" --brief "$@"
}
