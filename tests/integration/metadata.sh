#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The profile's envelope: options before INFTRACE_* before the target's environment, key order,
# appending, and the hash of the environment.

. "$(dirname "$0")/../lib.sh"

profile=$TMP/new/folder/p.jsonl
last() { # EXPRESSION over p, the last line
	json "$1" "p=last:$profile"
}
# a step of a few instructions in a program that exists anyway
step() { # OPTION ... : records the mini engine for two tokens
	timeout 300 "$INFTRACE" record -q -d 20s --profile "$profile" "$@" >/dev/null
}
digits=$(printf '%064d' 7)

mini=$(mini_engine)

test_envelope() {
	step -- "$mini" -n 2 -t 1
	same "defaults" "$(last '[p["commit_sha"], p["model"], p["concurrency"], p["source"]]')" '[null, "unknown", 1, "native"]'
	same "defaults: the settings of the command line" \
		"$(last '{k: v for k, v in p["runtime_flags"].items() if k.startswith("-")}')" '{"-n": "2", "-t": "1"}'
	expect "keys in their order" 'list(p) == ["event", "commit_sha", "env_hash", "model", "concurrency",
		"shape", "stage_us", "graph_enabled", "runtime_flags", "concurrency_from", "source", "inftrace"]' "p=last:$profile"
	lines=$(wc -l <"$profile")

	export FERRUM_PROFILE_MODEL=ferrum FERRUM_PROFILE_CONCURRENCY=3 FERRUM_PROFILE_COMMIT_SHA=f00
	export FERRUM_PROFILE_RUNTIME_FLAGS_JSON=$'{"a" : 1,\n "b":[true]}'
	step -- "$mini" -n 2 -t 1
	same "from the target's environment" "$(last '[p["commit_sha"], p["model"], p["concurrency"], p["runtime_flags"]]')" \
		'["f00", "ferrum", 3, {"a": 1, "b": [true]}]'
	expect "appended, one line each" "len(p) > $lines" "p=$profile"

	export INFTRACE_MODEL=ours INFTRACE_CONCURRENCY=4 INFTRACE_ENV_HASH=$digits
	step -- "$mini" -n 2 -t 1
	same "INFTRACE_* before them" "$(last '[p["commit_sha"], p["model"], p["concurrency"], p["env_hash"]]')" \
		"[\"f00\", \"ours\", 4, \"sha256:$digits\"]"

	step --model '"quoted" \ name' --concurrency 5 --commit-sha abc --runtime-flags '{"x":null}' -- "$mini" -n 2 -t 1
	same "options before all" "$(last '[p["commit_sha"], p["model"], p["concurrency"], p["runtime_flags"]]')" \
		'["abc", "\"quoted\" \\ name", 5, {"x": null}]'
	check "every line is valid" "$INFTRACE" validate "$profile"

	INFTRACE_ENV_HASH=sha256:given step -- "$mini" -n 2 -t 1
	same "our own hash may have any name" "$(last 'p["env_hash"]')" 'sha256:given'
	INFTRACE_ENV_HASH=given "$INFTRACE" record --profile "$profile" -- "$mini" -n 2 -t 1 >/dev/null 2>"$TMP/given.err"
	check "a hash without sha256:: said" grep -q 'INFTRACE_ENV_HASH in the environment is left out' "$TMP/given.err"
	expect "a hash without sha256:: made" 'p["env_hash"] not in ("sha256:given", "sha256:unknown")' "p=last:$profile"
	INFTRACE_MODEL=' ' INFTRACE_CONCURRENCY='' step -- "$mini" -n 2 -t 1
	same "blank variables are not set" "$(last '[p["model"], p["concurrency"]]')" '["ferrum", 3]'

	step --runtime-flags $'{"big": 123456789012345678901234567890,\n "n": 1.50, "s": "a  \\" b"}' -- "$mini" -n 2 -t 1
	check "numbers stay as they are" grep -qF '"runtime_flags":{"big":123456789012345678901234567890,"n":1.50,"s":"a  \" b"}' "$profile"
	check_rc "a number out of range" 2 'not a JSON object' "$INFTRACE" record --runtime-flags '{"n":1e400}' --profile "$profile" -- true

	unset INFTRACE_MODEL INFTRACE_CONCURRENCY INFTRACE_ENV_HASH "${!FERRUM_PROFILE_@}"
}

test_env_hash() {
	export GGML_SCHED_DEBUG=0
	step -- "$mini" -n 500 -t 1
	with=$(last 'p["env_hash"]')
	step -- "$mini" -n 500 -t 1
	same "the same environment, the same hash" "$(last 'p["env_hash"]')" "$with"
	export GGML_SCHED_DEBUG=1
	step -- "$mini" -n 500 -t 1
	check "another setting, another hash" test "$(last 'p["env_hash"]')" != "$with"
	unset GGML_SCHED_DEBUG
	INFTRACE_PROFILE_JSONL=$TMP/env.jsonl "$INFTRACE" record -q -d 20s -- "$mini" -n 2 -t 1 >/dev/null
	check "INFTRACE_PROFILE_JSONL" "$INFTRACE" validate "$TMP/env.jsonl"
	FERRUM_PROFILE_JSONL=$TMP/ferrum.jsonl FERRUM_TRACE_OUT=$TMP/ferrum.json "$INFTRACE" record -q -d 20s -- "$mini" -n 2 -t 1 >/dev/null
	check "FERRUM_PROFILE_JSONL, FERRUM_TRACE_OUT" "$INFTRACE" validate "$TMP/ferrum.jsonl" "$TMP/ferrum.json" --require token_prof
	"$INFTRACE" record -q --chakra-names --max-steps-per-process 2 --window every=60s,for=30s --format json,et --output-dir "$TMP/names" -- \
		"$mini" -n 20 -t 1 >/dev/null
	same "--chakra-names" "$(find "$TMP/names" -type f -printf '%f\n' | sed 's/[0-9]\+_[0-9]\+/TAG/' | sort -u | tr '\n' ' ')" \
		"chakra_trace_pidTAG.et kineto_pidTAG.json profile_pidTAG.jsonl "
	(cd "$TMP" && INFTRACE_OUTPUT=env.json "$INFTRACE" record -q -- true)
	check "INFTRACE_OUTPUT" "$INFTRACE" validate "$TMP/env.json"
}

by_time() { # NAME WANTED DIR: traces, profiles
	same "$1" "$(find "$3" -name 'trace_pid*.json' | wc -l) $(find "$3" -name 'profile_pid*.jsonl' | wc -l)" "$2 $2"
	check "$1: valid" "$INFTRACE" validate "$3"/*
}

# Windows: a tool that knows its own variables, and those of others.
test_windows() {
	touch "$TMP/flag"
	export VLLM_CHAKRA_FLAG=$TMP/flag VLLM_CHAKRA_TRACE_DIR=$TMP/chakra/new VLLM_CHAKRA_TRACE_MAX_STEPS=5
	"$INFTRACE" record -- "$mini" -q -d 1200 -n 100 -t 1 >/dev/null 2>"$TMP/chakra.err"
	by_time "VLLM_CHAKRA_* of a command" 1 "$TMP/chakra/new"
	expect "VLLM_CHAKRA_TRACE_MAX_STEPS: the lines" 'sum(l["event"] == "token_prof" for l in p) == 5' \
		p="$(find "$TMP/chakra/new" -name 'profile_*')"
	check "VLLM_CHAKRA_TRACE_MAX_STEPS" grep -q 'flag to max_steps' "$TMP/chakra.err"
	spawn target "$mini" -q -r 0 -t 1 -i 5 >/dev/null
	"$INFTRACE" record -o "$TMP/whole.json" -d 300ms -p "$target" 2>"$TMP/whole.err"
	check "-o: for the whole run all the same" test -s "$TMP/whole.json"
	check "-o: said so" grep -q "VLLM_CHAKRA_FLAG in the environment is left out: -o" "$TMP/whole.err"
	rm -r "$TMP/chakra" "$TMP/flag"
	unset "${!VLLM_CHAKRA_@}"
	local RECORD_BY=(env INFTRACE_OUTPUT="$TMP/not.json" INFTRACE_PROFILE_JSONL="$TMP/not.jsonl" INFTRACE_MAX_STEPS=3)
	recording recorder of-process -p "$target"
	touch "$TMP/flag"
	wait_until 60 grep -q "flag to max_steps" "$TMP/of-process.err"
	kill "$target"
	wait "$recorder"
	by_time "VLLM_CHAKRA_* of a process" 1 "$TMP/chakra/new"
	check "they are named" grep -q "VLLM_CHAKRA_FLAG of process $target" "$TMP/of-process.err"
	same "outputs of the whole run are left out" "$(find "$TMP" -name 'not.*')" ""
}

lines_of() { # PID EXPRESSION FILE: over each line l about the process, the values that differ
	json "sorted({json.dumps($2) for l in p if l['shape'].get('pid') == $1})" p="$3"
}
sleeper() { # VARIABLE=VALUE ... -- COMMAND ...: in the background; its environment is these alone
	args_split "$@"
	background env -i "PATH=$PATH" "${BEFORE[@]}" "${BEHIND[@]}"
	wait_until 60 is_program "$BG" "${BEHIND[0]}"
}
is_program() { # PID NAME
	local name
	IFS= read -r -d "" name <"/proc/$1/cmdline" && [ "${name##*/}" = "$2" ]
}
record_each() { # OPTION ...
	rm -f "$TMP/each.jsonl"
	timeout 300 "$INFTRACE" record --engine none -d 300ms --profile "$TMP/each.jsonl" "$@" 2>"$TMP/each.err"
}

# Each process has its own.
test_each_process() {
	printf '%0100000d' 0 >"$TMP/tiny-llama.gguf"
	printf 'x' >"$TMP/$(printf 'evil\n\xff\033[31m.gguf')"
	map='import mmap, sys, time
files = [open(p, "rb") for p in sys.argv[2:]]
maps = [mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ) for f in files if sys.argv[1] == "map"]
[f.close() for f in files if maps]
while True: time.sleep(0.01)'
	sleeper FERRUM_PROFILE_MODEL=first FERRUM_PROFILE_CONCURRENCY=3 FERRUM_PROFILE_COMMIT_SHA=aaa GGML_X=1 -- \
		python3 -c "$map" none
	first=$BG
	sleeper INFTRACE_MODEL=second INFTRACE_CONCURRENCY=4 GGML_X=2 VLLM_API_KEY=hush1 VLLM_DB_PASS=hush2 \
		VLLM_URL=http://me:hush3@host/ -- python3 -c "$map" none
	second=$BG
	sleeper -- python3 -c "$map" map "$TMP/tiny-llama.gguf"
	third=$BG
	sleeper -- python3 -c "$map" open "$TMP/"evil*.gguf
	fourth=$BG
	wait_until 60 grep -q gguf "/proc/$third/maps"
	has_open() {
		find "/proc/$1/fd" -lname '*.gguf*' | grep -q .
	}
	wait_until 60 has_open "$fourth"
	record_each -p "$first,$second,$third,$fourth"
	check "-p A,B: valid" "$INFTRACE" validate "$TMP/each.jsonl"
	fields='[l["model"], l["concurrency"], l["commit_sha"]]'
	same "-p A,B: the first" "$(lines_of "$first" "$fields" "$TMP/each.jsonl")" '["[\"first\", 3, \"aaa\"]"]'
	same "-p A,B: the second" "$(lines_of "$second" "$fields" "$TMP/each.jsonl")" '["[\"second\", 4, null]"]'
	same "-p A,B: settings" "$(lines_of "$second" 'l["runtime_flags"]' "$TMP/each.jsonl")" '["{\"GGML_X\": \"2\"}"]'
	same "-p A,B: a model that is mapped" "$(lines_of "$third" 'l["model"]' "$TMP/each.jsonl")" '["\"tiny-llama.gguf\""]'
	expect "-p A,B: a model that is open, with a hostile name" \
		"{l['model'] for l in p if l['shape'].get('pid') == $fourth} == {'evil\\n\ufffd\\x1b[31m.gguf'}" p="$TMP/each.jsonl"
	expect "-p A,B: hashes" "(len({l['env_hash'] for l in p if l['shape'].get('pid') in ($first, $second)}) == 2 and
		not any(l['env_hash'] == 'sha256:unknown' for l in p if 'pid' in l['shape']))" p="$TMP/each.jsonl"
	expect "-p A,B: what is about none in particular" \
		'[(l["model"], l["env_hash"]) for l in p if l["event"] == "window_prof"] == [("unknown", "sha256:unknown")]' \
		p="$TMP/each.jsonl"
	record_each -p "$first,$second" --model both
	expect "-p A,B: an option is for all" '{l["model"] for l in p} == {"both"}' p="$TMP/each.jsonl"
	record_each -a
	same "-a: of each its own" "$(lines_of "$second" "$fields" "$TMP/each.jsonl")" '["[\"second\", 4, null]"]'
	same "no secrets" "$(grep -c hush "$TMP/each.jsonl")" 0
}

# However short a command is and whatever else runs, its environment is the same.
test_one_hash() {
	for _ in 1 2; do
		background sh -c 'while :; do :; done'
	done
	for ((n = 1; n <= 200; n += $(often 16 4))); do
		step --profile "$TMP/one.jsonl" -- env FERRUM_PROFILE_MODEL=named OMP_NUM_THREADS=2 "$mini" -q -t 1 -n "$n"
	done
	expect "one environment, one hash" 'len({l["env_hash"] for l in p}) == 1 and p[0]["env_hash"] != "sha256:unknown"' p="$TMP/one.jsonl"
	expect "no line without its model" '{l["model"] for l in p} == {"named"} and sum(l["event"] == "token_prof" for l in p) > 50' \
		p="$TMP/one.jsonl"
	one=$(json 'p["env_hash"]' p="last:$TMP/one.jsonl")
	step --profile "$TMP/given.jsonl" -- env FERRUM_PROFILE_ENV_HASH="$digits" "$mini" -q -n 1
	expect "a hash that the target's environment gives" "{l['env_hash'] for l in p} == {'sha256:$digits'}" p="$TMP/given.jsonl"
	OMP_NUM_THREADS=2 background "$mini" -q -r 0 -t 1 -i 5 >/dev/null
	same "doctor --env-hash: the same" "$("$INFTRACE" doctor --env-hash -p "$BG" | tail -1)" "$one"
	FERRUM_PROFILE_JSONL=x OMP_NUM_THREADS=2 step --profile "$TMP/attached.jsonl" -d 300ms -p "$BG"
	same "attached: the same" "$(json 'p["env_hash"]' p="last:$TMP/attached.jsonl")" "$one"
}

# The libraries that a program is linked with count, not what it loads later.
test_linked() {
	local dir=$TMP/linked
	mkdir -p "$dir/bin" "$dir/lib" "$dir/more"
	echo 'int llama_one(void) { return 1; }' | gcc -shared -fPIC -Wl,-soname,libllama.so.1 -Wl,--build-id -o "$dir/lib/libllama.so.1.2" -xc -
	ln -s libllama.so.1.2 "$dir/lib/libllama.so.1"
	echo 'int ggml_two(void) { return 2; }' | gcc -shared -fPIC -Wl,-soname,libggml.so -Wl,--build-id -o "$dir/more/libggml.so" -xc -
	cat >"$dir/main.c" <<-'END'
		#include <dlfcn.h>
		#include <unistd.h>
		int llama_one(void);
		int main(int argc, char **argv) { return argc > 1 && (!dlopen(argv[1], RTLD_NOW) || pause()) ? 1 : !llama_one(); }
	END
	# shellcheck disable=SC2016
	gcc -o "$dir/bin/main" "$dir/main.c" "$dir/lib/libllama.so.1.2" -Wl,--enable-new-dtags,-rpath,'$ORIGIN/../lib'
	background "$dir/bin/main" "$dir/more/libggml.so"
	wait_until 60 grep -q libggml.so "/proc/$BG/maps"
	"$INFTRACE" doctor --env-hash -p "$BG" >"$TMP/linked.txt"
	head -1 "$TMP/linked.txt" >"$TMP/linked-json.jsonl"
	same "linked: the libraries" "$(json 'p["libraries"]' p="last:$TMP/linked-json.jsonl")" \
		"[{\"build_id\": \"$(build_id_of "$dir/lib/libllama.so.1.2")\", \"name\": \"libllama.so.1\"}]"
	step --profile "$TMP/linked.jsonl" -- "$dir/bin/main"
	same "linked: the same without what it loads" "$(json 'p["env_hash"]' p="last:$TMP/linked.jsonl")" "$(tail -1 "$TMP/linked.txt")"
	old=$(build_id_of "$dir/lib/libllama.so.1.2")
	echo 'int llama_one(void) { return 3; }' | gcc -shared -fPIC -Wl,-soname,libllama.so.1 -Wl,--build-id -o "$dir/new" -xc -
	mv "$dir/new" "$dir/lib/libllama.so.1.2"
	same "linked: replaced since" "$("$INFTRACE" doctor --env-hash -p "$BG" | grep -c "$old")" 1
	step --profile "$TMP/other.jsonl" -- "$dir/bin/main"
	expect "linked: another library, another hash" 'p["env_hash"] != q["env_hash"]' p="last:$TMP/linked.jsonl" q="last:$TMP/other.jsonl"
}
build_id_of() { # FILE
	readelf -n "$1" | sed -n 's/.*Build ID: //p'
}

# A server and its worker, which has no such command line.
test_served() {
	cat >"$TMP/vllm" <<-'END'
		import subprocess, sys, time
		worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
		print(worker.pid, flush=True)
		time.sleep(1000)
	END
	flags=$(printf '{"a":"%05000d"}' 0)
	FERRUM_PROFILE_RUNTIME_FLAGS_JSON=$flags spawn server python3 "$TMP/vllm" serve org/NAME --max-num-seqs 32 >"$TMP/worker"
	wait_until 60 grep -q . "$TMP/worker"
	worker=$(cat "$TMP/worker")
	wait_until 60 is_program "$worker" python3
	record_each -p "$server,$worker"
	for pid in "$server" "$worker"; do
		same "a server and its worker: model and concurrency" \
			"$(lines_of "$pid" '[l["model"], l["concurrency"], l["concurrency_from"]]' "$TMP/each.jsonl")" '["[\"org/NAME\", 32, \"configured\"]"]'
	done
	same "runtime flags of 5 KB" "$(lines_of "$server" 'l["runtime_flags"]' "$TMP/each.jsonl" | tr -dc 0 | wc -c)" 5000
	kill "$worker"
}

# A command that has ended before it is looked at.
test_short_command() {
	for run in 1 2; do
		rm -f "$TMP/short$run.jsonl"
		GGML_X=3 timeout 300 "$INFTRACE" record -q --profile "$TMP/short$run.jsonl" -- \
			/bin/true --ctx-size 4096 -ngl 99 --api-key hush4 --prompt hush5 -p hush6 -m /x/short.gguf --flash-attn
	done
	expect "a short command: its hash" 'len({l["env_hash"] for l in p + q}) == 1 and p[0]["env_hash"] != "sha256:unknown"' \
		p="$TMP/short1.jsonl" q="$TMP/short2.jsonl"
	expect "a short command: its settings" 'all(l["runtime_flags"] == {"--ctx-size": "4096", "-ngl": "99", "-m": "/x/short.gguf",
		"--flash-attn": True, "GGML_X": "3"} or "-m" not in l["runtime_flags"] for l in p)' p="$TMP/short1.jsonl"
	expect "a short command: its model" '{l["model"] for l in p} == {"short.gguf"}' p="$TMP/short1.jsonl"
	same "a short command: no secrets" "$(grep -c hush "$TMP/short1.jsonl")" 0
}

# What the target of another user may influence.
test_of_others() {
	long=$(printf '%0120000d' 0)
	background setpriv --reuid 65534 --clear-groups -- env -i "INFTRACE_MODEL=$long" INFTRACE_ENV_HASH="$digits" \
		INFTRACE_CONCURRENCY=x VLLM_CHAKRA_FLAG=/never VLLM_CHAKRA_TRACE_DIR=/never sleep 1000
	wait_until 60 is_program "$BG" sleep
	theirs=$BG
	record_each -p "$theirs"
	expect "a value of 120 KB is left out" '{l["model"] for l in p} == {"unknown"}' p="$TMP/each.jsonl"
	check "a value of 120 KB is left out: said" grep -q "INFTRACE_MODEL of process $theirs is longer than 256 bytes" \
		"$TMP/each.err"
	expect "a hash of somebody else is none" "all(l['env_hash'] != 'sha256:$digits' for l in p)" p="$TMP/each.jsonl"
	rc=0
	(cd "$TMP" && timeout 300 "$INFTRACE" record --engine none -d 300ms -p "$theirs" 2>"$TMP/theirs.err") || rc=$?
	same "a flag file of somebody else is not waited for" "$rc $(grep -c 'VLLM_CHAKRA_FLAG of process .* is left out' \
		"$TMP/theirs.err") $(find "$TMP" -maxdepth 1 -name 'inftrace-sleep-*.json' | wc -l)" "0 1 1"
}

test_steps_per_process() {
	for i in 1 2; do
		background "$mini" -q -r 0 -t 1 -i 5 -d $((i * 300)) >/dev/null
		pids[i]=$BG
	done
	timeout 300 "$INFTRACE" record -q --max-steps-per-process 4 --profile "$TMP/steps.jsonl" -p "${pids[1]},${pids[2]}"
	expect "--max-steps-per-process" "[sum(l['event'] == 'token_prof' and l['shape']['pid'] == i and
		'began_before' not in l['shape'] for l in p) for i in (${pids[1]}, ${pids[2]})] == [4, 4]" p="$TMP/steps.jsonl"
	kill "${pids[@]}"
	# shellcheck disable=SC2016
	background sh -c '"$1" -q -r 0 -t 1 -i 5 & "$1" -q -r 0 -t 1 -i 5 & echo "$! ready"; wait' sh "$mini" >"$TMP/parent"
	wait_until 60 grep -q ready "$TMP/parent"
	mapfile -t pids < <(pgrep -P "$BG")
	check "--max-steps-per-process: a parent without steps" timeout 300 "$INFTRACE" record -q --max-steps-per-process 4 \
		--profile "$TMP/parent.jsonl" -p "$BG,${pids[0]},${pids[1]}"
	kill "${pids[@]}"
}

test_torn_line() {
	printf '{"event":"tok' >"$TMP/torn.jsonl"
	"$INFTRACE" record -q --profile "$TMP/torn.jsonl" -- true
	tail -n +2 "$TMP/torn.jsonl" >"$TMP/rest.jsonl"
	check "a torn line is not continued" "$INFTRACE" validate "$TMP/rest.jsonl" --require window_prof
}

test_two_outputs() {
	"$INFTRACE" record -q --engine none -o "$TMP/one.json" -o "$TMP/two.json" -- sh -c 'ls >/dev/null; ls >/dev/null'
	expect "each output has the names of all processes and threads" \
		'(lambda a, b: a == b and len(a) > 3)(*[[e for e in t if e["name"] in ("process_name", "thread_name")]
			for t in (one, two)])' one="$TMP/one.json" two="$TMP/two.json"
}

test_version() {
	version=$("$INFTRACE" --version | cut -d' ' -f2)
	odd=$'a "model"\e[31m\u202e%s'
	line="inftrace record -q --engine none -o $TMP/v.json -o $TMP/v.pftrace --profile $TMP/v.jsonl --model '$odd' -- echo ..."
	"$INFTRACE" record -q --engine none -o "$TMP/v.json" -o "$TMP/v.pftrace" --profile "$TMP/v.jsonl" --model "$odd" \
		-- echo hf_hush >/dev/null
	export line version
	expect "version and command line: of a window" '(lambda s: [s["version"], s["command_line"]])([l for l in p
		if l["event"] == "window_prof"][0]["shape"]) == [__import__("os").environ[n] for n in ("version", "line")]' p="$TMP/v.jsonl"
	expect "version and command line: of a trace" 'all([e["args"]["version"], e["args"]["command_line"]] ==
		[__import__("os").environ[n] for n in ("version", "line")] for e in t if e["name"] == "inftrace_clock")' t="$TMP/v.json"
	same "version and command line: of a .pftrace" "$(grep -ac "inftrace record -q --engine none .* -- echo \.\.\." "$TMP/v.pftrace") \
$(grep -ac "inftrace $version" "$TMP/v.pftrace")" "1 1"
	same "version and command line: no arguments of a COMMAND" \
		"$(cat "$TMP/v.json" "$TMP/v.pftrace" "$TMP/v.jsonl" | grep -ac '"-- echo hf_hush\|echo hf_hush')" 0
same "version and command line: nothing drives a terminal" "$(LC_ALL=C grep -c $'\e' "$TMP/v.json" "$TMP/v.jsonl" |
		cut -d: -f2 | sort -u)" 0
check "version and command line: valid" "$INFTRACE" validate -q "$TMP/v.json" "$TMP/v.jsonl"
}

# A container has another host name, and the machine's boot id.
test_host() {
	# shellcheck disable=SC2016
	check "host: record" unshare --uts sh -c 'echo elsewhere >/proc/sys/kernel/hostname; exec "$@"' _ "$INFTRACE" record -q --engine none \
		-o "$TMP/h.json" -o "$TMP/h.pftrace" --profile "$TMP/h.jsonl" -- true
	export id
	id=$(cat /proc/sys/kernel/random/boot_id)
	expect "host: of a window" 'all([s["boot_id"], s["hostname"]] == [__import__("os").environ["id"], "elsewhere"]
		for s in [[l for l in p if l["event"] == "window_prof"][0]["shape"]])' p="$TMP/h.jsonl"
	expect "host: of a trace" 'all([e["args"]["boot_id"], e["args"]["hostname"]] == [__import__("os").environ["id"], "elsewhere"]
		for e in t if e["name"] == "inftrace_clock")' t="$TMP/h.json"
	same "host: of a .pftrace" "$(grep -ac "$id" "$TMP/h.pftrace") $(grep -ac elsewhere "$TMP/h.pftrace")" "1 1"
	check "host: valid" "$INFTRACE" validate -q "$TMP/h.json" "$TMP/h.jsonl"
}

run_tests "$@"
