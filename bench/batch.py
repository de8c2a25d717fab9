#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What reading a batch of N requests costs a Python engine: batch.py ENGINE N [WAITING]; ENGINE: vllm or sglang. With WAITING, of a
scheduler of vLLM that also says how many requests wait, and of its KV cache. Functions with the engine's names, those that have the
batch beside ones that have not; prints the medians in us. See "Rows of a step" in README.md."""
import collections
import importlib
import random
import statistics
import sys
import time

MANAGERS = "sglang/srt/managers/scheduler.py"


class Object:
    def __init__(self, **attributes):
        self.__dict__.update(attributes)


def named(function, name, path):
    """The function as that of a file, which it is told by."""
    function.__code__ = function.__code__.replace(co_name=name.rsplit(".")[-1], co_qualname=name, co_filename="/" + path)
    return function


def without(self, batch):
    pass


def without_results(self, batch, results):
    pass


def has_batch(self, batch):
    pass


def has_results(self, batch, results):
    pass


def vllm_step(scheduler, batch, results, took):
    for i, function in enumerate((without_results, has_results)):
        begin = time.perf_counter_ns()
        function(scheduler, batch, results)
        took[i].append(time.perf_counter_ns() - begin)


def sglang_step(scheduler, batch, results, took):
    for i, functions in enumerate(((without, without_results), (has_batch, has_results))):
        begin = time.perf_counter_ns()
        functions[0](scheduler, batch)
        functions[1](scheduler, batch, results)
        took[i].append(time.perf_counter_ns() - begin)
    for tokens in batch.tokens:
        tokens.append(7)


def spread(make, n):
    """Objects of a process that has others: between them."""
    made = []
    for i in range(n):
        made.append(make(i))
        OTHERS.append([make(-k - 1) for k in range(random.randrange(3))])
    return made


OTHERS = []


def vllm(n, waiting):
    named(has_results, "Scheduler.update_from_output", "vllm/v1/core/sched/scheduler.py")
    named(vllm_step, "EngineCore.step", "vllm/v1/engine/core.py")
    ids = spread(lambda i: f"chatcmpl-{i & 0xffff:032x}-0", n)
    scheduler = Object(requests=dict.fromkeys(ids))
    if waiting:
        pool = Object(num_gpu_blocks=1000, free_block_queue=Object(num_free_blocks=500))
        scheduler.__dict__.update({f"setting_{i}": i for i in range(60)}, waiting=collections.deque(range(int(waiting[0]))), running=ids,
                                  max_num_running_reqs=256, max_num_scheduled_tokens=8192, block_size=16,
                                  kv_cache_manager=Object(block_pool=pool))
    batch = Object(num_scheduled_tokens=dict.fromkeys(ids, 1), total_num_scheduled_tokens=n, scheduled_new_reqs=[],
                   finished_req_ids=set(), preempted_req_ids=set())
    results = Object(sampled_token_ids=spread(lambda _: [7], n), req_id_to_index={i: at for at, i in enumerate(ids)})
    return vllm_step, scheduler, batch, results


def sglang(n, _):
    named(has_batch, "Scheduler.run_batch", MANAGERS)
    named(has_results, "Scheduler.process_batch_result", MANAGERS)
    attributes = {f"attribute_{i}": i for i in range(60)}
    reqs = spread(lambda i: Object(rid=f"{i & 0xffff:032x}", **attributes, output_ids=[], finished_reason=None), n)
    return sglang_step, Object(), Object(reqs=reqs, forward_mode=2, out_cache_loc=object(), tokens=[r.output_ids for r in reqs]), None


def main():
    engine, n = sys.argv[1], int(sys.argv[2])
    try:
        importlib.import_module({"vllm": "_C", "sglang": "common_ops"}[engine])  # by which the engine is known
    except ImportError:
        pass
    random.seed(1)
    time.sleep(1)
    step, *objects = {"vllm": vllm, "sglang": sglang}[engine](n, sys.argv[3:])
    took = [], []
    for _ in range(3000):
        step(*objects, took)
    before, after = (statistics.median(t) / 1000 for t in took)
    print(f"{n} requests: {before:.2f} without, {after:.2f} with the batch, +{after - before:.2f}")


main()
