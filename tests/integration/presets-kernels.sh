#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Names of CUDA kernels: launches have a handle, which is shown as the name that it was created
# with, if that was seen. Against libraries with the same functions, which need no GPU.

. "$(dirname "$0")/../lib.sh"
need cc python3

cat >"$TMP/cuda.h" <<'C'
int cuModuleGetFunction(void **f, void *module, const char *name);
int cuLibraryGetKernel(void **f, void *library, const char *name);
int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
	unsigned shared, void *stream, void **params, void **extra);
C
cat >"$TMP/cuda.c" <<'C'
#include "cuda.h"
#include <stdlib.h>
#include <string.h>

/* The handle is stored late, where a probe at the entry does not see it. */
int cuModuleGetFunction(void **f, void *module, const char *name)
{
	*f = NULL;
	if (!strcmp(name, "missing"))
		return 500;
	*f = (char *)module + strlen(name);
	return 0;
}

int cuLibraryGetKernel(void **f, void *library, const char *name)
{
	return cuModuleGetFunction(f, (char *)library + 1000, name);
}

int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
	unsigned shared, void *stream, void **params, void **extra)
{
	return f == stream;
}
C
cat >"$TMP/kernels.c" <<'C'
#include "cuda.h"
#include <stdio.h>
#include <unistd.h>

static char module[4096];

static void get_and_launch(const char *name, int n)
{
	void *f;

	cuModuleGetFunction(&f, module, name);
	for (int i = 0; i < n; i++)
		cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, 0, 0, 0);
	cuLibraryGetKernel(&f, module, name);
	for (int i = 0; i < n; i++)
		cuLaunchKernel(f, 2, 1, 1, 32, 1, 1, 0, 0, 0, 0);
}

int main(void)
{
	void *early;

	cuModuleGetFunction(&early, module, "early");
	getchar();
	get_and_launch("gemm", 3);
	get_and_launch("softmax_warp_forward", 2);
	get_and_launch("missing", 1);
	cuLaunchKernel(early, 4, 1, 1, 32, 1, 1, 0, 0, 0, 0);
	/* the handle of gemm for another kernel, as after unloading a module */
	get_and_launch("gelu", 1);
	return 0;
}
C
cc -O1 -fPIC -shared "$TMP/cuda.c" -o "$TMP/libcuda.so.1" -Wl,-soname,libcuda.so.1
cc -O1 "$TMP/kernels.c" -o "$TMP/kernels" -L"$TMP" -l:libcuda.so.1 "-Wl,-rpath,$TMP"

for detail in "" --op-detail; do
	name=kernels${detail:+ in detail}
	# shellcheck disable=SC2086
	check "$name: recorded" line_recorded "$TMP/kernels" $detail
	expect "$name: launches show the names" \
		'[e["args"]["function"] if e["args"]["function"][:2] != "0x" else "" for e in sorted(
			(e for e in t if e.get("cat") == "launch"), key=lambda e: e["ts"])] == ["gemm"] * 6 + ["softmax_warp_forward"] * 4 + [
			"", "", "", "gelu", "gelu"]' t="$TMP/t.json"
	expect "$name: handles are had when they are made" \
		'{(int(e["args"]["function"], 16) > 0, e["args"]["kernel"]) for e in t if e["name"] in (
			"cuModuleGetFunction", "cuLibraryGetKernel")} == {(True, "gemm"), (True, "softmax_warp_forward"),
			(True, "gelu"), (False, "missing")}' t="$TMP/t.json"
done
