"""What a spec calls and how: kernels of every kind, other functions, the arguments and sizes of a launch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
        kind: what it is written in, a name in ``kcheck.specfile.kinds.KINDS``.
        arguments: of an instance of a C++ template, as the spec has them: ``{T}, 4``; else empty.
    """

    kind: str = "numba"
    arguments: str = ""

    def __str__(self) -> str:
        return f"{self.path}:{self.name}" + (f"<{self.arguments}>" if self.arguments else "")


@dataclass(frozen=True, slots=True)
class CudaOptions:
    """``compile:`` of a kernel in CUDA C++ or HIP.

    Attributes:
        std: of the language, such as ``c++17``.
        defines: macros by name. A text is an expression of dims and params, a type variable, or C++ text.
        include: folders, relative to the project root.
        options: of NVRTC.
    """

    std: str = "c++17"
    defines: Mapping[str, Expression] = field(default_factory=dict)
    include: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TritonOptions:
    """``compile:`` of a Triton kernel. Each name here is that of a param or dim, which has its value.

    Attributes:
        constexprs: the constants that the spec sets.
        options: ``num_warps``, ``num_stages``, if the spec or the configurations set them.
        config: ``best`` if autotuning chooses the configuration; otherwise empty.
        config_keys: the constants that the configurations set.
        texts: the constants that are strings. The value of such a param is the number of a string.
    """

    constexprs: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    config: str = ""
    config_keys: tuple[str, ...] = ()
    texts: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def words(self, values: Mapping[str, Any]) -> dict[str, str]:
        """The strings among the constants of a case. ``values``: params by name."""
        return {name: texts[int(values[name])] for name, texts in self.texts if name in values}


CompileOptions: TypeAlias = CudaOptions | TritonOptions
"""``compile:``, in the form that the kind of kernel has."""


@dataclass(frozen=True, slots=True)
class NameArg:
    """A kernel argument: an input, output, param or dim by name. ``dtype``: of a dim, if the spec writes one."""

    name: str
    dtype: str | None
    span: Span


@dataclass(frozen=True, slots=True)
class StrideArg:
    """A kernel argument: the stride of an array along an axis, in elements. ``dtype``: if the spec writes one."""

    array: str
    axis: int
    span: Span
    dtype: str | None = None


@dataclass(frozen=True, slots=True)
class NumelArg:
    """A kernel argument: how many elements an array has. ``dtype``: if the spec writes one."""

    array: str
    span: Span
    dtype: str | None = None


@dataclass(frozen=True, slots=True)
class TextureArg:
    """A kernel argument: the handle of a texture or surface object over a copy of an array.

    Attributes:
        is_surface: it is a surface, from which an output gets its values after the launch.
        in_array: the copy is in a CUDA array, not in linear memory.
        filter: ``point`` or ``linear``.
        address: ``clamp``, ``border``, ``wrap`` or ``mirror`` for each axis, x first.
        normalized: coordinates are from 0 to 1.
        as_float: integers of 8 or 16 bits are read as floats from 0 or -1 to 1.
        layered: the first axis of the array counts layers.
        channels: 2 or 4 if the last axis of the array has a texel's channels; else 1.
        dtype: of the handle.
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


Argument: TypeAlias = NameArg | StrideArg | NumelArg | TextureArg
DEFAULT_INTEGER = "int64"
"""The dtype of a dim, a stride or a number of elements, unless the spec or the compiled kernel says another."""


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """How the kernel is launched: its arguments in order, 1 to 3 expressions for grid and for block."""

    args: tuple[Argument, ...]
    grid: tuple[Expression, ...]
    block: tuple[Expression, ...]
    shared: Expression | None
    cooperative: bool
    span: Span
