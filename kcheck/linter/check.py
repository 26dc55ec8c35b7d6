"""Compare compiled kernels with the limits and patterns of a spec's ``artifact``."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from kcheck.errors import PtxError
from kcheck.linter.ptx_text import EntryText, find_entry
from kcheck.linter.sass_text import Sass, find_function
from kcheck.model import Artifact, Finding, Span
from kcheck.model.compiled import CompiledKernel
from kcheck.model.outcome import NotCompiling

UNCHECKED_SASS = "SASS patterns were not checked"

_Found: TypeAlias = Callable[[Sequence[re.Match[str]]], tuple[str, Span | None]]
"""Maps the matches of a forbidden pattern to a description of one of them, and its source line if known."""


def check(artifact: Artifact, kernels: Iterable[CompiledKernel]) -> tuple[Finding, ...]:
    """Every limit that a specialization exceeds and every pattern that it violates, as ``artifact`` findings.

    The same violation in several specializations is one finding, with their number and the worst value.
    """
    worst: dict[str, tuple[float, Finding]] = {}
    seen: dict[str, int] = {}
    for kernel in kernels:
        for key, size, finding in _violations(artifact, kernel):
            key = f"{kernel.kernel}: {key}"
            seen[key] = seen.get(key, 0) + 1
            if key not in worst or size > worst[key][0]:
                worst[key] = (size, finding)
    return tuple(replace(finding, count=seen[key]) for key, (_, finding) in worst.items())


def _violations(artifact: Artifact, kernel: CompiledKernel) -> Iterator[tuple[str, float, Finding]]:
    """(kind of violation, its size, the finding) for each."""

    def finding(message: str, fix: str = "", place: Span | None = None) -> Finding:
        types = ", ".join(str(part) for part in kernel.signature)
        return Finding(
            rule="artifact",
            message=f"{message} ({kernel.target}, {types})" if types else f"{message} ({kernel.target})",
            fix=fix,
            kernel=kernel.kernel,
            place=place or kernel.place,
        )

    if kernel.problem:
        yield "compile", 0.0, replace(finding(kernel.problem), seen=NotCompiling(kernel.problem))
        return
    entry = find_entry(kernel.ptx, kernel.entry)
    if entry is None:
        yield "entry", 0.0, finding(f"the compiler's PTX has no entry {kernel.entry}")
        return
    for name, unit, value, limit in _measures(artifact, kernel, entry):
        if limit is not None and value > limit:
            yield name, float(value), finding(f"{value:,} {unit}, the limit is {limit:,} ({name})")
    codes: list[tuple[str, str, tuple[str, ...], tuple[str, ...], _Found]] = [
        ("PTX", entry.text, artifact.required_patterns, artifact.forbidden_patterns, _in_ptx(entry, kernel))
    ]
    if artifact.wants_sass and (sass := find_function(kernel.sass, kernel.entry)) is not None:
        wanted, unwanted = artifact.required_sass_patterns, artifact.forbidden_sass_patterns
        codes.append(("SASS", sass.text, wanted, unwanted, _in_sass(sass, kernel)))
    for code, text, required, forbidden, found in codes:
        for pattern in required:
            if not re.search(pattern, text):
                message = f"no {code} matches the required pattern `{pattern}`"
                yield f"required {code} {pattern}", 0.0, finding(message)
        for pattern in forbidden:
            if matches := list(re.finditer(pattern, text)):
                where, place = found(matches)
                times = "" if len(matches) == 1 else f", {len(matches)} times"
                message = f"forbidden pattern `{pattern}` in the {code}{times}: {where}"
                yield f"forbidden {code} {pattern}", float(len(matches)), finding(message, place=place)


def unchecked(artifact: Artifact, kernels: Iterable[CompiledKernel]) -> tuple[str, ...]:
    """Notes on the parts of ``artifact`` that :func:`check` could not check, and why."""
    if not artifact.wants_sass:
        return ()
    reasons = dict[str, None]()
    for kernel in kernels:
        if kernel.no_sass:
            reasons.setdefault(kernel.no_sass)
        elif not kernel.problem and find_function(kernel.sass, kernel.entry) is None:
            reasons.setdefault(f"nvdisasm lists no code for {kernel.entry}")
    return tuple(f"{UNCHECKED_SASS}: {reason}" for reason in reasons)


def _measures(
    artifact: Artifact, kernel: CompiledKernel, entry: EntryText
) -> Iterator[tuple[str, str, int, int | None]]:
    """(name of the limit, unit, measured value, limit)."""
    yield "max_instructions", "PTX instructions", entry.instructions, artifact.max_instructions
    if (resources := kernel.resources) is not None:
        yield "max_registers", "registers per thread", resources.registers, artifact.max_registers
        yield "max_spills", "bytes of spill stores and loads", resources.spills, artifact.max_spills
        yield "max_local_bytes", "bytes of local memory per thread", resources.stack, artifact.max_local_bytes
        yield "max_shared_bytes", "bytes of static shared memory", resources.shared, artifact.max_shared_bytes


def _in_ptx(entry: EntryText, kernel: CompiledKernel) -> _Found:
    """Describes the first match in PTX, preferably in an instruction."""

    def found(matches: Sequence[re.Match[str]]) -> tuple[str, Span | None]:
        lines = {match.start(): _line(entry.text, match.start()) for match in matches}
        position = next((start for start, line in lines.items() if not line.startswith(".")), matches[0].start())
        place = _place(kernel, entry.line_of(position))
        return f"`{lines[position]}`, PTX line {entry.line_of(position)}", place

    return found


def _place(kernel: CompiledKernel, line: int) -> Span | None:
    """The user's source line from which the instruction at a line of the PTX was compiled; None if unknown."""
    from kcheck.linter.frames import frames_of  # needs the PTX parser, which runs without violations do not
    from kcheck.ptx.syntax.ast import Label
    from kcheck.ptx.syntax.parser import parse

    try:
        module = parse(kernel.ptx)
    except PtxError:
        return None
    function = module.functions.get(kernel.entry)
    statements = function.body or () if function is not None else ()
    found = (s for s in statements if s.line == line and not isinstance(s, Label))
    return next((frames_of(kernel, module)(s)[0] for s in found), None)


def _in_sass(sass: Sass, kernel: CompiledKernel) -> _Found:
    """Describes the first match in machine code."""

    def found(matches: Sequence[re.Match[str]]) -> tuple[str, Span | None]:
        first = sass.at(matches[0].start())
        is_own = first.line and os.path.realpath(first.file) == os.path.realpath(kernel.place.file)
        place = Span(kernel.place.file, first.line, 1) if is_own else None
        return f"`{first.text}`, at {first.address:#06x}", place

    return found


def _line(text: str, position: int) -> str:
    """The line around a position, with single spaces."""
    begin = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    return " ".join(text[begin : end if end >= 0 else None].split())
