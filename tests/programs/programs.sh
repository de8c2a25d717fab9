# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
#
# Recordings of programs that know what they do, and what every trace must stand. Sourced by the
# tests after lib.sh.

PROGRAMS=$BUILD/programs
CHECK=$TOP/tests/programs/check.py
traces=()

run_logged "$PROGRAMS/make.log" "cannot build the test programs" \
	make -C "$TOP/tests/programs" O="$PROGRAMS"

# step_engine PROGRAM: an engine whose steps are the calls of step(n_tokens) there, in TMP/PROGRAM.engine.json
step_engine() {
	cat >"$TMP/$1.engine.json" <<-JSON
		{ "name": "$1", "version": 1, "match": { "mapped": ["$1"] }, "probes": [
		  { "library": "$1", "symbol": "step", "role": "step", "args": { "n_tokens": "s32 arg1" },
		    "name": "n_tokens == 1 ? decode : prefill" } ] }
	JSON
}

# Prints what a recording left, when it went wrong.
record_result() { # NAME EXIT-CODE
	if [ "$2" -eq 0 ]; then
		traces+=("$1")
		ok "$1: recorded"
	else
		sed 's/^/# /' "$TMP/$1.err"
		not_ok "$1: recorded" "exit code $2"
		return 1
	fi
}

# record NAME [OPTION ...] -- COMMAND ...: leaves $TMP/NAME.json, .jsonl, .err (of inftrace), .out
record() {
	local name=$1 rc=0
	shift
	rm -f "$TMP/$name.jsonl"
	"$INFTRACE" record --strict -o "$TMP/$name.json" --profile "$TMP/$name.jsonl" "$@" \
		</dev/null >"$TMP/$name.out" 2>"$TMP/$name.err" || rc=$?
	record_result "$name" "$rc"
}

# The same with -p, for a command that prints "ready" and waits for a line on stdin.
record_attached() { # NAME [OPTION ...] -- COMMAND ...
	local name=$1 rc=0 target
	args_split "${@:2}"
	rm -f "$TMP/$name.go" "$TMP/$name.jsonl"
	waiting target "$name" "${BEHIND[@]}"
	recording BG "$name" --strict -o "$TMP/$name.json" --profile "$TMP/$name.jsonl" "${BEFORE[@]}" -p "$target" || true
	echo >"$TMP/$name.go"
	wait "$target" || rc=$?
	wait "$BG" || rc=$?
	record_result "$name" "$rc"
}

# crews_judged NAME TEXT WORKERS COMMAND...: the command records the program "crews", with its profile and what it prints in TMP/NAME.*; it is
# checked, and tried again when other work was in the way in too many rounds. 1: it was not recorded.
crews_judged() {
	local rc
	for _ in 1 2 3 4 5; do
		rc=0
		"${@:4}" || return 1
		"$CHECK" crews "$TMP/$1.jsonl" "$TMP/$1.out" "$3" "$TMP/$1.err" >"$TMP/$1.crews" || rc=$?
		sed 's/^/# /' "$TMP/$1.crews"
		[ "$rc" -eq 2 ] || break
	done
	if [ "$rc" -eq 2 ]; then
		skip "$2" "other work was in the way in too many rounds, 5 times"
	else
		same "$2" "$rc" 0
	fi
}

# For crews_judged: ahead of other work of this machine, which would be in the way of most rounds.
AHEAD=()
! chrt -f 1 true 2>/dev/null || AHEAD=(chrt -f 1)

# Every trace recorded so far: valid, loads without a warning, and holds what inftrace says.
traces_check() {
	local name files=() n=0 rc=0
	[ ${#traces[@]} -gt 0 ] || return 0
	mapfile -t traces < <(printf '%s\n' "${traces[@]}" | sort -u)
	for name in "${traces[@]}"; do
		files+=("$TMP/$name.json")
		check "$name: valid" "$INFTRACE" validate "$TMP/$name.json" "$TMP/$name.jsonl"
	done
	node "$TOP/tests/tools/check_chrome_trace.mjs" --counts "${files[@]}" \
		>"$TMP/counts" 2>"$TMP/importer" || rc=$?
	if [ "$rc" -eq 2 ]; then
		skip "importer" "$(cat "$TMP/importer")"
		return
	fi
	same "all traces load in the importer of chrome://tracing" "$rc: $(cat "$TMP/importer")" "0: "
	for name in "${traces[@]}"; do
		n=$((n + 1))
		sed -n "${n}p" "$TMP/counts" >"$TMP/$name.counts"
		check "$name: the counts that inftrace printed" \
			"$CHECK" summary "$TMP/$name.counts" "$TMP/$name.err"
	done
	traces=()
}
