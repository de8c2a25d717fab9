#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# inftrace start, stop, dump and status with running recordings: what they do to a recording, and
# what nobody can do to it. With a /run of its own, so that no other recording is seen.

[ -n "${CONTROL_TEST_RUN:-}" ] || [ "${1:-}" = --list ] || CONTROL_TEST_RUN=1 exec unshare --mount "$0" "$@"
. "$(dirname "$0")/../lib.sh"

SOCKETS=/run/inftrace

# caller NAME: its pid is in CALLER
caller() {
	local to from
	mkfifo "$1.in" "$1.out"
	exec {to}<>"$1.in" {from}<>"$1.out"
	spawn CALLER sh -c 'exec python3 caller.py <"$0.in" >"$0.out"' "$1"
	printf -v "$1_to" %s "$to"
	printf -v "$1_from" %s "$from"
	calls "$1" 0 # it is up
}

# calls NAME NUMBER: returns when the calls have been made
calls() {
	local to=$1_to from=$1_from
	echo "$2" >&"${!to}"
	read -r -t 60 -u "${!from}" _
}

# record NAME ARG...: its pid is in RECORDER
record() {
	recording RECORDER "$1" --engine none -e syscalls "${@:2}"
}

# as_nobody COMMAND...
as_nobody() {
	setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
}

# bare PYTHON: with connect(), which returns a connected socket, and `path` of the recorder's socket
bare() {
	timeout 180 python3 - "$SOCKETS/$RECORDER.sock" "$INFTRACE" "$RECORDER" <<-PY
		import socket, subprocess, sys, time
		path, inftrace, recorder = sys.argv[1:]
		def connect():
		    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
		    s.connect(path) # waits for room, which a timeout would not
		    s.settimeout(60)
		    return s
		def answer(s):
		    text = b""
		    while True:
		        try:
		            part = s.recv(65536)
		        except ConnectionResetError:
		            return text
		        if not part:
		            return text
		        text += part
		def ask(line):
		    s = connect()
		    try:
		        s.send(line)
		    except BrokenPipeError:
		        pass
		    return answer(s)
		$1
	PY
}

getppids='sum(e["name"] == "getppid" for e in t)'
ctl() {
	timeout 60 "$INFTRACE" "$@"
}

need python3 setpriv
mount -t tmpfs -o mode=755 tmpfs /run || skip_all "may not mount a tmpfs"
cd "$TMP" || exit
cp "$INFTRACE" ./inftrace
chmod 755 . inftrace
# A process that calls getppid() as often as a line of input says, and answers each line.
cat >caller.py <<-'PY'
	import os, sys
	for line in sys.stdin:
	    for _ in range(int(line)):
	        os.getppid()
	    print("done", flush=True)
PY

caller one
one=$CALLER
caller two
two=$CALLER

test_nobody_there() {
	for command in start stop dump status; do
		check_rc "$command: no recording" 1 \
			'^inftrace: no recording is running that you may control; one of another user needs --user; inftrace record' ctl $command
		check_rc "$command: none of a process" 1 "no recording of process $$ is running" ctl $command -p $$
		check_rc "$command: no PID" 2 '^inftrace: -p: not the PID of a process: x$' ctl $command -p x
		check_rc "$command: help" 0 'EXAMPLES' ctl $command --help
	done
	check_rc "a PID without -p" 2 'a process is given with -p' ctl stop 12
	check_rc "a long reason" 2 'more than 255 bytes' ctl dump --reason "$(printf %0256d 0)"
}

test_whole() {
	record whole -o whole.json -p "$one"
	same "mode of the directory" "$(stat -c '%a %U %F' $SOCKETS)" "700 root directory"
	same "mode of the socket" "$(stat -c '%a %F' "$SOCKETS/$RECORDER.sock")" "600 socket"
	calls one 100
	check_rc "status: what is recorded" 0 "^recorder $RECORDER, [0-9]+ s: .*python3 \($one\)$" ctl status
	check_rc "status: where to" 0 "^  $TMP/whole.json" ctl status -p "$one"
	check_rc "status by the recorder's PID" 0 "^  $TMP/whole.json" ctl status -p "$RECORDER"
	ctl status --json >status.jsonl
	expect "status as JSON" "s[0]['pid'] == $RECORDER and s[0]['targets'] == [$one] and s[0]['ok']" s=status.jsonl
	check_rc "nothing to start" 1 '^inftrace: start: ' ctl start
	check_rc "no flight recorder" 1 '^inftrace: dump: .*--flight-recorder' ctl dump
	check_rc "another user" 1 'that you may control; those of root and of the service need sudo' as_nobody ./inftrace stop
	check_rc "stop ends it" 0 . ctl stop -p "$one"
	ended "it ends well" "$RECORDER" 0
	expect "all calls are there" "$getppids == 100" t=whole.json
	same "no socket is left" "$(ls -A $SOCKETS)" ""
}

# From when there is a socket, long before anything is attached, whoever asks gets an answer.
test_starting() {
	mkdir starting
	background "$INFTRACE" record --engine none -e syscalls --window manual --output-dir starting -p "$one" 2>starting.log
	wait_until 60 test -S "$SOCKETS/$BG.sock"
	check_rc "start while it starts" 0 '^window 0 is open' ctl start -p "$one"
	interrupted "it ends well" "$BG" 0
}

test_windows() {
	mkdir windows
	record windows --window manual --output-dir windows -p "$one"
	calls one 10
	check_rc "stop without a window" 1 'no window is open' ctl stop
	for n in 100 70; do
		check_rc "window of $n calls: start" 0 . ctl start -p "$one"
		calls one $n
		ctl stop -p "$one" --json >stop.$n
		calls one 1000
		trace=$(json 'next(f["name"] for f in s[0]["files"] if "/trace_" in f["name"])' s=stop.$n)
		expect "window of $n calls: these and no others" "$getppids == $n" t="$trace"
		same "window of $n calls: size of the file" "$(stat -c %s "$trace")" \
			"$(json "next(f['bytes'] for f in s[0]['files'] if f['name'] == '$trace')" s=stop.$n)"
	done
	interrupted "windows: ends well" "$RECORDER" 0
	same "windows: two traces" "$(find windows -name 'trace_*.json' | wc -l)" 2
}

# flight: a recording into memory; its process id is in RECORDER
flight() {
	mkdir -p dumps
	record flight --flight-recorder 16MB --output-dir dumps -p "$one"
}

test_dumps() {
	flight
	calls one 300
	check_rc "dump names its files" 0 "^$TMP/dumps/trace_pid${one}_[0-9]+.json \([0-9.]+ MB\)$" \
		ctl dump --reason 'p99 "alert"'
	trace=$(find dumps -name "trace_pid${one}_*.json")
	expect "the dump has all calls" "$getppids == 300" t="$trace"
	expect "the dump has the reason" \
		'[e["args"]["reason"] for e in t if e["name"] == "trigger"] == ["p99 \"alert\""]' t="$trace"
	for i in 1 2 3; do
		ctl dump -p "$one" >dump.$i 2>&1 &
	done
	rc=0
	for _ in 1 2 3; do
		wait -n || rc=$?
	done
	same "three dumps at once" "$rc" 0
	same "three dumps at once: all are written" "$(find dumps -name 'trace_*.json' | wc -l)" 4
	rm dumps/*
	sleep 0.3
	check "a dump of the last moment" ctl dump --last 100ms
	expect "it has no calls from before it" "$getppids == 0" t="$(find dumps -name 'trace_*.json')"
	rm dumps/*
	check "a dump of the last hour" ctl dump --last 1h
	expect "it has all calls" "$getppids == 300" t="$(find dumps -name 'trace_*.json')"
	for last in 0 x 2x ''; do
		check_rc "dump --last '$last'" 2 "--last: '$last' is not a number or time" ctl dump --last "$last"
	done
	interrupted "dumps: ends well" "$RECORDER" 0
}

# Fewer is fine: the first count may still have seen what the dump before it held. More may be of the dump that is being finished,
# or a file of /proc that is being read.
holds_no_more() {
	[ "$(find "/proc/$RECORDER/fd" | wc -l)" -le "$fds" ]
}

# Misbehaving clients.
test_clients() {
	flight
	calls one 10
	ctl dump >/dev/null
	fds=$(find "/proc/$RECORDER/fd" | wc -l)
	check "junk" bare '
for i in range(300):
    for line in b"\n", b"{}", b"[" * 4095, b"x" * 100000, b"\0", b"{\"command\":\"%s%n\"}":
        assert b"\"ok\":false" in ask(line), line'
	check "clients that leave at once" bare '
for i in range(2000):
    s = connect()
    if i % 2:
        s.send(b"{\"command\":\"status\"}" if i % 4 == 1 else b"{\"comm")
    s.close()'
	check "clients that leave during a dump" bare '
for i in range(3):
    s = connect()
    s.send(b"{\"command\":\"dump\"}")
    assert b"taken" in s.recv(100)
    s.close()'
	check "clients that say nothing" bare '
idle = [connect() for i in range(3)]
for s in idle:
    assert b"no request came" in answer(s)
idle = [connect() for i in range(8)]
for s in idle:
    s.close()
assert b"\"ok\":true" in ask(b"{\"command\":\"status\"}")'
	check_rc "the recorder goes on" 0 "^recorder $RECORDER, " ctl status
	calls one 50
	check "and dumps" ctl dump
	check "and holds no more files than before ($fds)" wait_until 60 holds_no_more
	interrupted "clients: ends well" "$RECORDER" 0
}

# Several recordings, and one that is stopped.
test_several() {
	flight
	first=$RECORDER
	record second -o second.json -p "$two"
	check_rc "which one?" 1 '^inftrace: 2 recordings are running; choose one:$' ctl stop
	check_rc "the one" 1 "^inftrace:   -p $first: python3 \($one\)" ctl dump
	check_rc "the other" 1 "^inftrace:   -p $RECORDER: python3 \($two\) into $TMP/second.json$" ctl start
	same "status lists both" "$(ctl status --json | wc -l)" 2
	check_rc "-p chooses" 0 "^  $TMP/second.json" ctl status -p "$two"
	kill -STOP "$RECORDER"
	check_rc "stopped: status" 1 "^inftrace: recorder $RECORDER does not answer; is it stopped, or still starting\?$" ctl status -p "$RECORDER"
	check_rc "stopped: the other one answers all the same" 1 "^recorder $first, " ctl status
	check_rc "stopped: stop" 1 "does not answer" ctl stop -p "$two"
	check "stopped, and without room for clients" bare '
waiting = []
try:
    while True:
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        s.setblocking(False)
        s.connect(path)
        waiting.append(s)
except BlockingIOError:
    pass
p = subprocess.run([inftrace, "stop", "-p", recorder], capture_output=True, timeout=30)
assert p.returncode == 1 and b"does not answer" in p.stderr, p'
	kill -CONT "$RECORDER"
	check_rc "goes on: status" 0 "^recorder $RECORDER, " ctl status -p "$RECORDER"
	calls two 20
	kill -9 "$RECORDER"
	{ wait "$RECORDER" || true; } 2>/dev/null
	check_rc "killed: only the other one is there" 0 "^recorder $first, " ctl status
	check "killed: its socket is still there" test -S "$SOCKETS/$RECORDER.sock"
	killed=$RECORDER
	record third -o third.json -p "$two"
	check "the next recorder removes it" test ! -e "$SOCKETS/$killed.sock"
	kill -INT "$RECORDER" "$first"
	ended "third ends well" "$RECORDER" 0
	ended "flight ends well" "$first" 0
	same "no socket is left at the end" "$(ls -A $SOCKETS)" ""
}

test_without_socket() {
	rm -rf $SOCKETS
	ln -s "$TMP" $SOCKETS
	record link -o link.json -p "$two"
	check "a link for a directory: said" grep -q "^inftrace: warning: no control socket in $SOCKETS: .*links are not followed" link.err
	check "a link for a directory: not followed" test ! -e "$TMP/$RECORDER.sock"
	calls two 30
	interrupted "a link for a directory: recorded without" "$RECORDER" 0
	expect "a link for a directory: all calls" "$getppids == 30" t=link.json
	rm $SOCKETS
}

# record_as_user NAME RUNTIME-DIRECTORY: a recorder of a user that is not root, with its socket there; 1: not possible. sys_admin:
# libbpf looks through the BTF of the modules for a weak symbol that this kernel may not have
record_as_user() {
	local caps=+bpf,+perfmon,+sys_ptrace,+dac_read_search,+sys_admin
	mkdir -p "$2" mine
	chown 65534 "$2" mine
	chmod 700 "$2"
	cat >as_user.sh <<-'SH'
		exec setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps="$CAPS" --ambient-caps="$CAPS" "$@"
	SH
	# the program under test must not decide whether it is tested
	if ! env CAPS="$caps" bash as_user.sh true 2>mine.caps; then
		skip "$1" "capabilities cannot be given to another user here: $(tail -n 1 mine.caps)"
		return 1
	fi
	spawn RECORDER env CAPS="$caps" XDG_RUNTIME_DIR="$2" bash as_user.sh ./inftrace record --engine none -e syscalls \
		-o mine/mine.json -p "$two" 2>mine.log
	if ! wait_until 60 test -S "$2/inftrace/$RECORDER.sock"; then
		not_ok "$1" "$(tail -n 1 mine.log)"
		return 1
	fi
}

test_not_root() {
	user=/run/user/65534
	if record_as_user "a recorder that is not root's" $user; then
		check_rc "its user sees it" 0 "^recorder $RECORDER, " as_nobody env XDG_RUNTIME_DIR=$user ./inftrace status
		check_rc "also without XDG_RUNTIME_DIR" 0 "^recorder $RECORDER, " as_nobody env -u XDG_RUNTIME_DIR ./inftrace status
		check_rc "root does not look there" 1 'one of another user needs --user' ctl status
		check_rc "root sees it, told whose it is" 0 "^recorder $RECORDER, " ctl status --user 65534
		check_rc "root stops it" 0 . ctl stop --user nobody -p "$two"
		ended "it ends well" "$RECORDER" 0
	fi
}

# As the unit starts it: as a user of whom nobody knows before who it is.
test_service() {
	local service fake
	service=$(sed -n 's/^Environment=XDG_RUNTIME_DIR=//p' "$TOP/contrib/inftrace.service")
	record_as_user "the service" "$service" || return 0
	check_rc "service: root sees it" 0 "^recorder $RECORDER, " ctl status
	check_rc "service: also by its user" 0 "^recorder $RECORDER, " ctl status --user 65534
	check_rc "service: it is none of root's own" 1 'no recording is running' ctl status --user 0
	check_rc "service: nor another user's" 1 'no recording by user 65533' ctl status --user 65533
	check_rc "service: its user sees it once" 0 "^recorder $RECORDER, " as_nobody env XDG_RUNTIME_DIR="$service" ./inftrace status
	same "service: its user sees it once" "$(grep -c '^recorder' "$TMP/check.out")" 1
	check_rc "service: another user does not" 1 'of the service need sudo' setpriv --reuid=65533 --regid=65533 --clear-groups ./inftrace status
	mkfifo fake.ready
	fake=$(cat <<-'PY'
		import os, socket, sys
		s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
		path = f"{sys.argv[1]}/{os.getpid()}.sock"
		s.bind(path)
		os.chown(path, 65534, 65534)
		s.listen()
		open("fake.ready", "w").close()
		s.accept()
	PY
	)
	background python3 -c "$fake" "$service/inftrace"
	: <fake.ready
	check_rc "service: the socket of another user's process is none" 1 'no recording of process' ctl status -p "$BG"
	chmod 777 "$service"
	check_rc "service: not where others can write" 1 'no recording is running' ctl status
	chmod 700 "$service"
	chmod 1777 /run
	check_rc "service: not where anybody could have made its directory" 1 'no recording is running' ctl status
	chmod 755 /run
	mv "$service/inftrace" "$service/moved"
	ln -s moved "$service/inftrace"
	check_rc "service: links of its user are not followed" 1 'no recording is running' ctl status
	rm "$service/inftrace"
	mv "$service/moved" "$service/inftrace"
	check_rc "service: root stops it" 0 . ctl stop
	ended "service: it ends well" "$RECORDER" 0
}

run_tests "$@"
