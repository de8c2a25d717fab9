#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# What other local users can do to inftrace that root runs: fake recorders, and what they plant where
# root writes files. With a /run of its own, so that no other recording is seen. See SECURITY.md.

[ -n "${SECURITY_TEST_RUN:-}" ] || [ "${1:-}" = --list ] || SECURITY_TEST_RUN=1 exec unshare --mount "$0" "$@"
. "$(dirname "$0")/../lib.sh"
unset SUDO_UID SUDO_GID XDG_RUNTIME_DIR

as_nobody() {
	setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
}
# gone PID: it has exited
gone() {
	! kill -0 "$1" 2>/dev/null
}

record() {
	"$INFTRACE" record -q --engine none -e syscalls "$@" -- true
}
# plant DIRECTORY NAME: each kind of file that somebody may have put there
plant() {
	rm -f "$1/$2"
	as_nobody "${@:3}" "$1/$2"
}

need python3 setpriv curl
mount -t tmpfs tmpfs /run || skip_all "may not mount a tmpfs"
chmod 755 "$TMP"
cd "$TMP" || exit
mkdir -p /run/user/65534/inftrace theirs
chown -R 65534:65534 /run/user/65534 theirs
mkdir -m 1777 shared
mkdir -m 777 open

# Fake recorders.
test_fake() {
	chmod 700 /run/user/65534 /run/user/65534/inftrace
	echo '[{"secret":1}]' >root.json
	chmod 600 root.json
	cp "$INFTRACE" inftrace
	spawn target setpriv --reuid=65534 --regid=65534 --clear-groups sleep 1000

	# An impostor: claims to record the target to a file of root's, and passes WHAT: a path (only as text), or
	# a descriptor of it.
	cat >fake.py <<-'PY'
		import array, json, os, socket, sys
		directory, target, said, passed, name = sys.argv[1:]
		os.setgroups([])
		os.setgid(65534)
		os.setuid(65534)
		s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
		path = "%s/%s.sock" % (directory, name if name != "own" else os.getpid())
		if os.path.lexists(path):
		    os.unlink(path)
		s.bind(path)
		s.listen(8)
		fds = []
		if passed == "pipe":
		    fds = [os.pipe()[0]]
		elif passed == "path":
		    fds = [os.open(said, os.O_PATH)] if os.path.exists(said) else []
		elif passed.startswith("+"):
		    fds = [os.open(passed[1:], os.O_RDWR | os.O_CREAT)]
		elif passed:
		    fds = [os.open(passed, os.O_RDONLY)]
		while True:
		    c, _ = s.accept()
		    request = json.loads(c.recv(4096) or b"{}")
		    print(request.get("command"), flush=True)
		    answer = {"ok": True, "pid": os.getpid(), "targets": [int(target)], "outputs": [said], "name": said}
		    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if request.get("command") == "open" and fds else []
		    try:
		        c.sendmsg([json.dumps(answer).encode()], rights)
		    except OSError:
		        pass
		    c.close()
	PY
	# fake SAID PASSED NAME: in FAKE
	fake() {
		: >asked
		spawn FAKE python3 fake.py /run/user/65534/inftrace "$target" "$1" "$2" "$3" >asked 2>fake.err
		SOCKET=/run/user/65534/inftrace/$([ "$3" = own ] && echo "$FAKE" || echo "$3").sock
		wait_until 60 test -S "$SOCKET" || not_ok "a fake recorder" "$(tail -n 1 fake.err)"
	}

	fake "$TMP/root.json" "" own
	for command in status start stop dump; do
		check_rc "fake recorder: root's $command does not find it" 1 \
			'you may control; one of another user needs --user' "$INFTRACE" "$command" -p "$target"
	done
	check_rc "fake recorder: root's serve --live does not find it" 1 'you may control; one of another' \
		timeout 60 "$INFTRACE" serve --live -P 0 -p "$target"
	same "fake recorder: it was asked nothing" "$(cat asked)" ""
	check_rc "fake recorder: its user sees it" 0 "^recorder $FAKE" as_nobody ./inftrace status
	check_rc "fake recorder: with --user, a name is no file" 1 'passed no file$' \
		timeout 60 "$INFTRACE" serve --live -P 0 -p "$target" --user nobody
	kill "$FAKE"
	fake_passes() { # NAME SAID PASSED
		fake "$2" "$3" own
		check_rc "$1" 1 'passed something that is not a file to read$|passed no file$|its content does not fit its name' \
			timeout 60 "$INFTRACE" serve --live -P 0 --user 65534
		kill "$FAKE" || not_ok "a fake recorder" "$(tail -n 1 fake.err)"
		wait_until 60 gone "$FAKE"
	}
	fake_passes "fake recorder: passes a device" x.json /dev/zero
	fake_passes "fake recorder: passes a directory" x.json /tmp
	fake_passes "fake recorder: passes a pipe" x.json pipe
	fake_passes "fake recorder: passes what it may not read itself" "$TMP/root.json" path
	fake_passes "fake recorder: passes a file that could be written" x.json "+$TMP/theirs/w.json"
	fake_passes "fake recorder: passes what is no trace" x.json /etc/passwd

	fake "$TMP/root.json" "" "$target"
	check_rc "fake recorder: not the process in its name" 1 'you may control' "$INFTRACE" status --user 65534
	check_rc "fake recorder: not its own user's either" 1 'you may control' as_nobody ./inftrace status
	kill "$FAKE"
	rm -r /run/user/65534/inftrace
	spawn recorder "$INFTRACE" record -q --engine none -e syscalls -o real.json -p "$target"
	wait_until 60 test -S "/run/inftrace/$recorder.sock" || not_ok "a real recorder" "no socket"
	as_nobody ln -s /run/inftrace /run/user/65534/inftrace
	check_rc "a link to root's sockets: not taken for those of the user" 1 'you may control' \
		"$INFTRACE" stop --user 65534
	check_rc "the real recorder: root sees it" 0 "^recorder $recorder" "$INFTRACE" status
	spawn server "$INFTRACE" serve --live -P 0 >live.url 2>live.err
	wait_until 60 test -s live.url || not_ok "serve --live" "$(tail -n 1 live.err)"
	mv real.json moved.json
	ln -s root.json real.json
	check "serve --live: the file itself, whatever has its name" \
		curl -sf -o got.json "$(sed 's/.*url=//' live.url)"
	check_rc "serve --live: is the recording's" 0 process_name grep -m 1 -o process_name got.json
	"$INFTRACE" stop >/dev/null
	kill "$server"
	wait_until 60 gone "$recorder" || true
	same "root's file is as it was" "$(cat root.json)" '[{"secret":1}]'
}

# Names that drive a terminal.
test_names() {
	cat >named.py <<-'PY'
		import ctypes, os, sys
		# U+202E turns text around, U+009B begins a sequence, and so does ESC [
		ctypes.CDLL(None).prctl(15, "a\u202eb\u009b31m\x1b[1m".encode(), 0, 0, 0)
		print(flush=True)
		while True:
		    os.getppid()
	PY
	spawn named python3 named.py >up
	wait_until 60 test -s up || not_ok "names" "the process does not start"
	name=$(printf 'p\u202eq\u009b1m')
	mkdir "$name"
	spawn recorder "$INFTRACE" record --engine none -e syscalls -o "$name/t.json" -o - -p "$named" >stdout.json 2>named.log
	wait_until 60 test -S "/run/inftrace/$recorder.sock" || not_ok "names" "$(tail -n 1 named.log)"
	{
		"$INFTRACE" status
		"$INFTRACE" status --json
		"$INFTRACE" stop --json
	} >named.out 2>&1
	wait_until 60 gone "$recorder" || true
	"$INFTRACE" validate "$name/t.json" >>named.out 2>&1
	"$INFTRACE" report "$name/t.json" >>named.out 2>&1 || true
	"$INFTRACE" serve "$name/x.json" >>named.out 2>&1 || true
	cat named.log >>named.out
	timeout -s INT 2 "$INFTRACE" top --engine none -p "$named" >named.top 2>&1 || true
	drives() { # FILE: lines with what drives a terminal
		LC_ALL=C grep -caP '\xe2\x80\xae|\xc2\x9b|\x1b' "$1"
	}
	same "names: the process is shown" "$(grep -c 'a.u202eb' named.out | sed 's/[1-9].*/yes/')" yes
	same "names: nothing gets to the terminal" "$(drives named.out)" 0
	same "names: nor by top" "$(drives named.top)" 0
	same "names: in JSON, C1 controls are escaped" "$(LC_ALL=C grep -caP '\xc2\x9b' stdout.json)" 0
	check "names: in JSON, they are as they were" python3 - stdout.json <<-'PY'
		import json, sys
		events = json.load(open(sys.argv[1]))
		names = [e["args"]["name"] for e in events if e.get("name") in ("thread_name", "process_name")]
		assert any("a\u202eb\u009b31m" in n for n in names), names
	PY
	kill "$named"
}

# Files planted where output is written.
test_planted() {
	echo precious >precious
	chmod 600 precious
	for d in shared open theirs; do
		name=$d/t.json
		plant $d t.json ln -s "$TMP/precious"
		check_rc "$d: a link to a file of root" 1 'cannot write .*: it is a symbolic link where others can write' \
			record -o $name
		check_rc "$d: a link, for the profile" 1 'it is a symbolic link' record --profile $name
		check_rc "$d: a link, for the page" 1 'cannot write .*: it is a symbolic link' \
			"$INFTRACE" report --html="$name" "$TOP/tests/golden/profile_good.jsonl"
		plant $d t.json ln -s "$TMP/created"
		check_rc "$d: a link to nothing" 1 'it is a symbolic link' record -o $name
		plant $d t.json mkfifo
		check_rc "$d: a pipe" 1 'it belongs to user 65534, in a directory where others can write' record -o $name
		plant $d t.json touch
		check_rc "$d: a file" 1 'it belongs to user 65534, in a directory where others can write' record -o $name
		check_rc "$d: a file, for the page" 1 'it belongs to user 65534' \
			"$INFTRACE" report --html="$name" "$TOP/tests/golden/profile_good.jsonl"
		rm -f $name
		plant $d way ln -s "$TMP"
		check_rc "$d: a link on the way" 1 'way on the way is a link by user 65534, which is not followed' \
			record -o $d/way/created.json
		check_rc "$d: a link on the way to the windows" 1 'is a link by user 65534' \
			record --window manual --output-dir $d/way/created
		rm -f $d/way
		check "$d: a new file" record -o $name
		check "$d: one of our own, again" record -o $name
		rm -f $name
	done
	ln precious shared/t.json
	check_rc "shared: a second name of a file of root" 1 'it has another hard link' record -o shared/t.json
	same "nothing was written through any of them" "$(cat precious) $(find . -maxdepth 1 -name 'created*')" "precious "

	(
		cd shared
		as_nobody ln -s "$TMP/precious" inftrace-true.json
		check_rc "the default name: a link" 1 'it is a symbolic link' "$INFTRACE" record -q --engine none -- true
		exit "$test_failed"
	) || test_failed=1
}

# Uses that must keep working.
test_as_before() {
	ln -s alone.json link.json
	check "a link of one's own, where nobody else can write" record -o link.json
	check "a link of one's own: followed" test -s alone.json
	ln -s shared mine
	check "a link of one's own on the way" record -o mine/x.json
	mkfifo pipe.json
	# a reader that starts before the recording, and sees its end
	exec 9<>pipe.json 8<pipe.json 7>pipe.json 9>&-
	cat <&8 >from-pipe 7>&- &
	exec 8<&-
	check "a pipe of one's own" record -o pipe.json
	exec 7>&-
	wait $!
	check "a pipe of one's own: was read" test -s from-pipe
	check_rc "a pipe without a reader" 1 'nobody reads it' record -o pipe.json
	check "/dev/stdout" sh -c "'$INFTRACE' record -q --engine none --profile /dev/stdout -- true >out"
	check "-" sh -c "'$INFTRACE' record -q --engine none -e syscalls -o - -- true >out && test -s out"
}

# The owners of the files.
test_owners() {
	umask 022
	record -o own.json --profile own.jsonl
	same "mode and owner" "$(stat -c '%a %u' own.json) $(stat -c '%a %u' own.jsonl)" "600 0 600 0"
	mkdir -m 755 alice
	chown 1000:1000 alice
	export SUDO_UID=1000 SUDO_GID=1000
	record -o alice/a.json --profile alice/deep/a.jsonl
	touch flag
	record --window-flag flag --output-dir alice/windows
	"$INFTRACE" report -q --html alice/a.html "$TOP/tests/golden/profile_good.jsonl" 2>/dev/null || true
	same "under sudo: all is the caller's" "$(find alice -printf '%u:%g\n' | sort -u)" "$(
		u=$(getent passwd 1000 | cut -d: -f1) g=$(getent group 1000 | cut -d: -f1)
		echo "${u:-1000}:${g:-1000}"
)"
	same "under sudo: nobody else reads it" "$(find alice -type f -printf '%m\n' | sort -u)" 600
	check "under sudo: once more into a file of the caller" record -o alice/a.json
	as_alice() {
		setpriv --reuid=1000 --regid=1000 --clear-groups "$@"
	}
	as_alice ln -s /var/tmp alice/tmp
	check "under sudo: a link of the caller on the way" record -o alice/tmp/../tmp/inftrace-test-$$.json
	rm -f /var/tmp/inftrace-test-$$.json
	unset SUDO_UID SUDO_GID
	check_rc "without sudo, alice is like any other" 1 'it belongs to user 1000' record -o alice/a.json
}

run_tests "$@"
