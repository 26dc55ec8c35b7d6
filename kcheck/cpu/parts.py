"""Divide the IR of a kernel in two: its own code, and the functions that check its accesses.

The functions that check, a third of the code, are the same after an edit of a line of the kernel. Compiled apart,
they are found in the cache.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_OWN = ("@kcheck.warp",)
_NAME = re.compile(r"@[\w.$]+")


def divide(ir: str) -> tuple[str, str]:
    """The kernel's own module, which declares what the second module defines.

    Only functions that are not inlined, and that refer to nothing of the first module, are in the second one.

    Args:
        ir: a module as :mod:`kcheck.ptx.lowering` writes it: a function begins with a line ``define`` and ends
            with a line ``}``.

    Returns:
        Two modules; the second one is empty if no function can be moved.
    """
    functions, rest = _functions(ir)
    declared = {_name(line) for line in rest if line.startswith("declare ")}
    moved = {name: text for name, text in functions.items() if _is_outlined(text) and not name.startswith(_OWN)}
    inlined = {name: text for name, text in functions.items() if _is_inlined(text)}
    uses = {name: {*_NAME.findall(text)} - {name} for name, text in (moved | inlined).items()}
    while unfit := [n for n in uses if not uses[n] <= declared | uses.keys()]:
        for name in unfit:
            del uses[name]
    moved = {name: text for name, text in moved.items() if name in uses}
    if not moved:
        return ir, ""
    needed = _reached(moved, uses)
    shared = [line for line in rest if line.startswith(("declare ", "!"))]
    checks = [*shared, *(functions[n].replace("define internal ", "define ", 1) for n in moved)]
    checks += [functions[name] for name in inlined if name in needed]
    own = [*rest, *(text for name, text in functions.items() if name not in moved)]
    own += [_declaration(text) for text in moved.values()]
    return "\n".join(own) + "\n", "\n".join(checks) + "\n"


def _functions(ir: str) -> tuple[dict[str, str], list[str]]:
    """The functions by name, and the other lines."""
    functions: dict[str, str] = {}
    rest: list[str] = []
    at = 0
    while (begin := ir.find("define ", at)) >= 0:
        rest += ir[at:begin].splitlines()
        end = ir.index("\n}", begin) + 2
        text = ir[begin:end]
        functions[_name(text)] = text
        at = end
    rest += ir[at:].splitlines()
    return functions, [line for line in rest if line]


def _head(text: str) -> str:
    return text[: text.index("\n")]


def _name(text: str) -> str:
    found = _NAME.search(text)
    assert found is not None
    return found[0]


def _is_outlined(text: str) -> bool:
    return " noinline" in _head(text)


def _is_inlined(text: str) -> bool:
    return " alwaysinline" in _head(text)


def _declaration(text: str) -> str:
    head = _head(text).removesuffix("{").replace("define internal ", "define ", 1)
    return head.replace("define ", "declare ", 1)


def _reached(starts: Mapping[str, str], uses: Mapping[str, set[str]]) -> set[str]:
    """What functions call, directly or not."""
    found: set[str] = set()
    todo = list(starts)
    while todo:
        for name in uses.get(todo.pop(), ()):
            if name not in found:
                found.add(name)
                todo.append(name)
    return found
