// SPDX-License-Identifier: BSD-2-Clause
/* The page: page.html with the report's JSON and the plots in it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "report/code_object.h"
#include "report/json.h"
#include "report/plot.h"
#include "report/report.h"
#include "report/seq_object.h"
#include "report/words.h"

/* The files as they are, each followed by a NUL. */
#define EMBED(name, file)                         \
	__asm__(".section .rodata\n"               \
		".global " #name "\n" #name ":\n" \
		".incbin \"" file "\"\n"           \
		".byte 0\n"                        \
		".previous\n");                    \
	extern const char name[]

EMBED(report_page, "report/page.html");
EMBED(report_flames, "report/flame.js");

/* Where they go into the page, in this order. */
#define DATA_PLACE "@DATA@"
#define FLAMES_PLACE "@FLAMES@"

/* Whatever the strings contain, no "</script>" or "<!--" can end or hide the element around them:
 * outside of strings JSON has none of these characters. */
static size_t escape(const char *text, size_t len, char *out)
{
	char *p = out;

	for (size_t i = 0; i < len; i++) {
		switch (text[i]) {
		case '<':
			p = stpcpy(p, "\\u003c");
			break;
		case '>':
			p = stpcpy(p, "\\u003e");
			break;
		case '&':
			p = stpcpy(p, "\\u0026");
			break;
		default:
			*p++ = text[i];
		}
	}
	return (size_t)(p - out);
}

/* Puts the plot of each process into its object, whose index in the array is that of the process
 * among those that are not empty. */
static void put_plots(struct json_build *b, const struct report *r, struct json_object *data)
{
	struct json_object *processes = json_object_object_get(data, "processes"), *plot, *states;
	size_t at = 0;

	for (size_t i = 0; i < r->model.n_processes; i++) {
		const struct process *p = r->model.processes[i];

		if (process_empty(p))
			continue;
		plot = plot_object(b, &r->model, p, &r->phases, &r->summaries[i]);
		if (plot)
			json_put(b, json_object_array_get_idx(processes, at), "plot", plot);
		plot = seq_plot_object(b, p, &r->summaries[i].seqs);
		if (plot)
			json_put(b, json_object_array_get_idx(processes, at), "requests_plot", plot);
		plot = code_flames(b, &r->model, p, &r->summaries[i]);
		if (plot)
			json_put(b, json_object_array_get_idx(processes, at), "flames", plot);
		at++;
	}
	states = json_new_array(b);
	for (unsigned int s = 0; s < STATES; s++)
		json_append(b, states, json_object_new_string(words_state(s)));
	json_put(b, data, "states", states);
}

/* Copies the page up to the place, which is left out. */
static char *copy_to(char *out, const char **page, const char *place)
{
	const char *end = place ? strstr(*page, place) : *page + strlen(*page);

	memcpy(out, *page, (size_t)(end - *page));
	out += end - *page;
	*page = end + (place ? strlen(place) : 0);
	return out;
}

int report_html(const struct report *r, uint32_t slowest, char **ret_page, size_t *ret_len)
{
	struct json_object *data = report_object(r, slowest);
	struct json_build b = { .failed = !data };
	const char *rest = report_page, *text = NULL;
	char *page = NULL, *out;
	size_t len = 0;

	if (data) {
		put_plots(&b, r, data);
		text = json_text(&b, data, &len);
	}
	if (!b.failed)
		page = malloc(strlen(report_page) + strlen(report_flames) + 6 * len);
	if (!page)
		goto out;
	out = copy_to(page, &rest, DATA_PLACE);
	out += escape(text, len, out);
	out = copy_to(out, &rest, FLAMES_PLACE);
	out = stpcpy(out, report_flames);
	out = copy_to(out, &rest, NULL);
	*ret_page = page;
	*ret_len = (size_t)(out - page);
out:
	json_object_put(data);
	return page ? 0 : -ENOMEM;
}
