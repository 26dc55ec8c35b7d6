"""The callables of a spec and how they are called: kernels, other functions,
the arguments and sizes of a launch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any, TypeAlias

from kcheck.dataclass import dataclass
from kcheck.span import Span


@dataclass(frozen=True, slots=True)
class Expression:
    """Source text of an expression and its place. An integer in the YAML is its decimal text."""

    text: str
    span: Span

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class FunctionRef:
    """A Python function by file and name: ``kernels/softmax.py:softmax``.

    Attributes:
        path: relative to the project root, with forward slashes.
        name: the function, defined at the top level of the file.
        given: the function itself, for a spec that is built in Python; None: it is loaded from the file.
    """

    path: str
    name: str
    span: Span
    given: Callable[..., Any] | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.path}:{self.name}"


@dataclass(frozen=True, slots=True)
class KernelRef(FunctionRef):
    """A kernel by file and name: ``kernels/softmax.cu:softmax<{T}, 4>``.

    Attributes:
        kind: the language that it is written in, as a name in ``kcheck.specfile.kinds.KINDS``.
        arguments: the template arguments of a C++ kernel, as written in the spec: ``{T}, 4``; otherwise empty.
    """

    kind: str = "numba"
    arguments: str = ""

    def __str__(self) -> str:
        return f"{self.path}:{self.name}" + (f"<{self.arguments}>" if self.arguments else "")


@dataclass(frozen=True, slots=True)
class CudaOptions:
    """``compile:`` of a kernel in CUDA C++ or HIP.

    Attributes:
        std: the language standard, such as ``c++17``.
        defines: macros by name. A value is an expression of dims and params, a type variable, or C++ text.
        include: folders, relative to the project root.
        options: other options of NVRTC.
    """

    std: str = "c++17"
    defines: Mapping[str, Expression] = field(default_factory=dict)
    include: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TritonOptions:
    """``compile:`` of a Triton kernel. Each name here is also that of a param or dim, which has the value.

    Attributes:
        constexprs: the constants that the spec sets.
        options: ``num_warps``, ``num_stages``, if the spec or the configurations set them.
        config: ``best`` if autotuning chooses the configuration; otherwise empty.
        config_keys: the constants that the configurations set.
        texts: the constants that are strings. The value of such a param is the index of a string.
    """

    constexprs: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    config: str = ""
    config_keys: tuple[str, ...] = ()
    texts: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def words(self, values: Mapping[str, Any]) -> dict[str, str]:
        """The constants of a case that are strings. ``values`` are the params by name."""
        return {name: texts[int(values[name])] for name, texts in self.texts if name in values}


CompileOptions: TypeAlias = CudaOptions | TritonOptions
"""``compile:``, for the kinds of kernels that have it."""


@dataclass(frozen=True, slots=True)
class NameArg:
    """A kernel argument: an input, output, param or dim by name.
    ``dtype`` is that of a dim, if the spec sets it."""

    name: str
    dtype: str | None
    span: Span


@dataclass(frozen=True, slots=True)
class StrideArg:
    """A kernel argument: the stride of an array along an axis, in elements.
    ``dtype``: None if the spec has none."""

    array: str
    axis: int
    span: Span
    dtype: str | None = None


@dataclass(frozen=True, slots=True)
class NumelArg:
    """A kernel argument: the number of elements of an array. ``dtype``: None if the spec has none."""

    array: str
    span: Span
    dtype: str | None = None


@dataclass(frozen=True, slots=True)
class TextureArg:
    """A kernel argument: the handle of a texture or surface object over a copy of an array.

    Attributes:
        is_surface: whether it is a surface. An output gets its values from the surface after the launch.
        in_array: whether the copy is in a CUDA array, not in linear memory.
        filter: ``point`` or ``linear``.
        address: ``clamp``, ``border``, ``wrap`` or ``mirror`` for each axis, x first.
        normalized: whether coordinates are from 0 to 1.
        as_float: whether integers of 8 or 16 bits are read as floats from 0 or -1 to 1.
        layered: whether the first axis of the array counts layers.
        channels: 2 or 4 if the last axis of the array contains the channels of a texel; otherwise 1.
        dtype: the dtype of the handle.
    """

    array: str
    span: Span
    is_surface: bool = False
    in_array: bool = True
    filter: str = "point"
    address: tuple[str, str, str] = ("clamp", "clamp", "clamp")
    normalized: bool = False
    as_float: bool = False
    layered: bool = False
    channels: int = 1
    dtype: str | None = "uint64"


@dataclass(frozen=True, slots=True)
class NumberArg:
    """A kernel argument that the spec writes as a number, or as null.

    Attributes:
        value: None: a null pointer, or Triton's None.
        dtype: None if the spec has none: the number is then of its parameter's type.
    """

    value: int | float | bool | None
    span: Span
    dtype: str | None = None


@dataclass(frozen=True, slots=True)
class StructArg:
    """A kernel argument: a struct by value.

    Attributes:
        fields: its members by name, in order; for a list, the elements of an array, by index.
        is_list: whether it is an array inside a struct.
    """

    fields: tuple[tuple[str, Argument], ...]
    span: Span
    is_list: bool = False
    dtype: str | None = None


@dataclass(frozen=True, slots=True)
class AccessorArg:
    """A kernel argument: a packed accessor of PyTorch, which has the pointer, sizes and strides of an array."""

    array: str
    span: Span
    dtype: str | None = None


Argument: TypeAlias = NameArg | StrideArg | NumelArg | TextureArg | NumberArg | StructArg | AccessorArg


def leaves(arguments: Iterable[Argument]) -> Iterator[Argument]:
    """The arguments, and for a struct those inside it instead."""
    for argument in arguments:
        if isinstance(argument, StructArg):
            yield from leaves(part for _, part in argument.fields)
        else:
            yield argument


DEFAULT_INTEGER = "int64"
"""The dtype of a dim, a stride or a number of elements,
unless the spec or the compiled kernel sets a different one."""


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """How the kernel is launched: its arguments in order, 1 to 3 expressions for grid and for block."""

    args: tuple[Argument, ...]
    grid: tuple[Expression, ...]
    block: tuple[Expression, ...]
    shared: Expression | None
    cooperative: bool
    span: Span
