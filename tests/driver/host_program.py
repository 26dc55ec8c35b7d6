"""An ordinary numba.cuda program: one function per thing that host code does. Run under ``kcheck exec``."""

from __future__ import annotations

import math
import sys
import warnings

import numpy as np
import pytest
from numba import cuda, float32, int32, vectorize
from numba.cuda.bf16 import bfloat16

CHECKS = []


def check(function):
    """Collect a check."""
    CHECKS.append(function)
    return function


@cuda.jit
def scale(x, factor):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= factor


@check
def mapped_arrays():
    host = cuda.mapped_array(100, dtype=np.float32)
    host[:] = 2
    scale[4, 32](host, 3)
    cuda.synchronize()
    assert (host == 6).all()


@check
def managed_arrays():
    array = cuda.managed_array(100, dtype=np.float32)
    array[:] = 2
    scale[4, 32](array, 4)
    cuda.synchronize()
    assert (array == 8).all()


@check
def pinned_arrays_and_streams():
    stream = cuda.stream()
    host = cuda.pinned_array(1000, dtype=np.float64)
    host[:] = 1
    with stream.auto_synchronize():
        device = cuda.to_device(host, stream=stream)
        scale[32, 32, stream](device, 5)
        device.copy_to_host(host, stream=stream)
    assert (host == 5).all()


@check
def pinning_host_memory():
    host = np.ones(64, np.float32)
    with cuda.pinned(host):
        scale[2, 32](host, 2)
    assert (host == 2).all()


@check
def events_measure_time():
    start, end = cuda.event(), cuda.event()
    start.record()
    scale[1, 32](np.ones(32, np.float32), 1)
    end.record()
    end.synchronize()
    assert 0 <= cuda.event_elapsed_time(start, end) < 60_000


@check
def occupancy_of_a_cooperative_kernel():
    @cuda.jit
    def wait(x):
        cuda.cg.this_grid().sync()
        x[0] = 1

    x = np.zeros(1)
    wait[1, 1](x)
    (overload,) = wait.overloads.values()
    assert overload.max_cooperative_grid_blocks(256) >= 108


@check
def types_that_lines_cannot_describe():
    @cuda.jit
    def length(out, nested):
        out[0] = len(nested)

    out = np.zeros(1, np.int64)
    length[1, 1](out, ((), (), ()))
    assert out[0] == 3


@check
def references_are_counted():
    @cuda.jit
    def kernel(out):
        out[0] = np.ones(3).sum()

    out = np.zeros(1)
    kernel[1, 1](out)
    assert out[0] == 3


@check
def forall_chooses_a_block():
    x = cuda.to_device(np.ones(1000, np.float32))
    scale.forall(1000)(x, 7)
    assert (x.copy_to_host() == 7).all()


@check
def reduce():
    total = cuda.reduce(lambda a, b: a + b)
    assert total(np.arange(1000, dtype=np.int64)) == 499500


@check
def ufuncs():
    @vectorize(["float32(float32, float32)"], target="cuda")
    def hypotenuse(a, b):
        return math.sqrt(a * a + b * b)

    x = np.arange(100, dtype=np.float32)
    assert np.allclose(hypotenuse(3 * x, 4 * x), 5 * x)


TABLE = np.arange(10, dtype=np.int32) ** 2


@check
def constant_memory():
    @cuda.jit
    def look_up(out):
        table = cuda.const.array_like(TABLE)
        i = cuda.grid(1)
        if i < out.size:
            out[i] = table[i]

    out = np.zeros(10, np.int32)
    look_up[1, 32](out)
    assert (out == TABLE).all()


@check
def grid_barrier():
    @cuda.jit
    def rotate(x, y):
        grid = cuda.cg.this_grid()
        i = cuda.grid(1)
        y[i] = 2 * x[i]
        grid.sync()
        x[i] = y[(i + 37) % x.size]

    x = np.arange(256, dtype=np.int32)
    y = np.zeros_like(x)
    expected = np.roll(2 * x, -37)
    rotate[8, 32](x, y)
    assert (x == expected).all()


@check
def exceptions_of_debug_kernels():
    @cuda.jit(debug=True, opt=False)
    def complain(x):
        if x[0] > 0:
            raise ValueError("too large")

    complain[1, 1](np.zeros(1))
    with pytest.raises(ValueError, match="too large"):
        complain[1, 1](np.ones(1))


@check
def bounded_registers():
    @cuda.jit(max_registers=24)
    def busy(x):
        i = cuda.grid(1)
        a = math.sin(x[i])
        b = math.pow(x[i], a)
        x[i] = math.lgamma(a) * math.erf(b) + math.cos(b)

    busy[1, 32](np.ones(32))
    (registers,) = busy.get_regs_per_thread().values()
    assert 0 < registers <= 24, registers


@check
def assembly_and_resources():
    @cuda.jit((float32[::1],))
    def kernel(x):
        room = cuda.shared.array(64, float32)
        room[cuda.threadIdx.x] = x[cuda.threadIdx.x]
        cuda.syncthreads()
        x[cuda.threadIdx.x] = room[63 - cuda.threadIdx.x]

    assert ".shared" in next(iter(kernel.inspect_asm().values()))
    assert kernel.get_shared_mem_per_block() == 256
    assert kernel.get_local_mem_per_thread() == 0


@check
def bfloat16_with_lines():
    @cuda.jit
    def multiply(out):
        out[0] = float32(bfloat16(1.5) * bfloat16(2.25))

    out = np.zeros(1, np.float32)
    multiply[1, 1](out)
    assert out[0] == 3.375


@check
def linked_ptx_calls_linked_code():
    """A function in PTX calls one in CUDA C++ that nothing else calls, so that optimizing the link may drop it."""
    ptx = """.version 8.0
.target sm_80
.address_size 64
.extern .func (.param .b32 r) half_of(.param .b32 x);
.visible .func (.param .b32 r) quarter_of(.param .b64 result, .param .b32 x)
{
  .reg .b32 %r<2>; .reg .b64 %p; .param .b32 a; .param .b32 b;
  ld.param.b32 %r0, [x]; st.param.b32 [a], %r0; call.uni (b), half_of, (a); ld.param.b32 %r0, [b];
  st.param.b32 [a], %r0; call.uni (b), half_of, (a); ld.param.b32 %r0, [b];
  ld.param.b64 %p, [result]; st.b32 [%p], %r0; mov.b32 %r1, 0; st.param.b32 [r], %r1; ret;
}"""
    cu = 'extern "C" __device__ int half_of(int x) { return x / 2; }'
    code = [cuda.PTXSource(ptx.encode()), cuda.CUSource(cu)]
    quarter_of = cuda.declare_device("quarter_of", "int32(int32)", link=code)

    @cuda.jit
    def kernel(out):
        out[0] = quarter_of(out[0])

    out = np.array([84], np.int32)
    kernel[1, 1](out)
    assert out[0] == 21


@check
def dynamic_shared_memory():
    @cuda.jit
    def reverse(x):
        room = cuda.shared.array(0, int32)
        room[cuda.threadIdx.x] = x[cuda.threadIdx.x]
        cuda.syncthreads()
        x[cuda.threadIdx.x] = room[cuda.blockDim.x - 1 - cuda.threadIdx.x]

    x = np.arange(128, dtype=np.int32)
    reverse[1, 128, 0, 4 * 128](x)
    assert (x == np.arange(128)[::-1]).all()


@check
def a_lock_between_lanes():
    @cuda.jit
    def count(lock, total):
        taken = False
        while not taken:
            if cuda.atomic.cas(lock, 0, 0, 1) == 0:
                total[0] += 1
                cuda.threadfence()
                cuda.atomic.exch(lock, 0, 0)
                taken = True

    lock, total = np.zeros(1, np.int32), np.zeros(1, np.int32)
    count[2, 64](lock, total)
    assert total[0] == 128


@check
def memory_is_accounted_for():
    context = cuda.current_context()
    before = context.get_memory_info()
    array = cuda.device_array(1 << 20, np.uint8)
    assert before.free - context.get_memory_info().free == 1 << 20
    del array


@check
def refused_launches_raise():
    with pytest.raises(Exception, match="INVALID_VALUE"):
        scale[1, 1025](np.ones(1, np.float32), 1)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for function in CHECKS:
        try:
            function()
        except Exception as error:
            print(f"{function.__name__}: {type(error).__name__}: {error}".replace("\n", " "))
        else:
            print(f"{function.__name__}: ok")
    sys.exit(0)
