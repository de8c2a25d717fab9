#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# What inftrace holds does not grow while threads, processes and libraries come and go, and nothing
# is left when it is stopped or killed while it starts or ends.

. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/robust/common.sh"

setup_robust
cd "$TMP" || exit
cp dl_lib libdlx.so

# While it runs.
test_grow() {
	cat >target.sh <<-'SH'
		until [ -e stop ]; do
			./life churn 300
			./life tree 3 4
			./life crowd 50
			./dl cycle ./libdlx.so 10
			# a new file each time
			echo >>new && cp libdlx.so libnew.so && ./dl deleted ./libnew.so
		done
	SH
	spawn recorder "$INFTRACE" record -q --engine none -u 'lib*.so:dl_work' -u ./life:life_leaf -o grow.json \
		--profile grow.jsonl -- sh target.sh >/dev/null
	wait_until 60 test -s grow.json
	wait_until 60 test -s new
	for ((i = 0; i < 50; i++)); do
		[ "$i" -lt 10 ] || { # the first ones are warming up
			echo "$(find "/proc/$recorder/fd" | wc -l) $(wc -l <"/proc/$recorder/maps")" \
				"$(awk '/^VmRSS/ { print $2 }' "/proc/$recorder/status") $(wc -l <new)"
		}
		sleep 0.2
	done >samples
	touch stop
	ended "growth: exit code" "$recorder"
	check "growth: valid" "$INFTRACE" validate grow.json
	# columns: descriptors, mappings, KiB, new files
	awk '{ half = NR <= 20; for (c = 1; c <= 4; c++) if ($c > max[half, c]) max[half, c] = $c }
	END { for (c = 1; c <= 4; c++) print max[1, c], max[0, c] }' samples >growth
	echo "# first and second half: descriptors $(sed -n 1p growth), mappings $(sed -n 2p growth)," \
		"KiB $(sed -n 3p growth), new files $(sed -n 4p growth)"
	expect "growth: the libraries were seen" 'any(e.get("name") == "dl_work" for e in t)' t=grow.json
	# Each new file has two links and stays open as long as the recording runs, so that its inode cannot
	# become another file's; nothing else may grow. The links of four may come in the second half, whose files came in the first.
	check "growth: descriptors" awk 'NR == 1 { more = $2 - $1 } NR == 4 { exit !(more <= 3 * ($2 - $1) + 16) }' growth
	check "growth: memory" awk 'NR == 3 { exit !($2 <= $1 + 16384) }' growth
	check "growth: mappings" awk 'NR == 2 { exit !($2 <= $1 + 4) }' growth
	rm -f grow.json stop
}

# early SIGNAL DELAY ARG...: the trace need not exist, but must open if it does
early() {
	local sig=$1 delay=$2 trace=early-$1.json recorder
	shift 2
	rm -f "$trace"
	# a shell starts what runs in the background with SIGINT ignored
	env --default-signal=INT "$INFTRACE" record -q --engine none -u "$TMP/storm:storm_step@step" \
		-o "$trace" "$@" &
	recorder=$!
	sleep "$delay"
	kill "-$sig" "$recorder" 2>/dev/null || true
	wait "$recorder" 2>/dev/null || true
	[ ! -s "$trace" ] || "$INFTRACE" validate "$trace" || return 1
}

early_all() {
	local i
	for ((i = 0; i < 5; i++)); do
		early "$1" "0.$(printf %03d $((RANDOM % 600)))" -p "$storm" || return 1
		# at the end the window is closed and links are removed
		early "$1" "0.$(printf %03d $((400 + RANDOM % 400)))" -d 100ms -p "$storm" || return 1
		early "$1" "0.$(printf %03d $((RANDOM % 600)))" -- sleep 1 || return 1
	done
}

nobody_waits() {
	! pgrep -f "record -q --engine none -u $TMP/storm" >/dev/null
}

# Stopped and killed at any moment, also before it records and while it is ending.
test_early() {
	spawn storm "$TMP/storm" -t 2 -n 20 -s 0 -p 1000

	declare -A early_pids
	for sig in KILL INT TERM; do
		early_all "$sig" >"early-$sig.out" 2>&1 &
		early_pids[$sig]=$!
	done
	for sig in KILL INT TERM; do
		rc=0
		wait "${early_pids[$sig]}" || rc=$?
		[ "$rc" -eq 0 ] || sed 's/^/# /' "early-$sig.out"
		same "SIG$sig at any moment" "$rc" 0
	done
	# a command that waits to be released ends when inftrace has gone
	check "no command waits for a recorder that is gone" wait_until 60 nobody_waits
	check "the target lives" kill -0 "$storm"
}

teardown() {
	check_bpf "all of these" bpf.before
}

run_tests "$@"
