#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# What inftrace costs, as far as it can be counted: no more than the figures in bench/guard.json.

. "$(dirname "$0")/../lib.sh"

need cc make python3 bpftool

guard() {
	BUILD=$BUILD "$TOP/bench/run" --guard "$@"
}

# its results are those of this test
test_figures() {
	local rc=0 line
	guard >"$TMP/out" 2>&1 || rc=$?
	grep -vE '^(not )?ok ' "$TMP/out" || true # what is skipped, and notes
	while read -r line; do
		case $line in
		"ok "*) ok "${line#ok }" ;;
		"not ok "*) not_ok "${line#not ok }" "see bench/README.md" ;;
		esac
	done <"$TMP/out"
	[ "$rc" -eq 0 ] || grep -q '^not ok ' "$TMP/out" || not_ok "guard" "$(tail -n 1 "$TMP/out")"
}

# changed FACTOR ENVIRONMENT: the figures of one group, and their origin
changed() {
	python3 - "$TOP/bench/guard.json" "$1" "$2" >"$TMP/figures.json" <<-'PY'
		import json, sys
		kept = json.load(open(sys.argv[1]))["bytes per record"]["any"]
		json.dump({"bytes per record": {sys.argv[3]: {k: v * float(sys.argv[2]) for k, v in kept.items()}}}, sys.stdout)
	PY
}

guard_of() { # FACTOR ENVIRONMENT
	changed "$1" "$2"
	guard --figures "$TMP/figures.json" bytes
}

# Reports figures that are too high, and unknown ones.
test_above() {
	check_rc "6 % above the figures is a failure" 1 '^not ok guard: bytes per record: system call, .json - ' \
		guard_of 0.943 any
	check_rc "4 % above them is none" 0 '^ok guard: bytes per record - 12 figures' guard_of 0.962 any
	check_rc "an environment without figures is skipped" 0 \
		'^skip guard: bytes per record - no figures for any; renew with' guard_of 1 other
}

run_tests "$@"
