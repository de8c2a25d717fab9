// SPDX-License-Identifier: BSD-2-Clause
#include <sys/stat.h>

#include "target/cgroup.h"
#include "unit.h"

static char root[] = "/tmp/inftrace-cpu-limit.XXXXXX";

static void put(const char *dir, const char *file, const char *text)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", root, dir);
	for (char *p = path + strlen(root) + 1; p && *p; p++) {
		p = strchrnul(p, '/');
		if (*p) {
			*p = '\0';
			mkdir(path, 0700);
			*p = '/';
		} else {
			mkdir(path, 0700);
			break;
		}
	}
	snprintf(path + strlen(path), sizeof(path) - strlen(path), "/%s", file);
	f = fopen(path, "we");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

TEST(test_limits)
{
	static const struct {
		const char *cgroups;
		uint64_t limit;
	} cases[] = {
		{ "", 0 },
		{ "0::/", 0 },
		{ "0::/a\n", 1500 },
		{ "0::/a/b\n", 250 },
		{ "0::/a/b/none", 250 },
		{ "0::/a/more", 1500 }, /* its parent has less */
		{ "0::/open", 0 },
		{ "0::/torn", 0 },
		{ "0::/a/../a", 0 },
		{ "9:memory:/a\n2:cpuacct:/one\n0::/open\n", 0 },
		{ "9:memory:/a\n1:cpu:/one\n0::/a", 1000 },
		{ "1:cpu,cpuacct:/two", 2000 },
		{ "1:cpu:/free", 0 },
		{ "no colons\n::\n:::\n0:", 0 },
	};

	put("a", "cpu.max", "150000 100000\n");
	put("a/b", "cpu.max", "25000 100000\n");
	put("a/more", "cpu.max", "400000 100000\n");
	put("open", "cpu.max", "max 100000\n");
	put("torn", "cpu.max", "10");
	put("cpu/one", "cpu.cfs_quota_us", "50000\n");
	put("cpu/one", "cpu.cfs_period_us", "50000\n");
	put("cpu,cpuacct/two", "cpu.cfs_quota_us", "200000\n");
	put("cpu,cpuacct/two", "cpu.cfs_period_us", "100000\n");
	put("cpu/free", "cpu.cfs_quota_us", "-1\n");
	put("cpu/free", "cpu.cfs_period_us", "100000\n");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		if (cpu_limit_of(cases[i].cgroups, root) != cases[i].limit)
			fail_msg("%s: %lu", cases[i].cgroups, (unsigned long)cpu_limit_of(cases[i].cgroups, root));
	}
	assert_int_equal(cpu_limit_read(UINT32_MAX), 0);
}

int main(void)
{
	char command[64];
	int rc;

	if (!mkdtemp(root))
		return 1;
	rc = unit_tests_run(NULL, NULL);
	snprintf(command, sizeof(command), "rm -r %s", root);
	return system(command) || rc;
}
