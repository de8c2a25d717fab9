// SPDX-License-Identifier: BSD-2-Clause
#include "record/environment.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "util/text.h"
#include "util/user.h"

static const char *unless_blank(const char *value)
{
	return value && !text_is_blank(value, strlen(value)) ? value : NULL;
}

const char *environment_ours(const char *name)
{
	return unless_blank(getenv(name));
}

const char *environment_theirs(const struct environment *e, const char *name)
{
	return unless_blank(process_text_variable(&e->text, name));
}

void environment_read(pid_t pid, struct environment *ret)
{
	*ret = (struct environment){ .pid = pid };
	if (!pid || process_environ(pid, &ret->text))
		return;
	ret->may_choose = environment_may_choose(pid);
}

void environment_free(struct environment *e)
{
	process_text_free(&e->text);
	*e = (struct environment){ 0 };
}

bool environment_is_on(const char *value)
{
	static const char *const words[] = { "1", "true", "yes", "y", "on" };
	size_t len;

	value += strspn(value, " \t\n");
	len = strcspn(value, " \t\n");
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strlen(words[i]) == len && !strncasecmp(value, words[i], len))
			return true;
	}
	return false;
}

/* The other tool's tracing is off, so its other variables do not count. */
static bool is_off(const char *name, const char *value)
{
	return !strncmp(name, "VLLM_CHAKRA_", strlen("VLLM_CHAKRA_")) && value && !environment_is_on(value);
}

bool environment_find(const struct environment *e, const char *const names[2], struct variable *ret)
{
	const char *ours = environment_ours("VLLM_CHAKRA_TRACE"), *theirs = environment_theirs(e, "VLLM_CHAKRA_TRACE");

	for (int i = 0; i < 4; i++) {
		const char *name = names[i % 2];
		struct variable v = { .name = name };

		if (is_off(name, ours) || (i > 1 && is_off(name, theirs)))
			continue;
		v.value = i < 2 ? environment_ours(name) : environment_theirs(e, name);
		v.pid = i < 2 ? 0 : e->pid;
		if (!v.value)
			continue;
		*ret = v;
		return true;
	}
	return false;
}

static bool same_link(pid_t pid, const char *name)
{
	char path[64], theirs[PATH_MAX], ours[PATH_MAX];
	ssize_t n, k;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	n = readlink(path, theirs, sizeof(theirs));
	snprintf(path, sizeof(path), "/proc/self/%s", name);
	k = readlink(path, ours, sizeof(ours));
	return n > 0 && n == k && !memcmp(theirs, ours, (size_t)n);
}

bool environment_may_choose(pid_t pid)
{
	uid_t uid;

	return !process_user(pid, &uid) && (!uid || uid == user_calling()) && same_link(pid, "ns/mnt");
}

char *environment_path(const struct variable *v)
{
	char link[64], cwd[PATH_MAX] = "", *whole;
	ssize_t n;

	if (!v->pid || *v->value == '/')
		return strdup(v->value);
	snprintf(link, sizeof(link), "/proc/%d/cwd", v->pid);
	n = readlink(link, cwd, sizeof(cwd) - 1);
	cwd[n > 0 ? n : 0] = 0;
	return asprintf(&whole, "%s/%s", cwd, v->value) < 0 ? NULL : whole;
}

const char *environment_whose(const struct variable *v, char buf[32])
{
	if (!v->pid)
		return "in the environment";
	snprintf(buf, 32, "of process %d", v->pid);
	return buf;
}
