"""Findings in Triton's terms: programs instead of blocks and threads, masks instead of guards."""

from __future__ import annotations

import linecache
import re
from dataclasses import replace

from kcheck.cpu.wrapped import in_words_of, is_wrapped
from kcheck.model import Finding, Span

_AXIS = re.compile(r"axis (\d+) has size ([\d,]+)")
_ROWS = re.compile(r"\[[\d,]+, .*\], but axis 0 has size")
"""Past the last row of an array with several axes: pointers are flat, so any index may be too large."""
_DESCRIPTOR = re.compile(r"\.(?:load|store|gather|scatter|atomic_\w+)\(\s*\[")
"""An access through a tensor descriptor, ``x.load([i, j])``."""
_STATEMENT_LINES = 16
_AHEAD = "Triton's pipeliner may have moved it ahead of the loop's last iteration, which is harmless"
_CALLS = {"reads": "load", "writes": "store"}
_BEFORE_MASK = {"reads": 1, "writes": 2}
"""How many arguments come before a mask without a name: ``tl.load(x, mask)``, ``tl.store(x, value, mask)``."""
_NAMED = re.compile(r"\s*\w+\s*=(?!=)")
_RULES = {
    "synccheck": "check the inline assembly: Triton itself places barriers that all threads reach",
    "initcheck": "write the element first (torch.empty does not), or leave it out with mask= and other=",
    "stack": "",
}


def in_words_of_triton(finding: Finding) -> Finding:
    """The finding with the program that it is in, and with a fix in Triton's terms."""
    fix = _RULES.get(finding.rule, finding.fix)
    if is_wrapped(finding) or finding.rule == "overflow":
        fix = in_words_of(finding.fix, "{}.to(tl.int64)")
    elif finding.rule == "memcheck":
        fix = _access(finding)
    elif finding.rule == "racecheck" and finding.other is not None:
        fix = _race(finding)
    severity = finding.severity
    if finding.rule == "division":
        severity, fix = "warn", f"check that the divisor is not 0; {_AHEAD}"
    return replace(finding, severity=severity, fix=fix, unit="program")


def _access(finding: Finding) -> str:
    """The fix for an access that is out of bounds or not aligned."""
    if "not aligned" in finding.message:
        return (
            "check tl.multiple_of and tl.max_contiguous: they promise an alignment that the address does not have"
        )
    if finding.array is None or "no elements" in finding.message or "freed" in finding.message:
        return finding.fix
    verb = finding.message.partition(" ")[0]
    call = {"reads": "tl.load", "writes": "tl.store"}.get(verb, "the atomic")
    statement = _call(_statement(finding.place), _CALLS.get(verb, "atomic"), finding.array)
    axis = _AXIS.search(finding.message)
    is_past_end = axis is not None and _ROWS.search(finding.message) is not None
    if _DESCRIPTOR.search(statement):
        return "correct shape= and strides= of the tensor descriptor, which bound the access"
    if "boundary_check" in statement:
        return f"name {f'axis {axis[1]}' if axis and not is_past_end else 'every axis'} in boundary_check="
    if axis is None:
        bound = f"the index is inside {finding.array}"
    elif is_past_end:
        bound = f"every index is inside {finding.array}"
    elif " before its start" in finding.message:
        bound = f"the index of axis {axis[1]} is at least 0"
    else:
        bound = f"the index of axis {axis[1]} is below {axis[2]}"
    strides = "; check the strides, too" if is_past_end else ""
    if _has_mask(statement, verb):
        return f"correct the index or mask= of {call}: the mask must be true only where {bound}{strides}"
    other = ", and other= for the rest" if call == "tl.load" else ""
    return f"add mask= to {call}, true only where {bound}{other}{strides}"


def _race(finding: Finding) -> str:
    """The fix for a race, which is between programs, or between warps of one program."""
    if finding.message.endswith("the same value"):
        return "let one program write it"
    if "does not change the value" in finding.message:
        return "write only if the value changes"
    if finding.severity == "warn" or finding.other is None:
        return finding.fix
    if "is still copying to" in finding.message:
        return "wait for the copy: Triton does so itself, except in inline assembly"
    if finding.other[0] != finding.block:
        if finding.place == finding.other_place:
            return "give each program its own elements, or use an atomic such as tl.atomic_add"
        return "programs run in any order: use an atomic such as tl.atomic_add, or do the rest in a second launch"
    if finding.place == finding.other_place or finding.fix.startswith("to update one element"):
        return "store each element once per program, or use an atomic such as tl.atomic_add"
    return "put tl.debug_barrier() between the two accesses"


def _has_mask(statement: str, verb: str) -> bool:
    """Whether a call has a mask, by name or by position."""
    before = _BEFORE_MASK.get(verb)
    return "mask" in statement or (before is not None and len(_by_position(statement)) > before)


def _by_position(call: str) -> list[str]:
    """The arguments of a call that have no name."""
    found, depth = [""], 0
    for letter in call.partition("(")[2]:
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(letter, 0)
        if depth < 0:
            break
        if letter == "," and not depth:
            found.append("")
        else:
            found[-1] += letter
    return [text for text in found if text.strip() and not _NAMED.match(text)]


def _call(statement: str, name: str, array: str) -> str:
    """The text of the calls ``tl.name...(...)`` in a statement: those whose pointer is ``array``, if any are."""
    calls = []
    for found in re.finditer(rf"\.{name}\w*\(", statement):
        depth, end = 1, found.end()
        while depth and end < len(statement):
            depth += {"(": 1, ")": -1}.get(statement[end], 0)
            end += 1
        calls.append(statement[found.start() : end])
    own = [call for call in calls if re.search(rf"\b{array}\b", call.partition(",")[0])]
    return " ".join(own or calls)


def _statement(place: Span | None) -> str:
    """The source of a call that begins on a line, up to its closing parenthesis."""
    if place is None:
        return ""
    text = ""
    for number in range(place.line, place.line + _STATEMENT_LINES):
        text += linecache.getline(place.file, number)
        if text.count("(") <= text.count(")"):
            break
    return text
