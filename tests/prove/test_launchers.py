"""Launchers that are understood for all sizes, each next to a twin that differs in one line and is not proved."""

from __future__ import annotations

import re

import pytest
from decided import Verdicts, decided

KERNEL = """.version 8.0
.target sm_80
.address_size 64
.visible .entry fill(.param .u64 x, .param .u64 y, .param .u32 n) {
    .reg .pred %p<2>;
    .reg .u32 %r<6>;
    .reg .u64 %a<6>;
    ld.param.u64 %a0, [x];
    ld.param.u64 %a1, [y];
    ld.param.u32 %r0, [n];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ctaid.x;
    mad.lo.u32 %r3, %r2, 64, %r1;
    setp.ge.u32 %p0, %r3, %r0;
    @%p0 bra END;
    mul.wide.u32 %a2, %r3, 4;
    add.u64 %a3, %a0, %a2;
    ld.global.u32 %r4, [%a3];
    add.u64 %a4, %a1, %a2;
    st.global.u32 [%a4], %r4;
END:
    ret;
}
"""
SPEC = """kcheck: 1
op: {name}
dims: {{N: 0..1000, M: 1..1000}}
inputs: {{x: {{shape: [N], dtype: int32}}}}
outputs: {{y: {{shape: [N], dtype: int32}}, z: {{shape: [M, N], dtype: int32}}}}
kernel: fill.ptx:fill
launcher: {name}.py:launch
reference: none
"""
HEAD = """import math

import numpy as np
from numba import cuda

import kcheck

BLOCK = 64


def blocks(n, least=1):
    return max(least, (n + BLOCK - 1) // BLOCK)


def launch(x, y, z, N, M):
    fill = kcheck.kernels["fill"]
"""

PAIRS = {
    "sizes": ("fill[blocks(x.size, 1), BLOCK](x, y, x.size)", "x, y, x.size", "x, y, x.size + 1"),
    "branches": (
        """
        if 0 < N <= 500 or N == 501:
            fill[blocks(N, least=2), (BLOCK, 1)](x, y, N)
        elif N:
            n = N if N % 2 == 0 else N - 1
            fill[blocks(n, 1), BLOCK](x, y, n)
        """,
        "else N - 1",
        "else N + 1",
    ),
    "allocates": (
        """
        rows, columns = z.shape
        flat = cuda.device_array((rows, columns), dtype=np.int32)
        fill[blocks(z.size, 1), BLOCK](flat, z, rows * columns)
        """,
        "device_array((rows, columns)",
        "device_array((rows, columns - 1)",
    ),
    "loops": (
        """
        for part in range(3):
            n = max(N - part, 0)
            zeros = cuda.to_device(np.zeros(n, np.int32))
            if n > 0:
                fill[blocks(n, 1), BLOCK](zeros, y, min(n, N - 1) + 1 - min(part, 1))
        """,
        "- min(part, 1)",
        "",
    ),
    "stops": (
        """
        if M > 10 or N < 1:
            raise ValueError("too many rows")
        assert N >= M
        fill[blocks(M, 1), BLOCK](x, y, M)
        """,
        "assert N >= M",
        "assert N >= M - 1",
    ),
}
UNKNOWN = {
    "reads an array": "fill[blocks(N, 1), BLOCK](x, y, int(y.copy_to_host()[0]))",
    "catches": "try:\n        fill[blocks(N, 1), BLOCK](x, y, N)\n    except ValueError:\n        pass",
    "loops over a size": "for n in range(N):\n        fill[blocks(n, 1), BLOCK](x, y, n)",
    "rounds": "fill[int(math.ceil(N / BLOCK)), BLOCK](x, y, N)",
    "looks at types": "fill[blocks(N, 1), BLOCK](x, y, N if isinstance(N, int) else N + 1)",
}

Found = dict[str, tuple[Verdicts, str]]
"""By spec: the verdicts, and the first reason."""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """Of all launchers, decided in one process."""
    folder = tmp_path_factory.mktemp("launchers")
    (folder / "kcheck.yaml").write_text("")
    (folder / "fill.ptx").write_text(KERNEL)
    bodies = dict(UNKNOWN)
    for name, (body, old, new) in PAIRS.items():
        assert body.count(old) == 1
        bodies |= {name: body, f"{name} twin": body.replace(old, new)}
    names = []
    for name, body in bodies.items():
        names.append(name.replace(" ", "_"))
        lines = (
            [line.removeprefix("    ") for line in body.strip("\n").splitlines()] if name not in UNKNOWN else None
        )
        text = body if lines is None else "\n".join(lines).strip()
        (folder / f"{names[-1]}.py").write_text(f"{HEAD}    {text}\n")
        (folder / f"{names[-1]}.yaml").write_text(SPEC.format(name=names[-1]))
    return {name.replace("_", " "): verdict for name, verdict in decided(folder, names).items()}


@pytest.mark.parametrize("name", PAIRS)
def test_a_launcher_is_understood_and_its_twin_is_not_proved(found: Found, name: str) -> None:
    """The twin passes an array that is too small."""
    assert found[name][0] == dict.fromkeys(("memcheck", "racecheck", "synccheck", "overflow"), "proved"), found[
        name
    ][1]
    assert found[f"{name} twin"][0]["memcheck"] == "undecided"


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_is_not_understood_is_named_with_its_line(found: Found, name: str) -> None:
    """Nothing is guessed."""
    verdicts, reason = found[name]
    assert set(verdicts.values()) == {"undecided"}
    assert re.match(r"line 1\d of the launcher: ", reason)
