#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# --min-free: a recording ends before it has filled the disk, and its files are valid.

[ -n "${MIN_FREE_TEST_MOUNT:-}" ] || [ "${1:-}" = --list ] || MIN_FREE_TEST_MOUNT=1 exec unshare --mount "$0" "$@"
. "$(dirname "$0")/../lib.sh"

free_kb() {
	df --output=avail -k disk | tail -n 1 | tr -d ' '
}
# fill KB: leaves KB free
fill() {
	rm -rf disk/*
	head -c $(((40 * 1024 - $1) * 1024)) /dev/zero >disk/filler
}
# ends NAME PATTERN ARG...: the recording ends by itself, since the disk would be full
ends() {
	check_rc "$1" 1 "$2" timeout 120 "$INFTRACE" record -q --engine none -e syscalls -p "$target" "${@:3}"
}
# left NAME FROM_KB TO_KB: slightly less than the floor is possible: what was being written at the time of the check
left() {
	local kb
	kb=$(free_kb)
	if [ "$kb" -ge "$2" ] && [ "$kb" -le "$3" ]; then ok "$1"; else not_ok "$1" "$kb KB are free"; fi
}

need python3
cd "$TMP" || exit
mkdir disk
mount -t tmpfs -o size=40m tmpfs disk || skip_all "may not mount a tmpfs"
background python3 -c 'import os
while True: os.getppid()'
target=$BG

# Records until less than the floor is free.
test_files() {
	fill 8192
	ends "default" 'cannot write disk/t.json: less than 2 MB is free on its file system, see --min-free; the file is valid' \
		-o disk/t.json
	left "default: 5% are left" 1024 2560
	check "default: valid" "$INFTRACE" validate -q disk/t.json
	fill 8192
	ends "size" 'less than 4 MB is free' --min-free 4MB -o disk/t.json.gz -o disk/t.json
	left "size: so much is left" 3072 5120
	check "size: valid" "$INFTRACE" validate -q disk/t.json.gz disk/t.json
	fill 8192
	ends "part" 'less than 8 MB is free' --min-free 20% -o disk/t.pftrace --max-size 1MB --max-files 100
	left "part: so much is left" 7168 8192
	fill 16384
	ends "windows" 'less than 10 MB is free' --min-free 10MB --window every=1s,for=900ms --output-dir disk/windows
	left "windows: so much is left" 8192 11264
	check "windows: valid" sh -c "'$INFTRACE' validate -q disk/windows/trace_*"
	fill 1024
	check_rc "0: until nothing is left" 1 'cannot write disk/t.json: No space left on device' \
		timeout 120 "$INFTRACE" record -q --engine none -e syscalls -p "$target" --min-free 0 -o disk/t.json
	left "0: nothing is left" 0 256
}

test_flight() {
	fill 8192
	spawn recorder "$INFTRACE" record --engine none -e syscalls -p "$target" --flight-recorder 4MB --min-free 30% \
		--output-dir disk/dumps 2>flight.log
	wait_until 60 grep -q 'flight recorder on' flight.log || not_ok "flight recorder" "$(tail -n 1 flight.log)"
	kill -USR1 "$recorder"
	check "flight recorder: a dump that would fill the disk says so" \
		wait_until 60 grep -q 'less than 13 MB is free' flight.log
	rm disk/filler
	: >flight.log
	kill -USR1 "$recorder"
	check "flight recorder: goes on, and dumps when there is room" wait_until 60 grep -q 'written in' flight.log
	kill -INT "$recorder"
	check "flight recorder: valid" sh -c "'$INFTRACE' validate -q disk/dumps/trace_*.json"
}

test_options() {
	check_rc "no part" 2 "^inftrace: --min-free: '100%' is not a part" "$INFTRACE" record --min-free 100% -p "$target"
	check_rc "no size" 2 '^inftrace: --min-free' "$INFTRACE" record --min-free x -p "$target"
}

teardown() {
	kill "$target"
	umount -l disk
}

run_tests "$@"
