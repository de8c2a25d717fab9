# SPDX-License-Identifier: BSD-2-Clause
"""A scheduler with the names of vLLM's, which decides what a log of the real one says."""
from dataclasses import dataclass, field
from typing import Any


@dataclass
class NewRequestData:
    req_id: str
    prompt_token_ids: list
    mm_features: list
    sampling_params: Any
    block_ids: tuple
    num_computed_tokens: int


@dataclass
class CachedRequestData:
    req_ids: list
    resumed_req_ids: set
    new_token_ids: list
    num_computed_tokens: list


@dataclass
class CachedRequestDataOf0_9_2:
    req_ids: list
    resumed_from_preemption: list
    new_token_ids: list
    new_block_ids: list
    num_computed_tokens: list


@dataclass
class CachedRequestDataOf0_9_1:
    req_id: str
    resumed_from_preemption: bool
    new_token_ids: list
    new_block_ids: list
    num_computed_tokens: int


def cached_requests(release, ids, resumed, computed):
    """What is told of requests that are not new."""
    if release == "0.9.1":
        return [CachedRequestDataOf0_9_1(i, i in resumed, [], [], computed[i]) for i in ids]
    computed = [computed[i] for i in ids]
    if release == "0.9.2":
        return CachedRequestDataOf0_9_2(ids, [i in resumed for i in ids], [], [], computed)
    return CachedRequestData(ids, set(resumed), [], computed)


@dataclass
class SchedulerOutput:
    scheduled_new_reqs: list
    scheduled_cached_reqs: CachedRequestData
    num_scheduled_tokens: dict
    total_num_scheduled_tokens: int
    scheduled_spec_decode_tokens: dict
    num_common_prefix_blocks: list
    finished_req_ids: set
    free_encoder_mm_hashes: list = field(default_factory=list)
    preempted_req_ids: set = field(default_factory=set)


@dataclass
class ModelRunnerOutput:
    req_ids: list
    req_id_to_index: dict
    sampled_token_ids: list
    logprobs: Any = None
    prompt_logprobs_dict: dict = field(default_factory=dict)
    pooler_output: list = field(default_factory=list)


class Request:
    def __init__(self, request_id):
        self.request_id = request_id
        for i in range(46):
            setattr(self, f"other_{i}", i)


class Scheduler:
    def __init__(self, log, outputs, release):
        self.release = release
        self.log = iter(log)
        self.outputs = outputs  # how many tokens each request takes
        self.requests = {}
        self.finished = 0
        for i in range(33):  # more attributes than an object keeps without a dict
            setattr(self, f"setting_{i}", i)

    def add_request(self, request):
        self.requests[request.request_id] = [0]

    def schedule(self):
        step = next(self.log)
        computed, new = step["computed"], list(step["new"])
        if self.release == "v2":
            new += step["resumed"]
        return step, SchedulerOutput(
            scheduled_new_reqs=[NewRequestData(i, [], [], None, ([],), computed[i]) for i in new],
            scheduled_cached_reqs=cached_requests(self.release, [i for i in step["tokens"] if i not in new], step["resumed"], computed),
            num_scheduled_tokens=dict(step["tokens"]),
            total_num_scheduled_tokens=step["total"],
            scheduled_spec_decode_tokens={},
            num_common_prefix_blocks=[0],
            finished_req_ids=set(step["finished"]),
            preempted_req_ids=set(step["preempted"]),
        )

    def abort(self, step):
        """The clients of requests that have got their last token, and do not know it, have gone."""
        for req_id in step["samples"]:
            if req_id in self.requests and self.requests[req_id][0] == self.outputs[req_id]:
                del self.requests[req_id]

    def update_from_output(self, scheduler_output, model_runner_output):
        self.finished += len([i for i in scheduler_output.finished_req_ids if i not in self.requests])  # up to 3.11, self is in a cell
        for req_id in scheduler_output.num_scheduled_tokens:
            got = model_runner_output.sampled_token_ids[model_runner_output.req_id_to_index[req_id]]
            if got and req_id in self.requests:
                self.requests[req_id][0] += len(got)
                if self.requests[req_id][0] == self.outputs[req_id]:
                    del self.requests[req_id]
