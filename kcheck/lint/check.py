"""Hold compiled kernels against the thresholds of a spec's ``artifact``."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from kcheck.lint.ptx_text import Entry, find_entry
from kcheck.lint.sass_text import Sass, find_function
from kcheck.model import Artifact, Finding, Span
from kcheck.model.compiled import CompiledKernel

UNCHECKED_SASS = "SASS patterns were not checked"

_Found: TypeAlias = Callable[[Sequence[re.Match[str]]], tuple[str, Span | None]]
"""From the matches of a forbidden pattern to what one of them is, and its line of the source if that is known."""


def check(artifact: Artifact, kernels: Iterable[CompiledKernel]) -> tuple[Finding, ...]:
    """Every threshold that a specialization exceeds and every pattern it offends, as ``artifact`` findings.

    The same offence in several specializations is one finding that counts them and names the worst.
    """
    worst: dict[str, tuple[float, Finding]] = {}
    seen: dict[str, int] = {}
    for kernel in kernels:
        for key, size, finding in _offences(artifact, kernel):
            key = f"{kernel.kernel}: {key}"
            seen[key] = seen.get(key, 0) + 1
            if key not in worst or size > worst[key][0]:
                worst[key] = (size, finding)
    return tuple(replace(finding, count=seen[key]) for key, (_, finding) in worst.items())


def _offences(artifact: Artifact, kernel: CompiledKernel) -> Iterator[tuple[str, float, Finding]]:
    """(what kind of offence, its size, the finding) for each."""

    def finding(message: str, mend: str = "", place: Span | None = None) -> Finding:
        types = ", ".join(str(part) for part in kernel.signature)
        return Finding(
            rule="artifact",
            message=f"{message} ({kernel.target}, {types})" if types else f"{message} ({kernel.target})",
            mend=mend,
            kernel=kernel.kernel,
            place=place or kernel.place,
        )

    if kernel.problem:
        yield "compile", 0.0, finding(kernel.problem)
        return
    entry = find_entry(kernel.ptx, kernel.entry)
    if entry is None:
        yield "entry", 0.0, finding(f"the compiler's PTX has no entry {kernel.entry}")
        return
    for name, unit, value, limit in _measures(artifact, kernel, entry):
        if limit is not None and value > limit:
            yield name, float(value), finding(f"{value:,} {unit}, allowed are {limit:,} ({name})")
    codes: list[tuple[str, str, tuple[str, ...], tuple[str, ...], _Found]] = [
        ("PTX", entry.text, artifact.required_patterns, artifact.forbidden_patterns, _in_ptx(entry, kernel))
    ]
    if artifact.wants_sass and (sass := find_function(kernel.sass, kernel.entry)) is not None:
        wanted, unwanted = artifact.required_sass_patterns, artifact.forbidden_sass_patterns
        codes.append(("SASS", sass.text, wanted, unwanted, _in_sass(sass, kernel)))
    for code, text, required, forbidden, found in codes:
        for pattern in required:
            if not re.search(pattern, text):
                message = f"nothing in its {code} matches the required pattern {pattern!r}"
                yield f"required {code} {pattern}", 0.0, finding(message)
        for pattern in forbidden:
            if matches := list(re.finditer(pattern, text)):
                where, place = found(matches)
                times = "" if len(matches) == 1 else f", {len(matches)} times"
                message = f"forbidden pattern {pattern!r} in its {code}{times}: {where}"
                yield f"forbidden {code} {pattern}", float(len(matches)), finding(message, place=place)


def unchecked(artifact: Artifact, kernels: Iterable[CompiledKernel]) -> tuple[str, ...]:
    """Notes of what ``artifact`` asks for and :func:`check` could not look at, and why."""
    if not artifact.wants_sass:
        return ()
    reasons = dict[str, None]()
    for kernel in kernels:
        if kernel.no_sass:
            reasons.setdefault(kernel.no_sass)
        elif not kernel.problem and find_function(kernel.sass, kernel.entry) is None:
            reasons.setdefault(f"nvdisasm lists no code of {kernel.entry}")
    return tuple(f"{UNCHECKED_SASS}: {reason}" for reason in reasons)


def _measures(
    artifact: Artifact, kernel: CompiledKernel, entry: Entry
) -> Iterator[tuple[str, str, int, int | None]]:
    """(threshold, unit, measured, allowed)."""
    yield "max_instructions", "PTX instructions", entry.instructions, artifact.max_instructions
    if (resources := kernel.resources) is not None:
        yield "max_registers", "registers per thread", resources.registers, artifact.max_registers
        yield "max_spills", "bytes of spill stores and loads", resources.spills, artifact.max_spills
        yield "max_local_bytes", "bytes of local memory per thread", resources.stack, artifact.max_local_bytes
        yield "max_shared_bytes", "bytes of static shared memory", resources.shared, artifact.max_shared_bytes


def _in_ptx(entry: Entry, kernel: CompiledKernel) -> _Found:
    """Of matches in PTX the first, in an instruction if there is one."""

    def found(matches: Sequence[re.Match[str]]) -> tuple[str, Span | None]:
        lines = {match.start(): _line(entry.text, match.start()) for match in matches}
        position = next((start for start, line in lines.items() if not line.startswith(".")), matches[0].start())
        source = entry.source_line(position)
        place = Span(kernel.place.file, source, 1) if source is not None else None
        return f"`{lines[position]}`, PTX line {entry.line_of(position)}", place

    return found


def _in_sass(sass: Sass, kernel: CompiledKernel) -> _Found:
    """Of matches in machine code the first."""

    def found(matches: Sequence[re.Match[str]]) -> tuple[str, Span | None]:
        first = sass.at(matches[0].start())
        is_own = first.line and os.path.realpath(first.file) == os.path.realpath(kernel.place.file)
        place = Span(kernel.place.file, first.line, 1) if is_own else None
        return f"`{first.text}`, at {first.address:#06x}", place

    return found


def _line(text: str, position: int) -> str:
    """The line around a position, its blanks made single."""
    begin = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    return " ".join(text[begin : end if end >= 0 else None].split())
