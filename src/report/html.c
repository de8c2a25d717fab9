// SPDX-License-Identifier: BSD-2-Clause
/* The page: page.html with the report's JSON and the plots in it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "report/json.h"
#include "report/plot.h"
#include "report/report.h"
#include "report/seq_object.h"
#include "report/words.h"

/* The file as it is, followed by a NUL. */
__asm__(".section .rodata\n"
	".global report_page\n"
	"report_page:\n"
	".incbin \"report/page.html\"\n"
	".byte 0\n"
	".previous\n");
extern const char report_page[];

#define PLACE "@DATA@"

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
		at++;
	}
	states = json_new_array(b);
	for (unsigned int s = 0; s < STATES; s++)
		json_append(b, states, json_object_new_string(words_state(s)));
	json_put(b, data, "states", states);
}

int report_html(const struct report *r, uint32_t slowest, char **ret_page, size_t *ret_len)
{
	struct json_object *data = report_object(r, slowest);
	const char *place = strstr(report_page, PLACE), *text = NULL;
	struct json_build b = { .failed = !data };
	size_t head = (size_t)(place - report_page), len = 0, used;
	char *page = NULL;

	if (data) {
		put_plots(&b, r, data);
		text = json_text(&b, data, &len);
	}
	if (!b.failed)
		page = malloc(strlen(report_page) + 6 * len);
	if (!page)
		goto out;
	memcpy(page, report_page, head);
	used = head + escape(text, len, page + head);
	place += strlen(PLACE);
	memcpy(page + used, place, strlen(place));
	*ret_page = page;
	*ret_len = used + strlen(place);
out:
	json_object_put(data);
	return page ? 0 : -ENOMEM;
}
