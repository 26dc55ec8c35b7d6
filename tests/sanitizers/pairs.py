"""Twins: a kernel with a bug and the same kernel without it, one line apart, as one piece of Python.

What stands in a file of pairs is the clean twin. The one line that the other twin has otherwise says so at its
end, and each line that a finding on the other twin points at names the rule::

    @pair(1, 64, x=np.ones(64), y=np.zeros(64), like="Oclgrind data-race/...")
    @cuda.jit
    def neighbors(x, y):
        \"""What is wrong with the other twin, in one sentence.\"""
        t = cuda.threadIdx.x
        tile[t] = x[t]  # racecheck
        cuda.syncthreads()  # bug: pass
        y[t] = tile[63 - t]  # racecheck

Any function with such a line in it is a pair. Both twins have the same line numbers. ``bug:`` keeps the blanks
after the one that follows it, so that a line can be moved in or out. ``racecheck (warn)`` is a warning.
``racecheck?`` may be told of and need not be: another finding says the same, or the order of the threads decides,
as where a race has one read what nobody has written yet (``racecheck, initcheck?``). For rules that compare what a
launch left behind, the mark names an array: ``mutated: x``.

The process of the tests only reads the files (:func:`read_pairs`); the process on the device imports them, where
:func:`pair` says how a kernel is launched.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RULES = (
    "memcheck",
    "racecheck",
    "synccheck",
    "initcheck",
    "overflow",
    "unwritten",
    "mutated",
    "nondeterministic",
)

_BUG = re.compile(r"^(?P<indent> *)(?P<clean>.*?)  # bug: (?P<buggy>.*)$")
_MARK = re.compile(rf"  # ((?:(?:{'|'.join(RULES)})(?:: \w+)?(?: \(warn\))?\??(?:, )?)+)$")
_ONE = re.compile(r"(?P<rule>[a-z]+)(?:: (?P<array>\w+))?(?P<warn> \(warn\))?(?P<optional>\??)")


@dataclass(frozen=True, slots=True)
class Mark:
    """A line that a finding points at.

    Attributes:
        array: that the finding names, in place of the line.
        optional: it may be told of and need not be.
    """

    line: int
    rule: str
    array: str | None
    severity: str
    optional: bool


@dataclass(frozen=True, slots=True)
class Pair:
    """One pair of twins, as read.

    Attributes:
        module: the file it stands in.
        summary: the first line of its docstring: what is wrong.
        rest: what follows it.
        like: whose example it is written after; empty for one of our own.
        bug: the line that differs.
        marks: what is found on the buggy twin. The clean one has no finding.
    """

    module: Path
    name: str
    summary: str
    rest: str
    like: str
    bug: int
    marks: tuple[Mark, ...]

    @property
    def rules(self) -> frozenset[str]:
        """What is found, each rule once."""
        return frozenset(mark.rule for mark in self.marks)


def buggy(text: str) -> str:
    """A file of pairs with the other line of every pair in place, under the same line numbers."""
    lines = []
    for line in text.split("\n"):
        mark = _MARK.search(line)
        bug = _BUG.match(line[: mark.start()] if mark else line)
        lines.append(bug["indent"] + bug["buggy"] + (mark[0] if mark else "") if bug else line)
    return "\n".join(lines)


def read_pairs(module: Path) -> list[Pair]:
    """The pairs of a file, in order.

    Raises:
        ValueError: one has not exactly one line that differs, or no finding; or a mark stands outside of them.
        SyntaxError: a twin is no Python.
    """
    text = module.read_text(encoding="utf-8")
    lines = text.split("\n")
    ast.parse(buggy(text), module.name)
    marks = [mark for n, line in enumerate(lines, 1) for mark in _marks(n, line)]
    bugs = [n for n, line in enumerate(lines, 1) if _BUG.match(line)]
    pairs = []
    for node in ast.parse(text).body:
        inside = range(node.lineno, (node.end_lineno or node.lineno) + 1)
        own = [n for n in bugs if n in inside]
        if not own or not isinstance(node, ast.FunctionDef):
            continue
        found = tuple(mark for mark in marks if mark.line in inside)
        if len(own) != 1 or not any(not mark.optional for mark in found):
            raise ValueError(
                f"{module.name}:{node.lineno}: {node.name} has {len(own)} bugs and {len(found)} marks"
            )
        bugs.remove(own[0])
        marks = [mark for mark in marks if mark not in found]
        summary, _, rest = (ast.get_docstring(node) or "").partition("\n")
        pairs.append(Pair(module, node.name, summary, rest, _like(node), own[0], found))
    if bugs or marks:
        raise ValueError(f"{module.name}: bugs in lines {bugs} and marks {marks} belong to no pair")
    return pairs


def _marks(number: int, line: str) -> list[Mark]:
    match = _MARK.search(line)
    if match is None:
        return []
    ones = [one for part in match[1].split(", ") if (one := _ONE.fullmatch(part))]
    return [
        Mark(number, one["rule"], one["array"], "warn" if one["warn"] else "error", bool(one["optional"]))
        for one in ones
    ]


def _like(node: ast.FunctionDef) -> str:
    """What ``pair(like=...)`` says of a function."""
    calls = (call for call in node.decorator_list if isinstance(call, ast.Call))
    words = (word for call in calls for word in call.keywords if word.arg == "like")
    return next((ast.literal_eval(word.value) for word in words), "")


@dataclass(frozen=True, slots=True)
class Unwritten:
    """An argument: a device array that nobody has written."""

    shape: int | tuple[int, ...]
    dtype: Any


@dataclass(frozen=True, slots=True)
class Launch:
    """How the process on the device runs one twin.

    Attributes:
        function: a kernel; or, where ``grid`` is None, a plain function that allocates and launches by itself.
        shared: dynamic shared memory, in bytes.
        arguments: by parameter of the kernel, in order: host arrays, of which each launch gets a copy under the
            parameter's name, :class:`Unwritten` ones, and scalars.
    """

    function: Any
    grid: int | tuple[int, ...] | None
    block: int | tuple[int, ...] | None
    shared: int
    arguments: dict[str, Any]


def pair(
    grid: int | tuple[int, ...] | None = None,
    block: int | tuple[int, ...] | None = None,
    *,
    like: str = "",
    shared: int = 0,
    **arguments: Any,
) -> Callable[[Any], Launch]:
    """Mark a kernel as a pair of twins, and say how to launch it; see :class:`Pair` and :class:`Launch`."""

    def mark(function: Any) -> Launch:
        return Launch(function, grid, block, shared, arguments)

    return mark
