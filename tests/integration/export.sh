#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# inftrace export: what it says of files that it cannot export. The formats are in tests/unit/test_export.c.

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"

# refuses NAME WANTED_RC PATTERN ARG...: one line that matches, and nothing on standard output
refuses() {
	local name=$1 wanted=$2 pattern=$3 rc=0
	shift 3
	"$INFTRACE" export "$@" >"$TMP/out" 2>"$TMP/err" </dev/null || rc=$?
	if [ "$rc" -ne "$wanted" ]; then
		not_ok "$name" "exit code $rc, not $wanted: $(cat "$TMP/err")"
	elif ! head -n 1 "$TMP/err" | grep -qE -e "$pattern"; then
		not_ok "$name" "no match for /$pattern/: $(cat "$TMP/err")"
	elif [ "$wanted" -ne 2 ] && [ "$(wc -l <"$TMP/err")" -ne 1 ]; then
		not_ok "$name" "not one line: $(cat "$TMP/err")"
	elif [ -s "$TMP/out" ]; then
		not_ok "$name" "it wrote to stdout"
	else
		ok "$name"
	fi
}

test_options() {
	refuses "no format" 2 'give one of --collapsed, --pprof and --speedscope' "$TMP/x"
	refuses "two formats" 2 'give one of --collapsed' --collapsed --pprof "$TMP/x"
	refuses "no file" 2 'no FILE given' --collapsed
	refuses "two files" 2 'one FILE at a time' --collapsed "$TMP/x" "$TMP/y"
	refuses "--off-cpu with another format" 2 'off-cpu is for --collapsed' --pprof --off-cpu "$TMP/x"
}

test_files() {
	: >"$TMP/empty"
	echo '[' >"$TMP/trace.json"
	echo 'neither' >"$TMP/text"
	# a packet of 1 byte, then one of 16, of which 2 are there
	printf '\x0a\x02\x50\x01\x0a\x10\x50\x01' >"$TMP/torn"
	gzip -c "$TMP/torn" | head -c 20 >"$TMP/cut.gz"
	refuses "a directory" 1 "$TMP: is a directory" --collapsed "$TMP"
	refuses "a file that is not there" 1 'none: cannot open: No such file' --collapsed "$TMP/none"
	refuses "an empty file" 1 'empty: is empty' --collapsed "$TMP/empty"
	refuses "a Chrome trace" 1 'trace.json: is JSON.*record with -o FILE.pftrace' --pprof "$TMP/trace.json"
	refuses "no trace at all" 1 'text: byte 0: no packet begins here' --speedscope "$TMP/text"
	refuses "gzip cut inside a member" 1 'byte [0-9]*: gzip data is cut inside a member' --collapsed "$TMP/cut.gz"
	check_rc "a torn packet is a warning" 1 'warning: .*ends within a packet' "$INFTRACE" export --collapsed "$TMP/torn"
	check_rc "and no sample in it an error" 1 'has no samples: record with -e \+samples' \
		"$INFTRACE" export --collapsed "$TMP/torn"
}

ALL_TESTS=(options files)
run_tests "$@"
