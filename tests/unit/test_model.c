// SPDX-License-Identifier: BSD-2-Clause
/* What a process says about its model and settings: command lines, and files that this process maps. */
#include <fcntl.h>
#include <json-c/json.h>
#include <sys/mman.h>

#include "target/command.h"
#include "target/process.h"
#include "unit.h"

/* A command line as one text, in which '|' stands for the NUL after each string. */
static struct process_text cmdline(const char *text)
{
	static char copy[1024];
	size_t len = strlen(text);

	memcpy(copy, text, len + 1);
	for (size_t i = 0; i < len; i++)
		copy[i] = text[i] == '|' ? 0 : text[i];
	return (struct process_text){ .data = copy, .len = len };
}

TEST(test_options)
{
	static const struct {
		const char *cmdline, *json;
	} cases[] = {
		{ "x|", "{}" },
		{ "x|-t|2|-ngl|99|--temp|-0.5|--flash-attn|", /* a negative number is a value */
			"{\"-t\":\"2\",\"-ngl\":\"99\",\"--temp\":\"-0.5\",\"--flash-attn\":true}" },
		{ "x|--ctx-size=4096|--split-mode|row|", "{\"--ctx-size\":\"4096\",\"--split-mode\":\"row\"}" },
		{ "x|-p|Hello|--prompt|Hello|--system-prompt=Hi|", "{}" },
		{ "x|--text|some words|--other|some words|", "{}" },
		{ "x|--api-key|hush|--hf-token=hush|--url|http://me:hush@host|--x|hf_hush|", "{}" },
		{ "x|--max-num-batched-tokens|8192|--token|8192|", "{\"--max-num-batched-tokens\":\"8192\"}" },
		{ "sh|-c|inftrace --api-key hush|", "{}" },
		{ "x|--|--not|ours|", "{}" },
		{ "x|--a\x1b[2J|1|--b|\xff|", "{}" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct process_text t = cmdline(cases[i].cmdline);
		struct json_object *obj = json_object_new_object();

		model_add_options(&t, obj);
		assert_string_equal(json_object_to_json_string_ext(obj, JSON_C_TO_STRING_PLAIN), cases[i].json);
		json_object_put(obj);
	}
}

TEST(test_cmdline)
{
	static const struct {
		const char *cmdline, *name;
	} cases[] = {
		{ "llama-server|-m|/models/a.gguf|", "a.gguf" },
		{ "llama-server|-t|2|-m|a.gguf|", "a.gguf" },
		{ "llama-server|--model=/x/y/a.gguf|", "a.gguf" },
		{ "python3|-m|vllm.entrypoints|--model|meta-llama/Llama-3|", "meta-llama/Llama-3" },
		{ "python3|-m|vllm|", NULL },
		{ "x|--model||", NULL },
		{ "x|--model|https://me:hush@host/x|", NULL },
		{ "x|", NULL },
		{ "/usr/bin/python3|/usr/bin/vllm|serve|meta-llama/Llama-3|--port|80|", "meta-llama/Llama-3" },
		{ "ferrum|serve|/models/a.gguf|", "a.gguf" },
		{ "vllm|serve|--model|b|", "b" },
		{ "vllm|serve|", NULL },
		{ "nginx|serve|x|", NULL },
		{ "llama-server|-hf|ggml-org/gemma:Q4_K|", "ggml-org/gemma:Q4_K" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct process_text t = cmdline(cases[i].cmdline);
		char name[MODEL_NAME_MAX];
		int err = model_of_cmdline(&t, name);

		if (cases[i].name) {
			assert_int_equal(err, 0);
			assert_string_equal(name, cases[i].name);
		} else {
			assert_true(err < 0);
		}
	}
}

TEST(test_concurrency)
{
	static const struct {
		const char *cmdline;
		uint32_t n;
	} cases[] = { { "llama-server|-np|4|", 4 }, { "llama-server|--parallel=8|-t|2|", 8 },
		{ "vllm|serve|x|--max-num-seqs|32|", 32 }, { "x|-np|4|-np|-1|", 4 }, { "x|-np|0|", 0 },
		{ "x|--parallel|", 0 }, { "x|-t|2|", 0 } };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct process_text t = cmdline(cases[i].cmdline);

		assert_int_equal(model_concurrency(&t), cases[i].n);
	}
}

/* The larger of two; one that is only open if none is mapped; also after it was removed. */
TEST(test_files)
{
	char dir[] = "/tmp/test_model.XXXXXX", path[128], name[MODEL_NAME_MAX];
	void *maps[2];
	int fds[2];

	assert_non_null(mkdtemp(dir));
	assert_true(model_of_files(getpid(), name) < 0);
	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/%d.GGUF", dir, i);
		fds[i] = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		assert_true(fds[i] >= 0);
		assert_int_equal(ftruncate(fds[i], 8192 << i), 0);
		unlink(path);
		if (!i) {
			assert_int_equal(model_of_files(getpid(), name), 0);
			assert_string_equal(name, "0.GGUF");
		}
		maps[i] = mmap(NULL, 8192u << i, PROT_READ, MAP_PRIVATE, fds[i], 0);
		assert_true(maps[i] != MAP_FAILED);
		close(fds[i]);
	}
	assert_int_equal(model_of_files(getpid(), name), 0);
	assert_string_equal(name, "1.GGUF");
	munmap(maps[1], 16384);
	assert_int_equal(model_of_files(getpid(), name), 0);
	assert_string_equal(name, "0.GGUF");
	munmap(maps[0], 8192);
	rmdir(dir);
}

RUN_TESTS(NULL, NULL)
