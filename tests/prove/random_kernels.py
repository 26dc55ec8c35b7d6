"""Random kernels, with and without a bug, proved and run: what is proved never fails when it runs.

As a program: writes kernels to a folder, proves each, runs cases of each with every sanitizer, and prints one line
of JSON for each kernel: what was proved, and what the sanitizers found.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

HEAD = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 y, .param .u32 n) {
    .reg .pred %p<9>;
    .reg .u32 %r<40>;
    .reg .u64 %a<40>;
    .reg .f32 %f<9>;
    .shared .align 4 .b8 tile[TILE];
    ld.param.u64 %a0, [x];
    ld.param.u64 %a1, [y];
    ld.param.u32 %r0, [n];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mad.lo.u32 %r4, %r2, %r3, %r1;
"""
SPEC = """kcheck: 1
op: {op}
dims: {{N: {low}..{high}}}
inputs: {{x: {{shape: [N], dtype: float32}}}}
outputs: {{y: {{shape: ["{size}"], dtype: float32}}}}
kernel: {op}.ptx:k
launch: {{args: [x, y, {{N: int32}}], grid: ["{grid}"], block: [{block}]}}
reference: none
sanitize: {{unwritten: off, initcheck: off, nondeterministic: off, mutated: off}}
"""


def kernel(stream: random.Random, op: str) -> tuple[str, str]:
    """(PTX, spec) of a random kernel. About half of them have a bug."""
    block = stream.choice([32, 64, 96])
    shape = stream.choice([_mapped, _strided, _reversed, _tiled, _summed])
    grid = stream.choice([f"ceildiv(N, {block})"] * 3 + [f"N // {block} + 1"])
    body, size, tile = shape(stream, block)
    text = HEAD.replace("TILE", str(tile)) + body + "END:\n    ret;\n}\n"
    low, high = stream.choice([(1, 300), (block, 200), (5, 5)])
    return text, SPEC.format(op=op, low=low, high=max(low, high), size=size, grid=grid, block=block)


def _guard(stream: random.Random) -> str:
    """``if (i >= N) return``, or one that is off by one, or none."""
    off = stream.choice([0, 0, 0, 0, 1, -1])
    if stream.random() < 0.1:
        return ""
    test = stream.choice(
        ["ge.u32", "ge.s32", "ge.u32", "gt.s32"] if stream.random() < 0.3 else ["ge.u32", "ge.s32"]
    )
    return f"    add.s32 %r5, %r0, {off};\n    setp.{test} %p0, %r4, %r5;\n    @%p0 bra END;\n"


def _element(register: str, base: str, to: str) -> str:
    return f"    mul.wide.u32 %a9, {register}, 4;\n    add.u64 {to}, {base}, %a9;\n"


def _mapped(stream: random.Random, block: int) -> tuple[str, str, int]:
    """``y[i * s + o] = x[i]``."""
    step, more = stream.choice([1, 1, 2, 3]), stream.choice([0, 0, 1])
    body = _guard(stream) + _element("%r4", "%a0", "%a2") + "    ld.global.f32 %f0, [%a2];\n"
    body += f"    mad.lo.u32 %r6, %r4, {step}, {more};\n" + _element("%r6", "%a1", "%a3")
    return body + "    st.global.f32 [%a3], %f0;\n", f"{step} * N + {stream.choice([0, more])}", 4


def _strided(stream: random.Random, block: int) -> tuple[str, str, int]:
    """``for (j = i; j < N; j += gridDim * blockDim) y[j / d] = x[j]``."""
    by = stream.choice([1, 1, 1, 2])
    body = "    mov.u32 %r20, %nctaid.x;\n    mul.lo.u32 %r21, %r20, %r3;\n    mov.u32 %r6, %r4;\n"
    test = stream.choice(["ge.u32", "ge.u32", "gt.u32"])
    body += f"LOOP:\n    setp.{test} %p1, %r6, %r0;\n    @%p1 bra END;\n"
    body += _element("%r6", "%a0", "%a2") + "    ld.global.f32 %f0, [%a2];\n"
    body += f"    div.u32 %r7, %r6, {by};\n" + _element("%r7", "%a1", "%a3") + "    st.global.f32 [%a3], %f0;\n"
    return body + "    add.u32 %r6, %r6, %r21;\n    bra LOOP;\n", stream.choice(["N", "N", "ceildiv(N, 2)"]), 4


def _reversed(stream: random.Random, block: int) -> tuple[str, str, int]:
    """``y[N - 1 - i] = x[i]``, or ``y[N - i]``."""
    one = stream.choice([1, 1, 0, 2])
    body = _guard(stream) + _element("%r4", "%a0", "%a2") + "    ld.global.f32 %f0, [%a2];\n"
    body += f"    sub.u32 %r6, %r0, {one};\n    sub.u32 %r6, %r6, %r4;\n" + _element("%r6", "%a1", "%a3")
    return body + "    st.global.f32 [%a3], %f0;\n", "N", 4


def _tiled(stream: random.Random, block: int) -> tuple[str, str, int]:
    """``tile[t] = ...; __syncthreads(); y[i] = tile[f(t)]``, perhaps without the barrier, or in a branch."""
    tile = 4 * (block - stream.choice([0, 0, 0, 1]))
    body = "    mov.u64 %a4, tile;\n" + _element("%r1", "%a4", "%a5") + "    st.shared.u32 [%a5], %r1;\n"
    where = stream.choice(["plain", "plain", "plain", "none", "branch"])
    if where == "branch":
        limit = stream.choice([block - 1, 32, block, 1000])
        body += f"    setp.ge.u32 %p2, %r1, {limit};\n    @%p2 bra SKIP;\n    bar.sync 0;\nSKIP:\n"
    elif where == "plain":
        body += "    bar.sync 0;\n"
    if stream.random() < 0.7:
        body += f"    sub.u32 %r8, {block - stream.choice([1, 1, 1, 0])}, %r1;\n"
    else:
        body += f"    xor.b32 %r8, %r1, {stream.choice([1, 16])};\n"
    body += _element("%r8", "%a4", "%a6") + "    ld.shared.f32 %f0, [%a6];\n" + _guard(stream)
    return body + _element("%r4", "%a1", "%a3") + "    st.global.f32 [%a3], %f0;\n", "N", tile


def _summed(stream: random.Random, block: int) -> tuple[str, str, int]:
    """A tree over shared memory with a barrier in each step, at the right place or not."""
    inside = stream.choice([True, True, False])
    start, end = stream.choice([32, 32, 16]), stream.choice([0, 0, 1])
    body = "    mov.u64 %a4, tile;\n" + _element("%r1", "%a4", "%a5") + "    st.shared.f32 [%a5], 0f00000000;\n"
    body += f"    bar.sync 0;\n    mov.u32 %r9, {start};\nLOOP:\n"
    body += "    setp.ge.u32 %p3, %r1, %r9;\n    @%p3 bra NEXT;\n    add.u32 %r10, %r1, %r9;\n"
    body += _element("%r10", "%a4", "%a6") + "    ld.shared.f32 %f0, [%a6];\n    ld.shared.f32 %f1, [%a5];\n"
    body += "    add.f32 %f0, %f0, %f1;\n    st.shared.f32 [%a5], %f0;\n"
    body += "NEXT:\n" + ("    bar.sync 0;\n" if inside else "")
    body += f"    shr.u32 %r9, %r9, 1;\n    setp.gt.u32 %p4, %r9, {end};\n    @%p4 bra LOOP;\n" + _guard(stream)
    body += "    ld.shared.f32 %f2, [tile];\n" + _element("%r4", "%a1", "%a3")
    return body + "    st.global.f32 [%a3], %f2;\n", "N", 4 * max(block, 2 * start)


def main(folder: Path, first: int, count: int) -> None:
    """Prove and run the kernels of some seeds."""
    from kcheck.device import choose_for
    from kcheck.model import CaseFinished
    from kcheck.prover.verdicts import decide, words
    from kcheck.runner import Options, run
    from kcheck.specfile import load_spec

    (folder / "kcheck.yaml").write_text("")
    for seed in range(first, first + count):
        op = f"random_{seed}"
        text, spec_text = kernel(random.Random(seed), op)
        (folder / f"{op}.ptx").write_text(text)
        (folder / f"{op}.yaml").write_text(spec_text)
        spec = load_spec(folder / f"{op}.yaml")
        device = choose_for([spec], "cpu")
        verdicts = words(decide(spec, device).proofs)
        events = run([spec], Options(count=8, lint=False, sanitize=dict.fromkeys(verdicts, "error")), device)
        found = {f.rule for e in events if isinstance(e, CaseFinished) for f in e.verdict.findings}
        print(json.dumps({"op": op, "verdicts": verdicts, "found": sorted(found)}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
