#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# scripts/quickstart, from a directory that is not the checkout and without engines from before: its three ways, how it gets
# from one to the next, and what it leaves behind when it is interrupted. And how scripts/setup gets llama-server.

. "$(dirname "$0")/../lib.sh"

QUICKSTART=$TOP/scripts/quickstart
LOGS=$TOP/build/quickstart
PRINTED="profile.jsonl report.html trace.json"

mkdir "$TMP/a directory" "$TMP/bin"
cd "$TMP/a directory" || exit

# A directory of its own for engines, by which the processes that a test has started are known, too.
new_engines() { # NAME
	export ENGINES=$TMP/engines-$1
	rm -rf ./*
}

# fake COMMAND: a program of that name, with the lines of stdin, is found before the real one in FAKED
fake() {
	{
		echo '#!/bin/bash'
		cat
	} >"$TMP/bin/$1"
	chmod +x "$TMP/bin/$1"
	FAKED=(env "PATH=$TMP/bin:$PATH")
}

# The programs that look for them must not be among them.
processes_left() {
	local mark=ENGINES=$ENGINES

	(
		export -n ENGINES
		grep -lsz -xF "$mark" /proc/[0-9]*/environ | grep -o '[0-9]*'
	) || true
}

left_behind() {
	processes_left
	grep -F "$TMP" /proc/mounts
	find "$ENGINES" -name '*.part*' -o -name '*.apt'
}

is_clean() {
	[ -z "$(left_behind)" ]
}

nothing_left() { # NAME
	wait_until 60 is_clean || true
	same "$1: no process, mount or half of an engine is left" "$(left_behind)" ""
	# shellcheck disable=SC2046
	kill -9 $(processes_left) 2>/dev/null || true
}

# quickstart NAME COMMAND...: runs it; its output is in NAME.out.
quickstart() {
	check "$1: runs" "${@:2}"
	cp "$TMP/check.out" "$TMP/$1.out"
	same "$1: what it leaves" "$(echo *)" "$PRINTED"
	nothing_left "$1"
}

# A generation of 64 tokens by one of the other engines
generation() { # NAME COMMAND...
	quickstart "$@"
	check "$1: the counts agree with the engine's" grep "engine's own count agrees: 65 steps" "$TMP/$1.out"
	expect "$1: a step for the prompt and each token" \
		'len([r for r in p if r["event"] == "token_prof"]) == 65' p=profile.jsonl
	expect "$1: the trace shows the steps" \
		'len([e for e in t if e.get("cat") == "step" and e["ph"] == "X"]) == 65' t=trace.json
}

says() { # NAME TEXT
	check "$1: says \"$2\"" grep -F "$2" "$TMP/$1.out"
}

needs_llama_server() { # NAME; 1: it cannot be had
	if ! (ENGINES=$TOP/build/engines && llama_next) >/dev/null 2>"$TMP/why"; then
		skip "$1" "$(cat "$TMP/why")"
		return 1
	fi
}

link_llama_server() {
	mkdir -p "$ENGINES"
	ln -s "$TOP/build/engines/next-llama" "$ENGINES"
}

test_server() {
	needs_llama_server server || return 0
	new_engines server
	quickstart server "$QUICKSTART"
	same "server: by no other way" "$(grep -c 'as said above' "$TMP/server.out" || true)" 0
	says server "server's own count agrees: 6 requests"
	sed -n 's/^data: \(.*"timings".*\)/\1/p' "$LOGS"/answer.* >"$TMP/answers"
	expect "server: each request of the profile is one that was answered" \
		'(sorted([s["prompt_tokens"], s["cached_tokens"], s["output_tokens"]] for r in p for s in [r["shape"]]
			if r["event"] == "request_prof" and s["source_kind"] == "sequence")
		== sorted([t["prompt_n"], t["cache_n"], t["predicted_n"]] for r in a for t in [r["timings"]])
		and len(a) == 6 and max(r["timings"]["prompt_n"] for r in a) > 400)' p=profile.jsonl a="$TMP/answers"
	# the last token of an answer is not decoded
	expect "server: the steps had the tokens of the requests" \
		'(sum(r["shape"]["n_tokens"] for r in p if r["event"] == "token_prof")
		== sum(r["timings"]["prompt_n"] + r["timings"]["predicted_n"] - 1 for r in a))' p=profile.jsonl a="$TMP/answers"
	expect "server: the trace has each request, in its slot and at its socket" \
		'[len({e["name"] + str(e["ts"]) for e in t if e.get("cat") == c and e["name"].startswith(n)})
			for c, n in (("batch", "request "), ("requests", "POST "))] == [6, 6]' t=trace.json
	check "server: the page has the requests" grep 'request 6' report.html
	if command -v node >/dev/null; then
		check "server: chrome://tracing takes the trace" node "$TOP/tests/tools/check_chrome_trace.mjs" --brief trace.json
	else
		skip "server: chrome://tracing takes the trace" "node is not installed"
	fi

	sed -i 's/"predicted_n":32/"predicted_n":33/' "$LOGS"/answer.*
	check_rc "server: a count that differs is an error" 1 'but the server answered' \
		"$TOP/scripts/compare-counts" profile.jsonl --answers "$LOGS"/answer.*
}

test_npm() {
	local why

	new_engines npm
	if why=$(llama_libs 2>&1 >/dev/null); then
		rm -rf "$ENGINES"
		generation npm "$QUICKSTART" --npm
	else
		skip npm "$why"
	fi
}

test_bundled() {
	new_engines bundled
	generation bundled "$QUICKSTART" --bundled
}

# On one CPU, where two threads of the bundled engine would spin for each other.
test_no_network() {
	new_engines no-network
	generation no-network unshare --net taskset -c 0 "$QUICKSTART"
	says no-network "no llama-server, as said above"
	says no-network "cannot get llama.cpp-tools from Debian's next release: "
	says no-network "no llama.cpp from npm, as said above"
	says no-network "cannot fetch @node-llama-cpp/linux-"
}

# A container without the right to mount
test_no_mounts() {
	needs_llama_server no-mounts || return 0
	new_engines no-mounts
	link_llama_server
	fake unshare <<<'echo "unshare: unshare failed: Operation not permitted" >&2; exit 1'
	fake npm <<<'echo "npm error none here" >&2; exit 1'
	generation no-mounts "${FAKED[@]}" "$QUICKSTART"
	says no-mounts "unshare failed: Operation not permitted"
	says no-mounts "npm error none here"
	rm "$TMP/bin/"*
}

# The server, which runs on, does not answer.
test_no_answer() {
	needs_llama_server no-answer || return 0
	new_engines no-answer
	link_llama_server
	fake curl <<<'echo "curl: (52) Empty reply from server" >&2; exit 52'
	fake npm <<<'echo "npm error none here" >&2; exit 1'
	generation no-answer "${FAKED[@]}" "$QUICKSTART"
	says no-answer "Empty reply from server"
	rm "$TMP/bin/"*
}

# interrupted NAME SIGNAL TO RC: as soon as the faked command runs; TO: "group", as Ctrl-C on a terminal, or "script".
interrupted() {
	local pid
	rm -f "$TMP/runs"
	RUNS=$TMP/runs spawn pid setsid env --default-signal=INT,QUIT "${FAKED[@]}" "$QUICKSTART" >"$TMP/$1.out" 2>&1
	wait_until 300 test -e "$TMP/runs"
	if [ "$3" = group ]; then
		kill "-$2" -- "-$pid"
	else
		kill "-$2" "$pid"
	fi
	ended "$1: its exit code" "$pid" "$4"
	nothing_left "$1"
}

test_interrupted() {
	needs_llama_server interrupted || return 0
	new_engines interrupted
	fake apt-get <<<'[ "$1" != indextargets ] || exec /usr/bin/apt-get "$@"; : >"$RUNS"; exec sleep 1000'
	interrupted "Ctrl-C while it fetches" INT group 130
	rm "$TMP/bin/apt-get"
	link_llama_server
	fake curl <<<': >"$RUNS"; exec sleep 1000'
	interrupted "Ctrl-C while the server is asked" INT group 130
	interrupted "TERM while the server is asked" TERM script 143
	rm "$TMP/bin/curl"
	quickstart afterwards "$QUICKSTART"
	says afterwards "server's own count agrees: 6 requests"
}

# Two at once get it once, and neither takes away what the other one has.
test_setup() {
	local pid why

	new_engines setup
	check_rc "setup: without a network it says why" 0 '^llama-server: not there: cannot get .*: E: ' \
		unshare --net "$TOP/scripts/setup" test
	needs_llama_server "setup: two at once" || return 0
	"$TOP/scripts/setup" test >"$TMP/setup.out" 2>&1 &
	pid=$!
	check_rc "setup: two at once: one" 0 '^llama-server: there' "$TOP/scripts/setup" test
	wait "$pid" || true
	check "setup: two at once: the other one" grep '^llama-server: there' "$TMP/setup.out"
	same "setup: one tree" "$(cd "$ENGINES" && echo next*)" "next-llama next-llama.log next-llama.log.lock"
	check "setup: of the server" test -x "$ENGINES/next-llama/usr/bin/llama-server"
	check "setup: and nothing in it that is not" test ! -e "$ENGINES/next-llama/next-llama.part"
}

test_usage() {
	check_rc "unknown option" 2 'no such option' "$QUICKSTART" --nonsense
	check_rc "help" 0 '^  sudo scripts/quickstart \[--npm \| --bundled\]$' "$QUICKSTART" --help
}

run_tests "$@"
