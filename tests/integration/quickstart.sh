#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# scripts/quickstart, from a directory that is not the checkout: with llama.cpp, with the bundled
# engine, and where npm cannot be reached.

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"

need_root

# quickstart NAME ARG...: runs it and checks what it printed (in $TMP/NAME.out) and left behind.
quickstart() {
	local name=$1 out=$TMP/$1.out
	shift
	rm -f trace.json profile.jsonl
	check "$name: runs" "${ON[@]}" "$TOP/scripts/quickstart" "$@"
	cp "$TMP/check.out" "$out"
	check "$name: the summary agrees with the engine" \
		grep "own count agrees: 65 steps" "$out"
	expect "$name: a step for the prompt and each token" \
		'len([r for r in p if r["event"] == "token_prof"]) == 65' p=profile.jsonl
	expect "$name: the trace shows the steps" \
		'len([e for e in t if e.get("cat") == "step" and e["ph"] == "X"]) == 65' t=trace.json
}

ON=() # CPUs
mkdir "$TMP/a directory"
cd "$TMP/a directory" || exit

quickstart bundled --bundled

# An empty cache, and a registry that does not answer.
export ENGINES=$TMP/engines npm_config_registry=http://127.0.0.1:9
# and one CPU: two threads of the bundled engine would spin for each other once more
ON=(taskset -c 0)
quickstart no-npm
ON=()
check "no-npm: says so" grep "^npm cannot be reached" "$TMP/no-npm.out"
unset npm_config_registry
ENGINES=$TOP/build/engines

if llama_libs >/dev/null 2>"$TMP/why"; then
	quickstart llama.cpp
else
	skip "llama.cpp" "$(cat "$TMP/why")"
fi

check_rc "unknown option" 2 'no such option' "$TOP/scripts/quickstart" --nonsense
