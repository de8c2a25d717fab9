// SPDX-License-Identifier: BSD-2-Clause

#include "unit.h"
#include "util/text.h"

TEST(test_names)
{
	static const char *const secrets[] = { "VLLM_API_KEY", "LLAMA_ARG_HF_TOKEN", "NCCL_SECRET", "CUDA_PASSWORD",
		"VLLM_DB_PASS", "PGPASS", "vllm_pass", "OMP_AUTH", "VLLM_BASIC_AUTH", "GGML_CREDENTIALS",
		"--api-key", "--hf-token", "--ssl-keyfile-password", "VLLM_KEYRING", "VLLM_TOKEN_FILE", "VLLM_CREDS", "db_cred" };
	static const char *const settings[] = { "OMP_NUM_THREADS", "GGML_CUDA_NO_PINNED", "CUDA_VISIBLE_DEVICES",
		"--ctx-size", "-ngl", "LLAMA_ARG_CACHE_TYPE_K" };

	for (size_t i = 0; i < sizeof(secrets) / sizeof(secrets[0]); i++)
		assert_true(secret_name(secrets[i]));
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
		assert_false(secret_name(settings[i]));
}

TEST(test_values)
{
	static const char *const secrets[] = { "http://user:hush@host/x", "redis://:hush@host", "user:hush@host:80",
		"https://host/?api_key=hush", "https://host/?a=b&token=hush", "host=x PASSWORD=hush", "a=b,creds=hush",
		"Bearer hush", "Authorization: Basic aHVzaA==", "hf_hush", "sk-hush", "eyJhbGciOi" };
	static const char *const settings[] = { "", "1", "0,1", "http://host:8000/v1", "q8_0", "a=b", "/x/y.gguf",
		"name@place" };

	for (size_t i = 0; i < sizeof(secrets) / sizeof(secrets[0]); i++)
		assert_true(secret_value(secrets[i]));
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
		assert_false(secret_value(settings[i]));
}

RUN_TESTS(NULL, NULL)
