# SPDX-License-Identifier: BSD-2-Clause
"""Operators on tensors of all types and many shapes, while PyTorch itself writes an execution trace of them into TRACE.

    torch_shapes.py GO TRACE

Prints "ready", and begins once the file GO exists. check_shapes.py compares what lies between the two marks.
"""

import os
import sys
import time

import torch
from torch.nn import functional


def types():
    return sorted({v for v in vars(torch).values() if isinstance(v, torch.dtype)}, key=str)


def mark():
    torch.relu(torch.ones(7, 11))


def calls():
    for dtype in types():
        try:
            torch.empty(2, 3, dtype=dtype).view(3, 2)
        except (RuntimeError, TypeError):  # not on a CPU
            pass
    a = torch.ones(2, 3, 4, 5, 6)
    a + a[:1]
    torch.ones(()) * 2
    torch.relu(torch.ones(0, 7))
    torch.cat([a, a])
    functional.layer_norm(a, [6])
    functional.layer_norm(a, [6], torch.ones(6), torch.zeros(6))
    functional.linear(torch.ones(4, 8), torch.ones(2, 8))
    functional.linear(torch.ones(4, 8), torch.ones(2, 8), torch.ones(2))
    functional.embedding(torch.tensor([[1, 2]]), torch.ones(9, 4))
    one = torch.ones(1)
    for sizes in ((2**30 - 2, 2), (2**30 - 1,), (2**30 - 1, 2), (1, 1, 2**21 - 2, 2**21 - 2), (1, 1, 2**21 - 1), (1, 1, 1, 1, 2**16 - 2),
                  (1, 1, 1, 1, 2**16 - 1), (1, 2, 3, 4, 5, 6)):
        one.expand(sizes).t() if len(sizes) == 2 else one.expand(sizes).unsqueeze(0)


print("ready", flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
observer = (getattr(torch.profiler, "ExecutionGraphObserver", None) or torch.profiler.ExecutionTraceObserver)()
observer.register_callback(sys.argv[2])
observer.start()
mark()
calls()
mark()
observer.stop()
observer.unregister_callback()
