// SPDX-License-Identifier: BSD-2-Clause
#include "util/secret.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* Better to leave out one setting too many than to reveal one secret. */
static const char *const names[] = { "key", "token", "secret", "pass", "pwd", "auth", "cred", "cookie",
	"bearer" };

/* Parameters of a URL, or of settings that contain such lists. */
static const char *const parameters[] = { "key=", "token=", "secret=", "pass=", "password=", "passwd=", "pwd=",
	"auth=", "sig=", "signature=", "credential=", "creds=", "bearer ", "basic " };

/* OpenAI, Anthropic and others; Hugging Face; GitHub; GitLab; AWS; Google; Slack; a JSON web token. */
static const char *const prefixes[] = { "sk-", "hf_", "ghp_", "gho_", "ghs_", "github_pat_", "glpat-", "akia", "aiza",
	"xox", "eyj", "nvapi-" };

static bool has_any(const char *text, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (strcasestr(text, list[i]))
			return true;
	}
	return false;
}

bool secret_name(const char *name)
{
	return has_any(name, names, ARRAY_SIZE(names));
}

/* scheme://user:password@host, and the same without the scheme */
static bool has_user(const char *value)
{
	const char *at = strrchr(value, '@');
	const char *colon = strchr(value, ':');

	return at && colon && colon < at;
}

bool secret_value(const char *value)
{
	if (has_user(value) || has_any(value, parameters, ARRAY_SIZE(parameters)))
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++) {
		if (!strncasecmp(value, prefixes[i], strlen(prefixes[i])))
			return true;
	}
	return false;
}
