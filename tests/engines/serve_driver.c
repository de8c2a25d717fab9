// SPDX-License-Identifier: BSD-2-Clause
/*
 * Serves requests with a real llama.cpp build in the way of llama.cpp's server: slots, a queue for those that find
 * none free, and continuous batching. Each step has a token of every request that is being answered, and behind
 * these as much of the waiting prompts as the batch has room for. A slot keeps what it has decoded, so that a
 * prompt that begins alike, or goes on with a chat, is decoded from there. Requests arrive at random, some are
 * cancelled, some have their tokens guessed.
 *
 *   serve_driver [OPTION ...] LIBDIR MODEL.gguf
 *
 *   -l LOG  -w              the log (default: stdout); once loaded, say "ready" and wait for a line of input
 *   -H                      requests come by HTTP (serve_http.h), on a port that is printed, until SIGTERM
 *   -U                      the queue is unfair: whoever came last is taken first
 *   -E                      as -H, and each is read in small pieces, and between these no bytes at all
 *   -r N -s SEED            requests; another seed has others
 *   -p N -b TOKENS -c TOKENS -u -t N   slots, size of a batch, context of a slot (-u: kept apart), threads
 *   -a STEPS                mean time between arrivals (0: all at once); counted in steps, so that what is in which
 *                           batch depends on the seed alone
 *   -m TOKENS -n TOKENS     the longest prompt and answer
 *   -x PERCENT -d PERCENT   requests that are cancelled; that have drafts
 *   -L EVERY:TOKENS         each so manieth request has a prompt of that length
 *   -S PERCENT:US[:KIND]    so many steps have a stall behind them, in the sampler of one request: sleep (default),
 *                           cpu, pipe
 *
 * On SIGTERM it ends what it has begun, and begins no more.
 *
 * The log tells of every step the rows of each sequence and the clock (CLOCK_BOOTTIME) right before and right
 * after, of every request its tokens and steps; of one that came by HTTP the clock right before ("waiting") and right after
 * ("arrived") its first bytes were read. A tracer has to find the same.
 */
#include "../program.h"

#include "llama_load.h"
#include "serve.h"
#include "serve_http.h"

#include <getopt.h>

#define N_DRAFTS 3

/* What a step has of a request. */
struct part {
	const struct request *r;
	int sequence, position, rows, outputs, taken;
};

static struct serve_options opt = { .requests = 100, .slots = 8, .batch = 64, .context = 512, .prompt = 100,
	.outputs = 12, .cancels = 10, .threads = 1, .between = 1, .seed = 1 };
static void *ctx, *memory, *sampler;
static struct batch batch;
static FILE *out;
static struct slot slots[SLOTS_MAX];
static struct part parts[SLOTS_MAX];
static struct request *queue, **queue_end = &queue;
static int n_parts, n_steps, n_done;
static char stall_kind[8] = "sleep";
static double now, arrival; /* in steps; arrival: of the next request */
static bool more = true, http, in_pieces, unfair;
static volatile sig_atomic_t stopped;

/* How often this thread was made to leave its CPU. */
static long preemptions(void)
{
	struct rusage u;

	getrusage(RUSAGE_THREAD, &u);
	return u.ru_nivcsw;
}

/* ---- requests ---- */

static void arrival_next(void)
{
	double interval = load_interval();

	more = interval >= 0;
	arrival += interval;
}

static bool any_request(void)
{
	for (int i = 0; i < opt.slots; i++) {
		if (slots[i].request)
			return true;
	}
	return false;
}

static void request_queue(struct request *r, uint64_t arrived_ns)
{
	r->arrived_ns = arrived_ns;
	if (unfair) {
		r->next = queue;
		queue = r;
		return;
	}
	*queue_end = r;
	queue_end = &r->next;
}

/* Waits for them where there is nothing else to do. */
static void requests_read(void)
{
	struct http_request asked;

	while (!stopped && http_take(&asked, !queue && !any_request())) {
		struct request *r = load_asked(asked.prompt, asked.tokens);

		r->name = asked.name;
		r->answer = asked.answer;
		r->waiting_ns = asked.waiting_ns;
		request_queue(r, asked.read_ns);
	}
}

static void requests_arrive(void)
{
	if (http)
		requests_read();
	for (; more && !http && arrival <= now; arrival_next())
		request_queue(load_request(slots), clock_ns(CLOCK_BOOTTIME));
}

/* The free slot that holds most of its prompt, else the one that was free for longest. */
static struct slot *slot_for(const struct request *r)
{
	struct slot *best = NULL;
	int most = -1;

	for (int i = 0; i < opt.slots; i++) {
		struct slot *s = &slots[i];
		int n = s->request ? -1 : slot_cached(s, r);

		if (2 * n < r->n_prompt && n > 0)
			n = 0;
		if (n > most || (best && n == most && s->used < best->used)) {
			most = n;
			best = s;
		}
	}
	return best;
}

static void slots_fill(void)
{
	struct slot *s;

	while (queue && (s = slot_for(queue))) {
		struct request *r = queue;

		queue = r->next;
		if (!queue)
			queue_end = &queue;
		s->request = r;
		r->cached = r->fed = slot_cached(s, r);
		s->n_tokens = r->cached;
		s->answered = false;
		s->last_prompt = r->n_prompt;
	}
}

static void request_end(struct slot *s, bool cancelled)
{
	struct request *r = s->request;

	fprintf(out,
		"{\"request\":%d,\"sequence\":%d,\"prompt\":%d,\"cached\":%d,\"outputs\":%d,\"first_step\":%d,"
		"\"last_step\":%d,\"steps\":%d,\"drafts\":%s,\"cancelled\":%s,\"waiting\":%lu,\"arrived\":%lu,"
		"\"name\":%d}\n",
		r->id, (int)(s - slots), r->fed - r->cached, r->cached, r->given, r->first_step, r->last_step,
		r->steps, r->drafts ? "true" : "false", cancelled ? "true" : "false",
		(unsigned long)r->waiting_ns, (unsigned long)r->arrived_ns, r->answer ? r->name : -1);
	if (r->answer)
		http_end(r->answer);
	if (r->clears) {
		llama_memory_seq_rm(memory, (int)(s - slots), -1, -1);
		s->n_tokens = 0;
	}
	s->request = NULL;
	s->used = (uint64_t)++n_done;
	request_free(r);
}

/* ---- a step ---- */

static void slot_row(struct slot *s, int32_t token, bool output)
{
	int i = llama_batch_row(&batch, token, s->n_tokens, (int)(s - slots), output);

	s->tokens[s->n_tokens++] = token;
	if (output && !s->n_rows++)
		s->row = i;
	parts[s->part].rows++;
	parts[s->part].outputs += output;
}

static void slot_part(struct slot *s)
{
	struct request *r = s->request;

	s->part = n_parts++;
	parts[s->part] = (struct part){ .r = r, .sequence = (int)(s - slots), .position = s->n_tokens };
	if (!r->steps++)
		r->first_step = n_steps;
	r->last_step = n_steps;
}

/* The token before, and guesses of the next ones. */
static void slot_decode(struct slot *s)
{
	struct request *r = s->request;
	int room = opt.batch - batch.n_tokens - 1, left = r->n_outputs - r->given;
	int drafts = r->drafts && left > 1 ? draw(0, N_DRAFTS) : 0;

	slot_part(s);
	slot_row(s, s->sampled, true);
	for (; drafts > 0 && room > opt.slots; drafts--, room--)
		slot_row(s, draw(300, 400), true);
}

static void slot_prefill(struct slot *s)
{
	struct request *r = s->request;

	/* what it does for each part of a prompt, also where there is nothing to remove */
	llama_memory_seq_rm(memory, (int)(s - slots), s->n_tokens, -1);
	slot_part(s);
	while (r->fed < r->n_prompt && batch.n_tokens < opt.batch) {
		r->fed++;
		slot_row(s, r->prompt[r->fed - 1], r->fed == r->n_prompt);
	}
}

static void batch_make(void)
{
	batch.n_tokens = 0;
	n_parts = 0;
	for (int i = 0; i < opt.slots; i++) {
		slots[i].part = -1;
		slots[i].n_rows = 0;
		if (slots[i].request && slots[i].request->fed == slots[i].request->n_prompt)
			slot_decode(&slots[i]);
	}
	for (int i = 0; i < opt.slots && batch.n_tokens < opt.batch; i++) {
		if (slots[i].request && slots[i].request->fed < slots[i].request->n_prompt)
			slot_prefill(&slots[i]);
	}
}

/* Its next tokens: the first of those that have an output, and as many of the guesses as fit. */
static void slot_sample(struct slot *s)
{
	struct request *r = s->request;
	int taken = s->n_rows > 1 ? draw(1, s->n_rows) : s->n_rows;

	if (!taken)
		return;
	if (taken > r->n_outputs - r->given)
		taken = r->n_outputs - r->given;
	for (int i = 0; i < taken; i++)
		s->sampled = llama_sampler_sample(sampler, ctx, s->row + i);
	if (taken < s->n_rows) {
		s->n_tokens -= s->n_rows - taken;
		llama_memory_seq_rm(memory, (int)(s - slots), s->n_tokens, -1);
	}
	parts[s->part].taken = taken;
	r->given += taken;
	s->answered = true;
	if (r->answer)
		http_tokens(r->answer, taken);
	if (r->answer && http_gone(r->answer))
		r->cancel_after = r->steps;
}

/* Reads from an empty pipe until a timer's signal ends that. */
static void wait_for_pipe(void)
{
	static int pipe_ends[2];
	char c;

	must(pipe_ends[1] || !pipe(pipe_ends), "pipe");
	ualarm((useconds_t)opt.stall_us, 0);
	must(read(pipe_ends[0], &c, 1) == -1, "read of an empty pipe");
}

static void stall(struct slot *s)
{
	uint64_t start = clock_ns(CLOCK_BOOTTIME), cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);

	if (!strcmp(stall_kind, "cpu"))
		spin_for(CLOCK_THREAD_CPUTIME_ID, (uint64_t)opt.stall_us * 1000);
	else if (!strcmp(stall_kind, "pipe"))
		wait_for_pipe();
	else
		sleep_for((uint64_t)opt.stall_us * 1000);
	fprintf(out, "{\"stall\":%d,\"step\":%d,\"start\":%lu,\"end\":%lu,\"cpu\":%lu}\n", s->request->id, n_steps,
		(unsigned long)start, (unsigned long)clock_ns(CLOCK_BOOTTIME),
		(unsigned long)(clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu));
}

static void step(void)
{
	static long preempted;
	uint64_t before, after;
	long then = preempted;

	batch_make();
	before = clock_ns(CLOCK_BOOTTIME);
	must(!llama_decode(ctx, batch), "llama_decode");
	after = clock_ns(CLOCK_BOOTTIME);
	preempted = preemptions();
	for (int i = 0; i < opt.slots; i++) {
		if (slots[i].part >= 0)
			slot_sample(&slots[i]);
	}
	fprintf(out, "{\"step\":%d,\"before\":%lu,\"after\":%lu,\"preempted\":%s,\"parts\":[", n_steps, (unsigned long)before,
		(unsigned long)after, preempted != then ? "true" : "false");
	for (int i = 0; i < n_parts; i++)
		fprintf(out, "%s[%d,%d,%d,%d,%d,%d]", i ? "," : "", parts[i].r->id, parts[i].sequence, parts[i].position,
			parts[i].rows, parts[i].outputs, parts[i].taken);
	fputs("]}\n", out);
	for (int i = 0; i < opt.slots; i++) {
		struct request *r = slots[i].part >= 0 ? slots[i].request : NULL;

		if (r && r->given == r->n_outputs)
			request_end(&slots[i], false);
		else if (r && r->cancel_after && r->steps >= r->cancel_after)
			request_end(&slots[i], true);
	}
	if (chance(opt.stalls)) {
		struct slot *s = &slots[draw(0, opt.slots - 1)];

		if (s->request && s->part >= 0)
			stall(s);
	}
	n_steps++;
}

static void serve(void)
{
	arrival_next();
	for (;;) {
		if (stopped) {
			more = false;
			queue = NULL;
			queue_end = &queue;
		}
		requests_arrive();
		slots_fill();
		if (any_request()) {
			step();
			now++;
		} else if (more) {
			now = arrival;
		} else {
			return;
		}
	}
}

/* ---- options ---- */

static void on_signal(int signal)
{
	stopped |= signal == SIGTERM;
}

static bool options(int argc, char **argv)
{
	int *const numbers[128] = { ['r'] = &opt.requests, ['p'] = &opt.slots, ['b'] = &opt.batch, ['c'] = &opt.context,
		['t'] = &opt.threads, ['m'] = &opt.prompt, ['n'] = &opt.outputs, ['x'] = &opt.cancels, ['d'] = &opt.drafts };
	bool waits = false;

	for (int c; (c = getopt(argc, argv, "l:wEHUr:s:p:b:c:ut:a:m:n:x:d:L:S:")) != -1;) {
		if (numbers[c]) {
			*numbers[c] = atoi(optarg);
			continue;
		}
		switch (c) {
		case 'l':
			out = fopen(optarg, "we");
			break;
		case 'w':
			waits = true;
			break;
		case 'E':
			in_pieces = true;
			/* fall through */
		case 'H':
			http = true;
			break;
		case 'U':
			unfair = true;
			break;
		case 's':
			opt.seed = strtoul(optarg, NULL, 0);
			break;
		case 'u':
			opt.separate = true;
			break;
		case 'a':
			opt.between = atof(optarg);
			break;
		case 'L':
			if (sscanf(optarg, "%d:%d", &opt.long_every, &opt.long_prompt) != 2)
				die("-L EVERY:TOKENS");
			break;
		case 'S':
			if (sscanf(optarg, "%d:%d:%7s", &opt.stalls, &opt.stall_us, stall_kind) < 2)
				die("-S PERCENT:US[:KIND]");
			break;
		default:
			die("bad option");
		}
	}
	if (argc - optind != 2 || !out)
		die("serve_driver [OPTION ...] LIBDIR MODEL.gguf");
	if (opt.slots < 1 || opt.slots > SLOTS_MAX || opt.batch <= opt.slots || opt.context < opt.outputs + 64 ||
		opt.long_prompt + opt.outputs + 8 > opt.context)
		die("1 to 64 slots, fewer than rows of a batch; prompts and answers must fit the context of a slot");
	return waits;
}

int main(int argc, char **argv)
{
	bool waits;

	out = stdout;
	waits = options(argc, argv);
	/* without SA_RESTART: it ends the wait for a pipe */
	sigaction(SIGALRM, &(struct sigaction){ .sa_handler = on_signal }, NULL);
	sigaction(SIGTERM, &(struct sigaction){ .sa_handler = on_signal }, NULL);
	setvbuf(out, NULL, _IOFBF, 4 << 20);
	ctx = llama_open(&(struct llama_setup){ .dir = argv[optind], .model = argv[optind + 1],
		.n_ctx = (uint32_t)(opt.slots * opt.context), .n_batch = (uint32_t)opt.batch,
		.n_seq_max = (uint32_t)opt.slots, .n_threads = opt.threads, .separate = opt.separate });
	memory = llama_get_memory(ctx);
	batch = llama_batch_init(opt.batch, 0, 1);
	sampler = llama_open_sampler((uint32_t)opt.seed);
	load_init(&opt);
	for (int i = 0; i < opt.slots; i++)
		slots[i].tokens = malloc((size_t)opt.context * sizeof(*slots[i].tokens));
	if (http)
		printf("%d\n", http_start(in_pieces));
	if (waits)
		line_wait();
	else if (http)
		say("ready");
	serve();
	fprintf(out, "{\"steps\":%d,\"requests\":%d}\n", n_steps, n_done);
	fflush(out);
	_exit(0);
}
