"""Adds barriers to PTX whose compiler replicates values in the lanes of a warp, as Triton does.

A tensor with fewer elements than a program has threads is loaded by all threads, several for each element, and is
stored by one of them. If it is changed in place, the other lanes must have loaded it before: the compiler relies
on warps that do not diverge. In PTX, only ``bar.warp.sync`` guarantees that.
"""

from __future__ import annotations

import re

_WARP = "bar.warp.sync 0xffffffff;"
_LOAD = re.compile(r"\s*(?:@(!?%p\d+)\s+)?ld\.global")
_STORE = re.compile(r"\s*@(!?%p\d+)\s+(?:st|atom|red)\.global")
_LABEL = re.compile(r"\s*[\w$]+:")
_SYNC = re.compile(r"\s*(?:bar\.sync|barrier\.sync|bar\.warp\.sync)")


def in_lockstep(text: str) -> str:
    """PTX in which the lanes of a warp synchronize after global loads, before some of them store.

    No line is added. A store by exactly the lanes that load does not change.
    """
    lines = text.split("\n")
    is_loaded, loaders = False, set()
    for number, line in enumerate(lines):
        if (load := _LOAD.match(line)) is not None:
            is_loaded = True
            loaders.add(load[1])
        elif _LABEL.match(line):
            is_loaded = bool(loaders)  # the label may be reached from the end of a loop
        elif _SYNC.match(line):
            is_loaded = False
        elif is_loaded and (store := _STORE.match(line)) is not None and store[1] not in loaders:
            lines[number] = f"{_WARP} {line.lstrip()}"
            is_loaded = False
    return "\n".join(lines)
