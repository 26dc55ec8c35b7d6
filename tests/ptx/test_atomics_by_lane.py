"""Atomics of vectors: lanes that meet at one address, lanes that are off, lanes out of bounds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from ptx_machine import HEAD, compiled, launch

from kcheck.ptx import abi

KERNEL = """{head}
.visible .entry k(.param .u64 to, .param .u64 where, .param .u64 values, .param .u64 out)
{{
    .reg .b32 %t, %i; .reg .b64 %to, %where, %values, %out, %at, %rd<4>; .reg .pred %p; .reg .{kind} %v, %old;
    .shared .align 8 .b8 s[{shared}];
    mov.u32 %t, %tid.x; ld.param.u64 %to, [to]; ld.param.u64 %where, [where]; ld.param.u64 %values, [values];
    ld.param.u64 %out, [out]; mul.wide.u32 %rd0, %t, {size}; mad.wide.u32 %rd1, %t, 4, %where;
    add.u64 %values, %values, %rd0; add.u64 %out, %out, %rd0; add.u64 %rd2, %to, %rd0;
    {begin}
    ld.global.u32 %i, [%rd1]; ld.global.{kind} %v, [%values];
    setp.eq.u32 %p, %i, 0xFFFFFFFF; @%p bra E;
    mad.wide.u32 %at, %i, {size}, %{base};
    {operation}
E:  {end}
    ret;
}}"""
TO_SHARED = """mov.u64 %rd3, s; add.u64 %at, %rd3, %rd0; ld.global.{kind} %v, [%rd2]; st.shared.{kind} [%at], %v;
    bar.sync 0;"""
FROM_SHARED = """bar.sync 0; add.u64 %at, %rd3, %rd0; ld.shared.{kind} %v, [%at]; st.global.{kind} [%rd2], %v;"""
OFF, THREADS = 0xFFFFFFFF, 64
DTYPES = {"u32": np.uint32, "s32": np.int32, "u64": np.uint64, "b32": np.uint32, "f32": np.float32}
OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "add": lambda old, x: old + x,
    "min": min,
    "xor": lambda old, x: old ^ x,
    "exch": lambda old, x: x,
    "inc": lambda old, x: 0 if old >= x else old + 1,
}
FORMS = [("add", "u32"), ("add", "u64"), ("min", "s32"), ("xor", "b32"), ("exch", "b32"), ("inc", "u32")]
FORMS += [("add", "f32")]


def text(operation: str, kind: str, space: str, opcode: str) -> str:
    """Thread t applies the operation to ``to[where[t]]`` with ``values[t]``, but where that is OFF."""
    size = np.dtype(DTYPES[kind]).itemsize
    target = "%old, " if opcode == "atom" else ""
    what = f"{opcode}.{space}.{operation}.{kind} {target}[%at], %v;"
    if opcode == "atom":
        what += f" st.global.{kind} [%out], %old;"
    in_shared = space == "shared"
    return KERNEL.format(
        head=HEAD,
        kind=kind,
        size=size,
        shared=THREADS * size,
        operation=what,
        begin=TO_SHARED.format(kind=kind) if in_shared else "",
        end=FROM_SHARED.format(kind=kind) if in_shared else "",
        base="rd3" if in_shared else "to",
    )


def one_by_one(operation: str, memory: np.ndarray, places: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The operation in the order of the threads, on ``memory``; returns what each thread found there."""
    old, bits, step = np.zeros_like(values), 8 * memory.itemsize, OPERATIONS[operation]
    for t, place in enumerate(places.tolist()):
        if place != OFF:
            old[t] = memory[place]
            if memory.dtype.kind == "f":
                memory[place] += values[t]
            else:
                after = step(int(memory[place]), int(values[t])) & ((1 << bits) - 1)
                memory[place] = np.array(after, f"u{memory.itemsize}").view(memory.dtype)
    return old


@pytest.mark.parametrize("width", [1, 4, 8, 16, 32])
@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize(("operation", "kind"), FORMS)
def test_lanes_follow_each_other(operation: str, kind: str, space: str, width: int) -> None:
    """All at one address, at few, at many; all lanes on, some, one, none."""
    rng, dtype = np.random.default_rng(3), DTYPES[kind]
    for opcode in ("red", "atom") if operation != "exch" else ("atom",):
        for spread in (1, 3, THREADS):
            for off in (np.zeros(THREADS, bool), rng.random(THREADS) < 0.5, np.arange(THREADS) != 37):
                places = np.where(off, OFF, rng.integers(0, spread, THREADS)).astype(np.uint32)
                values = rng.integers(0, 100, THREADS).astype(dtype)
                memory, out = rng.integers(0, 90, THREADS).astype(dtype), np.zeros(THREADS, dtype)
                wanted = memory.copy()
                old = one_by_one(operation, wanted, places, values)
                given = [memory, places, values, out]
                ended = launch(text(operation, kind, space, opcode), given, width, block=(THREADS,))
                assert (ended.status, ended.faults) == (abi.FINISHED, ())
                np.testing.assert_array_equal(memory, wanted)
                if opcode == "atom":
                    np.testing.assert_array_equal(out, old)


@pytest.mark.parametrize("width", [1, 8, 16, 32])
@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize(("operation", "kind"), [("add", "u32"), ("add", "f32"), ("inc", "u32")])
def test_a_lane_out_of_bounds_is_told_and_the_others_add(
    operation: str, kind: str, space: str, width: int
) -> None:
    """At every position in a vector of 32."""
    dtype = DTYPES[kind]
    for lane in range(32):
        places, values = np.arange(THREADS, dtype=np.uint32) % 5, np.ones(THREADS, dtype)
        places[lane] = THREADS
        memory, out = np.full(THREADS, 3, dtype), np.zeros(THREADS, dtype)
        wanted, left = memory.copy(), np.where(np.arange(THREADS) == lane, OFF, places)
        one_by_one(operation, wanted, left, values)
        given = [memory, places, values, out]
        ended = launch(text(operation, kind, space, "red"), given, width, block=(THREADS,))
        assert [(fault, x) for fault, _, x, _ in ended.faults] == [("OUT_OF_BOUNDS_ATOMIC", lane)]
        if space == "global":  # a block with a fault stops at the barrier, before it writes shared memory back
            np.testing.assert_array_equal(memory, wanted)


def test_inlined_code_has_no_addresses_relative_to_null() -> None:
    """LLVM takes loads from them for unreachable, and removed the code that adds without a call."""
    program, _ = compiled(text("add", "u32", "global", "red"), 16, 16)
    assert "ptr null, i64" not in program.ir.text
