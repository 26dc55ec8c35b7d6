"""Ten thousand damaged specs: every one is valid, or refused with a line and a column."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
import yaml

from kcheck.errors import SpecError
from kcheck.model import Fault
from kcheck.specfile import load_spec

_MUTANTS = 10_000
_SHARDS = 20
_DAILY = 8  # shards in CI; make soak has them all

_WHOLE = """\
kcheck: 1
op: attention
description: one block per query row
tags: [control]
dims: {B: [1, 2, 5], N: 1..512, D: {range: 1..128, tile: 32}, Dv: {expr: 2 * D}}
constraints: [B * N * N <= 1_000_000, "N % 2 == 0 or D > 3"]
dtypes: {T: [float32, float16]}
compute: float32
inputs:
  q: [B, N, D]
  k: {shape: [B, N, D], values: [normal, {offset: [1e3, 1]}, {sorted: uniform}], layouts: [contiguous, transposed]}
  idx: {shape: [N], dtype: int64, values: {integers: [0, D - 1]}}
params:
  scale: {dtype: float32, expr: 1 / sqrt(D)}
  eps: {dtype: T, values: [1.0e-6, .nan]}
outputs:
  out: [B, N, D]
  same: {shape: [B, N, D], alias: q}
kernel: kernels/attention.py:attention
launch:
  args: [q, k, idx, out, scale, {N: int32}, {stride: [q, 0]}]
  grid: ["ceildiv(N, 64)", B]
  block: [64]
  shared: 4 * 64 * D
reference: references/attention.py:attention
tolerance: {float32: {atol: 1.0e-5, rtol: 1.0e-5}, float16: {atol: 1.0e-2}}
compare: {nan: match, signed_zero: false}
invariants: [finite, {non_negative: out}, {normalized: {of: out, axis: -1}}, "abs(out) <= max(abs(k)) * 1.001"]
sanitize: {memcheck: error, racecheck: warn}
allow_races: [shared]
mutates: [k]
deterministic: true
artifact: {targets: [sm_80], max_registers: 64, required_patterns: ["fma.rn.f32"]}
cases: {count: 100, seed: 0}
examples:
  - {dims: {B: 1, N: 66, D: 32}, dtypes: {T: float32}, values: {q: all_negative}, layouts: {q: transposed}}
"""

_SMALL = """\
kcheck: 1
op: softmax
launcher: kernels/attention.py:launch
reference: references/attention.py:attention
dims: {M: 1..64, N: 0..2048}
dtypes: [float32, float64]
inputs: {x: {shape: [M, N], values: adversarial, layouts: [strided]}}
outputs: {y: [M, N + 1]}
tolerance: conditioned
"""

_SCALARS: tuple[object, ...] = (
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        7,
        1.5,
        1e-5,
        2**70,
        float("inf"),
        float("nan"),
        "",
        "x",
        "N",
        "n",
        "yes",
        "1_0",
    ),
    *("1..4", "4..1", "9**9**9", "N +", "float32", "int32", "bool", "T", "normal", "from", "../x.py:f", "\u00e9"),
    *(
        [],
        {},
        [1],
        ["N"],
        {"N": 1},
        [[[]]],
        {"expr": "N"},
        {"stride": ["q", 9]},
        "out",
        "q",
        "a" * 300,
        "k/a.py:f",
    ),
)
_SIGNS = "+-*/%()<>=!,.:^&|[]{}'\"#@ \t\n0123456789NBDq_\x00\u2028\u00d7\\"


def _paths(node: object, path: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
    below: list[tuple[object, ...]] = [path] if path else []
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, child in children:
        below += _paths(child, (*path, key))
    return below


def _change_tree(rng: random.Random, text: str) -> bytes:
    """Drop, rename, retype, copy or mangle one to three places of the tree."""
    tree = yaml.safe_load(text)
    for _ in range(rng.choice((1, 1, 2, 3))):
        paths = _paths(tree)
        if not paths:
            break
        path = rng.choice(paths)
        parent = tree
        for step in path[:-1]:
            parent = parent[step]
        key = path[-1]
        action = rng.choice(("drop", "rename", "retype", "copy", "mangle"))
        if action == "drop":
            del parent[key]
        elif action == "rename" and isinstance(parent, dict):
            name = str(key)
            at = rng.randrange(len(name) + 1)
            new = rng.choice(
                (name[:at] + name[at + 1 :], name[:at] + rng.choice(_SIGNS) + name[at:], name.upper(), "z")
            )
            parent[new] = parent.pop(key)
        elif action == "copy":
            other = rng.choice(paths)
            source = tree
            for step in other:
                source = source[step] if isinstance(source, (dict, list)) and step in _keys(source) else source
            if source is not tree:
                parent[key] = yaml.safe_load(yaml.safe_dump(source))
        elif action == "mangle" and isinstance(parent[key], str):
            value = parent[key]
            at = rng.randrange(len(value) + 1)
            parent[key] = value[:at] + rng.choice(_SIGNS) + value[at + rng.randrange(3) :]
        else:
            parent[key] = rng.choice(_SCALARS)
    return yaml.safe_dump(tree, allow_unicode=True, width=1000).encode()


def _keys(node: object) -> list[object]:
    return list(node) if isinstance(node, dict) else list(range(len(node))) if isinstance(node, list) else []


def _change_bytes(rng: random.Random, text: str) -> bytes:
    """Flip, drop, insert or repeat some bytes of the file."""
    data = bytearray(text.encode())
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        at = rng.randrange(len(data))
        action = rng.randrange(5)
        if action == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif action == 1:
            del data[at : at + rng.choice((1, 1, 2, 20))]
        elif action == 2:
            data[at:at] = rng.choice(_SIGNS).encode()
        elif action == 3:
            end = at + rng.choice((2, 10, 60))
            data[at:at] = data[at:end]
        else:
            data[at:at] = rng.choice(
                (b"[", b"{", b"&a ", b"*a", b"!!x ", b"\xff", b"\r\n", b"- ", b"? ", b"---\n")
            )
    return bytes(data)


@pytest.mark.slow
@pytest.mark.parametrize(
    "shard", [n if n < _DAILY else pytest.param(n, marks=pytest.mark.soak) for n in range(_SHARDS)]
)
def test_damaged_specs_are_valid_or_refused_with_a_place(shard: int, project: Path) -> None:
    """No damage raises anything but SpecError, and every fault of it has a file, a line and a column."""
    (project / "kernels/attention.py").write_text("def attention(*args): pass\ndef launch(x, y): pass\n")
    (project / "references/attention.py").write_text("def attention(**kwargs): pass\n")
    path = Path("specs/mutant.yaml")
    for text in (_WHOLE, _SMALL):
        path.write_text(text)
        load_spec(path)
    refused = 0
    for number in range(shard, _MUTANTS, _SHARDS):
        rng = random.Random(number)
        change = _change_tree if number // _SHARDS % 2 else _change_bytes
        mutant = change(rng, rng.choice((_WHOLE, _SMALL)))
        path.write_bytes(mutant)
        faults = _faults(path, number)
        refused += bool(faults)
        lines = len(re.split(b"\r\n|\r|\n", mutant))
        for fault in faults:
            assert re.fullmatch(r"(specs|kernels|references)/\w+\.(yaml|py):[1-9]\d*:[1-9]\d*: \S.*", str(fault))
            assert fault.span.line <= lines + 1
    assert refused > _MUTANTS // _SHARDS // 2


def _faults(path: Path, number: int) -> list[Fault]:
    """The faults of a mutant; what else is raised carries its text."""
    try:
        load_spec(path)
    except SpecError as error:
        return [fault for fault in error.faults if isinstance(fault, Fault)] or pytest.fail(
            "refused without a fault"
        )
    except Exception as error:
        error.add_note(f"mutant {number}:\n{path.read_bytes().decode(errors='backslashreplace')}")
        raise
    return []
