"""Functions of a module: signatures, which callers need, and definitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from kcheck.dataclass import dataclass

Inlining: TypeAlias = Literal["", "noinline", "alwaysinline"]
"""LLVM's attribute for a function that is never, or always, inlined; empty: LLVM decides."""


@dataclass(frozen=True, slots=True)
class Signature:
    """A function of a module: its name with @, the type that it returns, and its parameters by name."""

    name: str
    result: str
    parameters: Mapping[str, str]

    @property
    def head(self) -> str:
        """``i32 @kcheck.total(ptr %items, i32 %count)``."""
        parameters = ", ".join(f"{kind} %{name}" for name, kind in self.parameters.items())
        return f"{self.result} {self.name}({parameters})"

    @property
    def declaration(self) -> str:
        """The declaration, for a module that calls the function but does not define it."""
        return f"declare {self.result} {self.name}({', '.join(self.parameters.values())})"


@dataclass(frozen=True, slots=True)
class Definition:
    """A function with its body.

    Attributes:
        lines: the text of its body.
        references: names with @ of the functions and tables that it refers to.
        inlining: see :data:`Inlining`; ``attributes``: LLVM's other ones, as text.
        exported: other modules may call it.
    """

    signature: Signature
    lines: tuple[str, ...]
    references: frozenset[str]
    inlining: Inlining = ""
    attributes: str = ""
    exported: bool = False

    @property
    def name(self) -> str:
        """The function's name, with @."""
        return self.signature.name

    @property
    def declaration(self) -> str:
        """The declaration with attributes, for a module that calls the function but does not define it."""
        return f"{self.signature.declaration} {self._all_attributes}"

    @property
    def text(self) -> str:
        """LLVM IR."""
        linkage = "" if self.exported else "internal "
        head = f"define {linkage}{self.signature.head} {self._all_attributes} {{"
        return "\n".join([head, *self.lines, "}"])

    @property
    def _all_attributes(self) -> str:
        return " ".join(filter(None, (self.inlining, self.attributes)))
