/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Each field of a profile's lines: included once for each use, which defines SHAPE, STAGE or FAMILY.
 *
 * SHAPE(families, key, type, need, text) is in shape, STAGE in stage_us. These rows determine what the writer can write
 * (format/profile_line.h), how the report reads it (report/model.h), the rules of `inftrace validate`, and, with
 * scripts/schema --update, docs/schema/profile.schema.json and the tables of docs/profile-schema.md.
 *
 * Capitals in a key are placeholders: N for a number, NAME an operator or a system call, STATE a state of a thread, PART a
 * part of the GPU's time, SPAN a part of a request's time, WHAT a part that --budget turns off, KIND a kind of records.
 *
 * Types: COUNT (from 0), POSITIVE (from 1), SEVERAL (from 2), INTEGER; US (microseconds with three decimals) and PART (a US that
 * is a part of total); THOUSANDTHS (three decimals, too); SHARE (0 to 1) and SOME_SHARE (above 0); TEXT (not blank) and STRING;
 * STATE; PARTS (of --budget); TRUE, FALSE, BOOL; ONE_OF(text or text); texts of a form: DIGITS, BOOT_ID, SHIFT, PCI, UUID.
 *
 * Need: REQUIRED; FIRST, required in lines of the first family alone; ALWAYS, which `inftrace validate` requires, too (lines of
 * earlier versions may lack others); EITHER, one of these; OPTIONAL; OLD, which only earlier versions wrote.
 *
 * Text: for the document. NEXT: the next row has the text of both. ELSEWHERE: not in a table.
 */
#ifndef SHAPE
#define SHAPE(families, key, type, need, text)
#endif
#ifndef STAGE
#define STAGE(families, key, type, need, text)
#endif
#ifndef FAMILY
#define FAMILY(family, events)
#endif

/* Keys by which `inftrace print` tells lines apart. */
#define PROFILE_SHOWN(KEY) \
	KEY(phase) KEY(step) KEY(number) KEY(n_tokens) KEY(request) KEY(call) KEY(source_kind) KEY(state) KEY(stall_state) \
	KEY(stall_by) KEY(window) KEY(trigger) KEY(finding)

FAMILY(TOKEN, token_prof)
FAMILY(OP, op_prof)
FAMILY(STACK, stack_prof)
FAMILY(CALL, graph_prof or sample_prof)
FAMILY(STEPS, request_prof)
FAMILY(SEQUENCE, request_prof)
FAMILY(SOCKET, request_prof)
FAMILY(SYSCALL, syscall_prof)
FAMILY(FAULT, fault_prof)
FAMILY(SCHED, sched_prof)
FAMILY(MEMORY, memory_prof)
FAMILY(MISFIT, misfit_prof)
FAMILY(WINDOW, window_prof)

/* token_prof: a step */
SHAPE(TOKEN, step, COUNT, REQUIRED, "number of the step in the recording, from 0")
SHAPE(TOKEN, pid, COUNT, REQUIRED, NEXT)
SHAPE(TOKEN, tid, COUNT, REQUIRED, "the thread that called the step's function")
SHAPE(TOKEN, phase, TEXT, REQUIRED, "as the preset names it: `prefill`, `decode`; `mixed`: rows of several sequences; `unknown`: the rows of a batch "
	"could not be read")
SHAPE(TOKEN, n_tokens, INTEGER, OPTIONAL, "tokens in the step. Other arguments that the preset fetches are fields, too, such as `n_outputs`, "
	"`n_sequences` and others of the [rows](engines.md#rows) of its batch (floating-point values as a number, or as `\"NaN\"`, `\"Infinity\"`, "
	"`\"-Infinity\"`)")
SHAPE(TOKEN, rows, COUNT, OPTIONAL, "rows of the step's batch; only if the preset describes them and all could be read. `n_sequences` is the "
	"number of sequences that they belong to")
SHAPE(TOKEN, scheduler_waiting, COUNT, OPTIONAL, NEXT)
SHAPE(TOKEN, scheduler_running, COUNT, OPTIONAL, NEXT)
SHAPE(TOKEN, scheduler_slots, COUNT, OPTIONAL, NEXT)
SHAPE(TOKEN, scheduler_tokens_max, COUNT, OPTIONAL, NEXT)
SHAPE(TOKEN, scheduler_kv_free, COUNT, OPTIONAL, NEXT)
SHAPE(TOKEN, scheduler_kv_blocks, COUNT, OPTIONAL, NEXT)
SHAPE(TOKEN, scheduler_ahead, COUNT, OPTIONAL, NEXT)
SHAPE(TOKEN, scheduler_full, COUNT, OPTIONAL, "what the engine's [scheduler](engines.md#scheduler) says of itself once it has chosen the batch: requests that "
	"wait, requests that have a slot, and how many slots there are; how many tokens a step may have; blocks of the KV cache that are free, and in all; "
	"above 0: it has made the next step's batch already; above 0: the KV cache had no room for a request")
SHAPE(TOKEN, prompt_tokens, COUNT, OPTIONAL, NEXT)
SHAPE(TOKEN, decode_tokens, COUNT, OPTIONAL, NEXT)
SHAPE(TOKEN, recomputed_tokens, COUNT, OPTIONAL, "how many of `rows` are prompt tokens, how many are generated tokens or drafts, and how many were computed "
	"before, until a [preemption](#request_prof); the last one is absent if 0; only where the "
	"rows of each sequence are known. Earlier steps decide that, so such a line is written some tenths of a second after the step")
SHAPE(TOKEN, ts_us, US, REQUIRED, "start of the step, from the start of the recording")
SHAPE(TOKEN, switches, COUNT, REQUIRED, NEXT)
SHAPE(TOKEN, switches_voluntary, COUNT, REQUIRED, NEXT)
SHAPE(TOKEN, migrations, COUNT, REQUIRED, "of the thread, within the step")
SHAPE(TOKEN, faults_minor, COUNT, REQUIRED, NEXT)
SHAPE(TOKEN, faults_major, COUNT, REQUIRED, NEXT)
SHAPE(TOKEN, syscalls, COUNT, REQUIRED, "of the thread, within the step")
SHAPE(TOKEN, lost, COUNT, REQUIRED, "records lost during the step: if above 0, the timeline has gaps here (the times below have none)")
SHAPE(TOKEN, stand_in, TEXT, OPTIONAL, "the function whose call [stands in](engines.md#steps-that-are-not-called) for a step of the engine: tokens "
	"and requests are unknown. Otherwise absent")
SHAPE(TOKEN, watched, TRUE, OPTIONAL, "`true`: the step is a call of a Python function that is [watched](engines.md#steps-of-python-programs): it takes less time than "
	"before, when all functions of the process had a probe")
SHAPE(TOKEN, began_before, TRUE, OPTIONAL, "`true` if the window opened within the step: the times cover the part within the window, and `ts_us` "
	"is 0 or slightly more")
SHAPE(TOKEN, unfinished, TRUE, OPTIONAL, "`true` if the recording or the window ended within the step: the times end there")
SHAPE(TOKEN, workers, COUNT, OPTIONAL, "other threads that worked on the step: they met the calling thread at a barrier that has a `group` in "
	"the preset")
SHAPE(TOKEN, cpus_allowed, POSITIVE, OPTIONAL, "number of CPUs that the calling thread may run on (affinity and cpuset) at the end of the step")
SHAPE(TOKEN, cpu_limit, THOUSANDTHS, OPTIONAL, "CPUs that the cgroups of the process allow it: the lowest cpu.max (cpu.cfs_quota_us) of its own "
	"cgroup and those above; absent without a limit")
SHAPE(TOKEN, straggler_tid, COUNT, OPTIONAL, NEXT)
SHAPE(TOKEN, straggler_held_us, US, OPTIONAL, "the straggler in the calling thread's longest wait at a barrier, and the length of that wait")
SHAPE(TOKEN, waitN_comm, STRING, OPTIONAL, NEXT)
SHAPE(TOKEN, waitN_tid, COUNT, OPTIONAL, NEXT)
SHAPE(TOKEN, waitN_pid, COUNT, OPTIONAL, NEXT)
SHAPE(TOKEN, waitN_state, STATE, OPTIONAL, NEXT)
SHAPE(TOKEN, waitN_call, STRING, OPTIONAL, NEXT)
SHAPE(TOKEN, waitN_file, STRING, OPTIONAL, NEXT)
SHAPE(TOKEN, waitN_peer, STRING, OPTIONAL, NEXT)
SHAPE(TOKEN, waitN_behind, STRING, OPTIONAL, NEXT)
SHAPE(TOKEN, waitN_behind_tid, COUNT, OPTIONAL, NEXT)
SHAPE(TOKEN, waitN_behind_us, US, OPTIONAL, NEXT)
SHAPE(TOKEN, waitN_us, US, OPTIONAL, NEXT)
SHAPE(TOKEN, wait_rest_us, US, OPTIONAL, NEXT)
SHAPE(TOKEN, wait_unknown_us, US, OPTIONAL, "who made the calling thread wait within the step: keys as those of `path1_us` below. Each time that it was off the "
	"CPU is followed to who ended it, up to its own begin, and so is its longest wait at a barrier, to the straggler. They sum to that time; absent if "
	"that is less than 20 us")
SHAPE(TOKEN, behindN_by, STRING, OPTIONAL, NEXT)
SHAPE(TOKEN, behindN_tid, COUNT, OPTIONAL, NEXT)
SHAPE(TOKEN, behindN_pid, COUNT, OPTIONAL, NEXT)
SHAPE(TOKEN, behindN_us, US, OPTIONAL, "time that the calling thread waited for a CPU (`runnable`) while another thread ran on it, summed by thread, "
	"the longest first, 8 at most. With tid and pid 0: `idle`, nobody, and `cpu.max`, a CPU limit of the cgroup")
SHAPE(TOKEN, behind_others_us, US, OPTIONAL, "the rest of `runnable`; absent without the rows above, or if 0")
SHAPE(TOKEN, workers_behindN_by, STRING, OPTIONAL, NEXT)
SHAPE(TOKEN, workers_behindN_tid, COUNT, OPTIONAL, NEXT)
SHAPE(TOKEN, workers_behindN_pid, COUNT, OPTIONAL, NEXT)
SHAPE(TOKEN, workers_behindN_us, US, OPTIONAL, NEXT)
SHAPE(TOKEN, workers_behind_others_us, US, OPTIONAL, "the same over all workers: these sum to `workers_runnable`")
SHAPE(TOKEN, gap_us, US, OPTIONAL, "the time since the end of the context's previous step; absent before the first one, and where steps were lost "
	"in between")
SHAPE(TOKEN | SEQUENCE, pathN_comm, STRING, OPTIONAL, NEXT)
SHAPE(TOKEN | SEQUENCE, pathN_tid, COUNT, OPTIONAL, NEXT)
SHAPE(TOKEN | SEQUENCE, pathN_pid, COUNT, OPTIONAL, NEXT)
SHAPE(TOKEN | SEQUENCE, pathN_state, STATE, OPTIONAL, NEXT)
SHAPE(TOKEN | SEQUENCE, pathN_call, STRING, OPTIONAL, NEXT)
SHAPE(TOKEN | SEQUENCE, pathN_file, STRING, OPTIONAL, NEXT)
SHAPE(TOKEN | SEQUENCE, pathN_peer, STRING, OPTIONAL, NEXT)
SHAPE(TOKEN | SEQUENCE, pathN_behind, STRING, OPTIONAL, NEXT)
SHAPE(TOKEN | SEQUENCE, pathN_behind_tid, COUNT, OPTIONAL, NEXT)
SHAPE(TOKEN | SEQUENCE, pathN_behind_us, US, OPTIONAL, NEXT)
SHAPE(TOKEN | SEQUENCE, pathN_in, STRING, OPTIONAL, NEXT)
SHAPE(TOKEN | SEQUENCE, pathN_us, US, OPTIONAL, "why it could not begin sooner: the thread that the step waited for, directly or through others, what it did "
	"(`pid` is absent if unknown; `call`: the system call of a wait; `file`: the file of a wait for a disk, with the name of its directory; `peer`: whom a wait on a socket is for; `behind`: who ran on its CPU for longest, and how long, or as above; of `stopped`, who continued it; `in`: with `-e +samples` or `+stacks`, the function that it was in for most of it, the Python function outside of the "
	"standard library that called it, and the asyncio task if it has a name), and for how long in all; the longest four. See [below](#gaps)")
SHAPE(TOKEN | SEQUENCE, path_rest_us, US, OPTIONAL, NEXT)
SHAPE(TOKEN | SEQUENCE, path_unknown_us, US, OPTIONAL, "the rest, and the part that is not known; with `path1_us` ... `path4_us` they sum to `gap_us`, to the "
	"nanosecond; absent if 0")
SHAPE(SEQUENCE, path_estimated_us, US, OPTIONAL, "the part of all these that was divided in proportion: of a gap with more than 256 changes of "
	"thread or state, in which the request came, only the last 256 are kept one by one; absent if 0")
SHAPE(SEQUENCE, answerN_comm, STRING, OPTIONAL, NEXT)
SHAPE(SEQUENCE, answerN_tid, COUNT, OPTIONAL, NEXT)
SHAPE(SEQUENCE, answerN_pid, COUNT, OPTIONAL, NEXT)
SHAPE(SEQUENCE, answerN_state, STATE, OPTIONAL, NEXT)
SHAPE(SEQUENCE, answerN_call, STRING, OPTIONAL, NEXT)
SHAPE(SEQUENCE, answerN_file, STRING, OPTIONAL, NEXT)
SHAPE(SEQUENCE, answerN_peer, STRING, OPTIONAL, NEXT)
SHAPE(SEQUENCE, answerN_behind, STRING, OPTIONAL, NEXT)
SHAPE(SEQUENCE, answerN_behind_tid, COUNT, OPTIONAL, NEXT)
SHAPE(SEQUENCE, answerN_behind_us, US, OPTIONAL, NEXT)
SHAPE(SEQUENCE, answerN_in, STRING, OPTIONAL, NEXT)
SHAPE(SEQUENCE, answerN_us, US, OPTIONAL, NEXT)
SHAPE(SEQUENCE, answer_rest_us, US, OPTIONAL, NEXT)
SHAPE(SEQUENCE, answer_unknown_us, US, OPTIONAL, "what the first part of the answer waited for, keys as those of `path1_us`: they sum to `first_answered`. Absent where that "
	"is not known, and of requests that are not joined")
SHAPE(TOKEN | OP, left_out, PARTS, OPTIONAL, "what `--budget` had turned off in some part of the step, such as `barriers,operators`; see below")
SHAPE(TOKEN, left_out_changed, TRUE, OPTIONAL, "`true`: one of these was off for a part of the step only, and recorded for the rest")
SHAPE(TOKEN, tracer_us, US, OPTIONAL, "inftrace's overhead: how much sooner the step would have ended without it, at most `total`; see below. It "
	"is no stage of its own: every stage contains some of it. Absent while unknown, and if inftrace runs in a pid namespace")
SHAPE(TOKEN, tracer_waited_us, US, OPTIONAL, "the part of it in which threads of the step waited for a CPU while inftrace's own ran there")
SHAPE(TOKEN, instructions, COUNT, OPTIONAL, NEXT)
SHAPE(TOKEN, cycles, COUNT, OPTIONAL, NEXT)
SHAPE(TOKEN, llc_misses, COUNT, OPTIONAL, NEXT)
SHAPE(TOKEN, ipc, THOUSANDTHS, OPTIONAL, "with `record -e +pmu`: counts of the calling thread's user code, and instructions per cycle "
	"([counters.md](counters.md)). Absent if unknown")
SHAPE(TOKEN, cpu_clock_ns, COUNT, OPTIONAL, NEXT)
SHAPE(TOKEN, page_faults, COUNT, OPTIONAL, "with `--counters software`, in place of the hardware counters")
SHAPE(TOKEN, counters_shared, TRUE, OPTIONAL, "`true`: other programs used the counters during part of the step; the counts are absent")
SHAPE(TOKEN, gpu_device, COUNT, OPTIONAL, NEXT)
SHAPE(TOKEN, gpu_kernels, COUNT, OPTIONAL, NEXT)
SHAPE(TOKEN, gpu_copies, COUNT, OPTIONAL, "with `record --gpu`: the device that worked longest for the process during the step or on what the "
	"step launched, by its number in the recording ([gpu.md](gpu.md)); kernels, and copies and memory sets, that ran within the step, on all devices")
SHAPE(TOKEN, gpu_PART_us, US, OPTIONAL, "what the GPUs did during the step, all devices of the process together, see below; they sum to `total`, "
	"to the nanosecond. They are no stages, since the stages divide the same time by the thread's states")
SHAPE(TOKEN, gpu_after_us, US, OPTIONAL, "how long kernels and copies launched in the step ran on any device after its end. llama.cpp's "
	"`llama_decode` returns before the GPU is done; the wait comes when a token is chosen. Absent if 0")
SHAPE(TOKEN, gpu_residual_us, US, OPTIONAL, "uncertainty of the devices' times")
SHAPE(TOKEN, gpu_devices, SEVERAL, OPTIONAL, "how many devices ran work of the step or had work queued, if more than one")
SHAPE(TOKEN, gpu_deviceN_kernels, COUNT, OPTIONAL, NEXT)
SHAPE(TOKEN, gpu_deviceN_copies, COUNT, OPTIONAL, NEXT)
SHAPE(TOKEN, gpu_deviceN_PART_us, US, OPTIONAL, NEXT)
SHAPE(TOKEN, gpu_deviceN_after_us, US, OPTIONAL, "if there are several: the same for each device, by its number; parts that are 0 are absent, and "
	"the others sum to `total`, to the nanosecond. Of more than 16 devices, the 16 with the lowest numbers")
SHAPE(TOKEN, gpu_gapN_us, US, OPTIONAL, NEXT)
SHAPE(TOKEN, gpu_gapN_ts_us, US, OPTIONAL, NEXT)
SHAPE(TOKEN, gpu_gapN_tid, COUNT, OPTIONAL, "up to three of the longest intervals of `gpu_idle_launch_us`, each at least 1 us: length, start, "
	"and the thread whose launch ended it (the calling thread if none did before the end of the step)")
SHAPE(TOKEN, gpu_gapN_state, STATE, OPTIONAL, NEXT)
SHAPE(TOKEN, gpu_gapN_STATE_us, US, OPTIONAL, "what this thread did meanwhile, by the states of `stage_us`: the longest state, and every state "
	"that is not 0; they sum to `gpu_gap1_us`; see below")
SHAPE(TOKEN, gpu_gapN_call, STRING, OPTIONAL, NEXT)
SHAPE(TOKEN, gpu_gapN_by, STRING, OPTIONAL, NEXT)
SHAPE(TOKEN, gpu_gapN_by_tid, COUNT, OPTIONAL, NEXT)
SHAPE(TOKEN, gpu_gapN_in, STRING, OPTIONAL, "if `gpu_gap1_state` is `syscall` or `blocked_*`: the system call, and who woke it; if `runnable`: who "
	"ran instead, where that is known; if `cpu`, with `-e +samples`: the function in which it was seen most often, of Python where there is one")
SHAPE(TOKEN, gpu_lost, TRUE, OPTIONAL, "`true`: records of the GPU are missing, or were not collected for all of the step (before the first, between "
	"those of `--gpu=every=N`, in a pause of `--gpu-budget`): instead of the keys above")
SHAPE(TOKEN, straggler_comm, STRING, OLD, ELSEWHERE)
STAGE(TOKEN | OP | STACK | SYSCALL | FAULT | SCHED, total, US, ALWAYS, ELSEWHERE)
STAGE(TOKEN, workers_total, US, OPTIONAL, ELSEWHERE)
STAGE(TOKEN, workers_STATE, US, OPTIONAL, ELSEWHERE)
STAGE(TOKEN, STATE, PART, OPTIONAL, ELSEWHERE)

/* op_prof: operators of a step, or of a process in a window */
SHAPE(OP, step, COUNT, EITHER, NEXT)
SHAPE(OP, window, COUNT, EITHER, "number of the step, or of the window")
SHAPE(OP, pid, COUNT, REQUIRED, NEXT)
SHAPE(OP, comm, STRING, OPTIONAL, "its process; the name with `window`")
SHAPE(OP, ops, COUNT, REQUIRED, NEXT)
SHAPE(OP, n_NAME, COUNT, OPTIONAL, "calls of all operators, and of each; `n_other`: of names beyond the first 1023")
SHAPE(OP, instructions_NAME, COUNT, OPTIONAL, NEXT)
SHAPE(OP, cycles_NAME, COUNT, OPTIONAL, NEXT)
SHAPE(OP, llc_misses_NAME, COUNT, OPTIONAL, NEXT)
SHAPE(OP, cpu_clock_ns_NAME, COUNT, OPTIONAL, NEXT)
SHAPE(OP, page_faults_NAME, COUNT, OPTIONAL, "with `record -e +pmu`: what the calls of each operator cost the CPU, in all threads; with `--counters "
	"software` `cpu_clock_ns_NAME` and `page_faults_NAME` ([counters.md](counters.md)). Absent where it is not known of any call")
SHAPE(OP, counted_NAME, COUNT, OPTIONAL, "the number of calls counted, if not all")
SHAPE(OP, gpu_us, US, OPTIONAL, NEXT)
SHAPE(OP, g_NAME_us, US, OPTIONAL, NEXT)
SHAPE(OP, gpu_unattributed_us, US, OPTIONAL, "with `record --gpu`: the time in which kernels ran, the part of each operator's kernels, and the part "
	"of kernels without an operator; these sum to `gpu_us`, to the nanosecond. Absent if 0 or unknown")
SHAPE(OP, f_NAME, TEXT, OPTIONAL, NEXT)
SHAPE(OP, fs_NAME, SOME_SHARE, OPTIONAL, NEXT)
SHAPE(OP, s_NAME, POSITIVE, OPTIONAL, "with `-e +samples`: the function with the most self samples in the operator's calls, as in `frames` of "
	"`stack_prof` but without a line; its share of the samples, from 0 to 1; and the number of samples, without those at barriers within the "
	"operator")
STAGE(OP, NAME, PART, OPTIONAL, ELSEWHERE)

/* stack_prof: samples or waits with one stack */
SHAPE(STACK, pid, COUNT, REQUIRED, NEXT)
SHAPE(STACK, tid, COUNT, REQUIRED, "the thread")
SHAPE(STACK, step, COUNT, OPTIONAL, NEXT)
SHAPE(STACK, phase, TEXT, OPTIONAL, "the step that the thread worked on, and the phase of that step; absent outside steps (`phase` also if the "
	"step's end was not seen)")
SHAPE(STACK, state, STATE, REQUIRED, "what the thread was doing, by the names of the states above")
SHAPE(STACK, kind, ONE_OF(sample or wait), ALWAYS, "`sample`: taken at regular intervals of CPU time; `wait`: the thread was off the CPU for at least "
	"`--min-stack`")
SHAPE(STACK, op, TEXT, OPTIONAL, "of samples: the innermost operator that the thread was in, by its name in `op_prof`. Absent outside operators, "
	"and if the operator had not ended ten seconds after the sample")
SHAPE(STACK, waker_tid, COUNT, OPTIONAL, NEXT)
SHAPE(STACK, waker, TEXT, OPTIONAL, NEXT)
SHAPE(STACK, woken_by, TEXT, OPTIONAL, "of waits that a thread of the targets ended by a system call: the waking thread, its name, and its "
	"innermost function in Python or outside of the kernel and the C library. `waker` is `interrupt` if one ended the wait, such as a timer's. "
	"Absent if unknown")
SHAPE(STACK, samples, POSITIVE, ALWAYS, "how many samples, or waits")
SHAPE(STACK, stack, COUNT, OPTIONAL, "the number of the stack; absent if none could be taken")

/* graph_prof, sample_prof: a call */
SHAPE(CALL, call, TEXT, REQUIRED, "the function, as the preset names it")
SHAPE(CALL, step, COUNT, OPTIONAL, "the step that it was part of; absent if it was in none")
SHAPE(CALL, pid, COUNT, REQUIRED, ELSEWHERE)
SHAPE(CALL, tid, COUNT, REQUIRED, ELSEWHERE)
SHAPE(CALL, ts_us, US, REQUIRED, ELSEWHERE)
SHAPE(CALL, unfinished, TRUE, OPTIONAL, ELSEWHERE)
STAGE(CALL, total, US, REQUIRED, ELSEWHERE)

/* request_prof by its source_kind: a request from steps */
SHAPE(STEPS, source_kind, ONE_OF(steps), REQUIRED, "`sequence`: derived from the engine's steps, where the preset describes their rows; `steps`: "
	"derived from the steps alone; `socket`, with `-e +requests` (by default with `-p` of a process that listens): as seen on the server's sockets")
SHAPE(STEPS | SEQUENCE | SOCKET, pid, COUNT, REQUIRED, NEXT)
SHAPE(STEPS | SEQUENCE | SOCKET, ts_us, US, REQUIRED, "its process, and its start, from the start of the recording")
SHAPE(STEPS | SEQUENCE, context, COUNT, OPTIONAL, "the step's argument of that name; absent if the preset has none")
SHAPE(STEPS, sequence, COUNT, OPTIONAL, "the sequence of the context that it ran in; absent if the preset does not describe rows")
SHAPE(STEPS, prompt_tokens, COUNT, OPTIONAL, "tokens of the prefill steps; absent with `began_before` and `shared_steps`")
SHAPE(STEPS | SEQUENCE, output_tokens, COUNT, OPTIONAL, "tokens that its steps produced, counted by the outputs requested of them; absent with "
	"`shared_steps`")
SHAPE(STEPS | SEQUENCE, prefill_steps, COUNT, REQUIRED, "more than one if the prompt is longer than a batch")
SHAPE(STEPS | SEQUENCE, draft_steps, COUNT, OPTIONAL, "steps with several outputs, which verify guessed tokens (speculative decoding). How many were "
	"accepted is known from the position of the next step; of the last such step, at least one")
SHAPE(STEPS, mixed, TRUE, OPTIONAL, "`true`: some of its steps also belong to other requests; it has no `ttft` and no `tpot_*`, which would not be its own")
SHAPE(STEPS, shared_steps, COUNT, OPTIONAL, "steps that had rows of other sequences, too")
SHAPE(STEPS | SEQUENCE, began_before, TRUE, OPTIONAL, "`true`: the recording (or window) began within it; there is no `ttft` and no `prompt_tokens`")
SHAPE(STEPS | SEQUENCE, unfinished, TRUE, OPTIONAL, "`true`: the recording ended within one of its steps")
SHAPE(STEPS | SEQUENCE, end_not_seen, TRUE, OPTIONAL, "`true`: its end was not seen: no other request had taken its place when the recording "
	"ended. It may have had more tokens")
SHAPE(STEPS | SEQUENCE, lost_steps, TRUE, OPTIONAL, "`true`: steps were lost during it; it has no `ttft` and no `tpot_*`. If it ended and the "
	"next one began during the loss, the tokens of both may be counted here")
STAGE(STEPS, total, US, REQUIRED, "from the start of its first step to the end of its last one")
STAGE(STEPS, ttft, US, OPTIONAL, "from the start of its first step to the end of the step that gave the first output, when the first token can be "
	"sampled. Only if that step is known to be the end of the prompt")
STAGE(STEPS, tpot_pN, US, OPTIONAL, NEXT)
STAGE(STEPS, tpot_max, US, OPTIONAL, "time per output token: from the end of the previous step to the end of a decode step. Nearest rank; absent "
	"without a decode step. Beyond 65536 tokens the percentiles are taken from a sample of them")

/* a request of a sequence */
SHAPE(SEQUENCE, number, COUNT, REQUIRED, "1, 2, ... in the order in which requests began, over all processes of the file")
SHAPE(SEQUENCE, sequence, COUNT, REQUIRED, "the number of the sequence, or slot")
SHAPE(SEQUENCE, engine_request, COUNT, OPTIONAL, "the engine's own number for the request, as in its log (llama-server: `task`), if the preset "
	"says how the engine numbers requests")
SHAPE(SEQUENCE | SOCKET, request_id, STRING, OPTIONAL, "the engine's own id for the request (vllm: `cmpl-...`), of at most 63 bytes, if the preset says "
	"where a Python engine has its batch. Then each sequence is one request. Of one on a socket: the `id` in its answer, as in the OpenAI API")
SHAPE(SEQUENCE, prompt_tokens, COUNT, OPTIONAL, "rows of its prompt that were decoded")
SHAPE(SEQUENCE, cached_tokens, COUNT, OPTIONAL, "position of its first row: the part of the prompt that was reused from an earlier request; "
	"absent with `began_before`. The first request of a sequence whose first row is neither at position 0 nor where a copy of another sequence ends "
	"counts as `began_before`")
SHAPE(SEQUENCE, preemptions, COUNT, OPTIONAL, NEXT)
SHAPE(SEQUENCE, recomputed_tokens, COUNT, OPTIONAL, "how often its scheduler took its part of the KV cache away and went on with it later, if the "
	"preset says where a Python engine has its batch, and how many of its tokens were computed once more for that; absent if 0. They are not among "
	"`prompt_tokens`")
SHAPE(SEQUENCE, steps, COUNT, REQUIRED, NEXT)
SHAPE(SEQUENCE, steps_shared, COUNT, REQUIRED, "steps with rows of this request, and how many of them also had rows of others")
SHAPE(SEQUENCE, left_out, PARTS, OPTIONAL, "what `--budget` left out of any of its steps (see token_prof): without barriers, waits at them are "
	"in `cpu` here, too")
SHAPE(SEQUENCE, mixed, TRUE, OPTIONAL, "`true`: in some of its steps the owners of the rows are unknown, or two steps of its context overlapped. "
	"Only `total` is given")
SHAPE(SEQUENCE, cancelled, TRUE, OPTIONAL, "`true`: its sequence was removed before its first output; or it is joined with its socket, and the "
	"client closed the connection before the answer was complete: a write failed, or the server read the end of the stream before its last step "
	"ended")
SHAPE(SEQUENCE, waitedN_for, COUNT, OPTIONAL, NEXT)
SHAPE(SEQUENCE, waitedN_pid, COUNT, OPTIONAL, NEXT)
SHAPE(SEQUENCE, waitedN_sequence, COUNT, OPTIONAL, NEXT)
SHAPE(SEQUENCE, waitedN_us, US, OPTIONAL, "the request (by `number`) that it waited for longest in `others`; `waited2_` ... `waited8_`: the next")
SHAPE(SEQUENCE, waitedN_ttft_us, US, OPTIONAL, "the part of that time before the first output; absent if 0")
SHAPE(SEQUENCE, waited_others_us, US, OPTIONAL, "the rest of `others`")
SHAPE(SEQUENCE, SPAN_gpu_PART_us, US, OPTIONAL, "with `record --gpu`: what the GPUs did in `own_prefill`, `own_decode`, `others` and `between`, "
	"by the parts of `token_prof` that are not 0; they add up to it. Absent if it is unknown for any of the steps or for the time between any two")
SHAPE(SEQUENCE, joined, BOOL, OPTIONAL, "`true`: it was also seen on a socket; the line then has `request`, `fd`, `family`, `bytes_read`, "
	"`bytes_written`, `reads`, `writes`, `chunks` and `write_blocked_us` from there. `false`: it was not joined. Lines of sockets have it if their "
	"process has sequences")
SHAPE(SEQUENCE, socket_pid, COUNT, OPTIONAL, "the process that has the socket, if it is another one than the engine's")
SHAPE(SEQUENCE | SOCKET, joined_why, ONE_OF(none fits or several fit or one is not over), OPTIONAL, "`none fits`; `several fit`; `one is not "
	"over`: a request whose end had not been seen may be the match")
SHAPE(SEQUENCE, source_kind, ONE_OF(sequence), REQUIRED, ELSEWHERE)
STAGE(SEQUENCE, total, US, REQUIRED, "from the start of its first step to the end of its last one. If the preset has `begin` and `token` "
	"([engines.md](engines.md#life-of-sequences)), as for llama-server: from when the engine began with its prompt until its last token was sampled")
STAGE(SEQUENCE, SPAN, PART, OPTIONAL, "the parts of `total`, to the nanosecond; absent with `mixed` and `lost_steps`")
STAGE(SEQUENCE, SPAN_STATE, US, OPTIONAL, "each part divided by the states (as in `token_prof`) of the thread that called the steps; if known, "
	"the states that are not 0, which add up to the part")
STAGE(SEQUENCE, ttft, US, OPTIONAL, "from the start of its first step to the end of the step that gave its first output; with `begin` and "
	"`token`, from the start of `total` until its first token was sampled. Absent with `began_before` and `lost_steps`")
STAGE(SEQUENCE, ttft_others, US, OPTIONAL, NEXT)
STAGE(SEQUENCE, ttft_between, US, OPTIONAL, "the parts of `others` and `between` before the first output: with `own_prefill` they add up to "
	"`ttft`")
STAGE(SEQUENCE, tpot_pN, US, OPTIONAL, NEXT)
STAGE(SEQUENCE, tpot_max, US, OPTIONAL, "between the ends of steps that gave it tokens")
STAGE(SEQUENCE, queued, PART, OPTIONAL, "of a joined one, from its first bytes on the socket to the start of its first step, of others from when they "
	"arrived at the engine, if the preset says where that is; with `own_prefill`, "
	"`own_decode`, `others` and `between` it adds up to `total`")
STAGE(SEQUENCE, behind_others, US, OPTIONAL, "the part of `queued`, from `sent` on if that is known, in which its context ran steps, for other requests; "
	"absent if 0. The shape's `path1_us` ... `path_unknown_us`, as in `token_prof`, sum to the rest of `queued` and `between`: who caused the "
	"time in which no step ran, and all of the time until the request was passed on")
STAGE(SEQUENCE, unread, US, OPTIONAL, "the part of `queued` before the server read these bytes; absent if unknown")
STAGE(SEQUENCE, to_engine, US, OPTIONAL, "the part of `queued` until the request arrived at the engine, if the preset says where that is: `unread`, "
	"and what the server did before, as its tokenizer")
STAGE(SEQUENCE, sent, US, OPTIONAL, "the part of `to_engine` until the server passed the request on to the engine, if the preset says where that is, "
	"and it was recorded")
STAGE(SEQUENCE, no_slot, US, OPTIONAL, NEXT)
STAGE(SEQUENCE, no_tokens, US, OPTIONAL, NEXT)
STAGE(SEQUENCE, no_kv, US, OPTIONAL, "the parts of `queued`, once it had arrived at the engine, in which the [scheduler](engines.md#scheduler) let no other request in: "
	"all its slots were taken; the step had as many tokens as it may; the KV cache had no room. Each is from the start of the step in which it was refused to the "
	"start of the next one; absent if 0")
STAGE(SEQUENCE, preempted, US, OPTIONAL, "the parts of `others` and `between` from its last step before each of its `preemptions` to the step with "
	"which it goes on; absent if 0, as the next two")
STAGE(SEQUENCE, ttft_preempted, US, OPTIONAL, "the part of that before the first output")
STAGE(SEQUENCE, recompute, US, OPTIONAL, "the part of `own_prefill` and `own_decode` for its `recomputed_tokens`, by rows")
STAGE(SEQUENCE, ttft_client, US, OPTIONAL, "from its first bytes on the socket to the first part of the answer after the header")
STAGE(SEQUENCE, first_answered, US, OPTIONAL, "the end of `ttft_client`: from when its first output was there until the first part of the answer was written; "
	"of an answer in one part, from the end of its last step. Not a part of `total`")
STAGE(SEQUENCE, answered, US, OPTIONAL, "from the end of its last step until the end of the answer was written; not a part of `total`. If "
	"`write_blocked_us` is as long, the client read slowly")

/* a request on a socket */
SHAPE(SOCKET | SEQUENCE, request, TEXT, FIRST, "`POST /v1/completions`: method and path if it is HTTP, at most 64 bytes, without the query string; "
	"else `request`")
SHAPE(SOCKET | SEQUENCE, fd, COUNT, FIRST, NEXT)
SHAPE(SOCKET | SEQUENCE, family, ONE_OF(inet or inet6 or unix), FIRST, "the descriptor; `inet`, `inet6`, `unix`")
SHAPE(SOCKET | SEQUENCE, bytes_read, COUNT, FIRST, NEXT)
SHAPE(SOCKET | SEQUENCE, bytes_written, COUNT, FIRST, NEXT)
SHAPE(SOCKET | SEQUENCE, reads, COUNT, FIRST, NEXT)
SHAPE(SOCKET | SEQUENCE, writes, COUNT, FIRST, "bytes and system calls")
SHAPE(SOCKET | SEQUENCE, chunks, COUNT, FIRST, "parts of the answer after the header; writes that begin less than 100 us after the previous one "
	"belong to the same part. If an engine sends each token at once, these are its tokens")
SHAPE(SOCKET | SEQUENCE, write_blocked_us, US, OPTIONAL, "time in calls that wrote the answer and blocked, as when the client reads slowly; 0 "
	"for a server with non-blocking writes")
SHAPE(SOCKET, end_not_seen, TRUE, OPTIONAL, "`true`: it was answered, but the end of the answer had not been seen when the recording ended")
SHAPE(SOCKET, unfinished, TRUE, OPTIONAL, "`true`: when the recording ended nothing of an answer had been written, or only a header that says with its last field that chunks follow")
SHAPE(SOCKET, source_kind, ONE_OF(socket), REQUIRED, ELSEWHERE)
SHAPE(SOCKET, joined, FALSE, OPTIONAL, ELSEWHERE)
STAGE(SOCKET, total, US, REQUIRED, "from the arrival of its first bytes to the end of the system call that wrote the last of the answer")
STAGE(SOCKET, accepted, US, OPTIONAL, "from the accept(2) of its connection until the server had read its first bytes; of the first request on it")
STAGE(SOCKET, unread, US, OPTIONAL, "from the arrival of its first bytes until the server had read them; absent if unknown")
STAGE(SOCKET, first_byte, US, OPTIONAL, "to the first bytes of the answer, which may be the header alone")
STAGE(SOCKET, ttft, US, OPTIONAL, "to the first part of the answer after the header")
STAGE(SOCKET, tpot_mean, US, OPTIONAL, "mean time between parts of the answer, exact; absent with fewer than two")
STAGE(SOCKET, tpot_pN, US, OPTIONAL, NEXT)
STAGE(SOCKET, tpot_max, US, OPTIONAL, "time between parts of the answer: percentiles from a histogram, within 1.6 %; the longest is exact")

/* Sums over a process */
SHAPE(SYSCALL | FAULT | SCHED | MEMORY | MISFIT, pid, COUNT, REQUIRED, ELSEWHERE)
SHAPE(SYSCALL | FAULT | SCHED | MEMORY, comm, STRING, REQUIRED, ELSEWHERE)
SHAPE(SYSCALL, calls, COUNT, REQUIRED, NEXT)
SHAPE(SYSCALL, n_NAME, COUNT, OPTIONAL, "system calls, and those of each name")
STAGE(SYSCALL, NAME, PART, OPTIONAL, "the time in each of them")
SHAPE(FAULT, n_minor, COUNT, REQUIRED, NEXT)
SHAPE(FAULT, n_major, COUNT, REQUIRED, "as getrusage(2) counts them")
SHAPE(FAULT, n_kernel, COUNT, OPTIONAL, "how many of these occurred within the kernel; their duration is unknown, as of all faults on arm64")
STAGE(FAULT, minor, PART, REQUIRED, NEXT)
STAGE(FAULT, major, PART, REQUIRED, "the time in them")
SHAPE(SCHED, switches_voluntary, COUNT, REQUIRED, NEXT)
SHAPE(SCHED, switches_involuntary, COUNT, REQUIRED, NEXT)
SHAPE(SCHED, threads, COUNT, REQUIRED, "of all its threads, and their number")
STAGE(SCHED, STATE, PART, OPTIONAL, "the states of all its threads, each from its first to its last instant in the recording")
SHAPE(MEMORY, rss_bytes, COUNT, OPTIONAL, "its resident set, if it is still alive")
SHAPE(MEMORY, rss_peak_bytes, COUNT, OPTIONAL, "the largest one")
SHAPE(MEMORY, pages_allocated, COUNT, OPTIONAL, NEXT)
SHAPE(MEMORY, pages_freed, COUNT, OPTIONAL, "with `-e memory`")

/* misfit_prof */
SHAPE(MISFIT, ts_us, US, REQUIRED, ELSEWHERE)
SHAPE(MISFIT, finding, TEXT, REQUIRED, ELSEWHERE)

/* window_prof */
SHAPE(WINDOW, window, COUNT, REQUIRED, "number of the window, from 0; 0 if there is only one")
SHAPE(WINDOW, records, COUNT, REQUIRED, NEXT)
SHAPE(WINDOW, bytes, COUNT, REQUIRED, NEXT)
SHAPE(WINDOW, steps, COUNT, REQUIRED, "what was recorded")
SHAPE(WINDOW, lost, COUNT, REQUIRED, NEXT)
SHAPE(WINDOW, lost_KIND, COUNT, OPTIONAL, "lost records, in all and of each kind that lost any")
SHAPE(WINDOW, version, STRING, OPTIONAL, NEXT)
SHAPE(WINDOW, command_line, STRING, OPTIONAL, "of inftrace, and how the recording was started: only the program of a COMMAND, secrets as `***`, "
	"at most 1 KB")
SHAPE(WINDOW, boottime_ns, DIGITS, OPTIONAL, NEXT)
SHAPE(WINDOW, realtime_ns, DIGITS, OPTIONAL, "`CLOCK_BOOTTIME` and `CLOCK_REALTIME` at the instant from which `ts_us` counts, as in the recording's "
	"trace; strings, since the numbers are beyond what a double holds")
SHAPE(WINDOW, boot_id, BOOT_ID, OPTIONAL, NEXT)
SHAPE(WINDOW, hostname, TEXT, OPTIONAL, "of the machine: the kernel's boot id (`/proc/sys/kernel/random/boot_id`), which its containers share "
	"(except those of systemd-nspawn), and the recorder's host name, which they do not. [Linking](linking.md) uses the boot id. Absent if it is "
	"unknown")
SHAPE(WINDOW, boottime_shift_ns, SHIFT, OPTIONAL, "what the recorder's time namespace adds to the machine's `CLOCK_BOOTTIME`, and so to "
	"`boottime_ns`; a string, absent if 0")
SHAPE(WINDOW, coverage, SHARE, REQUIRED, "share of the time without loss, 0 to 1")
SHAPE(WINDOW, not_recorded, ONE_OF(faults), OPTIONAL, "`faults`: the kernel shows no page faults to inftrace "
	"([deploy.md](deploy.md#where-the-kernel-refuses-events-of-perf))")
SHAPE(WINDOW, trigger, STRING, OPTIONAL, NEXT)
SHAPE(WINDOW, trigger_ts_us, US, OPTIONAL, "of a dump of the flight recorder: why it was written, and when")
SHAPE(WINDOW, budget, SHARE, OPTIONAL, "the share given with `--budget`, 0 to 1")
SHAPE(WINDOW, left_out, PARTS, OPTIONAL, NEXT)
SHAPE(WINDOW, left_out_WHAT_us, US, OPTIONAL, "what `--budget` turned off, and for how long each")
SHAPE(WINDOW, opened_by, STRING, OPTIONAL, NEXT)
SHAPE(WINDOW, closed_by, STRING, OPTIONAL, "of a window: the reasons")
SHAPE(WINDOW, holds, COUNT, OPTIONAL, NEXT)
SHAPE(WINDOW, held_us, US, OPTIONAL, NEXT)
SHAPE(WINDOW, held_longest_us, US, OPTIONAL, "how often a thread was held in the dynamic loader until the probes of what it had mapped were in place, "
	"for how long in total, and the longest of these; absent if there were none")
SHAPE(WINDOW, holds_expired, COUNT, OPTIONAL, "how many of these continued without the probes after 50 ms, those of a COMMAND after 500 ms")
SHAPE(WINDOW, probed_late, COUNT, OPTIONAL, NEXT)
SHAPE(WINDOW, probed_late_longest_us, US, OPTIONAL, "files that a process had mapped before their functions had probes, and the longest time until "
	"they had. Calls in that time are missing; their number is not known. Absent if there were none")
SHAPE(WINDOW, gpu_deviceN_name, TEXT, OPTIONAL, NEXT)
SHAPE(WINDOW, gpu_deviceN_pci, PCI, OPTIONAL, NEXT)
SHAPE(WINDOW, gpu_deviceN_uuid, UUID, OPTIONAL, "with `record --gpu`: each device used so far, by its number in the recording, as described by "
	"the driver")
STAGE(WINDOW, total, US, REQUIRED, ELSEWHERE)
STAGE(WINDOW, open, US, REQUIRED, ELSEWHERE)
STAGE(WINDOW, close, US, REQUIRED, ELSEWHERE)

#undef SHAPE
#undef STAGE
#undef FAMILY
