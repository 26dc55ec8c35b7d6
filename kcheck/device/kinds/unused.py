"""Removes the variables of NVIDIA's headers that no code uses.

A file that includes CUB has up to 2,000 of them, such as ``std::numeric_limits<long>::digits10``: more text than
the kernel itself, which would be parsed, placed in memory and stored with each kernel. Only the headers' own code
can name them.
"""

from __future__ import annotations

import re
from collections import Counter

_NAME = re.compile(r"[\w$]+")
_OF_HEADERS = r"_ZN(?:\d+_INTERNAL_\w*?)?(?:4cuda|3cub|6thrust)\d\w*"
_DECLARED = re.compile(rf"^\.(?:global|const) [^=\[;\n]*?(?P<name>{_OF_HEADERS})[^;\n]*;$", re.MULTILINE)


def without_unused(ptx: str) -> str:
    """PTX without the variables in the namespaces ``cuda``, ``cub`` and ``thrust`` that have internal linkage and
    that nothing refers to. Line breaks stay, so what follows keeps its line.
    """
    if _DECLARED.search(ptx) is None:
        return ptx
    uses = Counter(_NAME.findall(ptx))
    return _DECLARED.sub(lambda found: found[0] if uses[found["name"]] > 1 else "", ptx)
