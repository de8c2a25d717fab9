// SPDX-License-Identifier: BSD-2-Clause
#include "report/seq_words.h"

#include <string.h>

#include "report/model.h"
#include "report/sentence.h"

#define WAITS_SHOWN 3
/* A typical time below this share of one is not mentioned. */
#define TYPICAL_SHARE 0.1
/* A wait with a smaller share of the time for others counts among "others". */
#define WAIT_SHARE 0.1

const char *seq_words_part(enum seq_part part)
{
	static const char *const names[SEQ_PARTS] = {
		[SEQ_QUEUED] = "queued",
		[SEQ_OWN_PREFILL] = "own prefill",
		[SEQ_OWN_DECODE] = "own decode",
		[SEQ_OTHERS] = "work for others",
		[SEQ_BETWEEN] = "between steps",
	};

	return names[part];
}

static void add_recording(struct text *t, const struct process *p, uint32_t recording)
{
	if (p->recordings > 1)
		add(t, "recording %u, ", recording + 1);
}

static void add_tokens(struct text *t, const struct seq_request *r, const char *separator)
{
	add(t, "%s%u prompt token%s", separator, r->prompt_tokens, r->prompt_tokens == 1 ? "" : "s");
}

static void add_request(struct text *t, const struct process *p, const struct seq_request *r)
{
	add_recording(t, p, r->recording);
	add(t, "request %u (sequence %u", r->number, r->sequence);
	/* how long the prompt was that began before the recording is not known */
	if (!(r->flags & SEQ_BEGAN_BEFORE))
		add_tokens(t, r, ", ");
	add(t, ")");
}

/* Puts the longest waits within the time of the verdict into ret, longest first. */
static unsigned int longest_waits(const struct process *p, const struct seq_request *r, enum seq_kind kind, int64_t least,
	struct seq_wait ret[WAITS_SHOWN + 1])
{
	unsigned int n = 0, k;

	for (unsigned int i = 0; i < r->n_waits; i++) {
		struct seq_wait wait = p->seqs.waits[r->first_wait + i];

		wait.ns = seq_late_wait(r, &wait, kind);
		if (wait.ns < least)
			continue;
		for (k = n; k && ret[k - 1].ns < wait.ns; k--)
			ret[k] = ret[k - 1];
		ret[k] = wait;
		n += n < WAITS_SHOWN;
	}
	return n;
}

/* "310 ms for request 21 (2048 prompt tokens), 120 ms for request 22 and 40.1 ms for others" */
static void add_waits(struct text *t, const struct process *p, const struct seq_request *r, enum seq_kind kind, int64_t ns)
{
	struct seq_wait waits[WAITS_SHOWN + 1];
	int64_t least = (int64_t)(WAIT_SHARE * (double)ns) + 1, others = ns;
	unsigned int n = longest_waits(p, r, kind, least, waits);
	char d[DURATION_MAX];

	for (unsigned int i = 0; i < n; i++) {
		const struct seq_request *other = seq_find(&p->seqs, r->recording, waits[i].number);

		add(t, "%s%s for request %u", i ? ", " : "", words_duration(d, waits[i].ns), waits[i].number);
		if (other && other->prompt_tokens) {
			add_tokens(t, other, " (");
			add(t, ")");
		}
		others -= waits[i].ns;
	}
	if (!n)
		add(t, "%s for other requests", words_duration(d, ns));
	else if (others >= least)
		add(t, " and %s for others", words_duration(d, others));
}

static void add_instead(struct text *t, const struct seq_late_part *part)
{
	char d[DURATION_MAX];

	if ((double)part->typical >= TYPICAL_SHARE * (double)part->ns)
		add(t, part->part == SEQ_OTHERS ? " (typical: %s)" : " instead of %s", words_duration(d, part->typical));
}

static void add_part(struct text *t, const struct process *p, const struct seq_request *r, enum seq_kind kind,
	const struct seq_late_part *part)
{
	char d[DURATION_MAX], phrase[PHRASE_MAX];

	switch (part->part) {
	case SEQ_QUEUED:
		add(t, "%s queued", words_duration(d, part->ns));
		break;
	case SEQ_OTHERS:
		add_waits(t, p, r, kind, part->ns);
		break;
	case SEQ_BETWEEN:
		add(t, "%s between steps", words_duration(d, part->ns));
		break;
	case SEQ_OWN_PREFILL:
	case SEQ_OWN_DECODE:
		add(t, "its own %s took %s", part->part == SEQ_OWN_PREFILL ? "prefill" : "decode steps",
			words_duration(d, part->ns));
		break;
	case SEQ_PARTS:
		break;
	}
	add_instead(t, part);
	if (part->state != STATE_NONE)
		add(t, " (the calling thread %s)", words_phrase(phrase, part->state, part->state_ns));
}

const char *seq_words_late(const struct process *p, const struct seq_request *r, const struct seq_late *late,
	char buf[SENTENCE_MAX])
{
	struct text t = { .buf = buf, .size = SENTENCE_MAX };
	char d[DURATION_MAX];

	buf[0] = '\0';
	add_request(&t, p, r);
	switch (late->kind) {
	case SEQ_LATE_FIRST:
		add(&t, ", first token after %s", words_duration(d, late->value));
		break;
	case SEQ_LATE_TOKENS:
		add(&t, ", %s per token", words_duration(d, late->value));
		break;
	case SEQ_LATE_NONE:
		add(&t, r->flags & SEQ_CANCELLED ? ", cancelled without a token after %s" : ", no token after %s",
			words_duration(d, late->value));
		break;
	case SEQ_LATE_ANSWER:
		add(&t, ", answer written %s after its last step", words_duration(d, late->value));
		break;
	case SEQ_KINDS:
		break;
	}
	if (late->compared)
		add(&t, " instead of %s", words_duration(d, late->typical));
	/* half of it at least, as for states */
	if (late->kind == SEQ_LATE_ANSWER && 2 * late->held >= late->excess)
		add(&t, ": %s waiting in calls that write it, as for a client that reads slowly", words_duration(d, late->held));
	if (late->kind == SEQ_LATE_TOKENS)
		add(&t, " over %u", r->output_tokens - 1);
	for (uint32_t i = 0; i < late->n_parts; i++) {
		add(&t, i ? "; " : ": ");
		add_part(&t, p, r, late->kind, &late->parts[i]);
	}
	return buf;
}

const char *seq_words_culprit(const struct process *p, const struct seq_culprit *c, char buf[SENTENCE_MAX])
{
	const struct seq_request *r = seq_find(&p->seqs, c->recording, c->number);
	struct text t = { .buf = buf, .size = SENTENCE_MAX };
	char d[DURATION_MAX];

	buf[0] = '\0';
	if (r) {
		add_request(&t, p, r);
	} else {
		add_recording(&t, p, c->recording);
		add(&t, "request %u", c->number);
	}
	add(&t, ": %s, by ", words_duration(d, c->ns));
	if (c->victims > 1)
		add(&t, "%llu requests (%s by request %u)", (unsigned long long)c->victims, words_duration(d, c->worst),
			p->seqs.requests[c->worst_of].number);
	else
		add(&t, "request %u", p->seqs.requests[c->worst_of].number);
	return buf;
}

const char *seq_words_slo(const struct slo_result *r, char buf[SENTENCE_MAX])
{
	struct text t = { .buf = buf, .size = SENTENCE_MAX };
	char d[DURATION_MAX];

	buf[0] = '\0';
	add(&t, "goodput");
	if (r->judged)
		add(&t, " %.1f %% (%llu of %llu requests", 100 * (double)r->kept / (double)r->judged,
			(unsigned long long)r->kept, (unsigned long long)r->judged);
	if (r->judged && r->time)
		add(&t, ", %s per s", words_rate(d, (double)r->kept * 1e9 / (double)r->time));
	add(&t, r->judged ? ") with" : " not known, with");
	if (r->slo.ttft)
		add(&t, " ttft <= %s", words_duration(d, r->slo.ttft));
	if (r->slo.tpot)
		add(&t, "%s tpot <= %s", r->slo.ttft ? "," : "", words_duration(d, r->slo.tpot));
	if (r->missed_ttft)
		add(&t, "; %llu missed ttft", (unsigned long long)r->missed_ttft);
	if (r->missed_tpot)
		add(&t, "; %llu missed tpot", (unsigned long long)r->missed_tpot);
	if (r->unknown)
		add(&t, "; of %llu it is not known", (unsigned long long)r->unknown);
	return buf;
}
