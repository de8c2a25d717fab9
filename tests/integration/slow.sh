#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Disks that are full, at many sizes, and disks and readers that stall: files are valid, the rings
# keep being drained, and nothing hangs.

. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/robust/common.sh"

# shellcheck disable=SC2016 # at the end
at_end eval 'umount -ql "$TMP"/disk.* "$TMP/stalls"'
run=("$INFTRACE" record --engine none -u "$TMP/storm:storm_step@step")

end() { # PID
	kill "$1"
	wait "$1"
}

# ends NAME WANTED_RC PID PATTERN ERR: the recorder ends by itself, and says why in the file ERR.
ends() {
	if ! wait_until 60 has_ended "$3"; then
		not_ok "$1: it ends" "it hangs"
		return
	fi
	ended "$1: exit code" "$3" "$2"
	same "$1: what it says" "$(grep -cE "$4" "$5")" 1
}

# How many records of a kind were received and lost, by the summary in the file ERR.
received() { # KIND ERR
	sed -nE "s/^inftrace: [0-9.]+ s, (.*, )?([0-9]+) $1.*/\2/p" "$2"
}

lost() { # KIND ERR
	sed -nE "s/.*warning: lost (.*, )?([0-9]+) $1.*/\2/p" "$2"
}

need cc node protoc
build storm
mkdir "$TMP/work"
cd "$TMP/work" || exit
mkfifo "$TMP/fifo1" "$TMP/fifo2" "$TMP/fifo3"

# fill KIND PAGES: a recording to a disk of PAGES pages. Prints what is wrong.
fill() {
	local kind=$1 n=$2 disk=$TMP/disk.$1 rc size
	local file=$disk/$n.$kind err=$TMP/err.$1 option=-o
	[ "$kind" != jsonl ] || option=--profile
	mkdir -p "$disk"
	mount -t tmpfs -o "size=$((4 * n))k" none "$disk"
	rc=0
	timeout 30 "${run[@]}" --min-free 0 -e syscalls,functions -d 5s "$option" "$file" -p "$storm" 2>"$err" || rc=$?
	size=$(stat -c %s "$file" || echo 0)
	cp "$file" "$full/" || true
	umount "$disk"
	[ "$rc" -eq 1 ] || echo "$n pages: exit code $rc"
	[ "$(grep cannot "$err")" = "inftrace: cannot write $file: No space left on device; the file is valid up to here" ] ||
		echo "$n pages: it says: $(cat "$err")"
	# only the page with the event that did not fit is cut off
	((size > (n - 2) * 4096 && size <= n * 4096)) || echo "$n pages: a file of $size bytes"
}

whole_packets() { # FILE...
	local file rc=0
	for file; do
		protoc --decode_raw <"$file" >"$TMP/decoded" || {
			echo "$file"
			rc=1
		}
		[ -s "$TMP/decoded" ] || {
			echo "$file: nothing in it"
			rc=1
		}
	done
	return "$rc"
}

# A disk that is full already.
test_no_room() {
	mkdir "$TMP/disk.none"
	mount -t tmpfs -o size=4k none "$TMP/disk.none" || {
		skip "no room" "tmpfs cannot be mounted here"
		return
	}
	head -c 4096 /dev/zero >"$TMP/disk.none/full"
	check_rc "no room: an empty file is not called valid" 1 \
		"cannot write $TMP/disk.none/p.jsonl: No space left on device; nothing was written to it" \
		timeout 60 "${run[@]}" --min-free 0 -e syscalls -d 100ms --profile "$TMP/disk.none/p.jsonl" -p $$
	same "no room: it is empty" "$(stat -c %s "$TMP/disk.none/p.jsonl")" 0
	umount "$TMP/disk.none"
}

# A full disk, at many sizes.
test_full() {
	pages=(1 2 3 5 7 13 23 37 53 71 89 109)
	[ -z "${TEST_ALL:-}" ] || mapfile -t pages < <(seq 1 2 109)
	kinds=(json json.gz pftrace jsonl)
	full=$TMP/full
	mkdir "$full"

	mkdir "$TMP/mounted"
	if mount -t tmpfs none "$TMP/mounted" 2>/dev/null; then
		umount "$TMP/mounted"
		spawn storm "$TMP/storm" -n 20 -s 0 -p 100 >/dev/null
		for n in "${pages[@]}"; do
			jobs=()
			for kind in "${kinds[@]}"; do
				fill "$kind" "$n" >>"$TMP/wrong.$kind" 2>&1 &
				jobs+=($!)
			done
			wait "${jobs[@]}"
		done
		end "$storm"
		for kind in "${kinds[@]}"; do
			same "disk full at ${#pages[@]} sizes, .$kind: exit code, message, size" \
				"$(tr '\n' ' ' <"$TMP/wrong.$kind")" ""
		done
		check "disk full: all are valid" "$INFTRACE" validate "$full"/*.json "$full"/*.json.gz "$full"/*.jsonl
		importer "disk full: all traces open" "$full"/*.json "$full"/*.json.gz
		check "disk full: all packets are whole" whole_packets "$full"/*.pftrace
	else
		skip "disk full" "tmpfs cannot be mounted here"
	fi
}

# A pipe that nobody reads.
test_unread() {
	nobody='cannot write stdout: nobody reads it; the file is valid up to here'
	exec 7<>"$TMP/fifo1" 8<>"$TMP/fifo2" 9<>"$TMP/fifo3"
	spawn storm "$TMP/storm" -n 20 -s 0 -p 100 >/dev/null
	"${run[@]}" -o - -p "$storm" >"$TMP/fifo1" 2>"$TMP/err1" &
	interrupted=$!
	"${run[@]}" -d 1s -o - -p "$storm" >"$TMP/fifo2" 2>"$TMP/err2" &
	over=$!
	# the ring holds it all: records are only lost after it
	"${run[@]}" --ring-size 64MB -o - --profile "$TMP/p.jsonl" -- \
		sh -c "exec '$TMP/storm' -t 2 -n 2000 -s 100 >'$TMP/counts'" >"$TMP/fifo3" 2>"$TMP/err3" &
	drained=$!
	wait_until 60 grep -qs recording "$TMP/err1"
	sleep 0.5
	kill -INT "$interrupted"
	sleep 0.5
	kill -INT "$interrupted" 2>/dev/null || true
	ends "nobody reads: SIGINT twice" 1 "$interrupted" "$nobody" "$TMP/err1"
	ends "nobody reads: the end of -d" 1 "$over" "$nobody" "$TMP/err2"
	ends "nobody reads: the end of the command" 1 "$drained" "$nobody" "$TMP/err3"
	check "nobody reads: the rings are drained" \
		test "$(received syscall "$TMP/err3")" -ge "$(json 'c["calls"]' c=last:"$TMP/counts")"
	check "nobody reads: what did not fit is counted" test "$(lost syscall "$TMP/err3")" -gt 100000
	expect "nobody reads: the profile has every step" \
		'sum(l["event"] == "token_prof" for l in p) == c["steps"] == 200' p="$TMP/p.jsonl" c=last:"$TMP/counts"
	end "$storm"
	exec 7<&- 8<&- 9<&-
}

# A slow reader that gets everything.
test_late() {
	{
		sleep 2
		cat
	} <"$TMP/fifo1" >"$TMP/late.json" &
	reader=$!
	"${run[@]}" -o - -- sh -c "exec '$TMP/storm' -n 100 -s 500 >'$TMP/counts'" >"$TMP/fifo1" 2>"$TMP/err" &
	ends "late reader" 0 $! "recording" "$TMP/err"
	wait "$reader"
	check "late reader: valid" "$INFTRACE" validate "$TMP/late.json"
	expect "late reader: nothing is missing" 'sum(e.get("name") == "getppid" for e in t) >= c["calls"] == 50000' \
		t="$TMP/late.json" c=last:"$TMP/counts"
}

# A disk that stalls.
test_stalled() {
	disk=$TMP/stalls
	mkdir "$disk"
	truncate -s 64M "$TMP/image"
	if mkfs.ext4 -q "$TMP/image" && mount -o loop "$TMP/image" "$disk" 2>/dev/null; then
		# a write to a frozen filesystem waits in the kernel, as for a disk that does not answer
		"${run[@]}" --strict --ring-size 1MB -o "$disk/t.json" -- \
			sh -c "exec '$TMP/storm' -n 20 -s 3500 -p 2000 >'$TMP/counts'" 2>"$TMP/err" &
		recorder=$!
		wait_until 60 test -s "$disk/t.json"
		fsfreeze -f "$disk"
		# for longer than the rings would last, each of which lasts for more than a second, as long as the recorder may wait for a
		# CPU on a busy machine. The thaw comes whatever happens to this script
		(trap '' TERM && sleep 5 && fsfreeze -u "$disk") &
		thaw=$!
		ends "stalled disk" 0 "$recorder" "recording" "$TMP/err"
		wait "$thaw"
		expect "stalled disk: nothing is missing" 'sum(e.get("name") == "getppid" for e in t) >= c["calls"] == 70000' \
			t="$disk/t.json" c=last:"$TMP/counts"
		umount "$disk"
	else
		skip "stalled disk" "no loop device or no mkfs.ext4"
	fi
}

run_tests "$@"
