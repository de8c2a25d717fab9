// SPDX-License-Identifier: BSD-2-Clause
/*
 * Hands the bundled engine batches with broken arrays: it only looks at the tokens, but a tracer that follows
 * the other arrays must not fail, nor claim to know what it could not read. Prints for each call what can be
 * known, as JSON.
 */
#include "../program.h"

#include "batch_ext.h"
#include "mini/llama.h"

#define ROWS 20000 /* more than are read */

static int32_t tokens[ROWS], positions[ROWS], counts[ROWS], ids[ROWS];
static int32_t *pointers[ROWS];
static int8_t logits[ROWS];
static struct llama_context *ctx;

/* n rows of sequence 3 from position 5 on, each with an output. */
static struct llama_batch good(int32_t n)
{
	for (int i = 0; i < ROWS; i++) {
		positions[i] = 5 + i;
		counts[i] = 1;
		ids[i] = 3;
		pointers[i] = &ids[i];
		logits[i] = 1;
	}
	return (struct llama_batch){ n, tokens, NULL, positions, counts, pointers, logits };
}

static void call(struct llama_batch b, const char *wanted)
{
	printf("{\"n_tokens\":%d%s}\n", b.n_tokens, wanted);
	llama_memory_clear(ctx, false);
	llama_decode(ctx, b);
}

/* An array of `size` bytes at the very end of a mapping. */
static void *at_the_end(const void *from, size_t size)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *p = pages_map(2 * page, MAP_PRIVATE);

	must(!munmap(p + page, page), "munmap");
	return memcpy(p + page - size, from, size);
}

static void calls_with_junk(void *junk)
{
	struct llama_batch b = good(4);

	b.seq_id = junk;
	call(b, ",\"position\":5,\"rows_read\":0,\"phase\":\"unknown\"");
	b = good(4);
	b.n_seq_id = junk;
	call(b, ",\"position\":5,\"rows_read\":0,\"phase\":\"unknown\"");
	b = good(4);
	b.logits = junk;
	call(b, ",\"position\":5,\"rows_read\":0,\"phase\":\"unknown\"");
	b = good(4);
	b.pos = junk;
	call(b, ",\"n_outputs\":4,\"n_sequences\":1,\"sequence\":3,\"phase\":\"decode\"");
	b = good(1);
	b.seq_id = junk;
	call(b, ",\"position\":5,\"rows_read\":0,\"phase\":\"decode\"");
	/* the third row's, of one sequence and of two */
	b = good(4);
	pointers[2] = junk;
	call(b, ",\"n_outputs\":2,\"position\":5,\"rows_read\":2,\"phase\":\"unknown\"");
	ids[1] = 4;
	call(b, ",\"n_outputs\":2,\"n_sequences\":2,\"position\":5,\"rows_read\":2,\"phase\":\"mixed\"");
}

static void calls_of_any_number(void)
{
	struct llama_batch b = good(4);

	counts[0] = -1;
	call(b, ",\"position\":5,\"rows_read\":0,\"phase\":\"unknown\"");
	counts[0] = INT_MAX;
	call(b, ",\"position\":5,\"rows_read\":0,\"phase\":\"unknown\"");
	counts[0] = 0; /* a row of no sequence */
	call(b, ",\"n_outputs\":4,\"n_sequences\":1,\"sequence\":3,\"position\":5,\"phase\":\"decode\"");
	b = good(4);
	ids[2] = -7; /* valid as a number, but not among the first 64 */
	call(b, ",\"n_outputs\":4,\"n_sequences\":2,\"position\":5,\"phase\":\"mixed\"");
	b = good(4);
	ids[0] = ids[2] = 63;
	call(b, ",\"n_outputs\":4,\"n_sequences\":2,\"sequences\":9223372036854775816,\"position\":5,\"phase\":\"mixed\"");
	b = good(256);
	for (int i = 0; i < 256; i++)
		ids[i] = i;
	call(b, ",\"n_outputs\":256,\"n_sequences\":256,\"position\":5,\"phase\":\"mixed\"");
	b = good(2);
	counts[0] = 256;
	for (int i = 0; i < 256; i++)
		ids[i] = i;
	call(b, ",\"n_outputs\":2,\"n_sequences\":256,\"position\":5,\"phase\":\"mixed\"");
	b = good(0);
	call(b, ",\"n_outputs\":0,\"n_sequences\":0,\"phase\":\"unknown\"");
	b = good(ROWS);
	call(b, ",\"n_outputs\":16384,\"position\":5,\"rows_read\":16384,\"phase\":\"unknown\"");
	ids[9] = 1;
	call(b, ",\"n_outputs\":16384,\"n_sequences\":2,\"position\":5,\"rows_read\":16384,\"phase\":\"mixed\"");
	/* more than a table has room for: only as many as could be told apart */
	b = good(ROWS);
	for (int i = 0; i < ROWS; i++)
		ids[i] = i * 7;
	call(b, ",\"position\":5,\"phase\":\"mixed\",\"many\":true");
}

/* ---- batches that are as they should be, laid out in all ways ---- */

#define SEQUENCES_MAX 512

static bool row_has(const struct llama_batch *b, int row, int32_t id)
{
	for (int k = 0; k < b->n_seq_id[row]; k++) {
		if (b->seq_id[row][k] == id)
			return true;
	}
	return false;
}

/* What there is of it, told in the simplest way: of each sequence, in the order in which they come, how many rows from
 * which position, and all outputs. */
static void tell(const struct llama_batch *b)
{
	static int32_t told[SEQUENCES_MAX];
	int n_told = 0, outputs = 0;

	printf("{\"n_tokens\":%d,\"parts\":[", b->n_tokens);
	for (int i = 0; i < b->n_tokens; i++) {
		outputs += b->logits[i] != 0;
		for (int k = 0; k < b->n_seq_id[i]; k++) {
			int32_t id = b->seq_id[i][k];
			int t = 0, rows_of = 0;

			while (t < n_told && told[t] != id)
				t++;
			if (t < n_told)
				continue;
			for (int row = i; row < b->n_tokens; row++)
				rows_of += row_has(b, row, id);
			printf("%s\"%d: %d at %d\"", n_told ? "," : "", id, rows_of, b->pos[i]);
			told[n_told++] = id;
		}
	}
	printf("],\"n_outputs\":%d}\n", outputs);
}

static void call_told(struct llama_batch b)
{
	tell(&b);
	llama_memory_clear(ctx, false);
	llama_decode(ctx, b);
}

static unsigned int seed = 1;

static unsigned int draw(unsigned int n)
{
	seed = seed * 1103515245 + 12345;
	return (seed >> 16) % n;
}

/* The rows' numbers in another order, and further apart. */
static void lay_out(int n, unsigned int way)
{
	static int32_t far[ROWS];
	static char wide[ROWS * 300];

	for (int i = 0; i < n; i++) {
		int32_t id = *pointers[i];

		switch (way) {
		case 1: /* as from a heap that gives back what was freed last */
			pointers[i] = &far[n - 1 - i];
			break;
		case 2:
			pointers[i] = draw(20) ? &ids[i] : &far[i];
			break;
		case 3:
			pointers[i] = (int32_t *)(wide + 32 * i);
			break;
		case 4:
			pointers[i] = (int32_t *)(wide + 300 * i);
			break;
		}
		*pointers[i] = id;
	}
}

static void calls_of_any_layout(void)
{
	static int32_t lists[ROWS][3];

	for (unsigned int turn = 0; turn < 120; turn++) {
		int n = 2 + (int)draw(turn % 3 ? 70 : 500), id = 0;
		struct llama_batch b = good(n);
		unsigned int run = turn % 4 ? draw(64) + 1 : 200;

		for (int i = 0; i < n; i++) {
			if (!draw(run))
				id = (int32_t)draw(turn % 5 ? 20 : 400) * (turn % 7 ? 1 : -1000003);
			ids[i] = id;
			logits[i] = turn % 2 ? !draw(9) : (int8_t)-draw(2);
		}
		lay_out(n, turn % 6);
		for (int i = 0; i < n && turn % 8 == 5; i++) {
			if (draw(10))
				continue;
			counts[i] = (int32_t)draw(4);
			for (int k = 0; k < counts[i]; k++)
				lists[i][k] = k + 1;
			pointers[i] = lists[i];
		}
		call_told(b);
	}
}

/* ---- the same as structures ---- */

static struct ext_token rows[ROWS];
static struct ext_node nodes[5 * ROWS]; /* first ones, those of a row after it, and first ones far away */

/* Of n rows of sequence 3 from position 5 on, each with an output. */
static struct llama_batch_ext good_ext(int n)
{
	for (int i = 0; i < ROWS; i++) {
		nodes[i] = (struct ext_node){ .sequence = 3 };
		rows[i] = (struct ext_token){ .output = true, .first = &nodes[i], .n_sequences = 1, .pos = { 5 + i } };
	}
	return (struct llama_batch_ext){ .begin = rows, .end = rows + n };
}

static void call_ext(struct llama_batch_ext b, long n, const char *wanted)
{
	printf("{\"n_tokens\":%ld%s}\n", n, wanted);
	llama_memory_clear(ctx, false);
	llama_process(ctx, 1, &b);
}

/* llama_process() with what call_told() was to tell of. */
static void call_ext_told(struct llama_batch_ext *b)
{
	static int32_t counts_of[ROWS], *pointers_of[ROWS], lists[ROWS][4], at[ROWS];
	static int8_t outputs[ROWS];
	int n = (int)(b->end - b->begin);
	struct llama_batch told = { n, tokens, NULL, at, counts_of, pointers_of, outputs };

	for (int i = 0; i < n; i++) {
		const struct ext_node *node = b->begin[i].first;

		pointers_of[i] = lists[i];
		counts_of[i] = (int32_t)b->begin[i].n_sequences;
		for (int k = 0; k < counts_of[i]; k++, node = node->next)
			lists[i][k] = node->sequence;
		at[i] = b->begin[i].pos[0];
		outputs[i] = b->begin[i].output;
	}
	tell(&told);
	llama_memory_clear(ctx, false);
	llama_process(ctx, 1, b);
}

static void ext_of_any_layout(void)
{
	for (unsigned int turn = 0; turn < 120; turn++) {
		int n = 1 + (int)draw(turn % 3 ? 70 : 500), id = 0;
		struct llama_batch_ext b = good_ext(n);
		unsigned int run = turn % 4 ? draw(64) + 1 : 200;

		for (int i = 0; i < n; i++) {
			struct ext_token *t = &rows[i];

			if (!draw(run))
				id = (int32_t)draw(turn % 5 ? 20 : 400);
			t->first = turn % 3 == 0 ? &nodes[i] : turn % 3 == 1 ? &nodes[n - i] : &nodes[draw(20) ? i : 4 * ROWS + i];
			*t->first = (struct ext_node){ .sequence = id };
			t->output = turn % 2 ? !draw(9) : draw(2);
			for (int k = 1; turn % 8 == 5 && k < 4 && !draw(3); k++) {
				struct ext_node *node = &nodes[k * ROWS + i];

				*node = (struct ext_node){ t->first->next, 1000 + k };
				t->first->next = node;
				t->n_sequences++;
			}
		}
		call_ext_told(&b);
	}
}

static void ext_with_junk(void *junk)
{
	struct llama_batch_ext b = good_ext(70);

	rows[66].first = junk;
	call_ext(b, 70, ",\"n_outputs\":66,\"position\":5,\"rows_read\":66,\"phase\":\"unknown\"");
	b = good_ext(4);
	b.begin = junk;
	b.end = (struct ext_token *)((char *)junk + 4 * sizeof(*rows));
	call_ext(b, 4, ",\"rows_read\":0,\"phase\":\"unknown\"");
	b = good_ext(4);
	rows[2].n_sequences = 3;
	nodes[2].next = junk;
	call_ext(b, 4, ",\"n_outputs\":2,\"position\":5,\"rows_read\":2,\"phase\":\"unknown\"");
}

static void ext_of_any_number(void)
{
	struct llama_batch_ext b = good_ext(4);

	nodes[1].sequence = -1;
	call_ext(b, 4, ",\"n_outputs\":1,\"position\":5,\"rows_read\":1,\"phase\":\"unknown\"");
	b = good_ext(4);
	rows[1].n_sequences = 0;
	call_ext(b, 4, ",\"n_outputs\":1,\"position\":5,\"rows_read\":1,\"phase\":\"unknown\"");
	b = good_ext(4);
	rows[1].n_sequences = UINT64_MAX;
	call_ext(b, 4, ",\"n_outputs\":1,\"position\":5,\"rows_read\":1,\"phase\":\"unknown\"");
	b = good_ext(4);
	nodes[2].next = &nodes[2]; /* round and round */
	rows[2].n_sequences = 512;
	call_ext(b, 4, ",\"n_outputs\":4,\"n_sequences\":1,\"sequence\":3,\"position\":5,\"phase\":\"decode\"");
	b = good_ext(0);
	call_ext(b, 0, ",\"n_outputs\":0,\"n_sequences\":0,\"phase\":\"unknown\"");
	b = good_ext(ROWS);
	call_ext(b, ROWS, ",\"n_outputs\":16384,\"position\":5,\"rows_read\":16384,\"phase\":\"unknown\"");
}

static void ext_batches(bool fits)
{
	struct llama_batch_ext b = good_ext(4);

	if (!fits) { /* another build's: rows are refused, once for all */
		for (int i = 0; i < ROWS; i++)
			rows[i].n_sequences = (uint64_t)&nodes[i];
		call_ext(b, 4, ",\"phase\":\"llama_process\"");
		call_ext(good_ext(4), 4, ",\"phase\":\"llama_process\"");
		return;
	}
	call_ext(b, 4, ",\"n_outputs\":4,\"n_sequences\":1,\"sequence\":3,\"position\":5,\"phase\":\"decode\"");
	ext_with_junk((void *)8);
	ext_with_junk((void *)0x5a5a5a5a5a5a5a5a);
	ext_with_junk((void *)-1L);
	ext_with_junk((void *)0xffff888000000000);
	ext_of_any_number();
	/* no vector: from here on only the step itself is shown */
	b = good_ext(4);
	b.end = (struct ext_token *)((char *)b.end + 8);
	call_ext(b, -1, ",\"misfit\":\"llama_process\"");
	b.end = b.begin - 1;
	call_ext(b, -1, ",\"misfit\":\"llama_process\"");
	call_ext(good_ext(4), 4, ",\"misfit\":\"llama_process\"");
}

/* With the argument "good" the batches are as they should be, in many layouts. */
int main(int argc, char **argv)
{
	struct llama_batch b;

	ctx = mini_context_new(2048, 512, 1);
	if (!ctx)
		abort();
	line_wait();
	if (argc > 1 && !strcmp(argv[1], "good")) {
		calls_of_any_layout();
		ext_of_any_layout();
		fflush(stdout);
		return 0;
	}
	if (argc > 1 && (!strcmp(argv[1], "structs") || !strcmp(argv[1], "other"))) {
		ext_batches(*argv[1] == 's');
		fflush(stdout);
		return 0;
	}
	call(llama_batch_get_one(tokens, 5), ",\"n_outputs\":1,\"n_sequences\":1,\"sequence\":0,\"phase\":\"prefill\"");
	call(llama_batch_get_one(tokens, 1), ",\"n_outputs\":1,\"n_sequences\":1,\"sequence\":0,\"phase\":\"decode\"");
	call(good(4), ",\"n_outputs\":4,\"n_sequences\":1,\"sequence\":3,\"position\":5,\"phase\":\"decode\"");
	b = good(4);
	logits[1] = logits[2] = 0;
	call(b, ",\"n_outputs\":2,\"n_sequences\":1,\"sequence\":3,\"position\":5,\"phase\":\"prefill\"");
	b.logits = NULL;
	call(b, ",\"n_outputs\":1,\"n_sequences\":1,\"sequence\":3,\"position\":5,\"phase\":\"prefill\"");
	calls_with_junk((void *)8);
	calls_with_junk((void *)0x5a5a5a5a5a5a5a5a);
	calls_with_junk((void *)-1L);
	calls_with_junk((void *)0xffff888000000000);
	b = good(9);
	b.logits = at_the_end(logits, 6);
	call(b, ",\"n_outputs\":6,\"position\":5,\"rows_read\":6,\"phase\":\"unknown\"");
	b = good(9);
	b.seq_id = at_the_end(pointers, 6 * sizeof(*pointers));
	call(b, ",\"n_outputs\":6,\"position\":5,\"rows_read\":6,\"phase\":\"unknown\"");
	calls_of_any_number();
	b = good(1000);
	for (int i = 0; i < 1000; i++)
		ids[i] = i;
	call(b, ",\"position\":5,\"phase\":\"mixed\",\"many\":true");
	/* numbers that show that the preset does not fit: from here on only the step itself is shown */
	b = good(4);
	b.n_tokens = -1;
	call(b, ",\"misfit\":\"llama_decode\"");
	b.n_tokens = INT_MIN;
	call(b, ",\"misfit\":\"llama_decode\"");
	b.n_tokens = INT_MAX;
	call(b, ",\"misfit\":\"llama_decode\"");
	call(good(4), ",\"misfit\":\"llama_decode\"");
	fflush(stdout);
	return 0;
}
