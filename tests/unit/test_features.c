// SPDX-License-Identifier: BSD-2-Clause
/* Judging the result of features_probe(), and checking that it describes this system. */
#include <linux/capability.h>
#include <sys/utsname.h>

#include "capture/features.h"
#include "unit.h"

#define BIT(cap) (1ull << (cap))
#define CAPS_NEEDED (BIT(CAP_BPF) | BIT(CAP_PERFMON) | BIT(CAP_SYS_PTRACE))

/* A kernel and a process with everything, to remove features from. */
static struct features all(const char *release)
{
	struct features f = { .caps = CAPS_NEEDED };

	snprintf(f.release, sizeof(f.release), "%s", release);
	return f;
}

static void assert_refused(const struct features *f, int err, const char *words[], size_t n)
{
	char why[384] = "";

	assert_int_equal(features_require(f, why, sizeof(why)), err);
	assert_null(strchr(why, '\n'));
	for (size_t i = 0; i < n; i++)
		if (!strstr(why, words[i]))
			fail_msg("'%s' does not say '%s'", why, words[i]);
}
#define ASSERT_REFUSED(f, err, ...)                             \
	assert_refused(f, err, (const char *[]){ __VA_ARGS__ }, \
		sizeof((const char *[]){ __VA_ARGS__ }) / sizeof(char *))

TEST(test_enough)
{
	struct features f = all("6.1.0-40-amd64");
	char why[8] = "as was";

	assert_int_equal(features_require(&f, why, sizeof(why)), 0);
	assert_string_equal(why, "as was");
	/* optional ones may be missing, untried ones are given the benefit of the doubt */
	for (int i = 0; i < FEATURE_MAX; i++)
		f.err[i] = feature_descs[i].loss ? -EOPNOTSUPP : FEATURE_UNTRIED;
	assert_int_equal(features_require(&f, why, sizeof(why)), 0);
	/* what older systems have instead of CAP_BPF and CAP_PERFMON */
	f.caps = BIT(CAP_SYS_ADMIN) | BIT(CAP_SYS_PTRACE);
	assert_int_equal(features_require(&f, why, sizeof(why)), 0);
}

TEST(test_privileges)
{
	struct features f = all("6.12.0");

	f.caps = 0;
	ASSERT_REFUSED(&f, -EPERM, "CAP_BPF", "CAP_PERFMON", "CAP_SYS_PTRACE", "root");
	f.caps = CAPS_NEEDED & ~BIT(CAP_PERFMON);
	ASSERT_REFUSED(&f, -EPERM, "missing CAP_PERFMON:");
	f.caps = BIT(CAP_SYS_ADMIN);
	ASSERT_REFUSED(&f, -EPERM, "missing CAP_SYS_PTRACE:");
	f = all("6.12.0");
	f.user_ns = true;
	ASSERT_REFUSED(&f, -EPERM, "user namespace");
	f = all("6.12.0");
	strcpy(f.lockdown, "confidentiality");
	ASSERT_REFUSED(&f, -EPERM, "lockdown");
	strcpy(f.lockdown, "integrity");
	assert_int_equal(features_require(&f, NULL, 0), 0);
	f.err[FEATURE_RING_BUFFER] = -EPERM;
	ASSERT_REFUSED(&f, -EPERM, "ring buffer", "seccomp");
}

TEST(test_kernels)
{
	struct features f = all("4.19.0-27-amd64");

	f.err[FEATURE_RING_BUFFER] = -EINVAL;
	ASSERT_REFUSED(&f, -EOPNOTSUPP, "ring buffer", "4.19.0-27-amd64", "too old", "5.15");
	f.err[FEATURE_BTF] = -ENOENT;
	ASSERT_REFUSED(&f, -EOPNOTSUPP, "BTF", "CONFIG_DEBUG_INFO_BTF");
	f = all("6.1.0");
	f.err[FEATURE_SYS_ENTER] = -ENOENT;
	ASSERT_REFUSED(&f, -EOPNOTSUPP, "sys_enter", "built without");
	/* 5.9 is before 5.15, 6.0 is not */
	f = all("5.9.1");
	f.err[FEATURE_ATTACH_COOKIE] = -EINVAL;
	ASSERT_REFUSED(&f, -EOPNOTSUPP, "too old");
	f = all("6.0");
	f.err[FEATURE_ATTACH_COOKIE] = -EINVAL;
	ASSERT_REFUSED(&f, -EOPNOTSUPP, "built without");
}

TEST(test_uprobes)
{
	struct features f = all("6.1.150");

	/* either kind will do */
	f.err[FEATURE_UPROBE_MULTI] = -EOPNOTSUPP;
	assert_int_equal(features_require(&f, NULL, 0), 0);
	f.err[FEATURE_UPROBE] = -EACCES;
	ASSERT_REFUSED(&f, -EPERM, "no uprobe:", "CAP_SYS_ADMIN");
	f.err[FEATURE_UPROBE_MULTI] = 0;
	assert_int_equal(features_require(&f, NULL, 0), 0);
}

/* A short buffer is filled, but not overrun. */
TEST(test_short_buffer)
{
	struct features f = all("6.1.0");
	char why[16];

	memset(why, 'x', sizeof(why));
	f.caps = 0;
	assert_int_equal(features_require(&f, why, 8), -EPERM);
	assert_string_equal(why, "not per");
	assert_int_equal(why[8], 'x');
}

TEST(test_this_system)
{
	struct features fast, full;
	struct utsname uts;

	assert_int_equal(uname(&uts), 0);
	assert_int_equal(features_probe(&fast, true), 0);
	assert_int_equal(features_probe(&full, false), 0);
	assert_string_equal(fast.release, uts.release);
	assert_int_equal(fast.caps, full.caps);
	for (int i = 0; i < FEATURE_MAX; i++) {
		assert_true(full.err[i] <= 0);
		assert_int_equal(
			fast.err[i], feature_descs[i].fast ? full.err[i] : FEATURE_UNTRIED);
	}
	assert_int_equal(
		features_have(&full, FEATURE_BTF), !access("/sys/kernel/btf/vmlinux", R_OK));
	if (getuid()) /* without privileges nothing that needs them may seem to work */
		assert_true(full.caps || !features_have(&full, FEATURE_TASK_STORAGE));
}

RUN_TESTS(NULL, NULL)
