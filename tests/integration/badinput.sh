#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Input that cannot work: one line on stderr that names it, the right exit code, nothing attached
# and no file left behind.

. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/robust/common.sh"

# bad NAME WANTED_RC PATTERN ARG...: inftrace record ARG... in an empty directory, which stays empty.
bad() {
	EMPTY=$work refused "$1" "$2" "$3" timeout 100 "${as[@]}" "$INFTRACE" record "${@:4}"
}

# rows <<TABLE: NAME | WANTED_RC | PATTERN | ARG... of inftrace record, with $target and $TMP in it.
# shellcheck disable=SC2120 # its own arguments are those of a row
rows() {
	local name wanted pattern args
	while IFS='|' read -r name wanted pattern args; do
		eval "set -- $args"
		bad "$(xargs <<<"$name")" "$((wanted))" "$(sed 's/^ //; s/ $//' <<<"$pattern")" "$@"
	done
}

has_two_threads() {
	grep -q '^Threads:.2' "/proc/$target/status"
}

need cc node bpftool setpriv

build storm
build hostile
bpf_ids >"$TMP/bpf.before"
work=$TMP/work
mkdir "$work"
chmod 777 "$TMP" "$work"
cd "$work" || exit

as=()

spawn target "$TMP/storm" -t 2 -n 10 -s 0 -p 10000
wait_until 60 has_two_threads
thread=$(find "/proc/$target/task" -mindepth 1 -maxdepth 1 -printf '%f\n' | grep -vx "$target")
true &
gone=$!
wait "$gone"

mkdir "$TMP/directory.json" "$TMP/readonly"
chmod 555 "$TMP/readonly"
touch "$TMP/file"
run=("$INFTRACE" record -q --engine none -p "$target")

# What to record.
test_targets() {
	bad "nothing" 2 'nothing to record'
	bad "an empty command" 2 'nothing to record' --
	bad "two kinds of target" 2 'give one of' -p "$target" -- true
	bad "a word too many" 2 'give one of' -p "$target" word
	bad "no such process" 1 "no process $gone is running" -p "$gone"
	bad "a thread" 2 "$thread is a thread of process $target" -p "$thread"
	bad "a good and a bad process" 1 "no process $gone" -p "$target,$gone"
	for list in 0 -1 abc '' '1,' ',1' 1,,2 0x10 ' 1' 99999999999 99999999999999999999999 $'1\n2'; do
		bad "-p '${list@Q}'" 2 '^inftrace: -p: .*list of process ids' -p "$list"
	done
	refused "itself" 2 'is inftrace itself' sh -c 'exec "$0" record -p $$' "$INFTRACE"
	bad "unknown option" 2 "unrecognized option '--nonsense'" --nonsense
	bad "option without its value" 2 "requires an argument" -p
	for list in '' foo sched,foo '+' ',,' -sched,-syscalls,-faults,-functions,-ipc $'\e[2J'; do
		bad "-e '${list@Q}'" 2 '^inftrace: -e: ' -e "$list" -p "$target"
	done
	for time in 0 0s -5s 10x 10sm '' s 1e3 ' 1' 99999999999h $'1s\n'; do
		bad "-d '${time@Q}'" 2 '^inftrace: -d: .*duration' -d "$time" -p "$target"
	done
	bad "--min-syscall" 2 '^inftrace: --min-syscall: .*duration' --min-syscall fast -p "$target"
	for size in 0 1000 3KB 2GB 4XB x '' -4096 99999999999999999999; do
		bad "--ring-size '$size'" 2 '^inftrace: --ring-size: ' --ring-size "$size" -p "$target"
	done
}

# Where to write.
test_outputs() {
	bad "-o in a missing directory" 1 '/nowhere/x.json: No such file' -o /nowhere/x.json -p "$target"
	bad "-o below a file" 1 "file/x.json: Not a directory" -o "$TMP/file/x.json" -p "$target"
	bad "-o a directory" 2 "directory.json is a directory: give the name of a file" -o "$TMP/directory.json" -p "$target"
	bad "-o where nothing can be created" 1 '/proc/x.json: ' -o /proc/x.json -p "$target"
	bad "-o without a suffix that is known" 2 'x.txt: the name must end in' -o x.txt -p "$target"
	bad "-o with nothing but a suffix" 2 "the name must end in" -o .json -p "$target"
	bad "-o with an empty name" 2 'the name must end in' -o '' -p "$target"
	bad "-o with control bytes" 2 'the name must end in' -o $'x\n\e[31m.txt' -p "$target"
	bad "one good, one bad -o" 1 '/nowhere/' -o x.json -o /nowhere/x.json -p "$target"
	bad "two outputs to stdout" 2 'only one output can go to stdout' -o - --profile - -p "$target"
	bad "--profile is a directory" 2 "directory.json is a directory: give the name of a file" --profile "$TMP/directory.json" -p "$target"
	bad "--profile below a file" 1 "$TMP/file/x" --profile "$TMP/file/x" -p "$target"
	mkdir "$TMP/own"
	ln -s /dev/full "$TMP/own/full.json"
	bad "a full device" 1 'full.json: No space left on device' -q -o "$TMP/own/full.json" -p "$target"
	bad "a full device, profile" 1 '/dev/full: No space left on device' -q -d 100ms --profile /dev/full -p "$target"

	mkfifo "$TMP/pipe.json"
	touch "$TMP/there.json"
	cp "$TOP/engines/cuda.json" "$TMP/mine.json"
	ln -s there.json "$TMP/other.json"
	rows <<-'TABLE'
		a trace and a profile in one file | 2 | --profile: a.json is the same file as -o a.json | -o a.json --profile a.json -p $target
		one file by two ways | 2 | -o: ./a.json is the same file as -o a.json | -o a.json -o ./a.json -p $target
		a preset as output | 2 | -o: .*/mine.json is the preset of --engine .*/mine.json, which would be replaced | -o $TMP/mine.json --engine $TMP/./mine.json -p $target
		one file by a link | 2 | same file as -o | -o $TMP/there.json -o $TMP/other.json -p $target
		a process id that is too large | 2 | the largest is 4194304 | -p 99999999
		options behind several numbers | 2 | write -p .*pgrep -d, NAME | -p $target $$ -d 1s
		a duration of 0 | 2 | -d: a duration of 0 records nothing; without -d | -d 0 -p $target
		an empty name of the profile | 2 | --profile: the name is empty | --profile '' -p $target
		a preset that is a pipe | 2 | pipe.json is a pipe that nobody writes to | --engine $TMP/pipe.json -p $target
		more memory than there is | 2 | 999TB is more than the .* of memory | --flight-recorder 999TB -p $target
		no directory of a refused run | 2 | no preset named nope | --profile new/dir/p --engine nope -p $target
		no directory of refused windows | 2 | no preset named nope | --window manual --output-dir new --engine nope -p $target
	TABLE
	refused "top -n 0" 2 '^inftrace: -n: 0 updates show nothing; write 1 or more, or leave -n out$' \
		timeout 100 "$INFTRACE" top -n 0 -p "$target"
	refused "few descriptors" 3 'only 20 files may be open, .*: ulimit -n' \
		sh -c 'ulimit -n 20 && exec timeout 100 "$0" record -p "$1" -o x.json' "$INFTRACE" "$target"
	rc=0
	timeout 100 "$INFTRACE" record -d 100ms --profile /dev/full -p "$target" 2>"$TMP/err" || rc=$?
	same "a full device: nothing was written" "$rc $(grep -c wrote "$TMP/err")" "1 0"
	check_rc "a kernel thread" 0 'warning: -p 2 is a kernel thread' timeout 100 "$INFTRACE" record -d 100ms -o "$TMP/k.json" -p 2
	local kb
	for ((kb = 40000; kb < 100000; kb += 10000)); do
		rc=0
		(ulimit -v "$kb" && exec timeout 100 "$INFTRACE" record -d 100ms -o "$TMP/little.pftrace" -- true) 2>"$TMP/little.err" || rc=$?
		[ "$rc" -eq 0 ] || check "with $kb KB of memory: it says what failed" grep -q '^inftrace: .' "$TMP/little.err"
	done
	check "-p with several numbers" timeout 100 "$INFTRACE" record -q -d 100ms -o "$TMP/several.json" -p "$target" "$$"
	expect "-p with several numbers: each is recorded" \
		"{$target, $$} <= {e['pid'] for e in t if e.get('name') == 'process_name'}" t="$TMP/several.json"
}

# Windows, the flight recorder, rotation.
test_windows() {
	by_time='the files are named by time: give --output-dir and --format'
	bad "two kinds of window" 2 'give one of --window-flag and --window$' --window-flag f --window manual -p "$target"
	bad "windows and the flight recorder" 2 'or --flight-recorder, not both$' --window manual --flight-recorder 1s -p "$target"
	bad "windows and -o" 2 "^inftrace: -o: with windows $by_time" --window manual -o x.json -p "$target"
	bad "windows and --profile" 2 "^inftrace: --profile: with windows $by_time" --window-flag f --profile p -p "$target"
	bad "the flight recorder and -o" 2 "^inftrace: -o: with --flight-recorder $by_time" --flight-recorder 1s -o - -p "$target"
	bad "--output-dir without windows" 2 '^inftrace: --output-dir needs --window-flag, ' --output-dir x -p "$target"
	bad "--format without windows" 2 '^inftrace: --format needs --window-flag, ' --format json -p "$target"
	for spec in '' once 2s every=1s for=1s every=1s,for=1s every=1s,for=9ms every=x,for=1s every=1s,every=1s $'\e[31m'; do
		bad "--window '${spec@Q}'" 2 '^inftrace: --window: ' --window "$spec" -p "$target"
	done
	for list in '' xml 'json,' json,json $'json\n' jsonl,jsonl.gz; do
		bad "--format '${list@Q}'" 2 '^inftrace: --format: ' --window manual --format "$list" -p "$target"
	done
	bad "--max-steps" 2 '^inftrace: --max-steps: .*number' --max-steps all -p "$target"
	for size in '' 64 1023K 99ms x 9999999999h $'1s\n'; do
		bad "--flight-recorder '${size@Q}'" 2 '^inftrace: --flight-recorder: ' --flight-recorder "$size" -p "$target"
	done
	for expr in '' step 'step<1s' 'step>=1s' 'step>x' 'steps>1s' 'blocked_futx>1s' 'rate<0' 'rate>1' 'lost>x' 'exit>1' $'\e[2J>1s'; do
		bad "--trigger '${expr@Q}'" 2 '^inftrace: --trigger: ' --flight-recorder 1s --trigger "$expr" -p "$target"
	done
	bad "--trigger: what was meant" 2 "'blocked_futx' is not known; nearest: blocked_futex" --flight-recorder 1s \
		--trigger 'blocked_futx>1s' -p "$target"
	bad "--trigger alone" 2 '^inftrace: --trigger needs --flight-recorder' --trigger exit -p "$target"
	bad "--trigger-cooldown alone" 2 '^inftrace: --trigger-cooldown needs --trigger' --trigger-cooldown 1s -p "$target"
	bad "--trigger-cooldown" 2 '^inftrace: --trigger-cooldown: .*duration' --trigger-cooldown x -p "$target"
	bad "--max-dumps alone" 2 '^inftrace: --max-dumps needs --trigger' --flight-recorder 1s --max-dumps 1 -p "$target"
	bad "--max-dumps" 2 '^inftrace: --max-dumps: ' --max-dumps 0 -p "$target"
	bad "--max-size" 2 '^inftrace: --max-size: 1000K is less than 1MB' --max-size 1000K -p "$target"
	bad "--max-size on stdout" 2 '^inftrace: --max-size: output to stdout cannot be split' --max-size 1MB -o - -p "$target"
	bad "--max-files alone" 2 '^inftrace: --max-files needs --max-size' --max-files 3 -p "$target"
	bad "--output-dir is a file" 1 "into $TMP/file: Not a directory" --window manual --output-dir "$TMP/file" -p "$target"
	bad "--output-dir below a file" 1 "into $TMP/file/x: Not a directory" --window manual --output-dir "$TMP/file/x" -p "$target"
	bad "--output-dir where nothing can be created" 1 'into /proc/x: ' --window manual --output-dir /proc/x -p "$target"
	ln -s file "$TMP/link"
	bad "--window-flag in a missing directory" 1 '/nowhere: No such file' --window-flag /nowhere/flag -p "$target"
	bad "--window-flag below a file" 1 "$TMP/file: Not a directory" --window-flag "$TMP/file/flag" -p "$target"
	bad "--window-flag is a symbolic link" 2 "$TMP/link: it is a symbolic link, not a regular file" \
		--window-flag "$TMP/link" -p "$target"
	bad "--window-flag is a directory" 2 "$TMP/readonly: it is a directory" --window-flag "$TMP/readonly" -p "$target"
	bad "--window-flag without a name" 2 "'/tmp/' names no file" --window-flag /tmp/ -p "$target"
	touch "$TMP/theirs"
	chown 4711 "$TMP/theirs"
	bad "--window-flag of somebody else" 3 "$TMP/theirs: it belongs to user 4711, neither to you" \
		--window-flag "$TMP/theirs" -p "$target"
}

# Metadata.
test_metadata() {
	for flags in '' x '[]' 1 '{' '{"a":1' '"{}"' "{'a':1}" '{"a":1} trailing' $'{"a":\n\xff}'; do
		bad "--runtime-flags '${flags@Q}'" 2 '^inftrace: --runtime-flags: ' --runtime-flags "$flags" \
			--profile p.jsonl -p "$target"
	done
	bad "blank --model" 2 '^inftrace: --model: ' --model ' ' --profile p.jsonl -p "$target"
	bad "blank --commit-sha" 2 '^inftrace: --commit-sha: ' --commit-sha '' --profile p.jsonl -p "$target"
	bad "--concurrency" 2 '^inftrace: --concurrency: ' --concurrency 0 -p "$target"
}

# preset NAME PATTERN TEXT
preset() {
	printf '%s' "$3" >"$preset"
	bad "preset: $1" 2 "^inftrace: .*/preset.json:$2" --engine "$preset" -p "$target"
}

# Functions.
test_functions() {
	bad "unknown engine" 2 "no preset named nonsense.* inftrace engines lists them" --engine nonsense -p "$target"
	bad "a preset that is not there" 1 'nowhere.json: No such file' --engine /nowhere.json -p "$target"
	bad "a preset that is a directory" 2 'directory.json is a directory: give ' --engine "$TMP/directory.json" -p "$target"
	preset=$TMP/preset.json
	preset "empty" '1: ' ''
	preset "no JSON" '1: ' 'x'
	preset "broken off" '[12]: ' $'{\n"name": "x"'
	preset "a comma too many" '3: ' $'{\n"name": "x",\n}'
	preset "an array" '1: ' '[]'
	preset "name missing" '1: name: ' '{"match": {"mapped": ["x"]}, "probes": []}'
	preset "wrong type" '2: name: ' $'{\n"name": 7}'
	preset "unknown key" '2: nonsense: ' $'{"name": "x",\n"nonsense": 1}'
	preset "match missing" '1: match: ' '{"name": "x", "probes": []}'
	preset "unknown role" '3: role: ' \
		$'{"name": "x", "match": {"mapped": ["x"]}, "probes": [\n{"symbol": "f",\n"role": "king"}]}'
	preset "bad expression" '3: n: ' \
		$'{"name": "x", "match": {"mapped": ["x"]}, "probes": [\n{"symbol": "f", "role": "op",\n"args": {"n": "s33 arg1"}}]}'
	preset "nested without an end" '1: ' "$(printf '[%.0s' {1..5000})"
	preset "control bytes" '[0-9]+: ' $'{"name": "\e[31m\x01"'
	head -c 2000000 /dev/zero | tr '\0' ' ' >"$preset"
	bad "preset: too large" 1 'preset.json: File too large' --engine "$preset" -p "$target"

	for spec in '' : lib lib: :sym 'lib:sym(' 'lib:sym)' 'lib:sym(x)' 'lib:sym(x=)' 'lib:sym(=arg1)' \
		'lib:sym(x=nonsense arg1)' 'lib:sym(x=arg99)' 'lib:sym@' 'lib:sym@king' 'lib:sym(x=arg1' \
		"lib:sym($(printf 'a%d=arg1,' {1..40})b=arg1)" $'lib:sym(\e=arg1)@king'; do
		bad "-u '$(cut -c1-30 <<<"${spec@Q}")'" 2 '^inftrace: -u ' -u "$spec" -p "$target"
	done
	head -c 100 "$TMP/storm" >"$TMP/cut"
	bad "-u on a file that is not there" 1 '/nowhere: No such file' --engine none -u /nowhere:f -p "$target"
	bad "-u on a text" 1 '/etc/passwd: not an ELF file' --engine none -u /etc/passwd:f -p "$target"
	bad "-u on a directory" 1 "$TMP" --engine none -u "$TMP:f" -p "$target"
	bad "-u on a cut ELF file" 1 "$TMP/cut" --engine none -u "$TMP/cut:f" -p "$target"
	bad "-u on a missing function" 1 'no function storm_stop; nearest: storm_step' --engine none \
		-u "$TMP/storm:storm_stop" -p "$target"

	rows <<-'TABLE'
		-u on a function that the mapped library lacks | 2 | libc.so.6 has no function mallocc; nearest: malloc | --strict --engine none -u libc.so.6:mallocc -o x.json -p $target
		-u on a C++ function with parameters | 2 | a C.. function is LIB:SCOPE::NAME, without its parameters | -u libc.so.6:a::b+c -p $target
	TABLE
	check_rc "-u on a library that nobody maps: said at once, and exit code 2 with --strict" 2 \
		'no target has mapped libnope.so so far' timeout 100 "$INFTRACE" record --strict --engine none -d 100ms \
		-u libnope.so:f -o "$TMP/nope.json" -p "$target"
}

# Commands.
test_commands() {
	printf '#!/nowhere/sh\n' >"$TMP/script"
	chmod 755 "$TMP/script"
	bad "no such command" 1 'cannot run nonsense: No such file' -- nonsense
	bad "no such path" 1 'cannot run ./nonsense: No such file' -- ./nonsense
	bad "not executable" 1 'cannot run /etc/passwd: Permission denied' -- /etc/passwd
	bad "a directory" 1 'cannot run /etc: Is a directory' -- /etc
	bad "interpreter missing" 1 'cannot run .*/script: No such file' -q -o x.json -- "$TMP/script"
	bad "a name with control bytes" 1 'cannot run .*: No such file' -- $'non\n\e[31msense'
}

# Privileges.
test_privileges() {
	as=(setpriv --reuid 65534 --clear-groups --)
	bad "not root" 3 'CAP_BPF.*CAP_PERFMON.*root' -o x.json -p "$target"
	bad "not root, with a command" 3 'CAP_BPF.*CAP_PERFMON.*root' -o x.json -- true
	bad "not root, directory not writable" 1 'readonly/x.json: Permission denied' -o "$TMP/readonly/x.json" -p "$target"
	for drop in bpf perfmon; do
		as=(setpriv --bounding-set "-$drop,-sys_admin" --)
		bad "without CAP_${drop^^}" 3 "CAP_${drop^^}" -o x.json -p "$target"
	done
	as=(setpriv --bounding-set -sys_ptrace --)
	bad "without CAP_SYS_PTRACE" 3 'CAP_SYS_PTRACE' -o x.json -p "$target"
	as=()

	# the capabilities that suffice according to doctor: function probes need uprobe_multi then
	caps=-all,+bpf,+perfmon,+sys_ptrace
	few=(setpriv --reuid 65534 --regid 65534 --clear-groups "--inh-caps=$caps" "--ambient-caps=$caps"
		"--bounding-set=$caps" --)
	name="with CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE alone"
	if ! "${few[@]}" true 2>"$TMP/few"; then
		skip "$name" "capabilities cannot be given to another user here: $(tail -n 1 "$TMP/few")"
	else
		check "$name: doctor finds them enough" "${few[@]}" "$INFTRACE" doctor
		cp "$TMP/check.out" "$TMP/doctor"
		functions=()
		! grep -q '^ok *uprobe_multi ' "$TMP/doctor" || functions=(-u "$TMP/storm:storm_step")
		check "$name" timeout 100 "${few[@]}" "$INFTRACE" record -e +irq,memory,requests -o few.json -d 500ms \
			--engine none "${functions[@]}" -p "$target"
		expect "$name: system calls, and functions" \
			'{"syscall"} | ({"other"} if '"${#functions[@]}"' else set()) <= {e.get("cat") for e in t}' t=few.json
		rm -f few.json
	fi
}

# The disk becomes full during the recording.
test_full() {
	small=$TMP/small
	mkdir "$small"
	if mount -t tmpfs -o size=1m none "$small" 2>/dev/null; then
		for file in t.json t.json.gz p.jsonl; do
			out=(-o "$small/$file")
			[ "$file" != p.jsonl ] || out=(--profile "$small/$file")
			check_rc "disk full: $file" 1 "cannot write .*$file: No space left" "$INFTRACE" record -q --min-free 0 \
				--engine none -u "$TMP/storm:storm_step@step" "${out[@]}" \
				-- "$TMP/storm" -t 2 -n 20 -s 0
			same "disk full: one line for $file" "$(grep -c inftrace: "$TMP/check.out")" 1
			check "disk full: $file is valid up to there" "$INFTRACE" validate "$small/$file"
			[ "$file" = p.jsonl ] || importer "disk full: $file opens" "$small/$file"
			rm "$small/$file"
		done
		umount "$small"
	else
		skip "disk full" "tmpfs cannot be mounted here"
	fi
}

# Stdout and stderr.
test_streams() {
	rc=0
	{ "${run[@]}" -o - 2>"$TMP/err" || echo $? >"$TMP/rc"; } | head -c 1000 >/dev/null
	same "the reader of stdout goes away" "$(cat "$TMP/rc") $(grep -c 'stdout.*Broken pipe' "$TMP/err") $(wc -l <"$TMP/err")" "1 1 1"
	rc=0
	"${run[@]}" -o - >&- 2>"$TMP/err" || rc=$?
	same "stdout is closed" "$rc $(wc -l <"$TMP/err")" "1 1"
	check "stderr is closed" "$INFTRACE" record -v --engine none -d 200ms -p "$target" -o "$TMP/closed.json" <&- 2>&-
	check "stderr is closed: the trace has nothing else in it" "$INFTRACE" validate "$TMP/closed.json"
	"${run[@]}" -d 200ms -o - >"$TMP/stdout"
	check "to stdout: a trace and nothing else" "$INFTRACE" validate "$TMP/stdout"
	check "quiet" "${run[@]}" -d 200ms -o "$TMP/quiet.json"
	same "quiet: not a word" "$(cat "$TMP/check.out")" ""
}

is_full() {
	python3 -c 'import select, sys; sys.exit(len(select.select([], [9], [], 0)[1]))'
}

# Its end.
test_ends() {
	for sig in INT TERM HUP; do
		spawn recorder "${run[@]}" -o "$TMP/$sig.json"
		wait_until 100 test -s "$TMP/$sig.json"
		kill "-$sig" "$recorder"
		rc=0
		wait "$recorder" || rc=$?
		same "SIG$sig: exit code and end of the trace" "$rc $(tail -n 1 "$TMP/$sig.json")" "0 ]"
		check "SIG$sig: valid" "$INFTRACE" validate "$TMP/$sig.json"
	done
	# stuck in a write to a pipe that nobody reads
	mkfifo "$TMP/fifo"
	exec 9<>"$TMP/fifo"
	spawn recorder "${run[@]}" -o - >"$TMP/fifo" 2>"$TMP/err"
	wait_until 100 is_full
	kill -INT "$recorder"
	check "SIGINT while nobody reads stdout: it ends" wait_until 100 has_ended "$recorder"
	same "SIGINT while nobody reads stdout: it says why" "$(cat "$TMP/err")" \
		"inftrace: cannot write stdout: nobody reads it; the file is valid up to here"
	exec 9<&-
	for command in "0 true" "1 false" "7 sh -c 'exit 7'" "137 sh -c 'kill -9 \$\$'" "143 sh -c 'kill \$\$'" \
		"0 sh -c 'sleep 0.1 & exit 0'"; do
		rc=0
		eval "\"\$INFTRACE\" record -q --engine none -o \"\$TMP/c.json\" -- ${command#* }" || rc=$?
		same "exit code of the command: $command" "$rc" "${command%% *}"
	done
	rc=0
	"$INFTRACE" record -q --engine none -d 300ms -o "$TMP/c.json" -- sleep "100.$$" || rc=$?
	same "the end of -d: the command is ended" "$rc $(pgrep -fx "sleep 100.$$" | wc -l)" "0 0"

	"$INFTRACE" record --engine none -d 300ms -o "$TMP/c.json" -- \
		sh -c "trap '' TERM; echo \$\$ >$TMP/stubborn; while :; do sleep 0.1; done" 2>"$TMP/err" || rc=$?
	stubborn=$(cat "$TMP/stubborn")
	kill -9 "$stubborn"
	same "a command that ignores SIGTERM" "$rc $(grep -c "sh still runs, .* kill -9 $stubborn ends it" "$TMP/err")" "1 1"
}

# The default name.
test_default_name() {
	for i in 1 2 3; do
		timeout 100 "$INFTRACE" record -q --engine none -d 50ms -p "$target"
	done
	same "the default name: no trace is replaced" "$(cd "$work" && ls | tr '\n' ' ')" \
		"inftrace-storm-$target.2.json inftrace-storm-$target.3.json inftrace-storm-$target.json "
	rm -f "$work"/*
}

# Loss.
test_loss() {
	rc=0
	"$INFTRACE" record --strict --ring-size 4KB --engine none -u "$TMP/storm:storm_step@step" \
		-o "$TMP/loss.json" --profile "$TMP/loss.jsonl" -- "$TMP/storm" -n 20000 -s 20 \
		>"$TMP/loss.out" 2>"$TMP/loss.err" || rc=$?
	same "loss: exit code with --strict" "$rc" 4
	check "loss: said" grep -q 'warning: lost [0-9]* syscall' "$TMP/loss.err"
	check "loss: valid" "$INFTRACE" validate "$TMP/loss.json" "$TMP/loss.jsonl"
	importer "loss: opens" "$TMP/loss.json"
	"$INFTRACE" record -q --engine none -u "$TMP/storm:storm_step@step" -o "$TMP/kept.json" \
		-- "$TMP/storm" -n 10 -s 20 >"$TMP/kept.out"
	# apart from getppid the program does the same in both runs
	expect "loss: recorded and lost are all the system calls there were" '(
	sum(e.get("cat") == "syscall" for e in t) + p[-1]["shape"].get("lost_syscall", 0) - c["calls"] ==
	sum(e.get("cat") == "syscall" for e in k) - d["calls"])' \
		t="$TMP/loss.json" p="$TMP/loss.jsonl" c=last:"$TMP/loss.out" k="$TMP/kept.json" d=last:"$TMP/kept.out"
	expect "loss: the trace shows what the profile counts" \
		'sum(sum(e["args"].values()) for e in t if e.get("cat") == "loss") == p[-1]["shape"]["lost"] > 0' \
		t="$TMP/loss.json" p="$TMP/loss.jsonl"
	expect "loss: every step is there and says what it lost" '(lambda steps:
	len(steps) == c["steps"] and all(s["lost_records"] > 0 and s["lost_records"] + sum(e.get("name") == "getppid" and s["at"] <= e["ts"] <= s["end"]
	for e in t) >= 20000 for s in steps))([dict(e["args"], at=e["ts"], end=e["ts"] + e["dur"],
	lost_records=e["args"].get("lost_records", 0)) for e in t if e.get("cat") == "step"])' \
		t="$TMP/loss.json" c=last:"$TMP/loss.out"
	expect "loss: so do their lines in the profile" \
		'[s["shape"]["lost"] > 0 for s in p if s["event"] == "token_prof"] == [True] * c["steps"]' \
		p="$TMP/loss.jsonl" c=last:"$TMP/loss.out"

	# an arrow whose slice was lost does not count
	"$INFTRACE" record -q --ring-size 4KB --engine none -o "$TMP/arrows.json" -- \
		"$TMP/storm" -t 4 -n 5 -s 1000 -w -p 1000 >"$TMP/arrows.out"
	expect "loss of slices: some, and some arrows" \
		'[any(e.get("cat") == "loss" for e in t), any(e["ph"] == "s" for e in t)] == [True, True]' \
		t="$TMP/arrows.json"
	check "loss of slices: valid" "$INFTRACE" validate "$TMP/arrows.json"
	importer "loss of slices: opens" "$TMP/arrows.json"
}

# Names.
test_names() {
	rc=0
	"$INFTRACE" record -q --engine none -o "$TMP/names.json" --profile "$TMP/names.jsonl" \
		-u "$TMP/hostile:hostile_step@step" --model $'m"\\\n\xff</script>' -- \
		"$TMP/hostile" $'\x01"\\\xff</script>' >"$TMP/names.out" || rc=$?
	same "names: exit code" "$rc" 0
	check "names: valid" "$INFTRACE" validate "$TMP/names.json" "$TMP/names.jsonl"
	importer "names: open" "$TMP/names.json"
	# short-lived threads share tracks: their names are where they begin
	expect "names: as they are, but for what no text can hold" '(
	{bytes.fromhex(h).decode("utf-8", "replace") for h in c["names"]} <=
	{e["args"]["name"] for e in t if e.get("name") == "thread_name"} |
	{e["args"]["comm"] for e in t if e.get("name") == "rename"})' \
		t="$TMP/names.json" c=last:"$TMP/names.out"
	"$TMP/hostile" wait &
	pid=$!
	wait_until 60 grep -q '</' "/proc/$pid/comm"
	check "names: of the default file" "$INFTRACE" record -q --engine none -d 100ms -p "$pid"
	same "names: of the default file: harmless" "$(ls "$work")" "inftrace-________script_-$pid.json"
	kill "$pid"
	rm -f "$work"/*
}

is_closed() {
	tail -n 1 "$1" | grep -q ']'
}

has_steps() { # TRACE N
	[ "$(grep -c '"cat":"step"' "$1")" -ge "$2" ]
}

# Two at once.
test_two() {
	"$TMP/storm" -n 100 -s 0 -p 10000 >"$TMP/two.out" &
	two=$!
	for i in 1 2; do
		background "$INFTRACE" record -q --engine none -u "$TMP/storm:storm_step@step" \
			-o "$TMP/two$i.json" --profile "$TMP/two.jsonl" -p "$two"
		wait_until 100 test -s "$TMP/two$i.json"
	done
	wait_until 60 has_steps "$TMP/two2.json" 20
	kill "$two"
	wait "$two" || true
	wait "$BG"
	wait_until 100 is_closed "$TMP/two1.json"
	check "two at once: valid" "$INFTRACE" validate "$TMP/two1.json" "$TMP/two2.json" "$TMP/two.jsonl"
	# each has all calls; counted from the end, since one began later
	expect "two at once: the same steps" '(lambda a, b: len(b) > 10 and a[-len(b) + 1:] == b[1:])(*[
	[sum(e.get("name") == "getppid" and s["ts"] <= e["ts"] <= s["ts"] + s["dur"] for e in t)
	for s in t if s.get("cat") == "step"][-50:] for t in (t, u)])' \
		t="$TMP/two1.json" u="$TMP/two2.json"
	background "${run[@]}" -o "$TMP/same.json"
	wait_until 100 test -s "$TMP/same.json"
	refused "two into one file" 1 'same.json: ' "${run[@]}" -d 100ms -o "$TMP/same.json"
	kill "$BG"
	wait "$BG"
	check "two into one file: the first is whole" "$INFTRACE" validate "$TMP/same.json"
}

teardown() {
	check_bpf "bad input" "$TMP/bpf.before"
	check "the target lives" kill -0 "$target"
}

run_tests "$@"
