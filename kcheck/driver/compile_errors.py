"""Explains a compiler's error in one sentence, with the user's line and, if one is known, a fix."""

from __future__ import annotations

import ast
import functools
import linecache
import os
import re
import traceback
from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

from kcheck.dataclass import dataclass
from kcheck.model import Span
from kcheck.span import as_typed, is_users

_ERRORS = frozenset({"NumbaError", "NvvmError", "LinkerError", "NVRTCError", "nvJitLinkError", "NVVMError"})
_MISSING = re.compile(
    r"No implementation of function Function\([^)]*\)?.*?\) found for signature:\s*>>> (\w+)\((.*)\)"
)
_METHOD = re.compile(r"No definition for lowering array\.(\w+)\(")
_ATTRIBUTE = re.compile(r"Unknown attribute '(\w+)' of type (bool|u?int\d+|float\d+|Literal\[int\]\(\d+\))\b")
_CONTAINER = re.compile(r"Unknown attribute '(\w+)' of type (?:reflected )?(list|set|dict)\b")
_RETURNED = re.compile(r"No conversion from .+ to \w+ for '\$\w*return_value")
_OF_ARRAYS = frozenset({"shape", "size", "ndim", "strides", "dtype", "T", "flat", "itemsize", "nbytes"})
_INDEXING = frozenset({"getitem", "setitem", "static_getitem", "static_setitem"})
_ON_SCALARS = frozenset({"bool", "range", "int", "float", "abs", "min", "max"})
_FIXES = {
    **dict.fromkeys(
        ("sort", "sorted", "argsort", "partition", "unique"),
        "write the sort as a loop, or sort before the launch",
    ),
    **dict.fromkeys(
        ("zeros", "ones", "empty", "full", "zeros_like", "empty_like", "array"),
        "allocate with cuda.local.array or cuda.shared.array, or pass the array in",
    ),
}
_IN_MATH = frozenset(
    {"ceil", "copysign", "exp", "expm1", "fabs", "floor", "fmod", "frexp", "isfinite", "isinf"}
) | {*("ldexp", "log1p", "modf", "nextafter", "pow", "remainder", "sqrt", "trunc")}
_FIX = "write it as a loop over the elements, or compute it before the launch"


@dataclass(frozen=True, slots=True)
class CompileError:
    """Why code does not compile: a sentence, the fix (empty if none is known), and the user's line.

    Attributes:
        of_code: the code is the reason, not what is installed.
    """

    what: str
    fix: str
    place: Span | None
    of_code: bool = True

    @property
    def message(self) -> str:
        return f"does not compile: {self.what}" if self.of_code else self.what


class RefusedBefore(Exception):
    """A compiler has already rejected the kernel for the same types, for the reason ``why``."""

    def __init__(self, why: CompileError) -> None:
        super().__init__(why.message)
        self.why = why


def refuse_once(kind: Any) -> None:
    """Patch a dispatcher class so that a kernel that the compiler rejects is compiled only once for each
    signature. Later calls of ``compile`` raise RefusedBefore; Numba would run its passes at every launch."""
    plain = kind.compile
    refused: WeakKeyDictionary[Any, dict[Any, CompileError]] = WeakKeyDictionary()

    @functools.wraps(plain)
    def compile_once(dispatcher: Any, signature: Any) -> Any:
        why = refused.get(dispatcher, {}).get(signature)
        if why is not None:
            raise RefusedBefore(why)
        try:
            return plain(dispatcher, signature)
        except Exception as error:
            if is_compiler_error(error):
                refused.setdefault(dispatcher, {})[signature] = explain(error)
            raise

    kind.compile = compile_once


def is_compiler_error(error: BaseException) -> bool:
    """Whether Numba, NVVM, nvJitLink or NVRTC rejected the kernel's code."""
    if isinstance(error, RefusedBefore) or _unknown_ufunc(error):
        return True
    return bool({kind.__name__ for kind in type(error).__mro__} & _ERRORS)


def _unknown_ufunc(error: BaseException) -> str:
    """The NumPy function that Numba typed but cannot lower, because its table for CUDA lacks it, such as np.sqrt
    and np.exp (numba-cuda 0.30); else empty."""
    is_key = isinstance(error, KeyError) and len(error.args) == 1
    return error.args[0].__name__ if is_key and type(error.args[0]).__name__ == "ufunc" else ""


def explain(error: BaseException) -> CompileError:
    """A compiler's error as a sentence, with its fix and place."""
    if isinstance(error, RefusedBefore):
        return error.why
    place = compiler_place(error)
    line = _Line(place)
    text = re.sub(r"\x1b\[[0-9;]*m| at 0x[0-9a-f]+", "", str(error))
    if isinstance(error, AttributeError) and "module 'numpy' has no attribute" in text:
        what = f"numba-cuda does not work with this version of NumPy: {text}"
        return CompileError(what, "pip install 'numpy<2.5'", None, of_code=False)
    if ufunc := _unknown_ufunc(error):
        fix = f"write math.{ufunc}" if ufunc in _IN_MATH else "write it with operators, if, or functions of math"
        called = line.call(ufunc) or f"np.{ufunc}"
        return CompileError(f"{called} is not supported in CUDA kernels", fix, place)
    if attribute := _ATTRIBUTE.search(text):
        if attribute[1] in _OF_ARRAYS:
            return _not_an_array(line.owner(attribute[1]), attribute[2], place)
    elif container := _CONTAINER.search(text):
        return _container(line.owner(container[1]), container[2], place)
    elif _RETURNED.search(text):
        return CompileError("the kernel returns a value", "write the result to an array argument", place)
    elif method := _METHOD.search(text):
        return _unsupported(line.call(method[1]), method[1], "", place)
    elif missing := _MISSING.search(text):
        name, types = missing[1], _types(missing[2])
        first = types.partition(",")[0]
        if name in _INDEXING and "[" not in first and "(" not in first:
            return _not_an_array(_indexed(error) or line.only_indexed(), first, place)
        if name in _ON_SCALARS and "[" in types:
            return _not_a_scalar(line.bare(), types, place)
        call = line.call(name)
        if call.endswith(("shared.array", "local.array")) and not missing[2].startswith("Literal"):
            return _shape_varies(call, place)
        if call:
            return _unsupported(call, name, types, place)
    return CompileError(compiler_message(error), "", place)


def _unsupported(call: str, name: str, types: str, place: Span | None) -> CompileError:
    return CompileError(
        f"{call or name}({types}) is not supported in CUDA kernels",
        _FIXES.get(name, _FIX),
        place,
    )


def _container(name: str, kind: str, place: Span | None) -> CompileError:
    what = f"{name} is a {kind}, which is" if name else f"a {kind} is"
    return CompileError(
        f"{what} not supported in CUDA kernels",
        "use cuda.local.array(SIZE, dtype), or an array argument",
        place,
    )


def _shape_varies(call: str, place: Span | None) -> CompileError:
    return CompileError(
        f"the shape of {call} is not a constant",
        "compute the size outside the kernel, as in SIZE = BLOCK + 2 at module level, and write the name",
        place,
    )


def _not_an_array(name: str, kind: str, place: Span | None) -> CompileError:
    kind = "int64" if kind.startswith("Literal") else kind
    return CompileError(
        f"{name or 'a value'} is used as an array, but it is a scalar ({kind})",
        f"pass an array for {name}, or use {name} without an index" if name else "pass an array",
        place,
    )


def _not_a_scalar(name: str, types: str, place: Span | None) -> CompileError:
    return CompileError(
        f"{name or 'an array'} is used as a scalar, but it is an array" + (f" ({types})" if not name else ""),
        f"index it, as in {name or 'x'}[i], or pass a scalar",
        place,
    )


def _types(text: str) -> str:
    """Numba's types as signatures write them: ``array(float32, 1d, C), Literal[int](3)`` is ``float32[:],
    int64``."""

    def array(match: re.Match[str]) -> str:
        return f"{match[1]}[{', '.join(':' * int(match[2]))}]"

    text = re.sub(r"array\((\w+), (\d+)d, \w\)", array, text)
    text = re.sub(r"class\((\w+)\)", r"\1", text)
    return re.sub(r"Literal\[(\w+)\]\([^)]*\)", lambda match: "int64" if match[1] == "int" else match[1], text)


class _Line:
    """The user's source line at a place."""

    def __init__(self, place: Span | None) -> None:
        self._nodes: list[ast.AST] = []
        self._parameters: set[str] = set()
        text = "".join(linecache.getlines(place.file)) if place is not None else ""
        try:
            tree = ast.parse(text)
        except SyntaxError:
            return
        assert place is not None or not text
        for node in ast.walk(tree):
            if place is not None and getattr(node, "lineno", 0) <= place.line <= getattr(node, "end_lineno", 0):
                if isinstance(node, ast.FunctionDef):
                    self._parameters = {a.arg for a in (*node.args.posonlyargs, *node.args.args)}
                elif node.lineno == place.line:  # type: ignore[attr-defined]
                    self._nodes.append(node)

    def call(self, name: str) -> str:
        """The call of that name as it is written, such as ``np.sort``; empty if there is none."""
        for node in self._nodes:
            if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) == name:
                return ast.unparse(node.func)
        return ""

    def owner(self, attribute: str) -> str:
        """The variable whose attribute is read; empty if there is none."""
        found = (n.value for n in self._nodes if isinstance(n, ast.Attribute) and n.attr == attribute)
        return next((value.id for value in found if isinstance(value, ast.Name)), "")

    def only_indexed(self) -> str:
        """The only variable that is indexed; empty if there is not exactly one."""
        found = {n.value.id for n in self._nodes if isinstance(n, ast.Subscript) and isinstance(n.value, ast.Name)}
        return found.pop() if len(found) == 1 else ""

    def bare(self) -> str:
        """The only parameter that is used without an index or an attribute; empty if there is not exactly one."""
        owners = {id(n.value) for n in self._nodes if isinstance(n, ast.Subscript | ast.Attribute)}
        names = {n.id for n in self._nodes if isinstance(n, ast.Name) and id(n) not in owners}
        found = names & self._parameters
        return found.pop() if len(found) == 1 else ""


def compiler_message(error: BaseException) -> str:
    """What a compiler's message says is wrong, on one line: without the overloads that Numba tried, without
    addresses, and without excerpts of the source, because the place is reported separately."""
    text = re.sub(r"\x1b\[[0-9;]*m| at 0x[0-9a-f]+", "", str(error))
    text = re.split(r"^\s*There (?:are|is) \d+ candidate", text, maxsplit=1, flags=re.MULTILINE)[0]
    text = re.sub(r"^\s*File \".*(?:\n.*\S.*)*", "", text, flags=re.MULTILINE)  # with the lines that follow it
    lines = [line.strip() for line in text.splitlines()]
    kept = [line for line in lines if line and not line.startswith(("During:", "Failed in"))]
    return f"{type(error).__name__}: {' '.join(kept[:4])[:400]}"


def compiler_place(error: BaseException) -> Span | None:
    """The last place in a user's file that the message names; if there is none, the last one that Numba processed.

    Type inference often drops the place from the message (numba-cuda 0.30); its frames still hold it, as ``loc``
    of the statement or constraint.
    """
    named = re.findall(r'File "([^"]+)", line (\d+)', str(error))
    places = [Span(as_typed(file), int(line)) for file, line in named if _is_source(file)]
    if places:
        return places[-1]
    found = None
    for part in _parts(error):
        loc = getattr(part, "loc", None)
        file, line = getattr(loc, "filename", None), getattr(loc, "line", None)
        if isinstance(file, str) and isinstance(line, int) and _is_source(file):
            found = Span(as_typed(file), line)
    return found


def _is_source(file: str) -> bool:
    """Whether a path is an existing file of the user, not the relative name of a file of Numba."""
    return is_users(os.path.abspath(file)) and os.path.exists(file)


def _parts(error: BaseException) -> Iterator[Any]:
    """The statements and constraints that Numba was working on, outermost first."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        for name in ("inst", "constraint"):
            if name in frame.f_locals:
                yield frame.f_locals[name]


def _indexed(error: BaseException) -> str:
    """The variable that the innermost constraint indexes."""
    name = ""
    for part in _parts(error):
        operands = [getattr(part, "value", None), *(getattr(part, "args", None) or ())]
        names = [getattr(operand, "name", "") for operand in operands]
        name = next((n for n in names if isinstance(n, str) and n and not n.startswith("$")), name)
    return name.partition(".")[0]
