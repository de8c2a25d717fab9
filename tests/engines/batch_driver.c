// SPDX-License-Identifier: BSD-2-Clause
/*
 * Serves requests with a real llama.cpp build in batches that it makes itself, and logs what it did: every
 * step with the rows, sequences and outputs of its batch, every request with the steps in which it began
 * and got its tokens. A tracer has to find the same.
 *
 *   batch_driver [-w] [-e] [-r REQUESTS] [-l LOG] SCENE LIBDIR MODEL.gguf
 *
 * -e: by llama_process() with a llama_batch_ext, -ee: by turns with llama_decode()
 *
 * SCENE:
 *   serve     four sequences at once in one context, a new request as soon as one is over; at the end two alone
 *   alone     one request after the other, each in another sequence; prompts in parts of n_batch
 *   one       the same with llama_batch_get_one(), which leaves out all arrays but the tokens
 *   draft     steps that verify three drafts, of which none to all are taken
 *   turns     two requests at once, each with steps of its own, one after the other
 *   prefix    all four sequences share their prompt's rows, then go on apart
 */
#include "../program.h"

#include "llama_load.h"

#include <getopt.h>

#define N_SLOTS 4
#define N_BATCH 64
#define N_CTX 2048

struct request {
	int id, seq, prompt, fed, want, given; /* tokens */
	int position;
	int first_step, first_token_step, last_step;
	bool shared; /* a step with another one */
	int row;     /* of the step, whose output is its next token; -1: none */
	int32_t next;
};

static void *ctx, *sampler;
static FILE *out;
static struct batch batch;
static int n_steps, n_requests, n_samples;
static unsigned int seed = 7;
static int by_ext;

static int draw(int from, int to)
{
	seed = seed * 1103515245 + 12345;
	return from + (int)(seed / 65536 % (unsigned int)(to - from + 1));
}

static void load(const char *dir, const char *path)
{
	ctx = llama_open(&(struct llama_setup){ .dir = dir, .model = path, .n_ctx = N_CTX, .n_batch = N_BATCH,
		.n_seq_max = N_SLOTS, .n_threads = 1 });
	batch = llama_batch_init(N_BATCH, 0, N_SLOTS);
	sampler = llama_open_sampler(1);
}

static int add_row(int32_t token, int pos, int seq, bool output)
{
	return llama_batch_row(&batch, token, pos, seq, output);
}

static bool has_sequence(struct batch b, int row, int seq)
{
	for (int i = 0; i < b.n_seq_id[row]; i++) {
		if (b.seq_id[row][i] == seq)
			return true;
	}
	return false;
}

/* Its rows of each sequence, in their order: "SEQUENCE: ROWS at POSITION, ..." */
static void put_batch(struct batch b)
{
	unsigned int told = 0;

	for (int i = 0; b.seq_id && i < b.n_tokens; i++) {
		for (int k = 0; k < b.n_seq_id[i]; k++) {
			int seq = b.seq_id[i][k], rows = 0;

			if (told & 1u << seq)
				continue;
			for (int row = i; row < b.n_tokens; row++)
				rows += has_sequence(b, row, seq);
			fprintf(out, "%s%d: %d at %d", told ? ", " : "", seq, rows, b.pos[i]);
			told |= 1u << seq;
		}
	}
}

/* sequences, as a mask, and outputs that it asks for */
static void decode(struct batch b, unsigned int sequences, int outputs)
{
	fprintf(out, "{\"step\":%d,\"rows\":%d,\"outputs\":%d,\"sequences\":%u,\"n_sequences\":%d,\"position\":%d,\"batch\":\"",
		n_steps++, b.n_tokens, outputs, sequences, __builtin_popcount(sequences), b.pos ? b.pos[0] : -1);
	put_batch(b);
	fputs("\"}\n", out);
	if (b.seq_id && (by_ext == 1 || (by_ext && n_steps % 2)) ? llama_process_batch(ctx, &b) : llama_decode(ctx, b))
		die("the engine failed");
}

static int32_t sample(int row)
{
	n_samples++;
	return llama_sampler_sample(sampler, ctx, row);
}

static void request_begin(struct request *r, int seq, int prompt, int want)
{
	*r = (struct request){ .id = n_requests++, .seq = seq, .prompt = prompt, .want = want, .first_step = -1,
		.first_token_step = -1, .row = -1 };
}

static void request_end(struct request *r)
{
	fprintf(out,
		"{\"request\":%d,\"sequence\":%d,\"prompt\":%d,\"outputs\":%d,\"first_step\":%d,\"first_token_step\":%d,"
		"\"last_step\":%d,\"shared\":%s}\n",
		r->id, r->seq, r->prompt, r->given, r->first_step, r->first_token_step, r->last_step,
		r->shared ? "true" : "false");
	fflush(out);
	llama_memory_seq_rm(llama_get_memory(ctx), r->seq, -1, -1);
	r->want = 0;
}

/* Adds its token of the step before. */
static int request_decode(struct request *r)
{
	r->row = -1;
	if (!r->want || !r->given)
		return 0;
	r->row = add_row(r->next, r->position++, r->seq, true);
	return 1;
}

/* Adds as many rows of its prompt as there is room for. */
static int request_prefill(struct request *r)
{
	int rows = 0;

	for (; r->want && r->fed < r->prompt && batch.n_tokens < N_BATCH; rows++) {
		int i = add_row(draw(1, 90), r->position++, r->seq, r->fed + 1 == r->prompt);

		if (++r->fed == r->prompt)
			r->row = i;
	}
	if (rows && r->first_step < 0)
		r->first_step = n_steps;
	return rows;
}

static void request_token(struct request *r)
{
	r->last_step = n_steps - 1;
	if (r->row < 0)
		return;
	r->next = sample(r->row);
	if (!r->given++)
		r->first_token_step = n_steps - 1;
	if (r->given == r->want)
		request_end(r);
}

/* One step of all requests in the list. */
static void step(struct request *list, int n)
{
	unsigned int sequences = 0;
	bool in[N_SLOTS] = {};
	int outputs = 0;

	batch.n_tokens = 0;
	/* tokens first, as servers do: prompts get the room that is left */
	for (int i = 0; i < n; i++)
		in[i] = request_decode(&list[i]);
	for (int i = 0; i < n; i++) {
		in[i] |= request_prefill(&list[i]);
		if (in[i])
			sequences |= 1u << list[i].seq;
		outputs += in[i] && list[i].row >= 0;
	}
	decode(batch, sequences, outputs);
	for (int i = 0; i < n; i++) {
		list[i].shared |= in[i] && __builtin_popcount(sequences) > 1;
		if (in[i])
			request_token(&list[i]);
	}
}

static void scene_serve(int requests)
{
	struct request slots[N_SLOTS] = {};
	bool any = true;

	while (any) {
		any = false;
		for (int i = 0; i < N_SLOTS; i++) {
			/* the first one begins alone */
			if (!slots[i].want && n_requests < requests && n_steps >= 3 * i)
				request_begin(&slots[i], i, draw(2, 90), draw(5, 20));
			any |= slots[i].want > 0;
		}
		if (any)
			step(slots, N_SLOTS);
	}
	for (int i = 1; i < 3; i++) {
		request_begin(&slots[i], i, draw(2, 90), draw(2, 20));
		while (slots[i].want)
			step(&slots[i], 1);
	}
}

static void scene_alone(int requests)
{
	struct request r;

	for (int i = 0; i < requests; i++) {
		/* also one that has a single row left for its last part */
		request_begin(&r, i % N_SLOTS, i % 5 == 4 ? N_BATCH + 1 : draw(2, 3 * N_BATCH), draw(2, 20));
		while (r.want)
			step(&r, 1);
	}
}

static void scene_one(int requests)
{
	int32_t tokens[N_BATCH];
	struct request r;

	for (int i = 0; i < requests; i++) {
		request_begin(&r, 0, draw(2, 3 * N_BATCH), draw(2, 20));
		r.prompt += r.prompt % N_BATCH == 1; /* a last part of one row looks like a token */
		r.first_step = n_steps;
		while (r.want) {
			int n = r.prompt - r.fed < N_BATCH ? r.prompt - r.fed : N_BATCH;

			for (int k = 0; k < n; k++)
				tokens[k] = draw(1, 90);
			if (!n)
				tokens[n++] = r.next;
			else
				r.fed += n;
			decode(llama_batch_get_one(tokens, n), 1, 1);
			r.row = r.fed == r.prompt ? n - 1 : -1;
			r.row = r.row < 0 ? -1 : 0;
			r.last_step = n_steps - 1;
			if (r.row < 0)
				continue;
			r.next = sample(-1);
			if (!r.given++)
				r.first_token_step = n_steps - 1;
			if (r.given == r.want)
				request_end(&r);
		}
	}
}

/* The token that is certain and three guesses, each with an output; guesses that are not accepted are removed. */
static void scene_draft(int requests)
{
	struct request r;

	for (int i = 0; i < requests; i++) {
		request_begin(&r, i % N_SLOTS, draw(2, N_BATCH), 1000);
		while (!r.given)
			step(&r, 1);
		for (int k = draw(3, 10); k > 0; k--) {
			int taken = draw(1, 4), from = r.position;

			batch.n_tokens = 0;
			for (int row = 0; row < 4; row++)
				add_row(draw(1, 90), from + row, r.seq, true);
			decode(batch, 1u << r.seq, 4);
			for (int row = 0; row < taken; row++)
				r.next = sample(row);
			r.given += taken;
			r.position = from + taken;
			r.last_step = n_steps - 1;
			llama_memory_seq_rm(llama_get_memory(ctx), r.seq, r.position, -1);
		}
		step(&r, 1); /* it shows how many of the last guesses were accepted */
		request_end(&r);
	}
}

static void scene_turns(int requests)
{
	struct request two[2] = {};

	while (n_requests < requests || two[0].want || two[1].want) {
		for (int i = 0; i < 2; i++) {
			if (!two[i].want && n_requests < requests)
				request_begin(&two[i], i, draw(2, 90), draw(2, 20));
			if (two[i].want)
				step(&two[i], 1);
		}
	}
}

static void scene_prefix(int requests)
{
	struct request slots[N_SLOTS];

	for (int i = 0; i < requests; i += N_SLOTS) {
		int prompt = draw(2, N_BATCH);

		batch.n_tokens = 0;
		for (int row = 0; row < prompt; row++) {
			add_row(draw(1, 90), row, 0, row + 1 == prompt);
			for (int s = 1; s < N_SLOTS; s++)
				batch.seq_id[row][batch.n_seq_id[row]++] = s;
		}
		decode(batch, 15, 1);
		for (int s = 0; s < N_SLOTS; s++) {
			request_begin(&slots[s], s, prompt, 3);
			slots[s].fed = slots[s].position = prompt;
			slots[s].first_step = slots[s].first_token_step = n_steps - 1;
			slots[s].next = sample(prompt - 1);
			slots[s].given = 1;
			slots[s].shared = true;
		}
		while (slots[0].want)
			step(slots, N_SLOTS);
	}
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(int requests);
	} scenes[] = { { "serve", scene_serve }, { "alone", scene_alone }, { "one", scene_one },
		{ "draft", scene_draft }, { "turns", scene_turns }, { "prefix", scene_prefix } };
	void (*run)(int) = NULL;
	int opt, requests = 12;
	bool waits = false;

	out = stdout;
	while ((opt = getopt(argc, argv, "wer:l:")) != -1) {
		if (opt == 'w')
			waits = true;
		else if (opt == 'e')
			by_ext++;
		else if (opt == 'r')
			requests = atoi(optarg);
		else if (opt != 'l' || !(out = fopen(optarg, "we")))
			die("bad option");
	}
	for (size_t i = 0; argc - optind == 3 && i < LENGTH(scenes); i++) {
		if (!strcmp(scenes[i].name, argv[optind]))
			run = scenes[i].run;
	}
	if (!run)
		die("batch_driver [-w] [-e] [-r REQUESTS] [-l LOG] SCENE LIBDIR MODEL");
	load(argv[optind + 1], argv[optind + 2]);
	if (waits)
		line_wait();
	run(requests);
	fprintf(out, "{\"steps\":%d,\"requests\":%d,\"samples\":%d}\n", n_steps, n_requests, n_samples);
	fflush(out);
	_exit(0);
}
