#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Traced processes that are hostile: what they can make the recorder do, and what it is able to do at all.

. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/robust/common.sh"

as_nobody=(runuser -u nobody --)

setup() {
	need cc runuser setpriv python3
	build escape
	build maps
	build same_pid
	chmod 755 "$TMP"
}

# Of the two ways to the file, the second is without the capabilities for the first.
escape() { # NAME COMMAND...
	local name=$1 fifo target watcher
	shift
	rm -rf "$shm/fifo" "$TMP/ns" "$TMP/"{escape,watch}.out
	mkfifo "$shm/fifo"
	fifo=$shm/fifo
	mkdir -m 777 "$TMP/ns"
	spawn target "${as_nobody[@]}" "$TMP/escape" "$fifo" "$TMP/ns" libllama.so "$TMP/escape" >"$TMP/escape.out" 2>&1
	wait_until 60 test -s "$TMP/escape.out" || true
	if ! grep -q ready "$TMP/escape.out"; then
		if grep -q unshare "$TMP/escape.out"; then
			skip "$name" "this user may not make namespaces: $(cat "$TMP/escape.out")"
		else
			not_ok "$name" "the program failed: $(cat "$TMP/escape.out")"
		fi
		return 0
	fi
	target=$(pgrep -P "$target" -x escape || echo "$target")
	spawn watcher "$TMP/escape" --opened "$fifo" >"$TMP/watch.out"
	wait_until 60 grep -q watching "$TMP/watch.out"
	check "$name: the recording is right" "$@" "$INFTRACE" record -q -d 300ms -p "$target" \
		-o "$TMP/escape.json" --profile "$TMP/escape.jsonl"
	check "$name: engines" "$@" bash -c '"$0" engines -p "$1" >/dev/null' "$INFTRACE" "$target"
	kill "$watcher"
	wait "$watcher" || true
	check "$name: nothing of ours is opened" grep -qx 0 "$TMP/watch.out"
	kill "$target"
}

# A path that leads elsewhere for us.
test_escape() {
	shm=$(mktemp -d -p /dev/shm)
	chmod 755 "$shm"
	escape "a path leads out of its namespace"
	escape "a path leads out of its namespace, map_files is closed to us" \
		setpriv --bounding-set=-sys_admin,-cap_40
	rm -rf "$shm"
}

# status_of PID KEY: a line of /proc/PID/status
status_of() {
	sed -n "s/^$2:[[:space:]]*//p" "/proc/$1/status"
}

reader_of() { # RECORDER: the process that reads symbols
	pgrep -P "$1" -x inftrace-elf
}

mapping() { # FILE...: a process that has them mapped, in TARGET
	: >"$TMP/maps.out"
	spawn TARGET "$TMP/maps" "$@" >"$TMP/maps.out"
	wait_until 60 grep -q ready "$TMP/maps.out"
}

# start_recorder ARG...: its pid is in RECORDER, its messages in recorder.log; on return everything is attached
start_recorder() {
	spawn RECORDER "$INFTRACE" record -v "$@" 2>"$TMP/recorder.log"
	wait_until 60 grep -qE 'Ctrl-C|rror' "$TMP/recorder.log"
}

test_huge_symbols() {
	python3 "$ROBUST/make_elf.py" huge "$TMP/libllama.so"
	mapping "$TMP/libllama.so"
	start_recorder -p "$TARGET" -o "$TMP/huge.json"
	check "huge symbol tables: said" grep -q 'libllama.so: its symbols take more than' "$TMP/recorder.log"
	rss=$(status_of "$RECORDER" VmHWM)
	check "huge symbol tables: the recorder stays small (${rss})" test "${rss% kB}" -lt 300000
	reader=$(reader_of "$RECORDER")
	check "the process that reads symbols has no privileges" \
		grep -qzP 'CapPrm:\t0+\nCapEff:\t0+\nCapBnd:\t0+\n(.*\n)*NoNewPrivs:\t1\nSeccomp:\t2\n' "/proc/$reader/status"
	check "the process that reads symbols holds no file" test -z "$(find "/proc/$reader/fd" -type l \
		-not -lname /dev/null -not -lname 'socket:*')"
	kill -INT "$RECORDER"
	check "huge symbol tables: the recording is right" wait "$RECORDER"
	check "the process that reads symbols ends with the recorder" wait_until 60 test ! -d "/proc/$reader"
	kill "$TARGET"
}

test_slow_symbols() {
	slow=()
	for i in 1 2 3 4 5 6 7 8; do
		mkdir "$TMP/slow$i"
		python3 "$ROBUST/make_elf.py" slow "$TMP/slow$i/libllama.so"
		slow+=("$TMP/slow$i/libllama.so")
	done
	mapping "${slow[@]}"
	spawn RECORDER "$INFTRACE" record -v -p "$TARGET" -o "$TMP/slow.json" 2>"$TMP/recorder.log"
	being_read() {
		local reader
		reader=$(reader_of "$RECORDER") && [ -n "$reader" ] && pgrep -P "$reader" >/dev/null
	}
	wait_until 60 being_read || true # the first of them
	kill -INT "$RECORDER"
	check "a signal while symbols are read: the recording ends" wait "$RECORDER"
	check "a signal while symbols are read: it was not waited for them" \
		grep -q 'slow8/libllama.so was not read' "$TMP/recorder.log"
	check "a signal while symbols are read: the trace is valid" "$INFTRACE" validate "$TMP/slow.json"
	kill "$TARGET"
}

# Mappings without end.
test_mappings() {
	spawn TARGET "$TMP/maps" -m 20000 "$TMP/maps" >"$TMP/maps.out"
	wait_until 60 grep -q ready "$TMP/maps.out"
	cpu_ns() { # of our children
		python3 -c 'import os, resource, subprocess, sys, time
begun = time.monotonic()
subprocess.run(sys.argv[1:], check=True)
u = resource.getrusage(resource.RUSAGE_CHILDREN)
print("%.2f s of a CPU in %.1f s" % (u.ru_utime + u.ru_stime, time.monotonic() - begun))
sys.exit(u.ru_utime + u.ru_stime > 2)' "$@"
	}
	check_shown "20,000 mappings that change: the recorder takes less than two of five seconds" \
		cpu_ns "$INFTRACE" record -q -d 5s -p "$TARGET" --engine llama.cpp -e functions -o "$TMP/maps.json"
	kill "$TARGET"
}

# CAP_CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER, KILL; SYS_PTRACE, SYS_RESOURCE; PERFMON, BPF, CHECKPOINT_RESTORE
test_privileges() {
	kept=$((0x2f | 1 << 19 | 1 << 24 | 1 << 38 | 1 << 39 | 1 << 40))
	# without SYS_RESOURCE, which raises RLIMIT_NICE, also SYS_NICE
	((0x$(sed -n "s/^CapEff:\t//p" /proc/self/status) >> 24 & 1)) || kept=$((kept | 1 << 23))
	only_kept() { # TASK
		local key status
		status=$(cat "/proc/$1/status" 2>/dev/null) || return 0 # gone
		for key in CapPrm CapEff CapBnd; do
			((0x$(sed -n "s/^$key:\t//p" <<<"$status") & ~kept)) && return 1
		done
		grep -qx $'NoNewPrivs:\t1' <<<"$status" && grep -qx $'Seccomp:\t2' <<<"$status"
	}
	every_thread_only_kept() { # PID
		local task
		for task in "/proc/$1/task/"*; do
			only_kept "$1/task/${task##*/}" || return 1
		done
	}

	start_recorder --engine none --output-dir "$TMP/out" --window every=200ms,for=100ms -- \
		"$TMP/maps" "$TMP/maps" >/dev/null
	check "a recording that has begun gives up privileges, in all threads" every_thread_only_kept "$RECORDER"
	check "and goes on to open files" wait_until 60 eval '[ "$(find "$TMP/out" -name "*.json" | wc -l)" -gt 1 ]'
	command=$(pgrep -P "$RECORDER" -x maps)
	check "its COMMAND has kept its own" test "$(status_of "$command" NoNewPrivs)$(status_of "$command" Seccomp)" = 00
	check "its COMMAND has the capabilities of whoever started inftrace" \
		test "$(status_of "$command" CapBnd)" = "$(status_of $$ CapBnd)"
	kill -INT "$RECORDER"
	wait "$RECORDER" || true
}

test_user() {
	mkdir -m 711 "$TMP/of_nobody"
	chown nobody "$TMP/of_nobody"
	"$INFTRACE" record -q --engine none --user nobody -o "$TMP/of_nobody/user.json" -- \
		sh -c 'id -un; id -Gn; echo "$USER $LOGNAME $HOME"; kill -0 $PPID' >"$TMP/user.out" 2>/dev/null && rc=0 || rc=$?
	check "--user: the command is that user's, with the user's groups and home" \
		test "$(sed -n 1,3p "$TMP/user.out")" = "$(id -un nobody; id -Gn nobody; echo "nobody nobody $(getent passwd nobody | cut -d: -f6)")"
	same "--user: and has no power over the recorder; its exit code is passed on" "$rc" 1
	check "--user: it was recorded" "$INFTRACE" validate "$TMP/of_nobody/user.json"
	refused=0
	"$INFTRACE" record -q --user nobody-at-all -- true 2>"$TMP/user.err" || refused=$?
	same "--user: a user that there is not" "$refused $(cat "$TMP/user.err")" \
		"2 inftrace: --user nobody-at-all: there is no such user"
}

# A process number that another process gets.
test_reused_number() {
	calling() {
		exec python3 -c 'import os, time
while True:
    os.getppid()
    time.sleep(0.001)'
	}
	files_of() { # PID: of the traces that are there, those that have it
		grep -rlE "\"pid\":$1\b" "$TMP/reuse"
	}
	window() { # what is recorded in it is in reuse/
		find "$TMP/reuse" -type f -delete
		touch "$TMP/flag"
		wait_until 60 eval 'files_of "$lives" >/dev/null'
		rm "$TMP/flag"
		wait_until 60 eval '[ "$(grep -c "^inftrace: window" "$TMP/recorder.log")" -gt '"$1"' ]'
	}

	mkdir "$TMP/reuse"
	spawn dies calling
	spawn lives calling
	start_recorder --engine none -e syscalls --window-flag "$TMP/flag" --output-dir "$TMP/reuse" -p "$dies,$lives"
	window 0
	check "reused number: the target was recorded while it lived" test -n "$(files_of "$dies")"
	kill -9 "$dies"
	wait "$dies" || true
	background "$TMP/same_pid" "$dies" >"$TMP/same.out" 2>"$TMP/same.err"
	wait_until 60 test -s "$TMP/same.out" -o -s "$TMP/same.err"
	if grep -q ready "$TMP/same.out"; then
		window 1
		same "reused number: a stranger who has it is not" "$(files_of "$dies")" ""
		kill -9 "$dies"
	else
		skip "reused number" "$(cat "$TMP/same.err")"
	fi
	kill -INT "$RECORDER"
	check "reused number: the recording is right" wait "$RECORDER"
	kill "$lives"
}

run_tests "$@"
