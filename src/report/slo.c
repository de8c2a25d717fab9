// SPDX-License-Identifier: BSD-2-Clause
/* Which requests kept the promise of a service. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "report/seq_summary.h"
#include "util/parse.h"
#include "util/text.h"

static int parse_one(const char *key, const char *value, struct slo *slo, char why[SLO_WHY_MAX])
{
	bool ttft = !strcmp(key, "ttft"), tpot = !strcmp(key, "tpot");
	int64_t *member = ttft ? &slo->ttft : &slo->tpot;
	char shown[64], line[PARSE_ERROR_MAX];
	uint64_t ns;
	int err;

	if ((!ttft && !tpot) || *member) {
		snprintf(why, SLO_WHY_MAX, "--slo: %s `%s`; write ttft=500ms,tpot=50ms or one of them",
			ttft || tpot ? "twice" : "there is no", text_printable(shown, sizeof(shown), key));
		return -EINVAL;
	}
	if (*value && !value[strspn(value, "0123456789.")]) {
		snprintf(why, SLO_WHY_MAX, "--slo: %s=%s has no unit; write %s=%sms or %s=%ss", key, text_printable(shown, sizeof(shown), value),
			key, shown, key, shown);
		return -EINVAL;
	}
	err = parse_duration(value, &ns);
	if (!err && !ns)
		err = -EINVAL;
	if (err) {
		snprintf(why, SLO_WHY_MAX, "%s", parse_error(line, PARSE_DURATION, "--slo", value, err));
		return -EINVAL;
	}
	*member = (int64_t)ns;
	return 0;
}

int slo_parse(const char *text, struct slo *ret, char why[SLO_WHY_MAX])
{
	char copy[128], *save = NULL, shown[64];
	struct slo slo = { 0 };
	int err = 0;

	if (snprintf(copy, sizeof(copy), "%s", text) >= (int)sizeof(copy) || !*text)
		goto bad;
	for (char *part = strtok_r(copy, ",", &save); part && !err; part = strtok_r(NULL, ",", &save)) {
		char *value = strchr(part, '=');

		if (!value)
			goto bad;
		*value++ = '\0';
		err = parse_one(part, value, &slo, why);
	}
	if (err)
		return err;
	if (!slo.ttft && !slo.tpot)
		goto bad;
	*ret = slo;
	return 0;
bad:
	snprintf(why, SLO_WHY_MAX, "--slo: '%s' is not understood; write ttft=500ms,tpot=50ms or one of them",
		text_printable(shown, sizeof(shown), text));
	return -EINVAL;
}

/* Whether it has kept the limit so far; *ret_known: that will not change. */
static bool kept(int64_t limit, int64_t value, int64_t so_far, bool *ret_known)
{
	if (!limit)
		return true;
	if (value >= 0)
		return value <= limit;
	/* it has already waited longer than that */
	if (so_far > limit)
		return false;
	*ret_known = false;
	return true;
}

static void judge(const struct seq_exchange *e, struct slo_result *ret)
{
	bool known = true, ttft, tpot;

	ttft = kept(ret->slo.ttft, e->first, e->outputs ? 0 : e->total, &known);
	/* one token has no time between tokens, so it keeps any limit; a request without tokens has not kept it */
	known &= e->outputs != 0;
	tpot = e->outputs < 2 || kept(ret->slo.tpot, e->tpot, 0, &known);
	if (ttft && tpot && !known) {
		ret->unknown++;
		return;
	}
	ret->judged++;
	ret->kept += ttft && tpot;
	ret->missed_ttft += !ttft;
	ret->missed_tpot += !tpot;
}

/* What is known of a request where no socket was seen. */
static struct seq_exchange exchange_of(const struct seq_request *r)
{
	return (struct seq_exchange){
		.ts = r->ts,
		.total = r->total,
		.first = seq_first_token(r),
		.tpot = r->tpot,
		.recording = r->recording,
		.outputs = r->output_tokens,
	};
}

void slo_judge(const struct process *p, const struct slo *slo, struct slo_result *ret)
{
	bool clients = p->seqs.n_exchanges;
	size_t n = clients ? p->seqs.n_exchanges : p->seqs.len;
	int64_t start = 0, end = 0;
	uint32_t recording = 0;

	*ret = (struct slo_result){ .slo = *slo };
	for (size_t i = 0; i < n; i++) {
		struct seq_exchange e = clients ? p->seqs.exchanges[i] : exchange_of(&p->seqs.requests[i]);

		if (!clients && p->seqs.requests[i].flags & (SEQ_BEGAN_BEFORE | SEQ_LOST | SEQ_MIXED))
			ret->unknown++;
		else
			judge(&e, ret);
		/* recordings do not overlap */
		if (!i || e.recording != recording) {
			ret->time = ns_add(ret->time, end - start);
			recording = e.recording;
			start = e.ts;
			end = 0;
		}
		start = e.ts < start ? e.ts : start;
		if (ns_add(e.ts, e.total) > end)
			end = ns_add(e.ts, e.total);
	}
	ret->time = ns_add(ret->time, end - start);
}
