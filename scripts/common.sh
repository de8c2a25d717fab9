# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
#
# Shared by the scripts in this directory. Sets TOP, the top of the checkout.

set -eu -o pipefail

TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# Debian keeps bpftool where the PATH of an ordinary user does not look.
export PATH=$PATH:/usr/sbin:/sbin

die() {
	echo "$(basename "$0"): $*" >&2
	exit 1
}

# stage TEXT LOG COMMAND ARG...: one line of progress; the output goes to LOG, whose end is shown
# when the command fails.
stage() {
	local text=$1 log=$2 start=$SECONDS rc=0
	shift 2
	mkdir -p "$(dirname "$log")"
	printf '%s ... ' "$text"
	"$@" >"$log" 2>&1 </dev/null || rc=$?
	if [ "$rc" -eq 0 ]; then
		echo "ok ($((SECONDS - start)) s)"
		return 0
	fi
	echo "failed"
	tail -n 25 "$log" | sed 's/^/  | /' >&2
	echo "  the whole log: $log" >&2
	return "$rc"
}

# What root made under sudo belongs to the person who called sudo.
hand_over() {
	local path
	[ -n "${SUDO_UID:-}" ] && [ "$(id -u)" -eq 0 ] || return 0
	for path in "$@"; do
		[ ! -e "$path" ] || chown -hR "$SUDO_UID:${SUDO_GID:-0}" "$path"
	done
}
