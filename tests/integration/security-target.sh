#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Traced processes that are hostile: what they can make the recorder do, and what it may do at all.

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../robust/common.sh
. "$TOP/tests/robust/common.sh"

need_root
need cc runuser setpriv
build escape
chmod 755 "$TMP"
as_nobody=(runuser -u nobody --)

# ---- a path that means something else to us ----

# Of the two ways to the file, the second is without the capabilities for the first.
escape() { # NAME COMMAND...
	local name=$1 fifo target watcher
	shift
	rm -rf "$shm/fifo" "$TMP/ns" "$TMP/"{escape,watch}.out
	mkfifo "$shm/fifo"
	fifo=$shm/fifo
	mkdir -m 777 "$TMP/ns"
	background "${as_nobody[@]}" "$TMP/escape" "$fifo" "$TMP/ns" libllama.so "$TMP/escape" >"$TMP/escape.out" 2>&1
	target=$BG
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
	background "$TMP/escape" --opened "$fifo" >"$TMP/watch.out"
	watcher=$BG
	wait_until 20 grep -q watching "$TMP/watch.out"
	check "$name: the recording is right" "$@" "$INFTRACE" record -q -d 300ms -p "$target" \
		-o "$TMP/escape.json" --profile "$TMP/escape.jsonl"
	check "$name: engines" "$@" bash -c '"$0" engines -p "$1" >/dev/null' "$INFTRACE" "$target"
	kill "$watcher"
	wait "$watcher" || true
	check "$name: nothing of ours is opened" grep -qx 0 "$TMP/watch.out"
	kill "$target"
}

shm=$(mktemp -d -p /dev/shm)
chmod 755 "$shm"
escape "a path leads out of its namespace"
escape "a path leads out of its namespace, map_files is closed to us" \
	setpriv --bounding-set=-sys_admin,-cap_40
rm -rf "$shm"
