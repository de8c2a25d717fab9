// SPDX-License-Identifier: BSD-2-Clause

#include "target/cgroup.h"
#include "unit.h"

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define OUTER "f123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define UID "01234567-89ab-cdef-0123-456789abcdef"
#define UID_ "01234567_89ab_cdef_0123_456789abcdef"

TEST(test_cgroups)
{
	static const struct {
		const char *cgroups, *id, *pod;
	} cases[] = {
		{ "", NULL, NULL },
		{ "0::/\n", NULL, NULL },
		{ "0::/system.slice/llama-server.service\n", NULL, NULL },
		{ "0::/system.slice/docker-" ID ".scope\n", ID, "" },
		{ "0::/docker/" ID, ID, "" },
		{ "0::/docker/" ID "/init.scope\n", ID, "" },
		{ "12:memory:/docker/" ID "\n0::/\n", ID, "" },
		{ "0::/machine.slice/libpod-" ID ".scope/container\n", ID, "" },
		{ "0::/machine.slice/libpod-conmon-" ID ".scope\n", NULL, NULL },
		{ "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_ ".slice/cri-containerd-" ID ".scope\n", ID, UID },
		{ "0::/kubepods/besteffort/pod" UID "/" ID "\n", ID, UID },
		{ "0::/kubepods.slice/kubepods-pod" UID_ ".slice/crio-" ID ".scope\n", ID, UID },
		{ "0::/kubepods/pod0123456789abcdef0123456789abcdef/" ID "\n", ID, "0123456789abcdef0123456789abcdef" },
		/* of a recorder in its own cgroup namespace */
		{ "0::/../../kubepods-besteffort-pod" UID_ ".slice/cri-containerd-" ID ".scope\n", ID, UID },
		/* a container in a container */
		{ "0::/docker/" OUTER "/docker/" ID "\n", ID, "" },
		/* too short, too long, other characters, torn */
		{ "0::/docker/0123456789abcdef\n", NULL, NULL },
		{ "0::/docker/" ID "0\n", NULL, NULL },
		{ "0::/docker-" ID ".mount\n", NULL, NULL },
		{ "0::/docker/0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF\n", NULL, NULL },
		{ "0::/pod" UID "x\n", NULL, NULL },
		{ "0::/tripod" UID "\n", NULL, NULL },
		{ "0::/pod01234567-89ab\n", NULL, NULL },
		{ "/////", NULL, NULL },
		{ "0::/pod", NULL, NULL },
		{ ":::\n:", NULL, NULL },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct container c = { 0 };
		bool in = container_of_cgroups(cases[i].cgroups, &c);

		if (in != !!cases[i].id)
			fail_msg("%s: %d", cases[i].cgroups, in);
		if (!in)
			continue;
		assert_string_equal(c.id, cases[i].id);
		assert_string_equal(c.pod, cases[i].pod);
	}
}

TEST(test_host)
{
	assert_true(container_host_ok("llama-7d9c5-x2x9z"));
	assert_true(container_host_ok("node1.example.org"));
	assert_false(container_host_ok(""));
	assert_false(container_host_ok("a b"));
	assert_false(container_host_ok("a\x1b[2J"));
	assert_false(container_host_ok("\xc3\xa4"));
	assert_false(container_host_ok("a\"b"));
	/* 64 */
	assert_false(container_host_ok(ID));
	assert_true(container_host_ok(ID + 1));
}

TEST(test_text)
{
	struct container c = { .id = ID, .pod = UID, .host = "server-0" };
	char buf[CONTAINER_TEXT_MAX];

	assert_string_equal(container_text(&c, buf), "container 0123456789ab, pod " UID ", host server-0");
	c.id[0] = c.host[0] = '\0';
	assert_string_equal(container_text(&c, buf), "pod " UID);
	assert_false(container_read(0, &c)); /* there is none */
}

RUN_TESTS(NULL, NULL)
