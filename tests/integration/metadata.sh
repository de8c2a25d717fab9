#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The profile's envelope: options before INFTRACE_* before the target's environment, key order,
# appending, and the hash of the environment.

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"
need_root

profile=$TMP/new/folder/p.jsonl
last() { # EXPRESSION over p, the last line
	json "$1" "p=last:$profile"
}
# a step of a few instructions in a program that is there anyway
step() { # OPTION ... : records the mini engine for two tokens
	"$INFTRACE" record -q -d 20s --profile "$profile" "$@" >/dev/null
}
mini=$(mini_engine)

step -- "$mini" -n 2 -t 1
same "defaults" "$(last '[p["commit_sha"], p["model"], p["concurrency"], p["runtime_flags"], p["source"]]')" \
	'[null, "unknown", 1, {}, "native"]'
expect "keys in their order" 'list(p) == ["event", "commit_sha", "env_hash", "model", "concurrency",
	"shape", "stage_us", "graph_enabled", "runtime_flags", "source"]' "p=last:$profile"
lines=$(wc -l <"$profile")

export FERRUM_PROFILE_MODEL=ferrum FERRUM_PROFILE_CONCURRENCY=3 FERRUM_PROFILE_COMMIT_SHA=f00
export FERRUM_PROFILE_RUNTIME_FLAGS_JSON=$'{"a" : 1,\n "b":[true]}'
step -- "$mini" -n 2 -t 1
same "from the target's environment" "$(last '[p["commit_sha"], p["model"], p["concurrency"], p["runtime_flags"]]')" \
	'["f00", "ferrum", 3, {"a": 1, "b": [true]}]'
expect "appended, one line each" "len(p) > $lines" "p=$profile"

export INFTRACE_MODEL=ours INFTRACE_CONCURRENCY=4 INFTRACE_ENV_HASH=sha256:given
step -- "$mini" -n 2 -t 1
same "INFTRACE_* before them" "$(last '[p["commit_sha"], p["model"], p["concurrency"], p["env_hash"]]')" \
	'["f00", "ours", 4, "sha256:given"]'

step --model '"quoted" \ name' --concurrency 5 --commit-sha abc --runtime-flags '{"x":null}' -- "$mini" -n 2 -t 1
same "options before all" "$(last '[p["commit_sha"], p["model"], p["concurrency"], p["runtime_flags"]]')" \
	'["abc", "\"quoted\" \\ name", 5, {"x": null}]'
check "every line is valid" "$INFTRACE" validate "$profile"

unset INFTRACE_MODEL INFTRACE_CONCURRENCY INFTRACE_ENV_HASH "${!FERRUM_PROFILE_@}"
export GGML_SCHED_DEBUG=0
step -- "$mini" -n 2000 -t 1
with=$(last 'p["env_hash"]')
step -- "$mini" -n 2000 -t 1
same "the same environment, the same hash" "$(last 'p["env_hash"]')" "$with"
export GGML_SCHED_DEBUG=1
step -- "$mini" -n 2000 -t 1
if [ "$(last 'p["env_hash"]')" != "$with" ]; then
	ok "another setting, another hash"
else
	not_ok "another setting, another hash" "both $with"
fi
INFTRACE_PROFILE_JSONL=$TMP/env.jsonl "$INFTRACE" record -q -d 20s -- "$mini" -n 2 -t 1 >/dev/null
check "INFTRACE_PROFILE_JSONL" "$INFTRACE" validate "$TMP/env.jsonl"
(cd "$TMP" && INFTRACE_OUTPUT=env.json "$INFTRACE" record -q -- true)
check "INFTRACE_OUTPUT" "$INFTRACE" validate "$TMP/env.json"

# ---- windows: a tool that knows its own variables, and those of others ----

by_time() { # NAME WANTED DIR: traces, profiles
	same "$1" "$(find "$3" -name 'trace_pid*.json' | wc -l) $(find "$3" -name 'profile_pid*.jsonl' | wc -l)" "$2 $2"
	check "$1: valid" "$INFTRACE" validate "$3"/*
}
touch "$TMP/flag"
export VLLM_CHAKRA_FLAG=$TMP/flag VLLM_CHAKRA_TRACE_DIR=$TMP/chakra/new VLLM_CHAKRA_TRACE_MAX_STEPS=5
"$INFTRACE" record -- "$mini" -q -d 1200 -n 100 -t 2 >/dev/null 2>"$TMP/chakra.err"
by_time "VLLM_CHAKRA_* of a command" 1 "$TMP/chakra/new"
check "VLLM_CHAKRA_TRACE_MAX_STEPS" grep -q 'flag to max_steps' "$TMP/chakra.err"
background "$mini" -q -r 0 -t 2 >/dev/null
target=$BG
"$INFTRACE" record -o "$TMP/whole.json" -d 300ms -p "$target" 2>"$TMP/whole.err"
check "-o: for the whole run all the same" test -s "$TMP/whole.json"
check "-o: said so" grep -q "VLLM_CHAKRA_FLAG of process $target is left out: -o" "$TMP/whole.err"
rm -r "$TMP/chakra" "$TMP/flag"
(unset "${!VLLM_CHAKRA_@}" && INFTRACE_OUTPUT=$TMP/not.json INFTRACE_PROFILE_JSONL=$TMP/not.jsonl INFTRACE_MAX_STEPS=3 \
	"$INFTRACE" record -p "$target" 2>"$TMP/of-process.err") &
recorder=$!
wait_until 20 grep -qs 'Ctrl-C ends it' "$TMP/of-process.err"
sleep 1.2 # the probes are in place
touch "$TMP/flag"
wait_until 20 grep -q 'flag to max_steps' "$TMP/of-process.err"
kill "$target"
wait "$recorder"
by_time "VLLM_CHAKRA_* of a process" 1 "$TMP/chakra/new"
check "they are named" grep -q "VLLM_CHAKRA_FLAG of process $target" "$TMP/of-process.err"
same "outputs of the whole run are left out" "$(find "$TMP" -name 'not.*')" ""
unset "${!VLLM_CHAKRA_@}"

printf '{"event":"tok' >"$TMP/torn.jsonl"
"$INFTRACE" record -q --profile "$TMP/torn.jsonl" -- true
tail -n +2 "$TMP/torn.jsonl" >"$TMP/rest.jsonl"
check "a torn line is not continued" "$INFTRACE" validate "$TMP/rest.jsonl" --require window_prof
"$INFTRACE" record -q --engine none -o "$TMP/one.json" -o "$TMP/two.json" -- sh -c 'ls >/dev/null; ls >/dev/null'
expect "each output has the names of all processes and threads" \
	'(lambda a, b: a == b and len(a) > 3)(*[[e for e in t if e["name"] in ("process_name", "thread_name")]
		for t in (one, two)])' one="$TMP/one.json" two="$TMP/two.json"
