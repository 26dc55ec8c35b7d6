"""Makes numba-cuda compile a kernel in less time, to the same LLVM IR.

* ``core.targetconfig.TargetConfig``: options are compared without listing all of them.
* ``core.base.BaseContext``: the size and the alignment of a type are computed once. For each question about a
  type, llvmlite writes a module, and LLVM parses it.
* ``debuginfo.DIBuilder``: the location of a line is made once in each function. llvmlite finds an equal one by the
  hash of all that it refers to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def patch_options(targetconfig: Any) -> None:
    """Change ``numba.cuda.core.targetconfig``: compare the options of a compilation without listing all of them.

    Numba looks up every operation by its types and these options, and lists some twenty options for each lookup.
    """
    config = targetconfig.TargetConfig
    plain = config.__eq__
    hashes: dict[Any, int] = {}

    def equal(self: Any, other: Any) -> Any:
        if type(self) is not type(other):
            return plain(self, other)
        ours, others = self._values, other._values
        if ours == others:
            return True
        options = self.options  # one may contain a default that the other omits
        for name in ours.keys() | others.keys():
            default = options[name].default
            if ours.get(name, default) != others.get(name, default):
                return False
        return True

    def of_class(self: Any) -> int:
        kind = type(self)
        if kind not in hashes:
            hashes[kind] = hash(tuple(sorted(kind.options)))  # like Numba's own hash, which uses only the names
        return hashes[kind]

    config.__eq__ = equal
    config.__hash__ = of_class


def patch_sizes(base: Any) -> None:
    """Change ``numba.cuda.core.base.BaseContext``: compute the size and the alignment of a type once."""
    context = base.BaseContext
    context.get_abi_sizeof = _once(context.get_abi_sizeof)
    context.get_abi_alignment = _once(context.get_abi_alignment)


def _once(plain: Callable[[Any, Any], int]) -> Callable[[Any, Any], int]:
    """A method of a context that asks LLVM about a type, which keeps its answers in the context."""
    name = f"_kcheck_{plain.__name__}"

    def of_type(self: Any, ty: Any) -> int:
        text = str(ty)
        if "%" in text:  # a type with a name, which may get its body later
            return plain(self, ty)
        known: dict[str, int] = self.__dict__.setdefault(name, {})
        if text not in known:
            known[text] = plain(self, ty)
        return known[text]

    return of_type


def patch_locations(debuginfo: Any) -> None:
    """Change ``numba.cuda.debuginfo.DIBuilder``: make the location of a line once in each function."""
    plain = debuginfo.DIBuilder._di_location

    def location(self: Any, line: int) -> Any:
        known = self.__dict__.setdefault("_kcheck_locations", {})
        scope = self.subprograms[-1]
        if (line, id(scope)) not in known:
            known[line, id(scope)] = plain(self, line)
        return known[line, id(scope)]

    debuginfo.DIBuilder._di_location = location
