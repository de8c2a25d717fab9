// SPDX-License-Identifier: BSD-2-Clause
/* Presets: from JSON to probe specifications, with errors that name file, line and key. */
#include "engine/engine.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/spec.h"
#include "target/elf_pointers.h"
#include "util/log.h"

#define PRESET_MAX (1 << 20) /* bytes; the largest of ours has a few thousand */
#define ENUM_NAMES_MAX 4096
#define JSON_DEPTH_MAX 8

struct reader {
	const char *path;
	const char *text;
	struct probe_table *pt;
	struct engine *e;
};

/* The line on which a key is written first: json-c keeps no positions. */
static unsigned int line_of_key(const struct reader *r, const char *key)
{
	unsigned int line = 1;
	size_t len = strlen(key);

	for (const char *p = r->text; *p; p++) {
		if (*p == '\n')
			line++;
		if (*p == '"' && !strncmp(p + 1, key, len) && p[1 + len] == '"')
			return line;
	}
	return 1;
}

#define preset_error(r, key, fmt, ...)                                                             \
	(log_error("%s:%u: %s: " fmt, (r)->path, line_of_key(r, key), key, ##__VA_ARGS__), -EINVAL)

static int check_keys(const struct reader *r, struct json_object *obj, const char *const *known)
{
	json_object_object_foreach(obj, key, val) {
		size_t i = 0;

		(void)val;
		while (known[i] && strcmp(known[i], key))
			i++;
		if (!known[i])
			return preset_error(r, key, "unknown key");
	}
	return 0;
}

/* A string that is shown to people and written to traces. */
static int get_string(
	const struct reader *r, struct json_object *obj, const char *key, bool required, const char **ret)
{
	struct json_object *v;

	*ret = NULL;
	if (!json_object_object_get_ex(obj, key, &v))
		return required ? preset_error(r, key, "missing") : 0;
	if (!json_object_is_type(v, json_type_string))
		return preset_error(r, key, "must be a string");
	if (!*json_object_get_string(v) || json_object_get_string_len(v) > SPEC_STRING_MAX)
		return preset_error(r, key, "must have 1 to %d characters", SPEC_STRING_MAX);
	*ret = json_object_get_string(v);
	return 0;
}

static int read_enum(const struct reader *r, const char *name, struct json_object *obj, struct enum_table *t)
{
	static const char *const known[] = { "names", "table_symbol", NULL };
	struct json_object *names;
	const char *object;
	int err;

	if (!json_object_is_type(obj, json_type_object))
		return preset_error(r, name, "must be an object");
	err = check_keys(r, obj, known);
	if (err)
		return err;
	if (get_string(r, obj, "table_symbol", false, &object))
		return -EINVAL;
	if (!json_object_object_get_ex(obj, "names", &names) ||
		!json_object_is_type(names, json_type_array))
		return preset_error(r, name, "needs an array \"names\"");
	t->n = json_object_array_length(names);
	if (t->n > ENUM_NAMES_MAX)
		return preset_error(r, name, "more than %d names", ENUM_NAMES_MAX);
	t->name = strdup(name);
	t->names = calloc(t->n ? t->n : 1, sizeof(*t->names));
	t->object = object ? strdup(object) : NULL;
	if (!t->name || !t->names || (object && !t->object))
		return -ENOMEM;
	for (size_t i = 0; i < t->n; i++) {
		struct json_object *v = json_object_array_get_idx(names, i);

		if (!json_object_is_type(v, json_type_string) ||
			json_object_get_string_len(v) > SPEC_STRING_MAX)
			return preset_error(r, name, "name %zu must be a short string", i);
		t->names[i] = strdup(json_object_get_string(v));
		if (!t->names[i])
			return -ENOMEM;
	}
	return 0;
}

void engine_read_enums(struct engine *e, struct elf_file *elf)
{
	for (size_t i = 0; i < e->n_enums; i++) {
		struct enum_table *t = &e->enums[i];
		char **names;
		size_t n;

		if (!t->object || t->from_file || elf_strings_read(elf, t->object, &names, &n))
			continue;
		for (size_t k = 0; k < n; k++) {
			for (char *c = names[k]; c && *c; c++)
				*c = (char)tolower((unsigned char)*c);
		}
		elf_strings_free(t->names, t->n);
		t->names = names;
		t->n = n;
		t->from_file = true;
	}
}

static int read_enums(struct reader *r, struct json_object *root)
{
	struct json_object *enums;
	int err;

	if (!json_object_object_get_ex(root, "enums", &enums))
		return 0;
	if (!json_object_is_type(enums, json_type_object))
		return preset_error(r, "enums", "must be an object");
	r->e->enums = calloc((size_t)json_object_object_length(enums) + 1, sizeof(*r->e->enums));
	if (!r->e->enums)
		return -ENOMEM;
	json_object_object_foreach(enums, key, val) {
		err = read_enum(r, key, val, &r->e->enums[r->e->n_enums++]);
		if (err)
			return err;
	}
	return 0;
}

static int read_match(struct reader *r, struct json_object *root)
{
	static const char *const known[] = { "mapped", NULL };
	struct json_object *match, *mapped;
	int err;

	if (!json_object_object_get_ex(root, "match", &match) ||
		!json_object_is_type(match, json_type_object))
		return preset_error(r, "match", "missing or not an object");
	err = check_keys(r, match, known);
	if (err)
		return err;
	if (!json_object_object_get_ex(match, "mapped", &mapped) ||
		!json_object_is_type(mapped, json_type_array) || !json_object_array_length(mapped))
		return preset_error(r, "mapped", "must be an array of globs");
	r->e->mapped = calloc(json_object_array_length(mapped), sizeof(*r->e->mapped));
	if (!r->e->mapped)
		return -ENOMEM;
	for (size_t i = 0; i < json_object_array_length(mapped); i++) {
		struct json_object *v = json_object_array_get_idx(mapped, i);

		if (!json_object_is_type(v, json_type_string))
			return preset_error(r, "mapped", "must be an array of globs");
		r->e->mapped[i] = strdup(json_object_get_string(v));
		if (!r->e->mapped[i])
			return -ENOMEM;
		r->e->n_mapped++;
	}
	return 0;
}

static int read_args(struct reader *r, struct json_object *obj, struct probe_spec *s)
{
	const char *key = "args";
	struct json_object *args;

#ifdef __aarch64__
	if (json_object_object_get_ex(obj, "args_arm64", NULL))
		key = "args_arm64";
#endif
	if (!json_object_object_get_ex(obj, key, &args))
		return 0;
	if (!json_object_is_type(args, json_type_object))
		return preset_error(r, key, "must be an object");
	json_object_object_foreach(args, name, expr) {
		const char *why = "must be a string";

		if (!json_object_is_type(expr, json_type_string) ||
			spec_add_arg(s, name, json_object_get_string(expr), r->e->enums, r->e->n_enums,
				&why))
			return preset_error(r, name, "%s", why);
	}
	return 0;
}

static int read_probe(struct reader *r, struct json_object *obj)
{
	static const char *const known[] = { "library", "symbol", "begin", "end", "role", "args",
		"args_arm64", "name", NULL };
	const char *library, *symbol, *begin, *end, *role, *name, *why = NULL;
	struct probe_spec *s, *closing;
	int err;

	if (!json_object_is_type(obj, json_type_object))
		return preset_error(r, "probes", "each must be an object");
	err = check_keys(r, obj, known);
	if (err)
		return err;
	if (get_string(r, obj, "library", false, &library) ||
		get_string(r, obj, "symbol", false, &symbol) ||
		get_string(r, obj, "begin", false, &begin) || get_string(r, obj, "end", false, &end) ||
		get_string(r, obj, "role", true, &role) || get_string(r, obj, "name", false, &name))
		return -EINVAL;
	if (!symbol == !begin || !begin != !end)
		return preset_error(r, symbol ? "symbol" : "role", "give either symbol, or begin and end");
	/* a function that ends a pair may have a span of its own: one probe does both */
	s = spec_find(r->pt, r->e, library, symbol ? symbol : begin);
	if (!s)
		s = spec_append(r->pt, library, symbol ? symbol : begin);
	if (!s)
		return preset_error(r, "probes", "too many probes");
	if (s->flags & (PROBE_F_SPAN | PROBE_F_BEGIN))
		return preset_error(r, s->symbol, "is probed twice");
	s->engine = r->e;
	s->flags |= begin ? PROBE_F_BEGIN : PROBE_F_SPAN;
	if (spec_set_role(s, role))
		return preset_error(r, "role", "%s is not a role", role);
	err = read_args(r, obj, s);
	if (err)
		return err;
	if (name && spec_set_name(s, name, &why))
		return preset_error(r, "name", "%s: %s", name, why);
	if (!end)
		return 0;
	closing = spec_find(r->pt, r->e, library, end);
	if (!closing) {
		closing = spec_append(r->pt, library, end);
		if (!closing)
			return preset_error(r, "probes", "too many probes");
		closing->engine = r->e;
	}
	closing->flags |= PROBE_F_END;
	return 0;
}

static int read_root(struct reader *r, struct json_object *root)
{
	static const char *const known[] = { "name", "version", "checked", "match", "enums", "probes",
		NULL };
	struct json_object *v;
	const char *name;
	int err;

	if (!json_object_is_type(root, json_type_object)) {
		log_error("%s:1: a preset is a JSON object", r->path);
		return -EINVAL;
	}
	err = check_keys(r, root, known);
	if (err)
		return err;
	if (get_string(r, root, "name", true, &name))
		return -EINVAL;
	r->e->name = strdup(name);
	if (!r->e->name)
		return -ENOMEM;
	if (json_object_object_get_ex(root, "version", &v))
		r->e->version = (unsigned int)json_object_get_int(v);
	err = read_match(r, root);
	if (err)
		return err;
	err = read_enums(r, root);
	if (err)
		return err;
	if (!json_object_object_get_ex(root, "probes", &v) || !json_object_is_type(v, json_type_array))
		return preset_error(r, "probes", "must be an array");
	for (size_t i = 0; i < json_object_array_length(v) && !err; i++)
		err = read_probe(r, json_object_array_get_idx(v, i));
	return err;
}

static int read_text(const char *path, char **ret_text)
{
	FILE *f = fopen(path, "re");
	char *text;
	size_t n;

	if (!f)
		return -errno;
	text = malloc(PRESET_MAX + 1);
	if (!text) {
		fclose(f);
		return -ENOMEM;
	}
	n = fread(text, 1, PRESET_MAX + 1, f);
	if (ferror(f) || n > PRESET_MAX) {
		int err = ferror(f) ? -EIO : -EFBIG;

		free(text);
		fclose(f);
		return err;
	}
	text[n] = 0;
	fclose(f);
	*ret_text = text;
	return 0;
}

static int parse_text(struct reader *r, struct json_object **ret_root)
{
	struct json_tokener *tok = json_tokener_new_ex(JSON_DEPTH_MAX);
	struct json_object *root;
	enum json_tokener_error jerr;

	if (!tok)
		return -ENOMEM;
	json_tokener_set_flags(tok, JSON_TOKENER_STRICT);
	root = json_tokener_parse_ex(tok, r->text, (int)strlen(r->text) + 1);
	jerr = json_tokener_get_error(tok);
	if (jerr != json_tokener_success) {
		unsigned int line = 1;

		for (size_t i = 0; i < json_tokener_get_parse_end(tok); i++)
			line += r->text[i] == '\n';
		log_error("%s:%u: %s", r->path, line, json_tokener_error_desc(jerr));
	}
	json_tokener_free(tok);
	if (jerr != json_tokener_success)
		return -EINVAL;
	*ret_root = root;
	return 0;
}

static int load_file(struct probe_table *pt, const char *path)
{
	struct reader r = { .path = path, .pt = pt };
	struct json_object *root = NULL;
	struct engine **engines;
	char *text = NULL;
	int err;

	err = read_text(path, &text);
	if (err) {
		log_error("cannot read the preset %s: %s", path, strerror(-err));
		return err;
	}
	r.text = text;
	err = parse_text(&r, &root);
	if (err)
		goto out;
	err = -ENOMEM;
	engines = realloc(pt->engines, (pt->n_engines + 1) * sizeof(*engines));
	if (!engines)
		goto out;
	pt->engines = engines;
	r.e = calloc(1, sizeof(*r.e));
	if (!r.e)
		goto out;
	engines[pt->n_engines++] = r.e;
	err = read_root(&r, root);
out:
	json_object_put(root);
	free(text);
	return err;
}

/* Installed presets: beside the binary in a build tree, else where make install put them. */
static int engines_dir(char *buf, size_t size)
{
	const char *env = getenv("INFTRACE_ENGINES");
	char exe[PATH_MAX];
	struct stat st;
	ssize_t n;

	if (env) {
		snprintf(buf, size, "%s", env);
		return 0;
	}
	n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	if (n > 0) {
		exe[n] = 0;
		*strrchr(exe, '/') = 0;
		if (snprintf(buf, size, "%s/../engines", exe) < (int)size && !stat(buf, &st))
			return 0;
		if (snprintf(buf, size, "%s/../share/inftrace/engines", exe) < (int)size && !stat(buf, &st))
			return 0;
	}
	snprintf(buf, size, "%s", ENGINES_DIR);
	return stat(buf, &st) ? -ENOENT : 0;
}

int engine_load(struct probe_table *pt, const char *name)
{
	char dir[PATH_MAX + 32], path[PATH_MAX + 300];
	size_t len = strlen(name);

	if (strchr(name, '/') || (len > 5 && !strcmp(name + len - 5, ".json")))
		return load_file(pt, name);
	if (engines_dir(dir, sizeof(dir)) ||
		snprintf(path, sizeof(path), "%s/%s.json", dir, name) >= (int)sizeof(path) ||
		access(path, R_OK)) {
		log_error("no preset named %s in %s; give its file, or none", name, dir);
		return -ENOENT;
	}
	return load_file(pt, path);
}

static int is_preset(const struct dirent *d)
{
	size_t len = strlen(d->d_name);

	return d->d_name[0] != '.' && len > 5 && !strcmp(d->d_name + len - 5, ".json");
}

int engine_load_all(struct probe_table *pt)
{
	char dir[PATH_MAX + 32], path[PATH_MAX + 300];
	struct dirent **list;
	int n, err = 0;

	if (engines_dir(dir, sizeof(dir))) {
		log_warn("no presets in %s: no engine is detected (set INFTRACE_ENGINES)", dir);
		return 0;
	}
	n = scandir(dir, &list, is_preset, alphasort);
	for (int i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, list[i]->d_name);
		if (!err)
			err = load_file(pt, path);
		free(list[i]);
	}
	if (n >= 0)
		free(list);
	return err;
}
