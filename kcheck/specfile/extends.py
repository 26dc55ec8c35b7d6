"""``extends``: a spec that inherits every key that it does not set from another spec.

The trees are joined before anything is checked. So errors in a key that is replaced are not reported, and errors
in an inherited key are reported in the file that contains it.
"""

from __future__ import annotations

import os
from pathlib import Path

from kcheck.errors import SpecError
from kcheck.model import Fault
from kcheck.specfile.paths import PathRefused, file_in_root, shown
from kcheck.specfile.yamltree import YamlMap, YamlScalar, read

KEY = "extends"
MOST = 8
"""The maximum number of specs in a chain of ``extends``, not counting the first one."""

_OWN = (KEY, "op")
"""Keys that are not inherited: an op is unique in a project."""
_EITHER = {
    "launch": ("launcher", "function", "framework", "gradients"),
    "launcher": ("launch", "function", "framework", "gradients"),
    "function": ("kernel", "launch", "launcher", "framework", "artifact", "allow_races"),
}
"""The ways to run an op, each with the keys that are not inherited by a spec that sets it."""


def extended(path: Path, top: YamlMap, root: Path) -> tuple[YamlMap, list[Fault]]:
    """A spec joined with what it extends: a top-level key set here replaces that of the other file entirely.

    Args:
        path: the spec, absolute or from the current folder; ``top`` is its content.
        root: the project root, absolute, which ``extends`` is relative to.

    Returns:
        The tree, each node with its file, without ``extends`` (which stays if it is not text: the JSON Schema
        refuses it); and the errors in the other files that leave a tree to check.

    Raises:
        SpecError: as ``yamltree.read``, for the other files; ``extends`` names no spec of the project, names too
            many files, or is circular.
    """
    faults = list[Fault]()
    seen = [os.path.realpath(path)]
    names = [shown(path)]
    while (entry := top.entries.get(KEY)) is not None:
        node = entry.value
        if not isinstance(node, YamlScalar) or not isinstance(node.value, str):
            break
        base = _base(root, node.value, node, faults)
        real = os.path.realpath(base)
        names.append(shown(base))
        if real in seen:
            raise _refused(faults, node, f"this spec extends itself: {' -> '.join(names)}", "break the cycle")
        if len(seen) > MOST:
            what = f"{names[0]} extends more than {MOST} specs in a chain"
            raise _refused(faults, node, what, "shorten the chain")
        seen.append(real)
        other, more = read(base, shown(base))
        faults.extend(more)
        top = joined(top, other)
    return top, faults


def _base(root: Path, name: str, node: YamlScalar, faults: list[Fault]) -> Path:
    try:
        base = file_in_root(root, name, "name a .yaml file")
    except PathRefused as refused:
        raise _refused(faults, node, f"{KEY}: {refused.what}", refused.fix) from None
    if base.suffix not in (".yaml", ".yml"):
        raise _refused(faults, node, f"{KEY}: {shown(base)!r} is not a spec", "name a .yaml file")
    return base


def _refused(faults: list[Fault], node: YamlScalar, what: str, fix: str) -> SpecError:
    return SpecError(sorted({*faults, Fault(node.span, what, fix)}))


def joined(own: YamlMap, other: YamlMap) -> YamlMap:
    """The two trees as one: keys of the first replace those of the second.

    The inherited keys come first, then those of the first tree."""
    entries = {key: entry for key, entry in own.entries.items() if key != KEY}
    replaced = {*_OWN, *entries, *(other for key in entries for other in _EITHER.get(key, ()))}
    left = {key: entry for key, entry in other.entries.items() if key not in replaced}
    if KEY in other.entries:
        left[KEY] = other.entries[KEY]
    return YamlMap(own.span, {**left, **entries})
