#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# What the verifier spends on each program: every start of a recording waits for it. scripts/vm-smoke checks the same
# on other kernels.

. "$(dirname "$0")/../lib.sh"

run_logged "$TMP/cc.log" "cannot build verifier_cost" "${CC:-cc}" -O1 -g -std=gnu11 -D_GNU_SOURCE -Wall -Wextra -Werror \
	-I"$BUILD" -I"$TOP/src" "$TOP/tests/tools/verifier_cost.c" -o "$TMP/verifier_cost" -lbpf
check "no program takes the verifier more than 100,000 instructions" "$TMP/verifier_cost"
tail -n 1 "$TMP/check.out" | sed 's/^/# /'
check_rc "a limit that one exceeds is told" 1 "" "$TMP/verifier_cost" 10000
