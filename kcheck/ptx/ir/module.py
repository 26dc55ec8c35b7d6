"""A module of LLVM IR: its parts by name, its text, and its division in two."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from kcheck.dataclass import dataclass
from kcheck.ptx.ir.signature import Definition


@dataclass(frozen=True, slots=True)
class LlvmModule:
    """What a module declares and defines, by name with @.

    Attributes:
        declarations: of functions that other modules define, as text.
        definitions: its functions.
        tables: its constants, as text.
        metadata: the lines that its instructions refer to, as text.
    """

    declarations: Mapping[str, str] = field(default_factory=dict)
    definitions: Mapping[str, Definition] = field(default_factory=dict)
    tables: Mapping[str, str] = field(default_factory=dict)
    metadata: str = ""

    @property
    def text(self) -> str:
        """LLVM IR."""
        functions = (definition.text for definition in self.definitions.values())
        return "\n".join([*self.declarations.values(), *functions, *self.tables.values(), self.metadata])

    def divided(self) -> tuple[LlvmModule, LlvmModule]:
        """The module without some of its functions, which it then declares, and a module with these.

        The second module has the functions that are never inlined and that refer, directly or not, to nothing that
        is only in the first one. Functions that are always inlined may be in both. The functions that check
        accesses, a third of the code of a kernel, are in the second: they are the same after an edit of the
        kernel, so its machine code is in the cache.

        Returns:
            Two modules; the second one is empty if no function can be moved.
        """
        free = self._self_contained()
        moved = {name: d for name, d in free.items() if d.inlining == "noinline"}
        if not moved:
            return self, LlvmModule()
        stay = {name: d for name, d in self.definitions.items() if name not in moved}
        declared = {name: d.declaration for name, d in moved.items()}
        needed = _reached(moved, free)
        inlined = {name: d for name, d in free.items() if name in needed and name not in moved}
        exported = {name: replace(d, exported=True) for name, d in moved.items()}
        return (
            replace(self, declarations={**self.declarations, **declared}, definitions=stay),
            replace(self, definitions={**exported, **inlined}, tables={}),
        )

    def _self_contained(self) -> dict[str, Definition]:
        """The functions that may be in another module: they refer only to such functions and to declared ones."""
        free = {name: d for name, d in self.definitions.items() if d.inlining}
        while unfit := [n for n, d in free.items() if not d.references <= self.declarations.keys() | free.keys()]:
            for name in unfit:
                del free[name]
        return free


def _reached(starts: Mapping[str, Definition], among: Mapping[str, Definition]) -> set[str]:
    """The names of those functions of ``among`` to which ``starts`` refer, directly or not."""
    found: set[str] = set()
    pending = list(starts)
    while pending:
        new = (among[pending.pop()].references & among.keys()) - found
        found |= new
        pending += new
    return found
