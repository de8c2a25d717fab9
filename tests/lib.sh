# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
#
# Helpers for the test scripts in integration/. A script sources this first:
#
#   . "$(dirname "$0")/../lib.sh"
#
# and gets: TOP, the checkout; INFTRACE, the binary; TMP, a directory of its own that is removed at
# the end; the functions below, and those of engines/engines.sh. It runs under set -eu. At its end
# whatever "background" started is killed; the exit code is 1 when a check failed, and a script that
# dies early reports that as a failure. Without root it is skipped. Its tests are functions:
#
#   build storm                                  what they need is before them
#   test_flag() { check "a flag" ...; }
#   test_toggle() { check "a toggle" ...; }
#   run_tests "$@"

set -eu -o pipefail

TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
BUILD=${BUILD:-$TOP/build}
INFTRACE=$BUILD/inftrace
TEST=$(basename "$0" .sh)
TMP=$(mktemp -d)
export PATH=$PATH:/usr/sbin:/sbin PYTHONDONTWRITEBYTECODE=1
# If python3 is a wrapper script (pyenv), each of some hundred starts would take 0.1 s longer.
if IFS= read -r -n 2 magic <"$(command -v python3)" && [ "$magic" = '#!' ]; then
	PATH=$(python3 -c 'import os, sys; print(os.path.dirname(sys.executable))'):$PATH
fi
# shellcheck source=engines/engines.sh
. "$TOP/tests/engines/engines.sh"

test_failed=0
test_pids=()
test_at_end=()

ok() { # NAME
	echo "ok $1"
}

not_ok() { # NAME WHY
	echo "not ok $1 - $2"
	test_failed=1
}

skip() { # NAME WHY
	echo "skip $1 - $2"
}

# The whole script cannot run here.
skip_all() { # WHY
	skip "$TEST" "$1"
	exit 0
}

# Whether the process is still what this test started: numbers come again, soon where thousands of processes are
# started, and then it may be another test's.
is_own() { # PID
	[[ $(jobs -rp) =~ (^|$'\n')$1($'\n'|$) ]] || [ "$(ps -o pgid= -p "$1")" = "$(ps -o pgid= -p $$)" ]
}

# What the programs that ran last have said, for a script that ends early.
said_last() {
	local file
	find "$TMP" -type f \( -name '*.err' -o -name '*.log' \) -printf '%T@ %p\n' | sort -rn | head -n 3 | while read -r _ file; do
		tail -n 4 "$file" | sed "s/^/# ${file##*/}: /"
	done
}

test_exit() {
	local rc=$? pid command
	trap - EXIT
	set +e
	for command in "${test_at_end[@]}"; do
		eval "$command" 2>/dev/null
	done
	for pid in "${test_pids[@]}"; do
		is_own "$pid" || continue
		kill -9 "$pid" 2>/dev/null
		wait "$pid" 2>/dev/null
	done
	[ "$rc" -eq 0 ] || said_last
	rm -rf "$TMP"
	[ "$rc" -eq 0 ] || not_ok "$TEST" "the script ended early with exit code $rc"
	exit "$test_failed"
}
trap test_exit EXIT
trap 'exit 143' TERM
trap 'echo "# $0:$LINENO: $BASH_COMMAND"' ERR

# run_tests "$@": the last line of a script. It calls setup, where there is one, and then each test_NAME of the script, or
# those on the command line; each of them can run alone; and teardown. With --list, the script prints the names.
run_tests() {
	local run_test # a name that no script has: its own "name" is not to be hidden
	for run_test; do
		[[ " ${test_names//$'\n'/ } " == *" $run_test "* ]] || {
			not_ok "$TEST" "it has no test $run_test; --list names those it has"
			exit 0 # of which test_exit makes a 1
		}
	done
	# shellcheck disable=SC2086 # words
	[ $# -gt 0 ] || set -- $test_names
	! declare -F setup >/dev/null || setup
	for run_test; do
		TIMEFORMAT="# test_$run_test: %0R s, CPU %U s and %S s in the kernel"
		time "test_$run_test"
	done
	! declare -F teardown >/dev/null || teardown
}

# Starts a command that is killed at the end if it still runs; its process id is in BG.
background() { # COMMAND ARG...
	"$@" &
	BG=$!
	test_pids+=("$BG")
}

# spawn VARIABLE COMMAND ARG...: the same, with its process id in the variable.
spawn() {
	background "${@:2}"
	printf -v "$1" %s "$BG"
}

# waiting VARIABLE NAME COMMAND ARG...: a command that reads lines from the fifo TMP/NAME.go, in the background, as soon as it has
# printed "ready" into TMP/NAME.out, or is gone; its process id is in the variable.
waiting() {
	[ -p "$TMP/$2.go" ] || mkfifo "$TMP/$2.go"
	: >"$TMP/$2.out"
	"${@:3}" <>"$TMP/$2.go" >"$TMP/$2.out" 2>"$TMP/$2.log" & # "background" would give it /dev/null for stdin
	printf -v "$1" %s $!
	test_pids+=("$!")
	wait_until 60 grep -qx ready "$TMP/$2.out" || true
}

# say NAME WORDS...: a line for a program that is "waiting". tell: the same, and waits until it has answered with a line that
# begins with "ok".
say() {
	echo "${*:2}" 1<>"$TMP/$1.go"
}

tell() {
	local n
	n=$(grep -c ^ok "$TMP/$1.out" || true)
	say "$@"
	await "$TEST: $1: ${*:2}" eval "[ \"\$(grep -c ^ok ${TMP@Q}/$1.out)\" -gt $n ]"
}

# fed VARIABLE COMMAND ARG...: the same with a pipe for stdin, which ends with "exec 9>&-", and without waiting.
fed() {
	rm -f "$TMP/fed"
	mkfifo "$TMP/fed"
	"${@:2}" <"$TMP/fed" &
	printf -v "$1" %s $!
	test_pids+=("$!")
	exec 9>"$TMP/fed"
}

# at_end COMMAND ARG...: what is done at the end as well, whatever it comes from; the last one first.
at_end() {
	test_at_end=("${*@Q}" "${test_at_end[@]}")
}

# wait_until SECONDS COMMAND...: 0 as soon as the command succeeds, 1 when it never did. The last try begins after that
# time: the one before may have looked just in time, and then have waited for a CPU itself. What takes long is looked at less
# often, up to once a second: to look may cost more than what is waited for.
wait_until() {
	local began=$SECONDS end=$((SECONDS + $1)) ms last=
	shift
	until "$@"; do
		[ -z "$last" ] || return 1
		[ "$SECONDS" -lt "$end" ] || last=1
		ms=$(((SECONDS - began) * 50))
		printf -v ms %03d "$((ms < 50 ? 50 : ms > 950 ? 950 : ms))"
		sleep "0.$ms"
	done
}

# often QUICK ALL: how often something is tried; ALL with scripts/test --all.
often() {
	if [ "${TEST_ALL:-}" ]; then echo "$2"; else echo "$1"; fi
}

# Two numbers that are compared are shown, so that the logs tell how much room a bound leaves.
show_numbers() { # COMMAND ARG...
	[[ $1 != "test" && $1 != "[" || ! ${3:-} =~ ^-(lt|le|gt|ge)$ ]] || echo "# ${*:2:3}"
}

# await NAME COMMAND ARG...: within a minute the command must succeed; only a failure is told.
await() {
	wait_until 60 "${@:2}" || not_ok "$1" "not within a minute: ${*:2}"
}

has_ended() { # PID
	! grep -qs '^State:.[^ZX]' "/proc/$1/status"
}

# ended NAME PID [WANTED]: it ends with that exit code, which is 0 unless it is given. interrupted: by Ctrl-C.
ended() {
	local rc=0
	wait "$2" || rc=$?
	same "$1" "$rc" "${3:-0}"
}

interrupted() { # NAME PID [WANTED]
	kill -INT "$2"
	ended "$@"
}

# check NAME COMMAND ARG...: the command must succeed.
check() {
	local name=$1 out=$TMP/check.out rc=0
	shift
	show_numbers "$@"
	"$@" >"$out" 2>&1 || rc=$?
	if [ "$rc" -eq 0 ]; then
		ok "$name"
	else
		sed 's/^/# /' "$out"
		not_ok "$name" "exit code $rc of: $*: $(tail -n 1 "$out")"
	fi
}

# check_shown NAME COMMAND ARG...: the same; what it prints is shown in any case.
check_shown() {
	check "$@"
	sed 's/^/# /' "$TMP/check.out"
}

# check_rc NAME WANTED PATTERN COMMAND ARG...: the command must end with that exit code and print
# (on stdout or stderr) a line that matches the extended regular expression.
check_rc() {
	local name=$1 wanted=$2 pattern=$3 out=$TMP/check.out rc=0
	shift 3
	"$@" >"$out" 2>&1 </dev/null || rc=$?
	if [ "$rc" -ne "$wanted" ]; then
		sed 's/^/# /' "$out"
		not_ok "$name" "exit code $rc, not $wanted, of: $*"
	elif ! grep -qE -e "$pattern" "$out"; then
		sed 's/^/# /' "$out"
		not_ok "$name" "no line matches /$pattern/"
	else
		ok "$name"
	fi
}

# refused NAME WANTED_RC PATTERN COMMAND ARG...: the same with one line on stderr, and nothing on stdout; nor in the directory
# EMPTY, if that is set.
refused() {
	local rc=0 why='' err=$TMP/refused.err
	"${@:4}" >"$TMP/refused.out" 2>"$err" </dev/null || rc=$?
	sed -i '/^Try .* --help/,$d' "$err" # of argp
	if [ "$rc" -ne "$2" ]; then
		why="exit code $rc, not $2"
	elif [ "$(wc -l <"$err")" -ne 1 ] || [ "$(wc -c <"$err")" -gt 400 ]; then
		why="not one line"
	elif ! grep -qE -e "$3" "$err"; then
		why="no match for /$3/"
	elif LC_ALL=C grep -q '[[:cntrl:]]' "$err"; then
		why="control bytes"
	elif [ -s "$TMP/refused.out" ]; then
		why="it wrote to stdout"
	elif [ "${EMPTY:-}" ] && [ "$(ls -A "$EMPTY")" ]; then
		why="left behind: $(ls -A "$EMPTY")"
		rm -rf "${EMPTY:?}"/*
	fi
	if [ "$why" ]; then
		not_ok "$1" "$why: $(cat -v "$err")"
	else
		ok "$1"
	fi
}

# same NAME GOT WANTED: two texts must be equal.
same() {
	if [ "$2" = "$3" ]; then
		ok "$1"
	else
		not_ok "$1" "got $2, wanted $3"
	fi
}

# json EXPRESSION NAME=FILE ...: prints the value of a Python expression over the contents of the
# files: a JSON array (a Chrome trace, with or without its end), or else the list of the lines of a
# JSONL file; .gz is unpacked. NAME=last:FILE is the last line of FILE that is a JSON object (the
# counts of an engine). Strings print as they are, other values as JSON. This is called some hundred times: without
# site-packages and what most expressions do not need, Python starts in a third of the time.
json() {
	python3 -I -S - "$@" <<-'PY'
		import gc, json, math, re, sys

		gc.disable()  # nothing goes before the end

		def load(path):
		    last = path.startswith("last:")
		    path = path[5:] if last else path
		    with open(path, "rb") as f:
		        content = f.read()
		    if path.endswith(".gz"):
		        import gzip
		        content = gzip.decompress(content)
		    text = content.decode("utf-8", "replace")
		    if last:
		        return json.loads([l for l in text.splitlines() if l.startswith("{")][-1])
		    if text.startswith("["):
		        text = text.rstrip()
		        # events without arguments have no "args"
		        return json.loads(text if text.endswith("]") else text.rstrip(",") + "]",
		            object_hook=lambda d: {"args": {}, **d} if "ph" in d else d)
		    return [json.loads(line) for line in text.splitlines() if line.strip()]

		names = {"json": json, "math": math, "re": re}
		if "statistics." in sys.argv[1]:
		    import statistics
		    names["statistics"] = statistics
		for arg in sys.argv[2:]:
		    name, path = arg.split("=", 1)
		    names[name] = load(path)
		value = eval(sys.argv[1], names)
		print(value if isinstance(value, str) else json.dumps(value))
	PY
}

# expect NAME EXPRESSION NAME=FILE ...: the expression (see json) must be true.
expect() {
	local name=$1 value
	shift
	value=$(json "$@" 2>&1) || true
	if [ "$value" = true ]; then
		ok "$name"
	else
		not_ok "$name" "$1 is $(tail -n 1 <<<"$value")"
	fi
}

# schema_fits NAME SCHEMA FILE...: each document fits that schema of docs/schema.
schema_fits() {
	if /usr/bin/python3 -c 'import jsonschema' 2>/dev/null; then
		check "$1" "$TOP/tests/tools/json_schema.py" "$TOP/docs/schema/$2.schema.json" "${@:3}"
	else
		skip "$1" "python3-jsonschema is not installed"
	fi
}

# cpu_limit_make QUOTA PERIOD: makes a cgroup of so much CPU time, in us, for the caller to remove, and prints its directory.
cpu_limit_make() {
	local dir
	if [ -e /sys/fs/cgroup/cpu/cpu.cfs_quota_us ] || [ -e /sys/fs/cgroup/cpu/cpu.shares ]; then
		dir=/sys/fs/cgroup/cpu/inftrace-test-$$
		mkdir "$dir" && echo "$2" >"$dir/cpu.cfs_period_us" && echo "$1" >"$dir/cpu.cfs_quota_us"
	else
		dir=/sys/fs/cgroup/inftrace-test-$$
		mkdir "$dir" && echo "$1 $2" >"$dir/cpu.max"
	fi 2>/dev/null || return 1
	echo "$dir"
}

# Where cgroups of version 2 are mounted.
cgroup_root() {
	local dir
	for dir in /sys/fs/cgroup /sys/fs/cgroup/unified; do
		[ "$(stat -fc %T "$dir" 2>/dev/null)" != cgroup2fs ] || { echo $dir && return; }
	done
	echo "no cgroups of version 2 are mounted" >&2
	return 1
}

need() { # COMMAND ...
	local command
	for command; do
		command -v "$command" >/dev/null || skip_all "$command is not installed"
	done
}

# watchpoints_here TEST: whether Python functions can be watched here; skips else.
watchpoints_here() {
	local missing
	missing=$("$INFTRACE" doctor | grep -E '^missing +(uprobe_multi by process|hardware watchpoints|initial PID namespace)')
	[ -z "$missing" ] || skip "$1" "$missing"
	[ -z "$missing" ]
}

# The versions of CPython that --py-step knows and are installed, the distribution's and pyenv's: lines "3.11 PATH".
python_versions() {
	local p version
	for p in /usr/bin/python3.{8,9,10,11,12,13,14} "$HOME"/.pyenv/versions/3.*/bin/python3; do
		[ -x "$p" ] && version=$("$p" -c 'import sys; print("%d.%d" % sys.version_info[:2])') || continue
		case $version in
		3.8 | 3.9 | 3.10 | 3.11 | 3.12 | 3.13 | 3.14) echo "$version $p" ;;
		esac
	done | sort -u -t. -k2n
}

# A program with the names of a Python engine, tests/programs/ENGINE_like, replays logs of its scheduler.
#
#   replays_of ENGINE LIBRARY          prepares that; LIBRARY is what the engine is known by. AT: where it is; RUN: the interpreter
#   replay NAME LOG OPTION...          compares all rows and requests with ENGINE-scheduleLOG.jsonl; NEAR: how far times may be off, in ns
#   replay_versions LOG OPTION...      with each CPython that is installed
#   replay_next LOG OPTION...          with those of the distribution's next release
#   replay_junk                        its junk.py
#   watchpoints_took_over NAME         whether they did in the recording NAME, without a loss
replays_of() {
	"$INFTRACE" record -q --engine none --py-step none -o /dev/null -f chrome -- python3 -c pass 2>"$TMP/err" || true
	! grep -q 'not in' "$TMP/err" || skip_all "its steps cannot be seen: $(grep -m 1 'not in' "$TMP/err")"
	REPLAYED=$1 AT=$TMP/at NEAR='' SERVE=serve.py
	mkdir "$AT"
	cp -r "$TOP/tests/programs/$1_like/." "$TOP/tests/programs/"{serve,serving,serve_uvicorn}.py "$TOP/tests/programs/schedules/$1"-*.gz "$AT"
	gunzip "$AT"/*.gz
	gcc -shared -o "$AT/$2" -x c - <<<'int nothing;'
	RUN=(env PYTHONDONTWRITEBYTECODE=1 python3)
}

replay() {
	local name=$1 log=$REPLAYED-schedule$2.jsonl
	check "$name: is recorded" engine_recorded "$name" -v --strict --engine "$TOP/engines/$REPLAYED.json" -o "$TMP/$name.json" \
		--profile "$TMP/$name.jsonl" -- "${RUN[@]}" "$AT/replay.py" "$AT/$log" "${@:3}"
	check "$name: the rows of each step, and each request" "$TOP/tests/programs/check_$REPLAYED.py" "$TMP/at/$log" \
		"$TMP/$name.json" "$TMP/$name.jsonl" "$TMP/$name.out" $NEAR
}

replay_versions() {
	local version python RUN
	while read -r version python; do
		case $version in
		3.8 | 3.9) continue ;; # the engines need 3.10
		esac
		RUN=(env PYTHONDONTWRITEBYTECODE=1 "$python")
		replay "$version" "$@"
	done < <(python_versions)
}

replay_next() {
	local root version RUN AT=/mnt NEAR=200000 # a watchpoint costs up to 20 us in a virtual machine
	root=$(python_next 2>&1) || {
		skip "next release" "$root"
		return
	}
	for version in 3.13 3.14; do
		RUN=("$TOP/tests/engines/in_root" "$root" "$TMP/at" "/usr/bin/python$version")
		replay "next-$version" "$@"
		! watchpoints_here "next-$version, watched" || watchpoints_took_over "next-$version"
	done
}

# served NAME REQUESTS GAP SERVE-ARGUMENT... [-- RECORD-OPTION...]: after replays_of, a server, whose API is one process, which has the
# sockets and is named with -p, and its engine another one. SERVE: the program.
served() {
	local name=$1 engine
	args_split "${@:4}"
	server_started "$name" env -C "$AT" "${RUN[@]}" "$SERVE" "${SLOTS:-2}" "${BEFORE[@]}"
	engine=$(pgrep -o -P "$SERVER" -f pipe_handle) # its first child
	recording TRACER "$name" --strict --engine "$TOP/engines/$REPLAYED.json" --engine "$TOP/engines/python.json" \
		--profile "$TMP/$name.jsonl" "${BEHIND[@]}" -p "$SERVER" || return 1
	check "$name: its engine is recorded with it" grep -qE 'also recorded: (1 running child process|3 running child processes) that' "$TMP/$name.err"
	check "$name: clients" timeout 120 "$TOP/tests/programs/serve_client.py" "$PORT" "$2" "$3" 6
	cp "$TMP/check.out" "$TMP/$name.clients"
	kill -TERM "$SERVER"
	wait "$SERVER" && wait "$TRACER" || sed 's/^/# /' "$TMP/$name.log" "$TMP/$name.err"
	check_shown "$name: each request is one, from its socket to its tokens" "$TOP/tests/programs/check_python_server.py" \
		"$TMP/$name.clients" "$TMP/$name.jsonl" "$SERVER" "$engine" ${BEFORE:+"${BEFORE[0]}" "$TMP/$name.out"}
}

replay_junk() {
	check "junk: is recorded" engine_recorded junk --strict --engine "$TOP/engines/$REPLAYED.json" -o "$TMP/junk.json" \
		--profile "$TMP/junk.jsonl" -- "${RUN[@]}" "$AT/junk.py"
	same "junk: the program did not notice" "$(tail -n 1 "$TMP/junk.out")" "done"
	check "junk: rows are whole, or none" "$TOP/tests/programs/check_$REPLAYED.py" junk "$TMP/junk.json" "$TMP/junk.out"
	check "junk: valid" "$INFTRACE" validate "$TMP/junk.json" "$TMP/junk.jsonl"
}

watchpoints_took_over() {
	check "$1: watchpoints have taken over" grep -q 'its Python functions are watched' "$TMP/$1.err"
	check "$1: none was missed" test -z "$(grep 'watchpoints .* were missed' "$TMP/$1.err")"
}

# python_with MODULE[,MODULE...]: prints a Python that has them. Another one may be first in PATH.
python_with() {
	local p
	for p in python3 /usr/bin/python3; do
		! "$p" -c "import $1" 2>/dev/null || break
		p=
	done
	[ "$p" ] && echo "$p"
}

# Sets DRIVER, the program, and MODEL_ARGS, the arguments after its options; skips without npm.
#
#   need_llama
#   "$INFTRACE" record -o "$TMP/t.json" -- "$DRIVER" -n 16 -t 1 "${MODEL_ARGS[@]}" >"$TMP/log"
#   expect "steps" 'len(p) == c["steps"]' p="$TMP/p.jsonl" c=last:"$TMP/log"
need_llama() {
	local libs
	libs=$(llama_libs 2>&1) || skip_all "$libs"
	DRIVER=$(llama_driver)
	MODEL_ARGS=("$libs" "$(llama_model)")
}

# args_split ARG...: BEFORE and BEHIND are those before and behind the first --, which there need not be.
args_split() {
	BEFORE=()
	while [ $# -gt 0 ] && [ "$1" != -- ]; do
		BEFORE+=("$1")
		shift
	done
	[ $# -eq 0 ] || shift
	# shellcheck disable=SC2034 # for the scripts
	BEHIND=("$@")
}

# server_started NAME COMMAND...: a server that prints its port and then "ready", in the background, with the same stdin. It
# prints into TMP/NAME.out and TMP/NAME.log; PORT, and SERVER, its process id.
server_started() {
	"${@:2}" <&0 >"$TMP/$1.out" 2>"$TMP/$1.log" & # otherwise it would read from /dev/null
	SERVER=$!
	test_pids+=("$SERVER")
	wait_until 60 grep -sqx ready "$TMP/$1.out"
	# shellcheck disable=SC2034 # for the scripts
	PORT=$(grep -m 1 -oE '^[0-9]+$' "$TMP/$1.out")
}

# recording VARIABLE NAME RECORD-OPTION...: in the background, as soon as it has begun or is gone; its process id is in the
# variable. RECORD_BY, if it is set, is the command that starts it. inftrace prints into TMP/NAME.err. 1: it has not begun, which
# is told.
recording() {
	spawn "$1" "${RECORD_BY[@]}" "$INFTRACE" record "${@:3}" 2>"$TMP/$2.err"
	wait_until 60 begun_or_gone "$BG" "$TMP/$2.err" || true
	has_begun "$TMP/$2.err" || {
		not_ok "$2: recording" "$(tail -n 3 "$TMP/$2.err")"
		return 1
	}
}

has_begun() { # FILE
	grep -qE '^inftrace: (recording|flight recorder on|waiting for the window)' "$1"
}

begun_or_gone() { # PID FILE
	has_begun "$2" || has_ended "$1"
}

# serving NAME COMMAND ARG...: in the background, as soon as it has printed where it listens, or is gone. Its process id is in BG,
# what it prints in TMP/NAME.url and TMP/NAME.err.
serving() {
	background "${@:2}" >"$TMP/$1.url" 2>"$TMP/$1.err"
	wait_until 60 printed_or_gone "$TMP/$1.url" "$BG"
}

printed_or_gone() { # FILE PID
	[ -s "$1" ] || has_ended "$2"
}

# engine_started NAME RECORD-OPTION... -- COMMAND ARG...: a command that prints "ready" when its libraries are loaded, and then
# waits for a line of input, which it gets as soon as it is recorded. It prints into TMP/NAME.out, inftrace into
# TMP/NAME.err; their process ids are in ENGINE and TRACER. 1: it did not come so far.
engine_started() {
	local name=$1
	args_split "${@:2}"
	fed ENGINE "${BEHIND[@]}" >"$TMP/$name.out" 2>&1
	wait_until 60 grep -sqx ready "$TMP/$name.out" || return 1
	recording TRACER "$name" "${BEFORE[@]}" -p "$ENGINE" || return 1
	echo >&9
	exec 9>&-
}

# engine_recorded NAME ...: as above, up to the end of both, which must succeed.
engine_recorded() {
	engine_started "$@" && wait "$ENGINE" && wait "$TRACER"
}

# line_recorded PROGRAM RECORD-OPTION...: records a program, which waits for a line of input, from before it to its end. It prints
# into TMP/t.out, inftrace into TMP/t.err.
line_recorded() {
	local target
	fed target "$1" >"$TMP/t.out" 2>"$TMP/t.out.err"
	recording BG t --strict -e functions -o "$TMP/t.json" "${@:2}" -p "$target" || return 1
	echo >&9
	exec 9>&-
	wait "$target" && wait "$BG" && return
	sed 's/^/# /' "$TMP/t.err"
	return 1
}

# recorder_started NAME OPTION...: a recording by the preset TMP/mini.json, until recorder_ended; inftrace prints into TMP/NAME.log.
recorder_started() {
	mkdir -p "$TMP/$1"
	# 8: what a script keeps open for its engines
	spawn RECORDER env --default-signal=INT "$INFTRACE" record -v --engine "$TMP/mini.json" "${@:2}" 2>"$TMP/$1.log" 8>&-
	wait_until 60 grep -q 'Ctrl-C ends it' "$TMP/$1.log" || not_ok "$1: started" "$(tail -n 1 "$TMP/$1.log")"
}

recorder_ended() { # NAME
	interrupted "$1: exit code" "$RECORDER"
}

# Sets probed, where what tests/probed makes is, and MOCK, the same of tests/gpu: the GPU that does not exist.
build_probed() { # [TARGET...]
	# shellcheck disable=SC2034 # for the scripts
	probed=$BUILD/probed
	run_logged "$BUILD/probed/make.log" "cannot build tests/probed" make -C "$TOP/tests/probed" O="$BUILD/probed" "$@"
}

build_mock_gpu() {
	# shellcheck disable=SC2034 # for the scripts
	MOCK=$BUILD/gpu
	run_logged "$BUILD/gpu/make.log" "cannot build the GPU that does not exist" make -C "$TOP/tests/gpu" O="$BUILD/gpu"
}

# dumps NAME WANTED REASON: the flight recorder has left WANTED dumps in TMP/NAME, each for such a reason.
dumps() {
	local got
	got=$("$TOP/tests/programs/check_dumps.py" reasons "$TMP/$1" "$3" 2>&1) || got=${got##*$'\n'}
	[ "$got" = "$2" ] || sed 's/^/# /' "$TMP/$1.err"
	same "$1" "$got" "$2"
}

test_names=$(sed -n 's/^test_\(\w*\)() {.*/\1/p' "$0")
if [ "${1:-}" = --list ]; then
	echo "$test_names"
	exit 0
fi
[ "$(id -u)" -eq 0 ] || skip_all "needs root"
