#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The files in contrib/: the capabilities of the service are enough for a user who has no other rights, and are needed;
# the DaemonSet has the same.

. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/programs/programs.sh"

unit=$TOP/contrib/inftrace.service
others=61234 # a user who owns nothing

# Those of the unit, as setpriv wants them.
capabilities() { # KEY
	sed -n "s/^$1=//p" "$unit" | tr 'A-Z ' 'a-z,' | sed 's/cap_/+/g'
}

need setpriv python3 make cc
chmod 755 "$TMP"
cp "$BUILD/inftrace" "$TMP/inftrace"
mkdir "$TMP/presets" "$TMP/engine" "$TMP/out"
cp "$TOP"/engines/*.json "$TMP/presets"
cp "$(dirname "$(mini_engine)")"/{mini_engine,*.so} "$TMP/engine"
chown -R 1000:1000 "$TMP/engine"
chmod -R go= "$TMP/engine" # nobody else may read them
chown "$others" "$TMP/out"
INFTRACE=$TMP/as_service

# as_service CAPABILITIES [COMMAND]: what INFTRACE is from now on, started by that command
as_service() {
	cat >"$INFTRACE" <<-EOF
		#!/bin/sh
		INFTRACE_ENGINES=$TMP/presets exec ${2:-} setpriv --reuid=$others --regid=$others --clear-groups --no-new-privs \\
			--inh-caps=-all,$1 --ambient-caps=-all,$1 --bounding-set=-all,$1 $TMP/inftrace "\$@"
	EOF
	chmod 755 "$INFTRACE"
}

test_capabilities() {
	caps=$(capabilities AmbientCapabilities)
	same "the service may have what it begins with, and no more" "$(capabilities CapabilityBoundingSet)" "$caps"
	as_service "$caps"
	check "doctor, with the capabilities of the service" "$INFTRACE" doctor
	check "an engine of another user is recorded" engine_recorded service -o "$TMP/out/t.json" --profile "$TMP/out/p.jsonl" -- \
		setpriv --reuid=1000 --regid=1000 --clear-groups "$TMP/engine/mini_engine" -w -q -n 16 -t 1
	expect "all of its steps" "sum(l['event'] == 'token_prof' for l in p) == c['steps']" p="$TMP/out/p.jsonl" \
		c=last:"$TMP/service.out"
	same "the files belong to the service" "$(stat -c %u "$TMP/out/t.json" "$TMP/out/p.jsonl" | sort -u)" "$others"
	for one in bpf perfmon sys_ptrace; do
		as_service "$(sed -E "s/\+$one(,|$)//; s/,$//" <<<"$caps")"
		check_rc "it needs $one" 3 '' "$INFTRACE" doctor
	done
}

# stopped NAME: SIGTERM, as systemd and Kubernetes end a service, and the recorder ends well
stopped() {
	kill -TERM "$RECORDER"
	ended "$1: ends well" "$RECORDER"
	kill -TERM "$ENGINE"
	wait "$ENGINE" || true
}

# record_found NAME OPTION...: the recorder finds an engine of another user, which nobody has named, and ends
record_found() {
	cp "$TMP/engine/mini_engine" "$TMP/engine/deployed-$$"
	echo '{"name": "mini", "version": 1, "match": {"mapped": ["deployed-'$$'"]}, "probes": [{"library": "libllama*.so*",
		"symbol": "llama_decode", "role": "step", "name": "decode"}]}' >"$TMP/mini.json"
	mkdir -p "$TMP/out/$1"
	chown "$others" "$TMP/out/$1"
	recording RECORDER "$1" -v --engine "$TMP/mini.json" "${@:2}" --output-dir "$TMP/out/$1"
	# until it is told to end
	spawn ENGINE setpriv --reuid=1000 --regid=1000 --clear-groups "$TMP/engine/deployed-$$" -q -r 0 -n 4 -t 1 >/dev/null
	check "$1: an engine is found" wait_until 60 grep -q '(deployed-' "$TMP/$1.err"
	check "$1: its functions are probed" wait_until 60 grep -q 'probes in .*/libllama' "$TMP/$1.err"
}

# service_dumps NAME: as the unit starts it
service_dumps() {
	local options
	options=$(sed -n 's/^Environment="OPTIONS=\(.*\)"$/\1/p' "$unit")
	# shellcheck disable=SC2086 # several words, as systemd splits them
	record_found "$1" --discover $options
	kill -USR1 "$RECORDER"
	check "$1: a dump" wait_until 60 grep -q 'dumped\|wrote' "$TMP/$1.err"
	stopped "$1"
	check "$1: a trace" "$INFTRACE" validate "$TMP/out/$1"/trace_pid*.json
}

test_service() {
	same "the service finds engines" "$(sed -n 's/^Environment=WHICH=//p' "$unit")" --discover
	as_service "$(capabilities AmbientCapabilities)"
	service_dumps unit
}

# kernel.perf_event_paranoid is 3 there.
test_debian() {
	as_service "$(capabilities AmbientCapabilities)" "$PROGRAMS/without_perf"
	check "doctor, without events of perf" "$INFTRACE" doctor
	service_dumps debian
}

test_unit() {
	command -v systemd-analyze >/dev/null || {
		skip "the service is valid" "systemd-analyze is not installed"
		return
	}
	mkdir "$TMP/units"
	# the program need not be installed here
	sed "s|^ExecStart=.*|ExecStart=/bin/true|" "$unit" >"$TMP/units/inftrace.service"
	check "the service is valid" systemd-analyze verify --man=no "$TMP/units/inftrace.service"
	same "the service: nothing to complain of" "$(systemd-analyze verify --man=no "$TMP/units/inftrace.service" 2>&1)" ""
}

test_daemonset() {
	python3 -c 'import yaml' 2>/dev/null || {
		skip "the manifest" "python3-yaml is not installed"
		return
	}
	python3 -c 'import json, sys, yaml; json.dump([yaml.safe_load(sys.stdin)], sys.stdout)' <"$TOP/contrib/daemonset.yaml" >"$TMP/set.json"
	container="s[0]['spec']['template']['spec']['containers'][0]"
	expect "the manifest: its pods have its labels" \
		"s[0]['spec']['selector']['matchLabels'] == s[0]['spec']['template']['metadata']['labels']" s="$TMP/set.json"
	same "the manifest: the capabilities of the service" \
		"$(json "','.join('+' + c.lower() for c in ${container}['securityContext']['capabilities']['add'])" s="$TMP/set.json")" \
		"$(capabilities AmbientCapabilities)"
	expect "the manifest: mounts are volumes" \
		"{m['name'] for m in ${container}['volumeMounts']} == {v['name'] for v in s[0]['spec']['template']['spec']['volumes']}" s="$TMP/set.json"
	json "'\n'.join(${container}['command'])" s="$TMP/set.json" >"$TMP/command"
	mapfile -t command <"$TMP/command"
	same "the manifest: inftrace record" "${command[*]:0:2}" "inftrace record"
	same "the manifest: into its volume" "${command[*]: -2}" "--output-dir /var/lib/inftrace"
	# in a container that has these calls taken away
	same "the manifest: a profile of seccomp" "$(json "${container}['securityContext']['seccompProfile']['localhostProfile']" s="$TMP/set.json")" inftrace.json
	profile="$TOP/tests/tools/seccomp_profile.py $TOP/contrib/seccomp.json"
	# shellcheck disable=SC2086 # a command and its argument
	check_rc "the manifest: nothing there can trace a process" 1 'Operation not permitted' $profile python3 -c 'import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
sys.exit(os.strerror(ctypes.get_errno()) if libc.ptrace(0x4206, os.getppid(), 0, 0) else 0)'
	as_service "$(capabilities AmbientCapabilities)" "$profile"
	record_found manifest "${command[@]:2:${#command[@]}-4}"
	stopped manifest
}

run_tests "$@"
