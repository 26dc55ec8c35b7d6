"""Damages PTX by a seed: bytes, tokens, lines, operands, types, numbers.

Most of it is what Numba and NVRTC emitted; the rest are kernels with instructions that those seldom emit.
"""

from __future__ import annotations

import random
import re
from functools import cache
from pathlib import Path

from isa_kernels import isa_kernel

SAMPLES = Path(__file__).parent / "samples"
LISTED = 0.4
"""The share of kernels with listed instructions."""

_TOKENS = re.compile(r"[.%$\w]+|\s+|.", re.DOTALL)
_TYPES = [
    "pred",
    *(f"{k}{b}" for k in "bsu" for b in (8, 16, 32, 64)),
    "f16",
    "f16x2",
    "bf16",
    "f32",
    "f64",
    "b128",
]
_TYPE = re.compile(r"\.(?:pred|[bsu](?:8|16|32|64)|f16|f32|f64)\b")
_NUMBER = re.compile(r"(?<![\w%$.])-?(?:0[fFdDxX][0-9a-fA-F]+|\d+)\b")
_OPERAND = re.compile(r"%[a-z]+\d+")
_MODIFIER = re.compile(r"(?<=[a-z0-9])\.(?!reg|param|loc|file|entry|version|target)[a-z][a-z0-9_]*\b")
_NUMBERS = [
    *("0", "1", "-1", "7", "31", "32", "64", "255", "4096", "65536", "2147483647", "2147483648", "4294967296"),
    *(str(2**63 - 1), str(-(2**63)), str(2**64), "0xFFFFFFFFFFFFFFFF", "0f7F800000", "0fFFFFFFFF", "9" * 30),
    *("0d7FF0000000000000", "0d0000000000000001", "0x", "0f", "08", "1e400", "-0", "0b102", "1.5"),
]
_MODIFIERS = [
    *(".ftz", ".sat", ".rn", ".rz", ".rm", ".rp", ".approx", ".full", ".wide", ".hi", ".lo", ".cc", ".v2", ".v4"),
    *(
        ".global",
        ".shared",
        ".local",
        ".const",
        ".param",
        ".volatile",
        ".relaxed",
        ".gpu",
        ".sys",
        ".cta",
        ".sync",
    ),
    *(".uni", ".to", ".lt", ".eq", ".ltu", ".nan", ".and", ".or", ".xor", ".add", ".cas", ".exch", ".idx", ".all"),
]


@cache
def samples() -> dict[str, str]:
    """The PTX of real kernels, by name."""
    return {path.stem: path.read_text() for path in sorted(SAMPLES.glob("*.ptx"))}


@cache
def _vocabulary() -> list[str]:
    return sorted({t for text in samples().values() for t in _TOKENS.findall(text)})


def damaged(seed: int) -> tuple[str, str]:
    """The name of a sample, and its text with one to eight injuries; the same for the same seed."""
    r = random.Random(seed)
    if r.random() < LISTED:
        name, text = "listed", isa_kernel(r)
    else:
        name = r.choice(sorted(samples()))
        text = samples()[name]
    for _ in range(r.choice([1, 1, 1, 2, 3, 8])):
        text = r.choice(_INJURIES)(text, r)
    return name, text


def _bytes(text: str, r: random.Random) -> str:
    raw = bytearray(text.encode())
    for _ in range(r.choice([1, 1, 4])):
        raw[r.randrange(len(raw))] = r.randrange(256)
    return raw.decode("latin-1")


def _cut(text: str, r: random.Random) -> str:
    at = r.randrange(len(text))
    return text[: max(at, 1)] if r.random() < 0.3 else text[:at] + text[at + r.randrange(60) :] or " "


def _tokens(text: str, r: random.Random) -> str:
    tokens = _TOKENS.findall(text)
    at, action = r.randrange(len(tokens)), r.randrange(4)
    if action == 0:
        del tokens[at]
    elif action == 1:
        tokens[at] = r.choice(_vocabulary())
    elif action == 2:
        tokens.insert(at, r.choice(_vocabulary()))
    else:
        other = r.randrange(len(tokens))
        tokens[at], tokens[other] = tokens[other], tokens[at]
    return "".join(tokens) or " "


def _lines(text: str, r: random.Random) -> str:
    lines = text.split("\n")
    at, other, action = r.randrange(len(lines)), r.randrange(len(lines)), r.randrange(4)
    if action == 0:
        del lines[at]
    elif action == 1:
        lines.insert(other, lines[at])
    elif action == 2:
        lines[at], lines[other] = lines[other], lines[at]
    else:
        lines.insert(at, r.choice(r.choice(list(samples().values())).split("\n")))
    return "\n".join(lines) or " "


def _swapped(text: str, r: random.Random, pattern: re.Pattern[str], choices: list[str]) -> str:
    """One match of the pattern replaced."""
    found = list(pattern.finditer(text))
    if not found:
        return text
    match = r.choice(found)
    return text[: match.start()] + r.choice(choices) + text[match.end() :]


def _types(text: str, r: random.Random) -> str:
    return _swapped(text, r, _TYPE, [f".{t}" for t in _TYPES])


def _numbers(text: str, r: random.Random) -> str:
    return _swapped(text, r, _NUMBER, _NUMBERS)


def _operands(text: str, r: random.Random) -> str:
    registers = sorted({m[0] for m in _OPERAND.finditer(text)})
    return _swapped(
        text, r, _OPERAND, [*registers, *registers, "%tid.x", "_", "-1", "WARP_SZ", "{%r1, %r2}", "[%rd1]"]
    )


def _modifiers(text: str, r: random.Random) -> str:
    return _swapped(text, r, _MODIFIER, [*_MODIFIERS, ""])


_INJURIES = [
    _bytes,
    _cut,
    _tokens,
    _tokens,
    _lines,
    _lines,
    _types,
    _types,
    _numbers,
    _operands,
    _operands,
    _modifiers,
]
