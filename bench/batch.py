#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What reading a batch of N requests costs a Python engine: batch.py N [WAITING]; with WAITING, of a scheduler that also says how many
requests wait, and of its KV cache. Functions with vLLM's names, the one that has the batch beside
one that has not; prints the medians in us. See "Rows of a step" in README.md."""
import collections
import statistics
import sys
import time


class Object:
    def __init__(self, **attributes):
        self.__dict__.update(attributes)


def named(function, name, path):
    """The function as that of a file, which it is told by."""
    function.__code__ = function.__code__.replace(co_name=name.rsplit(".")[-1], co_qualname=name, co_filename="/" + path)
    return function


def has_batch(self, scheduler_output, model_runner_output):
    pass


def has_none(self, scheduler_output, model_runner_output):
    pass


def step(scheduler, batch, results, took):
    for i, function in enumerate((has_none, has_batch)):
        begin = time.perf_counter_ns()
        function(scheduler, batch, results)
        took[i].append(time.perf_counter_ns() - begin)


def main():
    try:
        import _C  # noqa: F401: by which the engine is known
    except ImportError:
        pass
    named(has_batch, "Scheduler.update_from_output", "vllm/v1/core/sched/scheduler.py")
    named(step, "EngineCore.step", "vllm/v1/engine/core.py")
    time.sleep(1)
    ids = [f"chatcmpl-{i:032x}-0" for i in range(int(sys.argv[1]))]
    scheduler = Object(requests=dict.fromkeys(ids))
    if sys.argv[2:]:
        pool = Object(num_gpu_blocks=1000, free_block_queue=Object(num_free_blocks=500))
        scheduler.__dict__.update({f"setting_{i}": i for i in range(60)}, waiting=collections.deque(range(int(sys.argv[2]))), running=ids,
                                  max_num_running_reqs=256, max_num_scheduled_tokens=8192, block_size=16,
                                  kv_cache_manager=Object(block_pool=pool))
    batch = Object(num_scheduled_tokens=dict.fromkeys(ids, 1), total_num_scheduled_tokens=len(ids), scheduled_new_reqs=[],
                   finished_req_ids=set(), preempted_req_ids=set())
    results = Object(sampled_token_ids=[[7] for _ in ids], req_id_to_index={i: n for n, i in enumerate(ids)})
    took = [], []
    for _ in range(3000):
        step(scheduler, batch, results, took)
    without, with_batch = (statistics.median(t) / 1000 for t in took)
    print(f"{len(ids)} requests: {without:.2f} without, {with_batch:.2f} with the batch, +{with_batch - without:.2f}")


main()
