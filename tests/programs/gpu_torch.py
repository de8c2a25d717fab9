# SPDX-License-Identifier: BSD-2-Clause
"""Real PyTorch for CPUs, of which some operators run on a GPU that does not exist (tests/gpu/mock.h).

    gpu_torch.py N

The dispatcher of PyTorch finds a function below in place of the CPU's kernel of each of three operators, which launches
kernels through libcuda, as PyTorch's CUDA build does, and computes nothing. So the calls of operators, their nesting and the
interpreter are those of PyTorch; its CUDA backend, its allocator and its streams are not there. Prints "ready". Copies
something for each line "copy" on standard input; the line "go" has it call Net.forward N times, each of which launches 10
kernels: 6 for addmm, 3 for relu, 1 for _softmax.
"""
import ctypes
import sys
import warnings

import torch

cuda = ctypes.CDLL("libcuda.so.1")
stream = ctypes.c_void_p()
functions = {}


def start():
    context = ctypes.c_void_p()
    cuda.cuInit(0)
    cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0)
    cuda.cuStreamCreate(ctypes.byref(stream), 0)
    for name in "_Z4gemmPKfS0_Pfi", "_Z6splitKPKfPfi", "_Z4reluPKfPfi", "_Z7softmaxPKfPfi":
        functions[name] = ctypes.c_void_p()
        cuda.cuModuleGetFunction(ctypes.byref(functions[name]), None, name.encode())


def launch(name, blocks):
    if functions:
        cuda.cuLaunchKernel(functions[name], blocks, 1, 1, 128, 1, 1, 0, stream, None, None)


def addmm(bias, a, b, *, beta=1, alpha=1):
    launch("_Z4gemmPKfS0_Pfi", 8)
    launch("_Z6splitKPKfPfi", 4)
    return torch.empty(a.shape[0], b.shape[1])


def relu(x):
    launch("_Z4reluPKfPfi", 2)
    return torch.empty(x.shape)


def softmax(x, dim, half_to_float):
    launch("_Z7softmaxPKfPfi", 1)
    return torch.empty(x.shape)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(64, 64) for _ in range(3))

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        x = torch.softmax(x, -1)
        cuda.cuStreamSynchronize(stream)
        return x


def main():
    host, memory = ctypes.create_string_buffer(1000), ctypes.c_uint64()
    warnings.simplefilter("ignore")  # these operators have a function for CPUs already
    library = torch.library.Library("aten", "IMPL")
    for name, function in ("addmm", addmm), ("relu", relu), ("_softmax", softmax):
        library.impl(name, function, "CPU")
    net, x = Net(), torch.zeros(4, 64)
    with torch.no_grad():
        net(x)  # without any kernel
        start()
        cuda.cuMemAlloc_v2(ctypes.byref(memory), 1000)
        print("ready", flush=True)
        while sys.stdin.readline() == "copy\n":
            cuda.cuMemcpyHtoD_v2(memory, host, 1000)
        for _ in range(int(sys.argv[1])):
            net(x)


main()
