#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Short-lived processes beside others that want the CPUs: threads die, exec and take over each other's tids at
# every instant, and in each trace the slices of a thread nest and arrows begin and end in slices.
# SPAWNS_RUNS and SPAWNS_COUNT make it longer.

. "$(dirname "$0")/../lib.sh"
need node
. "$TOP/tests/programs/programs.sh"

runs=${SPAWNS_RUNS:-$(often 2 3)}
count=${SPAWNS_COUNT:-400}

# A process that computes, and short-lived ones.
background sh -c 'while :; do :; done'
background sh -c 'while :; do /bin/true; done'

for run in $(seq "$runs"); do
	record_attached "spawns-$run" --ring-size 64MB --engine none -- \
		"$PROGRAMS/spawns" "$count" || continue
done
traces_check
