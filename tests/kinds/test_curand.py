"""cuRAND's device API: numbers are those that its documentation defines. The headers are in NVIDIA's wheel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from kinds_project import KindsProject

from kcheck.device.kinds.nvrtc import toolkit_folders

_HAS_HEADERS = any((Path(folder) / "curand_kernel.h").exists() for folder in toolkit_folders())
CUDA = """
#include <curand_kernel.h>

extern "C" __global__ void xorwow(unsigned int* bits, float* y, int n, unsigned long long seed) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  curandState state;
  curand_init(seed, i % 3, i, &state);
  bits[i] = curand(&state);
  y[i] = curand_uniform(&state);
}

extern "C" __global__ void philox(unsigned int* bits, float* y, int n, unsigned long long seed) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  curandStatePhilox4_32_10_t state;
  curand_init(seed, i, i % 7, &state);
  bits[i] = curand(&state);
  y[i] = curand_uniform(&state);
}

extern "C" __global__ void same(unsigned int* bits, float* y, int n, unsigned long long seed) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  curandState state;
  curand_init(seed, 0, 0, &state);  // the same numbers in every thread
  bits[i] = curand(&state);
  y[i] = curand_uniform(&state);
}
"""
REFERENCE = '''
"""XORWOW (Marsaglia, "Xorshift RNGs", 2003) and Philox4x32-10 (Salmon et al., 2011), in integers of Python."""
import functools

import numpy as np

MASK = 0xFFFFFFFF


def started(seed):
    low, high = (seed & MASK) ^ 0xAAD26B49, (seed >> 32) ^ 0xF7DCEFDD
    one, two = 1099087573 * low & MASK, 2591861531 * high & MASK
    v = [123456789 + one, 362436069 ^ one, 521288629 + two, 88675123 ^ two, 5783321 + one]
    return [x & MASK for x in v], 6615241 + two + one & MASK


def step(v):
    t = v[0] ^ (v[0] >> 2)
    return [*v[1:], (v[4] ^ (v[4] << 4) & MASK) ^ (t ^ (t << 1) & MASK)]


def packed(v):
    return sum(x << 32 * n for n, x in enumerate(v))


def unpacked(bits):
    return [bits >> 32 * n & MASK for n in range(5)]


def times(columns, bits):
    """A matrix over GF(2) times a vector."""
    found = 0
    while bits:
        low = bits & -bits
        found ^= columns[low.bit_length() - 1]
        bits ^= low
    return found


@functools.cache
def sequence_jump():
    """The matrix of 2**67 steps."""
    columns = [packed(step(unpacked(1 << n))) for n in range(160)]
    for _ in range(67):
        columns = [times(columns, column) for column in columns]
    return columns


def xorwow_numbers(seed, sequence, offset, count):
    v, d = started(seed)
    bits = packed(v)
    for _ in range(sequence):
        bits = times(sequence_jump(), bits)
    v = unpacked(bits)
    found = []
    for n in range(offset + count):
        v, d = step(v), d + 362437 & MASK
        found += [v[4] + d & MASK] if n >= offset else []
    return found


def philox_block(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        low, high = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [high >> 32 ^ c[1] ^ k[0], high & MASK, low >> 32 ^ c[3] ^ k[1], low & MASK]
        k = [k[0] + 0x9E3779B9 & MASK, k[1] + 0xBB67AE85 & MASK]
    return c


def philox_numbers(seed, sequence, offset, count):
    key, found = (seed & MASK, seed >> 32), []
    for n in range(offset // 4, (offset + count) // 4 + 1):
        found += philox_block((n, 0, sequence & MASK, sequence >> 32), key)
    return found[offset % 4 :][:count]


# kat_vectors of Random123
assert philox_block((0, 0, 0, 0), (0, 0)) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


def outputs(numbers):
    return (
        np.array([one for one, _ in numbers], np.uint32),
        np.array([other * 2.0**-32 + 2.0**-33 for _, other in numbers]),
    )


def xorwow(N, seed):
    return outputs([xorwow_numbers(int(seed), i % 3, i, 2) for i in range(N)])


def philox(N, seed):
    return outputs([philox_numbers(int(seed), i, i % 7, 2) for i in range(N)])
'''
SPEC = """
kernel: kernels/c.cu:{kernel}
reference: references/c.py:{reference}
dims: {{N: [1, 100]}}
params: {{seed: {{dtype: uint64, values: [0, 1234, 12345678901234567]}}}}
inputs: {{}}
outputs: {{bits: {{shape: [N], dtype: uint32}}, y: {{shape: [N], dtype: float32}}}}
launch: {{args: [bits, y, {{N: int32}}, seed], grid: ["ceildiv(N, 64)"], block: [64]}}
"""


@pytest.fixture(scope="module")
def specs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Those of the report, by op."""
    project = KindsProject(tmp_path_factory.mktemp("curand") / "p")
    project.write("kernels/c.cu", CUDA)
    project.write("references/c.py", REFERENCE)
    for op, reference in (("xorwow", "xorwow"), ("philox", "philox"), ("same", "xorwow")):
        project.spec(op, SPEC.format(kernel=op, reference=reference))
    return project.report()


@pytest.mark.skipif(not _HAS_HEADERS, reason="nvidia-curand is not installed")
@pytest.mark.parametrize("op", ["xorwow", "philox"])
def test_the_numbers_are_those_of_the_generator(op: str, specs: dict[str, dict[str, Any]]) -> None:
    """For several seeds, subsequences and offsets: bits, and uniform numbers in (0, 1]."""
    assert specs[op]["status"] == "passed", specs[op]


@pytest.mark.skipif(not _HAS_HEADERS, reason="nvidia-curand is not installed")
def test_other_numbers_are_found(specs: dict[str, dict[str, Any]]) -> None:
    status = {case["dims"]["N"]: case["status"] for case in specs["same"]["cases"]}
    assert status == {1: "passed", 100: "failed"}


@pytest.mark.skipif(_HAS_HEADERS, reason="nvidia-curand is installed")
def test_a_missing_header_names_the_wheel(specs: dict[str, dict[str, Any]]) -> None:
    """Not an extra of kcheck: the wheel is 100 MB, and few kernels need it."""
    finding = specs["xorwow"]["cases"][0]["findings"][0]
    assert "curand_kernel.h" in finding["message"]
    assert finding["fix"].startswith("pip install nvidia-curand")
