// SPDX-License-Identifier: BSD-2-Clause
#include "target/container.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "target/process.h"

#define CGROUPS_MAX 8192
#define ID_DIGITS 64
#define UID_LEN 36
#define STATIC_UID_LEN 32 /* of pods that the kubelet has from files */

static size_t hex_digits(const char *text, size_t len)
{
	size_t n = 0;

	while (n < len && (isdigit((unsigned char)text[n]) || (text[n] >= 'a' && text[n] <= 'f')))
		n++;
	return n;
}

/* Whether the rest of a directory's name is one that systemd adds. */
static bool is_suffix(const char *text, size_t len)
{
	return !len || (len == 6 && (!memcmp(text, ".scope", 6) || !memcmp(text, ".slice", 6)));
}

/* DIGITS, docker-DIGITS.scope, cri-containerd-DIGITS.scope, crio-DIGITS.scope, libpod-DIGITS.scope; of the last the monitor has a cgroup of
 * its own, libpod-conmon-DIGITS.scope. */
static void take_id(const char *name, size_t len, struct container *c)
{
	const char *dash = memrchr(name, '-', len), *digits = dash ? dash + 1 : name;
	size_t left = len - (size_t)(digits - name);

	if (hex_digits(digits, left) != ID_DIGITS || !is_suffix(digits + ID_DIGITS, left - ID_DIGITS) || memmem(name, len, "conmon-", 7))
		return;
	memcpy(c->id, digits, ID_DIGITS);
	c->id[ID_DIGITS] = '\0';
}

/* 8-4-4-4-12 digits, which systemd's names have with '_'; or 32 of them. Returns the length, or 0. */
static size_t uid_length(const char *text, size_t len)
{
	size_t n = hex_digits(text, len);

	if (n == STATIC_UID_LEN)
		return n;
	for (size_t i = 0; i < UID_LEN; i++) {
		bool dash = i == 8 || i == 13 || i == 18 || i == 23;

		if (i >= len || (dash ? text[i] != '-' && text[i] != '_' : !hex_digits(text + i, 1)))
			return 0;
	}
	return UID_LEN;
}

/* podUID, kubepods-burstable-podUID.slice */
static void take_pod(const char *name, size_t len, struct container *c)
{
	const char *pod = name;

	while ((pod = memmem(pod, len - (size_t)(pod - name), "pod", 3))) {
		size_t left = len - (size_t)(pod + 3 - name), n = uid_length(pod + 3, left);

		if (n && (pod == name || pod[-1] == '-') && is_suffix(pod + 3 + n, left - n)) {
			for (size_t i = 0; i < n; i++)
				c->pod[i] = pod[3 + i] == '_' ? '-' : pod[3 + i];
			c->pod[n] = '\0';
		}
		pod += 3;
	}
}

/* Lines are "N:CONTROLLERS:PATH". The innermost one counts, as for a container in a container. */
bool container_of_cgroups(const char *cgroups, struct container *ret)
{
	struct container c = { 0 };

	while (*cgroups) {
		size_t line = strcspn(cgroups, "\n");
		const char *end = cgroups + line, *name = memchr(cgroups, '/', line);

		while (name && name < end) {
			size_t len;

			name++;
			len = strcspn(name, "/\n");
			take_id(name, len, &c);
			take_pod(name, len, &c);
			name += len;
		}
		cgroups = end + (*end == '\n');
	}
	if (!c.id[0] && !c.pod[0])
		return false;
	*ret = c;
	return true;
}

bool container_host_ok(const char *text)
{
	size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.");

	return n && n < CONTAINER_HOST_MAX && !text[n];
}

bool container_read(pid_t pid, struct container *ret)
{
	char path[64], cgroups[CGROUPS_MAX];
	struct process_text env;
	const char *host;
	size_t n;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/cgroup", pid);
	f = fopen(path, "re");
	if (!f)
		return false;
	n = fread(cgroups, 1, sizeof(cgroups) - 1, f);
	fclose(f);
	cgroups[n] = '\0';
	if (!container_of_cgroups(cgroups, ret))
		return false;
	if (process_environ(pid, &env))
		return true;
	host = process_text_variable(&env, "HOSTNAME");
	if (host && container_host_ok(host))
		strcpy(ret->host, host);
	process_text_free(&env);
	return true;
}

const char *container_text(const struct container *c, char buf[CONTAINER_TEXT_MAX])
{
	int n = 0;

	buf[0] = '\0';
	if (c->id[0])
		n += snprintf(buf, CONTAINER_TEXT_MAX, "container %.12s", c->id);
	if (c->pod[0])
		n += snprintf(buf + n, CONTAINER_TEXT_MAX - (size_t)n, "%spod %s", n ? ", " : "", c->pod);
	if (c->host[0])
		snprintf(buf + n, CONTAINER_TEXT_MAX - (size_t)n, "%shost %s", n ? ", " : "", c->host);
	return buf;
}
