"""Hold compiled kernels against the thresholds of a spec's ``artifact``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from kcheck.lint.ptx_text import Entry, find_entry
from kcheck.model import Artifact, Finding, Span
from kcheck.model.compiled import CompiledKernel


def check(artifact: Artifact, kernels: Iterable[CompiledKernel]) -> tuple[Finding, ...]:
    """Every threshold that a specialisation exceeds and every pattern it offends, as ``artifact`` findings.

    The same offence in several specialisations is one finding that counts them and names the worst.
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
    for pattern in artifact.required_patterns:
        if not re.search(pattern, entry.text):
            yield (
                f"required {pattern}",
                0.0,
                finding(f"nothing in its PTX matches the required pattern {pattern!r}"),
            )
    for pattern in artifact.forbidden_patterns:
        matches = list(re.finditer(pattern, entry.text))
        if matches:
            yield (
                f"forbidden {pattern}",
                float(len(matches)),
                finding(*_forbidden(entry, kernel, pattern, matches)),
            )


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


def _forbidden(
    entry: Entry, kernel: CompiledKernel, pattern: str, matches: list[re.Match[str]]
) -> tuple[str, str, Span | None]:
    """Message, mend and place of the first match of a forbidden pattern, in an instruction if there is one."""
    lines = {match.start(): _line(entry.text, match.start()) for match in matches}
    position = next((start for start, line in lines.items() if not line.startswith(".")), matches[0].start())
    line = lines[position]
    source = entry.source_line(position)
    times = "" if len(matches) == 1 else f", {len(matches)} times"
    place = Span(kernel.place.file, source, 1) if source is not None else None
    return (
        f"forbidden pattern {pattern!r} in its PTX{times}: `{line}`, PTX line {entry.line_of(position)}",
        "",
        place,
    )


def _line(text: str, position: int) -> str:
    """The line around a position, its blanks made single."""
    begin = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    return " ".join(text[begin : end if end >= 0 else None].split())
