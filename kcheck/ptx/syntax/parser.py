"""PTX text to a syntax tree.

Source: PTX ISA, "PTX Module Directives" and the chapters that the other modules of this package name. It accepts
everything that NVVM and nvJitLink emit. Variables of opaque types (.texref, .samplerref, .surfref) are rejected:
textures and surfaces must be objects, whose handles are 64-bit integers.
"""

from __future__ import annotations

import re

from kcheck.ptx.syntax.ast import Function, Module, Variable
from kcheck.ptx.syntax.body import Body, read_loc, skip_line
from kcheck.ptx.syntax.cursor import Cursor
from kcheck.ptx.syntax.declarations import SPACES, linkage, parameters, variables
from kcheck.ptx.syntax.dwarf import local_variables
from kcheck.ptx.syntax.lexer import describe, unescape
from kcheck.ptx.syntax.symbols import REPLICATES

_PERFORMANCE = frozenset(
    {
        ".maxntid",
        ".reqntid",
        ".minnctapersm",
        ".maxnctapersm",
        ".maxnreg",
        ".reqnctapercluster",
        ".maxclusterrank",
    }
)
_FLAGS = frozenset({".explicitcluster", ".noreturn", ".unified", ".abi_preserve", ".abi_preserve_control"})


def parse(text: str, file: str = "kernel.ptx") -> Module:
    """The syntax tree of ``text``, unverified; ``file`` is its name in messages.

    Several modules in one text (as numba-cuda concatenates them) are one module; each may repeat the header.

    Raises:
        PtxError: not PTX, or a directive that is not supported; starts with ``file:line:``.
    """
    return _ModuleParser(Cursor(_INLINE_ASM.sub(_without_locs, text), file), REPLICATES in text).read()


# In inline assembly, LLVM counts up from the statement's line, so that a .loc names an unrelated source line.
_INLINE_ASM = re.compile(r"// begin inline asm\n.*?// end inline asm", re.DOTALL)
_LOC = re.compile(r"^\s*\.loc\b.*$", re.MULTILINE)


def _without_locs(match: re.Match[str]) -> str:
    return _LOC.sub("", match[0])


class _ModuleParser:
    def __init__(self, cursor: Cursor, replicates: bool) -> None:
        self.cursor = cursor
        self.replicates = replicates
        self.version = ""
        self.target: tuple[str, ...] = ()
        self.address_size = 64
        self.files: dict[int, str] = {}
        self.variables: dict[str, Variable] = {}
        self.functions: dict[str, Function] = {}
        self.sections: dict[str, list[str]] = {}

    # module ::= (header | variable | function | section | file | loc | pragma | alias)*
    def read(self) -> Module:
        cursor = self.cursor
        while cursor.token.kind != "end":
            text = cursor.token.text
            if text == ".version":
                cursor.take()
                self.version = cursor.take().text
            elif text == ".target":
                self._target()
            elif text == ".address_size":
                self._address_size()
            elif text == ".file":
                self._file()
            elif text == ".section":
                self._section()
            elif text == ".loc":
                read_loc(cursor, {}, None)
            elif text == ".pragma":
                skip_line(cursor)
            elif cursor.token.kind == ";":
                cursor.take()
            else:
                self._linked()
        if not self.version:
            cursor.fail("no .version: this is not PTX", 1)
        return Module(
            cursor.file,
            self.version,
            self.target,
            self.address_size,
            self.files,
            self.variables,
            self.functions,
            self.replicates,
            local_variables(self.sections),
        )

    # target ::= ".target" name ("," name)*
    def _target(self) -> None:
        cursor = self.cursor
        cursor.take()
        found = [cursor.name("an architecture")]
        while cursor.accept(","):
            found.append(cursor.name("a target option"))
        self.target = tuple(found)

    def _address_size(self) -> None:
        cursor = self.cursor
        line = cursor.take().line
        self.address_size = cursor.integer("32 or 64")
        if self.address_size != 64:
            cursor.fail(".address_size 32 is not supported: 64 only", line)

    # file ::= ".file" int string ["," int "," int]
    def _file(self) -> None:
        cursor = self.cursor
        cursor.take()
        number = cursor.integer("the number of a file")
        self.files[number] = unescape(cursor.expect_kind("string", "the path of a file").text[1:-1])
        while cursor.accept(","):
            cursor.integer("a time or a size")

    # section ::= ".section" name "{" anything "}"
    def _section(self) -> None:
        cursor = self.cursor
        line = cursor.take().line
        name = cursor.token.text
        while cursor.token.kind not in ("{", "end"):
            cursor.take()
        depth = 0
        words: list[str] = []
        while True:
            token = cursor.take()
            if token.kind == "{":
                depth += 1
            elif token.kind == "}":
                depth -= 1
                if depth == 0:
                    self.sections[name] = words
                    return
            elif token.kind == "end":
                cursor.fail("this .section is never closed", line)
            else:
                words.append(token.text)

    # linked ::= linkage (variables | entry | func)
    def _linked(self) -> None:
        cursor = self.cursor
        linked = linkage(cursor)
        token = cursor.token
        if token.text in SPACES:
            for variable in variables(cursor, linked, lambda name, _line: name):
                self._declare(variable)
        elif token.text == ".entry":
            self._function(linked, is_entry=True)
        elif token.text == ".func":
            self._function(linked, is_entry=False)
        elif token.text == ".alias":
            cursor.fail(".alias is not supported")
        else:
            cursor.fail(f"expected a directive, found {describe(token)}")

    def _declare(self, variable: Variable) -> None:
        """Add a module variable. A definition replaces a declaration; of several weak ones, one is kept."""
        before = self.variables.get(variable.name)
        if variable.name in self.functions:
            self.cursor.fail(f"{variable.name} is already a function", variable.line)
        if before is not None:
            replaceable = ("extern", "weak", "common")
            if before.linkage not in replaceable and variable.linkage not in replaceable:
                self.cursor.fail(f"{variable.name} is declared twice", variable.line)
            if before.linkage != "extern" and variable.linkage in replaceable:
                return
        self.variables[variable.name] = variable

    # entry ::= ".entry" name [params] performance* (";" | body)
    # func  ::= ".func" [params] name [params] flag* (";" | body)
    def _function(self, linked: str, is_entry: bool) -> None:
        cursor = self.cursor
        line = cursor.take().line
        returns = parameters(cursor) if not is_entry and cursor.token.kind == "(" else ()
        name = cursor.name("the name of a function")
        params = parameters(cursor) if cursor.token.kind == "(" else ()
        performance: dict[str, tuple[int, ...]] = {}
        while cursor.token.kind == "dotted":
            directive = cursor.token.text
            if directive in _PERFORMANCE:
                cursor.take()
                values = [cursor.integer("a number")]
                while cursor.accept(","):
                    values.append(cursor.integer("a number"))
                performance[directive[1:]] = tuple(values)
            elif directive in _FLAGS:
                cursor.take()
            elif directive == ".pragma":
                skip_line(cursor)
            else:
                cursor.fail(f"directive {directive} is not supported before a body")
        head = Function(line, is_entry, name, linked, returns, params, None, performance=performance)
        names = [v.name for v in (*returns, *params) if v.name != "_"]
        if len(set(names)) != len(names):
            cursor.fail(f"{name} has two parameters with the same name", line)
        function = head if cursor.accept(";") else Body(cursor).read(head)
        self._define(function)

    def _define(self, function: Function) -> None:
        before = self.functions.get(function.name)
        if function.name in self.variables:
            self.cursor.fail(f"{function.name} is already a variable", function.line)
        if before is not None and before.body is not None:
            if function.body is None or function.linkage == "weak":
                return
            if before.linkage != "weak":
                self.cursor.fail(f"{function.name} is defined twice", function.line)
        self.functions[function.name] = function
