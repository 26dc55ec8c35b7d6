"""The fix for an access outside an array in Triton's terms: masks instead of guards."""

from __future__ import annotations

import linecache
import re
from typing import TYPE_CHECKING

from kcheck.model import Span

if TYPE_CHECKING:
    from kcheck.cpu.accesses import Told

_DESCRIPTOR = re.compile(r"\.(?:load|store|gather|scatter|atomic_\w+)\(\s*\[")
"""An access through a tensor descriptor, ``x.load([i, j])``."""
_STATEMENT_LINES = 16
_CALLS = {"reads": "load", "writes": "store"}
_BEFORE_MASK = {"reads": 1, "writes": 2}
"""How many arguments come before a mask without a name: ``tl.load(x, mask)``, ``tl.store(x, value, mask)``."""
_NAMED = re.compile(r"\s*\w+\s*=(?!=)")


def access_fix(told: Told, place: Span | None) -> str:
    """The fix for an access that is out of bounds or not aligned, at a place."""
    if told.verb == "accesses":
        return (
            "check tl.multiple_of and tl.max_contiguous: they promise an alignment that the address does not have"
        )
    if told.array is None or told.is_gone:
        return told.fix
    call = {"reads": "tl.load", "writes": "tl.store"}.get(told.verb, "the atomic")
    statement = _call(_statement(place), _CALLS.get(told.verb, "atomic"), told.array)
    axis, index = told.axis, told.index or ()
    # Past the last row of an array with several axes: pointers are flat, so any index may be too large.
    is_past_end = axis == 0 and len(index) > 1 and index[0] > 0
    if _DESCRIPTOR.search(statement):
        return "correct shape= and strides= of the tensor descriptor, which bound the access"
    if "boundary_check" in statement:
        return f"name {'every axis' if axis is None or is_past_end else f'axis {axis}'} in boundary_check="
    if axis is None:
        bound = f"the index is inside {told.array}"
    elif is_past_end:
        bound = f"every index is inside {told.array}"
    elif index[axis] < 0:
        bound = f"the index of axis {axis} is at least 0"
    else:
        bound = f"the index of axis {axis} is below {told.size:,}"
    strides = "; check the strides, too" if is_past_end else ""
    if _has_mask(statement, told.verb):
        return f"correct the index or mask= of {call}: the mask must be true only where {bound}{strides}"
    other = ", and other= for the rest" if call == "tl.load" else ""
    return f"add mask= to {call}, true only where {bound}{other}{strides}"


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
