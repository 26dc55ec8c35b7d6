"""The names that a spec declares, from text that may not be valid YAML, and which of them can be used at a
path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kcheck.lsp.cursor import Path, keys_of

SECTIONS = {"dims": "dim", "params": "param", "inputs": "input", "outputs": "output", "dtypes": "type variable"}
"""The sections of a spec that declare names, and what each name in them is."""
_FUNCTIONS = ("min", "max", "abs", "sqrt", "log2", "ceildiv", "next_pow2")
_EXPRESSIONS = ("expr", "grid", "block", "shared", "constraints", "shape")
_ARRAYS = ("inputs", "outputs")


def declared(lines: Sequence[str]) -> dict[str, dict[str, int]]:
    """By section, the names that a spec declares, each with its line, from 0."""
    found = {section: keys_of(lines, section) for section in SECTIONS}
    found["dtypes"] = found["dtypes"] or {"T": 0}
    return found


def fitting(path: Path, names: Mapping[str, Mapping[str, int]]) -> Iterator[tuple[str, str]]:
    """The names that can be a value at a path, each with what it is."""
    for section in _sections(path):
        yield from ((name, SECTIONS[section]) for name in names[section])
    if _is_expression(path):
        yield from ((name, "function") for name in _FUNCTIONS)
    if path[:1] == ("allow_races",):
        yield "shared", "all shared memory"


def fitting_keys(path: Path, names: Mapping[str, Mapping[str, int]]) -> Iterator[tuple[str, str]]:
    """The names that can be a key of the mapping at a path: those of an example."""
    of_example = {"dims": ("dims",), "dtypes": ("dtypes",), "values": ("inputs",), "layouts": _ARRAYS}
    if len(path) == 3 and path[0] == "examples":
        for section in {**of_example, "params": ("params",)}.get(path[2] or "", ()):
            yield from ((name, SECTIONS[section]) for name in names[section])


def _sections(path: Path) -> tuple[str, ...]:
    match path:
        case ("launch", "args", None, *below) | ("variables", _, *below):
            return _of_argument(tuple(below))
        case (_, _, "dtype"):
            return ("dtypes",)
        case ("outputs", _, "alias") | ("mutates" | "gradients", None):
            return ("inputs",)
        case ("allow_races", None):
            return _ARRAYS
        case ("invariants", None, *_):
            return ("outputs",)
        case _ if _is_expression(path):
            return ("dims",) if path[0] in ("dims", "constraints") else ("dims", "params")
    return ()


def _of_argument(below: Path) -> tuple[str, ...]:
    """The sections whose names fit in an argument of a launch, in the value of a variable, or below them."""
    match below:
        case ():
            return ("inputs", "outputs", "params", "dims")
        case ("numel" | "texture" | "surface" | "accessor",) | ("stride", None):
            return _ARRAYS
        case ("struct", _, *member) | (None, *member):  # a member may be a list
            return _of_argument(tuple(member))
    return ()


def _is_expression(path: Path) -> bool:
    if len(path) == 3 and path[0] in _ARRAYS and path[2] is None:  # x: [M, N]
        return True
    keys = [step for step in path[-2:] if step is not None]
    return bool(keys) and keys[-1] in _EXPRESSIONS
