# SPDX-License-Identifier: BSD-2-Clause
"""Requests and batches with the names of SGLang's."""
from array import array
from enum import IntEnum, auto


class ForwardMode(IntEnum):
    EXTEND = auto()
    DECODE = auto()
    MIXED = auto()
    IDLE = auto()


class FINISH_LENGTH:
    def __init__(self, length):
        self.length = length


class Req:
    def __init__(self, rid, newer):
        self.rid = rid
        self.output_ids = array("q") if newer else []
        self.finished_reason = None
        self.is_retracted = False
        self.is_chunked = self.results = 0
        for i in range(130):  # more attributes than an object keeps without a dict
            setattr(self, f"other_{i}", i)

    def finished(self):
        return self.finished_reason is not None


class ScheduleBatch:
    def __init__(self, reqs, forward_mode):
        for i in range(60):
            setattr(self, f"other_{i}", i)
        self.reqs = reqs
        self.forward_mode = forward_mode
        self.prefix_lens = None
        self.extend_lens = None
        self.extend_num_tokens = None
        self.out_cache_loc = object()

    def copy(self):
        """What the results need."""
        b = ScheduleBatch(self.reqs, self.forward_mode)
        b.out_cache_loc = self.out_cache_loc
        return b
