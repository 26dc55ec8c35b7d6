"""What a CUDA C++ file shows about a kernel besides its statements: constants, launches, template parameters."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from kcheck.dataclass import dataclass
from kcheck.draft.cpptext import CppReader, dtype_of, python_name
from kcheck.draft.names import constants, integer
from kcheck.specfile.kinds.cudafile import CudaKernel, closing

_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+(.+)$", re.MULTILINE)
_CONSTANT = re.compile(r"\b(?:constexpr|const|static|int|unsigned|auto|size_t)\s+(\w+)\s*=\s*([\w\s+*/()-]+?)\s*;")
_DIM3 = re.compile(r"\bdim3\s+(\w+)\s*[({]([^;{}]*)[)}]\s*;")
_TEMPLATE = re.compile(r"template\s*<([^{};]*)>\s*(?:[\w\s]*)$")
_VECTORS = re.compile(r"\b(float|double|int|uint|half|__half|__nv_bfloat16|nv_bfloat16)([24])\b")
_VECTOR_TYPES = {"uint": "unsigned"}


@dataclass(frozen=True, slots=True)
class DraftedParameter:
    """A parameter of a kernel. The dtype is empty for the type of a template; ``width``: of a vector type."""

    name: str
    dtype: str
    is_pointer: bool
    width: int = 1


@dataclass(frozen=True, slots=True)
class CppKernel:
    """A kernel as the syntax tree of a function in Python.

    Attributes:
        tree: the constants of the file and its launches of the kernel, as in a file of numba.cuda.
        template: what a spec writes behind the kernel's name, such as ``<{T}, 4>``.
        guesses: one sentence each.
    """

    function: ast.FunctionDef
    tree: ast.Module
    parameters: tuple[DraftedParameter, ...]
    template: str
    guesses: tuple[str, ...]


def read_kernel(text: str, kernel: CudaKernel) -> CppKernel | None:
    """Read a kernel in the text of a file without comments; None without its body."""
    start = _start(text, kernel)
    begin = text.find("{", start)
    if begin < 0 or ";" in text[start:begin]:
        return None
    end = closing(text, begin, "{", "}")
    types, numbers = _template(text[: text.rfind("__global__", 0, start)])
    parameters = tuple(_parameter(each) for each in kernel.parameters)
    pointers = [each.name for each in parameters if each.is_pointer]
    reader = CppReader(text[begin + 1 : end], pointers, frozenset(types))
    body = reader.statements(text.count("\n", 0, begin) + 1)
    arguments = [ast.arg(each.name) for each in parameters]
    function = ast.FunctionDef(
        name=kernel.name,
        args=ast.arguments([], arguments, None, [], [], None, []),
        body=body or [ast.Pass()],
        decorator_list=[],
        lineno=kernel.line,
        col_offset=0,
    )
    tree = ast.Module([*_constants(text), *_launches(text, kernel.name)], [])
    words, guesses = [], []
    launched = _launched_template(text, kernel.name)
    for place, (name, default) in enumerate(numbers):
        if name in types:
            words.append("{T}")
            continue
        value = launched[place] if place < len(launched) else default
        number = integer(_expression(value), constants(tree)) if value else None
        if number is None:
            number = 32
            guesses.append(f"the value of the template's parameter {name} is a guess")
        words.append(str(number))
        tree.body.insert(0, ast.parse(f"{name} = {number}").body[0])
    for each in parameters:
        if each.width > 1:
            guesses.append(f"{each.name} points to vectors: its last axis has {each.width} elements for each")
    template = f"<{', '.join(words)}>" if words else ""
    return CppKernel(
        ast.fix_missing_locations(function), ast.fix_missing_locations(tree), parameters, template, tuple(guesses)
    )


def _start(text: str, kernel: CudaKernel) -> int:
    """Where the kernel's parameters end."""
    place = 0
    for _ in range(kernel.line - 1):
        place = text.index("\n", place) + 1
    opened = text.index("(", text.index(kernel.name, place))
    return closing(text, opened)


def _template(before: str) -> tuple[list[str], list[tuple[str, str]]]:
    """The names of a template's types, and all its parameters with their defaults."""
    found = _TEMPLATE.search(before.rstrip().removesuffix('extern "C"'))
    types: list[str] = []
    parameters: list[tuple[str, str]] = []
    for part in found[1].split(",") if found else ():
        head, _, default = part.partition("=")
        words = head.split()
        if not words:
            continue
        if words[0] in ("typename", "class"):
            types.append(words[-1])
        parameters.append((words[-1], default.strip()))
    return types, parameters


def _parameter(text: str) -> DraftedParameter:
    text = text.partition("=")[0]
    name = (re.findall(r"[A-Za-z_]\w*", text.partition("[")[0]) or ["_"])[-1]
    vector = _VECTORS.search(text)
    if vector is not None:
        scalar = _VECTOR_TYPES.get(vector[1], vector[1])
        text = text.replace(vector[0], scalar, 1)
    dtype, rank = dtype_of(text)
    return DraftedParameter(python_name(name), dtype, rank > 0, int(vector[2][-1]) if vector is not None else 1)


def _expression(text: str) -> ast.expr:
    """The expression of a text; one that is not read is a name."""
    (statement, *_) = CppReader(f"{text};", ()).statements(1) or [ast.Expr(ast.Name("_", ast.Load()))]
    return statement.value if isinstance(statement, ast.Expr) else ast.Name("_", ast.Load())


def _constants(text: str) -> Iterator[ast.stmt]:
    """Integer constants and variables of a file, by name, and the blocks that ``dim3`` gives."""
    seen: set[str] = set()
    for found in sorted([*_DEFINE.finditer(text), *_CONSTANT.finditer(text)], key=lambda each: each.start()):
        if found[1] not in seen:
            seen.add(found[1])
            yield ast.Assign([ast.Name(found[1], ast.Store())], _expression(found[2]))
    for found in _DIM3.finditer(text):
        yield ast.Assign([ast.Name(found[1], ast.Store())], ast.Tuple(_all(found[2]), ast.Load()))


def _all(text: str) -> list[ast.expr]:
    return [_expression(part) for part in _parts(text)]


def _parts(text: str) -> list[str]:
    """The parts between commas, except those in parentheses."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def _launches(text: str, kernel: str) -> Iterator[ast.stmt]:
    """``kernel<<<grid, block>>>(x, n)`` as ``kernel[grid, block](x, n)``."""
    for found in re.finditer(rf"\b{kernel}\s*(?:<[^;(){{}}<>]*>)?\s*<<<(.*?)>>>\s*\(", text, re.DOTALL):
        shape = [_block(each) for each in _all(found[1])]
        passed = _all(text[found.end() : closing(text, found.end() - 1)])
        launch = ast.Subscript(ast.Name(kernel, ast.Load()), ast.Tuple(shape, ast.Load()), ast.Load())
        yield ast.Expr(ast.Call(launch, passed, []))


def _block(node: ast.expr) -> ast.expr:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dim3":
        return ast.Tuple(node.args, ast.Load())
    return node


def _launched_template(text: str, kernel: str) -> Sequence[str]:
    found = re.search(rf"\b{kernel}\s*<([^;(){{}}<>]*)>\s*<<<", text)
    return [part.strip() for part in found[1].split(",")] if found else ()
