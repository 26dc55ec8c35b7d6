"""Links PTX modules of one program, which nvcc -rdc=true leaves separate: one text with every definition once.

A declaration (``.extern``) goes when another module has the definition, and so does a prototype after the
definition: nvcc writes one before a table of virtual functions. Of ``.weak`` and of equal ``.visible``
definitions, the first one stays. Names without a linkage directive belong to their module; if two modules use the
same one, it is renamed in the later ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_HEADER = re.compile(r"^\s*\.(version|target|address_size)\b.*$", re.MULTILINE)
_NAME = re.compile(r"[A-Za-z_$%][\w$]*")
_FILE = re.compile(r"^\s*\.file\s+(\d+)\s", re.MULTILINE)
_LOC = re.compile(r"^(\s*\.loc\s+)(\d+)(\s)", re.MULTILINE)
_INLINED = re.compile(r"(inlined_at\s+)(\d+)(\s)")
_FUNCTION = re.compile(r"\.(?:func|entry)\b\s*(?:\(.*?\)\s*)?([\w$]+)", re.DOTALL)
_PROTOTYPE = re.compile(r"^[^{]*\.func\b[^{]*;\s*$")
_VARIABLE = re.compile(r"([\w$]+)\s*(?:\[[^\]]*\]\s*)*(?:=.*)?$", re.DOTALL)


def link(texts: Sequence[str]) -> str:
    """One module of several; a single one unchanged."""
    if len(texts) == 1:
        return texts[0]
    modules = [list(_statements(_renumbered(text, n))) for n, text in enumerate(texts)]
    defined = {name for module in modules for name, linkage, _ in module if name and linkage != "extern"}
    seen: set[str] = set()
    head = "\n".join(match.group(0) for match in _newest(texts))
    parts = [head]
    for n, module in enumerate(modules):
        own = {name for name, linkage, _ in module if name and not linkage} & seen
        for name, linkage, text in module:
            if name and linkage == "extern":
                if name in defined or name in seen:
                    continue
            elif _PROTOTYPE.search(text):
                if name not in seen:
                    parts.append(_rename(text, own, n) if own else text)
                continue
            elif name and linkage and name in seen:
                continue
            parts.append(_rename(text, own, n) if own else text)
            if name:
                seen.add(name)
    return "\n".join(parts)


def _newest(texts: Sequence[str]) -> list[re.Match[str]]:
    """The header of the module with the newest version of PTX."""

    def version(text: str) -> tuple[int, ...]:
        found = re.search(r"\.version\s+(\d+)\.(\d+)", text)
        return tuple(map(int, found.groups())) if found else (0,)

    return list(_HEADER.finditer(max(texts, key=version)))


def _renumbered(text: str, n: int) -> str:
    """The module with numbers of files that no other module has."""
    if n == 0:
        return text

    def moved(match: re.Match[str]) -> str:
        return f"{match.group(1)}{int(match.group(2)) + 1000 * n}{match.group(3)}"

    text = _INLINED.sub(moved, _LOC.sub(moved, text))
    return re.sub(r"^(\s*\.file\s+)(\d+)(\s)", moved, text, flags=re.MULTILINE)


def _rename(text: str, names: set[str], n: int) -> str:
    return _NAME.sub(lambda match: f"{match.group(0)}_m{n}" if match.group(0) in names else match.group(0), text)


def _statements(text: str) -> Iterator[tuple[str, str, str]]:
    """(name, linkage, text) of every statement at the level of the module; no name for ``.file`` and sections."""
    for statement in _split(_HEADER.sub("", text)):
        plain = statement.strip()
        if not plain or plain == ";":
            continue
        linkage = next(
            (word for word in ("extern", "visible", "weak", "common") if f".{word} " in plain[:400]), ""
        )
        function = _FUNCTION.search(plain.partition("{")[0])
        if function:
            yield function.group(1), linkage, statement
        elif plain.startswith((".file", ".section", ".pragma", "//", "@")) or plain[0] != ".":
            yield "", "", statement
        else:
            declared = plain.rstrip(";").partition("=")[0].rstrip()
            name = _VARIABLE.search(declared)
            yield (name.group(1) if name else ""), linkage, statement


def _split(text: str) -> Iterator[str]:
    """The statements of a module: each ends at a semicolon or a closing brace, or is a line of ``.file``."""
    start = depth = at = 0
    is_initializer = False
    while at < len(text):
        if text.startswith("//", at):
            end = text.find("\n", at)
            at = len(text) if end < 0 else end
            continue
        char = text[at]
        if char == '"':
            at = text.find('"', at + 1)
            if at < 0:
                break
        elif char == "=" and depth == 0:
            is_initializer = True
        elif char == "{":
            depth += 1
        elif char == "}":
            depth -= 1
            if depth == 0 and not is_initializer:
                yield text[start : at + 1]
                start = at + 1
        elif char == ";" and depth == 0:
            yield text[start : at + 1]
            start, is_initializer = at + 1, False
        elif char == "\n" and depth == 0 and re.match(r"\s*\.(file|pragma)\b", text[start:at]):
            yield text[start:at]
            start = at
        at += 1
    if text[start:].strip():
        yield text[start:]
